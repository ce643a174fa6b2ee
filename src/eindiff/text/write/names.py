"""Names of variables as mathematics has them: `alpha` is a letter, and `x1` and `x_max` are x with an index."""

from __future__ import annotations

import re

from eindiff.text.read.conventions import GREEK

GREEK_SIGNS = GREEK | {"epsilon": "ϵ", "phi": "ϕ", "pi": "π", "Pi": "Π", "Upsilon": "Υ"}


def split_name(text: str) -> tuple[str, str]:
    """A name without its index, and the index: what follows an underscore, or the digits at the end.

    >>> split_name("x"), split_name("x12"), split_name("alpha_max")
    (('x', ''), ('x', '12'), ('alpha', 'max'))
    """
    stem, _, index = text.partition("_")
    if not index and (match := re.fullmatch(r"(\D+)(\d+)", stem)):
        return match[1], match[2]
    return stem, index

"""Names of variables as mathematics has them: `alpha` is a letter, and `x1` and `x_max` are x with an index."""

from __future__ import annotations

import re

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
GREEK = dict(zip(_GREEK.split(), "αβγδϵζηθικλμνξπρστυϕχψωΓΔΘΛΞΠΣΥΦΨΩ", strict=True))


def split_name(text: str) -> tuple[str, str]:
    """A name without its index, and the index: what follows an underscore, or the digits at the end.

    >>> split_name("x"), split_name("x12"), split_name("alpha_max")
    (('x', ''), ('x', '12'), ('alpha', 'max'))
    """
    stem, _, index = text.partition("_")
    if not index and (match := re.fullmatch(r"(\D+)(\d+)", stem)):
        return match[1], match[2]
    return stem, index

"""What a backend says: imports, how it spells operations, and its helper functions.

Operations are written in NumPy's words. What a function of the table is in another library, its row says. For all else
a backend has rules, each a pattern of these words and what the library writes instead; the first one that fits the
whole piece of source is taken, and then single names are exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from eindiff.core.errors import EindiffError
from eindiff.functions.table import SOURCES

Replacement = str | Callable[[re.Match], str]  # as `re.sub` takes it


@dataclass(frozen=True)
class Backend:
    """One array library."""

    name: str
    imports: Mapping[str, str]  # what is imported where a prefix is used
    types: str = "np."  # what stands before the name of a type
    created: str = ""  # what follows the shape of a new array: {dtype}
    placed: str = ""  # and then, where there is an input {like}
    copied: str = ""  # an array {0} that lies in memory of its own, where a result may not be part of an input
    rules: Sequence[tuple[str, Replacement]] = ()  # regular expressions for whole templates
    names: Mapping[str, str] = field(default_factory=dict)  # of functions, as words
    helpers: Mapping[str, str] = field(default_factory=dict)
    functional: bool = True  # arrays are not changed in place
    slices_backward: bool = True  # x[::-1] is allowed
    broadcasts: int = 64  # axes along which arrays are repeated to fit others, at most: beyond it `spread` does that

    def spell(self, template: str, dtype: str = "float64") -> str:
        """A piece of source in the words of the library; `DTYPE` in it is the type of all numbers.

        >>> rules = [(r"np\\.f\\((.*)\\)", r"g(\\1)")]
        >>> Backend("some", {}, rules=rules, names={"np.exp": "lib.exp"}).spell("np.f(np.exp(x))")
        'g(lib.exp(x))'
        """
        if (row := SOURCES.get(template)) is not None and self.name in row.source:
            return row.source[self.name].replace("DTYPE", f"{self.types}{dtype}")
        for pattern, replacement in self.rules:
            if (found := re.fullmatch(pattern, template)) is not None:
                template = found.expand(replacement) if isinstance(replacement, str) else replacement(found)
                break
        return self.translated(template.replace("DTYPE", f"{self.types}{dtype}"))

    def translated(self, text: str) -> str:
        """Source in NumPy's words with the names of the library."""
        return re.sub(r"(?<![\w.])(np|special|linalg)\.[\w.]+", self._name, text) if self.names else text

    def _name(self, found: re.Match) -> str:
        word = found[0]
        if word in self.names:
            return self.names[word]
        if (whole := self.names.get(f"{found[1]}.*")) is not None:
            return whole + word.removeprefix(f"{found[1]}.")
        if (row := SOURCES.get(f"{word}({{0}})")) is not None and self.name in row.source:
            return row.source[self.name].removesuffix("({0})")
        raise EindiffError(f"{word} has no form in {self.name} yet: use another backend")

    def import_lines(self, text: str) -> list[str]:
        """The library itself, and what else a text needs."""
        (_, own), *others = self.imports.items()
        return [own, *(line for prefix, line in others if re.search(rf"(?<![\w.]){re.escape(prefix)}", text))]

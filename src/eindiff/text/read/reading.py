"""What a text was read as: the expression, and what each of its names stands for."""

from __future__ import annotations

from dataclasses import dataclass

from eindiff.core.errors import shape_text, shape_words
from eindiff.core.nodes import Expr
from eindiff.core.shown import Shown
from eindiff.core.sizes import Shape, Size

HOW = {"declared": "declared", "use": "by its use", "name": "by its name"}  # it is known what a name stands for


@dataclass(frozen=True, slots=True)
class NameReading:
    """What one name of a text stands for; `how` is "declared", "use" or "name", whichever said so."""

    name: str
    shape: Shape
    how: str
    is_identity: bool = False
    into: Size | None = None  # of indices: the size of the axis that they are for

    @property
    def kind(self) -> str:
        """`scalar`, `vector of length n`, `m×n matrix`."""
        if self.is_identity:
            return f"identity of size {self.shape[0]}"
        if self.into is not None:
            count = f"{shape_text(self.shape)} indices" if self.shape else "index"
            return f"{count} into an axis of size {self.into}"
        return shape_words(self.shape)

    def __str__(self) -> str:
        return f"{self.name} {self.kind}"


@dataclass(frozen=True, slots=True)
class Reading(Shown):
    """A text as it was read: the `expression`, its `names` in the order they occur, and `notes` on what may surprise.

    >>> print(ed.reading("norm2(X*w - y)^2 + lambda*norm1(w)"))
    X m×n matrix, w vector of length n, y vector of length m, lambda scalar
    """

    __module__ = "eindiff"

    text: str
    expression: Expr
    names: tuple[NameReading, ...]
    notes: tuple[str, ...] = ()

    @property
    def declarations(self) -> str:
        """Declarations that say the same: with them the text is read as without."""
        return "; ".join(_declaration(name) for name in self.names if not name.is_identity)

    def __str__(self) -> str:
        return "; ".join([", ".join(map(str, self.names)) or "no names", *self.notes])


def _declaration(name: NameReading) -> str:
    sizes = f"({','.join(map(str, name.shape))})" if name.shape else ""
    return f"{name.name}{sizes}" + (f" into {name.into}" if name.into is not None else "")

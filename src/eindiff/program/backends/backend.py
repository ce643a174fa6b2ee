"""What a backend says: how a library writes each operation, its imports, and its helper functions.

A word is a piece of source with places `{0}`, `{1}`, ... for operands, or a function that makes one for an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Number
from eindiff.core.sizes import Shape, Size
from eindiff.functions.table import OF_SCIPY, TABLE
from eindiff.program.operations import Cut, Op, Operation

Word = str | Callable[[Operation, "Spelling"], str]

# Of arrays that are repeated along each other's axes: not every library does that for any number of axes.
_BROADCAST = frozenset({"multiply", "divide", "add", "raise", "mean"})
_BROADCAST_CALLS = frozenset(
    {"where", "where_greater", "where_at_least", "greater", "at_least", "equal", "maximum", "winner"}
)


@dataclass(frozen=True)
class Backend:
    """One array library."""

    name: str
    module: str  # what stands before the names of its functions
    imports: Mapping[str, str]  # what is imported where a prefix is used
    words: Mapping[Op, Word]  # of operations
    functions: Mapping[str, Word]  # of functions that are called, besides those with rows that say it
    helpers: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)  # of types and numbers, if not as in NumPy
    placed: str = ""  # what follows the type of a new array, where there is an input {like}
    copied: str = ""  # an array {0} that lies in memory of its own, where a result may not be part of an input
    functional: bool = True  # arrays are not changed in place
    slices_backward: bool = True  # x[::-1] is allowed
    compiled: bool = False  # programs are compiled, and operations fused
    conditions: bool = False  # there is a word for what is chosen where they hold
    repeated: frozenset[str] = frozenset()  # functions between -1 and 1 that a compiler takes to be cheap: see `once`
    fast_power: int = 2  # the highest whole power that takes no longer than products
    broadcasts: int = 64  # axes along which arrays are repeated to fit others, at most: beyond it `spread` does that

    def named(self, name: str) -> str:
        """A type or a number of the library."""
        return self.names.get(name, self.module + name)

    def function(self, name: str) -> Word:
        """How a function is called."""
        if name in self.functions:
            return self.functions[name]
        row = TABLE.get(name) or OF_SCIPY.get(name)
        if row is None or self.name not in row.source:
            where = f"has no form in {self.name} yet: use another backend"
            raise EindiffError(
                f"{name} {where if self.functional else 'cannot be written as source: it has no NumPy form'}",
                "tracing",
            )
        return row.source[self.name]


class Spelling:
    """How operations are written in a program of one library, with its type of numbers and its names."""

    def __init__(
        self, backend: Backend, names: Mapping[str, str], size: Callable[[Size], str], dtype: str = "float64",
        reading: bool = False, is_small: Callable[[Operation], bool] = lambda x: False,
    ) -> None:  # fmt: skip
        self.backend = backend
        self.names = names
        self.size = size
        self.reading = reading  # it is for people to read, not to be fast
        self.is_small = is_small  # whether a result is small: to start takes long
        self.np = backend.module
        self.dtype = backend.named(dtype)
        placed = "".join(backend.placed.format(like=name) for name in list(names.values())[:1])
        own = backend.functional or dtype != "float64"
        self.created = f", dtype={self.dtype}{placed}" if own else ""  # what follows the shape of a new array
        self.integers = f", dtype={backend.named('int64')}{placed}" if backend.functional else ""

    def template(self, x: Operation) -> str:
        """An operation with places for its operands."""
        text = self.word(self.backend.words[x.op], x)
        if len(x.shape) <= self.backend.broadcasts or len({y.shape for y in x.operands if y.shape}) < 2:
            return text
        if x.op not in _BROADCAST and not (x.op == "call" and x.parameters[0] in _BROADCAST_CALLS):
            return text
        names = [f"x{k}" for k in range(len(x.operands))]
        return f"spread(lambda {', '.join(names)}: {text.format(*names)}, {slots(x)})"

    def word(self, word: Word, x: Operation) -> str:
        """A word for an operation."""
        return word if isinstance(word, str) else word(x, self)

    def number(self, value: Number) -> str:
        """A number: short decimals as such, other fractions as quotients."""
        return number_text(value, self.backend.named)

    def shape(self, shape: Shape) -> str:
        """A shape as NumPy's constructors take it."""
        sizes = self.sizes(shape)
        return sizes if len(shape) == 1 else f"({sizes})"

    def sizes(self, shape: Shape) -> str:
        """Sizes one after the other."""
        return ", ".join(map(self.size, shape))

    def cut(self, cut: Cut) -> str:
        """A place or a slice between brackets."""
        if not isinstance(cut, tuple):
            return self.size(cut)
        start, stop, step = ["" if part is None else self.size(part) for part in cut]
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"

    def cut_object(self, cut: Cut) -> str:
        """A place or a slice as an object."""
        if not isinstance(cut, tuple):
            return self.size(cut)
        parts = ["None" if part is None else self.size(part) for part in cut]
        return f"slice({', '.join(parts if cut[2] is not None else parts[:2])})"


def slots(x: Operation, start: int = 0) -> str:
    """The places of operands, one after the other."""
    return ", ".join([f"{{{k}}}" for k in range(start, len(x.operands))])


def number_text(value: Number, named: Callable[[str], str] = "np.".__add__) -> str:
    """A number as Python source: short decimals as such, other fractions as quotients.

    >>> number_text(Fraction(1, 2)), number_text(Fraction(1, 3)), number_text(3), number_text(float("inf"))
    ('0.5', '1/3', '3', 'np.inf')
    """
    if isinstance(value, Fraction):
        short = Fraction(repr(float(value))) == value and len(repr(float(value))) < 8
        return repr(float(value)) if short else f"{value.numerator}/{value.denominator}"
    text = repr(value)
    return text.replace("inf", named("inf")).replace("nan", named("nan"))


def array_text(rows: Any, named: Callable[[str], str] = "np.".__add__) -> str:
    """Nested lists of exact numbers."""
    if isinstance(rows, list):
        return f"[{', '.join([array_text(row, named) for row in rows])}]"
    return number_text(float(rows), named)

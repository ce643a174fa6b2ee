"""What a traced array holds: an expression, and what was written over parts of it since."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from eindiff.core.nodes import Expr, variables
from eindiff.functions import multilinear as arrays
from eindiff.program.interpreter import Values
from eindiff.tracing.places import gathered, grid, placed, scattered
from eindiff.tracing.questions import Question


class Storage:
    """An expression that may change in parts, as the memory of an array does.

    Parts that are written are kept as pieces, and put together when more than one of them is read. So a loop that
    fills an array entry by entry makes one sum, and what was written is read again as it is. Places are the numbers of
    entries in row-major order.
    """

    __slots__ = ("_owner", "_pieces", "_slot", "_terms", "dtype", "question", "shape")

    def __init__(self, terms: tuple[Expr, ...], dtype: np.dtype, question: Question | None = None) -> None:
        self.shape, self.dtype = terms[0].shape, dtype
        self.question = question  # whose answer the entries are, until they change
        self._terms = terms  # they are added when the sum is read: so a loop that adds to a number makes one sum
        self._pieces: list[tuple[np.ndarray, Expr]] = []  # places, and the values there
        self._owner: np.ndarray | None = None  # the piece that each entry belongs to; None: all are those of the sum
        self._slot = np.zeros(0, int)  # the number of each entry in its piece

    def _sizes(self) -> tuple[int, ...]:
        return tuple([int(size) for size in self.shape])

    def places(self) -> np.ndarray:
        """The places of all entries."""
        shape = self._sizes()
        return np.arange(prod(shape)).reshape(shape)

    def replace(self, expr: Expr) -> None:
        """Write all entries."""
        self._terms, self._owner, self._pieces, self.question = (expr,), None, [], None

    def write(self, places: np.ndarray, value: Expr) -> None:
        """Write values, in the shape of their places; of two at one place the last one counts, as in NumPy."""
        if self._owner is None:
            everything = self.places()
            self._pieces = [(everything, self._whole())]
            self._owner, self._slot = np.zeros(everything.size, int), everything.ravel().copy()
        self.question = None
        self._owner[places] = len(self._pieces)
        self._slot[places] = np.arange(places.size).reshape(places.shape)
        self._pieces.append((places, value))

    def read(self, places: np.ndarray | None, view: Callable[[Expr], Expr]) -> Expr:
        """The entries at some places, which a view of the whole gives too: from one piece if they all belong to it."""
        if self._owner is not None and places is not None:
            owner = self._owner[places]
            if owner.size and (owner == owner.flat[0]).all():
                return part(self._pieces[int(owner.flat[0])][1], self._slot[places])
        return view(self._whole())

    def _whole(self) -> Expr:
        if self._owner is not None:
            terms = [self._survivors(k) for k in np.unique(self._owner)]
            self.replace(arrays.add(*terms))
        if len(self._terms) > 1:
            self._terms = (arrays.add(*self._terms),)
        return self._terms[0]

    def terms(self) -> tuple[Expr, ...]:
        """What adds up to the whole."""
        return (self._whole(),) if self._owner is not None else self._terms

    def _survivors(self, k: int) -> Expr:
        """What is left of a piece, and zeros elsewhere."""
        places, value = self._pieces[k]
        left = np.zeros(places.size, bool)
        left[self._slot[self._owner == k]] = True
        kept = np.arange(places.size).reshape(places.shape)
        if not left.all():
            chosen = left.reshape(places.shape)
            lines = grid(chosen)
            kept = kept[chosen if lines is None else lines]
        shape = self._sizes()
        if (numbers := _not_finite(value)) is not None:  # which an index map would multiply by 0
            whole = np.zeros(prod(shape))
            whole[places.ravel()[kept]] = numbers.ravel()[kept]
            return arrays.as_expr(whole.reshape(shape))
        return scattered(part(value, kept), placed(places.ravel()[kept], shape), shape)


def _not_finite(value: Expr) -> np.ndarray | None:
    """The numbers of a constant, if some of them are infinite or no numbers."""
    if variables(value):
        return None
    numbers = Values({})(value)
    return None if np.isfinite(numbers).all() else numbers


def part(value: Expr, numbers: np.ndarray) -> Expr:
    """The entries of a value with some numbers."""
    if numbers.shape == value.shape and np.array_equal(numbers.ravel(), np.arange(numbers.size)):
        return value
    return gathered(value, placed(numbers, [int(size) for size in value.shape]), numbers.shape)

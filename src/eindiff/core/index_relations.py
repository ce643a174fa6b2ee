"""Structured constants: 0/1 tensors and sizes that are known by a formula and never stored as arrays.

They are leaves of an expression. Reshaping, slicing, padding, flipping, concatenating, gathering and scattering
are contractions with an `IndexMap`; so they need no derivative rules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.sizes import Shape, Size


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The size of an axis as a number, for instance the n in a mean over n entries."""

    size: Size
    shape: Shape = ()

    def to_array(self, bindings: Mapping[str, int]) -> np.ndarray:
        return np.asarray(float(sz.evaluate(self.size, bindings)))

    def __str__(self) -> str:
        return f"size({self.size})"


@dataclass(frozen=True, slots=True)
class Lower:
    """The lower triangular matrix of ones, `T_ij = 1 if i >= j`. Contracting with it is a cumulative sum."""

    size: Size

    @property
    def shape(self) -> Shape:
        return (self.size, self.size)

    def to_array(self, bindings: Mapping[str, int]) -> np.ndarray:
        return np.tri(sz.evaluate(self.size, bindings))

    def __str__(self) -> str:
        return f"lower({self.size})"


@dataclass(frozen=True, slots=True)
class IndexMap:
    """`R[k, i1, ..., ir] = 1 if k == offset + s1*i1 + ... + sr*ir`, or `k == indices[i1, ..., ir]` (row-major).

    Every (i1, ..., ir) has a k in range, so that summing R over k gives ones.
    """

    size: Size  # of k
    inputs: Shape  # of i1, ..., ir
    offset: Size = 0
    strides: Shape = ()
    indices: tuple[int, ...] | None = None

    @property
    def shape(self) -> Shape:
        return (self.size, *self.inputs)

    @property
    def injective(self) -> bool:
        """Whether no two inputs have the same k, as far as this is known."""
        if self.indices is not None:
            return len(set(self.indices)) == len(self.indices)
        return len(self.inputs) <= 1 or self._is_row_major()

    def _is_row_major(self) -> bool:
        expected: Size = 1
        for size, stride in zip(reversed(self.inputs), reversed(self.strides), strict=True):
            if stride != expected:
                return False
            expected = sz.multiply(expected, size)
        return True

    def keep(self, kept: list[int]) -> IndexMap:
        """The map without inputs of size 1."""
        inputs = tuple(self.inputs[k] for k in kept)
        if self.indices is not None and not inputs:
            return IndexMap(self.size, (), self.indices[0])
        strides = () if self.indices is not None else tuple(self.strides[k] for k in kept)
        return IndexMap(self.size, inputs, self.offset, strides, self.indices)

    def is_identity(self) -> bool:
        """Whether k is the one input itself."""
        return self.indices is None and self.offset == 0 and self.strides == (1,) and self.inputs == (self.size,)

    def disjoint(self, other: IndexMap) -> bool:
        """Whether no k is reached by both maps, as far as this is known."""
        if self.indices is not None and other.indices is not None:
            return not set(self.indices) & set(other.indices)
        return self._ends_before(other) or other._ends_before(self)

    def _ends_before(self, other: IndexMap) -> bool:
        if self.indices is not None or other.indices is not None:
            return False
        if any(isinstance(s, int) and s < 0 for s in (*self.strides, *other.strides)):
            return False
        last = self.offset
        for size, stride in zip(self.inputs, self.strides, strict=True):
            last = sz.add(last, sz.multiply(stride, sz.subtract(size, 1)))
        return sz.never_negative(sz.subtract(sz.subtract(other.offset, last), 1))

    def compose(self, axis: int, inner: IndexMap) -> IndexMap | None:
        """The map when input `axis` is itself the k of `inner`; None if that is not affine."""
        if self.indices is not None or inner.indices is not None:
            return None
        stride = self.strides[axis]
        return IndexMap(
            self.size,
            self.inputs[:axis] + inner.inputs + self.inputs[axis + 1 :],
            sz.add(self.offset, sz.multiply(stride, inner.offset)),
            self.strides[:axis] + tuple(sz.multiply(stride, s) for s in inner.strides) + self.strides[axis + 1 :],
        )

    def solve(self, axis: int, other: IndexMap) -> IndexMap | None:
        """Input `axis` as a map of the other inputs and of those of `other`, where both maps have the same k.

        None if there is no such map: it needs a stride of 1 or -1, known sizes, and a value in range everywhere.
        """
        if self.indices is not None or other.indices is not None or self.strides[axis] not in (1, -1):
            return None
        sign = 1 if self.strides[axis] == 1 else -1
        mine = [(n, sz.multiply(-sign, s)) for n, s in zip(self.inputs, self.strides, strict=True)]
        size, _ = mine.pop(axis)
        inputs = mine + [(n, sz.multiply(sign, s)) for n, s in zip(other.inputs, other.strides, strict=True)]
        offset = sz.multiply(sign, sz.subtract(other.offset, self.offset))
        solved = IndexMap(size, tuple(n for n, _ in inputs), offset, tuple(s for _, s in inputs))
        return solved if solved._is_known_in_range() else None

    def _is_known_in_range(self) -> bool:
        """Whether sizes are numbers, and every k is in range."""
        ends = [sz.multiply(s, sz.subtract(n, 1)) for n, s in zip(self.inputs, self.strides, strict=True)]
        known = [x for x in (self.size, self.offset, *ends) if isinstance(x, int)]
        if len(known) < len(ends) + 2:
            return False
        least, most = (known[1] + sum(sign * max(sign * x, 0) for x in known[2:]) for sign in (-1, 1))
        return least >= 0 and most < known[0]

    def needs(self) -> list[Size]:
        """What must not be negative for the inputs to exist, and, if each has an entry, for every k to be in range.

        >>> IndexMap("n", (3,), 1, (1,)).needs(), IndexMap("n", (), "n - 2").needs()
        (['n - 4'], ['n - 2'])
        """
        if 0 in self.inputs:
            return []
        lowest, highest = {self.offset}, {self.offset}
        if self.indices is not None:
            lowest, highest = {min(self.indices)}, {max(self.indices)}
        for size, stride in zip(self.inputs, self.strides, strict=False):
            last = sz.multiply(stride, sz.subtract(size, 1))
            moved = [{sz.add(k, last) for k in ends} for ends in (lowest, highest)]
            sign = sz.sign(stride)
            lowest = lowest if sign > 0 else moved[0] if sign < 0 else lowest | moved[0]
            highest = highest if sign < 0 else moved[1] if sign > 0 else highest | moved[1]
        left = [sz.subtract(sz.subtract(self.size, 1), k) for k in highest]
        needed = dict.fromkeys([*self.inputs, *sorted([*lowest, *left], key=str)])
        return [size for size in needed if not sz.never_negative(size)]

    def implies(self, other: IndexMap) -> bool:
        """Whether the other map is in range wherever this one is, as far as this is known."""
        own = self.needs()
        return all(any(sz.never_negative(sz.subtract(need, x)) for x in own) for need in other.needs())

    def index_array(self, bindings: Mapping[str, int]) -> np.ndarray:
        """k as an array over (i1, ..., ir)."""
        shape = tuple(sz.evaluate(size, bindings) for size in self.inputs)
        if self.indices is not None:
            return np.array(self.indices, dtype=int).reshape(shape)
        index = np.full(shape, sz.evaluate(self.offset, bindings))
        for axis, stride in enumerate(self.strides):
            steps = sz.evaluate(stride, bindings) * np.arange(shape[axis])
            index = index + steps.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return index

    def to_array(self, bindings: Mapping[str, int]) -> np.ndarray:
        index = self.index_array(bindings)
        k = np.arange(sz.evaluate(self.size, bindings)).reshape((-1,) + (1,) * index.ndim)
        return (k == index).astype(float)

    def __str__(self) -> str:
        if self.indices is not None:
            return f"onehot({', '.join(map(str, self.indices[:6]))}{', ...' if len(self.indices) > 6 else ''})"
        terms = [str(self.offset)] + [f"{s}*i{axis + 1}" for axis, s in enumerate(self.strides)]
        return f"index({' + '.join(terms)})"


Structure = SizeOf | Lower | IndexMap

"""Structured constants: 0/1 tensors and sizes that are known by a formula and never stored as arrays.

They are leaves of an expression. Reshaping, slicing, padding, flipping, concatenating, gathering and scattering
are contractions with an `IndexMap`; so they need no derivative rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
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


class Table:
    """Known places: a read-only array of integers in row-major order, told apart by a digest of its entries."""

    __slots__ = ("_distinct", "array", "digest")

    def __init__(self, entries: Any) -> None:
        self.array = np.array(entries, dtype=np.int64).ravel()
        self.array.flags.writeable = False
        self.digest = blake2b(self.array.data, digest_size=16).hexdigest()
        self._distinct: bool | None = None

    @property
    def distinct(self) -> bool:
        """Whether no place occurs twice."""
        if self._distinct is None:
            self._distinct = are_distinct(self.array)
        return self._distinct

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __getitem__(self, place: int) -> int:
        return int(self.array[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Table({self.digest})"


def are_distinct(places: np.ndarray) -> bool:
    """Whether no entry occurs twice."""
    ordered = np.sort(places, axis=None)
    return not (ordered[1:] == ordered[:-1]).any()


class Given:
    """Places that are the values of an expression: a table that is known when a program runs."""

    __slots__ = ("expr",)
    distinct = False

    def __init__(self, expr: Any) -> None:
        self.expr = expr

    @property
    def digest(self) -> str:
        """That of the expression."""
        return str(self.expr.digest.hex())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and self.expr is other.expr

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Given({self.digest})"


class Line(NamedTuple):
    """Where two affine maps of one input each are equal: `first + step * t` for t below a length, for either."""

    length: int
    ours: tuple[int, int]  # first, step
    theirs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class IndexMap:
    """`R[k, i1, ..., ir] = 1 if k == offset + s1*i1 + ... + sr*ir`, or `k == indices[i1, ..., ir]` (row-major).

    Every (i1, ..., ir) has a k in range, so that summing R over k gives ones. A partial map is two of these with an
    input in common that is summed over: it numbers the pairs of which the map says that they belong together.
    """

    size: Size  # of k
    inputs: Shape  # of i1, ..., ir
    offset: Size = 0
    strides: Shape = ()
    indices: Table | Given | None = None  # any sequence of integers stands for a table

    def __post_init__(self) -> None:
        if self.indices is not None and not isinstance(self.indices, Table | Given):
            object.__setattr__(self, "indices", Table(self.indices))

    @property
    def shape(self) -> Shape:
        return (self.size, *self.inputs)

    @property
    def injective(self) -> bool:
        """Whether no two inputs have the same k, as far as this is known."""
        if self.indices is not None:
            return self.indices.distinct
        if len(self.inputs) == 1:
            return self.inputs[0] == 1 or sz.sign(self.strides[0]) != 0
        return not self.inputs or self._is_row_major()

    @property
    def is_known(self) -> bool:
        """Whether all of its sizes are numbers, and its places are known."""
        if isinstance(self.indices, Given):
            return False
        return all(isinstance(size, int) for size in (self.size, *self.inputs, self.offset, *self.strides))

    def _is_row_major(self) -> bool:
        expected: Size = 1
        for size, stride in zip(reversed(self.inputs), reversed(self.strides), strict=True):
            if stride != expected:
                return False
            expected = sz.multiply(expected, size)
        return True

    def keep(self, kept: list[int]) -> IndexMap:
        """The map without inputs of size 1, or that it does not depend on."""
        inputs = tuple(self.inputs[k] for k in kept)
        if isinstance(self.indices, Table) and not inputs:
            return IndexMap(self.size, (), self.indices[0])
        strides = () if self.indices is not None else tuple(self.strides[k] for k in kept)
        return IndexMap(self.size, inputs, self.offset, strides, self.indices)

    def needed_inputs(self) -> list[int]:
        """The inputs that it depends on: not those of size 1, nor those with entries and a stride of 0."""
        if isinstance(self.indices, Given):
            return list(range(len(self.inputs)))
        still = [k for k, s in enumerate(self.strides) if s == 0 and isinstance(self.inputs[k], int) and self.inputs[k]]
        return [k for k, size in enumerate(self.inputs) if size != 1 and k not in still]

    def simplest(self) -> IndexMap:
        """The same map by a formula, if its table has one."""
        if not isinstance(self.indices, Table) or not len(self.indices):
            return self
        table = self.indices.array.reshape([int(n) for n in self.inputs])
        first = int(table.flat[0])
        strides = tuple([int(table.take(min(1, n - 1), k).flat[0]) - first for k, n in enumerate(table.shape)])
        affine = IndexMap(self.size, self.inputs, first, strides)
        corner = table[tuple([slice(0, 3)] * table.ndim)]
        small = IndexMap(self.size, corner.shape, first, strides).index_array({})
        if not np.array_equal(small, corner) or not np.array_equal(affine.index_array({}), table):
            return self
        return affine

    def is_identity(self) -> bool:
        """Whether k is the one input itself."""
        return self.indices is None and self.offset == 0 and self.strides == (1,) and self.inputs == (self.size,)

    def disjoint(self, other: IndexMap) -> bool:
        """Whether no k is reached by both maps, as far as this is known."""
        if self.indices is None and other.indices is None:
            return _apart(self, other)
        if not (self.is_known and other.is_known) or 0 in (*self.inputs, *other.inputs):
            return False
        if not isinstance(self.indices, Table):
            return other.disjoint(self)
        if isinstance(other.indices, Table):
            return not np.isin(self.indices.array, other.indices.array).any()
        return other.injective and bool((other.inputs_of(self.indices.array) < 0).all())

    def ends_before(self, other: IndexMap) -> bool:
        """Whether all that a formula reaches is below all that another one does, as far as this is known."""
        if any(isinstance(s, int) and s < 0 for s in (*self.strides, *other.strides)):
            return False
        last = self.offset
        for size, stride in zip(self.inputs, self.strides, strict=True):
            last = sz.add(last, sz.multiply(stride, sz.subtract(size, 1)))
        return sz.never_negative(sz.subtract(sz.subtract(other.offset, last), 1))

    def line(self, other: IndexMap) -> Line | None:
        """Where this map and another one are equal, if both have one input, a formula, and numbers for sizes."""
        if not (self.is_known and other.is_known) or self.indices is not None or other.indices is not None:
            return None
        if len(self.inputs) != 1 or len(other.inputs) != 1 or 0 in (self.strides[0], other.strides[0]):
            return None
        (m, n), (a, b) = (int(self.inputs[0]), int(other.inputs[0])), (int(self.offset), int(other.offset))
        s, t = int(self.strides[0]), int(other.strides[0])
        common = gcd(s, t)
        if (b - a) % common:
            return Line(0, (0, 0), (0, 0))
        if t < 0:  # count in the direction in which our input grows
            s, t, a, b = -s, -t, -a, -b
        step, other_step = t // common, s // common
        first = (b - a) // common * pow(s // common, -1, step) % step if step > 1 else 0
        theirs = (a + s * first - b) // t
        low, high = _within(theirs, other_step, n)
        low, high = max(low, 0), min(high, (m - 1 - first) // step)
        count = max(high - low + 1, 0)
        return Line(count, (first + step * low, step), (theirs + other_step * low, other_step))

    def inputs_of(self, k: np.ndarray) -> np.ndarray:
        """The number of the inputs, in row-major order, that an injective map takes to each k; -1 if there are none."""
        if isinstance(self.indices, Table):
            order = np.argsort(self.indices.array, kind="stable")
            found = order[np.searchsorted(self.indices.array, k, sorter=order).clip(max=len(order) - 1)]
            return np.where(self.indices.array[found] == k, found, -1)
        stride = int(self.strides[-1]) if self.strides and self.strides[-1] != 0 else 1
        number, rest = np.divmod(k - int(self.offset), stride)
        return np.where((rest == 0) & (number >= 0) & (number < prod(map(int, self.inputs))), number, -1)

    def compose(self, axis: int, inner: IndexMap) -> IndexMap | None:
        """The map when input `axis` is itself the k of `inner`; None if that is not affine, and no smaller table."""
        inputs = self.inputs[:axis] + inner.inputs + self.inputs[axis + 1 :]
        if self.indices is not None or inner.indices is not None:
            table = self._composed_table(axis, inner, inputs)
            return table and table.simplest()
        stride = self.strides[axis]
        return IndexMap(
            self.size,
            inputs,
            sz.add(self.offset, sz.multiply(stride, inner.offset)),
            self.strides[:axis] + tuple(sz.multiply(stride, s) for s in inner.strides) + self.strides[axis + 1 :],
        )

    def _composed_table(self, axis: int, inner: IndexMap, inputs: Shape) -> IndexMap | None:
        known = all(isinstance(n, int) for n in (*inputs, self.offset, inner.offset, *self.strides, *inner.strides))
        tables = [x for x in (self.indices, inner.indices) if x is not None]
        if not known or any(isinstance(x, Given) for x in tables):
            return None
        if prod(map(int, inputs)) > max(len(x) for x in tables if isinstance(x, Table)):
            return None
        places = inner.index_array({})
        if isinstance(self.indices, Table):
            table = self.indices.array.reshape([int(n) for n in self.inputs]).take(places, axis)
        else:
            shape = [1] * axis + list(places.shape) + [1] * (len(self.inputs) - axis - 1)
            rest = [(n, s) for k, (n, s) in enumerate(zip(self.inputs, self.strides, strict=True)) if k != axis]
            others = IndexMap(self.size, tuple(n for n, _ in rest), self.offset, tuple(s for _, s in rest))
            grid = np.expand_dims(others.index_array({}), tuple(range(axis, axis + places.ndim)))
            table = grid + int(self.strides[axis]) * places.reshape(shape)
        return IndexMap(self.size, inputs, indices=Table(table))

    def solve(self, axis: int, other: IndexMap) -> IndexMap | None:
        """Input `axis` as a map of the other inputs and of those of `other`, where both maps have the same k.

        None if there is no such map: it needs a stride of 1 or -1, and a value in range everywhere.
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
        """Whether every k is in range, whatever the named sizes are."""
        least, most = self.offset, self.offset
        for size, stride in zip(self.inputs, self.strides, strict=True):
            end, sign = sz.multiply(stride, sz.subtract(size, 1)), sz.sign(stride)
            if not sign and stride != 0:
                return False
            least, most = (sz.add(least, end), most) if sign < 0 else (least, sz.add(most, end))
        return sz.never_negative(least) and sz.never_negative(sz.subtract(sz.subtract(self.size, most), 1))

    def needs(self) -> list[Size]:
        """What must not be negative for the inputs to exist, and, if each has an entry, for every k to be in range.

        >>> IndexMap("n", (3,), 1, (1,)).needs(), IndexMap("n", (), "n - 2").needs()
        (['n - 4'], ['n - 2'])
        """
        if 0 in self.inputs:
            return []
        lowest, highest = {self.offset}, {self.offset}
        if isinstance(self.indices, Given):  # places are looked at when they are given
            return [size for size in self.inputs if not sz.never_negative(size)]
        if self.indices is not None:
            lowest, highest = {int(self.indices.array.min())}, {int(self.indices.array.max())}
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
        if isinstance(self.indices, Given):
            raise EindiffError("the places of a relation are not known before they are given", "indices")
        if self.indices is not None:
            return self.indices.array.reshape(shape)
        index = np.full(shape, sz.evaluate(self.offset, bindings))
        for axis, stride in enumerate(self.strides):
            steps = sz.evaluate(stride, bindings) * np.arange(shape[axis])
            index = index + steps.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return index

    def to_array(self, bindings: Mapping[str, int]) -> np.ndarray:
        return self.one_hot(self.index_array(bindings), bindings)

    def one_hot(self, index: np.ndarray, bindings: Mapping[str, int]) -> np.ndarray:
        """The array of zeros and ones with its places given."""
        k = np.arange(sz.evaluate(self.size, bindings)).reshape((-1,) + (1,) * index.ndim)
        return (k == index).astype(float)

    def __str__(self) -> str:
        if isinstance(self.indices, Given):
            return f"at({self.indices.expr})"
        if self.indices is not None:
            first = ", ".join(map(str, self.indices.array[:6].tolist()))
            return f"onehot({first}{', ...' if len(self.indices) > 6 else ''})"
        terms = [str(self.offset)] + [f"{s}*i{axis + 1}" for axis, s in enumerate(self.strides)]
        return f"index({' + '.join(terms)})"


@lru_cache(4096)
def _apart(one: IndexMap, other: IndexMap) -> bool:
    """Whether two formulas have no k in common, as far as this is known: asked of each pair of terms of long sums."""
    if one.ends_before(other) or other.ends_before(one):
        return True
    if not (one.is_known and other.is_known) or 0 in (*one.inputs, *other.inputs):
        return False
    return (line := one.line(other)) is not None and not line.length


def _within(first: int, step: int, size: int) -> tuple[int, int]:
    """The least and the greatest t for which `first + step * t` is at least 0 and below a size."""
    if step > 0:
        return -(first // step), (size - 1 - first) // step
    return -((size - 1 - first) // -step), first // -step


Structure = SizeOf | Lower | IndexMap

"""The axes along which every term has a delta: they make an operator a stack of smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from eindiff.core.labels import Labels
from eindiff.structure.terms import Array, Term


def has_delta(term: Term, axis: int) -> bool:
    """Whether a term of a square operator is zero unless row and column agree along an axis."""
    half = len(term.output) // 2
    label = term.output[axis]
    return term.output[half + axis] == label and term.output.count(label) == 2


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of a square operator on tensors of shape `dims`, in three kinds.

    Along `identity` axes all terms have a delta that no array knows of, so the operator is the same for each index;
    along `stacked` axes they have a delta and arrays depend on it, so there is an operator for each index; `inner` are
    the others.
    """

    dims: tuple[int, ...]
    identity: tuple[int, ...]
    stacked: tuple[int, ...]
    inner: tuple[int, ...]

    @classmethod
    def of(cls, dims: tuple[int, ...], terms: Sequence[Term]) -> Layout:
        """The layout of a sum of terms."""
        common = [axis for axis in range(len(dims)) if all(has_delta(term, axis) for term in terms)]
        stacked = tuple([axis for axis in common if any(term.output[axis] in term.bound for term in terms)])
        identity = tuple([axis for axis in common if axis not in stacked])
        return cls(dims, identity, stacked, tuple([axis for axis in range(len(dims)) if axis not in common]))

    def sizes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of some axes."""
        return tuple([self.dims[axis] for axis in axes])

    @property
    def copies(self) -> int:
        """How often each block occurs."""
        return prod(self.sizes(self.identity))

    def core(self, terms: Sequence[Term], dtype: np.dtype) -> Core:
        """What is left when the axes with deltas are taken out."""
        half = len(self.dims)
        inside = []
        for term in terms:
            output = tuple(
                [term.output[axis] for axis in self.inner] + [term.output[half + axis] for axis in self.inner]
            )
            inner = term.with_output(output)
            if self.stacked:
                names = {label: label for label in term.sizes}
                names.update({term.output[axis]: stack_label(axis) for axis in self.stacked})
                inner = inner.renamed(names)
            inside.append(inner)
        stack = tuple([stack_label(axis) for axis in self.stacked])
        return Core(stack, self.sizes(self.stacked), self.sizes(self.inner), tuple(inside), dtype)

    def whole(self, term: Term) -> Term:
        """A term of the core as one of the operator: the reverse of `core`."""
        count = len(self.inner)
        fresh = 1 + max(term.sizes, default=0)
        rows, columns = list(term.output[:count]), list(term.output[count:])
        sizes = dict(term.sizes)
        output: list[list[int]] = [[], []]
        for axis, size in enumerate(self.dims):
            if axis in self.inner:
                pair = rows.pop(0), columns.pop(0)
            else:
                label = stack_label(axis) if axis in self.stacked else fresh + axis
                sizes[label] = size
                pair = label, label
            for labels, label in zip(output, pair, strict=True):
                labels.append(label)
        return replace(term, output=tuple(output[0] + output[1]), sizes=sizes)

    def to_blocks(self, x: Array) -> Array:
        """Tensors of shape `(*dims, count)` as `(stack, rows of a block, copies * count)`."""
        last = len(self.dims)
        turned = x.transpose([*self.stacked, *self.inner, *self.identity, last])
        return turned.reshape(prod(self.sizes(self.stacked)), prod(self.sizes(self.inner)), self.copies * x.shape[-1])

    def from_blocks(self, y: Array, count: int) -> Array:
        """The reverse of `to_blocks`."""
        axes = [*self.stacked, *self.inner, *self.identity]
        back = sorted(range(len(axes)), key=axes.__getitem__)
        return y.reshape([*self.sizes(axes), count]).transpose([*back, len(axes)])


def squares(matrices: Array) -> Array:
    """The sum of the squares of the entries of each matrix of a stack."""
    return np.einsum("kij,kij->k", matrices, matrices)


def norms(matrices: Array) -> Array:
    """The Frobenius norm of each matrix of a stack."""
    if matrices.shape[1] == 1:
        return np.abs(matrices).reshape(-1)
    return np.sqrt(squares(matrices))


def stack_label(axis: int) -> int:
    """The label of a stacked axis, which is the same in all terms of a core."""
    return -1 - axis


@dataclass(frozen=True, slots=True)
class Core:
    """A stack of operators on tensors of shape `dims`: terms whose arrays may have the labels of the stack."""

    stack: Labels
    stack_sizes: tuple[int, ...]
    dims: tuple[int, ...]
    terms: tuple[Term, ...]
    dtype: np.dtype

    @property
    def count(self) -> int:
        """How many operators there are."""
        return prod(self.stack_sizes)

    @property
    def size(self) -> int:
        """The rows of each."""
        return prod(self.dims)

    def dense(self) -> Array:
        """All operators as matrices, of shape `(count, size, size)`."""
        parts = self._parts()
        return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)

    def dense_and_sizes(self) -> tuple[Array, Array]:
        """All operators as matrices, and for each the sum of the norms of its terms, which is larger if they cancel."""
        parts = self._parts()
        if len(parts) == 1:
            return parts[0], norms(parts[0])
        return np.sum(parts, axis=0), np.sum([norms(part) for part in parts], axis=0)

    def _parts(self) -> list[Array]:
        stack = dict(zip(self.stack, self.stack_sizes, strict=True))
        shape = (self.count, self.size, self.size)
        parts = [x.to_dense(self.stack + x.output, stack) for x in self.terms]
        return [part.astype(self.dtype, copy=False).reshape(shape) for part in parts]

    def flat(self, terms: Sequence[Term]) -> list[Term]:
        """Some of its terms as those of one operator on tensors of shape `(*stack_sizes, *dims)`."""
        half = len(self.dims)
        known = dict(zip(self.stack, self.stack_sizes, strict=True))
        return [
            replace(
                term,
                output=self.stack + term.output[:half] + self.stack + term.output[half:],
                sizes={**known, **term.sizes},
            )
            for term in terms
        ]

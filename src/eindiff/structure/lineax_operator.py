"""A derivative's value as a linear operator of lineax on flat vectors: row-major, variable by variable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import lineax

from eindiff.core.labels import Labels
from eindiff.structure.grid import Grid, Shape, starts
from eindiff.structure.places import index_of, indices, labels_of
from eindiff.structure.terms import Array, Term

if TYPE_CHECKING:
    from eindiff.structure.derivative import Derivative


def to_lineax(derivative: Derivative) -> Any:
    """A derivative as an operator of lineax, which can be solved with inside and outside of jit.

    It has the tags of what is known: symmetric, positive semidefinite, diagonal. Arrays and coefficients are its leaves
    and all else is static, so operators of one structure share what JAX compiles for the first of them.

    >>> import eindiff as ed
    >>> x = ed.vector("x", "n")
    >>> to_lineax(ed.structured(ed.hessian(ed.sum(x**3), x), {"x": np.arange(3.0)})).mv(np.ones(3))
    Array([ 0.,  6., 12.], dtype=float...)
    """
    grid = derivative._grid
    dtype = jax.dtypes.canonicalize_dtype(grid.dtype)
    arrays = {id(x): x for term in grid.all_terms for x in term.arrays}
    places = {key: place for place, key in enumerate(arrays)}
    product = TracedProduct(
        grid.rows, grid.cols,
        tuple([tuple([tuple([_plan(term, len(rows), places) for term in block]) for block in line])
               for rows, line in zip(grid.rows, grid.terms, strict=True)]),
    )  # fmt: skip
    leaves = [jnp.asarray(x, dtype) for x in arrays.values()]
    coefficients = jnp.asarray([term.coefficient for term in grid.all_terms], dtype)
    known = {
        lineax.symmetric_tag: derivative._facts.symmetric,
        lineax.positive_semidefinite_tag: derivative._facts.psd,
        lineax.diagonal_tag: grid.rows == grid.cols and _is_diagonal(grid),
    }
    return lineax.FunctionLinearOperator(
        jax.tree_util.Partial(product, leaves, coefficients),
        jax.ShapeDtypeStruct((grid.shape[1],), dtype),
        [tag for tag, holds in known.items() if holds],
        closure_convert=False,  # the function is a tree already
    )


def _is_diagonal(grid: Grid) -> bool:
    """Whether the labels say that entries off the diagonal are zero."""
    return all(
        i == j and term.output[: len(rows)] == term.output[len(rows) :]
        for i, rows in enumerate(grid.rows) for j, block in enumerate(grid.terms[i]) for term in block
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Indices:
    """Index arrays for the axes of a tensor, over the labels of places; known again by the places alone."""

    term: Term
    labels: Labels  # of the axes

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        axes = self.term.axes(self.labels)
        of = indices(labels_of(axes), self.term.sizes)
        return tuple([index_of(axis, of) for axis in axes])

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""
        return tuple([self.term.sizes[x] for x in self.labels])

    @property
    def key(self) -> tuple:
        """What tells it apart."""
        return self.labels, self.shape, tuple([(p.target, p.sources, *p.key) for p in self.term.places])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indices) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class TermProduct:
    """The product of a term with a vector as a contraction: which arrays, with which labels.

    Einsum has neither deltas nor unbound labels in its output: those are operands here, identities and ones.
    """

    arrays: tuple[int, ...]
    labels: tuple[Labels, ...]
    vector: Labels
    output: Labels
    identities: tuple[tuple[int, Labels], ...]
    ones: tuple[tuple[int, int], ...]
    read: Indices | None = None  # of the vector, where its axes are places
    written: Indices | None = None  # of the result

    def apply(self, arrays: list, part: Any) -> Any:
        """The product with a tensor of the columns' shape."""
        operands = [(arrays[k], labels) for k, labels in zip(self.arrays, self.labels, strict=True)]
        part = part if self.read is None else part[self.read.arrays]
        operands.append((part, self.vector))
        operands += [(jnp.eye(size, dtype=part.dtype), labels) for size, labels in self.identities]
        operands += [(jnp.ones(size, part.dtype), (label,)) for size, label in self.ones]
        interleaved = [x for array, labels in operands for x in (array, labels)]
        result = jnp.einsum(*interleaved, self.output, precision="highest")
        if self.written is None:
            return result
        return jnp.zeros(self.written.shape, result.dtype).at[self.written.arrays].add(result)


def _plan(term: Term, split: int, places: dict[int, int]) -> TermProduct:
    """The contraction of a term with a vector that has the labels from `split` on."""
    rows, columns = term.output[:split], term.output[split:]
    read, written = (Indices(term, half) if _has_places(term, half) else None for half in (rows, columns)[::-1])
    vector, rows = (labels_of(term.axes(half)) if _has_places(term, half) else half for half in (columns, rows))
    fresh = 1 + max(term.sizes, default=0)
    output: list[int] = []
    identities = []
    for axis, label in enumerate(rows):
        if label in output:
            identities.append((term.sizes[label], (label, fresh + axis)))
            label = fresh + axis
        output.append(label)
    arrayed = {x for labels in (*term.labels, vector) for x in labels}
    ones = tuple([(term.sizes[x], x) for x in dict.fromkeys(rows) if x not in arrayed])
    arrays = tuple([places[id(x)] for x in term.arrays])
    return TermProduct(arrays, term.labels, vector, tuple(output), tuple(identities), ones, read, written)


def _has_places(term: Term, labels: Labels) -> bool:
    return any(place.target in labels for place in term.places)


@dataclass(frozen=True, slots=True)
class TracedProduct:
    """A linear map as a function that JAX can trace; equal ones are the same function to it."""

    rows: tuple[Shape, ...]
    cols: tuple[Shape, ...]
    plans: tuple[tuple[tuple[TermProduct, ...], ...], ...]

    def __call__(self, arrays: list, coefficients: Any, vector: Any) -> Any:
        vector, places, count = jnp.asarray(vector), starts(self.cols), 0
        parts = [vector[places[k] : places[k + 1]].reshape(shape) for k, shape in enumerate(self.cols)]
        total = []
        for shape, line in zip(self.rows, self.plans, strict=True):
            values = []
            for block, part in zip(line, parts, strict=True):
                for plan in block:
                    values.append(coefficients[count] * plan.apply(arrays, part))
                    count += 1
            row = sum(values[1:], values[0]) if values else jnp.zeros(shape, vector.dtype)
            total.append(row.reshape(prod(shape)))
        return jnp.concatenate(total)

"""Sums over an index: `Σ_i (y_i − w'x_i)²` is read term by term, with a variable for every `y_i`.

A term is an expression of such variables. The sum puts in their place the tensors that they are entries of, with the
axis of the index first, through all nodes of the term: the same expression for all indices at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any

from eindiff.core import construct
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, topological, variables
from eindiff.core.sizes import Size, subtract
from eindiff.functions import indexing
from eindiff.functions import multilinear as arrays

Span = Callable[[Size, str], tuple[Size, Size | None]]


class Terms:
    """The variables that stand for entries: each with its tensor, whose first axes are those of the indices."""

    def __init__(self) -> None:
        self.entries: dict[Expr, tuple[Expr, tuple[str, ...]]] = {}

    def entry(self, base: Expr, entries: Sequence[Any], running: Sequence[str | None], span: Span) -> Expr:
        """`x[i + 1, :]` for one index i: a variable, to be replaced by the rows of x from the second on."""
        taken: list[Any] = []
        for entry, index in zip(entries, running, strict=True):
            if index is None:
                taken.append(entry)
                continue
            first, last = span(entry, index)
            axis = base.shape[sum(e is not None for e in taken)]
            is_whole = first == 1 and last in (None, axis)
            taken.append(slice(None) if is_whole else slice(subtract(first, 1), last))
        chosen = indexing.getitem(base, tuple(taken))
        letters = iter(ascii_letters)
        names: dict[str, str] = {}
        labels: list[str] = []
        for entry, index in zip(entries, running, strict=True):
            if index is not None:
                labels.append(names.setdefault(index, "") or next(letters))
                names[index] = labels[-1]
            elif not isinstance(entry, int):
                labels.append(next(letters))
        labels += [next(letters) for _ in range(chosen.ndim - len(labels))]
        own = [label for label in labels if label not in names.values()]
        return self._variable(
            arrays.einsum(f"{''.join(labels)}->{''.join([*names.values(), *own])}", chosen), tuple(names)
        )

    def _variable(self, tensor: Expr, indices: tuple[str, ...]) -> Expr:
        for known, found in self.entries.items():
            if found == (tensor, indices):
                return known
        made = construct.variable(f"entry_{len(self.entries)}_of_{tensor.digest.hex()}", tensor.shape[len(indices) :])
        self.entries[made] = (tensor, indices)
        return made

    def along(self, term: Expr, index: str, size: Size) -> Expr:
        """A term for all values of an index, whose axis comes first."""
        values: dict[Expr, Expr] = {}
        for variable in variables(term):
            if variable in self.entries and index in self.entries[variable][1]:
                tensor, indices = self.entries[variable]
                at, rest = indices.index(index), tuple(name for name in indices if name != index)
                moved = arrays.moveaxis(tensor, at, len(rest))
                values[variable] = self._variable(moved, rest) if rest else moved
        return along(term, values, size)


def along(expr: Expr, values: Mapping[Expr, Expr], size: Size) -> Expr:
    """An expression for all places of a new first axis: `values` has what some variables are along it."""
    done: dict[Expr, tuple[Expr, bool]] = {}
    for node in topological([expr]):
        below = [done[child] for child in node.children]
        if node in values:
            done[node] = values[node], True
        elif any(has_axis for _, has_axis in below):
            done[node] = _along(node, below, size), True
        else:
            done[node] = node, False
    found, has_axis = done[topological([expr])[-1]]
    return found if has_axis else _spread(found, size)


def _along(node: Expr, below: list[tuple[Expr, bool]], size: Size) -> Expr:
    """A node with some children that have the axis."""
    match node:
        case Einsum():
            new = len(node.sizes)
            factors = [
                (child, (new, *labels) if has_axis else labels)
                for (child, has_axis), labels in zip(below, node.labels, strict=True)
            ]
            sizes = {**dict(enumerate(node.sizes)), new: size}
            return construct.einsum(node.coefficient, factors, (new, *node.output), sizes)
        case Add():
            return arrays.add(*(child if has_axis else _spread(child, size) for child, has_axis in below))
        case Map():
            return construct.map_(node.function, [child if has else _spread(child, size) for child, has in below])
        case Apply():
            batch = [
                (0,) * has_axis + tuple(label + 1 for label in labels)
                for (_, has_axis), labels in zip(below, node.batch, strict=True)
            ]
            return construct.apply(node.function, [child for child, _ in below], batch)
    raise TypeError(type(node))


def _spread(expr: Expr, size: Size) -> Expr:
    """The same for all places of a new first axis."""
    labels = tuple(range(1, expr.ndim + 1))
    return construct.einsum(1, [(expr, labels)], (0, *labels), {0: size, **dict(zip(labels, expr.shape, strict=True))})

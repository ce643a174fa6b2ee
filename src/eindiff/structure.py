"""Compressed results: a sum of terms, each a product of small arrays with a pattern that says where its entries go.

The Hessian of a matrix factorization is `jk->ijik` of one k×k core: the identity along i is never formed. The one of a
net by its first layer is `bj,bkl,bm->jkml`: the product is left factored, because that is smaller and faster to use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eindiff import construct
from eindiff import sizes as sz
from eindiff.errors import shape_text
from eindiff.evaluate import expand, sum_of_products
from eindiff.expr import Add, Einsum, Expr, Number, is_contraction, is_index_map
from eindiff.labels import Labels, subscripts
from eindiff.order import inner_factors
from eindiff.paths import contraction_path, path_flops
from eindiff.sizes import Size

EXACT = 6  # tensors that are multiplied in the best order; more are in a good one
Factor = tuple[Expr, Labels]


@dataclass(frozen=True, slots=True)
class Pattern:
    """`coefficient * product of factors`, summed over what the output does not have; a label there twice is a delta."""

    coefficient: Number
    factors: tuple[Factor, ...]
    output: Labels
    sizes: dict[int, Size]


@dataclass(slots=True)
class Term:
    """A pattern with arrays for its factors."""

    coefficient: float
    arrays: tuple[np.ndarray, ...]
    labels: tuple[Labels, ...]
    output: Labels
    sizes: dict[int, int]

    @property
    def subscripts(self) -> str:
        """The pattern in the notation of einsum."""
        return subscripts(self.labels, self.output, "abcdefghijklmnopqrstuvwxyz")

    def to_dense(self) -> np.ndarray:
        """The array of its full shape."""
        bound = {label for labels in self.labels for label in labels}
        core = tuple([label for label in dict.fromkeys(self.output) if label in bound])
        value = sum_of_products(list(zip(self.arrays, self.labels, strict=True)), core, self.sizes)
        return expand(self.coefficient * value, core, self.output, self.sizes)


class Compressed:
    """A tensor as a sum of terms, none of which is written out."""

    __slots__ = ("shape", "terms")

    def __init__(self, shape: tuple[int, ...], terms: Sequence[Term]) -> None:
        self.shape = shape
        self.terms = tuple(terms)

    @property
    def nbytes(self) -> int:
        """The bytes of all different arrays in it."""
        return sum({id(x): x.nbytes for term in self.terms for x in term.arrays}.values())

    @property
    def dtype(self) -> np.dtype:
        """The type of the entries."""
        return np.result_type(*(x.dtype for term in self.terms for x in term.arrays), np.float32)

    def to_dense(self) -> np.ndarray:
        """The tensor as one array."""
        total = np.zeros(self.shape, self.dtype)
        for term in self.terms:
            total += term.to_dense()
        return total

    def __repr__(self) -> str:
        terms = []
        for term in self.terms:
            cores = ", ".join(shape_text(x.shape) for x in term.arrays)
            terms.append(f"{term.coefficient:g} * {term.subscripts} of {cores}")
        return f"Compressed {shape_text(self.shape)}: {' + '.join(terms) or '0'}"


def decompose(expr: Expr, sizes: Mapping[str, int]) -> list[Pattern]:
    """An expression as patterns with factors that are cheap to store and to multiply with, for the given sizes."""
    return [_pattern(term, sizes) for term in (expr.terms if isinstance(expr, Add) else (expr,))]


def _pattern(term: Expr, sizes: Mapping[str, int]) -> Pattern:
    if not isinstance(term, Einsum):
        axes = tuple(range(term.ndim))
        return Pattern(1, ((term, axes),), axes, dict(enumerate(term.shape)))
    label_sizes: dict[int, Size] = dict(enumerate(term.sizes))
    factors: list[Factor] = []
    for operand, labels in zip(term.operands, term.labels, strict=True):
        if is_contraction(operand) and len(set(labels)) == len(labels):
            factors += inner_factors(operand, labels, label_sizes)
        else:
            factors.append((operand, labels))
    groups = [[factor] for factor in factors]
    if any(is_index_map(x) for x, _ in factors):
        groups = [factors]
    known = {label: sz.evaluate(size, sizes) for label, size in label_sizes.items()}
    groups = _merged(groups, term.output, known)
    merged = tuple([_product(group, groups, term.output, label_sizes) for group in groups])
    return Pattern(term.coefficient, merged, term.output, label_sizes)


def _kept(group: Sequence[Factor], groups: Sequence[Sequence[Factor]], output: Labels) -> Labels:
    """The labels that the product of some factors keeps: those of the output and of the other factors."""
    outside = set(output).union(*(labels for other in groups if other is not group for _, labels in other))
    own = dict.fromkeys(label for _, labels in group for label in labels)
    return tuple(sorted([x for x in own if x in outside], key=lambda x: output.index(x) if x in output else -1))


def _product(group: Sequence[Factor], groups: Sequence[Sequence[Factor]], output: Labels, sizes: dict) -> Factor:
    """The product of some factors as one expression."""
    kept = _kept(group, groups, output)
    if len(group) == 1 and sorted(group[0][1]) == sorted(kept):
        return group[0]
    return construct.einsum(1, list(group), kept, sizes, inline=False), kept


def _merged(groups: list[list[Factor]], output: Labels, sizes: Mapping[int, int]) -> list[list[Factor]]:
    """Factors are multiplied, two or all that share a label, as long as that makes the tensor cheaper to use."""
    best = _use(groups, output, sizes)
    while len(groups) > 1:
        choices = {frozenset(pair) for pair in combinations(range(len(groups)), 2)}
        for label in {x for group in groups for _, labels in group for x in labels}:
            choices.add(frozenset(k for k, group in enumerate(groups) if any(label in labels for _, labels in group)))
        candidates: list[tuple[float, int, list[list[Factor]]]] = []
        for choice in sorted(choices, key=sorted):
            if len(choice) > 1:
                rest = [group for k, group in enumerate(groups) if k not in choice]
                joined = [[factor for k in sorted(choice) for factor in groups[k]], *rest]
                candidates.append((_use(joined, output, sizes), len(candidates), joined))
        cost, _, joined = min(candidates)
        if cost > best:
            break
        best, groups = cost, joined
    return groups


def _use(groups: Sequence[Sequence[Factor]], output: Labels, sizes: Mapping[int, int]) -> float:
    """Operations of a product with the tensor along the last half of its axes, and of reading its factors."""
    half = len(output) // 2
    kept = [_kept(group, groups, output) for group in groups]
    bound = {label for labels in kept for label in labels}
    inputs = [*kept, output[half:]]
    result = tuple([label for label in dict.fromkeys(output[:half]) if label in bound | set(output[half:])])
    path = contraction_path(inputs, result, sizes, "auto" if len(inputs) <= EXACT else "tensor_order")
    return path_flops(inputs, result, sizes, path) + sum(float(np.prod([sizes[x] for x in labels])) for labels in kept)

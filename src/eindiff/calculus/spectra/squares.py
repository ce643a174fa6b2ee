"""Sums of even functions of singular values: they are functions of the eigenvalues of A'A."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.calculus.divided import slope
from eindiff.calculus.spectra.kernels import Kernels, frozen
from eindiff.calculus.spectra.networks import is_equivariant
from eindiff.core import construct
from eindiff.core.coefficients import HALF
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Apply, Einsum, Expr, Variable, is_contraction, topological
from eindiff.core.rebuild import rebuild, substituted, with_children
from eindiff.functions.elementwise import TABLE, power


def in_squares(outputs: Sequence[Expr]) -> list[Expr]:
    """Expressions in which sums of even functions of all singular values are functions of the eigenvalues of A'A.

    These are smooth where A is singular, and there the singular values are not.
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        return _in_squares(made) if is_contraction(made) else made

    return rebuild(outputs, change)


def _in_squares(node: Einsum) -> Expr:
    factors = node.factors
    for label in node.contracted:
        places = [k for k, (_, labels) in enumerate(factors) if label in labels]
        for values in {x for k in places for x in topological([factors[k][0]]) if _is_singular_values(x)}:
            square = _square(values)
            axes = [frozenset(i for i, x in enumerate(factors[k][1]) if x == label) for k in places]
            pairs = list(zip(places, axes, strict=True))
            if square.shape[-1] != values.shape[-1] or not all(
                is_equivariant(factors[k][0], axis, values) for k, own in pairs for axis in own
            ):
                continue
            slot = frozen(values)
            still = [Kernels(values, slot, {}).freeze(factors[k][0], own) for k, own in pairs]
            roots = power(construct.apply(TABLE["eigvals"], (square,)), HALF)
            if (new := _smooth(still, slot, roots)) is not None:
                for k, expr in zip(places, new, strict=True):
                    factors[k] = (expr, factors[k][1])
                return construct.einsum(node.coefficient, factors, node.output, dict(enumerate(node.sizes)))
    return node


def _is_singular_values(node: Expr) -> bool:
    return isinstance(node, Apply) and node.function.name == "svdvals" and node.ndim == 1


def _square(values: Expr) -> Expr:
    """A'A or A A', the smaller one."""
    [matrix] = values.children
    rows, columns = matrix.shape
    wide = isinstance(rows, int) and isinstance(columns, int) and rows < columns
    factors = [(matrix, (0, 2)), (matrix, (1, 2))] if wide else [(matrix, (2, 0)), (matrix, (2, 1))]
    return construct.einsum(1, factors, (0, 1), {0: values.shape[0], 1: values.shape[0], 2: columns if wide else rows})


def _smooth(kernels: Sequence[Expr], slot: Variable, roots: Expr) -> list[Expr] | None:
    """Kernels with roots in the place of values, if no root is left and they are smooth at 0."""
    new = substituted(kernels, {slot: roots})
    if any(node is roots for node in topological(new)):
        return None
    try:  # numbers are folded, and a function outside of its domain is refused
        at_zero = substituted(
            [*kernels, *(slope(kernel, slot) for kernel in kernels)], {slot: construct.filled(0, slot.shape)}
        )
    except EindiffError:
        return None
    return new if at_zero else None

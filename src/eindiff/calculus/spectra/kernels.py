"""Divided differences of functions of eigenvalues, from their structure."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.calculus.divided import divided, divided_base, quotient
from eindiff.calculus.spectra.networks import MARKS
from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, Variable, intern
from eindiff.core.rebuild import with_children
from eindiff.functions.elementwise import exp, log, relu
from eindiff.functions.reductions import prod_function


class UnknownDifferenceError(Exception):
    """There is no divided difference of this expression."""


def frozen(node: Expr) -> Variable:
    """A place holder for a node, which no variable of a user can be."""
    return intern(
        Variable, ("frozen", node.digest), name=str(node), shape=node.shape, properties=frozenset(), symmetries=()
    )


class Kernels:
    """Functions of the eigenvalues (or singular values) of one matrix, whose slots are place holders."""

    def __init__(self, values: Expr, slot: Expr, done: dict[Expr, Expr]) -> None:
        self.values = values
        self.slot = slot
        self.done = done

    def freeze(self, expr: Expr, axes: frozenset[int]) -> Expr:
        """The expression with the place holder for eigenvalues along some axes, and all else as it is closed."""
        if expr is self.values and expr.ndim - 1 in axes:
            return self.slot
        match expr:
            case Map():
                return construct.map_(expr.function, [self.freeze(arg, axes) for arg in expr.args])
            case Add():
                return construct.add([self.freeze(term, axes) for term in expr.terms])
            case Einsum():
                wanted = {expr.output[axis] for axis in axes}
                places = [frozenset(k for k, x in enumerate(labels) if x in wanted) for labels in expr.labels]
                new = [
                    self.freeze(x, at) if at else self.done.get(x, x)
                    for x, at in zip(expr.operands, places, strict=True)
                ]
                return with_children(expr, new)
        return self.done.get(expr, expr)

    def difference(self, expr: Expr, axis: int) -> Expr:
        """(v_a - v_p) / (λ_a - λ_p) along an axis a; p is a new last axis."""
        here, there = both(expr, axis)
        if here is there:
            return construct.filled(0, here.shape)
        match expr:
            case Variable() if expr is self.slot:
                return construct.filled(1, here.shape)
            case Map():
                return self._of_map(expr, axis)
            case Add():
                return construct.add([self.difference(term, axis) for term in expr.terms])
            case Einsum():
                return self._of_product(expr, axis)
            case Apply() if expr.function.name in MARKS and expr.args[0] in (self.slot, self.values):
                return construct.filled(0, here.shape)
            case Apply() if expr.function.name == "prod" and expr.ndim == 1 and expr.args[0] is self.values:
                return -construct.apply(prod_function(2), expr.args)  # (Π/λ_a - Π/λ_p) / (λ_a - λ_p)
        raise UnknownDifferenceError

    def _of_map(self, node: Map, axis: int) -> Expr:
        function, args = node.function, list(node.args)
        if function.name == "power":
            return self.difference(exp(args[1] * log(args[0])), axis)
        if function.name == "maximum":
            return self.difference(relu(args[0] - args[1]) + args[1], axis)
        pairs = [both(arg, axis) for arg in args]
        terms = []
        for k, arg in enumerate(args):
            here, there = pairs[k]
            if here is there:
                continue
            if function.series is not None or function.name == "pow":
                one = quotient(function, here, there)
            elif (inner := divided_base(function)) is not None:
                one = divided(inner, [*(q for _, q in pairs[:k]), here, there, *(p for p, _ in pairs[k + 1 :])])
            else:
                raise UnknownDifferenceError
            terms.append(one * self.difference(arg, axis))
        return construct.add(terms)

    def _of_product(self, node: Einsum, axis: int) -> Expr:
        """Leibniz: factors before the one that is differenced are at p, those after it at a."""
        label, new = node.output[axis], len(node.sizes)
        if node.output.count(label) > 1:
            raise UnknownDifferenceError
        sizes = dict(enumerate((*node.sizes, node.sizes[label])))
        factors = node.factors
        return construct.add([
            construct.einsum(node.coefficient, one, (*node.output, new), sizes)
            for one in self.differences(factors, label, new)
        ])  # fmt: skip

    def differences(self, factors: Sequence[Factor], label: int, new: int) -> list[list[Factor]]:
        """The divided difference of a product along a label, as a sum of products."""
        result = []
        for k, (expr, labels) in enumerate(factors):
            if label not in labels:
                continue
            if labels.count(label) > 1:
                raise UnknownDifferenceError
            slope = self.difference(expr, labels.index(label))
            if not construct.is_zero(slope):
                before = [(x, tuple([new if y == label else y for y in own])) for x, own in factors[:k]]
                result.append([*before, (slope, (*labels, new)), *factors[k + 1 :]])
        return result


def both(expr: Expr, axis: int) -> tuple[Expr, Expr]:
    """The expression with one axis more at the end: along it nothing changes, or what did along `axis`."""
    labels, new = tuple(range(expr.ndim)), expr.ndim
    sizes = dict(enumerate((*expr.shape, expr.shape[axis])))
    there = tuple([new if label == axis else label for label in labels])
    return tuple(construct.einsum(1, [(expr, own)], (*labels, new), sizes) for own in (labels, there))  # type: ignore

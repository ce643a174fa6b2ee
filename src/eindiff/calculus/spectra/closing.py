"""Contractions over eigenvalues closed before a sweep, and opened after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_

from eindiff.calculus.spectra.joints import JointTerm, joint_terms
from eindiff.calculus.spectra.kernels import Kernels, UnknownDifferenceError, frozen
from eindiff.calculus.spectra.networks import SPECTRAL, Columns, Joint, SpectralNetwork, is_equivariant, joint_at
from eindiff.calculus.spectra.squares import in_squares
from eindiff.core import construct
from eindiff.core.coefficients import HALF
from eindiff.core.function import Function
from eindiff.core.labels import Labels, fresh_labels
from eindiff.core.nodes import Apply, Expr, Variable, is_contraction, topological
from eindiff.core.rebuild import rebuild, with_children


class Closing:
    """Expressions whose contractions over eigenvalues are closed, and how these are opened again."""

    def __init__(self, outputs: Sequence[Expr]) -> None:
        self.columns = Columns()
        self.done: dict[Expr, Expr] = {}
        self.held: dict[Expr, Expr] = {}  # what place holders hold
        outputs = in_squares(outputs)
        for node in topological(outputs):
            self.done[node] = self._closed(node)
        self.outputs = [self.done[output] for output in outputs]

    def opened(self, results: Sequence[Expr]) -> list[Expr]:
        """Expressions with all that is closed open again."""
        new: dict[Expr, Expr] = {}
        for node in topological(results):
            children = [new[child] for child in node.children]
            is_closed = isinstance(node, Apply) and node.function.name == "closed"
            if is_closed or node in self.held:
                new[node] = children[-1] if is_closed else self.held[node]
            else:
                new[node] = with_children(node, children)
        return settled([new[result] for result in results])

    def _closed(self, node: Expr) -> Expr:
        if is_contraction(node):
            networks = self.columns.networks(node)
            if any(joint_at(network, label) for network in networks for label in network.sizes):
                return construct.add([self._network(network) for network in networks])
        return with_children(node, [self.done[child] for child in node.children])

    def _hold(self, node: Expr) -> Variable:
        holder = frozen(node)
        self.held[holder] = node
        return holder

    def _network(self, network: SpectralNetwork) -> Expr:
        """The network with place holders, and its derivative by the matrices beside it."""
        labels = sorted(set(network.sizes) - set(network.output))
        joints = [joint for joint in (joint_at(network, label) for label in labels) if joint is not None]
        while joints:
            still = self._frozen(network, joints)
            terms: dict[tuple[Expr, bool], list[JointTerm]] = {}
            for joint in joints:
                key = (self.done[joint.matrix], joint.family.function.name == "eigvals")
                try:
                    terms.setdefault(key, []).extend(joint_terms(still, joint, self._hold))
                except UnknownDifferenceError:
                    joints = [other for other in joints if other is not joint]
                    break
            else:
                return closed(still, {key: own for key, own in terms.items() if own})
        return replace(network, factors=[(self.done.get(x, x), own) for x, own in network.factors]).build()

    def _frozen(self, network: SpectralNetwork, joints: Sequence[Joint]) -> SpectralNetwork:
        factors = list(network.factors)
        for joint in joints:
            kernels = Kernels(joint.family, self._hold(joint.family), self.done)
            for k in joint.legs:
                factors[k] = (self._hold(network.factors[k][0]), factors[k][1])
            for k in joint.kernels:
                expr, labels = factors[k]
                axes = frozenset(axis for axis, label in enumerate(labels) if label == joint.label)
                factors[k] = (kernels.freeze(expr, axes), labels)
        return replace(network, factors=[(self.done.get(x, x), labels) for x, labels in factors])


def closed(network: SpectralNetwork, terms: dict[tuple[Expr, bool], list[JointTerm]]) -> Expr:
    """A node with the value of a network, and by each matrix, symmetric or not, the derivative that the terms say."""
    value = network.build()
    return construct.apply(closed_function(value, terms), [*(matrix for matrix, _ in terms), value]) if terms else value


def closed_function(value: Expr, terms: dict[tuple[Expr, bool], list[JointTerm]]) -> Function:
    """A function of matrices and of a value that gives the value, with derivatives by the matrices."""
    matrices, symmetric = [matrix for matrix, _ in terms], [flag for _, flag in terms]

    def pushforward(node: Apply, index: int, tangent: Expr) -> Expr:
        if index == len(matrices):
            return tangent
        matrix = matrices[index]
        tangent = _symmetrized(tangent, matrix, 0) if symmetric[index] else tangent
        new = _beside(terms, tangent.ndim - matrix.ndim)
        more = dict(zip(new, tangent.shape[matrix.ndim :], strict=True))
        return construct.add([
            construct.einsum(
                term.network.coefficient, [*term.network.factors, (tangent, term.direction + new)],
                term.network.output + new, term.network.sizes | more, inline=False,
            )
            for term in terms[matrix, symmetric[index]]
        ])  # fmt: skip

    def pullback(node: Apply, index: int, bar: Expr) -> Expr:
        if index == len(matrices):
            return bar
        matrix = matrices[index]
        seed = _beside(terms, bar.ndim - value.ndim)
        more = dict(zip(seed, bar.shape, strict=False))
        result = construct.add([
            construct.einsum(
                term.network.coefficient, [*term.network.factors, (bar, seed + term.network.output)],
                seed + term.direction, term.network.sizes | more, inline=False,
            )
            for term in terms[matrix, symmetric[index]]
        ])  # fmt: skip
        return _symmetrized(result, matrix, len(seed)) if symmetric[index] else result

    return Function(
        "closed", lambda *args: args[-1], parameter=value.digest, core=(*(m.ndim for m in matrices), value.ndim),
        output=lambda *shapes: shapes[-1], pushforward=pushforward, pullback=pullback,
        maker=(closed_function, (value, terms)),
    )  # fmt: skip


def _beside(terms: dict[tuple[Expr, bool], list[JointTerm]], count: int) -> Labels:
    """Labels that no network of the terms has."""
    return fresh_labels(count, *(term.network.sizes for own in terms.values() for term in own))


def _symmetrized(x: Expr, matrix: Expr, start: int) -> Expr:
    """The part of a direction that eigenvalues see, those of (A + A')/2. Axes of the matrix are from `start` on."""
    if construct.transpose_core(matrix) is matrix:
        return x
    axes = list(range(x.ndim))
    end = start + matrix.ndim
    axes[end - 2], axes[end - 1] = end - 1, end - 2
    return construct.scale(HALF, construct.add([x, construct.transpose(x, axes)]))


# Marks of simple eigenvalues


def settled(outputs: Sequence[Expr]) -> list[Expr]:
    """Expressions without the marks `simple` of sums over all eigenvalues with equal weights for equal eigenvalues."""
    if not any(isinstance(node, Apply) and node.function.name == "simple" for node in topological(outputs)):
        return list(outputs)
    columns = Columns()

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        networks = columns.networks(made) if is_contraction(made) else []
        lighter = [_unmarked(network) for network in networks]
        return made if all(map(is_, networks, lighter)) else construct.add([network.build() for network in lighter])

    return rebuild(outputs, change)


def _unmarked(network: SpectralNetwork) -> SpectralNetwork:
    """A network without the marks that it does not need."""
    needed = []
    for place, (mark, labels) in enumerate(network.factors):
        needed.append(place)
        if not (isinstance(mark, Apply) and mark.function.name == "simple") or labels[-1] in network.output:
            continue
        joint = joint_at(network, labels[-1])
        if (
            joint
            and mark.args[0] is joint.family
            and all(
                is_equivariant(expr, axis, joint.family)
                for expr, own in (network.factors[k] for k in joint.kernels)
                for axis, label in enumerate(own)
                if label == joint.label
            )
        ):
            needed.pop()
    if len(needed) == len(network.factors):
        return network
    return replace(network, factors=[network.factors[place] for place in needed])


def swept(y: Expr, sweep: Callable[[Expr], list[Expr | None]]) -> list[Expr | None]:
    """What a sweep finds for an expression whose contractions over eigenvalues are closed, opened again."""
    if not any(isinstance(node, Apply) and node.function.name in SPECTRAL for node in topological([y])):
        return sweep(y)
    closing = Closing([y])
    found = sweep(closing.outputs[0])
    opened = iter(closing.opened([result for result in found if result is not None]))
    return [None if result is None else next(opened) for result in found]

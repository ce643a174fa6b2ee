"""The chain rule: the pushforward and the pullback of each kind of node, one function a theorem of the paper.

A derivative has the axes of the function first, then those of the variable. In forward mode every node v gets its
pushforward v̇ = ∂v/∂x (axes of v, then of x), in reverse mode its pullback v̄ = ∂y/∂v (axes of y, then of v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from eindiff.calculus.kinks import chain, pullbacks_at_kinks
from eindiff.core import construct
from eindiff.core.construct import Factor, add, einsum
from eindiff.core.labels import Labels, fresh_labels
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Number, plain, topological
from eindiff.core.rewrite import record
from eindiff.core.sizes import Size


class Joined(NamedTuple):
    """An Einsum with other operands, some of which may be products: a node would have their factors."""

    coefficient: Number
    operands: tuple[Expr, ...]
    labels: tuple[Labels, ...]
    output: Labels
    sizes: tuple[Size, ...]

    @property
    def ndim(self) -> int:
        return len(self.output)

    @property
    def factors(self) -> list[Factor]:
        return list(zip(self.operands, self.labels, strict=True))


# Forward mode


def pushforward_multiplication(node: Einsum | Joined, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """Theorem 5: `Ċ = B *_(s2, s1 s4, s3 s4) Ȧ + A *_(s1, s2 s4, s3 s4) Ḃ`, here for any number of operands."""
    sizes = dict(enumerate(node.sizes))
    new = tuple(range(len(sizes), len(sizes) + extra))
    factors = node.factors
    result = []
    for index, (operand, labels) in enumerate(factors):
        if operand in dots:
            sizes.update(zip(new, dots[operand].shape[operand.ndim :], strict=True))
            moved = [*factors[:index], (dots[operand], labels + new), *factors[index + 1 :]]
            result.append(einsum(node.coefficient, moved, node.output + new, sizes, inline=False))
    return result


def pushforward_general(node: Apply, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """Theorem 6: `Ċ = f'(A) *_(s2 s1, s1 s3, s2 s3) Ȧ`, with the batch axes of f in common."""
    result = []
    for index, arg in enumerate(node.args):
        if arg not in dots:
            continue
        along = node.function.pushforward
        if along is not None and (found := along(node, index, dots[arg])) is not NotImplemented:
            result.append(found)
        elif (prime := _general_derivative(node, index)) is not None:
            batch, out, core = _general_labels(node, index)
            new = fresh_labels(extra, batch, out, core)
            sizes = _sizes([(prime, batch + out + core), (dots[arg], node.batch[index] + core + new)])
            factors = [(prime, batch + out + core), (dots[arg], node.batch[index] + core + new)]
            result.append(einsum(1, factors, batch + out + new, sizes, inline=False))
    return result


def pushforward_elementwise(node: Map, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """Theorem 7: `Ċ = f'(A) *_(s1, s1 s2, s1 s2) Ȧ`."""
    own = tuple(range(node.ndim))
    new = tuple(range(node.ndim, node.ndim + extra))
    result = []
    for index, arg in enumerate(node.args):
        prime = node.function.derivatives[index]
        if arg in dots and prime is not None:
            factors = [(prime(*node.args), own), (dots[arg], own + new)]
            result.append(einsum(1, factors, own + new, _sizes(factors), inline=False))
    return result


# Reverse mode

Multiply = Callable[[Number, Sequence[Factor], Labels, dict[int, Size]], Expr]  # what makes a product or a contraction
nested: Multiply = partial(einsum, inline=False)  # contractions in it stay nested, because they are shared


def pullback_multiplication(node: Einsum | Joined, bar: Expr, index: int, multiply: Multiply = nested) -> Expr:
    """Theorem 8: C contributes `C̄ *_(s4 s3, s2, s4 s1) B` to Ā, here with all the other operands for B."""
    sizes = dict(enumerate(node.sizes))
    seed = tuple(range(len(sizes), len(sizes) + bar.ndim - node.ndim))
    sizes.update(zip(seed, bar.shape, strict=False))
    others = [f for k, f in enumerate(node.factors) if k != index]
    factors: list[Factor] = [(bar, seed + node.output), *others]
    return multiply(node.coefficient, factors, seed + node.labels[index], sizes)


def pullback_general(node: Apply, bar: Expr, index: int) -> Expr | None:
    """Theorem 9: C contributes `C̄ *_(s3 s2, s2 s1, s3 s1) f'(A)` to Ā, with the batch axes of f in common."""
    back = node.function.pullback
    if back is not None and (found := back(node, index, bar)) is not NotImplemented:
        return found
    prime = _general_derivative(node, index)
    if prime is None:
        return None
    batch, out, core = _general_labels(node, index)
    seed = fresh_labels(bar.ndim - node.ndim, batch, out, core)
    factors = [(bar, seed + batch + out), (prime, batch + out + core)]
    return einsum(1, factors, seed + node.batch[index] + core, _sizes(factors), inline=False)


def pullback_elementwise(node: Map, bar: Expr, index: int, multiply: Multiply = nested) -> Expr | None:
    """Theorem 10: C contributes `C̄ *_(s2 s1, s1, s2 s1) f'(A)` to Ā."""
    prime = node.function.derivatives[index]
    if prime is None:
        return None
    own = tuple(range(node.ndim))
    seed = tuple(range(node.ndim, bar.ndim))
    factors = [(bar, seed + own), (prime(*node.args), own)]
    return multiply(1, factors, seed + own, _sizes(factors))


def _general_derivative(node: Apply, index: int) -> Expr | None:
    prime = node.function.derivatives[index]
    return None if prime is None else prime(*node.args)


def _general_labels(node: Apply, index: int) -> tuple[Labels, Labels, Labels]:
    """Labels of the batch, of the core of the result, and of the core of the argument."""
    count = node.function.core[index]
    batched = len({label for labels in node.batch for label in labels})
    end = node.ndim + count
    return tuple(range(batched)), tuple(range(batched, node.ndim)), tuple(range(node.ndim, end))


def _sizes(factors: Sequence[Factor]) -> dict[int, Size]:
    return {label: size for node, labels in factors for label, size in zip(labels, node.shape, strict=True)}


# The two sweeps


def depends(outputs: Iterable[Expr], on: Iterable[Expr]) -> tuple[list[Expr], set[Expr]]:
    """All nodes in topological order, and those that depend on one of `on`: places, which are integers, do not."""
    order, found = topological(outputs), set(on)
    for node in order:
        if node not in found and not isinstance(node, Constant) and any(child in found for child in node.children):
            found.add(node)
    return order, found


_THEOREMS = {  # for pushforwards and for pullbacks
    Einsum: ("Theorem 5, pushforward of a multiplication", "Theorem 8, pullback of a multiplication"),
    Apply: ("Theorem 6, pushforward of a general function", "Theorem 9, pullback of a general function"),
    Map: ("Theorem 7, pushforward of an elementwise function", "Theorem 10, pullback of an elementwise function"),
    Add: ("pushforward of a sum", "pullback of a sum"),
}


def pushforwards(y: Expr, x: Expr, seed: Expr) -> dict[Expr, Expr]:
    """Forward mode: `v̇` of every node v of y that depends on x, starting from ẋ = seed."""
    order, active = depends([y], [x])
    dots = swept_forward(order, active, {x: seed}, pushforward)
    for u, bar in pullbacks_at_kinks(y, order, active, [x], unit(y), _forward, _back):
        dots[y] = add([*([dots[y]] if y in dots else []), chain(bar, dots[u], y.ndim)])
    return dots


def swept_forward(
    order: Sequence[Expr], active: set[Expr], seeds: Mapping[Expr, Expr], push: Callable[..., list[Expr]]
) -> dict[Expr, Expr]:
    """Forward mode over nodes in topological order: `v̇` of the active ones, starting from those of some variables."""
    dots = {x: plain(seed) for x, seed in seeds.items()}
    [x, *_] = dots
    extra = dots[x].ndim - x.ndim
    for node in order:
        if node in dots or node not in active:
            continue
        terms = push(node, dots, extra)
        if terms and not construct.is_zero(total := add(terms)):
            dots[node] = total
            record(_THEOREMS[type(node)][0], "pushforward", (node, x), total)
    return dots


def pushforward(node: Expr, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """What the pushforwards of its children contribute to that of a node; `extra` is the order of the variable."""
    match node:
        case Einsum():
            return pushforward_multiplication(node, dots, extra)
        case Map():
            return pushforward_elementwise(node, dots, extra)
        case Apply():
            return pushforward_general(node, dots, extra)
        case Add():
            return [dots[term] for term in node.terms if term in dots]
    return []


def pullbacks(y: Expr, xs: Iterable[Expr], seed: Expr) -> dict[Expr, Expr]:
    """Reverse mode: `v̄` of every node v of y that depends on one of xs, starting from ȳ = seed."""
    y = plain(y)
    order, active = depends([y], xs)
    terms: dict[Expr, list[Expr]] = {y: [seed]}
    for u, bar in pullbacks_at_kinks(y, order, active, xs, seed, _forward, _back):
        terms.setdefault(u, []).append(bar)
    return swept_back(order, active, terms, add, pullback)


def _forward(nodes: Sequence[Expr], x: Expr) -> dict[Expr, Expr]:
    """Derivatives of nodes by x, and of all that they are made of, without what kinks add."""
    return swept_forward(*depends(nodes, [x]), {x: unit(x)}, pushforward)


def _back(y: Expr, xs: Iterable[Expr], seed: Expr | None) -> dict[Expr, Expr]:
    """Reverse mode without what kinks add; without a seed the derivatives of y."""
    y = plain(y)
    return swept_back(*depends([y], xs), {y: [unit(y) if seed is None else seed]}, add, pullback)


def swept_back(
    order: Sequence[Expr], active: set[Expr], terms: dict[Expr, list[Expr]], add: Callable, pullback: Callable
) -> dict[Expr, Expr]:  # fmt: skip
    """Reverse mode over nodes in topological order: `v̄` of the active ones, from the terms that it begins with.

    `add` and `pullback` make the nodes: canonical ones, or those that lay down an order of multiplication.
    """
    bars: dict[Expr, Expr] = {}
    for node in reversed(order):
        if node not in active or node not in terms:
            continue
        bar = bars[node] = add(terms.pop(node))
        if construct.is_zero(bar):
            continue
        for index, child in enumerate(node.children):
            if child in active and (term := pullback(node, bar, index)) is not None:
                terms.setdefault(child, []).append(term)
                record(_THEOREMS[type(node)][1], "pullback", (node, child), term)
    return bars


def pullback(node: Expr, bar: Expr, index: int, multiply: Multiply = nested) -> Expr | None:
    """What a node contributes to the pullback of one of its children."""
    match node:
        case Einsum():
            return pullback_multiplication(node, bar, index, multiply)
        case Map():
            return pullback_elementwise(node, bar, index, multiply)
        case Apply():
            return pullback_general(node, bar, index)
    return bar  # a sum passes its pullback on


def unit(x: Expr) -> Expr:
    """The derivative of a tensor by itself: `-> ijij`, a product that is never formed."""
    labels = tuple(range(x.ndim))
    return einsum(1, [], labels + labels, dict(enumerate(x.shape)))

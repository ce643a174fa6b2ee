"""Derivatives where an absolute value has its kink, and the function of it none.

The derivative of `abs(u)` is `sign(u)`, 0 at 0, and that of `sign(u)` is 0. So the derivative of `abs(u) sign(u)`,
which is u, would be `sign(u)²`: 1, but 0 at 0. What is missing at u = 0 is how the factor of `sign(u)` grows with
`abs(u)` of the same entry: in the derivative of the gradient `2 norm1(x) sign(x)` of `norm1(x)²` that is the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from eindiff.core.construct import add, einsum
from eindiff.core.nodes import Add, Expr, Map

Pullbacks = Callable[[Expr, Iterable[Expr], Expr], dict[Expr, Expr]]


def pullbacks_at_kinks(
    y: Expr, order: Sequence[Expr], active: set[Expr], seed: Expr, pullbacks: Pullbacks
) -> Iterator[tuple[Expr, Expr]]:
    """Each u that moves and has both `sign(u)` and `abs(u)` among the nodes of y, and what its kink adds to ū."""
    pieces = [node for node in order if isinstance(node, Map) and node.function.name in ("abs", "sign")]
    found = {node.args[0]: node for node in pieces if node.function.name == "abs" and node in active}
    for node in pieces:
        if node.function.name == "sign" and (absolute := found.get(node.args[0])) is not None:
            bar = _pullback_at_kink(y, node, absolute, seed, pullbacks)
            if bar is not None:
                yield node.args[0], bar


def _pullback_at_kink(y: Expr, sign: Map, absolute: Map, seed: Expr, pullbacks: Pullbacks) -> Expr | None:
    """`(1 - sign(u)²) ∂²y / ∂sign(u) ∂abs(u)`, where both are at the same entry."""
    if (by_sign := pullbacks(y, [sign], seed).get(sign)) is None:
        return None
    own, sizes = tuple(range(by_sign.ndim)), dict(enumerate(by_sign.shape))
    both = pullbacks(by_sign, [absolute], einsum(1, [], own + own, sizes)).get(absolute)
    if both is None:
        return None
    entry = own[by_sign.ndim - sign.ndim :]
    grown = einsum(1, [(both, own + entry)], own, sizes, inline=False)
    result = [grown]
    for term in grown.terms if isinstance(grown, Add) else (grown,):  # sign(u)³ = sign(u): such terms cancel
        result.append(einsum(-1, [(term, own), (sign, entry), (sign, entry)], own, sizes, inline=False))
    return add(result)


def chain(bar: Expr, dot: Expr, count: int) -> Expr:
    """`v̄ *_(s1 sv, sv s2, s1 s2) v̇`, where s1 are the first `count` axes of v̄."""
    first = tuple(range(bar.ndim))
    last = tuple(range(bar.ndim, count + dot.ndim))
    sizes = dict(zip((*first, *last), (*bar.shape, *dot.shape[bar.ndim - count :]), strict=True))
    return einsum(1, [(bar, first), (dot, first[count:] + last)], first[:count] + last, sizes, inline=False)

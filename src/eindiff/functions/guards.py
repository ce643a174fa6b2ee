"""What programs look at when they run: where digits would be lost they refuse values, and another program is taken.

These functions are their arguments. Only planning makes them (`planning.low_rank`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.nodes import Apply, Expr, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.functions.table import add

ALIKE = 1e3  # times as large as others that entries of one size are at most; conditions are at most that, too
_ELSEWHERE = {
    "cupy": "cp.positive({0})", "jax": "jnp.positive({0})", "torch": "torch.positive({0})",
    "tensorflow": "tf.identity({0})",
}  # fmt: skip


def _same(shape: tuple) -> tuple:
    return shape


def _row(name: str, order: int, flops: Callable[..., float], **more: Any) -> Function:
    return Function(
        name, np.positive, (None,), latex=rf"\operatorname{{{name}}}", core=(order,), output=_same,
        keeps_symmetry=order == 2, flops=flops, **more,
    )  # fmt: skip


_of_vectors = {"numpy": "alike({0})", **_ELSEWHERE}
_alike = add(_row("alike", 1, lambda n: 3 * n, bounds=lambda _, x: x, source=_of_vectors))


@lru_cache(maxsize=16)
def _conditioned(count: int) -> Function:
    """That of one of so many factors, whose conditions multiply."""
    maker, parameter = (_conditioned, (count,)), None if count == 1 else count
    source = {"numpy": "np.positive({0})", **_ELSEWHERE}
    return _row("conditioned", 2, lambda n, _: 8 * n**2, parameter=parameter, maker=maker, source=source)


add(_conditioned(1))


def alike(x: Expr) -> Expr:
    """A vector whose entries are of one size; programs refuse others, since they would lose digits."""
    return construct.apply(_alike, (x,))


def is_alike(x: Expr) -> bool:
    """Whether it is such a vector."""
    return isinstance(x, Apply) and x.function is _alike


def conditioned(matrix: Expr, count: int = 1) -> Expr:
    """A matrix whose condition is no more than that of entries of one size, or the root of that for one of two factors;
    programs refuse others."""
    return construct.apply(_conditioned(count), (matrix,))


def looked_at_everywhere(outputs: Sequence[Expr]) -> list[Expr]:
    """Outputs in which a matrix that is looked at somewhere is so everywhere, so that it cancels with its inverse."""
    known = {node.children[0]: node for node in topological(outputs) if _is_conditioned(node)}

    def change(node: Expr, children: list[Expr]) -> Expr:
        if _is_conditioned(node):
            return node
        found = [known.get(child, child) for child in children]
        made = with_children(node, found, inline=found != list(node.children))
        return known.get(node, made)

    return [known.get(x, x) for x in rebuild(outputs, change)] if known else [*outputs]


def _is_conditioned(x: Expr) -> bool:
    return isinstance(x, Apply) and x.function.name == "conditioned"

"""Opaque functions: pieces of a program that have no constructor.

Their library computes and differentiates them, and a derivative is an opaque function again; so there are derivatives
of any order, and never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import Any

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.nodes import Apply, Expr
from eindiff.core.recent import once
from eindiff.core.sizes import Shape
from eindiff.functions.opaque import REGISTRY

_numbers = count(1)
Product = Callable[..., Expr | None]  # of a place, a direction and the arguments; None: by the Jacobian


def opaque_function(
    stem: str, value: Callable, core: Sequence[int], shape: Shape, derivatives: Sequence[Callable[..., Expr] | None],
    along: Product | None = None, back: Product | None = None,
) -> Function:  # fmt: skip
    """A function of arrays, known to programs by a name that nothing else has; `core` are the axes of its arguments."""
    name = f"{stem}_{next(_numbers)}"
    REGISTRY[name] = value
    work = 20.0 * prod(int(size) for size in shape)
    return Function(
        name, value, tuple(derivatives), core=tuple(core), output=lambda *_: shape, flops=lambda *_: work,
        latex=rf"\operatorname{{{name.replace('_', ' ')}}}",
        pushforward=along and (lambda node, k, dot: _product(along, node, k, dot, node.args[k].ndim)),
        pullback=back and (lambda node, k, bar: _product(back, node, k, bar, node.ndim)),
    )  # fmt: skip


def _product(product: Product, node: Apply, index: int, direction: Expr, ndim: int) -> Any:
    """f' times one direction, by the library, which never forms f'; several directions are multiplied by f'."""
    if direction.ndim != ndim or any(node.batch):
        return NotImplemented
    found = product(index, direction, *node.args)
    return NotImplemented if found is None else found


def made_later(make: Callable[[], Function]) -> Callable[..., Expr]:
    """A function that is made when it is first applied."""
    made = once(make)
    return lambda *args: construct.apply(made(), args)

"""Parts of tensors that are read after a part was written: what was written, or the tensor before that.

PyTorch's functionalization makes an update in place of `x[:2]` a new tensor x, and reads `x[:2]` from that again. As a
graph says so, no entry has to be put into a tensor to be read.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

Read = tuple[int, range, bool]  # an axis, the places along it, and whether it stays an axis


def parts_read(name: str, node: Node) -> list[Read]:
    """The parts of its first argument that an operation gives."""
    args = list(node.args[1:])
    if name in ("split", "split_with_sizes"):
        axis = _axis(node, args[1] if len(args) > 1 else 0)
        size = _size(node, axis)
        steps = [args[0]] * -(-size // args[0]) if isinstance(args[0], int) else args[0]
        ends = [0, *(min(size, sum(steps[: k + 1])) for k in range(len(steps)))]
        return [(axis, range(first, last), True) for first, last in pairwise(ends)]
    return [_part(name, node, args)] if name in ("slice", "select") else []


def last_written(node: Node, part: Read) -> tuple[Node, bool]:
    """The tensor that a part was written from, and True; or the first one that has the same entries there."""
    axis, places, keeps = part
    while (name := _name(node)) in ("slice_scatter", "select_scatter"):
        other, written, kept = _part(name.removesuffix("_scatter"), node, list(node.args[2:]))
        if other != axis:
            break
        if (written, kept) == (places, keeps):
            source: Any = node.args[1]
            return source, isinstance(source, Node)
        if set(written) & set(places):
            break
        before: Any = node.args[0]
        node = before
    return node, False


def _part(name: str, node: Node, args: list[Any]) -> Read:
    axis = _axis(node, args[0] if args else 0)
    if name == "select":
        place = args[1] % _size(node, axis)
        return axis, range(place, place + 1), False
    start, end, step = (*args[1:], None, None, None)[:3]
    return axis, range(*slice(start, end, step).indices(_size(node, axis))), True


def _axis(node: Node, axis: int) -> int:
    return axis % _first(node).ndim


def _size(node: Node, axis: int) -> int:
    return int(_first(node).shape[axis])


def _first(node: Node) -> torch.Tensor:
    first: Any = node.args[0]
    return first.meta["val"]


def _name(node: Node) -> str:
    return getattr(getattr(node.target, "overloadpacket", None), "__name__", "")

"""Constants in formulas: arrays, sizes, and index maps as columns of the identity or entries of an index."""

from __future__ import annotations

from typing import Any

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.index_relations import Given, IndexMap, Lower, SizeOf
from eindiff.core.nodes import Constant, Expr, Variable
from eindiff.core.sizes import Size
from eindiff.text.write.tree import Tree, call, name

_LISTED = 4  # places that are listed rather than counted through


def constant_tree(node: Constant) -> Tree:
    """Literal data, or a structured constant by what defines it."""
    if isinstance(node.value, np.ndarray):
        symmetric = node.ndim == 2 and ((1, 0), 1) in node.symmetries
        return Tree("array", (), _tuples(node.value.tolist()), node.ndim, symmetric)
    if isinstance(node.value, IndexMap):
        return map_tree(node.value)
    if isinstance(node.value, SizeOf):
        return number_of_size(node.value.size)
    assert isinstance(node.value, Lower)
    return call("tril", [call("ones", [size_tree(node.value.size)] * 2, 2)], 2)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def map_tree(value: IndexMap) -> Tree:
    """An index map as columns of the identity: `eye(n)[:, 1:]`, or the identity in another shape."""
    identity = call("eye", [size_tree(value.size)], 2)
    order = 1 + len(value.inputs)
    if is_reshape(value):
        sizes = [size_tree(size) for size in value.shape]
        return Tree("call", (identity, *sizes), "reshape", order)
    return Tree("indexing", (identity,), (":", entry_text(value)), order)


def is_reshape(value: IndexMap) -> bool:
    """Whether an index map numbers all entries of its inputs in row-major order."""
    expected = [sz.product(value.inputs[k + 1 :]) for k in range(len(value.inputs))]
    affine = value.indices is None and len(expected) > 1 and value.offset == 0
    return affine and list(value.strides) == expected and sz.product(value.inputs) == value.size


def entry_text(chosen: IndexMap) -> str:
    """What an index map is as an entry of an index: a number, a slice, a list, the name of indices, or places."""
    if isinstance(chosen.indices, Given):
        return indices_text(chosen.indices.expr)
    if chosen.indices is not None:
        return str(chosen.index_array({}).tolist())
    if not chosen.inputs:
        from_end = sz.subtract(chosen.offset, chosen.size)
        return str(next((k for k in (chosen.offset, from_end) if isinstance(k, int)), chosen.offset))
    if len(chosen.inputs) == 1 and (text := _slice_text(chosen) or _list_text(chosen)):
        return text
    return _places_text(chosen)


def indices_text(expr: Expr) -> str:
    """Indices that come at run time."""
    return expr.name if isinstance(expr, Variable) else str(expr)


def _slice_text(chosen: IndexMap) -> str | None:
    """The slice that an index map of one input is."""
    [count], [stride] = chosen.inputs, chosen.strides
    first = "" if chosen.offset == 0 else chosen.offset
    if stride == 1:
        last = sz.add(chosen.offset, count)
        return f"{first}:{'' if last == chosen.size else last}"
    if stride == -1 and count == chosen.size:
        return "::-1"
    if not all(isinstance(s, int) for s in (count, stride, chosen.offset, chosen.size)) or stride == 0:
        return None
    last = int(sz.add(chosen.offset, sz.multiply(stride, count)))
    stop = last if 0 <= last < int(chosen.size) else ""
    return f"{first if int(stride) > 0 else chosen.offset}:{stop}:{stride}"


def _list_text(chosen: IndexMap) -> str:
    """The list that an index map of one input is, if that is short and its entries are known."""
    [count], [stride], offset = chosen.inputs, chosen.strides, chosen.offset
    if not (isinstance(count, int) and isinstance(stride, int) and isinstance(offset, int)) or count > _LISTED:
        return ""
    return str([offset + stride * k for k in range(count)])


def _places_text(chosen: IndexMap) -> str:
    """`2*arange(m) + arange(k) + 1`."""
    text = ""
    for stride, count in zip(chosen.strides, chosen.inputs, strict=True):
        negative = isinstance(stride, int) and stride < 0
        factor = str(sz.multiply(-1, stride) if negative else stride)
        factor = f"({factor})*" if " " in factor else "" if factor == "1" else f"{factor}*"
        text += f" {'-' if negative else '+'} {factor}arange({count})"
    offset = str(chosen.offset)
    if chosen.offset != 0 and text.startswith(" - "):
        return offset + text
    text = text.removeprefix(" + ") if text.startswith(" + ") else f"-{text[3:]}"
    if chosen.offset == 0:
        return text
    return f"{text} - {offset[1:]}" if offset.startswith("-") and " " not in offset else f"{text} + {offset}"


def size_tree(size: Size) -> Tree:
    """A size where a number is expected."""
    return name(str(size))


def number_of_size(size: Size) -> Tree:
    """A size as a number in a formula."""
    return name(str(size) if not isinstance(size, str) or size.isidentifier() else f"({size})")

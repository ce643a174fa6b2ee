"""Python's operators on expressions, and the text that they are shown as: installed on the class of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eindiff.core.nodes import Expr
from eindiff.core.representation import to_text
from eindiff.functions.elementwise import abs as absolute
from eindiff.functions.elementwise import greater, power
from eindiff.functions.indexing import getitem, iterate, length, reshape
from eindiff.functions.multilinear import add, divide, matmul, multiply, subtract, transpose


def _reflected(operation: Callable[[Any, Any], Expr]) -> Callable[[Any, Any], Expr]:
    """The operation with its operands exchanged."""
    return lambda a, b: operation(b, a)


def _reshape(a: Expr, *shape: Any) -> Expr:
    """The same entries, in row-major order, with another shape."""
    return reshape(a, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)


for _name, _method in {
    "__add__": add,
    "__radd__": _reflected(add),
    "__sub__": subtract,
    "__rsub__": _reflected(subtract),
    "__mul__": multiply,
    "__rmul__": _reflected(multiply),
    "__truediv__": divide,
    "__rtruediv__": _reflected(divide),
    "__pow__": power,
    "__rpow__": _reflected(power),
    "__matmul__": matmul,
    "__rmatmul__": _reflected(matmul),
    "__neg__": lambda a: multiply(-1, a),
    "__abs__": absolute,
    "__gt__": greater,
    "__lt__": _reflected(greater),
    "__getitem__": getitem,
    "__iter__": iterate,
    "__len__": length,
    "__repr__": lambda a: to_text(a),
    "reshape": _reshape,
    "T": property(transpose, doc="The transpose: all axes in reverse order."),
}.items():
    setattr(Expr, _name, _method)

"""All functions of the language by name, and which of their arguments are no expressions."""

from __future__ import annotations

from eindiff.functions import elementwise
from eindiff.functions.table import Vocabulary
from eindiff.text.read.function_rows import FunctionRow
from eindiff.text.read.syntax import Node
from eindiff.text.read.table_functions import FUNCTIONS, by_row
from eindiff.text.read.table_shapes import SHAPES

TABLE: Vocabulary[FunctionRow] = Vocabulary(FUNCTIONS | SHAPES, elementwise.TABLE, by_row)


def mark_literals(node: Node) -> None:
    """Mark what is no expression below a call, an index or an array, so that inference reads it as sizes."""
    if node.kind == "call" and not node.literal:
        row = TABLE.get(node.value)
        below = [
            arg for k, arg in enumerate(node.args)
            if arg.kind == "keyword" or (row is not None and k >= row.literal)
            or (arg.kind == "text" and node.value == "einsum")
        ]  # fmt: skip
    elif node.kind in ("index", "over"):
        below = node.args[1:]
    elif node.kind == "array":
        below = node.args[:]
    else:
        return
    while below:
        arg = below.pop()
        if not arg.literal:
            arg.literal = True
            below.extend(arg.args)

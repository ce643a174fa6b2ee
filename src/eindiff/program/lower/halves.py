"""Where the entries of matrices are for certain: in their lower or upper half, or next to their diagonals."""

from __future__ import annotations

from eindiff.core.leaves import BANDS
from eindiff.program.operations import Operation, Operations, is_call

_TURNED = {"lower": "upper", "upper": "lower", **{band: band for band in BANDS}, "": ""}


def half(operations: Operations, x: Operation) -> str:
    """The part of a matrix that its entries are in: `lower`, `upper`, `tridiagonal`, `banded`; nothing if not known.

    Halves are kept by products, sums of several and inverses; near the diagonal entries stay in sums, and in products
    less near. Diagonal matrices change none of these.
    """
    if x not in operations.halves:
        operations.halves[x] = _found(operations, x) if len(x.shape) == 2 else ""
    return operations.halves[x]


def _found(operations: Operations, x: Operation) -> str:
    match x.op:
        case "transpose":
            return _TURNED[half(operations, x.operands[0])]
        case "triangle":
            return "lower"
        case "negate" | "scale":
            return half(operations, x.operands[0])
        case "multiply":  # a vector beside it scales columns
            return next(filter(None, (half(operations, y) for y in x.operands)), "")
        case "add":
            return _common(operations, x.operands)
        case "matmul" | "structured_product" | "solve":
            found = _common(operations, x.operands)
            return found if found not in BANDS else "banded" if x.op != "solve" else ""
    if is_call(x, "chol"):
        return "lower"
    inverse = half(operations, x.operands[0]) if is_call(x, "inv") else ""
    return inverse if inverse not in BANDS else ""


def _common(operations: Operations, matrices: tuple[Operation, ...]) -> str:
    found = {half(operations, y) for y in matrices if not _is_diagonal(y)}
    return "banded" if found == BANDS else found.pop() if len(found) == 1 else ""


def _is_diagonal(x: Operation) -> bool:
    """Whether a matrix is made as a diagonal one, or is a multiple of such."""
    if x.op in ("negate", "scale", "multiply"):
        return any(_is_diagonal(y) for y in x.operands)
    return x.op in ("identity", "diagonal_matrix")

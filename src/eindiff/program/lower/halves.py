"""Where the entries of matrices are for certain: in their lower or upper half, next to their diagonals, one in a row.

Products and systems of equations with such matrices have operations of their own.
"""

from __future__ import annotations

from typing import Any

from eindiff.core import sizes as sz
from eindiff.core.leaves import BANDS
from eindiff.core.sizes import Evaluate
from eindiff.planning.contraction_order import ENTRIES_IN_ROW
from eindiff.program.operations import ARITHMETIC, BLAS, LAPACK, Operation, Operations, is_call

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
        case "negate" | "scale" | "divide":
            return half(operations, x.operands[0])
        case "multiply":  # a vector beside it scales columns
            return next(filter(None, (half(operations, y) for y in x.operands)), "")
        case "add":
            return _common(operations, x.operands)
        case "fill":
            return _of_filled(operations, x)
        case "matmul" | "structured_product" | "solve":
            found = _common(operations, x.operands)
            return found if found not in BANDS else "banded" if x.op != "solve" else ""
    if is_call(x, "well_conditioned"):
        return half(operations, x.operands[0])
    if is_call(x, "chol"):
        return "lower"
    inverse = half(operations, x.operands[0]) if is_call(x, "inv") else ""
    return inverse if inverse not in BANDS else ""


def _of_filled(operations: Operations, x: Operation) -> str:
    """That of the matrix that a diagonal one is added to."""
    has_base, _, assignments = x.parameters
    is_diagonal = all(how == "diagonal" for how, *_ in assignments)
    return half(operations, x.operands[0]) if has_base and is_diagonal else ""


def _common(operations: Operations, matrices: tuple[Operation, ...]) -> str:
    found = {half(operations, y) for y in matrices if not _is_diagonal(y)}
    return "banded" if found == BANDS else found.pop() if len(found) == 1 else ""


def _is_diagonal(x: Operation) -> bool:
    """Whether a matrix is made as a diagonal one, or is a multiple of such."""
    if x.op in ("negate", "scale", "multiply"):
        return any(_is_diagonal(y) for y in x.operands)
    return x.op in ("identity", "diagonal_matrix")


def is_permutation(operations: Operations, x: Operation) -> bool:
    """Whether a matrix has one 1 in each row and column, and zeros."""
    if x.op in ("transpose", "matmul", "structured_product"):
        return len(x.shape) == 2 and all(is_permutation(operations, y) for y in x.operands)
    return x in operations.permutations


def without_zeros(operations: Operations, left: Operation, right: Operation) -> tuple[Operation, Operation]:
    """The factors of a product of some rows of a triangle, or of a matrix with three diagonals, without the columns
    that have no entries there; or of some columns of such, without rows: `L[:k] B` is `L[:k, :k] B[:k]`."""
    if (inner := _entries_of_rows(operations, left)) is not None:
        return _part(operations, left, -1, inner), _part(operations, right, 0, inner)
    if (inner := _entries_of_rows(operations, operations.transpose(right))) is not None:
        return _part(operations, left, -1, inner), _part(operations, right, 0, inner)
    return left, right


def _entries_of_rows(operations: Operations, x: Operation) -> tuple[int | None, int | None] | None:
    """The first column in which some rows of a matrix have entries, and the one after the last."""
    rows, axis = (x.operands[0], 1) if x.op == "transpose" else (x, 0)
    if rows.op != "cut" or (rows.parameters[0] != axis and len(rows.shape) == 2) or len(rows.operands[0].shape) != 2:
        return None
    kind = half(operations, rows.operands[0])
    kind = _TURNED.get(kind, "") if rows.parameters[0] == 1 else kind
    start, stop = _first_and_end(rows.parameters[1])
    if kind == "upper":
        return (start, None) if start else None
    if not stop:
        return None
    if kind == "lower":
        return None, stop
    return (max(start - 1, 0) or None, stop + 1) if kind == "tridiagonal" else None


def _first_and_end(cut: Any) -> tuple[int, int]:
    """The first of some rows and the one after the last, if these are known; else 0."""
    if isinstance(cut, int):
        return (cut, cut + 1) if cut >= 0 else (0, 0)
    start, stop, step = cut if isinstance(cut, tuple) else (None, None, 0)
    if not isinstance(start or 0, int) or (start or 0) < 0 or step not in (None, 1):
        return 0, 0
    return start or 0, stop if isinstance(stop, int) and stop > 0 else 0


def _part(operations: Operations, x: Operation, axis: int, part: tuple[int | None, int | None]) -> Operation:
    """What stands at some places along the first or the last axis of a matrix, or of a vector."""
    at = len(x.shape) - 1 if axis else 0
    start, stop = part
    size = sz.subtract(x.shape[at] if stop is None else stop, start or 0)
    shape = (*x.shape[:at], size, *x.shape[at + 1 :])
    return operations.make("cut", [x], (at, (start, stop, None)), shape=shape)


def structured_product(operations: Operations, matrix: Operation, right: Operation, kind: str) -> Operation:
    """A product of a matrix of few entries and a matrix, or a vector."""
    rows, inner = matrix.shape
    times = 2 * ENTRIES_IN_ROW[kind] - 1 if kind in ENTRIES_IN_ROW else inner
    shape = (rows, *right.shape[1:])
    work = sz.product((*shape, times))
    return operations.make("structured_product", [matrix, right], (kind,), shape=shape, speed=BLAS, work=work)


def solution(operations: Operations, matrix: Operation, right: Operation, kind: str) -> Operation:
    """The solution of a system of equations; of a matrix of few entries in less time."""
    n, entries = matrix.shape[0], sz.product(right.shape)

    def work(evaluate: Evaluate) -> float:
        size, count = evaluate(n), evaluate(entries)
        if kind in ENTRIES_IN_ROW:
            return ENTRIES_IN_ROW[kind] ** 2 * count
        return (0 if kind else 2 / 3 * size**3) + (1 if kind else 2) * size * count

    speed = ARITHMETIC if kind in ENTRIES_IN_ROW else LAPACK  # few numbers at a time
    return operations.make("solve", [matrix, right], (kind,), shape=right.shape, work=work, speed=speed)

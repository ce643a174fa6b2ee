"""Operations in a form that compilers make few loops of, and no copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import (
    ARITHMETIC_OPS,
    VIEW_OPS,
    Operation,
    Operations,
    is_reciprocal,
    reachable,
    rewritten,
    with_operands,
)

# What keeps small differences small: others may jump, and are given quotients as they are.
_STEADY_OPS = VIEW_OPS | {
    "array", "full", "repeat", "contiguous", "diagonal_matrix", "concatenate", "put", "balance", "negate", "multiply",
    "divide", "scale", "power", "reciprocal", "raise", "add", "mean", "logistic", "sum", "trace", "matmul", "outer",
    "inner", "einsum", "gram",
}  # fmt: skip
_STEADY_CALLS = frozenset({
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "arctan2", "arcsinh", "sqrt",
    "cbrt", "erf", "erfc", "sigmoid", "softplus", "abs", "relu", "maximum", "gammaln", "digamma", "polygamma",
})  # fmt: skip
WORTH_COMPUTING = 2**16  # entries of a diagonal matrix that is computed again: compilers copy in one thread


def for_compilers(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """The same outputs, which a compiler takes less time for."""
    found = _with_products_along_rows(operations, _with_reciprocals(operations, outputs), costs)
    return _computed_apart(operations, _with_diagonal_alone(operations, found))


def _with_reciprocals(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """Quotients as products with reciprocals: a quotient that is used twice takes a loop of its own, a product none.

    The last bits may differ, so that whatever is rounded or compared is computed as it was written. In single precision
    reciprocals of numbers that are not rare (`exp(88)`) are below the smallest one that compilers keep.
    """
    if operations.single:
        return list(outputs)
    exact: set[Operation] = set()
    for x in reversed(reachable(outputs)):
        if x in exact or not _is_steady(x):
            exact.update(x.operands)

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        if x.op != "divide" or not x.shape or x in exact or is_reciprocal(x):
            return None
        below = operations.make("reciprocal", operands[1:])
        return operations.make("multiply", [operands[0], below], shape=x.shape)

    return rewritten(operations, outputs, change)


def _is_steady(x: Operation) -> bool:
    return x.op in _STEADY_OPS or (x.op == "call" and x.parameters[0] in _STEADY_CALLS)


def _with_products_along_rows(
    operations: Operations, outputs: Sequence[Operation], costs: Costs
) -> list[Operation]:
    """`A' x` as `x A`, and `A' B` with an A' that is stored as such: else the compiler goes along the columns of A, and
    takes 2 to 5 times as long; in single precision for vectors only."""
    order = reachable(outputs)
    uses = Counter([*outputs, *(y for x in order for y in x.operands)])

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        if x.op != "matmul" or x.operands[0].op != "transpose" or len(x.operands[0].shape) != 2:
            return None
        (inner,), right = x.operands[0].operands, operands[1]
        if len(right.shape) == 1 and costs.entries(inner.shape) >= tuning.ALONG_ROWS:
            return operations.matmul(right, operands[0].operands[0])
        is_apart = inner.op in ARITHMETIC_OPS and uses[inner] == uses[x.operands[0]] == 1
        is_large = len(right.shape) == 2 and costs.evaluate(x.work) >= tuning.ALONG_ROWS
        if operations.single or not is_apart or not is_large:
            return None
        rows = operations.make("contiguous", operands[:1], ("apart",), shape=x.operands[0].shape, work=0)
        return operations.matmul(rows, right)

    return rewritten(operations, outputs, change)


def _with_diagonal_alone(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """A diagonal matrix that is all there is, said to be so: few of its entries need be counted as work."""
    match outputs:
        case [Operation(op="diagonal_matrix", operands=operands, shape=shape)]:
            return [operations.make("diagonal_matrix", operands, ("alone",), shape=shape)]
    return list(outputs)


def _computed_apart(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """Outputs of which equal ones are computed again where that takes less time than a copy."""
    result: list[Operation] = []
    for x in outputs:
        result.append((_again(operations, x) or x) if x in result else x)
    return result


def _again(operations: Operations, x: Operation) -> Operation | None:
    """A multiple of a large diagonal matrix, with its own."""
    if x.op in ("negate", "scale", "reshape"):
        inner = _again(operations, x.operands[0])
        return inner and with_operands(operations, x, [inner])
    sizes = [size for size in x.shape if isinstance(size, int)]
    is_small = len(sizes) < 2 or sizes[0] * sizes[1] < WORTH_COMPUTING
    if x.op != "diagonal_matrix" or x.parameters == ("again",) or is_small:
        return None
    return operations.make("diagonal_matrix", x.operands, ("again",), shape=x.shape)

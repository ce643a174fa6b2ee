"""Products of matrices in the form in which BLAS computes them faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eindiff.planning import tuning
from eindiff.program.costs import Costs, missing
from eindiff.program.operations import Operation, Operations, with_operands


def turned(
    outputs: Sequence[Operation], costs: Costs, given: Iterable[Operation] = (), alone: bool = False
) -> list[Operation]:
    """The program with `A B` as `(B' A')'` where B has few columns and A is large, and some rows at a time where B is
    small; small `A B'` with a copy of B'; `A' x` as `x A`, and `x y'` as a product of matrices.

    BLAS works on blocks of some rows by a few columns, and counts rows where arrays of C have columns. It packs what it
    multiplies in an order of its own, unless that is small: then it reads B' along its columns, in 1.3 times the time.
    What is given stays as it is; `alone` says that BLAS has one thread there, however many cores there are.
    """
    own, done = Operations(), {x: x for x in given}
    for x in missing(outputs, done):
        operands = [done[y] for y in x.operands]
        if _is_of_row(x):
            done[x] = own.matmul(operands[1], own.transpose(operands[0]))
        elif _is_thin(x, costs):
            product = own.matmul(*[own.transpose(y) for y in reversed(operands)])
            done[x] = own.make("contiguous", [own.transpose(product)], shape=x.shape, work=0)
        elif _reads_columns(x, costs):
            rows = own.make("contiguous", operands[1:], shape=x.operands[1].shape, work=0)
            done[x] = own.matmul(operands[0], rows)
        elif _is_tall(x, costs):
            done[x] = own.make("matmul", operands, (alone,), shape=x.shape, work=x.work, speed=x.speed)
        elif x.op == "outer" and _has_short_rows(x, costs):
            done[x] = own.make("outer", operands, (True,), shape=x.shape)
        else:
            done[x] = x if operands == list(x.operands) else with_operands(own, x, operands)
    return [done[x] for x in outputs]


def _is_of_row(x: Operation) -> bool:
    """Whether it is a product `A' x`, which starts sooner as `x A`."""
    is_product = x.op == "matmul" and [len(y.shape) for y in x.operands] == [2, 1]
    return is_product and x.operands[0].op == "transpose"


def _is_thin(x: Operation, costs: Costs) -> bool:
    """Whether it is a product that is computed faster the other way round."""
    if not _is_of_matrices(x):
        return False
    entries, inner, columns = tuning.THIN_PRODUCT
    rows, terms, few = _sizes(x, costs)
    if not 1 < few <= columns:
        return False
    if x.operands[0].op == "transpose":
        return rows * terms >= tuning.THIN_TRANSPOSED and rows * terms * few > tuning.UNPACKED
    return rows * terms >= entries and terms >= inner


def _reads_columns(x: Operation, costs: Costs) -> bool:
    """Whether it is a small product with a transposed matrix, which is copied in less time than that takes longer."""
    if not _is_of_matrices(x) or x.operands[1].op != "transpose" or _is_square(x):
        return False
    rows, terms, columns = _sizes(x, costs)
    least, fewest = tuning.COPIED
    return rows >= least and fewest <= rows * terms * columns <= tuning.UNPACKED


def _is_tall(x: Operation, costs: Costs) -> bool:
    """Whether it is a product that BLAS would pack, which it need not with some rows at a time."""
    if not _is_of_matrices(x) or _is_square(x):
        return False
    rows, terms, columns = _sizes(x, costs)
    return tuning.BLOCK_ROWS * terms * columns <= tuning.UNPACKED < rows * terms * columns


def _has_short_rows(x: Operation, costs: Costs) -> bool:
    """Whether NumPy's loop along each row of an outer product starts too often; of larger ones, memory decides."""
    return costs.evaluate(x.shape[1]) <= tuning.SHORT_ROWS and costs.entries(x.shape) <= tuning.UNPACKED


def _is_square(x: Operation) -> bool:
    """Whether it is a product `A A'` or `A' A`, of which BLAS computes half."""
    one, other = x.operands
    return any(y.op == "transpose" and y.operands[0] is z for y, z in ((one, other), (other, one)))


def _is_of_matrices(x: Operation) -> bool:
    return x.op == "matmul" and len(x.shape) == 2 and all(len(y.shape) == 2 for y in x.operands)


def _sizes(x: Operation, costs: Costs) -> tuple[int, int, int]:
    """Rows of a product of matrices, terms of the sum in each entry, and columns."""
    rows, terms, columns = map(costs.evaluate, (x.shape[0], x.operands[0].shape[1], x.shape[1]))
    return rows, terms, columns

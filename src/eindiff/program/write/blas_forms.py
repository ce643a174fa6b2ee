"""Products of matrices in the form in which BLAS computes them faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from eindiff.planning import tuning
from eindiff.program.costs import Costs, is_square, missing
from eindiff.program.operations import Operation, Operations, with_operands


def turned(
    outputs: Sequence[Operation], costs: Costs, given: Iterable[Operation] = (), alone: bool = False
) -> list[Operation]:
    """The program with `A B` as `(B' A')'` where B has few columns and A is large, and some rows at a time where B is
    small; small `A B'` with a copy of B'; `A' x` as `x A`, and `x y'`, or a sum of such, as a product of matrices.

    BLAS works on blocks of some rows by a few columns, and counts rows where arrays of C have columns. It packs what it
    multiplies in an order of its own, unless that is small: then it reads B' along its columns, in 1.3 times the time.
    What is given stays as it is; `alone` says that BLAS has one thread there, however many cores there are.
    """
    own, done = Operations(), {x: x for x in given}
    order = missing(outputs, done)
    uses = Counter([*outputs, *(y for x in order for y in x.operands)])
    for x in order:
        if len(outer := _outer_products(x, costs, uses)) > 1:
            done[x] = _sum_of_outer(own, x, outer, done)
        else:
            done[x] = _turned(own, x, [done[y] for y in x.operands], costs, alone)
    return [done[x] for x in outputs]


def _turned(own: Operations, x: Operation, operands: list[Operation], costs: Costs, alone: bool) -> Operation:
    """One operation with new operands, in the form that suits BLAS."""
    if _is_of_row(x):
        return own.matmul(operands[1], own.transpose(operands[0]))
    if _is_thin(x, costs):
        product = own.matmul(*[own.transpose(y) for y in reversed(operands)])
        return own.make("contiguous", [own.transpose(product)], shape=x.shape, work=0)
    if _reads_columns(x, costs):
        rows = own.make("contiguous", operands[1:], shape=x.operands[1].shape, work=0)
        return own.matmul(operands[0], rows)
    if _is_tall(x, costs):
        return own.make("matmul", operands, (alone,), shape=x.shape, work=x.work, speed=x.speed)
    if x.op == "outer" and _has_short_rows(x, costs):
        return own.make("outer", operands, (True,), shape=x.shape)
    return with_operands(own, x, operands)


def _outer_products(x: Operation, costs: Costs, uses: Mapping[Operation, int]) -> list[int]:
    """The places of terms `a b'` in a sum that nothing else needs; not with `b a'`, as both together are symmetric."""
    if x.op != "add" or len(x.shape) != 2 or costs.entries(x.shape) < tuning.OUTER_PRODUCTS:
        return []
    pairs = {y.operands for y in x.operands if y.op == "outer"}
    chosen = [y.op == "outer" and uses[y] == 1 and y.shape == x.shape for y in x.operands]
    return [k for k, y in enumerate(x.operands) if chosen[k] and y.operands[::-1] not in pairs]


def _sum_of_outer(
    own: Operations, x: Operation, outer: Sequence[int], done: Mapping[Operation, Operation]
) -> Operation:  # fmt: skip
    """A sum with some outer products as one product of the matrices that have their vectors as rows."""
    signs = x.parameters

    def rows(place: int) -> Operation:
        vectors = [own.scale(1 if place else signs[k], done[x.operands[k].operands[place]]) for k in outer]
        size = x.shape[place]
        lines = [own.make("expand", [y], (False, True), shape=(1, size)) for y in vectors]
        return own.make("concatenate", lines, (0,), shape=(len(lines), size))

    rest = [(signs[k], done[y]) for k, y in enumerate(x.operands) if k not in outer]
    return own.plus([(1, own.matmul(own.transpose(rows(0)), rows(1))), *rest])


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
    if not _is_of_matrices(x) or x.operands[1].op != "transpose" or is_square(x):
        return False
    rows, terms, columns = _sizes(x, costs)
    least, fewest = tuning.COPIED
    return rows >= least and fewest <= rows * terms * columns <= tuning.UNPACKED


def _is_tall(x: Operation, costs: Costs) -> bool:
    """Whether it is a product that BLAS would pack, which it need not with some rows at a time."""
    if not _is_of_matrices(x) or is_square(x):
        return False
    rows, terms, columns = _sizes(x, costs)
    return tuning.BLOCK_ROWS * terms * columns <= tuning.UNPACKED < rows * terms * columns


def _has_short_rows(x: Operation, costs: Costs) -> bool:
    """Whether NumPy's loop along each row of an outer product starts too often; of larger ones, memory decides."""
    return costs.evaluate(x.shape[1]) <= tuning.SHORT_ROWS and costs.entries(x.shape) <= tuning.UNPACKED



def _is_of_matrices(x: Operation) -> bool:
    return x.op == "matmul" and len(x.shape) == 2 and all(len(y.shape) == 2 for y in x.operands)


def _sizes(x: Operation, costs: Costs) -> tuple[int, int, int]:
    """Rows of a product of matrices, terms of the sum in each entry, and columns."""
    rows, terms, columns = map(costs.evaluate, (x.shape[0], x.operands[0].shape[1], x.shape[1]))
    return rows, terms, columns

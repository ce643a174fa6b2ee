"""What operations cost for known sizes: a model of time, good enough to rank programs, and the bytes they move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from eindiff.core import sizes as sz
from eindiff.core.leaves import TRIANGLES
from eindiff.core.sizes import Size
from eindiff.core.traverse import post_order
from eindiff.planning.tuning import BYTE, CACHE_BYTES, CALL, EACH, OPERATION, REUSED_BYTES, THIN, TRIANGLE, VIEW
from eindiff.program.operations import BLAS, LAPACK, Operation, reachable


def kind_of(size: int) -> int:
    """Sizes of one kind share a program: none, one, and those between powers of two."""
    return size if size < 2 else 1 + size.bit_length()


def range_of_kind(size: int) -> tuple[int, int]:
    """The smallest and the largest size that share a program with one.

    >>> range_of_kind(1), range_of_kind(100)
    ((1, 1), (64, 127))
    """
    return (size, size) if size < 2 else (1 << size.bit_length() - 1, (1 << size.bit_length()) - 1)


class Costs:
    """Sizes bound to numbers."""

    def __init__(self, known: Mapping[str, int], itemsize: int = 8, halves: bool = True) -> None:
        self.known = known
        self.halves = halves  # the library computes half of a product of a matrix and its own transpose
        self.itemsize = itemsize
        ranges = {name: range_of_kind(size) for name, size in known.items()}
        self._ends = [{name: ends[k] for name, ends in ranges.items()} for k in range(2)]
        self.evaluate = lru_cache(maxsize=None)(lambda size: sz.evaluate(size, known))

    def entries(self, shape: Iterable[Size]) -> int:
        """The entries of an array."""
        total = 1
        for size in shape:
            total *= self.evaluate(size)
        return total

    def least(self, size: Size) -> int:
        """The least value of a size among all sizes that share a program with the known ones."""
        if isinstance(size, int):
            return size
        more, less = sz.inequality(size)
        return sz.evaluate(more, self._ends[0]) - sz.evaluate(less, self._ends[1])

    def flops(self, x: Operation) -> float:
        """Operations on numbers."""
        work = x.work(self.evaluate) if callable(x.work) else float(self.evaluate(x.work))
        return work / 2 if self.halves and is_square(x) else work

    def size(self, x: Operation) -> int:
        """The bytes of a result."""
        return self.itemsize * self.entries(x.shape)

    def is_small(self, x: Operation) -> bool:
        """Whether an array takes less time than a call on it, as far as its sizes are known."""
        known = all(isinstance(size, int) or sz.names(size) <= self.known.keys() for size in x.shape)
        return known and self.size(x) < REUSED_BYTES

    def moved(self, x: Operation) -> int:
        """The bytes that are read and written, those of arrays in between as well."""
        if x.cheap or (x.view and x.work == 0):
            return 0
        between = x.parameters[0].moved if x.op == "tiles" else 2 * self.itemsize * self.evaluate(x.scratch)
        return self.size(x) + between + sum(self.size(y) for y in x.operands)

    def seconds(self, x: Operation) -> float:
        """The predicted time of one operation."""
        if x.cheap:
            return VIEW if x.view else 0.0
        if x.op in ("table", "range", "flat"):  # most are made once
            return 0.0
        moved = self.moved(x)
        return CALL * x.calls + self._computing(x) + moved * BYTE[moved < CACHE_BYTES] if moved else VIEW

    def _computing(self, x: Operation) -> float:
        """The predicted time of an operation without its call, and what memory takes."""
        is_half = x.op == "structured_product" and x.parameters[0] in TRIANGLES
        if len(x.shape) >= 2 and (is_half or x.op == "matmul"):
            m, n, k = map(self.evaluate, (*x.shape[-2:], x.operands[0].shape[-1]))
            is_halved = (is_half and n * k >= TRIANGLE**2) or (self.halves and is_square(x))
            return self.products(self.entries(x.shape[:-2]), m, n, k) / (2 if is_halved else 1)
        if x.op in ("solve", "solve_many") and x.speed == LAPACK:  # right sides are products of blocks
            factors = 0.0 if x.op == "solve" and x.parameters[0] else 2 / 3 * self.evaluate(x.shape[0]) ** 3
            return factors * OPERATION[LAPACK] + (self.flops(x) - factors) * OPERATION[BLAS]
        return self.flops(x) * OPERATION[x.speed]

    def products(self, count: int, m: int, n: int, k: int) -> float:
        """The predicted time of a stack of products of m×k and k×n matrices."""
        return count * (EACH + 2 * m * n * k * OPERATION[BLAS] * max(1.0, THIN / max(1, min(m, n))))

    def copy(self, shape: Iterable[Size]) -> float:
        """The predicted time of putting the axes of a large array in another order."""
        return 2 * self.itemsize * self.entries(shape) * BYTE[False]

    def total_and_work(self, outputs: Iterable[Operation]) -> tuple[float, float]:
        """The predicted time of all operations below some outputs, and that without the calls."""
        each = [(x, self.seconds(x)) for x in reachable(outputs)]
        work = [max(0.0, time - CALL * x.calls) for x, time in each if not x.cheap]
        return sum([time for _, time in each]), sum(work)

    def multiplying(self, outputs: Iterable[Operation]) -> float:
        """The second of products and systems only: what works entry by entry, compilers make a few loops of."""
        found = [x for x in reachable(outputs) if x.speed in (BLAS, LAPACK) and not x.cheap]
        return sum([max(0.0, self.seconds(x) - CALL * x.calls) for x in found])

    def total(self, outputs: Iterable[Operation], done: Collection[Operation] = ()) -> float:
        """The predicted time of all operations below some outputs, without those that are done anyway."""
        return sum(self.seconds(x) for x in missing(outputs, done))


def is_square(x: Operation) -> bool:
    """Whether a product is one of matrices `A A'` or `A' A`, of which BLAS computes half."""
    if x.op != "matmul" or len(x.shape) != 2:
        return False
    one, other = x.operands
    return any(y.op == "transpose" and y.operands[0] is z for y, z in ((one, other), (other, one)))


def missing(outputs: Iterable[Operation], done: Collection[Operation]) -> list[Operation]:
    """All operations below some outputs that are not done yet."""
    if not done:
        return reachable(outputs)
    wanted = [x for x in outputs if x not in done]
    return post_order(wanted, lambda x: [y for y in x.operands if y not in done])

"""What operations cost for known sizes: a model of time, good enough to rank programs, and the bytes they move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from eindiff.core import sizes as sz
from eindiff.core.sizes import Size
from eindiff.planning.tuning import BYTE, CACHE_BYTES, CALL, EACH, OPERATION, THIN, VIEW
from eindiff.program.operations import BLAS, Operation, reachable


class Costs:
    """Sizes bound to numbers."""

    def __init__(self, known: Mapping[str, int], itemsize: int = 8) -> None:
        self.known = known
        self.itemsize = itemsize
        self.evaluate = lru_cache(maxsize=None)(lambda size: sz.evaluate(size, known))

    def entries(self, shape: Iterable[Size]) -> int:
        """The entries of an array."""
        total = 1
        for size in shape:
            total *= self.evaluate(size)
        return total

    def flops(self, x: Operation) -> float:
        """Operations on numbers."""
        return x.work(self.evaluate) if callable(x.work) else float(self.evaluate(x.work))

    def size(self, x: Operation) -> int:
        """The bytes of a result."""
        return self.itemsize * self.entries(x.shape)

    def moved(self, x: Operation) -> int:
        """The bytes that are read and written."""
        if x.cheap or (x.view and x.work == 0):
            return 0
        return self.size(x) + sum(self.size(y) for y in x.operands)

    def seconds(self, x: Operation) -> float:
        """The predicted time of one operation."""
        if x.cheap:
            return VIEW if x.view else 0.0
        moved = self.moved(x)
        if moved == 0:
            return VIEW
        if x.op == "matmul" and len(x.shape) >= 2:
            m, n, k = map(self.evaluate, (*x.shape[-2:], x.operands[0].shape[-1]))
            time = self.products(self.entries(x.shape[:-2]), m, n, k)
        else:
            time = self.flops(x) * OPERATION[x.speed]
        return CALL * x.calls + time + moved * BYTE[moved < CACHE_BYTES]

    def products(self, count: int, m: int, n: int, k: int) -> float:
        """The predicted time of a stack of products of m×k and k×n matrices."""
        return count * (EACH + 2 * m * n * k * OPERATION[BLAS] * max(1.0, THIN / max(1, min(m, n))))

    def copy(self, shape: Iterable[Size]) -> float:
        """The predicted time of putting the axes of a large array in another order."""
        return 2 * self.itemsize * self.entries(shape) * BYTE[False]

    def total(self, outputs: Iterable[Operation]) -> float:
        """The predicted time of all operations below some outputs."""
        return sum(self.seconds(x) for x in reachable(outputs))

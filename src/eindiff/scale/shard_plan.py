"""What passes over sharded data cost: bytes that are read, operations of a block, bytes that are added up, and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from eindiff.core import sizes as sz
from eindiff.core.errors import bytes_text, count_text
from eindiff.core.nodes import Expr, variables
from eindiff.core.shown import Text
from eindiff.scale.passes import Passes
from eindiff.scale.work import BlockWork, Work

DISK_SPEED = 1.5e9  # bytes a second, from a disk or from memory that is not in a cache
NETWORK = 1.0e9  # bytes a second, between workers
LATENCY = 1e-3  # seconds for a task, or a message
ITEM = 8


@dataclass(frozen=True, slots=True)
class PassCost:
    """One pass: what is read in all, what a block costs, and what it sends."""

    read: int  # bytes, in all
    flops: float  # of one block
    seconds: float  # of one block, without reading
    reduced: int  # bytes that a block adds to totals


class ShardPlan:
    """The cost of an output over data in blocks: exact in bytes and operations, a model in seconds."""

    def __init__(
        self, index: str, passes: Passes, works: Sequence[BlockWork], final: Work | None, sizes: Mapping[str, int],
        blocks: int,
    ) -> None:  # fmt: skip
        self.index, self.sizes, self.blocks = index, dict(sizes), blocks
        block = {**sizes, index: -(-sizes[index] // max(blocks, 1))}
        self.passes = [
            PassCost(
                sum(_bytes(x, sizes) for x in variables(*one.exprs) if index in x.shape),
                work.work.plan_for(block).flops, work.work.plan_for(block).seconds,
                sum(_bytes(total.part, block) for total in one.totals),
            )
            for one, work in zip(passes.passes, works, strict=True)
        ]  # fmt: skip
        self.final = final.plan_for(sizes) if final is not None else None

    @property
    def read(self) -> int:
        """Bytes that are read in all."""
        return sum(one.read for one in self.passes)

    @property
    def reduced(self) -> int:
        """Bytes that one block sends in all."""
        return sum(one.reduced for one in self.passes)

    @property
    def flops(self) -> float:
        """Operations on numbers in all."""
        return self.blocks * sum(one.flops for one in self.passes) + (self.final.flops if self.final else 0)

    def seconds(self, workers: int = 1) -> float:
        """The predicted time with so many workers, each with its share of the blocks, and a tree that adds up."""
        rounds = -(-self.blocks // workers)
        total = self._adding(workers) + (self.final.seconds if self.final else 0.0)
        for one in self.passes:
            total += rounds * (max(one.read / max(self.blocks, 1) / DISK_SPEED, one.seconds) + LATENCY)
        return total

    def scaling(self, workers: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)) -> dict[int, float]:
        """The predicted time for numbers of workers: strong scaling."""
        return {count: self.seconds(count) for count in workers}

    def plot(self, axis: Any = None) -> Any:
        """Predicted times for 1 to 1,024 workers: with the same data (strong scaling), and with as much for each."""
        axis = axis or import_module("matplotlib.pyplot").subplots(layout="constrained")[1]
        counts = [2**k for k in range(11)]
        axis.loglog(counts, [self.seconds(count) for count in counts], "o-", label="the same data")
        axis.loglog(counts, [self.seconds(1) / self.blocks + self._adding(count) for count in counts], "s-",
                    label="a block a worker")  # fmt: skip
        axis.set(xlabel="workers", ylabel="predicted seconds")
        axis.legend()
        return axis

    def _adding(self, workers: int) -> float:
        """Seconds until the parts of all workers are added up."""
        steps = max(workers - 1, 0).bit_length()
        return sum(steps * (one.reduced / NETWORK + LATENCY) for one in self.passes)

    def explain(self) -> Text:
        """All of it in words."""
        rows = self.sizes[self.index]
        lines = [f"{_several(len(self.passes), 'pass')} over {rows:,} rows in {_several(self.blocks, 'block')}"]
        for number, one in enumerate(self.passes):
            lines.append(
                f"pass {number + 1}: reads {bytes_text(one.read)}; a block takes {count_text(one.flops)} operations "
                f"and adds {bytes_text(one.reduced)}"
            )
        times = ", ".join(f"{seconds:.3g} s on {count}" for count, seconds in self.scaling((1, 8, 64)).items())
        return Text("\n".join([*lines, f"predicted: {times} workers"]))

    def __str__(self) -> str:
        return self.explain()


def _bytes(expr: Expr, sizes: Mapping[str, int]) -> int:
    total = ITEM
    for size in expr.shape:
        total *= sz.evaluate(size, sizes)
    return total


def _several(count: int, what: str) -> str:
    ending = "es" if what.endswith("s") else "s"
    return f"{count} {what}{'' if count == 1 else ending}"

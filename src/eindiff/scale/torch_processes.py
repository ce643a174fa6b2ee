"""Rows that processes of `torch.distributed` have: each computes its part, and one reduction adds the parts up.

A program that runs in one process alone is the case of one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from eindiff.core.libraries import library_of
from eindiff.scale.passes import LOG_SUM, MAXIMUM
from eindiff.scale.work import Arrays, BlockResult, BlockWork


def is_torch(value: Any) -> bool:
    """Whether something is a tensor of PyTorch."""
    return library_of([value]) == "torch"


class Processes:
    """The rows of this process, and the others."""

    library = "torch"

    def __init__(self, arrays: Arrays, axes: Mapping[str, int]) -> None:
        self._torch = import_module("torch")
        self._group = self._torch.distributed if self._torch.distributed.is_available() else None
        self.example = self._arrays = dict(arrays)
        name, place = next(iter(axes.items()))
        self._own = int(arrays[name].shape[place])
        self.count = int(self._reduced("sum", self._torch.tensor(self._own)))

    @property
    def _is_several(self) -> bool:
        return self._group is not None and self._group.is_initialized() and self._group.get_world_size() > 1

    def count_rows(self) -> int:
        """The number of rows of all processes."""
        return self.count

    def run(self, work: BlockWork, whole: Arrays, sizes: Mapping[str, int], what: str) -> BlockResult:
        """One pass: totals are the same in all processes, and outputs with rows stay where they are."""
        values = work.work({**whole, **self._arrays}, {**sizes, work.index: self._own})
        totals = [self._reduced(kind, x) for kind, x in zip(work.reductions, values, strict=False)]
        return BlockResult(totals, [values[len(totals) :]], self.count, 1)

    def _reduced(self, kind: str, x: Any) -> Any:
        if not self._is_several:
            return x
        assert self._group is not None
        if kind == LOG_SUM:
            parts = [self._torch.empty_like(x) for _ in range(self._group.get_world_size())]
            self._group.all_gather(parts, x.contiguous())
            return self._torch.logsumexp(self._torch.stack(parts), 0)
        total = x.detach().clone().contiguous()
        self._group.all_reduce(total, self._group.ReduceOp.MAX if kind == MAXIMUM else self._group.ReduceOp.SUM)
        return total

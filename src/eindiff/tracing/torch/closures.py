"""What a function of tensors sees around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from eindiff.core.recent import Same
from eindiff.tracing.closures import DEPTH, PLAIN, Surroundings


class TorchSurroundings(Surroundings):
    """The key of a function of tensors, which are known by identity: a trace reads their values anew at each call."""

    plain = (*PLAIN, torch.dtype, torch.device)

    def array_key(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (Same(value), tuple(value.shape), value.dtype)
        return super().array_key(value)

    def attributes(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """Of a module not its hooks and tables, which are those of every module, but what they hold."""
        if not isinstance(value, torch.nn.Module):
            yield from super().attributes(value, path, depth)
            return
        inside = min(depth, DEPTH - 2)  # however deep a network is nested
        for name in ("_parameters", "_buffers", "_modules"):
            yield from self.walk(vars(value)[name], path, inside)
        own = {k: v for k, v in vars(value).items() if not k.startswith("_") or k.startswith("__")}
        yield from self.named(own, path, inside)

    @property
    def names(self) -> dict[int, str]:
        """The names of the arrays that the function sees, by their identity."""
        return {key: name for key, (name, _) in self.arrays.items()}

"""PyTorch's own derivatives in the place of programs that would take long to find, until that would have paid.

A net unrolled over many steps has a Hessian of thousands of operations: a call of it takes a tenth of the time of
PyTorch's own, but to find it takes as long as fifty of those. So PyTorch computes it until all its calls together have
taken as long; whoever asks once does not wait, and whoever asks often waits at most twice as long as for the best.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from time import perf_counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from eindiff.core.nodes import Expr, topological
from eindiff.tracing.library import Arguments, Traced
from eindiff.tracing.torch.predicted import Effort, own_memory, own_seconds

DERIVING = {"hvp": 2.5e-3, "hessian": 12e-3}  # seconds to find a program, for each node of the function
LEAST_WORTH = 0.5  # seconds that are worth it
MOST_HELD = 2**28  # that PyTorch may take
TIMES_SOONER = 4  # at least
REVERSE = ("grad", "jacrev")  # modes of a Hessian in which no part of it is lost
TOLERANCES = {torch.float64: 1e-6, torch.float32: 2e-3}  # relative to the largest entry, of central differences


@dataclass(slots=True)
class Allowance:
    """The seconds that all calls of PyTorch's own derivative may still take."""

    seconds: float

    def watched(self, run: Callable[[Arguments, Any], Any]) -> Callable[[Arguments, Any], Any]:
        """A derivative whose calls are taken off."""

        def watched(arguments: Arguments, directions: Any) -> Any:
            start = perf_counter()
            result = run(arguments, directions)
            self.seconds -= perf_counter() - start
            return result

        return watched


def seconds_ahead(kind: str, traced: Traced, directions: int) -> float:
    """The predicted time to find a program, if PyTorch may compute the same meanwhile, and is sooner done; else 0."""
    effort: Effort = traced.effort
    is_lost = effort.is_doubtful and kind != "hessian"  # which is taken in reverse mode twice
    is_unsure = traced.opaque or effort.is_complex or effort.is_scaled or traced.stops.in_reverse or is_lost
    if kind not in DERIVING or is_unsure:
        return 0.0
    ahead = DERIVING[kind] * len(topological([x for x in traced.outputs if isinstance(x, Expr)]))
    is_sooner = TIMES_SOONER * own_seconds(kind, effort, directions) < ahead
    return ahead if ahead > LEAST_WORTH and is_sooner and own_memory(kind, effort, directions) < MOST_HELD else 0.0


class _Attention(TorchFunctionMode):
    """Attention by its definition: kernels that do all of it at once have no second derivative."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if func is torch.nn.functional.multi_head_attention_forward and not kwargs.get("need_weights", True):
            return func(*args, **(kwargs | {"need_weights": True}))[0], None  # which it has from the definition
        return func(*args, **kwargs)


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    options = {"scale": scale, "enable_gqa": enable_gqa}
    return torch._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, **options
    )[0]


def spelled_out_attention(run: Callable[[Arguments, Any], Any]) -> Callable[[Arguments, Any], Any]:
    """A derivative of PyTorch's, with attention by its definition."""

    def spelled_out(arguments: Arguments, directions: Any) -> Any:
        with _Attention():
            return run(arguments, directions)

    return spelled_out


def is_right(
    run: Callable[[Arguments, Any], Any], gradient: Callable, arguments: Arguments, places: Sequence[int], form: Any,
    is_product: bool,
) -> bool:  # fmt: skip
    """Whether PyTorch's second derivative is there, and is what its first one shows by central differences."""
    point = [arguments.leaves[k].detach() for k in places]
    if {x.dtype for x in point} - set(TOLERANCES):
        return False
    size = sqrt(sum(x.numel() for x in point))  # so that a step is short, however many entries move
    along = [torch.cos(torch.arange(1, x.numel() + 1, device=x.device, dtype=x.dtype)).reshape(x.shape) / size
             for x in point]  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            found = pytree.tree_leaves(run(arguments, form.unflatten(along) if is_product else None))
            step = torch.finfo(point[0].dtype).eps ** (1 / 3)
            ends = [_moved(gradient, arguments, places, [x + s * v for x, v in zip(point, along, strict=True)])
                    for s in (step, -step)]  # fmt: skip
    except (RuntimeError, NotImplementedError, UserWarning):  # PyTorch has no rule for it, or does it step by step
        return False
    rows = found if is_product else _products(found, along)
    expected = [(a - b) / (2 * step) for a, b in zip(*ends, strict=True)]
    scale = max(float(x.abs().max()) for x in expected)
    errors = [float((x.detach() - y).abs().max()) for x, y in zip(rows, expected, strict=True)]
    return max(errors) <= TOLERANCES[point[0].dtype] * scale


def _moved(gradient: Callable, arguments: Arguments, places: Sequence[int], point: Sequence[Any]) -> list[Any]:
    """The gradient at another point."""
    leaves = list(arguments.leaves)
    for k, x in zip(places, point, strict=True):
        leaves[k] = x
    args, keywords = arguments.structure.unflatten(leaves)
    return [x.detach() for x in pytree.tree_leaves(gradient(*args, **keywords))]


def _products(blocks: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """The blocks of a Hessian, row by row, times a direction."""
    count = len(along)
    rows = [blocks[k * count : (k + 1) * count] for k in range(count)]
    return [sum(torch.tensordot(x, v, v.ndim) for x, v in zip(row, along, strict=True)) for row in rows]

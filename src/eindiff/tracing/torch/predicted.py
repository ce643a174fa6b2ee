"""How long PyTorch's own derivatives will take: good enough to choose between them and a program.

PyTorch runs one operation after the other, so each has a price, whatever it computes; a derivative takes some for each
operation of the function, and starts with the work of its transformation. What a transformation does at once for many
directions takes their number of times the work, and the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from time import perf_counter
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from eindiff.planning.tuning import CALL, OPERATION
from eindiff.program.plan import Plan

OWN_CALL = 6e-6  # one operation that a program of PyTorch's calls
CALLS_OF_PUT = 16  # that write values at places
MOST_MEMORY = 2.0  # of a program, times that of PyTorch's own derivative
DOUBTFUL, CLEAR = 0.4, 4.0  # times the time of PyTorch's own derivative, as predicted: in between they are measured
CALLS, ENOUGH = 3, 0.05  # calls that are measured, and seconds after which one is enough
LEAST, LEAST_BYTES = 5e-5, 2**18  # of a program that is worth a look at PyTorch's


@dataclass(frozen=True, slots=True)
class Effort:
    """What a plain call of a function takes PyTorch."""

    calls: int
    seconds: float  # besides these calls
    bytes: int  # of all results of operations
    is_complex: bool  # whether there are complex numbers among them
    is_scaled: bool  # whether gradients are scaled, which those of gradients are not
    is_doubtful: bool  # whether PyTorch loses parts of higher derivatives


@dataclass(frozen=True, slots=True)
class _Way:
    """What a transformation takes: a call of it, an operation of the function; and how often it repeats work."""

    start: float
    each: float
    first: float  # times that the work of the function is done
    directions: float = 0.0  # the same for each direction


_REVERSE, _FORWARD = _Way(1.2e-4, 6e-6, 3), _Way(3e-4, 2e-5, 1, 2)
_WAYS = {
    "grad": _REVERSE, "grad_and_value": _REVERSE, "hvp": _Way(2.5e-4, 1.6e-5, 7), "jacfwd": _FORWARD,
    "jacrev": _FORWARD, "hessian": _Way(1e-3, 8e-5, 3, 5), "hessian_diagonal": _Way(1e-3, 8e-5, 3, 7),
    "value_grad_hessian": _Way(1.2e-3, 9e-5, 7, 5),
}  # fmt: skip


def effort(graph: torch.fx.Graph) -> Effort:
    """What the operations of a graph take."""
    nodes = [node for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    is_complex = any(x.is_complex() for node in nodes for x in _tensors(node))
    names = {str(node.target) for node in nodes}
    is_scaled = any("scaled_in_reverse" in name for name in names)
    is_doubtful = any("_norm" in name and "linalg" not in name for name in names)
    return Effort(len(nodes), sum(map(_seconds, nodes)), sum(map(_bytes, nodes)), is_complex, is_scaled, is_doubtful)


def is_worth_a_look(kind: str, plan: Plan, is_own: bool) -> bool:
    """Whether a program takes so much that PyTorch's own derivative may take less."""
    return kind in _WAYS and (_time(plan, is_own) > LEAST or plan.peak > LEAST_BYTES)


def times_longer(kind: str, plan: Plan, is_own: bool, own: Effort, directions: int) -> float:
    """How many times as long as PyTorch's derivative a program takes, infinite if it takes clearly more memory;
    `is_own`: it calls PyTorch too."""
    size = own_memory(kind, own, directions)
    is_larger = plan.peak > max(LEAST_BYTES, MOST_MEMORY * (size + plan.result_bytes))
    return inf if is_larger else _time(plan, is_own) / own_seconds(kind, own, directions)


def own_seconds(kind: str, own: Effort, directions: int) -> float:
    """The time of PyTorch's derivative."""
    way = _WAYS[kind]
    return way.start + way.each * own.calls + (way.first + way.directions * directions) * own.seconds


def own_memory(kind: str, own: Effort, directions: int) -> float:
    """The bytes that PyTorch's derivative takes."""
    way = _WAYS[kind]
    return max(1.0, (way.first + way.directions * directions) / 2) * own.bytes


def timed(call: Callable[[], Any], calls: int) -> tuple[float, Any]:
    """The shortest of some calls, as long as they are short, and the result."""
    best = inf
    for _ in range(calls):
        start = perf_counter()
        result = call()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        best = min(best, perf_counter() - start)
        if best > ENOUGH:
            break
    return best, result


def _time(plan: Plan, is_own: bool) -> float:
    calls = sum(CALLS_OF_PUT if step.text.startswith("put(") else 1 for step in plan.steps)
    return plan.seconds + (OWN_CALL * calls - CALL * len(plan.steps)) * is_own


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(node.meta.get("val")) if isinstance(x, torch.Tensor)]


def _bytes(node: torch.fx.Node) -> int:
    return sum(x.numel() * x.element_size() for x in _tensors(node))


def _seconds(node: torch.fx.Node) -> float:
    """The work of one operation: products by their terms, factorizations by their rows, all else by entries."""
    target: Any = node.target
    made = sum(x.numel() for x in _tensors(node))
    packet = target.overloadpacket
    if packet in flop_registry:
        args, named = pytree.tree_map_only(torch.fx.Node, lambda x: x.meta.get("val"), (node.args, node.kwargs))
        return flop_registry[packet](*args, **named, out_val=node.meta.get("val")) * OPERATION["blas"]
    if "linalg" in packet.__name__ or "cholesky" in packet.__name__:
        rows = max((prod(x.shape[-1:]) for y in node.all_input_nodes for x in _tensors(y)), default=1)
        return made * rows * 4 * OPERATION["lapack"]
    return made * 4 * OPERATION["arithmetic"]

"""Primitives that call other programs: compiled functions, custom derivatives and branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from eindiff.core.nodes import Expr
from eindiff.tracing.jax.jaxpr import Handler, TracedEquation, Value
from eindiff.tracing.jax.loops import scan, while_loop
from eindiff.tracing.jax.refusals import JAX_SOURCE
from eindiff.tracing.unsupported import Unsupported


def _closed(params: Any) -> Any:
    return params.get("jaxpr", params.get("call_jaxpr", params.get("fun_jaxpr")))


def _library_name(closed: Any) -> str:
    """The name of a function, if it is one of JAX's own."""
    info = getattr(closed, "jaxpr", closed).debug_info
    return info.func_name if info is not None and (info.func_filename or "").startswith(JAX_SOURCE) else ""


def _inline(step: TracedEquation, args: tuple[Value, ...]) -> list[Value]:
    return step.trace.run_body(_closed(step.params), args)


def call(step: TracedEquation, *args: Value) -> list[Value]:
    """A function that is called as it is; some of JAX's own are known by name."""
    name, library = _library_name(_closed(step.params)), step.trace.tables.library
    if name in library and any(isinstance(x, Expr) for x in args):
        step.check_shapes()
        try:
            result = library[name](step, *args)
            return list(result) if isinstance(result, tuple) else [result]
        except Unsupported:
            pass
    return _inline(step, args)


def custom_call(step: TracedEquation, *args: Value) -> list[Value]:
    """A function with a derivative of its own, which may be another than that of its value: it is left to JAX.

    Only those of JAX's own that are known by name are taken for what they are.
    """
    if not step.trace.depends(*args):
        return _inline(step, args)
    if _library_name(_closed(step.params)) not in step.trace.tables.library:
        raise Unsupported
    return call(step, *args)


def cond(step: TracedEquation, which: Value, *args: Value) -> list[Value]:
    """A choice between programs that is known; others are left to JAX, which runs one branch only."""
    branches = step.params["branches"]
    index = int(np.clip(step.trace.known(which), 0, len(branches) - 1))
    return step.trace.run_body(branches[index], args)


def platform_index(step: TracedEquation) -> list[Value]:
    """Which of several ways to compute the same is taken: the last one, which is for all platforms."""
    return [np.int32(len(step.params["platforms"]) - 1)]


CALLS: dict[str, Handler] = {
    **dict.fromkeys(
        ("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "core_closed_call",
         "custom_lin", "xla_call", "run_state"),
        call,
    ),
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"), custom_call),
    "scan": scan,
    "while": while_loop,
    "cond": cond,
    "platform_index": platform_index,
}  # fmt: skip

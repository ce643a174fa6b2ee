"""What derivatives cost at given sizes: the plan that compiling them would follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eindiff.apps.page.work import derivatives
from eindiff.calculus.derive import MODES, derivative
from eindiff.core.nodes import Expr, size_names
from eindiff.program.plan import Plan, plan

TYPICAL = {"m": 1000, "n": 100, "k": 10, "p": 20, "r": 10, "h": 50}


def typical_sizes(names: Iterable[str], given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Values of named sizes: those given, and guesses."""
    return {name: (given or {}).get(name, TYPICAL.get(name, 100)) for name in sorted(names)}


def cost(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The model `Cost`."""
    reading, result = derivatives(ask)
    outputs = [block.arranged.expr for block in result.blocks]
    sizes = typical_sizes(size_names(reading.function, *outputs, *(x for b in result.blocks for x in b.by)),
                          ask.get("sizes"))  # fmt: skip
    made = plan(outputs, sizes)
    by = [block.by for block in result.blocks]
    return {
        "sizes": sizes,
        **_totals(made),
        "result_bytes": float(made.result_bytes),
        "seconds": made.seconds,
        "function_flops": plan(reading.function, sizes).flops,
        "highest_order": made.largest_order,
        "steps": _steps(made),
        "modes": [
            {"mode": mode, **_totals(plan(_all(reading.function, by, mode, ask), sizes))}
            for mode in MODES
            if mode != "auto" and any(by)
        ],
    }


def _all(function: Expr, by: list[tuple], mode: str, ask: Mapping[str, Any]) -> list[Expr]:
    convention = ask.get("symmetric", "projected")
    return [derivative(function, *xs, mode=mode, symmetric=convention) if xs else function for xs in by]


def _totals(made: Plan) -> dict[str, float]:
    return {"flops": float(made.flops), "bytes": float(made.bytes), "peak": float(made.peak)}


def _steps(made: Plan) -> list[dict[str, Any]]:
    """The statements of the program, each with what it costs."""
    return [
        {"text": "\n".join(x.lines), "flops": float(x.flops), "bytes": float(x.bytes), "memory": float(x.live)}
        for x in made.statements()
    ]

"""What derivatives cost at given sizes: the plan that compiling them would follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from eindiff.apps.page.reading import derivatives
from eindiff.calculus.derive import MODES
from eindiff.core.nodes import Expr, size_names
from eindiff.program.plan import Plan, plan
from eindiff.text.question import Answer

TYPICAL = {"m": 1000, "n": 100, "k": 10, "p": 20, "r": 10, "h": 50}


def typical_sizes(names: Iterable[str], given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Values of named sizes: those given, and guesses."""
    return {name: (given or {}).get(name, TYPICAL.get(name, 100)) for name in sorted(names)}


def cost(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The model `CostData`."""
    result = derivatives(ask)
    function = result.function
    outputs = [block.arranged.expr for block in result.blocks]
    sizes = typical_sizes(size_names(function, *outputs, *result.by), ask.get("sizes"))
    made = plan(outputs, sizes)
    return {
        "sizes": sizes,
        **_totals(made),
        "result_bytes": float(made.result_bytes),
        "seconds": made.seconds,
        "function_flops": plan(function, sizes).flops,
        "highest_order": made.largest_order,
        "steps": _steps(made),
        "modes": [
            {"mode": mode, **_totals(plan(_in_mode(result, mode), sizes))}
            for mode in MODES
            if mode != "auto" and result.by
        ],
    }


def _in_mode(result: Answer, mode: str) -> list[Expr]:
    """The derivatives of an answer in another mode."""
    question = replace(result.question, mode=mode)
    return [question.derivative(result.function, block.by) for block in result.blocks]


def _totals(made: Plan) -> dict[str, float]:
    return {"flops": float(made.flops), "bytes": float(made.bytes), "peak": float(made.peak)}


def _steps(made: Plan) -> list[dict[str, Any]]:
    """The statements of the program, each with what it costs."""
    return [
        {"text": "\n".join(x.lines), "flops": float(x.flops), "bytes": float(x.bytes), "memory": float(x.live)}
        for x in made.statements()
    ]

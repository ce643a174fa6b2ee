"""A first cost model: operations and the largest intermediate of a program, for known sizes. Deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from eindiff.errors import EindiffError
from eindiff.evaluate import flatten
from eindiff.expr import size_names
from eindiff.program import Program, Step, plan


@dataclass(frozen=True, slots=True)
class Cost:
    """What a program costs. Intermediates are the values that are neither inputs nor (parts of) outputs."""

    flops: float
    largest: int  # entries of the largest intermediate
    largest_order: int  # the highest tensor order among the intermediates
    steps: tuple[Step, ...]
    names: dict[int, str]  # of the inputs

    def __str__(self) -> str:
        lines = [self._line(step) for step in self.steps]
        largest = f"largest intermediate {self.largest:,} entries (order {self.largest_order})"
        return "\n".join([*lines, f"{self.flops:,.0f} operations, {largest}"])

    def _line(self, step: Step) -> str:
        inputs = ", ".join(self.names.get(value, f"v{value}") for value in step.inputs)
        shape = "×".join(map(str, step.shape)) or "scalar"
        return f"v{step.target:<4} = {step.operation:<24} {inputs:<24} {shape:<20} {step.flops:>14,.0f}"


def cost(outputs: Any, sizes: Mapping[str, int] | None = None, strategy: str = "auto") -> Cost:
    """What computing the outputs together costs at the given sizes.

    `strategy` is the order of multiplication inside a contraction: `auto`, or `tensor_order` (the paper's rule).

    >>> import eindiff as ed
    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> ed.cost(A @ x, {"m": 3, "n": 4}).flops
    24.0
    """
    wanted = flatten(outputs)
    sizes = dict(sizes or {})
    if missing := sorted(size_names(*wanted) - set(sizes)):
        raise EindiffError(f"cost needs the sizes {', '.join(missing)}: give them as sizes={{'{missing[0]}': ...}}")
    program = plan(wanted, sizes, strategy)
    results = _results(program)
    inside = [step.shape for step in program.steps if step.target not in results]
    return Cost(
        sum(step.flops for step in program.steps),
        max((prod(shape) for shape in inside), default=0),
        max((len(shape) for shape in inside), default=0),
        tuple(program.steps),
        program.names,
    )


def _results(program: Program) -> set[int]:
    """The outputs, and the values that are only written into outputs: summed into one, scaled or laid out as one."""
    made = {step.target: step for step in program.steps}
    uses: dict[int, int] = {}
    for step in program.steps:
        for value in step.inputs:
            uses[value] = uses.get(value, 0) + 1
    results = set()
    stack = list(program.outputs)
    while stack:
        value = stack.pop()
        if value in results or value not in made:
            continue
        results.add(value)
        step = made[value]
        if step.operation == "add" or step.flops == 0:
            stack.extend(v for v in step.inputs if uses[v] == 1)
    return results

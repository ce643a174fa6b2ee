"""A plan: the program for some outputs at known sizes, with what each step costs. Deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eindiff.calculus.derive import MODES, derivative
from eindiff.core import sizes as sz
from eindiff.core.derivation import derivation
from eindiff.core.errors import EindiffError, bytes_text, count_text
from eindiff.core.nodes import Expr, plain
from eindiff.core.shown import Shown, Text
from eindiff.planning.lower_bounds import lower_bound
from eindiff.program.interpreter import flatten
from eindiff.program.operations import Operation
from eindiff.program.write.module import Module, Program

STRATEGIES = ("auto", "tensor_order")


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: its source, the shapes of its operands and of its result, operations on numbers, bytes, time."""

    text: str
    inputs: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    flops: float
    bytes: int  # read and written
    seconds: float  # predicted


@dataclass(frozen=True, slots=True)
class Cost:
    """One statement: its source, operations on numbers, bytes read and written, and bytes in use while it runs."""

    lines: tuple[str, ...]
    flops: float
    bytes: int
    live: int


def memory_in_use(program: Program) -> list[int]:
    """For each statement the bytes in use while it runs, without the inputs."""
    costs, found, total = program.costs, [], 0
    assert costs is not None
    live: dict[str, int] = {}
    made: dict[Operation, str] = {}
    for statement in program.statements:
        result = statement.result
        same = [result, *result.operands[:1]] if result.is_fresh else [result]  # it takes its first operand over
        others = [costs.size(x) for x in statement.operations if not (x.cheap or x.view or x in same)]
        others += [costs.itemsize * costs.entries([x.scratch]) for x in statement.operations if x.scratch]
        own = costs.size(result)
        gone = [statement.name, *([made.get(result.operands[0], "")] if result.is_fresh else [])]
        total += own - sum(live.pop(name, 0) for name in gone)
        live[statement.name], made[result] = own, statement.name
        found.append(total + max(others, default=0))
        total -= sum(live.pop(name, 0) for name in statement.forgotten)
    return found


class Plan(Shown):
    """What computing some outputs costs.

    Intermediates are the values that are neither inputs nor (parts of) outputs.

    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> plan = ed.plan(A @ x, {"m": 3, "n": 4})
    >>> plan.flops
    24.0

    See also: `plan`.
    """

    def __init__(self, program: Program, outputs: Sequence[Expr] = ()) -> None:
        self._program = program
        self._outputs = outputs
        costs = program.costs
        assert costs is not None
        self._costs = costs
        self.steps = tuple([self._step(x) for x in program.operations if costs.moved(x)])
        results = _results(program)
        inside = [x for x in program.operations if costs.moved(x) and x not in results]
        self.largest = max((costs.entries(x.shape) for x in inside), default=0)
        self.largest_order = max((len(x.shape) for x in inside), default=0)

    def __reduce__(self) -> tuple:
        """A plan is made again where it is read: that gives the same, and operations know functions."""
        return _planned_again, (self._program.request, self._outputs)

    def _step(self, x: Operation) -> Step:
        inputs = [tuple(map(self._costs.evaluate, y.shape)) for y in x.operands]
        shape = tuple(map(self._costs.evaluate, x.shape))
        text = self._program.spelling.template(x).split("\n")[-1]
        costs = self._costs
        return Step(text, tuple(inputs), shape, costs.flops(x), costs.moved(x), costs.seconds(x))

    @property
    def source(self) -> str:
        """The program."""
        return self._program.source

    @property
    def flops(self) -> float:
        """Operations on numbers in all."""
        return sum(step.flops for step in self.steps)

    @property
    def least_flops(self) -> float | None:
        """Operations that every program takes where outputs are sums of products of variables and inverses; else None.

        That is whichever way products are ordered, multiplied out or joined (`planning.lower_bounds`).
        """
        bounds = [lower_bound(plain(output), self._costs.evaluate) for output in self._outputs]
        return max([bound for bound in bounds if bound is not None], default=None)

    @property
    def bytes(self) -> int:
        """Bytes read and written in all."""
        return sum(step.bytes for step in self.steps)

    @property
    def seconds(self) -> float:
        """The predicted time: good for comparing programs, not to be relied upon otherwise."""
        return self._program.seconds

    @property
    def result_bytes(self) -> int:
        """The bytes of the outputs."""
        return sum(self._costs.size(x) for x in self._program.outputs)

    @property
    def peak(self) -> int:
        """Bytes in use at most, without the inputs."""
        return max(memory_in_use(self._program), default=0)

    def statements(self) -> list[Cost]:
        """What each statement of the program costs; sums that a loop makes are part of that."""
        costs: list[Cost] = []
        lines: list[str] = []
        flops, moved, most = 0.0, 0, 0
        for statement, live in zip(self._program.statements, memory_in_use(self._program), strict=True):
            lines += statement.lines
            flops += sum(self._costs.flops(x) for x in statement.operations)
            moved += sum(self._costs.moved(x) for x in statement.operations)
            most = max(most, live)
            if lines:
                costs.append(Cost(tuple(lines), flops, moved, most))
                lines, flops, moved, most = [], 0.0, 0, 0
        return costs

    def explain(self, modes: bool = True) -> Text:
        """The program line by line, each with its operations, the bytes it moves, and the memory in use.

        With `modes`, the totals in each mode of differentiation stand below, if the outputs are derivatives; and for
        products of variables how many operations are needed in any order of multiplication.
        """
        rows = [("operations", "moved", "in use", "")]
        for cost in self.statements():
            rows.append((count_text(cost.flops), bytes_text(cost.bytes), bytes_text(cost.live), cost.lines[0]))
            rows += [("", "", "", line) for line in cost.lines[1:]]
        total = f"{count_text(self.flops)} operations, {bytes_text(self.bytes)} moved"
        total += f", {bytes_text(self.peak)} in use at most"
        table = [f"{a:>10}  {b:>9}  {c:>9}  {line}".rstrip() for a, b, c, line in rows]
        table.append(f"{total}, {bytes_text(self.result_bytes)} of it results")
        return Text("\n".join([*table, *self._certificate(), *self._compared()] if modes else table))

    def _certificate(self) -> list[str]:
        if not (least := self.least_flops):
            return []
        most = f"this is at most {self.flops / least:.2f} × the best"
        return [f"every order of multiplication takes at least {count_text(least)}: {most}"]

    def modes(self) -> dict[str, Plan]:
        """The plans of the outputs in each mode of differentiation, if all are derivatives (else none)."""
        known = [derivation(output) for output in self._outputs]
        if not known or not all(found.by for found in known):
            return {}
        return {
            mode: plan([derivative(found.function, *found.by, mode=mode) for found in known], self._costs.known)
            for mode in MODES
            if mode != "auto"
        }

    def _compared(self) -> list[str]:
        rows = []
        for mode, other in self.modes().items():
            figures = f"{count_text(other.flops)} operations, {bytes_text(other.bytes)} moved"
            figures += f", {bytes_text(other.peak)} in use"
            ratio = other.seconds / self.seconds
            rows.append(f"{mode:>14}: {figures}, {ratio:.2f} × the predicted time")
        return rows

    def __str__(self) -> str:
        return self.explain(modes=False)


def plan(outputs: Any, sizes: Mapping[str, int] | None = None, strategy: str = "auto") -> Plan:
    """The program that computes the outputs together at the given sizes, and what it costs.

    `strategy` is the order of multiplication inside a contraction: `auto`, or `tensor_order` (the paper's rule).

    Args:
        outputs: an expression, or a list of them
        sizes: sizes by name
        strategy: `auto` or `tensor_order`

    >>> import eindiff as ed
    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> ed.plan(A @ x, {"m": 3, "n": 4}).flops
    24.0

    See also: `compile`.
    """
    exprs = flatten(outputs)
    module = Module(named(exprs), "f")
    if strategy not in STRATEGIES:
        raise EindiffError(f"strategy {strategy!r}: choose one of {', '.join(STRATEGIES)}", "options")
    sizes = sz.read_given({} if sizes is None else sizes)
    if missing := sorted(module.size_names - set(sizes)):
        raise EindiffError(
            f"plan needs the sizes {', '.join(missing)}: give them as sizes={{'{missing[0]}': ...}}", "sizes"
        )
    return Plan(module.program(sizes, strategy=strategy, guarded=True), exprs)


def named(outputs: list[Expr]) -> dict[str, Expr]:
    """Outputs with names."""
    return {"result" if len(outputs) == 1 else f"result{k}": output for k, output in enumerate(outputs, 1)}


def _planned_again(request: tuple, outputs: Sequence[Expr]) -> Plan:
    exprs, *arguments = request
    return Plan(Module(exprs, "f").program(*arguments), outputs)


def _results(program: Program) -> set[Operation]:
    """The outputs, and the values that are only written into outputs: summed into one, scaled or laid out as one."""
    uses: dict[Operation, int] = {}
    for x in program.operations:
        for y in x.operands:
            uses[y] = uses.get(y, 0) + 1
    results: set[Operation] = set()
    stack = list(program.outputs)
    while stack:
        x = stack.pop()
        results.add(x)
        if x.view or x.op in ("fill", "add", "negate"):
            stack.extend(y for y in x.operands if uses.get(y) == 1)
    return results

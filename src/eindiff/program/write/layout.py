"""Where short axes lie in memory: NumPy runs along the last one, which takes long if that has three entries.

Results of operations entry by entry lie in memory as their operands do. So it is enough to store the small arrays that
a large one is made of by columns: of `X[:, None, :] - X[None, :, :]`, where X has three columns, X.
"""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, Operations, reachable, with_operands
from eindiff.program.write.rows import Rows

_STOPS = frozenset({"sum", "einsum", "inner", "reduce", "fill"})  # their results do not lie as their operands do


class Layout:
    """Stores by columns what large arrays with a short last axis are made of."""

    def __init__(self, costs: Costs, rows: Rows) -> None:
        self.costs = costs
        self.rows = rows
        self.users: dict[Operation, list[Operation]] = {}

    def run(self, operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
        """The program with some of its arrays by columns."""
        order = reachable(outputs)
        large = [x for x in order if self._is_short(x)]
        if not large:
            return list(outputs)
        for x in order:
            for y in x.operands:
                self.users.setdefault(y, []).append(x)
        found = {root for x in large if self._may_follow(x) for root in self._roots(x)}
        done: dict[Operation, Operation] = {}
        below: dict[Operation, Operation] = {}  # with the arrays by columns
        for x in order:
            operands = [(below if x in large or x.view or x.cheap else done)[y] for y in x.operands]
            plain = [done[y] for y in x.operands]
            done[x] = with_operands(operations, x, operands if x in large else plain)
            below[x] = with_operands(operations, x, operands) if x.view or x.cheap else done[x]
            if x in found:
                below[x] = operations.make("columns", [done[x]])
        return [done[x] for x in outputs]

    def _is_short(self, x: Operation) -> bool:
        """Whether an operation makes a large array with a short last axis of small ones, entry by entry."""
        if len(x.shape) < 3 or not self.rows.is_elementwise(x) or self.costs.size(x) < tuning.IN_PLACE_BYTES:
            return False
        last, inner = map(self.costs.evaluate, (x.shape[-1], x.shape[-2]))
        small = all(tuning.SHORT * self.costs.size(y) <= self.costs.size(x) for y in x.operands)
        return small and last < tuning.SHORT <= inner and len(self._roots(x)) > 0

    def _roots(self, x: Operation) -> list[Operation]:
        """The matrices that it is made of, which have the short axis."""
        found = []
        for y in x.operands:
            while y.op == "expand":
                y = y.operands[0]
            if len(y.shape) == 2 and y.shape[-1] == x.shape[-1]:
                found.append(y)
        return found

    def _may_follow(self, x: Operation) -> bool:
        """Whether all that is computed from an array can do with its last axis but one as the innermost."""
        stack, seen = [(x, len(x.shape) - 2)], {x}
        while stack:
            y, inner = stack.pop()
            for user in self.users.get(y, ()):
                if user.op == "matmul":
                    if inner < len(y.shape) - 2:
                        return False
                    continue
                if user in seen or user.op in _STOPS:
                    continue
                axes = [a for a in range(len(user.shape)) if self._comes_from(user, a, y, inner)]
                if not axes or user.op == "reshape":
                    return False
                seen.add(user)
                stack.append((user, axes[0]))
        return True

    def _comes_from(self, x: Operation, axis: int, y: Operation, inner: int) -> bool:
        sources = self.rows.sources(x, axis)
        return sources is not None and any(z is y and b == inner for z, b in zip(x.operands, sources, strict=True))

"""Which arrays of a program nothing needs any more: large ones are written into again.

New memory of some size comes from the system page by page, which takes longer than the arithmetic of a pass over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from eindiff.core.sizes import Shape
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import ARITHMETIC, ARITHMETIC_OPS, Operation

# Their results are arrays of their own: of numbers, if an operand is one.
_ARITHMETIC = ARITHMETIC_OPS - {"raise"} | {"complement"}
_OWN = _ARITHMETIC | {"matmul"}
# What takes an array and gives none that lies in its memory.
_READERS = _OWN | {"raise", "positive", "sum", "inner", "outer", "gram", "mirrored", "call", "reduce", "norm", "solve"}


def root_of(x: Operation) -> Operation:
    """The array in which a view lies."""
    while (x.view or x.cheap) and x.operands:
        x = x.operands[0]
    return x


def _may_be_in_operands(x: Operation) -> bool:
    """Whether a result may lie in the memory of what it is computed from."""
    return x.op not in _READERS and not (x.op == "einsum" and len(x.operands) > 1)


class Memory:
    """The large arrays of a program while it is written."""

    def __init__(self, costs: Costs | None) -> None:
        self.costs = costs
        self.places: set[str] = set()  # inputs that hold places and not numbers
        self.own: set[Operation] = set()  # arrays whose memory is theirs alone
        self.left: Counter[Operation] = Counter()  # uses of arrays, through views too, that are not written yet
        self.names: dict[Operation, str] = {}
        self.free: dict[Shape, list[str]] = {}

    def prepare(self, order: Sequence[Operation], outputs: Iterable[Operation]) -> None:
        """See what uses what."""
        if self.costs is None:
            return
        shared = {root_of(x) for x in outputs}
        numbers: set[Operation] = set()
        for x in order:
            if x.op == "input" and x.parameters[0] not in self.places:
                numbers.add(x)
            if x.view or x.cheap:
                continue
            roots = [root_of(y) for y in x.operands]
            self.left.update(roots)
            if _may_be_in_operands(x):
                shared.update(roots)
            if x.speed != ARITHMETIC or (x.op in _ARITHMETIC and not numbers.isdisjoint(roots)):
                numbers.add(x)
                if x.op in _OWN and self.costs.size(x) >= tuning.REUSED_BYTES:
                    self.own.add(x)
        self.own -= shared

    def state(self, x: Operation, name: str, inside: Iterable[Operation]) -> None:
        """An array has a name, and some operations are written."""
        self.names[x] = name
        for one in inside:
            for y in one.operands if not (one.view or one.cheap) else ():
                root = root_of(y)
                self.left[root] -= 1
                if not self.left[root] and root in self.own and root in self.names:
                    self.give_back(root.shape, self.names[root])

    def take_over(self, y: Operation, x: Operation) -> None:
        """The memory of y is that of x from now on."""
        if root_of(y) is not y or y not in self.own:
            self.own.discard(x)
        self.own.discard(root_of(y))

    def unused(self, shape: Shape) -> str:
        """The name of an array of that shape that nothing needs, if there is one."""
        names = self.free.get(shape)
        return names.pop() if names else ""

    def give_back(self, shape: Shape, name: str) -> None:
        """An array is not needed any more."""
        self.free.setdefault(shape, []).append(name)

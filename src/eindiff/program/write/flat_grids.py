"""Windows of small matrices as pieces of the numbers in their order in memory.

Of `u[1:-1, 2:] - u[1:-1, :-2]` NumPy computes each row by itself, which takes longer than the numbers in it. The same
windows of an m×n matrix, from their first entry to their last, are pieces of a vector, with some entries between two
rows that belong to no window; those n apart lie one below the other. So differences of windows are differences of
pieces. Before entries are added up, or put into another matrix, those between rows are set to zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.cuts import is_by_entries
from eindiff.program.operations import Cut, Operation, Operations, reachable, with_operands

BETWEEN = 4  # entries between the rows of two windows at most
PAID = 3  # operations on windows that are worth it

Grid = tuple[int, int]  # the shape of a matrix
_OF_ONE = ("scale", "negate")


def with_flat_grids(outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with pieces of vectors for windows of small matrices."""
    found = list(outputs)
    grids = Counter([_whole(x).shape for x in reachable(found) if x.op == "cut" and x.parameters[0] == 1])
    for shape, _ in grids.most_common():
        match shape:
            case (int() as rows, int() as columns) if costs.itemsize * rows * columns < tuning.REUSED_BYTES:
                flat = _Flat((rows, columns), found)
                found = flat.run() if flat.pays() else found
    return found


@dataclass(slots=True)
class _Flat:
    """Rewrites operations on windows of matrices of one shape."""

    grid: Grid
    outputs: list[Operation]
    order: list[Operation] = field(init=False)
    users: dict[Operation, list[Operation]] = field(init=False)
    starts: dict[Operation, int] = field(init=False)  # of windows of matrices, among all entries
    members: set[Operation] = field(init=False)  # computed entry by entry from windows, or numbers
    filled: set[Operation] = field(init=False)  # matrices that windows are put into
    zeroed: set[Operation] = field(init=False)  # that have to be zero between rows
    done: dict[Operation, Operation] = field(default_factory=dict)
    flat: dict[Operation, Operation] = field(default_factory=dict)
    clean: set[Operation] = field(default_factory=set)  # what is zero between rows
    made: Operations = field(default_factory=Operations)

    def __post_init__(self) -> None:
        self.order = reachable(self.outputs)
        self.users = {x: [] for x in self.order}
        for x in self.order:
            for y in x.operands:
                self.users[y].append(x)
        self.starts = {}
        for x in self.order:
            if (start := self._start(x)) is not None:
                self.starts[x] = start
        banned: set[Operation] = set()
        while wrong := self._find(banned):
            banned |= wrong
        self.zeroed = self._added_up()

    def _added_up(self) -> set[Operation]:
        """What is added up, and so has to be zero between rows; of a multiple of a window that is the window."""
        found: set[Operation] = set()
        for x in reversed(self.order):
            if x in self.members and (x in found or any(self._adds_up(user) for user in self.users[x])):
                inner = [y for y in x.operands if y.shape]
                is_multiple = len(inner) == 1 and (x.op in _OF_ONE or x.op == "multiply") and inner[0] in self.members
                found.add(inner[0] if is_multiple else x)
        return found

    def pays(self) -> bool:
        """Whether there are enough operations on windows."""
        puts = [y for x in self.filled for y in x.operands if y in self.members]
        return sum(x.shape[1] != self.grid[1] for x in (*self.members, *puts)) >= PAID

    def _is_window(self, x: Operation) -> bool:
        """Whether an array has the shape of a window with most entries of the rows that it crosses."""
        if len(x.shape) != 2 or not all(isinstance(size, int) for size in x.shape):
            return False
        rows, columns = self.grid
        between = columns - int(x.shape[1])
        return 0 < int(x.shape[0]) <= rows and 0 <= between <= BETWEEN and 2 * between <= columns

    def _start(self, x: Operation) -> int | None:
        """Where a window of a matrix begins."""
        if x.shape == self.grid and x.op != "cut":
            return 0
        if x.op != "cut" or x.operands[0] not in self.starts or not self._is_window(x):
            return None
        axis, cut = x.parameters
        first = _first(cut)
        return None if first is None else self.starts[x.operands[0]] + first * (1, self.grid[1])[axis == 0]

    def _find(self, banned: set[Operation]) -> set[Operation]:
        """All that is computed entry by entry from windows of one shape, and the matrices that these are put into, but
        for some operations; those among them that are used otherwise too."""
        self.members, self.filled = set(), set()
        for x in self.order:
            if x in banned or not self._is_window(x):
                continue
            if x.op == "fill" and x.shape == self.grid and self._is_filled(x):
                self.filled.add(x)
            elif is_by_entries(x) and x.op != "mask" and all(
                not y.shape or (y.shape == x.shape and self._is_flat(y)) for y in x.operands
            ):
                self.members.add(x)
        return {x for x in self.members if x.shape != self.grid and not self._stays_inside(x)}

    def _is_flat(self, x: Operation) -> bool:
        return x in self.members or x in self.starts

    def _is_filled(self, x: Operation) -> bool:
        dense, _, assignments = x.parameters
        terms = x.operands[int(dense) :]
        if len(terms) != len(assignments) or not all(self._is_flat(y) for y in x.operands[: int(dense)]):
            return False
        for (how, _, where, _), y in zip(assignments, terms, strict=True):
            shape = y.shape
            if how != "cuts" or not self._is_window(y) or not self._is_flat(y):
                return False
            if any(_first(cut) is None for cut in where) or len(shape) != 2:
                return False
        return True

    def _stays_inside(self, x: Operation) -> bool:
        """Whether a result is used by others, by sums and in matrices that are filled, and by nothing else."""
        if x in self.outputs:
            return False
        return all(user in self.members or user in self.filled or self._is_sum(user) for user in self.users[x])

    def _is_sum(self, x: Operation) -> bool:
        if x.op == "inner":
            return all(self._is_flat(y) and self._is_window(y) for y in x.operands)
        return x.op == "sum" and not x.shape

    def _adds_up(self, x: Operation) -> bool:
        return x in self.filled or x.op in ("inner", "sum")

    # Rewriting

    def run(self) -> list[Operation]:
        """The outputs as they are computed now."""
        make = self.made.make
        for x in self.order:
            if x in self.members:
                self._write(x)
            elif x in self.filled:
                self._fill(x)
            elif self._is_sum(x) and any(y in self.members for y in x.operands):
                terms = [self._vector(y) if y in self.members else self._zeroed(self._vector(y), y) for y in x.operands]
                self.done[x] = self.made.matmul(*terms) if x.op == "inner" else make("sum", terms, (), shape=())
            else:
                self.done[x] = with_operands(self.made, x, [self._matrix(y) for y in x.operands])
        return [self._matrix(x) for x in self.outputs]

    def _matrix(self, x: Operation) -> Operation:
        """A result as it was."""
        if x not in self.done:
            self.done[x] = self.made.make("reshape", [self.flat[x]], self.grid, shape=self.grid)
        return self.done[x]

    def _vector(self, x: Operation) -> Operation:
        """A window as a piece of a vector."""
        if not x.shape:
            return self._matrix(x)
        if x in self.flat:
            return self.flat[x]
        whole, start = x, self.starts[x]
        while whole.shape != self.grid or (whole.op == "cut" and whole not in self.flat):
            [whole] = whole.operands
        entries = self.grid[0] * self.grid[1]
        vector = self.flat.get(whole) or self.made.make("reshape", [self._matrix(whole)], (entries,), shape=(entries,))
        self.flat[whole] = vector
        if x is not whole:
            self.flat[x] = self.made.make("cut", [vector], (0, self._piece(start, x)), shape=(self._length(x),))
        return self.flat[x]

    def _piece(self, start: int, x: Operation) -> Cut:
        stop = start + self._length(x)
        return (start or None, None if stop == self.grid[0] * self.grid[1] else stop, None)

    def _length(self, x: Operation) -> int:
        rows, columns = x.shape
        return (int(rows) - 1) * self.grid[1] + int(columns)

    def _write(self, x: Operation) -> None:
        made = self.made.make(x.op, [self._vector(y) for y in x.operands], x.parameters, speed=x.speed)
        inner = [y in self.clean for y in x.operands if y.shape]
        keeps = x.op in ("scale", "negate", "multiply") or (x.op == "power" and x.parameters[0] > 0)
        if x.shape[1] == self.grid[1] or (all(inner) and (keeps or (x.op == "add" and len(inner) == len(x.operands)))):
            self.clean.add(x)
        if x in self.zeroed and x not in self.clean:
            made = self._zeroed(made, x)
            self.clean.add(x)
        self.flat[x] = made

    def _zeroed(self, made: Operation, x: Operation) -> Operation:
        """A piece with zeros between its rows."""
        columns, own = self.grid[1], int(x.shape[1])
        if own == columns or x.shape[0] == 1:
            return made
        between = range(own, columns)
        where = tuple([("cuts", "=", ((at, None, columns),), 0) for at in between])
        zeros = [self.made.number(0)] * len(between)
        work = len(between) * int(x.shape[0])
        return self.made.make("fill", [made, *zeros], (True, made.shape, where), shape=made.shape, work=work)

    def _fill(self, x: Operation) -> None:
        dense, _, assignments = x.parameters
        operands = [self._vector(y) for y in x.operands[: int(dense)]]
        puts = []
        for (how, sign, where, count), y in zip(assignments, x.operands[int(dense) :], strict=True):
            vector = self._vector(y)
            operands.append(vector if y in self.members else self._zeroed(vector, y))
            first, second = (_first(cut) or 0 for cut in where)
            puts.append((how, sign, (self._piece(first * self.grid[1] + second, y),), count))
        entries = self.grid[0] * self.grid[1]
        parameters = (dense, (entries,), tuple(puts))
        self.flat[x] = self.made.make("fill", operands, parameters, shape=(entries,), work=x.work)


def _whole(x: Operation) -> Operation:
    """What a window is cut from."""
    while x.op == "cut":
        [x] = x.operands
    return x


def _first(cut: Cut) -> int | None:
    """Where a cut without steps begins, if it is counted from the beginning."""
    match cut:
        case (None | int() as start, _, None):
            return start or 0 if start is None or start >= 0 else None
    return None

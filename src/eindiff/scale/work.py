"""What is done with one block: a program that travels as source, and how the results of blocks are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.program.foreign_arrays import converter
from eindiff.program.inputs import check
from eindiff.program.interpreter import bind_sizes, read_inputs
from eindiff.program.plan import Plan, named
from eindiff.program.write.module import Module
from eindiff.scale.passes import LOG_SUM, MAXIMUM, SUM, ShardingError

Arrays = Mapping[str, Any]


class Work:
    """Expressions as a function of arrays by name, for all sizes. Where it is sent, nothing is planned again."""

    def __init__(self, exprs: Sequence[Expr], sizes: Mapping[str, int], dtype: str, library: str = "numpy") -> None:
        module = Module(named(list(exprs)), "f")
        program = module.program({name: sizes[name] for name in module.size_names}, dtype, library=library)
        self.exprs = list(exprs)
        self.library = library
        self.inputs = list(module.inputs)
        self.names = [variable.name for variable in module.inputs]
        self.dtype = np.dtype(dtype)
        self.source = program.source
        self._tables = program.tables
        self._unseen = {size: module.names.sizes[size] for size in module.unseen}
        self._ranges = module.ranges
        self._function: Callable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None}

    def plan_for(self, sizes: Mapping[str, int]) -> Plan:
        """What this costs for some sizes."""
        module = Module(named(self.exprs), "f")
        known = {name: sizes[name] for name in module.size_names}
        return Plan(module.program(known, self.dtype.name, library=self.library))

    @property
    def function(self) -> Callable:
        """The program, which is read when it is first needed."""
        if self._function is None:
            namespace: dict[str, Any] = dict(self._tables)
            exec(self.source, namespace)
            self._function = namespace["f"]
        return self._function

    def sizes(self, arrays: Arrays, given: Mapping[str, int]) -> dict[str, int]:
        """The sizes that arrays have, which must fit."""
        bindings = bind_sizes(read_inputs(self.exprs, arrays), given)
        self._ranges.check(bindings)
        return bindings

    def keywords(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes that the program takes, since no array shows them."""
        return {word: sizes[size] for size, word in self._unseen.items()}

    def __call__(self, arrays: Arrays, given: Mapping[str, int]) -> list[np.ndarray]:
        """The values; `given` are sizes that no array shows."""
        if self.library != "numpy":
            numbers = converter(self.library, self.dtype, arrays)
            indices = converter(self.library, np.dtype(np.int64), arrays)
            values = [(numbers if x.into is None else indices)(arrays[x.name]) for x in self.inputs]
            found = self.function(*values, **self.keywords(given))
            return [found] if len(self.exprs) == 1 else list(found)
        bindings = self.sizes(arrays, given)
        for variable in self.inputs:
            if variable.into is not None:
                check(variable, np.asarray(arrays[variable.name]), bindings)
        values = [np.asarray(arrays[x.name], self.dtype if x.into is None else np.int64) for x in self.inputs]
        try:
            with np.errstate(all="ignore"):
                found = self.function(*values, **self.keywords(bindings))
        except np.linalg.LinAlgError as error:
            raise EindiffError(f"a matrix that is inverted or factored here cannot be: {error}", "systems") from None
        return [np.asarray(x, self.dtype) for x in ([found] if len(self.exprs) == 1 else found)]


_REDUCED: dict[str, Callable[[Any, Any], Any]] = {SUM: np.add, MAXIMUM: np.maximum, LOG_SUM: np.logaddexp}


@dataclass(slots=True)
class BlockResult:
    """What some blocks give: parts of totals, outputs with rows, and which rows and blocks these are."""

    totals: list[np.ndarray] | None  # None: these blocks have no rows
    rows: list[list[np.ndarray]]  # of each block, in order
    count: int
    blocks: int

    def joined(self, other: BlockResult, reductions: Sequence[str]) -> BlockResult:
        """This one and the next."""
        if self.totals is None or other.totals is None:
            totals = other.totals if self.totals is None else self.totals
        else:
            pairs = zip(reductions, self.totals, other.totals, strict=True)
            totals = [_REDUCED[reduction](a, b) for reduction, a, b in pairs]
        return BlockResult(totals, self.rows + other.rows, self.count + other.count, self.blocks + other.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class BlockWork:
    """The work of one pass on a block."""

    work: Work
    reductions: tuple[str, ...]
    index: str
    axes: Mapping[str, int]  # of arrays that come in blocks, the axis of the index

    def __call__(self, number: int, block: Arrays, whole: Arrays, given: Mapping[str, int]) -> BlockResult:
        """What a block gives; errors name it."""
        count = length(number, block, self.axes, self.index)
        if not count and len(self.work.exprs) == len(self.reductions):
            return BlockResult(None, [[]], 0, 1)
        try:
            values = self.work({**whole, **block}, {**given, self.index: count})
        except EindiffError as error:
            raise ShardingError(f"block {number}: {error}") from error
        totals = values[: len(self.reductions)]
        if not all(np.isfinite(x).all() for x in values):
            refuse_unknown(number, block, self.axes)
        return BlockResult(totals if count else None, [values[len(self.reductions) :]], count, 1)


def length(number: int, block: Arrays, axes: Mapping[str, int], index: str) -> int:
    """The rows of a block, which all its arrays must have."""
    counts = {name: np.shape(block[name])[axis] if np.ndim(block[name]) > axis else -1 for name, axis in axes.items()}
    if len(set(counts.values())) > 1 or -1 in counts.values():
        shown = ", ".join(f"{name} {'×'.join(map(str, np.shape(block[name])))}" for name in counts)
        raise ShardingError(f"block {number}: its arrays must have the same number of rows {index}, but are {shown}")
    return next(iter(counts.values()))


def refuse_unknown(number: int, block: Arrays, axes: Mapping[str, int]) -> None:
    """Say where a block has entries that are no finite numbers, if it has."""
    for name, axis in axes.items():
        array = np.moveaxis(np.asarray(block[name]), axis, 0)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))[0, 0])
            raise ShardingError(f"block {number}: {name} has an entry that is no finite number, in its row {row}")

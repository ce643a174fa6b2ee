"""What has to be added up over a sharded index, and in how many passes over the data.

The index is a named size, m. A node of an expression is one of three things:

- *whole*: it has no m, and what it is made of has none;
- *by rows*: it has one axis m, and each row of it is made of the same row of what has an axis m, and of whole things;
- *a total*: a contraction that sums over m. Each block gives a part of it, and adding these is all that blocks need to
  know of each other. The largest entry, and the logarithm of a sum of exponentials, are such totals with another sum.

A total is whole once it is known. Rows that need a total (centred data, softmax over m) wait for it, which takes
another pass. Anything else, a matrix m×m for instance, or neighbouring rows, relates rows of different blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import IndexMap, SizeOf
from eindiff.core.nodes import Apply, Constant, Einsum, Expr, Variable, plain, topological, variables
from eindiff.core.rebuild import with_children
from eindiff.core.sizes import Shape, Size
from eindiff.functions.table import TABLE

SUM, MAXIMUM, LOG_SUM = "sum", "maximum", "log_sum"  # how the parts of a total are put together
SHOWN = 60  # characters of an expression in a message
_OF_ROWS = {"max": MAXIMUM, "logsumexp": LOG_SUM, "log_weighted_sum": LOG_SUM}


class ShardingError(EindiffError):
    """An output that is not made of sums over the sharded index.

    >>> X = ed.matrix("X", "m", "n")
    >>> try:
    ...     ed.compile(ed.logdet(X @ X.T), shard="m")
    ... except ed.ShardingError:
    ...     print("rows of different blocks meet")
    rows of different blocks meet

    See also: `Sharded`.
    """

    __module__ = "eindiff"
    code = "blocks"


@dataclass(frozen=True, slots=True)
class Total:
    """What is put together from all blocks: what a block gives, and the variable that stands for the whole."""

    part: Expr
    reduction: str
    variable: Variable


@dataclass(slots=True)
class Pass:
    """One reading of the data: the totals of which it gives parts, and outputs that have rows."""

    totals: list[Total] = field(default_factory=list)
    rows: dict[int, Expr] = field(default_factory=dict)  # outputs, by their number

    @property
    def exprs(self) -> list[Expr]:
        """What is computed of a block."""
        return [*(total.part for total in self.totals), *self.rows.values()]


@dataclass(frozen=True, slots=True)
class _Known:
    """A node with variables in the place of totals, and how many passes it has to wait for."""

    expr: Expr
    level: int


class Passes:
    """The passes for some outputs, and what is made of the totals at last."""

    def __init__(self, outputs: Sequence[Expr], index: str) -> None:
        self.index = index
        self.passes: list[Pass] = []
        self._taken = {one.name for one in variables(*outputs)}
        self.rows = self._variable(f"rows_of_{index}", ())  # how many there are in all
        self._done: dict[Expr, _Known] = {}
        self._totals: dict[tuple[Expr, str], _Known] = {}
        nodes = topological(outputs)
        if not any(_has(index, node.shape) for node in nodes if isinstance(node, Variable)):
            raise ShardingError(f"no variable has the index {index}: shard names one that some arrays have")
        for node in nodes:
            self._done[node] = self._known(node)
        self.final: dict[int, Expr] = {}  # outputs that are whole, by their number
        for number, output in enumerate(outputs):
            known = self._done[plain(output)]
            if self._axes(known.expr):
                self._pass(known.level).rows[number] = known.expr
            else:
                self.final[number] = known.expr

    def _variable(self, name: str, shape: Shape) -> Variable:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return construct.variable(name, shape)

    @property
    def needs_count(self) -> bool:
        """Whether the number of rows has to be known before the first pass."""
        return bool(self.passes) and self.rows in variables(*self.passes[0].exprs)

    def _pass(self, level: int) -> Pass:
        while len(self.passes) <= level:
            self.passes.append(Pass())
        return self.passes[level]

    def _axes(self, expr: Expr) -> int:
        """How many axes are the index."""
        return sum(size == self.index for size in expr.shape)

    def _known(self, node: Expr) -> _Known:
        below = [self._done[child] for child in node.children]
        level = max((one.level for one in below), default=0)
        children = [one.expr for one in below]
        match node:
            case Variable() | Constant():
                return self._leaf(node)
            case Einsum() if len(found := self._labels(node)) > 1 or any(x not in node.output for x in found):
                return self._summed(node, children, level)
            case Apply() if any(self._axes(x) for x in node.args) and self._is_core(node):
                return self._along(node, children, level)
        self._refuse_sizes(node)
        if self._axes(node) > 1:
            raise self._unrelated(node, f"has the index {self.index} twice")
        return _Known(with_children(node, children), level)

    def _leaf(self, node: Expr) -> _Known:
        value = getattr(node, "value", None)
        if isinstance(value, SizeOf) and self.index in sz.names(value.size):
            return _Known(self._size(value.size, node), 0)
        self._refuse_sizes(node)
        if self._axes(node) > 1:
            raise self._unrelated(node, f"has the index {self.index} twice")
        if isinstance(node, Constant) and self._axes(node) and not self._is_gathered(node):
            raise self._unrelated(node, f"relates places along {self.index}")
        return _Known(node, 0)

    def _is_gathered(self, node: Constant) -> bool:
        """Whether each row takes a place of a whole axis: the places come in blocks as other data does."""
        value = node.value
        return isinstance(value, IndexMap) and bool(node.children) and value.size != self.index

    def _size(self, size: Size, node: Expr) -> Expr:
        if size != self.index:
            raise self._unrelated(node, f"is a size made of {self.index}")
        return self.rows

    def _labels(self, node: Einsum) -> list[int]:
        return [label for label, size in enumerate(node.sizes) if size == self.index]

    def _summed(self, node: Einsum, children: list[Expr], level: int) -> _Known:
        """A contraction over the index; of several sums over it each is a total of its own."""
        self._refuse_sizes(node)
        factors = list(zip(children, node.labels, strict=True))
        sizes = dict(enumerate(node.sizes))
        own = self._labels(node)
        summed = [label for label in own if label not in node.output]
        for _, labels in factors:
            if len({label for label in labels if label in own}) > 1:
                raise self._unrelated(node, f"has a factor with the index {self.index} twice")
        if len({label for label in node.output if label in own}) > 1:
            raise self._unrelated(node, f"has the index {self.index} twice")
        if len(own) == 1:
            return self._total(construct.einsum(node.coefficient, factors, node.output, sizes), SUM, level)
        for label in summed:
            taken = [(x, labels) for x, labels in factors if label in labels]
            factors = [(x, labels) for x, labels in factors if label not in labels]
            kept = tuple(dict.fromkeys(x for _, labels in taken for x in labels if x != label))
            total = self._total(construct.einsum(1, taken, kept, sizes), SUM, level)
            level = max(level, total.level)
            factors.append((total.expr, kept))
        return _Known(construct.einsum(node.coefficient, factors, node.output, sizes), level)

    def _total(self, part: Expr, reduction: str, level: int) -> _Known:
        """The variable that stands for a total; the same part is added up once."""
        key = (part, reduction)
        if key not in self._totals:
            if self._axes(part):
                raise self._unrelated(part, f"has the index {self.index} after a sum over it")
            variable = self._variable(f"total_{len(self._totals)}", part.shape)
            self._pass(level).totals.append(Total(part, reduction, variable))
            self._totals[key] = _Known(variable, level + 1)
        return self._totals[key]

    def _is_core(self, node: Apply) -> bool:
        """Whether the index is an axis that a function of whole tensors works on."""
        cores = [x.shape[x.ndim - order :] for x, order in zip(node.args, node.function.core, strict=True)]
        return any(_has(self.index, core) for core in cores)

    def _along(self, node: Apply, children: list[Expr], level: int) -> _Known:
        """The largest entry, or the logarithm of a sum of exponentials, over the index; and entries of a softmax."""
        name = node.function.name
        if name in _OF_ROWS:
            return self._total(with_children(node, children), _OF_ROWS[name], level)
        if name == "weighted_softmax":
            x, weights = children
            total = self._total(construct.apply(TABLE["log_weighted_sum"], children, node.batch), LOG_SUM, level)
            spread = construct.map_(TABLE["exp"], (construct.add([x, construct.scale(-1, _beside(total.expr, x))]),))
            labels = tuple(range(x.ndim))
            sizes = dict(enumerate(x.shape))
            product = construct.einsum(1, [(weights, labels), (spread, labels)], labels, sizes)
            return _Known(product, total.level)
        raise self._unrelated(node, f"is {name} of something with the index {self.index}")

    def _refuse_sizes(self, node: Expr) -> None:
        for size in (*node.shape, *(node.sizes if isinstance(node, Einsum) else ())):
            if isinstance(size, str) and size != self.index and self.index in sz.names(size):
                raise self._unrelated(node, f"has an axis of {size} entries, which is no row of one block")

    def _unrelated(self, node: Expr, why: str) -> ShardingError:
        text = node._readable()
        text = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
        return ShardingError(
            f"{text} {why}, so it is not made block by block over {self.index}: "
            "shard another index, or compute it in memory"
        )


def _has(index: str, sizes: Any) -> bool:
    return any(isinstance(size, str) and index in sz.names(size) for size in sizes)


def _beside(total: Expr, x: Expr) -> Expr:
    """A total repeated along the last axis of x."""
    labels = tuple(range(x.ndim))
    return construct.einsum(1, [(total, labels[:-1])], labels, dict(enumerate(x.shape)))

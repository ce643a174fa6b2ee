"""From a captured graph of PyTorch's operations to expressions."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, topological, variables
from eindiff.core.recent import Seen
from eindiff.functions import elementwise as functions
from eindiff.functions import multilinear as arrays
from eindiff.functions.elementwise import trunc
from eindiff.tracing.closures import MOST_WRITTEN
from eindiff.tracing.composed import not_equal
from eindiff.tracing.library import NeedsLeavesError, Stops, Traced
from eindiff.tracing.names import VariableNames
from eindiff.tracing.questions import answering
from eindiff.tracing.shapes import along
from eindiff.tracing.torch import aten_matrices, aten_networks, aten_shapes  # noqa: F401 (they fill the table)
from eindiff.tracing.torch.aten import ATEN, CASTS, AtenRow, UnfitIndicesError
from eindiff.tracing.torch.capture import Capture, base_name, capture, is_discrete, refuse
from eindiff.tracing.torch.opaque import opaque
from eindiff.tracing.torch.predicted import effort
from eindiff.tracing.torch.written import last_written, parts_read
from eindiff.tracing.unsupported import OUTSIDE, RANDOM, Unsupported
from eindiff.tracing.verify import precision_of

_RANDOM = torch.Tag.nondeterministic_seeded
_ZEROS = ("empty", "empty_strided", "empty_permuted", "_efficientzerotensor")  # what is not set yet is taken as zero
_CHECKING = ("_linalg_check_errors", "_assert_tensor_metadata", "_assert_async", "_assert_scalar", "is_same_size",
           "_has_same_storage_numel")  # fmt: skip
_BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm")
_READS = {
    name: f"{name}: the values of a tensor decide what is computed"
    for name in ("_local_scalar_dense", "nonzero", "unique_dim", "_unique2", "masked_select")
}
STOPS = ("stop_gradient", "stop_reverse", "scaled_in_reverse")
_MEMORY = ("view_as_complex", "as_strided")  # what reads entries that are there in order
_MISSING = object()  # a result that has no expression; it may go unused


def trace(
    function: Callable, leaves: Sequence[Any], structure: Any, names: Sequence[str], known: Mapping[int, str],
    moving: Sequence[torch.Tensor] = (), given: Sequence[int] = (),
) -> Traced:  # fmt: skip
    """A function of `(args, kwargs)` as expressions. `names` are those of leaves, `known` of tensors from outside.

    Tensors that are `moving` become variables, however small they are; so do the leaves with the numbers `given`,
    which are arrays of indices.
    """
    for name, x in zip(names, leaves, strict=True):
        if isinstance(x, torch.Tensor):
            _check_tensor(name, x)
    found = capture(function, leaves, structure)
    seen = [k for k in given if any(x is leaves[k] for x, _ in found.guards)]
    if seen:
        raise NeedsLeavesError(frozenset(seen))
    translation = _Translation(found, names, leaves, known, moving, given)
    with answering({translation.inputs[k]: leaves[k].numpy() for k in given}) as answers:
        return replace(translation.run(), answers=answers.given)


def _check_tensor(name: str, x: torch.Tensor) -> None:
    if x.is_complex():
        raise EindiffError(f"{name} has complex entries: expressions are of real numbers", "tracing")
    if x.layout != torch.strided:
        raise EindiffError(f"{name} is a sparse tensor: expressions are of dense ones", "tracing")
    if x.numel() == 0:
        raise EindiffError(f"{name} has shape {tuple(x.shape)}: a tensor needs at least one entry", "shapes")


class _Translation:
    """Values of the nodes of a graph: expressions, tensors that are known, numbers, and lists of these."""

    def __init__(
        self, found: Capture, names: Sequence[str], leaves: Sequence[Any], known: Mapping[int, str],
        moving: Sequence[torch.Tensor], given: Sequence[int],
    ) -> None:  # fmt: skip
        self.capture = found
        self.known = known
        self.moving = {id(x) for x in moving}
        self.values: dict[torch.fx.Node, Any] = {}
        self.used: set[torch.fx.Node] = set()  # what the function returns, and all that this is computed from
        self.kept: dict[int, torch.Tensor] = {}
        self.captured: dict[str, torch.Tensor | Seen] = {}
        self.stopped: dict[str, Expr] = {}
        self.stopped_in_reverse: dict[Expr, Expr] = {}
        self.opaque: dict[str, str] = {}
        self.taken = VariableNames()
        self.written: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # small tensors that became constants
        real = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor) and not is_discrete(x)]
        self.inputs = {
            k: construct.variable(self.taken.unused(names[k]), tuple(leaves[k].shape)) for k in sorted([*real, *given])
        }
        self.placeholders = iter([self.inputs[k] for k in real])
        self.variables: dict[int, Expr] = {id(leaves[k]): self.inputs[k] for k in given}
        self.given: dict[Expr, int] = {self.inputs[k]: k for k in given}

    def run(self) -> Traced:
        self.evaluate()
        nodes = [leaf if isinstance(leaf, torch.fx.Node) else None for leaf in self.capture.leaves]
        leaves = zip(self.capture.leaves, nodes, strict=True)
        outputs = [leaf if node is None else self.expr(self.values[node], node) for leaf, node in leaves]
        types = [None if node is None else node.meta["val"].dtype for node in nodes]
        if self.opaque:
            self.warn()
        guards = [(self.held(x), values) for x, values in self.capture.guards]
        written = [(self.held(x), values) for x, values in self.written.values()]
        kept = sum(x.nbytes for x in self.kept.values()) + sum(values.nbytes for _, values in guards)
        stops = Stops(in_reverse=self.stopped_in_reverse, apart=self.stopped)
        return Traced(
            outputs, types, self.capture.structure, self.inputs, self.captured, self.opaque, stops,
            precision=self.precision(), nbytes=kept, holds=lambda: not _changed([*guards, *written]),
            moved=lambda: _changed(written), effort=effort(self.capture.graph),
        )  # fmt: skip

    def evaluate(self) -> None:
        """Find the values of all nodes."""
        [output] = [node for node in self.capture.graph.nodes if node.op == "output"]
        self.used = {output}
        for node in reversed(self.capture.graph.nodes):
            if node in self.used:
                self.used.update(node.all_input_nodes)
        for node in self.capture.graph.nodes:
            if node in self.capture.outside:
                self.values[node] = self.from_outside(self.capture.outside[node])
            elif node.op == "placeholder":
                self.values[node] = next(self.placeholders)
            elif node.op == "call_function":
                self.values[node] = self.call(node)

    def precision(self) -> float:
        """That of the numbers with the fewest digits in the graph."""
        found = [pytree.tree_leaves(node.meta.get("val")) for node in self.capture.graph.nodes]
        return max([0.0, *(precision_of(x) for leaves in found for x in leaves)])

    def held(self, x: torch.Tensor) -> torch.Tensor | Seen:
        """A tensor from outside. One that the function can see is alive as long as the function is, and not longer."""
        if id(x) in self.known:
            return Seen(x)
        self.kept[id(x)] = x
        return x

    def warn(self) -> None:
        listing = "; ".join(f"{name} ({line})" if line else name for name, line in self.opaque.items())
        warnings.warn(f"without a closed form, so differentiated by PyTorch itself: {listing}", stacklevel=2)

    # Values

    def from_outside(self, x: torch.Tensor) -> Any:
        """A tensor that the function found around it: one that holds real numbers and may change is a variable."""
        if is_discrete(x):
            return self.variables.get(id(x), x)
        if not x.numel():
            return x
        if id(x) not in self.variables:
            is_small = x.numel() <= MOST_WRITTEN and not x.requires_grad and id(x) not in self.moving
            if is_small or x.is_complex():
                values = x.detach().clone()
                self.written[id(x)] = (x, values)
                return values
            _check_tensor("a tensor from outside of the function", x)
            self.variables[id(x)] = self.bound(x, self.known.get(id(x), "c"))
        return self.variables[id(x)]

    def bound(self, x: torch.Tensor, wanted: str) -> Expr:
        name = self.taken.unused(wanted)
        self.captured[name] = self.held(x)
        return construct.variable(name, tuple(x.shape))

    def expr(self, value: Any, node: torch.fx.Node) -> Any:
        """A value as an expression; known tensors as constants, large ones as variables."""
        if isinstance(value, Expr | int | float | bool) or value is None:
            return value if not isinstance(value, int | float | bool) else arrays.as_expr(value)
        if value is _MISSING:
            what = "complex numbers" if node.meta["val"].is_complex() else "what has no expression"
            refuse(f"{base_name(node.target)} gives {what}: results are real numbers", line_of(node))
        if not isinstance(value, torch.Tensor):
            return value
        _check_tensor("a tensor", value)
        if id(value) in self.variables:
            return self.variables[id(value)]
        array = value.detach().to("cpu", torch.float64).numpy()
        if array.size <= MOST_WRITTEN or (array == array.flat[0]).all():
            return construct.constant(array)
        if array.ndim == 2 and array.shape[0] == array.shape[1] and np.array_equal(array, np.eye(len(array))):
            return arrays.eye(len(array))
        self.variables[id(value)] = found = self.bound(value, "c")
        return found

    # Operations

    def call(self, node: torch.fx.Node) -> Any:
        """The value of an operation: computed if all tensors are known, else an expression."""
        args = pytree.tree_map_only(torch.fx.Node, self.values.__getitem__, (tuple(node.args), dict(node.kwargs)))
        if node.target is operator.getitem:
            found = None if args[0][0] is _MISSING else args[0][0][args[0][1]]
            return _MISSING if found is None else found
        name = base_name(node.target)
        if name in _CHECKING:
            return None
        if isinstance(value := node.meta.get("val"), torch.Tensor) and value.device.type == "meta":
            return torch.zeros(tuple(value.shape))  # only its shape is asked for
        self.check(node, name)
        if isinstance(value, torch.Tensor) and not value.numel():
            return torch.zeros(tuple(value.shape), dtype=value.dtype, device=value.device)
        if name == "cat":
            args = _with_entries(*args)
        leaves = pytree.tree_leaves(args)
        if any(leaf is _MISSING for leaf in leaves):
            return self.as_opaque(node) if node in self.used else _MISSING
        if not any(isinstance(leaf, Expr) for leaf in leaves):
            return self.computed(node, name, *args)
        return self.expression(node, name, *args)

    def expression(self, node: torch.fx.Node, name: str, args: tuple, kwargs: dict) -> Any:
        """The value of an operation on expressions; what has none is left to PyTorch."""
        if isinstance(value := node.meta.get("val"), torch.Tensor) and value.is_complex():
            return self.as_opaque(node)
        if name in STOPS:
            return self.stop(name, args[0])
        if name in CASTS:
            return self.cast(node, args[0])
        if name in ATEN:
            try:
                found = self.reread(node, name)
                return self.row(node, name, args, kwargs) if found is None else found
            except Unsupported:
                pass
        return self.as_opaque(node)

    def check(self, node: torch.fx.Node, name: str) -> None:
        """Refuse what is no function of its arguments."""
        if (problem := _no_function(node, name) or _READS.get(name)) is not None:
            refuse(problem, line_of(node))
        if name == "as_strided" and not node.args[0].meta["val"].is_contiguous():
            refuse("as_strided reads memory, not the entries of a tensor", line_of(node))
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape):
                refuse(f"{name}: the shape of its result depends on the values of a tensor", line_of(node))

    def computed(self, node: torch.fx.Node, name: str, args: tuple, kwargs: dict) -> Any:
        target: Any = node.target
        with torch.no_grad():
            if name in _ZEROS:
                value = node.meta["val"]
                return torch.zeros(tuple(value.shape), dtype=value.dtype, device=value.device)
            return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, target(*args, **kwargs))

    def row(self, node: torch.fx.Node, name: str, args: tuple, kwargs: dict) -> Any:
        """An operation by its row in the table."""
        row, kind = ATEN[name], _kind(node)
        if kind == "integer" and any(_kind(source) == "real" for source in node.all_input_nodes):
            raise Unsupported
        if name.startswith("bitwise") and kind != "truth":
            self.need(args)
            raise Unsupported
        if name == "index_put" and (found := self.masked_put(node, *args)) is not None:
            return found
        given = [self.index(row, x) if k in row.known else self.exprs(node, x) for k, x in enumerate(args)]
        named = {key: self.exprs(node, x) for key, x in kwargs.items()}
        try:
            result = row.function(*given, **named)
            return not_equal(result, 0) if name in ("add", "sum") and kind == "truth" else result
        except UnfitIndicesError:
            self.need(args)
            raise
        except (EindiffError, TypeError, AttributeError, IndexError) as error:
            raise EindiffError(f"{name}: {error} ({line_of(node)})", "tracing") from error

    def reread(self, node: torch.fx.Node, name: str) -> Any:
        """Parts of a tensor as they were written last, if any was."""
        parts = [(part, *last_written(node.args[0], part)) for part in parts_read(name, node)]
        if all(source is node.args[0] for _, source, _ in parts):
            return None
        found = []
        for (axis, places, keeps), source, is_whole in parts:
            value = self.expr(self.values[source], source)
            chosen = slice(places.start, places.stop, places.step) if keeps else places.start
            found.append(value if is_whole else along(value, axis, chosen))
        return found if name.startswith("split") else found[0]

    def need(self, *args: Any) -> None:
        """Trace again with known values, if what is given depends on those of arrays of indices alone."""
        exprs = [x for x in pytree.tree_leaves(args) if isinstance(x, Expr)]
        needed = [self.given[x] for x in variables(*exprs) if x in self.given]
        if needed:
            raise NeedsLeavesError(frozenset(needed))

    def index(self, row: AtenRow, arg: Any) -> Any:
        """An argument whose values have to be known, or are those of arrays of indices; else it is PyTorch's."""
        exprs = [leaf for leaf in pytree.tree_leaves(arg) if isinstance(leaf, Expr)]
        if exprs and not (row.takes_given and self.given.keys() >= set(variables(*exprs))):
            self.need(exprs)
            raise Unsupported
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, arg)

    def exprs(self, node: torch.fx.Node, arg: Any) -> Any:
        """An argument with expressions for tensors."""
        return pytree.tree_map_only(torch.Tensor, lambda x: self.expr(x, node), arg)

    def masked_put(
        self, node: torch.fx.Node, x: Any, indices: Any, value: Any, accumulate: bool = False
    ) -> Expr | None:
        """`x[mask] = number`, with a mask that depends on the inputs, is a choice."""
        [mask, *rest] = indices
        if rest or accumulate or not isinstance(mask, Expr) or not isinstance(node.args[1], list | tuple):
            return None
        x, value = self.expr(x, node), self.expr(value, node)
        if _kind(node.args[1][0]) != "truth" or value.ndim or mask.shape != x.shape[: mask.ndim]:
            return None
        spread = mask[(..., *[None] * (x.ndim - mask.ndim))]
        return functions.where(spread, value, x)

    @staticmethod
    def cast(node: torch.fx.Node, x: Expr) -> Expr:
        """Real numbers as integers are cut off; anything as a truth value is whether it is not 0."""
        source, kind = _kind(node.all_input_nodes[0]), _kind(node)
        if kind == "truth" and source != "truth":
            return not_equal(x, 0)
        return trunc(x) if kind == "integer" and source == "real" else x

    def stop(self, name: str, x: Expr) -> Expr:
        """A variable that stands for an expression: a constant for derivatives, or for those in reverse mode."""
        inputs = {*self.inputs.values(), *self.stopped_in_reverse}
        if not any(node in inputs for node in topological([x])):
            return x
        variable = construct.variable(self.taken.unused("detached"), x.shape)
        [value] = Stops(in_reverse=self.stopped_in_reverse).put_in([x])
        if name != "stop_gradient":
            self.stopped_in_reverse[variable] = value
        else:
            self.stopped[variable.name] = value
        return variable

    def as_opaque(self, node: torch.fx.Node) -> Any:
        """An operation that PyTorch computes and differentiates itself: one function for each of its results.

        Operations before it that have no expression, such as those with complex numbers, are part of it.
        """
        value, part = node.meta["val"], self.part(node)
        inputs = [source for x in part for source in x.all_input_nodes]
        self.need([self.values[x] for x in inputs if _kind(x) == "integer"])
        self.opaque.setdefault(base_name(part[0].target), line_of(part[0]))
        if isinstance(value, torch.Tensor) and value.is_complex():
            return _MISSING
        inside = set(part)
        sources = dict.fromkeys(source for x in part for source in x.all_input_nodes if source not in inside)
        known = {x: self.values[x] for x in sources if not isinstance(self.values[x], Expr)}
        given = [x for x in sources if x not in known]
        exprs = [self.values[x] for x in given]
        if isinstance(value, torch.Tensor):
            return self.applied(node, partial(_run, part, given, known, None), exprs, value)
        return [
            self.applied(node, partial(_run, part, given, known, k), exprs, x)
            if isinstance(x, torch.Tensor) and not x.is_complex()
            else _MISSING
            for k, x in enumerate(value)
        ]

    def part(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """An operation and those before it that have no expression, or whose integers depend on values, in order."""
        found, before = {node}, list(self.capture.graph.nodes)
        for x in reversed(before):
            if x in found:
                found.update(source for source in x.all_input_nodes if self.is_apart(source))
        return [x for x in before if x in found]

    def is_apart(self, node: torch.fx.Node) -> bool:
        value = self.values[node]
        return (
            value is _MISSING or (isinstance(value, list | tuple) and node.op == "call_function")
            or (isinstance(value, Expr) and _kind(node) == "integer")
        )  # fmt: skip

    @staticmethod
    def applied(node: torch.fx.Node, run: Callable, exprs: list[Expr], value: torch.Tensor) -> Expr:
        shapes, name = [x.shape for x in exprs], base_name(node.target)
        function = opaque(name, run, shapes, tuple(value.shape), not is_discrete(value))
        return construct.apply(function, exprs)


def _run(
    part: Sequence[torch.fx.Node], given: Sequence[torch.fx.Node], known: Mapping[torch.fx.Node, Any],
    which: int | None, *tensors: torch.Tensor,
) -> Any:  # fmt: skip
    """The result of the last of some operations, or one of its results."""
    values = {**known, **{x: _typed(x, value) for x, value in zip(given, tensors, strict=True)}}
    for x in part:
        args, kwargs = pytree.tree_map_only(torch.fx.Node, values.__getitem__, (tuple(x.args), dict(x.kwargs)))
        target: Any = x.target
        name = base_name(target)
        if name in _MEMORY:
            args = (args[0].contiguous(), *args[1:])
        values[x] = args[0].detach() if name in STOPS else target(*args, **kwargs)
    return values[x] if which is None else values[x][which]


def _typed(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
    """What programs have numbers for, as PyTorch has it."""
    return value != 0 if _kind(node) == "truth" else value


def _changed(held: Sequence[tuple[torch.Tensor | Seen, torch.Tensor]]) -> list[torch.Tensor]:
    """The tensors that have other values now."""
    now = [(x.get() if isinstance(x, Seen) else x, values) for x, values in held]
    return [x for x, values in now if not torch.equal(x, values)]


def _with_entries(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of `cat` without tensors that have no entries, and add nothing."""
    kept = [x for x in args[0] if isinstance(x, Expr) or x.numel()]
    return (kept or args[0], *args[1:]), kwargs


def _no_function(node: torch.fx.Node, name: str) -> str | None:
    """Why an operation does more than to compute something from its arguments."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return f"{name} is no operation on tensors"
    if _RANDOM in target.tags:
        return f"{name} {RANDOM}"
    if target._schema.is_mutable and name not in _BATCH_NORMS:
        return f"{name} {OUTSIDE}"
    if name in _BATCH_NORMS and node.args[5] is True and node.args[3] is not None:
        return "batch normalization in train mode updates its running statistics: use eval()"
    return None


def _kind(node: torch.fx.Node) -> str:
    """What a tensor holds: real numbers, integers, truth values."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return ""
    return "truth" if value.dtype == torch.bool else "integer" if is_discrete(value) else "real"


def line_of(node: torch.fx.Node) -> str:
    """The user's line that an operation comes from."""
    return node.meta.get("stack_trace") or node.stack_trace or ""

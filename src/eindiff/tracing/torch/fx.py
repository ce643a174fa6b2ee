"""From a captured graph of PyTorch's operations to expressions."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from eindiff.tracing.torch import aten_matrices, aten_networks, aten_shapes  # noqa: F401 (they fill the table)
from eindiff.tracing.torch.aten import ATEN, CASTS, AtenRow, OutOfRange
from eindiff.tracing.torch.capture import Capture, base_name, capture, is_discrete, refuse
from eindiff.tracing.torch.opaque import opaque
from eindiff.tracing.unsupported import RANDOM, Unsupported
from eindiff.tracing.verify import precision_of

_RANDOM = torch.Tag.nondeterministic_seeded
_ZEROS = ("empty", "empty_strided", "empty_permuted", "_efficientzerotensor")  # what is not set yet is taken as zero
_CHECKING = ("_linalg_check_errors", "_assert_tensor_metadata", "_assert_async", "_assert_scalar", "is_same_size",
           "_has_same_storage_numel")  # fmt: skip
_BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm")
_READS = {
    name: f"{name}: the values of a tensor decide what is computed"
    for name in ("_local_scalar_dense", "nonzero", "unique_dim", "_unique2", "masked_select")
} | {"as_strided": "as_strided reads memory, not the entries of a tensor"}
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
            moved=lambda: _changed(written),
        )  # fmt: skip

    def evaluate(self) -> None:
        """Find the values of all nodes."""
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
        _check_tensor("a tensor from outside of the function", x)
        if id(x) not in self.variables:
            if x.numel() <= MOST_WRITTEN and not x.requires_grad and id(x) not in self.moving:
                values = x.detach().clone()
                self.written[id(x)] = (x, values)
                return values
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
            refuse(f"a result of {node.name} that has no expression is used", line_of(node))
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
            value = None if args[0][0] is _MISSING else args[0][0][args[0][1]]
            return _MISSING if value is None else value
        name = base_name(node.target)
        if name in _CHECKING:
            return None
        if isinstance(value := node.meta.get("val"), torch.Tensor) and value.device.type == "meta":
            return torch.zeros(tuple(value.shape))  # only its shape is asked for
        self.check(node, name)
        if name == "cat":  # a tensor without entries adds nothing
            kept = [x for x in args[0][0] if isinstance(x, Expr) or x.numel()]
            args = ((kept or args[0][0], *args[0][1:]), args[1])
        leaves = pytree.tree_leaves(args)
        if any(leaf is _MISSING for leaf in leaves):
            return _MISSING
        if not any(isinstance(leaf, Expr) for leaf in leaves):
            return self.computed(node, name, *args)
        if name in ("stop_gradient", "stop_reverse"):
            return self.stop(args[0][0], name == "stop_reverse")
        if name in CASTS:
            return self.cast(node, args[0][0])
        if name in ATEN:
            try:
                return self.row(node, name, *args)
            except Unsupported:
                pass
        return self.as_opaque(node, name, *args)

    def check(self, node: torch.fx.Node, name: str) -> None:
        """Refuse what is no function of its arguments."""
        if (problem := _no_function(node, name) or _READS.get(name)) is not None:
            refuse(problem, line_of(node))
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape):
                refuse(f"{name}: the shape of its result depends on the values of a tensor", line_of(node))
            if isinstance(value, torch.Tensor) and value.is_complex():
                refuse(f"{name} gives complex numbers: expressions are of real numbers", line_of(node))

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
            refuse(f"{name} of integers that depend on the values of the inputs", line_of(node))
        if name == "index_put" and (found := self.masked_put(node, *args)) is not None:
            return found
        given = [self.index(node, row, name, x) if k in row.known else self.exprs(node, x) for k, x in enumerate(args)]
        named = {key: self.exprs(node, x) for key, x in kwargs.items()}
        try:
            result = row.function(*given, **named)
            return not_equal(result, 0) if name in ("add", "sum") and kind == "truth" else result
        except OutOfRange:
            self.need(args)
            raise
        except (EindiffError, TypeError, AttributeError, IndexError) as error:
            raise EindiffError(f"{name}: {error} ({line_of(node)})", "tracing") from error

    def need(self, *args: Any) -> None:
        """Trace again with known values, if what is given depends on those of arrays of indices alone."""
        exprs = [x for x in pytree.tree_leaves(args) if isinstance(x, Expr)]
        needed = [self.given[x] for x in variables(*exprs) if x in self.given]
        if needed:
            raise NeedsLeavesError(frozenset(needed))

    def index(self, node: torch.fx.Node, row: AtenRow, name: str, arg: Any) -> Any:
        """An argument whose values have to be known, or are those of arrays of indices."""
        exprs = [leaf for leaf in pytree.tree_leaves(arg) if isinstance(leaf, Expr)]
        if exprs and not (row.takes_given and self.given.keys() >= set(variables(*exprs))):
            self.need(exprs)
            refuse(f"{name}: the indices depend on the values of the inputs", line_of(node))
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

    def stop(self, x: Expr, in_reverse: bool) -> Expr:
        """A variable that stands for an expression: a constant for derivatives, or for those in reverse mode."""
        inputs = {*self.inputs.values(), *self.stopped_in_reverse}
        if not any(node in inputs for node in topological([x])):
            return x
        variable = construct.variable(self.taken.unused("detached"), x.shape)
        [value] = Stops(in_reverse=self.stopped_in_reverse).put_in([x])
        if in_reverse:
            self.stopped_in_reverse[variable] = value
        else:
            self.stopped[variable.name] = value
        return variable

    def as_opaque(self, node: torch.fx.Node, name: str, args: tuple, kwargs: dict) -> Any:
        """An operation that PyTorch computes and differentiates itself: one function for each of its results."""
        self.opaque.setdefault(name, line_of(node))
        leaves, structure = pytree.tree_flatten((args, kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Expr)]
        exprs = [leaves[k] for k in places]
        target: Any = node.target

        def run(which: int | None) -> Callable:
            def value(*tensors: torch.Tensor) -> torch.Tensor:
                filled = list(leaves)
                for place, x in zip(places, tensors, strict=True):
                    filled[place] = x
                given, named = pytree.tree_unflatten(filled, structure)
                result = target(*given, **named)
                return result if which is None else result[which]

            return value

        if any(_kind(x) == "integer" and isinstance(self.values[x], Expr) for x in node.all_input_nodes):
            self.need(args, kwargs)
            refuse(f"{name} of integers that depend on the values of the inputs", line_of(node))
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return self.applied(name, run(None), exprs, value)
        return [
            self.applied(name, run(k), exprs, x) if isinstance(x, torch.Tensor) else _MISSING
            for k, x in enumerate(value)
        ]

    @staticmethod
    def applied(name: str, run: Callable, exprs: list[Expr], value: torch.Tensor) -> Expr:
        function = opaque(name, run, [x.shape for x in exprs], tuple(value.shape), not is_discrete(value))
        return construct.apply(function, exprs)


def _changed(held: Sequence[tuple[torch.Tensor | Seen, torch.Tensor]]) -> list[torch.Tensor]:
    """The tensors that have other values now."""
    now = [(x.get() if isinstance(x, Seen) else x, values) for x, values in held]
    return [x for x, values in now if not torch.equal(x, values)]


def _no_function(node: torch.fx.Node, name: str) -> str | None:
    """Why an operation does more than to compute something from its arguments."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return f"{name} is no operation on tensors"
    if _RANDOM in target.tags:
        return f"{name} {RANDOM}"
    if target._schema.is_mutable and name not in _BATCH_NORMS:
        return f"{name} changes a tensor from outside of the function in place"
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

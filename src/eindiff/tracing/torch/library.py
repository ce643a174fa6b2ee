"""PyTorch's tensors for traced functions: trees, types, what a function sees, and what PyTorch does itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.overrides import _pop_mode_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.core.recent import Same, Seen
from eindiff.tracing.closures import MOST_DEPTH, PLAIN_TYPES, Surroundings, digest
from eindiff.tracing.computation import Computation, Programs
from eindiff.tracing.given_indices import MANY
from eindiff.tracing.library import Arguments, Library, Traced
from eindiff.tracing.names import function_name, leaf_paths
from eindiff.tracing.torch.capture import is_discrete, is_real
from eindiff.tracing.torch.fx import trace
from eindiff.tracing.torch.meanwhile import DERIVING, REVERSE, Allowance, is_right, seconds_ahead, spelled_out_attention
from eindiff.tracing.torch.predicted import CALLS, CLEAR, DOUBTFUL, is_worth_a_look, timed, times_longer
from eindiff.tracing.torch.whole import check_tangents, transform
from eindiff.tracing.verify import Call, Change

if TYPE_CHECKING:
    from eindiff.tracing.traced_function import TracedFunction


_INTEGERS = (torch.int64, torch.int32, torch.int16)
SAME_WITHIN = 1e-3  # in which PyTorch's derivative is the same: what it leaves out is more, single precision is less
FEW_CALLS = frozenset({"grad", "grad_and_value", "hvp"})  # kinds that take a few calls of the function, whatever it is


class TorchSurroundings(Surroundings):
    """The key of a function of tensors, which are known by identity: a trace reads their values anew at each call."""

    plain = (*PLAIN_TYPES, torch.dtype, torch.device)

    def array_key(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (Same(value), tuple(value.shape), value.dtype)
        return super().array_key(value)

    def attributes(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """Of a module not its hooks and tables, which are those of every module, but what they hold."""
        if not isinstance(value, torch.nn.Module):
            yield from super().attributes(value, path, depth)
            return
        inside = min(depth, MOST_DEPTH - 2)  # however deep a network is nested
        for name in ("_parameters", "_buffers", "_modules"):
            yield from self.walk(vars(value)[name], path, inside)
        yield from self.named(vars(value), path, inside, lambda name: not name.startswith("_") or name.startswith("__"))

    @property
    def names(self) -> dict[int, str]:
        """The names of the arrays that the function sees, by their identity."""
        return {key: name for key, (name, _) in self.arrays.items()}


def flat(tree: Any, leaves: list[Any]) -> Any:
    """What nested containers are known by, without their leaves, which are added to a list: in a fraction of the time
    that PyTorch takes to look into them, which is longer than a small program runs."""
    kind = type(tree)
    if kind is torch.Tensor:
        leaves.append(tree)
        return None
    if kind is tuple or kind is list:
        return (kind, *[flat(x, leaves) for x in tree])
    if kind is dict:
        return (kind, *tree, *[flat(x, leaves) for x in tree.values()])
    found, structure = pytree.tree_flatten(tree)
    leaves += found
    return None if structure.is_leaf() else structure


@lru_cache(maxsize=256)
def structure_of(form: Any) -> Any:
    """The structure of containers that are known by a form."""
    return pytree.tree_structure(_containers(form))


def _containers(form: Any) -> Any:
    if form is None:
        return 0
    if not isinstance(form, tuple):
        return form.unflatten([0] * form.num_leaves)
    kind, *parts = form
    if kind is not dict:
        return kind(map(_containers, parts))
    names = parts[: len(parts) // 2]
    return dict(zip(names, map(_containers, parts[len(names) :]), strict=True))


def _leaf_key(leaf: Any) -> Any:
    """What a trace depends on: shapes and types of real numbers, the values of all else."""
    if not isinstance(leaf, torch.Tensor):
        return TorchSurroundings(leaf).key
    values = digest(as_array(leaf)) if is_discrete(leaf) and not _may_be_given(leaf) else None
    return tuple(leaf.shape), leaf.dtype, leaf.device, values


def _may_be_given(leaf: Any) -> bool:
    """Whether a leaf is an array of indices that may be an input of a program, as those of real numbers are."""
    if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _INTEGERS or not is_real(leaf):
        return False
    return leaf.numel() >= MANY and leaf.device.type == "cpu"


def _leaf_text(name: str, leaf: Any) -> str:
    return f"{name} {tuple(leaf.shape)} {leaf.dtype}" if isinstance(leaf, torch.Tensor) else f"{name}={leaf!r}"


def _said(x: Any) -> str:
    return f"a tensor of {x.dtype}" if isinstance(x, torch.Tensor) else repr(x)


def as_array(x: torch.Tensor) -> np.ndarray:
    """The entries of a tensor, without a copy where they are in main memory."""
    return (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).numpy(force=True)


def _typed(value: Any, dtype: Any, device: torch.device | None) -> Any:
    """A value as a tensor of a type; operators and steps as they are."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype)
    if dtype is None or not isinstance(value, np.ndarray | np.generic | float):
        return value
    array = np.asarray(value)
    usable = array.flags.writeable and min(array.strides, default=0) >= 0
    tensor = torch.from_numpy(array if usable else array.copy())
    is_there = tensor.dtype is dtype and (device is None or device.type == "cpu")
    return tensor if is_there else tensor.to(device, dtype)


def _unwatched() -> ExitStack:
    """What takes the modes away that look at calls of PyTorch's functions, those of a trace around this one too."""
    stack = ExitStack()
    for _ in range(torch._C._len_torch_function_stack()):
        stack.enter_context(_pop_mode_temporarily())
    return stack


def _like(x: torch.Tensor) -> torch.Tensor | None:
    """A tensor of the same shape and type for one that has no values; None if these would be needed."""
    return None if is_discrete(x) else torch.ones(tuple(x.shape), dtype=x.dtype, device=x.device)


class TorchLibrary(Library):
    """PyTorch's tensors; a function of them is captured as a graph of ATen's operations."""

    name, surroundings, flatten = "torch.func", TorchSurroundings, staticmethod(pytree.tree_flatten)
    sees_numbers = True

    def read(self, function: TracedFunction, args: tuple, keywords: dict[str, Any]) -> Arguments:
        leaves = list[Any]()
        form = flat((args, keywords), leaves)
        return Arguments(args, keywords, leaves, structure_of(form), (form, *map(_leaf_key, leaves)))

    def chosen(self, function: TracedFunction, arguments: Arguments) -> tuple[list[int], Any]:
        places, structure = super().chosen(function, arguments)
        if len(set(places)) < len(places):
            raise EindiffError(f"argnums={function.argnums!r}: an argument is named twice", "options")
        for leaf in [arguments.leaves[k] for k in places]:
            if not isinstance(leaf, torch.Tensor) or not leaf.dtype.is_floating_point:
                raise EindiffError(
                    f"a variable to differentiate by is a tensor of real numbers, not {_said(leaf)}", "tracing"
                )
        return places, structure

    def trace(
        self, function: TracedFunction, arguments: Arguments, known: frozenset[int], around: TorchSurroundings,
        before: Traced | None,
    ) -> Traced:  # fmt: skip
        f, leaves, structure = function.function, arguments.leaves, arguments.structure
        paths, _ = pytree.tree_flatten_with_path((arguments.args, arguments.keywords))
        names = ["_".join(parts) for parts in leaf_paths(f, [path for path, _ in paths], len(arguments.args))]
        self.log.info("tracing %s for %s", function_name(f), ", ".join(map(_leaf_text, names, leaves)))
        given = [k for k, leaf in enumerate(leaves) if k not in known and _may_be_given(leaf)]
        found = trace(f, leaves, structure, names, around.names, () if before is None else before.moved(), given)
        if given:  # the type of the program is that of real numbers
            around_it = [x.get() if isinstance(x, Seen) else x for x in found.captured.values()]
            real = [leaves[k] for k in found.inputs if k not in given] + [x for x in around_it if not is_discrete(x)]
            found.dtype = np.result_type(*[as_array(x[:0] if x.ndim else x).dtype for x in real])
        return found

    def plain_call(self, function: TracedFunction, arguments: Arguments, traced: Traced) -> Call:
        """A call with copies of the tensors."""
        tensors = [
            x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
            for x in arguments.leaves
        ]

        def at(change: Change) -> list[Any]:
            moved = [torch.as_tensor(change(x.detach())) if isinstance(x, torch.Tensor) else x for x in tensors]
            args, keywords = arguments.structure.unflatten(moved)
            found = pytree.tree_leaves(function.function(*args, **keywords))
            return [x for x in found if isinstance(x, torch.Tensor)]

        args, keywords = arguments.structure.unflatten(tensors)
        found, form = pytree.tree_flatten(function.function(*args, **keywords))
        results = [x for x in found if isinstance(x, torch.Tensor)]
        return Call(results, (form, [x.dtype for x in results]), precision=traced.precision, at=at)

    def are_numbers(self, arrays: Mapping[str, Any]) -> bool:
        return all(map(is_real, arrays.values()))

    def is_accelerated(self, arrays: Mapping[str, Any]) -> bool:
        return any(x.device.type != "cpu" for x in arrays.values())

    def inputs(self, arrays: Mapping[str, Any], form: str) -> tuple[str, Mapping[str, Any]]:
        """NumPy for tensors in main memory; PyTorch where they are elsewhere, or are differentiated further."""
        tensors = [x for x in arrays.values() if isinstance(x, torch.Tensor)]  # a comparison gives numbers of NumPy
        if not all(map(is_real, tensors)):
            return "torch", arrays
        wants_grad = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        if form == "dense" and (wants_grad or not all(x.is_cpu for x in tensors)):
            return "torch", arrays
        return "numpy", {name: as_array(x) if isinstance(x, torch.Tensor) else x for name, x in arrays.items()}

    def settled(self, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        with torch.no_grad():
            return super().settled(arrays)

    def completed(self, arrays: Mapping[str, Any], apart: Mapping[str, Expr]) -> Mapping[str, Any]:
        found = {name: torch.as_tensor(x) for name, x in arrays.items()}
        dtype = next((x.dtype for x in found.values() if x.dtype.is_floating_point), None)
        for name, expr in apart.items():
            [value] = Programs([expr])(self, {name: x.detach() for name, x in found.items()})
            found[name] = self.typed(value, dtype, found).detach()
        return found

    def typed(self, value: Any, dtype: Any, arrays: Mapping[str, Any]) -> Any:
        return self.all_typed([value], [dtype], arrays)[0]

    def all_typed(self, values: Sequence[Any], types: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        """Values as tensors of types, where the first of the given ones is."""
        device = next((x.device for x in arrays.values() if isinstance(x, torch.Tensor)), None)
        return [_typed(value, dtype, device) for value, dtype in zip(values, types, strict=True)]

    def type_of(self, leaf: Any) -> Any:
        return leaf.dtype

    def problem(self, traced: Traced, k: int) -> str:
        output, dtype = traced.outputs[k], traced.types[k]
        if isinstance(output, Expr) and dtype.is_floating_point:
            return ""
        kind = f"a tensor of {dtype}" if isinstance(output, Expr) else repr(output)
        return f"a function to differentiate returns tensors of real numbers, not {kind}"

    def check_numbers(self, what: str, outputs: Sequence[Expr], name: str) -> None:
        if len(outputs) != 1 or outputs[0].ndim:
            shapes = ", ".join(str(tuple(y.shape)) for y in outputs)
            raise EindiffError(
                f"the function has to return one scalar tensor, not tensors of shapes {shapes}", "scalars"
            )

    def meanwhile(
        self, function: TracedFunction, arguments: Arguments, around: Any, traced: Traced
    ) -> Callable[[Arguments, Any], Any] | None:
        """By PyTorch, where a program takes long to find, until all its calls have taken as long."""
        kind, places, form = function.kind.name, *self.chosen(function, arguments)
        is_plain = not (function.has_aux or function.options.structured) and kind in DERIVING
        if not is_plain or self.inputs(function.arrays(arguments, traced), "dense")[0] == "torch":
            return None
        is_reverse = kind == "hessian" and traced.effort.is_doubtful
        run = spelled_out_attention(self._own_run(function, arguments, REVERSE if is_reverse else None))
        key = (function.kind, function.options, function.argnums)
        if key not in traced.allowances:
            seconds = seconds_ahead(kind, traced, sum(arguments.leaves[k].numel() for k in places))
            gradient = torch.func.grad(function.function, function.argnums)
            is_used = seconds > 0 and is_right(run, gradient, arguments, places, form, kind == "hvp")
            traced.allowances[key] = Allowance(seconds if is_used else 0.0)
        allowance: Allowance = traced.allowances[key]
        return allowance.watched(run) if allowance.seconds > 0 else None

    def _own_run(
        self, function: TracedFunction, arguments: Arguments, modes: tuple[str, str] | None = None
    ) -> Callable[[Arguments, Any], Any]:
        """PyTorch's own derivative, of arguments and directions; a Hessian in some modes."""
        own, (places, form) = self.own(function, modes), self.chosen(function, arguments)

        def run(arguments: Arguments, directions: Any) -> Any:
            if directions is None:
                return own(*arguments.args, **arguments.keywords)
            check_tangents([arguments.leaves[k] for k in places], form, directions)
            return own(*arguments.args, **arguments.keywords, tangents=directions)

        return run

    def instead(
        self, function: TracedFunction, arguments: Arguments, around: TorchSurroundings, traced: Traced,
        found: Computation,
    ) -> Callable[[Arguments, Any], Any] | None:  # fmt: skip
        """By PyTorch, where a part is left to it anyway and products go through that part one after the other, and
        where its own derivative is predicted to take less time or memory."""
        kind = function.kind.name
        if function.has_aux or function.options.structured or not (kind == "hessian" or transform(kind)):
            return None
        run = self._own_run(function, arguments)
        is_scaled = traced.effort.is_scaled and kind in ("hvp", "hessian_diagonal")
        if is_scaled or (traced.opaque and (kind in FEW_CALLS or traced.effort.is_complex)):
            return run
        is_own = self.inputs(function.arrays(arguments, traced), "dense")[0] == "torch"
        if is_own not in found.is_better_elsewhere:
            longer = self._times_longer(function, arguments, traced, found, is_own)
            is_better = longer > DOUBTFUL and self._is_as_good(function, arguments, traced, run, longer > CLEAR)
            found.is_better_elsewhere[is_own] = is_better
        return run if found.is_better_elsewhere[is_own] else None

    def _times_longer(
        self, function: TracedFunction, arguments: Arguments, traced: Traced, found: Computation, is_own: bool
    ) -> float:
        """How many times as long as PyTorch's own derivative a program is predicted to take; 0 if that is not asked, at
        least 1 where a part is left to PyTorch, of which nothing is known."""
        if found.dense is None or (is_own and traced.effort.is_doubtful):  # its result may be differentiated further
            return 0.0
        kind, plan = function.kind.name, found.dense.compiled("torch" if is_own else "numpy").plan()
        if not traced.opaque and not is_worth_a_look(kind, plan, is_own):
            return 0.0
        places, _ = self.chosen(function, arguments)
        entries = [x.shape for x in traced.outputs] if kind == "jacrev" else [arguments.leaves[k].shape for k in places]
        found_longer = times_longer(kind, plan, is_own, traced.effort, sum(map(prod, entries)))
        return max(found_longer, 1.0) if traced.opaque else found_longer

    def _is_as_good(
        self, function: TracedFunction, arguments: Arguments, traced: Traced, run: Callable[[Arguments, Any], Any],
        is_faster: bool,
    ) -> bool:  # fmt: skip
        """Whether PyTorch's own derivative is there, is the same, as some second ones are not, and takes no longer."""
        places, form = self.chosen(function, arguments)
        tangents = form.unflatten([arguments.leaves[k].detach() / 2 + 1 for k in places])
        directions = tangents if function.kind.name == "hvp" else None
        calls = 1 if is_faster else CALLS
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                own_seconds, own = timed(lambda: run(arguments, directions), calls)
        except (RuntimeError, NotImplementedError, UserWarning):  # PyTorch has no rule for it, or does it step by step
            return False
        seconds, ours = timed(lambda: function.values(arguments, traced, directions), calls)
        pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(own), strict=True)
        return (is_faster or own_seconds < seconds) and all(
            torch.allclose(x, y, rtol=SAME_WITHIN, atol=SAME_WITHIN * float(y.abs().max()), equal_nan=True)
            for x, y in [(x.detach(), y.detach()) for x, y in pairs]
        )

    def inside(self, function: TracedFunction, args: tuple, keywords: dict[str, Any], directions: Any) -> Any:
        """A derivative inside of another transformation, which traces its program: PyTorch's operations on its tensors.

        It is PyTorch's own where the function sees a tensor without values, or is not differentiated by one rule.
        """
        leaves, structure = pytree.tree_flatten((args, keywords))
        try:
            with temporarily_clear_interpreter_stack(), _disable_current_modes(), _unwatched():
                traced = self._shaped(function, leaves, structure)
        except EindiffError:  # what PyTorch does not differentiate itself, it refuses
            traced = None
        if traced is None:
            more = {} if directions is None else {"tangents": directions}
            return self.own(function)(*args, **keywords, **more)
        return function.values(Arguments(args, keywords, leaves, structure, None), traced, directions)

    def _shaped(self, function: TracedFunction, leaves: Sequence[Any], structure: Any) -> Traced | None:
        """A trace for tensors of which only shapes and types are known, and its program."""
        shaped = [_like(x) if isinstance(x, torch.Tensor) and not is_real(x) else x for x in leaves]
        seen = self.surroundings(function.function).arrays.values()
        if any(x is None for x in shaped) or not all(is_real(x) for _, x in seen if isinstance(x, torch.Tensor)):
            return None
        args, keywords = structure.unflatten(shaped)
        arguments = self.read(function, args, keywords)
        arguments.may_be_left = arguments.has_values = False
        traced = function.read(arguments)
        if traced.stops.in_reverse or traced.effort.is_complex:
            return None
        function.prepare(traced, "torch")
        return traced

    def own(self, function: TracedFunction, modes: tuple[str, str] | None = None) -> Callable:
        options, f, argnums, has_aux = function.options, function.function, function.argnums, function.has_aux
        kind = function.kind.name
        for one in (modes or options.modes) if kind == "hessian" else [kind]:
            found = transform(one)
            if found is None or options.structured:
                raise EindiffError(
                    f"torch.func has no {kind}{' with structure' * options.structured} to fall back to", "tracing"
                )
            f = found(f, argnums, has_aux=has_aux)
        return f


TORCH = TorchLibrary()

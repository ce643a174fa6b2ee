"""Programs for derivatives of traced functions of tensors: what to compute, how to run it, and in which structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from eindiff.calculus import contracted, derive
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable
from eindiff.core.recent import Same
from eindiff.structure import newton
from eindiff.structure.compile import compile
from eindiff.tracing import front_ends as common
from eindiff.tracing.front_ends import Lowered, Newton, key_text, positional_names
from eindiff.tracing.torch.capture import is_real
from eindiff.tracing.torch.fx import Traced, finished
from eindiff.tracing.verify import Call, compare, interpreter

Argnums = int | tuple[int, ...]


# What is differentiated by what


@dataclass(frozen=True)
class Request:
    """The outputs of a traced function, the variables to differentiate by, and the structures of both."""

    outputs: list[Expr]
    output_types: list[Any]
    output_structure: Any
    aux: list[Any]
    aux_types: list[Any]
    aux_structure: Any  # None if there is none
    variables: list[Variable]
    variable_types: list[Any]
    variable_structure: Any
    stopped_in_reverse: Mapping[Expr, Expr]

    def finished(self, exprs: list[Expr]) -> list[Expr]:
        """Derivatives in reverse mode, with what was constant put in: now derivatives are by that too."""
        return finished(exprs, self.stopped_in_reverse)

    @property
    def key(self) -> tuple:
        """What a program depends on. Equal expressions are one object."""
        aux = (x if isinstance(x, Expr) else Same(x) for x in self.aux)
        return (
            *self.outputs, *self.output_types, self.output_structure, *aux, *self.aux_types, self.aux_structure,
            *self.variables, *self.variable_types, self.variable_structure, *self.stopped_in_reverse.items(),
        )  # fmt: skip


def request(traced: Traced, leaves: Sequence[Any], structure: Any, argnums: Argnums, has_aux: bool) -> Request:
    """The part of a trace that a derivative is asked of."""
    places = pytree.tree_unflatten(list(range(len(traced.outputs))), traced.structure)
    aux = None
    if has_aux:
        if not isinstance(places, tuple) or len(places) != 2:
            raise EindiffError("has_aux=True: the function has to return a pair of its output and auxiliary data")
        places, aux = places
    which, form = pytree.tree_flatten(places)
    others, aux_form = pytree.tree_flatten(aux) if has_aux else ([], None)
    for k in which:
        if not isinstance(traced.outputs[k], Expr) or not traced.dtypes[k].is_floating_point:
            raise EindiffError(f"a function to differentiate returns tensors of real numbers, not {_said(traced, k)}")
    chosen, variable_form = _chosen(leaves, structure, argnums)
    inputs = iter(traced.inputs)
    by_leaf = [next(inputs) if _is_input(leaf) else None for leaf in leaves]
    for k in chosen:
        if by_leaf[k] is None:
            raise EindiffError(f"a variable to differentiate by is a tensor of real numbers, not {_kind(leaves[k])}")
    return Request(
        [traced.outputs[k] for k in which], [traced.dtypes[k] for k in which], form,
        [_finished(traced, traced.outputs[k]) for k in others], [traced.dtypes[k] for k in others], aux_form,
        [x for k in chosen if (x := by_leaf[k]) is not None], [leaves[k].dtype for k in chosen], variable_form,
        traced.stopped_in_reverse,
    )  # fmt: skip


def _finished(traced: Traced, output: Any) -> Any:
    """An output with nothing constant in reverse mode: its value."""
    return finished([output], traced.stopped_in_reverse)[0] if isinstance(output, Expr) else output


def _is_input(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point


def _kind(leaf: Any) -> str:
    return f"a tensor of {leaf.dtype}" if isinstance(leaf, torch.Tensor) else repr(leaf)


def _said(traced: Traced, k: int) -> str:
    return f"a tensor of {traced.dtypes[k]}" if isinstance(traced.outputs[k], Expr) else repr(traced.outputs[k])


def _chosen(leaves: Sequence[Any], structure: Any, argnums: Argnums) -> tuple[list[int], Any]:
    """The places of the leaves of some arguments, and the structure of these arguments."""
    args, _ = pytree.tree_unflatten(list(range(len(leaves))), structure)
    wanted = argnums if isinstance(argnums, tuple) else (argnums,)
    for k in wanted:
        if not isinstance(k, int) or not -len(args) <= k < len(args):
            raise EindiffError(f"argnums={argnums!r}: the function got {len(args)} arguments by position")
    if len({k % len(args) for k in wanted}) < len(wanted):
        raise EindiffError(f"argnums={argnums!r}: an argument is named twice")
    return pytree.tree_flatten(tuple(args[k] for k in wanted) if isinstance(argnums, tuple) else args[argnums])


def leaf_names(function: Callable, leaves: Sequence[Any], structure: Any) -> list[str]:
    """A name for each leaf of the arguments: that of the parameter, and of the place in it."""
    args, kwargs = pytree.tree_unflatten(list(leaves), structure)
    found = []
    for name, arg in [*zip(positional_names(function, len(args)), args, strict=True), *kwargs.items()]:
        for path, _ in pytree.tree_flatten_with_path(arg)[0]:
            found.append("_".join([name, *map(key_text, path)]))
    return found


# What is computed


@dataclass(frozen=True)
class Part:
    """Some values that are computed, and how they are put together: one structure inside the other."""

    exprs: list[Any]  # expressions; for structured values grids of them; or Newton steps
    types: list[Any]
    structures: tuple[Any, ...]
    form: str = "dense"


def nested(values: Iterator[Any], structures: Sequence[Any]) -> Any:
    """Values in turn, in structures one inside the other."""
    if not structures:
        return next(values)
    first, *rest = structures
    return pytree.tree_unflatten([nested(values, rest) for _ in range(first.num_leaves)], first)


def value(r: Request) -> Part:
    """The function itself."""
    return Part(r.finished(r.outputs), r.output_types, (r.output_structure,))


def aux(r: Request) -> Part:
    """Auxiliary data: tensors, and anything else as it is."""
    return Part(r.aux, r.aux_types, (r.aux_structure,))


def jacobian(r: Request, structured: bool, forward: bool = False) -> Part:
    """The derivative of each output by each variable, in the type of the variable; in forward mode of the output."""
    outputs = r.finished(r.outputs) if forward else r.outputs
    blocks = [r.finished(derive.jacobian(y, r.variables)) for y in outputs]
    if structured:
        return Part([[row] for row in blocks], r.output_types, (r.output_structure,), "structured")
    types = [one if forward else x for one in r.output_types for x in r.variable_types]
    return Part([x for row in blocks for x in row], types, (r.output_structure, r.variable_structure))


def gradient(r: Request) -> Part:
    """The derivative of the one scalar output."""
    gradient = r.finished(derive.jacobian(scalar(r), r.variables))
    return Part(gradient, r.variable_types, (r.variable_structure,))


def hessian(r: Request, structured: bool, modes: tuple[str, str] = ("jacrev", "jacfwd")) -> Part:
    """The second derivative of each output by each pair of variables; `modes` are those of the two derivatives."""
    if structured:
        symmetric(r)
    grids = [_second(r, y, *modes) if r.stopped_in_reverse else derive.hessian(y, r.variables) for y in r.outputs]
    if structured:
        return Part(grids, r.output_types, (r.output_structure,), "structured")
    types = [one for _ in grids for one in r.variable_types for _ in r.variable_types]
    exprs = [x for grid in grids for row in grid for x in row]
    return Part(exprs, types, (r.output_structure, r.variable_structure, r.variable_structure))


def _second(r: Request, y: Expr, first: str, second: str) -> list[list[Expr]]:
    """The derivative of the derivative, where that differs with the modes."""
    if second == "jacrev":
        symmetric(r)
    rows = derive.jacobian(r.finished([y])[0] if first == "jacfwd" else y, r.variables)
    return [derive.jacobian(row, r.variables) for row in r.finished(rows)]


def symmetric(r: Request) -> None:
    """Refuse a function whose second derivatives are not symmetric in PyTorch."""
    if r.stopped_in_reverse:
        raise EindiffError(
            "PyTorch's gradient of this function is not its derivative (an embedding with padding_idx or "
            "scale_grad_by_freq, a variance that is clamped), so its Hessian is not symmetric; grad, jacrev, jacfwd "
            "and hessian give what PyTorch gives, all else needs a symmetric one"
        )


def hessian_diagonal(r: Request) -> Part:
    """The diagonal of the Hessian of the one scalar output, in the shapes of the variables."""
    f = scalar(r)
    symmetric(r)
    return Part([contracted.hessian_diagonal(f, x) for x in r.variables], r.variable_types, (r.variable_structure,))


def newton_step(r: Request, damping: float | str) -> Part:
    """The Newton step by all variables at once."""
    symmetric(r)
    return Part([newton.newton_step(scalar(r), r.variables, damping=damping)], [None], ())


def hessian_product(r: Request) -> Part:
    """The Hessian times a direction."""
    symmetric(r)
    return Part(common.hessian_product(scalar(r), r.variables), r.variable_types, (r.variable_structure,))


def scalar(r: Request) -> Expr:
    """The one output, a number."""
    if r.output_structure.num_leaves != 1 or r.outputs[0].ndim:
        shapes = ", ".join(str(tuple(y.shape)) for y in r.outputs)
        raise EindiffError(f"the function has to return one scalar tensor, not tensors of shapes {shapes}")
    return r.outputs[0]


# How it runs


class Program:
    """Parts of a result, compiled together. It serves all traces that are the same expressions."""

    def __init__(self, parts: Sequence[Part], combine: Callable[..., Any]) -> None:
        self.parts = parts
        self._combine = combine
        self._runs: dict[tuple[str, str], Runner] = {}

    def __call__(self, traced: Traced, leaves: Sequence[Any], more: Mapping[str, torch.Tensor] | None = None) -> Any:
        """The result for some arguments."""
        return self.run(traced, {**_tensors(traced, leaves), **(more or {})})

    def run(self, traced: Traced, tensors: dict[str, torch.Tensor]) -> Any:
        """The result for the tensors of all variables."""
        wants_grad = torch.is_grad_enabled() and any(x.requires_grad for x in tensors.values())
        for name, expr in traced.stopped.items():
            [value] = _run(runner([expr], "dense", backend_for(tensors, False)), tensors)
            tensors[name] = _typed(value, next(iter(tensors.values())).dtype).detach()
        sources = {form: iter(self._values(form, tensors, wants_grad)) for form in ("dense", "structured")}
        device = next((x.device for x in tensors.values()), None)
        results = []
        for part in self.parts:
            values = [x if _is_plain(x) else next(sources[part.form]) for x in part.exprs]
            typed = [_typed(x, dtype, device) for x, dtype in zip(values, part.types, strict=True)]
            results.append(nested(iter(typed), part.structures))
        return self._combine(*results)

    def _values(self, form: str, tensors: Mapping[str, torch.Tensor], wants_grad: bool) -> list[Any]:
        exprs = [x for part in self.parts if part.form == form for x in part.exprs if not _is_plain(x)]
        if not exprs:
            return []
        backend = "numpy" if form == "structured" else backend_for(tensors, wants_grad)
        if (form, backend) not in self._runs:
            self._runs[form, backend] = runner(exprs, form, backend)
        return _run(self._runs[form, backend], tensors)

    @property
    def compiled(self) -> Any:
        """The compiled function, for a look at its source and its plan."""
        form = "dense" if any(part.form == "dense" for part in self.parts) else "structured"
        exprs = [x for part in self.parts if part.form == form for x in part.exprs if not _is_plain(x)]
        return compile(exprs if len(exprs) > 1 else exprs[0], form=form)


def _tensors(traced: Traced, leaves: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The tensors of the variables of a trace, by name."""
    return dict(zip([x.name for x in traced.inputs], filter(_is_input, leaves), strict=True)) | {
        name: get() for name, get in traced.captured.items()
    }


def backend_for(tensors: Mapping[str, torch.Tensor], wants_grad: bool) -> str:
    """NumPy for tensors in main memory; PyTorch where they are elsewhere, or are differentiated further."""
    elsewhere = any(x.device.type != "cpu" for x in tensors.values())
    return "torch" if wants_grad or elsewhere else "numpy"


def _run(run: Runner, tensors: Mapping[str, torch.Tensor]) -> list[Any]:
    return run.function({name: as_array(x) if run.backend == "numpy" else x for name, x in tensors.items()})


@dataclass(frozen=True)
class Runner:
    """A function of arrays of a library by name."""

    backend: str
    function: Callable[[Mapping[str, Any]], list[Any]]


def _is_plain(x: Any) -> bool:
    """Whether a leaf is neither an expression nor made of them: it is given back as it is."""
    return not isinstance(x, Expr | list | newton.NewtonStep)


def runner(exprs: list[Any], form: str, backend: str) -> Runner:
    """A function of arrays by name, compiled."""
    program = compile(exprs, backend=backend, form=form)
    return Runner(backend, lambda arrays: program(**arrays))


def as_array(x: torch.Tensor) -> np.ndarray:
    """The entries of a tensor, without a copy where they are in main memory."""
    x = x.detach()
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    return x.cpu().numpy()


def _typed(x: Any, dtype: Any, device: Any = None) -> Any:
    """A value as a tensor of a type; operators and steps as they are."""
    if isinstance(x, torch.Tensor):
        return x.to(dtype)
    if isinstance(x, np.ndarray | np.generic | float) and dtype is not None:
        array = np.asarray(x)
        usable = array.flags.writeable and all(stride >= 0 for stride in array.strides)
        return torch.from_numpy(array if usable else array.copy()).to(device, dtype)
    return x


def step_of(found: newton.Step, r: Request) -> Newton:
    """A Newton step with tensors in the structure of the variables."""

    def shaped(parts: Any) -> Any:
        tensors = [_typed(np.asarray(x), t) for x, t in zip(parts, r.variable_types, strict=True)]
        return pytree.tree_unflatten(tensors, r.variable_structure)

    return Newton.like(shaped, found)


# A traced function is compared with itself


def verify(function: Callable, traced: Traced, leaves: Sequence[Any], structure: Any) -> None:
    """Refuse a function that gives something else when it is called with tensors than when it is traced."""
    tensors = _tensors(traced, leaves)
    if not all(map(is_real, tensors.values())):
        return
    outputs = [_finished(traced, x) for x in traced.outputs]
    program = Program([Part(outputs, traced.dtypes, (traced.structure,))], lambda result: result)

    def value(given: Mapping[str, Any]) -> list[Any]:
        with torch.no_grad():
            result = program.run(traced, {name: torch.as_tensor(x) for name, x in given.items()})
        return [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]

    on_accelerator = any(x.device.type != "cpu" for x in tensors.values())
    is_quick = not on_accelerator and not traced.stopped and all(isinstance(x, Expr) for x in outputs)
    quick = interpreter(outputs, value) if is_quick else None
    form = (traced.structure, [dtype for dtype in traced.dtypes if dtype is not None])
    plain = partial(_plain, function, leaves, structure, traced.precision)
    compare(function, value, tensors, plain, form, on_accelerator, quick)
    traced.is_verified = True


def _plain(function: Callable, leaves: Sequence[Any], structure: Any, precision: float) -> Call:
    """A call with copies of the tensors."""
    copies = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in leaves]
    args, kwargs = pytree.tree_unflatten(copies, structure)
    found, form = pytree.tree_flatten(function(*args, **kwargs))
    tensors = [x for x in found if isinstance(x, torch.Tensor)]
    return Call(tensors, (form, [x.dtype for x in tensors]), precision=precision)


def lowered(traced: Traced, program: Program) -> Lowered:
    """What runs, to be read."""
    function = pytree.tree_unflatten(traced.outputs, traced.structure)
    part = program.parts[-1]
    expression = nested(iter(part.exprs), part.structures)
    return Lowered(function, expression, dict(traced.opaque), part.exprs, program.compiled)

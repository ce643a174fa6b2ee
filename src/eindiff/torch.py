"""The derivatives of `torch.func`, as closed forms: change one import and keep the code.

    from eindiff.torch import hessian          # instead of: from torch.func import hessian

A function is captured as a graph of PyTorch's operations, becomes an expression, is differentiated and compiled; this
is done once for each structure, shapes and types of arguments (`.traces` counts, the logger `eindiff.torch` tells).
Results have the structure that `torch.func` gives them. What a graph cannot say (random numbers, updates of inputs in
place, Python branches on values) is refused with a reason, or left to `torch.func` with `fallback=True`. Each trace is
compared with a plain call of the function, and a difference is an error (`verify=False` turns this off).

>>> import torch
>>> from eindiff.torch import hessian
>>> hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
tensor([[ 6.,  0.],
        [ 0., 12.]])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import torch
from torch.utils import _pytree as pytree

from eindiff.core.errors import EindiffError
from eindiff.core.recent import Recent
from eindiff.tracing.closures import digest
from eindiff.tracing.front_ends import Compared, Lowered, Newton, check_tangents, compared, direction_name
from eindiff.tracing.torch import programs
from eindiff.tracing.torch.capture import is_discrete, is_real
from eindiff.tracing.torch.closures import TorchSurroundings
from eindiff.tracing.torch.fx import Traced, trace
from eindiff.tracing.torch.programs import Argnums, Part, Program, Request, as_array

__all__ = [
    "Compared", "Lowered", "Newton", "check", "clear_cache", "functional", "grad", "grad_and_value", "hessian",
    "hessian_diagonal", "hvp", "jacfwd", "jacobian", "jacrev", "lower", "module_hessian", "newton_step",
    "value_grad_hessian",
]  # fmt: skip

_log = logging.getLogger("eindiff.torch")
_traces: Recent[Traced] = Recent()
_programs: Recent[Program] = Recent()


def clear_cache() -> None:
    """Forget all traces and programs."""
    _traces.cache_clear()
    _programs.cache_clear()


class Transformed:
    """A function of tensors that gives a derivative of another function. Made by `hessian`, `grad`, ...

    `lower(*args)` shows the expressions and the program for some arguments, `traces` counts the traces that were made.
    """

    def __init__(
        self, kind: str, function: Callable, argnums: Argnums, has_aux: bool = False, fallback: bool = False,
        verify: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        if not callable(function):
            raise EindiffError(f"{kind} takes a function of tensors, not {function!r}")
        self.function = function
        self.kind = kind
        self.argnums = argnums
        self.has_aux = has_aux
        self.fallback = fallback
        self.verify = verify
        self.options = options
        self.traces = 0
        update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if any(isinstance(x, torch.Tensor) and not is_real(x) for x in leaves):
            return self._by_torch()(*args, **kwargs)  # inside of another transformation, which traces this one
        try:
            traced, program = self._read(leaves, structure)
            return program(traced, leaves)
        except EindiffError as reason:
            if not self.fallback:
                raise
            _log.info("%s of %s by torch.func: %s", self.kind, _name(self.function), reason)
            return self._by_torch()(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The expressions and the program for some arguments."""
        return programs.lowered(*self._read(*pytree.tree_flatten((args, kwargs))))

    def _read(self, leaves: list[Any], structure: Any) -> tuple[Traced, Program]:
        """The trace and the program for arguments like these, made if there are none that still hold."""
        function, kind, options = self.function, self.kind, self.options
        if isinstance(function, Transformed) and _composes(self, function):  # the second derivative, in one go
            options = options | {"modes": (function.kind, kind)}
            function, kind = function.function, "hessian"
        surroundings = TorchSurroundings(function)
        key = (surroundings.key, structure, *map(_leaf_key, leaves))
        known = traced = _traces.get(key)
        if traced is None or not traced.holds():
            moving = () if traced is None else traced.moved()
            names = programs.leaf_names(function, leaves, structure)
            _log.info("tracing %s for %s", _name(function), ", ".join(map(_leaf_text, names, leaves)))
            traced = trace(function, leaves, structure, names, surroundings.names, moving)
            self.traces += 1
        if self.verify and not traced.is_verified:
            programs.verify(function, traced, leaves, structure)
        if traced is not known:
            _traces.keep(key, traced, traced.nbytes, [x for _, x in surroundings.arrays.values()])
        request = programs.request(traced, leaves, structure, self.argnums, self.has_aux)
        wanted = (kind, *request.key, *sorted(options.items()))
        program = _programs.get(wanted)
        if program is None:
            program = _programs.keep(wanted, Program(*_KINDS[kind](request, **options)))
        return traced, program

    def _by_torch(self) -> Callable:
        """The same by PyTorch's own transformations."""
        if self.kind not in _BY_TORCH or self.options.get("structured"):
            raise EindiffError(f"torch.func has no {self.kind}{' with structure' * bool(self.options)} to fall back to")
        return _BY_TORCH[self.kind](self.function, self.argnums, self.has_aux)


def _composes(outer: Transformed, inner: Transformed) -> bool:
    """Whether the derivative of a derivative is the Hessian by the same arguments."""
    return (
        outer.kind in ("jacrev", "jacfwd") and inner.kind in ("jacrev", "jacfwd") and outer.argnums == inner.argnums
        and not (outer.has_aux or inner.has_aux or inner.options.get("structured"))
    )  # fmt: skip


def _leaf_key(leaf: Any) -> Any:
    """What a trace depends on: shapes and types of real numbers, the values of all else."""
    if not isinstance(leaf, torch.Tensor):
        return TorchSurroundings(leaf).key
    values = digest(as_array(leaf)) if is_discrete(leaf) else None
    return tuple(leaf.shape), leaf.dtype, leaf.device, values


def _leaf_text(name: str, leaf: Any) -> str:
    return f"{name} {tuple(leaf.shape)} {leaf.dtype}" if isinstance(leaf, torch.Tensor) else f"{name}={leaf!r}"


def _name(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


# The kinds of derivatives: what each computes, and how the parts are put together

Made = tuple[list[Part], Callable[..., Any]]


def _with_aux(r: Request, main: Part) -> Made:
    if r.aux_structure is None:
        return [main], lambda x: x
    return [main, programs.aux(r)], lambda x, aux: (x, aux)


def _make_jacrev(r: Request, structured: bool = False) -> Made:
    return _with_aux(r, programs.jacobian(r, structured))


def _make_jacfwd(r: Request, structured: bool = False) -> Made:
    return _with_aux(r, programs.jacobian(r, structured, forward=True))


def _make_hessian(
    r: Request, structured: bool = False, modes: tuple[str, str] = ("jacrev", "jacfwd")
) -> Made:
    return _with_aux(r, programs.hessian(r, structured, modes))


def _make_grad(r: Request) -> Made:
    return _with_aux(r, programs.gradient(r))


def _make_grad_and_value(r: Request) -> Made:
    if r.aux_structure is None:
        return [programs.gradient(r), programs.value(r)], lambda g, v: (g, v)
    return [programs.gradient(r), programs.value(r), programs.aux(r)], lambda g, v, aux: (g, (v, aux))


def _make_value_grad_hessian(r: Request, structured: bool = False) -> Made:
    parts = [programs.value(r), programs.gradient(r), programs.hessian(r, structured)]
    if r.aux_structure is None:
        return parts, lambda v, g, h: (v, g, h)
    return [programs.aux(r), *parts], lambda aux, v, g, h: ((v, aux), g, h)


def _make_hessian_diagonal(r: Request) -> Made:
    return _with_aux(r, programs.hessian_diagonal(r))


def _make_hvp(r: Request) -> Made:
    return _with_aux(r, programs.hessian_product(r))


def _make_newton_step(r: Request, damping: float | str) -> Made:
    return [programs.newton_step(r, damping)], lambda found: programs.step_of(found, r)


_KINDS: dict[str, Callable[..., Made]] = {
    "jacrev": _make_jacrev, "jacfwd": _make_jacfwd, "hessian": _make_hessian, "grad": _make_grad,
    "grad_and_value": _make_grad_and_value, "value_grad_hessian": _make_value_grad_hessian,
    "hessian_diagonal": _make_hessian_diagonal, "hvp": _make_hvp, "newton_step": _make_newton_step,
}  # fmt: skip


def _hessian_by_torch(function: Callable, argnums: Argnums, has_aux: bool) -> Callable:
    if has_aux:
        return torch.func.jacfwd(torch.func.jacrev(function, argnums, has_aux=True), argnums, has_aux=True)
    return torch.func.hessian(function, argnums)


_BY_TORCH: dict[str, Callable] = {
    "jacrev": lambda f, argnums, aux: torch.func.jacrev(f, argnums, has_aux=aux),
    "jacfwd": lambda f, argnums, aux: torch.func.jacfwd(f, argnums, has_aux=aux),
    "hessian": _hessian_by_torch,
    "grad": lambda f, argnums, aux: torch.func.grad(f, argnums, has_aux=aux),
    "grad_and_value": lambda f, argnums, aux: torch.func.grad_and_value(f, argnums, has_aux=aux),
}


# What people call


def hessian(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, structured: bool = False, fallback: bool = False,
    verify: bool = True,
) -> Transformed:  # fmt: skip
    """`torch.func.hessian`: the second derivative, for each output a block by each pair of tensors.

    With `structured=True` a `Derivative` for each output, which knows its structure and solves with it.
    """
    return Transformed("hessian", func, argnums, has_aux, fallback, verify, structured=structured)


def jacrev(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    structured: bool = False, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """`torch.func.jacrev`: the derivative of each output by each tensor. `chunk_size` is accepted and not needed."""
    return Transformed("jacrev", func, argnums, has_aux, fallback, verify, structured=structured)


def jacfwd(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, chunk_size: int | None = None,
    randomness: str = "error", structured: bool = False, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """`torch.func.jacfwd`: as `jacrev`, which it differs from in nothing but the types of mixed ones."""
    return Transformed("jacfwd", func, argnums, has_aux, fallback, verify, structured=structured)


jacobian = jacrev


def grad(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, fallback: bool = False, verify: bool = True
) -> Transformed:
    """`torch.func.grad`: the gradient of a function that returns one scalar."""
    return Transformed("grad", func, argnums, has_aux, fallback, verify)


def grad_and_value(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, fallback: bool = False, verify: bool = True
) -> Transformed:
    """`torch.func.grad_and_value`: the gradient and the value, computed together."""
    return Transformed("grad_and_value", func, argnums, has_aux, fallback, verify)


def value_grad_hessian(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, structured: bool = False, verify: bool = True
) -> Transformed:
    """The value, the gradient and the Hessian of a function that returns one scalar, computed together."""
    return Transformed("value_grad_hessian", func, argnums, has_aux, verify=verify, structured=structured)


def hessian_diagonal(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, verify: bool = True
) -> Transformed:
    """The diagonal of the Hessian, in the shapes of the tensors. The Hessian itself is never formed."""
    return Transformed("hessian_diagonal", func, argnums, has_aux, verify=verify)


def newton_step(
    func: Callable, argnums: Argnums = 0, *, damping: float | str = 0.0, verify: bool = True
) -> Transformed:
    """The Newton step `-(H + damping I)^-1 gradient`, solved through the structure of the Hessian.

    It has `step` and `gradient` in the structure of the arguments, the `hessian` (a `Derivative`), `decrease`, and the
    `damping`, which `damping="auto"` finds.

    >>> newton_step(lambda x: (torch.exp(x) - 2 * x).sum())(torch.zeros(3)).step
    tensor([1., 1., 1.])
    """
    return Transformed("newton_step", func, argnums, verify=verify, damping=damping)


class _Product(Transformed):
    """A Hessian-vector product: a function of the arguments, and of `tangents` in their structure."""

    def __call__(self, *args: Any, tangents: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        traced, program = self._read(leaves, structure)
        request = programs.request(traced, leaves, structure, self.argnums, self.has_aux)
        directions, form = pytree.tree_flatten(tangents)
        check_tangents(request.variables, request.variable_structure, directions, form)
        names = map(direction_name, request.variables)
        return program(traced, leaves, dict(zip(names, directions, strict=True)))


def hvp(func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, verify: bool = True) -> Transformed:
    """The Hessian times a direction, at the cost of a few gradients: `hvp(f)(x, tangents=v)`.

    >>> hvp(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]), tangents=torch.tensor([1.0, 0.5]))
    tensor([6., 6.])
    """
    return _Product("hvp", func, argnums, has_aux, verify=verify)


def lower(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, verify: bool = True
) -> Callable[..., Lowered]:
    """What runs for the Hessian of a function: `lower(f)(*args)` has `.expression`, `.formula`, `.source`, `.plan`.

    >>> print(lower(lambda w, X: torch.log1p(torch.exp(X @ w)).sum())(torch.ones(2), torch.ones(3, 2)).formula)
    X'*diag(sigmoid(X*w) .* sigmoid(-X*w))*X
    """
    return hessian(func, argnums, has_aux=has_aux, verify=verify).lower


def check(func: Callable, *args: Any, argnums: Argnums = 0, verify: bool = True, **kwargs: Any) -> Compared:
    """The Hessian at some arguments, compared with the one that `torch.func.hessian` gives.

    >>> check(lambda x: (torch.sin(x) ** 2).sum(), torch.ones(3)).passed
    True
    """

    def bound(*args: Any) -> Any:  # torch.func.hessian takes no keywords
        return func(*args, **kwargs)

    ours = hessian(func, argnums, verify=verify)
    found, form = pytree.tree_flatten(ours(*args, **kwargs))
    expected, expected_form = pytree.tree_flatten(torch.func.hessian(bound, argnums)(*args))
    if form != expected_form:
        raise AssertionError(f"the Hessian has the structure {form}, that of torch.func {expected_form}")
    opaque = ours.lower(*args, **kwargs).opaque
    return compared(list(map(as_array, found)), list(map(as_array, expected)), opaque, "torch.func.hessian")


class _Loss(torch.nn.Module):
    """A loss of a module as a module, so that the parameters can be exchanged."""

    def __init__(self, function: Callable, module: torch.nn.Module) -> None:
        super().__init__()
        self.function = function
        self.module = module

    def forward(self, *args: Any) -> Any:
        return self.function(self.module, *args)


def module_hessian(
    loss_fn: Callable, module: torch.nn.Module, *args: Any, structured: bool = False, verify: bool = True
) -> Any:
    """The Hessian of `loss_fn(module, *args)` by the parameters of a module: `result[name][other]` is a block.

    >>> module = torch.nn.Linear(2, 1, bias=False)
    >>> X = torch.tensor([[1.0, 2.0]])
    >>> module_hessian(lambda net, X: (net(X) ** 2).sum(), module, X)["weight"]["weight"].shape
    torch.Size([1, 2, 1, 2])
    """
    parameters = {name: x.detach() for name, x in module.named_parameters()}
    transformed = hessian(_ModuleLoss(loss_fn, module), structured=structured, verify=verify)
    return transformed(parameters, *args)


class _ModuleLoss:
    """A loss as a function of parameters by name."""

    def __init__(self, function: Callable, module: torch.nn.Module) -> None:
        self.function = function
        self.module = module

    def __call__(self, parameters: dict[str, torch.Tensor], *args: Any) -> Any:
        named = {f"module.{name}": x for name, x in parameters.items()}
        return torch.func.functional_call(_Loss(self.function, self.module), named, args)


class functional:  # noqa: N801 (a namespace, named as in torch.autograd.functional)
    """`torch.autograd.functional`: derivatives at once, for tensors given with the function."""

    @staticmethod
    def jacobian(
        func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
        strategy: str = "reverse-mode", *, verify: bool = True,
    ) -> Any:  # fmt: skip
        """`torch.autograd.functional.jacobian`: for each output, by each input; a tuple where there are several."""
        argnums, args = _given(inputs, create_graph)
        return jacrev(func, argnums, verify=verify)(*args)

    @staticmethod
    def hessian(
        func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
        outer_jacobian_strategy: str = "reverse-mode", *, verify: bool = True,
    ) -> Any:  # fmt: skip
        """`torch.autograd.functional.hessian`: of a function that returns one number, by each pair of inputs."""
        argnums, args = _given(inputs, create_graph)

        def scalar(*args: Any) -> Any:
            return func(*args).reshape(())

        return hessian(scalar, argnums, verify=verify)(*args)


def _given(inputs: Any, create_graph: bool) -> tuple[Argnums, Sequence[torch.Tensor]]:
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    args = args if create_graph else tuple(x.detach() for x in args)
    return (tuple(range(len(args))) if isinstance(inputs, tuple) else 0), args

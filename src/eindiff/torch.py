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

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from eindiff.core.errors import EindiffError
from eindiff.tracing import derivatives
from eindiff.tracing.computation import Lowered
from eindiff.tracing.derivatives import Kind, Newton
from eindiff.tracing.fields import Fields
from eindiff.tracing.torch.capture import is_real
from eindiff.tracing.torch.library import TORCH, as_array, flat
from eindiff.tracing.traced_function import HessianProduct, TracedFunction
from eindiff.tracing.verify import Compared, compared

__all__ = [
    "Compared", "Lowered", "Newton", "biharmonic", "check", "clear_cache", "curl", "directional", "divergence",
    "functional", "grad", "grad_and_value", "hessian", "hessian_diagonal", "hvp", "jacfwd", "jacobian", "jacrev",
    "laplacian", "lower", "module_hessian", "newton_step", "operator", "value_grad_hessian",
]  # fmt: skip

Argnums = int | tuple[int, ...]


def clear_cache() -> None:
    """Forget all traces and programs.

    >>> clear_cache()

    See also: `hessian`.
    """
    TORCH.clear()


class _OfTensors(TracedFunction):
    """A derivative that is itself a function of tensors for other transformations of PyTorch."""

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():  # else it would compile what makes programs
            return torch._dynamo.disable(self._called)(args, keywords)
        return self._called(args, keywords)

    def _called(self, args: tuple, keywords: dict[str, Any]) -> Any:
        flat((args, keywords), leaves := list[Any]())
        if any(isinstance(x, torch.Tensor) and not is_real(x) for x in leaves):
            directions = keywords.pop("tangents", None) if self.kind is derivatives.PRODUCT else None
            return TORCH.inside(self, args, keywords, directions)
        return super().__call__(*args, **keywords)


class _ProductOfTensors(_OfTensors, HessianProduct):
    """The same for a product with a direction."""


def _derivative(
    kind: Kind, func: Callable, argnums: Argnums, has_aux: bool = False, fallback: bool = False, verify: bool = True,
    **options: Any,
) -> TracedFunction:  # fmt: skip
    if not callable(func):
        raise EindiffError(f"{kind.name} takes a function of tensors, not {func!r}", "options")
    if isinstance(func, _OfTensors) and _composes(kind, argnums, has_aux, func):  # the second derivative, in one go
        options |= {"modes": (func.kind.name, kind.name)}
        func, kind = func.function, derivatives.HESSIAN
    made = _ProductOfTensors if kind is derivatives.PRODUCT else _OfTensors
    return made(TORCH, kind, func, argnums, has_aux, fallback, verify, **options)


_fields = Fields(lambda kind, func, argnums, verify: _derivative(kind, func, argnums, verify=verify))
laplacian, biharmonic, divergence = _fields.laplacian, _fields.biharmonic, _fields.divergence
curl, directional, operator = _fields.curl, _fields.directional, _fields.operator


def _composes(kind: Kind, argnums: Argnums, has_aux: bool, inner: TracedFunction) -> bool:
    """Whether the derivative of a derivative is the Hessian by the same arguments."""
    first = (derivatives.JACREV, derivatives.JACFWD)
    return (
        kind in first and inner.kind in first and argnums == inner.argnums
        and not (has_aux or inner.has_aux or inner.options.structured)
    )  # fmt: skip


# What people call


def hessian(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, structured: bool = False, fallback: bool = False,
    verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """`torch.func.hessian`: the second derivative, for each output a block by each pair of tensors.

    With `structured=True` a `Derivative` for each output, which knows its structure and solves with it.

    Args:
        func: a function of tensors
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        fallback: whether what cannot be read is left to PyTorch instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])

    See also: `hvp`, `hessian_diagonal`, `newton_step`, `lower`, `check`.
    """
    return _derivative(derivatives.HESSIAN, func, argnums, has_aux, fallback, verify, structured=structured)


def jacrev(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    structured: bool = False, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """`torch.func.jacrev`: the derivative of each output by each tensor. `chunk_size` is accepted and not needed.

    Args:
        func: a function of tensors
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        chunk_size: there for the signature, and not needed
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        fallback: whether what cannot be read is left to PyTorch instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])

    See also: `jacfwd`, `hessian`.
    """
    return _derivative(derivatives.JACREV, func, argnums, has_aux, fallback, verify, structured=structured)


def jacfwd(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, chunk_size: int | None = None,
    randomness: str = "error", structured: bool = False, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """`torch.func.jacfwd`: as `jacrev`, which it differs from in nothing but the types of mixed ones.

    Args:
        func: a function of tensors
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        chunk_size: there for the signature, and not needed
        randomness: there for the signature: random numbers are refused
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        fallback: whether what cannot be read is left to PyTorch instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])

    See also: `jacrev`, `hessian`.
    """
    return _derivative(derivatives.JACFWD, func, argnums, has_aux, fallback, verify, structured=structured)


jacobian = jacrev


def grad(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, fallback: bool = False, verify: bool = True
) -> TracedFunction:
    """`torch.func.grad`: the gradient of a function that returns one scalar.

    Args:
        func: a function of tensors that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        fallback: whether what cannot be read is left to PyTorch instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> grad(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([ 3., 12.])

    See also: `hessian`.
    """
    return _derivative(derivatives.GRADIENT, func, argnums, has_aux, fallback, verify)


def grad_and_value(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, fallback: bool = False, verify: bool = True
) -> TracedFunction:
    """`torch.func.grad_and_value`: the gradient and the value, computed together.

    Args:
        func: a function of tensors that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        fallback: whether what cannot be read is left to PyTorch instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> gradient, value = grad_and_value(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    >>> gradient, value
    (tensor([ 3., 12.]), tensor(9.))

    See also: `grad`, `value_grad_hessian`.
    """
    return _derivative(derivatives.GRADIENT_VALUE, func, argnums, has_aux, fallback, verify)


def value_grad_hessian(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, structured: bool = False, verify: bool = True
) -> TracedFunction:
    """The value, the gradient and the Hessian of a function that returns one scalar, computed together.

    Args:
        func: a function of tensors that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> value, gradient, H = value_grad_hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    >>> gradient, H.shape
    (tensor([ 3., 12.]), torch.Size([2, 2]))

    See also: `hessian`.
    """
    return _derivative(derivatives.VALUE_GRADIENT_HESSIAN, func, argnums, has_aux, verify=verify, structured=structured)


def hessian_diagonal(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, verify: bool = True
) -> TracedFunction:
    """The diagonal of the Hessian, in the shapes of the tensors. The Hessian itself is never formed.

    Args:
        func: a function of tensors that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> hessian_diagonal(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([ 6., 12.])

    See also: `hessian`, `hvp`.
    """
    return _derivative(derivatives.DIAGONAL, func, argnums, has_aux, verify=verify)


def newton_step(
    func: Callable, argnums: Argnums = 0, *, damping: float | str = 0.0, verify: bool = True
) -> TracedFunction:
    """The Newton step `-(H + damping I)^-1 gradient`, solved through the structure of the Hessian.

    It has `step` and `gradient` in the structure of the arguments, the `hessian` (a `Derivative`), `decrease`, and the
    `damping`, which `damping="auto"` finds.

    Args:
        func: a function of tensors that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        damping: what is added to the diagonal: a number, or `auto`
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> newton_step(lambda x: (torch.exp(x) - 2 * x).sum())(torch.zeros(3)).step
    tensor([1., 1., 1.])

    See also: `hessian`.
    """
    return _derivative(derivatives.NEWTON, func, argnums, verify=verify, damping=damping)


def hvp(func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, verify: bool = True) -> TracedFunction:
    """The Hessian times a direction, at the cost of a few gradients: `hvp(f)(x, tangents=v)`.

    Args:
        func: a function of tensors that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> hvp(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]), tangents=torch.tensor([1.0, 0.5]))
    tensor([6., 6.])

    See also: `hessian`.
    """
    return _derivative(derivatives.PRODUCT, func, argnums, has_aux, verify=verify)


def lower(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, verify: bool = True
) -> Callable[..., Lowered]:
    """What runs for the Hessian of a function: `lower(f)(*args)` has `.expression`, `.formula`, `.source`, `.plan`.

    Args:
        func: a function of tensors
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> print(lower(lambda w, X: torch.log1p(torch.exp(X @ w)).sum())(torch.ones(2), torch.ones(3, 2)).formula)
    X'*diag(sigmoid(X*w) .* sigmoid(-X*w))*X

    See also: `hessian`.
    """
    return hessian(func, argnums, has_aux=has_aux, verify=verify).lower


def check(func: Callable, *args: Any, argnums: Argnums = 0, verify: bool = True, **kwargs: Any) -> Compared:
    """The Hessian at some arguments, compared with the one that `torch.func.hessian` gives.

    Args:
        func: a function of tensors
        *args: arguments of the function
        argnums: which arguments it is differentiated by: a place, or several
        verify: whether the first call of a trace is compared with a plain call of the function
        **kwargs: its arguments by name

    >>> check(lambda x: (torch.sin(x) ** 2).sum(), torch.ones(3)).passed
    True

    See also: `hessian`.
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

    Args:
        loss_fn: a function of the module and further arguments that gives one number
        module: the module, whose parameters it is differentiated by
        *args: arguments of the function
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> module = torch.nn.Linear(2, 1, bias=False)
    >>> X = torch.tensor([[1.0, 2.0]])
    >>> module_hessian(lambda net, X: (net(X) ** 2).sum(), module, X)["weight"]["weight"].shape
    torch.Size([1, 2, 1, 2])

    See also: `hessian`.
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
    """`torch.autograd.functional`: derivatives at once, for tensors given with the function.

    >>> functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0])).shape
    torch.Size([2, 2])

    See also: `hessian`, `jacrev`.
    """

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

"""Functions that PyTorch computes: some with closed derivatives, and opaque ones, which it also differentiates.

An opaque function is an operation that has no row in the table. Its derivative is PyTorch's own and opaque again, so
there are derivatives of any order. Programs call these functions by name: `REGISTRY` of `trace/opaque.py` has them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import count
from math import pi, sqrt
from typing import Any

import numpy as np

from eindiff import construct
from eindiff.arrays import einsum
from eindiff.errors import EindiffError
from eindiff.expr import Expr
from eindiff.functions import Function, exp, power
from eindiff.matrix_functions import inv
from eindiff.sizes import Shape
from eindiff.trace.opaque import REGISTRY

Run = Callable[..., Any]  # of tensors
Elementwise = Callable[..., Expr]

_numbers = count(1)


def _registered(name: str, run: Run, numpy: Run | None = None) -> Callable:
    """The value of a function: by PyTorch, which takes arrays as double precision; known to programs by its name."""

    def value(*args: Any) -> Any:
        import torch

        if any(isinstance(arg, torch.Tensor) for arg in args):
            return run(*args)
        if numpy is not None:
            with np.errstate(all="ignore"):
                return numpy(*args)
        tensors = [torch.from_numpy(np.array(arg, dtype=float)) for arg in args]
        return run(*tensors).to(torch.float64).numpy()

    REGISTRY[name] = value
    return value


# Opaque functions


def opaque(name: str, run: Run, shapes: Sequence[Shape], shape: Shape, smooth: bool) -> Function:
    """A function that PyTorch computes and, if its results are real numbers, differentiates."""
    return _opaque(f"opaque_{name}_{next(_numbers)}", run, tuple(shapes), shape, smooth)


def _opaque(name: str, run: Run, shapes: tuple[Shape, ...], shape: Shape, smooth: bool) -> Function:
    derivatives = [_derivative(name, run, shapes, shape, k) if smooth else None for k in range(len(shapes))]
    work = 20.0 * float(np.prod([int(size) for size in (*shape, 1)]))
    return Function(
        name, _registered(name, run), tuple(derivatives), core=tuple(len(s) for s in shapes), output=lambda *_: shape,
        flops=lambda *_: work, latex=rf"\operatorname{{{name.replace('_', ' ')}}}",
    )  # fmt: skip


def _derivative(name: str, run: Run, shapes: tuple[Shape, ...], shape: Shape, index: int) -> Callable[..., Expr]:
    """f' by one argument, made when it is first asked for: the axes of the result first, then those of the argument."""

    @lru_cache(maxsize=1)
    def made() -> Function:
        return _opaque(f"{name}_by{index}", _slope(run, index), shapes, shape + shapes[index], True)

    return lambda *args: construct.apply(made(), args)


def _slope(run: Run, index: int) -> Run:
    """The derivative by PyTorch, in reverse mode, or in forward mode if there is no other."""

    def slope(*args: Any) -> Any:
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of batching rules that are missing, and slower without
            try:
                return torch.func.jacrev(run, index)(*args)
            except (NotImplementedError, RuntimeError):
                pass
            try:
                return torch.func.jacfwd(run, index)(*args)
            except (NotImplementedError, RuntimeError) as error:
                raise EindiffError(f"PyTorch itself has no derivative of this order here: {error}") from error

    return slope


# Functions with closed derivatives whose values no row of the table of functions has


def _special(name: str) -> Run:
    def value(*args: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*args)

    return value


def _from_torch(name: str) -> Run:
    def run(*args: Any) -> Any:
        import torch

        module: Any = torch
        for part in name.split("."):
            module = getattr(module, part)
        return module(*args)

    return run


def _elementwise(name: str, numpy: Run, *derivatives: Callable[..., Expr] | None) -> Callable[..., Expr]:
    """An elementwise function, as a function of scalars that is applied along all axes."""
    stem = f"torch_{name.replace('.', '_')}"

    @lru_cache(maxsize=1)
    def made() -> Function:
        return Function(
            stem, _registered(stem, _from_torch(name), numpy), derivatives, core=(0,) * len(derivatives),
            output=lambda *_: (), flops=lambda *_: 10.0, latex=rf"\operatorname{{{name.rpartition('.')[2]}}}",
        )  # fmt: skip

    return lambda *args: construct.apply(made(), args)


def _squared(x: Expr) -> Expr:
    return x * x


floor = _elementwise("floor", np.floor, None)
ceil = _elementwise("ceil", np.ceil, None)
round_half_even = _elementwise("round", np.round, None)
trunc = _elementwise("trunc", np.trunc, None)
asinh = _elementwise("asinh", np.arcsinh, lambda x: power(1 + _squared(x), Fraction(-1, 2)))
acosh = _elementwise("acosh", np.arccosh, lambda x: power(_squared(x) - 1, Fraction(-1, 2)))
atanh = _elementwise("atanh", np.arctanh, lambda x: power(1 - _squared(x), -1))
erfc = _elementwise("erfc", _special("erfc"), lambda x: -2 / sqrt(pi) * exp(-_squared(x)))
erfinv: Elementwise = _elementwise("erfinv", _special("erfinv"), lambda x: sqrt(pi) / 2 * exp(_squared(erfinv(x))))
log_ndtr: Elementwise = _elementwise(
    "special.log_ndtr",
    _special("log_ndtr"),
    lambda x: exp(-_squared(x) / 2 - log_ndtr(x)) / sqrt(2 * pi),
)
atan2 = _elementwise(
    "atan2",
    np.arctan2,
    lambda y, x: x * power(_squared(x) + _squared(y), -1),
    lambda y, x: -y * power(_squared(x) + _squared(y), -1),
)
lgamma: Elementwise = _elementwise("lgamma", _special("gammaln"), lambda x: _digamma(x))


def _digamma(x: Expr) -> Expr:
    return polygamma(0)(x)


@lru_cache(maxsize=32)
def polygamma(order: int) -> Callable[[Expr], Expr]:
    """The derivatives of the logarithm of the gamma function, from the first (digamma) on."""

    def numpy(x: Any) -> Any:
        from scipy import special

        return special.polygamma(order, x)

    def run(x: Any) -> Any:
        import torch

        return torch.special.polygamma(order, x)

    name = f"torch_polygamma_{order}"
    function = Function(
        name, _registered(name, run, numpy), (lambda x: polygamma(order + 1)(x),), core=(0,), output=lambda *_: (),
        flops=lambda *_: 10.0, latex=rf"\psi_{order}",
    )  # fmt: skip
    return lambda x: construct.apply(function, (x,))


def _of_matrices(name: str, part: int, derivative: Callable[[Expr], Expr] | None) -> Callable[[Expr], Expr]:
    """A number for each matrix: a part of the sign and the logarithm of the determinant."""

    def run(a: Any) -> Any:
        import torch

        return torch.linalg.slogdet(a)[part]

    @lru_cache(maxsize=1)
    def made() -> Function:
        value = _registered(f"torch_{name}", run, lambda a: np.linalg.slogdet(a)[part])
        return Function(
            f"torch_{name}", value, (derivative,), core=(2,), output=lambda _: (), flops=lambda n, _: 2 * n**3 / 3,
            latex=rf"\operatorname{{{name}}}",
        )  # fmt: skip

    return lambda a: construct.apply(made(), (a,))


sign_of_det = _of_matrices("signdet", 0, None)
log_of_abs_det = _of_matrices("logabsdet", 1, lambda a: einsum("...lk->...kl", inv(a)))

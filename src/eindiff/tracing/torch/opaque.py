"""Opaque functions: operations of PyTorch that have no row in the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.function import Function
from eindiff.core.sizes import Shape
from eindiff.tracing.opaque import made_later, opaque_function

Run = Callable[..., Any]  # of tensors


def opaque(name: str, run: Run, shapes: Sequence[Shape], shape: Shape, smooth: bool) -> Function:
    """A function that PyTorch computes and, if its results are real numbers, differentiates."""

    def derivative(k: int) -> Function:
        """f' by one argument: the axes of the result first, then those of the argument."""
        return opaque(f"{name}_by{k}", partial(_slope, run, k), shapes, shape + shapes[k], True)

    @cache
    def back(k: int) -> Function:
        """A direction times f' by one argument; the direction comes first."""
        return opaque(f"{name}_product", partial(_back, run, k), [shape, *shapes], shapes[k], True)

    derivatives = [made_later(partial(derivative, k)) if smooth else None for k in range(len(shapes))]
    return opaque_function(
        f"opaque_{name}", partial(_value, run), [len(s) for s in shapes], shape, derivatives,
        back=(lambda k, bar, *args: construct.apply(back(k), (bar, *args))) if smooth else None,
    )  # fmt: skip


def _back(run: Run, index: int, bar: Any, *args: Any) -> Any:
    """A direction times the derivative, by PyTorch."""
    return torch.func.vjp(lambda x: run(*args[:index], x, *args[index + 1 :]), args[index])[1](bar)[0]


def _slope(run: Run, index: int, *args: Any) -> Any:
    """The derivative by PyTorch, in reverse mode, or in forward mode if there is no other."""
    try:
        return torch.func.jacrev(run, index)(*args)
    except (NotImplementedError, RuntimeError):
        pass
    try:
        return torch.func.jacfwd(run, index)(*args)
    except (NotImplementedError, RuntimeError) as error:
        raise EindiffError(f"PyTorch itself has no derivative of this order here: {error}", "tracing") from error


def _value(run: Run, *args: Any) -> Any:
    """The value by PyTorch, which takes arrays as double precision. Programs may change it: no entry is there twice."""
    if any(isinstance(arg, torch.Tensor) for arg in args):
        return run(*args)
    tensors = [torch.from_numpy(np.array(arg, dtype=float)) for arg in args]
    return run(*tensors).detach().to(torch.float64).contiguous().numpy()

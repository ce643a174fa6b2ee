"""Opaque functions: operations of PyTorch that have no row in the table.

The derivative is PyTorch's own and opaque again, so there are derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import Any

import numpy as np
import torch

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.function import Function
from eindiff.core.nodes import Expr
from eindiff.core.recent import once
from eindiff.core.sizes import Shape
from eindiff.functions.opaque import REGISTRY

Run = Callable[..., Any]  # of tensors

_numbers = count(1)


def opaque(name: str, run: Run, shapes: Sequence[Shape], shape: Shape, smooth: bool) -> Function:
    """A function that PyTorch computes and, if its results are real numbers, differentiates."""
    return _opaque(f"opaque_{name}_{next(_numbers)}", run, tuple(shapes), shape, smooth)


def _opaque(name: str, run: Run, shapes: tuple[Shape, ...], shape: Shape, smooth: bool) -> Function:
    derivatives = [_derivative(name, run, shapes, shape, k) if smooth else None for k in range(len(shapes))]
    work = 20.0 * prod(int(size) for size in shape)
    return Function(
        name, _registered(name, run), tuple(derivatives), core=tuple(len(s) for s in shapes), output=lambda *_: shape,
        flops=lambda *_: work, latex=rf"\operatorname{{{name.replace('_', ' ')}}}",
    )  # fmt: skip


def _derivative(name: str, run: Run, shapes: tuple[Shape, ...], shape: Shape, index: int) -> Callable[..., Expr]:
    """f' by one argument, made when it is first asked for: the axes of the result first, then those of the argument."""

    @once
    def made() -> Function:
        return _opaque(f"{name}_by{index}", _slope(run, index), shapes, shape + shapes[index], True)

    return lambda *args: construct.apply(made(), args)


def _slope(run: Run, index: int) -> Run:
    """The derivative by PyTorch, in reverse mode, or in forward mode if there is no other."""

    def slope(*args: Any) -> Any:
        try:
            return torch.func.jacrev(run, index)(*args)
        except (NotImplementedError, RuntimeError):
            pass
        try:
            return torch.func.jacfwd(run, index)(*args)
        except (NotImplementedError, RuntimeError) as error:
            raise EindiffError(f"PyTorch itself has no derivative of this order here: {error}") from error

    return slope


def _registered(name: str, run: Run) -> Callable:
    """The value of a function: by PyTorch, which takes arrays as double precision; known to programs by its name."""

    def value(*args: Any) -> Any:
        if any(isinstance(arg, torch.Tensor) for arg in args):
            return run(*args)
        tensors = [torch.from_numpy(np.array(arg, dtype=float)) for arg in args]
        return run(*tensors).to(torch.float64).numpy()

    REGISTRY[name] = value
    return value

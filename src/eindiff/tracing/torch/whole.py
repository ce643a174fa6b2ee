"""Derivatives by PyTorch itself, which other transformations of it can trace: those that `torch.func` has not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from eindiff.core.errors import EindiffError


def transform(kind: str) -> Callable | None:
    """PyTorch's transformation of a kind, as a function of `f, argnums, has_aux`."""
    own = {"hvp": _product, "hessian_diagonal": _diagonal, "value_grad_hessian": _all}
    named = ("jacrev", "jacfwd", "grad", "grad_and_value")
    return own.get(kind) or (getattr(torch.func, kind) if kind in named else None)


def check_tangents(leaves: list[torch.Tensor], form: Any, tangents: Any) -> None:
    """Refuse directions that have not the structure and the shapes of the arguments."""
    found, structure = pytree.tree_flatten(tangents)
    if structure != form:
        raise EindiffError(f"tangents has the structure {structure}; the arguments have {form}", "tracing")
    for v, x in zip(found, leaves, strict=True):
        if tuple(v.shape) != tuple(x.shape):
            raise EindiffError(f"the tangent has shape {tuple(v.shape)} instead of {tuple(x.shape)}", "shapes")


def _chosen(args: tuple, argnums: Any) -> tuple:
    return tuple(args[k] for k in argnums) if isinstance(argnums, tuple) else (args[argnums],)


def _product(f: Callable, argnums: Any, has_aux: bool) -> Callable:
    """In reverse mode twice: `tangents` times the derivative of the gradient, which is symmetric."""
    several = isinstance(argnums, tuple)
    gradient = torch.func.grad(f, argnums if several else (argnums,), has_aux=has_aux)

    def run(*args: Any, tangents: Any, **keywords: Any) -> Any:
        def at(*chosen: Any) -> Any:
            full = list(args)
            for k, x in zip(argnums if several else (argnums,), chosen, strict=True):
                full[k] = x
            return gradient(*full, **keywords)

        _, back, *aux = torch.func.vjp(at, *_chosen(args, argnums), has_aux=has_aux)
        found = back(tuple(tangents) if several else (tangents,))
        result = found if several else found[0]
        return (result, *aux) if has_aux else result

    return run


def _diagonal(f: Callable, argnums: Any, has_aux: bool) -> Callable:
    first = (lambda *args, **keywords: f(*args, **keywords)[0]) if has_aux else f
    along = _product(first, argnums, False)

    def run(*args: Any, **keywords: Any) -> Any:
        chosen = args[argnums] if not isinstance(argnums, tuple) else _chosen(args, argnums)
        leaves, structure = pytree.tree_flatten(chosen)
        found = []
        for k, x in enumerate(leaves):
            zeros = [torch.zeros_like(y) for y in leaves]
            column = partial(_entry, along, args, keywords, zeros, structure, k)
            units = torch.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape)
            found.append(torch.func.vmap(column)(units).reshape(x.shape))
        result = pytree.tree_unflatten(found, structure)
        return (result, f(*args, **keywords)[1]) if has_aux else result

    return run


def _entry(
    along: Callable, args: tuple, keywords: dict, zeros: list, structure: Any, k: int, unit: torch.Tensor
) -> torch.Tensor:
    """One entry of the diagonal: a unit vector times the Hessian times itself."""
    tangents = pytree.tree_unflatten([*zeros[:k], unit, *zeros[k + 1 :]], structure)
    return (pytree.tree_leaves(along(*args, tangents=tangents, **keywords))[k] * unit).sum()


def _all(f: Callable, argnums: Any, has_aux: bool) -> Callable:
    def run(*args: Any) -> Any:
        value, gradient = f(*args), torch.func.grad(f, argnums, has_aux=has_aux)(*args)
        hessian = torch.func.jacfwd(torch.func.jacrev(f, argnums, has_aux=has_aux), argnums, has_aux=has_aux)(*args)
        return value, gradient[0] if has_aux else gradient, hessian[0] if has_aux else hessian

    return run

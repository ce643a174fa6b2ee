"""Tensors of indices and labels among the arguments of PyTorch functions are inputs of their programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import eindiff as ed
import eindiff.torch as et

DRAWN = torch.Generator().manual_seed(3)
N, DOUBLE = 40, torch.float64


def real(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=DRAWN)


def chosen(last: int = 9, *shape: int) -> torch.Tensor:
    return torch.randint(0, last, shape or (N,), generator=DRAWN)


DATA, TARGET, WEIGHT = real(200, 3), real(200), torch.arange(1.0, 6, dtype=DOUBLE)


def none(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=DOUBLE)


CASES: dict[str, tuple[Callable, Callable[[], tuple]]] = {
    "groups": (lambda u, g, y: ((u[g] - y) ** 2 * u[g]).sum(), lambda: ((9,), chosen(), real(N))),
    "batch": (lambda w, i: ((DATA[i] @ w - TARGET[i]) ** 4).sum(), lambda: ((3,), chosen(200))),
    "labels": (lambda W, Z, y: functional.cross_entropy(Z @ W, y), lambda: ((3, 5), real(N, 3), chosen(5))),
    "weighted labels": (
        lambda W, Z, y: functional.cross_entropy(Z @ W, y, WEIGHT, label_smoothing=0.1),
        lambda: ((3, 5), real(N, 3), chosen(5)),
    ),
    "ignored labels": (lambda Z, y: functional.nll_loss(Z, y, WEIGHT, ignore_index=1), lambda: ((N, 5), chosen(5))),
    "labels of images": (lambda Z, y: functional.cross_entropy(Z, y), lambda: ((2, 5, 4, 5), chosen(5, 2, 4, 5))),
    "entries": (lambda A, i, j: torch.sin(A[i, j]).sum(), lambda: ((9, 9), chosen(), chosen())),
    "one of each row": (lambda A, j: torch.sin(A[torch.arange(N), j]).sum(), lambda: ((N, 5), chosen(5))),
    "column": (lambda A, i: (A[i, 0] * A[i, 1] ** 2).sum(), lambda: ((9, 2), chosen())),
    "second axis": (lambda A, i: torch.sin(A[:, i] ** 2).sum(), lambda: ((4, 9), chosen())),
    "embedding": (lambda W, i: (functional.embedding(i, W).mean(1) ** 3).sum(), lambda: ((9, 3), chosen(9, 8, 5))),
    "padding": (lambda W, i: (functional.embedding(i, W, 2).sum(1) ** 3).sum(), lambda: ((9, 3), chosen())),
    "gather": (lambda A, i: (A.gather(1, i) ** 3).sum(), lambda: ((N, 9), chosen(9, N, 2))),
    "index_select": (lambda A, i: (A.index_select(1, i) ** 3).sum(), lambda: ((4, 9), chosen())),
    "index_add": (lambda u, i: (none(9).index_add(0, i, u**2) ** 2).sum(), lambda: ((N,), chosen())),
    "scatter_add": (lambda u, i: (none(9).scatter_add(0, i, u**2) ** 2).sum(), lambda: ((N,), chosen())),
    "from the end": (lambda u, i: (u[i] ** 3).sum(), lambda: ((9,), torch.cat([chosen() - 4, torch.tensor([-1])]))),
}
VALUES: dict[str, tuple[Callable, Callable[[], tuple]]] = {  # whose values are looked at: one trace for each of them
    "neighbours": (lambda u, i: ((u[i + 1] - u[i]) ** 3).sum(), lambda: ((10,), chosen())),
    "mask": (lambda u, i: (u[i][i > 3] ** 3).sum(), lambda: ((9,), chosen())),
    "written": (lambda u, i: (none(60).index_put((i,), u**2) ** 2).sum(), lambda: ((N,), torch.randperm(60)[:N])),
    "one hot": (lambda W, i: (functional.one_hot(i, 9).to(DOUBLE) @ W).pow(3).sum(), lambda: ((9, 2), chosen())),
}


@pytest.mark.parametrize("name", [*CASES, *VALUES])
def test_derivatives_for_several_indices(name: str) -> None:
    f, draw = {**CASES, **VALUES}[name]
    gradient, hessian = et.grad(f), et.hessian(f)
    for _ in range(3):
        shape, *others = draw()
        x, direction = real(*shape).requires_grad_(), real(*shape)
        [slope] = torch.autograd.grad(f(x, *others), x, create_graph=True)
        [product] = torch.autograd.grad((slope * direction).sum(), x)
        x = x.detach()
        torch.testing.assert_close(gradient(x, *others), slope.detach())
        found = torch.tensordot(hessian(x, *others), direction, dims=direction.ndim)
        torch.testing.assert_close(found, product)
    assert gradient.traces == (1 if name in CASES else 3)


def test_the_type_of_results_is_that_of_real_numbers() -> None:
    f = et.grad(lambda u, g: (u[g] ** 3).sum())
    for dtype in (torch.float32, torch.float64):
        u, g = real(9).to(dtype), chosen()
        found = f(u, g)
        assert found.dtype == dtype
        torch.testing.assert_close(found, torch.bincount(g, minlength=9).to(dtype) * 3 * u**2)
        through = torch.autograd.grad(f(u.requires_grad_(), g).sum(), u)[0]
        torch.testing.assert_close(through, (torch.bincount(g, minlength=9).to(dtype) * 6 * u).detach())


@pytest.mark.parametrize("bad", [torch.full((N,), 9), torch.full((N,), -10)])
def test_indices_out_of_range_are_refused_at_every_call(bad: Any) -> None:
    f = et.grad(lambda u, g: (u[g] ** 2).sum())
    for _ in range(2):
        f(real(9), chosen())
        with pytest.raises((ed.EindiffError, IndexError), match=r"out of (bounds|range)|size 9"):
            f(real(9), bad)

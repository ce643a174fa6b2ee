"""Hessians of models against those of PyTorch, an oracle that shares nothing with the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eindiff as ed
from eindiff.program.check import random_point, relative_error
from models import attention, factorization, logistic, mixture, multinomial, net, pairwise_energy

CASES = {
    "logistic": (logistic, "w", lambda X, y, w: torch.log1p(torch.exp(-y * (X @ w))).sum()),
    "multinomial": (
        multinomial,
        "W",
        lambda X, Y, W: torch.logsumexp(X @ W, 1).sum() - (Y * (X @ W)).sum(),
    ),
    "masked factorization": (
        lambda: factorization(mask=True, ridge=True),
        "U",
        lambda T, O, U, V, c: ((O * (T - U @ V.T)) ** 2).sum() + c * (U**2).sum(),
    ),
    "net": (
        lambda: net(3, ed.tanh),
        "W0",
        lambda X, Y, W0, W1, W2: _cross_entropy(torch.tanh(torch.tanh(X @ W0) @ W1) @ W2, Y),
    ),
    "attention": (
        attention,
        "Q",
        lambda X, Y, Q, K, V: ((torch.softmax(X @ Q @ (X @ K).T / 4, 1) @ X @ V - Y) ** 2).sum(),
    ),
    "mixture": (
        mixture,
        "M",
        lambda X, M, h, z: (
            torch.logsumexp(z - ((X[:, None] - M[None]) ** 2).sum(2) * torch.exp(-2 * h) / 2 - 5 * h, 1).sum()
            - 100 * torch.logsumexp(z, 0)
        ),
    ),
    "pairwise energy": (
        pairwise_energy,
        "X",
        lambda X, e: torch.sqrt(((X[:, None] - X[None]) ** 2).sum(2) + e).sum(),
    ),
}


def _cross_entropy(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (torch.logsumexp(scores, 1) - (targets * scores).sum(1)).sum()


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward", "cross_country"])
@pytest.mark.parametrize("name", CASES)
def test_value_gradient_and_hessian(name, mode):
    model, variable, function = CASES[name]
    expr, _, sizes = model()
    small = {size: 2 + k for k, size in enumerate(sizes)}
    point = random_point([expr], small, seed=7)
    found = ed.evaluate([ed.derivative(expr, *[variable] * order, mode=mode) for order in range(3)], point, small)
    inputs = {key: torch.tensor(np.asarray(array)) for key, array in point.items()}

    def of_variable(x: torch.Tensor) -> torch.Tensor:
        return function(**{**inputs, variable: x})

    at = inputs[variable]
    expected = [of_variable(at), torch.func.grad(of_variable)(at), torch.func.hessian(of_variable)(at)]
    for ours, theirs in zip(found, expected, strict=True):
        assert relative_error(ours, theirs.numpy()) < 1e-10

r"""Formulas in LaTeX as papers and books have them, against NumPy code written beside them.

The formulas are those of well-known methods in the notation of their sources: losses of machine learning, likelihoods,
quadratic forms, kernels, optimal control, matrix factorizations, and what books on these begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.text.read.source import ParseError
from paper_formulas import MORE

log, exp, inv, det, norm, tr = np.log, np.exp, np.linalg.inv, np.linalg.det, np.linalg.norm, np.trace


def sigmoid(z: Any) -> Any:
    return 1 / (1 + exp(-z))


FORMULAS: dict[str, Callable[..., Any]] = {
    # least squares and its kin
    r"\frac{1}{2}\|Ax-b\|_2^2": lambda v: 0.5 * norm(v.A @ v.x - v.b) ** 2,
    r"\|Ax-b\|^2 + \lambda\|x\|_1": lambda v: norm(v.A @ v.x - v.b) ** 2 + v.lambda_ * abs(v.x).sum(),
    r"\min_{\beta} \| y - X\beta \|_2^2 + \lambda \| \beta \|_2^2": lambda v: (
        norm(v.y - v.X @ v.beta) ** 2 + v.lambda_ * v.beta @ v.beta
    ),
    r"\frac{1}{2n} \|y - Xw\|_2^2 + \alpha \rho \|w\|_1 + \frac{\alpha(1-\rho)}{2} \|w\|_2^2": lambda v: (
        norm(v.y - v.X @ v.w) ** 2 / (2 * len(v.y))
        + v.alpha * v.rho * abs(v.w).sum()
        + v.alpha * (1 - v.rho) / 2 * v.w @ v.w
    ),
    r"(\mathbf{y} - \mathbf{X}\boldsymbol{\beta})^\top (\mathbf{y} - \mathbf{X}\boldsymbol{\beta})": lambda v: (
        (v.y - v.X @ v.beta) @ (v.y - v.X @ v.beta)
    ),
    r"(X^\top X + \lambda I)^{-1} X^\top y": lambda v: (
        inv(v.X.T @ v.X + v.lambda_ * np.eye(v.X.shape[1])) @ v.X.T @ v.y
    ),
    r"\frac{1}{n}\sum_{i=1}^n (y_i - w^\top x_i)^2": lambda v: np.mean((v.y - v.x @ v.w) ** 2),
    r"\frac{1}{n}\sum_{i=1}^{n} \left(y_i - \hat{y}_i\right)^2": lambda v: np.mean((v.y - v.y_hat) ** 2),
    r"\frac{1}{2m} \sum_{i=1}^{m} (\theta^T x_i - y_i)^2 + \frac{\lambda}{2m} \|\theta\|^2": lambda v: (
        np.sum((v.x @ v.theta - v.y) ** 2) / (2 * len(v.y)) + v.lambda_ / (2 * len(v.y)) * v.theta @ v.theta
    ),
    r"\sum_{i=1}^n r_i (y_i - w^{\top} \phi_i)^2": lambda v: np.sum(v.r * (v.y - v.phi @ v.w) ** 2),
    r"\sum_{i=1}^n |y_i - x_i^\top\beta|": lambda v: np.sum(abs(v.y - v.x @ v.beta)),
    # classification
    r"\sum_{i=1}^n \log(1+\exp(-y_i w^\top x_i))": lambda v: np.sum(log(1 + exp(-v.y * (v.x @ v.w)))),
    r"\frac{1}{2}\|w\|^2 + C \sum_{i=1}^n \max(0, 1 - y_i(w^\top x_i + b))": lambda v: (
        0.5 * v.w @ v.w + v.C * np.sum(np.maximum(0, 1 - v.y * (v.x @ v.w + v.b)))
    ),
    r"L(\theta) = -\frac{1}{m} \sum_{i=1}^m \left[ y_i \log \sigma(\theta^\top x_i) + (1-y_i)\log(1-\sigma(\theta^\top x_i)) \right]": lambda v: (  # noqa: E501
        -np.mean(v.y * log(sigmoid(v.x @ v.theta)) + (1 - v.y) * log(1 - sigmoid(v.x @ v.theta)))
    ),
    r"-\sum_{k=1}^K y_k \log p_k": lambda v: -np.sum(v.y * log(v.p)),
    r"-\sum_{i=1}^N \sum_{k=1}^K t_{ik} \log y_{ik}": lambda v: -np.sum(v.t * log(v.y)),
    r"\log \sum_{i} e^{x_i}": lambda v: log(np.sum(exp(v.x))),
    r"\log\left(\sum_{j=1}^K e^{z_j}\right) - y^\top z": lambda v: log(np.sum(exp(v.z))) - v.y @ v.z,
    r"\left[1 - y\, (w^\top x)\right]_+": lambda v: max(0, 1 - v.y * v.w @ v.x),
    r"\sum_{i=1}^n \left(1 - y_i f_i\right)_+": lambda v: np.sum(np.maximum(0, 1 - v.y * v.f)),
    r"\frac{1}{1 + e^{-w^\top x}}": lambda v: sigmoid(v.w @ v.x),
    r"-\log \sigma(u^\top v) - \sum_{k=1}^K \log \sigma(-u^\top n_k)": lambda v: (
        -log(sigmoid(v.u @ v.v)) - np.sum(log(sigmoid(-v.n @ v.u)))
    ),
    # likelihoods
    r"(x-\mu)^\top \Sigma^{-1} (x-\mu)": lambda v: (v.x - v.mu) @ inv(v.Sigma) @ (v.x - v.mu),
    r"-\frac{1}{2}\log\det\Sigma - \frac{1}{2}(x-\mu)^{\mathsf{T}} \Sigma^{-1} (x-\mu)": lambda v: (
        -0.5 * log(det(v.Sigma)) - 0.5 * (v.x - v.mu) @ inv(v.Sigma) @ (v.x - v.mu)
    ),
    r"\log|\Sigma| + \operatorname{tr}(\Sigma^{-1} S)": lambda v: log(det(v.Sigma)) + tr(inv(v.Sigma) @ v.S),
    r"-\log\det\Theta + \operatorname{tr}(S\Theta) + \rho\|\Theta\|_1": lambda v: (
        -log(det(v.Theta)) + tr(v.S @ v.Theta) + v.rho * abs(v.Theta).sum()
    ),
    r"-\frac{n}{2}\log(2\pi\sigma^2) - \frac{1}{2\sigma^2}\sum_{i=1}^n (x_i-\mu)^2": lambda v: (
        -len(v.x) / 2 * log(2 * np.pi * v.sigma**2) - np.sum((v.x - v.mu) ** 2) / (2 * v.sigma**2)
    ),
    r"\frac{1}{2}\left(\operatorname{tr}(\Sigma_1^{-1}\Sigma_0) + (\mu_1-\mu_0)^\top \Sigma_1^{-1}(\mu_1-\mu_0) - k + \log\frac{\det\Sigma_1}{\det\Sigma_0}\right)": lambda v: (  # noqa: E501
        0.5
        * (
            tr(inv(v.Sigma_1) @ v.Sigma_0)
            + (v.mu_1 - v.mu_0) @ inv(v.Sigma_1) @ (v.mu_1 - v.mu_0)
            - v.k
            + log(det(v.Sigma_1) / det(v.Sigma_0))
        )
    ),
    r"\sum_{i=1}^n \left(x_i \log\theta + (1-x_i)\log(1-\theta)\right)": lambda v: np.sum(
        v.x * log(v.theta) + (1 - v.x) * log(1 - v.theta)
    ),
    r"\sum_{i=1}^n (y_i \eta_i - e^{\eta_i})": lambda v: np.sum(v.y * v.eta - exp(v.eta)),
    r"\sum_i p_i \log \frac{p_i}{q_i}": lambda v: np.sum(v.p * log(v.p / v.q)),
    r"-\frac{1}{2}\sum_{j=1}^J \left(1 + \log(\sigma_j^2) - \mu_j^2 - \sigma_j^2\right)": lambda v: (
        -0.5 * np.sum(1 + log(v.sigma**2) - v.mu**2 - v.sigma**2)
    ),
    r"\frac{1}{2} y^\top (K + \sigma^2 I)^{-1} y + \frac{1}{2} \log |K + \sigma^2 I|": lambda v: (
        0.5 * v.y @ inv(v.K + v.sigma**2 * np.eye(len(v.y))) @ v.y + 0.5 * log(det(v.K + v.sigma**2 * np.eye(len(v.y))))
    ),
    # matrices
    r"\|X - UV^\top\|_F^2 + \lambda(\|U\|_F^2 + \|V\|_F^2)": lambda v: (
        norm(v.X - v.U @ v.V.T) ** 2 + v.lambda_ * (norm(v.U) ** 2 + norm(v.V) ** 2)
    ),
    r"\operatorname{tr}(W^\top A W)": lambda v: tr(v.W.T @ v.A @ v.W),
    r"\operatorname{Tr}\left(A X B X^{\top}\right)": lambda v: tr(v.A @ v.X @ v.B @ v.X.T),
    r"\frac{x^\top A x}{x^\top x}": lambda v: v.x @ v.A @ v.x / (v.x @ v.x),
    r"\frac{w^\top S_B w}{w^\top S_W w}": lambda v: v.w @ v.S_B @ v.w / (v.w @ v.S_W @ v.w),
    r"\frac{1}{2} x^{\top} Q x + c^{\top} x": lambda v: 0.5 * v.x @ v.Q @ v.x + v.c @ v.x,
    r"a^\top X^{-1} b": lambda v: v.a @ inv(v.X) @ v.b,
    r"\mathrm{tr}(AXB) + \log\det X": lambda v: tr(v.A @ v.X @ v.B) + log(det(v.X)),
    r"\sum_{i=1}^n\sum_{j=1}^m A_{ij} x_i y_j": lambda v: v.x @ v.A @ v.y,
    r"\sum_{i,j} (R_{ij} - u_i^\top v_j)^2": lambda v: np.sum((v.R - v.u @ v.v.T) ** 2),
    r"\frac{1}{2}\sum_{i=1}^n\sum_{j=1}^n W_{ij} (f_i - f_j)^2": lambda v: (
        0.5 * np.sum(v.W * (v.f[:, None] - v.f[None, :]) ** 2)
    ),
    r"\mathbf{1}^\top X \mathbf{1}": lambda v: v.X.sum(),
    r"x \odot y + A^{-\top} x": lambda v: v.x * v.y + inv(v.A).T @ v.x,
    r"\|A\|_* + \langle A, B \rangle": lambda v: norm(v.A, "nuc") + np.sum(v.A * v.B),
    r"\operatorname{diag}(d) A x": lambda v: v.d * (v.A @ v.x),
    # kernels, physics, control, networks, steps
    r"\exp\left(-\frac{\|x-y\|^2}{2\sigma^2}\right)": lambda v: exp(-(norm(v.x - v.y) ** 2) / (2 * v.sigma**2)),
    r"(\gamma\, x^\top y + r)^d": lambda v: (v.gamma * v.x @ v.y + v.r) ** v.d,
    r"\sum_{i=1}^{n-1} (x_{i+1} - x_i)^2": lambda v: np.sum(np.diff(v.x) ** 2),
    r"\sum_{i=1}^{n-1} |x_{i+1} - x_i| + \frac{\mu}{2}\|x - y\|_2^2": lambda v: (
        np.sum(abs(np.diff(v.x))) + v.mu / 2 * norm(v.x - v.y) ** 2
    ),
    r"\sum_{i=1}^{n-1} 100 (x_{i+1} - x_i^2)^2 + (1 - x_1)^2": lambda v: (
        np.sum(100 * (v.x[1:] - v.x[:-1] ** 2) ** 2) + (1 - v.x[0]) ** 2
    ),
    r"J = x^\top Q x + u^\top R u": lambda v: v.x @ v.Q @ v.x + v.u @ v.R @ v.u,
    r"\frac{1}{2} m v^2 + m g h": lambda v: 0.5 * v.m * v.v**2 + v.m * v.g * v.h,
    r"N_0 e^{-\lambda t}": lambda v: v.N_0 * exp(-v.lambda_ * v.t),
    r"W_2 \tanh(W_1 x + b_1) + b_2": lambda v: v.W_2 @ np.tanh(v.W_1 @ v.x + v.b_1) + v.b_2,
    r"c^\top x + y^\top (Ax - b) + \frac{\rho}{2}\|Ax-b\|_2^2": lambda v: (
        v.c @ v.x + v.y @ (v.A @ v.x - v.b) + v.rho / 2 * norm(v.A @ v.x - v.b) ** 2
    ),
    r"\beta_1 m + (1-\beta_1) g": lambda v: v.beta_1 * v.m + (1 - v.beta_1) * v.g,
    r"\theta - \frac{\eta}{\sqrt{\hat{v}} + \epsilon} \odot \hat{m}": lambda v: (
        v.theta - v.eta / (np.sqrt(v.v_hat) + v.epsilon) * v.m_hat
    ),
    r"t\, c^\top x - \sum_{i=1}^m \log(b_i - a_i^\top x)": lambda v: v.t * v.c @ v.x - np.sum(log(v.b - v.a @ v.x)),
    r"\sqrt{x^2 + y^2}": lambda v: np.sqrt(v.x**2 + v.y**2),
    r"\prod_{i=1}^n x_i": lambda v: np.prod(v.x),
    r"\sin^2(x) + \cos^2 x": lambda v: np.ones_like(v.x),
}
FORMULAS |= MORE
SIZES = {"W": 5, "m": 4, "n": 3, "p": 5, "q": 2, "k": 6, "K": 3, "N": 4, "J": 3, "l": 7}


def values(expr: ed.Expr) -> dict[str, np.ndarray]:
    """Values at which all formulas are defined: small positive numbers, matrices near the identity, and a large b."""
    rng = np.random.default_rng(5)
    found = {}
    for v in ed.variables(expr):
        shape = tuple(SIZES.get(size, size) for size in v.shape)
        if v.into is not None:
            found[v.name] = np.ones(shape, int)
            continue
        drawn = rng.uniform(0.1, 0.6, size=shape)
        is_square = len(shape) == 2 and shape[0] == shape[1]
        found[v.name] = drawn + np.eye(shape[0]) * 2 if is_square else drawn + 6 * (v.name == "b" and shape != ())
    return found


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_of_papers(formula):
    expr = ed.parse(formula)
    point = values(expr)
    sizes = {size: SIZES[size] for v in ed.variables(expr) for size in v.shape if isinstance(size, str)}
    names = {("lambda_" if name == "lambda" else name): value for name, value in point.items()}
    expected = FORMULAS[formula](SimpleNamespace(**names))
    np.testing.assert_allclose(ed.evaluate(expr, point, sizes), expected, rtol=1e-10)


def test_there_are_enough():
    assert len(FORMULAS) >= 110


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"\nabla f(x)", "type the function itself"),
        (r"\int x", "no integrals"),
        (r"\sum_{i<j} x_i x_j", "sums run over all values"),
        (r"\|x\|_3", "there is no norm 3"),
        (r"\mathbb{E}[x]", "write a mean as"),
        (r"\frac{1}{2", "ends too early"),
        (r"\sum_{k=1}^K \pi_k \mathcal{N}(x|\mu_k, \Sigma_k)", "write densities like p"),
        (r"\max_i x_i", "over an index cannot be read"),
        (r"x^\top x = 1", "one side at a time"),
        (r"\frac{1}{2m} \sum_{i=1}^m x_i + 1/2m", "can be read in two ways"),
        (r"x_1 + x_2 + \ldots", "write the sum with"),
        (r"\sum_i (x_{i+1} - x_i)", "give the sum a range"),
        (r"\left( x + y", "expected"),
    ],
)
def test_what_is_refused_says_how_to_write_it(text, message):
    with pytest.raises(ParseError, match=message) as caught:
        ed.parse(text)
    assert caught.value.text == text


def test_an_error_points_into_the_formula():
    with pytest.raises(ParseError) as caught:
        ed.parse(r"\frac{1}{2} x^\top A + \|x\|^2 B", "x(n); A(n,n); B(n,n)")
    assert "\\frac{1}{2} x^\\top A" in str(caught.value)

r"""Formulas of papers and books in LaTeX, with NumPy code beside them: variational and Gaussian process likelihoods,
softmax and Cox partial likelihoods, Kalman filters, canonical correlations, elastic nets, attention, support vector
machines, portfolios, control, recurrent nets, steps of optimizers, mixtures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

exp, inv, det, norm, tr, log = np.exp, np.linalg.inv, np.linalg.det, np.linalg.norm, np.trace, np.log


def sigmoid(z: Any) -> Any:
    return 1 / (1 + exp(-z))


def rows_softmax(s: Any) -> Any:
    return exp(s) / exp(s).sum(1, keepdims=True)


MORE: dict[str, Callable[..., Any]] = {
    r"\frac{1}{2} \sum_{j=1}^{J} \left(1 + \log\left((\sigma_j)^2\right) - (\mu_j)^2 - (\sigma_j)^2\right)": lambda v: (
        0.5 * np.sum(1 + log(v.sigma**2) - v.mu**2 - v.sigma**2)
    ),
    r"\log p(y) = -\frac{1}{2} y^{\top} (K+\sigma_n^2 I)^{-1} y - \frac{1}{2} \log |K + \sigma_n^2 I| - \frac{n}{2} \log 2\pi": lambda v: (  # noqa: E501
        -0.5 * v.y @ inv(v.K + v.sigma_n**2 * np.eye(len(v.y))) @ v.y
        - 0.5 * log(det(v.K + v.sigma_n**2 * np.eye(len(v.y))))
        - len(v.y) / 2 * log(2 * np.pi)
    ),
    r"\mathcal{L} = -\sum_{i=1}^{N} \log \frac{e^{z_{i}}}{\sum_{j=1}^{N} e^{z_j}}": lambda v: (
        -np.sum(v.z - log(np.sum(exp(v.z))))
    ),
    r"K_k = P_k H^{\top} (H P_k H^{\top} + R)^{-1}": lambda v: v.P_k @ v.H.T @ inv(v.H @ v.P_k @ v.H.T + v.R),
    r"\hat{x} + K (z - H \hat{x})": lambda v: v.x_hat + v.K @ (v.z - v.H @ v.x_hat),
    r"P = (I - K H) P (I - K H)^\top + K R K^\top": lambda v: (
        (np.eye(len(v.P)) - v.K @ v.H) @ v.P @ (np.eye(len(v.P)) - v.K @ v.H).T + v.K @ v.R @ v.K.T
    ),
    r"\max_{w} w^\top S w - \lambda (w^\top w - 1)": lambda v: v.w @ v.S @ v.w - v.lambda_ * (v.w @ v.w - 1),
    r"\frac{a^{\top}\Sigma_{xy} b}{\sqrt{a^{\top}\Sigma_{xx} a}\sqrt{b^{\top}\Sigma_{yy} b}}": lambda v: (
        v.a @ v.Sigma_xy @ v.b / np.sqrt(v.a @ v.Sigma_xx @ v.a) / np.sqrt(v.b @ v.Sigma_yy @ v.b)
    ),
    r"J(\mathbf{w}) = \frac{\mathbf{w}^T \mathbf{S}_B \mathbf{w}}{\mathbf{w}^T \mathbf{S}_W \mathbf{w}}": lambda v: (
        v.w @ v.S_B @ v.w / (v.w @ v.S_W @ v.w)
    ),
    r"\min_{\beta_0,\beta} \frac{1}{2N}\sum_{i=1}^{N} (y_i - \beta_0 - x_i^T \beta)^2 + \lambda \left[\frac{1-\alpha}{2}\|\beta\|_2^2 + \alpha\|\beta\|_1\right]": lambda v: (  # noqa: E501
        np.sum((v.y - v.beta_0 - v.x @ v.beta) ** 2) / (2 * len(v.y))
        + v.lambda_ * ((1 - v.alpha) / 2 * v.beta @ v.beta + v.alpha * abs(v.beta).sum())
    ),
    r"\sum_{i=1}^{n} \delta^2 \left(\sqrt{1 + (r_i/\delta)^2} - 1\right)": lambda v: np.sum(
        v.delta**2 * (np.sqrt(1 + (v.r / v.delta) ** 2) - 1)
    ),
    r"\sum_{i=1}^n \delta_i \left( x_i^\top \beta - \log \sum_{j=1}^n e^{x_j^\top \beta} \right)": lambda v: np.sum(
        v.delta * (v.x @ v.beta - log(np.sum(exp(v.x @ v.beta))))
    ),
    r"\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V": lambda v: (
        rows_softmax(v.Q @ v.K.T / np.sqrt(v.d_k)) @ v.V
    ),
    r"\|R - PQ^\top\|_F^2 + \lambda \left(\|P\|_F^2 + \|Q\|_F^2\right)": lambda v: (
        norm(v.R - v.P @ v.Q.T) ** 2 + v.lambda_ * (norm(v.P) ** 2 + norm(v.Q) ** 2)
    ),
    r"\sum_{i=1}^n \alpha_i - \frac{1}{2} \sum_{i=1}^n \sum_{j=1}^n \alpha_i \alpha_j y_i y_j K_{ij}": lambda v: (
        v.alpha.sum() - 0.5 * (v.alpha * v.y) @ v.K @ (v.alpha * v.y)
    ),
    r"\mu^\top w - \frac{\gamma}{2} w^\top \Sigma w": lambda v: v.mu @ v.w - v.gamma / 2 * v.w @ v.Sigma @ v.w,
    r"x_{N}^\top Q_f x_{N} + \sum_{t=1}^{n} u_t^\top R u_t": lambda v: (
        v.x_N @ v.Q_f @ v.x_N + np.sum((v.u @ v.R) * v.u)
    ),
    r"(y - X\beta)^\top W (y - X\beta)": lambda v: (v.y - v.X @ v.beta) @ v.W @ (v.y - v.X @ v.beta),
    r"\sum_{i=1}^{n} w_i \left( y_i - x_i^{\top}\beta \right)^2": lambda v: np.sum(v.w * (v.y - v.x @ v.beta) ** 2),
    r"t \, c^\top x - \sum_{i=1}^{m} \log\left(b_i - a_i^\top x\right)": lambda v: (
        v.t * v.c @ v.x - np.sum(log(v.b - v.a @ v.x))
    ),
    r"-\log\det X + \operatorname{tr}(SX)": lambda v: -log(det(v.X)) + tr(v.S @ v.X),
    r"\operatorname{Tr}\left[ \left( X^{T} X - A \right)^{T} \left( X^{T} X - A \right) \right]": lambda v: tr(
        (v.X.T @ v.X - v.A).T @ (v.X.T @ v.X - v.A)
    ),
    r"\mathbf{w}^T \mathbf{X}^T \mathbf{X} \mathbf{w} - 2\mathbf{w}^T \mathbf{X}^T \mathbf{t} + \mathbf{t}^T\mathbf{t}": lambda v: (  # noqa: E501
        v.w @ v.X.T @ v.X @ v.w - 2 * v.w @ v.X.T @ v.t + v.t @ v.t
    ),
    r"\frac{1}{2}\lVert \mathbf{A}\mathbf{x}-\mathbf{b}\rVert_2^2+\lambda\lVert\mathbf{x}\rVert_1": lambda v: (
        0.5 * norm(v.A @ v.x - v.b) ** 2 + v.lambda_ * abs(v.x).sum()
    ),
    r"\left\| Y - XB \right\|_F^2 + \lambda \left\| B \right\|_*": lambda v: (
        norm(v.Y - v.X @ v.B) ** 2 + v.lambda_ * norm(v.B, "nuc")
    ),
    r"-\frac{1}{N}\sum_{i=1}^N \left[y_i\log\hat{p}_i+(1-y_i)\log(1-\hat{p}_i)\right]": lambda v: (
        -np.mean(v.y * log(v.p_hat) + (1 - v.y) * log(1 - v.p_hat))
    ),
    r"\frac{1}{N} \sum_{n=1}^{N} \sum_{k=1}^{K} -t_{nk} \ln y_{nk}": lambda v: -np.sum(v.t * log(v.y)) / v.t.shape[0],
    r"\ell(\theta) = \sum_{i=1}^{n} \left( y_i \theta^\top x_i - \log(1 + e^{\theta^\top x_i}) \right)": lambda v: (
        np.sum(v.y * (v.x @ v.theta) - log(1 + exp(v.x @ v.theta)))
    ),
    r"D_{KL} = \frac{1}{2} \left[ \mu^\top \mu + \operatorname{tr}(\Sigma) - k - \log|\Sigma| \right]": lambda v: (
        0.5 * (v.mu @ v.mu + tr(v.Sigma) - v.k - log(det(v.Sigma)))
    ),
    r"\exp\left(-\frac{1}{2}(x-\mu)^\top\Sigma^{-1}(x-\mu)\right)": lambda v: exp(
        -0.5 * (v.x - v.mu) @ inv(v.Sigma) @ (v.x - v.mu)
    ),
    r"\frac{1}{\sqrt{2\pi\sigma^2}} e^{-\frac{(x-\mu)^2}{2\sigma^2}}": lambda v: (
        exp(-((v.x - v.mu) ** 2) / (2 * v.sigma**2)) / np.sqrt(2 * np.pi * v.sigma**2)
    ),
    r"\sum_{i=1}^n \max\{0, 1 - y_i(w^\top x_i - b)\} + \lambda\|w\|^2": lambda v: (
        np.sum(np.maximum(0, 1 - v.y * (v.x @ v.w - v.b))) + v.lambda_ * v.w @ v.w
    ),
    r"f(x) = \tfrac{1}{2} x^{\mathrm{T}} Q x + c^{\mathrm{T}} x": lambda v: 0.5 * v.x @ v.Q @ v.x + v.c @ v.x,
    r"\dot{V} = x^\top (A^\top P + P A) x": lambda v: v.x @ (v.A.T @ v.P + v.P @ v.A) @ v.x,
    r"A^\top P + PA - PBR^{-1}B^\top P + Q": lambda v: (
        v.A.T @ v.P + v.P @ v.A - v.P @ v.B @ inv(v.R) @ v.B.T @ v.P + v.Q
    ),
    r"\frac{1}{2}\dot{q}^\top M \dot{q} - \frac{1}{2} q^\top K q": lambda v: (
        0.5 * v.q_dot @ v.M @ v.q_dot - 0.5 * v.q @ v.K @ v.q
    ),
    r"h_t = \tanh(W_{hh} h_{t-1} + W_{xh} x_t + b_h)": lambda v: np.tanh(
        v.W_hh @ v.h_t_minus_1 + v.W_xh @ v.x_t + v.b_h
    ),
    r"f_t \odot c_{t-1} + i_t \odot \tilde{c}_t": lambda v: v.f_t * v.c_t_minus_1 + v.i_t * v.c_tilde_t,
    r"\theta_{t+1} = \theta_t - \frac{\eta}{\sqrt{\hat{v}_t}+\epsilon} \hat{m}_t": lambda v: (
        v.theta_t - v.eta / (np.sqrt(v.v_hat_t) + v.epsilon) * v.m_hat_t
    ),
    r"\gamma \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta": lambda v: (
        v.gamma * (v.x - v.mu) / np.sqrt(v.sigma**2 + v.epsilon) + v.beta
    ),
    r"\frac{\langle x, y\rangle}{\|x\|\,\|y\|}": lambda v: v.x @ v.y / norm(v.x) / norm(v.y),
    r"\log \frac{\exp(u_o^\top v_c)}{\sum_{w=1}^{W} \exp(u_w^\top v_c)}": lambda v: (
        v.u[v.o] @ v.v_c - log(np.sum(exp(v.u @ v.v_c)))
    ),
    r"\prod_{i=1}^{n} p^{x_i} (1-p)^{1-x_i}": lambda v: np.prod(v.p**v.x * (1 - v.p) ** (1 - v.x)),
    r"x^\top L x = \frac{1}{2}\sum_{i,j} w_{ij}(x_i - x_j)^2": lambda v: (
        0.5 * np.sum(v.w * (v.x[:, None] - v.x[None, :]) ** 2)
    ),
    r"\|x\|_\infty + \|X\|_{2}": lambda v: abs(v.x).max() + norm(v.X),
    r"\operatorname*{argmin}_{x \in \mathbb{R}^n} \; \frac{1}{2}\|Ax-b\|_2^2": lambda v: (
        0.5 * norm(v.A @ v.x - v.b) ** 2
    ),
    r"\mathbf{1}^\top \alpha - \frac12 \alpha^\top Q \alpha": lambda v: v.alpha.sum() - 0.5 * v.alpha @ v.Q @ v.alpha,
    r"\sum_{n=1}^N \ln\left\{\sum_{k=1}^K \pi_k e^{-\|x_n - \mu_k\|^2/2}\right\}": lambda v: np.sum(
        log(np.sum(v.pi_ * exp(-((v.x[:, None] - v.mu[None]) ** 2).sum(-1) / 2), 1))
    ),
    r"$$\min_{W} \|XW - Y\|_F^2 + \lambda \|W\|_{2}^2$$": lambda v: (
        norm(v.X @ v.W - v.Y) ** 2 + v.lambda_ * norm(v.W) ** 2
    ),
    r"\begin{equation} \|Ax-b\|_2^2 \end{equation}": lambda v: norm(v.A @ v.x - v.b) ** 2,
    r"(A^\top A)^{-1}A^\top b": lambda v: inv(v.A.T @ v.A) @ v.A.T @ v.b,
    r"\sigma(w^{\top}x+b)": lambda v: sigmoid(v.w @ v.x + v.b),
    r"\frac{1}{n} \sum_{i=1}^n \ell_i + \frac{\mu}{2} \|w - w^{(t)}\|^2": lambda v: (
        np.mean(v.ell) + v.mu / 2 * norm(v.w - v.w_t) ** 2
    ),
}

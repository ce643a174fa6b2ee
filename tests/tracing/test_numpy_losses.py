"""Losses and likelihoods as libraries of statistics and machine learning write them, as traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, gammaln, logsumexp, xlogy
from scipy.stats import multivariate_normal, norm

import eindiff as ed

RANDOM = np.random.default_rng(0)
X, Y, DRAWN = RANDOM.normal(size=(12, 3)), RANDOM.normal(size=12), RANDOM.normal(size=(7, 2))
SIGNS = np.sign(X @ [1.0, -2, 0.5] + 0.3 * RANDOM.normal(size=12))
COUNTS, LABELS = RANDOM.poisson(3, 12), RANDOM.integers(0, 3, 12)
LOSSES: dict[str, tuple[Callable, int]] = {}


def loss(size: int) -> Callable[[Callable], Callable]:
    def add(f: Callable) -> Callable:
        LOSSES[f.__name__] = (f, size)
        return f

    return add


@loss(3)
def logistic_regression(w: Any) -> Any:
    def sigmoid(x: Any) -> Any:
        return 0.5 * (np.tanh(x) + 1)

    preds = sigmoid(np.dot(X, w))
    t = SIGNS > 0
    lp = preds * t + (1 - preds) * (1 - t)
    return -np.sum(np.log(lp))


@loss(14)
def neural_network(p: Any) -> Any:
    shapes = [(3, 2), (2,), (2, 3)]
    params = []
    i = 0
    for s in shapes:
        n = int(np.prod(s))
        params.append(p[i : i + n].reshape(s))
        i += n
    inputs = X
    W, b, V = params
    outputs = np.dot(inputs, W) + b
    h = np.tanh(outputs)
    o = np.dot(h, V)
    logp = o - logsumexp(o, axis=1, keepdims=True)
    targets = np.eye(3)[LABELS]
    return -np.sum(logp * targets)


@loss(6)
def recurrent_network(p: Any) -> Any:
    Wx, Wh, Wo = p[:3], p[3:5].reshape(1, 2)[0], p[5]
    h = np.zeros(2)
    out = []
    for t in range(4):
        h = np.tanh(np.dot(X[t], Wx) * np.ones(2) + Wh * h)
        out.append(h.sum() * Wo)
    return np.sum(np.array(out) ** 2)


@loss(8)
def gaussian_mixture(p: Any) -> Any:
    lw, mu, ls = p[:2], p[2:6].reshape(2, 2), p[6:8]
    lw = lw - logsumexp(lw)
    pairs = zip(lw, mu, ls, strict=True)
    lp = [l + multivariate_normal.logpdf(X[:, :2], m, np.eye(2) * np.exp(s)) for l, m, s in pairs]
    return np.sum(logsumexp(np.vstack(lp), axis=0))


@loss(4)
def gaussian_process(p: Any) -> Any:
    mean, noise, sc, ls = p[0], np.exp(p[1]) + 1e-3, np.exp(p[2]), np.exp(p[3])
    diffs = np.expand_dims(X / ls, 1) - np.expand_dims(X / ls, 0)
    K = sc * np.exp(-0.5 * np.sum(diffs**2, axis=2)) + noise * np.eye(len(X))
    return multivariate_normal.logpdf(Y, mean * np.ones(len(Y)), K)


@loss(4)
def variational_bound(p: Any) -> Any:
    m, ls = p[:2], p[2:]
    eps = DRAWN
    s = eps * np.exp(ls) + m

    def logd(x: Any) -> Any:
        mu, lsg = x[:, 0], x[:, 1]
        return norm.logpdf(lsg, 0, 1.35) + norm.logpdf(mu, 0, np.exp(lsg))

    return np.mean(logd(s)) + 0.5 * 2 * (1 + np.log(2 * np.pi)) + np.sum(ls)


@loss(2)
def rosenbrock(x: Any) -> Any:
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


@loss(2)
def negative_binomial(p: Any) -> Any:
    r, q = np.exp(p[0]), expit(p[1])
    return np.sum(gammaln(COUNTS + r) - gammaln(r) - gammaln(COUNTS + 1) + r * np.log(1 - q) + COUNTS * np.log(q))


@loss(16)
def fluid_simulation(p: Any) -> Any:
    def project(vx, vy):
        q = np.zeros(vx.shape)
        div = -0.5 * (
            np.roll(vx, -1, axis=1) - np.roll(vx, 1, axis=1) + np.roll(vy, -1, axis=0) - np.roll(vy, 1, axis=0)
        )
        for _ in range(3):
            q = (
                div + np.roll(q, 1, axis=1) + np.roll(q, -1, axis=1) + np.roll(q, 1, axis=0) + np.roll(q, -1, axis=0)
            ) / 4.0
        vx = vx - 0.5 * (np.roll(q, -1, axis=1) - np.roll(q, 1, axis=1))
        vy = vy - 0.5 * (np.roll(q, -1, axis=0) - np.roll(q, 1, axis=0))
        return vx, vy

    def advect(f, vx, vy):
        rows, cols = f.shape
        cy, cx = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        ccx = (cx - vx).ravel()
        ccy = (cy - vy).ravel()
        lx = np.floor(ccx).astype(int)
        ly = np.floor(ccy).astype(int)
        rw = ccx - lx
        bw = ccy - ly
        rx = np.mod(lx + 1, rows)
        bx = np.mod(ly + 1, cols)
        lx = np.mod(lx, rows)
        ly = np.mod(ly, cols)
        flat = (1 - rw) * ((1 - bw) * f[lx, ly] + bw * f[lx, bx]) + rw * ((1 - bw) * f[rx, ly] + bw * f[rx, bx])
        return np.reshape(flat, (rows, cols))

    vx = p[:4].reshape(2, 2) * 0.3
    vx = np.tile(vx, (2, 2))
    vy = np.reshape(p, (4, 4)) * 0.2
    vx, vy = project(vx, vy)
    f = advect(np.arange(16.0).reshape(4, 4) / 9, vx, vy)
    return np.sum(f**2)


@loss(3)
def expected_improvement(x: Any) -> Any:
    mu, sd = np.sum(np.sin(x)), np.exp(x[0] * 0.3)
    best = 0.5
    return sd * (norm.pdf((mu - best) / sd) + ((mu - best) / sd) * norm.cdf((mu - best) / sd))


@loss(5)
def huber_with_scale(w: Any) -> Any:
    epsilon, alpha = 1.35, 0.01
    n_features = X.shape[1]
    fit_intercept = n_features + 2 == w.shape[0]
    if fit_intercept:
        intercept = w[-2]
    sigma = np.exp(w[-1])
    w_ = w[:n_features]
    n_samples = np.sum(np.ones(len(Y)))
    linear_loss = Y - X @ w_
    if fit_intercept:
        linear_loss -= intercept
    a = np.abs(linear_loss)
    om = a > epsilon * sigma
    outliers = a[om]
    no = np.count_nonzero(om)
    nn = X.shape[0] - no
    osw = np.ones(len(Y))[om]
    nsw = np.sum(osw)
    outlier_loss = 2.0 * epsilon * np.sum(osw * outliers) - sigma * nsw * epsilon**2
    non = linear_loss[~om]
    wl = np.dot(np.ones(nn) * non, non) / sigma
    return n_samples * sigma + wl + outlier_loss + alpha * np.dot(w_, w_)


@loss(3)
def log_loss(w: Any) -> Any:
    p = expit(X @ w)
    p = np.clip(p, 1e-7, 1 - 1e-7)
    P = np.stack([1 - p, p], 1)
    t = np.zeros((12, 2))
    t[np.arange(12), (SIGNS > 0).astype(int)] = 1
    P /= P.sum(axis=1)[:, np.newaxis]
    return -(t * np.log(P)).sum(axis=1).mean()


@loss(3)
def hinge(w: Any) -> Any:
    m = SIGNS * (X @ w)
    losses = 1 - m
    np.clip(losses, 0, None, out=losses)
    return np.average(losses)


@loss(3)
def modified_huber(w: Any) -> Any:
    z = SIGNS * (X @ w)
    out = np.zeros_like(z)
    for i in range(len(z)):
        if z[i] >= 1:
            out[i] = 0.0
        elif z[i] >= -1:
            out[i] = (1 - z[i]) * (1 - z[i])
        else:
            out[i] = -4.0 * z[i]
    return out.sum()


@loss(3)
def pinball(w: Any) -> Any:
    d = Y - X @ w
    s = (d >= 0).astype(d.dtype)
    loss = 0.3 * s * d - (1 - 0.3) * (1 - s) * d
    return np.average(loss)


@loss(3)
def tweedie(w: Any) -> Any:
    mu = np.exp(X @ w)
    p = 1.5
    dev = 2 * (
        np.power(np.maximum(COUNTS, 0), 2 - p) / ((1 - p) * (2 - p))
        - COUNTS * np.power(mu, 1 - p) / (1 - p)
        + np.power(mu, 2 - p) / (2 - p)
    )
    return np.average(dev)


@loss(3)
def poisson_deviance(w: Any) -> Any:
    mu = np.exp(X @ w)
    return np.average(2 * (xlogy(COUNTS, COUNTS / mu) - COUNTS + mu))


@loss(9)
def multinomial(w: Any) -> Any:
    W = w.reshape(3, 3)
    p = np.dot(X, W.T)
    p -= logsumexp(p, axis=1)[:, np.newaxis]
    Yb = np.zeros((12, 3))
    Yb[np.arange(12), LABELS] = 1
    return -(Yb * p).sum() + 0.5 * 0.1 * np.einsum("ij,ij->", W, W)


@loss(3)
def squared_epsilon_insensitive(w: Any) -> Any:
    r = Y - X @ w
    e = 0.2
    d = np.abs(r) - e
    d[d < 0] = 0
    return np.sum(d**2)


@loss(3)
def squared_logarithmic_error(w: Any) -> Any:
    f = np.exp(X @ w)
    if (f < 0).any():
        raise ValueError("neg")
    return np.mean((np.log1p(COUNTS) - np.log1p(f)) ** 2)


@loss(3)
def logit(w: Any) -> Any:
    q = 2 * (SIGNS > 0) - 1
    return np.sum(np.log(1 / (1 + np.exp(-q * np.dot(X, w)))))


@loss(3)
def probit_of_private_method(w: Any) -> Any:
    q = 2 * (SIGNS > 0) - 1
    return np.sum(np.log(np.clip(norm._cdf(q * np.dot(X, w)), 1e-12, 1)))


@loss(3)
def probit(w: Any) -> Any:
    q = 2 * (SIGNS > 0) - 1
    return np.sum(np.log(np.clip(norm.cdf(q * np.dot(X, w)), 1e-12, 1)))


@loss(3)
def tukey_biweight(w: Any) -> Any:
    z = np.asarray(Y - X @ w)
    c = 1.2
    subset = np.less_equal(np.fabs(z), c)
    f = c**2 / 6.0
    return np.sum(-((1 - (z / c) ** 2) ** 3) * subset * f + f)


@loss(3)
def hampel(w: Any) -> Any:
    z = np.abs(Y - X @ w)
    a, b, c = 0.3, 0.6, 1.2
    t1 = z <= a
    t2 = (z <= b) & ~t1
    t3 = (z <= c) & ~(t1 | t2)
    v = np.zeros_like(z)
    v[t1] = z[t1] ** 2 * 0.5
    v[t2] = a * z[t2] - a**2 * 0.5
    v[t3] = a * (c - z[t3]) ** 2 / (c - b) * (-0.5)
    v[~(t1 | t2 | t3)] = 0
    v[t3] += a * (b + c - a) * 0.5
    v[~(t1 | t2 | t3)] += a * (b + c - a) * 0.5
    return v.sum()


@loss(3)
def andrew_wave(w: Any) -> Any:
    a = 0.6
    z = np.asarray(Y - X @ w)
    test = np.less_equal(np.abs(z), a * np.pi)
    return np.sum(test * a**2 * (1 - np.cos(z / a)) + (1 - test) * a**2 * 2)


@loss(3)
def garch(p: Any) -> Any:
    om, al, be = np.exp(p)
    h = np.empty(12)
    h[0] = np.var(Y)
    for t in range(1, 12):
        h[t] = om + al * Y[t - 1] ** 2 + be * h[t - 1]
    return -0.5 * np.sum(np.log(2 * np.pi * h) + Y**2 / h)


@loss(4)
def kalman_filter(p: Any) -> Any:
    F = np.array([[np.tanh(p[0]), 0.1], [0, np.tanh(p[1])]])
    Q = np.diag(np.exp(p[2:]))
    H = np.array([[1.0, 0.5]])
    m = np.zeros(2)
    P = np.eye(2)
    ll = 0.0
    for t in range(6):
        m = F @ m
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + 0.1
        v = Y[t] - H @ m
        K = P @ H.T @ np.linalg.inv(S)
        m = m + K @ v
        P = (np.eye(2) - K @ H) @ P
        ll += -0.5 * (np.log(np.linalg.det(2 * np.pi * S)) + float(v @ np.linalg.solve(S, v)))
    return ll


@loss(3)
def ordered_probit(p: Any) -> Any:
    th = np.concatenate(([-np.inf], [p[0], p[0] + np.exp(p[1])], [np.inf]))
    xb = X[:, 0] * p[2]
    up = norm.cdf(th[LABELS + 1] - xb)
    lo = norm.cdf(th[LABELS] - xb)
    return np.sum(np.log(up - lo))


@loss(4)
def zero_inflated_poisson(p: Any) -> Any:
    pi = expit(p[0])
    mu = np.exp(X @ p[1:])
    nz = np.nonzero(COUNTS)[0]
    z = np.nonzero(COUNTS == 0)[0]
    ll = np.zeros_like(mu)
    ll[z] = np.log(pi + (1 - pi) * np.exp(-mu[z]))
    ll[nz] = np.log(1 - pi) + COUNTS[nz] * np.log(mu[nz]) - mu[nz] - gammaln(COUNTS[nz] + 1)
    return ll.sum()


@loss(3)
def quantile_regression(w: Any) -> Any:
    e = Y - X @ w
    e = np.where(e < 0, (0.3 - 1) * e, 0.3 * e)
    return np.sum(e)


@loss(3)
def proportional_hazards(w: Any) -> Any:
    o = np.argsort(COUNTS, kind="stable")
    lin = X[o] @ w
    return np.sum(lin - np.log(np.cumsum(np.exp(lin)[::-1])[::-1]))


@loss(3)
def kernel_density(w: Any) -> Any:
    u = (X @ w)[:, None] - np.linspace(-1, 1, 5)
    k = np.where(np.abs(u) <= 1, 0.75 * (1 - u**2), 0)
    return np.log(k.mean(0) + 0.1).sum()


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    f, size = LOSSES[name]
    gradient, rng = ed.gradient(f), np.random.default_rng(len(name))
    for _ in range(2):
        x = 0.5 * rng.normal(size=size)
        expected = [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(size)]
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-4, atol=1e-5 * (1 + abs(f(x))))

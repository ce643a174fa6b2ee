"""Models, networks and energies written for JAX, and functions of trees of arguments: more rows of the table."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special
from jax.scipy.linalg import solve_triangular

from jax_functions import SCALE, S, X, case, convolved, fixed, image, normal, p5, positive, w4, weighted, x5, y6

_rng = np.random.default_rng(1)

# Regression

labels, classes, counts = jnp.sign(y6), jnp.arange(len(X)) % 3, jnp.arange(len(X)) ** 2 % 4.0
case("linear regression", lambda w, X, y: jnp.mean((X @ w - y) ** 2) + 0.1 * jnp.sum(w**2), w4, X, y6)
case("logistic regression", lambda w, X, y: jnp.sum(jnp.logaddexp(0.0, -y * (X @ w))), w4, X, labels)
case("logistic regression, exp", lambda w: -jnp.mean(jnp.log(1 / (1 + jnp.exp(-labels * (X @ w))))), w4)
case("logistic regression, log_sigmoid", lambda w: -jnp.sum(jax.nn.log_sigmoid(labels * (X @ w))), w4)
case(
    "cross entropy",
    lambda w: (
        -jnp.sum(jnp.log(jax.nn.sigmoid(X @ w)) * (labels > 0) + jnp.log1p(-jax.nn.sigmoid(X @ w)) * (labels < 0))
    ),
    w4,
)
case(
    "multinomial regression",
    lambda W, X, k: -jnp.sum(jax.nn.log_softmax(X @ W)[jnp.arange(len(X)), k]),
    normal(4, 3),
    X,
    classes,
)
case(
    "multinomial, logsumexp",
    lambda W: jnp.sum(special.logsumexp(X @ W, axis=1) - (X @ W)[jnp.arange(len(X)), classes]),
    normal(4, 3),
)
case(
    "Poisson regression",
    lambda w, X, k: jnp.sum(jnp.exp(X @ w) - k * (X @ w) + special.gammaln(k + 1)),
    0.3 * w4,
    X,
    counts,
)
case(
    "negative binomial",
    lambda p: (
        -jnp.sum(
            special.gammaln(counts + jnp.exp(p[0]))
            - special.gammaln(jnp.exp(p[0]))
            + counts * jax.nn.log_sigmoid(X @ p[1:])
            + jnp.exp(p[0]) * jax.nn.log_sigmoid(-X @ p[1:])
        )
    ),
    0.3 * jnp.concatenate([w4, w4[:1]]),
)
case(
    "Huber regression",
    lambda w: jnp.sum(jnp.where(jnp.abs(X @ w - y6) < 1, 0.5 * (X @ w - y6) ** 2, jnp.abs(X @ w - y6) - 0.5)),
    w4,
)
case("quantile regression", lambda w: jnp.sum(jnp.maximum(0.3 * (y6 - X @ w), -0.7 * (y6 - X @ w)) ** 2), w4)
case("probit regression", lambda w: -jnp.sum(jnp.log(special.ndtr(labels * (X @ w)))), 0.3 * w4)
case(
    "Gaussian with scale",
    lambda p: jnp.sum(0.5 * ((y6 - X @ p["w"]) / jnp.exp(p["s"])) ** 2 + p["s"]),
    {"w": w4, "s": 0.2},
)
case(
    "ridge by closed form",
    lambda t: jnp.sum((y6 - X @ jnp.linalg.inv(X.T @ X + t * jnp.eye(X.shape[1])) @ X.T @ y6) ** 2),
    0.7,
)
case("Cox partial likelihood", lambda w: -jnp.sum(X @ w - jnp.log(jnp.cumsum(jnp.exp(X @ w)[::-1])[::-1])), w4)
case(
    "Student t",
    lambda p: -jnp.sum(jax.scipy.stats.t.logpdf(y6, jnp.exp(p[0]), p[1], jnp.exp(p[2]))),
    jnp.array([0.7, 0.1, 0.2]),
)
case("normal logpdf", lambda p: -jnp.sum(jax.scipy.stats.norm.logpdf(y6, p[0], jnp.exp(p[1]))), jnp.array([0.3, 0.2]))
case("multivariate normal", lambda p: -jax.scipy.stats.multivariate_normal.logpdf(X[0], p, S), w4)
case("gamma logpdf", lambda p: jnp.sum(jax.scipy.stats.gamma.logpdf(p5, jnp.exp(p))), 0.3)
case(
    "mixture of Gaussians",
    lambda p: -jnp.sum(special.logsumexp(jax.nn.log_softmax(p["a"]) - 0.5 * (y6[:, None] - p["m"]) ** 2, axis=1)),
    {"a": normal(3), "m": normal(3)},
)
case("matrix factorization", lambda U, V: jnp.sum((T64 - U @ V.T) ** 2), normal(6, 2), normal(4, 2), argnums=(0, 1))
case(
    "masked factorization",
    lambda U, V: jnp.sum(mask64 * (T64 - U @ V.T) ** 2) + 0.1 * jnp.sum(U**2),
    normal(6, 2),
    normal(4, 2),
)
T64, mask64 = normal(6, 4), jnp.asarray(_rng.random(X.shape) < 0.5)

# Networks

nn = jax.nn
for _name in [
    "relu",
    "relu6",
    "sigmoid",
    "softplus",
    "soft_sign",
    "silu",
    "log_sigmoid",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "elu",
    "celu",
    "selu",
    "gelu",
    "squareplus",
    "mish",
    "log_softmax",
    "softmax",
    "standardize",
    "sparse_plus",
    "identity",
]:
    _function = getattr(nn, _name, None)
    if _function is not None:
        case(
            f"MLP, {_name}", lambda W, f=_function: jnp.mean((f(X @ W[0]) @ W[1] - y6) ** 2), (normal(4, 3), normal(3))
        )
case("MLP, exact gelu", lambda W: jnp.sum(nn.gelu(X @ W, approximate=False) ** 2), normal(4, 3))
case("MLP, glu", lambda W: jnp.sum(nn.glu(X @ W) ** 2), normal(4, 4))


def mlp(p: Any, x: Any, y: Any) -> Any:
    for layer in p[:-1]:
        x = jnp.tanh(x @ layer["W"] + layer["b"])
    return jnp.mean((x @ p[-1]["W"] + p[-1]["b"] - y) ** 2)


def layer(m: int, n: int) -> dict:
    return {"W": normal(m, n), "b": normal(n)}


case("MLP of three layers", mlp, [layer(4, 3), layer(3, 2), layer(2, 1)], X, y6[:, None])


def cnn(p: Any, x: Any, y: Any) -> Any:
    x = nn.relu(convolved(x, p["k1"], (1, 1), "SAME") + p["b1"])
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    x = nn.softplus(convolved(x, p["k2"], (1, 1), "VALID"))
    return -jnp.sum(nn.log_softmax(x.reshape(x.shape[0], -1) @ p["W"]) * y)


case(
    "CNN",
    cnn,
    {
        "k1": fixed(3, 3, 2, 2),
        "b1": fixed(2),
        "k2": fixed(2, 2, 2, 1),
        "W": fixed((5 * SCALE // 2 - 1) ** 2, 3) / SCALE**2,
    },
    image,
    jnp.array([[0.0, 1.0, 0.0]]),
)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def transformer(p: Any, x: Any) -> Any:
    z = layer_norm(x, p["g"], p["b"])
    q, k, v = (jnp.einsum("td,dhe->hte", z, p[name]) for name in ("q", "k", "v"))
    scores = jnp.einsum("hte,hse->hts", q, k) / jnp.sqrt(2.0)
    scores = jnp.where(jnp.tril(jnp.ones((len(x), len(x)), bool)), scores, -jnp.inf)
    x = x + jnp.einsum("hts,hse,hed->td", nn.softmax(scores), v, p["o"])
    return jnp.sum((x + nn.gelu(x @ p["W1"]) @ p["W2"]) ** 2)


case(
    "transformer block",
    transformer,
    {"q": normal(4, 2, 2), "k": normal(4, 2, 2), "v": normal(4, 2, 2), "o": normal(2, 2, 4), "g": positive(4),
     "b": normal(4), "W1": normal(4, 5), "W2": normal(5, 4)},
    normal(3, 4), order=1,
)  # fmt: skip
case("attention by queries", lambda q, x: transformer({**block, "q": q}, x), normal(4, 2, 2), normal(3, 4))
block = {
    "q": normal(4, 2, 2), "k": normal(4, 2, 2), "v": normal(4, 2, 2), "o": normal(2, 2, 4), "g": positive(4),
    "b": normal(4), "W1": normal(4, 5), "W2": normal(5, 4),
}  # fmt: skip
case(
    "dot_product_attention",
    lambda q: jnp.sum(nn.dot_product_attention(q, kv[0], kv[1]) ** 2),
    normal(1, 3, 2, 2),
    tolerance=1e-5,
)
kv = normal(2, 1, 3, 2, 2)


def rnn(p: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ p["W"] + x @ p["V"])
        return h, h @ p["o"]

    return jnp.sum(lax.scan(step, jnp.zeros(len(p["W"])), xs)[1] ** 2)


case("RNN", rnn, {"W": normal(2, 2), "V": normal(4, 2), "o": normal(2)}, X)


def lstm(p: Any, xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([h, x]) @ p, 4)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return (nn.sigmoid(o) * jnp.tanh(c), c), None

    return jnp.sum(lax.scan(step, (jnp.zeros(p.shape[1] // 4), jnp.zeros(p.shape[1] // 4)), xs)[0][0] ** 2)


case("LSTM", lstm, 0.5 * normal(6, 8), X[:3], order=1)


def vae(p: Any, x: Any, noise: Any) -> Any:
    mean, log_scale = x @ p["m"], x @ p["s"]
    z = mean + jnp.exp(log_scale) * noise
    kl = 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_scale) - 2 * log_scale - 1)
    return kl + jnp.sum(nn.softplus(z @ p["d"]) - x * (z @ p["d"]))


case(
    "VAE with given noise",
    vae,
    {"m": normal(4, 2), "s": 0.3 * normal(4, 2), "d": normal(2, 4)},
    X[: 3 * SCALE],
    normal(3, 2),
)
case("noise from a fixed key", lambda w: jnp.sum((w + jax.random.normal(jax.random.PRNGKey(0), w.shape)) ** 3), w4)
case("batch norm", lambda B: weighted(lambda z: (z - z.mean(0)) / jnp.sqrt(z.var(0) + 1e-3))(B) ** 2, normal(5, 3))
case("contrastive loss", lambda Z: -jnp.sum(jnp.diag(nn.log_softmax(Z @ Z.T / 0.5))), normal(4, 2))

# Probabilistic models and physics


def gp(p: Any, x: Any, y: Any) -> Any:
    distances = jnp.sum((x[:, None] - x[None]) ** 2 / jnp.exp(p["l"]), -1)
    K = jnp.exp(p["a"] - 0.5 * distances) + jnp.exp(p["n"]) * jnp.eye(len(x))
    L = jnp.linalg.cholesky(K)
    alpha = solve_triangular(L, y, lower=True)
    return 0.5 * alpha @ alpha + jnp.sum(jnp.log(jnp.diag(L)))


case("Gaussian process", gp, {"l": jnp.array([0.1, 0.3]), "a": 0.2, "n": -1.0}, X[:5, :2], y6[:5])
case(
    "Gaussian process, slogdet",
    lambda s: (
        0.5 * jnp.linalg.slogdet(S + jnp.exp(s) * jnp.eye(len(S)))[1]
        + 0.5 * w4 @ jnp.linalg.solve(S + jnp.exp(s) * jnp.eye(len(S)), w4)
    ),
    0.3,
)


def kalman(p: Any, ys: Any) -> Any:
    F, Q, H, R = p["F"], jnp.exp(p["q"]) * jnp.eye(2), jnp.array([[1.0, 0.0]]), jnp.exp(p["r"]) * jnp.eye(1)

    def step(state: Any, y: Any) -> Any:
        m, P = F @ state[0], F @ state[1] @ F.T + Q
        S = H @ P @ H.T + R
        K = jnp.linalg.solve(S, H @ P).T
        r = y - H @ m
        ll = -0.5 * (r @ jnp.linalg.solve(S, r) + jnp.log(jnp.linalg.det(S)))
        return (m + K @ r, P - K @ H @ P), ll

    return -jnp.sum(lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)[1])


case("Kalman filter", kalman, {"F": jnp.array([[1.0, 0.1], [-0.1, 0.9]]), "q": -0.5, "r": 0.1}, y6[:2, None])


def pairwise(x: Any) -> Any:
    d2 = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    r6 = (1 / (d2 + jnp.eye(len(x)))) ** 3
    return jnp.sum(jnp.triu(r6**2 - r6, 1))


case("Lennard-Jones", pairwise, 2 * normal(5, 3))
case("pairs by index", lambda x: jnp.sum(1 / jnp.linalg.norm(x[pairs[0]] - x[pairs[1]], axis=1)), 2 * normal(4, 3))
pairs = np.triu_indices(4, 1)
case(
    "springs",
    lambda x: jnp.sum((jnp.linalg.norm(jnp.diff(x, axis=0), axis=1) - 1) ** 2) + 9.8 * jnp.sum(x[:, 1]),
    normal(5, 2),
)
case(
    "Ising with soft spins",
    lambda h: -jnp.sum(jnp.tanh(h) * jnp.roll(jnp.tanh(h), 1, 0) + jnp.tanh(h) * jnp.roll(jnp.tanh(h), 1, 1)),
    normal(3, 3),
)
case("phi to the fourth", lambda f: jnp.sum(0.5 * (jnp.roll(f, -1) - f) ** 2 + 0.25 * (f**2 - 1) ** 2), x5)
case("Kepler", lambda q, p: 0.5 * p @ p - 1 / jnp.sqrt(q @ q), normal(2), normal(2), argnums=(0, 1))
case(
    "double pendulum",
    lambda s: s[2] ** 2 + s[3] ** 2 / 2 + s[2] * s[3] * jnp.cos(s[0] - s[1]) - 2 * jnp.cos(s[0]) - jnp.cos(s[1]),
    normal(4),
)
case("Rosenbrock", lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), x5)
case("portfolio", lambda w: w @ S @ w - 0.1 * w4 @ w + jnp.sum(jnp.abs(w) ** 1.5), normal(4))
case("barrier", lambda x: w4 @ x - jnp.sum(jnp.log(9.0 * SCALE - X @ x)), 0.3 * w4)
case(
    "Ackley", lambda x: -20 * jnp.exp(-0.2 * jnp.sqrt(jnp.mean(x**2))) - jnp.exp(jnp.mean(jnp.cos(2 * jnp.pi * x))), x5
)
case(
    "RK4",
    lambda p: jnp.sum(lax.fori_loop(0, 3, lambda _, s: rk4(s, p), jnp.array([1.0, 0.5])) ** 2),
    jnp.array([1.1, 0.4]),
    opaque=True,
)


def rk4(s: Any, p: Any, h: float = 0.1) -> Any:
    def rate(s: Any) -> Any:
        return jnp.array([p[0] * s[0] - p[1] * s[0] * s[1], p[1] * s[0] * s[1] - s[1]])

    k1 = rate(s)
    k2 = rate(s + h / 2 * k1)
    k3 = rate(s + h / 2 * k2)
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(s + h * k3))


# Trees of arguments and of results

Point = namedtuple("Point", "place speed")
case("tuple", lambda p: jnp.sum(p[0] ** 2 * p[1]) ** 2, (x5, p5))
case("namedtuple", lambda p: p.place @ p.place + jnp.sum(jnp.sin(p.speed)) * p.place[0], Point(w4, x5))
case("nested", lambda p: jnp.sum(p["a"][0] ** 2) * p["b"]["c"] * jnp.sum(p["a"][1]), {"a": [x5, w4], "b": {"c": 0.5}})
case("two arguments", lambda a, b: jnp.sum(jnp.outer(a, b) ** 2), x5, w4, argnums=(1, 0))
case("last argument", lambda a, b: jnp.sum(a) * jnp.sum(b**3), x5, w4, argnums=-1)
case("one in a tuple", lambda a, b: jnp.sum(a) * jnp.sum(b**3), x5, w4, argnums=(1,))
case("aux", lambda x: (jnp.sum(x**3), {"norm": jnp.sum(x**2), "size": x.size}), x5, has_aux=True)
case("aux of a Jacobian", lambda x: (x**3, (x > 0, x[0])), x5, has_aux=True)
case("vector", lambda x: jnp.sin(X @ x), w4)
case("matrix", lambda x: jnp.outer(x, x**2), x5)
case("Hessian of a vector", lambda x: jnp.sin(X @ x) ** 2, w4, order=2)
case("dict of results", lambda x, y: {"a": x * y, "b": (jnp.sum(x), y**2)}, x5, p5, argnums=(0, 1))
case("constant", lambda x: jnp.ones(3), x5)
case("linear", lambda x: jnp.sum(x), x5)
case("identity", lambda x: x, x5)
case(
    "settings",
    lambda x, kind, scale, flag: jnp.sum(getattr(jnp, kind)(scale * x)) if flag else 0.0,
    x5,
    "sin",
    2.0,
    True,
)
case("a function as argument", lambda f, x: jnp.sum(f(x) ** 2), jnp.tanh, x5, argnums=1)
case("NumPy arrays", lambda x, d: jnp.sum(d @ x**2), np.ones(X.shape[1]), np.asarray(X))
case("integer data", lambda w, k: jnp.sum((X @ w - k) ** 2 * k), w4, jnp.arange(1, len(X) + 1))
case("truth values as data", lambda w, m: jnp.sum(jnp.where(m, (X @ w) ** 2, 0.0)), w4, jnp.arange(len(X)) % 2 == 0)

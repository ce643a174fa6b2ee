"""The problems of `benchmarks.structures`: each written once, with words that expressions of eindiff and JAX share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Arrays = dict[str, Array]

STEP = np.random.default_rng(1).normal(size=(4, 4)) / 2
KERNEL = np.random.default_rng(1).uniform(0.5, 1, size=5)
BLUR = np.outer([0.25, 0.5, 0.25], [0.25, 0.5, 0.25])
WEIGHT = 3.0


@dataclass(frozen=True)
class Problem:
    """A function of a library and of arrays by name, with arrays at a size; some of these are the unknowns."""

    title: str
    size: int
    unknowns: tuple[str, ...]
    arrays: Callable[[int], Arrays]
    function: Callable[..., Any]


class Expressions:
    """The words of eindiff."""

    def __init__(self) -> None:
        import eindiff as ed

        self.sum, self.sqrt, self.sin, self.cos, self.softplus = ed.sum, ed.sqrt, ed.sin, ed.cos, ed.softplus
        self.inv, self.logdet, self.trace, self.stack, self.reshape = ed.inv, ed.logdet, ed.tr, ed.stack, ed.reshape
        self._ed = ed

    def roll(self, x: Any) -> Any:
        return self._ed.concatenate([x[-1:], x[:-1]])

    def convolve(self, x: Any) -> Any:
        return sum(KERNEL[4 - k] * x[k : x.shape[0] - 4 + k] for k in range(5))

    def blurred(self, X: Any) -> Any:
        n = X.shape[0]
        return sum(BLUR[a, b] * X[a : n - 2 + a, b : n - 2 + b] for a in range(3) for b in range(3))


class Jax:
    """The words of JAX."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.sum, self.sqrt, self.sin, self.cos, self.softplus = jnp.sum, jnp.sqrt, jnp.sin, jnp.cos, jax.nn.softplus
        self.inv, self.trace, self.stack, self.reshape = jnp.linalg.inv, jnp.trace, jnp.stack, jnp.reshape
        self._jax = jax

    def logdet(self, P: Any) -> Any:
        return self._jax.numpy.linalg.slogdet(P)[1]

    def roll(self, x: Any) -> Any:
        return self._jax.numpy.roll(x, 1)

    def convolve(self, x: Any) -> Any:
        return self._jax.numpy.convolve(x, KERNEL, mode="valid")

    def blurred(self, X: Any) -> Any:
        return self._jax.scipy.signal.convolve2d(X, BLUR, mode="valid")


# Chains


def _vector(n: int) -> Arrays:
    return {"x": 0.5 * np.random.default_rng(0).normal(size=n)}


def chain(lib: Any, x: Any) -> Any:
    return lib.sum((x[1:] - x[:-1] ** 2) ** 2) + 20 * lib.sum(x**2)


def trend(lib: Any, x: Any) -> Any:
    return lib.sum(x**2) + lib.sum(lib.sqrt((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2 + 1))


def spline(lib: Any, x: Any) -> Any:
    return lib.sum(x**2) + WEIGHT * lib.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2)


def smoother(lib: Any, S: Any) -> Any:
    return lib.sum((S[1:] - S[:-1] @ STEP.T) ** 2) + lib.sum(S**2)


def control(lib: Any, x: Any, u: Any, p: Any) -> Any:
    dynamics = x[1:] - lib.sin(x[:-1] @ STEP[:2, :2]) - u @ STEP[:1, :2]
    return 5 * lib.sum(x**2) + lib.sum(u**2) + lib.sum(p * dynamics)


def linear_control(lib: Any, x: Any, u: Any, p: Any) -> Any:
    return lib.sum(x**2) + lib.sum(u**2) + lib.sum(p * (x[1:] - x[:-1] @ STEP[:2, :2] - u @ STEP[:1, :2]))


def _controls(n: int) -> Arrays:
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape) for name, shape in (("x", (n + 1, 2)), ("u", (n, 1)), ("p", (n, 2)))}


def groups(lib: Any, x: Any) -> Any:
    return lib.sum(lib.sum(lib.reshape(x, (x.shape[0] // 5, 5)), axis=1) ** 4) + lib.sum(x**2)


def circle(lib: Any, x: Any) -> Any:
    return lib.sum((x - lib.roll(x)) ** 2) + lib.sum(x**2)


def convolution(lib: Any, x: Any) -> Any:
    return lib.sum(lib.sqrt(1 + lib.convolve(x) ** 2)) + lib.sum(x**2)


# Images


def _image(n: int) -> Arrays:
    return {"X": np.random.default_rng(0).normal(size=(n, n))}


def _variation(lib: Any, X: Any) -> Any:
    down, right = X[1:, :-1] - X[:-1, :-1], X[:-1, 1:] - X[:-1, :-1]
    return lib.sum(lib.sqrt(down**2 + right**2 + 1))


def image(lib: Any, X: Any) -> Any:
    return lib.sum(X**2) + _variation(lib, X)


def deblurring(lib: Any, X: Any, Y: Any) -> Any:
    return lib.sum((lib.blurred(X) - Y) ** 2) + _variation(lib, X) + 0.1 * lib.sum(X**2)


def _blurred(n: int) -> Arrays:
    return {**_image(n), "Y": np.random.default_rng(1).normal(size=(n - 2, n - 2))}


# Lists


def mixed(lib: Any, beta: Any, u: Any, s: Any, X: Any, y: Any, t: Any, g: Array) -> Any:
    return lib.sum((y - X @ beta - u[g] - s[g] * t) ** 2) + lib.sum(u**2) + lib.sum(s**2)


def _mixed(n: int) -> Arrays:
    random, m = np.random.default_rng(0), 5 * n
    sizes = {"X": (m, 3), "y": m, "t": m, "beta": 3, "u": n, "s": n}
    return {k: random.normal(size=size) for k, size in sizes.items()} | {"g": np.repeat(np.arange(n), 5)}


def crossed(lib: Any, beta: Any, u: Any, w: Any, X: Any, y: Any, g: Array, h: Array) -> Any:
    return lib.sum((y - X @ beta - u[g] - w[h]) ** 2) + lib.sum(u**2) + lib.sum(w**2)


def _crossed(n: int) -> Arrays:
    random, m = np.random.default_rng(0), 5 * n
    sizes = {"X": (m, 3), "y": m, "beta": 3, "u": n, "w": n // 10}
    tables = {"g": random.integers(0, n, size=m), "h": random.integers(0, n // 10, size=m)}
    return {k: random.normal(size=size) for k, size in sizes.items()} | tables


def comparisons(lib: Any, x: Any, i: Array, j: Array) -> Any:
    return lib.sum(lib.softplus(x[i] - x[j])) + 0.1 * lib.sum(x**2)


def _comparisons(n: int) -> Arrays:
    i, j = np.random.default_rng(2).integers(0, n, size=(2, 5 * n))
    return {**_vector(n), "i": i, "j": j}


def stress(lib: Any, X: Any, d: Any, i: Array, j: Array) -> Any:
    return lib.sum((lib.sum((X[i] - X[j]) ** 2, axis=1) - d) ** 2) + lib.sum(X**2)


def _stress(n: int) -> Arrays:
    random = np.random.default_rng(0)
    i, j = random.integers(0, n, size=(2, 5 * n))
    X = random.normal(size=(n, 2))
    d = ((X[i] - X[j]) ** 2).sum(axis=1) + 0.01 * random.normal(size=5 * n)
    return {"X": X, "d": d, "i": i, "j": j}


def factorization(lib: Any, U: Any, V: Any, v: Any, i: Array, j: Array) -> Any:
    return lib.sum((v - lib.sum(U[i] * V[j], axis=1)) ** 2) + lib.sum(U**2) + lib.sum(V**2)


def _factorization(n: int) -> Arrays:
    random, m = np.random.default_rng(0), n // 50
    i, j = random.integers(0, m, size=n), random.integers(0, m // 2, size=n)
    U, V = random.normal(size=(m, 5)), random.normal(size=(m // 2, 5))
    v = (U[i] * V[j]).sum(axis=1) + 0.1 * random.normal(size=n)
    return {"U": U, "V": V, "v": v, "i": i, "j": j}


def glove(lib: Any, W: Any, C: Any, b: Any, c: Any, weights: Any, logs: Any, i: Array, j: Array) -> Any:
    f = lib.sum(weights * (lib.sum(W[i] * C[j], axis=1) + b[i] + c[j] - logs) ** 2)
    return f + sum(lib.sum(x**2) for x in (W, C, b, c))


def _glove(n: int) -> Arrays:
    random, m = np.random.default_rng(0), n // 50
    i, j = random.integers(0, m, size=(2, n))
    found = {k: random.normal(size=size) for k, size in {"W": (m, 5), "C": (m, 5), "b": m, "c": m}.items()}
    logs = (found["W"][i] * found["C"][j]).sum(axis=1) + found["b"][i] + found["c"][j]
    return found | {"weights": random.uniform(size=n), "logs": logs, "i": i, "j": j}


def _seen(lib: Any, c: Any, p: Any) -> tuple[Any, Any]:
    """Where cameras with a rotation vector, a translation, a focal length and two distortions see points."""
    w, x = [c[:, k] for k in range(3)], [p[:, k] for k in range(3)]
    angle = lib.sqrt(sum(k**2 for k in w) + 1e-12)
    axis = [k / angle for k in w]
    along = (1 - lib.cos(angle)) * sum(a * b for a, b in zip(axis, x, strict=True))
    cross = [axis[(k + 1) % 3] * x[(k + 2) % 3] - axis[(k + 2) % 3] * x[(k + 1) % 3] for k in range(3)]
    turned = [lib.cos(angle) * x[k] + lib.sin(angle) * cross[k] + along * axis[k] + c[:, 3 + k] for k in range(3)]
    u, v = -turned[0] / turned[2], -turned[1] / turned[2]
    r = u**2 + v**2
    scale = c[:, 6] * (1 + c[:, 7] * r + c[:, 8] * r**2)
    return scale * u, scale * v


def bundle(lib: Any, C: Any, P: Any, seen: Any, i: Array, j: Array) -> Any:
    u, v = _seen(lib, C[i], P[j])
    return lib.sum((u - seen[:, 0]) ** 2) + lib.sum((v - seen[:, 1]) ** 2) + 0.1 * (lib.sum(C**2) + lib.sum(P**2))


def _bundle(n: int) -> Arrays:
    """n points, and as many cameras and observations for these as the problem `ladybug-49` has."""
    random = np.random.default_rng(0)
    cameras, m = max(2, 49 * n // 7776), 31843 * n // 7776
    C = np.hstack([random.normal(size=(cameras, 6)) / 10, np.ones((cameras, 1)), random.normal(size=(cameras, 2)) / 99])
    C[:, 5] -= 5
    P = random.uniform(-1, 1, size=(n, 3))
    i, j = random.integers(0, cameras, size=m), np.concatenate([np.arange(n), random.integers(0, n, size=m - n)])
    seen = np.stack(_seen(np, C[i], P[j]), axis=1) + random.normal(size=(m, 2)) / 1e4
    return {"C": C, "P": P, "seen": seen, "i": i, "j": j}


# Kronecker products


def _matrices(n: int) -> Arrays:
    random = np.random.default_rng(0)
    A, B, C, Z = random.normal(size=(4, n, n)) / np.sqrt(n)
    return {"X": Z, "A": A + 2 * np.eye(n), "B": B + 2 * np.eye(n), "C": C}


def sylvester(lib: Any, X: Any, A: Any, B: Any, C: Any) -> Any:
    return lib.sum((A @ X + X @ B - C) ** 2)


def sylvester_ridge(lib: Any, X: Any, A: Any, B: Any, C: Any) -> Any:
    return lib.sum((A @ X + X @ B - C) ** 2) + 0.1 * lib.sum(X**2)


def _positive(n: int) -> Arrays:
    one, other = np.random.default_rng(0).normal(size=(2, n, n)) / np.sqrt(n)
    return {"P": one @ one.T + np.eye(n), "S": other @ other.T}


def precision(lib: Any, P: Any, S: Any) -> Any:
    return lib.trace(S @ P) - lib.logdet(P)


def discriminant(lib: Any, P: Any, Z: Any, m: Any) -> Any:
    """Quadratic discriminant analysis: the likelihood of one class by its precision."""
    return lib.sum(((Z - m) @ P) * (Z - m)) - 0.5 * Z.shape[0] * lib.logdet(P)


def _classes(n: int) -> Arrays:
    Z = np.random.default_rng(1).normal(size=(3 * n, n))
    return {"P": _positive(n)["P"], "Z": Z, "m": Z.mean(axis=0)}


def gaussian_process(lib: Any, F: Any, K: Any, L: Any, Y: Any) -> Any:
    return lib.trace(F.T @ lib.inv(K) @ F @ lib.inv(L)) + lib.sum((F - Y) ** 2)


def _kernels(n: int) -> Arrays:
    near = np.exp(-0.5 * ((np.arange(n)[:, None] - np.arange(n)) / 5) ** 2) + 0.1 * np.eye(n)
    F, Y = np.random.default_rng(0).normal(size=(2, n, n))
    return {"F": F, "K": near, "L": near + 0.1 * np.eye(n), "Y": Y}


def _smoother(n: int) -> Arrays:
    return {"S": np.random.default_rng(0).normal(size=(n // 4, 4))}


PROBLEMS = {
    "chain": Problem("chained Rosenbrock", 10**6, ("x",), _vector, chain),
    "trend": Problem("trend filtering", 10**6, ("x",), _vector, trend),
    "spline": Problem("smoothing spline", 10**6, ("x",), _vector, spline),
    "smoother": Problem("Kalman smoother, 4 states", 10**6, ("S",), _smoother, smoother),
    "control": Problem("nonlinear control, KKT", 10**5, ("x", "u", "p"), _controls, control),
    "linear": Problem("linear-quadratic control, KKT", 10**5, ("x", "u", "p"), _controls, linear_control),
    "image": Problem("total variation of an image", 512, ("X",), _image, image),
    "deblurring": Problem("deblurring of an image", 512, ("X",), _blurred, deblurring),
    "bundle": Problem("bundle adjustment, points", 7776, ("C", "P"), _bundle, bundle),
    "factorization": Problem("COO factorization", 10**6, ("U", "V"), _factorization, factorization),
    "glove": Problem("GloVe", 10**6, ("W", "C", "b", "c"), _glove, glove),
    "mixed": Problem("mixed effects", 10**5, ("beta", "u", "s"), _mixed, mixed),
    "crossed": Problem("crossed effects", 10**5, ("beta", "u", "w"), _crossed, crossed),
    "comparisons": Problem("Bradley–Terry", 10**5, ("x",), _comparisons, comparisons),
    "stress": Problem("stress of an edge list", 10**5, ("X",), _stress, stress),
    "groups": Problem("group sums", 10**6, ("x",), _vector, groups),
    "circle": Problem("differences around a circle", 10**6, ("x",), _vector, circle),
    "convolution": Problem("convolution of width 5", 10**6, ("x",), _vector, convolution),
    "precision": Problem("logdet P", 150, ("P",), _positive, precision),
    "discriminant": Problem("quadratic discriminant", 150, ("P",), _classes, discriminant),
    "sylvester": Problem("‖AX + XB − C‖²", 150, ("X",), _matrices, sylvester),
    "ridge": Problem("‖AX + XB − C‖² + ‖X‖²/10", 150, ("X",), _matrices, sylvester_ridge),
    "process": Problem("Kronecker Gaussian process", 150, ("F",), _kernels, gaussian_process),
}

"""Functions written for JAX, with arguments: what ordinary numerical code consists of.

The sizes are small, so that tests are fast. With `EINDIFF_SCALE=5` in the environment axes are five times as long, and
vectors that meet no matrix much longer: so the same table is measured at the sizes of real work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import sparse
from jax.scipy import special
from jax.scipy.linalg import cho_factor, cho_solve, expm, solve_triangular

import oracles  # noqa: F401 (double precision)


@dataclass(frozen=True)
class Case:
    """A function and arguments; it is differentiated twice if it gives a number, else once."""

    name: str
    function: Callable
    args: tuple
    argnums: Any = 0
    has_aux: bool = False
    opaque: bool = False  # whether a part of it is left to JAX
    order: int = 0  # 0: 2 for numbers, else 1
    forward: bool = False  # JAX can differentiate it forwards only
    tolerance: float = 1e-9


SCALE = int(os.environ.get("EINDIFF_SCALE", "1"))
CASES: list[Case] = []
_rng = np.random.default_rng(0)


def scaled(*shape: int) -> tuple[int, ...]:
    """A shape with longer axes."""
    return tuple(n * SCALE if n > 1 else n for n in shape)


def case(name: str, function: Callable, *args: Any, **options: Any) -> None:
    """Add a function."""
    CASES[:] = [other for other in CASES if other.name != name]  # a module of cases may be imported twice
    CASES.append(Case(name, function, args, **options))


def normal(*shape: int) -> jax.Array:
    return fixed(*scaled(*shape))


def fixed(*shape: int) -> jax.Array:
    """Of this shape, whatever the scale."""
    return jnp.asarray(_rng.normal(size=shape))


def positive(*shape: int) -> jax.Array:
    return jnp.asarray(_rng.uniform(0.5, 1.5, scaled(*shape)))


def inside(*shape: int) -> jax.Array:
    """Between -1 and 1, not near 0."""
    shape = scaled(*shape)
    return jnp.asarray(_rng.choice([-1, 1], shape) * _rng.uniform(0.1, 0.8, shape))


def spd(n: int) -> jax.Array:
    a = _rng.normal(size=scaled(n, n))
    return jnp.asarray(a @ a.T + len(a) * np.eye(len(a)))


def weighted(function: Callable) -> Callable:
    """A number from an array: a sum with weights that tell its entries apart."""

    def total(*args: Any) -> Any:
        value = function(*args)
        return jnp.sum(value * jnp.cos(jnp.arange(value.size)).reshape(value.shape))

    return total


LONG = 5 if SCALE == 1 else 40
x5, X, A, S = inside(LONG), normal(6, 4), normal(4, 4), spd(4)
A = A + 3 * SCALE * jnp.eye(len(A))
w4, y6, p5 = normal(4), normal(6), positive(LONG)

# Elementwise functions

for _name in [
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arctanh",
    "cbrt",
    "square",
]:
    case(_name, weighted(getattr(jnp, _name)), x5)
for _name in ["log", "log1p", "log2", "log10", "sqrt", "reciprocal", "exp2"]:
    case(_name, weighted(getattr(jnp, _name)), p5)
for _name in ["erf", "erfc", "erfinv", "expit", "ndtr", "log_ndtr", "i0e"]:
    _opaque = _name in ("i0e", "log_ndtr")
    case(_name, weighted(getattr(special, _name)), x5, opaque=_opaque)
for _name in ["gammaln", "digamma"]:
    case(_name, weighted(getattr(special, _name)), p5)
case("entr", weighted(special.entr), p5)
case("logit", weighted(special.logit), p5 / 2)
case("arccosh", weighted(jnp.arccosh), 1 + p5)
case("rsqrt", weighted(lax.rsqrt), p5)
case("abs, sign", weighted(lambda x: jnp.abs(x) ** 3 * jnp.sign(x)), x5)
case("integer powers", weighted(lambda x: x**3 + x**-2 + x**7), x5)
case("real powers", weighted(lambda x: x**1.7 + x**-0.5), p5)
case("x to the y", weighted(lambda x, y: x**y), p5, x5, argnums=(0, 1))
case("a number to the x", weighted(lambda x: 2.0**x), x5)
case("arctan2, hypot", weighted(lambda x, y: jnp.arctan2(x, y) * jnp.hypot(x, y)), x5, p5, argnums=(0, 1))
case("floor, ceil, round", weighted(lambda x: x * (jnp.floor(3 * x) + jnp.ceil(x) + jnp.round(2 * x))), x5)
case("remainder", weighted(lambda x: jnp.mod(x, 0.3) ** 2 + jnp.fmod(x, 0.4) * x), x5)
case("maximum, minimum", weighted(lambda x, y: jnp.maximum(x, y) ** 2 - jnp.minimum(x, 0.3) ** 3), x5, p5 - 1)
case("clip", weighted(lambda x: jnp.clip(x, -0.3, 0.4) * x), x5)
case("clamp", weighted(lambda x: lax.clamp(-0.3, x, 0.4) * x), x5)
case("where", weighted(lambda x: jnp.where(x > 0, jnp.exp(x), x**2)), x5)
case("comparisons", weighted(lambda x: ((x > 0.1) & (x <= 0.5) | (x < -0.3)) * x**2 + (x >= 0) * x + ~(x == 0)), x5)
case("xlogy, xlog1py", weighted(lambda x, y: special.xlogy(x, y) + special.xlog1py(x, y)), p5, p5 + 1, argnums=(0, 1))
case("xlogy with zeros", weighted(lambda x, y: special.xlogy(x, y)), jnp.arange(len(p5)) % 4.0, p5, argnums=1)
case("logaddexp", weighted(jnp.logaddexp), x5, p5, argnums=(0, 1))
case("stop_gradient", lambda x: jnp.sum(lax.stop_gradient(jnp.sin(x)) * x**3), x5)
case("straight-through", lambda x: jnp.sum((x + lax.stop_gradient(jnp.round(x) - x)) ** 2 * x), x5)
case("nested stop_gradient", lambda x: jnp.sum(lax.stop_gradient(x * lax.stop_gradient(x)) * jnp.exp(x)), x5)
case("sinc", weighted(jnp.sinc), x5, opaque=True)
case("number", lambda x: jnp.sin(x) * x**2, 0.7)
case("of a scalar array", lambda x: jnp.exp(-x * x), jnp.array(0.3))

# Products, reductions, shapes

case("quadratic form", lambda x: x @ A @ x, w4)
case(
    "dot, vdot, inner, outer",
    lambda x: jnp.vdot(x, x) + jnp.inner(x, x) * jnp.dot(x, w4) + jnp.sum(jnp.outer(x, x) * A),
    w4,
)
case("batched matmul", weighted(lambda B: jnp.matmul(B, normal_b) @ B), normal(2, 3, 3))
case("tensordot", weighted(lambda T: jnp.tensordot(T, T, axes=([0, 2], [0, 2]))), normal(2, 3, 2))
case("einsum", lambda T: jnp.einsum("ijk,kl,jm,ilm->", T, m3, m3, T), normal(2, 3, 3))
case("batched dot_general", weighted(lambda T: jnp.einsum("bij,bkj->bki", T, jnp.sin(T))), normal(2, 3, 2))
case("sum, mean, var, std", lambda B: jnp.sum(B.mean(0) ** 2) + jnp.var(B) + B.std(axis=1).sum(), normal(3, 4))
case("prod", lambda x: jnp.prod(x) + jnp.sum(jnp.prod(jnp.outer(x, x), axis=0)), x5[:3])
case("max, min", lambda B: B.max() * B.min() + jnp.sum(B.max(0) * B.min(0)) ** 2, normal(3, 4))
case("any, all", weighted(lambda x: jnp.any(x > 0.5) * x + jnp.all(x != 2) * x**2), x5)
case(
    "norms", lambda B: jnp.linalg.norm(B) + jnp.linalg.norm(B[0]) ** 3 + jnp.linalg.norm(B, axis=1).sum(), normal(3, 4)
)
case("logsumexp", lambda B: special.logsumexp(B) + special.logsumexp(B, axis=0).sum() ** 2, normal(3, 4))
case("logsumexp, kept axes", weighted(lambda B: B - special.logsumexp(B, axis=1, keepdims=True)), normal(3, 4))
case("logsumexp with weights", lambda x: special.logsumexp(x, b=p5), x5)
case("large logsumexp", lambda x: special.logsumexp(1000 + 10 * x), x5)
case(
    "softmax by hand",
    weighted(
        lambda B: jnp.exp(B - B.max(1, keepdims=True)) / jnp.exp(B - B.max(1, keepdims=True)).sum(1, keepdims=True)
    ),
    normal(3, 4),
)
case("cumsum", weighted(lambda B: jnp.cumsum(B**2, axis=1) * jnp.cumsum(B[::-1], axis=0)), normal(3, 4))
case("cumsum backwards", weighted(lambda x: lax.cumsum(x**2, reverse=True)), x5)
case("cumprod", lambda x: jnp.sum(jnp.cumprod(x)), x5, opaque=True)
case("sort", weighted(lambda x: jnp.sort(x) ** 3), x5, opaque=True)
case("median", lambda x: jnp.median(x**2), x5, opaque=True)
case("argmax", lambda x: jnp.sum(x**2 * jax.nn.one_hot(jnp.argmax(x), len(x))), x5)
case("top_k", lambda x: jnp.sum(lax.top_k(x**3, 2)[0] ** 2), x5, opaque=True)
case(
    "reshape, transpose",
    weighted(lambda B: (B.reshape(2, -1).T @ B.reshape(2, -1)).reshape(4, -1).swapaxes(0, 1)),
    normal(3, 4),
)
case("ravel, moveaxis", weighted(lambda T: jnp.moveaxis(T, 0, -1).ravel() ** 3), normal(2, 3, 2))
case("squeeze, expand_dims", weighted(lambda x: jnp.squeeze(jnp.expand_dims(x, (0, 2)) ** 2) * x), x5)
case(
    "broadcast_to, tile, repeat",
    lambda x: jnp.sum(jnp.tile(x, 2) * jnp.repeat(x, 2)) * jnp.broadcast_to(x, (3, len(x))).sum(),
    x5,
)
case("slices", weighted(lambda B: B[1:, ::2] * B[:-1, 1::2] + B[-1, 0] ** 2), normal(3, 4))
case("differences", lambda x: jnp.sum(jnp.diff(x) ** 2) + jnp.sum((x[1:] - x[:-1]) ** 4), x5)
case("reverse, roll", weighted(lambda x: x[::-1] * jnp.roll(x, 2) * jnp.flip(x)), x5)
case(
    "concatenate, stack",
    weighted(lambda x: jnp.concatenate([x, x[:2] ** 2]) * jnp.stack([x, x**2], 1).ravel()[: len(x) + 2]),
    x5,
)
case("split", lambda x: jnp.sum(jnp.split(x, [2])[0]) * jnp.sum(jnp.split(x, [2])[1] ** 2), x5)
case(
    "pad",
    weighted(lambda B: jnp.pad(B, ((1, 2), (0, 1))) ** 2 + jnp.pad(B, ((2, 1), (1, 0)), constant_values=2.0)),
    normal(3, 4),
)
case("interior and negative padding", weighted(lambda x: lax.pad(x**2, 1.5, [(-1, 2, 1)])), x5)
case("gather", weighted(lambda x: x[jnp.array([0, 2, 2, 4])] ** 3), x5)
case("gather rows", weighted(lambda B: B[jnp.array([[0, 2], [1, 1]])] ** 3), normal(3, 4))
case("gather pairs", weighted(lambda B: B[jnp.array([0, 2]), jnp.array([3, 1])] ** 3), normal(3, 4))
case("gather columns, negative", weighted(lambda B: B[:, jnp.array([-1, 0])] ** 3), normal(3, 4))
case(
    "take_along_axis",
    weighted(lambda B: jnp.take_along_axis(B, jnp.arange(1, 4 * len(B), 4)[:, None] % 4, 1) ** 3),
    normal(3, 4),
)
case("gather outside", weighted(lambda x: x.at[jnp.array([1, 9])].get(mode="fill", fill_value=0.5) ** 3), x5)
case("gather clipped", weighted(lambda x: x.at[jnp.array([1, 9])].get(mode="clip") ** 3), x5)
case("index argument", weighted(lambda x, i: x[i] ** 3), x5, jnp.array([3, 0, 3]))
case("segment_sum", weighted(lambda x: jax.ops.segment_sum(x**2, jnp.arange(len(x)) ** 2 % 3, 3) ** 2), x5)
case("scatter add", weighted(lambda x: jnp.zeros(4).at[jnp.array([0, 3, 0])].add(x[:3] ** 2) ** 2), x5)
case("scatter rows", weighted(lambda B: B.at[jnp.array([2, 0])].add(jnp.sin(B[:2])) ** 2), normal(3, 4))
case("scatter set", weighted(lambda x: x.at[jnp.array([0, 3])].set(x[1:3] ** 2) ** 2), x5)
case("scatter multiply", weighted(lambda x: x.at[jnp.array([0, 3])].multiply(x[1:3], unique_indices=True) ** 2), x5)
case("set an entry, a slice", weighted(lambda x: x.at[1].set(2.0).at[-2:].set(x[:2]) ** 3), x5)
case("scatter max", weighted(lambda x: x.at[jnp.array([0, 3])].max(x[1:3] * 2) ** 2), x5, opaque=True, order=1)
case("dynamic_slice", weighted(lambda x, k: lax.dynamic_slice(x, (k,), (2,)) ** 3), x5, 2)
case("dynamic_update_slice", weighted(lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (4,)) ** 2), x5)
case(
    "diagonal, trace, diag, tril",
    lambda B: jnp.trace(B @ B) + jnp.sum(jnp.diag(B) ** 3) + jnp.sum(jnp.tril(B) * jnp.diag(B[0])) ** 2,
    normal(4, 4),
)
case("triu", lambda B: jnp.sum(jnp.triu(B, 1) ** 2 @ B), normal(3, 3))
case("kron", weighted(lambda B: jnp.kron(B, m3)), normal(2, 2))
case("cross", weighted(lambda x: jnp.cross(x, jnp.sin(x))), x5[:3])
case("interpolation", lambda x: jnp.sum(jnp.polyval(jnp.array([1.0, 2, 3]), x)), x5)
case("meshgrid", lambda x: jnp.sum(jnp.sin(jnp.meshgrid(x, x)[0] * jnp.meshgrid(x, x)[1])), x5)
case("vmap", lambda B: jnp.sum(jax.vmap(lambda row: jnp.exp(row @ row))(0.3 * B)), normal(3, 2))
case("jit, checkpoint", jax.jit(lambda x: jnp.sum(jax.checkpoint(jnp.sin)(x) ** 2)), x5)
case("inner grad", lambda x: jnp.sum(jax.grad(lambda z: jnp.sum(jnp.sin(z) * z**2))(x) ** 2), x5)
case(
    "one_hot",
    lambda W, k: -jnp.sum(jax.nn.log_softmax(X @ W) * jax.nn.one_hot(k, W.shape[1])),
    normal(4, 3),
    jnp.arange(len(X)) % 3,
)
normal_b, m3 = normal(2, 3, 3), normal(3, 3)

# Windows and convolutions

image, kernel = fixed(1, 5 * SCALE, 5 * SCALE, 2), fixed(3, 3, 2, 2)


def convolved(x: Any, k: Any, strides: tuple, padding: Any, **more: Any) -> Any:
    return lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **more)


case("convolution, same", weighted(lambda k: convolved(image, k, (1, 1), "SAME") ** 2), kernel)
case(
    "convolution, strided, dilated",
    weighted(lambda k: convolved(image, k, (2, 1), [(2, 1), (2, 2)], rhs_dilation=(2, 2)) ** 2),
    kernel,
)
case(
    "convolution by the image",
    weighted(lambda x: convolved(x, kernel, (1, 1), "VALID") ** 2),
    image[:, : 4 * SCALE, : 4 * SCALE],
)
case("transposed convolution", weighted(lambda k: lax.conv_transpose(image[:, :3, :3], k, (2, 2), "SAME") ** 2), kernel)
case(
    "grouped convolution",
    weighted(lambda k: convolved(image, k, (1, 1), "VALID", feature_group_count=2) ** 2),
    fixed(2, 2, 1, 4),
)
case("np.convolve", weighted(lambda x: jnp.convolve(x, x)), x5)
case(
    "sum of windows",
    weighted(lambda x: lax.reduce_window(x**2, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")),
    image[:, :3, :3],
)
case(
    "max of windows",
    weighted(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2),
    image[:, :4, :4],
)

# Linear algebra

case("solve", weighted(lambda B, b: jnp.linalg.solve(B, b)), A, w4, argnums=(0, 1))
case("solve for a matrix", weighted(lambda B: jnp.linalg.solve(B, X.T)), A)
case("inv", weighted(jnp.linalg.inv), A)
case("det 3", jnp.linalg.det, A[:3, :3])
case("det 4", jnp.linalg.det, A)
case("slogdet", lambda B: jnp.linalg.slogdet(B)[1], A)
case(
    "slogdet, negative",
    lambda B: jnp.linalg.slogdet(B)[1] * jnp.linalg.slogdet(B)[0],
    A.at[jnp.array([1, 0])].set(A[:2]),
)
case("cholesky", weighted(jnp.linalg.cholesky), S)
case("cho_solve", lambda s: w4 @ cho_solve(cho_factor(S + s * jnp.eye(len(S))), w4), 0.3)
case("cho_factor of one triangle", lambda B: w4 @ cho_solve(cho_factor(B), w4), S, opaque=True, order=1)
case("triangular solve", weighted(lambda B: solve_triangular(B, w4, lower=True)), A)
case("triangular solve, upper, transposed", weighted(lambda B: solve_triangular(B, X.T, trans=1)), A)
case("eigvalsh", weighted(lambda B: jnp.linalg.eigvalsh(B) ** 2), S)
case(
    "eigh", lambda B: jnp.sum((jnp.linalg.eigh(B)[1] * jnp.linalg.eigh(B)[0] ** 1.5) @ jnp.linalg.eigh(B)[1].T @ w4), S
)
case("singular values", weighted(lambda B: jnp.linalg.svd(B, compute_uv=False) ** 3), X[:4, :3])
case("nuclear norm", lambda B: jnp.linalg.norm(B, "nuc"), X[:4, :3])
case("pinv", weighted(jnp.linalg.pinv), X[:4, :3])
case("qr", weighted(lambda B: jnp.linalg.qr(B)[1]), X[:4, :3], opaque=True, order=1)
case("expm", weighted(expm), 0.3 * A[:3, :3], order=1)
case("matrix_power", weighted(lambda B: jnp.linalg.matrix_power(B, 5)), 0.3 * A[:3, :3])
case(
    "lstsq by normal equations",
    lambda w: jnp.sum((X @ jnp.linalg.solve(X.T @ X + jnp.exp(w) * jnp.eye(X.shape[1]), X.T @ y6) - y6) ** 2),
    0.2,
)

# Loops and branches

case("scan", lambda x: lax.scan(lambda c, s: (jnp.sin(c) * s, c * s), 1.0, x)[1].sum(), x5)
case("scan backwards", lambda x: lax.scan(lambda c, s: (c * s + 1, c), 1.0, x, reverse=True)[0], x5)
case(
    "long scan", lambda x: lax.scan(lambda c, _: (jnp.sin(c) + 0.1 * x, None), x, length=80)[0] @ x, x5[:2], opaque=True
)
case("fori_loop", lambda x: lax.fori_loop(0, 5, lambda k, c: jnp.sin(c) + x[k] * x, x).sum(), x5)
case(
    "while_loop",
    lambda x: lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * x), (0, x))[1],
    x5,
    forward=True,
)
case("cond, known", lambda x, flag: lax.cond(flag, jnp.sin, jnp.cos, x).sum() ** 2, x5, True)
case("cond, unknown", lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x).sum() ** 2, x5, opaque=True)
case("switch", lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.exp], x).sum(), x5)
case("map", lambda B: lax.map(lambda row: jnp.sum(row) ** 3, B).sum(), normal(3, 2))
case("associative_scan", weighted(lambda x: lax.associative_scan(jnp.multiply, x)), x5)


@jax.custom_jvp
def clipped_slope(x: Any) -> Any:
    return x**3


clipped_slope.defjvp(lambda primals, tangents: (clipped_slope(*primals), 2 * primals[0] * tangents[0]))


@jax.custom_vjp
def reversed_gradient(x: Any) -> Any:
    return jnp.sin(x)


reversed_gradient.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (-g * jnp.cos(x),))
case("custom_jvp", lambda x: jnp.sum(clipped_slope(x) * x), x5, opaque=True)
case("custom_vjp", lambda x: jnp.sum(reversed_gradient(x) * x), x5, opaque=True, order=1)

_sparse = sparse.BCOO.fromdense(np.triu(np.random.default_rng(7).normal(size=(5, 5))))
case("bcoo_product", lambda x: jnp.sum(jnp.sin(_sparse @ x[:5]) ** 2), x5)
case("bcoo_todense", lambda x: jnp.sum(sparse.BCOO((x[:3], _sparse.indices[:3]), shape=(5, 5)).todense() ** 3), x5)
case("bcoo_extract", lambda x: jnp.sum(sparse.bcoo_extract(_sparse, jnp.outer(x[:5], jnp.sin(x[:5]))).data ** 2), x5)

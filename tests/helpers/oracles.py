"""What derivatives are checked against: finite differences, NumPy, JAX, and points to check them at.

A test function takes a *library* as its first argument and is called twice: with `eindiff` itself it gives an
expression, with `NUMPY` or `JAX` (the same names, done by that library) arrays. So both sides are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from string import ascii_letters
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special as jax_special

import eindiff as ed
from eindiff.core.nodes import Expr, Variable
from eindiff.functions.elementwise import TABLE

jax.config.update("jax_enable_x64", True)

SPECIAL = ("erf", "erfc", "erfinv", "log_ndtr", "gammaln", "digamma", "polygamma")
MODES = ("forward", "reverse", "cross_country", "auto")

# Compiling takes nearly all of the time that JAX needs for the small arrays of tests.
QUICK_COMPILATION = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

# Points


def _orthogonal(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def _skew(n: int, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=(n, n))
    return noise - noise.T


def _gram(n: int, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=(n, n))
    return noise @ noise.T


def _spaced(count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers far from each other: functions of several of them have kinks or poles where two meet."""
    return 0.5 * np.arange(1, count + 1) + rng.uniform(0, 0.2, count)


def _with_singular_values(m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    r = min(m, n)
    return _orthogonal(m, rng)[:, :r] * _spaced(r, rng) @ _orthogonal(n, rng)[:, :r].T


def _with_eigenvalues(m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """A symmetric matrix and a skew part, which functions of the symmetric part must not see."""
    q = _orthogonal(m, rng)
    return q * (_spaced(m, rng) - 1) @ q.T + 0.1 * _skew(m, rng)


# Points in the domains that the table of functions names, away from the kinks at 0; matrices are m×n.
_ELEMENTWISE: dict[str, Callable[[tuple, np.random.Generator], np.ndarray]] = {
    "real": lambda shape, rng: rng.choice([-1, 1], shape) * rng.uniform(0.2, 1.3, shape),
    "nonzero": lambda shape, rng: rng.choice([-1, 1], shape) * rng.uniform(0.5, 1.3, shape),
    "positive": lambda shape, rng: rng.uniform(0.5, 1.5, shape),
    "above -1": lambda shape, rng: rng.uniform(-0.5, 1.5, shape),
    "above 1": lambda shape, rng: rng.uniform(1.3, 2.5, shape),
    "anything but 0 and negative integers": lambda shape, rng: (
        rng.choice([-1, 1], shape) + rng.uniform(0.2, 0.7, shape)
    ),
    "between -1 and 1": lambda shape, rng: rng.choice([-1, 1], shape) * rng.uniform(0.1, 0.7, shape),
    "distinct entries": lambda shape, rng: rng.permutation(_spaced(prod(shape), rng) - 1).reshape(shape),
    "distinct values, there is no derivative where two are equal": lambda shape, rng: sample(
        "distinct entries", shape, rng
    ),
    "values other than 0, there is no derivative at 0": lambda shape, rng: sample("nonzero", shape, rng),
}
_MATRICES: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "invertible": lambda m, n, rng: 2 * _orthogonal(m, rng) + 0.3 * rng.normal(size=(m, n)),
    "positive determinant": lambda m, n, rng: 2 * np.eye(m) + 0.5 * rng.normal(size=(m, n)),
    "full rank": _with_singular_values,
    "distinct singular values": _with_singular_values,
    "positive definite": lambda m, n, rng: _gram(m, rng) + np.eye(m) + 0.1 * _skew(m, rng),
    "symmetric, distinct eigenvalues": _with_eigenvalues,
    "no eigenvalue on the negative axis": lambda m, n, rng: 2 * np.eye(m) + 0.4 * rng.normal(size=(m, n)),
    # properties of variables
    "symmetric": lambda m, n, rng: _gram(m, rng) - np.eye(m),
    "psd": lambda m, n, rng: _gram(m, rng),
    "orthogonal": lambda m, n, rng: _orthogonal(m, rng),
}
DOMAINS = frozenset(_ELEMENTWISE) | frozenset(_MATRICES)


def sample(domain: str, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """A random point of a domain of the table of functions, or of variables with a property.

    >>> sample("orthogonal", (2, 3, 3), np.random.default_rng(0)).shape
    (2, 3, 3)
    """
    shape = tuple(shape)
    if domain in _ELEMENTWISE:
        return np.asarray(_ELEMENTWISE[domain](shape, rng), dtype=float)
    *stack, m, n = shape
    matrices = [_MATRICES[domain](m, n, rng) for _ in range(prod(stack))]
    return np.array(matrices).reshape(shape)


# Comparisons


def assert_close(actual: Any, expected: Any, rtol: float, floor: float = 0.0, message: object = "") -> None:
    """The same shape, finite, and equal up to `rtol` times the largest entry (or `floor`, if it is larger)."""
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape, f"shape {actual.shape} instead of {expected.shape}: {message}"
    assert np.isfinite(expected).all(), f"the oracle is not finite: {message}"
    assert np.isfinite(actual).all(), f"not finite: {message}\n{actual}"
    scale = max(float(np.abs(expected).max(initial=0)), floor)
    errors = np.abs(actual - expected)
    if not errors.size:
        return
    worst = np.unravel_index(int(errors.argmax()), errors.shape)
    there = f"{actual[worst]} instead of {expected[worst]} at {[int(k) for k in worst]}"
    assert errors[worst] <= rtol * scale, f"{there}, relative error {errors[worst] / scale:.1e}: {message}"


def declare(arrays: Mapping[str, np.ndarray]) -> dict[str, Variable]:
    """A variable for each array, of its shape."""
    return {name: ed.tensor(name, array.shape) for name, array in arrays.items()}


# Finite differences


def finite_difference(function: Callable[[np.ndarray], Any], x: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """The derivative of a function of one array: its axes first, then those of x.

    Central differences D(h) have an error c·h² + O(h⁴). One Richardson extrapolation, (4 D(h/2) − D(h)) / 3,
    removes the first part; what is left with h = 1e-3 is about 1e-12, as much as rounding.
    """

    def central(entry: tuple, h: float) -> np.ndarray:
        moved = np.zeros(x.shape)
        moved[entry] = h
        return (np.asarray(function(x + moved)) - np.asarray(function(x - moved))) / (2 * h)

    columns = [(4 * central(entry, step / 2) - central(entry, step)) / 3 for entry in np.ndindex(x.shape)]
    result = np.array(columns)
    return np.moveaxis(result, 0, -1).reshape(result.shape[1:] + x.shape)


def finite_derivative(y: Expr, arrays: Mapping[str, np.ndarray], *path: Variable) -> np.ndarray:
    """∂y by the variables of a path in turn: differences of the symbolic derivative by all but the last one.

    For one variable these are differences of the function itself.
    """
    *earlier, last = path
    lower = ed.derivative(y, *earlier, mode="reverse") if earlier else y
    return finite_difference(lambda x: ed.evaluate(lower, {**arrays, last.name: x}), arrays[last.name])


# NumPy and JAX under the names of eindiff


def _array_library(xp: Any) -> dict[str, Callable]:
    """What `numpy` and `jax.numpy` have in common, under the names of eindiff."""

    def einsum(spec: str, *operands: Any, sizes: Mapping[str, int] | None = None) -> Any:
        """A repeated output label meets an identity matrix, an unbound one a vector of ones."""
        inputs, output = spec.split("->")
        terms, operands, known = inputs.split(",") if operands else [], list(operands), dict(sizes or {})
        for term, operand in zip(terms, operands, strict=True):
            known.update(zip(term, operand.shape, strict=True))
        fresh = (letter for letter in ascii_letters if letter not in spec)
        distinct = ""
        for label in output:
            if label not in "".join(terms):
                terms.append(label)
                operands.append(xp.ones(known[label]))
            new = label if label not in distinct else next(fresh)
            if new != label:
                terms.append(label + new)
                operands.append(xp.eye(known[label]))
            distinct += new
        return xp.einsum(f"{','.join(terms)}->{distinct}", *operands) if operands else xp.ones(())

    def diag(a: Any) -> Any:
        return einsum("i->ii", a) if a.ndim == 1 else einsum("ii->i", a)

    def norm2(a: Any, axis: Any = None) -> Any:
        return xp.sqrt(xp.sum(a * a, axis))

    same = (
        *("exp", "expm1", "log", "log1p", "abs", "sign", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
        *("arctan2", "arcsinh", "arccosh", "arctanh", "cbrt", "floor", "ceil", "trunc", "rint", "isnan"),
        *("sinh", "cosh", "tanh", "maximum", "minimum", "power", "sqrt", "square", "reciprocal"),
        *("sum", "mean", "prod", "max", "min", "moveaxis", "transpose", "reshape", "concatenate", "stack"),
        *("kron", "matmul", "eye"),
    )
    return {name: getattr(xp, name) for name in same} | {
        "einsum": einsum,
        "diag": diag,
        "norm1": lambda a, axis=None: xp.sum(xp.abs(a), axis),
        "norm2": norm2,
        "ones": lambda *shape: xp.ones(shape),
        "zeros": lambda *shape: xp.zeros(shape),
        "outer": lambda a, b: xp.tensordot(a, b, axes=0),
        "inner": lambda a, b: xp.sum(a * b),
        "vec": lambda a: xp.reshape(xp.transpose(a), -1),
        "cumsum": lambda a, axis=-1: xp.cumsum(a, axis),
        "take": lambda a, indices, axis=0: xp.take(a, xp.asarray(indices), axis),
        "tr": lambda a: xp.trace(a, axis1=-2, axis2=-1),
        "step": lambda a: xp.heaviside(a, 0.0),
        "argmax": lambda a: (a == a.max(-1, keepdims=True)).astype(float),
        "log_weighted_sum": lambda a, b: xp.log(xp.sum(b * xp.exp(a), -1)),
        "weighted_softmax": lambda a, b: b * xp.exp(a) / xp.sum(b * xp.exp(a), -1, keepdims=True),
        "power_derivative": lambda a, b: a ** (b - 1) * (1 + b * xp.log(a)),
        "winner": lambda a, b: xp.heaviside(a - b, 0.5),
        "greater": lambda a, b: xp.greater(a, b).astype(float),
        "at_least": lambda a, b: xp.greater_equal(a, b).astype(float),
        "where": lambda condition, a, b: xp.where(condition != 0, a, b),
        "relu": lambda a: xp.maximum(a, 0),
        "inverse_or_zero": lambda a: 1 / a,
        "stop_gradient": jax.lax.stop_gradient if xp is jnp else xp.positive,
        "alike": xp.positive,
        "conditioned": xp.positive,
    }


def _jax_sqrtm(a: Any) -> Any:
    """√A = 2/π ∫ A (sin²θ I + cos²θ A)⁻¹ dθ from 0 to π/2: periodic, so that the midpoint rule is exact to rounding.

    Unlike an algorithm for the root, JAX can differentiate this as often as wanted.
    """
    angles = (jnp.arange(64) + 0.5) * jnp.pi / 128
    sines, cosines = (jnp.square(f(angles)).reshape([-1] + [1] * a.ndim) for f in (jnp.sin, jnp.cos))
    return jnp.mean(a @ jnp.linalg.inv(sines * jnp.eye(a.shape[-1]) + cosines * a), 0)


def _jax_logm(a: Any) -> Any:
    """log A = ∫ (A − I) (I + t (A − I))⁻¹ dt from 0 to 1, by Gauss's rule."""
    nodes, weights = (array.reshape([-1] + [1] * a.ndim) for array in np.polynomial.legendre.leggauss(32))
    apart = a - jnp.eye(a.shape[-1])
    return jnp.sum(weights / 2 * (apart @ jnp.linalg.inv(jnp.eye(a.shape[-1]) + (nodes + 1) / 2 * apart)), 0)


def _jax_svd(a: Any) -> tuple:
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return u, s, jnp.swapaxes(v, -1, -2)


def _jax_logsumexp(a: Any, axis: Any = None) -> Any:
    return jax.scipy.special.logsumexp(a, axis)


def _jax_divided(name: str) -> Callable:
    """A divided difference: the mean of the derivative between two points; as it is defined, if there may be a kink."""

    def divided(x: Any, y: Any) -> Any:
        function = getattr(JAX, name)
        if name in ("abs", "sign", "relu", "step"):
            return (function(x) - function(y)) / (x - y)
        slope = jnp.vectorize(jax.grad(function))
        nodes, weights = np.polynomial.legendre.leggauss(24)
        return sum(w / 2 * slope((x + y + t * (x - y)) / 2) for t, w in zip(nodes, weights, strict=True))

    return divided


NUMPY = SimpleNamespace(**_array_library(np))

JAX = SimpleNamespace(
    **_array_library(jnp) | {"relu": jax.nn.relu},
    **{name: getattr(jax_special, name) for name in SPECIAL},
    sigmoid=jax.nn.sigmoid,
    softplus=jax.nn.softplus,
    softmax=jax.nn.softmax,
    logsumexp=_jax_logsumexp,
    inv=jnp.linalg.inv,
    det=jnp.linalg.det,
    logdet=lambda a: jnp.linalg.slogdet(a)[1],
    logabsdet=lambda a: jnp.linalg.slogdet(a)[1],
    signdet=lambda a: jnp.linalg.slogdet(a)[0],
    adj=lambda a: jnp.linalg.det(a)[..., None, None] * jnp.linalg.inv(a),
    solve=jnp.linalg.solve,
    pinv=jnp.linalg.pinv,
    chol=jnp.linalg.cholesky,
    matrix_power=jnp.linalg.matrix_power,
    expm=jax.scipy.linalg.expm,
    sqrtm=_jax_sqrtm,
    logm=_jax_logm,
    eigvals=lambda a: jnp.linalg.eigh(a)[0],
    eigvecs=lambda a: jnp.linalg.eigh(a)[1],
    lambdamax=lambda a: jnp.linalg.eigh(a)[0][..., -1],
    svdvals=lambda a: _jax_svd(a)[1],
    svdleft=lambda a: _jax_svd(a)[0],
    svdright=lambda a: _jax_svd(a)[2],
    normnuc=lambda a: jnp.sum(_jax_svd(a)[1], -1),
    normspec=lambda a: _jax_svd(a)[1][..., 0],
    gaps=lambda x: x[..., None, :] - x[..., :, None],
    simple=jnp.ones_like,
    nonzero=jnp.ones_like,
    nonzero_pairs=lambda x: jnp.ones((*x.shape, x.shape[-1])),
    **{name: _jax_divided(name.removeprefix("divided_")) for name in TABLE if name.startswith("divided_")},
)


def jax_derivatives(function: Callable, arrays: Mapping[str, np.ndarray], order: int) -> list:
    """Value, first, second, ... derivatives of `function(JAX, **arrays)` by all arguments, as nested dicts.

    They are compiled as one program. Operation by operation JAX would compile each, for ten times as long.
    """
    levels = [lambda point: function(JAX, **point)]
    for k in range(order):
        levels.append((jax.jacfwd if k else jax.jacrev)(levels[-1]))
    return jit(lambda point: [level(point) for level in levels])(dict(arrays))


def jit(function: Callable) -> Callable:
    """`jax.jit` for functions that run once."""
    return jax.jit(function, compiler_options=QUICK_COMPILATION)

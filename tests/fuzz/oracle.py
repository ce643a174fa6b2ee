"""The names of eindiff for jets: what a program means, written down without eindiff."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from string import ascii_letters
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from fuzz.jets import Array, Jet, Kink, away_from, elementwise, jet, linear, multilinear, on_matrices

# Elementwise functions: the value and three derivatives.

Series = Callable[[Array], tuple[Array, Array, Array, Array]]


def _logistic(x: Array) -> tuple[Array, Array, Array, Array]:
    s = 1 / (1 + np.exp(-x))
    d = s * (1 - s)
    return s, d, d * (1 - 2 * s), d * (1 - 6 * s + 6 * s * s)


def _tanh(x: Array) -> tuple[Array, Array, Array, Array]:
    t = np.tanh(x)
    d = 1 - t * t
    return t, d, -2 * t * d, d * (6 * t * t - 2)


def _tan(x: Array) -> tuple[Array, Array, Array, Array]:
    t = np.tan(x)
    d = 1 + t * t
    return t, d, 2 * t * d, d * (2 + 6 * t * t)


def _arctan(x: Array) -> tuple[Array, Array, Array, Array]:
    d = 1 / (1 + x * x)
    return np.arctan(x), d, -2 * x * d**2, (6 * x * x - 2) * d**3


def _arcsin(x: Array) -> tuple[Array, Array, Array, Array]:
    d = (1 - x * x) ** -0.5
    return np.arcsin(x), d, x * d**3, (1 + 2 * x * x) * d**5


def _erf(x: Array) -> tuple[Array, Array, Array, Array]:
    d = 2 / np.sqrt(np.pi) * np.exp(-x * x)
    return scipy.special.erf(x), d, -2 * x * d, (4 * x * x - 2) * d


def _log(x: Array) -> tuple[Array, Array, Array, Array]:
    return np.log(x), 1 / x, -(x**-2), 2 * x**-3


def _piecewise(value: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Series:
    return lambda x: (value(x), slope(x), 0 * x, 0 * x)


SERIES: dict[str, Series] = {
    "exp": lambda x: (np.exp(x),) * 4,  # type: ignore[return-value]
    "expm1": lambda x: (np.expm1(x), *(np.exp(x),) * 3),  # type: ignore[return-value]
    "log": _log,
    "log1p": lambda x: _log(1 + x),
    "sin": lambda x: (np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)),
    "cos": lambda x: (np.cos(x), -np.sin(x), -np.cos(x), np.sin(x)),
    "tan": _tan,
    "arcsin": _arcsin,
    "arccos": lambda x: tuple(np.pi / 2 * (k == 0) - part for k, part in enumerate(_arcsin(x))),  # type: ignore[return-value]
    "arctan": _arctan,
    "sinh": lambda x: (np.sinh(x), np.cosh(x), np.sinh(x), np.cosh(x)),
    "cosh": lambda x: (np.cosh(x), np.sinh(x), np.cosh(x), np.sinh(x)),
    "tanh": _tanh,
    "sigmoid": _logistic,
    "softplus": lambda x: (np.logaddexp(0, x), *_logistic(x)[:3]),
    "erf": _erf,
    "abs": _piecewise(np.abs, np.sign),
    "relu": _piecewise(lambda x: np.maximum(x, 0), lambda x: np.heaviside(x, 0.0)),
    "sign": _piecewise(np.sign, lambda x: 0 * x),
    "step": _piecewise(lambda x: np.heaviside(x, 0.0), lambda x: 0 * x),
}
KINKS = {"abs": (0.0,), "relu": (0.0,), "sign": (0.0,), "step": (0.0,)}
DOMAINS = {"log": (0.05, 1e6), "log1p": (-0.95, 1e6), "tan": (-1.3, 1.3)}
DOMAINS |= dict.fromkeys(("arcsin", "arccos"), (-0.95, 0.95))


def _function(name: str) -> Callable[[Any], Jet]:
    def function(a: Any) -> Jet:
        x = jet(a)
        away_from(x, *KINKS.get(name, ()))
        low, high = DOMAINS.get(name, (-50.0, 50.0))
        if (x.parts[0] < low).any() or (x.parts[0] > high).any():
            raise Kink(f"outside of the domain of {name}")
        return elementwise(x, *SERIES[name](x.parts[0]))

    return function


# Products and shapes


def einsum(spec: str, *operands: Any, sizes: Mapping[str, int] | None = None) -> Jet:
    """As NumPy's, where a repeated output label is a delta and an unbound one ones."""
    inputs, output = spec.split("->")
    terms, jets, known = inputs.split(",") if operands else [], [jet(x) for x in operands], dict(sizes or {})
    for term, x in zip(terms, jets, strict=True):
        known.update(zip(term, x.shape, strict=True))
    fresh = (letter for letter in ascii_letters if letter not in spec)
    distinct, more = "", []
    for label in output:
        if label not in "".join(terms):
            terms.append(label)
            more.append(np.ones(known[label]))
        new = label if label not in distinct else next(fresh)
        if new != label:
            terms.append(label + new)
            more.append(np.eye(known[label]))
        distinct += new
    if not terms:
        return jet(1.0)
    text = f"{','.join(terms)}->{distinct}"
    if not jets:
        return jet(np.einsum(text, *more))
    return multilinear(lambda *parts: np.einsum(text, *parts, *more), *jets)


def _linear(function: Callable[..., Array]) -> Callable[..., Jet]:
    return lambda a, *more, **options: linear(lambda part: function(part, *more, **options), jet(a))


def joined(function: Callable[..., Array]) -> Callable[..., Jet]:
    """A function of a list of arrays."""

    def apply(arrays: Sequence[Any], axis: int = 0) -> Jet:
        jets = [jet(x) for x in arrays]
        return Jet([function([x.parts[s] for x in jets], axis=axis) for s in range(8)])

    return apply


def put(a: Any, index: Any, value: Any, mode: str = "set") -> Jet:
    """The array with entries at places set, or added to, as JAX's `a.at[index].set(value)`."""
    a, value = jet(a), jet(value)
    parts = a.parts.copy()
    for s in range(8):
        if mode == "set":
            parts[s][index] = value.parts[s]
        else:
            np.add.at(parts[s], index, value.parts[s])
    return Jet(parts)


def diag(a: Any) -> Jet:
    return einsum("i->ii", a) if jet(a).ndim == 1 else einsum("ii->i", a)


# Reductions


def extreme(a: Any, axis: int | None, sign: int) -> Jet:
    """The largest (or smallest) entry, which must be alone."""
    x = jet(a)
    if axis is None:
        x, axis = linear(np.ravel, x), 0
    first = np.sort(sign * x.parts[0], axis=axis)
    if first.shape[axis] > 1 and (np.diff(first.take([-2, -1], axis), axis=axis) < 0.02).any():
        raise Kink("a tie")
    place = np.expand_dims(np.argmax(sign * x.parts[0], axis=axis), axis)
    return linear(lambda part: np.take_along_axis(part, place, axis).squeeze(axis), x)


def prod(a: Any, axis: int | None = None) -> Jet:
    x = jet(a)
    if axis is None:
        x, axis = linear(np.ravel, x), 0
    x = linear(lambda part: np.moveaxis(part, axis, 0), x)
    result = jet(np.ones(x.shape[1:]))
    for k in range(x.shape[0]):
        result = result * x[k]
    return result


def logsumexp(a: Any, axis: int | None = None) -> Jet:
    return library.log(library.sum(library.exp(a), axis))


def softmax(a: Any, axis: int = -1) -> Jet:
    e = library.exp(a)
    return e / linear(lambda part: part.sum(axis, keepdims=True), e)


def norm2(a: Any, axis: Any = None) -> Jet:
    return library.sum(jet(a) * a, axis) ** 0.5


def extremum(sign: int) -> Callable[[Any, Any], Jet]:
    """The larger (or smaller) of two entries."""

    def function(a: Any, b: Any) -> Jet:
        difference = jet(a) - b
        away_from(difference, 0.0)
        first = (sign * difference.parts[0] > 0).astype(float)
        return jet(a) * first + jet(b) * (1 - first)

    return function


# Functions of matrices


def _conditioned(x: Jet, function: Callable[[Array], Array] = np.linalg.cond, limit: float = 1e3) -> Jet:
    if x.shape[-1] and not function(x.parts[0]) < limit:
        raise Kink("badly conditioned")
    return x


def inv(a: Any) -> Jet:
    return on_matrices(np.linalg.inv, _conditioned(jet(a)))


def logdet(a: Any) -> Jet:
    """`log det A = log det A0 + tr log(I + A0⁻¹ N)`, where N⁴ = 0."""
    x = _conditioned(jet(a))
    sign, value = np.linalg.slogdet(x.parts[0])
    if sign <= 0:
        raise Kink("a determinant that is not positive")
    nilpotent = np.linalg.inv(x.parts[0]) @ (x - x.parts[0])
    square = nilpotent @ nilpotent
    return value + tr(nilpotent - square * 0.5 + nilpotent @ square * (1 / 3))


def det(a: Any) -> Jet:
    """By permutations."""
    x = jet(a)
    n = x.shape[-1]
    total = jet(0.0)
    for order in permutations(range(n)):
        sign = np.linalg.det(np.eye(n)[list(order)]) if n else 1.0
        term = jet(sign)
        for row, column in enumerate(order):
            term = term * x[row, column]
        total = total + term
    return total


def tr(a: Any) -> Jet:
    return linear(np.trace, jet(a))


def chol(a: Any) -> Jet:
    """Row by row; the matrix is read as its symmetric part."""
    x = (jet(a) + jet(a).T) * 0.5
    n = x.shape[-1]
    if n and np.linalg.eigvalsh(x.parts[0])[0] < 0.05:
        raise Kink("not definite")
    rows: list[list[Jet]] = [[jet(0.0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = x[i, j]
            for k in range(j):
                rest = rest - rows[i][k] * rows[j][k]
            rows[i][j] = rest**0.5 if i == j else rest / rows[j][j]
    return joined(np.stack)([joined(np.stack)(row) for row in rows])


def eigvals(a: Any) -> Jet:
    """Roots of the characteristic polynomial: each simplified Newton step makes one more order right."""
    x = (jet(a) + jet(a).T) * 0.5
    n = x.shape[-1]
    values = np.linalg.eigvalsh(x.parts[0])
    if n > 1 and np.diff(values).min() < 0.1:
        raise Kink("equal eigenvalues")
    found = []
    for k, value in enumerate(values):
        slope = -np.prod(np.delete(values, k) - value)
        root = jet(value)
        for _ in range(4):
            root = root - det(x - multilinear(np.multiply, root, jet(np.eye(n)))) * (1 / slope)
        found.append(root)
    return joined(np.stack)(found)


def svdvals(a: Any) -> Jet:
    """Roots of the eigenvalues of the smaller Gram matrix, the largest first."""
    x = jet(a)
    gram = x @ x.T if x.shape[0] < x.shape[1] else x.T @ x
    return linear(np.flip, eigvals(gram)) ** 0.5


def pinv(a: Any) -> Jet:
    """By the normal equations: of full rank."""
    x = jet(a)
    return x.T @ inv(x @ x.T) if x.shape[0] < x.shape[1] else inv(x.T @ x) @ x.T


def matrix_power(a: Any, k: int) -> Jet:
    x = jet(a) if k >= 0 else inv(a)
    result = jet(np.eye(x.shape[-1]))
    for _ in range(abs(k)):
        result = result @ x
    return result


def expm(a: Any) -> Jet:
    """The power series."""
    x = jet(a)
    if np.abs(x.parts[0]).sum() > 12:
        raise Kink("a large exponent")
    term = result = jet(np.eye(x.shape[-1]))
    for k in range(1, 60):
        term = term @ x * (1 / k)
        result = result + term
    return result


def sqrtm(a: Any) -> Jet:
    """The iteration of Denman and Beavers."""
    y, z = _positive(jet(a)), jet(np.eye(jet(a).shape[-1]))
    for _ in range(12):
        y, z = (y + inv(z)) * 0.5, (z + inv(y)) * 0.5
    return y


def logm(a: Any) -> Jet:
    """`log A = ∫ (A − I) (I + t (A − I))⁻¹ dt` from 0 to 1, by Gauss's rule."""
    x = _positive(jet(a))
    identity = np.eye(x.shape[-1])
    total = jet(np.zeros(x.shape))
    for node, weight in zip(*np.polynomial.legendre.leggauss(24), strict=True):
        total = total + (x - identity) @ inv(identity + (x - identity) * ((node + 1) / 2)) * (weight / 2)
    return total


def _positive(x: Jet) -> Jet:
    values = np.linalg.eigvals(x.parts[0])
    if len(values) and (values.real.min() < 0.2 or np.abs(values).max() > 6):
        raise Kink("eigenvalues near the negative axis, or large ones")
    return _conditioned(x)


def spectral_sum(coefficients: Sequence[float]) -> Callable[[Any], Jet]:
    """The sum of a polynomial of the eigenvalues, as a trace: smooth where eigenvalues meet, too."""

    def function(a: Any) -> Jet:
        x = (jet(a) + jet(a).T) * 0.5
        total = jet(0.0)
        for k, coefficient in enumerate(coefficients):
            total = total + tr(matrix_power(x, k)) * coefficient
        return total

    return function


def spectral_exp(a: Any) -> Jet:
    """The sum of the exponentials of the eigenvalues."""
    return tr(expm((jet(a) + jet(a).T) * 0.5))


library = SimpleNamespace(
    **{name: _function(name) for name in SERIES},
    einsum=einsum, diag=diag, tr=tr, prod=prod, logsumexp=logsumexp, softmax=softmax, norm2=norm2, put=put,
    sum=_linear(np.sum), mean=_linear(np.mean), cumsum=lambda a, axis=-1: linear(lambda p: np.cumsum(p, axis), jet(a)),
    transpose=_linear(np.transpose), moveaxis=_linear(np.moveaxis), reshape=_linear(np.reshape),
    take=lambda a, indices, axis=0: linear(lambda p: np.take(p, indices, axis), jet(a)),
    concatenate=joined(np.concatenate), stack=joined(np.stack),
    vec=_linear(lambda p: np.reshape(p.T, -1)),
    kron=lambda a, b: multilinear(np.kron, jet(a), jet(b)),
    outer=lambda a, b: multilinear(lambda p, q: np.tensordot(p, q, 0), jet(a), jet(b)),
    inner=lambda a, b: library.sum(jet(a) * b), matmul=lambda a, b: jet(a) @ b,
    ones=lambda *shape: jet(np.ones(shape)), zeros=lambda *shape: jet(np.zeros(shape)), eye=lambda n: jet(np.eye(n)),
    max=lambda a, axis=None: extreme(a, axis, 1), min=lambda a, axis=None: extreme(a, axis, -1),
    norm1=lambda a, axis=None: library.sum(library.abs(a), axis),
    maximum=extremum(1), minimum=extremum(-1), power=lambda a, p: jet(a) ** p, sqrt=lambda a: jet(a) ** 0.5,
    square=lambda a: jet(a) * a, simplify=jet, reciprocal=lambda a: jet(a) ** -1,
    inv=inv, solve=lambda a, b: inv(a) @ b, det=det, logdet=logdet, adj=lambda a: det(a) * inv(a), chol=chol,
    pinv=pinv, matrix_power=matrix_power, expm=expm, sqrtm=sqrtm, logm=logm, eigvals=eigvals, svdvals=svdvals,
    lambdamax=lambda a: eigvals(a)[-1], normspec=lambda a: svdvals(a)[0], normnuc=lambda a: library.sum(svdvals(a)),
)  # fmt: skip

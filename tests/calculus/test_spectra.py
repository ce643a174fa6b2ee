"""Functions of eigenvalues and singular values where these are equal, nearly equal, or zero.

The oracle is Taylor arithmetic of matrices, which knows no eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from math import comb

import numpy as np
import pytest

import eindiff as ed
import matrix_jets as jets
from backend_libraries import Library, check, cupy_or_stand_in, every_library, library_of  # noqa: F401
from eindiff.core.nodes import Expr
from eindiff.program.interpreter import evaluate
from matrix_jets import Jet, line
from oracles import MODES

S, A, v = ed.matrix("S", 3, 3), ed.matrix("A", 3, 2), ed.vector("v", 3)
RTOL = 1e-9
rng = np.random.default_rng(5)
BASIS = np.linalg.qr(rng.normal(size=(3, 3)))[0]
WEIGHT = rng.normal(size=(3, 3))
DIRECTIONS = [rng.normal(size=(3, 3)) for _ in range(2)]


def _rotated(*values: float) -> np.ndarray:
    return BASIS * np.array(values) @ BASIS.T


POINTS = {
    "identity": np.eye(3),
    "zero": np.zeros((3, 3)),
    "a double eigenvalue": _rotated(1, 1, 2),
    "singular": _rotated(0, 0, 1),
    "not symmetric": _rotated(1, 1, 2) + np.array([[0, 1, 2], [-1, 0, 3], [-2, -3, 0]]),
    "distinct": _rotated(0.3, 1, 2),
    **{f"a gap of 1e-{k}": _rotated(1, 1 + 10.0**-k, 2) for k in (1, 2, 3, 5, 8, 11, 14, 16)},
    **{f"three within 1e-{k}": _rotated(1, 1 + 10.0**-k, 1 - 2 * 10.0**-k) for k in (2, 4, 6, 9, 12)},
}

# A function of the eigenvalues, and the same function of the matrix
SUMS: dict[str, tuple[Callable[[Expr], Expr], Callable[[Jet], Jet]]] = {
    "square": (lambda x: x**2, lambda x: x * x),
    "cube": (lambda x: x**3, lambda x: x * x * x),
    "exp": (ed.exp, jets.exp),
    "log": (lambda x: ed.log(1 + x), lambda x: jets.log(x + 1.0)),
    "inverse": (lambda x: 1 / (2 + x), lambda x: jets.inverse(x + 2.0)),
    "root": (lambda x: ed.sqrt(1 + x), lambda x: jets.sqrt(x + 1.0)),
    "power": (lambda x: (2 + x) ** 1.3, lambda x: jets.exp(1.3 * jets.log(x + 2.0))),
    "entropy": (lambda x: (2 + x) * ed.log(2 + x), lambda x: (x + 2.0) * jets.log(x + 2.0)),
    "sin": (ed.sin, jets.sin),
    "tanh": (ed.tanh, jets.tanh),
    "sigmoid": (ed.sigmoid, jets.sigmoid),
    "softplus": (ed.softplus, lambda x: jets.log(jets.exp(x) + 1.0)),
}


@cache
def _derivative(f: Expr, x: Expr, order: int, mode: str) -> Expr:
    return ed.derivative(f, *[x] * order, mode=mode)


def _along(f: Expr, x: Expr, point: np.ndarray, direction: np.ndarray, order: int, mode: str) -> float:
    value = np.asarray(evaluate(_derivative(f, x, order, mode), {x.name: point}))  # type: ignore[attr-defined]
    for _ in range(order):
        value = np.tensordot(value, direction, direction.ndim)
    return float(value)


def _check(f: Expr, x: Expr, point: np.ndarray, expected: Callable[[np.ndarray], list[float]], modes=("auto",)) -> None:
    """All derivatives along some directions, up to order three."""
    shape = point.shape
    for direction in DIRECTIONS:
        direction = direction[tuple(slice(n) for n in shape)] if len(shape) == 2 else direction[0]
        exact = expected(direction)
        for order, mode in product((1, 2, 3), modes):
            actual = _along(f, x, point, direction, order, mode)
            scale = max(1.0, abs(exact[order]))
            assert abs(actual - exact[order]) <= RTOL * scale, (order, mode, actual, exact[order])


def _symmetric(x: np.ndarray) -> np.ndarray:
    return (x + x.T) / 2


@pytest.mark.parametrize("name", SUMS)
def test_sums_over_eigenvalues(name: str) -> None:
    function, of_matrix = SUMS[name]
    f = ed.sum(function(ed.eigvals(S)))
    for point in POINTS.values():
        _check(f, S, point, lambda e, p=point: of_matrix(line(_symmetric(p), _symmetric(e))).trace_derivatives())


@pytest.mark.parametrize("name", ["exp", "log", "tanh"])
@pytest.mark.parametrize("point", ["identity", "a double eigenvalue", "singular", "a gap of 1e-8"])
def test_all_modes(name: str, point: str) -> None:
    function, of_matrix = SUMS[name]
    f, at = ed.sum(function(ed.eigvals(S))), POINTS[point]
    _check(f, S, at, lambda e: of_matrix(line(at, _symmetric(e))).trace_derivatives(), MODES)


@pytest.mark.parametrize("name", ["exp", "log", "power", "sigmoid"])
def test_functions_through_eigenvectors(name: str) -> None:
    """Q diag(g(λ)) Q' is g(S), as smooth as g."""
    function, of_matrix = SUMS[name]
    vectors = ed.eigvecs(S)
    f = ed.sum(WEIGHT.T * (vectors @ ed.diag(function(ed.eigvals(S))) @ vectors.T))
    for point in POINTS.values():
        _check(f, S, point, lambda e, p=point: of_matrix(line(_symmetric(p), _symmetric(e))).trace_derivatives(WEIGHT))


def _log_of_trace(x: Jet) -> list[float]:
    """The derivatives of log(tr X)."""
    [a, b, c, d] = x.trace_derivatives()
    return [np.log(a), b / a, c / a - (b / a) ** 2, d / a - 3 * b * c / a**2 + 2 * (b / a) ** 3]


@pytest.mark.parametrize("point", POINTS)
def test_symmetric_functions(point: str) -> None:
    at = POINTS[point]
    jet = lambda e: line(_symmetric(at), _symmetric(e))  # noqa: E731
    _check(ed.logsumexp(ed.eigvals(S)), S, at, lambda e: _log_of_trace(jets.exp(jet(e))))
    pairs = ed.sum(ed.exp(ed.eigvals(S)[:, None] + 2 * ed.eigvals(S)[None, :]))

    def products(e: np.ndarray) -> list[float]:
        a, b = (jets.exp(factor * jet(e)).trace_derivatives() for factor in (1.0, 2.0))
        return [sum(comb(k, i) * a[i] * b[k - i] for i in range(k + 1)) for k in range(4)]

    _check(pairs, S, at, products)


@pytest.mark.parametrize("seed", range(20))
def test_random_functions(seed: int) -> None:
    """Sums of random compositions, at eigenvalues of which two are equal or nearly so."""
    random = np.random.default_rng(seed)
    gap = random.choice([0.0, 10.0 ** -random.uniform(1, 16)])
    at = _rotated(*random.permutation([0.4, 0.4 + gap, random.choice([0.4, -0.7])]))
    parts = [(ed.eigvals(S), lambda x: x)]
    for _ in range(3):
        name = random.choice(list(jets.FUNCTIONS))
        (inner, of_inner), (other, of_other) = (parts[k] for k in random.integers(len(parts), size=2))
        c = float(random.uniform(-1, 1))
        outer, of_outer = getattr(ed, name), jets.FUNCTIONS[name]
        parts.append((
            outer(c * inner) * other + inner,
            lambda x, c=c, f=of_outer, g=of_inner, h=of_other: f(c * g(x)) * h(x) + g(x),
        ))  # fmt: skip
    function, of_matrix = parts[-1]
    _check(
        ed.sum(function), S, at, lambda e: of_matrix(line(at, _symmetric(e))).trace_derivatives(), ("auto", "forward")
    )


# Singular values

LEFT = np.linalg.qr(rng.normal(size=(3, 2)))[0]
RIGHT = np.linalg.qr(rng.normal(size=(2, 2)))[0]


def _with_singular_values(*values: float) -> np.ndarray:
    return LEFT * np.array(values) @ RIGHT.T


RECTANGULAR = {
    "equal": _with_singular_values(1.5, 1.5),
    "distinct": _with_singular_values(2, 0.7),
    **{f"a gap of 1e-{k}": _with_singular_values(1 + 10.0**-k, 1) for k in (3, 6, 9, 13, 16)},
}
DEFICIENT = {"of rank one": _with_singular_values(2, 0), "zero": np.zeros((3, 2))}
EVEN: dict[str, tuple[Callable[[Expr], Expr], Callable[[Jet], Jet]]] = {
    "square": (lambda x: x**2, lambda x: x),
    "fourth power": (lambda x: x**4, lambda x: x * x),
    "log": (lambda x: ed.log(1 + x**2), lambda x: jets.log(x + 1.0)),
    "exp": (lambda x: ed.exp(-(x**2)), lambda x: jets.exp(-1.0 * x)),
}


@pytest.mark.parametrize("name", EVEN)
def test_even_functions_of_singular_values(name: str) -> None:
    """They are smooth at matrices that are not of full rank."""
    function, of_square = EVEN[name]
    for point in (*RECTANGULAR.values(), *DEFICIENT.values()):
        f = ed.sum(function(ed.svdvals(A)))
        _check(f, A, point, lambda e, p=point: of_square(line(p, e).T * line(p, e)).trace_derivatives())
        f = ed.sum(function(ed.svdvals(A.T)))
        _check(f, A, point, lambda e, p=point: of_square(line(p, e).T * line(p, e)).trace_derivatives())


OTHER: dict[str, tuple[Callable[[Expr], Expr], Callable[[Jet], Jet]]] = {
    "nuclear norm": (lambda x: x, jets.sqrt),
    "cube": (lambda x: x**3, lambda x: x * jets.sqrt(x)),
    "exp": (ed.exp, lambda x: jets.exp(jets.sqrt(x))),
    "log": (ed.log, lambda x: 0.5 * jets.log(x)),
}


@pytest.mark.parametrize("name", OTHER)
def test_functions_of_singular_values(name: str) -> None:
    function, of_square = OTHER[name]
    for point in RECTANGULAR.values():
        for matrix in (A, A.T):
            f = ed.sum(function(ed.svdvals(matrix)))
            _check(f, A, point, lambda e, p=point: of_square(line(p, e).T * line(p, e)).trace_derivatives())


def test_nuclear_norms_of_matrices_without_full_rank() -> None:
    """‖v v'‖ = v'v and ‖u v'‖ = ‖u‖ ‖v‖ are smooth, although the norm is not smooth there."""
    at = np.array([1.0, -2.0, 0.5])
    _check(ed.normnuc(ed.outer(v, v)), v, at, lambda e: [at @ at, 2 * at @ e, 2 * e @ e, 0.0])
    _check(ed.normnuc(A.T @ A), A, DEFICIENT["of rank one"], lambda e: (
        (line(DEFICIENT["of rank one"], e).T * line(DEFICIENT["of rank one"], e)).trace_derivatives()
    ))  # fmt: skip


# Where there is no derivative

TIED, ZERO = _rotated(1, 1, 2), _with_singular_values(2, 0)
WITHOUT: dict[str, tuple[Callable[[], Expr], Expr, np.ndarray]] = {
    "an eigenvalue": (lambda: ed.gradient(ed.eigvals(S)[0], S), S, TIED),
    "an eigenvalue of the identity": (lambda: ed.gradient(ed.eigvals(S)[1], S), S, np.eye(3)),
    "all eigenvalues": (lambda: ed.jacobian(ed.eigvals(S), S), S, TIED),
    "weighted eigenvalues": (lambda: ed.gradient(ed.eigvals(S) @ np.array([1.0, 2.0, 3.0]), S), S, TIED),
    "the least eigenvalue": (lambda: ed.gradient(ed.min(ed.eigvals(S)), S), S, TIED),
    "the largest eigenvalue": (lambda: ed.gradient(ed.lambdamax(S), S), S, _rotated(1, 2, 2)),
    "curvature of an eigenvalue": (lambda: ed.hessian(ed.eigvals(S)[0], S), S, TIED),
    "eigenvectors": (lambda: ed.jacobian(ed.eigvecs(S), S), S, TIED),
    "spectral norm": (lambda: ed.gradient(ed.normspec(A), A), A, _with_singular_values(1.5, 1.5)),
    "curvature of the nuclear norm": (lambda: ed.hessian(ed.normnuc(A), A), A, ZERO),
    "curvature of the nuclear norm at 0": (lambda: ed.hessian(ed.normnuc(A), A), A, np.zeros((3, 2))),
    "singular vectors": (lambda: ed.jacobian(ed.svdleft(A), A), A, ZERO),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_there_is_an_error_or_nan(name: str, library: Library) -> None:
    build, x, point = WITHOUT[name]
    derivative = build()
    with pytest.raises(ed.EindiffError, match="there is no derivative"):
        evaluate(derivative, {x.name: point})  # type: ignore[attr-defined]
    [value] = library.values(derivative, {x.name: point})  # type: ignore[attr-defined]
    assert np.isnan(value).any()


def test_a_tie_elsewhere_does_no_harm() -> None:
    """The largest eigenvalue is simple although others are equal."""
    direction = _symmetric(DIRECTIONS[0])
    vector = BASIS[:, 2]
    [gradient, hessian] = evaluate([ed.gradient(ed.lambdamax(S), S), ed.hessian(ed.lambdamax(S), S)], {"S": TIED})
    np.testing.assert_allclose(gradient, np.outer(vector, vector), atol=1e-12)
    curvature = 2 * sum((BASIS[:, k] @ direction @ vector) ** 2 for k in (0, 1))
    np.testing.assert_allclose(np.einsum("ijkl,ij,kl", hessian, direction, direction), curvature, rtol=1e-12)


# Other libraries

COMPILED = {
    "exp": lambda: ed.sum(ed.exp(ed.eigvals(S))),
    "sigmoid and erf": lambda: ed.sum(ed.sigmoid(ed.eigvals(S)) + ed.erf(ed.eigvals(S))),
    "softplus, power and tan": lambda: ed.sum(
        ed.softplus(ed.eigvals(S)) * (3 + ed.eigvals(S)) ** 0.3 + ed.tan(ed.eigvals(S) / 4)
    ),
    "arcs": lambda: ed.sum(
        ed.arctan(ed.eigvals(S)) * ed.arcsin(ed.eigvals(S) / 4) + ed.arccos(ed.eigvals(S) / 5) * ed.eigvals(S)
    ),
    "waves": lambda: ed.sum(ed.sin(ed.eigvals(S)) * ed.sinh(ed.eigvals(S)) + ed.cos(ed.eigvals(S)) / 3),
    "logarithms": lambda: ed.sum(
        ed.log1p(ed.eigvals(S)) * ed.expm1(ed.eigvals(S)) + ed.log(2 + ed.eigvals(S)) * ed.cosh(ed.eigvals(S))
    ),
    "kinks": lambda: ed.sum(ed.relu(ed.eigvals(S)) ** 2 * ed.eigvals(S) + ed.abs(ed.eigvals(S) - 3)),
    "logsumexp": lambda: ed.logsumexp(ed.eigvals(S)),
}


@pytest.mark.parametrize("name", COMPILED)
def test_programs(name: str, library: Library) -> None:
    """Compiled programs give what the interpreter gives, at equal and nearly equal eigenvalues."""
    f = COMPILED[name]()
    outputs = [ed.gradient(f, S), ed.hessian(f, S)]
    for point in (POINTS["identity"], POINTS["a double eigenvalue"], POINTS["a gap of 1e-5"]):
        check(library, outputs, {"S": point})


# Entries that are not finite

FACTORED = [
    *("inv", "pinv", "chol", "eigvals", "eigvecs", "svdvals", "svdleft", "svdright", "normnuc", "normspec"),
    *("lambdamax", "expm", "logm", "sqrtm", "det", "logdet"),
]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", FACTORED)
@pytest.mark.parametrize("where", ["numpy", "jax", "torch", "tensorflow"])
def test_entries_that_are_not_finite(name: str, bad: float, where: str) -> None:
    """They are an error of the interpreter, and NaN or an error in a program; none of another kind."""
    y, point = getattr(ed, name)(S), np.eye(3)
    point[0, 1] = bad
    with pytest.raises(ed.EindiffError, match=r"NaN|not a number"):
        evaluate(y, {"S": point})
    try:
        [value] = library_of(where).values(y, {"S": point})
    except ed.EindiffError as error:
        assert "cannot be" in str(error) or "has no form" in str(error)
    else:
        assert np.isnan(value).any()

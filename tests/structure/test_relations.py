"""Derivatives through slices, shifts, windows and gathers: values with coordinates, held against dense ones."""

from __future__ import annotations

import resource
from time import perf_counter

import numpy as np
import pytest
from scipy.sparse import diags_array, random_array

import eindiff as ed
from eindiff.structure.diagonals import Diagonals
from pace import at_pace

RANDOM = np.random.default_rng(5)
TABLE, OTHER = RANDOM.integers(0, 40, size=(2, 30))


def second_differences(x):
    return x[2:] - 2 * x[1:-1] + x[:-2]


def rosenbrock(x):
    return ed.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def trend(x):
    return ed.sum((x - 1) ** 2) + ed.sum(ed.sqrt(second_differences(x) ** 2 + 1e-3))


def spline(x):
    return ed.sum((x - 1) ** 2) + 3 * ed.sum(second_differences(x) ** 2)


def total_variation(X):
    down, right = X[1:, :-1] - X[:-1, :-1], X[:-1, 1:] - X[:-1, :-1]
    return ed.sum(ed.sqrt(down**2 + right**2 + 1e-2))


def five_points(X):
    return ed.sum(ed.exp(X[1:] - X[:-1])) + ed.sum((X[:, 1:] - X[:, :-1]) ** 4)


def smoother(S):
    step = np.array([[1.0, 0.1], [-0.2, 0.9]])
    return ed.sum((S[1:] - ed.tanh(S[:-1] @ step)) ** 2) + ed.sum(S**2)


def columns(X):
    return ed.sum(ed.exp(X[1:] - X[:-1]))


def edges(x):
    return ed.sum(ed.exp(x[TABLE] - x[OTHER]))


def stress(X):
    return ed.sum((ed.sum((X[TABLE] - X[OTHER]) ** 2, axis=1) - 1) ** 2)


def roll(x):
    rolled = ed.concatenate([x[1:], x[:1]])
    return ed.sum(ed.exp(x - rolled))


def circle(x):
    return ed.sum((x - ed.concatenate([x[1:], x[:1]])) ** 2) + ed.sum(x**2)


def windows(x):
    count = x.shape[0] - 4
    total = sum(x[k : k + count] * (k + 1.0) for k in range(5))
    return ed.sum(ed.exp(total / 5)) + ed.sum(x**2)


def pieces(x):
    a, b, c = x[:7], ed.reshape(x[7:21], (7, 2)), x[21:]
    return ed.sum(ed.exp(b @ np.ones(2) + a)) + ed.sum(c**4) + ed.sum(c) * ed.sum(a)


def flipped(x):
    return ed.sum((x[::-1] + x) ** 4 + x[::-1] * x**2)


def strided(x):
    return ed.sum(ed.exp(x[::2] * x[1::2])) + ed.sum(x**2)


def mixed(x):
    return ed.sum(ed.exp(x[1:] - x[:-1])) + ed.sum(x) ** 3


FUNCTIONS = {
    rosenbrock: ((40,), "tridiagonal"),
    trend: ((40,), "band of half-width 2"),
    spline: ((40,), "band of half-width 2"),
    total_variation: ((9, 8), "seven-point stencil on 9×8"),
    five_points: ((9, 8), "five-point stencil on 9×8"),
    smoother: ((20, 2), "block tridiagonal, blocks 2×2"),
    columns: ((9, 4), "block diagonal (tridiagonal)"),
    edges: ((40,), "sparse, 5 nonzeros a row"),
    stress: ((40, 2), "sparse, 10 nonzeros a row"),
    roll: ((30,), "periodic tridiagonal"),
    circle: ((30,), "circulant (tridiagonal)"),
    windows: ((30,), "band of half-width 4"),
    pieces: ((30,), None),
    flipped: ((20,), None),
    strided: ((24,), None),
    mixed: ((30,), "tridiagonal + low rank"),
}


def both(function, shape, seed=0):
    """The Hessian, structured and as the interpreter has it."""
    x = ed.tensor("x", *shape)
    hessian, value = ed.hessian(function(x), x), np.random.default_rng(seed).normal(size=shape)
    structured = ed.structured(hessian, {"x": value})
    size = int(np.prod(shape))
    return structured, ed.evaluate(hessian, {"x": value}).reshape(size, size)


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(other).max(initial=0.0)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_are_those_of_the_dense_derivative(function):
    shape, word = FUNCTIONS[function]
    operator, matrix = both(function, shape)
    vectors = RANDOM.normal(size=(len(matrix), 3))
    close(operator.as_matrix(), matrix)
    close(operator @ vectors, matrix @ vectors)
    close(vectors.T @ operator, vectors.T @ matrix)
    close(operator.T @ vectors, matrix.T @ vectors)
    close(operator.diagonal().ravel(), np.diag(matrix))
    assert operator.trace() == pytest.approx(np.trace(matrix))
    assert operator.frobenius_norm() == pytest.approx(np.linalg.norm(matrix))
    close(operator.to_csc().toarray(), matrix)
    close(operator.to_coo().toarray(), matrix)
    if (diagonals := Diagonals.of(operator._grid)) is not None:
        close(diagonals.matrix(operator._grid).toarray(), matrix)
    assert word is None or operator.structure == word


@pytest.mark.parametrize("function", FUNCTIONS)
def test_solvers_agree_with_dense_ones(function):
    operator, matrix = both(function, FUNCTIONS[function][0])
    damping = 1 + max(0.0, -np.linalg.eigvalsh(matrix).min())
    damped = matrix + damping * np.eye(len(matrix))
    b = RANDOM.normal(size=(len(matrix), 2))
    close(operator.solve(b, damping), np.linalg.solve(damped, b))
    assert operator.slogdet(damping) == pytest.approx(np.linalg.slogdet(damped))
    assert operator.is_definite(damping)
    close(operator.inverse_diagonal(damping).ravel(), np.diag(np.linalg.inv(damped)))
    close(operator.inverse(damping).as_matrix(), np.linalg.inv(damped))
    if not operator.is_definite():
        assert np.linalg.eigvalsh(matrix).min() < 1e-9


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_pattern_stays(function):
    """Patterns are those of labels, not of numbers: the same at each point."""
    shape, _ = FUNCTIONS[function]
    one, other = (both(function, shape, seed)[0].to_csc() for seed in (1, 2))
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.indptr, other.indptr)
    x = ed.tensor("x", *shape)
    zero = ed.structured(ed.hessian(function(x), x), {"x": np.zeros(shape)}).to_csc()
    np.testing.assert_array_equal(zero.indices, one.indices)


@pytest.mark.parametrize("function", [total_variation, stress, pieces, windows])
def test_jacobians(function):
    """Of the gradient: structured, they need not be square."""
    x = ed.tensor("x", *FUNCTIONS[function][0])
    gradient = ed.gradient(function(x), x)
    jacobian = ed.jacobian(gradient[1:], x)
    value = RANDOM.normal(size=x.shape)
    operator = ed.structured(jacobian, {"x": value})
    dense = ed.evaluate(jacobian, {"x": value}).reshape(operator._grid.shape)
    vector = RANDOM.normal(size=dense.shape[1])
    close(operator.as_matrix(), dense)
    close(operator @ vector, dense @ vector)
    close(operator.to_csc().toarray(), dense)
    close(operator.T @ (dense @ vector), dense.T @ (dense @ vector))


STEP = RANDOM.normal(size=(3, 3))
RESIDUALS = {
    "chain": (lambda x: x[1:] - x[:-1] ** 2, (40,), "tridiagonal"),
    "second differences": (lambda x: ed.sin(second_differences(x)), (40,), "band of half-width 2"),
    "edges": (lambda x: ed.exp(x[TABLE] - x[OTHER]), (40,), None),
    "states": (lambda X: X[1:] - ed.tanh(X[:-1] @ STEP), (8, 3), "block tridiagonal, blocks 3×3"),
    "grid": (lambda X: ed.exp(X[1:, 1:] - X[:-1, :-1]), (8, 6), "three-point stencil on 8×6"),
    "dense": (lambda x: ed.tanh(np.arange(1.0, 121).reshape(3, 40) @ x), (40,), "low rank"),
    "flipped": (lambda x: x[::-1] * x**2, (40,), None),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_products_of_derivatives(name):
    """Gauss–Newton: `J' D J` has a structure again, for a diagonal D, for any sparse one, and for itself."""
    function, shape, word = RESIDUALS[name]
    x = ed.tensor("x", *shape)
    operator = ed.structured(ed.jacobian(function(x), x), {"x": RANDOM.normal(size=shape)})
    matrix = operator.as_matrix()
    weights = RANDOM.uniform(1, 2, size=len(matrix))
    product = operator.T @ diags_array(weights) @ operator
    close(product.as_matrix(), (matrix.T * weights) @ matrix)
    assert word is None or product.structure == word
    close((operator @ operator.T).as_matrix(), matrix @ matrix.T)
    close((operator.T @ operator @ operator.T).as_matrix(), matrix.T @ matrix @ matrix.T)
    sparse = random_array((len(matrix), len(matrix)), density=0.1, rng=1)
    close((operator.T @ sparse @ operator).as_matrix(), matrix.T @ sparse.toarray() @ matrix)
    b = RANDOM.normal(size=matrix.shape[1])
    close(product.solve(b, damping=1.0), np.linalg.solve(product.as_matrix() + np.eye(len(b)), b))
    with pytest.raises(ed.EindiffError, match="does not fit"):
        operator @ diags_array(np.ones(7))


def test_tables_that_are_given():
    """Index arrays are inputs: patterns follow their values, also if an array is changed in place."""
    x, g, h = ed.vector("x", "n"), ed.indices("g", "m", into="n"), ed.indices("h", "m", into="n")
    hessian = ed.hessian(ed.sum(ed.exp(x[g] - x[h])) + ed.sum(x**2), x)
    value, tables = RANDOM.normal(size=50), RANDOM.integers(0, 50, size=(2, 60))
    compiled = ed.compile(hessian, form="structured")
    for _ in range(3):
        arrays = {"x": value, "g": tables[0], "h": tables[1]}
        operator, matrix = compiled(**arrays), ed.evaluate(hessian, arrays)
        assert operator.structure.startswith("sparse")
        close(operator.to_csc().toarray(), matrix)
        close(operator.solve(value), np.linalg.solve(matrix, value))
        tables[:] = RANDOM.integers(0, 50, size=(2, 60))


def test_a_singular_band_is_an_error():
    x = ed.vector("x", "n")
    operator = ed.structured(ed.hessian(ed.sum((x[1:] - x[:-1]) ** 2), x), {"x": np.ones(50)})
    assert operator.structure == "tridiagonal"
    with pytest.raises(ed.EindiffError, match="singular"):
        operator.solve(np.ones(50))
    close(operator.solve(np.ones(50), damping=2.0), np.full(50, 0.5))


def test_large_chains_take_linear_time_and_memory():
    n = 10**6
    x = ed.vector("x", "n")
    value = np.random.default_rng(0).normal(size=n)
    hessian = ed.compile(ed.hessian(spline(x), x), form="structured")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()
    operator = hessian(x=value)
    assert operator.structure == "band of half-width 2"
    solution = operator.solve(value)
    assert np.abs(operator @ solution - value).max() < 1e-10
    assert operator.trace() == pytest.approx(2 * n + 6 * (6 * (n - 4) + 2 * 5 + 2 * 1))
    assert perf_counter() - start < at_pace(10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2_000_000  # kB


def test_jax_functions():
    jax = pytest.importorskip("jax")
    import eindiff.jax

    def chain(x):
        return jax.numpy.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    value = np.random.default_rng(1).normal(size=30)
    operator = eindiff.jax.hessian(chain, structured=True)(value)
    assert operator.structure == "tridiagonal"
    expected = jax.hessian(chain)(value.astype(np.float32))
    np.testing.assert_allclose(operator.as_matrix(), expected, rtol=1e-3, atol=1e-2)


def random_expression(random, x, depth):
    """Slices, steps, flips, gathers, rolls and products of these, one in the other."""
    if depth == 0:
        return x
    y = random_expression(random, x, depth - 1)
    m = y.shape[0]
    pick = random.integers(0, m, size=random.integers(2, 8))
    choices = [
        lambda: y[1:], lambda: y[:-1], lambda: y[::2], lambda: y[::-1], lambda: y[pick], lambda: ed.sin(y),
        lambda: ed.concatenate([y[m // 2 :], y[: m // 2]]), lambda: y[1:] - 2 * y[:-1],
    ]  # fmt: skip
    which = int(random.integers(0, len(choices) + 2))
    if which < len(choices) and m > 3:
        return choices[which]()
    z = random_expression(random, x, depth - 1)
    count = min(m, z.shape[0])
    return y[:count] * z[z.shape[0] - count :] + 0.3 * z[:count]


@pytest.mark.parametrize("seed", range(20))
def test_random_relations(seed):
    random = np.random.default_rng(seed)
    x = ed.tensor("x", int(random.integers(6, 40)))
    f = ed.sum(ed.exp(0.3 * random_expression(random, x, int(random.integers(1, 5)))))
    f = f + ed.sum(random_expression(random, x, 2) ** 2)
    hessian, arrays = ed.hessian(f, x), {"x": random.normal(size=x.shape)}
    operator, matrix = ed.structured(hessian, arrays), ed.evaluate(hessian, arrays)
    vectors = random.normal(size=(len(matrix), 2))
    close(operator.as_matrix(), matrix)
    close(operator @ vectors, matrix @ vectors)
    close(operator.diagonal(), np.diag(matrix))
    close(operator.to_csc().toarray(), matrix)
    close((operator.T @ operator).as_matrix(), matrix.T @ matrix)
    damping = 1 + max(0.0, -np.linalg.eigvalsh(matrix).min())
    close(operator.solve(vectors, damping), np.linalg.solve(matrix + damping * np.eye(len(matrix)), vectors))


def test_an_index_that_a_map_never_reaches():
    """One entry of a vector that is rolled twice, met with a slice that leaves it out."""
    x = ed.vector("x", 24)
    rolled = ed.concatenate([x[-1:], x[:-1]])
    twice = ed.concatenate([rolled[-1:], rolled[:-1]])
    pairs = ed.sum(ed.reshape(rolled, (12, 2)), axis=1)
    f = ed.sum(ed.exp(0.2 * ed.sin(twice[::-1]))) + ed.sum(pairs**2)
    arrays = {"x": RANDOM.normal(size=24)}
    hessian = ed.hessian(f, x)
    close(ed.structured(hessian, arrays).as_matrix(), ed.evaluate(hessian, arrays))

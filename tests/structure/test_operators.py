"""The value of a derivative as an operator: its structure by name, and all that it can do against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg

import eindiff as ed
from eindiff.planning import tuning
from eindiff.structure import choose
from eindiff.structure.solvers import solver
from eindiff.structure.solvers.iterative import Iterative
from eindiff.structure.solvers.trusted import Careful
from objectives import OBJECTIVES

RTOL = 1e-8

# The structure of each Hessian at the small sizes of the table; at sizes where it is another one, a second entry.
STRUCTURES = {
    "factorization": "identity ⊗ core",
    "factorization by both": "arrowhead",
    "factorization by both with ridge": "arrowhead",
    "factorization with ridge": "identity ⊗ core",
    "masked factorization": "block diagonal",
    "masked factorization with ridge": "block diagonal",
    "weighted factorization": "block diagonal",
    "nonnegative factorization": "block diagonal",
    "nonnegative factorization with squares": "identity ⊗ core",
    "tensor factorization": "identity ⊗ core",
    "ratings by biases": "arrowhead",
    "masked ratings by biases": "arrowhead",
    "logistic regression": "dense",
    "wide logistic regression with ridge": "identity + low rank",
    "multinomial regression with ridge": "dense",
    "softmax regression": "dense",
    "poisson regression": "dense",
    "ridge regression": "dense",
    "wide ridge regression": "identity + low rank",
    "pseudo huber regression": "dense",
    "log cosh regression": "dense",
    "squared hinge with ridge": "dense",
    "cox regression": "dense",
    "multitask regression": "core ⊗ identity",
    "groupwise logistic regression": "block diagonal",
    "gene models": "block diagonal",
    "gene models by columns": "block diagonal",
    "mixed effects": "arrowhead",
    "mixed effects logistic": "arrowhead",
    "kronecker least squares": "Kronecker product",
    "kronecker least squares with ridge": "Kronecker sum",
    "sylvester": "Kronecker sum",
    "quadratic form": "dense",
    "quadratic forms": "block diagonal",
    "trace with one matrix": "core ⊗ identity",
    "trace with symmetric matrices": "Kronecker product",
    "trace with two matrices": "Kronecker sum",
    "quadratic assignment": "sum of products",
    "principal components": "core ⊗ identity",
    "reconstruction": "dense",
    "rayleigh quotient": "dense",
    "gaussian process by factors": "dense",
    "gaussian process by hyperparameters": "dense",
    "graphical model": "sum of products",
    "gaussian mixture by means": "dense",
    "pairwise energy": "dense",
    "autoencoder by last layer": "core ⊗ identity",
    "autoencoder by first layer": "dense",
    "relu net with one sample": "Kronecker product",
    "sigmoid net with one sample": "Kronecker product",
    "sigmoid net": "sum of products",
    "attention": "sum of products",
    "separable": "diagonal",
    "cubes": "diagonal",
    "smooth absolute values": "diagonal",
    "barrier": "diagonal",
    "barrier of inequalities": "dense",
    "transport with entropy": "diagonal",
    "soft maximum": "dense",
    "smoothing": "tridiagonal",
    "trend filtering": "band of half-width 2",
    "smoothing of columns": "core ⊗ identity",
    "variance": "identity + low rank",
    "portfolio": "diagonal + low rank",
    "bilinear form": "sum of products",
    "sum of squares": "identity",
    "linear function": "zero",
}


def blocks_of(name: str, sizes: dict[str, int] | None = None) -> tuple[ed.Derivative, np.ndarray]:
    """The Hessian of an objective as an operator, and as a matrix from JAX."""
    objective = OBJECTIVES[name]()
    arrays = objective.point(np.random.default_rng(0), sizes)
    by = list(objective.wrt) if len(objective.wrt) > 1 else objective.wrt[0]
    _, expected = objective.expected(arrays)
    lengths = [arrays[x.name].size for x in objective.wrt]
    rows = [[x.reshape(lengths[i], lengths[j]) for j, x in enumerate(row)] for i, row in enumerate(expected)]
    return ed.structured(ed.hessian(objective.function, by), arrays), np.block(rows)


def close(actual: Any, expected: Any, rtol: float = RTOL) -> None:
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-3)
    np.testing.assert_allclose(flat(actual), np.ravel(expected), rtol=0, atol=rtol * scale)


def flat(value: Any) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in value]) if isinstance(value, list) else np.ravel(value)


def tensors(vector: np.ndarray, shapes: Any) -> Any:
    """A flat vector in the form of the variables."""
    if isinstance(shapes, tuple):
        return vector.reshape(shapes)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]


def test_every_objective_has_a_name():
    assert STRUCTURES.keys() == OBJECTIVES.keys()
    assert len(set(STRUCTURES.values())) >= 10


@pytest.mark.parametrize("name", OBJECTIVES)
def test_structure(name):
    assert blocks_of(name)[0].structure == STRUCTURES[name]


@pytest.mark.parametrize(
    ("name", "sizes", "structure"),
    [
        ("logistic regression", {"m": 3, "n": 8}, "low rank"),
        ("groupwise logistic regression", {"m": 2, "p": 9}, "block diagonal (low rank)"),
        ("multinomial regression with ridge", {"m": 3, "n": 40}, "block diagonal (identity + low rank) + low rank"),
        ("sigmoid net", {"b": 2, "n": 30}, "sum of products"),
    ],
)
def test_structure_depends_on_sizes(name, sizes, structure):
    operator, matrix = blocks_of(name, {**OBJECTIVES[name]().sizes, **sizes})
    close(operator.as_matrix(), matrix)
    assert operator.structure == structure
    assert operator.nbytes < operator.dense_nbytes


@pytest.mark.parametrize("name", OBJECTIVES)
def test_products(name):
    operator, matrix = blocks_of(name)
    generator = np.random.default_rng(1)
    size = len(matrix)
    u, v, columns = generator.normal(size=size), generator.normal(size=size), generator.normal(size=(size, 3))
    close(operator.as_matrix(), matrix)
    close(operator.mv(v), matrix @ v)
    close(operator @ tensors(v, operator.cols), matrix @ v)
    close(operator @ columns, matrix @ columns)
    close(operator.T.mv(u), matrix.T @ u)
    close(u @ operator, u @ matrix)
    assert np.vdot(u, operator.mv(v)) == pytest.approx(np.vdot(operator.T.mv(u), v), rel=1e-10, abs=1e-10)
    close(operator.diagonal(), np.diagonal(matrix))
    assert operator.trace() == pytest.approx(np.trace(matrix), rel=RTOL, abs=1e-9)
    assert operator.frobenius_norm() == pytest.approx(np.linalg.norm(matrix), rel=RTOL, abs=1e-9)
    close((2 * operator + operator - operator * 0.5).mv(v), 2.5 * matrix @ v)
    if len(operator.blocks) == 1:
        assert operator.as_tensor().shape == operator.shape == operator.rows + operator.cols


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_solving(name, damping):
    operator, matrix = blocks_of(name)
    damped = matrix + damping * np.eye(len(matrix))
    b = np.random.default_rng(2).normal(size=len(matrix))
    if np.linalg.cond(damped) > 1e9:
        with pytest.raises(ed.EindiffError, match=r"singular|zero"):
            operator.solve(b, damping)
        return
    close(operator.solve(b, damping), np.linalg.solve(damped, b))
    close(operator.solve(tensors(b, operator.rows), damping), np.linalg.solve(damped, b))
    close(operator.solve(np.stack([b, 2 * b], 1), damping)[:, 1], 2 * np.linalg.solve(damped, b))
    sign, value = np.linalg.slogdet(damped)
    assert operator.slogdet(damping) == pytest.approx((sign, value), rel=RTOL, abs=RTOL)
    definite = bool((np.linalg.eigvalsh(damped) > 0).all())
    assert operator.is_definite(damping) == definite
    if sign > 0:
        assert operator.logdet(damping) == pytest.approx(value, rel=RTOL, abs=RTOL)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_all_ways_to_solve_agree(name):
    """Also those that are not chosen. Without structure or with it, they give the same numbers or say why not."""
    operator, matrix = blocks_of(name)
    damped = matrix + 0.7 * np.eye(len(matrix))
    if np.linalg.cond(damped) > 1e9:
        return
    b = np.random.default_rng(3).normal(size=(len(matrix), 2))
    grid = operator.damped(0.7)._grid
    for way in choose.candidates(grid, operator._facts):
        careful = Careful([way], grid)
        close(careful.solve(b), np.linalg.solve(damped, b))
        if not isinstance(way, Iterative):
            assert careful.ask(lambda one: one.logdet()) == pytest.approx(np.linalg.slogdet(damped), rel=RTOL, abs=RTOL)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_inverse_cholesky_and_eigenvalues(name):
    operator, matrix = blocks_of(name)
    damped = matrix + 0.7 * np.eye(len(matrix))
    if np.linalg.cond(damped) < 1e9:
        if not name.startswith("trace with two"):
            close(operator.inverse(0.7).as_matrix(), np.linalg.inv(damped))
        chosen = operator.solver(0.7)
        if operator.is_definite(0.7) and chosen.word not in ("arrowhead", "Kronecker sum") and "+" not in chosen.word:
            factor = operator.cholesky(0.7).as_matrix()
            close(factor @ factor.T, damped)
            assert not np.triu(factor, 1).any()
    if operator.structure not in ("arrowhead", "diagonal + low rank") and name != "trace with two matrices":
        close(operator.eigvals(), np.linalg.eigvalsh(matrix))


@pytest.mark.parametrize("name", [name for name, word in STRUCTURES.items() if word not in ("dense", "zero")])
def test_structure_takes_less_memory(name):
    """The operator and its solver take less than the matrix, from sizes on that are not tiny."""
    objective = OBJECTIVES[name]()
    operator, _ = blocks_of(name, {size: 3 * count for size, count in objective.sizes.items()})
    assert operator.nbytes < operator.dense_nbytes
    if not operator.solver(0.5).is_dense:
        assert operator.solver(0.5).nbytes < 2 * operator.dense_nbytes  # the matrix and its factor


def test_damping_keeps_the_structure():
    """Of all but those that are low rank or zero without it, and sums of general matrices."""
    for name, word in STRUCTURES.items():
        damped = blocks_of(name)[0].damped(0.3).structure
        expected = {"Kronecker product": "Kronecker sum", "zero": "identity"}.get(word, word)
        if name == "trace with two matrices":  # three matrices on a side cannot be made diagonal at once
            expected = "sum of products"
        if name == "bilinear form":
            expected = "arrowhead"
        assert damped == expected, name


def test_factorizations_are_computed_once(monkeypatch):
    operator, matrix = blocks_of("masked factorization with ridge")
    calls = []
    original = np.linalg.cholesky
    monkeypatch.setattr(np.linalg, "cholesky", lambda x: calls.append(1) or original(x))
    for _ in range(3):
        operator.solve(np.ones(len(matrix)), 0.1)
    operator.logdet(0.1)
    assert len(calls) == 1


def test_frobenius_norm_without_forming_anything(monkeypatch):
    monkeypatch.setattr(tuning, "FORMED_ENTRIES", 0)
    for name in OBJECTIVES:
        operator, matrix = blocks_of(name)
        assert operator.frobenius_norm() == pytest.approx(np.linalg.norm(matrix), rel=1e-7, abs=1e-7)


def test_iterative_solver_is_used_where_nothing_else_fits(monkeypatch):
    monkeypatch.setattr(solver, "LIMIT", 100)
    for name in ("factorization by both with ridge", "sigmoid net", "quadratic assignment"):
        operator, matrix = blocks_of(name)
        damped = matrix + 200 * np.eye(len(matrix))
        b = np.ones(len(matrix))
        assert isinstance(operator.solver(200.0), Iterative)
        close(operator.solve(b, 200.0), linalg.solve(damped, b))
        with pytest.raises(ed.EindiffError, match="too large"):
            operator.logdet(200.0)


def test_explain():
    text = blocks_of("factorization")[0].explain()
    assert text.splitlines()[0] == "Hessian 18×18 = I₆ ⊗ core(3×3), 72 B instead of 2.6 kB"
    assert text.splitlines()[2].startswith("→ identity ⊗ core: Cholesky")
    assert "conjugate gradients" in text
    assert "Woodbury" in blocks_of("wide ridge regression")[0].explain()
    assert "Schur complement of 3 rows" in blocks_of("mixed effects")[0].explain()


def test_names_and_shapes():
    x, A = ed.vector("x", "n"), ed.matrix("A", "m", "n")
    arrays = {"x": np.arange(1.0, 4.0), "A": np.ones((2, 3))}
    gradient = ed.structured(ed.gradient(ed.sum(x**3), x), arrays)
    assert (gradient.name, gradient.rows, gradient.cols) == ("Gradient", (), (3,))
    assert gradient.mv(np.ones(3)) == 3 * 14
    jacobian = ed.structured(ed.jacobian(ed.exp(A @ x), x), arrays)
    assert (jacobian.name, jacobian.rows, jacobian.cols) == ("Jacobian", (2,), (3,))
    close(jacobian.T.mv(np.ones(2)), jacobian.as_matrix().sum(0))
    third = ed.structured(ed.derivative(ed.sum(x**4), x, x, x), arrays)
    assert (third.name, third.rows, third.cols) == ("Derivative of order 3", (3, 3), (3,))
    close(third.mv(np.ones(3)), np.diag(24 * arrays["x"]))
    assert third.operator(1).rows == (3,)
    close(third.operator(1).as_matrix(), third.as_tensor().reshape(3, 9))


def test_core():
    operator, matrix = blocks_of("factorization")
    close(operator.core, matrix[:3, :3])
    assert blocks_of("masked factorization")[0].core.shape == (6, 3, 3)
    close(blocks_of("cubes")[0].core, np.diagonal(blocks_of("cubes")[1]))
    with pytest.raises(ed.EindiffError, match="no single core in this structure: dense"):
        _ = blocks_of("logistic regression")[0].core


def test_blocks():
    operator, matrix = blocks_of("mixed effects")
    (bb, bw), (wb, ww) = operator.blocks
    assert bb.structure == "block diagonal"
    close(np.block([[bb.as_matrix(), bw.as_matrix()], [wb.as_matrix(), ww.as_matrix()]]), matrix)
    assert operator.rows == [bb.rows, ww.rows]


def test_single_precision():
    objective = OBJECTIVES["masked factorization with ridge"]()
    arrays = {name: x.astype(np.float32) for name, x in objective.point(np.random.default_rng(0)).items()}
    operator = ed.structured(ed.hessian(objective.function, objective.wrt[0]), arrays)
    b = np.ones(operator.rows, np.float32)
    assert operator.dtype == operator.solve(b).dtype == operator.as_matrix().dtype == np.float32
    close(operator.mv(operator.solve(b)), b, 1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda H: H.mv(np.ones(5)), r"mv: the shape 5 does not fit; it must be 6×3, or \(18,\)"),
        (lambda H: H.mv(np.ones((18, 2))), "mv: the shape 18×2 does not fit"),
        (lambda H: H.solve(np.ones((3, 6))), r"solve: the shape 3×6 does not fit; .* or \(18, columns\)"),
        (lambda H: H.solve(np.full(18, np.nan)), "right-hand side has entries that are infinite or not a number"),
        (lambda H: H.solve(np.ones(18), damping=np.inf), "damping is a number, which must be finite, not inf"),
        (lambda H: H.solve(np.ones(18) * 1j), "an array of real numbers is needed, not of type complex128"),
        (lambda H: H @ H.operator(0), "the product of derivatives .* does not fit"),
        (lambda H: H + 1, "cannot be added"),
        (lambda H: H * np.ones(3), "is scaled by a number"),
        (lambda H: H.operator(7), "rows must be a number of axes from 0 to 4, not 7"),
        (lambda H: H.operator(1).solve(np.ones(6)), "solving needs as many rows as columns"),
        (lambda H: H.operator(1).trace(), "trace needs as many rows as columns"),
        (lambda H: (H * -1).cholesky(), "no Cholesky factor: the operator is not symmetric and positive definite"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ed.EindiffError, match=message):
        call(blocks_of("factorization")[0])


def test_errors_of_values():
    x = ed.vector("x", "n")
    hessian = ed.hessian(ed.sum(ed.log(x)), x)
    with pytest.raises(ed.EindiffError, match="infinite or not a number"):
        ed.structured(hessian, {"x": np.zeros(2)}).solve(np.ones(2))
    with pytest.raises(ed.SingularError, match=r"diagonal has zeros: add a multiple of the identity with damping="):
        ed.structured(ed.hessian(ed.sum(x**3), x), {"x": np.arange(3.0)}).solve(np.ones(3))
    with pytest.raises(ed.SingularError, match=r"of rank 2 at most.*18"):
        X, w = ed.matrix("X", "m", "n"), ed.vector("w", "n")
        ed.structured(ed.hessian(ed.norm2(X @ w) ** 2, w), {"X": np.ones((2, 18))}).solve(np.ones(18))

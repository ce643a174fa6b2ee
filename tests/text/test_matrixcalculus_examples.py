"""The documented examples of matrixcalculus.org, and the traps of its lexer: values and derivatives against NumPy.

The texts are parsed verbatim and without declarations where the naming convention tells all that is needed: names
that begin with a..g are scalars, h..z vectors, A..Z matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.check import finite_difference
from eindiff.text.read.parse import parse

RNG = np.random.default_rng(7)


def vectors(**sizes: int) -> dict[str, np.ndarray]:
    return {name: RNG.normal(size=size) for name, size in sizes.items()}


def matrices(**sizes: tuple[int, int]) -> dict[str, np.ndarray]:
    return {name: RNG.normal(size=size) for name, size in sizes.items()}


def logistic(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-t))


I = np.eye
SQUARE = matrices(A=(3, 3)) | vectors(x=3)
WIDE = matrices(A=(4, 3)) | vectors(x=3, y=4)
SAME = vectors(x=3, y=3, v=3)
DATA = matrices(X=(4, 3)) | vectors(w=3, y=4)
CHAIN = matrices(A=(2, 3), X=(4, 3), B=(4, 4), C=(3, 2))
INVERTIBLE = {"X": I(3) + 0.3 * RNG.normal(size=(3, 3)), "A": I(3) + 0.3 * RNG.normal(size=(3, 3))}
PRODUCT = matrices(A=(3, 4), B=(2, 3))

Derivatives = Mapping[str, Callable[..., Any]]

# text: the values of its variables, its value, and its derivatives by some of them
EXAMPLES: dict[str, tuple[Mapping[str, Any], Callable[..., Any], Derivatives]] = {
    "0.5*x'*A*x": (
        SQUARE,
        lambda A, x: 0.5 * x @ A @ x,
        {"x": lambda A, x: 0.5 * (A @ x + A.T @ x), "A": lambda A, x: 0.5 * np.outer(x, x)},
    ),
    "A*exp(x)": (
        {k: WIDE[k] for k in "Ax"},
        lambda A, x: A @ np.exp(x),
        {"x": lambda A, x: A * np.exp(x), "A": lambda A, x: np.einsum("ik,l->ikl", I(4), np.exp(x))},
    ),
    "(y.*v)'*x": (
        SAME,
        lambda x, y, v: np.sum(x * y * v),
        {"x": lambda x, y, v: y * v, "y": lambda x, y, v: x * v, "v": lambda x, y, v: x * y},
    ),
    "a^b": (
        {"a": 1.7, "b": -0.6},
        lambda a, b: a**b,
        {"a": lambda a, b: b * a ** (b - 1), "b": lambda a, b: a**b * np.log(a)},
    ),
    "norm1(A*x-y)": (
        WIDE,
        lambda A, x, y: np.abs(A @ x - y).sum(),
        {
            "x": lambda A, x, y: A.T @ np.sign(A @ x - y),
            "y": lambda A, x, y: -np.sign(A @ x - y),
            "A": lambda A, x, y: np.outer(np.sign(A @ x - y), x),
        },
    ),
    "norm2(A*x-y)^2": (
        WIDE,
        lambda A, x, y: np.sum((A @ x - y) ** 2),
        {
            "x": lambda A, x, y: 2 * A.T @ (A @ x - y),
            "y": lambda A, x, y: -2 * (A @ x - y),
            "A": lambda A, x, y: 2 * np.outer(A @ x - y, x),
        },
    ),
    "sum(log(exp(-y.*(X*w)) + vector(1)))": (
        DATA,
        lambda X, w, y: np.log(np.exp(-y * (X @ w)) + 1).sum(),
        {
            "w": lambda X, w, y: -X.T @ (y * logistic(-y * (X @ w))),
            "y": lambda X, w, y: -(X @ w) * logistic(-y * (X @ w)),
            "X": lambda X, w, y: -np.outer(y * logistic(-y * (X @ w)), w),
        },
    ),
    "tr(A*X'*B*X*C)": (
        CHAIN,
        lambda A, X, B, C: np.trace(A @ X.T @ B @ X @ C),
        {
            "X": lambda A, X, B, C: B.T @ X @ A.T @ C.T + B @ X @ C @ A,
            "A": lambda A, X, B, C: (X.T @ B @ X @ C).T,
            "B": lambda A, X, B, C: (X @ C @ A @ X.T).T,
            "C": lambda A, X, B, C: (A @ X.T @ B @ X).T,
        },
    ),
    "log(det(inv(X)))": (
        {"X": INVERTIBLE["X"]},
        lambda X: -np.linalg.slogdet(X)[1],
        {"X": lambda X: -np.linalg.inv(X).T},
    ),
    "sin(x)'*y": (
        {k: SAME[k] for k in "xy"},
        lambda x, y: np.sin(x) @ y,
        {"x": lambda x, y: np.cos(x) * y, "y": lambda x, y: np.sin(x)},
    ),
    # A minus may follow an operator
    "B*-inv(A)": (
        {"A": INVERTIBLE["A"], "B": PRODUCT["B"]},
        lambda A, B: -B @ np.linalg.inv(A),
        {
            "B": lambda A, B: -np.einsum("ik,lj->ijkl", I(2), np.linalg.inv(A)),
            "A": lambda A, B: np.einsum("ik,lj->ijkl", B @ np.linalg.inv(A), np.linalg.inv(A)),
        },
    ),
    # Traps: a point belongs to the operator after it, not to the number before it
    "x.^2.*y": (
        {k: SAME[k] for k in "xy"},
        lambda x, y: x**2 * y,
        {"x": lambda x, y: np.diag(2 * x * y), "y": lambda x, y: np.diag(x**2)},
    ),
    "1/d.^2*K*N": (
        {"d": 1.3} | matrices(K=(2, 3), N=(3, 4)),
        lambda d, K, N: K @ N / d**2,
        {"d": lambda d, K, N: -2 / d**3 * K @ N, "K": lambda d, K, N: np.einsum("ik,lj->ijkl", I(2), N) / d**2},
    ),
    "2.*x": (
        {"x": SAME["x"]},
        lambda x: 2 * x,
        {"x": lambda x: 2 * I(3)},
    ),
    "(matrix(1)-eye)*x": (
        {"x": SAME["x"]},
        lambda x: x.sum() - x,
        {"x": lambda x: np.ones((3, 3)) - I(3)},
    ),
    "tr((matrix(1)-eye)*X)": (
        {"X": INVERTIBLE["X"]},
        lambda X: X.sum() - np.trace(X),
        {"X": lambda X: np.ones((3, 3)) - I(3)},
    ),
    # A quote transposes, it does not begin a string
    "A'*B'": (
        PRODUCT,
        lambda A, B: A.T @ B.T,
        {
            "A": lambda A, B: np.einsum("il,jk->ijkl", I(4), B),
            "B": lambda A, B: np.einsum("jk,li->ijkl", I(2), A),
        },
    ),
    "(A*x)'*y": (
        WIDE,
        lambda A, x, y: (A @ x) @ y,
        {"x": lambda A, x, y: A.T @ y, "y": lambda A, x, y: A @ x, "A": lambda A, x, y: np.outer(y, x)},
    ),
    # Layout: d(v'x)/dx = v, d(Ax)/dx = A, d tr(AX)/dX = A'
    "v'*x": ({k: SAME[k] for k in "vx"}, lambda v, x: v @ x, {"x": lambda v, x: v}),
    "A*x": ({k: WIDE[k] for k in "Ax"}, lambda A, x: A @ x, {"x": lambda A, x: A}),
    "tr(A*X)": (matrices(A=(3, 4), X=(4, 3)), lambda A, X: np.trace(A @ X), {"X": lambda A, X: A.T}),
}

# Texts that must be the same object, however they are spaced or grouped
DECLARED = "A(n,n); B(n,n); K(n,n); N(n,n); x(n); y(n); a; b; c; d"
SAME_OBJECT = [
    ("x.^2.*y", "(x .^ 2) .* y"),
    ("1/d.^2*K*N", "(1/(d^2))*(K*N)"),
    ("2.*x", "2*x"),
    ("2.5.*x", "2.5*x"),
    ("2./x", "2 .* (1./x)"),
    ("A'*B'", "(B*A)'"),
    ("(A*x)'*y", "x'*A'*y"),
    ("B*-inv(A)", "-(B*inv(A))"),
    ("-x.^2", "-(x.^2)"),
    ("2^-1*x", "0.5*x"),
    ("a - -b", "a + b"),
    ("1e-3*x", "0.001*x"),
    ("A*x-y", "A*x - y"),
    ("A''", "A"),
    ("x.*-y", "-(x.*y)"),
    ("a^b^c", "a^(b^c)"),
    ("a/b/c", "a/(b*c)"),
    ("a/b*c", "(a/b)*c"),
    ("(x.^2)'*y", "sum(x.^2.*y)"),
]

CASES = [(text, name) for text, (_, _, derivatives) in EXAMPLES.items() for name in derivatives]


def close(actual: Any, expected: Any, tolerance: float) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("text", EXAMPLES)
def test_value(text):
    arrays, value, _ = EXAMPLES[text]
    close(ed.evaluate(parse(text), arrays), value(**arrays), 1e-13)


@pytest.mark.parametrize(("text", "name"), CASES)
def test_derivative(text, name):
    """Against the formula in NumPy, and against finite differences of the value."""
    arrays, _, derivatives = EXAMPLES[text]
    function = parse(text)
    x = next(v for v in ed.variables(function) if v.name == name)
    found = ed.evaluate(ed.derivative(function, x), arrays)
    close(found, derivatives[name](**arrays), 1e-12)
    close(found, finite_difference(function, x, arrays), 1e-7)


@pytest.mark.parametrize(("first", "second"), SAME_OBJECT)
def test_same_object(first, second):
    assert parse(first, DECLARED) is parse(second, DECLARED)


def test_size_of_eye_and_matrix_from_use():
    """`matrix(1)-eye` alone has no size; where it is used it takes the one that fits."""
    with pytest.raises(ed.EindiffError, match="size"):
        parse("matrix(1)-eye")
    assert parse("(matrix(1)-eye)*x", "x(5)").shape == (5,)
    assert parse("A + matrix(1)-eye", "A(n,n)") is parse("A + ones(n,n) - eye(n)", "A(n,n)")


def test_symmetric_matrix():
    """matrixcalculus.org's type `symmetric matrix` merges A and A'."""
    function = parse("x'*A*x", "A(n,n) symmetric; x(n)")
    assert ed.gradient(function, "x") == parse("2*A*x", "A(n,n) symmetric; x(n)")

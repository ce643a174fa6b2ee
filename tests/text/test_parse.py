"""The text language: by identity with expressions built in Python, by value, and by what its errors say."""

from __future__ import annotations

import gc
import pickle
import time
from fractions import Fraction

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct, nodes
from eindiff.core.index_relations import IndexMap, Lower
from eindiff.functions import elementwise
from eindiff.text.read.declarations import parse_declarations
from eindiff.text.read.parse import parse
from eindiff.text.read.source import ParseError
from eindiff.text.read.table import TABLE
from pace import at_pace

DECLARED = (
    "A(m,n); B(n,p); C(m,n); M(n,n); S(n,n) symmetric; x(n); y(n); z(m); a; b; T(m,n,p); X(m,n); "
    "u(4); W(4,6); K(2,3); L(3,2)"
)
A, B, C, M = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "p"), ed.matrix("C", "m", "n"), ed.matrix("M", "n", "n")
S = ed.symmetric("S", "n")
x, y, z = ed.vector("x", "n"), ed.vector("y", "n"), ed.vector("z", "m")
a, b = ed.scalar("a"), ed.scalar("b")
T, X = ed.tensor("T", ("m", "n", "p")), ed.matrix("X", "m", "n")
u, W, K, L = ed.vector("u", 4), ed.matrix("W", 4, 6), ed.matrix("K", 2, 3), ed.matrix("L", 3, 2)

SAME = {
    # matrixcalculus.org's operators
    "x'*M*x": x @ M @ x,
    "0.5*x'*S*x": Fraction(1, 2) * (x @ S @ x),
    "A*x": A @ x,
    "z'*A": z @ A,
    "x*z'": ed.outer(x, z),
    "x'*y": x @ y,
    "A*B": A @ B,
    "B'*A'": B.T @ A.T,
    "(A*x)'*z": (A @ x) @ z,
    "x'": x,
    "x''": x,
    "A'": A.T,
    "a*x*b": a * b * x,
    "x/a": x / a,
    "2*x": 2 * x,
    "x.*y": x * y,
    "x./y": x / y,
    "x.^2.*y": x**2 * y,
    "2.*x": 2 * x,
    "2.^x": ed.power(2, x),
    "1./x": 1 / x,
    "1/a.^2*A*B": A @ B / a**2,
    "a^b": a**b,
    "a^-2": a**-2,
    "-a^2": -(a**2),
    "a^b^2": a ** (b**2),
    "x.^a": x**a,
    "M^3": ed.matrix_power(M, 3),
    "M^-1": ed.inv(M),
    "M^0": ed.eye("n"),
    "A*-inv(M)": -(A @ ed.inv(M)),
    "x - -y": x + y,
    "+x": x,
    "x + 1": x + 1,
    "M - eye": M - ed.eye("n"),
    "M + matrix(1) - eye": M + 1 - ed.eye("n"),
    "x + vector(a)": x + a,
    "norm2(A*x - z)^2": ed.norm2(A @ x - z) ** 2,
    "norm1(A*x-z)": ed.norm1(A @ x - z),
    "sum(log(exp(-z.*(A*x)) + vector(1)))": ed.sum(ed.log(ed.exp(-z * (A @ x)) + 1)),
    "log(det(inv(M)))": ed.log(ed.det(ed.inv(M))),
    "diag(x)": ed.diag(x),
    "diag(M)": ed.diag(M),
    "diag(x')": ed.diag(x),
    "tr(A*C')": ed.tr(A @ C.T),
    "adj(M)": ed.adj(M),
    "logdet(S)": ed.logdet(S),
    # other signs
    "x ⊙ y": x * y,
    "x ⊘ y": x / y,
    "K ⊗ L": ed.kron(K, L),
    "Aᵀ*z": A.T @ z,
    "x − y": x - y,
    "a·x": a * x,
    "A’*z": A.T @ z,
    "x.'*y": x @ y,
    # einsum
    'einsum("ij,jk->ik", A, B)': A @ B,
    "einsum('ij,jk->ik', A, B)": A @ B,
    'einsum("i->ii", x)': ed.diag(x),
    'einsum("i->ij", x, j=m)': ed.einsum("i->ij", x, sizes={"j": "m"}),
    'einsum("->ij", i=2*n, j=3)': ed.ones("2*n", 3),
    'einsum("jk->ijik", A, i=p)': ed.einsum("jk->ijik", A, sizes={"i": "p"}),
    'einsum("ij,kj", A, C)': A @ C.T,
    'einsum("...ij->...ji", T)': ed.einsum("...ij->...ji", T),
    "A *_(ij,jk,ik) B": A @ B,
    "A *_{ij,ij,} C": ed.sum(A * C),
    "x *_(i,j,ij) z": ed.outer(x, z),
    "x *_(i,i,ii) y": ed.diag(x * y),
    # axes, shapes, indices
    "sum(A)": ed.sum(A),
    "sum(A, 1)": ed.sum(A, 1),
    "sum(A, -1)": ed.sum(A, 1),
    "sum(A, axis=0)": ed.sum(A, 0),
    "sum(T, 0, 2)": ed.sum(T, (0, 2)),
    "sum(T, [0, 2])": ed.sum(T, (0, 2)),
    "norm2(X, 1)": ed.norm2(X, 1),
    "max(X, axis=1)": ed.max(X, 1),
    "min(x)": ed.min(x),
    "mean(X, 0)": ed.mean(X, 0),
    "prod(x)": ed.prod(x),
    "logsumexp(X, 1)": ed.logsumexp(X, 1),
    "softmax(X, 0)": ed.softmax(X, 0),
    "softmax(x)": ed.softmax(x),
    "cumsum(x)": ed.cumsum(x),
    "kron(K, L)": ed.kron(K, L),
    "vec(A)": ed.vec(A),
    "reshape(W, 3, 8)": ed.reshape(W, (3, 8)),
    "reshape(W, 3, -1)": ed.reshape(W, (3, -1)),
    "reshape(A, m*n)": ed.reshape(A, ("m*n",)),
    "transpose(T, 2, 0, 1)": ed.transpose(T, (2, 0, 1)),
    "transpose(T)": ed.transpose(T),
    "outer(x, z)": ed.outer(x, z),
    "inner(A, C)": ed.inner(A, C),
    "x[1:3]": x[1:3],
    "x[1:]": x[1:],
    "x[-1]": x[-1],
    "x[::-1]": x[::-1],
    "u[::2]": u[::2],
    "u[[0, 2]]": u[[0, 2]],
    "A[0,:]": A[0, :],
    "A[0]": A[0],
    "T[:, 1, ::-1]": T[:, 1, ::-1],
    "T[..., 0]": T[..., 0],
    "x[:, None]": x[:, None],
    "A[0,:]'*x": A[0] @ x,
    "(A*x)[2]": (A @ x)[2],
    "concatenate(x, z)": ed.concatenate([x, z]),
    "concatenate(A, C, axis=1)": ed.concatenate([A, C], 1),
    "stack(x, y)": ed.stack([x, y]),
    "stack(a, b)": ed.stack([a, b]),
    "stack(x, y, axis=1)": ed.stack([x, y], 1),
    # functions
    "where(x > 0, x, 0)": ed.where(x > 0, x, 0),
    "where(x >= y, x, y)": ed.where(x >= y, x, y),
    "(x < y)": x < y,
    "x ≤ y": x <= y,
    "maximum(x, 0)": ed.maximum(x, 0),
    "minimum(x, y)": ed.minimum(x, y),
    "solve(M, x)": ed.solve(M, x),
    "chol(S)": ed.chol(S),
    "expm(M)": ed.expm(M),
    "normnuc(A)": ed.normnuc(A),
    "svdvals(W)": ed.svdvals(W),
    "pinv(A)": ed.pinv(A),
    "lambdamax(S)": ed.lambdamax(S),
    "sqrt(x)": ed.sqrt(x),
    "matrix_power(M, 2)": M @ M,
    # constants
    "ones(n)": ed.ones("n"),
    "ones(m, 3)": ed.ones("m", 3),
    "zeros(n - 1)": ed.zeros("n - 1"),
    "eye(n)": ed.eye("n"),
    "size(x)": construct.size_number("n"),
    "size(A)": construct.size_number("m*n"),
    "size(A, 0)": construct.size_number("m"),
    "tril(ones(n, n))": construct.constant(Lower("n")),
    "triu(ones(n, n))": construct.constant(Lower("n")).T,
    "eye(m*n)[:, n*arange(m) + arange(n)]": construct.constant(IndexMap("m*n", ("m", "n"), 0, ("n", 1))),
    "eye(n)[:, n - 1 - arange(n)]": construct.constant(IndexMap("n", ("n",), "n - 1", (-1,))),
    "x[arange(n - 2) + arange(3)]": ed.einsum(
        "k,kij->ij", x, construct.constant(IndexMap("n", ("n - 2", 3), 0, (1, 1)))
    ),
    "eye(n)[:, [2, 0]]": construct.constant(IndexMap("n", (2,), indices=(2, 0))),
    "ones(min(m,n))": ed.ones("min(m,n)"),
    "[1, 2.5, 3]": construct.constant([1, 2.5, 3]),
    "[[1, -2], [1/2, 1e-3]]": construct.constant([[1, -2], [0.5, 1e-3]]),
    "[1, 1]": ed.ones(2),
    ".5*x": Fraction(1, 2) * x,
    "1e-3*x": 1e-3 * x,
    "1/3*x": Fraction(1, 3) * x,
    "-2/3*x": Fraction(-2, 3) * x,
    "x/3": Fraction(1, 3) * x,
    "2^-1*x": Fraction(1, 2) * x,
    "x.^(-1/2)": x ** Fraction(-1, 2),
    "(1/2 + 1/3)*x": Fraction(5, 6) * x,
    "pi": construct.filled(np.pi, ()),
    # names and lines
    "t = A*x; t'*z": (A @ x) @ z,
    "t0 = A*x\nt1 = exp(t0)\n\nA'*t1": A.T @ ed.exp(A @ x),
    "t = x'; t*M*t'": x @ M @ x,
    "x # a comment\n + y": x + y,
    "sum(\n  x,\n  0\n)": ed.sum(x),
    "t = x +\n y; t": x + y,
}


@pytest.mark.parametrize("text", SAME)
def test_text_is_what_python_builds(text):
    assert parse(text, DECLARED) == SAME[text]


EXAMPLES = [
    "0.5*x'*A*x", "sum(A*exp(x))", "(y.*v)'*x", "a^b", "norm1(A*x-y)", "norm2(A*x-y)^2",
    "sum(log(exp(-y.*(X*w)) + vector(1)))", "tr(A*X'*B*X*C)", "log(det(inv(X)))", "sin(x)'*y", "sum(x.^2.*y)",
    "sum(1/d.^2*K*N)", "sum(2.*x)", "norm2(matrix(1)-eye + A)", "sum(A'*B')", "(A*x)'*y", "sum(B*-inv(A))",
    "sum(T[:,0,:]*x) + norm2(x[1:3])", "sum(where(x > 0, x.^2, -x))", "logsumexp(A*x)", "tr(A^3)",
]  # fmt: skip


@pytest.mark.parametrize("text", EXAMPLES)
def test_derivatives_of_undeclared_examples(text):
    expr = parse(text, {"T": (2, 3, 4)} if "T" in text else None)
    assert ed.check(expr, order=1, tolerance=1e-5).passed


def shapes(text, declarations=None):
    return {v.name: v.shape for v in ed.variables(parse(text, declarations))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A*x", {"A": ("m", "n"), "x": ("n",)}),
        ("x'*A*x", {"A": ("n", "n"), "x": ("n",)}),
        ("a*b", {"a": (), "b": ()}),
        ("tr(A*X'*B*X*C)", {"A": ("m", "n"), "B": ("p", "p"), "C": ("n", "m"), "X": ("p", "n")}),
        ("inv(Sigma)*mu", {"Sigma": ("n", "n"), "mu": ("n",)}),
        ("A*ones(k)", {"A": ("n", "k")}),
        ("x[1:3] + y", {"x": ("n",), "y": (2,)}),
        ("[1, 2, 3]'*x", {"x": (3,)}),
        ("ones(2, 3) + A", {"A": (2, 3)}),
        ("α*x", {"x": ("n",), "α": ()}),
    ],
)
def test_sizes_are_found_from_use(text, expected):
    assert shapes(text) == expected


def test_size_names_avoid_names_in_use():
    assert shapes("A*n") == {"A": ("m", "p"), "n": ("p",)}
    assert shapes("A*x + B*y", "A(m,n)") == {"A": ("m", "n"), "B": ("m", "p"), "x": ("n",), "y": ("p",)}
    assert shapes("A*x", {"A": "matrix", "x": ("n",)}) == {"A": ("m", "n"), "x": ("n",)}


def test_declarations_in_text():
    found = parse_declarations(
        "A(m,n); x(3)\nS(n,n) symmetric psd, c; D(n,n) diagonal; v vector; T[2,3,4]; w(n) positive;"
    )
    assert found["A"] is A
    assert found["x"] is ed.vector("x", 3)
    assert found["S"] is ed.symmetric("S", "n", "psd")
    assert found["c"] is ed.scalar("c")
    assert found["D"] is ed.diag(ed.vector("D", "n"))
    assert found["v"] == "vector"
    assert found["T"] is ed.tensor("T", (2, 3, 4))
    assert found["w"] is ed.vector("w", "n", "positive")
    assert parse("D*v", found) is ed.vector("D", "n") * ed.vector("v", "n")
    assert parse_declarations("") == {}


def test_declarations_in_python():
    declared = {"A": ("m", "n"), "q": "scalar", "s": A @ x, "S": "symmetric", "k": "(n) positive", "l": 5}
    assert parse("q*A*x", declared) is parse("q*A*x", "A(m,n); q")
    assert parse("s'*s", declared) is (A @ x) @ (A @ x)
    assert parse("S' - S", {"S": "symmetric"}) == ed.zeros("n", "n")
    assert parse("k", declared) is ed.vector("k", "n", "positive")
    assert parse("l", declared) is ed.vector("l", 5)


def test_every_public_function_is_in_the_language():
    modules = {f"eindiff.{name}" for name in ("arrays", "functions", "matrix_functions", "indexing")}
    functions = {name for name in ed.__all__ if getattr(getattr(ed, name), "__module__", "") in modules}
    otherwise = {"scalar", "symmetric", "tensor", "matmul", "moveaxis", "take"}  # declarations, *, transpose, x[[0, 2]]
    assert functions - otherwise - set(TABLE) == set()


def test_functions_that_derivatives_bring():
    direction = ed.matrix("E", "n", "n")
    from eindiff.functions.frechet import frechet_function
    from eindiff.functions.reductions import prod_function

    made = parse("expm(M, E)", DECLARED + "; E(n,n)")
    assert made is construct.apply(frechet_function("expm", 1), (M, direction))
    stacked = ed.tensor("F", ("p", "n", "n"))
    made = parse("expm(M, F)", DECLARED + "; F(p,n,n)")
    assert made is construct.apply(frechet_function("expm", 1), (M, stacked), [(), (0,)])
    assert parse("prod_except(x, 2)", DECLARED) is construct.apply(prod_function(2), (x,))
    assert parse("at_max(x)", DECLARED) == ed.gradient(ed.max(x), x)
    assert parse("stop_gradient(x)", DECLARED) is construct.map_(elementwise.stopped, (x,))


@pytest.mark.parametrize(
    "name", ["winner", "at_least", "argmax", "simple", "gaps", "indexmap", "onehot", "lower", "inverse_or_zero"]
)
def test_there_are_no_functions_that_nobody_knows(name):
    with pytest.raises(ParseError, match=f"unknown function {name}"):
        parse(f"{name}(x, x)", DECLARED)


def test_values():
    value = ed.evaluate(parse("[[1,2],[3,4]]*[5,6] + 1"))
    assert value.tolist() == [18, 40]
    assert float(ed.evaluate(parse("2^3^2/4 - -1"))) == 129
    assert float(ed.evaluate(parse("sum([1,2,3] > 1.5)"))) == 2
    assert ed.evaluate(parse("[1,2]*[3,4]'")).tolist() == [[3, 4], [6, 8]]
    assert ed.evaluate(parse("ones(2,1)*[1,2,3]'")).tolist() == [[1, 2, 3], [1, 2, 3]]


ERRORS = {
    ("A*x", "A(m,n); x(m)"): "`A*x`: A is m×n, x has length m; n and m must be equal (line 1, column 1)\n  A*x\n  ^~~",
    ("A*x + B*x", "A(m,n); B(m,k)"): (
        "`B*x`: B is m×k, x has length n (from `A*x`); k and n must be equal (line 1, column 7)\n"
        "  A*x + B*x\n        ^~~"
    ),
    ("1 +\n x + y", "x(n); y(m)"): (
        "`1 + x + y`: x has length n, y has length m; the shapes must be equal (line 1, column 1)\n  1 +\n  ^~~"
    ),
    ("x*y", None): (
        "`x*y`: x is a vector by its name, y is a vector by its name; write x'*y (inner), x*y' (outer) or "
        "x.*y (by entry); or declare x and y as scalars (line 1, column 1)\n  x*y\n  ^~~"
    ),
    ("A*x'", "A(m,n); x(n)"): (
        "`A*x'`: A is m×n, x' is a row of length n; vectors are columns, so A*x needs no transpose "
        "(line 1, column 1)\n  A*x'\n  ^~~~"
    ),
    ("x.*A", "A(m,n); x(m)"): (
        "`x.*A`: x has length m, A is m×n; the shapes must be equal; diag(x)*A scales the rows "
        "(line 1, column 1)\n  x.*A\n  ^~~~"
    ),
    ("1/x", "x(n)"): (
        "`1/x`: 1 is a scalar, x has length n; / divides by a scalar; write 1./x to divide entry by entry "
        "(line 1, column 1)\n  1/x\n  ^~~"
    ),
    ("A^0.5", "A(n,n)"): (
        "a matrix has powers with whole numbers only; .^ is entry by entry, sqrtm a function "
        "(line 1, column 1)\n  A^0.5\n  ^~~~~"
    ),
    ("A^2'", None): (
        "this transposes the exponent; write (A^2)' for the transposed power (line 1, column 3)\n  A^2'\n    ^~"
    ),
    ("a + sni(x)", None): "unknown function sni; did you mean sin? (line 1, column 5)\n  a + sni(x)\n      ^~~",
    ("(a+b", None): "this ( is never closed (line 1, column 1)\n  (a+b\n  ^",
    ("a+b)", None): "this ) closes nothing: no ( is open (line 1, column 4)\n  a+b)\n     ^",
    ("(a]", None): "this ] meets the ( of line 1, column 1 (line 1, column 3)\n  (a]\n    ^",
    ("a +", None): "the text ends too early: expected a name, a number or ( (line 1, column 4)\n  a +\n     ^",
    ("", None): "there is nothing to read: expected a name, a number or ( (line 1, column 1)\n  \n  ^",
    ("a $ b", None): "the character '$' (U+0024) is not part of the language (line 1, column 3)\n  a $ b\n    ^",
    ("a\x00", None): "the character U+0000 is not part of the language (line 1, column 2)\n  a\ufffd\n   ^",
    ("sum(eye)", None): (
        "the size of `eye` does not follow from its use; write eye(n) with its size (line 1, column 5)\n"
        "  sum(eye)\n      ^~~"
    ),
    ("inv(A)", "A(m,n)"): "`inv(A)`: A is m×n, and needs to be square (line 1, column 1)\n  inv(A)\n  ^~~~~~",
    ("sin(a, b)", None): "sin takes 1 argument, not 2: sin(x) (line 1, column 1)\n  sin(a, b)\n  ^~~~~~~~~",
    ("log(-1)", None): "log(-1) is not defined: its domain is positive (line 1, column 1)\n  log(-1)\n  ^~~~~~~",
    ("a/0", None): "division by zero (line 1, column 1)\n  a/0\n  ^~~",
    ("x[5]", "x(3)"): (
        "`x[5]`: the index 5 is out of range, the axis has size 3 (line 1, column 3)\n  x[5]\n    ^"
    ),
    ('einsum("ij,j->i", A, x)', "A(m,n); x(m)"): (
        "einsum 'ij,j->i': A is m×n, x has length m; the sizes of label 'j' must be equal (line 1, column 1)\n"
        '  einsum("ij,j->i", A, x)\n  ^~~~~~~~~~~~~~~~~~~~~~~'
    ),
    ("t = x; t = y; t", None): (
        "t already has a meaning; bind another name (line 1, column 8)\n  t = x; t = y; t\n         ^"
    ),
    ("x; y", None): (
        "only the last statement has no name: bind the ones before it, like t = X*w; exp(t) (line 1, column 4)\n"
        "  x; y\n     ^"
    ),
    ("kron(A, B)*x", None): (
        "x would need the size n*q; a variable's size is one name or number: declare the sizes as numbers "
        "(line 1, column 12)\n  kron(A, B)*x\n             ^"
    ),
    ("x", "x(n) symetric"): (
        "unknown property symetric; did you mean symmetric? (line 1, column 6)\n  x(n) symetric\n       ^~~~~~~~"
    ),
    ("x", "x(n) triangular"): (
        "triangular is lower or upper: lower triangular (line 1, column 6)\n  x(n) triangular\n       ^~~~~~~~~~"
    ),
    ("x", "x(n) SPD"): "x cannot be SPD: it is n (line 1, column 1)\n  x(n) SPD\n  ^~~~~~~~",
    ("x", "x(n); x(m)"): "x is declared twice (line 1, column 7)\n  x(n); x(m)\n        ^",
}  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "others"),
    {
        "S(n,n) psd": "S(n,n) SPD",
        "S(n, n) psd; x(n)": "S(n,n) positive definite, x(n)",
        "S(n,n) psd symmetric": "S(n,n) Symmetric, PosDef",
        "S(n,n) psd;": "S(n,n) positive semi definite",
        "S(n,n) positive diagonal": "S(n,n) SPD, Diagonal",
        "S(n,n) diagonal": "S(n,n) Diagonal, SPSD",
        "S(n,n) lower": "S(n,n) LowerTriangular",
        "S(n,n) lower unit": "S(n,n) unit lower_triangular",
        "S(n,n) unit upper": "S(n,n) UnitUpperTriangular",
        "S matrix; x vector positive": "S Matrix; x Vector Positive",
    }.items(),
)
def test_properties_have_the_words_of_others_too(ours, others):
    assert parse("S*x", others) is parse("S*x", ours)


def test_names_that_are_words_of_properties_stay_names():
    declarations = "x(n), lower, upper; diagonal(n), S(n,n)"
    found = parse("sum((x - lower) .* (upper - x)) + diagonal'*S*diagonal", declarations)
    assert {(v.name, v.shape) for v in nodes.variables(found)} == {
        ("x", ("n",)), ("lower", ()), ("upper", ()), ("diagonal", ("n",)), ("S", ("n", "n"))
    }  # fmt: skip


@pytest.mark.parametrize(("text", "declarations"), ERRORS)
def test_errors_point_at_the_place(text, declarations):
    with pytest.raises(ParseError) as caught:
        parse(text, declarations)
    assert str(caught.value) == ERRORS[text, declarations]


def test_errors_have_a_place():
    with pytest.raises(ed.EindiffError) as caught:
        parse("a +\n  b $c")
    error = caught.value
    assert (error.line, error.column, error.text) == (2, 5, "  b $c")
    assert pickle.loads(pickle.dumps(error)).column == 5
    with pytest.raises(ed.EindiffError, match="parse takes text"):
        parse(5)
    with pytest.raises(ed.EindiffError, match="declarations are text or a dictionary"):
        parse("x", 5)


@pytest.mark.parametrize("text", ["a + + exq(x)", "+ + exq(x)", "2^+exq(x)", "-+exq(x)"])
def test_a_sign_is_not_where_the_error_is(text):
    with pytest.raises(ParseError, match="unknown function exq") as caught:
        parse(text)
    assert caught.value.column == 1 + text.index("exq")


def test_a_long_line_is_cut_around_the_place():
    with pytest.raises(ParseError) as caught:
        parse("+".join(["a"] * 500) + "+ $ +" + "+".join(["b"] * 500))
    _, line, caret = str(caught.value).split("\n")
    assert len(line) < 110
    assert line[caret.index("^")] == "$"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "x" + ")" * 10_000, "(" * 50_000, "sin(" * 10_000 + "x" + ")" * 10_000, "-" * 99_999 + "x",
        "A" + "'" * 99_999, "+".join(["x"] * 50_000), "*".join(f"a{k}" for k in range(14_000)),
        "*".join(["A"] * 50_000), "[" * 50_000 + "1" + "]" * 50_000, "x" + "[1:]" * 25_000, "⊗".join(["x"] * 50_000),
        "(a+" * 25_000 + "a" + ")" * 25_000, "ones(" + "*".join(["(a+b+c)"] * 12_000) + ")", "9" * 100_000,
        '"' * 100_000, "".join(f"(a{k}+" for k in range(9_000)) + "b" + ")" * 9_000, "x.^" * 33_000 + "2",
        "\n" * 99_999 + "x",
        "x;" * 50_000, " " * 99_999 + "x", "a " * 50_000, "\n;" * 49_999 + "t", "t=\n" * 30_000 + "x",
    ],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_long_and_deep_texts_get_an_answer_or_an_error_in_time(text):
    gc.freeze()  # what other tests left behind is not gone through again and again
    begin = time.process_time()
    try:
        parse(text)
    except ed.EindiffError as error:
        assert "line" in str(error)
    spent = time.process_time() - begin
    gc.unfreeze()
    assert spent < at_pace(5)


def test_lark_is_imported_on_first_use():
    import subprocess
    import sys

    code = "import sys, eindiff.text; assert 'lark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

"""Expressions as text: what is printed reads back as the same expression, in every notation.

An expression that is put together by hand reads back as the same object. A derivative keeps contractions apart that it
shares, and reading them merges some; it is compared with itself put together again, and where that is not the same
object (a diagonal was taken inside a function, say) by value.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eindiff as ed
import models
from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import SizeOf
from eindiff.core.nodes import Constant, Expr, Variable, topological, variables
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import names as size_names
from eindiff.text.read.parse import parse
from eindiff.text.write.latex import name_latex
from eindiff.text.write.to_text import NOTATIONS, STYLES, repr_latex, to_text

SIZES = {"n": 3, "m": 2, "k": 2}

A, B, C = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "n"), ed.matrix("C", "n", "n")
S, T, U, V = ed.symmetric("S", "n"), ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
Q = ed.tensor("Q", ("n", "m", "n"))
w, x, y, z = ed.vector("w", "n"), ed.vector("x", "n"), ed.vector("y", "m"), ed.vector("z", "n")
p, q = ed.vector("p", 4, "positive"), ed.vector("q", 6)
c, d = ed.scalar("c"), ed.scalar("d")


def read(text: str, notation: str, *exprs: Expr) -> Expr:
    """The expression that a text stands for."""
    known: dict[str, Expr] = {variable.name: variable for variable in variables(*exprs)}
    for node in topological(exprs):  # a size that no variable is left to have is known from another one
        if isinstance(node, Constant) and isinstance(node.value, SizeOf):
            known |= {f"with_{size}": ed.vector(f"with_{size}", size) for size in size_names(node.value.size)}
    return parse(text, known, "index" if notation == "index" else "matrix")


def named(*variables: Expr) -> dict[str, Expr]:
    return {variable.name: variable for variable in variables}


def together(expr: Expr) -> Expr:
    """An expression put together again, with the contractions that its derivation kept apart merged."""
    for _ in range(5):
        [again] = rebuild([expr], lambda node, children: with_children(node, children, True))
        if again is expr:
            return expr
        expr = again
    return expr


def value(expr: Expr) -> np.ndarray:
    rng = np.random.default_rng(0)
    arrays = {}
    for variable in variables(expr):
        array = rng.normal(size=[SIZES.get(size, size) for size in variable.shape])
        array = array + array.T if variable.symmetries else array
        arrays[variable.name] = np.abs(array) + 0.1 if "positive" in variable.properties else array
    return ed.evaluate(expr, arrays, SIZES)


def reads_back(expr: Expr, notation: str, exactly: bool = False, of: Expr | None = None) -> None:
    """Printing and reading give the same expression, or at least (unless `exactly`) one of the same value."""
    text = to_text(expr, notation)
    again = read(text, notation, *([expr] if of is None else [expr, of]))  # sizes are those of the variables of both
    expected = together(expr)
    if again is expected or together(again) is expected:
        return
    assert not exactly, f"{text}\nreads back as\n{to_text(again, notation)}"
    assert again.shape == expr.shape, text
    try:
        wanted = value(expr)
    except EindiffError:  # outside a domain at the point chosen
        return
    np.testing.assert_allclose(value(again), wanted, rtol=1e-8, atol=1e-10, err_msg=text)


CASES: dict[str, Expr] = {
    "variable": x,
    "number": ed.sum(x) * 0 + Fraction(-1, 2),
    "zeros": ed.zeros("n", "m"),
    "ones": 3 * ed.ones("n", "m", 2),
    "identity": ed.eye("n") - 2 * B,
    "unit tensor": ed.einsum("->ijij", sizes={"i": "n", "j": "m"}),
    "sum": A @ x - y,
    "negative sum": -x - z,
    "fraction in front": Fraction(1, 2) * (B + B.T),
    "float": 0.1 * x + 1e-7,
    "quadratic form": x @ B @ z,
    "quadratic form of a symmetric matrix": x @ S @ x,
    "norm": ed.norm2(A @ x - y),
    "squared norm": ed.norm2(A @ x - y) ** 2,
    "rows": ed.norm2(B, 1) + ed.norm1(B, 0),
    "trace": ed.tr(B @ C.T @ B),
    "trace with a diagonal": ed.tr(B @ ed.diag(x) @ C),
    "inner product of matrices": ed.sum(B * C),
    "diagonal": ed.diag(B) + ed.diag(B @ C),
    "outer product": ed.outer(x, B @ z),
    "chain": A @ B @ C @ x,
    "scaled rows": x[:, None] * B * z,
    "products by entry": B * C.T * (B @ C),
    "quotients": x / (1 + z * z) + 1 / p[:3].sum() * x / ed.norm2(z),
    "powers": x**3 + x**-2 + ed.exp(x) ** Fraction(3, 2) + ed.power(ed.exp(x), z) + ed.power(c * c + 1, x),
    "power of a square": (x * x + 1) ** 0.3,
    "sums over axes": ed.sum(B, 0) + ed.sum(B, 1) + ed.sum(Q, (1, 2)) + ed.mean(x),
    "elementwise functions": ed.sigmoid(ed.tanh(x)) + ed.relu(x) + ed.erf(x) + ed.softplus(z) + ed.sqrt(ed.exp(x)),
    "choices": ed.maximum(x, 0) + ed.where(x > z, x, 1) + ed.minimum(x, z) + (x >= 0),
    "softmax": ed.softmax(x) + ed.softmax(B, 0) @ x + ed.softmax(B, 1) @ x,
    "along an axis": ed.logsumexp(B, 0) + ed.max(B, 1) + ed.min(B, 0) + ed.prod(B, 1) + ed.logsumexp(B),
    "matrix functions": ed.inv(B) @ x + ed.det(B) * ed.logdet(S) * x + ed.expm(B) @ ed.pinv(A) @ y,
    "factorizations": ed.chol(B @ B.T) @ ed.eigvals(S) + ed.eigvecs(S) @ x + ed.svdright(A) @ ed.svdvals(A),
    "tensor": ed.einsum("imj,j,i->m", Q, x, z) + y,
    "transposed tensor": ed.transpose(Q, (2, 0, 1)) + 1,
    "diagonal of a tensor": ed.einsum("imi->im", Q) + ed.outer(x, y),
    "broadcast": B + x + z[:, None] + c,
    "slices": x[1:3] + p[::2] + q[4:1:-2] + B[1, 0:2] + p[[0, 2]] + B.T[0:2, -1],
    "reshape": ed.reshape(A, ("n", "m")) + ed.reshape(A.T, ("n", "m")),
    "kron": ed.kron(B, C) + 0,
    "concatenate": ed.concatenate([x, y]),
    "cumsum": ed.cumsum(x) + ed.cumsum(B, 0) @ x,
    "constants": np.array([[1.0, 2.5, -3.0, 0.1], [2.0, 1.0, 0.0, 1.5]]) @ p,
    "symmetric constant": p @ np.diag([1.0, 2.0, 3.0, 4.0]) @ p,
    "scalars": 2 * c * d * B @ x / (c + 1) - (x @ z) * x / d**2,
    "t0 is taken": ed.vector("t0", "n") * ed.cos(x @ B @ x + ed.sin(x @ z)) + ed.exp(x @ B @ x + ed.sin(x @ z)),
}


def derivatives(expr: Expr) -> list[Expr]:
    """First and second derivatives by the first and the last variable."""
    found = variables(expr)
    scalar = expr if expr.ndim == 0 else ed.sum(ed.tanh(expr))
    first = ed.derivative(scalar, found[0])
    return [first, ed.derivative(first, found[-1])] + ([ed.derivative(expr, found[0])] if expr.ndim else [])


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("case", CASES)
def test_reads_back(case: str, notation: str) -> None:
    reads_back(CASES[case], notation, exactly=True)


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("case", [case for case in CASES if variables(CASES[case])])
def test_derivatives_read_back(case: str, notation: str) -> None:
    for result in derivatives(CASES[case]):
        reads_back(result, notation)


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize(
    "model", ["logistic", "multinomial", "poisson", "factorization", "attention", "mixture", "rayleigh"]
)
def test_models_read_back(model: str, notation: str) -> None:
    function, wrt, _ = getattr(models, model)()
    gradient = ed.derivative(function, wrt[0])
    for result in (function, gradient, ed.derivative(gradient, wrt[-1])):
        again = read(to_text(result, notation), notation, result)
        assert together(again) is together(result)


# Every notation in every style


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_case_has_every_style(notation: str, style: str) -> None:
    for expr in CASES.values():
        for result in [expr, *(derivatives(expr) if variables(expr) else [])]:
            text = to_text(result, notation, style)
            assert text and "Tree(" not in text and "ref" not in text.split()
            if style == "latex":
                assert text.count("{") == text.count("}")
                assert text.count(r"\left") == text.count(r"\right")
            if style == "plain":
                assert text.isascii() and text.count("(") == text.count(")")


def test_latex_of_every_function_of_the_table() -> None:
    from eindiff.functions.elementwise import TABLE

    for name, row in TABLE.items():
        if row.core or name in ("pow", "power_derivative"):  # which are written as powers
            continue
        made = construct.map_(row, [ed.vector(f"v{k}", "n") for k in range(max(1, len(row.derivatives)))])
        assert row.latex.replace("{}", "").replace("{{", "{")[:4] in to_text(made, style="latex") or "^" in row.latex


# Random expressions

_FUNCTIONS: list[Callable[[Expr], Expr]] = [
    ed.exp, ed.tanh, ed.sin, ed.sigmoid, ed.abs, ed.relu, ed.softplus, ed.sign, ed.square, lambda a: ed.sqrt(ed.exp(a)),
    lambda a: 1 / (1 + a * a), lambda a: a**3, lambda a: (1 + a * a) ** Fraction(3, 2), lambda a: 2.0**a,
    lambda a: a**-2,
]  # fmt: skip
_PAIRS: list[Callable[[Expr, Expr], Expr]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (1 + b * b), ed.maximum, ed.minimum,
    lambda a, b: ed.where(a > b, a, b), lambda a, b: ed.power(ed.exp(a), b),
]  # fmt: skip
_SQUARE: list[Callable[[Expr], Expr]] = [
    ed.inv, ed.det, ed.logdet, ed.tr, ed.expm, ed.eigvals, lambda a: ed.chol(a @ a.T), ed.adj,
]  # fmt: skip
_REDUCTIONS: list[Callable[[Expr], Expr]] = [
    ed.norm2, ed.norm1, ed.logsumexp, ed.mean, ed.max, ed.prod, ed.sum, lambda a: ed.sum(a, 0), lambda a: a[1],
    lambda a: ed.max(a, 0), lambda a: ed.norm2(a, 0), lambda a: ed.softmax(a, 0), lambda a: ed.cumsum(a, 0),
    lambda a: ed.logsumexp(a, -1), lambda a: a[1:3], lambda a: a[::-1], lambda a: a[-1], lambda a: a[[0, 2, 1]],
    lambda a: a.reshape(-1), ed.softmax,
]  # fmt: skip
_VECTORS: list[Callable[[Expr, Expr], Expr]] = [ed.outer, ed.kron, lambda a, b: ed.concatenate([a, b])]
_FIXED: list[Callable[[Expr], Expr]] = [
    lambda a: ed.einsum("imj,j->im", Q, x), lambda a: ed.einsum("i,imj,m->j", x, Q, y), lambda a: B * x,
    lambda a: ed.eye("n") * c, lambda a: ed.ones("m", "n") * c, lambda a: ed.einsum("i,j,k->ijk", x, x, z),
    lambda a: ed.diag(x), lambda a: ed.einsum("i->iii", x), lambda a: p * np.array([1.0, 2.5, -3.0, 4.0]),
    lambda a: a + 1,
]  # fmt: skip


def _step(rng: random.Random, pool: list[Expr]) -> Expr:
    """One more expression, out of those in the pool."""
    a = rng.choice(pool)
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(_PAIRS)(a, rng.choice([b for b in pool if b.shape == a.shape]))
    if kind < 5:
        flat = [b for b in pool if 0 < b.ndim < 3]
        left, right = rng.choice([(b, e) for b in flat for e in flat if b.shape[-1] == e.shape[0]])
        return left @ right
    if kind == 5:
        return rng.choice(_FUNCTIONS)(a)
    if kind == 6:
        return rng.choice([2, -1, Fraction(1, 2), -0.3, 3, c, x @ z]) * a
    if kind == 7:
        return rng.choice(_SQUARE)(rng.choice([b for b in pool if b.shape == ("n", "n")]) + ed.eye("n"))
    if kind == 8:
        return rng.choice(_VECTORS)(*rng.choices([b for b in pool if b.ndim == 1], k=2))
    if kind == 9:
        return rng.choice(_REDUCTIONS)(rng.choice([b for b in pool if b.ndim]))
    return a.T if kind == 10 else rng.choice(_FIXED)(a)


def random_expression(seed: int) -> Expr:
    """An expression of a few steps, each of which likes to use the one before."""
    rng = random.Random(seed)
    pool: list[Expr] = [A, B, S, Q, w, x, y, z, p, c, d]
    for _ in range(rng.randrange(1, 9)):
        for _ in range(20):
            try:
                made = _step(rng, pool)
            except EindiffError:
                continue
            if made.ndim < 5 and not isinstance(made, Variable):
                pool += [made, made, made]
                break
    return pool[-1]


@given(seed=st.integers(0, 10**6))
@settings(derandomize=True, max_examples=500, deadline=None, database=None)
def test_random_expressions_read_back(seed: int) -> None:
    expr = random_expression(seed)
    for notation in NOTATIONS:
        reads_back(expr, notation, exactly=True)


@given(seed=st.integers(0, 10**6))
@settings(derandomize=True, max_examples=100, deadline=None, database=None)
def test_derivatives_of_random_expressions_read_back(seed: int) -> None:
    expr = random_expression(seed)
    if not variables(expr):
        return
    for result in derivatives(expr)[:2]:
        for notation in NOTATIONS:
            reads_back(result, notation, of=expr)


# Depth and sharing


def nested(depth: int) -> Expr:
    expr: Expr = x
    for _ in range(depth):
        expr = ed.sin(expr)
    return expr


@pytest.mark.parametrize("notation", NOTATIONS)
def test_deep_expressions(notation: str) -> None:
    deep = nested(3_000)
    text = to_text(deep, notation)
    assert len(text) < 30_000
    assert read(text, notation, deep) is deep
    assert to_text(deep, notation, "latex") and to_text(deep, notation, "unicode")
    assert len(to_text(deep, notation, names=False)) < 1000


def doubled(levels: int) -> Expr:
    expr: Expr = x
    for _ in range(levels):
        expr = ed.sin(expr) * ed.cos(expr)
    return expr


@pytest.mark.parametrize("notation", NOTATIONS)
def test_shared_expressions_are_written_once(notation: str) -> None:
    shared = doubled(60)
    text = to_text(shared, notation)
    assert len(text) < 10_000
    assert read(text, notation, shared) is shared
    assert "…" in to_text(shared, notation, names=False)


def test_large_repeated_expressions_get_names() -> None:
    inverse = ed.inv(B @ B.T + c * ed.eye("n"))
    expr = inverse @ x + ed.exp(inverse @ z)
    assert to_text(expr) == "t0 = inv(B*B' + c*eye(n)); exp(t0*z) + t0*x"
    assert to_text(expr, style="unicode") == "t₀ = (B·Bᵀ + c·I)⁻¹\nexp(t₀·z) + t₀·x"
    assert to_text(expr, names=False) == "exp(inv(B*B' + c*eye(n))*z) + inv(B*B' + c*eye(n))*x"
    assert to_text(expr, "index").startswith("t0 = [i,j] inv(")
    assert r"t_{0} &= " in to_text(expr, style="latex")


def test_names_of_variables_are_left_alone() -> None:
    expr = CASES["t0 is taken"]
    assert "t1 = " in to_text(expr) and "t0 = " not in to_text(expr)


# The rest


def test_variables_named_like_signs() -> None:
    total, unit = ed.vector("sum", "n"), ed.matrix("delta", "n", "n")
    expr = ed.sum(total) * unit + ed.eye("n") + ed.inv(unit)
    for notation in NOTATIONS:
        assert read(to_text(expr, notation), notation, expr) is expr


def test_what_is_not_known() -> None:
    with pytest.raises(EindiffError, match="choose one of matrix, index, einsum"):
        to_text(x, "morse")
    with pytest.raises(EindiffError, match="choose one of plain, unicode, latex"):
        to_text(x, style="bold")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[i] x[j]", "j is no label here"),
        ("[i] v[i]", "no variable v"),
        ("[i] x[i] + ", "found the end"),
        ("[i] x[i] x[i]", "did not expect x"),
        ("[i,j] x[i]", "size of j is not known"),
        ("[i] sum[j] x[i]", "size of j is not known"),
        ("x[i]", "i is no label here"),
        ("[i] A[i,i]*y[i]", "has size"),
        ("[i] foo(x[i])", "no function foo"),
        ("[i] delta[i,j]", "size of i is not known"),
    ],
)
def test_errors_of_index_notation(text: str, problem: str) -> None:
    with pytest.raises(EindiffError, match=problem):
        parse(text, named(x, y, A), "index")


def test_index_notation_is_read() -> None:
    assert parse("sum[i,j] x[i]*B[i,j]*z[j]", named(x, B, z), "index") is x @ B @ z
    assert parse("[i:n,j:n] delta[i,j]*x[i]", named(x), "index") is ed.diag(x)
    assert parse("s = [i] B[i,i]; sum[i] s[i]", named(B), "index") is ed.tr(B)
    assert parse("[i:2] q[2*i + 1]", named(q), "index") is q[1:5:2]
    assert parse("[i,j] inv([i,j] 2*B[j,i])[j,i]", named(B), "index") is Fraction(1, 2) * ed.inv(B)


def test_notebooks() -> None:
    assert repr_latex(A @ x) == r"$\displaystyle A \, x$"
    assert (A @ x)._repr_latex_() == repr_latex(A @ x)
    assert A._repr_html_().startswith("<") and "<math" in A._repr_html_()  # typeset without a library of scripts


def test_latex_names() -> None:
    assert [name_latex(name) for name in ("x", "x1", "lambda", "W_in", "_x")] == [
        "x", "x_{1}", r"\lambda", r"W_{\mathrm{in}}", r"\mathit{\_x}",
    ]  # fmt: skip

"""The table of functions tested as a table: a row, or a public function, without a case cannot exist.

Every function is checked by value, and its derivatives in every mode, against finite differences and JAX; functions of
whole tensors also on stacks, inside a larger expression, and declared with named sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

import eindiff as ed
from eindiff.core.nodes import Apply, Expr, Map, topological
from eindiff.functions.elementwise import TABLE
from function_cases import CASES, LIBRARY, WHOLE, Case
from oracles import DOMAINS, JAX, MODES, assert_close, declare, finite_derivative, jax_derivatives, sample

EXACT = 1e-10  # against another exact derivative
DIFFERENCES = 1e-8  # against finite differences
FLOOR = 1e-3  # derivatives that are smaller than this, next to a function of size 1, count as small


each = pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
each_stacked = pytest.mark.parametrize("case", [c for c in WHOLE if c.stack], ids=lambda c: c.id)


# The table is complete

# What is public and no function of tensors: tools that have tests of their own
OTHERS = {
    "biharmonic",
    "curl",
    "directional",
    "divergence",
    "operator",
    "check",
    "compile",
    "define",
    "evaluate",
    "indices",
    "lbfgs",
    "newton",
    "newton_step",
    "plan",
    "reading",
    "rewrite_log",
    "simplify",
    "steps",
    "structured",
    "symbolic",
    "variables",
    "parse",
    "to_script",
    "to_source",
    "to_text",
}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_row_is_complete(name: str) -> None:
    row = TABLE[name]
    assert row.name == name
    assert callable(row.value)
    assert row.domain in DOMAINS, f"{name}: `sample` has no points for the domain {row.domain!r}"
    assert row.latex or name == "pow", f"{name} has no LaTeX"  # a known power is written by its exponent
    if row.core:
        assert row.output is not None and row.flops is not None
    if row.pushforward is None and row.pullback is None:
        assert row.derivatives, f"{name} has no derivative; locally constant is None, not nothing"
        assert all(rule is None or callable(rule) for rule in row.derivatives)
    else:
        assert callable(row.pushforward) and callable(row.pullback) and not row.derivatives


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_row_has_a_case_that_applies_it(name: str) -> None:
    mine = [c for c in CASES if c.covers == name]
    assert mine, f"the row {name} has no case"
    for c in mine:
        y = c.function(LIBRARY, **declare(c.arrays()))
        nodes = [n for n in topological([y]) if isinstance(n, Map | Apply) and n.function.name == name]
        assert nodes, f"{c.id}: {y} does not apply {name}"
        rules = nodes[0].function.derivatives
        assert not rules or len(rules) == len(nodes[0].args), f"{name} has a derivative for some arguments only"


def test_every_public_function_has_a_case() -> None:
    public = {name for name in ed.__all__ if inspect.isfunction(getattr(ed, name))}
    covered = {c.covers for c in CASES} | set(DECLARATIONS) | set(OPERATORS) | OTHERS
    assert not public - covered, f"no case for {', '.join(sorted(public - covered))}; tools are named in OTHERS"


# Values and derivatives


def _paths(c: Case, order: int) -> list[tuple[str, ...]]:
    return list(product(c.arguments, repeat=order))


def _pick(nested: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        nested = nested[name]
    return nested


def check(c: Case, arrays: dict[str, np.ndarray], order: int, modes: tuple[str, ...] = MODES) -> None:
    """The value, and all derivatives up to an order by all arguments, against JAX and finite differences."""
    variables = declare(arrays)
    y = c.function(LIBRARY, **variables)
    exact = jax_derivatives(lambda lib, **args: c.function(lib, **args), arrays, order)
    assert_close(ed.evaluate(y, arrays), exact[0], EXACT, message=y)
    for k in range(1, order + 1):
        for path in _paths(c, k):
            differences = finite_derivative(y, arrays, *(variables[name] for name in path))
            for mode in modes:
                actual = ed.evaluate(ed.derivative(y, *(variables[name] for name in path), mode=mode), arrays)
                assert_close(actual, _pick(exact[k], path), EXACT, FLOOR, f"JAX, {mode} by {path} of {y}")
                assert_close(actual, differences, DIFFERENCES, FLOOR, f"differences, {mode} by {path} of {y}")


@each
def test_derivatives(case: Case) -> None:
    check(case, case.arrays(), case.order)


@each_stacked
def test_derivatives_on_stacks(case: Case) -> None:
    check(case, case.arrays(2), case.stack)


def _nested(c: Case, arrays: dict[str, np.ndarray]) -> tuple[Case, dict[str, np.ndarray]]:
    """`sum(C * f(P + A @ B))` with P where f is checked, and A and B small and not square; derivatives are by A."""
    rng = np.random.default_rng(1)
    [(name, point)] = arrays.items()
    weights = rng.normal(size=np.shape(c.function(JAX, **arrays)))
    inner = rng.normal(size=(2, point.shape[-1]))
    around = {"A": 0.05 * rng.normal(size=(*point.shape[:-1], 2))}

    def function(lib: Any, A: Any) -> Any:
        return lib.sum(weights * c.function(lib, **{name: point + A @ inner}))

    return Case(c.covers, function, {"A": ()}, c.label), around


each_of_one = pytest.mark.parametrize("case", [c for c in WHOLE if len(c.arguments) == 1], ids=lambda c: c.id)


@each_of_one
def test_derivatives_inside_a_larger_expression(case: Case) -> None:
    """Here f' is contracted on both sides, and by reverse mode never formed."""
    check(*_nested(case, case.arrays()), order=2)


NAMES = {2: "k", 3: "m", 4: "n"}
SIZES = {name: size for size, name in NAMES.items()}
FIXED = {"reshape", "ones", "zeros", "eye"}  # these cases state sizes as numbers


@pytest.mark.parametrize("case", [c for c in WHOLE if c.covers not in FIXED], ids=lambda c: c.id)
def test_named_sizes_give_the_same(case: Case) -> None:
    arrays = case.arrays()
    named = {name: ed.tensor(name, [NAMES[size] for size in array.shape]) for name, array in arrays.items()}
    known = declare(arrays)
    y, z = case.function(LIBRARY, **named), case.function(LIBRARY, **known)
    assert_close(ed.evaluate(y, arrays, SIZES), ed.evaluate(z, arrays), EXACT)
    for name in arrays:
        first = ed.evaluate(ed.derivative(y, named[name]), arrays, SIZES)
        assert_close(first, ed.evaluate(ed.derivative(z, known[name]), arrays), EXACT, FLOOR)


# Where functions are not differentiable


def _first(y: Expr, x: Expr, point: Any) -> list[np.ndarray]:
    return [ed.evaluate(ed.derivative(y, x, mode=mode), {"x": np.array(point)}) for mode in MODES]


SUBGRADIENTS = {
    "relu": (lambda x: ed.relu(x), [0.0, 2.0, -2.0], np.diag([0.0, 1, 0])),
    "abs": (lambda x: ed.abs(x), [0.0, 2.0, -2.0], np.diag([0.0, 1, -1])),
    "norm1": (lambda x: ed.norm1(x), [0.0, 2.0, -2.0], [0.0, 1, -1]),
    "maximum": (lambda x: ed.maximum(x, 3 - 2 * x), [1.0, 2.0, 0.0], np.diag([-0.5, 1, -2])),
    "minimum": (lambda x: ed.minimum(x, 3 - 2 * x), [1.0, 2.0, 0.0], np.diag([-0.5, -2, 1])),
    "maximum with a number": (lambda x: ed.maximum(x, 0), [0.0, 2.0, -2.0], np.diag([0.5, 1, 0])),
    "max": (lambda x: ed.max(x), [2.0, 1.0, 2.0], [0.5, 0, 0.5]),
    "min": (lambda x: ed.min(x), [1.0, 1.0, 1.0], [1 / 3, 1 / 3, 1 / 3]),
    "max of all": (lambda x: ed.max(x), [[2.0, 2.0], [2.0, 1.0]], [[1 / 3, 1 / 3], [1 / 3, 0]]),
    "max along two axes": (lambda x: ed.max(x, (0, 1)), [[2.0, 2.0], [2.0, 1.0]], [[1 / 3, 1 / 3], [1 / 3, 0]]),
    "min of all": (lambda x: ed.min(x), [[0.0, 0.0], [0.0, 1.0]], [[1 / 3, 1 / 3], [1 / 3, 0]]),
    "inverse_or_zero": (lambda x: LIBRARY.inverse_or_zero(x), [0.0, 2.0], np.diag([0.0, -0.25])),
    "step": (lambda x: ed.step(x), [0.0, 2.0], np.zeros((2, 2))),
    "sign": (lambda x: ed.sign(x), [0.0, 2.0], np.zeros((2, 2))),
}


@pytest.mark.parametrize("name", SUBGRADIENTS)
def test_subgradients(name: str) -> None:
    """At a kink the derivative is 0 for relu and abs, and what ties share evenly for the rest, as in JAX."""
    function, point, expected = SUBGRADIENTS[name]
    x = ed.tensor("x", np.shape(point))
    for actual in _first(function(x), x, point):
        assert_close(actual, expected, EXACT, FLOOR, name)


def test_product_with_zeros() -> None:
    """Zeros among the factors do no harm to any derivative: ∂ prod = the product of the others."""
    x = ed.vector("x", 4)
    y, point = ed.prod(x), {"x": np.array([0.0, 2.0, 0.0, 3.0])}
    assert_close(ed.evaluate(ed.derivative(y, x), point), np.zeros(4), EXACT, 1)
    expected = np.zeros((4, 4))
    expected[0, 2] = expected[2, 0] = 6
    assert_close(ed.evaluate(ed.derivative(y, x, x), point), expected, EXACT)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_products_without_some_entries(order: int) -> None:
    """They take time and memory in proportion to what they give."""
    x, n = ed.vector("x", 5), 5
    point, expected = np.array([0.5, 0.0, -2.0, 3.0, 1.5]), np.zeros((n,) * order)
    for places in permutations(range(n), order):
        expected[places] = np.delete(point, places).prod()
    derivative, large = ed.derivative(ed.prod(x), *[x] * order), ed.vector("x", 40)
    for found in (ed.evaluate(derivative, {"x": point}), ed.compile(derivative)(x=point)):
        assert_close(found, expected, EXACT)
    plan = ed.plan(ed.derivative(ed.prod(large), *[large] * order))
    assert plan.flops <= 5 * 40**order
    assert plan.peak <= 3 * 8 * 40**order


# Large arguments

LARGE = np.array([1000.0, -1000.0, 0.0, 3.0])


def _value_gradient_hessian(f: Expr, x: Expr, arrays: dict) -> list[np.ndarray]:
    return [ed.evaluate(e, arrays) for e in (f, ed.gradient(f, x), ed.hessian(f, x))]


def test_logistic_loss_does_not_overflow() -> None:
    """Margins of ±1000: log(exp(-m) + 1) is max(-m, 0), its derivatives are those of a line."""
    X, y, w = ed.matrix("X", 3, 2), ed.vector("y", 3), ed.vector("w", 2)
    f = ed.sum(ed.log(ed.exp(-y * (X @ w)) + 1))
    arrays = {"X": np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]), "y": np.array([1.0, -1.0, 1.0])}
    arrays["w"] = np.array([400.0, 300.0])
    margins = arrays["y"] * (arrays["X"] @ arrays["w"])
    assert margins.tolist() == [1000, -900, 350]
    weights = expit(margins) * expit(-margins)
    expected = [
        np.logaddexp(0, -margins).sum(),
        -arrays["X"].T @ (arrays["y"] * expit(-margins)),
        arrays["X"].T @ (weights[:, None] * arrays["X"]),
    ]
    for actual, exact in zip(_value_gradient_hessian(f, w, arrays), expected, strict=True):
        assert_close(actual, exact, EXACT)


@pytest.mark.parametrize("form", ["log(sum(exp))", "logsumexp", "log of a sum of stacked exponentials"])
def test_logsumexp_does_not_overflow(form: str) -> None:
    z = ed.vector("z", 4)
    forms = {
        "log(sum(exp))": lambda: ed.log(ed.sum(ed.exp(z))),
        "logsumexp": lambda: ed.logsumexp(z),
        "log of a sum of stacked exponentials": lambda: ed.log(ed.sum(ed.exp(ed.stack([z, z])), 1))[0],
    }
    for point in (LARGE, -LARGE, LARGE + 1000, LARGE - 1000, np.full(4, 1000.0), np.full(4, -1000.0)):
        p = softmax(point)
        expected = [point.max() + np.log(np.exp(point - point.max()).sum()), p, np.diag(p) - np.outer(p, p)]
        for actual, exact in zip(_value_gradient_hessian(forms[form](), z, {"z": point}), expected, strict=True):
            assert_close(actual, exact, EXACT, FLOOR)


def test_log_of_two_exponentials_does_not_overflow() -> None:
    a, b = ed.scalar("a"), ed.scalar("b")
    f = ed.log(ed.exp(a) + ed.exp(b))
    for x, y in ((1000.0, 999.0), (-1000.0, -999.0), (1000.0, -1000.0), (-1000.0, 1000.0)):
        arrays = {"a": x, "b": y}
        assert_close(ed.evaluate(f, arrays), np.logaddexp(x, y), EXACT)
        assert_close(ed.evaluate(ed.gradient(f, a), arrays), expit(x - y), EXACT, FLOOR)
        assert_close(ed.evaluate(ed.hessian(f, a), arrays), expit(x - y) * expit(y - x), EXACT, FLOOR)


LIMITS = {
    "sigmoid": (lambda x: ed.sigmoid(x), expit(LARGE), expit(LARGE) * expit(-LARGE)),
    "1 / (1 + exp(-x))": (lambda x: 1 / (1 + ed.exp(-x)), expit(LARGE), expit(LARGE) * expit(-LARGE)),
    "exp(x) / (1 + exp(x))": (lambda x: ed.exp(x) / (1 + ed.exp(x)), expit(LARGE), expit(LARGE) * expit(-LARGE)),
    "1 - sigmoid(x)": (lambda x: 1 - ed.sigmoid(x), expit(-LARGE), -expit(LARGE) * expit(-LARGE)),
    "softplus": (lambda x: ed.softplus(x), np.logaddexp(0, LARGE), expit(LARGE)),
    "log(1 + exp(x))": (lambda x: ed.log(1 + ed.exp(x)), np.logaddexp(0, LARGE), expit(LARGE)),
    "log1p(exp(x))": (lambda x: ed.log1p(ed.exp(x)), np.logaddexp(0, LARGE), expit(LARGE)),
    "log(sigmoid(x))": (lambda x: ed.log(ed.sigmoid(x)), -np.logaddexp(0, -LARGE), expit(-LARGE)),
    "tanh": (lambda x: ed.tanh(x), np.tanh(LARGE), 1 - np.tanh(LARGE) ** 2),
    "log(exp(x))": (lambda x: ed.log(ed.exp(x)), LARGE, np.ones(4)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_elementwise_limits(name: str) -> None:
    """Values and derivatives at ±1000 are the exact limits; second derivatives are finite, and 0 there."""
    function, value, slope = LIMITS[name]
    x = ed.vector("x", 4)
    y, arrays = function(x), {"x": LARGE}
    assert_close(ed.evaluate(y, arrays), value, EXACT)
    assert_close(ed.evaluate(ed.derivative(y, x), arrays), np.diag(slope), EXACT)
    for mode in MODES:
        second = ed.evaluate(ed.derivative(y, x, x, mode=mode), arrays)
        assert np.isfinite(second).all()
        assert second[0, 0, 0] == second[1, 1, 1] == 0


def test_softmax_does_not_overflow() -> None:
    x = ed.vector("x", 4)
    for point in (LARGE, -LARGE, LARGE + 1000, np.full(4, -1000.0)):
        p = softmax(point)
        jacobian = np.diag(p) - np.outer(p, p)
        hessian = np.einsum("ij,ik->ijk", np.eye(4) - p, jacobian) - np.einsum("i,jk->ijk", p, jacobian)
        y = ed.softmax(x)
        for expression, expected in ((y, p), (ed.derivative(y, x), jacobian), (ed.derivative(y, x, x), hessian)):
            assert_close(ed.evaluate(expression, {"x": point}), expected, EXACT, FLOOR)


def test_logdet_does_not_overflow() -> None:
    A = ed.matrix("A", 3, 3)
    point = {"A": np.diag([1e200, 1e200, 1e-300])}
    for f in (ed.logdet(A), ed.log(ed.det(A))):
        assert_close(ed.evaluate(f, point), 100 * np.log(10), EXACT)


# Variables with properties


SYMMETRIC = {
    "quadratic": lambda lib, S: lib.sum((S @ S) ** 2),
    "logdet": lambda lib, S: lib.logdet(S @ S + 3 * lib.eye(3)),
    "inv": lambda lib, S: lib.inv(S + 9 * lib.eye(3)),
    "chol": lambda lib, S: lib.chol(S + 9 * lib.eye(3)),
    "expm": lambda lib, S: lib.expm(S / 4),
    "elementwise": lambda lib, S: lib.exp(S / 4) * S,
}


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("mode", MODES)
def test_derivatives_by_a_symmetric_matrix(name: str, mode: str) -> None:
    """They are those by a matrix without properties, made symmetric in each pair of axes; or by the free entries."""
    function, point = SYMMETRIC[name], {"S": sample("symmetric", (3, 3), np.random.default_rng(0))}
    S, plain = ed.symmetric("S", 3), ed.matrix("S", 3, 3)
    y, z = function(ed, S), function(ed, plain)
    assert_close(ed.evaluate(y, point), ed.evaluate(z, point), EXACT)
    first = ed.evaluate(ed.derivative(z, plain), point)
    mirrored = first.swapaxes(-1, -2)
    assert_close(ed.evaluate(ed.derivative(y, S, mode=mode), point), (first + mirrored) / 2, EXACT)
    free = (first + mirrored) * (1 - np.eye(3) / 2)
    assert_close(ed.evaluate(ed.derivative(y, S, mode=mode, symmetric="free"), point), free, EXACT)
    second = ed.evaluate(ed.derivative(z, plain, plain), point)
    second = (second + second.swapaxes(-1, -2)) / 2
    second = (second + second.swapaxes(-3, -4)) / 2
    assert_close(ed.evaluate(ed.derivative(y, S, S, mode=mode), point), second, EXACT, FLOOR)


def test_operators_by_a_symmetric_matrix() -> None:
    """All operators stand for the same projected derivatives."""
    rng = np.random.default_rng(0)
    S, V = ed.symmetric("S", 3), ed.matrix("V", 3, 3)
    arrays = {"S": sample("symmetric", (3, 3), rng), "V": sample("real", (3, 3), rng)}
    y = ed.exp(S / 3) @ S
    f = ed.sum(y) * ed.tr(S @ S)
    J, H = (ed.evaluate(e, arrays) for e in (ed.derivative(y, S), ed.derivative(f, S, S)))
    pairs = {
        "jvp": (ed.jvp(y, S, V), np.einsum("abij,ij->ab", J, arrays["V"])),
        "vjp": (ed.vjp(y, S, V), np.einsum("abij,ab->ij", J, arrays["V"])),
        "cut": (ed.cut(y, S, [y]), J),
        "hvp": (ed.hvp(f, S, V), np.einsum("ijkl,kl->ij", H, arrays["V"])),
        "quadratic_form": (ed.quadratic_form(f, S, V), np.einsum("ij,ijkl,kl", arrays["V"], H, arrays["V"])),
        "hessian_diagonal": (ed.hessian_diagonal(f, S), np.einsum("ijij->ij", H)),
        "laplacian": (ed.laplacian(f, S), np.einsum("ijij", H)),
    }
    for name, (expression, expected) in pairs.items():
        assert_close(ed.evaluate(expression, arrays), expected, EXACT, message=name)


def test_orthogonal_and_positive_variables() -> None:
    rng = np.random.default_rng(0)
    Q, x = ed.matrix("Q", 3, 3, "orthogonal"), ed.vector("x", 3, "positive")
    arrays = {"Q": sample("orthogonal", (3, 3), rng), "x": sample("positive", (3,), rng)}
    for y in (Q.T @ Q @ x, Q @ Q.T @ x, ed.inv(Q) @ (Q @ x), ed.sqrt(x * x), ed.abs(x), ed.exp(ed.log(x))):
        assert_close(ed.evaluate(y, arrays), arrays["x"], EXACT)
        assert_close(ed.evaluate(ed.derivative(y, x), arrays), np.eye(3), EXACT)


# Declarations, and operators that make derivatives

DECLARATIONS = {
    "scalar": (lambda: ed.scalar("x"), ()),
    "vector": (lambda: ed.vector("x", "n"), ("n",)),
    "matrix": (lambda: ed.matrix("x", "m", 3), ("m", 3)),
    "symmetric": (lambda: ed.symmetric("x", "n"), ("n", "n")),
    "tensor": (lambda: ed.tensor("x", ("k", 2, "n")), ("k", 2, "n")),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declarations(name: str) -> None:
    make, shape = DECLARATIONS[name]
    x = make()
    assert x.shape == shape and x.ndim == len(shape) and make() is x
    domain = "symmetric" if name == "symmetric" else "real"
    array = sample(domain, [SIZES.get(size, size) for size in shape], np.random.default_rng(0))
    assert_close(ed.evaluate(2 * x, {"x": array}), 2 * array, EXACT)


@lru_cache
def _problem() -> SimpleNamespace:
    """A vector y and a scalar f of a matrix X and a vector w, a point, and all derivatives there from JAX."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape) for name, shape in {"X": (2, 3), "w": 3, "V": (2, 3), "u": 2}.items()}

    def inner(lib: Any, X: Any, w: Any) -> Any:
        return lib.tanh(X @ w)

    def outer(lib: Any, X: Any, w: Any) -> Any:
        return lib.sum(lib.exp(inner(lib, X, w))) * lib.sum(lib.sin(X))

    variables = declare(arrays)
    X, w = variables["X"], variables["w"]
    point = {name: arrays[name] for name in "Xw"}
    return SimpleNamespace(
        **variables, y=inner(ed, X, w), f=outer(ed, X, w), arrays=arrays,
        dy=jax_derivatives(inner, point, 2), df=jax_derivatives(outer, point, 2),
    )  # fmt: skip


def _hessian(p: SimpleNamespace) -> np.ndarray:
    return np.asarray(p.df[2]["X"]["X"])


# What each operator gives, and the dense derivatives that it stands for
OPERATORS: dict[str, Callable[[SimpleNamespace], list[tuple]]] = {
    "derivative": lambda p: [(ed.derivative(p.y, p.X, p.w), p.dy[2]["X"]["w"])],
    "jacobian": lambda p: [
        (ed.jacobian(p.y, p.X), p.dy[1]["X"]),
        *zip(ed.jacobian(p.y, [p.X, "w"]), [p.dy[1]["X"], p.dy[1]["w"]], strict=True),
    ],
    "gradient": lambda p: [
        (ed.gradient(p.f, "X"), p.df[1]["X"]),
        *zip(ed.gradient(p.f, [p.X, p.w]), [p.df[1]["X"], p.df[1]["w"]], strict=True),
    ],
    "hessian": lambda p: [
        (ed.hessian(p.f, p.X), _hessian(p)),
        *((ed.hessian(p.f, [p.X, p.w])[i][j], p.df[2][a][b]) for i, a in enumerate("Xw") for j, b in enumerate("Xw")),
    ],
    "hvp": lambda p: [(ed.hvp(p.f, p.X, p.V), np.einsum("ijkl,kl->ij", _hessian(p), p.arrays["V"]))],
    "quadratic_form": lambda p: [
        (ed.quadratic_form(p.f, p.X, p.V), np.einsum("ij,ijkl,kl", p.arrays["V"], _hessian(p), p.arrays["V"]))
    ],
    "hessian_diagonal": lambda p: [(ed.hessian_diagonal(p.f, p.X), np.einsum("ijij->ij", _hessian(p)))],
    "laplacian": lambda p: [(ed.laplacian(p.f, p.X), np.einsum("ijij", _hessian(p)))],
    "jvp": lambda p: [(ed.jvp(p.y, p.X, p.V), np.einsum("ikl,kl->i", p.dy[1]["X"], p.arrays["V"]))],
    "vjp": lambda p: [(ed.vjp(p.y, p.X, p.u), np.einsum("ikl,i->kl", p.dy[1]["X"], p.arrays["u"]))],
    "cut": lambda p: [(ed.cut(p.y, p.X, [node]), p.dy[1]["X"]) for node in (p.X, p.X @ p.w, p.y)],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    problem = _problem()
    for expression, expected in OPERATORS[name](problem):
        assert_close(ed.evaluate(expression, problem.arrays), expected, EXACT, message=expression)

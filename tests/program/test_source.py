"""Emitted source: run on its own it gives what the interpreter gives, and it reads like what a person writes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.functions.elementwise import TABLE
from eindiff.program.check import random_point
from eindiff.program.write.source import to_script, to_source

RTOL = 1e-10


def run_source(source: str, outputs: dict[str, Expr], point: dict, sizes: dict) -> tuple:
    """What the function of a module gives, run with nothing but what it imports."""
    assert "eindiff" not in source
    namespace: dict = {"__name__": "emitted"}
    exec(compile(source, "emitted", "exec"), namespace)
    function = namespace["f"]
    keywords = function.__code__.co_varnames[function.__code__.co_argcount :][: function.__code__.co_kwonlyargcount]
    arguments = [point[v.name] for v in variables(*outputs.values())]
    return function(*arguments, **{name: sizes[name] for name in keywords})


def agree(outputs: dict[str, Expr], point: dict | None = None, sizes: dict | None = None) -> str:
    """Check the source against the interpreter; gives the source."""
    sizes = dict(sizes or {})
    exprs = list(outputs.values())
    point = random_point(exprs, sizes) if point is None else point
    source = to_source(outputs)
    found = run_source(source, outputs, point, sizes)
    found = found if len(outputs) > 1 else (found,)
    for name, value, expected in zip(outputs, found, ed.evaluate(exprs, point, sizes), strict=True):
        assert np.shape(value) == expected.shape, f"{name}\n{source}"
        scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
        assert np.max(np.abs(value - expected), initial=0) <= RTOL * scale, f"{name}\n{source}"
    return source


def derivatives(f: Expr, x: Expr) -> dict[str, Expr]:
    return {"value": f, "gradient": ed.gradient(f, x), "hessian": ed.hessian(f, x)}


X, T, V = ed.matrix("X", "m", "n"), ed.matrix("T", "m", "n"), ed.matrix("V", "n", "k")
U, P, A = ed.matrix("U", "m", "k"), ed.matrix("P", "m", "k"), ed.matrix("A", "n", "n")
M, W = ed.matrix("M", "m", "n"), ed.matrix("W", "n", "k")
w, x, v, y, z = ed.vector("w", "n"), ed.vector("x", "n"), ed.vector("v", "k"), ed.vector("y", "m"), ed.vector("z", "n")
S, Q = ed.symmetric("S", "n"), ed.symmetric("Q", "n")
a, b, c = ed.scalar("a"), ed.scalar("b"), ed.scalar("c")


def pairwise_energy() -> Expr:
    difference = P[:, None, :] - P[None, :, :]
    return ed.sum(1 / (1 + ed.sum(difference * difference, 2)))


def gaussian_process() -> Expr:
    kernel = ed.exp(-a * (x[:, None] - x[None, :]) ** 2) + b * b * ed.eye("n")
    return z @ ed.solve(kernel, z) + ed.logdet(kernel)


MODELS: dict[str, tuple[Callable[[], Expr], Expr]] = {
    "logistic regression": (lambda: ed.sum(ed.softplus(-y * (X @ w))) + a * (w @ w), w),
    "matrix factorization": (lambda: ed.sum((T - U @ V.T) ** 2), U),
    "matrix factorization, masked": (lambda: ed.sum((M * (T - U @ V.T)) ** 2), U),
    "matrix factorization, ridge": (lambda: ed.sum((M * (T - U @ V.T)) ** 2) + a * ed.sum(U * U), U),
    "net, tanh": (lambda: ed.mean((ed.tanh(X @ W) @ v - y) ** 2), W),
    "net, relu": (lambda: ed.sum((ed.relu(X @ W) @ v - y) ** 2), W),
    "softmax": (lambda: ed.sum(ed.logsumexp(X @ W, 1)) - ed.sum(M @ W), W),
    "pairwise distances": (pairwise_energy, P),
    "gaussian process, inputs": (gaussian_process, x),
    "gaussian process, width": (gaussian_process, a),
    "symmetric, trace": (lambda: ed.tr(S @ Q @ S) + ed.tr(S @ S @ S), S),
    "symmetric, inverse": (lambda: ed.logdet(S) + x @ ed.inv(S) @ x, S),
    "general, inverse": (lambda: ed.logdet(A) + x @ ed.inv(A) @ z, A),
    "scalars": (lambda: ed.exp(a * b) / c + a**2 - ed.sqrt(1 + a * a) + 1, a),
    "sizes": (lambda: ed.sum(ed.ones("n")) * a * (x @ x), x),
    "expm": (lambda: x @ ed.expm(A) @ z, A),
    "quotients": (lambda: ed.sum(x / (1 + z * z)) / (1 + x @ x), x),
}

SHAPES_OF_ARRAYS: dict[str, tuple[Callable[[], Expr], Expr]] = {
    "slices": (lambda: ed.sum(x[1:] * x[:-1] * x[1:]), x),
    "strides": (lambda: ed.sum(ed.exp(X[:, ::-1]) * X), X),
    "one entry": (lambda: x[0] * ed.sin(x[-1]) * ed.sum(x), x),
    "rows": (lambda: ed.sum(ed.exp(X[0]) * X[1]), X),
    "reshape": (lambda: ed.sum(ed.sin(ed.reshape(X, ("m*n",)))[2:]), X),
    "vec": (lambda: ed.sum(ed.exp(ed.vec(X)) * ed.vec(T)), X),
    "concatenate": (lambda: ed.sum(ed.exp(ed.concatenate([x, x[::-1], 2 * x]))[1:]), x),
    "stack": (lambda: ed.sum(ed.stack([x, x * x, z]) ** 3), x),
    "gather": (lambda: ed.sum(ed.exp(x[[0, 0, 1]]) * ed.tensor("g", (3,))), x),
    "gather rows": (lambda: ed.sum(ed.exp(X[[1, 0, 1]]) ** 2), X),
    "cumsum": (lambda: ed.sum(ed.exp(ed.cumsum(x))), x),
    "kron": (lambda: ed.sum(ed.kron(A, A) ** 3), A),
    "convolution": (lambda: ed.sum((x[:-2] * a + x[1:-1] * b + x[2:] * c) ** 2), x),
}


@pytest.mark.parametrize("name", [*MODELS, *SHAPES_OF_ARRAYS])
def test_models(name: str) -> None:
    f, by = {**MODELS, **SHAPES_OF_ARRAYS}[name]
    agree(derivatives(f(), by))


@pytest.mark.parametrize("name", SHAPES_OF_ARRAYS)
def test_index_maps_are_never_formed(name: str) -> None:
    f, by = SHAPES_OF_ARRAYS[name]
    assert "np.where" not in to_source(derivatives(f(), by))


def applied(function: Function) -> tuple[Expr, Variable]:
    if not function.core:
        args = [ed.vector(f"x{k}", "n") for k in range(max(1, len(function.derivatives)))]
        if function.name == "polygamma":  # its first argument is an integer
            return construct.map_(function, [construct.filled(2, ("n",)), args[1]]), args[1]
        inside = {"above 1": [2 + x * x for x in args]}.get(function.domain, args)
        return construct.map_(function, inside), args[0]
    if set(function.core) == {1}:
        vectors = [ed.vector(f"x{k}", "n") for k in range(len(function.core))]
        return construct.apply(function, vectors), vectors[0]
    arg = ed.matrix("A", "n", "n")
    return construct.apply(function, (arg,)), arg


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_function(name: str) -> None:
    value, arg = applied(TABLE[name])
    f = ed.sum(ed.sin(value)) if value.ndim else value
    agree({"function": value, **derivatives(f, arg)})


BATCHED = ["expm", "logm", "inv", "logdet", "chol", "eigvals", "eigvecs", "logsumexp", "max", "prod", "argmax"]


@pytest.mark.parametrize("name", BATCHED)
def test_batches(name: str) -> None:
    core = TABLE[name].core[0]
    B = ed.tensor("B", ("b", "n", "n")[: core + 1])
    rng = np.random.default_rng(1)
    point = rng.normal(size=(2, 3, 3)[: core + 1])
    if core == 2:
        point = point @ point.swapaxes(-1, -2) + np.eye(3)
    value = construct.apply(TABLE[name], (B,))
    f = ed.sum(ed.sin(value))
    agree({"value": value, "gradient": ed.gradient(f, B)}, {"B": point}, {"b": 2, "n": 3})


def test_functions_of_the_same_factorization_share_it() -> None:
    source = agree({"values": ed.eigvals(S), "vectors": ed.eigvecs(S)})
    assert source.count("np.linalg.eigh(") == 1
    source = agree({"s": ed.svdvals(X), "u": ed.svdleft(X), "v": ed.svdright(X)})
    assert source.count("np.linalg.svd(") == 1


def test_maps_that_meet() -> None:
    """Two maps with one target: entries go through an array over the target, or are compared."""
    agree({"value": ed.concatenate([x, y])[1:]})
    forward = construct.constant(IndexMap(5, (4,), 1, (1,)))
    backward = construct.constant(IndexMap(5, (3,), 4, (-1,)))
    g = ed.tensor("g", (3,))
    overlap = construct.einsum(1, [(forward, (0, 1)), (backward, (0, 2)), (g, (2,))], (1, 2), {0: 5, 1: 4, 2: 3})
    agree({"value": overlap})


# Random expressions


def random_expression(rng: random.Random, shape: tuple[int, ...], depth: int) -> Expr:
    """An expression of a shape from operations that are defined everywhere."""
    leaf = construct.variable(rng.choice("pq") + "_".join(map(str, shape)), shape)
    if depth == 0 or rng.random() < 0.1:
        return leaf

    def sub(other: tuple[int, ...] = shape) -> Expr:
        return random_expression(rng, other, depth - 1)

    k = rng.choice((2, 3))
    choices: list[Callable[[], Expr]] = [
        lambda: rng.choice([ed.sin, ed.tanh, ed.sigmoid, ed.relu, ed.softplus, ed.square, ed.arctan])(sub()),
        lambda: sub() + sub(),
        lambda: 2 * sub() - sub(),
        lambda: sub() * sub(),
        lambda: sub() / (1 + ed.square(sub())),
        lambda: ed.where(sub() > 0, sub(), 0.5),
        lambda: sub(()) * sub() - 1,
        lambda: ed.sum(sub((k, *shape)), 0),
        lambda: ed.logsumexp(sub((*shape, k)), len(shape)),
    ]
    if len(shape) == 1:
        n = shape[0]
        choices += [
            lambda: sub((n, k)) @ sub((k,)),
            lambda: sub((k, n)).T @ sub((k,)),
            lambda: ed.diag(sub((n, n))),
            lambda: sub()[::-1],
            lambda: ed.concatenate([sub((n + 1,))[1:2], sub()])[:n],
            lambda: sub((4,))[[1] * (n - 1) + [3]],
            lambda: ed.solve(ed.square(sub((n, n))) + 9 * ed.eye(n), sub()),
        ]
    if len(shape) == 2:
        m, n = shape
        choices += [
            lambda: sub((m, k)) @ sub((k, n)),
            lambda: sub((m, k)) @ ed.diag(sub((k,))) @ sub((n, k)).T,
            lambda: ed.outer(sub((m,)), sub((n,))),
            lambda: sub((n, m)).T + sub((n,)),
            lambda: ed.einsum("iaj,ja->ij", sub((m, k, n)), sub((n, k))),
            lambda: ed.reshape(sub((m * n,)), shape),
            lambda: sub((m + 1, n))[1:],
        ]
        if m == n:
            choices += [lambda: ed.diag(sub((n,))), lambda: ed.inv(ed.square(sub()) + 9 * ed.eye(n))]
    return rng.choice(choices)()


@pytest.mark.parametrize("seed", range(100))
def test_random_expressions(seed: int) -> None:
    rng = random.Random(seed)
    f = random_expression(rng, rng.choice([(), (2,), (3,), (2, 3), (3, 3)]), 3)
    by = variables(f)
    outputs = {"value": f}
    if by:
        outputs["derivative"] = first = ed.derivative(f, by[0])
        if first.ndim < 5:
            outputs["second"] = ed.derivative(first, by[-1])
    agree(outputs)


# How it reads


def body(outputs: Expr | dict[str, Expr]) -> str:
    """The lines of the function after the checks of shapes."""
    lines = to_source(outputs).split("\n    ")
    return "\n".join(line.rstrip() for line in lines[1:] if not line.startswith("assert") and ".shape" not in line)


def test_text_of_logistic_regression() -> None:
    f = ed.sum(ed.softplus(-y * (X @ w)))
    assert (
        to_source(derivatives(f, w), "logistic")
        == """\
import numpy as np
from scipy import special


def logistic(X, w, y):
    m, n = X.shape
    assert w.shape == (n,), f"w must have shape ({n},), not {w.shape}"
    assert y.shape == (m,), f"y must have shape ({m},), not {y.shape}"
    t0 = y * (X @ w)
    t1 = -t0
    value = np.sum(np.logaddexp(0, t1))
    t2 = special.expit(t1)
    gradient = -(X.T @ (y * t2))
    hessian = X.T @ ((y**2 * special.expit(t0) * t2)[:, None] * X)
    return value, gradient, hessian
"""
    )


def test_text_of_matrix_factorization() -> None:
    f = ed.sum((T - U @ V.T) ** 2)
    assert (
        body(derivatives(f, U))
        == """\
t0 = U @ V.T - T
value = np.sum(t0**2)
gradient = 2 * (t0 @ V)
hessian = np.zeros((m, k, m, k))
np.einsum("ijik->ijk", hessian)[...] = 2 * (V.T @ V)
return value, gradient, hessian"""
    )


def test_text_of_least_squares() -> None:
    r = X @ w - y
    assert body(ed.gradient(0.5 * (r @ r) + 0.5 * a * (w @ w), w)) == "return a * w - X.T @ (y - X @ w)"


def test_text_of_pairwise_distances() -> None:
    f = pairwise_energy()
    assert (
        body({"value": f, "gradient": ed.gradient(f, P)})
        == """\
t0 = P[:, None, :] - P[None, :, :]
t1 = np.sum(t0**2, axis=2) + 1
value = np.sum(1 / t1)
gradient = -4 * np.einsum("ijk,ij->ik", t0, 1 / t1**2, optimize=True)
return value, gradient"""
    )


def test_text_of_solve() -> None:
    assert body(x @ ed.inv(A) @ z) == "return x @ np.linalg.solve(A, z)"


def test_text_of_slices() -> None:
    assert (
        body(derivatives(ed.sum((x[1:] - x[:-1]) ** 2), x))
        == """\
t0 = x[1:] - x[:-1]
value = t0 @ t0
gradient = np.zeros(n)
gradient[:-1] = -2 * t0
gradient[1:] += 2 * t0
t1 = np.zeros(n)
t1[:-1] = 1
t1[1:] += 1
t2 = np.arange(n - 1)
t3 = t2 + 1
hessian = 2 * np.diag(t1)
hessian[t3, t2] -= 2
hessian[t2, t3] -= 2
return value, gradient, hessian"""
    )


def test_text_of_small_products() -> None:
    assert body(A.T @ x) == "return A.T @ x"
    assert body(ed.tr(A)) == "return np.trace(A)"
    assert body(X * w) == "return w * X"
    assert body(y[:, None] * X) == "return y[:, None] * X"
    assert body(ed.outer(x, z) / 3) == "return 1/3 * np.outer(x, z)"
    assert body(ed.einsum("ij,ij->i", X, T)) == "return np.sum(T * X, axis=1)"
    assert body(ed.diag(x)) == "return np.diag(x)"
    assert body(ed.mean(x)) == "return np.sum(x) / n"
    assert body(ed.concatenate([x, z])) == "return np.concatenate([x, z])"


# Names, sizes and literals


def test_names_that_python_has_taken() -> None:
    lam, n, t0 = ed.scalar("lambda"), ed.vector("n", "m"), ed.vector("t0", "m")
    source = agree({"class": lam * (n @ t0), "2nd": ed.exp(n * t0) + ed.sin(n * t0)})
    assert "def f(lambda_, n, t0):" in source
    assert "class_ = " in source and "_2nd = " in source


def test_a_size_and_a_variable_of_one_name() -> None:
    n = ed.vector("n", "n")
    source = agree({"value": n * ed.mean(n)})
    assert "(n_,) = n.shape" in source


def test_sizes_that_no_argument_shows() -> None:
    source = agree({"value": ed.outer(ed.ones("k"), x)}, {"x": np.ones(3)}, {"k": 2})
    assert "def f(x, *, k):" in source
    source = agree({"value": ed.sum(ed.ones("k")) * a}, {"a": np.ones(())}, {"k": 2})
    assert "return a * k" in source or "return k * a" in source
    assert "*, k" in to_script(ed.sum(ed.ones("k")) * a * a, a)


def test_shapes_are_checked() -> None:
    namespace: dict = {}
    exec(to_source(X @ w), namespace)
    with pytest.raises(AssertionError, match=r"w must have shape \(3,\), not \(2,\)"):
        namespace["f"](np.ones((2, 3)), np.ones(2))


def test_symmetry_is_checked() -> None:
    namespace: dict = {}
    exec(to_source(S @ x), namespace)
    with pytest.raises(AssertionError, match="S must be symmetric"):
        namespace["f"](np.arange(4.0).reshape(2, 2), np.ones(2))


def test_literals() -> None:
    small, large = np.array([1.5, 2, -1]), np.arange(60.0).reshape(3, 20)
    g = ed.tensor("g", (20,))
    source = agree({"small": small * (large @ g), "large": large @ g, "power": ed.power(ed.square(g) + 1, 1 / 3)})
    assert "np.array([1.5, 2.0, -1.0])" in source
    assert source.count("np.array([[0.0") == 1
    assert max(map(len, source.splitlines())) <= 110


def test_typical_sizes_choose_the_order() -> None:
    B, C, D = ed.matrix("B", "m", "n"), ed.matrix("C", "n", "k"), ed.matrix("D", "k", "l")
    sizes = {"m": 1, "n": 100, "k": 100, "l": 100}
    assert "B.dot(C).dot(D)" in to_source(B @ C @ D, sizes=sizes)
    assert "B.dot(C.dot(D))" in to_source(B @ C @ D, sizes={**sizes, "m": 100, "l": 1})
    with pytest.raises(ed.EindiffError, match="l is missing"):
        to_source(B @ C @ D, sizes={"m": 1, "n": 2, "k": 3})


def test_errors_name_the_problem() -> None:
    with pytest.raises(ed.EindiffError, match="dictionary"):
        to_source({})
    opaque = Function("mystery", np.sin, (None,))
    with pytest.raises(ed.EindiffError, match="mystery"):
        to_source(construct.map_(opaque, (x,)))


# Size of the source


def test_depth_does_not_matter() -> None:
    f = x
    for k in range(10_000):
        f = ed.sin(f) if k % 2 else f + z
    source = agree({"value": f}, {"x": np.ones(2), "z": np.full(2, 0.1)})
    assert max(map(len, source.splitlines())) <= 110


def test_shared_parts_are_written_once() -> None:
    f = x
    for _ in range(60):
        f = ed.sin(f) * ed.cos(f) + 1
    source = agree({"value": f})
    assert len(source) < 10_000


def test_gradient_of_a_deep_net_is_linear_in_depth() -> None:
    lengths = []
    for depth in (10, 20, 40):
        h = x
        for _ in range(depth):
            h = ed.tanh(A @ h)
        lengths.append(len(to_source(ed.gradient(ed.sum(h), A))))
    assert all(long < 2.2 * short for short, long in pairwise(lengths))


# Scripts


@pytest.mark.parametrize("name", ["logistic", "symmetric"])
def test_scripts_run_alone(name: str, tmp_path: Path) -> None:
    if name == "logistic":
        script = to_script(ed.sum(ed.softplus(-y * (X @ w))), w)
    else:
        script = to_script(ed.logdet(S) + x @ ed.inv(S) @ x, ["S", "x"])
    assert "eindiff" not in script
    path = tmp_path / f"{name}.py"
    path.write_text(script)
    ran = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("relative error") == (2 if name == "logistic" else 6)
    path.write_text(script.replace("    return value", "    return 2 * value"))  # and its derivatives as they were
    assert subprocess.run([sys.executable, "-I", str(path)], capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("name", ["log", "arcsin", "logdet", "sqrtm", "eigvals", "power"])
def test_scripts_find_the_domain(name: str) -> None:
    value, arg = applied(TABLE[name])
    script = to_script(ed.sum(value) if value.ndim else value, arg, order=2)
    with pytest.raises(SystemExit) as ended:
        exec(compile(script, name, "exec"), {"__name__": "__main__"})
    assert not ended.value.code


def test_scripts_of_tensors_and_properties() -> None:
    positive, rotation = ed.tensor("p", ("n",), "positive"), ed.tensor("R", ("n", "n"), "orthogonal")
    script = to_script(rotation @ ed.log(positive), positive, order=2)
    assert "np.linalg.qr" in script and "0.1 + np.abs" in script and "second_derivative" in script
    with pytest.raises(SystemExit) as ended:
        exec(compile(script, "tensors", "exec"), {"__name__": "__main__"})
    assert not ended.value.code

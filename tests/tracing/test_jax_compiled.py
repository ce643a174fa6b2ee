"""What JAX's compiler makes of programs, beside JAX's own derivatives: how many operations, and how much memory.

Both are the same in every run, unlike times, which they stand for: the compiler takes its time by operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy import special

import eindiff.jax as ej
from eindiff.core.nodes import variables
from eindiff.tracing import traced_function
from eindiff.tracing.jax import choice, constants, library, memory, whole
from jax_functions import CASES as TABLE
from jax_functions import Case
from tracing.test_jax import order

# Operations after optimization, as a multiple of those of JAX's own derivative.
MOST_OPERATIONS = {
    "exp": 1.0, "log2": 1.0, "integer powers": 1.0, "differences": 1.4, "reverse, roll": 1.4, "gather clipped": 1.0,
    "maximum, minimum": 1.0, "Rosenbrock": 1.2, "springs": 1.0, "MLP, glu": 1.0, "integer data": 1.0, "tuple": 1.0,
    "phi to the fourth": 1.0, "take_along_axis": 1.0, "multinomial, logsumexp": 1.0, "noise from a fixed key": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("case", [case for case in TABLE if case.name in MOST_OPERATIONS], ids=lambda case: case.name)
def test_programs_are_no_larger_than_those_of_jax(case: Case) -> None:
    ours, theirs = (_compiled(one, case) for one in (ej, jax))
    assert _operations(ours) <= MOST_OPERATIONS[case.name] * _operations(theirs)
    assert _bytes(ours) <= _bytes(theirs)


def _compiled(library: Any, case: Case) -> Any:
    derivative = (library.hessian if order(case) == 2 else library.jacfwd)(case.function, case.argnums, case.has_aux)
    moving = [k for k, x in enumerate(case.args) if isinstance(x, jax.Array)]

    def bound(*given: Any) -> Any:
        values = dict(enumerate(case.args)) | dict(zip(moving, given, strict=True))
        return derivative(*(values[k] for k in range(len(case.args))))

    return jax.jit(bound).lower(*(case.args[k] for k in moving)).compile()


def _is_own(derivative: Callable, x: Any) -> bool:
    """Whether a derivative is JAX's own: a function that is called as a whole, and is not written here."""
    return [x.params.get("name") for x in jax.make_jaxpr(derivative)(x).eqns] == ["flat"]


def _operations(compiled: Any) -> int:
    return len(re.findall(r"^\s+(?:ROOT )?%?\S+ = ", compiled.as_text(), re.MULTILINE))


def _bytes(compiled: Any) -> int:
    found = compiled.memory_analysis()
    return found.temp_size_in_bytes + found.output_size_in_bytes


def test_diagonals_are_parts_of_loops() -> None:
    """A scatter would be a loop of its own, which takes long to compile."""
    chain = jax.jit(ej.hessian(lambda x: jnp.sum((x[1:] - x[:-1] ** 2) ** 2))).lower(jnp.ones(5)).compile()
    assert "scatter(" not in chain.as_text()
    assert chain.memory_analysis().temp_size_in_bytes == 0


def test_sines_are_computed_once() -> None:
    """The compiler takes them to be cheap, and would compute one for each entry of the Hessian."""

    def function(x: Any) -> Any:
        return jnp.exp(jnp.mean(jnp.cos(x)))

    def repeated(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda k, c: jnp.sin(c) + x[k] * x, x).sum()

    for f, count, is_large in ((function, 100, True), (function, 5, False), (repeated, 10, True)):
        x = jnp.arange(1.0, count + 1) / count
        found = jax.jit(ej.hessian(f))
        assert ("remainder(" in found.lower(x).compile().as_text()) is is_large
        np.testing.assert_allclose(found(x), jax.hessian(f)(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("of", ["grad", "hvp"])
@pytest.mark.parametrize(("count", "loops"), [(40, 1), (1200, 2)])
def test_functions_of_differences_are_computed_once(of: str, count: int, loops: int) -> None:
    """The compiler would compute each for every place at which the one loop of the gradient needs it."""
    x = jnp.sin(jnp.arange(count, dtype=float))
    chain, plane = lambda x: jnp.sum(jnp.exp(x[2:] - 2 * x[1:-1] + x[:-2])), lambda x: jnp.sum(jnp.sqrt(_squares(x)))

    def found(library: Any, f: Callable) -> Any:
        along = library.hvp(f) if library is ej else whole.transform("hvp")(f, 0, has_aux=False)
        return jax.jit(library.grad(f) if of == "grad" else lambda x: along(x, tangents=jnp.cos(x)))

    for f, y in ((chain, x), (plane, x.reshape(5, -1))):
        if f is chain or of == "grad":
            assert found(ej, f).lower(y).compile().as_text().count(" fusion(") == loops
        np.testing.assert_allclose(found(ej, f)(y), found(jax, f)(y), rtol=1e-12, atol=1e-12)


def _squares(x: jax.Array) -> jax.Array:
    return jnp.diff(x, axis=0)[:, 1:] ** 2 + jnp.diff(x, axis=1)[1:] ** 2 + 1e-3


def test_diagonals_of_several_functions_are_one_loop() -> None:
    """The compiler would store each of the functions: for the rows of the matrix. Some are made of several."""
    x = jnp.array([0.1, 0.4, 0.9, 0.0, 1.0, jnp.nan])
    several = lambda x: x * jax.nn.sigmoid(x) + jnp.log(x) * jnp.exp(-x)  # noqa: E731
    for f in (jax.nn.sigmoid, special.logit, several, jnp.cosh, special.gammaln, special.erfinv):
        ours, theirs = (jax.jit(d(lambda x, f=f: jnp.sum(f(x)))) for d in (ej.hessian, jax.hessian))
        assert ours.lower(x).compile().memory_analysis().temp_size_in_bytes <= x.nbytes
        np.testing.assert_allclose(jnp.diag(ours(x)), jnp.diag(theirs(x)), rtol=1e-12, atol=1e-15)


def test_products_of_few_entries_are_one_loop() -> None:
    """Running products take several; they are for many entries, and both are right where entries are 0."""
    for n, is_few in ((7, True), (20, False)):
        x = jnp.linspace(0.4, 1.6, n)
        ours, theirs = (jax.jit(d(lambda x: jnp.prod(x) ** 2)).lower(x).compile() for d in (ej.hessian, jax.hessian))
        assert ("reduce-window" not in ours.as_text()) is is_few
        for y in (x, x.at[3].set(0), x.at[3:5].set(0)):
            np.testing.assert_allclose(ours(y), theirs(y), rtol=1e-12, atol=1e-15)


def test_brief_loops_stay_loops() -> None:
    """JAX counts one turn of a loop: written out, the program would go to another thread. Its Hessian is JAX's own."""

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda k, c: jnp.sin(c) + x[k] * x, x).sum()

    x = jnp.linspace(0.1, 0.9, 5)
    ours, theirs = (jax.jit(d(loop)).lower(x).compile() for d in (ej.hessian, jax.hessian))
    assert ours.cost_analysis()["flops"] < 1000
    assert _bytes(ours) <= _bytes(theirs)
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-12)


def test_diagonals_are_choices() -> None:
    """Of which the compiler computes what is chosen: nothing is stored besides, and no zero is a product."""
    T = jnp.linspace(0.1, 1, 5 * 6 * 7).reshape(5, 6, 7)
    cases: list[tuple[Callable, Callable, Any]] = [
        (ej.hessian, lambda x: jnp.sum(jnp.sin(x) * jnp.arange(100)), jnp.linspace(0, 1, 100)),
        (ej.hessian, lambda T: jnp.sum(jnp.sin(T.transpose(2, 0, 1)) ** 3), T),
        (ej.jacfwd, lambda x: jnp.stack([x * x, jnp.sin(x), x**3]), jnp.linspace(0, 1, 100)),
        (ej.jacfwd, lambda T: jnp.sin(T).transpose(1, 0, 2), T),
    ]
    for ours, function, x in cases:
        program = jax.jit(ours(function)).lower(x).compile()
        assert program.memory_analysis().temp_size_in_bytes == 0
        theirs = jax.hessian if ours is ej.hessian else jax.jacfwd
        np.testing.assert_allclose(program(x), theirs(function)(x), rtol=1e-12, atol=1e-15)
    slopes = jax.jit(ej.jacfwd(lambda x: jnp.stack([x, jnp.log(x)])))(jnp.array([0.0, 1.0]))
    assert slopes[1].tolist() == [[np.inf, 0.0], [0.0, 1.0]]


def test_quotients_are_products_with_reciprocals() -> None:
    """The compiler makes a loop for each quotient that is used twice, but none for a product."""

    def function(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.arctan2(x, y) * jnp.hypot(x, y))

    x, y = jnp.linspace(0.5, 1, 20), jnp.linspace(1, 2, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.JaxLibrary, "_is_slower", lambda *_: False)
        ours, theirs = (jax.jit(one.hessian(function, (0, 1))).lower(x, y).compile() for one in (ej, jax))
    assert ours.as_text().count(" fusion(") <= theirs.as_text().count(" fusion(")
    for found, expected in zip(jax.tree.leaves(ours(x, y)), jax.tree.leaves(theirs(x, y)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def test_long_running_sums_form_no_triangle() -> None:
    x = jnp.linspace(0.1, 1, 600)

    def function(x: Any) -> Any:
        return jnp.sum(jnp.sin(jnp.cumsum(x)) * jnp.cumsum(x[::-1])[::-1])

    program = jax.jit(ej.grad(function)).lower(x).compile()
    assert program.memory_analysis().temp_size_in_bytes < 600 * 600 * 8
    np.testing.assert_allclose(program(x), jax.grad(function)(x), rtol=1e-11)


def test_what_many_nodes_are_computed_for_is_known() -> None:
    """The Hessian of a quadratic form of many terms, or of data, depends on no argument: it is a constant."""

    def roughness(u: Any) -> Any:
        return jnp.sum((u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) ** 2)

    def fit(c: Any) -> Any:
        return jnp.sum((jnp.polyval(c, data) - jnp.sin(data)) ** 2)

    data = jnp.linspace(-1, 1, 2000)
    for function, x in ((roughness, jnp.zeros((18, 18))), (fit, jnp.ones(4))):
        program = jax.jit(ej.hessian(function)).lower(x).compile()
        assert _operations(program) <= 3
        np.testing.assert_allclose(program(x), jax.hessian(function)(x), rtol=1e-12, atol=1e-12)


def test_brief_programs_are_called_at_once() -> None:
    """JAX gives programs of a thousand operations to another thread, which takes longer than these do."""

    def function(x: Any) -> Any:
        powers = jnp.stack([x, x**2, x**3], 1).ravel()
        return jnp.vdot(jnp.cos(jnp.arange(10.0)), powers[:10] * jnp.concatenate([x, x[::-1]]))

    x = jnp.linspace(-1, 2, 5)
    program = jax.jit(ej.hessian(function)).lower(x).compile()
    assert program.cost_analysis()["flops"] < choice.AT_ONCE
    np.testing.assert_allclose(program(x), jax.hessian(function)(x), rtol=1e-12, atol=1e-12)


def test_steps_along_axes_are_parts_of_loops() -> None:
    """Also where arrays are larger than those that are written as tables."""

    def function(B: Any) -> Any:
        return jnp.sum(B[1:, ::2] ** 2 * B[:-1, 1::2])

    B = jnp.asarray(np.random.default_rng(4).normal(size=(15, 20)))
    program = jax.jit(ej.hessian(function)).lower(B).compile()
    assert "scatter(" not in program.as_text()
    np.testing.assert_allclose(program(B), jax.jit(jax.hessian(function))(B), rtol=1e-12, atol=1e-12)


def test_places_that_run_backwards_are_parts_of_loops() -> None:
    """As those of a vector and of the same one reversed, which are side by side in the other direction."""

    def function(x: Any) -> Any:
        return jnp.sum(x[::-1] * jnp.roll(x, 2) * jnp.flip(x) * weights) + jnp.sum(x[8::-2] * x[1:10:2] ** 2)

    weights, x = jnp.cos(jnp.arange(300.0)), jnp.asarray(np.random.default_rng(5).normal(size=300))
    program = jax.jit(ej.hessian(function)).lower(x).compile()
    assert "scatter(" not in program.as_text()
    np.testing.assert_allclose(program(x), jax.jit(jax.hessian(function))(x), rtol=1e-12, atol=1e-12)


def test_calls_store_what_is_stored_inside_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results once, and nothing of what becomes one loop; so a program that stores its result is chosen unasked."""
    x = jnp.linspace(0.1, 1, 200)
    diagonal = jax.make_jaxpr(lambda x: jax.jit(lambda x: jnp.diag(jnp.sin(x)))(x))(x).jaxpr
    assert memory.peak(diagonal) == 200 * 200 * 8
    product = jax.make_jaxpr(lambda A: jax.jit(lambda A: A @ A @ A)(A))(jnp.ones((30, 30))).jaxpr
    assert memory.peak(product) == 2 * 30 * 30 * 8
    monkeypatch.setattr(library.JAX, "_written", pytest.fail)
    jax.jit(ej.hessian(lambda x: jnp.sum(jnp.arctan(x)))).trace(x)


@pytest.mark.filterwarnings("ignore:sort at")
def test_small_functions_with_opaque_parts_are_left_to_jax_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library.JAX, "instead", pytest.fail)
    x = jnp.array([1.0, -0.5, 2.0])

    def function(x: Any) -> Any:
        return jnp.sum(jnp.sort(x) ** 3 * jnp.arange(3.0))

    assert _is_own(ej.hessian(function), x)


@pytest.mark.parametrize(
    "known, most",
    [
        (lambda: jnp.cos(jnp.arange(2.0)) + jnp.linalg.cholesky(jnp.array([[4.0, 1.0], [1.0, 3.0]])).sum(0), 0),
        (lambda: jnp.float32(0.3) * jnp.log(jnp.arange(1, 3)), 0),
        (lambda: jnp.floor(jnp.log(8.0) / jnp.log(2.0)) + jnp.arange(2), 1),  # 3, or a little less
        (lambda: jax.jit(lambda x: (jnp.exp(x) > 2.5, x))(jnp.ones(2))[0] * 1.0, 1),
        (lambda: lax.scan(lambda s, x: (s + jnp.sin(x), s > 0), 0.0, jnp.arange(2.0))[1] * 1.0, 1),
    ],
)
def test_what_is_known_is_not_compiled_or_at_once(known: Callable, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX would compile each operation alone. NumPy computes what is the same up to the last bits, unless they decide
    what becomes of other values."""
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return computed(*args)

    computed: Callable = constants.computed
    monkeypatch.setattr(constants, "computed", counted)

    def function(x: Any) -> Any:
        return jnp.sum((known() * x) ** 3)

    x = jnp.array([0.5, -2.0])
    np.testing.assert_allclose(jax.jit(ej.hessian(function))(x), jax.hessian(function)(x), rtol=1e-12)
    assert len(calls) == most


def test_long_gradients_inside_of_jit_are_those_of_jax() -> None:
    """Sweeps over a grid, as a loop: the same work in both, nothing is planned. Alone they are programs of NumPy."""

    def sweeps(u: Any) -> Any:
        for _ in range(16):
            p = jnp.pad(u, 1)
            u = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + u) / 5
        return jnp.sum(u**2)

    u = jnp.cos(jnp.arange(256.0)).reshape(16, 16)
    found, short = (str(jax.make_jaxpr(ej.grad(f))(u)) for f in (sweeps, lambda u: jnp.sum(jnp.tile(u, (50, 50)) ** 3)))
    assert found.count("scan[") == 2
    assert "name=f" not in found
    assert "tile" not in short and "reshape" not in short  # our program
    assert "np.pad" not in ej.grad(sweeps).lower(u).source
    np.testing.assert_allclose(ej.grad(sweeps)(u), jax.grad(sweeps)(u), rtol=1e-12)


def test_hessians_that_take_long_to_find_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside of `jax.jit`, of a net with many parameters that all depend on each other; not those of separate terms."""
    derived: list[Any] = []
    computation = traced_function.Computation
    monkeypatch.setattr(traced_function, "Computation", lambda *given: derived.append(given) or computation(*given))
    X = jnp.ones((3, 4))

    def net(p: Any) -> Any:
        x = X
        for w, b, v in p:
            q = x @ w + b
            x = x + jax.nn.softmax(q @ q.T) @ jnp.tanh(q @ v)
        return jnp.mean(x**2)

    def separate(p: Any) -> Any:
        return sum(jnp.sum(jnp.tanh(b) ** 3) for _, b, _ in p)

    p = [(jnp.full((4, 4), 0.1 + k), jnp.ones(4), jnp.eye(4)) for k in range(2)]
    for function, count in ((net, 0), (separate, 1)):
        jax.make_jaxpr(ej.hessian(function))(p)
        assert len(derived) == count


def test_jax_does_what_would_take_longer_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """If ours is predicted to take its compiler longer, unless calls make up for it."""

    def function(x: Any) -> Any:
        return jnp.sum(jnp.hypot(x, x[::-1] + 1) * jnp.arctan2(x, x[0] + 3))

    x = jnp.array([1.0, -0.5, 2.0])
    assert _is_own(ej.hessian(function), x)
    for limit in ("MOST_LONGER", "MOST_FIRST"):
        monkeypatch.setattr(choice, limit, 100.0)
    library.JAX.clear()
    assert not _is_own(ej.hessian(function), x)


@pytest.mark.parametrize(("rows", "is_product"), [(50, False), (80, True)])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_rows_and_columns_of_large_matrices_are_products(axis: int, rows: int, is_product: bool) -> None:
    """For which the compiler has no slow loops; small matrices are added up in loops with what comes next."""
    X = jnp.asarray(np.random.default_rng(3).normal(size=(rows, rows)), "float32")
    program = jax.jit(ej.hessian(lambda x, X: jnp.sum(jnp.sum(X, axis) * x**2)))
    x = jnp.ones(rows, "float32")
    assert (" dot(" in program.lower(x, X).compile().as_text()) == is_product
    assert program(x, X).dtype == "float32"
    np.testing.assert_allclose(program(x, X), np.diag(2 * np.asarray(X).sum(axis)), rtol=1e-4, atol=1e-5)


def test_derivatives_of_jax_are_not_read_where_the_function_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Hessian takes at least some work for each number that moves in each direction; here ours takes less."""
    x = jnp.linspace(0.5, 1.0, 200)

    def function(x: Any) -> Any:
        return jnp.sum(jnp.diff(x) ** 3 + x[1:] * x[:-1] ** 2)

    read: list[Any] = []
    written = library.Written
    monkeypatch.setattr(library, "Written", lambda *given: read.append(given) or written(*given))
    jax.make_jaxpr(ej.hessian(function))(x)
    assert not read
    monkeypatch.setattr(choice, "_is_surely_good", lambda *_: False)
    library.JAX.clear()
    jax.make_jaxpr(ej.hessian(function))(x)
    assert read


def test_known_arrays_are_made_and_given_where_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of a linear function: no entry of its Hessian depends on them, and no step before them is done twice."""
    folded: list[str] = []
    fold = constants.folded
    monkeypatch.setattr(constants, "folded", lambda eqn, given: folded.append(eqn.primitive.name) or fold(eqn, given))

    def function(x: Any) -> Any:
        return jnp.sum(jnp.cos(jnp.arange(300.0 * 300)).reshape(300, 300) @ x)

    program = jax.make_jaxpr(ej.hessian(function))(jnp.ones(300))
    assert not any(np.size(x) > 1 for x in program.consts)
    assert not {"iota", "convert_element_type"} & set(folded)
    seen = np.arange(90000.0).reshape(300, 300)  # what the function sees may be changed later

    def other(x: Any) -> Any:
        return jnp.sum(jnp.sin(x) * (jnp.broadcast_to(seen[:, :, None], (300, 300, 2))[:, :, 0] @ x))

    x = jnp.linspace(0.0, 1.0, 300)
    before = np.asarray(jax.jit(ej.hessian(other))(x))
    np.testing.assert_allclose(before, jax.hessian(other)(x), rtol=1e-9, atol=1e-6)
    seen *= 2
    np.testing.assert_allclose(jax.jit(ej.hessian(other))(x), jax.hessian(other)(x), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("is_first", [True, False])
def test_negatives_of_arrays_that_a_function_sees_are_those_arrays(is_first: bool) -> None:
    """`X p` and `(-X) p` are one product, `log_sigmoid` of both has one derivative."""
    X = jnp.asarray(np.random.default_rng(3).normal(size=(60, 20)))

    def function(p: Any) -> Any:
        one, other = (-X, X) if is_first else (X, -X)
        return jnp.sum(2 * jax.nn.log_sigmoid(one @ p) + jnp.exp(p[0]) * jax.nn.log_sigmoid(other @ p))

    p = jnp.linspace(-1.0, 1.0, 20)
    assert len(variables(ej.lower(function)(p).function)) == 2
    for of in ("grad", "hessian"):
        actual, expected = jax.jit(getattr(ej, of)(function))(p), getattr(jax, of)(function)(p)
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)


def test_hessians_of_jax_are_read_along_one_direction_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it where that is the better one: in the structure, types and values of its own."""
    x = {"a": jnp.linspace(0.1, 1.0, 6).reshape(3, 2), "b": (jnp.asarray(1.5), jnp.linspace(1.0, 2.0, 4))}
    y = jnp.array([0.3, -0.2, 0.7])

    def function(x: Any, y: Any, scale: float = 2.0) -> Any:
        a, (b, c) = x["a"], x["b"]
        return jnp.sum(jnp.sin(a @ c[:2] * y)) * b**2 + scale * jax.nn.logsumexp(c) + jnp.sum(y**3)

    monkeypatch.setattr(choice, "_is_surely_good", lambda *_: False)
    monkeypatch.setattr(choice, "_is_worse", lambda *_: True)
    monkeypatch.setattr(library, "LEAST_STEPS", 0)
    for argnums in (0, 1, (1, 0)):
        library.JAX.clear()
        actual, expected = (jax.jit(of(function, argnums))(x, y, scale=3.0) for of in (ej.hessian, jax.hessian))
        assert jax.tree_util.tree_structure(actual) == jax.tree_util.tree_structure(expected)
        for one, other in zip(*map(jax.tree_util.tree_leaves, (actual, expected)), strict=True):
            assert one.aval == other.aval
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert _is_own(ej.hessian(lambda t: function(x, t)), y)
    monkeypatch.setattr(choice, "_is_surely_good", lambda _, compiler, *others: compiler > 0.02)
    monkeypatch.setattr(whole.Along, "hessian", pytest.fail)
    library.JAX.clear()
    assert not _is_own(ej.hessian(lambda t: jnp.sum(jnp.sin(t * jnp.sum(t)))), y)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_whole_numbers_and_keys_are_folded_as_by_jax() -> None:
    def function(x: Any) -> Any:
        key = jax.random.split(jax.random.key(3), 2)[1]
        places = jnp.cumsum(jnp.arange(5)) % 3
        noise = jax.random.uniform(key, (5,)) + jnp.floor(jnp.log(8.0) / jnp.log(2.0))
        return jnp.sum((x[places] * noise) ** 3)

    x = jnp.array([1.0, -0.5, 2.0])
    np.testing.assert_allclose(jax.jit(ej.grad(function))(x), jax.grad(function)(x), rtol=1e-12)


def test_what_stores_much_less_is_left_to_jax() -> None:
    """Sums over all that comes later: a triangle of ones, where JAX adds up entry by entry."""
    X = jnp.asarray(np.random.default_rng(3).normal(size=(200, 4)))

    def risk(w: jax.Array) -> jax.Array:
        return -jnp.sum(X @ w - jnp.log(jnp.cumsum(jnp.exp(X @ w)[::-1])[::-1]))

    w = jnp.ones(4) / 10
    for ours, theirs in (
        (ej.grad(risk), jax.grad(risk)),
        (lambda w: ej.hvp(risk)(w, tangents=w), lambda w: jax.jvp(jax.grad(risk), (w,), (w,))[1]),
    ):
        sizes = [jax.jit(f).lower(w).compile().memory_analysis().temp_size_in_bytes for f in (ours, theirs)]
        assert sizes[0] <= 2 * sizes[1]


def test_results_of_numpy_are_given_to_jax_as_copies_that_need_no_compiler() -> None:
    data = np.arange(64.0)
    slope = ej.value_and_grad(lambda x, a: (jnp.sum(x * a), {"twice": 2 * x}), has_aux=True)
    x, events = jnp.ones(64), list[str]()
    slope(x, data)
    jax.monitoring.register_event_duration_secs_listener(listener := lambda event, *_, **__: events.append(event))
    (value, aux), gradient = slope(x, data)
    jax.monitoring.unregister_event_duration_listener(listener)
    data[:] = 0
    assert not events
    assert (float(value), float(aux["twice"][0]), float(gradient[-1])) == (2016.0, 2.0, 63.0)

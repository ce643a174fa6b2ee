"""Slices, places, gathers and scatters in compiled programs: those of the interpreter, of NumPy and of JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff as ed
import eindiff.jax
from backend_libraries import Library, cupy_or_stand_in, every_library  # noqa: F401 (fixtures)
from eindiff.core import construct, sizes
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Expr
from eindiff.program.interpreter import evaluate
from index_programs import SIZES, OutOfRangeError, arrays_for, random_program

RTOL = 1e-9

x, y = ed.vector("x", "n"), ed.vector("y", "m")
A = ed.matrix("A", "m", "n")
u = ed.vector("u", 4)


def assert_close(actual: object, expected: np.ndarray, context: object = "") -> None:
    scale = max(1.0, np.max(np.abs(expected), initial=0))
    np.testing.assert_allclose(actual, expected, RTOL, RTOL * scale, err_msg=str(context))


# Maps that share labels


def cholesky(l: jax.Array) -> jax.Array:
    lower = jnp.zeros((3, 3)).at[jnp.tril_indices(3)].set(l)
    return lower.at[jnp.diag_indices(3)].set(jnp.exp(jnp.diag(lower)))


def gaussian(l: jax.Array) -> jax.Array:
    return (jnp.linalg.solve(cholesky(l), jnp.arange(3.0)) ** 2).sum() + jnp.log(jnp.diag(cholesky(l))).sum()


def convolved(a: jax.Array) -> jax.Array:
    return (jnp.convolve(a, jnp.array([1.0, 10.0]), mode="valid") ** 2).sum()


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
def test_cholesky_parametrization(name: str) -> None:
    at = jnp.arange(1.0, 7)
    assert_close(getattr(eindiff.jax, name)(cholesky)(at), np.asarray(getattr(jax, name)(cholesky)(at)))


@pytest.mark.parametrize("function", [gaussian, lambda l: (cholesky(l) ** 2).sum(), convolved])
def test_functions_of_scattered_entries(function: Callable) -> None:
    at = jnp.array([0.3, -0.4, 0.5, 0.2, 0.1, -0.6])
    assert_close(eindiff.jax.grad(function)(at), np.asarray(jax.grad(function)(at)))
    hessian = np.asarray(jax.hessian(function)(at))
    assert_close(eindiff.jax.hessian(function)(at), hessian)
    assert_close(eindiff.jax.hessian_diagonal(function)(at), np.diag(hessian))


def _map(size: int | str, inputs: tuple, *rest: object) -> Expr:
    return construct.constant(IndexMap(size, inputs, *rest))  # type: ignore[arg-type]


WINDOWS = _map(4, (3, 2), 0, (1, 1))
TAKEN = _map(4, (3,), 0, (), (2, 0, 2))
TABLE = _map(4, (2, 2), 0, (), (3, 1, 0, 1))
SHIFT = _map(4, (3,), 1, (1,))


@pytest.mark.parametrize(
    "expr",
    [
        ed.einsum("kij,kil,k->jl", WINDOWS, WINDOWS, u),  # two maps into one label, that share an input
        ed.einsum("kij,lij,k,l->i", WINDOWS, WINDOWS, u, u),
        ed.einsum("kij,kli,k->jl", WINDOWS, _map(4, (2, 3), 0, (1, 1)), u),
        ed.einsum("ki,kij->j", TAKEN, WINDOWS),  # nothing but maps
        ed.einsum("ki,kj,ij->k", TAKEN, SHIFT, np.arange(9.0).reshape(3, 3)),
        ed.einsum("ki,kj,li,lj->kl", TAKEN, SHIFT, SHIFT, TAKEN),
        ed.einsum("kii,k->i", TABLE, u),  # the diagonal of a table of places
        ed.einsum("kii->k", WINDOWS[:, :2]),
        ed.einsum("kij,kji,k->ij", TABLE, TABLE, u),
        ed.einsum("kkj->j", _map(2, (2, 3), 0, (0, 0))),  # a map into its own label
        ed.einsum("ki,il,k->l", TAKEN, _map(3, (2,), 1, (-1,)), u),
        ed.einsum("ki,i->k", _map(4, (3,), 2, (0,)), np.arange(3.0)),  # a stride that is 0
        ed.einsum("kij,ij->k", _map(4, (2, 2), 1, (1, -1)), np.arange(4.0).reshape(2, 2)),
        ed.einsum("kii->k", _map(4, (2, 2), 1, (1, -1))),
        ed.diag(u)[[1, 0, 2]][-2:].reshape(-1),
    ],
)
def test_networks_of_maps(library: Library, expr: Expr) -> None:
    arrays = {"u": np.arange(1.0, 5)}
    expected = evaluate(expr, arrays)
    [actual] = library.values(expr, arrays)
    assert_close(actual, expected, expr)


def test_interpreter_of_networks() -> None:
    """One of them as loops over arrays of zeros and ones, which no map takes part in."""
    dense = np.zeros((4, 3, 2))
    for i in range(3):
        for j in range(2):
            dense[i + j, i, j] = 1
    at = np.arange(1.0, 5)
    found = evaluate(ed.einsum("kij,kil,k->jl", WINDOWS, WINDOWS, u), {"u": at})
    np.testing.assert_array_equal(found, np.einsum("kij,kil,k->jl", dense, dense, at))


# Places counted from the end

FROM_END: list[tuple[Callable, Callable]] = [
    (lambda x, A: x[-1] ** 2, lambda x, A: x[-1] ** 2),
    (lambda x, A: x[::-1][0] * x[1], lambda x, A: x[-1] * x[1]),
    (lambda x, A: ed.kron(x, x)[-1], lambda x, A: x[-1] ** 2),
    (lambda x, A: ed.sum(A[:, -2] ** 3), lambda x, A: (A[:, -2] ** 3).sum()),
    (lambda x, A: A[-1] @ A[0] + A[-1, -1] ** 2, lambda x, A: A[-1] @ A[0] + A[-1, -1] ** 2),
    (lambda x, A: ed.sum(x[-3:-1] ** 2 * x[-2:]), lambda x, A: (x[-3:-1] ** 2 * x[-2:]).sum()),
    (lambda x, A: ed.sum(x[:-1][::-1] * x[1:] ** 2), lambda x, A: (x[:-1][::-1] * x[1:] ** 2).sum()),
    (lambda x, A: ed.concatenate([x, x**2])[-2] * x[-2], lambda x, A: x[-2] ** 3),
]


@cache
def _from_end(which: int, n: int) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """A point, and the value, gradients and Hessians there by JAX."""
    rng = np.random.default_rng(n)
    arrays = {"x": rng.normal(size=n), "A": rng.normal(size=(2, n))}

    def function(at: dict) -> jax.Array:
        return FROM_END[which][1](at["x"], at["A"])

    gradient, hessian = jax.grad(function)(arrays), jax.hessian(function)(arrays)
    return arrays, [function(arrays), *(gradient[v] for v in "xA"), *(hessian[v][v] for v in "xA")]


@pytest.mark.parametrize(("which", "n"), [(which, 3 + which % 3) for which in range(len(FROM_END))])
def test_places_from_the_end(library: Library, which: int, n: int) -> None:
    arrays, expected = _from_end(which, n)
    value = FROM_END[which][0](x, A)
    outputs = [value, *(ed.gradient(value, v) for v in (x, A)), *(ed.hessian(value, v) for v in (x, A))]
    for actual, wanted, output in zip(library.values(outputs, arrays), expected, outputs, strict=True):
        assert_close(actual, np.asarray(wanted), output)


def test_a_variable_that_is_only_derived_by_shows_its_sizes() -> None:
    gradient = ed.gradient(x[-1] ** 2, A)
    assert ed.compile(gradient)(x=np.ones(3), A=np.ones((2, 3))).shape == (2, 3)
    assert evaluate(gradient, {"x": np.ones(3), "A": np.ones((2, 3))}).shape == (2, 3)


def test_sources_count_from_the_end() -> None:
    source: dict = {}
    exec(ed.to_source(ed.gradient(x[-1] ** 2 * x[-2:][0], x)), source)
    np.testing.assert_allclose(source["f"](np.array([1.0, 2, 3])), [0, 9, 12])


# Slices and lists beyond a size that is known when arrays are there

BEYOND = [
    (x[1:4], "x[1:4] needs n >= 4, but n = 2"),
    (ed.mean(x[0:4]), "sum(x[:4]) needs n >= 4, but n = 2"),
    (x[[0, 5]], "x[[0, 5]] needs n >= 6, but n = 2"),
    (x[3], "x[3] needs n >= 4, but n = 2"),
    (x[-3], "x[-3] needs n >= 3, but n = 2"),
    (x[3:], "x[3:] needs n >= 3, but n = 2"),
    (x[:-3], "n - 3] needs n >= 3, but n = 2"),
    (x[-3:-1], "needs n >= 3, but n = 2"),
    (A[:, 2] @ y, "A[:, 2] needs n >= 3, but n = 2"),
    (x[:-1][1:3] * x[0], "needs n >= 4, but n = 2"),  # of which x[1:3] alone would know too little
    (ed.gradient(ed.sum(ed.exp(x[1:4])), x), "needs n >= 4, but n = 2"),
    (ed.hessian(x[2] ** 3, x), "x[2] needs n >= 3, but n = 2"),
    (ed.laplacian(ed.sum(x[0:4] ** 2), x), "needs n >= 4, but n = 2"),
    (ed.hessian_diagonal(x[-3] ** 2, x), "needs n >= 3, but n = 2"),
    (ed.concatenate([x, y])[4], "needs m + n >= 5, but m = 2 and n = 2"),
]
ARRAYS = {"x": np.ones(2), "y": np.ones(2), "A": np.ones((2, 2))}


@pytest.mark.parametrize(("expr", "message"), BEYOND)
def test_beyond_the_end(library: Library, expr: Expr, message: str) -> None:
    with pytest.raises(ed.EindiffError) as raised:
        evaluate(expr, ARRAYS)
    assert message in str(raised.value)
    with pytest.raises(ed.EindiffError) as raised:
        library.values(expr, ARRAYS)
    assert message in str(raised.value)


@pytest.mark.parametrize(("expr", "message"), BEYOND)
def test_beyond_the_end_everywhere_else(expr: Expr, message: str) -> None:
    known = {"m": 2, "n": 2}
    calls: list[Callable] = [
        lambda: ed.plan(expr, known), lambda: ed.compile(expr, sizes=known), lambda: ed.compile(expr).plan(known),
        lambda: ed.compile(expr, form="structured")(**ARRAYS),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ed.EindiffError, match=r"needs .* >= "):
            call()
    source: dict = {}
    exec(ed.to_source(expr), source)
    names = [v.name for v in ed.variables(expr)]
    with pytest.raises(AssertionError, match=r"needs .* >= "):
        source["f"](*(ARRAYS[name] for name in names), **({} if names else {"n": 2}))


def test_sizes_that_fit_are_found_for_checks() -> None:
    assert ed.check(x[3] * x[-5] + ed.sum(x[4:] ** 2), x).passed


def test_a_program_is_not_shared_with_sizes_that_do_not_fit() -> None:
    """Sizes 4 to 7 share a program, not the places that they have."""
    compiled = ed.compile(ed.gradient(x[5] ** 2, x))
    np.testing.assert_array_equal(compiled(x=np.ones(7)), [0, 0, 0, 0, 0, 2, 0])
    with pytest.raises(ed.EindiffError, match="n >= 6, but n = 5"):
        compiled(x=np.ones(5))


def test_axes_without_entries() -> None:
    for n, wanted in ((1, [0.0]), (3, [6.0, 4.0, 0.0])):
        at = np.arange(1.0, n + 1)
        gradient = ed.gradient(ed.sum(x[:-1] * x[1:][::-1]), x)
        expected = np.zeros(n)
        expected[:-1] += at[1:][::-1]
        expected[1:] += at[:-1][::-1]
        np.testing.assert_array_equal(ed.compile(gradient)(x=at), expected)
        np.testing.assert_array_equal(ed.compile(ed.gradient(ed.sum(x[:-1][::-1] ** 2), x))(x=at)[-1:], wanted[-1:])
    diagonal = ed.diag(ed.concatenate([x, y])).reshape(-1)  # entries of x at a stride of m + n + 1
    source: dict = {}
    exec(ed.to_source(diagonal), source)
    for function in (source["f"], ed.compile(diagonal)):
        np.testing.assert_array_equal(function(x=np.ones(0), y=np.array([1.0, 2])), [1, 0, 0, 2])
    reverse = ed.compile(ed.concatenate([y, x])[::-1])
    np.testing.assert_array_equal(reverse(x=np.ones(0), y=np.array([1.0, 2])), [2, 1])


# What a size is


@pytest.mark.parametrize("size", ["n/2", "n**2", "n+", "f(n)", 2.5, -1, "2.5", None])
def test_what_is_no_size(size: object) -> None:
    for call in (lambda: ed.ones(size), lambda: ed.eye(size), lambda: ed.einsum("->i", sizes={"i": size})):  # type: ignore
        with pytest.raises(ed.EindiffError, match="a size is a whole number, a name, or a sum or product of those"):
            call()


@pytest.mark.parametrize("text", ["sum(x[0:n/2])", "ones(n/2)", "x[n/2]", "reshape(x, n/2, 2)", "ones((n - 1)/2)"])
def test_fractions_of_sizes_in_text(text: str) -> None:
    with pytest.raises(ed.EindiffError, match="expected a size or a whole number here"):
        ed.parse(text)


@pytest.mark.parametrize("bound", [1.5, "n/2"])
def test_bounds_of_slices(bound: object) -> None:
    with pytest.raises(ed.EindiffError):
        x[0:bound]  # type: ignore[misc]
    with pytest.raises(ed.EindiffError, match="a step is not 0"):
        u[::0]


def test_sizes_as_people_write_them() -> None:
    assert ed.ones("n-1") is ed.ones("n - 1")
    assert x[0:"n-1"] is x[:-1]
    assert sizes.read("2*(m + n) - min(m, n)") == sizes.subtract("2*m + 2*n", "min(m,n)")
    assert ed.reshape(ed.outer(x, u), "n * 4").shape == ("4*n",)


@pytest.mark.parametrize("value", [2.5, -1, "3", None])
def test_values_of_sizes(value: object) -> None:
    given = {"n": value}
    for call in (
        lambda: evaluate(ed.ones("n"), {}, given), lambda: ed.compile(ed.ones("n"))(sizes=given),
        lambda: ed.compile(ed.ones("n"), sizes=given), lambda: ed.plan(ed.ones("n"), given),
    ):  # fmt: skip
        with pytest.raises(ed.EindiffError, match="the size n is a whole number from 0 on"):
            call()


def test_a_slice_with_a_named_stride_reaches_the_end() -> None:
    last = ed.kron(ed.concatenate([x[-1:], x[:-1]]), ed.concatenate([x[-1:], x[:-1]]))[-1]
    gradient = ed.compile(ed.gradient(last, x))(x=np.array([1.0, 2.0, 3.0]))
    assert gradient.tolist() == [0.0, 4.0, 0.0]


# Random programs


def check_random(seed: int, library: Library | None = None) -> None:
    program = random_program(seed)
    random = Random(seed)
    for _ in range(2):
        known = {"m": random.choice(SIZES), "n": random.choice(SIZES)}
        known["m"] = known["m"] if known["n"] else 0  # there are no indices of nothing
        arrays = arrays_for(known, seed)
        try:
            expected = program.expected(known, arrays)
        except (OutOfRangeError, ValueError):  # reshapes and sums of arrays that do not fit, at these sizes
            expected = {}
        for name, expr in program.outputs().items():
            context = f"{name} of {program} at {known}"
            try:
                value = evaluate(expr, arrays, known)
            except ed.EindiffError:
                assert not expected, context
                with pytest.raises(ed.EindiffError):
                    ed.compile(expr, backend=library and library.name)(
                        **library.arrays(arrays) if library else arrays, sizes=known
                    )
                continue
            if name in expected:
                assert_close(value, expected[name].real, context)
            compiled = ed.compile(expr, backend=library and library.name)
            result = compiled(**library.arrays(arrays) if library else arrays, sizes=known)
            assert_close(library.to_numpy(result) if library else result, value, context)


@pytest.mark.parametrize("first", range(0, 300, 10))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 10):
        check_random(seed)


@pytest.mark.parametrize("seed", range(400, 412))
def test_random_programs_of_higher_order(library: Library, seed: int) -> None:
    """Derivatives of order 1 to 3 are those of JAX."""
    check_orders(seed, library)


@cache
def _orders(seed: int) -> tuple[list[Expr], dict[str, np.ndarray], dict[str, int], list[np.ndarray]] | None:
    """A tensor and its derivatives, where they are computed, and the values by JAX; None if it does not fit."""
    program = random_program(seed, 5)
    known = {"m": 2 + seed % 2, "n": 4}
    arrays = arrays_for(known, seed)
    tensor = program.outputs()["tensor"]
    v = next((v for v in ed.variables(tensor) if v.name == program.by), None)
    if v is None or tensor.ndim > 2 or v.ndim * 3 + tensor.ndim > 6:
        return None
    try:
        expected = program.orders(known, arrays, 3)
    except (OutOfRangeError, ValueError, TypeError):
        return None
    return [ed.derivative(tensor, *[v] * order) if order else tensor for order in range(4)], arrays, known, expected


def check_orders(seed: int, library: Library | None = None) -> None:
    if (found := _orders(seed)) is None:
        return
    outputs, arrays, known, expected = found
    compiled = ed.compile(outputs, backend=library and library.name)
    results = compiled(**library.arrays(arrays) if library else arrays, sizes=known)
    values = zip(evaluate(outputs, arrays, known), results, expected, strict=True)
    for order, (value, result, wanted) in enumerate(values):
        context = f"order {order} of {outputs[0]} at {known}"
        assert_close(value, wanted, context)
        assert_close(library.to_numpy(result) if library else result, wanted, context)


def test_random_programs_in_all_libraries(library: Library) -> None:
    for seed in range(300, 306):
        check_random(seed, library)


def test_large_tables_stand_beside_programs(library: Library) -> None:
    """The source of a program names them, and does not list them; people get a source with all that it needs."""
    places = np.random.default_rng(0).integers(0, 50, 5000)
    v = ed.vector("v", 50)
    f = ed.sum(ed.exp(v[places]) * v[places])
    at = np.linspace(-1, 1, 50)
    [found] = library.values([ed.gradient(f, v)], {"v": at})
    assert_close(found, np.bincount(places, minlength=50) * np.exp(at) * (1 + at))
    assert len(ed.compile(f).source) < 2000
    assert "table_" not in ed.to_source(f)


def test_few_entries_of_a_sum_are_read_before_they_are_added() -> None:
    """`x[3] + y[3]` and `(x + y)[3]` are one expression, of which the cheaper program is written."""
    v, w, places = ed.vector("v", 100_000), ed.vector("w", 100_000), ed.indices("places", "k", into=100_000)
    sizes = {"k": 5}
    for expr in (v[3] + w[3], (v + w)[3], v[places] + w[places]):
        source = ed.compile(expr, sizes=sizes).source
        assert "w + v" not in source
        assert "v + w" not in source
    at = {"v": np.arange(1e5), "w": np.ones(100_000), "places": np.array([5, 5, 99_999, 0, 7])}
    assert_close(ed.compile(v[places] + w[places])(**at), np.array([6.0, 6, 1e5, 1, 8]))

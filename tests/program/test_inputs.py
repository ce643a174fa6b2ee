"""What is given for variables: types and libraries of results, what is refused, and declared properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.experimental import sparse as jax_sparse
from scipy import sparse

import eindiff as ed
import eindiff.jax
import eindiff.torch
from eindiff.program import inputs

jax.config.update("jax_enable_x64", True)

x, y, s = ed.vector("x", "n"), ed.vector("y", 3), ed.scalar("s")
A = np.random.default_rng(0).normal(size=(5, 5))

# Constant results

CONSTANTS = {
    "ones": ed.gradient(ed.sum(x), x),
    "ones of a known size": ed.gradient(ed.sum(y), y),
    "numbers": ed.gradient(y @ np.array([1.0, 2.0, 3.0]), y),
    "one over a size": ed.gradient(ed.mean(x), x),
    "identity": ed.hessian(x @ x, x),
    "zeros": ed.hessian(ed.sum(x), x),
    "order 3": ed.derivative(ed.sum(x**3), x, x, x),
    "a number": ed.gradient(2 * s, s),
    "zero": ed.hessian(s, s),
    "a size": ed.laplacian(x @ x, x),
    "half a size": ed.laplacian(x @ x / 4, x),
}
POINT = {"x": np.arange(1.0, 4.0), "y": np.arange(3.0), "s": np.array(2.0)}


def _tensorflow(array: np.ndarray) -> Any:
    return pytest.importorskip("tensorflow").constant(array)


LIBRARIES: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": np.asarray, "jax": jnp.asarray, "torch": torch.asarray, "tensorflow": _tensorflow,
}  # fmt: skip


def _given(library: str, dtype: Any) -> dict[str, Any]:
    return {name: LIBRARIES[library](array.astype(dtype)) for name, array in POINT.items()}


def _is_like(result: Any, library: str, dtype: str) -> bool:
    own = type(result).__module__.partition(".")[0]
    return own in (library, f"{library}lib") and str(getattr(result.dtype, "name", result.dtype)).endswith(dtype)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_like_the_arrays(library: str, name: str) -> None:
    output = CONSTANTS[name]
    given = _given(library, np.float32)
    expected = ed.evaluate(output, POINT)
    function = ed.compile(output)
    assert _is_like(function(**POINT), "numpy", "float64")
    for results in (function(**given), ed.compile([output, output])(**given)[1]):
        assert _is_like(results, library, "float32")
        np.testing.assert_allclose(np.asarray(results), expected, rtol=1e-6)
    structured = ed.compile(output, form="structured")(**given)
    assert structured.dtype == np.float32 and structured.as_tensor().dtype == np.float32
    assert ed.evaluate(output, given).dtype == np.float32
    assert _is_like(function(**POINT), "numpy", "float64")


def test_constants_beside_other_results() -> None:
    outputs = [x @ x, ed.gradient(x @ x, x), ed.hessian(x @ x, x), ed.gradient(s * 3, s)]
    for library in LIBRARIES:
        for result in ed.compile(outputs)(**_given(library, np.float32)):
            assert _is_like(result, library, "float32")
    assert {result.dtype for result in ed.evaluate(outputs, _given("numpy", np.float32))} == {np.dtype(np.float32)}


def test_constants_are_on_the_device_of_the_arrays() -> None:
    function = ed.compile([CONSTANTS["ones"], CONSTANTS["identity"]])
    for device in ("cpu", "meta", "cpu"):
        ones, identity = function(x=torch.ones(3, device=device))
        assert ones.device.type == identity.device.type == device


def test_constants_inside_of_transformations() -> None:
    function = ed.compile(CONSTANTS["ones"])
    assert jax.jit(lambda v: function(x=v))(jnp.ones(3, jnp.float32)).dtype == jnp.float32
    assert jax.vmap(lambda v: function(x=v))(jnp.ones((2, 3))).shape == (2, 3)
    assert torch.func.vmap(lambda v: function(x=v))(torch.ones(2, 3)).shape == (2, 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"x": np.ones(3, np.float32), "s": 2.0}, "float32"),  # numbers of Python have no type of their own
        ({"x": np.ones(3, np.float32), "s": np.float64(2)}, "float64"),
        ({"x": np.ones(3, np.float32), "s": np.array(2)}, "float32"),
        ({"x": np.ones(3, np.float16), "s": np.float32(2)}, "float32"),
        ({"x": np.ones(3, int), "s": 2}, "float64"),
        ({"x": np.ones(3, bool), "s": np.float32(2)}, "float32"),
        ({"x": [1.0, 2.0, 3.0], "s": np.float32(2)}, "float64"),
        ({"x": np.ones(3, ">f4"), "s": np.float32(2)}, "float32"),
    ],
)
def test_types_of_results(given: dict[str, Any], expected: str) -> None:
    for output in (s * x, [s * x, ed.sum(x) * s]):
        results = ed.compile(output)(**given), ed.evaluate(output, given)
        assert {str(one.dtype) for result in results for one in (result if isinstance(result, list) else [result])} == {
            expected
        }


def test_front_ends_keep_types() -> None:
    single = np.ones(3, np.float32)
    for function in (eindiff.jax.hessian, eindiff.jax.grad, eindiff.jax.jacfwd):
        result = function(lambda v: v.sum())(jnp.asarray(single))
        assert isinstance(result, jax.Array) and result.dtype == jnp.float32
    for function in (eindiff.torch.hessian, eindiff.torch.grad, eindiff.torch.jacfwd):
        assert function(lambda v: v.sum())(torch.asarray(single)).dtype == torch.float32
    for derivative in (ed.gradient, ed.hessian):
        assert derivative(lambda v: np.sum(v))(single).dtype == np.float32
        assert derivative(lambda v: v**2)(np.float32(3)).dtype == np.float32
        assert derivative(lambda v: v**2)(3.0).dtype == np.float64
    assert ed.gradient(lambda v, c: np.sum(c * v))(single, 0.5).dtype == np.float32
    assert ed.gradient(lambda v, c: np.sum(c * v))(single, np.float64(0.5)).dtype == np.float64


# What is refused


def _no_arrays() -> dict[str, tuple[Any, str]]:
    return {
        "masked": (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), "masked entries"),
        "objects": (np.array([1, None, 2]), "object"),
        "text": (np.array(["a", "b", "c"]), "<U1"),
        "dates": (np.array(["2020", "2021", "2022"], "M8[D]"), "datetime64"),
        "complex": (np.array([1j, 2, 3]), "complex128"),
        "fields": (np.zeros(3, [("a", float)]), "'a'"),
        "ragged": ([[1], [1, 2], [3]], "is no array"),
        "sparse": (sparse.csr_array(np.eye(3)), "csr_array"),
        "nothing": (None, "NoneType"),
        "half": (np.ones(3, np.float16), "float16: use float32 or float64"),
        "extended": (np.ones(3, np.longdouble), f"{np.dtype(np.longdouble)}: use float32 or float64"),
        "sparse in JAX": (jax_sparse.BCOO.fromdense(jnp.ones(3)), "is a BCOO: make it a dense array"),
        "sparse in PyTorch": (torch.ones(3).to_sparse(), "make it a dense array"),
    }


@pytest.mark.parametrize("name", _no_arrays())
def test_what_is_no_array_of_real_numbers(name: str) -> None:
    given, message = _no_arrays()[name]
    function = ed.compile(x + 1)
    function(x=np.ma.array([1.0, 2.0, 3.0]))  # nothing is masked
    function(x=np.ones(3))
    with pytest.raises(ed.EindiffError, match=f"x .*{message}"):
        function(x=given)
    if not name.startswith("sparse in"):
        with pytest.raises(ed.EindiffError, match=f"x .*{message}"):
            ed.evaluate(x + 1, {"x": given})


@pytest.mark.parametrize("f", [lambda v: np.sum(v**2), np.sum])
def test_masked_arguments_of_functions(f: Callable) -> None:
    with pytest.raises(ed.EindiffError, match="masked"):
        ed.gradient(f)(np.ma.array([1.0, 2.0], mask=[0, 1]))


# Declared properties


def _declared(name: str) -> tuple[ed.Variable, ed.Expr]:
    if name == "positive":
        variable = ed.vector("V", "n", name)
        return variable, ed.sum(ed.log(variable) * x)
    variable = ed.matrix("V", "n", "n", name)
    return variable, x @ variable @ x


Q = np.linalg.qr(A)[0]
SCALES = np.diag([1e6, 1e3, 1.0, 1e-3, 1e-6])
RIGHT = {
    "symmetric": [A + A.T, 1e-200 * (A + A.T), 1e200 * (A + A.T), SCALES @ (A + A.T) @ SCALES, 0 * A,
                  np.eye(5, dtype=int), (A + A.T).astype(np.float32), np.diag([np.inf, 1, 1, 1, 1]),
                  (A + A.T) * (1 + 1e-9 * A), np.asfortranarray(A + A.T), np.repeat(A + A.T, 2, 1)[:, ::2]],
    "psd": [A @ A.T, A[:, :1] @ A[:, :1].T, 0 * A, np.eye(5), SCALES @ A @ A.T @ SCALES, (A @ A.T).astype(np.float32),
            (A[:, :2] @ A[:, :2].T).astype(np.float32), 1e-300 * np.eye(5), np.linalg.inv(A @ A.T)],
    "orthogonal": [Q, Q.T, -Q, np.eye(5)[[1, 0, 3, 4, 2]], Q.astype(np.float32), Q.astype(np.float32).astype(float)],
    "positive": [np.ones(5), np.full(5, 1e-300), np.arange(1, 6), np.ones(5, np.float32), np.full(5, np.inf)],
}  # fmt: skip
BLOCKS = np.diag([1e10, 1e10, 1e10, 1.0, 1.0])
WRONG = {
    "symmetric": [A, 1e-12 * A, (A + A.T) + 1e-4 * np.eye(5, k=1), np.nan * np.eye(5), BLOCKS + np.eye(5, k=1),
                  A.astype(np.float32), np.arange(25).reshape(5, 5), (A + A.T) * (1 + 1e-4 * A)],
    "psd": [A, A + A.T, -np.eye(5), A @ A.T - 10 * np.eye(5), np.diag([1e10, 1, 1, 1, -1]), np.nan * np.eye(5),
            BLOCKS + 2 * (np.eye(5, k=4) + np.eye(5, k=-4)) * 1e5, np.eye(5, k=4) + np.eye(5, k=-4),
            np.diag([np.inf, 1, 1, 1, 1]), -1e-200 * np.eye(5)],
    "orthogonal": [A, 2 * Q, Q + 1e-4, np.nan * Q, 0 * Q, Q[:, [0, 0, 1, 2, 3]], np.diag([1.0, 1, 1, 1, 0])],
    "positive": [np.zeros(5), np.arange(5), -np.ones(5), np.array([1, 1, 1, 1, np.nan]),
                 np.array([1, 1, -1e-300, 1, 1])],
}  # fmt: skip


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, arrays in RIGHT.items() for k in range(len(arrays))])
def test_arrays_with_the_declared_property(name: str, k: int) -> None:
    variable, output = _declared(name)
    given = {"V": RIGHT[name][k], "x": np.ones(5)}
    expected = given["x"] @ given["V"] @ given["x"] if variable.ndim == 2 else np.log(given["V"]).sum()
    for result in (ed.evaluate(output, given), ed.compile(output)(**given)):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-13 * np.abs(given["V"]).max())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("name", "k"), [(name, k) for name, arrays in WRONG.items() for k in range(len(arrays))])
def test_arrays_without_the_declared_property(name: str, k: int, library: str) -> None:
    _, output = _declared(name)
    right, wrong = ({"V": arrays[name][k if arrays is WRONG else 0] * 1.0} for arrays in (RIGHT, WRONG))
    function, convert = ed.compile(output), LIBRARIES[library]
    function(V=convert(right["V"]), x=convert(np.ones(5)))
    with pytest.raises(ed.EindiffError, match=f"V is declared {name}, but its array"):
        function(V=convert(wrong["V"]), x=convert(np.ones(5)))
    with pytest.raises(ed.EindiffError, match=f"V is declared {name}, but its array"):
        ed.evaluate(output, {**wrong, "x": np.ones(5)})


@pytest.mark.parametrize("size", [2, 40, 300])
@pytest.mark.parametrize("name", ["symmetric", "psd", "orthogonal"])
def test_changes_in_place_are_noticed(name: str, size: int) -> None:
    generator = np.random.default_rng(size)
    root = generator.normal(size=(size, size))
    matrix = np.linalg.qr(root)[0] if name == "orthogonal" else root @ root.T + np.eye(size)
    _, output = _declared(name)
    function = ed.compile(output)
    for _ in range(20):
        function(V=matrix, x=np.ones(size))
        i, j = generator.integers(size, size=2)
        before = matrix[i, j]
        matrix[i, j] += -1 - abs(matrix).max() * size if name == "psd" or i == j else 0.01
        if i != j or name != "symmetric":
            with pytest.raises(ed.EindiffError, match=f"V is declared {name}"):
                function(V=matrix, x=np.ones(size))
        matrix[i, j] = before


@pytest.mark.parametrize("seed", range(40))
def test_semidefinite_matrices_are_told_from_others(seed: int) -> None:
    """The eigenvalues are known from how the matrix is made; the smallest one is clearly negative, or only rounded."""
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 30))
    basis = np.linalg.qr(generator.normal(size=(size, size)))[0]
    values = 10.0 ** generator.uniform(-12, 0, size) * (generator.random(size) < 0.7)
    values[0], values[1] = 1.0, generator.choice([-1e-6, -1e-3, -1, -1e-16, 0, 1e-9])
    matrix = (basis * values) @ basis.T
    _, output = _declared("psd")
    given = {"V": generator.choice([1e-8, 1.0, 1e8]) * (matrix + matrix.T), "x": np.ones(size)}
    if values[1] > -1e-15:
        assert np.isfinite(ed.compile(output)(**given))
    else:
        with pytest.raises(ed.EindiffError, match="V is declared psd, but its array has the eigenvalue -"):
            ed.compile(output)(**given)


def test_properties_of_what_has_dropped_out() -> None:
    v, R = ed.vector("v", "n", "positive"), ed.matrix("R", "n", "n", "psd")
    slope, unit = ed.gradient(ed.sum(ed.abs(v)), v), ed.gradient(ed.tr(R), R)
    for output, name, wrong in ((slope, "v", -np.ones(3)), (unit, "R", -np.eye(3))):
        with pytest.raises(ed.EindiffError, match=f"{name} is declared"):
            ed.compile(output)(**{name: wrong})
        with pytest.raises(ed.EindiffError, match=f"{name} is declared"):
            ed.evaluate(output, {name: wrong})
        ed.compile(output)(**{name: -wrong})
        ed.compile(output)(sizes={"n": 3})


def test_declared_properties_are_looked_at_unless_asked_not_to() -> None:
    _, output = _declared("symmetric")
    given = {"V": A, "x": np.ones(5)}
    assert not np.allclose(A, A.T)
    for run in (lambda **how: ed.evaluate(output, given, **how), lambda **how: ed.compile(output, **how)(**given)):
        with pytest.raises(ed.EindiffError, match="V is declared symmetric"):
            run()
        assert np.isfinite(run(validate=False))
    places = ed.indices("p", "k", into="n")
    with pytest.raises(ed.EindiffError, match="indices are from 0"):
        ed.evaluate(ed.vector("x", "n")[places], {"x": np.ones(3), "p": np.array([5])}, validate=False)


def test_what_is_traced_is_not_looked_at() -> None:
    _, output = _declared("symmetric")
    function = ed.compile(output)
    assert np.isfinite(jax.jit(lambda V: function(V=V, x=jnp.ones(5)))(jnp.asarray(A)))
    assert torch.func.vmap(lambda V: function(V=V, x=torch.ones(5).double()))(torch.asarray(A)[None]).shape == (1,)
    assert function(V=torch.asarray(A, device="meta"), x=torch.ones(5, device="meta").double()).shape == ()


def test_a_matrix_is_factorized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, output = _declared("psd")
    function, calls = ed.compile(output), []
    cholesky = np.linalg.cholesky
    monkeypatch.setattr(inputs.np.linalg, "cholesky", lambda matrix: calls.append(1) or cholesky(matrix))
    matrix = A @ A.T + 0.125 * np.eye(5)
    for given in (matrix, matrix.copy(), matrix):
        function(V=given, x=np.ones(5))
    assert len(calls) == 1
    for k in range(2 * inputs.REMEMBERED):
        function(V=matrix + k * np.eye(5), x=np.ones(5))
    assert len(inputs._passed) <= inputs.REMEMBERED


@pytest.mark.parametrize("name", ["symmetric", "psd", "orthogonal"])
def test_arrays_without_entries(name: str) -> None:
    _, output = _declared(name)
    assert ed.compile(output)(V=np.ones((0, 0)), x=np.ones(0)) == 0


def test_a_full_matrix_for_a_diagonal_one_is_refused_with_what_to_give() -> None:
    expr = ed.parse("inv(D)*b", "D(n,n) diagonal; b(n)")
    for call in (lambda **given: ed.evaluate(expr, given), ed.compile(expr)):
        with pytest.raises(ed.EindiffError, match=r"D is declared n, .* 3×3; of a diagonal matrix the diagonal is"):
            call(D=np.eye(3), b=np.ones(3))

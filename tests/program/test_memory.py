"""Large arrays are changed in place and written into again: the same numbers, with little new memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eindiff as ed
from eindiff.planning import tuning
from eindiff.program.interpreter import evaluate
from eindiff.structure.compile import _compiled
from models import net

LOSSES = {
    "sigmoid net": "sum(sigmoid(sigmoid(X*A)*B)*v)",
    "relu net": "sum(relu(relu(X*A)*B)*v)",
    "masked": "sum((X .* (A*B - X)).^2)",
    "powers": "sum(sqrt(1 + (X*A).^2)*v) + sum(1 ./ (2 + X.^2))",
    "softmax": "sum(logsumexp(X*A, 1)) + sum(tanh(X*B)*v)",
}


def problem(name: str, n: int = 5) -> tuple[list[ed.Expr], dict[str, np.ndarray]]:
    shapes = {"X": (n, n), "A": (n, n), "B": (n, n), "v": (n,)}
    loss = ed.parse(LOSSES[name], "X(n,n); A(n,n); B(n,n); v(n)")
    rng = np.random.default_rng(3)
    found = [x for x in ed.variables(loss) if x.name in "XA"]
    arrays = {x.name: rng.normal(size=shapes[x.name]) for x in ed.variables(loss)}
    return [loss, *(ed.gradient(loss, x) for x in found)], arrays


@pytest.mark.parametrize("layout", ["C", "F", "strided", "negative"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", LOSSES)
def test_any_layout_and_type(tiny_is_large, name, dtype, layout):
    outputs, arrays = problem(name)
    given = {key: laid_out(x.astype(dtype), layout) for key, x in arrays.items()}
    before = {key: x.copy() for key, x in given.items()}
    expected = evaluate(outputs, {key: x.astype(float) for key, x in given.items()})
    for value, right in zip(ed.compile(outputs)(**given), expected, strict=True):
        assert value.dtype == dtype
        np.testing.assert_allclose(value, right, rtol=1e-9 if dtype == "float64" else 2e-3, atol=1e-4)
    for key, x in given.items():
        np.testing.assert_array_equal(x, before[key])


def test_places_that_are_constants_are_not_changed(tiny_is_large):
    x = ed.tensor("x", ("m",), "positive")
    last = ed.kron(x, x)[-2:]
    outputs = [ed.jacobian(last, x), ed.jacobian(ed.jacobian(last, x), x)]
    run = ed.compile(outputs)
    for at in (np.array([1.4, 0.9, 0.6]), np.array([0.3, 0.7, 2.0]), np.array([1.0, 2.0, 3.0, 4.0])):
        for value, right in zip(run(x=at), evaluate(outputs, {"x": at}), strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-12)


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    if layout == "strided":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    return x[::-1][::-1] if layout == "negative" else np.asarray(x, order=layout)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 800.0, -800.0, -0.0])
@pytest.mark.parametrize("name", LOSSES)
@np.errstate(all="ignore")  # sums and products warn of infinite entries
def test_special_values(tiny_is_large, monkeypatch, name, entry):
    outputs, arrays = problem(name)
    arrays["X"][1, 2] = entry
    in_place = ed.compile(outputs)(**arrays)
    for threshold in ("IN_PLACE_BYTES", "REUSED_BYTES"):
        monkeypatch.setattr(tuning, threshold, 2**60)
    _compiled.cache_clear()
    plain = ed.compile(outputs)
    for value, right in zip(in_place, plain(**arrays), strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-12)
    assert "out=t" not in plain.source


@pytest.mark.parametrize("activation", [ed.relu, ed.sigmoid, ed.tanh])
def test_the_gradient_of_a_deep_net_takes_little_new_memory(activation):
    """A new array for the value, and one for the derivative, of each layer; the way back is in memory that is there."""
    depth = 6
    model = net(depth, activation)
    compiled = ed.compile([model.function, ed.gradient(model.function, model.wrt[0])], sizes={**model.sizes, "b": 500})
    new = [line for line in compiled.source.splitlines() if re.match(r" +t\d+ = (?!stored)", line)]
    assert len(new) <= 2 * depth + 4
    assert "1 / (1 +" not in compiled.source


def test_memory_of_views_and_of_results_is_left_alone(tiny_is_large):
    X = ed.tensor("X", ("n", "n"))
    Y = ed.exp(X @ X)
    outputs = [Y, ed.sin(Y.T @ X) @ ed.cos(X @ Y), ed.sin(Y @ Y) + Y.T, ed.tanh(X @ X @ X.T)]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 4)) / 4
    for value, right in zip(ed.compile(outputs)(X=x), evaluate(outputs, {"X": x}), strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-12)


def test_outputs_that_are_sums_make_no_other_arrays(tiny_is_large, monkeypatch):
    """In the memory of an operand that nothing else needs, or in the array that is given; inputs stay as they are."""
    monkeypatch.setattr(tuning, "TILED_BYTES", 2**60)
    monkeypatch.setattr(tuning, "THREADED_BYTES", 2**60)
    A, B, c = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.vector("c", "n")
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(5, 5)), "B": rng.normal(size=(5, 5)), "c": rng.normal(size=5)}
    sums = {
        "of products": (A @ B - ed.outer(c, c) + A - ed.exp(B), True),
        "of inputs": (A + B - c[:, None], False),
        "of what is repeated": (c[:, None] + ed.exp(c) + 2 * ed.sin(c), False),
        "with steps": (ed.gradient(ed.sum(ed.relu(A) * B * ed.relu(B)), A) + A @ B, True),
        "of steps": (ed.gradient(ed.gradient(ed.sum(ed.relu(A) * ed.relu(B) * (A + B)), A)[0, 0], A), False),
    }
    for name, (expr, in_operand) in sums.items():
        compiled = ed.compile([expr, ed.sin(expr)])
        expected = evaluate([expr, ed.sin(expr)], given)
        before = {key: value.copy() for key, value in given.items()}
        out = [np.full((5, 5), np.nan) for _ in range(2)]
        for found in (compiled(**given), compiled(**given, out=out), out):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=name)
        assert all((given[key] == before[key]).all() for key in given)
        assert (re.search(r"out=t\d", ed.compile(expr, sizes={"n": 5}).source) is not None) is in_operand, name


def test_sums_lie_in_the_memory_of_what_is_subtracted():
    A, B, c = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.vector("c", "n")
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(60, 60)), "B": rng.normal(size=(60, 60)), "c": rng.normal(size=60)}
    for rest in (A - A @ B - c, A - A @ B - c[:, None] + 3 * c, A + B - A @ B, c - A @ B):
        compiled = ed.compile([ed.sum(rest**2), rest @ B], sizes={"n": 60})
        for found, expected in zip(compiled(**given), evaluate([ed.sum(rest**2), rest @ B], given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert not re.search(r" = .* - ", compiled.source)

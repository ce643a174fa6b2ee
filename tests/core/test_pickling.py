"""Expressions and what is made of them travel: read again they are the same object, or equal."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import pickling

A, S, x, y = ed.matrix("A", "m", "n"), ed.symmetric("S", "n"), ed.vector("x", "n"), ed.vector("y", "m")
LOSS = ed.sum(ed.softplus(-y * (A @ x)))
EXPRESSIONS = {
    "variable": x,
    "loss": LOSS,
    "gradient": ed.gradient(LOSS, x),
    "hessian": ed.hessian(LOSS, x),
    "power": ed.sum(x**2.5) ** (1 / 3),
    "power of two": ed.gradient(ed.sum(ed.exp(x) ** x), x),
    "matrix functions": ed.gradient(ed.tr(ed.expm(S)) + ed.logdet(S), S),
    "spectra": ed.hessian(ed.sum(ed.log(1 + ed.eigvals(S))), S),
    "product": ed.gradient(ed.prod(x), x),
    "indices": ed.hessian(ed.sum((x[1:] - x[:-1]) ** 2) + x[-1] * x[[0, 2]] @ x[[1, 1]], x),
    "sizes": ed.mean(ed.cumsum(x)),
    "literal": x[:3] @ np.arange(3.0),
}
POINT = {"A": np.arange(12.0).reshape(3, 4) - 5, "S": np.diag([1.0, 2, 3, 4]) + 0.1, "x": np.linspace(0.5, 2, 4)}
POINT["y"] = np.array([1.0, -1, 1])


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_are_one_object_again(name: str) -> None:
    assert pickle.loads(pickle.dumps(EXPRESSIONS[name])) is EXPRESSIONS[name]


READER = """
import pickle, sys
import numpy as np
import eindiff as ed
stored, point = pickle.load(sys.stdin.buffer)
x = ed.vector("x", "n")
assert stored["variable"] is x and stored["power"] is ed.sum(x**2.5) ** (1 / 3)
values = {name: ed.evaluate(expr, point) for name, expr in stored.items()}
later = {name: ed.evaluate(ed.gradient(ed.sum(expr), x), point) for name, expr in stored.items()}
sys.stdout.buffer.write(pickle.dumps((values, later)))
"""


def test_another_process_reads_them() -> None:
    """It has the same values and derives further."""
    message = pickle.dumps((EXPRESSIONS, POINT))
    done = subprocess.run([sys.executable, "-c", READER], input=message, capture_output=True, check=True)
    values, later = pickle.loads(done.stdout)
    for name, expr in EXPRESSIONS.items():
        np.testing.assert_allclose(values[name], ed.evaluate(expr, POINT), rtol=1e-13)
        np.testing.assert_allclose(later[name], ed.evaluate(ed.gradient(ed.sum(expr), x), POINT), rtol=1e-13)


def test_deep_expressions_travel() -> None:
    deep = x
    for _ in range(5000):
        deep = ed.sin(deep)
    assert pickle.loads(pickle.dumps(deep)) is deep


def test_compiled_functions_bring_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {name: POINT[name] for name in "Axy"}
    functions = [
        ed.compile([LOSS, ed.hessian(LOSS, x)]),
        ed.compile(ed.hessian(LOSS, x), form="structured"),
        ed.compile(ed.newton_step(LOSS + ed.sum(x**2), x)),
    ]
    expected = [one(**arrays) for one in functions]
    stored = [pickle.dumps(one) for one in functions]
    monkeypatch.setattr("eindiff.program.write.module.Module.program", None)  # nothing is planned anew
    values, operator, step = [pickle.loads(one)(**arrays) for one in stored]
    for found, wanted in zip(values, expected[0], strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(operator.as_matrix(), expected[1].as_matrix())
    np.testing.assert_array_equal(step.step, expected[2].step)


def test_public_types_travel() -> None:
    """All of them, and none is forgotten."""
    function = ed.compile(LOSS)
    step = ed.newton_step(LOSS + ed.sum(x**2), x, {name: POINT[name] for name in "Axy"})
    with pytest.raises(ed.ParseError) as refused:
        ed.parse("x +* y")
    made = [
        LOSS, function, function.plan({"m": 3, "n": 4}), ed.check(LOSS, x), step, step.hessian,
        step.hessian.terms[0], ed.newton_step(LOSS, x), refused.value,
        ed.EindiffError("no"), ed.SingularError("singular"), ed.ShardingError("no"), ed.compile(LOSS, shard="m"),
        ed.reading("norm2(X*w-y)^2"), ed.steps(LOSS, x), ed.newton(LOSS + ed.sum(x**2), x, A=POINT["A"], y=POINT["y"]),
    ]  # fmt: skip
    for one in made:
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one)
        assert str(again) == str(one)
    public = {kind for name in ed.__all__ if isinstance(kind := getattr(ed, name), type)}
    assert {kind for kind in public if not any(isinstance(one, kind) for one in made)} == set()


def test_other_formats_are_refused() -> None:
    _, (_, records) = pickling.stored(LOSS)
    with pytest.raises(ed.EindiffError, match="format 99"):
        pickling.restored(99, records)

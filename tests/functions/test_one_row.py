"""A function is one row: rows that are added here, each in one place, work everywhere; and all rows are complete."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special
import torch
from jax import lax

import eindiff as ed
import eindiff.jax as ej
import eindiff.torch as et
from backend_libraries import REFUSED
from eindiff.core.intervals import bounded, within
from eindiff.facts.bounds import facts
from eindiff.functions.elementwise import EVEN, ODD, exp, reciprocal, sign
from eindiff.functions.table import NAMES, TABLE, elementwise, remove

jax.config.update("jax_enable_x64", True)

LIBRARIES = ("numpy", "jax", "torch", "tensorflow")
POINT = np.array([-1.7, 0.4, 2.3])


@pytest.fixture(name="rows")
def added_rows() -> Iterator[SimpleNamespace]:
    """Bessel functions of orders 0 and 1 times exp(-|x|), which the table has no rows for."""
    i0e = elementwise(
        "i0e", "special.i0e", lambda x: i1e(x) - sign(x) * i0e(x), "exp(-|x|) I0(x).",
        others={"torch": "torch.special.i0e", "tensorflow": "tf.math.bessel_i0e"},
        names={"jax": "bessel_i0e", "torch": "special_i0e"},
        latex=r"\bar I_0", bounds=lambda *_: bounded(0, 1, True), parity=EVEN, positive=True,
    )  # fmt: skip
    i1e = elementwise(
        "i1e", "special.i1e", lambda x: i0e(x) - (sign(x) + reciprocal(x)) * i1e(x), "exp(-|x|) I1(x).",
        others={"torch": "torch.special.i1e", "tensorflow": "tf.math.bessel_i1e"},
        names={"jax": "bessel_i1e", "torch": "special_i1e"}, bounds=within(-1, 1), parity=ODD,
    )  # fmt: skip
    try:
        yield SimpleNamespace(i0e=i0e, i1e=i1e)
    finally:
        for name in ("i0e", "i1e"):
            remove(TABLE[name])


def oracle(order: int) -> np.ndarray:
    """The derivatives of x ↦ i0e(x) at the point, by JAX."""
    function: Any = lax.bessel_i0e
    for _ in range(order):
        function = jax.grad(function)
    return np.array([function(x) for x in POINT])


def of_library(name: str, array: np.ndarray) -> Any:
    if name == "tensorflow":
        return pytest.importorskip("tensorflow").constant(array)
    return {"numpy": np.asarray, "jax": jax.numpy.asarray, "torch": torch.asarray}[name](array)


def test_derivatives_and_programs(rows: SimpleNamespace) -> None:
    x = ed.vector("x", 3)
    assert ed.i0e is rows.i0e
    value, outputs = ed.sum(ed.i0e(x)), [ed.i0e(x)]
    gradient = ed.gradient(value, x)
    outputs += [gradient, ed.hessian_diagonal(value, x), ed.einsum("iii->i", ed.derivative(gradient, x, x))]
    expected = [oracle(order) for order in range(4)]
    np.testing.assert_allclose(ed.evaluate(outputs, {"x": POINT}), expected, rtol=1e-9)
    for library in LIBRARIES:
        compiled = ed.compile(outputs, backend=library)
        np.testing.assert_allclose(compiled(x=of_library(library, POINT)), expected, rtol=1e-9)
        assert "i0e(" in compiled.source
    assert "special.i0e(x)" in ed.to_source(ed.i0e(x))
    assert TABLE["i0e"].source["cupy"] == "special.i0e({0})"


def test_rules_and_facts(rows: SimpleNamespace) -> None:
    x = ed.vector("x", "n")
    assert rows.i0e(-x) is rows.i0e(x) and rows.i1e(-x) is -rows.i1e(x)
    assert facts(rows.i0e(x)).is_positive and facts(rows.i1e(x)).low == -1
    assert ed.sqrt(rows.i0e(x) * rows.i0e(x)) is rows.i0e(x)
    assert ed.i0e(0.0) is ed.parse("1")


@pytest.mark.parametrize("notation", ["matrix", "index", "einsum"])
@pytest.mark.parametrize("style", ["plain", "unicode", "latex"])
def test_text(rows: SimpleNamespace, notation: str, style: str) -> None:
    x, A = ed.vector("x", "n"), ed.matrix("A", "m", "n")
    y = A @ rows.i0e(x)
    text = ed.to_text(y, notation=notation, style=style)
    assert (r"\bar I_0\left(" if style == "latex" else "i0e(") in text
    if style == "plain" and notation != "index":
        assert ed.parse(text, "A(m, n); x(n)") is y


def test_text_is_read(rows: SimpleNamespace) -> None:
    x = ed.vector("x", "n")
    assert ed.parse("sum(exp(i0e(x)))", "x(n)") is ed.sum(exp(rows.i0e(x)))
    with pytest.raises(ed.ParseError, match=r"i0e takes 1 argument, not 2: i0e\(x\)"):
        ed.parse("i0e(x, x)", "x(n)")


def test_traced_functions(rows: SimpleNamespace) -> None:
    x = ed.vector("x", 3)
    assert ed.symbolic(lambda x: scipy.special.i0e(x).sum(), (3,)) is ed.sum(rows.i0e(x))
    np.testing.assert_allclose(ed.gradient(lambda x: scipy.special.i0e(x).sum())(POINT), oracle(1), rtol=1e-9)
    of_jax = ej.grad(lambda x: jax.scipy.special.i0e(x).sum())
    assert not of_jax.lower(POINT).opaque
    np.testing.assert_allclose(of_jax(POINT), oracle(1), rtol=1e-9)
    found = et.grad(lambda x: torch.special.i0e(x).sum())(torch.asarray(POINT))
    np.testing.assert_allclose(found, oracle(1), rtol=1e-9)


def test_rows_can_be_taken_out_again() -> None:
    assert not hasattr(ed, "i0e") and "i0e" not in TABLE and "bessel_i0e" not in NAMES["jax"]
    with pytest.raises(ed.ParseError, match="i0e"):
        ed.parse("i0e(x)", "x(n)")


# All rows


def test_public_rows_are_exported() -> None:
    public = {name for name, row in TABLE.items() if row.public is not None}
    assert public <= set(ed.__all__)
    assert all(getattr(ed, name) is TABLE[name].public for name in public)


@pytest.mark.parametrize("name", sorted(NAMES["numpy"]))
def test_names_of_numpy_are_ufuncs(name: str) -> None:
    assert isinstance(getattr(np, name, None) or getattr(scipy.special, name), np.ufunc)


def test_names_of_other_libraries_exist() -> None:
    assert [name for name in NAMES["jax"] if not hasattr(lax, f"{name}_p")] == []
    assert [name for name in NAMES["jax.nn"] if not hasattr(jax.nn, name)] == []
    assert [name for name in NAMES["torch"] if not hasattr(torch.ops.aten, name)] == []


@pytest.mark.parametrize("name", sorted(name for name, row in TABLE.items() if row.source))
def test_every_library_writes_a_row(name: str) -> None:
    row = TABLE[name]
    assert set(REFUSED) - set(row.source) == {library for library, names in REFUSED.items() if name in names}
    slots = {f"{{{k}}}" for k in range(len(row.derivatives))}
    assert all(slot in text for text in row.source.values() for slot in slots)
    for text in row.source.values():  # whatever follows it is about the whole
        assert isinstance(ast.parse(f"{text.format('a', 'b', 'c')}.after", mode="eval").body, ast.Attribute), text

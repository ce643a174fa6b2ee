"""Functions of the user's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed

jax.config.update("jax_enable_x64", True)
POINT = np.array([-1.5, 0.2, 2.0])


def softsign() -> ed.Expr:
    """x / (1 + |x|), whose derivative is the square of another function."""
    return ed.define("softsign", "({0} / (1 + np.abs({0})))", lambda x: (1 + abs(x)) ** -2)


def test_it_is_known_everywhere() -> None:
    function = softsign()
    x = ed.vector("x", "n")
    f = ed.sum(function(2 * x) ** 2)
    assert f is ed.parse("sum(softsign(2*x).^2)") and ed.softsign is function
    assert ed.check(f, x).passed and ed.check(f, x, order=2).passed
    assert ed.parse(ed.to_text(ed.gradient(f, x))) == ed.gradient(f, x)
    run = ed.compile(ed.hessian(f, x))
    expected = jax.hessian(lambda x: jnp.sum(jax.nn.soft_sign(2 * x) ** 2))(POINT)
    for made in (np.asarray, jnp.asarray, torch.asarray):
        np.testing.assert_allclose(np.asarray(run(x=made(POINT))), expected, rtol=1e-12)


def test_a_wrong_derivative_is_found() -> None:
    wrong = ed.define("softsign", "({0} / (1 + np.abs({0})))", lambda x: (1 + abs(x)) ** -1)
    x = ed.vector("x", 3)
    assert not ed.check(ed.sum(wrong(x)), x).passed


def test_it_may_be_defined_again() -> None:
    softsign()
    doubled = ed.define("softsign", "(2 * {0})", lambda x: 2 + 0 * x)
    x = ed.vector("x", 3)
    np.testing.assert_array_equal(ed.evaluate(doubled(x), {"x": POINT}), 2 * POINT)
    np.testing.assert_array_equal(ed.evaluate(ed.parse("softsign(x)"), {"x": POINT}), 2 * POINT)


@pytest.mark.parametrize(
    ("name", "source", "problem"),
    [
        ("exp", "np.exp({0})", "a meaning already"),
        ("sum", "np.sum({0})", "a meaning already"),
        ("two words", "np.exp({0})", "is no name"),
        ("mine", "np.exp", "for the argument"),
    ],
)
def test_what_cannot_be_defined(name: str, source: str, problem: str) -> None:
    with pytest.raises(ed.EindiffError, match=problem):
        ed.define(name, source, lambda x: x)

"""Expressions with relations between indices, printed in each notation and read back."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import sizes
from eindiff.core.nodes import variables

SIZES = {"n": 7, "e": 5}
X, Y = ed.vector("x", "n"), ed.vector("y", 8)


def chosen(random, depth):
    """Slices, steps, flips, lists and arrays of indices, one in the other."""
    if depth == 0:
        return (X, Y)[int(random.integers(2))]
    inner = chosen(random, depth - 1)
    size = inner.shape[0]
    table = ed.indices("g" + "".join(letter for letter in str(size) if letter.isalnum()), "e", into=size)
    choices = [lambda: ed.sin(inner), lambda: inner[table], lambda: ed.exp(0.1 * inner) * inner]
    if isinstance(size, int) and size > 3:
        places = random.integers(0, size, size=int(random.integers(2, 6)))
        choices += [
            lambda: inner[1:], lambda: inner[:-1], lambda: inner[::2], lambda: inner[::-1], lambda: inner[places],
            lambda: inner[1:] - 2 * inner[:-1], lambda: ed.concatenate([inner[-1:], inner[:-1]]),
        ]  # fmt: skip
    elif size == "n":
        choices += [lambda: inner[1:], lambda: inner[:-1], lambda: inner[1:] - inner[:-1]]
    return choices[int(random.integers(len(choices)))]()


@pytest.mark.parametrize("seed", range(12))
def test_relations_are_read_back(seed):
    random = np.random.default_rng(seed)
    entries = chosen(random, int(random.integers(1, 4)))
    value = ed.sum(ed.log(1 + entries**2)) if seed % 2 else ed.sum(entries**2 * ed.exp(entries))
    by = next(x for x in (X, Y) if x in variables(value))
    known = {x.name: x for x in variables(value)}
    arrays = {x.name: numbers(random, x) for x in known.values()}
    for expr in (value, ed.gradient(value, by), ed.hessian(value, by)):
        texts = {notation: ed.to_text(expr, notation) for notation in ("matrix", "index", "einsum")}
        again = [ed.parse(text, known, "index" if how == "index" else "matrix") for how, text in texts.items()]
        expected, *found = ed.evaluate([expr, *again], arrays, SIZES)
        for value_again, text in zip(found, texts.values(), strict=True):
            np.testing.assert_allclose(value_again, expected, rtol=1e-12, atol=1e-12, err_msg=text)


def numbers(random, variable):
    shape = [SIZES.get(size, size) for size in variable.shape]
    if variable.into is None:
        return random.normal(size=shape)
    return random.integers(0, sizes.evaluate(variable.into, SIZES), size=shape)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sum[i:m] u[h[i]]", "no variable h"), ("sum[i:m] u[g]", "takes as many labels"),
        ("sum[i:m] u[g[1:2:j][i]]", "indices"), ("sum[i] u[[0, 2", "no list of places"),
        ("sum[i:2] u[[0, [1]][i]]", "lengths"),
        ("sum[i:m] u[(i]", "neither an index nor a size"), ("[i] exp(u[i], u[i])", "takes 1 arguments"),
    ],
)  # fmt: skip
def test_errors(text, problem):
    with pytest.raises(ed.EindiffError, match=problem):
        ed.parse(text, "u(G); g(m) into G", "index")


def test_indices_of_indices():
    u, g, h = ed.vector("u", "G"), ed.indices("g", "m", into="G"), ed.indices("h", "k", into="m")
    known = {"u": u, "g": g, "h": h}
    assert ed.parse("u[g[h]]", known) == u[g[h]] == u[g][h]
    assert ed.parse("[i:k] u[g[h][i]]", known, "index") == u[g[h]]
    A = ed.matrix("A", "p", "G")
    assert ed.parse("A[:, g[h]]", {**known, "A": A}) == A[:, g][:, h]


def test_declarations_have_sizes():
    with pytest.raises(ed.EindiffError, match="declared with their sizes"):
        ed.parse("sum[i] x[i]", "x vector", "index")
    with pytest.raises(ed.EindiffError, match="choose one of matrix, index"):
        ed.parse("sum(x)", "x(n)", "tensor")


def test_slices_and_gathers_in_other_styles():
    u, g = ed.vector("u", "G"), ed.indices("g", "m", into="G")
    known = {"x": X, "u": u, "g": g, "y": Y}
    for expr in (ed.sum((X[1:] - X[:-1]) ** 2), ed.exp(u[g]), Y[::2] * ed.sin(Y[1::2]), 3 * Y[::2] ** 2 + 1):
        for style in ("unicode", "latex"):
            text = ed.to_text(expr, style=style)
            assert ed.parse(text, known) == expr, text

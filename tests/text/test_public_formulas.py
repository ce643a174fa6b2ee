"""Formulas of public texts, as they stand there: the kinds that are meant, and the values of code beside them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import eindiff as ed
from eindiff.text.read.source import ParseError
from public_formulas import PUBLIC

ROWS = [row for rows in PUBLIC.values() for row in rows]
SIZES = {"m": 3, "n": 4, "p": 5, "q": 2, "k": 6, "K": 3, "N": 4, "n_samples": 4}


def test_there_are_enough_and_all_say_where_they_are_from():
    assert len(ROWS) >= 115
    assert all(address.startswith(("https://", "http://")) for address in PUBLIC)


def kinds(reading: ed.Reading) -> dict[str, str]:
    return {name.name: "i" if name.is_identity else "svmt"[len(name.shape)] for name in reading.names}


@pytest.mark.parametrize(("text", "expected", "code"), ROWS)
def test_a_formula_is_read_as_its_author_means_it(text, expected, code):
    if expected.startswith("!"):
        with pytest.raises(ParseError) as caught:
            ed.reading(text)
        assert expected[2:] in str(caught.value)
        return
    found = ed.reading(text)
    parts = [part.split(": ") for part in expected.split("; ")]
    assert kinds(found) == {name: kind for kind, names in parts for name in names.split()}
    assert ed.reading(text, found.declarations).expression is found.expression
    if code is None:
        return
    rng = np.random.default_rng(5)
    point = {}
    for v in ed.variables(found.expression):
        shape = tuple(SIZES[size] for size in v.shape)
        drawn = rng.uniform(0.1, 0.6, size=shape)
        point[v.name] = drawn + 2 * np.eye(shape[0]) if len(shape) == 2 and shape[0] == shape[1] else drawn
    sizes = {size: SIZES[size] for v in ed.variables(found.expression) for size in v.shape}
    names = SimpleNamespace(**{name.replace("lambda", "lambda_").replace("lambda__", "lambda_"): value
                               for name, value in point.items()})  # fmt: skip
    np.testing.assert_allclose(ed.evaluate(found.expression, point, sizes), code(names), rtol=1e-10)

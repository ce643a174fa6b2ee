"""Every public name says what it takes, and shows an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect

import numpy as np
import pytest

import eindiff as ed
from generate.docstrings import read

FRAMEWORKS = ["eindiff.jax", "eindiff.torch"]
NAMES = [("eindiff", name) for name in ed.__all__]
NAMES += [(module, name) for module in FRAMEWORKS for name in importlib.import_module(module).__all__]
# As they are before anything in tests takes their place
VALUES = {(module, name): getattr(importlib.import_module(module), name) for module, name in NAMES}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _found(module: str, name: str) -> tuple[object, str]:
    value = VALUES[module, name]
    return value, inspect.getdoc(value) or ""


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_it_tells_its_arguments(module, name):
    value, text = _found(module, name)
    if inspect.isfunction(value):
        assert set(read(text).arguments()) == set(inspect.signature(value).parameters)
    else:
        assert text


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_its_example_runs(module, name):
    names = {"ed": ed, "np": np}
    if module != "eindiff":
        names = vars(importlib.import_module(module)).copy()
    example = doctest.DocTestParser().get_doctest(_found(module, name)[1], names, name, None, None)
    assert example.examples
    assert doctest.DocTestRunner(optionflags=FLAGS).run(example).failed == 0


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_what_it_points_at_is_there(module, name):
    home = importlib.import_module(module)
    missing = [word for word in read(_found(module, name)[1]).see_also if not hasattr(home, word)]
    assert missing == []


def test_help_of_the_hessian_is_enough():
    text = inspect.getdoc(ed.hessian)
    for word in ("auto", "reverse", "forward", "cross_country", "projected", "free", "structured=True"):
        assert f"`{word}`" in text

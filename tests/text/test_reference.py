"""The reference of the language: complete, and its examples run."""

from __future__ import annotations

import re

import pytest

import eindiff as ed
from eindiff.text.read.table import TABLE
from eindiff.text.reference import Entry, reference

ENTRIES = list(reference().values())


def test_every_function_has_a_line_and_no_line_is_left_over():
    named = {entry.name for entry in ENTRIES if entry.is_function}
    assert set(TABLE) - named == set(), "write a line with an example for these in text/reference.py"
    assert named - set(TABLE) == set()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_example_runs_and_uses_what_it_is_an_example_of(entry: Entry):
    assert entry.meaning.endswith(".") and len(entry.meaning) < 130
    function = ed.parse(entry.example)
    assert entry.name == "bars" or not entry.is_function or re.search(rf"\b{entry.name}\b", entry.example)
    for x in [x for x in ed.variables(function) if x.into is None][:1]:
        assert ed.derivative(function, x).shape == (*function.shape, *x.shape)

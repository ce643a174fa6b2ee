"""What examples in docstrings may name without importing it."""

from __future__ import annotations

import numpy
import pytest

import eindiff


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace: dict) -> None:
    """`ed` and `np`, as on all pages."""
    doctest_namespace.update(ed=eindiff, np=numpy)

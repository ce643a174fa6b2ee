"""What examples in docstrings may name without importing it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import pytest

import eindiff
from eindiff.functions.define import forget


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace: dict) -> Iterator[None]:
    """`ed` and `np`, as on all pages; functions that an example defines are gone after it."""
    doctest_namespace.update(ed=eindiff, np=numpy)
    yield
    forget()

"""Wherever a test evaluates an expression, the compiled program has to give the same. Fixtures of several files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import nodes
from eindiff.functions.define import forget
from eindiff.planning import tuning
from eindiff.structure.compile import _compiled
from spec import assert_canonical_node

RTOL = 1e-10


def pytest_configure() -> None:
    """Each node that any test makes has to be canonical, also those that are made when a module of tests is read."""
    made = nodes.unlisted

    def checked(kind: type, digest: bytes, **fields: Any) -> Any:
        node = made(kind, digest, **fields)
        assert_canonical_node(node)
        return node

    nodes.unlisted = checked


@pytest.fixture(autouse=True)
def own_functions_go() -> Iterator[None]:
    """Functions that a test defines are gone after it."""
    yield
    forget()


@pytest.fixture(autouse=True)
def compiled_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check each evaluation against a compiled function, which may be made for small arrays as for large ones."""
    evaluate = ed.evaluate

    def checked(outputs: Any, arrays: Any = None, sizes: Any = None, validate: bool = True) -> Any:
        expected = evaluate(outputs, arrays, sizes, validate)
        actual = ed.compile(outputs, validate=validate)(**(arrays or {}), sizes=sizes)
        _assert_equal(actual, expected)
        return expected

    monkeypatch.setattr(ed, "evaluate", checked)


def _assert_equal(actual: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(actual, list)
        for one, other in zip(actual, expected, strict=True):
            _assert_equal(one, other)
        return
    assert np.shape(actual) == expected.shape
    scale = max(1.0, np.max(np.abs(expected), initial=0, where=np.isfinite(expected)))
    np.testing.assert_allclose(actual, expected, rtol=RTOL, atol=RTOL * scale)


@pytest.fixture
def tiny_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is done only with large arrays is done with those of two entries."""
    for name, value in {
        "IN_PLACE_BYTES": 9,
        "FORGET_BYTES": 9,
        "REUSED_BYTES": 9,
        "TILED_BYTES": 9,
        "THREADED_BYTES": 9,
        "TILE_BYTES": 60,
        "THREADED_TILES": 1,
        "LEAST_THREADS": 2,
        "SHORT": 3,
        "CALL": 0.0,
        "SHORT_RUN": 0.0,
        "GRAM": 2,
        "THIN_PRODUCT": (2, 2, 8),
        "THIN_TRANSPOSED": 2,
        "UNPACKED": 60,
        "COPIED": (1, 1),
        "TILED_PRODUCT": (2, 8),
        "SQUARE": 2,
        "MIRRORED": (1, 1),
        "SAMPLED": 1,
        "BLOCK_ROWS": 1,
        "MANY_ENTRIES": 2,
    }.items():
        monkeypatch.setattr(tuning, name, value)
    _compiled.cache_clear()
    yield
    _compiled.cache_clear()


# The fast tests

SLOW = (
    "test_fuzz", "test_notebook", "test_page", "test_page_use", "test_page_work", "test_serve_fairness",
    "test_serve_workers", "test_serve_schema", "test_threads",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="one case of each test, and none that takes long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--quick`, the first case of each test that is not slow."""
    if not config.getoption("--quick"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        if item.path.stem not in SLOW:
            first.setdefault(item.nodeid.partition("[")[0], item)
    kept = set(first.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]

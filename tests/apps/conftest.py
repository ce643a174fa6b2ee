"""Tests of the page and its server wait for a browser and for other processes, which may get no time for seconds."""

from __future__ import annotations

import pytest

WAITING = {"browser", "address"}  # fixtures that are processes


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """What fails once is tried twice more: what is wrong fails each time."""
    for item in items:
        if WAITING.intersection(item.fixturenames):
            item.add_marker(pytest.mark.flaky(reruns=2))

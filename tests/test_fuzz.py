"""Random programs, the same in each run: `make fuzz` tries others."""

from __future__ import annotations

import pytest

from fuzz.kinds import KINDS
from fuzz.running import outcome

CHUNK = 20  # programs in one test
CHUNKS = {
    "printed": 4,
    "refused": 4,
    "solvers": 4,
    "traced": 4,
}  # of the kinds that take no part in comparing all libraries
CASES = [(kind, chunk) for kind in KINDS for chunk in range(CHUNKS.get(kind, 16))]


@pytest.mark.parametrize(("kind", "chunk"), CASES)
def test_random_programs(kind: str, chunk: int) -> None:
    numbers = range(CHUNK * chunk, CHUNK * (chunk + 1))
    found = {number: outcome(kind, 0, number) for number in numbers}
    failures = [
        f"{one.message}\n  again: make fuzz SEED=0 KIND={kind} PROGRAM={number}\n{one.text}"
        for number, one in found.items()
        if one.word == "failed"
    ]
    assert not failures, "\n".join(failures)
    assert sum(one.word == "passed" for one in found.values()) > CHUNK * 0.8

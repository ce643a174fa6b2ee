"""Random programs, the same in each run: `make fuzz` tries others."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.rewrite import RULES
from eindiff.functions.table import TABLE
from fuzz import oracle
from fuzz.kinds import KINDS, rules
from fuzz.programs import EINDIFF
from fuzz.running import outcome

CHUNK = 20  # programs in one test
CHUNKS = dict.fromkeys(("printed", "refused", "solvers", "traced"), 4)  # kinds that do not compare all libraries
CASES = [(kind, chunk) for kind in KINDS for chunk in range(CHUNKS.get(kind, 7))]


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
    assert {one.word for one in found.values()} == {"passed"}


def test_each_rule_has_a_program():
    """But for rules of functions that only derivatives have."""
    with ed.rewrite_log() as log:
        for size in ("n", 2):
            square = {"a": (), "q": ("orthogonal",), "p": ("psd",)}
            names = {name: ed.tensor(name, (size, size), *properties) for name, properties in square.items()}
            names |= {name: ed.vector(name, size) for name in "vw"} | {"ed": EINDIFF, "n": "n", "s": ed.scalar("s")}
            for program in rules.PROGRAMS:
                eval(rules.filled(np.random.default_rng(0), program, str(size), 0), names)
    parities = {row.name for row in TABLE.values() if row.parity and row.name not in oracle.SERIES}
    every = {(subject, one.__name__) for subject, found in RULES.items() if subject not in parities for one in found}
    missing = {subject for subject, _ in every - {(applied.subject, applied.rule) for applied in log}}
    assert missing == {"power_derivative"}

"""One random program, from its kind, seed and number."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from fuzz.kinds import KINDS
from fuzz.programs import FoundError, Unfit


@dataclass(frozen=True)
class Outcome:
    """What became of a program: passed, failed or unfit."""

    word: str
    text: str = ""
    message: str = ""
    error: BaseException | None = None


ATTEMPTS = 20  # drawings until a program comes about: some have no value, or one beyond all bounds


def outcome(kind: str, seed: int, number: int) -> Outcome:
    """Generate a program and check it. Whatever is raised is a failure, but for programs that did not come about."""
    for attempt in range(ATTEMPTS):
        found = _attempted(kind, np.random.default_rng([seed, number, crc32(kind.encode()), attempt]))
        if found.word != "unfit":
            break
    return found


def _attempted(kind: str, rng: np.random.Generator) -> Outcome:
    case = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            case = KINDS[kind](rng)
            case.check()
    except Unfit:
        return Outcome("unfit")
    except FoundError as error:
        return Outcome("failed", case.text if case else "", str(error), error)
    except Exception as error:
        return Outcome("failed", case.text if case else "", f"{type(error).__name__}: {error}", error)
    return Outcome("passed")

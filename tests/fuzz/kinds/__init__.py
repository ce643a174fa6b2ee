"""The kinds of program, each a function from a random generator to something with `check()` and `text`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fuzz.kinds import einsums, maps, matrices, named, printed, properties, reductions, refused, rules, spectral, traced
from fuzz.programs import Random


class Checkable(Protocol):
    """A random program that can be checked."""

    @property
    def text(self) -> str: ...

    def check(self) -> None: ...


KINDS: dict[str, Callable[[Random], Checkable]] = {
    module.__name__.rpartition(".")[2]: module.generate
    for module in (einsums, maps, named, properties, matrices, spectral, reductions, refused, rules, traced, printed)
}

"""The kinds of program, each a function from a random generator to something with `check()` and `text`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from fuzz.programs import Random


class Checkable(Protocol):
    """A random program that can be checked."""

    @property
    def text(self) -> str: ...

    def check(self) -> None: ...


NAMES = (
    "einsums", "maps", "named", "properties", "matrices", "spectral", "reductions", "rules", "refused", "traced",
    "printed", "solvers",
)  # fmt: skip
KINDS: dict[str, Callable[[Random], Checkable]] = {name: import_module(f"fuzz.kinds.{name}").generate for name in NAMES}

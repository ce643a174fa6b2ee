"""A terminal for tests."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """A terminal to write to."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

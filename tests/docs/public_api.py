"""The list of public names with their parameters: `python tests/docs/public_api.py` writes public-api.txt."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

LIST = Path(__file__).parent / "public-api.txt"
MODULES = ["eindiff", "eindiff.jax", "eindiff.torch"]


def listing() -> str:
    """One line a name; classes with their public members."""
    lines = []
    for module in MODULES:
        home = importlib.import_module(module)
        for name in sorted(home.__all__):
            value = getattr(home, name)
            if isinstance(value, type):
                members = [one for one in dir(value) if not one.startswith("_") and one not in dir(Exception)]
                lines.append(f"{module}.{name}: {' '.join(members)}".rstrip(": "))
            else:
                lines.append(f"{module}.{name}{_signature(value)}")
    return "\n".join(lines) + "\n"


def _signature(function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


if __name__ == "__main__":
    LIST.write_text(listing(), encoding="utf-8")

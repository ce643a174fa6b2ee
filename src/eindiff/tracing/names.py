"""Names: of the arguments of a function, of the places inside of them, and of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from keyword import iskeyword
from typing import Any

# Names that programs use themselves
_OF_PROGRAMS = frozenset({"out", "sizes", "np", "linalg", "special"})


def function_name(f: Any) -> str:
    """What a function is called in messages."""
    return getattr(f, "__name__", type(f).__name__)


def parameters(f: Callable) -> list[Parameter]:
    """The parameters of a function, as far as Python knows them."""
    try:
        return list(signature(f).parameters.values())
    except (TypeError, ValueError):  # some functions written in C
        return []


def argument_names(f: Callable, count: int) -> list[str]:
    """Names for positional arguments: those of the parameters, numbered where one takes several."""
    found: list[str] = []
    for parameter in parameters(f):
        if parameter.kind == Parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}{k}" for k in range(count - len(found))]
        elif parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter.name)
    return [*found, *(f"x{k}" for k in range(len(found), count))][:count]


def leaf_paths(f: Callable, paths: Sequence[tuple], count: int) -> list[list[str]]:
    """For each leaf of `(args, kwargs)` the name of its argument, and the keys that lead to it from there."""
    positional = argument_names(f, count)
    return [
        [positional[path[1].idx] if path[0].idx == 0 else _key_text(path[1]), *map(_key_text, path[2:])]
        for path in paths
    ]


def _key_text(key: Any) -> str:
    """A key of the path to a leaf of a tree: of a mapping, an object or a sequence."""
    return str(next((getattr(key, kind) for kind in ("key", "name", "idx") if hasattr(key, kind)), key))


def identifier(text: str) -> str:
    """A text as the name of a variable."""
    name = "".join(c if f"x{c}".isidentifier() else "_" for c in text)
    return name if name.isidentifier() and name.strip("_") else f"x{name}"


class VariableNames(set[str]):
    """The names of the variables of a traced function."""

    def unused(self, wanted: str) -> str:
        """The wanted name, with a number if something else has it."""
        stem = name = identifier(wanted)
        number = 2
        while name in self or name in _OF_PROGRAMS or iskeyword(name):
            name, number = f"{stem}_{number}", number + 1
        self.add(name)
        return name

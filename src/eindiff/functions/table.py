"""The table of functions: rows by their names, and by the names that libraries have for them.

A row says everything about a function: its value, derivative and domain, how it is written in text, LaTeX and each
library, and what libraries call it. Front ends and backends only look names up here: adding a function is adding a row.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.function import Derivative, Function, quiet
from eindiff.core.nodes import Expr
from eindiff.core.rewrite import RULES, rule
from eindiff.functions.multilinear import Operand, as_expr

Elementwise = Callable[[Operand], Expr]
T = TypeVar("T")

TABLE: dict[str, Function] = {}
OF_SCIPY: dict[str, Function] = {}  # functions that programs of NumPy call SciPy for, and few other libraries have
NAMES: dict[str, dict[str, Function]] = {"numpy": {}, "jax": {}, "jax.nn": {}, "torch": {}}  # rows by names there

# The modules that functions of NumPy have the same names in
_MODULES = {"numpy": "np.", "jax": "jnp.", "torch": "torch.", "tensorflow": "tf.math.", "cupy": "cp."}


class Vocabulary(MutableMapping[str, T]):
    """What a front end knows by name: things of its own, and rows as it sees them (None: not at all).

    It follows the table: a row that is added later is known too.
    """

    def __init__(self, own: dict[str, T], rows: Mapping[str, Function], adapt: Callable[[Function], T | None]) -> None:
        self.own, self.rows, self.adapt = own, rows, adapt

    def __getitem__(self, name: str) -> T:
        if (found := self.own[name] if name in self.own else self.adapt(self.rows[name])) is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: T) -> None:
        self.own[name] = value

    def __delitem__(self, name: str) -> None:
        del self.own[name]

    def __iter__(self) -> Iterator[str]:
        seen = (name for name, row in self.rows.items() if name not in self.own and self.adapt(row) is not None)
        return chain(self.own, seen)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Special:
    """scipy.special, which is imported when it is first needed: that takes long."""

    def __getattr__(self, name: str) -> Any:
        from scipy import special

        return getattr(special, name)


special = _Special()


def add(function: Function) -> Function:
    """Add a row to the table."""
    TABLE[function.name] = function
    for library, names in function.names.items():
        NAMES[library].update(dict.fromkeys(names, function))
    if function.parity:

        @rule(function.name)
        def sign_of_argument(x: Expr) -> Expr | None:
            """f(-x) = -f(x) for an odd f, f(-x) = f(x) for an even one. Smaller arguments."""
            coefficient, factors, output, sizes = construct.parts(x)
            if not factors or coefficient >= 0:
                return None
            value = construct.map_(function, (construct.einsum(-coefficient, factors, output, sizes),))
            return construct.scale(function.parity, value)

    return function


def remove(function: Function) -> None:
    """Take a row out of the table again."""
    for table in (TABLE, *NAMES.values()):
        for name in [name for name, found in table.items() if found is function]:
            del table[name]
    RULES.pop(function.name, None)


def by_name(name: str) -> Function:
    """The row of a function that was stored."""
    if name not in TABLE:
        raise EindiffError(f"this version of eindiff has no function {name}, which is in what was stored", "stored")
    return TABLE[name]


def _stored(function: Function) -> tuple[Callable, tuple]:
    """What pickle keeps of a function: its name, or what makes it."""
    if function.maker is not None:
        return function.maker
    if TABLE.get(function.name) is not function:
        raise EindiffError(
            f"{function.name} stands for code of a library, which cannot be stored with an expression", "stored"
        )
    return by_name, (function.name,)


copyreg.pickle(Function, _stored)


def row(name: str, value: Callable[..., Any], *derivatives: Derivative | None, **more: Any) -> Function:
    """Add a function to the table by its facets."""
    return add(Function(name, value, derivatives, **more))


def written(source: str, count: int = 1, others: Mapping[str, str] | None = None) -> dict[str, str]:
    """How each library writes a function of some arguments: in NumPy's words, but for the others given.

    >>> written("np.arcsin", others={"tensorflow": "tf.math.asin"})["jax"]
    'jnp.arcsin({0})'
    """
    slots = ", ".join(f"{{{k}}}" for k in range(count))
    found = {library: source.replace("np.", module) for library, module in _MODULES.items()}
    found["tensorflow"] = found["tensorflow"].replace("tf.math.linalg.", "tf.linalg.")
    if source.startswith("special."):
        found = dict.fromkeys(("numpy", "jax", "cupy"), source)
    found |= others or {}
    return {library: text if "{" in text else f"{text}({slots})" for library, text in found.items() if text}


def _valued(source: str) -> Callable[..., Any]:
    """A function of NumPy, or of scipy.special, by its name or its formula in programs."""
    if "{" in source:
        text = source.format("x[0]", "x[1]")
        formula: Callable[..., Any] = eval(f"lambda *x: {text}", {"np": np, "special": special})
        return formula
    module, _, name = source.partition(".")
    return getattr(np, name) if module == "np" else lambda *args: getattr(special, name)(*args)


def called(name: str, others: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """What libraries call a function: its own name, but for the others given."""
    names = {"numpy": name, "jax": name, "torch": name, **(others or {})}
    return {library: text.split() for library, text in names.items()}


_EXPLAINED = """{doc}

Args:
    x: a tensor expression, an array or a number{domain}

>>> x = ed.vector("x", "n")
>>> ed.check(ed.{name}(x), x, at={{"x": np.array({point})}}).passed
True
"""


def elementwise(
    name: str,
    source: str,
    derivative: Derivative | None,
    doc: str,
    value: Callable[[Any], Any] | None = None,
    others: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    domain: str = "real",
    latex: str = "",
    **more: Any,
) -> Elementwise:
    """Add an elementwise function of one argument to the table; gives the function that users call.

    `source` is what NumPy's programs write, `others` what other libraries do; `names` is what libraries call it, if
    that is not its own name.
    """

    def public(x: Operand) -> Expr:
        return construct.map_(made, (as_expr(x),))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = _EXPLAINED.format(
        doc=doc, name=name, domain="" if domain == "real" else f", {domain}",
        point=[1.5, 2.0] if domain == "above 1" else [0.25, 0.75],
    )  # fmt: skip
    value = value or _valued(source)
    made = row(
        name, value if domain == "real" else quiet(value), derivative, domain=domain, public=public,
        latex=latex or rf"\operatorname{{{name}}}", source=written(source, 1, others), names=called(name, names),
        **more,
    )  # fmt: skip
    return public

"""Expressions that travel: stored as a list of nodes, children first, and interned again where they are read.

So an expression that is read is the same object as an equal one that is there already, depth does not matter, and
reading runs nothing but what is here. Functions are stored by name (see `functions/table.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from eindiff.core.derivation import Derivation, fields_of, twin
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Variable, interned
from eindiff.core.traverse import post_order

FORMAT = 1  # of what is stored; another one is refused
KINDS: dict[str, type[Expr]] = {kind.__name__: kind for kind in (Variable, Constant, Einsum, Add, Map, Apply)}
DERIVED = "derived"


class Reference(NamedTuple):
    """The number of a node in the list that is stored."""

    number: int


def stored(expr: Expr) -> tuple:
    """What pickle keeps of an expression. Digests tell nodes apart, derivatives from their plain nodes too."""
    nodes = {expr.digest: expr}
    places: dict[bytes, Reference] = {}
    records: list[tuple] = []

    def below(digest: bytes) -> list[bytes]:
        known = nodes[digest].derivation
        first = nodes[digest].children if known is None else (known.expr, *known.sources, *known.by)
        nodes.update({node.digest: node for node in first})
        return [node.digest for node in first]

    def placed(value: Any) -> Any:
        if isinstance(value, Expr):
            return places[value.digest]
        return tuple([placed(x) for x in value]) if type(value) is tuple else value

    for digest in post_order([expr.digest], below):
        node = nodes[digest]
        places[digest] = Reference(len(records))
        if (known := node.derivation) is None:
            fields = {name: placed(value) for name, value in fields_of(node).items()}
            records.append((type(node).__name__, digest, fields))
        else:
            records.append((DERIVED, placed(known.expr), placed(known.sources), placed(known.by)))
    return restored, (FORMAT, records)


def restored(version: int, records: list[tuple]) -> Expr:
    """The expression that was stored."""
    if version != FORMAT:
        raise EindiffError(
            f"this expression was stored in format {version}: this version of eindiff reads {FORMAT}", "stored"
        )
    nodes: list[Expr] = []

    def found(value: Any) -> Any:
        if isinstance(value, Reference):
            return nodes[value.number]
        return tuple([found(x) for x in value]) if type(value) is tuple else value

    for kind, *rest in records:
        if kind == DERIVED:
            nodes.append(twin(Derivation(*[found(value) for value in rest])))
        else:
            digest, fields = rest
            nodes.append(interned(KINDS[kind], digest, {name: found(value) for name, value in fields.items()}))
    return nodes[-1]


setattr(Expr, "__reduce__", stored)  # noqa: B010 - installed here, since it needs derivations

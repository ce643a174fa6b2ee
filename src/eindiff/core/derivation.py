"""What a derivative is, said on the derivative itself: of which function, and by which variables, in order.

One expression may be the derivative of many functions: with T of order 3, T is that of `T x` by x, with two axes of the
function and one of the variable, and that of `T:M` by M, with one and two. So a derivative is a *twin* of the interned
node: equal to it, and of its kind, but another object, which has a `derivation`. Constructors put the plain node in the
place of a twin, so no node is made of twins, and nothing is known of a node because of what somebody derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Variable, intern, plain, variables


@dataclass(frozen=True, slots=True, eq=False)
class Derivation:
    """What an expression was made of: the axes of the first source come first, then those of each variable.

    Without variables it is no derivative by them, but something that hides variables of its sources: `x - x` does.
    """

    expr: Expr  # the plain node
    sources: tuple[Expr, ...]
    by: tuple[Variable, ...]

    @property
    def function(self) -> Expr:
        """The function of which this is a derivative."""
        return self.sources[0]


class Twin(Expr):
    """A twin of a node, with its derivation."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(plain(self))


_TWINS: dict[type[Expr], type[Expr]] = {
    kind: type(kind.__name__, (Twin, kind), {"__slots__": ("derivation",), "__doc__": kind.__doc__})
    for kind in (Variable, Constant, Einsum, Add, Map, Apply)
}


def derived(result: Expr, *sources: Expr, by: Sequence[Variable] = ()) -> Expr:
    """The result as the derivative of a function by variables, or as something that was made of sources."""
    result, xs = plain(result), tuple(by)
    if xs and (before := derivation(sources[0])).by:
        sources, xs = before.sources, before.by + xs
    return twin(Derivation(result, sources, xs))


def twin(known: Derivation) -> Expr:
    """The node that is a derivative, or was made of sources."""
    node = known.expr
    identity = (node.digest, [source.digest for source in known.sources], [x.digest for x in known.by])
    return intern(_TWINS[type(node)], ("derived", *identity), **fields_of(node), derivation=known)


def same_derivative(result: Expr, expr: Expr) -> Expr:
    """The result, a form of another expression, as the derivative that this is."""
    known = expr.derivation
    return result if known is None else twin(Derivation(plain(result), known.sources, known.by))


def fields_of(node: Expr) -> dict[str, Any]:
    """What a plain node holds."""
    slots = [name for kind in type(node).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(node, name) for name in slots if not name.startswith("_") and name != "digest"}


def derivation(expr: Expr) -> Derivation:
    """What an expression is a derivative of: of itself, by nothing, if nobody derived it."""
    return expr.derivation or Derivation(expr, (expr,), ())


def made_of(result: Expr, *exprs: Expr) -> Expr:
    """The result, with a note of what it was made of: functions, for derivatives of these, and other expressions."""
    return derived(result, *(source for x in exprs for source in derivation(x).sources))


def origins(*outputs: Expr) -> set[Variable]:
    """The variables of what some expressions were made of and derived by, which may have dropped out of them."""
    known = [output.derivation for output in outputs if output.derivation is not None]
    by = {x for one in known for x in one.by}
    sources = {id(source): source for one in known for source in one.sources}.values()  # those of all blocks are one
    return by.union(variables(*sources), origins(*sources)) if sources else by

"""Hessians of recurrences by several variables: one forward sweep of all gradients, along all entries side by side.

A reverse sweep of the gradient by each variable has as many nodes as the gradients together, for each variable again.
That pays where a variable is used once, as the weights of a layer are: its derivative is an outer product. The weights
of a recurrence meet in each turn what they have moved in all turns before, so that nothing of that form is left. There
the entries of all variables are numbered, and a node has one derivative by that number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from eindiff.calculus.chain_rule import depends, swept_forward
from eindiff.calculus.second_order import KINKS
from eindiff.calculus.spectra.closing import SPECTRAL
from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import einsum
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Apply, Expr, Map, Variable, is_contraction
from eindiff.core.sizes import Size
from eindiff.functions.opaque import REGISTRY

TURNS = 3  # in which an operand meets what it has moved before, in a recurrence
OPERANDS = 64  # of contractions that are looked at, those that are used most often
MOST_ENTRIES = 1024  # of all variables: of larger Hessians what is computed counts, not how many operations there are


def is_smooth(f: Expr, xs: Sequence[Variable]) -> bool:
    """Whether derivatives are those of each node alone, and second ones the same in any order: not at kinks, through
    eigenvalues, and by rules of other libraries."""
    order, moving = depends([f], xs)
    functions = {node.function.name for node in order if isinstance(node, Map | Apply) and node in moving}
    return functions.isdisjoint((*KINKS, *SPECTRAL)) and not any(name in REGISTRY for name in functions)


def is_recurrence(f: Expr, xs: Sequence[Variable]) -> bool:
    """Whether most entries of several variables are used again and again, in contractions one after the other."""
    if len(xs) < 2 or not all(isinstance(size, int) for x in xs for size in x.shape):
        return False
    order, moving = depends([f], xs)
    uses = Counter(child for node in order for child in node.children if child in moving)
    often, entries = sum(_entries(x) for x in xs if uses[x] >= TURNS), sum(map(_entries, xs))
    if entries > min(2 * often, MOST_ENTRIES):
        return False
    factors = Counter(child for node in order if is_contraction(node) for child in node.children if child in moving)
    again = [x for x, count in factors.most_common(OPERANDS) if count >= TURNS]
    return any(_turns(x, order) >= TURNS for x in again)


def _turns(x: Expr, order: Iterable[Expr]) -> int:
    """How many contractions with an operand there are at most one after the other."""
    before: dict[Expr, int] = {x: 0}
    for node in order:
        known = [before[child] for child in node.children if child in before]
        if known and node is not x:
            before[node] = max(known) + (is_contraction(node) and x in node.operands)
    return max(before.values())


def _entries(x: Variable) -> int:
    return int(sz.product(x.shape))


def side_by_side(gradients: Sequence[Expr], xs: Sequence[Variable]) -> list[list[Expr]]:
    """The derivative of each gradient by each variable."""
    numbers = _numbered(xs)
    seeds: dict[Expr, Expr] = {}
    for x, number in numbers.items():
        own = tuple(range(1, 1 + x.ndim))
        seeds[x] = einsum(1, [(number, (0, *own))], (*own, 0), dict(enumerate(number.shape)))
    found = swept_forward(*depends(gradients, xs), seeds)
    return [[_block(found.get(y), y, numbers[x]) for x in xs] for y in gradients]


def _numbered(xs: Sequence[Variable]) -> dict[Variable, Expr]:
    """The number of each entry among those of all variables, as a relation of it to the axes."""
    total, start = sum(map(_entries, set(xs))), 0
    result: dict[Variable, Expr] = {}
    for x in dict.fromkeys(xs):
        strides: list[Size] = [sz.product(x.shape[k + 1 :]) for k in range(x.ndim)]
        result[x] = construct.constant(IndexMap(total, x.shape, start, tuple(strides)))
        start += _entries(x)
    return result


def _block(dot: Expr | None, y: Expr, number: Expr) -> Expr:
    """The derivative by one variable, read from that by all entries."""
    if dot is None:
        return construct.filled(0, y.shape + number.shape[1:])
    own, by = tuple(range(y.ndim)), tuple(range(y.ndim, y.ndim + number.ndim))
    sizes = dict(enumerate(y.shape + number.shape))
    return einsum(1, [(dot, (*own, by[0])), (number, by)], own + by[1:], sizes, inline=False)

"""Derivatives where an absolute value has its kink, and the function of it none.

The derivative of `abs(u)` is `sign(u)`, 0 at 0, and that of `sign(u)` is 0. So the derivative of `abs(u) sign(u)`,
which is u, would be `sign(u)²`: 1, but 0 at 0. What is missing where p = 0 and q = 0 is how a factor of `sign(p)` grows
with `abs(q)`. Along an entry of x, p and q move with their slopes p' and q' by it: `sign(p)` is `sign(p')` on one side
and its negative on the other, and `abs(q)` grows by `abs(q')` to both sides. So `sign(p) abs(q)` has the derivative
`sign(p') abs(q')`, which is p' if p and q are the same entry: then it is that of p, whatever x is.

In the steps of a loop or the layers of a net each p meets each q: so many terms take long to find, and slopes of all
entries take long to compute. They are 0 unless some p is 0. Who sees numbers may ask for derivatives without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from eindiff.core import sizes as sz
from eindiff.core.construct import Factor, add, einsum, filled, is_zero, parts
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Add, Constant, Einsum, Expr, Map, is_index_map
from eindiff.core.sizes import Size
from eindiff.functions import elementwise as functions

Back = Callable[[Expr, Iterable[Expr], Expr | None], dict[Expr, Expr]]  # without a seed: the derivatives of an array
Forward = Callable[[Sequence[Expr], Expr], dict[Expr, Expr]]
MOST_MEETINGS = 8  # of p and q, whose terms are there wherever a derivative is asked for

_AWAY: ContextVar[list[Expr] | None] = ContextVar("eindiff_away_from_kinks", default=None)


@contextmanager
def away_from_kinks(is_so: bool = True) -> Iterator[list[Expr]]:
    """What is derived inside of a `with` block holds where nothing is 0 that the list has in the end."""
    found: list[Expr] = []
    token = _AWAY.set(found if is_so else None)
    try:
        yield found
    finally:
        _AWAY.reset(token)


def zeros(nodes: Iterable[Expr]) -> Expr:
    """How many entries of some nodes are 0."""
    counts = []
    for x in dict.fromkeys(nodes):
        own = tuple(range(x.ndim))
        one = _at_zero(filled(1, x.shape), functions.sign(x), own)
        counts.append(einsum(1, [(one, own)], (), dict(enumerate(x.shape))))
    return add(counts)


def pullbacks_at_kinks(
    y: Expr, order: Sequence[Expr], active: set[Expr], xs: Iterable[Expr], seed: Expr,
    forward: Forward, back: Back,
) -> Iterator[tuple[Expr, Expr]]:  # fmt: skip
    """Nodes that move with xs, and what kinks of the nodes of y add to their pullbacks.

    Where entries of x move one entry of p each, and p is q, this is a pullback of p, else one of x. The two sweeps add
    nothing at kinks themselves, else a loop with absolute values in it would take exponential time.
    """
    maps = [node for node in order if isinstance(node, Map)]
    absolutes = [node for node in maps if node.function.name == "abs" and node in active]
    signs = [node for node in maps if node.function.name == "sign" and node.args[0] in active]
    if not absolutes or not signs:
        return
    slopes = _slopes([node.args[0] for node in absolutes + signs], xs, forward)
    meetings = _meetings(signs, absolutes, slopes)
    away = _AWAY.get()
    if away is not None and sum(map(len, meetings.values())) > MOST_MEETINGS:
        away += [sign.args[0] for sign in meetings]
        return
    by_signs = back(y, meetings, seed)
    for sign, theirs in meetings.items():
        if sign in by_signs:
            both = back(by_signs[sign], theirs, None)
            for absolute in filter(both.__contains__, theirs):
                yield from _of_pair(sign, absolute, both[absolute], slopes)


def _slopes(nodes: Sequence[Expr], xs: Iterable[Expr], forward: Forward) -> dict[Expr, dict[Expr, Expr]]:
    """The derivatives of each node by those of xs that it depends on."""
    inner = list(dict.fromkeys(nodes))
    slopes = {x: forward(inner, x) for x in xs}
    return {u: {x: found[u] for x, found in slopes.items() if u in found} for u in inner}


def _meetings(
    signs: Sequence[Map], absolutes: Sequence[Map], slopes: dict[Expr, dict[Expr, Expr]]
) -> dict[Map, list[Map]]:  # fmt: skip
    """The absolute values that may have their kinks where a sign has its own, for the signs that have such."""
    met = {sign: [node for node in absolutes if _may_meet(sign.args[0], node.args[0], slopes)] for sign in signs}
    return {sign: theirs for sign, theirs in met.items() if theirs}


def _of_pair(sign: Map, absolute: Map, both: Expr, slopes: dict[Expr, dict[Expr, Expr]]) -> Iterator[tuple[Expr, Expr]]:
    """What a pair of p and q adds, from `∂²y / ∂sign(p) ∂abs(q)`, whose last axes are those of p and q."""
    p, q = sign.args[0], absolute.args[0]
    count = both.ndim - p.ndim - q.ndim
    same: list[Expr] = []
    apart: list[Expr] = []
    for term in _terms(both):
        output = parts(term)[2]
        diagonal = p is q and output[count : count + p.ndim] == output[count + p.ndim :]
        (same if diagonal else apart).append(term)
    if apart and p is q and all(_is_one_to_one(slope, p.ndim) for slope in slopes[p].values()):
        same, apart = [both], []
    if same:
        yield p, _at_same_entry(add(same), sign, count)
    if apart:
        for x, slope in slopes[p].items():
            if x in slopes[q]:
                yield x, _at_two_entries(add(apart), sign, functions.sign(q), slope, slopes[q][x])


def _at_same_entry(both: Expr, sign: Map, count: int) -> Expr:
    """`(1 - sign(p)²) ∂²y / ∂sign(p) ∂abs(p)`, where both are at the same entry."""
    own, sizes = tuple(range(count + sign.ndim)), dict(enumerate(both.shape[: count + sign.ndim]))
    entry = own[count:]
    return _at_zero(einsum(1, [(both, own + entry)], own, sizes, inline=False), sign, entry)


def _at_two_entries(both: Expr, sign: Expr, other: Expr, slope: Expr, other_slope: Expr) -> Expr:
    """`Σ_pq (1 - sign(p)²) (1 - sign(q)²) ∂²y / ∂sign(p) ∂abs(q) sign(p') abs(q')`, where x is one entry for both."""
    count = both.ndim - sign.ndim - other.ndim
    own = tuple(range(both.ndim))
    entry, place = own[count : count + sign.ndim], own[count + sign.ndim :]
    moved = tuple(range(both.ndim, both.ndim + slope.ndim - sign.ndim))
    sizes = dict(enumerate((*both.shape, *slope.shape[sign.ndim :])))
    zeros = [(_at_zero(filled(1, x.shape), x, tuple(range(x.ndim))), ls) for x, ls in ((sign, entry), (other, place))]
    turned, grown = _of_factors(functions.sign, slope), _of_factors(functions.abs, other_slope)
    factors: list[Factor] = [*zeros, (turned, entry + moved), (grown, place + moved)]
    output = own[:count] + moved
    terms = [term for term in _terms(both) if not is_zero(_at_zero(_at_zero(term, sign, entry), other, place))]
    found = [einsum(1, [(term, own), *factors], output, sizes, inline=False) for term in terms]
    return add([filled(0, tuple([sizes[x] for x in output])), *found])


def _at_zero(x: Expr, sign: Expr, entry: tuple[int, ...]) -> Expr:
    """`(1 - sign(u)²) x`, term by term: sign(u)³ = sign(u) and sign(u)² abs(u) = abs(u), so that such terms cancel."""
    own, sizes, squared = tuple(range(x.ndim)), dict(enumerate(x.shape)), [(sign, entry), (sign, entry)]
    return add([x, *[einsum(-1, [(term, own), *squared], own, sizes, inline=False) for term in _terms(x)]])


def _terms(x: Expr) -> Sequence[Expr]:
    return x.terms if isinstance(x, Add) else (x,)


def _of_factors(function: Callable[[Expr], Expr], x: Expr) -> Expr:
    """The sign or the absolute value of a product, factor by factor, so that deltas and index maps stay as they are."""
    if isinstance(x, Einsum) and x.is_product:
        factors = [(_of_factors(function, node), labels) for node, labels in x.factors]
        value = einsum(x.coefficient, [], (), {})
        return einsum(1, [(function(value), ()), *factors], x.output, dict(enumerate(x.sizes)))
    return x if is_index_map(x) else function(x)


def _is_one_to_one(slope: Expr, count: int) -> bool:
    """Whether an entry of x moves but one entry of p, whose axes are the first of the slope: each is one of x too."""
    output = parts(slope)[2]
    return set(output[:count]) <= set(output[count:])


def _may_meet(p: Expr, q: Expr, known: dict[Expr, dict[Expr, Expr]]) -> bool:
    """Whether an entry of some x may move both p and q: not if they are two entries of x."""
    slopes, others = known[p], known[q]
    for x in slopes.keys() & others.keys():
        one, two = _place(slopes[x]), _place(others[x])
        if one is None or two is None or not isinstance(apart := sz.subtract(one, two), int) or apart == 0:
            return True
    return False


def _place(slope: Expr) -> Size | None:
    """The entry of a vector that alone moves a number, if it is known by its place."""
    factors = parts(slope)[1]
    maps = [node.value for node, _ in factors if isinstance(node, Constant) and isinstance(node.value, IndexMap)]
    return maps[0].offset if len(maps) == 1 and not maps[0].inputs and maps[0].indices is None else None


def chain(bar: Expr, dot: Expr, count: int) -> Expr:
    """`v̄ *_(s1 sv, sv s2, s1 s2) v̇`, where s1 are the first `count` axes of v̄."""
    first = tuple(range(bar.ndim))
    last = tuple(range(bar.ndim, count + dot.ndim))
    sizes = dict(zip((*first, *last), (*bar.shape, *dot.shape[bar.ndim - count :]), strict=True))
    return einsum(1, [(bar, first), (dot, first[count:] + last)], first[:count] + last, sizes, inline=False)

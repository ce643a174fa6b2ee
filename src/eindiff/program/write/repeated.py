"""What is computed before the loops that use it: compilers take sines to be cheap, and compute them anew in each loop
that uses them, for each of its entries. Other functions they compute before, each in a loop of its own: for the
diagonal of a matrix, where one loop can compute all.

What they unroll costs nothing: they see that an entry of a row is the same for all rows. So a loop counts if its rows
are too long for that, or if it does too much for an entry.

Slow functions that one loop needs at several places, as `f(x[1:] - x[:-1])` with zeros before and behind, they compute
for each of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from math import prod
from operator import or_

from eindiff.core.traverse import post_order
from eindiff.program.operations import ARITHMETIC_OPS, Operation, count_uses, is_unit

# What is no part of a loop over entries with others: sums of products, functions of whole tensors, and diagonals, whose
# entries are computed once a row.
_AFRESH = frozenset({
    "sum", "trace", "matmul", "inner", "einsum", "gram", "mirrored", "solve", "structured_product", "reduce",
    "triangular_inverse", "opaque", "norm", "norm_of_several", "diagonal_matrix",
})  # fmt: skip
_VIEWS = frozenset({"expand", "reshape", "only", "part"})
_ENTRYWISE = ARITHMETIC_OPS | {"call"}
_SLOW = frozenset({"divide", "reciprocal", "raise", "logistic"})  # in the eyes of compilers, which do them once
_SLOW_CALLS = frozenset({"exp", "expm1", "log", "log1p", "sqrt", "cbrt", "tan", "tanh", "sigmoid", "softplus", "erf"})
_LONG_CALLS = frozenset({  # which are made of several of these
    "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "erfc", "erfinv", "gammaln", "digamma", "polygamma", "log_ndtr",
})  # fmt: skip
UNROLLED = 200  # operations of a row that compilers write one after the other, at most
LEAST_AGAIN = 128  # entries for which a function is computed again that are worth a loop of its own,
LEAST_ELSEWHERE = 512  # and those of other places in the same loop, which take the compiler no longer
MOST_PLACES = 15  # of a value in a loop; compilers compute what has more before
_SHIFTS = frozenset({"cut", "flip", "windows", "put", "concatenate", "take", "transpose", "swap", "permute"})


def computed_before(
    order: Sequence[Operation], outputs: Collection[Operation], repeated: frozenset[str]
) -> dict[Operation, str]:
    """What a compiler that repeats some functions had better compute before its uses, with the helper that says so."""
    if not repeated:
        return {}
    if not all(isinstance(size, int) for x in order for size in x.shape):
        return {}
    once, together = _computed_once(order, outputs, repeated), _computed_together(order, outputs)
    elsewhere = dict.fromkeys(_computed_elsewhere(order, outputs, repeated), "stored")
    return dict.fromkeys(together, "together") | dict.fromkeys(once, "once") | elsewhere


def _computed_once(
    order: Sequence[Operation], outputs: Collection[Operation], repeated: frozenset[str]
) -> set[Operation]:
    """The functions, of those that a compiler repeats, which had better be computed once; `order` has all operations,
    each after its operands."""
    found = [x for x in order if x.op == "call" and x.parameters[0] in repeated]
    if not found:
        return set()
    below, loops = _loops(order, outputs, repeated)
    again = Counter({x: -_entries(x) for x in found})
    bits = {x: 1 << k for k, x in enumerate(order) if x in again}
    for loop in loops:
        own = below.get(loop, 0)
        is_unrolled = own.bit_count() * prod(map(int, loop.shape[-1:])) <= UNROLLED
        for x in [x for x in found if own & bits[x]]:
            again[x] += _entries(x) if is_unrolled else max(_entries(x), _entries(loop))
    return {x for x in found if again[x] >= LEAST_AGAIN}


def _loops(
    order: Sequence[Operation], outputs: Collection[Operation], repeated: frozenset[str]
) -> tuple[dict[Operation, int], set[Operation]]:
    """What is computed in a loop for an entry of each operation, a bit for each; and the operations that are loops."""
    below: dict[Operation, int] = {}
    loops = set(outputs)
    for k, x in enumerate(order):
        is_apart = _is_afresh(x) or (x.op == "call" and x.parameters[0] not in repeated)
        loops.update(x.operands if is_apart else ())
        below[x] = 0 if is_apart else reduce(or_, [below.get(y, 0) for y in x.operands], 1 << k)
    return below, loops


def _computed_elsewhere(
    order: Sequence[Operation], outputs: Collection[Operation], repeated: frozenset[str]
) -> set[Operation]:
    """Slow functions of which one loop needs the values at several places, with what is made of these before it is used
    twice. What several loops need, or is repeated along other axes, compilers compute before."""
    found = set[Operation]()
    needed: dict[Operation, set[tuple]] = {x: {(x,)} for x in outputs}  # where: the loop, and what leads to the place
    users: dict[Operation, list[Operation]] = {}
    for x in reversed(order):
        places = needed.pop(x, set())
        is_slow = x.shape and (_slow_parts(x) or (x.op == "call" and x.parameters[0] in repeated))
        is_worth_it = is_slow and (len(places) - 1) * _entries(x) >= LEAST_ELSEWHERE
        if is_worth_it and len({loop for loop, *_ in places}) == 1:
            found.add(_used_twice(x, users))
        if len(places) != 1 if is_slow else len(places) > MOST_PLACES:
            places = {(x,)}
        for k, y in enumerate(x.operands):
            needed.setdefault(y, set()).update(_places_of(x, k, places))
            users.setdefault(y, []).append(x)
    return found


def _places_of(x: Operation, k: int, places: set[tuple]) -> set[tuple]:
    """Where an operand is needed, for an operation that is needed at some places."""
    y = x.operands[k]
    own = {(y,)} if _is_afresh(x) else places
    own = {(*place, (x.op, x.parameters, k)) for place in own} if x.op in _SHIFTS else own
    is_wider = x.op in _ENTRYWISE and _entries(y) < _entries(x)
    return own | {(y,)} if is_wider else own


def _used_twice(x: Operation, users: Mapping[Operation, Sequence[Operation]]) -> Operation:
    """What is made of a value by the one that uses it, and so on: compilers store what has several uses."""
    while len(above := users.get(x, ())) == 1 and above[0].op in _ENTRYWISE and above[0].shape == x.shape:
        x = above[0]
    return x


def _computed_together(order: Sequence[Operation], outputs: Collection[Operation]) -> set[Operation]:
    """Diagonals of matrices that are made by more than one function or quotient, which nothing else needs: compilers
    would store each of these for all rows of the matrix, and do the rest anew in each row."""
    diagonals = [x.operands[0] for x in order if x.op == "diagonal_matrix"]
    uses = count_uses(order, outputs) if diagonals else Counter()
    return {x for x in diagonals if sum(map(_slow_parts, _needed_by_one(x, uses))) > 1}


def _needed_by_one(diagonal: Operation, uses: Counter[Operation]) -> list[Operation]:
    """The arrays that a diagonal is computed from, entry by entry, and nothing else is."""
    inside = [y for x in post_order([diagonal], _entrywise) for y in _entrywise(x)]
    return [x for x, count in Counter([diagonal, *inside]).items() if x.shape and count >= uses[x]]


def _entrywise(x: Operation) -> Sequence[Operation]:
    return x.operands if x.op in _ENTRYWISE or x.op in _VIEWS else ()


def _slow_parts(x: Operation) -> int:
    """How many functions or quotients an operation is made of, up to 2: of a function of the library nobody knows."""
    if x.op == "call":
        return (x.parameters[0] in _SLOW_CALLS) + 2 * (x.parameters[0] in _LONG_CALLS)
    if x.op == "opaque":
        return 2 * (x.shape in [y.shape for y in x.operands])
    return x.op in _SLOW or (x.op == "power" and (x.parameters[0] < 0 or x.parameters[0] % 1 != 0))


def _entries(x: Operation) -> int:
    return prod(map(int, x.shape))


def _is_afresh(x: Operation) -> bool:
    """Whether what is given to an operation is not computed for each of its entries: a choice does that along rows."""
    chosen = [y for y in x.operands if not is_unit(y)] if x.op == "multiply" else []
    return x.op in _AFRESH or (0 < len(chosen) < len(x.operands) and all(y.shape[-1:] in ((), (1,)) for y in chosen))

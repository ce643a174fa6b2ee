"""Which functions are computed once: compilers take sines to be cheap, and compute them anew in each loop that uses
them, for each of its entries.

What they unroll costs nothing: they see that an entry of a row is the same for all rows. So a loop counts if its rows
are too long for that, or if it does too much for an entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import reduce
from math import prod
from operator import or_

from eindiff.program.operations import Operation, is_unit

# What is no part of a loop over entries with others: sums of products, functions of whole tensors, and diagonals, whose
# entries are computed once a row.
_AFRESH = frozenset({
    "sum", "trace", "matmul", "inner", "einsum", "gram", "mirrored", "solve", "structured_product", "reduce",
    "triangular_inverse", "opaque", "norm", "norm_of_several", "diagonal_matrix",
})  # fmt: skip
UNROLLED = 200  # operations of a row that compilers write one after the other, at most
LEAST_AGAIN = 256  # entries for which a function is computed again that are worth a loop of its own


def computed_once(
    order: Sequence[Operation], outputs: Collection[Operation], repeated: frozenset[str]
) -> set[Operation]:
    """The functions, of those that a compiler repeats, which had better be computed once; `order` has all operations,
    each after its operands."""
    found = [x for x in order if x.op == "call" and x.parameters[0] in repeated]
    if not found or not all(isinstance(size, int) for x in order for size in x.shape):
        return set()
    below: dict[Operation, int] = {}  # what is computed in a loop for an entry of an operation: a bit for each
    loops = set(outputs)
    for k, x in enumerate(order):
        is_apart = _is_afresh(x) or (x.op == "call" and x.parameters[0] not in repeated)
        loops.update(x.operands if is_apart else ())
        below[x] = 0 if is_apart else reduce(or_, [below.get(y, 0) for y in x.operands], 1 << k)
    again = Counter({x: -_entries(x) for x in found})
    bits = {x: 1 << order.index(x) for x in found}
    for loop in loops:
        own = below.get(loop, 0)
        is_unrolled = own.bit_count() * prod(loop.shape[-1:]) <= UNROLLED
        for x in found:
            if own & bits[x]:
                again[x] += _entries(x) if is_unrolled else max(_entries(x), _entries(loop))
    return {x for x in found if again[x] >= LEAST_AGAIN}


def _entries(x: Operation) -> int:
    return prod(map(int, x.shape))


def _is_afresh(x: Operation) -> bool:
    """Whether what is given to an operation is not computed for each of its entries: a choice does that along rows."""
    chosen = [y for y in x.operands if not is_unit(y)] if x.op == "multiply" else []
    return x.op in _AFRESH or (0 < len(chosen) < len(x.operands) and all(y.shape[-1:] in ((), (1,)) for y in chosen))

"""Terms of sums that are near each other: `x[1:] - x[:-1]`, `x - logsumexp(x)`.

Where x is large beside their difference, it has the digits that are left: it is computed before anything is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eindiff.core.coefficients import Number
from eindiff.core.nodes import Expr
from eindiff.planning.deviations import Balance, Deviation

if TYPE_CHECKING:
    from eindiff.program.operations import Operation

    Term = tuple[Number, Operation]

READ = {
    "transpose", "swap", "permute", "expand", "only", "cut", "flip", "reshape", "broadcast", "diagonal", "windows",
    "contiguous", "take",
}  # fmt: skip
BELOW = 8  # operations that are looked at below a term


def in_pairs(terms: Sequence[Term]) -> tuple[list[tuple[Term, Term]], list[Term]]:
    """Pairs of terms with opposite signs, both read from one array or one computed along its axes; and other terms."""
    left, pairs = list(terms), []
    below = {x: _below(x) for _, x in terms}
    for plus in (term for term in terms if term[0] > 0):
        near = [minus for minus in left if minus[0] < 0 and _is_near(below[plus[1]], below[minus[1]])]
        if near:
            pairs.append((plus, near[0]))
            left = [term for term in left if term is not plus and term is not near[0]]
    return pairs, left


def _is_near(ours: list[Operation], theirs: list[Operation]) -> bool:
    """Whether two terms are read from one array, or one is made of that of the other and has fewer axes."""
    few, many = sorted((ours, theirs), key=lambda one: len(one[0].shape))
    return many[0] in few and (many[0] is few[0] or len(few[0].shape) < len(many[0].shape))


def _below(x: Operation) -> list[Operation]:
    """What a term is read from, and some of what this is made of."""
    while x.op in READ:
        x = x.operands[0]
    found = [x]
    for y in found:
        found += [z for z in y.operands if z not in found and len(found) < BELOW]
    return found


def added_up(terms: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of terms; what rounding took from the sums on the way is added in the end."""
    total, lost = terms[0], np.zeros(terms[0].shape)
    for term in terms[1:]:
        before, total = total, total + term
        with np.errstate(invalid="ignore"):
            added = total - before
            error = (before - (total - added)) + (term - added)
        lost = lost + np.where(np.isfinite(error), error, 0)
    return np.asarray(total + lost)


def without_mean(x: np.ndarray, found: Deviation, values: Mapping[Expr, np.ndarray]) -> np.ndarray:
    """Deviations from means without the mean that rounding has left."""
    weights = np.ones(x.shape[found.axis])
    for node in found.weights:
        weights = weights * values[node]
    mean = np.tensordot(x, weights, (found.axis, 0)) / weights.sum()
    return np.asarray(x - np.expand_dims(mean, found.axis))


def balanced(x: np.ndarray, found: Balance) -> np.ndarray:
    """An array with the total of the entries beside a diagonal, with the other sign, on it."""
    x = np.moveaxis(np.array(x), (found.other, found.axis), (-2, -1))
    places = np.arange(x.shape[-1])
    x[..., places, places] = 0
    x[..., places, places] = -x.sum(-1)
    return np.moveaxis(x, (-2, -1), (found.other, found.axis))

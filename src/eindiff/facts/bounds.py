"""What is known of the value of an expression at every point: bounds of its entries, symmetry, definiteness.

Facts are inferred from the leaves up. They hold in exact arithmetic at all real inputs with the declared properties at
which every operation is defined: there `1/x` has an x that is not 0, and what is inverted has an inverse. In floating
point `exp(x)` may be 0 all the same. What is not known is infinite or False.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import inf, log, nextafter

import numpy as np

from eindiff.core import construct
from eindiff.core.derivation import derivation
from eindiff.core.index_relations import IndexMap
from eindiff.core.intervals import UNKNOWN, Interval, absolute, bounded, hull, point, sum_of, times, total
from eindiff.core.labels import Labels
from eindiff.core.networks import arranged
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Variable, plain, remember, topological
from eindiff.core.sizes import Size
from eindiff.facts.definiteness import Level, definiteness, is_diagonal, is_symmetric


@dataclass(frozen=True, slots=True)
class Facts(Interval):
    """What is known of an expression: bounds of its entries, and what it is as an operator.

    The first half of the axes are the rows and the second half the columns; without such halves, of equal shape, the
    expression is none of these. Semidefinite and diagonal operators are symmetric.

    >>> import eindiff as ed
    >>> X, w = ed.matrix("X", "m", "n"), ed.vector("w", "n")
    >>> facts(ed.hessian(ed.sum(ed.softplus(X @ w)), w)).psd
    True
    >>> facts(ed.tanh(X))
    Facts(low=-1.0, high=1.0, nonzero=False, symmetric=False, psd=False, nsd=False, pd=False, nd=False, diagonal=False)
    """

    symmetric: bool = False
    psd: bool = False  # positive semidefinite
    nsd: bool = False
    pd: bool = False  # positive definite
    nd: bool = False
    diagonal: bool = False  # entries with different row and column are 0


def facts(expr: Expr) -> Facts:
    """What is known of an expression, without a look at any values; a Hessian is symmetric besides (Schwarz).

    Derivatives by a symmetric variable come in two forms, and a mixed one is not symmetric.
    """
    node, by = plain(expr), derivation(expr).by
    found = getattr(node, "_facts", None) or remember(node, "_facts", _found(node))
    second = len(by) > 1 and by[-1] is by[-2] and expr.ndim == 2 * by[-1].ndim and not by[-1].symmetries
    return replace(found, symmetric=True) if second and not found.symmetric else found


def _found(expr: Expr) -> Facts:
    own, half = interval(expr), expr.ndim // 2
    operator: list[bool] = []
    if expr.shape[:half] == expr.shape[half:]:
        rows, cols = tuple(range(half)), tuple(range(half, expr.ndim))
        level = definiteness(expr, rows, cols, _level) if half else own.level
        signs = [False] * 4 if level is None else [level >= 0, level <= 0, level == 2, level == -2]
        diagonal = is_diagonal(expr)
        operator = [level is not None or diagonal or is_symmetric(expr), *signs, diagonal]
    return Facts(own.low, own.high, own.nonzero, *operator)


def interval(expr: Expr) -> Interval:
    """Bounds of the entries of an expression."""
    for node in topological([expr]) if not hasattr(plain(expr), "_interval") else ():
        if not hasattr(node, "_interval"):
            remember(node, "_interval", _interval(node))
    return _known(plain(expr))


def _known(node: Expr) -> Interval:
    """The bounds of a node that were found already: those of nodes below are."""
    found: Interval = node._interval
    return found


def _level(node: Expr) -> Level:
    return _known(node).level


def _repeated(a: Interval, size: Size) -> Interval:
    """A sum over an axis; a size that is a name may be 0."""
    added = times(a, point(size) if isinstance(size, int) else bounded(0, inf))
    return added if a.sign is not None or size == 1 else bounded(added.low, added.high)


# Nodes


def _interval(node: Expr) -> Interval:
    """The bounds of a node from those of its children."""
    match node:
        case Variable(properties=properties):
            high = 1.0 if "orthogonal" in properties else inf
            return bounded(0 if "positive" in properties else -high, high, "positive" in properties)
        case Constant(value=np.ndarray() as array):
            return bounded(array.min(), array.max(), bool(array.all())) if np.isfinite(array).all() else UNKNOWN
        case Constant():  # a size, or zeros and ones
            return bounded(0, 1 if node.shape else inf)
        case Add():
            return _add(node)
        case Einsum():
            return _einsum(node)
        case Map():
            return _by_row(node)
        case Apply():
            return _apply(node)
    raise AssertionError(f"a node of unknown kind: {type(node)}")


def _by_row(node: Map | Apply) -> Interval:
    """The bounds that the row of a function has, from those of its arguments."""
    function = node.function
    return UNKNOWN if function.bounds is None else function.bounds(function, *(_known(arg) for arg in node.args))


def _add(node: Add) -> Interval:
    """The sum of the terms' bounds; and `logsumexp(x) - x` is not negative, so a softmax is at most 1."""
    own = sum_of([_known(term) for term in node.terms])
    for term in node.terms:
        if own.sign is None and (sign := _beside_logsumexp(node, term)):
            return bounded(max(own.low, 0), own.high) if sign > 0 else bounded(own.low, min(own.high, 0))
    return own


def _beside_logsumexp(node: Add, term: Expr) -> int:
    """The sign of c if the sum is `c logsumexp(x) - c x`, where `c logsumexp(x)` is the term; else 0."""
    coefficient, factors, output, sizes = construct.parts(term)
    found = factors[0][0] if len(factors) == 1 else None
    if not isinstance(found, Apply) or found.function.name != "logsumexp" or len(set(output)) < len(output):
        return 0
    along = [label for label in output if label not in factors[0][1]]
    if len(along) != 1:
        return 0
    labels = (*(factors[0][1][axis] for axis in found.batch[0]), along[0])
    if found.args[0].shape != tuple([sizes[label] for label in labels]):
        return 0
    x = construct.einsum(-coefficient, [(found.args[0], labels)], output, sizes)
    rest = construct.add([other for other in node.terms if other is not term])
    return 0 if rest is not x else 1 if coefficient > 0 else -1


def _einsum(node: Einsum) -> Interval:
    """Products of bounds, factors that come twice as squares, times the number of terms; 0 beside deltas.

    Where that does not tell the sign, a mirror may: `x'P x` is not negative for a semidefinite P.
    """
    selected, single = _selections(node)
    counts: Counter[tuple[Expr, Labels]] = Counter()
    for index, (operand, labels) in enumerate(node.factors):
        if index not in selected:
            counts[arranged(operand, labels)] += 1
    result = point(node.coefficient)
    for (operand, _), count in counts.items():
        own = _known(operand)
        for factor in [absolute(own)] * (count - count % 2) + [own] * (count % 2):
            result = times(result, factor)
    for label in node.contracted:
        if label not in single:
            result = _repeated(result, node.sizes[label])
    if node.has_delta:
        result = hull(result, point(0))
    return _mirrored(node, result) if result.sign is None else result


def _mirrored(node: Einsum, result: Interval) -> Interval:
    """The bounds of a product or contraction with the sign that a mirror shows."""
    if not node.contracted and all(len(set(labels)) == len(labels) for labels in node.labels):
        return result
    level = definiteness(node, (), (), _level)
    if level is None:
        return result
    return bounded(0 if level > 0 else result.low, result.high if level > 0 else 0, abs(level) == 2)


def _selections(node: Einsum) -> tuple[set[int], set[int]]:
    """Index maps that select one term of the sum over their first label, and contracted labels with at most one term.

    A map whose first label is contracted is 1 once; one that is injective and whose first label is not contracted is 1
    at most once for contracted inputs. The first labels of all these maps must not be inputs of any of them.
    """
    selected, single, firsts, inputs = (set[int]() for _ in range(4))
    for index, (operand, labels) in enumerate(node.factors):
        if not (isinstance(operand, Constant) and isinstance(operand.value, IndexMap)):
            continue
        first, others = labels[0], set(labels[1:])
        if first in firsts or first in inputs | others or firsts & others:
            continue
        if first not in node.output:
            selected.add(index)
            single.add(first)
        elif operand.value.injective:
            single.update(others.difference(node.output))
        firsts.add(first)
        inputs |= others
    return selected, single


def _apply(node: Apply) -> Interval:
    """Functions of whole tensors: what shapes and definite arguments tell, or else what their rows do."""
    x, arg = _known(node.args[0]), node.args[0]
    match node.function.name:
        case "logsumexp":
            count = arg.shape[-1]
            more = nextafter(log(count), inf) if isinstance(count, int) and count > 0 else inf
            return bounded(x.low, total([x.high, more], inf))
        case "det" | "eigvals":
            level = definiteness(arg, (arg.ndim - 2,), (arg.ndim - 1,), _level)
            return bounded(0, inf, level == 2) if level is not None and level > 0 else UNKNOWN
    return _by_row(node)

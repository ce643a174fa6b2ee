"""What is known of the value of an expression at every point: bounds of its entries, symmetry, definiteness.

Facts are inferred from the leaves up. They hold in exact arithmetic at all real inputs with the declared properties at
which every operation is defined: there `1/x` has an x that is not 0, and what is inverted has an inverse. In floating
point `exp(x)` may be 0 all the same. What is not known is infinite or False.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import erf, fsum, inf, isfinite, isinf, log, nextafter
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.derivation import derivation
from eindiff.core.index_relations import IndexMap
from eindiff.core.labels import Labels, best_arrangement
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Number, Variable, plain, remember, topological
from eindiff.core.sizes import Size
from eindiff.facts.definiteness import Level, definiteness, is_diagonal, is_symmetric
from eindiff.functions.series import SERIES


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of all entries of a tensor, and whether none of them is 0."""

    low: float = -inf
    high: float = inf
    nonzero: bool = False

    @property
    def sign(self) -> int | None:
        """1 if no entry is negative, -1 if none is positive, 0 if all are zero, None if that is not known."""
        return 0 if self.low == 0 == self.high else 1 if self.low >= 0 else -1 if self.high <= 0 else None

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative."""
        return self.low >= 0

    @property
    def is_positive(self) -> bool:
        """Whether all entries are greater than 0."""
        return self.low >= 0 and self.nonzero

    @property
    def level(self) -> Level:
        """The sign as in `semidefinite`: twice as large if no entry is 0."""
        return self.sign and (2 if self.nonzero else 1) * self.sign


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


UNKNOWN = Interval()


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


# Arithmetic of intervals, rounded outward wherever it is not exact


def bounded(low: float, high: float, nonzero: bool = False) -> Interval:
    """An interval; nothing is known if it would be empty, which only happens outside of the domain."""
    return Interval(float(low) + 0.0, float(high) + 0.0, nonzero or low > 0 or high < 0) if low <= high else UNKNOWN


def _point(value: Number) -> Interval:
    if not isfinite(value):
        return UNKNOWN
    near = float(value)
    if Fraction(near) == value:
        return bounded(near, near)
    return bounded(nextafter(near, -inf), nextafter(near, inf))


def _product(x: float, y: float, direction: float) -> float:
    """A bound times a bound, where 0 * inf is 0: entries are finite."""
    if x == 0 or y == 0:
        return 0.0
    short = all(abs(v) < 2**16 and (1024 * v).is_integer() for v in (x, y))
    exact = short or not {abs(x), abs(y)}.isdisjoint((1.0, inf))
    return x * y if exact else nextafter(x * y, direction)


def _total(bounds: Sequence[float], direction: float) -> float:
    """A sum of bounds; the sign of what `fsum` gives is right."""
    if any(isinf(bound) for bound in bounds):
        return direction
    total = fsum(bounds)
    return total if fsum([*bounds, -total]) == 0 else nextafter(total, direction)


def _times(a: Interval, b: Interval) -> Interval:
    ends = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = min(_product(x, y, -inf) for x, y in ends), max(_product(x, y, inf) for x, y in ends)
    return bounded(low, high, a.nonzero and b.nonzero)


def _negative(a: Interval) -> Interval:
    return bounded(-a.high, -a.low, a.nonzero)


def _abs(a: Interval) -> Interval:
    return a if a.low >= 0 else _negative(a) if a.high <= 0 else bounded(0, max(-a.low, a.high), a.nonzero)


def _hull(*intervals: Interval) -> Interval:
    low, high = min(a.low for a in intervals), max(a.high for a in intervals)
    return bounded(low, high, all(a.nonzero for a in intervals))


def _sum(terms: Sequence[Interval]) -> Interval:
    low, high = _total([a.low for a in terms], -inf), _total([a.high for a in terms], inf)
    one_sided = all(a.low >= 0 for a in terms) or all(a.high <= 0 for a in terms)
    return bounded(low, high, one_sided and any(a.nonzero for a in terms))


def _repeated(a: Interval, size: Size) -> Interval:
    """A sum over an axis; a size that is a name may be 0."""
    total = _times(a, _point(size) if isinstance(size, int) else bounded(0, inf))
    return total if a.sign is not None or size == 1 else bounded(total.low, total.high)


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
            infer = ELEMENTWISE.get(node.function.name)
            return UNKNOWN if infer is None else infer(node.function.parameter, *(_known(arg) for arg in node.args))
        case Apply():
            return _apply(node)
    raise AssertionError(f"a node of unknown kind: {type(node)}")


def _add(node: Add) -> Interval:
    """The sum of the terms' bounds; and `logsumexp(x) - x` is not negative, so a softmax is at most 1."""
    own = _sum([_known(term) for term in node.terms])
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
    x = construct.einsum(-coefficient, [(found.args[0], labels)], output, sizes)
    rest = construct.add([other for other in node.terms if other is not term])
    return 0 if rest is not x else 1 if coefficient > 0 else -1


def _einsum(node: Einsum) -> Interval:
    """Products of bounds, factors that come twice as squares, times the number of terms; 0 beside deltas.

    Where that does not tell the sign, a mirror may: `x'P x` is not negative for a semidefinite P.
    """
    selected, single = _selections(node)
    counts: Counter[tuple[Expr, Labels]] = Counter()
    for index, (operand, labels) in enumerate(zip(node.operands, node.labels, strict=True)):
        if index not in selected:
            even = [(axes, sign) for axes, sign in operand.symmetries if sign == 1]
            counts[operand, best_arrangement(labels, even)[0]] += 1
    result = _point(node.coefficient)
    for (operand, _), count in counts.items():
        own = _known(operand)
        for factor in [_abs(own)] * (count - count % 2) + [own] * (count % 2):
            result = _times(result, factor)
    for label in node.contracted:
        if label not in single:
            result = _repeated(result, node.sizes[label])
    if node.has_delta:
        result = _hull(result, _point(0))
    if result.sign is None and (node.contracted or any(len(set(x)) < len(x) for x in node.labels)):
        level = definiteness(node, (), (), _level)
        if level is not None:
            result = bounded(0 if level > 0 else result.low, result.high if level > 0 else 0, abs(level) == 2)
    return result


def _selections(node: Einsum) -> tuple[set[int], set[int]]:
    """Index maps that select one term of the sum over their first label, and contracted labels with at most one term.

    A map whose first label is contracted is 1 once; one that is injective and whose first label is not contracted is 1
    at most once for contracted inputs. The first labels of all these maps must not be inputs of any of them.
    """
    selected, single, firsts, inputs = (set[int]() for _ in range(4))
    for index, (operand, labels) in enumerate(zip(node.operands, node.labels, strict=True)):
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
    """Functions of whole tensors."""
    x, arg = _known(node.args[0]), node.args[0]
    match node.function.name:
        case "logsumexp":
            count = arg.shape[-1]
            more = nextafter(log(count), inf) if isinstance(count, int) and count > 0 else inf
            return bounded(x.low, _total([x.high, more], inf))
        case "max":
            return x
        case "argmax":
            return bounded(0, 1)
        case "prod":
            high = 1.0 if x.low >= -1 and x.high <= 1 else inf
            return bounded(0 if x.low >= 0 else -high, high, x.nonzero and node.function.parameter is None)
        case "det" | "eigvals":
            level = definiteness(arg, (arg.ndim - 2,), (arg.ndim - 1,), _level)
            return bounded(0, inf, level == 2) if level is not None and level > 0 else UNKNOWN
        case "svdvals":
            return bounded(0, inf)
        case "eigvecs" | "svdleft" | "svdright":
            return bounded(-1, 1)
    return UNKNOWN


# Elementwise functions

Infer = Callable[..., Interval]
_EXACT = (0.0, 1.0, -1.0, inf, -inf)


def _at(function: Callable[[Any], Any], x: float, direction: float) -> float:
    """A bound of the value of a function at a point, which is exact if both are simple."""
    with np.errstate(all="ignore"):
        value = float(function(np.float64(x)))
    if x in _EXACT and value in _EXACT:
        return value
    return nextafter(value + (abs(value) if direction > 0 else -abs(value)) * 2.0**-50, direction)


def _increasing(value: Callable[[Any], Any], zeros: str = "", start: float = -inf, end: float = inf) -> Infer:
    """Bounds of an increasing function on its domain. Its zeros are `none`, the argument's (`same`), or `up to 0`."""

    def infer(_: Any, x: Interval) -> Interval:
        low, high = max(x.low, start), min(x.high, end)
        if low > high:
            return UNKNOWN
        floor, ceiling = _at(value, start, -inf), _at(value, end, inf)
        low, high = max(_at(value, low, -inf), floor), min(_at(value, high, inf), ceiling)
        return bounded(low, high, {"none": True, "same": x.nonzero, "up to 0": x.is_positive}.get(zeros, False))

    return infer


def _sigmoid(x: float) -> float:
    """Without SciPy, which takes long to import."""
    small = np.exp(-abs(x))
    return (1 if x >= 0 else small) / (1 + small)


def _reciprocal(x: Interval) -> Interval:
    """1/x, where x is not 0."""
    if x.high <= 0 and x.low < 0:
        return _negative(_reciprocal(_negative(x)))
    if x.low < 0:
        return bounded(-inf, inf, True)
    low, high = (_at(np.reciprocal, end, direction) for end, direction in ((x.high, -inf), (x.low, inf)))
    return bounded(max(low, 0), high, True)


def _power(exponent: Number, x: Interval) -> Interval:
    """x to a known power: an even one is not negative; one that is no integer is defined for x >= 0 only."""
    if not isfinite(exponent):
        return UNKNOWN
    if exponent < 0:
        return _reciprocal(_power(-exponent, x))
    odd = exponent == int(exponent) and exponent % 2 == 1
    infer = _increasing(lambda v: np.power(v, float(exponent)), "same", -inf if odd else 0)
    return infer(None, _abs(x) if exponent % 2 == 0 else x)


def _maximum(_: Any, a: Interval, b: Interval) -> Interval:
    return bounded(max(a.low, b.low), max(a.high, b.high), (a.nonzero and b.nonzero) or a.is_positive or b.is_positive)


def _within(low: float, high: float) -> Infer:
    return lambda *_: bounded(low, high)


ELEMENTWISE: dict[str, Infer] = {
    "exp": _increasing(np.exp, "none"),
    "expm1": _increasing(np.expm1, "same"),
    "log": _increasing(np.log, start=0),
    "log1p": _increasing(np.log1p, "same", start=-1),
    "abs": lambda _, x: _abs(x),
    "sign": _increasing(np.sign, "same"),
    "sin": _within(-1, 1),
    "cos": _within(-1, 1),
    "tan": _within(-inf, inf),
    "arcsin": _increasing(np.arcsin, "same", -1, 1),
    "arccos": lambda _, x: _negative(_increasing(lambda v: -np.arccos(v), "", -1, 1)(None, x)),
    "arctan": _increasing(np.arctan, "same"),
    "sinh": _increasing(np.sinh, "same"),
    "cosh": lambda _, x: _increasing(np.cosh, "none", start=0)(None, _abs(x)),
    "tanh": _increasing(np.tanh, "same"),
    "sigmoid": _increasing(_sigmoid, "none"),
    "softplus": _increasing(lambda x: np.logaddexp(0, x), "none"),
    "relu": _increasing(lambda x: np.maximum(x, 0), "up to 0"),
    "step": _increasing(lambda x: np.heaviside(x, 0.0), "up to 0"),
    "erf": _increasing(erf, "same"),
    "inverse_or_zero": lambda _, x: _reciprocal(x) if x.nonzero else _hull(_reciprocal(x), _point(0)),
    "pow": _power,
    "power": lambda _, a, b: bounded(0, inf, a.nonzero) if a.is_nonnegative else UNKNOWN,
    "power_derivative": lambda *_: UNKNOWN,
    "winner": _within(0, 1),
    "greater": _within(0, 1),
    "maximum": _maximum,
    "where": lambda _, c, a, b: _hull(a, b),
}
_FALLING = frozenset({"arccos", "cos", "cosh", "sin", "tan", "abs"})  # somewhere
ELEMENTWISE.update({
    f"divided_{name}": (lambda *_: UNKNOWN) if name in _FALLING else _within(0, inf) for name in SERIES
})  # fmt: skip

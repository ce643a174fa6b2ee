"""Which tensors are positive semidefinite as operators, as far as their structure shows it.

A tensor with some axes called rows, as many called columns, and the others called batch, is semidefinite if for every
value of the batch axes the matrix from columns to rows is symmetric and semidefinite. A level says what is known:
2 and 1 for positive definite and semidefinite, -2 and -1 for negative, 0 for zero, None for nothing. A tensor without
rows is a stack of numbers, and its level is their sign. All this is about exact arithmetic, in the domain.

**The mirror.** Let a product of operands, summed over some labels, have an involution σ of its labels that takes each
row's label to its column's and leaves the batch labels alone, and let the labels that σ moves split into a left side R
with all that are rows, and its image, the right side, with all that are columns. If the operands are

- pairs A(l), A(σl) with l in R and fixed labels only,
- single operands that are semidefinite from those of their axes in σR to the opposite axes in R, fixed labels being
  batch axes; in particular numbers of known sign if σ moves none of their labels,

then the product is semidefinite, and negative if an odd number of operands is.

*Proof.* Fix the values f of the fixed labels. A pair is a kernel u(r) u(r') on R, hence positive, a single operand is a
kernel of known sign that looks at some of r, and products of positive kernels are positive (Schur). So K_f(r, r') is
one, and the result is Σ_f P_f K_f P_f', where P_f puts r and f at the rows (a delta where labels repeat, ones where
they are unbound) and sums over what is contracted: conjugation and sums keep it positive. If nothing is contracted, no
row's label repeats, and single definite operands see all of R, then K_f is a principal part of a tensor product of
definite matrices and P_f is injective, so the result is definite. A label at row 1 and at column 2 would have to be on
both sides: `X ↦ X'` is not positive. ∎

Sums are semidefinite if all terms are; definite if one is. A product without mirror may have one when contractions
in it are opened, or be a sum of such when a sum in it is distributed over: `X'(X + P X)` with positive diagonal P is.
Inverses, square roots and exponentials of matrices keep what they are known to keep, and so do elementwise functions
whose power series has no negative coefficient (Schur).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite

import numpy as np

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import (
    Add,
    Apply,
    Constant,
    Einsum,
    Expr,
    Map,
    Number,
    Variable,
    is_contraction,
    plain,
    remember,
)
from eindiff.core.sizes import Size

Level = int | None
Axes = tuple[int, ...]
Query = tuple[Expr, Axes, Axes]
Mirror = dict[int, tuple[int, int]]  # σ: the image of a label, and its side: 1 for R, -1 for σR, 0 if it is fixed

_TRIES = 200  # steps of the search for one mirror
_QUERIES = 2000  # evaluations for one answer
_MOST_OPERANDS = 64  # operands of a product that is searched
_FLAT = 12  # operands of a contraction whose contractions are looked into
_LARGEST_LITERAL = 256  # rows of a literal matrix that is examined
_OF_MATRICES = frozenset({"inv", "pinv", "sqrtm", "expm"})


def times(a: Level, b: Level) -> Level:
    """The level of a product of numbers, or of kernels that see the same labels."""
    if a == 0 or b == 0:
        return 0
    if a is None or b is None:
        return None
    return (1 if (a > 0) == (b > 0) else -1) * min(abs(a), abs(b))


def plus(levels: Sequence[Level]) -> Level:
    """The level of a sum."""
    known = [level for level in levels if level is not None]
    if len(known) < len(levels) or (min(known) < 0 < max(known)):
        return None
    return max(known, key=abs)


def level_of(value: Number) -> Level:
    """The sign of a number as a level."""
    return None if not isfinite(value) else 2 if value > 0 else -2 if value < 0 else 0


def definiteness(node: Expr, rows: Axes, cols: Axes, sign: Callable[[Expr], Level]) -> Level:
    """What is known of a node as an operator from the axes `cols` to `rows`; `sign` knows entries of all nodes below.

    A question that needs the answer to another one waits for it on a stack, so that depth does not matter.
    """
    stack = [_query(node, rows, cols)]
    for _ in range(_QUERIES):
        question = stack[-1]
        try:
            answer = _Evaluation(sign).level(*question)
        except _Missing as missing:
            stack.append(missing.query)
            continue
        _levels(question[0])[question[1:]] = answer
        stack.pop()
        if not stack:
            return answer
    return None


def _levels(node: Expr) -> dict[tuple[Axes, Axes], Level]:
    """The answers about a node that are known."""
    return node._levels if hasattr(node, "_levels") else remember(node, "_levels", {})


def _query(node: Expr, rows: Axes, cols: Axes) -> Query:
    """A question in the form in which its answer is kept: the order of rows, and which side is left, do not matter."""
    best = min(sorted(zip(rows, cols, strict=True)), sorted(zip(cols, rows, strict=True)))
    return node, tuple([row for row, _ in best]), tuple([col for _, col in best])


def is_diagonal(expr: Expr) -> bool:
    """Whether labels, or the entries of a literal, show that an operator has zeros off its diagonal."""
    half = expr.ndim // 2
    match expr:
        case Einsum():
            return expr.coefficient == 0 or expr.output[:half] == expr.output[half:]
        case Add():
            return all(is_diagonal(term) for term in expr.terms)
        case Constant(value=np.ndarray() as array):
            flat = array.reshape(int(np.sqrt(array.size)), -1)
            return bool((flat == np.diag(flat.diagonal())).all())
    return half == 0


def is_symmetric(expr: Expr) -> bool:
    """Whether an operator is its own mirror image, which is the same object."""
    expr = plain(expr)
    swap = (*range(expr.ndim // 2, expr.ndim), *range(expr.ndim // 2))
    match expr:
        case Add():
            return {construct.transpose(term, swap) for term in expr.terms} == set(expr.terms)
        case Map():
            return all(construct.transpose(arg, swap) is arg for arg in expr.args)
    return construct.transpose(expr, swap) is expr


class _Missing(Exception):  # noqa: N818 (it is no error)
    """A question that has to be answered first."""

    def __init__(self, query: Query) -> None:
        self.query = query


@dataclass(slots=True)
class _Evaluation:
    """The answer to one question, from answers about the nodes below."""

    sign: Callable[[Expr], Level]
    tries: int = 0

    def ask(self, node: Expr, rows: Axes, cols: Axes) -> Level:
        if not rows:
            return self.sign(node)
        if any(node.shape[row] != node.shape[col] for row, col in zip(rows, cols, strict=True)) or not _possible(node):
            return None
        query = _query(node, rows, cols)
        answers = _levels(node)
        if query[1:] not in answers:
            raise _Missing(query)
        return answers[query[1:]]

    def level(self, node: Expr, rows: Axes, cols: Axes) -> Level:
        match node:
            case Variable():
                return 1 if "psd" in node.properties and rows else None
            case Constant():
                return _literal(node.value) if isinstance(node.value, np.ndarray) and rows else None
            case Map():
                inside = self.ask(node.args[0], rows, cols) if _possible(node) else None
                return None if inside is None or inside < 0 else 1
            case Apply():
                return self._apply(node, rows, cols)
            case Add():
                return self._add(node, rows, cols)
            case Einsum():
                return self._einsum(node, rows, cols)
        raise AssertionError(f"a node of unknown kind: {type(node)}")

    def _apply(self, node: Apply, rows: Axes, cols: Axes) -> Level:
        """Functions of matrices, whose axes are the last two. What is inverted has an inverse."""
        if not _possible(node) or {*rows, *cols} != {node.ndim - 2, node.ndim - 1}:
            return None
        if node.function.name == "expm":
            swap = (*range(node.ndim - 2), node.ndim - 1, node.ndim - 2)
            return 2 if (swap, 1) in node.symmetries else None
        arg = node.args[0]
        inside = self.ask(arg, (arg.ndim - 2,), (arg.ndim - 1,))
        if inside is None or (node.function.name == "sqrtm" and inside < 0):
            return None
        return inside if node.function.name != "inv" else 2 if inside > 0 else -2

    def _add(self, node: Add, rows: Axes, cols: Axes) -> Level:
        levels: list[Level] = []
        for term in node.terms:
            levels.append(self.ask(term, rows, cols))
            if plus(levels) is None:
                return None
        return plus(levels)

    def _einsum(self, node: Einsum, rows: Axes, cols: Axes) -> Level:
        """The mirror of a product or contraction, as it stands or with its operands opened."""
        left, right = _sides(node.output, rows, cols)
        mirror = _extended({}, left, right)
        if mirror is None:
            return None
        level = level_of(node.coefficient)
        bound = {label for labels in node.labels for label in labels}
        injective = len(set(left)) == len(left) and all(side == 0 or x in bound for x, (_, side) in mirror.items())
        if node.contracted or not injective:
            level = times(level, 1)
        factors = node.factors
        found = self._search(factors, mirror, level)
        if found is None and level is not None:
            found = self._opened(factors, mirror, times(level, 1), dict(enumerate(node.sizes)))
        return found

    def _opened(self, factors: list[Factor], mirror: Mirror, level: Level, sizes: Mapping[int, Size]) -> Level:
        """The level with the contractions among the operands opened, then with the first sum distributed over."""
        opened = _without_contractions(factors, sizes)
        if len(opened) > _FLAT:
            return None
        found = self._search(opened, mirror, level) if opened != factors else None
        at = next((index for index, (node, _) in enumerate(factors) if isinstance(node, Add)), None)
        if found is not None or at is None:
            return found
        total, labels = factors[at]
        levels: list[Level] = []
        for term in total.children:
            coefficient, inner, output, _ = construct.parts(term)
            names = dict(zip(output, labels, strict=True))
            pieces = [(x, tuple([names[label] for label in ls])) for x, ls in inner]
            own = times(level, level_of(coefficient))
            whole = factors[:at] + factors[at + 1 :] + pieces
            levels.append(self._search(_without_contractions(whole, sizes), mirror, own))
            if plus(levels) is None:
                return None
        return plus(levels)

    def _search(self, factors: list[Factor], mirror: Mirror, level: Level) -> Level:
        """The level of a product of factors and a number; most that have none show it before the search begins."""
        if level is None or len(factors) > _MOST_OPERANDS:
            return None
        for node, count in Counter(node for node, _ in factors).items():
            if count % 2 and self.sign(node) is None and not _possible(node):
                return None
        self.tries = 0
        return self._solve(factors, mirror, level)

    def _solve(self, factors: list[Factor], mirror: Mirror, level: Level) -> Level:
        """The level of the product of factors, the rest having this level, by the first mirror that there is."""
        if not factors:
            return level
        first = max(range(len(factors)), key=lambda k: _decided(factors[k][1], mirror))
        rest = factors[:first] + factors[first + 1 :]
        for remaining, larger, own in self._ways(factors[first], rest, mirror):
            self.tries += 1
            if self.tries > _TRIES:
                return None
            if larger is None or own is None:
                continue
            if (found := self._solve(remaining, larger, times(level, own))) is not None:
                return found
        return None

    def _ways(
        self, factor: Factor, rest: list[Factor], mirror: Mirror
    ) -> Iterator[tuple[list[Factor], Mirror | None, Level]]:
        """The ways in which a mirror can treat a factor: what remains, the larger mirror if there is one, the level."""
        node, labels = factor
        if self.sign(node) is not None and all(mirror.get(label, (0, 1))[1] == 0 for label in labels):
            yield rest, mirror, self.sign(node)
            return
        for index, (other, theirs) in enumerate(rest):
            if other is node:
                remaining = rest[:index] + rest[index + 1 :]
                for turned, sign in _arrangements(node, theirs):
                    for left, right in ((labels, turned), (turned, labels)):
                        yield remaining, _extended(mirror, left, right), sign
        for rows, cols in _splits(labels, mirror):
            larger = _extended(mirror, *_sides(labels, rows, cols))
            yield rest, larger, None if larger is None else self.ask(node, rows, cols)


def _possible(node: Expr) -> bool:
    """Whether a node may be semidefinite at all, other than as a stack of numbers."""
    match node:
        case Variable():
            return "psd" in node.properties
        case Constant():
            return isinstance(node.value, np.ndarray) and node.ndim == 2
        case Map(function=function):
            whole = function.name == "pow" and isinstance(function.parameter, int) and function.parameter > 0
            return (whole or function.absolutely_monotonic) and len(set(node.shape)) < node.ndim
        case Apply():
            return node.function.name in _OF_MATRICES and node.function.parameter is None
    return len(set(node.shape)) < node.ndim


def _decided(labels: Labels, mirror: Mirror) -> tuple[int, int]:
    """How much of a factor the mirror already says."""
    return sum(label in mirror and mirror[label][1] != 0 for label in labels), sum(label in mirror for label in labels)


def _sides(labels: Labels, rows: Axes, cols: Axes) -> tuple[Labels, Labels]:
    """The labels of rows and of columns, which a mirror exchanges, each with those of batch axes, which it fixes."""
    batch = tuple([label for axis, label in enumerate(labels) if axis not in rows and axis not in cols])
    return tuple([labels[axis] for axis in rows]) + batch, tuple([labels[axis] for axis in cols]) + batch


def _extended(mirror: Mirror, left: Labels, right: Labels) -> Mirror | None:
    """A mirror that also exchanges these labels, if there is one; those that are their own image are fixed."""
    result = dict(mirror)
    for a, b in zip(left, right, strict=True):
        side = int(a != b)
        if result.setdefault(a, (b, side)) != (b, side) or result.setdefault(b, (a, -side)) != (a, -side):
            return None
    return result


def _arrangements(node: Expr, labels: Labels) -> list[tuple[Labels, int]]:
    """The orders of labels in which a factor has the same value, up to a sign (as a level: a square may be 0)."""
    return [(labels, 1), *((tuple([labels[axis] for axis in axes]), sign) for axes, sign in node.symmetries)]


def _splits(
    labels: Labels, mirror: Mirror, axis: int = 0, rows: Axes = (), cols: Axes = ()
) -> Iterator[tuple[Axes, Axes]]:
    """The ways to make some axes of a factor rows and columns, opposite to each other as the mirror has it."""
    if axis == len(labels):
        yield rows, cols
        return
    if axis in rows or axis in cols:
        yield from _splits(labels, mirror, axis + 1, rows, cols)
        return
    label = labels[axis]
    image, side = mirror.get(label, (None, None))
    for other in range(axis + 1, len(labels)):
        if other in rows or other in cols:
            continue
        if (side is None and labels[other] not in mirror) or labels[other] == image or labels[other] == label:
            if side != -1:
                yield from _splits(labels, mirror, axis + 1, (*rows, axis), (*cols, other))
            if side != 1 and labels[other] != label:
                yield from _splits(labels, mirror, axis + 1, (*rows, other), (*cols, axis))
    if not side:
        yield from _splits(labels, mirror, axis + 1, rows, cols)


def _without_contractions(factors: list[Factor], sizes: Mapping[int, Size]) -> list[Factor]:
    """The factors with the operands of contractions in their place, summed over labels that `sizes` has not."""
    result: list[Factor] = []
    fresh = fresh_in(dict(sizes))
    for node, labels in factors:
        result += opened(node, labels, fresh) if is_contraction(node) else [(node, labels)]
    return result


def _literal(array: np.ndarray) -> Level:
    """A literal matrix: by its eigenvalues if rounding leaves no doubt, else by its diagonal, if that dominates."""
    if array.ndim != 2 or not 0 < len(array) == len(array.T) <= _LARGEST_LITERAL or not np.isfinite(array).all():
        return None
    if (array != array.T).any():
        return None
    values = np.linalg.eigvalsh(array)
    doubt = 1e-12 * len(array) * np.abs(values).max()
    for sign in (1, -1):
        if (sign * values > doubt).all():
            return 2 * sign
        beside = -np.abs(array) + np.diag(np.abs(array.diagonal()) + sign * array.diagonal())
        if all(fsum(row) >= 0 for row in beside):
            return sign
    return None

"""Functions of vectors along an axis: logsumexp, max, prod; and norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from math import inf
from typing import NamedTuple, TypeGuard

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.function import Function
from eindiff.core.intervals import Interval, bounded, within
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map
from eindiff.functions.elementwise import abs, exp
from eindiff.functions.indexing import reshape
from eindiff.functions.multilinear import (
    Operand,
    as_expr,
    axes_of,
    axis_of,
    broadcast,
    moveaxis,
    multiply,
    sum,
    transpose,
)
from eindiff.functions.powers import sqrt
from eindiff.functions.table import add, row, written


def _none(shape: tuple) -> tuple:
    return ()


def _same(shape: tuple) -> tuple:
    return shape


def _logsumexp_value(x: np.ndarray) -> np.ndarray:
    top = x.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


def _ties(x: np.ndarray) -> np.ndarray:
    hits = (x == x.max(axis=-1, keepdims=True)).astype(float)
    return hits / hits.sum(axis=-1, keepdims=True)


_logsumexp: Function = row(
    "logsumexp", _logsumexp_value, lambda x: exp(x - construct.apply(_logsumexp, (x,))[..., None]),
    latex=r"\operatorname{logsumexp}", core=(1,), output=_none, flops=lambda n: 3 * n,
)  # fmt: skip


def _weighted(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """weights * exp(x - top), and top, the largest x with a weight; entries without one do no harm."""
    top = np.max(x, axis=-1, keepdims=True, where=weights != 0, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return weights * np.exp(np.where(weights == 0, -np.inf, x - top)), top


def _log_weighted_sum_value(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    entries, top = _weighted(x, weights)
    return np.log(entries.sum(axis=-1)) + top[..., 0]


def _weighted_softmax_value(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    entries, _ = _weighted(x, weights)
    total = entries.sum(axis=-1, keepdims=True)
    return entries / np.where(total > 0, total, np.nan)


def _per_weight(x: Expr, weights: Expr) -> Expr:
    """The derivative of log_weighted_sum by a weight, exp(x) over the sum."""
    return exp(x - construct.apply(_log_weighted_sum, (x, weights))[..., None])


def _softmax_change(x: Expr, weights: Expr, slope: Expr) -> Expr:
    """The derivatives of the entries p of a weighted softmax: diag(s) - p s', where s is the slope of its logarithm."""
    entries = construct.apply(_weighted_softmax, (x, weights))
    axes = tuple(range(x.ndim))
    sizes = dict(enumerate((*x.shape, x.shape[-1])))
    output = (*axes, x.ndim)
    products = construct.einsum(-1, [(entries, axes), (slope, (*axes[:-1], x.ndim))], output, sizes)
    return construct.add([construct.einsum(1, [(slope, axes)], (*axes, axes[-1]), sizes), products])


_weighted_softmax: Function = row(
    "weighted_softmax", _weighted_softmax_value,
    lambda x, w: _softmax_change(x, w, construct.apply(_weighted_softmax, (x, w))),
    lambda x, w: _softmax_change(x, w, _per_weight(x, w)),
    domain="positive", latex=r"\operatorname{weighted\_softmax}", core=(1, 1), output=lambda x, w: x,
    flops=lambda n: 4 * n, source=written("weighted_softmax", 2),
)  # fmt: skip
_log_weighted_sum: Function = row(
    "log_weighted_sum", _log_weighted_sum_value, lambda x, w: construct.apply(_weighted_softmax, (x, w)), _per_weight,
    domain="positive", latex=r"\operatorname{log\_weighted\_sum}", core=(1, 1), output=lambda x, w: (),
    flops=lambda n: 4 * n, source=written("log_weighted_sum", 2),
)  # fmt: skip
_argmax = row("argmax", _ties, None, latex=r"\operatorname{argmax}", core=(1,), output=_same, flops=lambda n: 2 * n,
              bounds=within(0, 1), source=written("argmax"))  # fmt: skip
_max = row(
    "max", lambda x: x.max(axis=-1), lambda x: construct.apply(_argmax, (x,)),
    domain="distinct entries", latex=r"\max", core=(1,), output=_none, flops=lambda n: n,
    bounds=lambda _, x: x,
)  # fmt: skip


def _products_without(count: int) -> Callable[[np.ndarray], np.ndarray]:
    """Products without some entries: of those before each and those after it; of more than one, one after the other."""

    def value(x: np.ndarray) -> np.ndarray:
        if not count:
            return x.prod(axis=-1)
        n = x.shape[-1]
        if count == 1:
            before, after = np.ones_like(x), np.ones_like(x)
            np.cumprod(x[..., :-1], axis=-1, out=before[..., 1:])
            np.cumprod(x[..., :0:-1], axis=-1, out=after[..., -2::-1])
            return before * after
        same = np.eye(n, dtype=bool)
        found = _products_without(count - 1)(np.where(same, 1.0, x[..., None, :]))
        for place in range(1, count):
            found = np.where(np.expand_dims(same, [k for k in range(1, count) if k != place]), 0.0, found)
        return found

    return value


def _product_bounds(function: Function, x: Interval) -> Interval:
    high = 1.0 if x.low >= -1 and x.high <= 1 else inf
    return bounded(0 if x.low >= 0 else -high, high, x.nonzero and function.parameter is None)


@lru_cache(maxsize=16)
def prod_function(left_out: int) -> Function:
    """The product of the entries of a vector without those at i1, ..., ik, and 0 where two of these are equal.

    Its derivative leaves one more out, so zeros among the entries do no harm.
    """
    return Function(
        "prod", _products_without(left_out), (lambda x: construct.apply(prod_function(left_out + 1), (x,)),),
        latex=r"\prod", parameter=left_out or None, maker=(prod_function, (left_out,)), core=(1,),
        output=lambda s: s * left_out, flops=lambda n: 4 * n**left_out if left_out else n, bounds=_product_bounds,
    )  # fmt: skip


add(prod_function(0))


def _along(function: Function, a: Operand, axis: int | Sequence[int] | None) -> Expr:
    """A function of vectors, applied along one axis after the other."""
    a = as_expr(a)
    for k in sorted(axes_of(function.name, a, axis), reverse=True):
        a = construct.apply(function, (moveaxis(a, k, -1),))
    return a


def logsumexp(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """log(sum(exp(a))) over all axes or the given ones, without overflow.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> x = ed.vector("x", "n")
    >>> ed.log(ed.sum(ed.exp(x))) is ed.logsumexp(x)
    True

    See also: `softmax`, `softplus`.
    """
    return _along(_logsumexp, a, axis)


def log_weighted_sum(x: Operand, weights: Operand) -> Expr:
    """log(sum(weights * exp(x))) along the last axis, without overflow; weights may have any sign."""
    return construct.apply(_log_weighted_sum, broadcast("log_weighted_sum", [as_expr(x), as_expr(weights)]))


def weighted_softmax(x: Operand, weights: Operand) -> Expr:
    """weights * exp(x) over their sum along the last axis, which has to be positive."""
    return construct.apply(_weighted_softmax, broadcast("weighted_softmax", [as_expr(x), as_expr(weights)]))


def max(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The largest entry along all axes or the given ones; equal ones share the derivative evenly.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> x = ed.vector("x", "n")
    >>> ed.evaluate(ed.gradient(ed.max(x), x), {"x": [1.0, 3.0, 2.0]})
    array([0., 1., 0.])

    See also: `min`, `maximum`, `logsumexp`.
    """
    a = as_expr(a)
    gone = axes_of("max", a, axis)
    if len(gone) > 1:  # as one axis, so that equal entries share evenly wherever they are
        kept = [k for k in range(a.ndim) if k not in gone]
        count = sz.product(a.shape[k] for k in gone)
        a = reshape(transpose(a, [*kept, *gone]), (*(a.shape[k] for k in kept), count))
        gone = [len(kept)]
    return _along(_max, a, gone)


def min(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The smallest entry along all axes or the given ones; equal ones share the derivative evenly.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> x = ed.vector("x", "n")
    >>> ed.evaluate(ed.gradient(ed.min(x), x), {"x": [1.0, 3.0, 2.0]})
    array([1., 0., 0.])

    See also: `max`, `minimum`.
    """
    return multiply(-1, max(multiply(-1, a), axis))


def prod(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The product of the entries along all axes or the given ones.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> float(ed.evaluate(ed.prod(ed.vector("x", "n")), {"x": [2.0, 3.0]}))
    6.0

    See also: `sum`.
    """
    return _along(prod_function(0), a, axis)


def norm1(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The sum of absolute values.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> float(ed.evaluate(ed.norm1(ed.vector("x", "n")), {"x": [1.0, -3.0]}))
    4.0

    See also: `norm2`, `abs`.
    """
    return sum(abs(a), axis)


def norm2(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The Euclidean (for matrices: Frobenius) norm.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> x = ed.vector("x", "n")
    >>> ed.norm2(x) ** 2 is x @ x
    True

    See also: `norm1`, `normspec`, `normnuc`.
    """
    return sqrt(sum(multiply(a, a), axis))


def softmax(x: Operand, axis: int = -1) -> Expr:
    """exp(x) divided by its sum along an axis, without overflow.

    Args:
        x: a tensor expression, an array or a number
        axis: one axis

    >>> x = ed.vector("x", "n")
    >>> ed.gradient(ed.logsumexp(x), x) == ed.softmax(x)
    True

    See also: `logsumexp`, `sigmoid`.
    """
    x = as_expr(x)
    at = axis_of("softmax", x, axis)
    return exp(x - logsumexp(x, axis)[(slice(None),) * at + (None,)])


class Softmax(NamedTuple):
    """What `exp(x - logsumexp(x))`, or its logarithm, is made of."""

    argument: Expr
    axis: int
    total: Apply  # the logsumexp, of the argument with that axis last
    sign: int = 1  # of the logarithm


def as_softmax(node: Expr) -> Softmax | None:
    """The parts of a node, if it is a softmax along an axis."""
    if not isinstance(node, Map) or node.function.name != "exp":
        return None
    found = as_log_softmax(node.args[0])
    return None if found is None or found.sign < 0 else found


def as_log_softmax(node: Expr) -> Softmax | None:
    """The parts of a node, if it is the logarithm of a softmax along an axis, or its negative."""
    inside = [node, *(node.children if isinstance(node, Einsum) else ())]
    terms = [x for total in inside if isinstance(total, Add) for x in total.terms]
    labels, sizes = tuple(range(node.ndim)), dict(enumerate(node.shape))
    for total, axis in product([x for term in terms for x in term.children if _is_log_of_sum(x)], labels):
        others = (*labels[:axis], *labels[axis + 1 :])
        shape = tuple([node.shape[k] for k in (*others, axis)])
        if total.args[0].shape == shape and total.batch == (tuple(range(len(others))),):
            argument = construct.einsum(1, [(total.args[0], (*others, axis))], labels, sizes)
            for sign in (1, -1):
                spread = construct.einsum(sign, [(total, others)], labels, sizes)
                if construct.add([node, spread]) is construct.scale(sign, argument):
                    return Softmax(argument, axis, total, sign)
    return None


def _is_log_of_sum(x: Expr) -> TypeGuard[Apply]:
    return isinstance(x, Apply) and x.function is _logsumexp

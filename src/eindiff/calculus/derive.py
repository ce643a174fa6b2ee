"""Derivatives of expressions, of any order, in each mode of multiplying out the chain rule."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, overload

from eindiff.calculus.chain_rule import pullbacks, pushforwards, unit
from eindiff.calculus.recurrences import block_by, is_of_small_arrays, is_recurrence, is_smooth, numbered, side_by_side
from eindiff.calculus.spectra.closing import swept
from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import add, einsum
from eindiff.core.derivation import derived
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import Lower
from eindiff.core.leaves import TRIANGLES
from eindiff.core.nesting import flatten, merge, nest_by_tensor_order, share
from eindiff.core.nodes import Expr, Variable, expression, plain, topological
from eindiff.core.remembered import remembering
from eindiff.core.stages import stage

Several = list[Any] | tuple[Any, ...]  # variables or their names
Wrt = Any  # a variable, its name, or several of them
WRITTEN_OUT = (
    50  # nodes; a result of at most so many is written as people would, and what it shares is left to the planner
)
MODES = ("auto", "reverse", "forward", "cross_country")


def derivative(y: Expr, *xs: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr:
    """The derivative of y by each of xs in turn: the axes of y first, then those of each variable.

    `mode` is how the chain rule is multiplied out: `reverse` from y to x, `forward` from x to y, `cross_country`
    in order of increasing tensor order, and `auto` leaves the order to the planner. All give the same values.
    For a symmetric variable the derivative is `projected` (made symmetric), or by the `free` entries.
    """
    result = y
    for x in xs:
        [[result]] = _blocks([result], [find_variable(y, x)], mode, symmetric)
    return result


def _blocks(ys: Sequence[Expr], xs: Sequence[Variable], mode: str, symmetric: str) -> list[list[Expr]]:
    """The derivative of each of ys by each of xs. What they share stays shared."""
    if mode not in MODES:
        raise EindiffError(f"mode {mode!r}: choose one of {', '.join(MODES)}", "options")
    if not xs:
        raise EindiffError("no variable to differentiate by is given", "options")
    with stage("derive"), remembering():
        rows = [_swept(y, xs, mode, symmetric) for y in share(ys)]
        found = finished([prime for row in rows for prime in row], mode)
    return _rows(found, ys, xs)


def _rows(found: Sequence[Expr], ys: Sequence[Expr], xs: Sequence[Variable]) -> list[list[Expr]]:
    """Derivatives of each of ys by each of xs, which know what they are."""
    known = [derived(result, ys[k // len(xs)], by=[xs[k % len(xs)]]) for k, result in enumerate(found)]
    return [known[start : start + len(xs)] for start in range(0, len(known), len(xs))]


def _swept(y: Expr, xs: Sequence[Variable], mode: str, symmetric: str) -> list[Expr]:
    """The derivative of y by each of xs, by one reverse sweep or a forward one each."""
    forward = mode == "forward" or (mode == "auto" and y.ndim > max(x.ndim for x in xs))
    primes = [pushed(y, x, unit(x)) for x in xs] if forward else pulled(y, xs, unit(y))
    zeros = [construct.filled(0, y.shape + x.shape) for x in xs]
    return [project(z if p is None else p, x, symmetric) for p, z, x in zip(primes, zeros, xs, strict=True)]


def finished(found: list[Expr], mode: str = "auto") -> list[Expr]:
    """Results of a sweep in the form that their mode promises."""
    if mode not in ("auto", "cross_country"):
        return found
    found = merge(found)
    if mode == "cross_country":
        return nest_by_tensor_order(share(found))
    return flatten(share(found)) if len(topological(found)) <= WRITTEN_OUT else found


def pushed(y: Expr, x: Variable, seed: Expr) -> Expr | None:
    """The derivative of y in forward mode, None if it is 0."""
    return swept(y, lambda y: [pushforwards(y, x, seed).get(y)])[0]


def pulled(y: Expr, xs: Sequence[Variable], seed: Expr) -> list[Expr | None]:
    """The derivatives of y in reverse mode, None where they are 0."""
    return swept(y, lambda y: list(map(pullbacks(y, xs, seed).get, xs)))


def project(result: Expr, x: Variable, convention: str) -> Expr:
    """The derivative by a symmetric or triangular variable, whose axes are the last two."""
    if convention not in ("projected", "free"):
        raise EindiffError(f"symmetric={convention!r}: choose 'projected' or 'free'", "options")
    if x.properties & TRIANGLES:
        return _masked(result, x)
    if not x.symmetries:
        return result
    if convention == "projected":
        return construct.symmetric_part(result)
    mirrored = construct.transpose_core(result)
    count = result.ndim
    labels = tuple(range(count))
    diagonal = (*labels[:-1], labels[-2])
    on_diagonal = einsum(1, [(result, diagonal)], diagonal, dict(enumerate(result.shape)))
    return add([result, mirrored, construct.scale(-1, on_diagonal)])


def _masked(result: Expr, x: Variable) -> Expr:
    """The derivative by a triangular variable: 0 by the entries that are known."""
    size, axes = x.shape[0], tuple(range(result.ndim))
    lower = construct.constant(Lower(size))
    if "unit" in x.properties:
        lower = add([lower, einsum(-1, [], (0, 0), {0: size})])
    places = axes[-2:] if "lower" in x.properties else axes[:-3:-1]
    return einsum(1, [(result, axes), (lower, places)], axes, dict(enumerate(result.shape)))


def find_variable(y: Expr, x: Expr | str) -> Variable:
    """The variable that was asked for, by itself or by name."""
    y, x = expression(y), plain(x) if isinstance(x, Expr) else x
    if isinstance(x, Variable):
        if fixed := x.properties & {"orthogonal", "banded", "tridiagonal", "diagonal"}:
            raise EindiffError(
                f"{x} is declared {min(fixed)}, so its entries cannot move freely: declare it without that",
                "names",
            )
        if x.properties & TRIANGLES and x.shape[0] != x.shape[1]:
            raise EindiffError(f"{x} is triangular but not square: declare it without that for a derivative", "names")
        if x.into is not None:
            raise EindiffError(f"{x} holds indices, which do not move: there is no derivative by them", "names")
        return x
    known = {node.name: node for node in topological([y]) if isinstance(node, Variable)}
    if isinstance(x, str):
        if x in known:
            return find_variable(y, known[x])
        raise EindiffError(
            f"there is no variable {x!r} here; the variables are {', '.join(sorted(known)) or 'none'}", "names"
        )
    raise EindiffError(f"derivatives are by variables (or their names), not by {x!r}", "options")


def check_scalar(operation: str, f: Expr) -> None:
    if expression(f).ndim:
        raise EindiffError(f"{operation} needs a scalar function; {f} has shape {shape_text(f.shape)}", "scalars")


@overload
def gradient(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def gradient(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


def gradient(f: Expr, x: Wrt, mode: str = "auto", symmetric: str = "projected") -> Any:
    """The gradient of a scalar function; a list of variables gives a list, from one reverse sweep."""
    check_scalar("gradient", f)
    return jacobian(f, x, mode, symmetric)


@overload
def jacobian(y: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def jacobian(y: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


def jacobian(y: Expr, x: Wrt, mode: str = "auto", symmetric: str = "projected") -> Any:
    """The derivative of y by x, or by each of a list of variables."""
    if not isinstance(x, list | tuple):
        return derivative(y, x, mode=mode, symmetric=symmetric)
    return _blocks([y], [find_variable(y, one) for one in x], mode, symmetric)[0]


@overload
def hessian(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def hessian(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


def hessian(f: Expr, x: Wrt, mode: str = "auto", symmetric: str = "projected") -> Any:
    """The second derivative of f by x; a list of variables gives the blocks, cross blocks included."""
    if not isinstance(x, list | tuple):
        return derivative(f, x, x, mode=mode, symmetric=symmetric)
    return hessian_blocks(f, x, mode, symmetric)


def hessian_blocks(
    f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected", dense: bool = False
) -> list[list[Expr]]:
    """The blocks of a Hessian, in a form that is found soon where their entries are all that is asked for."""
    columns = [find_variable(f, one) for one in x]
    is_symmetric = mode == "auto" and not f.ndim and is_smooth(f, columns)
    is_long = is_symmetric and 2 * len(topological([f])) > WRITTEN_OUT
    if is_long and (is_recurrence(f, columns) or (dense and is_of_small_arrays(f, columns))):
        return _by_number(f, columns, symmetric)
    first = _blocks([f], columns, mode, symmetric)[0]
    if not is_symmetric or len(topological(first)) <= WRITTEN_OUT:
        return _blocks(first, columns, mode, symmetric)
    with stage("derive"), remembering():
        return _rows(_mirrored(share(first), columns, symmetric), first, columns)


def _by_number(f: Expr, xs: Sequence[Variable], symmetric: str) -> list[list[Expr]]:
    """The blocks of the Hessian of a recurrence."""
    with stage("derive"), remembering():
        slopes, numbers = side_by_side(f, xs), numbered(xs)
        found = []
        for x, z in product(xs, xs):
            if x not in slopes:
                found.append(construct.filled(0, x.shape + z.shape))
            else:
                found.append(project(block_by(project(slopes[x], x, symmetric), numbers[z]), z, symmetric))
        blocks = iter(finished(found))
        return [[derived(next(blocks), f, by=[x, z]) for z in xs] for x in xs]


def _mirrored(ys: Sequence[Expr], xs: Sequence[Variable], symmetric: str) -> list[Expr]:
    """The blocks of a Hessian, from gradients: one of each pair, by a sweep of the gradient that has fewer entries."""
    order = sorted(range(len(xs)), key=lambda k: _extent(xs[k]))
    pairs: list[tuple[int, int]] = []
    primes: list[Expr] = []
    for start, i in enumerate(order):
        by = sorted(order[start:])
        pairs += [(i, j) for j in by]
        primes += _swept(ys[i], [xs[j] for j in by], "auto", symmetric)
    found = dict(zip(pairs, finished(primes), strict=True))
    places = [(i, j) for i in range(len(xs)) for j in range(len(xs))]
    return [found[i, j] if (i, j) in found else _turned(found[j, i], xs[j].ndim) for i, j in places]


def _extent(x: Variable) -> tuple[int, int]:
    """How large a variable is: by its axes where sizes have names."""
    entries = sz.product(x.shape)
    return (0, entries) if isinstance(entries, int) else (x.ndim, 0)


def _turned(block: Expr, count: int) -> Expr:
    """A block with its first axes last."""
    labels = tuple(range(block.ndim))
    return einsum(1, [(block, labels)], labels[count:] + labels[:count], dict(enumerate(block.shape)))

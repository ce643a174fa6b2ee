"""Second derivatives as sums over samples: `H[i, k, m, l] = Σ_s x[s, i] x[s, m] M[s, k, l]`, with M as an expression.

That is what the Hessian of a loss of `x_s' W` by W is. It is symmetric in i and m, so half of it is enough, and a
quarter where it is known to be symmetric in k and l too; and the terms of M, diagonal ones among them, are one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.derivation import derivation
from eindiff.core.nodes import Add, Apply, Expr, Map, is_index_map, plain, topological
from eindiff.core.sizes import Evaluate
from eindiff.functions.table import TABLE
from eindiff.planning import tuning
from eindiff.planning.simplify import flat


class Stack(NamedTuple):
    """Expressions in the place of one: it alone, or x, M, and what else is in the sum, if anything is."""

    exprs: tuple[Expr, ...]
    is_symmetric: bool = False  # whether `M[s, k, l]` may be taken for `M[s, l, k]`


class _Term(NamedTuple):
    """A term of the sum: x, with its axis i first; what M has of it; whether that is as large as M, or is made of what
    is, or is a product without any sum."""

    x: Expr
    matrices: Expr
    is_dense: bool
    is_formed: bool
    is_outer: bool


def stacked(expr: Expr, evaluate: Evaluate) -> Stack:
    """An expression as such a sum, if it is a large one, and M is no larger."""
    node = plain(expr)
    half, entries = node.ndim // 2, prod(map(evaluate, node.shape))
    if half < 2 or node.shape[:half] != node.shape[half:] or entries < tuning.SAMPLED:
        return Stack((node,))
    terms = _terms(node)
    split = [_split(term) for term in terms]
    dense = [one for one in split if one is not None and one.is_dense]
    if not dense or _is_too_large(dense[0], node, evaluate):
        return Stack((node,))
    x = dense[0].x
    own = [one for one in split if one is not None and one.x is x]
    rest = [term for term, one in zip(terms, split, strict=True) if one not in own]
    exprs = (x, construct.add([one.matrices for one in own]))
    return Stack((*exprs, construct.add(rest)) if rest else exprs, _is_symmetric(expr, rest))


def _is_symmetric(expr: Expr, rest: Sequence[Expr]) -> bool:
    """Whether an expression is a Hessian that is symmetric everywhere, and so is each of some terms of it."""
    known, half = derivation(expr), expr.ndim // 2
    is_hessian = len(known.by) == 2 and known.by[0] is known.by[1] and not known.function.ndim
    swap = (*range(half, expr.ndim), *range(half))
    is_kept = is_hessian and all(construct.transpose(term, swap) is term for term in rest)
    return is_kept and _has_symmetric_derivatives(plain(known.function))


def _is_too_large(term: _Term, node: Expr, evaluate: Evaluate) -> bool:
    """Whether M would have more entries than the sum, or the sum takes no longer without it."""
    own, entries = (prod(map(evaluate, x.shape)) for x in (term.matrices, node))
    return not term.is_formed and (own > entries or (term.is_outer and _is_square(node, evaluate)))


def _is_square(node: Expr, evaluate: Evaluate) -> bool:
    """Whether for `M = m m'` a product of `x ⊗ m` with itself, of which BLAS computes half, takes no longer: where the
    sum over samples would not be mirrored, unless calls decide, or where M has few entries."""
    half = node.ndim // 2
    inner, entries = (prod(map(evaluate, shape)) for shape in (node.shape[1:half], node.shape))
    return inner**2 <= tuning.NARROW or tuning.GRAM**2 <= entries < tuning.MIRRORED[0]


def _has_symmetric_derivatives(function: Expr) -> bool:
    """Whether the second derivatives of a function are symmetric at all points: not where absolute values have a kink
    (see `calculus.kinks`), and nobody knows of what has a rule of its own."""
    maps = [node.function.name for node in topological([function]) if isinstance(node, Map | Apply)]
    return all(name in TABLE and name not in ("abs", "sign") for name in maps)


def _terms(node: Expr) -> list[Expr]:
    """The terms of a sum, or of a multiple of one."""
    coefficient, factors, output, sizes = construct.parts(node)
    total, labels = factors[0] if len(factors) == 1 else (node, ())
    if not isinstance(total, Add) or not labels:
        return [node]
    return [construct.einsum(coefficient, [(term, labels)], output, sizes) for term in total.terms]


def _split(term: Expr) -> _Term | None:
    """What is left of a contraction without two equal factors that have, besides what is summed, one label each: the
    first of each half of the axes. None if there are no such."""
    if len([labels for _, labels in construct.parts(term)[1] if labels]) != 1:
        return None  # what else there is need not be multiplied with each sample
    coefficient, factors, output, sizes = flat(term)
    half = len(output) // 2
    i, m = output[0], output[half]
    pair = _pair(factors, i, m)
    if pair is None or output.count(i) > 1 or output.count(m) > 1:
        return None
    (x, labels), rest = pair
    summed = tuple([label for label in labels if label != i])
    bound = {label for _, own in rest for label in own}
    if is_index_map(x) or not summed or set(summed) & set(output) or not bound >= set(summed):
        return None
    kept = (*summed, *output[1:half], *output[half + 1 :])
    rows = construct.einsum(1, [(x, labels)], (i, *summed), sizes)
    matrices = construct.einsum(coefficient, rest, kept, sizes, inline=False)
    is_dense = len(set(kept)) == len(kept) and bound >= set(kept)
    return _Term(rows, matrices, is_dense, any(set(own) == set(kept) for _, own in rest), bound == set(kept))


def _pair(factors: Sequence[Factor], i: int, m: int) -> tuple[Factor, list[Factor]] | None:
    """The first of two factors that are the same but for i in it, where m is in the other, and alone have these; and
    what else there is."""
    first, second = ([k for k, (_, labels) in enumerate(factors) if label in labels] for label in (i, m))
    if not len(first) == len(second) == 1:
        return None
    (x, labels), (y, others) = factors[first[0]], factors[second[0]]
    is_twice = x is y and labels.count(i) == 1 and tuple([m if label == i else label for label in labels]) == others
    rest = [factor for k, factor in enumerate(factors) if k not in (first[0], second[0])]
    return ((x, labels), rest) if is_twice else None


def groups(outputs: Sequence[Expr], stacks: Sequence[Stack]) -> Iterator[tuple[Sequence[Expr], bool]]:
    """The expressions that stand for each output, and what is known of their sum."""
    start = 0
    for stack in stacks or [Stack((output,)) for output in outputs]:
        yield outputs[start : start + len(stack.exprs)], stack.is_symmetric
        start += len(stack.exprs)

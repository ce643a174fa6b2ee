"""Equal expressions that cost more or less, depending on sizes: none of them is a canonical form.

- `A (B + C) = A B + A C`, in both directions: `(A - H'H) x` does not form H'H, `A B + A C` is one product. Sums whose
  terms may cancel are not multiplied out for what is there anyway.
- Inverses and determinants of sums with a term of low rank (`planning.low_rank`).

What is taken is decided by what whole programs cost (`program.write.choice`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from eindiff.core import construct
from eindiff.core.nodes import Add, Einsum, Expr, is_contraction, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.planning.factoring import cancels_exactly, is_sum_of_outer
from eindiff.planning.halves import Evaluate, flops_alone
from eindiff.planning.low_rank import LOGARITHMS, is_of_sum, multiplied_out, splits, without
from eindiff.planning.simplify import joins
from eindiff.planning.tuning import TERMS_LIMIT


def alternatives(outputs: Sequence[Expr], evaluate: Evaluate, guarded: bool) -> Iterator[list[Expr]]:
    """Outputs with another node in the place of one; `evaluate` knows the sizes. It is about matrices and vectors, and
    sums of outer products of such. What is `guarded` refuses values that would lose digits."""
    nodes = topological(outputs)
    for matrix in dict.fromkeys(node.children[0] for node in nodes if is_of_sum(node, "inv", *LOGARITHMS)):
        yield from (without(outputs, matrix, split) for split in splits(matrix, evaluate, guarded))
    for node in nodes:
        if node.ndim <= 2:
            yield from (_replaced(outputs, node, other) for other in _others(node, evaluate))


def _others(node: Expr, evaluate: Evaluate) -> Iterator[Expr]:
    """What may stand in the place of a matrix or a vector."""
    if any(child.ndim > 2 for child in node.children):
        if is_contraction(node):
            outer = [place for place, x in enumerate(node.operands) if is_sum_of_outer(x, node.operands)]
            yield from (construct.add(multiplied_out(node, place, node.operands[place].children)) for place in outer)
    elif isinstance(node, Add):
        yield from _joined(node)
    elif is_contraction(node):
        for place, operand in enumerate(node.operands):
            if isinstance(operand, Add):
                terms = multiplied_out(node, place, operand.terms)
                if _is_better_alone(node, operand, terms, evaluate):
                    yield construct.add(terms)


def _replaced(outputs: Sequence[Expr], old: Expr, new: Expr) -> list[Expr]:
    """Expressions with one node in the place of another, and contractions of it flat."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        return new if node is old else with_children(node, children, inline=children != list(node.children))

    return rebuild(outputs, change)


def _is_better_alone(node: Einsum, total: Add, terms: Sequence[Expr], evaluate: Evaluate) -> bool:
    """Whether a contraction with a sum takes fewer operations multiplied out, and not because of what others have.

    The gradient `A'(A x - b)` has rounding errors of the size of the residual. Where a Hessian has A'A, `(A'A) x - A'b`
    takes less time, and has those of what it is the difference of.
    """
    if cancels_exactly(total):
        return False
    inside = [x for term in (node, *total.terms, *terms) for x in (term, *term.children)]
    flops: dict[Expr, float] = {x: flops_alone(x, evaluate) for x in inside if is_contraction(x)}

    def alone(term: Expr) -> float:
        return flops[term] if term in flops else sum(flops.get(x, 0.0) for x in term.children)

    return sum(map(alone, terms)) < alone(node) + sum(map(alone, total.terms))


def _joined(node: Add) -> Iterator[Expr]:
    """A sum with two of its terms as one product."""
    if len(node.terms) > TERMS_LIMIT:
        return
    for first, second in combinations(node.terms, 2):
        rest = [term for term in node.terms if term is not first and term is not second]
        yield from (construct.add([*rest, joined]) for joined in joins(first, second) if not isinstance(joined, Add))

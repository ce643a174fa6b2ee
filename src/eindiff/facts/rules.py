"""Rewrite rules that need to know something of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eindiff.core import construct
from eindiff.core.construct import parts
from eindiff.core.nodes import Apply, Expr, is_index_map
from eindiff.core.rewrite import rule
from eindiff.functions import multilinear
from eindiff.functions.elementwise import abs as absolute
from eindiff.functions.elementwise import log
from eindiff.functions.matrices import logabsdet, logdet
from eindiff.functions.multilinear import tr
from eindiff.functions.rules.matrices import scaled, square_chain
from eindiff.functions.rules.shapes import is_apply

if TYPE_CHECKING:
    from eindiff.core.construct import Network


@rule("einsum", among=(Apply,), summed=True)
def singular_values_of_semidefinite(network: Network) -> bool | None:
    """The sum of the singular values of a semidefinite matrix is its trace. A factorization less."""
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        if not is_apply(node, "svdvals") or node.ndim != 1 or labels[0] not in network.summed or uses[labels[0]] > 1:
            continue
        [matrix] = node.args
        if matrix.shape[0] == matrix.shape[1] and _is_semidefinite(matrix):
            return network.exchange({i: (tr(matrix), ())}, labels)
    return None


@rule("logdet")
def log_determinant_of_product(a: Expr) -> Expr | None:
    """logdet(A S A') = logdet(S) + 2 logabsdet(A) for a square A, logdet(S T) = logdet(S) + logdet(T) for positive
    semidefinite ones. Smaller arguments."""
    chain = square_chain(a)
    if chain is None or len(chain) < 2 or any(map(is_index_map, a.children)):
        return None
    around: list[Expr] = []
    while len(chain) > 1 and chain[0] is construct.transpose(chain[-1], (1, 0)):
        around.append(chain[0])
        chain = chain[1:-1]
    if len(chain) > 1 and not all(map(_is_semidefinite, chain)):
        return None
    twice = [construct.scale(2, logdet(x) if _is_semidefinite(x) else logabsdet(x)) for x in around]
    return construct.add([*map(logdet, chain), *twice])


@rule("logdet")
def log_determinant_of_scaled(a: Expr) -> Expr | None:
    """logdet(c diag(u) A diag(v)) = logdet(A) + sum(log(c u v)) where c u v is known not to be negative. One node less.
    """
    return _of_scaled(logdet, a)


@rule("logabsdet")
def log_absolute_determinant_of_scaled(a: Expr) -> Expr | None:
    """logabsdet(c diag(u) A diag(v)) = logabsdet(A) + sum(log(abs(c u v))). One node less."""
    return _of_scaled(logabsdet, a)


def _of_scaled(function: Callable[[Expr], Expr], a: Expr) -> Expr | None:
    """The logarithm of the determinant of a matrix with rows, columns and all entries multiplied by numbers."""
    from eindiff.facts.bounds import interval  # for start-up time

    if (found := scaled(a)) is None:
        return None
    vectors, (matrix, (row, column)) = found
    size, number = {0: a.shape[0]}, construct.filled(parts(a)[0], (a.shape[0],))
    weights = [number, *(construct.einsum(1, [(x, (0,) * len(labels))], (0,), size) for x, labels in vectors)]
    if function is logdet and not interval(construct.einsum(1, [(x, (0,)) for x in weights], (0,), size)).low >= 0:
        return None
    sizes = [x if interval(x).low >= 0 else absolute(x) for x in weights]
    inner = matrix if row < column else construct.transpose(matrix, (1, 0))
    return construct.add([function(inner), *(multilinear.sum(log(x)) for x in sizes)])


def _is_semidefinite(matrix: Expr) -> bool:
    """Whether a matrix is known to be positive semidefinite."""
    from eindiff.facts.bounds import facts  # for start-up time

    return facts(matrix).psd

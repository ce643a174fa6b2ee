"""Rewrite rules that need to know something of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eindiff.core import construct
from eindiff.core.nodes import Apply, Expr, is_index_map
from eindiff.core.rewrite import rule
from eindiff.functions.matrices import logabsdet, logdet
from eindiff.functions.multilinear import tr
from eindiff.functions.rules.matrices import square_chain
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


def _is_semidefinite(matrix: Expr) -> bool:
    """Whether a matrix is known to be positive semidefinite."""
    from eindiff.facts.bounds import facts  # for start-up time

    return facts(matrix).psd

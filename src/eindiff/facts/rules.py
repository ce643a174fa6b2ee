"""Rewrite rules that need to know something of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eindiff.core.nodes import Apply
from eindiff.core.rewrite import rule
from eindiff.functions.multilinear import tr
from eindiff.functions.rules.shapes import is_apply

if TYPE_CHECKING:
    from eindiff.core.construct import Network


@rule("einsum", among=(Apply,))
def singular_values_of_semidefinite(network: Network) -> bool | None:
    """The sum of the singular values of a semidefinite matrix is its trace. A factorization less."""
    if not network.summed:
        return None
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        if not is_apply(node, "svdvals") or node.ndim != 1 or labels[0] not in network.summed or uses[labels[0]] > 1:
            continue
        from eindiff.facts.bounds import facts  # for start-up time

        [matrix] = node.args
        if matrix.shape[0] == matrix.shape[1] and facts(matrix).psd:
            return network.exchange({i: (tr(matrix), ())}, labels)
    return None

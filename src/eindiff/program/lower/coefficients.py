"""Where the coefficients of products are multiplied: into what is small, or into what another product has with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from eindiff.core.nodes import Add, Einsum, Expr, Number, is_contraction, is_index_map


def pushed(outputs: Sequence[Expr], uses: Mapping[Expr, int]) -> dict[Expr, Number]:
    """Coefficients of outputs, where they are cheaper inside a contraction that is used only there.

    Terms are subtracted from others for nothing: their signs stay, and what they are products of may be there.
    """
    found: dict[Expr, Number] = {}
    for node in (term for output in outputs for term in _scaled_terms(output)):
        if isinstance(node, Einsum) and node.coefficient != 1 and len(node.operands) == 1 and uses[node] == 1:
            [child] = node.operands
            if is_contraction(child) and uses[child] == 1 and not is_placing(child):
                found[child] = node.coefficient
    return found


def scaled(order: Iterable[Expr], entries: Callable[[Expr], int]) -> dict[Expr, Einsum]:
    """The smallest factors of products, into which the coefficients of these are multiplied."""
    found = [x for x in order if isinstance(x, Einsum) and x.is_product and abs(x.coefficient) != 1 and x.operands]
    smallest = {min(node.operands, key=entries): node for node in found}
    return {x: node for x, node in smallest.items() if 2 * entries(x) <= entries(node)}


def is_placing(node: Einsum) -> bool:
    """Whether a node only says where ones are: such a matrix is never formed on its own."""
    return all(is_index_map(x) for x in node.operands)


def _scaled_terms(output: Expr) -> list[Expr]:
    """The terms of an output, whatever the order of its axes, but for those that are subtracted from others."""
    if isinstance(output, Einsum) and len(output.operands) == 1 and sorted(output.labels[0]) == sorted(output.output):
        output = output.operands[0] if isinstance(output.operands[0], Add) and output.coefficient == 1 else output
    terms = list(output.terms) if isinstance(output, Add) else [output]
    return [x for x in terms if not (isinstance(x, Einsum) and x.coefficient == -1)] or terms

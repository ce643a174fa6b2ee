"""Kronecker form: a tensor of order four as the matrix of its first two and its last two axes, `2*kron(eye(m), V'*V)`.

Rows are numbered as the entries (i, j) are one after the other, row by row, and columns as (k, l). A factor for (i, k)
and one for (j, l) are a Kronecker product; one for (i, j) and one for (k, l) an outer product of vectors.
"""

from __future__ import annotations

from eindiff.core import construct
from eindiff.core.nodes import Add, Einsum, Expr
from eindiff.text.write.notation_einsum import NodeReference
from eindiff.text.write.notation_matrix import MatrixNotation
from eindiff.text.write.notation_network import FactorNetwork
from eindiff.text.write.tree import Tree, call, literal, product, transposed


class NoKroneckerFormError(Exception):
    """A tensor that is no sum of Kronecker products and outer products."""


class KroneckerNotation(MatrixNotation):
    """Tensors of order four as matrices; all others as in matrix notation."""

    def tree(self, key: NodeReference) -> Tree:
        """The tree of a reference; of a tensor of order four only if it is a sum or a product."""
        if key.node.ndim > 2 and not (key.node.ndim == 4 and isinstance(key.node, Add | Einsum)):
            raise NoKroneckerFormError
        return super().tree(key)

    def sum_tree(self, node: Add, flipped: bool, sign: int) -> Tree:
        made = super().sum_tree(node, flipped, sign)
        return Tree(made.kind, made.parts, made.data, 2, made.symmetric) if node.ndim == 4 else made

    def einsum_tree(self, node: Einsum, flipped: bool, sign: int) -> Tree:
        if node.ndim != 4:
            return super().einsum_tree(node, flipped, sign)
        if (turned := self._turned_sum(node, sign)) is not None:
            return turned
        value, network = self.network(node, node.output, sign)
        return product([literal(value), network.around(_unfolded)])

    def reference(self, node: Expr, flipped: bool = False, sign: int = 1) -> Tree:
        if node.ndim > 2 and (node.ndim != 4 or construct.is_number(node)):
            raise NoKroneckerFormError
        made = super().reference(node, flipped, sign)
        return Tree(made.kind, made.parts, made.data, 2, made.symmetric) if node.ndim == 4 else made


def _unfolded(network: FactorNetwork) -> Tree:
    """What is left of a network over four labels, as a matrix."""
    i, j, k, l = network.output
    if network.tensors:
        raise NoKroneckerFormError
    if {i, k}.isdisjoint({j, l}) and network.falls_apart({i, k}, {j, l}):
        return call("kron", [network.part((i, k)), network.part((j, l))], 2)
    if {i, j}.isdisjoint({k, l}) and network.falls_apart({i, j}, {k, l}):
        rows, columns = (call("vec", [transposed(network.part(pair))], 1) for pair in ((i, j), (k, l)))
        return product([rows, transposed(columns)])
    if (i, j) == (k, l) and i != j:
        return call("diag", [call("vec", [transposed(network.part((i, j)))], 1)], 2)
    raise NoKroneckerFormError

"""The specification of a canonical expression, checked node by node."""

from __future__ import annotations

from eindiff.core.construct import FLAT_LIMIT, transpose
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, is_kept, is_sealed, topological
from eindiff.core.sizes import Size

GENERATORS = 24  # symmetries that are combined with all others


def assert_canonical(*exprs: Expr) -> None:
    """Every node below keeps the facts that the constructors promise (see `eindiff.core.construct`)."""
    for node in topological(exprs):
        assert_canonical_node(node)
        for axes, sign in node.symmetries:
            turned = transpose(node, axes)
            assert turned is node if sign == 1 else turned is -node


def assert_canonical_node(node: Expr) -> None:
    """What can be seen of a node alone. `conftest` looks at each that any test makes."""
    match node:
        case Einsum():
            _check_einsum(node)
        case Add():
            _check_add(node)
        case Map():
            assert all(arg.shape == node.shape for arg in node.args)
        case Apply():
            cores = [arg.shape[len(labels) :] for arg, labels in zip(node.args, node.batch, strict=True)]
            batched = len({label for labels in node.batch for label in labels})
            assert node.shape[batched:] == node.function.output_shape(cores)
    if node.symmetries:
        _check_symmetries(node)


def _check_symmetries(node: Expr) -> None:
    """Symmetries are a group: the identity, which is left out, and each one after each other one."""
    axes = tuple(range(node.ndim))
    group = {*node.symmetries, (axes, 1)}
    assert len(group) == len(node.symmetries) + 1, "each is there once, and the identity is not"
    assert (axes, -1) not in group, "what is its own negative is zero"
    for moved, _ in group:
        assert sorted(moved) == list(axes)
        assert all(node.shape[k] == size for k, size in zip(moved, node.shape, strict=True))
    for p, sign in node.symmetries[:GENERATORS]:
        assert {(tuple([q[k] for k in p]), sign * other) for q, other in group} == group, "it is closed"


def _are_same(one: Size, other: Size) -> bool:
    """The number of singular values, min(m,n), may stand for the n eigenvalues of A'A: those beside them are 0."""
    small, large = sorted((str(one), str(other)), key=lambda size: not size.startswith("min("))
    return one == other or (small.startswith("min(") and large in small[4:-1].split(","))


def _check_einsum(node: Einsum) -> None:
    bound = {label for labels in node.labels for label in labels}
    for operand, labels in zip(node.operands, node.labels, strict=True):
        assert all(_are_same(size, node.sizes[label]) for size, label in zip(operand.shape, labels, strict=True))
        assert not (isinstance(operand, Einsum) and operand.is_product), "products are inlined"
        has_delta = isinstance(operand, Add) and operand.has_delta
        assert not has_delta or is_kept(node), "sums with deltas are distributed over, or kept"
    assert node.shape == tuple(node.sizes[label] for label in node.output)
    assert set(range(len(node.sizes))) == bound | set(node.output), "labels are 0, 1, 2, ..."
    if node.is_product:
        assert bound <= set(node.output)
        assert node.coefficient != 0 or not node.operands
        return
    assert node.coefficient == 1
    assert len(set(node.output)) == len(node.output)
    assert set(node.output) <= bound
    assert _connected(node), "a contraction holds only what hangs together"


def _connected(node: Einsum) -> bool:
    if not node.contracted:  # a long product that is computed in parts, or a sum that is kept apart
        return len(node.operands) > FLAT_LIMIT or is_sealed(node)
    reached, pending = {0}, [0]
    while pending:
        mine = set(node.labels[pending.pop()]) & set(node.contracted)
        for k, labels in enumerate(node.labels):
            if k not in reached and mine & set(labels):
                reached.add(k)
                pending.append(k)
    return len(reached) == len(node.operands)


def _check_add(node: Add) -> None:
    assert len(node.terms) > 1
    assert all(term.shape == node.shape for term in node.terms)
    bare = [term if not isinstance(term, Einsum) else (term.operands, term.labels, term.output) for term in node.terms]
    assert len(set(bare)) == len(bare), "like terms are merged"
    assert not any(isinstance(term, Add) for term in node.terms), "sums are flat"

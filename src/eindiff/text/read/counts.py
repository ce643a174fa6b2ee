"""Names that count: n in `1/n*norm2(X*w - y)^2` is the length of y, and no variable of its own.

A count divides a sum (`sum(x)/n`, `X'*r/n`, `norm2(r)^2/(2*n)`): it is the size of what is summed over. Where it
scales numbers only (`-n/2*log(2*pi)`) it is the one size that there is. If that is not clear, it stays a variable.
"""

from __future__ import annotations

from collections.abc import Iterator

from eindiff.text.read.conventions import is_count
from eindiff.text.read.infer import Inference
from eindiff.text.read.notation import NUMPY_OVER
from eindiff.text.read.shapes import typed
from eindiff.text.read.syntax import Node
from eindiff.text.read.table import TABLE
from eindiff.text.read.unify import Term, Type, Unknown, resolve

_REDUCTIONS = frozenset(("sum", "norm", "norm1", "norm2", "inner", "dot", "logsumexp", "prod", "sum_squares", "sumsq"))
_MOST_NODES = 400  # nodes of a text that people have typed
_SCALES_NUMBERS = ("n", "N")  # m*log(2) may be a mass times a number


def name_counts(inference: Inference, nodes: list[Node]) -> None:
    """Make the names that count sizes of the text."""
    nodes = [node for node in nodes if not node.literal]
    if len(nodes) > _MOST_NODES:
        return
    inner = {id(arg) for node in nodes if node.kind in ("product", "negative") for arg in node.args}
    products = [node for node in nodes if node.kind == "product" and id(node) not in inner]
    for name in _counts(inference, nodes):
        size = _size(inference, name, products)
        if size is not None:
            inference.sizes.unite(size, name, inference.used[name].node)
            del inference.used[name]
            inference.names.sizes.add(name)
            for node in nodes:
                if node.kind == "name" and node.value == name:
                    node.plan = "number"


def _counts(inference: Inference, nodes: list[Node]) -> set[str]:
    """The undeclared scalars whose names count, and that are no exponents."""
    exponents = {leaf.value for node in nodes if node.kind == "power" for leaf in _names(node.args[1])}
    return {
        name for name, use in inference.used.items()
        if is_count(name) and use.declaration.guessed and use.type.order == 0 and name not in exponents
    }  # fmt: skip


def _size(inference: Inference, name: str, products: list[Node]) -> Unknown | None:
    """The size that a name counts: the same in all products that it divides, or the only one of all."""
    uses = [(_summed(inference, product), under) for product in products if (under := _places(product, name))]
    if any(summed is None or (summed and not all(under)) for summed, under in uses):
        return None
    found = [summed for summed, _ in uses if summed]
    others = _only_size(inference) if uses and not found and name in _SCALES_NUMBERS else set()
    sizes = set.intersection(*found) if found else others
    size = sizes.pop() if len(sizes) == 1 else None
    return size if isinstance(size, Unknown) and not size.derived else None


def _places(product: Node, name: str) -> list[bool]:
    """Whether each factor of a product that has a name in it stands under the fraction line."""
    return [under for factor, under in _factors(product, False) if any(leaf.value == name for leaf in _names(factor))]


def _only_size(inference: Inference) -> set[Term]:
    """The size of a text with vectors, if there is one only, and it has no name."""
    types = [use.type for use in inference.used.values()]
    has_vectors = any(type_.order == 1 for type_ in types)
    return _sizes(*types) if has_vectors else set()


def _sizes(*types: Type) -> set[Term]:
    return {resolve(axis) for type_ in types for axis in type_.axes}


def _names(node: Node) -> Iterator[Node]:
    """The names in a factor that is made of names and numbers: n, n - 1, sqrt(n)."""
    if node.kind == "name":
        yield node
    elif node.kind in ("sum", "product", "negative", "power") or (
        node.kind == "call" and node.value in TABLE and TABLE[node.value].is_by_entry
    ):
        for arg in node.args:
            yield from _names(arg)


def _factors(node: Node, under: bool) -> Iterator[tuple[Node, bool]]:
    """The factors of a product, and which of them stand under a fraction line."""
    if node.kind == "negative":
        yield from _factors(node.args[0], under)
    elif node.kind == "product":
        for operator, arg in zip(["*", *node.value], node.args, strict=True):
            yield from _factors(arg, under ^ (operator in ("/", "./", "⊘", NUMPY_OVER)))
    else:
        yield node, under


def _summed(inference: Inference, node: Node) -> set[Term] | None:
    """The sizes that are summed over in a factor; None if it has entries, or is a number of which that is not known."""
    if node.kind == "over":
        return _sizes(Type((inference.names.ranges[node.args[1].plan].size,)))
    if node.kind == "call" and node.value in _REDUCTIONS and not any(arg.literal for arg in node.args):
        return _sizes(typed(node.args[0]))
    is_of_number = node.kind in ("name", "call") and typed((*node.args, node)[0]).order == 0
    if node.kind not in ("number", "negative", "power", "sum", "product") and not is_of_number:
        return None
    contracted: set[Term] = _contracted(node) if node.kind == "product" else set()
    below = [_summed(inference, arg) for arg in node.args if not (contracted and typed(arg).order)]
    known = [sizes for sizes in below if sizes is not None]
    return contracted.union(*known) if len(known) == len(below) else None


def _contracted(node: Node) -> set[Term]:
    """The sizes that products of matrices and vectors sum over."""
    left, found = typed(node.args[0]), Type()
    for step, arg in zip(node.plan, node.args[1:], strict=True):
        right = typed(arg)
        if isinstance(step, str) and "->" in step:
            inputs, _, output = step.partition("->")
            axes = dict(zip(inputs.replace(",", ""), left.axes + right.axes, strict=True))
            found = Type(found.axes + tuple(axes[label] for label in axes if label not in output))
            left = Type(tuple(axes[label] for label in output))
        elif left.order == 0:
            left = right
    return _sizes(found)

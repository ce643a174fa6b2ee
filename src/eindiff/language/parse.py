"""Text to expression: syntax, then shapes by unification, then the constructors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eindiff.errors import EindiffError
from eindiff.expr import Expr
from eindiff.language.source import Source
from eindiff.language.syntax import Node, postorder, read


def parse(text: str, declarations: str | Mapping[str, Any] | None = None) -> Expr:
    """The expression that a text in the language of matrixcalculus.org, or in ours, stands for.

    Variables are declared (`"A(m,n); x(n); S(n,n) symmetric; c"`, or a dictionary of names and shapes, words like
    "vector", or variables) or follow the convention: names that begin with a..g are scalars, h..z vectors, A..Z
    matrices, and their sizes are found from use. `parse_declarations` says more.

    >>> parse("x'*A*x", "A(n,n) symmetric; x(n)")
    einsum('i,j,ij->', x, x, A)
    >>> parse("norm2(A*x - b)^2").shape
    ()
    """
    from eindiff.language.build import Building, built, name_sizes
    from eindiff.language.declarations import declared
    from eindiff.language.infer import Inference
    from eindiff.language.table import mark_literals

    if not isinstance(text, str):
        raise EindiffError(f"parse takes text, not {type(text).__name__}")
    source = Source(text)
    inference = Inference(source, declared(declarations))
    bindings, result = read(source, "program")
    nodes: list[Node] = []
    for name, root in [*bindings, (None, result)]:
        below = postorder(root)
        for node in reversed(below):
            mark_literals(node)
        for node in below:
            inference.visit(node)
        nodes += below
        if name is not None:
            _bind(inference, source, name, root)
    name_sizes(inference, nodes)
    building = Building(inference)
    for node in nodes:
        building.visit(node)
    return built(result)


def _bind(inference: Any, source: Source, name: Any, root: Node) -> None:
    if str(name) in inference.declared or str(name) in inference.used or str(name) in inference.bound:
        raise source.error(f"{name} already has a meaning; bind another name", name.start_pos, name.end_pos)
    inference.bound[str(name)] = root

"""Text to expression: syntax, then shapes by unification, then the constructors.

The language is that of matrixcalculus.org, with more functions, tensors of any order and einsum. What it means:

- Vectors are columns. `*` is the matrix product, and scales by a scalar: `A*x`, `x'*y` (inner), `x*y'` (outer).
  A transposed vector is a row, which is kept track of while reading; its tensor is the same as that of the column.
- `+ - .* ./ .^` and comparisons work entry by entry on equal shapes; a scalar fits to any. `/` divides by a scalar.
- `^` is the power of a scalar, and the matrix power of a square matrix with a whole number. It groups to the right,
  and binds tighter than a minus before it: `-a^b^c` is `-(a^(b^c))`. `'` binds tighter still.
- `⊙ ⊘ ⊗ ᵀ − ·` are `.*`, `./`, `kron`, `'`, `-` and `*`. `A *_(ij,jk,ik) B` is `einsum("ij,jk->ik", A, B)`.
- Axes and indices count from 0 as in Python: `sum(X, 1)` has the sums of the rows, `A[0,:]` is the first row. What has
  one axis left is a vector, and so a column. `max(x, axis=0)` wants its axis named, as `max(x, 0)` reads like maximum.
- Names of sizes are numbers only in `size(n)`; elsewhere, as in `ones(m*n)` or `x[0:k]`, they are sizes.
- Numbers are exact where they can be: `1/3*x` has the coefficient 1/3.
- `t = X*w; exp(t)` binds a name. Statements end with `;` or a line break; `#` begins a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eindiff.core.derivation import derived
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, variables
from eindiff.text.read.build import Building, built, name_sizes
from eindiff.text.read.declarations import declared
from eindiff.text.read.infer import Inference
from eindiff.text.read.source import Source
from eindiff.text.read.syntax import Node, postorder, read
from eindiff.text.read.table import mark_literals


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
    expr, written = built(result), building.variables.values()
    return derived(expr, *written) if len(variables(*written)) > len(variables(expr)) else expr


def _bind(inference: Inference, source: Source, name: Any, root: Node) -> None:
    if str(name) in inference.declared or str(name) in inference.used or str(name) in inference.bound:
        raise source.error(f"{name} already has a meaning; bind another name", name.start_pos, name.end_pos)
    inference.bound[str(name)] = root

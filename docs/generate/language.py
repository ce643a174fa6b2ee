"""The page of the language: every function with its meaning, shapes, derivative, and a line to try."""

from __future__ import annotations

import inspect
import re

import eindiff as ed
from eindiff.functions.table import TABLE as ROWS
from eindiff.text.read.table import TABLE
from generate.docstrings import summary

LONGEST = 150  # a derivative that is shown

# What is differentiated to show a derivative, and by what; an elementwise function is summed.
SCALAR, SQUARE, TALL = "x(n); w(n); c", "A(n,n); B(n,n); x(n); w(n)", "A(m,n); B(m,n); C(n,m); x(n); w(k); W(n,m)"
EXAMPLES = {
    "power": ("sum(power(x, y))", "x", "x(n) positive; y(n)"),
    "minimum": ("sum(minimum(x, y))", "x", "x(n); y(n)"),
    "maximum": ("sum(maximum(x, y))", "x", "x(n); y(n)"),
    "greater": ("sum(greater(x, y))", "x", "x(n); y(n)"),
    "arctan2": ("sum(arctan2(y, x))", "x", "x(n); y(n)"),
    "polygamma": ("sum(polygamma(1, x))", "x", "x(n) positive"),
    "where": ("sum(where(b, x, y))", "x", "b(n); x(n); y(n)"),
    "dot": ("dot(x, w)", "x", SCALAR),
    "softmax": ("w'*softmax(x)", "x", SCALAR),
    "cumsum": ("w'*cumsum(x)", "x", SCALAR),
    **{name: (f"{name}(x)", "x", SCALAR) for name in ["sum", "mean", "prod", "max", "min"]},
    **{name: (f"{name}(x)", "x", SCALAR) for name in ["norm", "norm1", "norm2", "norminf", "sumsq", "logsumexp"]},
    **{name: (f"{name}(A)", "A", SQUARE) for name in ["tr", "det", "logdet", "lambdamax"]},
    **{name: (f"{name}(A)", "A", TALL) for name in ["normnuc", "normspec"]},
    **{name: (f"tr(B'*{name}(A))", "A", SQUARE) for name in ["inv", "chol", "eigvecs", "adj", "expm", "logm", "sqrtm"]},
    "eigvals": ("w'*eigvals(A)", "A", SQUARE),
    "svdvals": ("sum(exp(svdvals(A)))", "A", "A(m,n)"),
    "svdleft": ("sum(exp(svdleft(A)))", "A", "A(m,n)"),
    "svdright": ("sum(exp(svdright(A)))", "A", "A(m,n)"),
    "pinv": ("tr(W'*pinv(A))", "A", TALL),
    "diag": ("tr(B'*diag(x))", "x", SQUARE),
    "solve": ("w'*solve(A, x)", "A", SQUARE),
    "matrix_power": ("tr(B'*matrix_power(A, 2))", "A", SQUARE),
    "einsum": ('einsum("ij,i,j->", A, x, w)', "A", SQUARE),
    "transpose": ("tr(B*transpose(A))", "A", TALL),
    "reshape": ("sum(exp(reshape(A, m*n)))", "A", "A(m,n)"),
    "vec": ("norm2(vec(A))^2", "A", "A(m,n)"),
    "outer": ("tr(B'*outer(x, w))", "x", SQUARE),
    "inner": ("inner(A, B)", "A", TALL),
    "concatenate": ("sum(exp(concatenate(x, y)))", "x", "x(n); y(m)"),
    "stack": ("inner(B, stack(x, y))", "x", "x(n); y(n); B(2,n)"),
    "kron": ("norm2(kron(x, y))^2", "x", "x(m); y(n)"),
}
# What has no docstring of its own in Python
MEANINGS = {
    "dot": "The inner product.",
    "norm": "The Euclidean norm, that of a 1, or the largest absolute value.",
    "norminf": "The largest absolute value.",
    "sumsq": "The sum of squares.",
}
CONSTANTS = {
    "ones": "A vector, matrix or tensor of ones.",
    "zeros": "A vector, matrix or tensor of zeros.",
    "eye": "The identity matrix; `eye` alone finds its size from its use.",
    "vector": "A vector whose entries are all c.",
    "matrix": "A matrix whose entries are all c.",
}
# What derivatives may be made of
INTERNAL = {
    "argmax": "1 at the largest entry; equal ones share it.",
    "bars": "What vertical bars stand for: absolute values of entries, the determinant of a square matrix.",
    "gaps": "NaN where a value is there more than once, else 1: marks where a derivative does not exist.",
    "indexmap": "The relation of indices that a slice or a reshape stands for.",
    "inverse_or_zero": "1/x, and 0 at 0.",
    "log_weighted_sum": "log(sum(w .* exp(x))), without overflow.",
    "logabsdet": "log(abs(det(A))).",
    "lower": "The lower triangle of ones.",
    "nonzero": "NaN where a value is 0, else 1: marks where a derivative does not exist.",
    "nonzero_pairs": "NaN where two values are both 0, else 1.",
    "onehot": "Rows of the identity matrix, by their numbers.",
    "signdet": "The sign of the determinant.",
    "simple": "NaN for an eigenvalue that is there more than once, else 1.",
    "size": "A size as a number.",
    "weighted_softmax": "The derivative of log_weighted_sum.",
    "winner": "1 where x > y, 1/2 where both are equal, else 0.",
}

HEAD = """\
# Language

What `ed.parse`, the terminal and the page read. It is the language of matrixcalculus.org, and more.

| you write | meaning |
|---|---|
| `A*x`, `x'*y`, `x*y'` | matrix product; inner and outer product. Vectors are columns |
| `c*A`, `A/c` | a scalar scales |
| `.*` `./` `.^` `+` `-` | entry by entry, on equal shapes; a scalar fits to any |
| `A'`, `Aᵀ` | transpose |
| `x^2`, `A^3` | power of a scalar or of each entry of a vector; matrix power of a square matrix |
| `⊙ ⊘ ⊗ ·` | `.*`, `./`, `kron`, `*` |
| `A[0,:]`, `x[1:]` | entries and slices; indices count from 0 |
| `sum(X, axis=0)` | along axes, which count from 0 |
| `A *_(ij,jk,ik) B` | `einsum("ij,jk->ik", A, B)`, as the paper writes it |
| `t = X*w; exp(t)` | a name for a part; `;` or a line break ends it, `#` begins a comment |
| `I` | the identity |
| `x^T`, `x.T`, `2x`, `x²`, `‖x‖₁` | transpose, product, power, norms |
| `X @ w`, `x**2`, `np.sum(x)`, `x.sum()` | NumPy's words; where they occur, `*` and `/` work entry by entry |
| `sum_over(i, 1, n, x[i]*y[i])` | a sum over an index |
| `f(x) = ...`, `argmin_w ...` | what stands before the expression is left out |
| `\\frac{1}{2}\\|Ax - b\\|^2` | LaTeX is read too |

**Declarations** say what names are: `A(m,n); x(n); S(n,n) symmetric; c`. Sizes are names or numbers;
behind the shape stand the properties `symmetric`, `psd`, `positive`, `orthogonal`. What is not declared is found from
its use; `ed.reading(text)` tells what was found.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD, _elementwise(), _whole(), _constants(), _internal(), _others()]
    return "\n".join(parts)


def _is_divided(name: str) -> bool:
    return name.startswith("divided_")


def _by_entry() -> set[str]:
    own = set(CONSTANTS) | set(INTERNAL)
    return {name for name in TABLE if TABLE[name].is_by_entry and name not in own and not _is_divided(name)}


def example(name: str) -> tuple[str, str, str]:
    """An expression with the function, the variable to differentiate by, and declarations."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    return f"sum({name}(x))", "x", "x(n)"


def _row(name: str) -> str:
    expression, by, declarations = example(name)
    parsed = ed.parse(expression, declarations)
    variable = next(one for one in ed.variables(parsed) if one.name == by)
    derivative = ed.to_text(ed.gradient(parsed, variable), names=False)
    shown = f"`{derivative}`" if len(derivative) <= LONGEST else "long; try it"
    return f"| `{_usage(name)}` | {_meaning(name)} | `{expression}` by `{by}`: {shown} |"


def _meaning(name: str) -> str:
    row = ROWS.get(name)
    if name in MEANINGS:
        return MEANINGS[name]
    public = getattr(ed, name, None) or (row.public if row else None)
    domain = f" Arguments: {row.domain}." if row is not None and row.domain != "real" else ""
    return (summary(inspect.getdoc(public) or "") + domain).replace("|", "\\|")


def _table(chosen: list[str]) -> str:
    return "| function | meaning | derivative |\n|---|---|---|\n" + "\n".join(map(_row, chosen)) + "\n"


def _elementwise() -> str:
    title = "## Entry by entry\n\nValues have the shape of the argument. Derivatives are of the sum of entries.\n"
    return f"{title}\n{_table(sorted(_by_entry()))}"


def _whole() -> str:
    chosen = [name for name in TABLE if name in EXAMPLES and name not in _by_entry()]
    return "## Whole vectors, matrices and tensors\n\n" + _table(chosen)


def _usage(name: str) -> str:
    """How a function is called, in one or two ways."""
    calls = re.findall(rf"{name}\([^)]*\)", TABLE[name].usage)
    return "`, `".join(calls[:2]) or name


def _constants() -> str:
    rows = [f"| `{_usage(name)}` | {text} |" for name, text in CONSTANTS.items()]
    return "## Constants\n\n| function | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _internal() -> str:
    rows = [f"| `{_usage(name)}` | {text} |" for name, text in INTERNAL.items()]
    title = "## In derivatives\n\nNobody has to write these; derivatives may contain them, and they can be read back."
    divided = "| `divided_f(x, y)` | (f(x) − f(y)) / (x − y), and f'(x) where x = y, for elementwise f. |"
    return f"{title}\n\n| function | meaning |\n|---|---|\n" + "\n".join([*rows, divided]) + "\n"


def _others() -> str:
    """Functions that are none of these, by how they are written."""
    told = _by_entry() | set(EXAMPLES) | set(CONSTANTS) | set(INTERNAL)
    rest = [name for name in TABLE if name not in told and not _is_divided(name)]
    return "## More\n\n" + "\n".join(f"- `{TABLE[name].usage}`" for name in rest) + "\n" if rest else ""

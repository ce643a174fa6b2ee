"""The page of the language: every function with its meaning, and the derivative of a line to try."""

from __future__ import annotations

import eindiff as ed
from eindiff.functions.table import TABLE as ROWS
from eindiff.text.reference import Entry, reference

LONGEST = 150  # a derivative that is shown
PREFERRED = "xwXAuUyzvPS"  # names of variables that examples are differentiated by

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
| `x^T`, `‖Ax − b‖²`, `2x`, `np.sum(x**2)`, LaTeX | [are read too](how-to/notations.md) |

**Declarations** say what names are: `A(m,n); x(n); S(n,n) symmetric; c`. Sizes are names or numbers;
behind the shape stand properties: `symmetric`, `psd`, `positive`, `orthogonal`, `lower`, `upper`, `unit`,
`tridiagonal`, `banded`, `permutation`, or other words for these (`SPD`, `LowerTriangular`, `positive definite`);
`g(m) into n` are indices. What is not declared is found from
its use; `ed.reading(text)` tells what was found.
"""


def page() -> str:
    """The text of the page."""
    groups: dict[str, list[Entry]] = {}
    for entry in reference().values():
        if entry.is_function and not entry.name.startswith("divided_"):
            groups.setdefault(entry.group, []).append(entry)
    return "\n".join([HEAD, *(_table(group, entries) for group, entries in groups.items())])


def _table(group: str, entries: list[Entry]) -> str:
    rows = [_row(entry) for entry in entries]
    words = ""
    if group == "In derivatives":
        words = "Nobody has to write these; derivatives may contain them, and they can be read back.\n\n"
        rows.append("| `divided_f(x, y)` | (f(x) − f(y)) / (x − y), and f'(x) where x = y, for elementwise f. | |")
    return f"## {group}\n\n{words}| function | meaning | derivative |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(entry: Entry) -> str:
    row = ROWS.get(entry.name)
    domain = f" Arguments: {row.domain}." if row is not None and row.domain != "real" else ""
    usage = entry.usage.replace(", " + entry.name, "`, `" + entry.name)
    return f"| `{usage}` | {entry.meaning}{domain} | {derivative(entry.example)} |".replace("|x|", "\\|x\\|")


def derivative(example: str) -> str:
    """An example and what its derivative is by the variable that is looked for first."""
    parsed = ed.parse(example)
    names = [one.name for one in ed.variables(parsed) if one.into is None]
    by = min(names, key=lambda name: (PREFERRED.find(name) % 99, name), default=None)
    if parsed.shape or by is None:
        return f"`{example}`"
    text = ed.to_text(ed.gradient(parsed, by), names=False)
    shown = f"`{text}`" if len(text) <= LONGEST else "long; try it"
    return f"`{example}` by `{by}`: {shown}".replace("|", "\\|")

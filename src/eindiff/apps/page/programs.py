"""Code for a function and its derivatives: a module for one library, which can be run, or LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eindiff.apps.page.costs import typical_sizes
from eindiff.apps.page.formulas import formula
from eindiff.apps.page.reading import derivatives
from eindiff.core.nodes import Expr, variables
from eindiff.program.write.library_script import library_script
from eindiff.program.write.module import Module
from eindiff.program.write.script import Script
from eindiff.text.layouts import changes
from eindiff.text.question import Answer, Block
from eindiff.text.write.latex import name_latex


def written(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The model `Code`."""
    result = derivatives(ask)
    library = ask.get("library", "numpy")
    if library == "latex":
        text = _latex(result)
        return {"library": library, "language": "latex", "filename": "derivative.tex", "code": text}
    if _is_usual(result):
        order = max(len(block.by) for block in result.blocks)
        script = Script(result.function, result.by, order, "f", {}, result.question.mode, 0)
        sizes = typical_sizes(script.module.size_names)
        text = library_script(script, sizes, library)
    else:
        text = _plain(_outputs(result), library)
    return {"library": library, "language": "python", "filename": f"derivative_{library}.py", "code": text}


def _is_usual(result: Answer) -> bool:
    """Whether scripts give these derivatives: in the mixed layout, projected, by variables that are left."""
    if not set(variables(result.function)).issuperset(result.by):
        return False
    if result.has_symmetric and result.question.symmetric == "free":
        return False
    order, layout = result.function.ndim, result.question.layout
    return all(block.by and not changes(order, [x.ndim for x in block.by], layout) for block in result.blocks)


def _outputs(result: Answer) -> dict[str, Expr]:
    """The function, and the derivatives as they are shown."""
    named = {"_".join(["derivative", *(x.name for x in block.by)]): block.arranged.expr for block in result.blocks}
    return {"value": result.function} | (named if result.by else {})


def _plain(outputs: dict[str, Expr], library: str) -> str:
    """A module with the function alone."""
    module = Module(outputs, "f")
    if library == "numpy":
        return module.source()
    return module.program(typical_sizes(module.size_names), library=library).source


def _latex(result: Answer) -> str:
    """Equations for a document that uses amsmath."""
    name, notation = result.name, result.question.notation
    rows = [_row(name, result.function, notation)] if result.by else []
    rows += [_row(_label(x, name), x.arranged.expr, notation, x.arranged.row) for x in result.blocks]
    return "% \\usepackage{amsmath}\n\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}\n"


def _row(left: str, expr: Expr, notation: str, row: bool = False) -> str:
    made = formula(expr, notation, "", row)["latex"]
    return f"  {left} &= {made}"


def _label(block: Block, function: str) -> str:
    if not block.by:
        return function
    count = len(block.by)
    power = f"^{{{count}}}" if count > 1 else ""
    below = " \\, ".join(f"\\partial {name_latex(x.name)}" for x in block.by)
    return rf"\frac{{\partial{power} {name_latex(function)}}}{{{below}}}"

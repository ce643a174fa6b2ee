"""Code for a function and its derivatives: a module for one library, which can be run, or LaTeX."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eindiff.apps.page.costs import typical_sizes
from eindiff.apps.page.formulas import formula
from eindiff.apps.page.reading import derivatives
from eindiff.core.nodes import Expr, variables
from eindiff.program.write.module import Module
from eindiff.program.write.script import RESERVED, Script
from eindiff.text.layouts import changes
from eindiff.text.question import Answer, Block
from eindiff.text.write.latex import name_latex

CONVERTED = {
    "torch": "torch.as_tensor(value, dtype=torch.float64)",
    "jax": "jnp.asarray(value)",
    "tensorflow": "tf.constant(value, dtype=tf.float64)",
    "cupy": "cp.asarray(value)",
}
IMPORTS = {
    "torch": ["import torch"],
    "jax": ["import jax", "import jax.numpy as jnp"],
    "tensorflow": ["import tensorflow as tf"],
    "cupy": ["import cupy as cp"],
}

MAIN_PART = """

if __name__ == "__main__":
{recipe}
    outputs = f(**{{name: {converted} for name, value in point.items()}}{sizes})
    for label, output in zip({labels}, {outputs}, strict=True):
        print(label, tuple(output.shape))
"""


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
        text = script.source() if library == "numpy" else _module(script, library)
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


def _module(script: Script, library: str) -> str:
    """A module with the function, and a call of it at the point that a script for NumPy would be checked at."""
    recipe = "\n".join(f"    {line}" for line in script.recipe())
    module = Module(script.outputs, "f", RESERVED)  # so its names are those of the script
    source = module.program(typical_sizes(module.size_names), library=library).source
    lines = source.splitlines()
    own = [line for line in lines if line.startswith("import ")]
    kept = "\n".join(line for line in lines if not line.startswith("import ") and line != "pass").strip()
    imports = sorted({*own, *IMPORTS[library], "import numpy as np"}, key=lambda line: line.split()[1])
    imports += ["", 'jax.config.update("jax_enable_x64", True)'] if library == "jax" else []
    main = MAIN_PART.format(
        recipe=recipe,
        converted=CONVERTED[library],
        sizes="".join(f", {name}={name}" for name in (module.names.sizes[size] for size in module.unseen)),
        labels=json.dumps(list(script.outputs), ensure_ascii=False),
        outputs="outputs" if len(script.outputs) > 1 else "[outputs]",
    )
    return "\n".join(imports) + "\n\n\n" + kept + "\n" + main


def _latex(result: Answer) -> str:
    """Equations for a document that uses amsmath."""
    name, notation = result.name, result.question.notation
    rows = [_row(name, result.function, notation)] if result.by else []
    for block in result.blocks:
        rows.append(_row(_label(block, name), block.arranged.expr, notation, block.arranged.row))
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

"""The house: which module imports which, read from the source, and the picture of its layers in docs/layers.svg.

`python tests/helpers/house.py` draws the picture anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "eindiff"
PICTURE = ROOT / "docs" / "layers.svg"

# From the lowest to the highest: a module imports from its own folder and from lower ones.
LAYERS = (
    "core", "functions", "calculus", "facts", "planning", "program", "structure", "text", "tracing", "scale", "apps",
)  # fmt: skip

ROW, NAME, CELL, WIDTH = 40, 100, 26, 620  # pixels


@dataclass(frozen=True)
class Import:
    """One import of the package's source."""

    path: Path
    line: int
    module: str
    inside: bool  # of a function
    reason: str  # the comment beside it, or above


def imports(package: Path = PACKAGE) -> Iterator[Import]:
    """All imports, but those that only type checkers see."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree, lines = ast.parse(text), text.split("\n")
        functions = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {id(x) for function in functions for x in ast.walk(function)}
        checked = [x for x in ast.walk(tree) if isinstance(x, ast.If) and "TYPE_CHECKING" in ast.unparse(x.test)]
        unseen = {id(x) for block in checked for x in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in unseen:
                for module in _modules(node):
                    reason = lines[node.lineno - 1].partition("#")[2] or lines[node.lineno - 2].partition("#")[2]
                    yield Import(path.relative_to(package), node.lineno, module, id(node) in inside, reason.strip())


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names]


def edges() -> set[tuple[str, str]]:
    """Which folder imports from which other one."""
    found = set()
    for one in imports():
        parts = one.module.split(".")
        if parts[0] == "eindiff" and len(one.path.parts) > 1 and len(parts) > 1:
            found.add((one.path.parts[0], parts[1]))
    return {(a, b) for a, b in found if a != b and {a, b} <= set(LAYERS)}


def picture() -> str:
    """The layers from top to bottom, what lives in each, and a dot where one imports from another."""
    order, found = LAYERS[::-1], edges()
    height = ROW * len(order) + 60
    left = WIDTH - 20 - CELL * len(order)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for k, layer in enumerate(order):
        y, x = 50 + ROW * k, left + CELL * k
        box = f'x="10" y="{y}" width="{x - 14}" height="{ROW - 6}" rx="5"'
        lines.append(f'<rect {box} fill="#e8eef7" stroke="#4a6fa5"/>')
        lines.append(f'<text x="20" y="{y + 22}" font-size="15" fill="#1b2a41">{layer}/</text>')
        lines.append(f'<text x="{NAME + 14}" y="{y + 21}" font-size="11" fill="#44546a">{escape(WORDS[layer])}</text>')
        middle = x + CELL // 2
        lines.append(
            f'<text transform="translate({middle + 4} 46) rotate(-55)" font-size="11" fill="#44546a">{layer}</text>'
        )
        lines.append(f'<rect x="{x + 3}" y="{y + 6}" width="{CELL - 6}" height="{ROW - 18}" rx="3" fill="#4a6fa5"/>')
        for j, other in enumerate(order):
            if (layer, other) in found:
                lines.append(f'<circle cx="{left + CELL * j + CELL // 2}" cy="{y + 17}" r="5" fill="#d1603d"/>')
    return "\n".join([*lines, "</svg>", ""])


WORDS = {
    "core": "sizes, labels, nodes, canonical constructors",
    "functions": "tables of functions, operators, rewrite rules",
    "calculus": "the chain rule, derivatives of any order",
    "facts": "bounds, symmetry, definiteness",
    "planning": "forms of sums, order of contraction",
    "program": "operations, source, libraries, interpreter",
    "structure": "typed derivatives and solvers",
    "text": "the language: reading and writing",
    "tracing": "functions of NumPy, JAX, PyTorch",
    "scale": "data in blocks, past one machine",
    "apps": "command line, page",
}


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

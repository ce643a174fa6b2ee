"""Notebooks of the tutorials: `python docs/generate/notebooks.py` writes them to examples/."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ["newton", "paper", "network", "structure", "physics"]
FENCE = re.compile(r"^```python\n(.*?)^```\n(?:```\n.*?^```\n)?", re.S | re.M)


def notebook(name: str) -> str:
    """A tutorial as a notebook: text and code in turns, without results."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    page = re.sub(r"\]\((?!http)([^)]+)\)", lambda link: f"]({_linked(link[1])})", page)
    cells = []
    for k, part in enumerate(FENCE.split(page)):
        if text := part.strip():
            lines = text.splitlines(keepends=True)
            cell = {"cell_type": "code" if k % 2 else "markdown", "id": f"cell-{k}", "metadata": {}, "source": lines}
            cells.append(cell | ({"execution_count": None, "outputs": []} if k % 2 else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _linked(target: str) -> str:
    """A link of a tutorial as seen from examples/; pages that are made are named by their source."""
    if target.startswith("../api/"):
        return "../src/eindiff/__init__.py"
    return f"../docs/{target.removeprefix('../')}" if target.startswith("../") else f"../docs/tutorials/{target}"


if __name__ == "__main__":
    for name in TUTORIALS:
        (ROOT / "examples" / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")

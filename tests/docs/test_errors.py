"""Errors have codes, and each code has a section on the page of errors."""

from __future__ import annotations

import ast
import pickle
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import eindiff as ed
from eindiff.apps.cli import main
from eindiff.core.errors import CODES

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted((ROOT / "src" / "eindiff").rglob("*.py"))


def calls(path: Path) -> list[ast.Call]:
    """Where a file makes errors."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [node for node in made if node.func.id == "EindiffError"]


def test_every_error_has_a_code() -> None:
    without = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in SOURCES
        for call in calls(path)
        if len(call.args) != 2 or not isinstance(call.args[1], ast.Constant) or call.args[1].value not in CODES
    ]
    assert not without, f"a code of core/errors.py is the second argument of EindiffError: {without}"
    assert sum(len(calls(path)) for path in SOURCES) > 200


def test_every_code_has_a_section() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## .* \{#(\w+)\}$", page, re.M)) == sorted(CODES)


def test_kinds_of_errors_have_codes() -> None:
    kinds = [ed.EindiffError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert [kind.__name__ for kind in kinds[1:] if kind.code not in CODES] == []


def test_a_traceback_shows_the_code_and_pickles_keep_it() -> None:
    with pytest.raises(ed.EindiffError) as caught:
        ed.evaluate(ed.tr(ed.matrix("A", "n", "n")), {"A": np.ones((2, 3))})
    assert caught.value.code == "arrays"
    assert "[arrays]" not in str(caught.value)
    assert traceback.format_exception(caught.value)[-1] == "[arrays] causes and cures: eindiff explain arrays\n"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, str(again), again.__notes__) == ("arrays", str(caught.value), caught.value.__notes__)


def test_the_command_line_explains_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "shapes"]) == 0
    assert capsys.readouterr().out.startswith("shapes: Two shapes do not fit.")
    assert main(["explain"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if re.match(r"\w+: ", line)]
    assert main(["explain", "shape"]) == 2
    assert "the codes are arrays, blocks" in capsys.readouterr().err

"""The house: imports follow the layers, those inside functions say why, files stay short, and the picture is true."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import house

MOST_LATE = 40  # imports inside functions
MOST_LINES = 500


def test_the_picture_is_true() -> None:
    """docs/layers.svg is what `python tests/helpers/house.py` draws."""
    assert house.PICTURE.read_text(encoding="utf-8") == house.picture()


def test_folders_import_from_lower_ones() -> None:
    place = {layer: k for k, layer in enumerate(house.LAYERS)}
    assert [(a, b) for a, b in house.edges() if place[a] < place[b]] == []


def test_the_linter_knows_the_same_layers() -> None:
    [layers] = [
        contract["layers"]
        for contract in tomllib.loads((house.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    assert tuple(name for name in reversed(layers) if name in house.LAYERS) == house.LAYERS
    folders = {path.name for path in house.PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(house.LAYERS)


def test_imports_inside_functions_are_few_and_say_why() -> None:
    """What is in no other library than the user may have, or takes long to import."""
    late = [one for one in house.imports() if one.inside]
    assert len({(one.path, one.line) for one in late}) <= MOST_LATE
    known = {"eindiff", *sys.stdlib_module_names}  # all others are optional, or large
    own = [one for one in late if one.module.split(".")[0] in known]
    assert [f"{one.path}:{one.line}" for one in own if not one.reason] == []


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_files_are_short(folder: str) -> None:
    files = [path for path in Path(house.ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts]
    lengths = {str(path.relative_to(house.ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_pages_name_files_that_exist(page: str) -> None:
    """And the functions that a walk through them names."""
    text = (house.ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    roots = (house.PACKAGE, house.ROOT, house.ROOT / "src")
    missing = [name for name in named if not any((root / name).exists() for root in roots)]
    assert not missing
    for name, functions in re.findall(r"^\| `([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text, re.MULTILINE):
        source = (house.PACKAGE / name).read_text(encoding="utf-8")
        for function in re.findall(r"\w+(?=`)", functions):
            assert re.search(rf"\b(def|class) {function}\b|\b{function}\b[,\n]", source), (name, function)


def test_names_of_modules_are_given_once() -> None:
    """A limit that has the name of another one would take its place without a word."""
    for path in (house.ROOT / "src").rglob("*.py"):
        targets = [y for x in ast.parse(path.read_text()).body if isinstance(x, ast.Assign) for y in x.targets]
        names = [x.id for x in targets if isinstance(x, ast.Name)]
        assert len(names) == len(set(names)), f"{path}: {sorted({x for x in names if names.count(x) > 1})}"

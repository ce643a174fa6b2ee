"""What a release promises: the public names, one version everywhere, and no more to install than is needed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import eindiff as ed

sys.path.insert(0, str(Path(__file__).parent))
import public_api

ROOT = Path(__file__).parent.parent.parent


def test_the_public_names_change_only_on_purpose():
    """After `python tests/docs/public_api.py` the change shows in the difference of `public-api.txt`."""
    assert public_api.LIST.read_text(encoding="utf-8").splitlines() == public_api.listing().splitlines()


def test_the_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/eindiff/version.py"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == ed.__version__
    assert f"## {ed.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_it_needs_four_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}
    assert names == {"numpy", "scipy", "opt_einsum", "lark", "threadpoolctl"}


def test_importing_it_loads_nothing_else():
    code = "import sys, eindiff; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"jax", "torch", "tensorflow", "cupy", "dask", "matplotlib", "fastapi", "pydantic", "pyarrow"}
    assert heavy.isdisjoint(loaded)

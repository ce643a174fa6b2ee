"""What pages show is what happens, and what they point at is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from generate import blocks, gallery, language, notebooks, reference

FILES = [path for path in blocks.pages() if not path.startswith("docs/api/")]
OTHERS = ["ARCHITECTURE.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"]


@pytest.mark.parametrize("page", FILES)
def test_code_prints_what_stands_below_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code, shown, printed in blocks.answers((blocks.ROOT / page).read_text(encoding="utf-8")):
        assert printed == shown, code


def test_the_readme_has_code_and_commands():
    found = [code for code, _, _ in blocks.answers((blocks.ROOT / "README.md").read_text(encoding="utf-8"))]
    assert len(found) >= 4 and any(code.startswith("eindiff ") for code in found)


@pytest.mark.parametrize("page", ["README.md", *OTHERS])
def test_links_of_the_repository_lead_somewhere(page):
    text = (blocks.ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (blocks.ROOT / target).exists(), target


def test_each_function_of_the_language_is_told():
    from eindiff.text.read.table import TABLE

    text = language.page()
    assert all(f"`{name}" in text for name in TABLE if not name.startswith("divided_"))


def test_each_public_name_has_a_place():
    import eindiff as ed

    named = [name for _, names in reference.grouped().values() for name in names]
    assert sorted(named) == sorted(ed.__all__)
    text = "".join(reference.pages().values())
    assert all(f"## {name}\n" in text for name in ed.__all__)


def test_the_gallery_draws_all_problems():
    made = gallery.pages()
    assert len(made) == len(gallery.problems()) + 1 >= 31
    assert all("<svg" in picture for path, picture in made.items() if path.endswith(".svg"))


def test_the_menu_has_all_pages():
    settings = (blocks.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = set(re.findall(r"[\w/-]+\.md", settings.partition("nav:")[2]))
    written = {str(Path(page).relative_to("docs")) for page in FILES if page != "README.md"}
    assert written <= menu


@pytest.mark.parametrize("name", notebooks.TUTORIALS)
def test_notebooks_are_the_tutorials(name):
    """Whose code runs above; `python docs/generate/notebooks.py` writes them."""
    stored = (blocks.ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert stored == notebooks.notebook(name)
    code = ["".join(cell["source"]) for cell in json.loads(stored)["cells"] if cell["cell_type"] == "code"]
    assert code and all(compile(text, name, "exec") for text in code)


def test_the_gallery_has_times_of_its_problems():
    """`python docs/generate/gallery.py` measures those of a new problem."""
    assert set(json.loads(gallery.TIMES.read_text(encoding="utf-8"))) == {problem.key for problem in gallery.problems()}

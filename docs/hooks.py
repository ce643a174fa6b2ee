"""What MkDocs asks for while it builds the site: pages that are made from the code and from files of the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from generate import gallery, language, reference

ROOT = Path(__file__).parent.parent
# Files of the repository that are pages of the site, and what their links are called there
PAGES = {
    "ARCHITECTURE.md": "how-it-works.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "benchmarks/README.md": "benchmarks/repeat.md",
    "benchmarks/results/report.md": "benchmarks/report.md",
    "benchmarks/results/solvers.md": "benchmarks/solvers.md",
    "benchmarks/results/gpu.md": "benchmarks/gpu.md",
    "benchmarks/results/serve.md": "benchmarks/serve.md",
    "benchmarks/results/drop-in-jax.md": "benchmarks/drop-in-jax.md",
    "benchmarks/results/drop-in-torch.md": "benchmarks/drop-in-torch.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and those that live elsewhere in the repository."""
    made = {path: _linked((ROOT / source).read_text(encoding="utf-8"), path) for source, path in PAGES.items()}
    made |= {"language.md": language.page(), **reference.pages(), **gallery.pages()}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    for picture in (ROOT / "benchmarks" / "results").glob("*.svg"):
        files.append(File.generated(config, f"benchmarks/{picture.name}", abs_src_path=str(picture)))
    return files


def _linked(text: str, path: str) -> str:
    """A page whose links to files of the repository are links to pages of the site."""
    up = "../" * path.count("/")
    for source, target in PAGES.items():
        text = re.sub(rf"\]\({re.escape(source)}\)", f"]({up}{target})", text)
    return text.replace("](docs/", f"]({up}")


def on_post_page(output: str, **_: object) -> str:
    """The dialog of the search gets a name, for those who hear the page."""
    found = 'data-md-component="search" role="dialog"'
    return output.replace(found, f'{found} aria-label="Search"')

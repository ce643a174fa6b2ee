"""What notebooks show: typeset formulas, drawn structures and tables, in nbconvert's pages and in JupyterLab."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from jupyter_client.manager import start_new_kernel
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect

import eindiff as ed
from apps.test_page import browser

__all__ = ["browser"]  # a fixture

T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
LOSS = ed.norm2(T - U @ V.T) ** 2
RNG = np.random.default_rng(0)
ARRAYS = {"T": RNG.normal(size=(6, 5)), "U": RNG.normal(size=(6, 2)), "V": RNG.normal(size=(5, 2))}
HESSIAN = ed.structured(ed.hessian(LOSS, [U, V]), ARRAYS)
SHOWN: dict[str, Any] = {
    "gradient": ed.gradient(LOSS, U),
    "blocks": ed.hessian(LOSS, [U, V]),
    "derivative": HESSIAN,
    "check": ed.check(LOSS, U),
    "plan": ed.plan(ed.hessian(LOSS, U), {"m": 50, "n": 40, "k": 3}),
    "steps": ed.steps(LOSS, U),
    "reading": ed.reading("norm2(X*w - y)^2 + lambda*norm1(w)"),
    "explain": HESSIAN.explain(),
}
RAISED = """all => all.map((e) => {
  const [base, script] = [...e.children].map((child) => child.getBoundingClientRect());
  return script.height > 0 && script.height < base.height * 1.5 && script.left >= base.left && script.top < base.top;
})"""
SOURCE = """import eindiff as ed
A, x, b = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("b", "m")
ed.hessian(ed.norm2(A @ x - b)**2 + ed.norm2(x)**2, [x, b])"""


def cell(source: str, outputs: list[dict]) -> Any:
    made = nbformat.v4.new_code_cell(source)
    made.outputs = [nbformat.v4.new_output("execute_result", out, execution_count=1) for out in outputs]
    return made


@pytest.fixture(scope="module")
def exported(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A notebook that shows each kind of value, as nbconvert writes it; nothing can be loaded from elsewhere."""
    show = DisplayFormatter()
    notebook = nbformat.v4.new_notebook(cells=[cell(name, [show.format(value)[0]]) for name, value in SHOWN.items()])
    path = tmp_path_factory.mktemp("notebook") / "shown.html"
    path.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    page = browser.new_page(viewport={"width": 900, "height": 900})
    page.route(re.compile("^https?:"), lambda route: route.abort())
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    yield page
    page.close()


def output(page: Page, name: str) -> Any:
    return page.locator(".jp-OutputArea-output").nth(list(SHOWN).index(name))


def test_expressions_are_typeset(exported: Page) -> None:
    gradient = output(exported, "gradient").locator("math").text_content()
    assert gradient.replace("\u2062", "") == "2(UV⊤−T)V"
    blocks = output(exported, "blocks")
    assert blocks.locator("math").count() == 4 and blocks.locator("mfrac").count() == 4
    raised = exported.locator("msup").evaluate_all(RAISED)
    assert len(raised) > 10 and all(raised)
    assert exported.locator(".jp-OutputArea-output", has_text="\\top").count() == 0


def test_results_have_pictures_and_tables(exported: Page) -> None:
    derivative = output(exported, "derivative")
    expect(derivative).to_contain_text("arrowhead")
    assert derivative.locator("svg path").count() > 3
    assert output(exported, "check").locator("tbody tr").count() == 2
    expect(output(exported, "check")).to_contain_text("✓ passed")
    expect(output(exported, "plan").locator("tbody pre").first).to_contain_text("np.")
    expect(output(exported, "plan")).to_contain_text("in use at most")
    expect(output(exported, "steps")).to_contain_text("Theorem 8")
    assert output(exported, "steps").locator("math").count() > 10
    expect(output(exported, "reading")).to_contain_text("vector of length n")
    assert output(exported, "explain").inner_text().startswith("Hessian 22×22 = arrowhead")  # lines, and no quotes
    assert exported.evaluate("document.documentElement.scrollWidth") <= 900


def test_lists_of_blocks_are_lists() -> None:
    plain = [[ed.derivative(LOSS, x, y) for y in (U, V)] for x in (U, V)]
    assert ed.hessian(LOSS, [U, V]) == plain and isinstance(ed.gradient(LOSS, [U, V]), list)
    compiled = ed.compile(ed.hessian(LOSS, [U, V]))(**ARRAYS)
    np.testing.assert_allclose(compiled[0][0], HESSIAN.blocks[0][0].as_tensor())


def test_a_notebook_is_told_what_long_work_is_at_and_can_interrupt() -> None:
    manager, client = start_new_kernel()
    said: list[str] = []

    def listen(message: dict[str, Any]) -> None:
        said.append(message["content"].get("text", "") + message["content"].get("ename", ""))
        if "derive" in said[-1] and "KeyboardInterrupt" not in "".join(said):
            manager.interrupt_kernel()

    try:
        options = {"output_hook": listen, "allow_stdin": False, "timeout": 60}
        long = "from eindiff.core.stages import stage\nimport time\nwith stage('derive'): time.sleep(50)"
        client.execute_interactive(long, **options)
        assert "eindiff: derive … 1 s (■ stops it)" in "".join(said)
        assert said.index("KeyboardInterrupt") > said.index(next(text for text in said if text.endswith(" \r")))
        client.execute_interactive("import eindiff as ed\nprint(ed.gradient(ed.parse(\"x'*x\"), 'x'))", **options)
        assert "".join(said).endswith("2*x\n")  # which may come in pieces
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_jupyterlab(browser: Browser, tmp_path: Path) -> None:
    """A cell that is run in JupyterLab shows typeset blocks."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SOURCE)])
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(made, tmp_path / "shown.ipynb")
    options = ["--no-browser", "--port=0", "--allow-root", "--IdentityProvider.token=", f"--notebook-dir={tmp_path}"]
    places = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    command = [sys.executable, "-m", "jupyterlab", *options, "--LabApp.news_url=None"]
    log = tmp_path / "log"  # a pipe that nobody reads would stop it when it is full
    with log.open("w") as file, subprocess.Popen(command, env=os.environ | places, stderr=file) as process:
        try:
            while not (found := re.search(r"http://127\S+/lab", log.read_text())):
                assert process.poll() is None
                time.sleep(0.1)
            page = browser.new_page()
            page.goto(f"{found[0]}/tree/shown.ipynb")
            page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=60_000)
            page.locator(".jp-CodeCell .cm-content").first.click(timeout=60_000)
            page.wait_for_timeout(1000)  # a cell that is run while JupyterLab still connects is passed over
            page.keyboard.press("Control+Enter")
            shown = page.locator(".jp-OutputArea-output")
            if not shown.locator("math").count():
                page.wait_for_timeout(5000)
                page.keyboard.press("Control+Enter")
            expect(shown.locator("math")).to_have_count(4, timeout=60_000)
            assert shown.locator("mfrac").first.bounding_box()
            assert all(shown.locator("msup").evaluate_all(RAISED))
            page.close()
        finally:
            process.terminate()

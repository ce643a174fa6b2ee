"""The page in a browser: Chromium without a window, against a server of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, Route, expect, sync_playwright

from pace import at_pace

OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync"]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOGISTIC = {"f": "sum(log(exp(-y.*(X*w)) + vector(1)))", "by": "w"}
FACTORS = {"f": "norm2(T - U*V')^2", "by": "U,V", "order": 2}
EXPECTED_TO_FAIL = "status of 422"  # browsers log answers that say what is wrong with the text
COMPARE = """
import sys
import numpy as np
found = []
for name in sys.argv[1:]:
    scope = {"__name__": "__main__"}
    try:
        exec(open(name + ".py").read(), scope)
    except SystemExit as done:
        assert not done.code
    found.append([np.asarray(output) for output in scope["outputs"]])
for outputs in found[1:]:
    for one, other in zip(outputs, found[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
"""
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@dataclass
class Visit:
    """An open page, and what it should not do."""

    page: Page
    base: str
    troubles: list[str] = field(default_factory=list)

    def go(self, **record: Any) -> None:
        """Open the page at an address that holds a record."""
        self.page.goto(f"{self.base}#{urlencode(record)}" if record else self.base)
        self.settled()

    def settled(self) -> None:
        """Wait for the answer to what was done last."""
        expect(self.page.locator("#answer")).to_have_attribute("aria-busy", "false")

    def type(self, text: str) -> None:
        """Replace the function, key by key."""
        self.page.locator("#expression").fill("")
        self.page.locator("#expression").press_sequentially(text)
        self.settled()

    def results(self) -> dict[str, str]:
        """The text of each derivative shown."""
        found = self.page.locator("article.block").evaluate_all("all => all.map(e => [e.dataset.key, e.dataset.text])")
        return dict(found)

    def choose(self, name: str, label: str) -> None:
        """Click on one of the choices of a control."""
        self.page.locator(f"#{name} label", has_text=re.compile(f"^{label}$")).click()
        self.settled()

    def tab(self, name: str) -> None:
        """Open a tab and wait for its panel."""
        self.page.get_by_role("tab", name=name).click()
        expect(self.page.locator("#panel")).to_have_attribute("data-tab", name.lower())
        expect(self.page.locator("#panel")).to_have_attribute("aria-busy", "false")

    def watch(self) -> None:
        """Note errors, and requests to other hosts."""
        page, note = self.page, self.troubles.append
        page.on("console", lambda m: note(m.text) if m.type == "error" and EXPECTED_TO_FAIL not in m.text else None)
        page.on("pageerror", lambda error: note(error.message))
        page.on("dialog", lambda dialog: note(f"dialog {dialog.message}"))
        page.on("request", lambda r: None if r.url.startswith((self.base, "blob:", "data:")) else note(r.url))


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of a server that runs for these tests."""
    command = [sys.executable, "-m", "eindiff", "serve", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        try:
            assert found, "eindiff serve did not say where it is"
            yield found.group()
        finally:
            process.terminate()


def chromium(driver: Playwright) -> str:
    """Where Chromium is: that of Playwright, or of the system."""
    if Path(driver.chromium.executable_path).exists():
        return driver.chromium.executable_path
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail("the tests of the page need Chromium: `apt install chromium`, or `playwright install chromium`")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(driver), args=OPTIONS)
        expect.set_options(timeout=at_pace(5_000))
        yield browser
        browser.close()


@pytest.fixture
def visits(browser: Browser, base: str) -> Iterator[Callable[..., Visit]]:
    """Makes visits, each in a browser context of its own; afterwards none of them must have had troubles."""
    made: list[tuple[Visit, BrowserContext]] = []

    def visit(**options: Any) -> Visit:
        options.setdefault("viewport", DESKTOP)
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options)
        context.set_default_timeout(at_pace(10_000))
        context.add_init_script(WATCH)
        result = Visit(context.new_page(), base)
        result.watch()
        made.append((result, context))
        return result

    yield visit
    for each, context in made:
        troubles = each.troubles + each.page.evaluate("window.violations")
        context.close()
        assert not troubles


@pytest.fixture
def visit(visits: Callable[..., Visit]) -> Visit:
    """One visit at the size of a desktop."""
    return visits()


# What is typed and chosen


def test_first_visit_shows_a_derivative(visit: Visit) -> None:
    visit.go()
    assert visit.results() == {"x": "2*A'*(A*x - y)"}
    expect(visit.page.locator("#expression")).to_be_focused()
    assert visit.page.locator("article.block math").count() == 1
    expect(visit.page.locator("#version")).to_have_text(re.compile(r"eindiff \d"))


def test_typing_gives_a_derivative_soon(visit: Visit) -> None:
    visit.go()
    visit.page.evaluate("""() => {
      const field = document.getElementById("expression"), answer = document.getElementById("answer");
      field.addEventListener("input", () => { window.last = performance.now(); });
      new MutationObserver(() => requestAnimationFrame(() => { window.took = performance.now() - window.last; }))
        .observe(answer, { childList: true });
    }""")
    times: dict[str, list[float]] = {}
    for x, A, y in [
        ("x", "A", "y"),
        ("u", "B", "v"),
        ("w", "X", "y"),
    ]:  # other names each time: answers are not those that are kept
        for text, key, expected in [
            ("{x}'*{A}*{x}", x, "{A}*{x} + {A}'*{x}"),
            ("sum(log(exp(-{y}.*({A}*{x})) + vector(1)))", x, "-{A}'*({y} .* sigmoid(-{y} .* ({A}*{x})))"),
            ("log(det({A}))", A, "inv({A})'"),
        ]:
            visit.type(text.format(x=x, A=A, y=y))
            assert visit.results()[key] == expected.format(x=x, A=A, y=y)
            took = visit.page.evaluate("new Promise((done) => requestAnimationFrame(() => done(window.took)))")
            times.setdefault(text, []).append(took)
    print("ms from the last key to the derivative:", [[round(each) for each in row] for row in times.values()])
    assert max(min(row) for row in times.values()) < at_pace(300)  # other tests may run at the same time


def test_the_first_lasso_is_read_as_meant(visit: Visit) -> None:
    visit.go()
    visit.type("norm2(X*w-y)^2 + lambda*norm1(w)")
    assert visit.results() == {"w": "2*X'*(X*w - y) + lambda*sign(w)"}
    names = [chip.get_attribute("aria-label") for chip in visit.page.locator("#variables .what").all()]
    assert names == [
        "X: m×n matrix, by its name. Change", "lambda: scalar, by its name. Change",
        "w: vector of length n, by its name. Change", "y: vector of length m, by its name. Change",
    ]  # fmt: skip
    visit.type("norm2(A*z - b)^2")
    second = visit.page.locator("#variables .what").nth(1)
    assert second.get_attribute("aria-label") == "b: vector of length m, by its use. Change"


def test_hessians_of_all_examples_soon(visit: Visit) -> None:
    with urllib.request.urlopen(f"{visit.base}api/examples") as answer:
        groups = json.load(answer)["groups"]
    visit.go(tab="structure")
    times = {}
    for example in [example for group in groups for example in group["examples"]]:
        record = {"f": example["expression"], "declare": example["declarations"], "by": ",".join(example["wrt"]),
                  "order": 2, "tab": "structure"}  # fmt: skip
        times[example["title"]] = visit.page.evaluate(
            """async (hash) => {
              const began = performance.now(), answer = document.getElementById("answer");
              const arrived = new Promise((done) => addEventListener("popstate", done, { once: true }));
              location.hash = hash;
              await arrived;
              while (answer.ariaBusy === "true") await new Promise(requestAnimationFrame);
              return performance.now() - began;
            }""",
            urlencode(record),
        )
        shown = visit.page.locator("article.block").count()
        assert shown and not visit.page.locator("#problem > *").count(), f"{example['title']}: no Hessian"
    slow = sorted(times, key=lambda title: times[title])[-3:]
    print("slowest Hessians in ms:", {title: round(times[title]) for title in slow})
    assert len(times) >= 20 and max(times.values()) < at_pace(1000)


def test_order_notation_layout(visit: Visit) -> None:
    visit.go(**LOGISTIC)
    visit.choose("order", "2nd")
    assert visit.results() == {"w,w": "X'*diag(y.^2 .* sigmoid(y .* (X*w)) .* sigmoid(-y .* (X*w)))*X"}
    visit.choose("order", "value")
    assert list(visit.results()) == [""]
    visit.choose("order", "3rd")
    assert list(visit.results()) == ["w,w,w"]
    visit.choose("order", "1st")
    visit.choose("notation", "einsum")
    assert "einsum" in visit.results()["w"]
    visit.page.locator("#options-button").click()
    visit.choose("layout", "numerator")
    expect(visit.page.locator(".block .under").first).to_contain_text("numerator")
    visit.choose("mode", "forward")
    assert "layout=numerator" in visit.page.url and "mode=forward" in visit.page.url


def test_with_respect_to(visit: Visit) -> None:
    visit.go(f="x'*A*y")
    assert list(visit.results()) == ["A", "x", "y"]
    visit.page.get_by_role("button", name="Differentiate by A").click()
    visit.settled()
    assert list(visit.results()) == ["x", "y"]
    visit.page.get_by_role("button", name="Differentiate by x").click()
    visit.settled()
    assert list(visit.results()) == ["y"]
    expect(visit.page.get_by_role("button", name="Differentiate by y")).to_have_attribute("aria-pressed", "true")
    visit.page.get_by_role("button", name="Differentiate by A").click()
    visit.settled()
    assert list(visit.results()) == ["A", "y"]


def test_kinds_and_sizes(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    chip = visit.page.get_by_role("button", name=re.compile("^A: "))
    expect(chip).to_have_accessible_name(re.compile("n×n matrix, by its name"))
    chip.click()
    visit.page.locator("#menu").get_by_label("symmetric matrix").check()
    visit.settled()
    assert visit.results() == {"x": "2*A*x"}
    expect(chip).to_have_accessible_name(re.compile("symmetric n×n matrix, declared"))
    visit.page.locator("#menu").get_by_label("Size of axis 1").fill("3")
    visit.page.locator("#menu").get_by_label("Size of axis 2").fill("3")
    visit.page.keyboard.press("Tab")
    visit.settled()
    expect(chip).to_have_accessible_name(re.compile("symmetric 3×3 matrix, declared"))
    visit.page.keyboard.press("Escape")
    expect(visit.page.locator("#menu")).to_have_count(0)
    chip.click()
    visit.page.locator("#menu").get_by_label("as guessed").check()
    visit.settled()
    assert visit.results() == {"x": "A*x + A'*x"}


def test_error_points_at_the_place(visit: Visit) -> None:
    visit.go()
    visit.type("sum(x) + foo(y)")
    problem = visit.page.locator("#problem")
    line, carets = problem.locator("pre").inner_text().split("\n")
    assert line == "sum(x) + foo(y)" and carets.index("^") == line.index("foo")
    expect(visit.page.locator("#mirror mark")).to_have_text("foo")
    expect(visit.page.locator("#expression")).to_have_attribute("aria-invalid", "true")
    visit.type("sum(x)")
    expect(problem).to_be_empty()
    visit.page.locator("#options-button").click()
    visit.page.locator("#declarations").fill("x symetric")
    visit.settled()
    line, carets = problem.locator("pre").inner_text().split("\n")
    assert (line, carets) == ("x symetric", "  ^^^^^^^^")


def test_late_answers_are_dropped(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    held: list[Route] = []
    visit.page.route("**/api/derive", lambda route: held.append(route) if not held else route.continue_())
    with visit.page.expect_request("**/api/derive"):
        visit.page.locator("#expression").fill("sum(exp(x))")
    visit.page.locator("#expression").fill("sum(sin(x))")
    visit.settled()
    assert visit.results() == {"x": "cos(x)"}
    with suppress(Error):  # the page has given up on it
        held[0].continue_()
    visit.page.unroute("**/api/derive")
    visit.choose("notation", "index")
    visit.choose("notation", "matrix")
    assert visit.results() == {"x": "cos(x)"}


def test_server_that_does_not_answer(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    visit.page.route("**/api/derive", lambda route: route.abort())
    visit.choose("order", "2nd")
    expect(visit.page.locator("#problem")).to_contain_text("The server does not answer")
    visit.page.unroute("**/api/derive")
    visit.choose("order", "1st")
    expect(visit.page.locator("#problem")).to_be_empty()
    visit.troubles.clear()


def test_empty_field_offers_examples(visit: Visit) -> None:
    visit.go()
    visit.type("")
    visit.page.locator(".welcome button").first.click()
    visit.settled()
    assert visit.results()


# Details


def test_copied_code_runs_and_checks_itself(visit: Visit) -> None:
    visit.go(**LOGISTIC, order=2)
    visit.tab("Code")
    visit.page.get_by_role("button", name="Copy code").click()
    expect(visit.page.locator("#toast")).to_have_text("code copied")
    code = visit.page.evaluate("navigator.clipboard.readText()")
    ran = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "hessian: relative error" in ran.stdout
    for library, word in [("CuPy", "import cupy"), ("LaTeX", "\\begin{")]:
        visit.page.locator("#panel label", has_text=library).click()
        expect(visit.page.locator("#code")).to_contain_text(word)


def test_copied_code_of_all_libraries_gives_the_same(visit: Visit, tmp_path: Path) -> None:
    visit.go(**LOGISTIC, order=2, tab="code")
    words = {"NumPy": "import numpy", "PyTorch": "import torch", "JAX": "import jax", "TensorFlow": "import tensorflow"}
    for library, word in words.items():
        visit.page.locator("#panel label", has_text=library).click()
        expect(visit.page.locator("#code")).to_contain_text(word)
        visit.page.get_by_role("button", name="Copy code").click()
        code = visit.page.evaluate("navigator.clipboard.readText()")
        assert word in code
        (tmp_path / f"{library}.py").write_text(code)
    ran = subprocess.run([sys.executable, "-c", COMPARE, *words], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.count("hessian (") == len(words) - 1


def test_copy_formula(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    visit.page.get_by_role("button", name="Copy LaTeX").click()
    assert visit.page.evaluate("navigator.clipboard.readText()") == "A \\, x + A^\\top \\, x"
    visit.page.get_by_role("button", name="Copy text").click()
    assert visit.page.evaluate("navigator.clipboard.readText()") == "A*x + A'*x"


def test_steps_unfold(visit: Visit) -> None:
    visit.go(**LOGISTIC, tab="steps")
    step = visit.page.locator(".steps details").last
    expect(step.locator(".rule")).not_to_be_visible()
    step.locator("summary").click()
    expect(step.locator(".rule")).to_contain_text("Theorem")
    assert step.locator("math").count() > 1
    visit.page.get_by_role("button", name="Unfold all").click()
    assert visit.page.locator("#panel details:not([open])").count() == 0


def test_structure_check_cost_graph(visit: Visit) -> None:
    visit.go(**FACTORS, tab="structure")
    expect(visit.page.locator(".picture svg path").first).to_be_visible()
    expect(visit.page.locator(".structure h3")).to_have_text("arrowhead")
    terms = visit.page.locator(".legend li")
    assert terms.count() == 4
    assert terms.first.locator("math").get_attribute("aria-label") == "2·(I ⊗ (Vᵀ·V))"
    expect(terms.first.locator(".by")).to_have_text("U, U")
    visit.tab("Check")
    expect(visit.page.locator(".verdict")).to_contain_text("passed")
    assert visit.page.locator("#panel tbody tr").count() == 3
    visit.tab("Cost")
    before = visit.page.locator(".figures dd").first.inner_text()
    visit.page.get_by_label("Size m", exact=True).fill("50000")
    expect(visit.page.locator(".figures dd").first).not_to_have_text(before)
    assert "sizes=m%3D50000" in visit.page.url
    visit.tab("Graph")
    box = visit.page.locator(".viewport").first
    # after two frames, the picture fits its box
    visit.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    view = box.locator("svg").get_attribute("viewBox")
    box.focus()
    visit.page.keyboard.press("+")
    visit.page.keyboard.press("ArrowLeft")
    assert box.locator("svg").get_attribute("viewBox") != view
    visit.page.keyboard.press("0")
    assert box.locator("svg").get_attribute("viewBox") == view
    place = box.bounding_box()
    assert place
    visit.page.mouse.move(place["x"] + 100, place["y"] + 100)
    visit.page.mouse.down()
    visit.page.mouse.move(place["x"] + 60, place["y"] + 120)
    visit.page.mouse.up()
    assert box.locator("svg").get_attribute("viewBox") != view
    assert visit.page.locator(".viewport svg").count() == 2
    expect(visit.page.locator(".graphs .high").first).to_contain_text("on the way")
    expect(visit.page.locator(".graphs .high").last).to_contain_text("only results and their terms")
    visit.go(f="x'*A*x", by="x", tab="graph")
    expect(visit.page.locator("#panel")).to_contain_text("multiply in the same order")
    assert visit.page.locator(".viewport svg").count() == 1

"""The page in a browser while the server works and people type: busy, stopped, stale, completed; phones, and widths."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import page_formulas
from apps.test_page import PHONE, Visit, base, browser, visit, visits
from apps.test_serve_fairness import sent
from pace import at_pace

__all__ = ["base", "browser", "visit", "visits"]  # fixtures

SLOW = {"f": "tr(X^99999999)", "by": "X", "order": 3}
ON_A_PHONE: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
SMALL = """() => [...document.querySelectorAll("button, input, summary, a, textarea, [role=option]")].filter(
  (e) => e.checkVisibility() && !e.matches(".skip"),
).map((e) => [e, (e.closest("label") ?? e).getBoundingClientRect()])
  .filter(([, box]) => box.width < 44 || box.height < 44)
  .map(([e, box]) => [e.id || e.className, e.textContent, box.width, box.height])"""
WIDE = """async () => {
  const { showResult } = await import("/result.js");
  const wide = [];
  const { groups } = await (await fetch("api/examples")).json();
  for (const { title, expression, declarations, wrt, order } of groups.flatMap((group) => group.examples)) {
    for (const notation of ["matrix", "index", "einsum"]) {
      const body = JSON.stringify({ expression, declarations, wrt, order, notation });
      const headers = { "Content-Type": "application/json" };
      const answer = await fetch("api/derive", { method: "POST", headers, body });
      showResult(await answer.json(), { order, layout: "mixed" });
      for (const box of document.querySelectorAll(".scroll, .where, .given")) {
        if (box.scrollWidth > box.clientWidth + 1) wide.push([title, notation, box.className, box.scrollWidth]);
      }
    }
  }
  return wide;
}"""


WIDEST = """async (answers) => {
  const { showResult } = await import("/result.js");
  const wide = [];
  for (const [title, notation, order, answer] of answers) {
    showResult(answer, { order, layout: "mixed" });
    for (const form of [null, ...document.querySelectorAll(".form[aria-pressed=false]")]) {
      form?.click();
      for (const box of document.querySelectorAll(".scroll, .where, .given")) {
        const scrolls = notation === "index" && getComputedStyle(box).overflowX === "auto";
        if (box.scrollWidth > box.clientWidth + 1 && !scrolls) wide.push([title, notation, box.className]);
      }
    }
    if (document.documentElement.scrollWidth > innerWidth) wide.push([title, notation, "page"]);
  }
  return wide;
}"""
INTERNAL = re.compile(r"transpose\(|indexmap|winner|size\(|onehot|inverse_or_zero|batch=|entry_\d|IndexMap|Constant")


def slow(visit: Visit) -> None:
    """Ask for what takes forever, when there is an old answer."""
    visit.go(f="x'*A*x", by="x")
    visit.page.evaluate("hash => { location.hash = hash; }", urlencode(SLOW))


# While the server works


def test_the_old_answer_is_greyed_and_a_bar_shows_with_a_button_to_stop(visit: Visit) -> None:
    slow(visit)
    bar = visit.page.locator("#work .busy")
    expect(bar).to_contain_text("Deriving")
    expect(bar).to_contain_text("of 5 s at most")
    expect(visit.page.locator("#answer")).to_have_class(re.compile("stale"))
    expect(visit.page.locator("#panel")).to_have_class(re.compile("stale"))
    assert visit.results() == {"x": "A*x + A'*x"}
    began = time.monotonic()
    bar.get_by_role("button", name="Stop").click()
    expect(bar).to_have_count(0)
    expect(visit.page.locator("#problem")).to_contain_text("Stopped.")
    assert time.monotonic() - began < at_pace(2)
    expect(visit.page.locator("#answer")).to_have_class(re.compile("stale"))
    visit.page.locator("#problem").get_by_role("button", name="First derivative").click()
    visit.settled()
    assert list(visit.results()) == ["X"]
    expect(visit.page.locator("#answer")).not_to_have_class(re.compile("stale"))


def test_nothing_moves_for_an_answer_that_comes_soon(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    visit.page.evaluate("""() => {
      window.bars = 0;
      new MutationObserver(() => { window.bars += document.querySelectorAll(".busy").length; })
        .observe(document.getElementById("work"), { childList: true });
    }""")
    visit.page.route("**/api/derive", lambda route: (time.sleep(0.1), route.continue_()))
    visit.choose("order", "2nd")
    assert visit.results() == {"x,x": "A + A'"} and visit.page.evaluate("window.bars") == 0


def test_a_request_over_its_limit_is_sent_once_and_says_what_to_try(visit: Visit) -> None:
    requests: list[str] = []
    visit.page.on("request", lambda request: requests.append(request.url))
    slow(visit)
    problem = visit.page.locator("#problem")
    expect(problem).to_contain_text("longer than 5 s", timeout=at_pace(20_000))
    expect(problem).to_contain_text("try a lower order")
    assert sum(url.endswith("api/derive") for url in requests) == 2  # the old one, and this
    problem.get_by_role("button", name="First derivative").click()
    visit.settled()
    expect(problem).to_be_empty()
    visit.troubles.clear()  # browsers log answers that are errors


def test_a_panel_can_be_stopped_and_tried_again(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x", tab="code")
    held = []
    visit.page.route("**/api/steps", lambda route: held.append(route) if not held else route.continue_())
    visit.page.get_by_role("tab", name="Steps").click()
    visit.page.locator("#panel-work").get_by_role("button", name="Stop").click()
    expect(visit.page.locator("#panel")).to_contain_text("Stopped.")
    visit.page.locator("#panel").get_by_role("button", name="Try again").click()
    expect(visit.page.locator("#panel .steps").first).to_be_visible()


def test_with_slow_requests_of_one_client_another_sees_its_derivative_at_once(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    limit = at_pace(1)
    with ExitStack() as stack:
        for k in range(10, 22):
            ask = {"expression": f"tr(X^{k}9999999)", "wrt": ["X"], "order": 3}
            stack.enter_context(closing(sent(visit.base, "10.0.0.7", **ask)))
        visit.page.locator("#expression").fill("7*norm2(A*x - b)^2")
        began = time.monotonic()
        expect(visit.page.locator("article.block")).to_have_attribute("data-text", "14*A'*(A*x - b)")
        assert time.monotonic() - began < limit


# Typing


def test_typing_completes_functions_and_explains_them(visit: Visit) -> None:
    visit.go()
    field, listed = visit.page.locator("#expression"), visit.page.locator("#completion")
    field.fill("")
    field.press_sequentially("norm2(A*x - b)^2 + λ*nor")
    expect(listed.get_by_role("option")).to_have_count(6)
    visit.page.keyboard.press("ArrowDown")
    expect(listed.locator("[aria-selected=true] .usage")).to_contain_text("norm1(X)")
    expect(listed.locator("[aria-selected=true] .meaning")).to_contain_text("absolute values")
    expect(listed.locator("[aria-selected=true] .example")).to_contain_text("λ*norm1(x)")
    visit.page.keyboard.press("Tab")
    expect(field).to_have_value("norm2(A*x - b)^2 + λ*norm1()")
    expect(listed).to_contain_text("norm1(X)")  # what is being filled in
    visit.page.keyboard.type("x")
    expect(visit.page.locator("article.block")).to_have_attribute("data-text", "2*A'*(A*x - b) + λ*sign(x)")
    visit.page.keyboard.press("Escape")
    expect(listed).to_be_hidden()
    field.press("End")
    field.press_sequentially(" + lambda")
    expect(listed).to_be_hidden()  # the name of a variable


def test_help_is_a_reference_that_can_be_searched(visit: Visit) -> None:
    visit.go()
    visit.page.locator("#open-help").click()
    rows = visit.page.locator("#help dt")
    expect(rows.first).to_be_visible()
    assert rows.count() > 100
    visit.page.locator("#help-search").fill("largest eigenvalue")
    expect(rows).to_have_count(1)
    expect(visit.page.locator("#help dd")).to_contain_text("lambdamax(S)")
    visit.page.locator("#help-search").fill("trace")
    expect(rows.first).to_have_attribute("data-name", "tr")
    visit.page.locator("#help dd button").first.click()
    visit.settled()
    expect(visit.page.locator("#expression")).to_have_value("tr(A*X)")
    assert visit.results() == {"X": "A'"}


@pytest.mark.parametrize(
    ("text", "by"),
    [("norm2(X*w - y)^2", "w"), (r"\|X\beta - y\|_2^2", "beta"), ("a'*inv(K)*b + c", "a"), ("log(det(K))", "K"),
     ("norm2(T - U*V')^2", "U"), ("a*b^2", "a"), ("norm2(x)", "x")],
)  # fmt: skip
def test_if_the_variable_is_gone_one_is_chosen(visit: Visit, text: str, by: str) -> None:
    visit.go()
    visit.page.locator("#expression").fill(text)
    visit.settled()
    assert list(visit.results()) == [by]
    pressed = visit.page.locator(".toggle[aria-pressed=true]")
    expect(pressed).to_have_attribute("aria-label", f"Differentiate by {by}")


# Phones


def test_what_can_be_touched_is_large_enough(visits: Callable[..., Visit]) -> None:
    visit = visits(**ON_A_PHONE)
    visit.go(f="norm2(T - U*V')^2", by="U,V", order=2)
    visit.page.locator("#options-button").click()
    for name in ("Code", "Steps", "Structure", "Graph", "Cost", "Check"):
        visit.tab(name)
        assert visit.page.evaluate(SMALL) == []
    visit.page.locator(".what").first.click()
    assert visit.page.evaluate(SMALL) == []
    visit.page.keyboard.press("Escape")
    for name in ("#open-help", "#open-examples"):
        visit.page.locator(name).click()
        expect(visit.page.locator("dialog[open] button").nth(3)).to_be_visible()
        assert visit.page.evaluate(SMALL) == []
        visit.page.keyboard.press("Escape")


def test_a_large_graph_opens_on_its_result_on_a_phone(visits: Callable[..., Visit]) -> None:
    visit = visits(**ON_A_PHONE)
    visit.go(f="logsumexp(W*relu(V*x)) - y'*(W*relu(V*x))", by="V", order=2, tab="graph")
    for box in visit.page.locator(".viewport").all():
        box.scroll_into_view_if_needed()
        place, result = box.bounding_box(), box.locator("text[font-weight=bold]").bounding_box()
        assert place and result
        assert place["x"] < result["x"] and result["x"] + result["width"] < place["x"] + place["width"]
        assert place["y"] < result["y"] < place["y"] + 60
    expect(visit.page.locator(".keys")).to_contain_text("a value of order 4 or more")


# Widths


@pytest.mark.parametrize("width", [1080, 390])
def test_no_formula_is_wider_than_the_page(visits: Callable[..., Visit], width: int) -> None:
    visit = visits(viewport={"width": width, "height": 900})
    visit.go()
    assert visit.page.evaluate(WIDE) == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture(scope="module")
def answers() -> list[tuple[str, str, int, dict[str, Any]]]:
    """The cookbook in matrix notation, every tenth row in the others, and higher derivatives of random functions."""
    rows = [(title, function, by, k % 10 == 0) for k, (title, function, by) in enumerate(page_formulas.cookbook())]
    rows += [(*row, True) for row in page_formulas.random_functions(16)]
    return [
        (title, notation, len(by), page_formulas.answer(function, by, notation))
        for title, function, by, in_all in rows
        for notation in (page_formulas.NOTATIONS if in_all else ("matrix",))
    ]


def test_no_formula_has_internal_names(answers: list[tuple[str, str, int, dict[str, Any]]]) -> None:
    for title, notation, _, answer in answers:
        for form in filter(None, (answer["function"], *answer["blocks"], answer["blocks"][0]["kronecker"])):
            for name in ("text", "unicode", "latex", "mathml"):
                assert not INTERNAL.search(form[name]), (title, notation, form[name])


@pytest.mark.parametrize("width", [1080, 390])
def test_no_derivative_is_wider_than_the_page(
    visits: Callable[..., Visit], answers: list[tuple[str, str, int, dict[str, Any]]], width: int
) -> None:
    """Those in index notation scroll by themselves if they must; short ones are not looked at."""
    visit = visits(viewport={"width": width, "height": 900})
    visit.go()
    most = width // 14
    long = [row for row in answers if max(len(f["unicode"]) for f in (row[3]["function"], *row[3]["blocks"])) > most]
    assert len(long) > 30
    assert visit.page.evaluate(WIDEST, long) == []


# Forms


def test_a_kronecker_product_is_shown_as_one_and_the_index_form_is_a_choice(visit: Visit) -> None:
    visit.go(f="norm2(T - U*V')^2", by="U", order=2)
    card = visit.page.locator("article.block")
    expect(card.locator(".equation math")).to_have_text(re.compile("I.*⊗"))
    expect(card.locator(".size")).to_have_text("m·p×m·p matrix")
    card.get_by_role("button", name="index").click()
    expect(card.locator(".equation math")).to_have_text(re.compile("δ"))
    expect(card.locator(".size")).to_have_text("m×p×m×p tensor")
    expect(card.get_by_role("button", name="index")).to_be_focused()
    visit.page.get_by_role("button", name="Copy text").click()
    assert "kron" not in visit.page.evaluate("navigator.clipboard.readText()")
    card.get_by_role("button", name="Kronecker").click()
    visit.page.get_by_role("button", name="Copy text").click()
    assert visit.page.evaluate("navigator.clipboard.readText()") == "2*kron(eye(m), V'*V)"


# Readings that are in doubt


def test_what_may_have_been_meant_is_offered(visit: Visit) -> None:
    visit.go()
    visit.page.locator("#expression").fill("x*y")
    choices = visit.page.locator("#problem .choice")
    expect(choices).to_have_text(["x'*y", "x.*y", "x*y'", "x vector, y scalar"])
    choices.first.click()
    visit.settled()
    expect(visit.page.locator("#expression")).to_have_value("x'*y")
    assert visit.results() == {"x": "y"}
    visit.page.locator("#expression").fill("X*W + b")
    choices.get_by_text("b matrix").click()
    visit.settled()
    expect(visit.page.locator("#declarations")).to_have_value("b matrix")
    expect(visit.page.locator("#problem")).to_be_empty()

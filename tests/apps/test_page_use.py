"""The page in a browser, continued: links, keys, phones, colours, and text that wants to be more than text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from apps.test_page import FACTORS, LOGISTIC, PHONE, Visit, base, browser, visit, visits

__all__ = ["base", "browser", "visit", "visits"]  # fixtures

EVIL = "<img src=x onerror=alert(1)>"
CONTRAST = """(selector) => [...document.querySelectorAll(selector)].filter(
  (e) => e.checkVisibility() && !e.closest("[aria-hidden]"),
).map((e) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const below = [];
  for (let at = e; at; at = at.parentElement) below.unshift(getComputedStyle(at).backgroundColor);
  const colour = e.matches(":disabled") ? "black" : getComputedStyle(e).color;
  const [high, low] = [light(paint(below)), light(paint([...below, colour]))].sort((a, b) => b - a);
  return [e.className || e.id || e.tagName, e.textContent.slice(0, 30), (high + 0.05) / (low + 0.05)];
})"""


# Links and history


def test_a_link_to_what_does_not_fit_shows_its_variables(visit: Visit) -> None:
    visit.go(f="A*x + B", by="x", declare="A matrix; x vector; B matrix")
    expect(visit.page.locator("#problem .message")).to_be_visible()
    expect(visit.page.locator("#variables .chip")).to_have_count(3)
    assert "?" not in visit.page.locator("#variables").inner_text()
    visit.page.get_by_role("button", name=re.compile("^B: matrix")).click()
    visit.page.locator("#menu").get_by_label("vector", exact=True).check()
    visit.settled()
    expect(visit.page.locator("#problem .message")).to_have_count(0)
    assert visit.results() == {"x": "A"}
    assert "B+vector" in visit.page.url


def test_shared_link_shows_the_same(visits: Callable[..., Visit]) -> None:
    first, second = visits(), visits()
    first.go()
    first.type("x'*S*x + sum(exp(y))")
    first.page.get_by_role("button", name=re.compile("^S: ")).click()
    first.page.locator("#menu").get_by_label("symmetric matrix").check()
    first.settled()
    first.page.keyboard.press("Escape")
    first.page.get_by_role("button", name="Differentiate by S").click()
    first.settled()
    first.choose("order", "2nd")
    first.choose("notation", "index")
    first.tab("Check")
    first.page.get_by_role("button", name="Copy link").click()
    expect(first.page.locator("#toast")).to_have_text("link copied")
    second.page.goto(first.page.evaluate("navigator.clipboard.readText()"))
    second.settled()
    expect(second.page.locator(".verdict")).to_contain_text("passed")
    for look in ("#expression", "#declarations"):
        assert second.page.locator(look).input_value() == first.page.locator(look).input_value() != ""
    for look in ("#answer", "#variables", "#panel", "#tabs"):
        assert second.page.locator(look).inner_text() == first.page.locator(look).inner_text()
    assert second.results() == first.results()
    checked = "all => all.filter(e => e.checked).map(e => e.value)"
    controls = "fieldset input"
    assert second.page.locator(controls).evaluate_all(checked) == first.page.locator(controls).evaluate_all(checked)


def test_back_and_forward(visit: Visit) -> None:
    visit.go(f="x'*A*x", by="x")
    visit.choose("order", "2nd")
    hessian = visit.results()
    visit.page.locator("#open-examples").click()
    visit.page.locator("#examples-list button", has_text="Logistic regression").click()
    visit.settled()
    assert "sigmoid" in visit.results()["w,w"]
    for step, expected in [("back", hessian), ("back", {"x": "A*x + A'*x"}), ("forward", hessian)]:
        visit.page.evaluate(f"history.{step}()")
        visit.page.wait_for_function(
            "text => [...document.querySelectorAll('article.block')].some(e => e.dataset.text === text)",
            arg=next(iter(expected.values())),
        )
        assert visit.results() == expected


# Only the keyboard


def tab_to(page: Page, selector: str, limit: int = 60) -> None:
    """Press the tabulator until an element has the focus."""
    for _ in range(limit):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"{selector} cannot be reached with the keyboard")


def test_keyboard_only(visit: Visit) -> None:
    keys = visit.page.keyboard
    visit.go()
    keys.press("Control+A")
    keys.type("x'*A*y")
    visit.settled()
    tab_to(visit.page, "[aria-label='Differentiate by y']")
    for expected in [["x", "y"], ["x"], ["x", "y"]]:
        keys.press("Space")
        visit.settled()
        assert list(visit.results()) == expected
    expect(visit.page.get_by_role("button", name="Differentiate by y")).to_be_focused()
    tab_to(visit.page, "#order input")
    keys.press("ArrowRight")
    visit.settled()
    assert list(visit.results()) == ["x,x", "x,y", "y,y"]
    tab_to(visit.page, "#options-button")
    keys.press("Enter")
    tab_to(visit.page, "#layout input")
    keys.press("ArrowRight")
    visit.settled()
    assert "layout=numerator" in visit.page.url
    tab_to(visit.page, "[role=tab]")
    keys.press("ArrowRight")
    expect(visit.page.locator(".steps")).not_to_have_count(0)
    tab_to(visit.page, ".steps summary")
    keys.press("Enter")
    expect(visit.page.locator(".steps details[open] .rule").first).to_be_visible()
    keys.press("/")
    expect(visit.page.locator("#expression")).to_be_focused()


def test_keyboard_menu_examples_and_help(visit: Visit) -> None:
    keys = visit.page.keyboard
    visit.go(f="x'*A*x", by="x")
    tab_to(visit.page, ".what")
    keys.press("Enter")
    expect(visit.page.locator("#menu input:checked")).to_be_focused()
    for _ in range(4):  # scalar, vector, matrix, symmetric matrix
        keys.press("ArrowDown")
    visit.settled()
    keys.press("Escape")
    expect(visit.page.get_by_role("button", name=re.compile("^A: symmetric n×n matrix"))).to_be_focused()
    assert visit.results() == {"x": "2*A*x"}
    keys.press("Alt+2")
    visit.settled()
    assert visit.results() == {"x,x": "2*A"}
    keys.press("?")
    expect(visit.page.locator("#help")).to_be_visible()
    expect(visit.page.locator("#help dt[data-name=logdet]")).to_be_attached()
    keys.press("Escape")
    expect(visit.page.locator("#help")).not_to_be_visible()
    keys.press("Alt+e")
    expect(visit.page.locator("#examples-list button").first).to_be_visible()
    keys.type("masked")
    keys.press("Enter")
    visit.settled()
    assert visit.page.locator("#expression").input_value().startswith("norm2(M")
    expect(visit.page.locator("#expression")).to_be_focused()


# Sizes and colours


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_nothing_is_wider_than_the_window(visits: Callable[..., Visit], size: str) -> None:
    phone: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    visit = visits(**phone) if size == "phone" else visits()
    long = " + ".join(f"norm2(exp(sin(A*x + {k}*y)) - log(vector(1) + exp(B*y)))^2" for k in range(8))
    records: list[dict[str, Any]] = [FACTORS, {**LOGISTIC, "order": 3}, {"f": long, "by": "x"}, {"f": f"{long} + ("}]
    for record in records:
        visit.page.goto("about:blank")
        visit.go(**record)
        names = ["Code", "Steps", "Structure", "Graph", "Cost", "Check"] if record is FACTORS else []
        for name in [None, *names]:
            if name:
                visit.tab(name)
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (name, record)
    assert visit.page.locator("#expression").evaluate("e => e.scrollHeight - e.clientHeight") <= 1
    visit.type("x'*A*x")
    visit.page.locator(".what").first.click()
    box = visit.page.locator("#menu").bounding_box()
    window = visit.page.viewport_size
    assert box and window and box["x"] >= 0 and box["x"] + box["width"] <= window["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(visits: Callable[..., Visit], scheme: str) -> None:
    visit = visits(color_scheme=scheme)
    visit.go(**FACTORS, tab="code")
    expect(visit.page.locator("#code span").first).to_be_visible()
    looks = "p, label, legend, button, summary, dt, dd, td, th, math, code, pre, span, h1, h2, h3, textarea, #problem *"
    found = visit.page.evaluate(CONTRAST, looks)
    visit.tab("Check")
    found += visit.page.evaluate(CONTRAST, "#panel *")
    visit.type("x + ")
    found += visit.page.evaluate(CONTRAST, "#problem *")
    assert len(found) > 50
    assert [each for each in found if each[2] < 4.5] == []
    background = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    visit.page.locator("#theme").click()
    visit.page.locator("#theme").click()
    toggled = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == toggled) == (scheme == "dark")  # from the system over light to dark
    visit.page.reload()
    visit.settled()
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == toggled


# Text stays text


@pytest.mark.parametrize("name", ["f", "declare", "by", "order", "notation", "tab", "code", "sizes"])
def test_markup_in_the_address_is_text(visit: Visit, name: str) -> None:
    record = {"f": "x'*A*x", "tab": "cost"} | {name: f"{EVIL}=3" if name == "sizes" else EVIL}
    visit.page.goto(f"{visit.base}?{urlencode(record)}#{urlencode(record)}")
    visit.settled()
    assert visit.page.locator("img[onerror], img[src=x]").count() == 0
    if name == "f":
        expect(visit.page.locator("#problem pre")).to_contain_text(EVIL)


def test_markup_in_names_and_fields_is_text(visit: Visit) -> None:
    visit.go()
    for text in [EVIL, "</math><script>alert(1)</script>", "sum(x) + '<svg onload=alert(1)>'", "x&lt;b&gt;"]:
        visit.type(text)
        assert visit.page.locator("main img, main script, main svg").count() == 0
    visit.type("sum(x_lt_script)")
    visit.page.locator("#options-button").click()
    visit.page.locator("#declarations").fill(f"{EVIL}(n)")
    visit.settled()
    expect(visit.page.locator("#problem pre")).to_contain_text(EVIL)
    assert visit.page.locator("main img").count() == 0


def test_sieve_for_markup_of_the_server(visit: Visit) -> None:
    visit.go()
    made = visit.page.evaluate("""async () => {
      const { formula, picture } = await import("/safe.js");
      const w3 = "http://www.w3.org";
      const math = (inside) => formula(`<math xmlns="${w3}/1998/Math/MathML">${inside}</math>`, "text").outerHTML;
      const svg = (inside) => picture(`<svg xmlns="${w3}/2000/svg">${inside}</svg>`, "").outerHTML;
      return [
        math("<mi onclick='alert(1)' href='javascript:alert(1)' style='color:red'>x</mi>"),
        math("<script xmlns='http://www.w3.org/1999/xhtml'>alert(1)</script><maction>y</maction><mn>2</mn>"),
        svg("<script>alert(1)</script><foreignObject/><a href='https://a.org'/><rect width='3' onload='alert(1)'/>"),
        svg("<image href='https://a.org/x.png'/><use href='https://a.org/#a'/><rect fill='url(https://a.org)'/>"),
        svg("<style>*{}</style><animate/><set/>"),
        formula("<math <", "broken").outerHTML,
      ];
    }""")
    forbidden = re.compile("script|onclick|onload|style|href|https:|foreignobject|maction|<image|animate|<set", re.I)
    for text in made:
        assert not forbidden.search(text), text
    visit.troubles.clear()  # the policy forbids styles even in text that is only parsed, and says so
    visit.page.evaluate("window.violations = []")
    assert ">x</mi>" in made[0] and "<mn>2</mn>" in made[1] and 'width="3"' in made[2]
    assert made[5] == "<code>broken</code>"

"""Everything can be displayed: the cookbook and the examples of matrixcalculus.org, in all notations, to order 2."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from eindiff.apps.page.tasks import answer
from eindiff.core.nodes import variables
from eindiff.text.read.parse import parse
from eindiff.text.write.mathml import name_mathml, number_mathml, size_mathml, whole
from make_cookbook_page import read_sections
from text.test_matrixcalculus_examples import EXAMPLES

NOTATIONS = ("matrix", "index", "einsum")
CHILDREN = {"msub": 2, "msup": 2, "mfrac": 2, "munder": 2, "mover": 2}
LEAVES = {"mi", "mn", "mo", "mtext"}
SPACE = "{http://www.w3.org/1998/Math/MathML}"


def assert_mathml(text: str) -> None:
    """One element, text only in leaves, as many children as elements have, and nothing that is left of LaTeX."""
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SPACE}math"
    for element in root.iter():
        tag = element.tag.removeprefix(SPACE)
        assert not (element.tail or "").strip(), text
        if tag in LEAVES:
            assert element.text, text
            assert "\\" not in element.text
            assert not len(element)
        else:
            assert not (element.text or "").strip(), text
            assert len(element) == CHILDREN.get(tag, len(element)), text
            assert len(element) or tag in ("mspace",), text


def assert_displayed(expression: str, declarations: str, wrt: list[str], order: int) -> None:
    for notation in NOTATIONS:
        fields = {"expression": expression, "declarations": declarations, "wrt": wrt, "order": order}
        found = answer("derive", {**fields, "notation": notation})
        for formula in [found["function"], *found["blocks"]]:
            assert_mathml(formula["mathml"])
            assert_mathml(formula["left"])
            assert formula["text"] and formula["latex"] and formula["unicode"]
            for part in formula["where"]:
                assert_mathml(part["mathml"])
                assert_mathml(part["name_mathml"])


@pytest.mark.parametrize("section", read_sections(), ids=lambda section: section.heading)
def test_cookbook(section):
    for expression, declarations, wrt, _ in section.rows:
        names = [name.strip() for name in wrt.split(",")]
        assert_displayed(expression, declarations, [",".join(names)], len(names))
        if len(names) == 1:
            assert_displayed(expression, declarations, names, 2)


@pytest.mark.parametrize("text", EXAMPLES)
def test_matrixcalculus(text):
    for x in variables(parse(text)):
        for order in (1, 2):
            assert_displayed(text, "", [x.name], order)


@pytest.mark.parametrize("section", read_sections()[::4], ids=lambda section: section.heading)
def test_steps_of_the_cookbook(section):
    for expression, declarations, wrt, _ in section.rows[::3]:
        names = wrt.split(",")[0].strip()
        fields = {"expression": expression, "declarations": declarations, "wrt": [names], "order": 1}
        for notation in NOTATIONS:
            for chapter in answer("steps", {**fields, "notation": notation})["chapters"]:
                for equation in [*chapter["names"], *(step["equation"] for step in chapter["steps"])]:
                    assert len(equation["mathml"]) >= 2
                    for side in equation["mathml"]:
                        assert_mathml(side)


@pytest.mark.parametrize("name", ["x", "x1", "alpha_max", "loss", "_", "_a", "__", "a_b_c", "x12_3", "ß", "變"])
def test_names(name):
    assert_mathml(whole(name_mathml(name)))


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (-0.5, "−0.5"), (2.5e-7, "2.5·10−7"), (1e300, "1·10300"), (float("inf"), "∞")]
)
def test_numbers(value, text):
    assert_mathml(whole(number_mathml(value)))
    assert "".join(ElementTree.fromstring(whole(number_mathml(value))).itertext()) == text


@pytest.mark.parametrize("size", ["n", "m*n", "n-1", "min(m,n)", "<script>", "2*n+1"])
def test_sizes(size):
    assert_mathml(whole(size_mathml(size)))


def test_deep_and_long_expressions():
    deep = "sin(" * 60 + "x" + ")" * 60
    assert_displayed(f"sum({deep})", "", ["x"], 1)
    assert_displayed("+".join(f"a{k}^{k + 2}" for k in range(60)), "", ["a7"], 2)

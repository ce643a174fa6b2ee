"""What is offered for a text that cannot be read: it can be read, and says what it changes."""

from __future__ import annotations

import pytest

import eindiff as ed
from eindiff.apps.page.reading import ProblemError, reading


def offered(text: str, declarations: str = "") -> list[dict]:
    with pytest.raises(ProblemError) as caught:
        reading({"expression": text, "declarations": declarations})
    return caught.value.problem["choices"]


@pytest.mark.parametrize(
    ("text", "declarations", "first"),
    [
        ("x*y", "", ["x'*y", "x.*y", "x*y'"]),
        ("X*W + b", "", ["X matrix, W matrix, b scalar"]),
        ("A*x + B", "A matrix; x vector; B(m,n)", ["A matrix, x vector, B scalar"]),
        ("sum(x) + norm3(y)", "", ["norm", "norm2", "norm1"]),
        ("exp(p) + A*x - b", "A(m,n); x(m)", ["A'*x"]),
        ("tr(x)", "x vector", ["x matrix"]),
        ("x*(", "", []),
    ],
)
def test_choices_read_well_and_the_likeliest_comes_first(text, declarations, first):
    found = offered(text, declarations)
    assert [choice["label"] for choice in found][: len(first)] == first
    for choice in found:
        ed.parse(choice["expression"], choice["declarations"])


def test_a_long_text_is_not_tried():
    with pytest.raises(ProblemError) as caught:
        reading({"expression": "x*y + " + "+".join(["1"] * 200)})
    assert "choices" not in caught.value.problem

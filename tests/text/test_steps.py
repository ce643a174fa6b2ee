"""Derivations: the steps say the right theorem, and what they show is true."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nodes import Variable, topological
from eindiff.core.rewrite import rewrite_log
from eindiff.program.check import random_point
from eindiff.text import steps
from eindiff.text.read.parse import parse

LOGISTIC = "sum(log(exp(-y.*(X*w))+vector(1)))"


def derive(text: str, *by: str, declarations: str = "", **more: str) -> list[steps.Chapter]:
    with rewrite_log() as log:
        function = parse(text, declarations)
    return steps.derivation(function, *by, read=log, **more)  # type: ignore[arg-type]


def rules(chapters: list[steps.Chapter]) -> list[str]:
    return [step.rule.partition(",")[0] for chapter in chapters for step in chapter.steps]


def test_reading_a_function_shows_the_rules_that_simplified_it() -> None:
    first = derive("log(det(inv(X)))", "X")[0]
    assert [step.rule for step in first.steps] == ["determinant of", "log of det", "log of power"]
    assert first.steps[1].words == "log(det(A)) = logdet(A)."


def test_logistic_regression_goes_by_theorems_8_and_10() -> None:
    chapters = derive(LOGISTIC, "w")
    assert rules(chapters) == ["log of sum of exponentials", "Theorem 8", "Theorem 10", "Theorem 8", "Theorem 8"]
    assert chapters[-1].steps[-1].after == ed.derivative(parse(LOGISTIC), "w")


def test_forward_mode_goes_by_theorems_5_and_7() -> None:
    assert rules(derive("A*exp(x)", "x", mode="forward")) == ["Theorem 7", "Theorem 5"]


def test_a_second_derivative_is_a_second_chapter() -> None:
    chapters = derive("x'*A*x", "x", "x")
    assert [chapter.by for chapter in chapters] == [("x",), ("x", "x")]
    A = next(v for v in ed.variables(parse("x'*A*x")) if v.name == "A")
    assert chapters[-1].steps[-1].after is A + A.T


def test_a_factor_that_occurs_twice_counts_twice() -> None:
    step = derive("norm2(A*x-b)^2", "x", declarations="b(m)")[0].steps[0]
    assert step.local is not None and ed.to_text(step.local) == "2*v2"


@pytest.mark.parametrize("convention", ["projected", "free"])
def test_a_symmetric_variable_is_named(convention: str) -> None:
    chapters = derive("tr(S*S*B)", "S", declarations="S(n,n) symmetric", symmetric=convention)
    last = chapters[-1].steps[-1]
    assert last.rule == f"symmetric variable, {convention}"
    assert last.after == ed.derivative(parse("tr(S*S*B)", "S(n,n) symmetric"), "S", symmetric=convention)


def test_the_variable_itself_and_no_dependence() -> None:
    assert "is `x` itself" in derive("x", "x")[0].steps[-1].words
    x, y = ed.vector("x", "n"), ed.vector("y", "n")
    assert "does not depend" in steps.derivation(ed.sum(y), x)[0].steps[-1].words


def test_names_avoid_those_of_the_user() -> None:
    text = steps.to_text(derive("sum(exp(v1.*f))", "v1", declarations="v1(n); f(n)"))
    assert "u1 = " in text and "F1 = sum(" in text and "  v1 = " not in text


@pytest.mark.parametrize(
    ("text", "declarations", "by", "mode"),
    [
        (LOGISTIC, "", "w", "reverse"),
        (LOGISTIC, "", "w", "forward"),
        ("norm2(A*x-b)^2", "b(m)", "x", "reverse"),
        ("tr(A*X'*B*X*C)", "", "X", "forward"),
        ("logdet(X)*sum(X.^3)", "X(n,n) psd", "X", "reverse"),
        ("sum(softmax(A*x).*y)", "", "x", "reverse"),
        ("tr(inv(X))", "", "X", "forward"),
    ],
)
def test_each_step_is_true_in_terms_of_its_names(text: str, declarations: str, by: str, mode: str) -> None:
    """At a random point, what a step says with names has the value of what it says written out."""
    chapter = derive(text, by, declarations=declarations, mode=mode)[-1]
    sizes: dict[str, int] = {}
    point = random_point([parse(text, declarations)], sizes)
    values = {step.target: ed.evaluate(step.after, point, sizes) for step in [*chapter.names, *chapter.steps]}
    seen = 0
    for step in [*chapter.names, *chapter.steps]:
        if step.local is not None:
            inputs = [node.name for node in topological([step.local]) if isinstance(node, Variable)]
            given = {name: values[name] if name in values else point[name] for name in inputs}
            np.testing.assert_allclose(ed.evaluate(step.local, given, sizes), values[step.target], rtol=1e-9, atol=1e-9)
            seen += 1
    assert seen >= 2


def test_text_in_unicode() -> None:
    text = steps.to_text(derive(LOGISTIC, "w"), style="unicode")
    assert "v̄₂ = v̄₃ ⊙ sigmoid(v₂)" in text
    assert "∂f/∂w = Xᵀ·v̄₁" in text


def test_latex_is_balanced_and_numbered_through() -> None:
    text = steps.to_text(derive(LOGISTIC, "w", "w"), style="latex")
    for kind in ("align*", "enumerate"):
        assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}") > 0
    assert text.count("{") == text.count("}")
    assert r"\setcounter{enumi}{5}" in text
    assert r"\bar{v}_{2} &= \bar{v}_{3} \odot \sigma\left(v_{2}\right)" in text


@pytest.mark.parametrize("notation", ["matrix", "index", "einsum"])
@pytest.mark.parametrize("style", ["plain", "unicode", "latex"])
def test_all_notations_and_styles(notation: str, style: str) -> None:
    text = steps.to_text(derive("sum(relu(X*w)) + x[0]*mean(w)", "w", declarations="x(3)"), notation, style)
    assert "Theorem 8" in text


def test_steps_for_programs() -> None:
    data = steps.as_data(derive("sum(exp(x))", "x"))
    assert data[-1]["rule"].startswith("Theorem 10")
    assert data[-1]["plain"] == ["df/dx", "vbar1 .* exp(x)", "exp(x)"]


def test_no_rule_is_shown_twice() -> None:
    chapters = derive("sum(log(1+exp(x)))*sum(log(1+exp(x)))", "x", "x", "x")
    shown = [(s.rule, str(s.before)) for c in chapters for s in c.steps if s.subject]
    assert len(shown) == len(set(shown))


def test_long_derivations_are_written_in_names_only() -> None:
    text = steps.to_text(derive("sin(" * 60 + "x" + ")" * 60, "x"))
    assert "vbar20 = vbar21*diag(cos(v20))\n" in text and len(text) < 20_000


def test_theorems_are_cited_with_their_formulas_once() -> None:
    text = str(ed.steps(ed.sum(ed.exp(ed.sin(ed.vector("x", "n")))), "x"))
    assert text.count("Theorem 10") == 2
    assert text.count("C = f(A), entry by entry:  Abar = Cbar *_(s2 s1, s1, s2 s1) f'(A)") == 1
    forward = str(ed.steps(ed.exp(ed.vector("x", "n")), "x", mode="forward"))
    assert "Cdot = f'(A) *_(s1, s1 s2, s1 s2) Adot" in forward

"""Arrays of indices in text: u[g] is read, printed in all notations, read back, and has scripts that run."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.write.source import to_script
from eindiff.text.question import Question, answer
from eindiff.text.read.source import ParseError

TEXTS = {
    "norm2(y - u[g])^2": "y(m); u(n); g(m) into n",
    "sum(log(s[g])) + norm2(u[g] - y)^2": "s(m); g(n) into m; u(m); y(n)",
    "x[i]^2": "x(n); i into n",
    "sum(A[rows, cols].^2)": "A(m,n); rows(p) into m; cols(p) into n",
    "norm2(R - sum(U[a1].*V[b1], 1))^2": "R(m); U(n,p); a1(m) into n; V(q,p); b1(m) into q",
}


@pytest.mark.parametrize("text", TEXTS)
def test_indices_are_found_from_their_use(text):
    declared = "" if "R -" not in text else "R(m)"
    found = ed.reading(text, declared)
    assert found.declarations == TEXTS[text]
    assert ed.parse(text, found.declarations) == found.expression


def test_values_are_those_of_numpy():
    rng = np.random.default_rng(0)
    A, rows, cols = rng.normal(size=(4, 3)), np.array([3, 0, 3]), np.array([1, 1, 2])
    for text, expected in {"A[rows, cols]": A[rows, cols], "A[rows]": A[rows], "A[:, cols]'": A[:, cols].T}.items():
        found = ed.parse(text, "A(4,3); rows(3) into 4; cols(3) into 3")
        point = {"A": A, "rows": rows, "cols": cols}
        kept = {name: point[name] for name in (v.name for v in ed.variables(found))}
        np.testing.assert_array_equal(ed.evaluate(found, kept), expected)


@pytest.mark.parametrize(
    ("text", "declarations", "message"),
    [
        ("u[g]", "u(5); g(3)", "declare g.3. into 5 for indices"),
        ("u[g] + v[g]", "u(5); v(4); g(3) into 5", "g has indices of an axis of size 5, not 4"),
        ("A[g, :, h]", "A(3,3,3)", "a list stands alone"),
        ("x[arange(9) + arange(3)]", "x(10)", "reaches from 0 to 10, outside an axis of size 10"),
        ("arange(3)", "", "arange gives places"),
    ],
)
def test_what_does_not_fit_is_told(text, declarations, message):
    with pytest.raises(ParseError, match=message):
        ed.parse(text, declarations)


def test_sums_over_entries_that_belong_together():
    function = ed.parse("norm2(y - u[g])^2")
    gradient = ed.gradient(function, next(v for v in ed.variables(function) if v.name == "u"))
    assert ed.to_text(gradient, "index", "unicode") == "[i] 2 Σ_{j: g_j = i} (u_[g_j] − y_j)"
    expected = r"2 \, \sum_{j :\, g_{j} = i} \left(u_{g_{j}} - y_{j}\right)"
    assert ed.to_text(gradient, "index", "latex") == expected
    assert ed.to_text(gradient) == "2*eye(n)[:, g]*(u[g] - y)"


def test_there_is_no_derivative_by_indices_unless_asked_for():
    result = answer("norm2(y - u[g])^2", Question())
    assert [block.key for block in result.blocks] == ["u", "y"]


def test_scripts_draw_whole_numbers(capsys):
    script = to_script(ed.parse("sum(log(s[g]))", "s(4) positive; g(m) into 4"), ["s"], order=2)
    with pytest.raises(SystemExit) as ended:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    assert ended.value.code == 0, capsys.readouterr().out


def test_one_index_is_written_as_it_is_and_labels_have_other_letters():
    gradient = ed.derivative(ed.parse("norm2(x[i])^2"), "x")
    assert ed.to_text(gradient, "index") == "[j:n] 2*x[i]*delta[j,i]"
    assert ed.to_text(gradient, "index", "unicode") == "[j] 2 x_i δ_ji"

"""The cookbook: every identity of cookbook.txt by value, by finite differences, as an object, as text and as code."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

import eindiff as ed
from eindiff.calculus.derive import find_variable
from eindiff.core.nodes import Expr, Variable
from eindiff.program.check import finite_difference, random_point, relative_error
from eindiff.program.write.source import to_script
from eindiff.text.read.parse import parse
from eindiff.text.write.to_text import as_written, to_text
from make_cookbook_page import PAGE, page, read_sections


@dataclass(frozen=True)
class Row:
    """One line: the derivative of `text` by the variables in `wrt`, and what it should be."""

    heading: str
    text: str
    declarations: str
    wrt: str
    expected_text: str

    def __str__(self) -> str:
        return f"{self.text} | {self.declarations} | {self.wrt}"

    @cached_property
    def function(self) -> Expr:
        return parse(self.text, self.declarations)

    @cached_property
    def path(self) -> list[Variable]:
        return [find_variable(self.function, name.strip()) for name in self.wrt.split(",")]

    @cached_property
    def derivatives(self) -> list[Expr]:
        """The function, and its derivatives by the first variable, by the first two, and so on."""
        return [ed.derivative(self.function, *self.path[:count]) for count in range(len(self.path) + 1)]

    @cached_property
    def expected(self) -> Expr:
        return parse(self.expected_text, self.declarations)

    @cached_property
    def is_identical(self) -> bool:
        found = self.derivatives[-1]
        return found == self.expected or ed.simplify(found) == ed.simplify(self.expected)


ROWS = [Row(section.heading, *row) for section in read_sections() for row in section.rows]
IMPORT = ("import ", "from ")
EACH = pytest.mark.parametrize("row", ROWS, ids=str)

# Where the derivative is right, but not the same object as the textbook form even after `simplify`: why.
NOT_IDENTICAL_BECAUSE = {
    "where both are equal the derivative of maximum is 1/2": ["sum(maximum(x, y)) | x(n); y(n) | x"],
    "sigmoid(-x) - sigmoid(x) is not written 1 - 2 sigmoid(x)": ["sigmoid(a) | a | a,a"],
    "the derivative of x.^c is a function of its own, right at x = 0 too": ["sum(abs(x).^c) | x(n); c positive | x"],
    "a derivative of expm in all unit directions has several forms": ["tr(expm(A)) | A(n,n) | A,A"],
    "U diag(f(λ)) U' is not written f(A)": [
        "prod(eigvals(A)) | A(n,n) psd | A",
        "sum(log(eigvals(A))) | A(n,n) psd | A",
        "sum(eigvals(A).^3) | A(n,n) symmetric | A",
        "sum(log(svdvals(X))) | X(n,n) | X",
    ],
    "an eigenvalue that equals another one has no derivative, which `simple` says": [
        "eigvals(A) | A(n,n) symmetric | A",
        "lambdamax(A) | A(n,n) symmetric | A",
        "eigvals(A + c*B) | A(n,n) symmetric; B(n,n) symmetric; c | c",
        "normspec(X) | X(m,n) | X",
        "svdvals(X) | X(m,n) | X",
    ],
}
NOT_IDENTICAL = {row for rows in NOT_IDENTICAL_BECAUSE.values() for row in rows}


def test_size():
    assert len(ROWS) >= 150
    assert len({str(row) for row in ROWS}) == len(ROWS), "a row occurs twice"
    assert {str(row) for row in ROWS} >= NOT_IDENTICAL


def test_page():
    """docs/cookbook.md is what `python tests/helpers/make_cookbook_page.py` writes."""
    assert PAGE.read_text(encoding="utf-8") == page()


@EACH
def test_value(row):
    """The derivative has the value of the textbook form; it and all lower ones agree with finite differences."""
    sizes: dict[str, int] = {}
    point = random_point([*row.derivatives, row.expected], sizes)
    found, expected = ed.evaluate([row.derivatives[-1], row.expected], point, sizes)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max(initial=0))
    for lower, higher, x in zip(row.derivatives, row.derivatives[1:], row.path, strict=False):
        numeric = finite_difference(lower, x, point, sizes)
        assert relative_error(ed.evaluate(higher, point, sizes), numeric) < 1e-6


@EACH
def test_identity(row):
    """The derivative is the textbook form, as an object, unless the list says why not."""
    assert row.is_identical == (str(row) not in NOT_IDENTICAL)


def test_fraction_of_identities():
    assert sum(row.is_identical for row in ROWS) >= 0.95 * len(ROWS)


@EACH
@pytest.mark.parametrize("notation", ["matrix", "index", "einsum"])
def test_text_reads_back(row, notation):
    """The derivative and the expected form, written out and read again, are the same objects."""
    for expr in (as_written(row.derivatives[-1]), row.expected):
        known = {v.name: v for v in [*ed.variables(row.function), *ed.variables(expr)]}  # which have all sizes
        text = to_text(expr, notation)
        assert parse(text, known, "index" if notation == "index" else "matrix") == expr, text


def script(row: Row) -> str:
    return to_script(row.function, list(dict.fromkeys(row.path)), order=len(row.path))


@EACH
def test_script_runs(row, capsys):
    """The code for the value and the derivatives runs with NumPy and SciPy alone, and its check passes."""
    imports = {line.split()[1].partition(".")[0] for line in script(row).splitlines() if line.startswith(IMPORT)}
    assert imports <= {"sys", "numpy", "scipy"}
    with pytest.raises(SystemExit) as ended:
        exec(compile(script(row), str(row), "exec"), {"__name__": "__main__"})
    assert ended.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize("row", ROWS[:: len(ROWS) // 3][:3], ids=str)
def test_script_runs_in_a_process_of_its_own(row, tmp_path):
    path = tmp_path / "f.py"
    path.write_text(script(row), encoding="utf-8")
    assert "eindiff" not in path.read_text(encoding="utf-8")
    ended = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr

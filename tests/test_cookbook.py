"""The cookbook: every identity of cookbook.txt by value, by finite differences, as an object, as text and as code."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import eindiff as ed
from eindiff.check import finite_difference, random_point, relative_error
from eindiff.derive import find_variable
from eindiff.emit import to_script
from eindiff.expr import Expr, Variable
from eindiff.language import parse
from eindiff.language.index_notation import parse_index
from eindiff.language.print_expr import to_text


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
        return found is self.expected or ed.simplify(found) is ed.simplify(self.expected)


def read_rows() -> list[Row]:
    """All lines of the cookbook, under their headings."""
    rows, heading = [], ""
    for line in (Path(__file__).parent / "cookbook.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line and not line.startswith("#"):
            rows.append(Row(heading, *(part.strip() for part in line.split(" | "))))
    return rows


ROWS = read_rows()
EACH = pytest.mark.parametrize("row", ROWS, ids=str)

# The derivative is right but not the same object as the textbook form, even after `simplify`: why.
NOT_IDENTICAL: dict[str, str] = {}


def test_size():
    assert len(ROWS) >= 150
    assert len({str(row) for row in ROWS}) == len(ROWS), "a row occurs twice"
    assert NOT_IDENTICAL.keys() <= {str(row) for row in ROWS}


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
    assert sum(row.is_identical for row in ROWS) >= 0.9 * len(ROWS)


@EACH
@pytest.mark.parametrize("notation", ["matrix", "index", "einsum"])
def test_text_reads_back(row, notation):
    """The derivative and the expected form, written out and read again, are the same objects."""
    for expr in (row.derivatives[-1], row.expected):
        known = {v.name: v for v in ed.variables(expr)}
        text = to_text(expr, notation)
        assert (parse_index if notation == "index" else parse)(text, known) is expr, text


def script(row: Row) -> str:
    return to_script(row.function, list(dict.fromkeys(row.path)), order=len(row.path))


@EACH
def test_script_runs(row, capsys):
    """The code for the value and the derivatives runs by itself and its check passes."""
    with pytest.raises(SystemExit) as ended:
        exec(compile(script(row), str(row), "exec"), {"__name__": "__main__"})
    assert ended.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize("row", ROWS[:: len(ROWS) // 2][:3], ids=str)
def test_script_needs_only_numpy_and_scipy(row, tmp_path):
    """In a process of its own the script imports nothing but NumPy and SciPy."""
    code = script(row) + "\nassert 'eindiff' not in sys.modules\n"
    path = tmp_path / "f.py"
    path.write_text(code.replace("    sys.exit(", "    assert 'eindiff' not in sys.modules\n    sys.exit("))
    ended = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr

"""Functions of matrices at ordinary points."""

from __future__ import annotations

import numpy as np

from fuzz.checks import Case
from fuzz.kinds import einsums
from fuzz.programs import Declared, Random, Size, Step, Writer

OF_SQUARE = ("inv", "det", "logdet", "adj", "expm", "logm", "sqrtm", "tr", "chol")


def of_square(writer: Writer) -> str | None:
    """A function of a matrix, or of a matrix made definite."""
    name = writer.square()
    if name is None:
        return None
    function = writer.choice(OF_SQUARE)
    n = writer.symbolic(name)[0]
    form = writer.choice(["{0}", "{0} + 2 * ed.eye({1})", "{0} @ {0}.T + ed.eye({1})", "ed.eye({1}) + 0.2 * {0}"])
    if "{1}" in form and not (isinstance(n, int) or n in writer.program.sizes):
        return None
    return f"ed.{function}({form.format(name, n)})"


def product(writer: Writer) -> str | None:
    one = writer.value(2)
    if one is None:
        return None
    other = _with_first_axis(writer, writer.symbolic(one)[1])
    return writer.choice([f"{one} @ {other}", f"{one}.T @ {one}"]) if other else f"{one} @ {one}.T"


def solve(writer: Writer) -> str | None:
    one = writer.square()
    if one is None:
        return None
    other = _with_first_axis(writer, writer.symbolic(one)[0])
    return f"ed.solve({one}, {other})"


def _with_first_axis(writer: Writer, size: Size) -> str | None:
    return writer.pick(lambda name: len(writer.shape(name)) in (1, 2) and writer.symbolic(name)[0] == size)


def power(writer: Writer) -> str | None:
    name = writer.square()
    return None if name is None else f"ed.matrix_power({name}, {writer.choice([2, 3, -1, -2])})"


def rectangular(writer: Writer) -> str | None:
    name = writer.value(2, least=1, most=3)
    return None if name is None else f"ed.{writer.choice(['pinv', 'norm2', 'norm1'])}({name})"


STEPS: list[Step] = [of_square, of_square, of_square, product, solve, power, rectangular, *einsums.STEPS]


def generate(rng: Random) -> Case:
    sizes = {"n": int(rng.integers(1, 4)), "m": int(rng.integers(1, 4))}
    n, m = sizes["n"], sizes["m"]
    variables = {
        "A": Declared(("n", "n"), 2 * np.eye(n) + rng.uniform(-0.7, 0.7, (n, n))),
        "X": Declared(("m", "n"), rng.uniform(-1.2, 1.2, (m, n))),
        "x": Declared(("n",), rng.uniform(-1.2, 1.2, n)),
    }
    writer = Writer(rng, sizes, variables)
    writer.write(STEPS, int(rng.integers(1, 5)))
    return Case.of(writer)

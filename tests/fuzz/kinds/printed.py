"""Expressions and their derivatives printed in each notation, and read back."""

from __future__ import annotations

from dataclasses import dataclass

import eindiff as ed
from eindiff.core.nodes import Expr
from fuzz.checks import Case
from fuzz.kinds import einsums, matrices, reductions
from fuzz.programs import Random, Writer


@dataclass
class Printed(Case):
    """A program that is written down."""

    notation: str = "matrix"

    def check(self) -> None:
        by = self._variables()
        for expr in (self.expr, ed.derivative(self.expr, by[0])):
            text = ed.to_text(expr, self.notation)
            again = self._read(text)
            values = ed.evaluate([expr, again], self.program.arrays, self.program.sizes)
            self.close(f"{text} read back", values[1], values[0], 1e-10)

    def _read(self, text: str) -> Expr:
        known = {name: ed.tensor(name, one.shape, *one.properties) for name, one in self.program.variables.items()}
        return ed.parse(text, known, "index" if self.notation == "index" else "matrix")


def generate(rng: Random) -> Printed:
    sizes = {"n": int(rng.integers(2, 4)), "m": int(rng.integers(2, 4))}
    writer = Writer(rng, sizes, einsums.declare(rng, int(rng.integers(1, 4)), sizes, most=2))
    steps = [matrices.of_square, matrices.product, matrices.solve, reductions.reduction, reductions.along]
    steps += [einsums.elementwise, einsums.combine, einsums.combine, einsums.power, einsums.total, einsums.transposed]
    writer.write([*steps, einsums.diagonal], int(rng.integers(2, 6)))
    return Printed.of(writer, notation=str(rng.choice(["matrix", "index", "einsum"])))

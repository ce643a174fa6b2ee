"""Systems of all structures and of any condition: what is solved is accurate, what is singular is refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuzz.programs import FoundError, Random
from solver_systems import FAMILIES, System, problem


@dataclass
class Case:
    """A system and its precision."""

    text: str
    system: System
    dtype: str
    rng: Random

    def check(self) -> None:
        if what := problem(self.system, self.rng, self.dtype):
            raise FoundError(what)


def generate(rng: Random) -> Case:
    """A system of some family; a quarter of them in single precision."""
    family, dtype = str(rng.choice(list(FAMILIES))), str(rng.choice(["float64", "float32"], p=[0.75, 0.25]))
    condition = 10 ** rng.uniform(1, 18 if dtype == "float64" else 10)
    system = FAMILIES[family](rng, condition, dtype)
    arrays = ", ".join(f"{name} {np.shape(array)}" for name, array in system.arrays.items())
    return Case(f"{family} ({system.name}), {dtype}, condition {condition:.1e}, arrays {arrays}", system, dtype, rng)

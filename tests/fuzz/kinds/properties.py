"""Declared variables: symmetric, positive semidefinite, orthogonal, positive."""

from __future__ import annotations

import numpy as np

from fuzz.checks import Case
from fuzz.kinds import einsums, matrices
from fuzz.programs import Declared, Random, Writer


def declare(rng: Random, sizes: dict[str, int]) -> dict[str, Declared]:
    """A variable with each property, and one without."""
    n = sizes["n"]
    noise = rng.uniform(-0.7, 0.7, (n, n))
    return {
        "S": Declared(("n", "n"), noise + noise.T, ("symmetric",)),
        "P": Declared(("n", "n"), noise @ noise.T + np.eye(n), (str(rng.choice(["psd", "symmetric"])),)),
        "Q": Declared(("n", "n"), np.linalg.qr(rng.normal(size=(n, n)))[0], ("orthogonal",)),
        "p": Declared(("n",), rng.uniform(0.3, 1.5, n), ("positive",)),
        "x": Declared(("n",), rng.uniform(-1.2, 1.2, n)),
    }


def generate(rng: Random) -> Case:
    sizes = {"n": int(rng.integers(1, 4))}
    writer = Writer(rng, sizes, declare(rng, sizes))
    writer.write([*matrices.STEPS, matrices.product, einsums.combine], int(rng.integers(1, 5)))
    return Case.of(writer)

"""Eigenvalues and singular values: one by one where they are apart, in smooth sums also where they meet."""

from __future__ import annotations

import numpy as np

from fuzz.checks import Case
from fuzz.kinds import einsums, matrices
from fuzz.programs import SPECTRAL, Declared, Random, Step, Writer


def values(writer: Writer) -> str | None:
    name = writer.value(2, least=1, most=3)
    return None if name is None else f"ed.{writer.choice(['svdvals', 'normnuc', 'normspec'])}({name})"


def eigenvalues(writer: Writer) -> str | None:
    name = writer.square()
    return None if name is None else f"ed.{writer.choice(['eigvals', 'lambdamax'])}({name} + {name}.T)"


def smooth(writer: Writer) -> str | None:
    name = writer.square()
    return None if name is None else f"ed.spectral({name} + {name}.T, {writer.choice(list(SPECTRAL))!r})"


STEPS: list[Step] = [values, eigenvalues, smooth, smooth, matrices.product]
STEPS += [einsums.elementwise, einsums.combine, einsums.total]


def generate(rng: Random) -> Case:
    """Half of the points have equal eigenvalues, or nearly so."""
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    S = rng.uniform(-1, 1, (n, n))
    if rng.random() < 0.5:
        gap = float(rng.choice([0.0, 0.0, 1e-13, 1e-9, 1e-6, 1e-3]))
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        S = Q @ np.diag(rng.choice([0.0, 0.5], n) + gap * np.arange(n)) @ Q.T
    variables = {
        "S": Declared(("n", "n"), (S + S.T) / 2, ("symmetric",) if rng.random() < 0.5 else ()),
        "X": Declared(("m", "n"), rng.uniform(-1.2, 1.2, (m, n))),
    }
    writer = Writer(rng, {"n": n, "m": m}, variables)
    writer.write(STEPS, int(rng.integers(1, 4)))
    return Case.of(writer)

"""Functions of vectors along an axis: largest and smallest entries, logsumexp, softmax, products, cumulative sums."""

from __future__ import annotations

from fuzz.checks import Case
from fuzz.kinds import einsums
from fuzz.programs import Random, Step, Writer

LOGARITHMS = (
    "ed.log(ed.sum(ed.exp({0})))", "ed.log(ed.mean(ed.exp({0})))", "ed.log(ed.sum(2 * ed.exp({0}), -1))",
    "ed.log(1 + ed.sum(ed.exp({0})))", "ed.exp({0}) / ed.sum(ed.exp({0}))", "ed.log(ed.exp({0}) + 1)",
)  # fmt: skip


def reduction(writer: Writer) -> str | None:
    name = writer.value(least=1)
    if name is None:
        return None
    function = writer.choice(["max", "min", "logsumexp", "prod", "norm2", "norm1", "mean", "sum"])
    axis = writer.choice([None, 0, -1])
    return f"ed.{function}({name}{'' if axis is None else f', {axis}'})"


def along(writer: Writer) -> str | None:
    name = writer.value(least=1)
    return None if name is None else f"ed.{writer.choice(['softmax', 'cumsum'])}({name}, {writer.choice([0, -1])})"


def larger(writer: Writer) -> str | None:
    one = str(writer.pick())
    other = writer.pick(lambda name: writer.symbolic(name) == writer.symbolic(one))
    return f"ed.{writer.choice(['maximum', 'minimum'])}({one}, {other if other != one else 0.3})"


def logarithm(writer: Writer) -> str | None:
    """Forms of logsumexp that people write."""
    name = writer.value(least=1)
    return None if name is None else writer.choice(LOGARITHMS).format(name)


STEPS: list[Step] = [reduction, reduction, along, larger, logarithm, *einsums.STEPS]


def generate(rng: Random) -> Case:
    sizes = {name: int(rng.integers(1, 4)) for name in ("n", "m")}
    writer = Writer(rng, sizes, einsums.declare(rng, int(rng.integers(1, 3)), sizes, most=2))
    writer.write(STEPS, int(rng.integers(2, 6)))
    return Case.of(writer)

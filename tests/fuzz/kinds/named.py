"""Named sizes, bound to 0, 1, 2, ...: places from the end, slices, flips, joins, flattened axes."""

from __future__ import annotations

from fuzz.checks import Case
from fuzz.kinds import einsums, maps
from fuzz.programs import Random, Step, Writer


def places(writer: Writer) -> str | None:
    """Slices and places of an axis, of which some need it to have a certain size."""
    name = writer.value()
    if name is None:
        return None
    axis = int(writer.rng.integers(len(writer.shape(name))))
    size = writer.shape(name)[axis]
    forms = ["::-1"]
    if size >= 1:
        forms += ["-1", "0", "-1:", "0:1"]
    if size >= 2:
        forms += ["1:", ":-1", "-2", "1", "-2:", "0:2", "1:2", "-2:-1"]
    if size >= 3:
        forms += ["1:-1", "2:", "-3:-1", "1:3", "-3", "[0, 2]", "[2, 0, 0]", "[1, 1]"]
    return maps.at(name, axis, writer.choice(forms))


def neighbours(writer: Writer) -> str | None:
    name = writer.value(least=2)
    return (
        None
        if name is None
        else writer.choice(["{0}[1:] * {0}[:-1]", "{0}[1:] - {0}[:-1]", "{0} * {0}[::-1]"]).format(name)
    )


def roll(writer: Writer) -> str | None:
    name = writer.value(least=3)
    one, other = writer.choice([("1:", ":1"), ("-1:", ":-1"), ("2:", ":2")])
    return None if name is None else f"ed.concatenate([{name}[{one}], {name}[{other}]])"


def flat(writer: Writer) -> str | None:
    name = writer.value(2)
    return None if name is None else writer.choice([f"ed.vec({name})", f"ed.reshape({name}, (-1,))"])


STEPS: list[Step] = [places, places, places, neighbours, roll, flat, maps.kron, maps.join, *einsums.STEPS]


def generate(rng: Random) -> Case:
    sizes = {name: int(rng.choice([0, 1, 2, 3, 4], p=[0.06, 0.14, 0.3, 0.35, 0.15])) for name in ("n", "m")}
    writer = Writer(rng, sizes, einsums.declare(rng, int(rng.integers(1, 4)), sizes, most=2))
    writer.write(STEPS, int(rng.integers(2, 7)))
    return Case.of(writer)

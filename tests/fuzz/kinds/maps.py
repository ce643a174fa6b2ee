"""Index maps on axes of known size: slices, flips, gathers, windows, joins, reshapes, which share labels."""

from __future__ import annotations

from math import prod

import numpy as np

from fuzz.checks import Case
from fuzz.kinds import einsums
from fuzz.programs import Declared, Random, Step, Writer


def _vector_like(writer: Writer, least: int = 1) -> tuple[str, int, int] | None:
    """A value, one of its axes of known size, and that size."""
    name = writer.pick(lambda name: any(isinstance(s, int) and s >= least for s in writer.symbolic(name)))
    if name is None:
        return None
    axes = [k for k, s in enumerate(writer.symbolic(name)) if isinstance(s, int) and s >= least]
    axis = writer.choice(axes)
    return name, axis, writer.shape(name)[axis]


def at(name: str, axis: int, index: str) -> str:
    """A value with an index along one axis."""
    return f"{name}[{':, ' * axis}{index}]"


def slices(writer: Writer) -> str | None:
    found = _vector_like(writer)
    if found is None:
        return None
    name, axis, size = found
    start, stop = sorted(int(k) for k in writer.rng.choice(size + 1, 2, replace=False))
    step = writer.choice([1, 1, 1, 2])
    forms = [f"{start}:{stop}" + (f":{step}" if step > 1 else ""), "::-1", f"{start - size}:{stop - size or ''}"]
    forms += ["::2", "::-2", str(start), str(start - size)]
    return at(name, axis, writer.choice(forms))


def gather(writer: Writer) -> str | None:
    """Places, some of them twice, some counted from the end; as a list or a table of windows."""
    found = _vector_like(writer)
    if found is None:
        return None
    name, axis, size = found
    shape = writer.choice([(2,), (3,), (4,), (2, 2)])
    places = writer.rng.integers(-size if writer.rng.random() < 0.3 else 0, size, shape)
    if len(shape) == 2 and size > 2:  # windows
        places = np.arange(size - 1)[:, None] + np.arange(2)
    if writer.rng.random() < 0.5:
        return f"ed.take({name}, {np.where(places < 0, places + size, places).tolist()}, {axis})"
    return at(name, axis, f"np.array({places.tolist()})")


def pairs(writer: Writer) -> str | None:
    """Entries of a matrix at pairs of places, which share a label: a diagonal, a triangle, any list."""
    name = writer.value(2, least=1, known=True)
    if name is None:
        return None
    rows, columns = writer.shape(name)
    count = int(writer.rng.integers(1, 5))
    first, second = writer.rng.integers(0, rows, count).tolist(), writer.rng.integers(0, columns, count).tolist()
    return writer.choice([
        f"{name}[np.array({first}), np.array({second})]",
        f"{name}[np.tril_indices({min(rows, columns)})]",
        f"{name}[np.diag_indices({min(rows, columns)})]",
    ])  # fmt: skip


def neighbours(writer: Writer) -> str | None:
    """Differences and products of shifted parts of one value."""
    found = _vector_like(writer, 2)
    if found is None:
        return None
    name, axis, size = found
    shift = int(writer.rng.integers(1, size))
    one, other = at(name, axis, f"{shift}:"), at(name, axis, f":{size - shift}")
    return writer.choice([f"{one} - {other}", f"{one} * {other}", f"ed.sin({one}) * {other}"])


def roll(writer: Writer) -> str | None:
    found = _vector_like(writer, 2)
    if found is None:
        return None
    name, axis, size = found
    shift = int(writer.rng.integers(1, size))
    return f"ed.concatenate([{at(name, axis, f'{shift}:')}, {at(name, axis, f':{shift}')}], {axis})"


def convolution(writer: Writer) -> str | None:
    """A window slides over a vector."""
    name = writer.value(1, least=3, known=True)
    window = writer.pick(lambda name: writer.symbolic(name) == (2,))
    if name is None or window is None:
        return None
    size = writer.shape(name)[0]
    return f"ed.einsum('ij,j->i', {name}[np.arange({size - 1})[:, None] + np.arange(2)], {window})"


def join(writer: Writer) -> str | None:
    one = writer.value()
    if one is None:
        return None
    axis = int(writer.rng.integers(len(writer.shape(one))))
    rest = [s for k, s in enumerate(writer.symbolic(one)) if k != axis]
    other = writer.pick(
        lambda name: (
            len(writer.shape(name)) == len(writer.shape(one))
            and [s for k, s in enumerate(writer.symbolic(name)) if k != axis] == rest
        )
    )
    if writer.rng.random() < 0.3 and writer.symbolic(str(other)) == writer.symbolic(one):
        return f"ed.stack([{one}, {other}], {axis})"
    return f"ed.concatenate([{one}, {other}], {axis})"


def reshaped(writer: Writer) -> str | None:
    name = writer.value(least=1, known=True)
    if name is None:
        return None
    size = prod(writer.shape(name))
    options = [(size,), *((k, size // k) for k in range(1, size + 1) if size % k == 0)]
    options += [(2, 2, size // 4)] if size % 4 == 0 else []
    form = f"ed.vec({name})" if len(writer.shape(name)) == 2 else f"ed.reshape({name}, (-1,))"
    return writer.choice([f"ed.reshape({name}, {writer.choice(options)})", form])


def kron(writer: Writer) -> str | None:
    one = writer.value(1, 2)
    if one is None:
        return None
    other = writer.value(len(writer.shape(one)))
    return f"ed.kron({one}, {other})"


MAPS: list[Step] = [
    slices,
    gather,
    pairs,
    neighbours,
    roll,
    convolution,
    join,
    reshaped,
    kron,
    slices,
    gather,
    neighbours,
]
STEPS: list[Step] = [*MAPS, *MAPS, *einsums.STEPS]


def generate(rng: Random) -> Case:
    shapes = [(3,), (4,), (5,), (2,), (3, 3), (2, 4), (4, 2), (1,), (2, 3)]
    variables = {}
    for k in range(int(rng.integers(1, 4))):
        shape = shapes[int(rng.integers(len(shapes)))]
        variables["xyz"[k]] = Declared(shape, rng.uniform(-1.2, 1.2, shape))
    writer = Writer(rng, {}, variables)
    writer.write(STEPS, int(rng.integers(2, 7)))
    return Case.of(writer)

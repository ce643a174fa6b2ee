"""Products and elementwise functions: deltas, ones, repeated labels, broadcasts, tensors of order up to 5."""

from __future__ import annotations

from fuzz.checks import Case
from fuzz.programs import Declared, Random, Size, Step, Writer

SMOOTH = ("sin", "cos", "tanh", "sigmoid", "softplus", "arctan", "erf", "exp", "sinh", "cosh", "expm1", "square")
OTHER = ("abs", "relu", "sign", "step", "log", "log1p", "sqrt", "reciprocal", "arcsin", "arccos", "tan")
LETTERS = "ijklmnpqrst"


def declare(rng: Random, count: int, sizes: dict[str, int] | None = None, most: int = 3) -> dict[str, Declared]:
    """Some variables; with named sizes, most axes have these."""
    variables = {}
    for k in range(count):
        shape: list[Size] = []
        for _ in range(int(rng.integers(0 if k else 1, most + 1))):
            name = rng.random() < 0.8 and sizes
            shape.append(
                str(rng.choice(list(sizes)))
                if name and sizes
                else int(rng.choice([1, 2, 2, 3] if len(shape) < 2 else [1, 2]))
            )
        actual = [size if isinstance(size, int) else (sizes or {})[size] for size in shape]
        positive = rng.random() < 0.2
        value = rng.uniform(0.3, 1.5, actual) if positive else rng.uniform(-1.2, 1.2, actual)
        variables["xyzuw"[k]] = Declared(tuple(shape), value, ("positive",) if positive and rng.random() < 0.5 else ())
    return variables


def einsum(writer: Writer) -> str | None:
    """A contraction of up to three values: axes of one size may share a label, the output may repeat or invent one."""
    names = [writer.pick() for _ in range(int(writer.rng.integers(1, 4)))]
    labels: dict[str, Size] = {}
    terms = []
    for name in names:
        term = ""
        for size in writer.symbolic(str(name)):
            known = [label for label in labels if labels[label] == size]
            if known and writer.rng.random() < 0.6:
                term += writer.choice(known)
            else:
                term += (label := LETTERS[len(labels)])
                labels[label] = size
            if len(labels) >= len(LETTERS) - 1:
                return None
        terms.append(term)
    output = [label for label in labels if writer.rng.random() < 0.55]
    if output and writer.rng.random() < 0.2:
        output.append(writer.choice(output))
    more = ""
    if writer.rng.random() < 0.1 and labels:
        size = writer.choice(list(labels.values()))
        output.append("z")
        if size not in writer.program.sizes and not isinstance(size, int):
            return None
        more = f", sizes={{'z': {size}}}"
    writer.rng.shuffle(output)
    return f"ed.einsum('{','.join(terms)}->{''.join(output[:5])}', {', '.join(map(str, names))}{more})"


def elementwise(writer: Writer) -> str | None:
    name = writer.pick()
    function = writer.choice(SMOOTH if writer.rng.random() < 0.75 else OTHER)
    return f"ed.{function}({writer.choice(['', '', '0.5 * ', '1 + ', '-'])}{name})"


def combine(writer: Writer) -> str | None:
    """Operators between values of one shape, or with scalars, or of which one has only the last axes of the other."""
    one = str(writer.pick())
    shape = writer.symbolic(one)
    other = writer.pick(lambda name: shape[len(shape) - len(writer.symbolic(name)) :] == writer.symbolic(name))
    form = writer.choice(["{} + {}", "{} - {}", "{} * {}", "{} / (1.5 + ed.square({}))", "0.5 * {} - {} + 1"])
    return form.format(one, other)


def power(writer: Writer) -> str | None:
    exponent = writer.choice([2, 3, 0.5, -1, 1.5, -2])
    return f"{writer.pick()} ** {exponent}" if exponent in (2, 3) else f"(1.2 + ed.sin({writer.pick()})) ** {exponent}"


def total(writer: Writer) -> str | None:
    name = writer.value()
    if name is None:
        return None
    axis = writer.choice([None, 0, -1])
    functions = ["sum", "sum", "mean"] if 0 not in writer.shape(name) else ["sum"]
    return f"ed.{writer.choice(functions)}({name}{'' if axis is None else f', {axis}'})"


def transposed(writer: Writer) -> str | None:
    name = writer.value(2, 3, 4, 5)
    if name is None:
        return None
    axes = [int(k) for k in writer.rng.permutation(len(writer.shape(name)))]
    return writer.choice([f"{name}.T", f"ed.transpose({name}, {axes})"])


def diagonal(writer: Writer) -> str | None:
    name = writer.value(1) if writer.rng.random() < 0.5 else writer.square()
    return None if name is None else f"ed.diag({name})"


STEPS: list[Step] = [einsum, einsum, elementwise, elementwise, combine, combine, power, total, transposed, diagonal]


def generate(rng: Random) -> Case:
    writer = Writer(rng, {}, declare(rng, int(rng.integers(1, 4)), most=5))
    writer.write(STEPS, int(rng.integers(2, 7)))
    return Case.of(writer)

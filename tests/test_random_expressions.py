"""Random expressions: their values and derivatives, in every mode, are those of JAX.

An expression is generated as Python text over a library `ed` and variables named after their shapes. Read with
`ed` = eindiff it is an expression, with `ed` = JAX a function of arrays. A counterexample is printed as that
text, so it can be pasted; hypothesis makes it short, because every choice has the simplest way out (a variable) first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from zlib import crc32

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import eindiff as ed
from oracles import JAX, MODES, assert_close, jit

Shape = tuple[int, ...]
Draw = Callable[[st.SearchStrategy], object]

RTOL = 1e-8
FLOOR = 1e-3  # terms of size 1 may cancel, and leave rounding errors
SIZES = (2, 3, 1, 4)
SHAPES: list[Shape] = [(2,), (2, 3), (), (3,), (3, 3), (2, 3, 2), (3, 1), (2, 2, 3, 2), (4,), (2, 4)]
EXAMPLES = 22  # for each operation at the root
LETTERS = "abcdefgh"


# The generator: a text of a given shape


@dataclass
class Grammar:
    """Draws texts. `depth` falls from an operation to its operands; at 0 there are variables only."""

    draw: Callable

    def choice(self, options: list) -> object:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def size(self) -> int:
        return self.choice(SIZES)

    def axis(self, shape: Shape) -> int:
        return self.draw(st.integers(0, len(shape) - 1))

    def any(self, shape: Shape, depth: int) -> str:
        """Any expression of the shape; a variable is the first choice."""
        fitting = [op for op in OPERATIONS.values() if depth > 0 and prod(shape) <= 36]
        pick = self.draw(st.integers(0, len(fitting)))
        text = fitting[pick - 1](self, shape, depth - 1) if pick else None
        return text or self.variable(shape)

    def variable(self, shape: Shape) -> str:
        """One of two variables of the shape; of those named p all entries are positive."""
        return self.choice("px") + "_".join(map(str, shape))

    def positive(self, shape: Shape, depth: int) -> str:
        """An expression that is positive everywhere."""
        forms = ["", "ed.exp({})", "ed.sigmoid({})", "ed.softplus({})", "(1 + ed.square({}))", "(1 + ed.exp({}))"]
        form = self.choice(forms if depth > 0 else forms[:1])
        return form.format(self.any(shape, depth - 1)) if form else "p" + "_".join(map(str, shape))

    def broadcastable(self, shape: Shape) -> Shape:
        """A shape that broadcasts to this one."""
        kept = shape[self.draw(st.integers(0, len(shape))) :]
        return tuple(1 if self.draw(st.integers(0, 3)) == 3 else size for size in kept)


# Operations: each gives a text of the shape, or None where it cannot


def elementwise(g: Grammar, shape: Shape, depth: int) -> str:
    names = ["tanh", "sin", "cos", "sigmoid", "softplus", "arctan", "erf", "abs", "relu", "square"]
    return f"ed.{g.choice(names)}({g.any(shape, depth)})"


def of_positive(g: Grammar, shape: Shape, depth: int) -> str:
    forms = ["ed.log({})", "ed.sqrt({})", "(1 / {})", "({}**1.5)", "({}**-2)", "ed.log1p({})"]
    return g.choice(forms).format(g.positive(shape, depth))


def add(g: Grammar, shape: Shape, depth: int) -> str:
    a, b = g.any(shape, depth), g.any(g.broadcastable(shape), depth)
    return g.choice(["({a} + {b})", "({a} - {b})", "({b} + {a})", "({b} - 2 * {a})"]).format(a=a, b=b)


def multiply(g: Grammar, shape: Shape, depth: int) -> str:
    a, b = g.any(shape, depth), g.broadcastable(shape)
    if g.chance():
        return f"({a} / {g.positive(b, depth)})"
    return f"({a} * {g.any(b, depth)})"


def scale(g: Grammar, shape: Shape, depth: int) -> str:
    return g.choice(["(-{})", "(0.7 * {})", "(2 - {})", "({} / 3)"]).format(g.any(shape, depth))


def einsum(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Up to three operands; output labels may repeat, or be in no operand, and operands may repeat labels too."""
    sizes: dict[str, int] = {}
    output = ""
    for size in shape:
        old = [label for label in sizes if sizes[label] == size]
        label = g.choice(old) if old and g.draw(st.integers(0, 3)) == 3 else LETTERS[len(sizes)]
        sizes[label] = size
        output += label
    for _ in range(g.draw(st.integers(0, 2))):
        sizes[LETTERS[len(sizes)]] = g.size()
    if not sizes:
        return None
    terms = ["".join(g.draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3)))]
    terms += ["".join(g.draw(st.lists(st.sampled_from(sorted(sizes)), max_size=3))) for _ in range(g.draw(st.integers(0, 2)))]
    operands = [g.any(tuple(sizes[label] for label in term), depth) for term in terms]
    unbound = {label: sizes[label] for label in output if label not in "".join(terms)}
    more = f", sizes={unbound}" if unbound else ""
    return f"ed.einsum('{','.join(terms)}->{output}', {', '.join(operands)}{more})"


def matmul(g: Grammar, shape: Shape, depth: int) -> str | None:
    if not shape:
        n = g.size()
        return f"({g.any((n,), depth)} @ {g.any((n,), depth)})"
    n = g.size()
    if len(shape) == 1:
        return f"({g.any((*shape, n), depth)} @ {g.any((n,), depth)})"
    *stack, m, k = shape
    left, right = (*stack, m, n), (n, k) if g.chance() else (*stack, n, k)
    return f"({g.any(left, depth)} @ {g.any(right, depth)})"


def shared(g: Grammar, shape: Shape, depth: int) -> str | None:
    """One subexpression used twice, in a product that is symmetric in it, or in like terms."""
    same = ["u * u", "u + ed.exp(-u * u)", "u * ed.sigmoid(u) - u", "ed.abs(u) * u", "ed.maximum(u, u * u)"]
    if len(shape) == 2 and shape[0] == shape[1]:
        same += ["u @ u", "u + u.T", "u @ u.T - u.T @ u", "ed.einsum('ij,kj->ik', u, u)", "ed.inv(u @ u.T + ed.eye({n}))"]
    if not shape:
        n = g.choice([(2,), (3, 3), (2, 3)])
        forms = {1: ["u @ u", "ed.sum(u * u)"], 2: ["ed.sum(u @ u.T)", "ed.einsum('ij,kj,kl,il->', u, u, u, u)"]}
        return f"(lambda u: {g.choice(forms[len(n)])})({g.any(n, depth)})"
    form = g.choice(same).replace("{n}", str(shape[-1]))
    return f"(lambda u: {form})({g.any(shape, depth)})"


def reduction(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Along one axis, two axes or all of them."""
    if len(shape) > 3:
        return None
    name = g.choice(["sum", "mean", "max", "prod", "logsumexp", "min", "norm1", "norm2"])
    positions = sorted(g.draw(st.lists(st.integers(0, len(shape)), min_size=1, max_size=4 - len(shape))))[:2]
    larger, axes = list(shape), []
    for count, position in enumerate(positions):
        larger.insert(position + count, g.size())
        axes.append(position + count)
    operand = g.positive(tuple(larger), depth) if name == "norm2" else g.any(tuple(larger), depth)
    if not shape and g.chance():
        return f"ed.{name}({operand})"
    return f"ed.{name}({operand}, {axes[0] if len(axes) == 1 else tuple(axes)})"


def along(g: Grammar, shape: Shape, depth: int) -> str | None:
    if not shape:
        return None
    return f"ed.{g.choice(['softmax', 'cumsum'])}({g.any(shape, depth)}, {g.axis(shape)})"


def transpose(g: Grammar, shape: Shape, depth: int) -> str | None:
    if len(shape) < 2:
        return None
    axes = g.draw(st.permutations(range(len(shape))))
    original = [0] * len(shape)
    for k, axis in enumerate(axes):
        original[axis] = shape[k]
    return f"ed.transpose({g.any(tuple(original), depth)}, {tuple(axes)})"


def index(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Slices with and without steps, integers, a list of integers, None and an ellipsis."""
    larger, entries, listed = [], [], False
    for size in shape:
        kinds = ["slice", "end", "step", "flip"] + ["none"] * (size == 1) + ["list"] * (not listed)
        kind = g.choice(kinds)
        if kind == "none":
            entries.append("None")
            continue
        more = g.draw(st.integers(0, 1))
        larger.append(2 * size if kind == "step" else size + more if kind in ("slice", "end") else size)
        if kind == "list":
            chosen = g.draw(st.lists(st.integers(-size, size - 1), min_size=size, max_size=size))
            listed = True
        entries.append({
            "slice": f"{more}:", "end": f":{-more}" if more else ":", "step": "::2", "flip": "::-1",
            "list": f"np.array({chosen})" if kind == "list" else "",
        }[kind])  # fmt: skip
    if len(larger) < 4 and not listed and g.chance():
        size = g.size()
        larger.insert(0, size)
        entries.insert(0, str(g.draw(st.integers(-size, size - 1))))
    if not entries:
        return None
    return f"{g.any(tuple(larger), depth)}[{', '.join(entries)}]"


def reshape(g: Grammar, shape: Shape, depth: int) -> str | None:
    factors = [p for size in shape for p in {2: [2], 3: [3], 4: [2, 2], 6: [2, 3], 8: [2, 4], 12: [3, 4]}.get(size, [size])]
    original: list[int] = [1] * g.draw(st.integers(0, 1))
    for factor in g.draw(st.permutations(factors)):
        if original and g.chance():
            original[-1] *= factor
        else:
            original.append(factor)
    while len(original) > 4:
        last = original.pop()
        original[-1] *= last
    return f"ed.reshape({g.any(tuple(original), depth)}, {shape})"


def join(g: Grammar, shape: Shape, depth: int) -> str | None:
    if not shape:
        return None
    axis = g.axis(shape)
    if shape[axis] <= 3 and g.chance():
        piece = shape[:axis] + shape[axis + 1 :]
        pieces = [g.any(piece, depth) for _ in range(shape[axis])]
        return f"ed.stack([{', '.join(pieces)}], {axis})"
    if shape[axis] < 2:
        return None
    first = g.draw(st.integers(1, shape[axis] - 1))
    parts = [g.any((*shape[:axis], n, *shape[axis + 1 :]), depth) for n in (first, shape[axis] - first)]
    return f"ed.concatenate([{', '.join(parts)}], {axis})"


def kron(g: Grammar, shape: Shape, depth: int) -> str | None:
    if len(shape) not in (1, 2):
        return None
    left = tuple(g.choice([d for d in range(1, size + 1) if size % d == 0]) for size in shape)
    right = tuple(size // d for size, d in zip(shape, left, strict=True))
    return f"ed.kron({g.any(left, depth)}, {g.any(right, depth)})"


def outer(g: Grammar, shape: Shape, depth: int) -> str | None:
    cut = g.draw(st.integers(0, len(shape)))
    return f"ed.outer({g.any(shape[:cut], depth)}, {g.any(shape[cut:], depth)})"


def compare(g: Grammar, shape: Shape, depth: int) -> str:
    a, b = g.any(shape, depth), g.any(g.broadcastable(shape), depth)
    if g.chance():
        return f"ed.where({g.any(shape, depth)} > 0.4321, {a}, {b})"
    return f"ed.{g.choice(['maximum', 'minimum'])}({a}, {b})"


def inverse(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Of matrices that have one: M M' + I."""
    form = "(lambda u: {f}(u @ u.T + ed.eye({n})))({matrix})"
    if not shape:
        n = g.choice([2, 3])
        name = g.choice(["ed.logdet", "ed.det", "ed.tr", "ed.log(ed.det", "(2 / ed.det"])
        text = form.format(f=name, n=n, matrix=g.any((n, g.size()), depth))
        return text.replace(")))(", "))))(") if name.count("(") else text
    n = shape[0]
    if len(shape) == 1:
        return f"(lambda u, b: ed.solve(u @ u.T + ed.eye({n}), b))({g.any((n, g.size()), depth)}, {g.any((n,), depth)})"
    if len(shape) == 2 and shape[0] == shape[1]:
        name = g.choice(["ed.inv", "ed.adj", "ed.chol"])
        return form.format(f=name, n=n, matrix=g.any((n, g.size()), depth))
    if len(shape) == 3 and shape[1] == shape[2]:
        return f"(lambda u: ed.inv(u @ ed.transpose(u, (0, 2, 1)) + ed.eye({shape[1]})))({g.any(shape, depth)})"
    return None


def diagonal(g: Grammar, shape: Shape, depth: int) -> str | None:
    if len(shape) == 1:
        return f"ed.diag({g.any(shape * 2, depth)})"
    if len(shape) == 2 and shape[0] == shape[1]:
        return g.choice(["ed.diag({})", "({} * ed.eye({n}))"]).format(g.any(shape[:1], depth), n=shape[0])
    if len(shape) == 2 and shape[0] == 1:
        return f"ed.vec({g.any(shape, depth)})[None]"
    return None


def rewritten(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Forms that have a stable or a simpler one."""
    any_, positive = g.any(shape, depth), g.positive(shape, depth)
    forms = [
        f"ed.log(ed.exp({any_}))", f"ed.exp(ed.log({positive}))", f"ed.log(1 + ed.exp({any_}))",
        f"(1 - ed.sigmoid({any_}))", f"(1 / (1 + ed.exp({any_})))", f"ed.sqrt(ed.square({any_}))",
        f"(lambda u: ed.exp(u) / (1 + ed.exp(u)))({any_})", f"(lambda u: u**0.5 * u**1.5)({positive})",
        f"(lambda u: u / u**3)({positive})", f"ed.log(ed.sigmoid({any_}))", f"ed.log({positive}**3)",
        f"(ed.sqrt({positive}) ** 4)", f"ed.log(ed.exp({any_}) + ed.exp({any_}))",
    ]  # fmt: skip
    if len(shape) < 4:
        larger = g.any((*shape, g.size()), depth)
        forms.append(f"ed.log(ed.sum(ed.exp({larger}), {len(shape)}))")
    if len(shape) == 2 and shape[0] == shape[1]:
        forms.append(f"(lambda u: ed.inv(u @ u.T + ed.eye({shape[0]})) @ u)({any_})")
        forms.append(f"ed.log(1 + ed.diag(ed.exp({g.any(shape[:1], depth)})))")
    return g.choice(forms)


OPERATIONS: dict[str, Callable[[Grammar, Shape, int], str | None]] = {
    f.__name__: f
    for f in (
        elementwise, add, multiply, scale, einsum, matmul, transpose, reduction, index, shared, of_positive, along,
        reshape, join, kron, outer, compare, inverse, diagonal, rewritten,
    )
}  # fmt: skip


# The property


@dataclass(frozen=True)
class Example:
    """An expression as text, and the variables to differentiate by."""

    text: str
    by: tuple[str, ...]

    def __repr__(self) -> str:
        return f"\n    {self.text}\n    by {', '.join(self.by)}\n"


def _names(text: str) -> list[str]:
    return sorted(set(re.findall(r"\b[px](?:\d+(?:_\d+)*)?\b", text)))


def _shape(name: str) -> Shape:
    return tuple(int(size) for size in name[1:].split("_") if size)


def _array(name: str) -> np.ndarray:
    """The data of a variable: always the same, so that an example is known by its text."""
    low = 0.4 if name[0] == "p" else -1.1
    return np.random.default_rng(crc32(name.encode())).uniform(low, 1.2, _shape(name))


@st.composite
def examples(draw: Draw, root: str, order: int) -> Example:
    """A text with the given operation at its root, and variables that occur in it."""
    g = Grammar(draw)
    shape = g.choice(SHAPES if order == 1 else SHAPES[:5])
    text = OPERATIONS[root](g, shape, 2)
    assume(text is not None)
    names = [name for name in _names(text) if order == 1 or prod(_shape(name)) <= 9]
    assume(names)
    return Example(text, tuple(g.choice(names) for _ in range(order)))


def _jax_values(example: Example, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The value, and the derivative by the example's variables from JAX, once in forward and once in reverse mode."""
    derivatives = []
    for first in (jax.jacfwd, jax.jacrev):
        function = lambda point: eval(example.text, {"ed": JAX, "np": np} | point) * 1.0  # noqa: E731
        for k, name in enumerate(example.by):
            function = _by(function, name, first if k == 0 else jax.jacfwd)
        derivatives.append(function)
    value = lambda point: eval(example.text, {"ed": JAX, "np": np} | point) * 1.0  # noqa: E731
    return [np.asarray(a) for a in jit(lambda point: [f(point) for f in (value, *derivatives)])(arrays)]


def _by(function: Callable, name: str, differentiate: Callable) -> Callable:
    return lambda point: differentiate(lambda x: function(point | {name: x}))(point[name])


def check(example: Example) -> None:
    arrays = {name: _array(name) for name in _names(example.text)}
    value, forward, reverse = _jax_values(example, arrays)
    assume(all(np.isfinite(a).all() and np.abs(a).max(initial=0) < 1e6 for a in (value, forward, reverse)))
    variables = {name: ed.tensor(name, _shape(name)) for name in arrays}
    y = eval(example.text, {"ed": ed, "np": np} | variables)
    assert_close(ed.evaluate(y, arrays), value, RTOL, FLOOR, f"the value of {y}")
    for mode in MODES:
        derivative = ed.derivative(y, *(variables[name] for name in example.by), mode=mode)
        actual = ed.evaluate(derivative, arrays)
        assert_close(actual, forward, RTOL, FLOOR, f"jax.jacfwd, {mode} of {y}: {derivative}")
        assert_close(actual, reverse, RTOL, FLOOR, f"jax.jacrev, {mode} of {y}: {derivative}")


quick = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip


@pytest.mark.parametrize("root", OPERATIONS)
def test_first_derivatives(root: str) -> None:
    quick(given(examples(root, 1))(check))()


@pytest.mark.parametrize("root", OPERATIONS)
def test_second_derivatives(root: str) -> None:
    settings(quick, max_examples=EXAMPLES // 3)(given(examples(root, 2))(check))()

"""A generator of random expressions.

An expression is generated as Python text over a library `ed` and variables named after their shapes. Read with
`ed` = eindiff it is an expression, with `ed` = JAX a function of arrays. A counterexample is printed as that text, so
it can be pasted. Hypothesis makes it short, because the first of all choices is always the simplest: a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import eindiff as ed
from eindiff.core.nodes import Constant, Expr, Variable
from eindiff.program.interpreter import evaluate

Shape = tuple[int, ...]

SIZES = (2, 3, 1, 4)
SHAPES: list[Shape] = [(2,), (2, 3), (), (3,), (3, 3), (2, 3, 2), (3, 1), (2, 2, 3, 2), (4,), (2, 4)]
DEPTH = 3
LARGEST = 36  # tensors with more entries are variables


# The generator


@dataclass(frozen=True)
class Grammar:
    """Draws texts of a given shape. The depth falls from an operation to its operands; at 0 there are variables."""

    draw: Callable[[st.SearchStrategy], Any]

    def upto(self, last: int) -> int:
        """A number from 0 on."""
        return self.draw(st.integers(0, last))

    def choice(self, options: Sequence) -> Any:
        return options[self.upto(len(options) - 1)]

    def size(self) -> int:
        return self.choice(SIZES)

    def rarely(self) -> bool:
        return self.upto(3) == 3

    def variable(self, shape: Shape) -> str:
        """One of the variables of the shape: p is positive, s is symmetric, x is neither."""
        square = len(shape) == 2 and shape[0] == shape[1] > 1
        return self.choice("pxs" if square else "px") + "_".join(map(str, shape))

    def any(self, shape: Shape, depth: int) -> str:
        """An expression of the shape."""
        operations = list(OPERATIONS.values()) if depth > 0 and prod(shape) <= LARGEST else []
        leaves = len(operations) // 4
        pick = self.upto(leaves + len(operations)) - leaves - 1
        text = operations[pick](self, shape, depth - 1) if pick >= 0 else None
        return text or self.variable(shape)

    def positive(self, shape: Shape, depth: int) -> str:
        """An expression of the shape that is positive everywhere."""
        forms = ["ed.exp({})", "ed.sigmoid({})", "ed.softplus({})", "(1 + ed.square({}))", "(1 + ed.exp({}))"]
        pick = self.upto(len(forms)) if depth > 0 else 0
        return self.fill(forms[pick - 1], shape, depth - 1) if pick else "p" + "_".join(map(str, shape))

    def fill(self, form: str, shape: Shape, depth: int) -> str:
        """A form with an expression of the shape for each {}, a positive one for each {p}, and {n} the last size."""

        def drawn(match: re.Match) -> str:
            if match[1] == "n":
                return str(shape[-1])
            return (self.positive if match[1] else self.any)(shape, depth)

        return re.sub(r"\{([pn]?)\}", drawn, form)

    def broadcastable(self, shape: Shape) -> Shape:
        """A shape that broadcasts to this one."""
        return tuple(1 if self.rarely() else size for size in shape[self.upto(len(shape)) :])


# Operations: each gives a text of the shape, or None where it cannot


def elementwise(g: Grammar, shape: Shape, depth: int) -> str:
    names = ["tanh", "sin", "cos", "sigmoid", "softplus", "arctan", "erf", "abs", "relu", "square"]
    return g.fill(f"ed.{g.choice(names)}({{}})", shape, depth)


def of_positive(g: Grammar, shape: Shape, depth: int) -> str:
    forms = ["ed.log({p})", "ed.sqrt({p})", "(1 / {p})", "({p}**1.5)", "({p}**-2)", "ed.log1p({p})", "({p}**{})"]
    return g.fill(g.choice(forms), shape, depth)


def scaled(g: Grammar, shape: Shape, depth: int) -> str:
    return g.fill(g.choice(["(-{})", "(0.7 * {})", "(2 - {})", "({} / 3)"]), shape, depth)


def add(g: Grammar, shape: Shape, depth: int) -> str:
    a, b = g.any(shape, depth), g.any(g.broadcastable(shape), depth)
    return g.choice(["({a} + {b})", "({a} - {b})", "({b} + {a})", "({b} - 2 * {a})"]).format(a=a, b=b)


def multiply(g: Grammar, shape: Shape, depth: int) -> str:
    b = g.fill(g.choice(["* {}", "/ {p}"]), g.broadcastable(shape), depth)
    return f"({g.any(shape, depth)} {b})"


def einsum(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Up to three operands; output labels may repeat, or be in no operand, and operands may repeat labels too."""
    letters = iter("abcdefgh")
    sizes: dict[str, int] = {}
    output = ""
    for size in shape:
        old = [label for label in sizes if sizes[label] == size]
        output += g.choice(old) if old and g.rarely() else next(letters)
        sizes[output[-1]] = size
    sizes |= {next(letters): g.size() for _ in range(g.upto(2))}
    if not sizes:
        return None
    terms = ["".join(g.choice(list(sizes)) for _ in range(1 + g.upto(2))) for _ in range(1 + g.upto(2))]
    operands = [g.any(tuple(sizes[label] for label in term), depth) for term in terms]
    unbound = {label: sizes[label] for label in output if label not in "".join(terms)}
    more = f", sizes={unbound}" if unbound else ""
    return f"ed.einsum('{','.join(terms)}->{output}', {', '.join(operands)}{more})"


def matmul(g: Grammar, shape: Shape, depth: int) -> str:
    n = g.size()
    if len(shape) < 2:
        left, right = (*shape, n), (n,)
    else:
        *stack, m, k = shape
        left, right = (*stack, m, n), g.choice([(n, k), (*stack, n, k)])
    return f"({g.any(left, depth)} @ {g.any(right, depth)})"


def shared(g: Grammar, shape: Shape, depth: int) -> str:
    """One subexpression used twice, in a product that is symmetric in it, or in like terms."""
    forms = ["u * u", "u + ed.exp(-u * u)", "u * ed.sigmoid(u) - u", "ed.abs(u) * u", "ed.maximum(u, u * u)"]
    if len(shape) == 2 and shape[0] == shape[1]:
        forms += ["u @ u", "u + u.T", "u @ u.T - u.T @ u", "ed.einsum('ij,kj->ik', u, u)", "u * u.T - u @ u"]
        forms += ["u - u.T", "ed.tanh(u - u.T) @ u", "(lambda d: d * d - d @ d)(u - u.T)", "ed.exp(u + u.T)"]
    if not shape:
        shape = g.choice([(2,), (3, 3), (2, 3)])
        forms = ["ed.sum(u * u)", "u @ u"] if len(shape) == 1 else ["ed.sum(u * u)", "ed.sum(u @ u.T)"]
        forms += ["ed.einsum('ij,kj,kl,il->', u, u, u, u)"] if len(shape) == 2 else []
        forms += ["ed.tr(u @ u @ u.T)", "ed.sum(u * (u - u.T))"] if shape == (3, 3) else []
    return g.fill(f"(lambda u: {g.choice(forms)})({{}})", shape, depth)


def reduction(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Along one axis or two, or of everything."""
    if len(shape) > 3:
        return None
    larger, axes = list(shape), []
    for _ in range(1 + (g.upto(1) if len(shape) < 3 else 0)):
        axes = [g.upto(len(larger))] if not axes else [axes[0], axes[0] + 1 + g.upto(len(larger) - axes[0] - 1)]
        larger.insert(axes[-1], g.size())
    name = g.choice(["sum", "mean", "max", "prod", "logsumexp", "min", "norm1", "norm2"])
    operand = "{p}" if name == "norm2" else "{}"  # the norm has a kink at 0
    axis = axes[0] if len(axes) == 1 else tuple(axes)
    everything = not shape and g.upto(1) == 1
    return g.fill(f"ed.{name}({operand})" if everything else f"ed.{name}({operand}, {axis})", tuple(larger), depth)


def along(g: Grammar, shape: Shape, depth: int) -> str | None:
    if not shape:
        return None
    return g.fill(f"ed.{g.choice(['softmax', 'cumsum'])}({{}}, {g.upto(len(shape) - 1)})", shape, depth)


def transpose(g: Grammar, shape: Shape, depth: int) -> str | None:
    if len(shape) < 2:
        return None
    axes = tuple(g.draw(st.permutations(range(len(shape)))))
    original = tuple(shape[axes.index(k)] for k in range(len(shape)))
    return f"ed.transpose({g.any(original, depth)}, {axes})"


def index(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Slices with and without steps, integers, one list of integers, and None."""
    larger, entries, kinds = [], [], ["slice", "stop", "step", "flip", "list"]
    for size in shape:
        kind = g.choice(kinds + ["new"] * (size == 1))
        extra = g.upto(1)
        if kind == "list":  # NumPy takes several lists together, as pairs
            kinds = kinds[:-1]
            entries.append(f"np.array({[g.upto(2 * size - 1) - size for _ in range(size)]})")
        else:
            stop = f":{-extra}" if extra else ":"
            entries.append({"slice": f"{extra}:", "stop": stop, "step": "::2", "flip": "::-1", "new": "None"}[kind])
        if kind != "new":
            larger.append({"slice": size + extra, "stop": size + extra, "step": 2 * size}.get(kind, size))
    if len(larger) < 4 and len(kinds) == 5 and g.upto(1) == 1:
        larger.insert(0, g.size())
        entries.insert(0, str(g.upto(2 * larger[0] - 1) - larger[0]))
    return f"{g.any(tuple(larger), depth)}[{', '.join(entries)}]" if entries else None


def reshape(g: Grammar, shape: Shape, depth: int) -> str:
    """From at most three axes whose sizes have the same prime factors."""
    original = [1] * (1 + g.upto(2))
    for factor in (p for size in shape for p in {4: [2, 2], 6: [2, 3], 8: [2, 4], 12: [3, 4]}.get(size, [size])):
        original[g.upto(len(original) - 1)] *= factor
    return f"ed.reshape({g.any(tuple(original), depth)}, {shape})"


def join(g: Grammar, shape: Shape, depth: int) -> str | None:
    """A stack or a concatenation."""
    if not shape:
        return None
    axis = g.upto(len(shape) - 1)
    before, size, after = shape[:axis], shape[axis], shape[axis + 1 :]
    if size == 1 or (size <= 3 and g.upto(1) == 1):
        pieces = [g.any(before + after, depth) for _ in range(size)]
        return f"ed.stack([{', '.join(pieces)}], {axis})"
    first = 1 + g.upto(size - 2)
    pieces = [g.any((*before, n, *after), depth) for n in (first, size - first)]
    return f"ed.concatenate([{', '.join(pieces)}], {axis})"


def kron(g: Grammar, shape: Shape, depth: int) -> str | None:
    if len(shape) not in (1, 2):
        return None
    left = tuple(g.choice([d for d in range(1, size + 1) if size % d == 0]) for size in shape)
    right = tuple(size // d for size, d in zip(shape, left, strict=True))
    return f"ed.kron({g.any(left, depth)}, {g.any(right, depth)})"


def outer(g: Grammar, shape: Shape, depth: int) -> str:
    cut = g.upto(len(shape))
    return f"ed.outer({g.any(shape[:cut], depth)}, {g.any(shape[cut:], depth)})"


def compare(g: Grammar, shape: Shape, depth: int) -> str:
    """The threshold is a number that no expression hits."""
    b = g.any(g.broadcastable(shape), depth)
    forms = [f"ed.maximum({{}}, {b})", f"ed.minimum({b}, {{}})", f"ed.where({{}} > 0.4321, {{}}, {b})"]
    return g.fill(g.choice(forms), shape, depth)


def inverse(g: Grammar, shape: Shape, depth: int) -> str | None:
    """Functions of matrices that have an inverse: M M' + I."""
    if not shape:
        n = g.choice([2, 3])
        form = g.choice(["ed.logdet(A)", "ed.det(A)", "ed.log(ed.det(A))", "ed.tr(ed.inv(A))", "1 / ed.det(A)"])
    elif len(shape) == 1:
        n, form = shape[0], f"ed.solve(A, {g.any(shape, depth)})"
    elif len(shape) == 2:
        n, form = shape[0], f"ed.solve(A, {g.any(shape, depth)})"
        if shape[0] == shape[1]:
            form = g.choice([form, "ed.inv(A)", "ed.adj(A)", "ed.chol(A)", "ed.matrix_power(A, -2)", "ed.inv(A) @ A"])
    elif len(shape) == 3 and shape[1] == shape[2]:
        gram = "(lambda u: ed.inv(u @ ed.transpose(u, (0, 2, 1)) + ed.eye({n})))({})"
        return g.fill(gram, shape, depth)
    else:
        return None
    matrix = g.any((n, g.size()), depth)
    return f"(lambda A: {form})((lambda u: u @ u.T + ed.eye({n}))({matrix}))"


def diagonal(g: Grammar, shape: Shape, depth: int) -> str | None:
    if len(shape) == 1:
        return f"ed.diag({g.any(shape * 2, depth)})"
    if len(shape) == 2 and shape[0] == shape[1]:
        entries = g.any(g.choice([shape[:1], shape]), depth)
        return f"({entries} * ed.eye({shape[0]}))" if g.upto(1) else f"ed.diag({g.any(shape[:1], depth)})"
    if len(shape) == 2 and shape[0] == 1:
        return f"ed.vec({g.any(shape, depth)})[None]"
    return None


REWRITTEN = [
    "ed.log(ed.exp({}))", "ed.exp(ed.log({p}))", "ed.log(1 + ed.exp({}))", "ed.log(ed.exp({}) + ed.exp({}))",
    "(1 - ed.sigmoid({}))", "(1 / (1 + ed.exp({})))", "ed.log(ed.sigmoid({}))", "ed.sqrt(ed.square({}))",
    "(lambda u: ed.exp(u) / (1 + ed.exp(u)))({})", "(lambda u: u**0.5 * u**1.5)({p})", "(lambda u: u / u**3)({p})",
    "ed.log({p}**3)", "(ed.sqrt({p})**4)", "ed.abs(-2 * {})", "ed.log(2 * ed.exp({}))", "ed.exp({} - {})",
]  # fmt: skip


def rewritten(g: Grammar, shape: Shape, depth: int) -> str:
    """Forms that have a stable or a simpler one."""
    forms = list(REWRITTEN)
    if len(shape) == 2 and shape[0] == shape[1]:
        forms += ["(lambda u: ed.inv(u @ u.T + ed.eye({n})) @ u)({})"]
        forms += ["(lambda u: ed.inv(u * u + 9 * ed.eye({n})).T)({})"]
        forms += [f"ed.log(1 + ed.diag(ed.exp({g.any(shape[:1], depth)})))"] if g.rarely() else []
    if len(shape) < 4 and g.rarely():
        return g.fill(f"ed.log(ed.sum(ed.exp({{}}), {len(shape)}))", (*shape, g.size()), depth)
    return g.fill(g.choice(forms), shape, depth)


OPERATIONS: dict[str, Callable[[Grammar, Shape, int], str | None]] = {
    operation.__name__: operation
    for operation in (
        elementwise, add, multiply, scaled, einsum, matmul, transpose, reduction, index, shared, of_positive, along,
        reshape, join, kron, outer, compare, inverse, diagonal, rewritten,
    )
}  # fmt: skip


# Examples


@dataclass(frozen=True)
class Example:
    """An expression as text, and the names of the variables to differentiate by."""

    text: str
    by: tuple[str, ...]

    def __repr__(self) -> str:
        return f"\n    {self.text}\n    by {', '.join(self.by)}\n"


def names_in(text: str) -> list[str]:
    """The names of the variables in a text."""
    return sorted(set(re.findall(r"\b[pxs](?:\d+(?:_\d+)*)?\b", text)))


def shape_of(name: str) -> Shape:
    """The shape that a name tells."""
    return tuple(int(size) for size in name[1:].split("_") if size)


def array_of(name: str) -> np.ndarray:
    """The data of a variable: always the same, so that an example is known by its text."""
    array = np.random.default_rng(crc32(name.encode())).uniform(0.4 if name[0] == "p" else -1.1, 1.2, shape_of(name))
    return array + array.T if name[0] == "s" else array


def variable_of(name: str) -> Variable:
    """The variable of a name."""
    return ed.symmetric(name, shape_of(name)[0]) if name[0] == "s" else ed.tensor(name, shape_of(name))


@st.composite
def examples(draw: Callable, root: str, order: int) -> Example:
    """A text with the given operation at its root, and variables that occur in it."""
    g = Grammar(draw)
    text = OPERATIONS[root](g, g.choice(SHAPES if order == 1 else SHAPES[:5]), DEPTH - order + 1)
    assume(text is not None)
    names = [name for name in names_in(text) if prod(shape_of(name)) <= (LARGEST if order == 1 else 9)]
    assume(names)
    return Example(text, tuple(g.choice(names) for _ in range(order)))


def run(strategy: st.SearchStrategy[Example], count: int, check: Callable[[Example], None]) -> None:
    """A property for some examples, always the same ones."""
    quiet = list(HealthCheck)
    limits = settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=quiet)
    limits(given(strategy)(check))()


def example_outputs(example: Example) -> tuple[list[Expr], dict[str, np.ndarray], list[np.ndarray]]:
    """The value of an expression, its derivatives and its first parts; arrays for it, and what is expected."""
    arrays = {name: array_of(name) for name in names_in(example.text)}
    variables = {name: variable_of(name) for name in arrays}
    outputs = [eval(example.text, {"ed": ed, "np": np} | variables)]
    parts = [part for part in outputs[0].children if not isinstance(part, Constant)]
    for name in example.by:
        outputs.append(ed.derivative(outputs[-1], variables[name]))
    try:
        expected = evaluate(outputs := [*outputs, *parts[:2]], arrays)
    except ed.EindiffError:
        assume(False)
    assume(all(np.isfinite(value).all() and np.abs(value).max() < 1e6 for value in expected))
    return outputs, arrays, expected

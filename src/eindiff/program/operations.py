"""Operations as text: an interned graph of pieces of Python source, with the shapes and the work of each.

An `Operation` is a template with places for its operands. Equal operations are one object, so what is used twice is
seen to be used twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from eindiff.core import sizes as sz
from eindiff.core.nodes import Number, number
from eindiff.core.sizes import Shape, Size
from eindiff.core.traverse import post_order

CHUNK = 8  # longer sums and products are written in parts

# What the outermost operator of a piece of source is. A place in a template has the kinds it takes without parentheses.
ATOM, POWER, NEGATIVE, TIMES, MATMUL, PLUS = "atom", "power", "negative", "times", "matmul", "plus"
Kinds = frozenset[str]
ANY = frozenset({ATOM, POWER, NEGATIVE, TIMES, MATMUL, PLUS})
ATOMS = frozenset({ATOM})
FACTORS = frozenset({ATOM, POWER})
FIRST_FACTOR = frozenset({ATOM, POWER, TIMES})
FIRST_MATRIX = frozenset({ATOM, POWER, MATMUL})
TERMS = frozenset({ATOM, POWER, TIMES, MATMUL})
FIRST_TERM = TERMS | {NEGATIVE}


Work = Size | Callable[[Callable[[Size], int]], float]  # as a polynomial in sizes, or from a way to evaluate sizes

# How fast an operation runs, for the cost model: at the speed of matrix products, of a pass over memory, of functions
# like exp, or of decompositions.
BLAS, ARITHMETIC, FUNCTION, LAPACK = "blas", "arithmetic", "function", "lapack"


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """A piece of source with places `{0}`, `{1}`, ... for operands; with `lines`, statements that make `{out}`."""

    template: str
    operands: tuple[Operation, ...] = ()
    places: tuple[Kinds, ...] = ()
    kind: str = ATOM
    cheap: bool = False  # a name, a number or a view: written out wherever it is used
    view: bool = False  # may share memory with an operand
    role: tuple = ()  # what the algebra needs to know: ("transpose", x), ("reciprocal", x), ("inverse", a), ...
    lines: tuple[str, ...] = ()
    fresh: bool = False  # the first line takes its operand over and changes it in place
    shape: Shape = ()
    work: Work = 0  # operations on numbers
    speed: str = ARITHMETIC
    scratch: Size = 0  # entries that are needed while it runs
    serial: int = 0  # in order of being made


@dataclass(slots=True)
class Operations:
    """Makes operations, each once."""

    known: dict[tuple, Operation] = field(default_factory=dict)
    symmetric: set[Operation] = field(default_factory=set)  # matrices that equal their transposes
    dtype: str = ""  # what is written after the shape of a new array
    functional: bool = False  # arrays are not changed in place, have one type, and no branch depends on values
    slices_backward: bool = True

    def make(
        self, template: str, operands: Sequence[Operation] = (), places: Sequence[Kinds] | None = None, **more: Any
    ) -> Operation:
        """The one operation of this template and these operands; if nothing else is said, an elementwise one."""
        key = (template, tuple([id(x) for x in operands]), more.get("lines", ()))
        if key not in self.known:
            allowed = tuple(places) if places is not None else (ANY,) * len(operands)
            more.setdefault("shape", broadcast([x.shape for x in operands]))
            if not (more.get("cheap") or more.get("view")):
                more.setdefault("work", sz.multiply(max(1, len(operands) - 1), sz.product(more["shape"])))
            self.known[key] = Operation(template, tuple(operands), allowed, serial=len(self.known), **more)
        return self.known[key]

    def name(self, text: str, shape: Shape = (), kind: str = ATOM) -> Operation:
        """A name, or anything else that is short and costs nothing to compute."""
        return self.make(text, kind=kind, cheap=True, shape=shape)

    def number(self, value: Number) -> Operation:
        """A number, exactly."""
        text = number_text(value)
        kind = NEGATIVE if text.startswith("-") else TIMES if "/" in text else ATOM
        return self.make(text, kind=kind, cheap=True, role=("number", value))

    def transpose(self, x: Operation) -> Operation:
        """The transpose of a matrix."""
        if x.role[:1] == ("transpose",):
            return x.role[1]
        if x in self.symmetric:
            return x
        return self.make("{0}.T", [x], [ATOMS], cheap=True, view=True, role=("transpose", x), shape=x.shape[::-1])

    def array(self, x: Operation) -> Operation:
        """A number as an array."""
        return self.make(f"np.array({{0}}{self.dtype})", [x], work=0)

    def matmul(self, a: Operation, b: Operation) -> Operation:
        """`a @ b`, with NumPy's rules for vectors and stacks of matrices."""
        rows, columns = a.shape[-2:-1], b.shape[-1:] if len(b.shape) > 1 else ()
        shape = (*broadcast([a.shape[:-2], b.shape[:-2]]), *rows, *columns)
        work = sz.multiply(2, sz.product((*shape, a.shape[-1])))
        role = ("matmul", a, b)
        return self.make(
            "{0} @ {1}", [a, b], [FIRST_MATRIX, ATOMS], kind=MATMUL, role=role, shape=shape, work=work, speed=BLAS,
        )  # fmt: skip

    def power(self, x: Operation, exponent: Number) -> Operation:
        """`x ** exponent`, with roots and reciprocals as they are usually written."""
        if exponent == 1:
            return x
        if exponent < 0:
            return self.quotient(1, [], [self.power(x, -exponent)])
        if exponent == Fraction(1, 2):
            return self.make("np.sqrt({0})", [x], speed=FUNCTION)
        if isinstance(exponent, Fraction) and exponent.denominator == 2 and exponent > 1:
            return self.times([self.power(x, number(exponent - Fraction(1, 2))), self.power(x, Fraction(1, 2))])
        text = number_text(exponent)
        speed = ARITHMETIC if exponent == 2 else FUNCTION
        return self.make(f"{{0}}**{f'({text})' if '/' in text else text}", [x], [ATOMS], kind=POWER, speed=speed)

    def quotient(self, coefficient: Number, above: Sequence[Operation], below: Sequence[Operation]) -> Operation:
        """`coefficient * above / below`, each a product of operations of one shape."""
        if not below:
            return self.scale(coefficient, self.times(above)) if above else self.number(coefficient)
        bottom = self.times(below)
        role = ("reciprocal", bottom) if not above and coefficient == 1 else ()
        top = self.scale(coefficient, self.times(above)) if above else self.number(coefficient)
        return self.make("{0} / {1}", [top, bottom], [FIRST_FACTOR | {NEGATIVE}, FACTORS], kind=TIMES, role=role)

    def times(self, factors: Sequence[Operation]) -> Operation:
        """The elementwise product, where equal factors are powers; next to numbers a condition is a number."""
        masks = [x for x in dict.fromkeys(factors) if x.role[:1] == ("mask",)]
        powers = [self.power(x, count) for x, count in Counter(factors).items() if x not in masks]
        numbers = any(x.shape for x in powers)  # next to arrays of numbers a condition is one
        powers = [*(x.role[1] if numbers else x for x in masks), *powers]
        while len(powers) > CHUNK:
            powers = [self.times(powers[:CHUNK]), *powers[CHUNK:]]
        if len(powers) == 1:
            return powers[0]
        template = " * ".join(f"{{{k}}}" for k in range(len(powers)))
        return self.make(template, powers, [FIRST_FACTOR, *[FACTORS] * (len(powers) - 1)], kind=TIMES)

    def mask(self, condition: Operation) -> Operation:
        """1 where a condition holds, else 0."""
        kind = "np.float32" if self.dtype else "float"
        return self.make(f"{{0}}.astype({kind})", [condition], [ATOMS], role=("mask", condition))

    def scale(self, coefficient: Number, x: Operation) -> Operation:
        """`coefficient * x`."""
        if coefficient == 1:
            return x
        if coefficient == -1 and x.template == "-{0}":
            return x.operands[0]
        if x.role[:1] == ("number",):
            return self.number(coefficient * x.role[1])
        if x.role[:1] == ("reciprocal",):
            return self.quotient(coefficient, [], [x.role[1]])
        if coefficient == -1:
            return self.make("-{0}", [x], [FIRST_FACTOR], kind=NEGATIVE)
        return self.make(f"{number_text(coefficient)} * {{0}}", [x], [FIRST_FACTOR], kind=TIMES)

    def plus(self, terms: Sequence[tuple[Number, Operation]]) -> Operation:
        """The sum of multiples of operations, positive ones first."""
        ordered = sorted(terms, key=lambda term: (term[0] < 0, term[1].role[:1] == ("number",)))
        while len(ordered) > CHUNK:
            ordered = [(1, self.plus(ordered[:CHUNK])), *ordered[CHUNK:]]
        if len(ordered) == 1:
            return self.scale(*ordered[0])
        template, operands = "{0}", [self.scale(*ordered[0])]
        for k, (coefficient, x) in enumerate(ordered[1:], 1):
            if x.role[:1] == ("number",):
                coefficient, x = coefficient * x.role[1], self.number(1)
            template += f" {'-' if coefficient < 0 else '+'} {{{k}}}"
            operands.append(self.scale(-coefficient if coefficient < 0 else coefficient, x))
        places = [FIRST_TERM | {PLUS}, *[TERMS] * (len(ordered) - 1)]
        role = ("plus", *(part for term in ordered for part in term))
        return self.make(template, operands, places, kind=PLUS, role=role)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that arrays have together.

    >>> broadcast([("m", 1), ("n",), ()])
    ('m', 'n')
    """
    result: list[Size] = [1] * max([len(shape) for shape in shapes], default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, len(result) - len(shape)):
            if result[axis] == 1:
                result[axis] = size
    return tuple(result)


def number_text(value: Number) -> str:
    """A number as Python source: short decimals as such, other fractions as quotients.

    >>> number_text(Fraction(1, 2)), number_text(Fraction(1, 3)), number_text(3)
    ('0.5', '1/3', '3')
    """
    if isinstance(value, Fraction):
        short = Fraction(repr(float(value))) == value and len(repr(float(value))) < 8
        return repr(float(value)) if short else f"{value.numerator}/{value.denominator}"
    text = repr(value)
    return text.replace("inf", "np.inf").replace("nan", "np.nan")


def is_number(x: Operation) -> bool:
    """Whether an operation gives one of Python's numbers: arithmetic of numbers and sizes."""
    if x.role[:1] in (("number",), ("size",)):
        return True
    return bool(x.operands) and not re.search("[a-z]", x.template) and all(map(is_number, x.operands))


def reachable(outputs: Iterable[Operation]) -> list[Operation]:
    """All operations below the outputs, each after its operands."""
    return post_order(outputs, lambda operation: operation.operands)


def count_uses(order: Sequence[Operation], outputs: Iterable[Operation]) -> Counter[Operation]:
    """How often each operation is written if everything used once, and every view, stands where it is used."""
    uses: Counter[Operation] = Counter(outputs)
    for x in reversed(order):
        for y in x.operands:
            uses[y] += uses[x] if x.cheap else 1
    return uses


def tidy(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """`(A @ B.T).T` is `B @ A.T` and `-(a - b)` is `b - a`, where what is inside is not needed as it is."""
    order = reachable(outputs)
    uses = count_uses(order, outputs)
    done: dict[Operation, Operation] = {}
    for x in order:
        operands = [done[y] for y in x.operands]
        better = _turned(operations, x, operands[0]) if len(operands) == 1 and uses[x.operands[0]] == 1 else None
        if better is None:
            same = all(new is old for new, old in zip(operands, x.operands, strict=True))
            better = x if same else _with_operands(operations, x, operands)
        done[x] = better
    return [done[x] for x in outputs]


def _turned(operations: Operations, x: Operation, inner: Operation) -> Operation | None:
    """A transposed product or a negated difference in another way, if that is simpler."""
    if x.role[:1] == ("transpose",) and inner.role[:1] == ("matmul",):
        a, b = inner.role[1:]
        if any(y.role[:1] == ("transpose",) or y in operations.symmetric for y in (a, b)):
            return operations.matmul(operations.transpose(b), operations.transpose(a))
    if x.template == "-{0}" and inner.role[:1] == ("plus",):
        coefficients, terms = inner.role[1::2], inner.role[2::2]
        if min(coefficients) < 0:
            return operations.plus([(-c, term) for c, term in zip(coefficients, terms, strict=True)])
    return None


def _with_operands(operations: Operations, x: Operation, operands: list[Operation]) -> Operation:
    renamed = dict(zip(x.operands, operands, strict=True))
    role = tuple([renamed.get(part, part) if isinstance(part, Operation) else part for part in x.role])
    if role[:1] == ("transpose",):
        return operations.transpose(role[1])
    same = ("kind", "cheap", "view", "lines", "fresh", "shape", "work", "speed", "scratch")
    kept = {name: getattr(x, name) for name in same}
    result = operations.make(x.template, operands, x.places, role=role, **kept)
    if x in operations.symmetric:
        operations.symmetric.add(result)
    return result

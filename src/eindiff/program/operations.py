"""Operations as data: an interned graph of what a program computes, with the shapes and the work of each.

An `Operation` is one of a fixed set of operations with its operands and parameters. Equal operations are one object, so
what is used twice is seen to be used twice. How it is written is the matter of `backends` and `write`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations, islice
from operator import attrgetter
from typing import Any, Literal, get_args

from eindiff.core import sizes as sz
from eindiff.core.coefficients import ratio
from eindiff.core.nodes import Number, number
from eindiff.core.remembered import ordered
from eindiff.core.sizes import Evaluate, Shape, Size
from eindiff.core.traverse import post_order
from eindiff.program.near_terms import in_pairs

CHUNK = 8  # longer sums and products are written in parts
MOST_TRIED = 8  # sums that are tried as parts of others
MOST_FACTORS = 16  # of a power that is a product: roundings add up

# What there is, with the parameters of each in parentheses. A cut along an axis is a place or (start, stop, step).
Op = Literal[
    # Without operands
    "input",  # (name of a variable)
    "number",  # (value)
    "size",  # (size)
    "constant",  # (shape, bytes): an array of known numbers
    "table",  # (shape, Table): an array of known places
    "zeros", "ones",  # (*shape)
    "identity", "triangle",  # (size): unit matrix, lower triangle of ones
    "range",  # (size): 0, 1, 2, ...
    # Places
    "integers",  # an array of whole numbers as places
    "flat",  # (*shape): places along each axis of an array as places in its entries, one after the other
    # Views
    "transpose", "swap",  # of a matrix, of each matrix in a stack
    "permute",  # (*axes)
    "expand",  # (*whether each axis of the result is one of the operand, or new)
    "only",  # (*whether each axis is left out: its one entry is taken)
    "cut",  # (axis, cut)
    "flip",  # (axis)
    "reshape", "broadcast",  # (*shape)
    "diagonal",  # (subscripts)
    "windows",  # (axis, offset, *(step, size)): entries at the offset plus so many of each step
    "part",  # (place of a matrix in a factorization, whether it is transposed)
    # Copies
    "array",  # a number as an array
    "full",  # (*shape): the operand everywhere
    "repeat",  # (*shape): `broadcast`, copied
    "contiguous",  # in the order of its axes in memory (for compilers: "apart", stored so)
    "diagonal_matrix",  # (for compilers: "alone" if there is nothing else, "again" if there is an equal one)
    "take",  # (axis): entries at places, which are the other operands
    "concatenate",  # (axis)
    "put",  # (shape, cuts or None, whether there is a base): entries at places, added to zeros or a base
    "fill",  # (whether the first operand is taken over, shape, assignments): the same in place, see `Assignment`
    "balance",  # (axis, other): on their diagonal what the other entries along the first one add up to, negative
    # Arithmetic, entry by entry
    "negate", "multiply", "divide",
    "scale",  # (coefficient)
    "power",  # (exponent)
    "reciprocal",
    "raise",  # the first to the power of the second
    "add",  # (*signs)
    "mean",  # of two
    "logistic",  # 1 / (1 + x)
    "complement",  # 1 - y of x and y = 1 / (1 + x), as x * y
    "positive",  # whether x > 0
    "mask",  # 1 where a condition holds, else 0
    # Sums of products
    "sum",  # (*axes that are left out; none: all)
    "running_sum",  # (axis, whether it starts at the end)
    "trace",  # (subscripts)
    "inner",
    "matmul",  # (whether BLAS has one thread,) if some rows at a time
    "outer",  # (True, if BLAS is to compute it)
    "einsum",  # (subscripts, whether the order of multiplication is left to NumPy)
    "gram",  # X' diag(d) X
    "mirrored",  # (whether M is symmetric in k and l): the sum over s of x[i, s] x[m, s] M[s, k, l]
    "solve",  # ("lower", "upper", "tridiagonal", "banded" or "")
    "structured_product",  # (where the entries of the first of two matrices are, the same words, or "permutation")
    "triangular_inverse",  # ("lower" or "upper")
    # Factorizations
    "factors",  # (whether the matrix is symmetric, or "cholesky": of its factor)
    "solve_factored",  # (whether the matrix is transposed): of factors and right sides
    "of_factors",  # (name of a function of the matrix)
    "solve_many",  # of a small matrix and many right sides
    "conjugate_inverse",  # X' inv(A) X, of factors of a symmetric A and X
    "conjugate_diagonal",  # its diagonal
    # Some rows at a time
    "tiles",  # (Loop, see `write.tiles`): operations on some rows of what is computed before
    "tiled",  # (place among the results of tiles)
    # Functions
    "call",  # (name of the function, *its parameters)
    "reduce",  # (name of the function, axis or None)
    "divided", "opaque",  # (name): divided differences; functions of the library that an expression came from
    # Roots of sums of squares, which are given: (whether numbers have half the precision, axes of x that are summed)
    "norm",
    "norm_of_several",  # the same of several arrays, each summed along so many last axes
]  # fmt: skip
OPS: tuple[Op, ...] = get_args(Op)

# May share memory with an operand.
VIEW_OPS = frozenset({
    "transpose", "swap", "permute", "expand", "only", "cut", "flip", "reshape", "broadcast", "diagonal", "windows",
    "part",
})  # fmt: skip
# Written out wherever they are used.
CHEAP_OPS = frozenset({"input", "number", "size", "transpose", "swap", "permute", "expand", "only", "cut", "part"})
# Of Python's numbers they make one of Python's numbers.
ARITHMETIC_OPS = frozenset(
    {"negate", "multiply", "divide", "scale", "power", "reciprocal", "raise", "add", "mean", "logistic"}
)
# Besides functions, what warns of more than overflow.
DIVISIONS = frozenset({"divide", "reciprocal", "logistic", "complement"})
# Their parameters are numbers, which are told apart as they are written: 2 and 2.0, 0.0 and -0.0.
_OF_NUMBERS = frozenset({"number", "scale", "power"})

_OPERANDS = attrgetter("operands")

LISTED = 2000  # places that may stand in the source of a program

Cut = Size | tuple[Size | None, Size | None, Size | None]
# Where a term is added to an array: how ("diagonal", "window", a diagonal of what cuts give, "cuts", "places", "at",
# which adds up at equal flat places, "balance", on a diagonal what is beside it along an axis, with the other sign, or
# "block" and "balanced block", these in a tile), the sign ("=", "+=" or "-="), subscripts or cuts (of a window both, of
# a block subscripts and the axes that are cut like its rows, of what is balanced also that axis), and the number of
# index arrays, which follow the term as operands.
Assignment = tuple[str, str, Any, int]

Work = Size | Callable[[Evaluate], float]  # as a polynomial in sizes, or from a way to evaluate sizes

# How fast an operation runs, for the cost model: at the speed of matrix products, of a pass over memory, of functions
# like exp, or of decompositions.
BLAS, ARITHMETIC, FUNCTION, LAPACK = "blas", "arithmetic", "function", "lapack"


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """One operation on arrays: what it does, with what, and what that costs."""

    op: Op
    operands: tuple[Operation, ...]
    parameters: tuple
    shape: Shape
    work: Work  # operations on numbers
    speed: str
    scratch: Size  # entries that are needed while it runs
    serial: int  # in order of being made
    cheap: bool  # a name, a number or a view: written out wherever it is used
    view: bool  # may share memory with an operand

    @property
    def is_fresh(self) -> bool:
        """Whether it takes its first operand over and changes it in place."""
        return self.op == "fill" and self.parameters[0]

    @property
    def calls(self) -> int:
        """The statements that it takes."""
        return 1 + len(self.parameters[2]) if self.op == "fill" else 1


@dataclass(slots=True)
class Operations:
    """Makes operations, each once, for programs of one kind."""

    known: dict[tuple, Operation] = field(default_factory=dict)
    symmetric: set[Operation] = field(default_factory=set)  # matrices that equal their transposes
    halves: dict[Operation, str] = field(default_factory=dict)  # where entries of matrices are, see `lower.halves`
    permutations: set[Operation] = field(default_factory=set)  # inputs that are declared as such
    exponentials: dict[Operation, Operation] = field(default_factory=dict)  # in sigmoids, by what they are those of
    single: bool = False  # numbers have half the precision
    functional: bool = False  # arrays are not changed in place, have one type, and no branch depends on values
    slices_backward: bool = True
    compiled: bool = False  # a compiler fuses the operations
    conditions: bool = False  # there is a word for what is chosen where they hold, in functional programs too
    fast_power: int = MOST_FACTORS  # of arrays: higher ones are products, see `power`
    shares_sums: bool = False  # sums are parts of larger ones
    # the coefficients of sums that were made, by the last of their terms, each once, however often it is asked for
    sums: dict[Operation, dict[Operation, dict[Operation, Number]]] = field(default_factory=dict)
    with_term: dict[Operation, dict[Operation, dict[Operation, Number]]] = field(default_factory=dict)  # by each term

    def make(
        self, op: Op, operands: Sequence[Operation] = (), parameters: tuple = (), *, shape: Shape | None = None,
        work: Work | None = None, speed: str = ARITHMETIC, scratch: Size = 0,
    ) -> Operation:  # fmt: skip
        """The one operation of these operands and parameters; if nothing else is said, an elementwise one."""
        exact = repr(parameters) if op in _OF_NUMBERS else parameters
        key = (op, exact, tuple([id(x) for x in operands]))
        if (found := self.known.get(key)) is not None:
            return found
        cheap, view = op in CHEAP_OPS, op in VIEW_OPS
        if shape is None:
            shape = broadcast([x.shape for x in operands])
        if work is None:
            work = 0 if cheap or view else sz.multiply(max(1, len(operands) - 1), sz.product(shape))
        serial = len(self.known)
        made = Operation(op, tuple(operands), parameters, shape, work, speed, scratch, serial, cheap, view)
        self.known[key] = made
        return made

    def number(self, value: Number) -> Operation:
        """A number, exactly."""
        return self.make("number", parameters=(value,))

    def transpose(self, x: Operation) -> Operation:
        """The transpose of a matrix."""
        if x.op == "transpose":
            return x.operands[0]
        return x if x in self.symmetric else self.make("transpose", [x], shape=x.shape[::-1])

    def array(self, x: Operation) -> Operation:
        """A number as an array."""
        return self.make("array", [x], work=0)

    def matmul(self, a: Operation, b: Operation) -> Operation:
        """`a @ b`, with NumPy's rules for vectors and stacks of matrices."""
        rows, columns = a.shape[-2:-1], b.shape[-1:] if len(b.shape) > 1 else ()
        shape = (*broadcast([a.shape[:-2], b.shape[:-2]]), *rows, *columns)
        work = sz.multiply(2, sz.product((*shape, a.shape[-1])))
        if a is b and a in self.symmetric and not self.functional:
            a = self.make("transpose", [a])  # so NumPy sees that it computes twice what it needs
        return self.make("matmul", [a, b], shape=shape, work=work, speed=BLAS)

    def power(self, x: Operation, exponent: Number) -> Operation:
        """`x ** exponent`, with roots and reciprocals as they are usually written.

        Whole powers of arrays are products where a library takes a logarithm for them: NumPy takes more than 100 times
        as long for the third power of negative numbers.
        """
        if exponent == 1:
            return x
        if exponent < 0:
            return self.quotient(1, [], [self.power(x, -exponent)])
        if exponent == Fraction(1, 2):
            return self.make("call", [x], ("sqrt",), speed=FUNCTION)
        if isinstance(exponent, Fraction) and exponent.denominator == 2 and exponent > 1:
            return self.times([self.power(x, number(exponent - Fraction(1, 2))), self.power(x, Fraction(1, 2))])
        if x.shape and isinstance(exponent, int) and self.fast_power < exponent <= MOST_FACTORS:
            half, odd = divmod(exponent, 2)
            squared = self.make("power", [self.power(x, half)], (2,))
            return self.make("multiply", [x, squared]) if odd else squared
        return self.make("power", [x], (exponent,), speed=ARITHMETIC if exponent == 2 else FUNCTION)

    def quotient(self, coefficient: Number, above: Sequence[Operation], below: Sequence[Operation]) -> Operation:
        """`coefficient * above / below`, each a product of operations of one shape."""
        bottom = self.times(below) if below else None
        if bottom is not None and self.compiled and above and not any(x.shape for x in (*above, bottom)):
            # a quotient of numbers takes a compiler a function of its own, a product does not
            above, bottom = [*above, self.make("reciprocal", [bottom])], None
        top = self.scale(coefficient, self.times(above)) if above else self.number(coefficient)
        return top if bottom is None else self.make("divide", [top, bottom])

    def times(self, factors: Sequence[Operation]) -> Operation:
        """The elementwise product, where equal factors are powers; next to numbers a condition is a number."""
        if len(factors) == 1:
            return factors[0]
        masks = [x for x in dict.fromkeys(factors) if x.op == "mask"]
        counts = Counter(factors) if len(set(factors)) < len(factors) else dict.fromkeys(factors, 1)
        powers = [self.power(x, count) for x, count in counts.items() if x not in masks]
        numbers = any(x.shape for x in powers)  # next to arrays of numbers a condition is one
        if masks and numbers and self.conditions:  # in one pass, without an array of truth values
            [condition] = masks[0].operands
            return self.make("call", [self.times([*masks[1:], *powers]), *condition.operands], ("chosen",))
        powers = [*(x.operands[0] if numbers else x for x in masks), *powers]
        while len(powers) > CHUNK:
            powers = [self.times(powers[:CHUNK]), *powers[CHUNK:]]
        return powers[0] if len(powers) == 1 else self.make("multiply", powers)

    def scale(self, coefficient: Number, x: Operation) -> Operation:
        """`coefficient * x`."""
        if coefficient == 1:
            return x
        if coefficient == -1 and x.op == "negate":
            return x.operands[0]
        if x.op == "number":
            return self.number(coefficient * x.parameters[0])
        if x.op == "divide" and x.operands[0].op == "number" and (is_reciprocal(x) or coefficient != -1):
            return self.quotient(number(coefficient * x.operands[0].parameters[0]), [], x.operands[1:])
        return self.make("negate", [x]) if coefficient == -1 else self.make("scale", [x], (coefficient,))

    def plus(self, terms: Sequence[tuple[Number, Operation]]) -> Operation:
        """The sum of multiples of operations, positive ones first. Sums that were made before may be parts of it."""
        made = self._plus(self._scaled_once(self._with_known_sums(terms)))
        if self.shares_sums and 1 < len(terms) == len(flat := {x: c for c, x in terms}):
            self.sums.setdefault(max(flat, key=lambda x: x.serial), {}).setdefault(made, flat)
            for x in flat:
                self.with_term.setdefault(x, {}).setdefault(made, flat)
        return made

    def _with_known_sums(self, terms: Sequence[tuple[Number, Operation]]) -> Sequence[tuple[Number, Operation]]:
        """Terms with the largest sums of some of them that were made before in their place, or their negatives."""
        left = {x: c for c, x in terms}
        if not self.shares_sums or len(left) < max(3, len(terms)):
            return terms
        found = [one for x in left for one in self.sums.get(x, {}).items() if len(one[1]) < len(left)]
        result: list[tuple[Number, Operation]] = []
        for made, part in sorted(found, key=lambda one: (-len(one[1]), one[0].serial)):
            ratio = _ratio(part, left)
            if ratio:
                left = {x: c for x, c in left.items() if x not in part}
                result.append((ratio, made))
        if not result and len(left) > 2 and (pair := self._as_two_sums(left)):
            return pair
        return [*result, *((c, x) for x, c in left.items())] if result else terms

    def _as_two_sums(self, terms: Mapping[Operation, Number]) -> list[tuple[Number, Operation]]:
        """The sum as multiples of two others that were made before, if it is; what they have in common adds up, as of
        what cancels the rounding errors would stay. Multiples by integers are made of such: they may be places."""
        near: dict[Operation, Mapping[Operation, Number]] = {}
        is_whole = all(isinstance(c, int) for c in terms.values())
        for x in terms:
            near.update(islice(self.with_term.get(x, {}).items(), MOST_TRIED))
        for (one, first), (two, second) in combinations(islice(near.items(), MOST_TRIED), 2):
            own, other = _own_term(first, second), _own_term(second, first)
            if own is not None and other is not None and own in terms and other in terms:
                c, d = ratio(terms[own], first[own]), ratio(terms[other], second[other])
                if is_whole and not (isinstance(c, int) and isinstance(d, int)):
                    continue
                cancels = any(c * first[x] * d * second[x] < 0 for x in first if x in second)
                total = {x: number(c * first.get(x, 0) + d * second.get(x, 0)) for x in (*first, *second)}
                if not cancels and total == terms:
                    return [(c, one), (d, two)]
        return []

    def _scaled_once(self, terms: Sequence[tuple[Number, Operation]]) -> Sequence[tuple[Number, Operation]]:
        """`c x - c y + z` as `c (x - y) + z`."""
        if not self.shares_sums or len(terms) < 2:
            return terms
        groups: dict[tuple, list[tuple[Number, Operation]]] = {}
        for coefficient, x in terms:
            if abs(coefficient) != 1 and x.op != "number" and not is_reciprocal(x):
                groups.setdefault((abs(coefficient), x.shape), []).append((coefficient, x))
        result = list(terms)
        for group in groups.values():
            if len(group) > 1:
                factor = group[0][0]
                inner = self._plus([(1 if coefficient == factor else -1, x) for coefficient, x in group])
                result = [*(term for term in result if term not in group), (factor, inner)]
        return result

    def _plus(self, terms: Sequence[tuple[Number, Operation]]) -> Operation:
        pairs, rest = in_pairs(terms) if len(terms) > 2 else ([], terms)
        apart = [(1, self._plus(pair)) for pair in pairs[1:]]
        ordered = [*chain(*pairs[:1]), *sorted([*apart, *rest], key=lambda term: (term[0] < 0, term[1].op == "number"))]
        while len(ordered) > CHUNK:
            ordered = [(1, self._plus(ordered[:CHUNK])), *ordered[CHUNK:]]
        if len(ordered) == 1:
            return self.scale(*ordered[0])
        signs, operands = [1], [self.scale(*ordered[0])]
        for coefficient, x in ordered[1:]:
            if x.op == "number":
                coefficient, x = coefficient * x.parameters[0], self.number(1)
            signs.append(-1 if coefficient < 0 else 1)
            operands.append(self.scale(-coefficient if coefficient < 0 else coefficient, x))
        return self.make("add", operands, tuple(signs))

    def terms(self, x: Operation) -> list[tuple[Number, Operation]]:
        """What a sum is made of: operations, and the numbers that they are multiplied by."""
        return [(sign * c, y) for sign, (c, y) in zip(x.parameters, map(self._bare, x.operands), strict=True)]

    def _bare(self, x: Operation) -> tuple[Number, Operation]:
        """An operation without the number that it is multiplied by, and this."""
        if x.op == "divide" and x.operands[0].op == "number":
            return x.operands[0].parameters[0], self.quotient(1, [], x.operands[1:])
        if x.op == "scale":
            return x.parameters[0], x.operands[0]
        return (-1, x.operands[0]) if x.op == "negate" else (1, x)


def _own_term(terms: Mapping[Operation, Number], others: Mapping[Operation, Number]) -> Operation | None:
    """The first term of a sum that another one does not have."""
    return next((x for x in terms if x not in others), None)


def _ratio(part: Mapping[Operation, Number], whole: Mapping[Operation, Number]) -> int:
    """1 or -1 if a sum of terms, or its negative, is part of another one; else 0."""
    for sign in (1, -1):
        if all(whole.get(x) == sign * c for x, c in part.items()):
            return sign
    return 0


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


def is_reciprocal(x: Operation) -> bool:
    """Whether an operation is 1 divided by something."""
    return x.op == "divide" and x.operands[0].op == "number" and x.operands[0].parameters[0] == 1


def is_call(x: Operation, name: str) -> bool:
    """Whether an operation is a call of a function."""
    return x.op == "call" and x.parameters[0] == name


def is_unit(x: Operation) -> bool:
    """Whether an operation is a unit matrix, with new axes or without, or a product of such."""
    return x.op == "identity" or (x.op in ("expand", "multiply") and all(map(is_unit, x.operands)))


def is_number(x: Operation) -> bool:
    """Whether an operation gives one of Python's numbers: arithmetic of numbers and sizes."""
    return x.op in ("number", "size") or (x.op in ARITHMETIC_OPS and all(map(is_number, x.operands)))


_OF_INTEGERS = frozenset({
    "range", "number", "expand", "scale", "negate", "add", "take", "flat", "transpose", "permute",
})  # fmt: skip


def is_known_table(x: Operation) -> bool:
    """Whether an operation gives integers that depend on no input: places that can be computed once."""
    below = [x]
    while below:
        one = below.pop()
        if one.op != "table" and not (one.op in _OF_INTEGERS and all(isinstance(y, int) for y in one.parameters)):
            return False
        below += one.operands
    return True


def is_large_table(x: Operation) -> bool:
    """Whether an operation is a table that is given to the program beside its source."""
    return x.op == "table" and len(x.parameters[1]) > LISTED


def reachable(outputs: Iterable[Operation]) -> list[Operation]:
    """All operations below the outputs, each after its operands."""
    return ordered(outputs, _OPERANDS)


def count_uses(order: Sequence[Operation], outputs: Iterable[Operation]) -> Counter[Operation]:
    """How often each operation is written if everything used once, and every view, stands where it is used."""
    uses: Counter[Operation] = Counter(outputs)
    for x in reversed(order):
        for y in x.operands:
            uses[y] += uses[x] if x.cheap else 1
    return uses


def rewritten(
    operations: Operations, outputs: Sequence[Operation],
    change: Callable[[Operation, list[Operation]], Operation | None],
) -> list[Operation]:  # fmt: skip
    """Outputs made anew from the bottom up: `change` gets an operation and its new operands, and gives what stands in
    its place; None, if that is the same operation of these. What has no operands stays as it is."""
    done: dict[Operation, Operation] = {}
    for x in reachable(outputs):
        operands = list(map(done.__getitem__, x.operands))
        made = change(x, operands) if operands else x
        done[x] = with_operands(operations, x, operands) if made is None else made
    return [done[x] for x in outputs]


def with_others(
    operations: Operations, outputs: Sequence[Operation], renamed: Mapping[Operation, Operation]
) -> tuple[Operation, ...]:
    """Operations with others in the place of some of those below."""
    done = dict(renamed)
    for x in post_order(outputs, lambda x: () if x in renamed else x.operands):
        if x not in done:
            done[x] = with_operands(operations, x, [done[y] for y in x.operands])
    return tuple([done[x] for x in outputs])


def with_operands(operations: Operations, x: Operation, operands: list[Operation]) -> Operation:
    """An operation with others in the place of its operands."""
    if tuple(operands) == x.operands:
        return x
    if x.op == "transpose":
        return operations.transpose(operands[0])
    parameters = x.parameters
    if x.op == "tiles":
        renamed = dict(zip(x.operands, operands, strict=True))
        parameters = (parameters[0]._replace(body=with_others(operations, parameters[0].body, renamed)),)
    made = operations.make(x.op, operands, parameters, shape=x.shape, work=x.work, speed=x.speed, scratch=x.scratch)
    if x in operations.symmetric:
        operations.symmetric.add(made)
    return made

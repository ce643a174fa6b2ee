"""How long JAX's compiler takes for a program: good enough to choose between two programs that compute the same.

It makes one loop of what works entry by entry and of the sums over it, and takes its time for each loop and each
product of matrices, whatever their sizes are; what depends on no input takes its loops as well. The prices were
measured on the programs of 300 functions and of their derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import prod
from operator import or_
from typing import Any

import jax.extend.core as jex

from eindiff.tracing.jax.numbers import inside, variables_in

MOVES = frozenset({
    "reshape", "squeeze", "broadcast_in_dim", "convert_element_type", "transpose", "copy",
    "stop_gradient", "optimization_barrier",
})  # fmt: skip
FREE = MOVES | {"slice", "iota", "rev"}
FUNCTIONS = frozenset({
    "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "logistic", "pow", "erf", "erfc", "erf_inv", "lgamma",
    "digamma", "atan2", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt", "polygamma",
    "igamma", "igammac", "regularized_incomplete_beta", "bessel_i0e", "bessel_i1e", "exp2",
})  # fmt: skip
MATRICES = frozenset({
    "cholesky", "lu", "triangular_solve", "eigh", "eig", "svd", "geqrf", "householder_product", "qr", "schur",
    "tridiagonal", "hessenberg",
})  # fmt: skip
ENTRYWISE = FREE | FUNCTIONS | {
    "add", "sub", "mul", "div", "neg", "abs", "max", "min", "sign", "sqrt", "rsqrt", "square", "integer_pow",
    "select_n", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "xor", "floor", "ceil", "round", "rem", "clamp",
    "add_any", "is_finite", "real", "imag", "complex", "conj", "pad", "concatenate", "split", "reduce_precision",
    "nextafter", "shift_left", "shift_right_logical", "shift_right_arithmetic",
}  # fmt: skip
SLOW = (FUNCTIONS - {"sin", "cos"}) | {"div", "sqrt", "rsqrt", "rem"}  # in the eyes of the compiler: not done twice

KINKED = frozenset({
    "abs", "sign", "max", "min", "clamp", "sqrt", "rsqrt", "pow", "cbrt", "reduce_max", "reduce_min", "atan2",
})  # fmt: skip

SHIFTS = frozenset({
    "slice", "pad", "concatenate", "split", "rev", "reshape", "squeeze", "broadcast_in_dim", "transpose",
    "gather", "dynamic_slice",
})  # fmt: skip
PARTED = frozenset({"concatenate", "pad"})  # arrays of parts, whose entries are chosen: not twice in one loop,
MOST_CHOSEN, FEW = 2**14, 2**9  # nor of so many entries in several rows, and at the price of two loops beyond a few
MOST_COPIES = 15  # of an operation in one loop, for entries at other places; more are computed before
READS = frozenset({"gather", "dynamic_slice"})  # entries at places, in the loop that uses them
SUMS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_or", "reduce_and"})
LENGTHY = frozenset({
    "lgamma", "digamma", "polygamma", "erf_inv", "igamma", "igammac", "bessel_i0e", "bessel_i1e", "sinh", "cosh", "tan",
})  # fmt: skip
SHARED = FUNCTIONS | MATRICES | {"dot_general"}  # of which the compiler finds the equal ones that are worth it

START = 9e-3  # seconds for any program, and more for each loop, each operation in it, and functions of many operations:
LOOP, OPERATION, LONG_FUNCTION = 8e-3, 2.8e-4, 14e-3
PIECE = 3e-3  # for each of the pieces that an array is cut into
MANY_TERMS, LONG_SUM = 32, 11e-3  # of a sum that is done in two steps, and what it takes more
VECTOR = 5.5e-3  # more than other products take those of a matrix and a vector
PRICES = {"dot_general": 6e-3, "conv_general_dilated": 13e-3, "custom_linear_solve": 20e-3,
          **dict.fromkeys(MATRICES, 6e-3)}  # fmt: skip
PRICES_LIKE = {"reduce_window": 27e-3, "reduce": 5e-3, "arg": 20e-3, "cum": 27e-3, "sort": 20e-3, "top_k": 30e-3,
               "scatter": 8e-3, "select_and": 25e-3}  # fmt: skip
OTHERS = 4e-3


@dataclass(slots=True, eq=False)
class _Step:
    """An equation; what a call has inside of it stands in the place of the call."""

    eqn: Any
    sources: list[_Step]
    is_known: bool  # whether it depends on no input
    users: list[_Step] = field(default_factory=list)
    is_needed: bool = False
    is_stored: bool = False  # whether it is a loop of its own, or none
    loops: int = 0  # that it is a part of, each of which does it again: a bit for each
    widest: int = 0  # the entries of the largest value that is computed from it in such a loop
    copies: int = 1  # of it in a loop, each for entries at other places
    name: str = field(init=False)
    is_sum: bool = field(init=False)
    is_entrywise: bool = field(init=False)
    is_slow: bool = field(init=False)  # so that it is not done twice

    def __post_init__(self) -> None:
        self.name = self.eqn.primitive.name
        m, n, k = _sizes(self.eqn) if self.name == "dot_general" else (0, 0, 0)
        self.is_sum = self.name in SUMS or m == n == 1
        self.is_entrywise = self.is_sum or k == 1 or self.name in ENTRYWISE or self.name in READS
        if self.name == "concatenate" and self.entries >= MOST_CHOSEN:
            self.is_entrywise = prod(self.eqn.outvars[0].aval.shape[: self.eqn.params["dimension"]]) == 1
        self.is_slow = self.is_sum or self.name in SLOW or self.name == "gather"

    @property
    def entries(self) -> int:
        return max([prod(x.aval.shape) for x in self.eqn.outvars])

    @property
    def terms(self) -> int:
        """The entries that it goes through."""
        return max([prod(x.aval.shape) for x in self.eqn.invars]) if self.is_sum else self.entries


_LITERAL = object()  # what stands for a literal


def compiling(jaxpr: Any) -> float:
    """The predicted time of the compiler, in seconds."""
    return START + _price(jaxpr)


def _sizes(eqn: Any) -> tuple[int, int, int]:
    """The rows and the columns of a product of matrices, and the terms of its sums."""
    (summed, _), (stacked, _) = eqn.params["dimension_numbers"]
    first, second = (x.aval.shape for x in eqn.invars)
    count, k = prod(first[axis] for axis in stacked), prod(first[axis] for axis in summed)
    return prod(first) // max(1, count * k), prod(second) // max(1, count * k), k


def operations(jaxpr: Any) -> int:
    """How many operations of arithmetic the compiler counts in a program: those of a loop that stays one, for one turn;
    functions are not counted."""
    return sum([_operations(x) for x in _needed(jaxpr)])


def _operations(step: _Step) -> int:
    if step.name == "dot_general" and not step.is_entrywise:
        return 2 * prod(step.eqn.invars[0].aval.shape) * _sizes(step.eqn)[1]
    if step.is_entrywise:
        return 0 if step.name in FREE | FUNCTIONS | SHIFTS else step.loops.bit_count() * step.terms
    return sum(map(operations, jex.jaxprs_in_params(step.eqn.params)))


def stored_bytes(jaxpr: Any) -> list[int]:
    """The bytes of each array that a program stores, outside of loops that stay loops."""
    return [bytes_of(x) for step in _needed(jaxpr) if step.is_stored for x in step.eqn.outvars]


def bytes_of(x: Any) -> int:
    """The bytes of the array that a variable of a program stands for."""
    return prod(x.aval.shape) * x.aval.dtype.itemsize if hasattr(x.aval, "dtype") else 0


def _price(jaxpr: Any) -> float:
    return sum([_price_of(x) for x in _needed(jaxpr) if not (x.is_known and x.entries == 1)])


def _needed(jaxpr: Any) -> list[_Step]:
    """The equations that results depend on, each with the loops that it is a part of."""
    made: dict[Any, Any] = {}
    steps = _steps(jaxpr, made, {})
    for step in [x for x in map(made.get, variables_in(jaxpr.outvars)) if isinstance(x, _Step)]:
        step.is_needed = step.is_stored = True
    own = 1
    for step in reversed(steps):
        if step.is_needed:
            count = len(step.eqn.outvars)
            _settle(step, ((1 << count) - 1) * own)
            own <<= count
            for source in step.sources:
                source.is_needed = True
                source.users.append(step)
    return [x for x in steps if x.is_needed]


def _steps(jaxpr: Any, made: dict[Any, Any], seen: dict[Any, _Step]) -> list[_Step]:
    """The equations in order, equal ones once; `made` gets what makes each variable, and has what makes the inputs."""
    found: list[_Step] = []
    for eqn in jaxpr.eqns:
        inner, args = inside(eqn)
        given = [_LITERAL if isinstance(x, jex.Literal) else made.get(x) for x in args]
        if inner is None:
            sources = [x for x in given if isinstance(x, _Step)]
            step = _Step(eqn, sources, None not in given and all(x.is_known for x in sources))
            is_shared = eqn.primitive.name in SHARED and _LITERAL not in given
            key = (eqn.primitive.name, str(eqn.params), *(given if None not in given else eqn.invars))
            same = seen.setdefault(key, step) if is_shared else step
            found += [step] if same is step else []
            made.update(dict.fromkeys(eqn.outvars, same))
        else:
            body = getattr(inner, "jaxpr", inner)
            within = dict(zip(body.invars, given, strict=False))
            found += _steps(body, within, seen)
            results = [_LITERAL if isinstance(x, jex.Literal) else within.get(x) for x in body.outvars]
            made.update(zip(eqn.outvars, results, strict=False))
    return found


def _settle(step: _Step, own: int) -> None:
    """Find the loops that a step is part of, from those of its users: a slow one is in one of them, and done once; or
    else it is a loop of its `own`, or one for each of its parts."""
    users = [x for x in step.users if x.is_entrywise]
    step.loops = reduce(or_, [x.loops for x in users], 0)
    step.widest = max([step.entries, *[max(x.entries, x.terms) if x.is_stored else x.widest for x in users]])
    step.is_stored = step.is_stored or _is_apart(step, is_given=len(users) < len(step.users))
    if not step.is_stored:
        shifted = sum([x.copies for x in users if x.name in SHIFTS])
        step.copies = shifted + max([x.copies for x in users if x.name not in SHIFTS], default=0)
        if _is_done_before(step, len(users)):
            step.is_stored, step.copies = True, 1
    if step.is_stored:
        step.loops = own


def _is_apart(step: _Step, is_given: bool) -> bool:
    """Whether a step is no part of loops: if it is given to what is none, or is slow and would be done again."""
    if not step.is_entrywise:
        return True
    if is_given:
        is_view = step.name in MOVES and step.name != "broadcast_in_dim"
        return not is_view or any(x.is_entrywise for x in step.sources)
    return step.is_slow and (step.loops.bit_count() > 1 or step.widest > max(step.entries, step.terms))


def _is_done_before(step: _Step, uses: int) -> bool:
    """Whether the compiler takes an operation out of a loop that would do it again and again."""
    if step.name in PARTED:
        return step.copies > 1 or uses > (step.loops.bit_count() if step.name == "concatenate" else 1)
    return step.copies > MOST_COPIES and step.name not in FREE and step.name not in SHIFTS


def _price_of(step: _Step) -> float:
    name = step.name
    if step.is_entrywise:
        own = 0.0 if name in MOVES else step.loops.bit_count() * OPERATION + (name in LENGTHY) * LONG_FUNCTION
        own += LONG_SUM if step.is_sum and step.terms > MANY_TERMS * step.entries else 0.0
        if name == "concatenate" and step.is_stored:
            own += LOOP if step.entries > FEW else PIECE
        return own + (len(step.eqn.outvars) * (PIECE if name == "split" else LOOP) if step.is_stored else 0.0)
    for start, price in PRICES_LIKE.items():
        if name.startswith(start):
            return price
    inner = list(jex.jaxprs_in_params(step.eqn.params)) if name not in PRICES else []
    vector = VECTOR if name == "dot_general" and 1 in _sizes(step.eqn)[:2] else 0.0
    return PRICES.get(name, OTHERS) + vector + sum(map(_price, inner))


def is_plain(jaxpr: Any) -> bool:
    """Whether a program has nothing but what works entry by entry, sums and products of matrices, in loops or not."""
    return all(map(_is_plain, jaxpr.eqns))


def _is_plain(eqn: Any) -> bool:
    name = eqn.primitive.name
    if name.startswith("reduce_") and not name.startswith("reduce_window"):
        return True
    is_other = name in PRICES or name.startswith(tuple(PRICES_LIKE)) or name in ("while", "cond", "gather")
    is_known = name == "dot_general" or not (is_other or name.startswith("dynamic_"))
    return is_known and all(map(is_plain, jex.jaxprs_in_params(eqn.params)))


def has_kinks(jaxpr: Any) -> bool:
    """Whether a program has functions without a derivative at some points, where closed forms may have one all the
    same: the square root of a square."""
    return any(eqn.primitive.name in KINKED for eqn in jaxpr.eqns) or any(map(has_kinks, jex.subjaxprs(jaxpr)))

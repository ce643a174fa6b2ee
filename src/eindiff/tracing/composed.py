"""Functions of entries that are composed of others, under NumPy's names: what is no row of the table of functions."""

from __future__ import annotations

from collections.abc import Callable
from math import log as ln
from math import pi
from math import sqrt as root

from eindiff.core.nodes import Expr, Map
from eindiff.functions import elementwise as functions
from eindiff.functions import multilinear as arrays
from eindiff.functions import special_functions
from eindiff.functions.multilinear import Operand, add, as_expr, divide, multiply, subtract
from eindiff.tracing.algebra import vecdot


def truth(a: Operand) -> Expr:
    """1 where an entry is not 0, else 0."""
    a = as_expr(a)
    return a if _is_truth(a) else functions.where(a, 1, 0)


def _is_truth(a: Expr) -> bool:
    """Whether an expression is known to be 0 or 1."""
    if isinstance(a, Map) and a.function.name == "where":
        return all(_is_truth(choice) for choice in a.args[1:])
    is_compared = isinstance(a, Map) and a.function.name in ("greater", "at_least", "step")
    return is_compared or arrays.coefficient_of(a) in (0, 1)


def _not(a: Operand) -> Expr:
    return functions.where(a, 0, 1)


def _logaddexp(a: Operand, b: Operand) -> Expr:
    return add(a, functions.softplus(subtract(b, a)))


def _xlogy(a: Operand, b: Operand) -> Expr:
    """a log(b), and 0 where both are 0."""
    both = functions.equal(b, 0) if a is b else multiply(functions.equal(a, 0), functions.equal(b, 0))
    return multiply(a, functions.log(add(b, both)))


def _rel_entr(a: Operand, b: Operand) -> Expr:
    return subtract(_xlogy(a, a), _xlogy(a, b))


def not_equal(a: Operand, b: Operand) -> Expr:
    """1 where the two differ; only what is not a number differs from itself."""
    return functions.isnan(a) if a is b else 1 - functions.equal(a, b)


def fmod(a: Operand, b: Operand) -> Expr:
    """What is left after division, with the sign of the dividend."""
    return subtract(a, multiply(b, functions.trunc(divide(as_expr(a), b))))


def _floor_divide(a: Operand, b: Operand) -> Expr:
    """The largest integer not above the quotient."""
    return functions.floor(divide(as_expr(a), b))


COMPOSED: dict[str, Callable[..., Expr]] = {
    # arithmetic
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "negative": lambda x: multiply(-1, x),
    "positive": as_expr,
    "power": functions.power,
    "float_power": functions.power,
    "square": functions.square,
    "sqrt": functions.sqrt,
    "reciprocal": functions.reciprocal,
    "conjugate": as_expr,
    "hypot": lambda a, b: functions.sqrt(add(functions.square(a), functions.square(b))),
    # products
    "matmul": arrays.matmul,
    "vecdot": vecdot,
    "matvec": lambda a, x: arrays.einsum("...ij,...j->...i", a, x),
    "vecmat": lambda x, a: arrays.einsum("...i,...ij->...j", x, a),
    # exponentials and logarithms
    "exp2": lambda x: functions.exp(multiply(ln(2), x)),
    "log2": lambda x: multiply(1 / ln(2), functions.log(x)),
    "log10": lambda x: multiply(1 / ln(10), functions.log(x)),
    "logaddexp": _logaddexp,
    "logaddexp2": lambda a, b: multiply(1 / ln(2), _logaddexp(multiply(ln(2), a), multiply(ln(2), b))),
    "degrees": lambda x: multiply(180 / pi, x),
    "rad2deg": lambda x: multiply(180 / pi, x),
    "radians": lambda x: multiply(pi / 180, x),
    "deg2rad": lambda x: multiply(pi / 180, x),
    # choices; comparisons are 0 or 1
    "minimum": functions.minimum,
    "fmin": functions.minimum,
    "heaviside": lambda x, at_zero: add(functions.step(x), multiply(at_zero, functions.equal(x, 0))),
    "less": lambda a, b: functions.greater(b, a),
    "greater_equal": functions.at_least,
    "less_equal": lambda a, b: functions.at_least(b, a),
    "equal": functions.equal,
    "not_equal": not_equal,
    "logical_not": _not,
    "logical_and": lambda a, b: functions.where(a, truth(b), 0),
    "logical_or": lambda a, b: functions.where(a, 1, truth(b)),
    "logical_xor": lambda a, b: functions.where(a, _not(b), truth(b)),
    # constant almost everywhere
    "floor_divide": _floor_divide,
    "fmod": fmod,
    "copysign": lambda a, b: multiply(functions.abs(a), functions.where(functions.greater(0, b), -1, 1)),
    "remainder": lambda a, b: subtract(a, multiply(b, _floor_divide(a, b))),
    # scipy.special
    "logit": lambda x: subtract(functions.log(x), functions.log1p(multiply(-1, x))),
    "log_expit": lambda x: multiply(-1, functions.softplus(multiply(-1, x))),
    "ndtr": lambda x: multiply(0.5, add(1, special_functions.erf(multiply(1 / root(2), x)))),
    "xlogy": _xlogy,
    "xlog1py": lambda a, b: multiply(a, functions.log1p(b)),
    "entr": lambda x: multiply(-1, _xlogy(x, x)),
    "rel_entr": _rel_entr,
    "kl_div": lambda a, b: add(_rel_entr(a, b), multiply(-1, a), b),
}
COMPOSED |= {f"bitwise_{name}": COMPOSED[f"logical_{name}"] for name in ("and", "or", "xor")}
COMPOSED["invert"] = COMPOSED["logical_not"]

"""Rules for elementwise functions: powers, choices, signs."""

from __future__ import annotations

from eindiff.core import construct
from eindiff.core.coefficients import Number, is_whole, number, to_power
from eindiff.core.construct import is_number, parts, scale
from eindiff.core.nodes import Einsum, Expr, is_index_map
from eindiff.core.rewrite import rule
from eindiff.functions.elementwise import abs as absolute
from eindiff.functions.elementwise import relu, sign, step
from eindiff.functions.powers import power, power_formula
from eindiff.functions.rules.shapes import bare, is_map, is_positive

# Powers


@rule("pow")
def trivial_power(exponent: Number, x: Expr) -> Expr | None:
    """x^0 = 1, x^1 = x, x^2 = x x (two factors). The power goes away."""
    if exponent == 0:
        return construct.filled(1, x.shape)
    if exponent == 1:
        return x
    if exponent == 2 and to_power(parts(x)[0], 2) is not None:
        labels = tuple(range(x.ndim))
        return construct.einsum(1, [(x, labels), (x, labels)], labels, dict(enumerate(x.shape)))
    return None


@rule("pow")
def power_of_power(exponent: Number, x: Expr) -> Expr | None:
    """(x^p)^q = x^(pq) if q is an integer or x is positive. One node less."""
    base, inner = construct.power_parts(x)
    if inner == 1 or not (is_whole(exponent) or is_positive(base)):
        return None
    return power(base, number(inner * exponent))


@rule("pow")
def even_power_of_absolute_value(exponent: Number, x: Expr) -> Expr | None:
    """abs(x)^p = x^p for an even p. One node less."""
    return power(x.args[0], exponent) if is_map(x, "abs") and exponent % 2 == 0 else None


@rule("pow")
def power_of_index_map(exponent: Number, x: Expr) -> Expr | None:
    """A power of zeros and ones. The power goes away."""
    return x if is_index_map(x) and exponent > 0 else None


@rule("pow")
def power_of_sign(exponent: Number, x: Expr) -> Expr | None:
    """sign(x)^3 = sign(x), sign(x)^4 = sign(x)^2, and so on. Smaller powers."""
    return power(x, 2 - exponent % 2) if is_map(x, "sign") and is_whole(exponent) and exponent > 2 else None


@rule("pow")
def root_of_square(exponent: Number, x: Expr) -> Expr | None:
    """(x x)^(1/2) = abs(x), or x if it is positive; likewise for (x x)^(k/2). One node less."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 2 or factors[0] != factors[1] or coefficient <= 0 or is_whole(exponent):
        return None
    if (taken := to_power(coefficient, exponent)) is None:
        return None
    base = construct.einsum(1, factors[:1], output, sizes)
    root = base if is_positive(factors[0][0]) else absolute(base)
    return scale(taken, power(root, number(2 * exponent)))


@rule("pow")
def power_of_product(exponent: Number, x: Expr) -> Expr | None:
    """(c x y)^p = c^p x^p y^p for an integer p; otherwise c^p is taken out if c is positive. Smaller arguments.

    A c^p that is very far from 1 stays where it is: (1e-200 x)^2 is no multiple of x^2 that a number could tell.
    """
    coefficient, factors, output, sizes = parts(x)
    if not factors or (isinstance(x, Einsum) and x.is_product and len(set(output)) < len(output)):
        return None
    whole = is_whole(exponent)
    if coefficient == 1 and (len(factors) == 1 or not whole):
        return None
    if not whole and coefficient < 0:
        return None
    if (taken := to_power(coefficient, exponent)) is None:
        return None
    if whole:
        return construct.einsum(taken, [(power(node, exponent), labels) for node, labels in factors], output, sizes)
    return scale(taken, power(construct.einsum(1, factors, output, sizes), exponent))


@rule("power_derivative")
def derivative_of_power(order: tuple[int, int], x: Expr, y: Expr) -> Expr | None:
    """The derivative of x^y for positive x is a formula: no case x = 0 is to be told apart. The function goes away."""
    positive = is_positive(x) and not is_map(x, "abs")
    return power_formula(*order, x, y) if positive or (is_number(x) and x.coefficient > 0) else None


@rule("abs")
def abs_of_positive(x: Expr) -> Expr | None:
    """abs(x) = x for positive x, abs(c x) = |c| abs(x). Smaller arguments."""
    coefficient, rest = bare(x)
    if is_positive(rest):
        return scale(coefficient if coefficient > 0 else -coefficient, rest)
    return scale(coefficient if coefficient > 0 else -coefficient, absolute(rest)) if coefficient != 1 else None


@rule("maximum")
def maximum_of_itself(a: Expr, b: Expr) -> Expr | None:
    """max(x, x) = x, max(x, -x) = abs(x). One node less."""
    return a if a is b else absolute(a) if a is scale(-1, b) else None


@rule("where")
def same_choices(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    """where(c, x, x) = x. One node less."""
    return a if a is b else None


@rule("where")
def known_choice(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    """where(c, x, y) is x or y for a number c. One node less."""
    coefficient, factors, output, _ = parts(condition)
    if factors or len(set(output)) < len(output):
        return None
    return a if coefficient else b


# Signs


@rule("relu")
def relu_of_multiple(x: Expr) -> Expr | None:
    """relu(c x) = c relu(x) for c > 0. Smaller arguments."""
    coefficient, rest = bare(x)
    return scale(coefficient, relu(rest)) if coefficient > 0 and coefficient != 1 else None


@rule("step")
def step_of_multiple(x: Expr) -> Expr | None:
    """step(c x) = step(x) for c > 0. Smaller arguments."""
    coefficient, rest = bare(x)
    return step(rest) if coefficient > 0 and coefficient != 1 else None


@rule("sign")
def sign_of_multiple(x: Expr) -> Expr | None:
    """sign(c x) = sign(x) for c > 0. Smaller arguments."""
    coefficient, rest = bare(x)
    return sign(rest) if coefficient > 0 and coefficient != 1 else None

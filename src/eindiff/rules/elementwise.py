"""Rules for elementwise functions and sums: exp and log, stable forms, powers, signs."""

from __future__ import annotations

from fractions import Fraction

from eindiff import construct
from eindiff.construct import is_number, parts, scale
from eindiff.expr import Add, Einsum, Expr, Number, number
from eindiff.functions import TABLE, log, power, sigmoid, softplus
from eindiff.functions import abs as absolute
from eindiff.matrix_functions import logdet
from eindiff.reductions import logsumexp
from eindiff.rewrite import rule
from eindiff.rules.shapes import bare, is_apply, is_map, is_positive

# exp and log, and the stable forms of what they are used for


@rule("exp")
def exp_of_log(x: Expr) -> Expr | None:
    """exp(log(x)) = x. One node less."""
    return x.args[0] if is_map(x, "log") else None


@rule("log")
def log_of_exp(x: Expr) -> Expr | None:
    """log(exp(x)) = x. One node less."""
    return x.args[0] if is_map(x, "exp") else None


@rule("log")
def log_of_power(x: Expr) -> Expr | None:
    """log(x^p) = p log(x), unless p is even and x may be negative. The argument of the log gets smaller."""
    base, exponent = construct.power_parts(x)
    even = exponent == int(exponent) and exponent % 2 == 0
    return scale(exponent, log(base)) if exponent != 1 and not even else None


@rule("log")
def log_of_sum_of_exponentials(x: Expr) -> Expr | None:
    """log(c exp(a) + c exp(b)) = log(c) + a + softplus(b - a), where 1 is exp(0). The log goes away."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 1 or not isinstance(factors[0][0], Add) or coefficient <= 0:
        return None
    exponents = [_exponent(term) for term in factors[0][0].terms]
    if None in exponents:
        return None
    first, *others = sorted((e for e in exponents if e is not None), key=lambda e: (not is_number(e), e.digest))
    total = first
    for exponent in others:
        total = construct.add([total, softplus(construct.add([exponent, scale(-1, total)]))])
    total = construct.einsum(1, [(total, factors[0][1])], output, sizes)
    return construct.add([total, log(construct.filled(coefficient, x.shape))])


def _exponent(term: Expr) -> Expr | None:
    """What a term is the exponential of, if it is one; positive numbers are."""
    coefficient, factors, output, sizes = parts(term)
    if is_number(term):
        return log(term) if coefficient > 0 else None
    if len(factors) != 1 or not is_map(factors[0][0], "exp") or coefficient <= 0 or len(set(output)) < len(output):
        return None
    inner = construct.einsum(1, [(factors[0][0].args[0], factors[0][1])], output, sizes)
    return construct.add([inner, log(construct.filled(coefficient, term.shape))])


@rule("log")
def log_of_det(x: Expr) -> Expr | None:
    """log(det(A)) = logdet(A). One node less."""
    return logdet(x.args[0]) if is_apply(x, "det") else None


@rule("log")
def log_of_sum_of_exp(x: Expr) -> Expr | None:
    """log(sum(exp(x))) = logsumexp(x). The log goes away."""
    if not isinstance(x, Einsum) or x.is_product or len(x.operands) != 1 or not is_map(x.operands[0], "exp"):
        return None
    labels = x.labels[0]
    if len(set(labels)) < len(labels):
        return None
    axes = tuple(axis for axis, label in enumerate(labels) if label not in x.output)
    result = logsumexp(x.operands[0].args[0], axes)
    kept = [label for label in labels if label in x.output]
    return construct.transpose(result, [kept.index(label) for label in x.output])


@rule("log")
def log_of_sigmoid(x: Expr) -> Expr | None:
    """log(sigmoid(x)) = -softplus(-x). The log goes away."""
    return scale(-1, softplus(scale(-1, x.args[0]))) if is_map(x, "sigmoid") else None


@rule("log1p")
def log1p_of_exp(x: Expr) -> Expr | None:
    """log1p(exp(x)) = softplus(x). One node less."""
    return softplus(x.args[0]) if is_map(x, "exp") else None


@rule("pow")
def reciprocal_of_one_plus_exp(exponent: Number, x: Expr) -> Expr | None:
    """(1 + exp(x))^p = sigmoid(-x)^(-p). The exp goes away."""
    if not isinstance(x, Add) or len(x.terms) != 2 or exponent > 0:
        return None
    ones = [term for term in x.terms if is_number(term) and term.coefficient == 1]
    others = [term for term in x.terms if is_map(term, "exp")]
    if not ones or not others:
        return None
    return power(sigmoid(scale(-1, others[0].args[0])), -exponent)


@rule("add")
def one_minus_sigmoid(terms: dict[Expr, Number], shape: tuple) -> Expr | None:
    """1 - sigmoid(x) = sigmoid(-x). One term less."""
    if len(terms) != 2:
        return None
    (a, ca), (b, cb) = sorted(terms.items(), key=lambda item: not is_number(item[0]))
    _, factors, output, sizes = parts(b)
    if not is_number(a) or ca != -cb or len(factors) != 1 or not is_map(factors[0][0], "sigmoid"):
        return None
    mirrored = sigmoid(scale(-1, factors[0][0].children[0]))
    return construct.einsum(ca, [(mirrored, factors[0][1])], output, sizes) if len(set(output)) == len(output) else None


@rule("log")
def log_of_product(x: Expr) -> Expr | None:
    """log(prod(x)) = sum(log(x)) for positive x. The argument of the log gets smaller."""
    if not is_apply(x, "prod") or x.function.parameter or not is_positive(x.args[0]):
        return None
    [inner] = x.children
    labels = tuple(range(inner.ndim))
    return construct.einsum(1, [(log(inner), labels)], labels[:-1], dict(enumerate(inner.shape)))


# Powers


@rule("pow")
def trivial_power(exponent: Number, x: Expr) -> Expr | None:
    """x^0 = 1, x^1 = x, x^2 = x x (two factors). The power goes away."""
    if exponent == 0:
        return construct.filled(1, x.shape)
    if exponent == 1:
        return x
    if exponent == 2:
        labels = tuple(range(x.ndim))
        return construct.einsum(1, [(x, labels), (x, labels)], labels, dict(enumerate(x.shape)))
    return None


@rule("pow")
def power_of_power(exponent: Number, x: Expr) -> Expr | None:
    """(x^p)^q = x^(pq) if q is an integer or x is positive. One node less."""
    base, inner = construct.power_parts(x)
    if inner == 1 or not (exponent == int(exponent) or is_positive(base)):
        return None
    return power(base, number(inner * exponent))


@rule("pow")
def root_of_square(exponent: Number, x: Expr) -> Expr | None:
    """(x x)^(1/2) = abs(x), or x if it is positive; likewise for (x x)^(k/2). One node less."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 2 or factors[0] != factors[1] or coefficient <= 0 or exponent == int(exponent):
        return None
    base = construct.einsum(1, factors[:1], output, sizes)
    root = base if is_positive(factors[0][0]) else absolute(base)
    return construct.scale(number(float(coefficient) ** float(exponent)), power(root, number(2 * exponent)))


@rule("pow")
def power_of_product(exponent: Number, x: Expr) -> Expr | None:
    """(c x y)^p = c^p x^p y^p for an integer p; otherwise c^p is taken out if c is positive. Smaller arguments."""
    coefficient, factors, output, sizes = parts(x)
    if not factors or (isinstance(x, Einsum) and x.is_product and len(set(output)) < len(output)):
        return None
    whole = exponent == int(exponent)
    if coefficient == 1 and (len(factors) == 1 or not whole):
        return None
    if not whole and coefficient < 0:
        return None
    taken = (
        Fraction(coefficient) ** int(exponent)
        if whole and not isinstance(coefficient, float)
        else float(coefficient) ** float(exponent)
    )
    if whole:
        return construct.einsum(
            number(taken), [(power(node, exponent), labels) for node, labels in factors], output, sizes
        )
    return scale(number(taken), power(construct.einsum(1, factors, output, sizes), exponent))


@rule("abs")
def abs_of_positive(x: Expr) -> Expr | None:
    """abs(x) = x for positive x, abs(c x) = |c| abs(x). Smaller arguments."""
    coefficient, rest = bare(x)
    if is_positive(rest):
        return scale(coefficient if coefficient > 0 else -coefficient, rest)
    return scale(coefficient if coefficient > 0 else -coefficient, absolute(rest)) if coefficient != 1 else None


@rule("maximum")
def maximum_of_itself(a: Expr, b: Expr) -> Expr | None:
    """max(x, x) = x. One node less."""
    return a if a is b else None


@rule("where")
def same_choices(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    """where(c, x, x) = x. One node less."""
    return a if a is b else None


# Signs

ODD = ("sin", "tan", "arcsin", "arctan", "sinh", "tanh", "erf", "sign", "inverse_or_zero")
EVEN = ("cos", "cosh")


def _without_minus(name: str, x: Expr) -> Expr | None:
    """A function of -x, where the argument is -x for some x with a positive number in front."""
    coefficient, factors, output, sizes = parts(x)
    if not factors or coefficient >= 0:
        return None
    return construct.map_(TABLE[name], (construct.einsum(-coefficient, factors, output, sizes),))


def _sign_rules() -> None:
    """One rule for each odd and each even function."""
    for name in ODD + EVEN:

        def sign_of_argument(x: Expr, name: str = name) -> Expr | None:
            """f(-x) = -f(x) for an odd f, f(-x) = f(x) for an even one. Smaller arguments."""
            value = _without_minus(name, x)
            return None if value is None else scale(-1 if name in ODD else 1, value)

        rule(name)(sign_of_argument)


_sign_rules()


@rule("relu")
def relu_of_multiple(x: Expr) -> Expr | None:
    """relu(c x) = c relu(x) for c > 0. Smaller arguments."""
    coefficient, rest = bare(x)
    return scale(coefficient, construct.map_(TABLE["relu"], (rest,))) if coefficient > 0 and coefficient != 1 else None


@rule("step")
def step_of_multiple(x: Expr) -> Expr | None:
    """step(c x) = step(x) for c > 0. Smaller arguments."""
    coefficient, rest = bare(x)
    return construct.map_(TABLE["step"], (rest,)) if coefficient > 0 and coefficient != 1 else None


@rule("sign")
def sign_of_multiple(x: Expr) -> Expr | None:
    """sign(c x) = sign(x) for c > 0. Smaller arguments."""
    coefficient, rest = bare(x)
    return construct.map_(TABLE["sign"], (rest,)) if coefficient > 0 and coefficient != 1 else None

"""Sizes of axes: integers, or polynomials in named sizes written as canonical text.

A size is an `int` or a `str`. The names `"n"` that users declare are such texts, and so are the sizes that
reshaping, stacking and slicing make of them, like `"m*n"` or `"n - 1"`. Two sizes are equal if and only if
they compare equal.

>>> multiply("n", "m"), add("n", -1), add(add("n", -1), 1)
('m*n', 'n - 1', 'n')
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import index
from typing import Any

from eindiff.core.errors import EindiffError

Size = int | str
Evaluate = Callable[[Size], int]  # the number that a size is
Shape = tuple[Size, ...]
_Polynomial = dict[tuple[str, ...], int]


def read(value: Any) -> Size:
    """A size from what people write: a whole number, a name, or sums and products of these.

    >>> read("n-1"), read("2*(m + n)")
    ('n - 1', '2*m + 2*n')
    """
    if isinstance(value, str):
        return value if value.isidentifier() else _read_text(value)
    if (size := _whole(value)) is None:
        raise EindiffError(f"a size is a whole number, a name, or a sum or product of those, not {value!r}", "sizes")
    return size


def _whole(value: Any) -> int | None:
    """A whole number from 0 on as one of Python's; None if it is something else."""
    try:
        number = index(value)
    except TypeError:
        return None
    return number if number >= 0 else None


@lru_cache(maxsize=4096)
def _read_text(text: str) -> Size:
    try:
        return _read_syntax(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError):
        raise EindiffError(
            f"a size is a whole number, a name, or a sum or product of those, not {text!r}", "sizes"
        ) from None


def _read_syntax(node: Any) -> Size:
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name):
            return name
        case ast.UnaryOp(ast.USub(), inner):
            return multiply(-1, _read_syntax(inner))
        case ast.BinOp(left, ast.Add(), right):
            return add(_read_syntax(left), _read_syntax(right))
        case ast.BinOp(left, ast.Sub(), right):
            return subtract(_read_syntax(left), _read_syntax(right))
        case ast.BinOp(left, ast.Mult(), right):
            return multiply(_read_syntax(left), _read_syntax(right))
        case ast.Call(ast.Name("min"), [left, right], []):
            return minimum(_read_syntax(left), _read_syntax(right))
    raise TypeError


def read_given(sizes: Mapping[str, Any]) -> dict[str, int]:
    """Values of named sizes, which are whole numbers from 0 on."""
    if not isinstance(sizes, Mapping):
        raise EindiffError(f"sizes are numbers by their names, as in {{'n': 3}}, not {sizes!r}", "sizes")
    found = {}
    for name, value in sizes.items():
        if (size := _whole(value)) is None:
            raise EindiffError(f"the size {name} is a whole number from 0 on, not {value!r}", "sizes")
        found[name] = size
    return found


@lru_cache(maxsize=4096)
def _terms(size: Size) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The polynomial behind a size, as (monomial, coefficient) pairs."""
    if isinstance(size, int):
        return (((), size),)
    polynomial: _Polynomial = {}
    for term in size.replace(" - ", " + -").split(" + "):
        sign, names = (-1, term[1:]) if term.startswith("-") else (1, term)
        parts = names.split("*")
        factor = int(parts.pop(0)) if parts[0].isdigit() else 1
        monomial = tuple(sorted(parts))
        polynomial[monomial] = polynomial.get(monomial, 0) + sign * factor
    return tuple(polynomial.items())


def _text(polynomial: _Polynomial) -> Size:
    """The canonical form of a polynomial: an integer if it is constant, else text."""
    terms = sorted(((m, c) for m, c in polynomial.items() if c), key=lambda t: (-len(t[0]), t[0]))
    if not terms:
        return 0
    if len(terms) == 1 and terms[0][0] == ():
        return terms[0][1]
    text = ""
    for monomial, coefficient in terms:
        factors = ([] if abs(coefficient) == 1 and monomial else [str(abs(coefficient))]) + list(monomial)
        sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
        text += sign + "*".join(factors)
    return text


@lru_cache(maxsize=4096)
def add(a: Size, b: Size) -> Size:
    """The sum of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    polynomial = dict(_terms(a))
    for monomial, coefficient in _terms(b):
        polynomial[monomial] = polynomial.get(monomial, 0) + coefficient
    return _text(polynomial)


@lru_cache(maxsize=4096)
def multiply(a: Size, b: Size) -> Size:
    """The product of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    polynomial: _Polynomial = {}
    for m1, c1 in _terms(a):
        for m2, c2 in _terms(b):
            monomial = tuple(sorted(m1 + m2))
            polynomial[monomial] = polynomial.get(monomial, 0) + c1 * c2
    return _text(polynomial)


def subtract(a: Size, b: Size) -> Size:
    """The difference of two sizes."""
    return add(a, multiply(-1, b))


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    result: Size = 0
    for size in sizes:
        result = add(result, size)
    return result


def product(sizes: Iterable[Size]) -> Size:
    """The product of several sizes, 1 for none."""
    result: Size = 1
    for size in sizes:
        result = multiply(result, size)
    return result


def minimum(a: Size, b: Size) -> Size:
    """The smaller of two sizes; where that is not known it is a name of its own.

    >>> minimum("m", "n"), evaluate(minimum("m", "n"), {"m": 3, "n": 2})
    ('min(m,n)', 2)
    """
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if a == b:
        return a
    if any(c in str(size) for size in (a, b) for c in " *("):
        raise EindiffError(f"which of the sizes {a} and {b} is smaller is not known: declare them as numbers", "sizes")
    return "min({},{})".format(*sorted([str(a), str(b)]))


def _atoms(name: str) -> list[str]:
    """The names inside one factor of a size."""
    return [n for n in name[4:-1].split(",") if not n.isdigit()] if name.startswith("min(") else [name]


def names(size: Size) -> frozenset[str]:
    """The names that a size is made of."""
    return frozenset(atom for monomial, _ in _terms(size) for name in monomial for atom in _atoms(name))


def never_negative(size: Size) -> bool:
    """Whether a size is at least 0 whatever the named sizes are, as far as its coefficients show."""
    return all(coefficient >= 0 for _, coefficient in _terms(size))


def sign(size: Size) -> int:
    """1 for a size that is never negative, -1 for one that is never positive, 0 where this is not known, and for 0.

    >>> sign("n"), sign("-2*n"), sign("n - 1")
    (1, -1, 0)
    """
    signs = {coefficient > 0 for _, coefficient in _terms(size) if coefficient}
    return 0 if len(signs) != 1 else 1 if signs.pop() else -1


def inequality(size: Size) -> tuple[Size, Size]:
    """Two sizes without negative terms, of which the first is at least the second where a size is not negative.

    >>> inequality("n - 4")
    ('n', 4)
    """
    terms = _terms(size)
    return _text({m: c for m, c in terms if c > 0}), _text({m: -c for m, c in terms if c < 0})


def evaluate(size: Size, bindings: Mapping[str, int]) -> int:
    """The value of a size when its names have the given values.

    >>> evaluate("m*n - 1", {"m": 3, "n": 4})
    11
    """
    if isinstance(size, int):
        return size
    missing = sorted(names(size) - set(bindings))
    if missing:
        raise EindiffError(
            f"the size {', '.join(missing)} is not known: give it as sizes={{'{missing[0]}': ...}}", "sizes"
        )
    total = 0
    for monomial, coefficient in _terms(size):
        for name in monomial:
            coefficient *= bindings[name] if name in bindings else _minimum_value(name, bindings)
        total += coefficient
    return total


def _minimum_value(name: str, bindings: Mapping[str, int]) -> int:
    return min(int(part) if part.isdigit() else bindings[part] for part in name[4:-1].split(","))

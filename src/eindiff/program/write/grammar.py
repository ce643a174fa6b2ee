"""Where Python's grammar asks for parentheses: what is outermost in a text, and what a place takes without them."""

from __future__ import annotations

from eindiff.program.operations import Operation

# What the outermost operator of a piece of source is. A place has the kinds that it takes without parentheses.
ATOM, POWER, NEGATIVE, TIMES, MATMUL, PLUS = "atom", "power", "negative", "times", "matmul", "plus"
Kinds = frozenset[str]
ANY = frozenset({ATOM, POWER, NEGATIVE, TIMES, MATMUL, PLUS})
ATOMS = frozenset({ATOM})
FACTORS = frozenset({ATOM, POWER})
FIRST_FACTOR = frozenset({ATOM, POWER, TIMES})
FIRST_MATRIX = frozenset({ATOM, POWER, MATMUL})
TERMS = frozenset({ATOM, POWER, TIMES, MATMUL})
FIRST_TERM = TERMS | {NEGATIVE}
COMPARED = FIRST_TERM | {PLUS}

# What is outermost, and the places of the first operand and of the others.
_FORMS: dict[str, tuple[str, Kinds, Kinds]] = {
    **dict.fromkeys(
        ("transpose", "permute", "expand", "only", "cut", "flip", "reshape", "part", "integers", "running_sum"),
        (ATOM, ATOMS, ATOMS),
    ),
    "take": (ATOM, ATOMS, ANY),
    "negate": (NEGATIVE, FIRST_FACTOR, ANY),
    "multiply": (TIMES, FIRST_FACTOR, FACTORS),
    "divide": (TIMES, FIRST_FACTOR | {NEGATIVE}, FACTORS),
    "scale": (TIMES, FIRST_FACTOR, ANY),
    "power": (POWER, ATOMS, ANY),
    "reciprocal": (TIMES, FACTORS, ANY),
    "raise": (POWER, ATOMS, ATOMS),
    "add": (PLUS, COMPARED, TERMS),
    "mean": (TIMES, FIRST_TERM, FIRST_TERM),
    "logistic": (TIMES, TERMS, ANY),
    "positive": (ATOM, COMPARED, ANY),
    "mask": (ATOM, ATOMS, ANY),
    "matmul": (MATMUL, FIRST_MATRIX, ATOMS),
    # Functions
    "greater": (ATOM, COMPARED, COMPARED),
    "at_least": (ATOM, COMPARED, COMPARED),
    "where_greater": (ATOM, COMPARED, COMPARED),
    "where_at_least": (ATOM, COMPARED, COMPARED),
    "where": (ATOM, FIRST_TERM, FIRST_TERM),
    "winner": (ATOM, FIRST_TERM, FIRST_TERM),
}
_METHOD = (ATOM, ATOMS, ANY)
_OUTER = {"{0}[:, None] * {1}": (TIMES, ATOMS, FACTORS), "{0}[:, None].dot({1}[None])": (ATOM, ATOMS, ATOMS)}
_OTHERS = (ATOM, ANY, ANY)


def kind_of(x: Operation, template: str) -> str:
    """What is outermost in an operation that is written by a template."""
    if x.op == "number":
        return NEGATIVE if template.startswith("-") else TIMES if "/" in template else ATOM
    if x.op == "size":
        return PLUS if " " in template.replace(", ", "") else TIMES if "*" in template else ATOM
    return _form(x.op, template)[0]


def places_of(x: Operation, template: str) -> tuple[Kinds, ...]:
    """What each operand may be without parentheses."""
    if x.op == "negate" and _begins_with_condition(x.operands[0]):
        return (ATOMS,)
    _, first, others = _form(x.parameters[0] if x.op == "call" else x.op, template)
    return (first, *[others] * (len(x.operands) - 1)) if x.operands else ()


def _form(name: str, template: str) -> tuple[str, Kinds, Kinds]:
    """What is outermost in a template, and its places: it may be a method of the first operand, or a product."""
    if template.startswith("{0}.") and template.endswith(")"):
        return _METHOD
    if template.startswith("in_blocks("):
        return _OTHERS
    return _OUTER.get(template) or _FORMS.get(name, _OTHERS)


def _begins_with_condition(x: Operation) -> bool:
    """Whether a sign before a product would stand before an array of truth values, which have none."""
    while x.op in ("multiply", "divide"):
        x = x.operands[0]
    return x.op == "positive"

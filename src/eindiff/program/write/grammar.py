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

_KINDS = {
    "negate": NEGATIVE, "multiply": TIMES, "divide": TIMES, "scale": TIMES, "power": POWER, "raise": POWER, "add": PLUS,
    "reciprocal": TIMES,
    "mean": TIMES, "logistic": TIMES, "matmul": MATMUL,
}  # fmt: skip

# The place of the first operand, and those of the others.
_PLACES: dict[str, tuple[Kinds, Kinds]] = {
    **dict.fromkeys(("transpose", "permute", "expand", "only", "cut", "flip", "reshape", "part"), (ATOMS, ATOMS)),
    "take": (ATOMS, ANY),
    "negate": (FIRST_FACTOR, ANY),
    "multiply": (FIRST_FACTOR, FACTORS),
    "divide": (FIRST_FACTOR | {NEGATIVE}, FACTORS),
    "scale": (FIRST_FACTOR, ANY),
    "power": (ATOMS, ANY),
    "reciprocal": (FACTORS, ANY),
    "raise": (ATOMS, ATOMS),
    "add": (COMPARED, TERMS),
    "mean": (FIRST_TERM, FIRST_TERM),
    "logistic": (TERMS, ANY),
    "positive": (COMPARED, ANY),
    "mask": (ATOMS, ANY),
    "matmul": (FIRST_MATRIX, ATOMS),
}
_CALLS: dict[str, tuple[Kinds, Kinds]] = {
    "greater": (COMPARED, COMPARED),
    "where_greater": (COMPARED, COMPARED),
    "where": (FIRST_TERM, FIRST_TERM),
    "winner": (FIRST_TERM, FIRST_TERM),
}


def kind_of(x: Operation, text: str) -> str:
    """What is outermost in the text of an operation."""
    if x.op == "number":
        return NEGATIVE if text.startswith("-") else TIMES if "/" in text else ATOM
    if x.op == "size":
        return PLUS if " " in text.replace(", ", "") else TIMES if "*" in text else ATOM
    return _KINDS.get(x.op, ATOM)


def places_of(x: Operation, reading: bool) -> tuple[Kinds, ...]:
    """What each operand may be without parentheses; a sum that is for reading is a function, else a method."""
    if x.op == "sum":
        return (ANY if reading else ATOMS,)
    table, key = (_CALLS, x.parameters[0]) if x.op == "call" else (_PLACES, x.op)
    first, others = table.get(key, (ANY, ANY))
    return (first, *[others] * (len(x.operands) - 1)) if x.operands else ()

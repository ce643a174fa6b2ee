"""What a request to the page asks, read: the expression within the limits of the server, and its derivatives.

What is wrong with a request is a `ProblemError` with the fields of the model `Problem`: a message, and the place in the
text that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from typing import Any

from eindiff.apps.page import limits
from eindiff.apps.page.choices import Doubt
from eindiff.core.errors import EindiffError, shape_text, shape_words
from eindiff.core.nodes import topological, variables
from eindiff.text import question as questions
from eindiff.text.question import KIND_OF_ORDER, Answer, Question
from eindiff.text.read.conventions import canonical
from eindiff.text.read.declarations import Declaration, by_name, declared
from eindiff.text.read.parse import written
from eindiff.text.read.shapes import KnownNames
from eindiff.text.read.source import ParseError
from eindiff.text.read.syntax import postorder, read
from eindiff.text.read.table import TABLE, mark_literals
from eindiff.text.write.mathml import name_mathml, whole

ADJECTIVES = {"psd": "positive semidefinite"}
USUAL = (*"wxθβzuvpq", *"WXUVZPQ")  # what people differentiate by, most often first


class ProblemError(EindiffError):
    """A request that cannot be answered: the fields of the model `Problem`."""

    code = "page"

    def __init__(self, message: str, field: str = "", **more: Any) -> None:
        super().__init__(message)
        self.problem = {"message": message, "field": field, **more}


def located(error: ParseError, text: str, field: str) -> ProblemError:
    """An error with its place in a text, in the units that browsers count in."""
    start = _place(error, text)
    end = min(start + max(1, error.width), len(text))
    message, _, hint = error.problem.partition("; did you mean ")
    hint = f"did you mean {hint}" if hint else ""
    return ProblemError(
        message, field, start=_units(text[:start]), end=_units(text[:end]), line=error.line, column=error.column,
        hint=hint,
    )  # fmt: skip


def _place(error: ParseError, text: str) -> int:
    """Where in a text an error is, in characters."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1


def _units(text: str) -> int:
    """The length of a text in UTF-16."""
    return len(text) + sum(ord(c) > 0xFFFF for c in text)


# Reading


def reading(ask: Mapping[str, Any]) -> Answer:
    """The expression of a request, read and within the limits."""
    text, declarations = ask["expression"], ask.get("declarations", "")
    if not text.strip():
        raise ProblemError("type an expression", "expression", start=0, end=0, line=1, column=1)
    _shallow(text, "expression")
    _shallow(declarations, "declarations")
    try:
        known = declared(declarations)
    except ParseError as error:
        raise located(error, declarations, "declarations") from None
    options = {k: ask[k] for k in ("order", "notation", "mode", "layout", "symmetric") if k in ask}
    try:
        result = questions.read(text, known, Question(tuple(ask.get("wrt", ())), declarations, **options))
    except ParseError as error:
        problem = located(error, text, "expression")
        problem.problem["variables"] = found = unfitting(text, known)
        if len(text) <= limits.LONGEST_DOUBT:
            start = _place(error, text)
            doubt = Doubt(text, declarations, known, [v["name"] for v in found], error, start, start + error.width)
            problem.problem["choices"] = doubt.choices()
        raise problem from None
    if (count := len(topological([result.function]))) > limits.MOST_NODES:
        raise ProblemError(f"the expression has {count} parts; the most here is {limits.MOST_NODES}", "expression")
    return result


def unfitting(text: str, known: Mapping[str, Declaration]) -> list[dict[str, Any]]:
    """The variables of a text that means nothing, as they are declared or guessed; none if its syntax is wrong."""
    try:
        bindings, result = read(written(text, KnownNames(dict(known))), "program")
    except ParseError:
        return []
    names: set[str] = set()
    for root in [*(root for _, root in bindings), result]:
        below = postorder(root)
        for node in reversed(below):
            mark_literals(node)
        names |= {str(node.value) for node in below if node.kind == "name" and not node.literal}
    names -= {str(name) for name, _ in bindings} | ({"pi", *TABLE} - set(known))
    return [_guessed(known.get(name) or by_name(name)) for name in sorted(names) if name.isidentifier()]


def variable_data(result: Answer) -> list[dict[str, Any]]:
    """The models `VariableData` of an answer. A diagonal matrix is a vector inside, and shown as what was declared."""
    rows = []
    for v in result.variables:
        declaration = result.declared.get(v.name)
        diagonal = declaration is not None and declaration.diagonal
        properties = [*(["diagonal"] if diagonal else []), *sorted(v.properties)]
        shape = list(v.shape) * (2 if diagonal else 1)
        rows.append(_variable_row(v.name, shape, properties, result.how(v.name)))
    return rows


def _guessed(declaration: Declaration) -> dict[str, Any]:
    """The model `VariableData` of what is only declared, or guessed by its name."""
    shape = ["?" if size is None else size for size in declaration.shape]
    properties = [*(["diagonal"] if declaration.diagonal else []), *sorted(declaration.properties)]
    return _variable_row(declaration.name, shape, properties, "name" if declaration.guessed else "declared")


def _variable_row(name: str, shape: list[Any], properties: list[str], how: str) -> dict[str, Any]:
    kind = KIND_OF_ORDER.get(len(shape), "tensor")
    sizes = f"({','.join(str(size) for size in shape)})" if shape and "?" not in shape else ""
    return {
        "name": name,
        "mathml": whole(name_mathml(name), display=False),
        "kind": kind,
        "properties": properties,
        "shape": shape,
        "shape_text": shape_text(tuple(shape)),
        "words": words(shape, properties),
        "declared": how == "declared",
        "how": how,
        "declaration": " ".join([name + sizes, *([kind] if "?" in shape else []), *properties]),
    }


def words(shape: Sequence[Any], properties: Sequence[str]) -> str:
    """What a variable is, in words; sizes that are not known are not told.

    >>> words(["n", "n"], ["psd", "positive"])
    'positive semidefinite n×n matrix with positive entries'
    """
    kind = KIND_OF_ORDER.get(len(shape), "tensor")
    found = kind if "?" in shape else shape_words(tuple(shape))
    adjectives = [ADJECTIVES.get(own, own) for own in properties if own != "positive"]
    entries = " with positive entries" if shape else ", positive"
    return " ".join([*adjectives, found]) + (entries if "positive" in properties else "")


def _shallow(text: str, field: str) -> None:
    """Refuse brackets that are nested deeper than any person means, before anything recurses into them."""
    depth = 0
    for at, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth > limits.DEEPEST:
            start = _units(text[:at])
            raise ProblemError(
                f"brackets are nested deeper than {limits.DEEPEST} here", field, start=start, end=start + 1,
                line=text.count("\n", 0, at) + 1, column=at - text.rfind("\n", 0, at),
            )  # fmt: skip


# Deriving


def derivatives(ask: Mapping[str, Any]) -> Answer:
    """The derivatives that are asked for."""
    result = reading(ask)
    if ask.get("fallback"):
        result.question = replace(result.question, variables=there(result))
    _few(result)
    words = result.question.variables
    try:
        questions.derive(result)
    except ParseError as error:  # one of the words
        word = next((x for x in words if error.text in (x, *x.split("\n"))), "")
        raise located(error, word, "wrt") from None
    for x in result.by:  # a worker may still know of one that another request had dropped from an equal function
        if not re.search(rf"(?<!\w){re.escape(x.name)}(?!\w)", result.text):
            raise ProblemError(f"there is no variable {x.name} in the expression", "wrt")
    for block in result.blocks:
        if (axes := block.mixed.ndim) > limits.MOST_AXES:
            most = limits.MOST_AXES
            raise ProblemError(f"the derivative by {block.key} has {axes} axes; the most here is {most}", "wrt")
    return result


def there(result: Answer) -> tuple[str, ...]:
    """The words of the question that are variables of the function; if none is, the variable that people mean."""
    wanted = result.question.variables
    known = {own.name: len(own.shape) for own in result.reading.names if not own.is_identity}
    found = tuple(word for word in wanted if all(name.strip() in known for name in word.split(",")))
    if found or not wanted or not known:
        return found
    usual = [name for letter in USUAL for name in known if canonical(name) == letter]
    by_kind = sorted(known, key=lambda name: (known[name] + 2) % 3)  # vectors, then matrices
    return tuple([*usual, *by_kind][:1])


def _few(result: Answer) -> None:
    """Refuse what has too many blocks or axes, before it is derived."""
    order = 1 if result.question.order is None else result.question.order
    words = list(dict.fromkeys(result.question.variables))
    known = {v.name: v.ndim for v in variables(result.function)}
    mixed = [word.split(",") for word in words if "," in word]
    count = len(words) or len(known)
    blocks = comb(count + order - 1, order) if order and count and not mixed else count
    if blocks > limits.MOST_BLOCKS:
        raise ProblemError(
            f"that is {blocks} derivatives; the most at once is {limits.MOST_BLOCKS}: choose fewer variables", "wrt"
        )
    highest = max((known.get(word, 0) for word in words or known), default=0)
    highest = max([order * highest, *(sum(known.get(name.strip(), 0) for name in names) for names in mixed)])
    axes = result.function.ndim + highest
    if axes > limits.MOST_AXES:
        raise ProblemError(f"the derivative has {axes} axes; the most here is {limits.MOST_AXES}", "order")

"""What workers do: plain functions from a request, as a dictionary, to an answer as `models` describes it.

`answer` is the only one that others call. What is wrong with it is a `RefusedError` with the fields of `Problem`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from math import comb, isfinite
from typing import Any

from eindiff.apps.page import limits
from eindiff.apps.page.formulas import formula
from eindiff.calculus.derive import derivative
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr, Variable, size_names, topological, variables
from eindiff.program.check import small_sizes
from eindiff.text.answer import Answer, Block, Request, wanted
from eindiff.text.layouts import arrange, describe
from eindiff.text.read.declarations import Declaration, by_name, declared
from eindiff.text.read.parse import parse
from eindiff.text.read.source import ParseError, Source
from eindiff.text.read.syntax import postorder, read
from eindiff.text.read.table import TABLE, mark_literals
from eindiff.text.write.mathml import above, name_mathml, row, token, whole

KINDS = {0: "scalar", 1: "vector", 2: "matrix"}
CONVENTIONS = {
    "projected": "By a symmetric variable, the derivative is the symmetric part of that by independent entries.",
    "free": "By a symmetric variable, the derivative is by the entries on and below the diagonal, each of which moves "
    "its mirror image too.",
}


class RefusedError(EindiffError):
    """A request that cannot be answered: the fields of the model `Problem`."""

    def __init__(self, message: str, field: str = "", **more: Any) -> None:
        super().__init__(message)
        self.problem = {"message": message, "field": field, **more}


def answer(kind: str, ask: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request of one kind."""
    return tasks()[kind](ask)


@cache
def tasks() -> dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """What can be asked for. Those in other modules build on this one."""
    from eindiff.apps.page.costs import cost
    from eindiff.apps.page.derivations import steps
    from eindiff.apps.page.pictures import graphs, structure
    from eindiff.apps.page.programs import written

    return {
        "parse": parsed, "derive": derived, "check": checked, "steps": steps, "graph": graphs,
        "structure": structure, "cost": cost, "code": written,
    }  # fmt: skip


# Errors


def located(error: ParseError, text: str, field: str) -> RefusedError:
    """An error with its place in a text, in the units that browsers count in."""
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1
    marks = str(error).rsplit("\n", 1)[-1].strip()
    end = min(start + max(1, len(marks)), len(text))
    message, _, hint = error.problem.partition("; did you mean ")
    hint = f"did you mean {hint}" if hint else ""
    return RefusedError(
        message, field, start=_units(text[:start]), end=_units(text[:end]), line=error.line, column=error.column,
        hint=hint,
    )  # fmt: skip


def _units(text: str) -> int:
    """The length of a text in UTF-16."""
    return len(text) + sum(ord(c) > 0xFFFF for c in text)


# Reading


class Reading:
    """An expression, read and within the limits."""

    def __init__(self, ask: Mapping[str, Any]) -> None:
        self.text, self.declarations = ask["expression"], ask.get("declarations", "")
        if not self.text.strip():
            raise RefusedError("type an expression", "expression", start=0, end=0, line=1, column=1)
        _shallow(self.text, "expression")
        _shallow(self.declarations, "declarations")
        try:
            self.declared = declared(self.declarations)
        except ParseError as error:
            raise located(error, self.declarations, "declarations") from None
        try:
            self.function = parse(self.text, self.declared)
        except ParseError as error:
            problem = located(error, self.text, "expression")
            problem.problem["variables"] = unfitting(self.text, self.declared)
            raise problem from None
        if (count := len(topological([self.function]))) > limits.MOST_NODES:
            raise RefusedError(f"the expression has {count} parts; the most here is {limits.MOST_NODES}", "expression")
        taken = {v.name for v in variables(self.function)} | set(self.declared)
        self.name = next(c for c in ("f", "F", "g", "G", "h", "function", "value_of_f", "f_") if c not in taken)

    @property
    def as_data(self) -> dict[str, Any]:
        """The part of an answer that depends on the expression alone."""
        return {"name": self.name, "size_names": sorted(size_names(self.function))}

    def variables(self, more: list[Variable]) -> list[dict[str, Any]]:
        """The variables of the function and others, in the order of their names."""
        found = {v.name: v for v in [*variables(self.function), *more]}
        return [_variable(found[name], self.declared.get(name)) for name in sorted(found)]


def unfitting(text: str, known: Mapping[str, Declaration]) -> list[dict[str, Any]]:
    """The variables of a text that means nothing, as they are declared or guessed; none if its syntax is wrong."""
    try:
        bindings, result = read(Source(text), "program")
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


def _guessed(declaration: Declaration) -> dict[str, Any]:
    """The model `Variable` of what is only declared, or guessed by its name."""
    shape = ["?" if size is None else size for size in declaration.shape]
    kind = KINDS.get(len(shape), "tensor")
    properties = [*(["diagonal"] if declaration.diagonal else []), *sorted(declaration.properties)]
    sizes = f"({','.join(str(size) for size in shape)})" if shape and "?" not in shape else ""
    words = [kind, *properties] if "?" in shape else properties
    return {
        "name": declaration.name,
        "mathml": whole(name_mathml(declaration.name), display=False),
        "kind": kind,
        "properties": properties,
        "shape": shape,
        "shape_text": shape_text(tuple(shape)),
        "declared": not declaration.guessed,
        "declaration": " ".join([declaration.name + sizes, *words]),
    }


def _shallow(text: str, field: str) -> None:
    """Refuse brackets that are nested deeper than any person means, before anything recurses into them."""
    depth = 0
    for at, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth > limits.DEEPEST:
            start = _units(text[:at])
            raise RefusedError(
                f"brackets are nested deeper than {limits.DEEPEST} here", field, start=start, end=start + 1,
                line=text.count("\n", 0, at) + 1, column=at - text.rfind("\n", 0, at),
            )  # fmt: skip


def _variable(v: Variable, declaration: Declaration | None) -> dict[str, Any]:
    """The model `Variable`. A diagonal matrix is a vector inside, and shown as what was declared."""
    properties = sorted(v.properties)
    shape = list(v.shape)
    if declaration is not None and declaration.diagonal:
        properties, shape = ["diagonal", *properties], shape * 2
    sizes = f"({','.join(str(size) for size in shape)})" if shape else ""
    return {
        "name": v.name,
        "mathml": whole(name_mathml(v.name), display=False),
        "kind": KINDS.get(len(shape), "tensor"),
        "properties": properties,
        "shape": shape,
        "shape_text": shape_text(tuple(shape)),
        "declared": declaration is not None,
        "declaration": " ".join([v.name + sizes, *properties]),
    }


def parsed(ask: Mapping[str, Any]) -> dict[str, Any]:
    """What an expression is."""
    reading = Reading(ask)
    function = formula(reading.function, "matrix", name_mathml(reading.name))
    return {**reading.as_data, "function": function, "variables": reading.variables([])}


# Deriving


def derivatives(ask: Mapping[str, Any], reading: Reading | None = None) -> tuple[Reading, Answer]:
    """The derivatives that are asked for."""
    reading = reading or Reading(ask)
    _few(ask, reading)
    names = ("order", "mode", "layout", "symmetric")
    request = Request(tuple(ask.get("wrt", ())), reading.declarations, **{k: ask[k] for k in names if k in ask})
    try:
        groups = wanted(reading.function, reading.text, request)
    except ParseError as error:  # one of the words
        word = next((x for x in request.variables if error.text in (x, *x.split("\n"))), "")
        raise located(error, word, "wrt") from None
    blocks = []
    for by in groups:
        made = derivative(reading.function, *by, mode=request.mode, symmetric=request.symmetric)
        arranged = arrange(made, reading.function.ndim, [x.ndim for x in by], request.layout)
        blocks.append(Block(by, made, arranged))
    for block in blocks:
        for x in block.by:  # a worker may still know of one that another request had dropped from an equal function
            if not re.search(rf"(?<!\w){re.escape(x.name)}(?!\w)", reading.text):
                raise RefusedError(f"there is no variable {x.name} in the expression", "wrt")
        if block.mixed.ndim > limits.MOST_AXES:
            raise RefusedError(
                f"the derivative by {block.key} has {block.mixed.ndim} axes; the most here is {limits.MOST_AXES}", "wrt"
            )
    return reading, Answer(reading.text, reading.function, set(reading.declared), blocks)


def _few(ask: Mapping[str, Any], reading: Reading) -> None:
    """Refuse what has too many blocks or axes, before it is derived."""
    order, words = ask.get("order", 1), list(dict.fromkeys(ask.get("wrt", ())))
    known = {v.name: v.ndim for v in variables(reading.function)}
    count = len(words) or len(known)
    blocks = comb(count + order - 1, order) if order and count and not any("," in word for word in words) else count
    if blocks > limits.MOST_BLOCKS:
        raise RefusedError(
            f"that is {blocks} derivatives; the most at once is {limits.MOST_BLOCKS}: choose fewer variables", "wrt"
        )
    highest = max((known.get(word, 0) for word in words or known), default=0)
    highest = max([order * highest, *(sum(known.get(x.strip(), 0) for x in w.split(",")) for w in words if "," in w)])
    axes = reading.function.ndim + highest
    if axes > limits.MOST_AXES:
        raise RefusedError(f"the derivative has {axes} axes; the most here is {limits.MOST_AXES}", "order")


def derived(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The derivatives of an expression, written out."""
    reading, result = derivatives(ask)
    notation, layout = ask.get("notation", "matrix"), ask.get("layout", "mixed")
    by = [x for block in result.blocks for x in block.by]
    return {
        **reading.as_data,
        "function": formula(reading.function, notation, name_mathml(reading.name)),
        "variables": reading.variables(by),
        "blocks": [_block(block, reading, notation, layout) for block in result.blocks],
        "conventions": _conventions(result, reading, ask),
    }


def _block(block: Block, reading: Reading, notation: str, layout: str) -> dict[str, Any]:
    left = label_mathml(block, reading.name)
    names = [x.name for x in block.by]
    return {
        **formula(block.arranged.expr, notation, left, block.arranged.row),
        "key": block.key,
        "by": names,
        "label": block.label("unicode", reading.name),
        "label_mathml": whole(left, display=False),
        "axes": describe(layout, reading.name if reading.function.ndim else "", names) if names else "",
    }


def label_mathml(block: Block, function: str) -> str:
    """`∂²f/∂x∂y` as a fraction."""
    name = name_mathml(function)
    if not block.by:
        return name
    count = len(block.by)
    d = '<mo lspace="0" rspace="0">∂</mo>'
    top = (above(d, token("mn", str(count))) if count > 1 else d) + name
    names = [x.name for x in block.by]
    bottom, at = "", 0
    while at < count:  # equal neighbours are one power
        end = at
        while end < count and names[end] == names[at]:
            end += 1
        own = name_mathml(names[at])
        bottom += d + (above(own, token("mn", str(end - at))) if end - at > 1 else own)
        at = end
    return f"<mfrac>{row(top)}{row(bottom)}</mfrac>"


def _conventions(result: Answer, reading: Reading, ask: Mapping[str, Any]) -> list[str]:
    if not any(block.by for block in result.blocks):
        return []
    by = [x.name for x in result.blocks[0].by] if len(result.blocks) == 1 else ["each variable"]
    words = describe(ask.get("layout", "mixed"), reading.name if reading.function.ndim else "", by)
    said = [f"Layout {words}."]
    if any(x.symmetries for block in result.blocks for x in block.by):
        said.append(CONVENTIONS[ask.get("symmetric", "projected")])
    return said


# A check


def checked(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The derivatives against finite differences, at a random point."""
    from eindiff.text.answer import checked as compared

    reading, result = derivatives(ask)
    _small([reading.function, *(block.mixed for block in result.blocks)])
    request = Request(mode=ask.get("mode", "auto"), symmetric=ask.get("symmetric", "projected"))
    found = compared(result, request)
    errors = {",".join(names): error for names, error in found.errors.items()}
    return {
        "passed": found.passed,
        "tolerance": found.tolerance,
        "blocks": [
            {"key": key, "error": error if isfinite(error) else None, "passed": bool(error <= found.tolerance)}
            for key, error in errors.items()
        ],
        "sizes": small_sizes([reading.function, *(block.mixed for block in result.blocks)], {}),
    }


def _small(exprs: list[Expr]) -> None:
    """Refuse arrays whose sizes are declared as large numbers."""
    from eindiff.core import sizes as sz

    known = small_sizes(exprs, {})
    for expr in [*exprs, *variables(*exprs)]:
        entries = 1
        for size in expr.shape:
            entries *= sz.evaluate(size, known)
        if entries > limits.CHECKED_ENTRIES:
            raise RefusedError(
                f"an array of shape {shape_text(expr.shape)} has {entries} entries; the most that is checked here is "
                f"{limits.CHECKED_ENTRIES}: declare smaller sizes, or names for them"
            )

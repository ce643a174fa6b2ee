"""Names that are added to a product and are the same for all its entries: b in X*w + b, a in a + b*x.

By themselves they would be vectors, as b in A*x - b: then nothing is repeated. What says otherwise is the company they
keep: the letters of regression.
"""

from __future__ import annotations

from collections import Counter

from eindiff.text.read.conventions import hint, is_intercept, is_line, is_noise, is_right_side
from eindiff.text.read.syntax import Node, postorder

_MOST = 20  # products of a sum that are looked at


INTERCEPT, VECTOR, RATE, BOLD, AMPLITUDE = range(5)
_WAVES = frozenset(("sin", "cos", "exp", "sinh", "cosh", "tanh"))


def offsets(nodes: list[Node]) -> dict[str, int]:
    """The names that are added to products of regression, as intercepts or vectors; rates, as k in exp(-k*t); A in
    A*sin(omega*t).
    """
    found: dict[str, int] = {}
    names = Counter(node.value for node in nodes if node.kind == "name")
    for node in nodes:
        if node.literal:
            continue
        if node.kind == "product" and (amplitude := _amplitude(node)) is not None and names[amplitude] == 1:
            found[amplitude] = AMPLITUDE
        if (pair := _two_names(node)) is not None and pair[1] == "t" and hint(pair[0]).costs[0] in (0, 4):
            found[pair[0]] = RATE
        if node.kind == "sum":
            _add_offsets(node, found)
    return found


def _add_offsets(node: Node, found: dict[str, int]) -> None:
    terms = [_bare(arg) for arg in node.args]
    products = {pair for term in terms if (pair := _two_names(term)) is not None}
    slopes = {
        str(_bare(term.args[0]).value) for term in terms
        if term.kind == "product" and len(term.args) == 2 and term.args[1].kind == "call"
    }  # fmt: skip
    if len(products) > _MOST:
        return
    for sign, term in zip(["PLUS", *node.value], terms, strict=True):
        if term.kind != "name":
            continue
        name, is_added = str(term.value), sign == "PLUS" or len(terms) > 2  # X*w - b: b is what is to be met
        for first, second in products:
            if (kind := _beside(name, first, second, is_added)) is not None:
                found[name] = kind
        if any(is_line(name, slope) for slope in slopes):
            found[name] = INTERCEPT


def _beside(name: str, first: str, second: str, is_added: bool) -> int | None:
    """What a name is beside the product of two others, if that says something."""
    if (is_added and is_intercept(name, first, second)) or (is_line(name, first) and hint(second).order == 1):
        return INTERCEPT
    if (is_noise(name) and hint(first).order == 2) or is_right_side(name, first, second):
        return VECTOR
    return None


def _amplitude(node: Node) -> str | None:
    """The capital of a product that scales waves or decays in time: A in A*exp(-k*t)*cos(omega*t + phi)."""
    names = [arg.value for arg in node.args if arg.kind == "name" and arg.value[0].isupper()]
    others = [arg for arg in node.args if arg.kind not in ("name", "number")]
    if len(names) != 1 or not others or not all(arg.kind == "call" and arg.value in _WAVES for arg in others):
        return None
    inside = {below.value for arg in others for below in postorder(arg) if below.kind == "name"}
    is_wave = "t" in inside or all(hint(name).order == 0 for name in inside)
    return names[0] if inside and is_wave else None


def _bare(node: Node) -> Node:
    return node.args[0] if node.kind == "negative" else node


def _two_names(node: Node) -> tuple[str, str] | None:
    """The factors of a product of two names."""
    args = [_bare(arg) for arg in node.args]
    if node.kind != "product" or len(args) != 2 or any(arg.kind != "name" for arg in args):
        return None
    return (str(args[0].value), str(args[1].value)) if node.value[0] in ("*", "@") else None

"""From text to a syntax tree, with lark, and what a syntax error says.

Nothing here recurses: lark's LALR parser keeps its own stack, and `postorder` gives the nodes of a tree as a list,
children first, which the later passes just walk through. So depth of nesting does not matter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eindiff.core.nodes import Expr
from eindiff.text.read.source import ParseError, Source, prepare
from eindiff.text.read.unify import Type

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedInput


# Other words for functions of the language.
ALIASES = {
    "trace": "tr", "Tr": "tr", "Trace": "tr", "ln": "log", "vdot": "inner", "logistic": "sigmoid",
    "expit": "sigmoid", "Diag": "diag", "inverse": "inv", "pow": "power", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "sgn": "sign", "absolute": "abs", "fabs": "abs", "average": "mean", "amax": "max", "amin": "min",
    "identity": "eye", "cholesky": "chol", "eigvalsh": "eigvals", "slogdet": "logdet",
    "ReLU": "relu", "Relu": "relu", "log_sum_exp": "logsumexp", "lse": "logsumexp", "Vec": "vec", "norm_1": "norm1",
    "norm_2": "norm2", "length": "size", "len": "size", "numel": "size",
    "l1norm": "norm1", "sum_squares": "sumsq", "sumsqr": "sumsq",
    "σ": "sigmoid", "Det": "det", "concat": "concatenate",
}  # fmt: skip


class Node:
    """A piece of syntax from `start` to `end` of the text; the later passes write down here what they find.

    Kinds: number, name, text, call, over (a sum over an index), keyword, array, transpose, index, slice, ellipsis,
    power, negative, product, sum, compare. `value` is the token, the operators between the args of sums and products,
    or the name of a function.
    """

    __slots__ = ("args", "end", "expr", "kind", "literal", "plan", "start", "type", "value")

    def __init__(self, kind: str, start: int, end: int, args: list[Any] | None = None, value: Any = None) -> None:
        self.kind, self.start, self.end, self.value = kind, start, end, value
        self.args: list[Node] = args or []
        self.literal = False  # a size, an axis or the like, no expression
        self.type: Type | None = None
        self.plan: Any = None  # what inference decided and building does
        self.expr: Expr | None = None


class _Builder:
    """What lark calls for each rule: makes the nodes."""

    def number(self, parts: list) -> Node:
        return _leaf("number", parts[0])

    def name(self, parts: list) -> Node:
        return _leaf("name", parts[0])

    def text(self, parts: list) -> Node:
        return _leaf("text", parts[0])

    def ellipsis(self, parts: list) -> Node:
        return _leaf("ellipsis", parts[0])

    def group(self, parts: list) -> Node:
        """Brackets leave no node behind, but belong to the place of what is inside."""
        parts[1].start, parts[1].end = parts[0].start_pos, parts[2].end_pos
        return parts[1]

    def call(self, parts: list) -> Node:
        name, args = str(parts[0]), parts[2:-1]
        if name in ("sum_over", "prod_over") and len(args) in (2, 4):  # (i, body) or (i, from, to, body)
            return Node("over", parts[0].start_pos, parts[-1].end_pos, [args[-1], *args[:-1]], name)
        return Node("call", parts[0].start_pos, parts[-1].end_pos, args, ALIASES.get(name, name))

    def keyword(self, parts: list) -> Node:
        return Node("keyword", parts[0].start_pos, parts[1].end, [parts[1]], str(parts[0]))

    def array(self, parts: list) -> Node:
        return Node("array", parts[0].start_pos, parts[-1].end_pos, parts[1:-1])

    def transpose(self, parts: list) -> Node:
        return _undone("transpose", parts[0], parts[0].start, parts[1].end_pos)

    def index(self, parts: list) -> Node:
        """`u[g[h]]`, where indices are chosen by others, is `u[g][h]`."""
        base, entries, end = parts[0], parts[2:-1], parts[-1].end_pos
        inner = [k for k, entry in enumerate(entries) if entry.kind == "index" and len(entry.args) == 2]
        if not inner or any(x.kind != "slice" for k, x in enumerate(entries) if k not in inner):
            return Node("index", base.start, end, [base, *entries])
        first = [x.args[0] if k in inner else x for k, x in enumerate(entries)]
        second = [x.args[1] if k in inner else Node("slice", x.start, x.start, [], []) for k, x in enumerate(entries)]
        return Node("index", base.start, end, [Node("index", base.start, end, [base, *first]), *second])

    def slice(self, parts: list) -> Node:
        """`value` says which of start, stop and step is given: the number of colons before each arg."""
        given: list[Node] = []
        places: list[int] = []
        colons = 0
        start, end = _start(next(part for part in parts if part is not None)), 0
        for part in parts:
            if part is None:
                continue
            end = _end(part)
            if isinstance(part, Node):
                given.append(part)
                places.append(colons)
            else:
                colons += 1
        return Node("slice", start, end, given, places)

    def power(self, parts: list) -> Node:
        by_entry = parts[1].type == "DOTCARET"  # `^⊙` too, as it is printed
        return Node("power", parts[0].start, parts[2].end, [parts[0], parts[2]], ".^" if by_entry else "^")

    def negative(self, parts: list) -> Node:
        return _undone("negative", parts[1], parts[0].start_pos, parts[1].end)

    def positive(self, parts: list) -> Node:
        return parts[1]  # where it was: an error in it is not at the sign

    def signed_exponent(self, parts: list) -> Node:
        return self.negative(parts) if parts[0].type == "MINUS" else self.positive(parts)

    def product(self, parts: list) -> Node:
        operators = ["·" if token == "⋅" else str(token) for token in parts[1::2]]
        return Node("product", parts[0].start, parts[-1].end, parts[::2], operators)

    def sum(self, parts: list) -> Node:
        return Node("sum", parts[0].start, parts[-1].end, parts[::2], [token.type for token in parts[1::2]])

    def compare(self, parts: list) -> Node:
        return Node("compare", parts[0].start, parts[2].end, [parts[0], parts[2]], str(parts[1]))

    def binding(self, parts: list) -> tuple[Token, Node]:
        return parts[0], parts[1]

    def program(self, parts: list) -> tuple[list[tuple[Token, Node]], Node]:
        return parts[:-1], parts[-1]

    def sizes(self, parts: list) -> list:
        return [part for part in parts[1:-1] if part is not None]

    def declaration(self, parts: list) -> list:
        return parts

    def declarations(self, parts: list) -> list:
        return parts


def _leaf(kind: str, token: Any) -> Node:
    return Node(kind, token.start_pos, token.end_pos, None, str(token))


def _undone(kind: str, inner: Node, start: int, end: int) -> Node:
    """A transpose or a minus, or what is left if it undoes one: a long row of them is no long chain of nodes."""
    if inner.kind != kind:
        return Node(kind, start, end, [inner])
    [rest] = inner.args
    rest.start, rest.end = start, end
    return rest


def _start(part: Any) -> int:
    return part.start if isinstance(part, Node) else part.start_pos


def _end(part: Any) -> int:
    return part.end if isinstance(part, Node) else part.end_pos


def postorder(root: Node) -> list[Node]:
    """The nodes of a tree, children first."""
    order: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(node.args)
    order.reverse()
    return order


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """The parser, made on first use."""
    from lark import Lark  # slow to load: not before something is read

    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=["program", "declarations"], transformer=_Builder())


def read(source: Source, start: str) -> Any:
    """The syntax of a `program` or of `declarations`."""
    from lark.exceptions import UnexpectedInput  # as late as lark itself

    text = prepare(source, breaks_matter=start == "declarations")
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput as error:
        found = _syntax_error(source, text, error)
    raise found  # here, since the parser's error holds the whole parser, and ours is sent to other processes


# What a syntax error says

_INSTEAD: dict[str, str] = {
    "\\": "write solve(A, b) or inv(A)*b",
    "==": "comparisons are > < >= <=",
    "=": "names are bound at the beginning of a statement, t = X*w; exp(t); "
    "write an equation as a difference, left - (right)",
    "×": "products are * and, entry by entry, .*",
}


def _syntax_error(source: Source, text: str, error: UnexpectedInput) -> ParseError:
    """The error in words: what stands there, and what could."""
    token, end = getattr(error, "token", None), len(text.rstrip())
    at = error.pos_in_stream if token is None else token.start_pos
    at = end if at is None or (token is not None and token.type == "$END") else at
    found = (getattr(error, name, None) for name in ("accepts", "expected", "allowed"))
    expected = set(next((names for names in found if names), ()))
    if at >= end:
        return source.error(_ends_early(text, expected), at)
    after = at + (len(token) if token is not None else 1)
    return source.error(_cannot_stand(text, at, after, token, expected), at, after)


def _ends_early(text: str, expected: set[str]) -> str:
    if not text.strip():
        return f"there is nothing to read: expected {_wanted(expected)}"
    if "_SEPARATOR" in expected and "$END" not in expected:
        return "the last statement is the result and has no name, like t = X*w; exp(t)"
    return f"the text ends too early: expected {_wanted(expected)}"


def _cannot_stand(text: str, at: int, end: int, token: Token | None, expected: set[str]) -> str:
    """Why what stands at a place cannot stand there."""
    found = text[at:end]
    around = (text[max(0, at - 1) : at + 1], text[at : at + 2], text[at])
    if hint := next((_INSTEAD[part] for part in around if part in _INSTEAD), ""):
        return f"`{found}` cannot stand here: {hint}"
    if token is None:
        return f"the character {found!r} (U+{ord(found):04X}) is not part of the language"
    if expected == {"$END"}:
        return "only the last statement has no name: bind the ones before it, like t = X*w; exp(t)"
    if not {"NUMBER", "NAME"} <= expected and token.type in ("NAME", "NUMBER", "LPAR", "LSQB", "TEXT"):
        before = re.search(r"([^\W\d]\w*)\s*$", text[:at])
        function = f", a function as {before[1]}({found})" if before and token.type == "NAME" else ""
        return f"expected {_wanted(expected)} before `{found}`; a product is written with *{function}"
    return f"`{found}` cannot stand here: expected {_wanted(expected)}"


_WORDS: list[tuple[str, str]] = [
    ("NUMBER", "a number"), ("NAME", "a name"), ("STAR", "an operator"), ("COLON", "`:`"), ("RPAR", "`)`"),
    ("RSQB", "`]`"), ("COMMA", "`,`"), ("EQUAL", "`=`"), ("_SEPARATOR", "`;`"), ("$END", "the end"),
]  # fmt: skip


def _wanted(expected: set[str]) -> str:
    """The tokens that could stand at a place, in words."""
    if {"NUMBER", "NAME", "LPAR"} <= expected:
        return "a name, a number or ("
    hidden = ("$END", "_SEPARATOR") if "STAR" in expected else ()
    words = [word for token, word in _WORDS if token in expected and token not in hidden]
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words) or "something else"

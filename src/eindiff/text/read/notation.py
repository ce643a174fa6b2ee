"""Notations that people bring, in the words of the grammar: `x^T`, `‖Ax−b‖²`, `2x`, `np.sum(x**2)`, `f(x) = ...`.

A text is cut into tokens, and tokens that the grammar does not know are replaced by ones that it does, each with the
place in the user's text that it stands for. A text that has none of these stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from dataclasses import dataclass

from eindiff.text.read.conventions import GREEK, SCALARS, is_count
from eindiff.text.read.source import Source

NUMPY_TIMES, NUMPY_OVER = "\ue001", "\ue002"  # * and / of NumPy, which work entry by entry
FRACTIONS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4"}
SUPERSCRIPT_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_LIBRARY_NAMES = r"(?:np|numpy|jnp|jax|torch|tf|math|scipy|sp|nn|functional|special|linalg|anp|cp|F(?=\.[a-z]))"
_TOKEN = re.compile(
    rf"""(?P<text>"[^"\n]*"|(?<=[(,=])'[^'\n]*'|(?<=[(,=]\ )'[^'\n]*')
    |(?P<comment>\#[^\n]*)|(?P<blank>[^\S\n]+)|(?P<line>\n)
    |(?P<number>(?:[0-9]+(?:\.(?![*/^'’′a-zA-Z])[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<library>{_LIBRARY_NAMES}\.(?=[a-zA-Z]))
    |(?P<transpose>\.T(?!\w)|\^\s*(?:T(?!\w)|⊤|\{{\s*(?:T|⊤)\s*\}})|⊤)
    |(?P<method>\.[a-z]\w*(?=\s*\())
    |(?P<fraction>[½⅓⅔¼¾])
    |(?P<paper>\*_\s*[({{][^(){{}}\n]*[)}}])
    |(?P<superscript>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)
    |(?P<name>[^\W\dᵀ⁰¹²³⁴⁵⁶⁷⁸⁹][^\Wᵀ⁰¹²³⁴⁵⁶⁷⁸⁹]*)
    |(?P<bar>\|\||‖|\||∥)
    |(?P<power>\*\*|\.\^|\^⊙|\^)
    |(?P<operator>\.[*/^'’′]|\.\.\.|[<>]=?|.)""",
    re.VERBOSE,
)
_FOREIGN = re.compile(
    rf"""\|\||‖|∥|\||\*\*|@|[⁰¹²³⁴⁵⁶⁷⁸⁹⊤{{}}½⅓⅔¼¾]|\^\s*T(?!\w)|\.T(?!\w)|\.[a-z]\w*\s*\(|(?<![\w.])[0-9.]+\s*[^\W\d]|(?<![\w.])[0-9.]+\s*\(|\)\s*[(\w]
    |(?<!\w){_LIBRARY_NAMES}\.[a-zA-Z]|\b[A-RT-Z][uvwxyz]\b|(?<!\w)(?:max|min)\s*\(|(?<![<>=])=(?!=)|^\s*(?:arg\s*)?(?:min|max)""",
    re.VERBOSE,
)
_HEAD = re.compile(r"\s*(?:[^\W\d]\w*(?:\s*\(\s*[^\W\d]\w*(?:\s*[,;]\s*[^\W\d]\w*)*\s*\))?)\s*:?=(?!=)")
_GOAL = re.compile(
    r"\s*(?:arg\s*)?(?:min|max)(?:imi[sz]e)?(?:_(?:\w+|\{[^{}]*\}))?(?:\s+over\s+\w+)?\s*:?(?=\s+[^\s()=+*/,;-]|\s*[|‖∥]|\s*\((?<=\s\())"
)
NORMS = {"": "norm2", "2": "norm2", "1": "norm1", "F": "norm2", "fro": "norm2", "*": "normnuc", "inf": "norminf"}
_JOINED_LETTERS = re.compile(r"[A-Z]{2,3}|[A-Z]{1,3}[a-z]")  # of products between bars
_MATRIX_AND_VECTOR = re.compile(r"[A-RT-Z][uvwxyz]")
_COEFFICIENT = re.compile(r"[a-ce-z][a-z]|xyz")  # 2xy, but 2dx
_NORM_INDEX = re.compile(r"\s*_\s*(\{\s*[^{}]*\s*\}|\w|\*|∞)|[₁₂∞]")


@dataclass(slots=True)
class Token:
    """A piece of text, and where it stands in what the user wrote."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def ends_operand(self) -> bool:
        """Whether an operand may end here, so that what follows is a product or an operator."""
        return self.kind in ("name", "number", "close", "superscript") or self.text in (")", "]", "'", "’", "′", "ᵀ")


def normalized(
    source: Source, declared: Collection[str] = (), functions: Container[str] = ()
) -> tuple[str, list[int] | None]:
    """The text in the words of the grammar, and for each of its characters the place in the user's text."""
    text = source.text
    if _FOREIGN.search(text) is None:
        return text, None
    start = _beginning(text)
    tokens = [
        Token(match.lastgroup or "", match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(text, start)
        if match.lastgroup is not None
    ]
    tokens = _without_libraries(tokens)
    letters = _JOINED_LETTERS if any(token.text in ("‖", "||", "∥", "|") for token in tokens) else _MATRIX_AND_VECTOR
    tokens = [
        part
        for before, token in zip([None, *tokens], tokens, strict=False)
        for part in _split(token, declared, functions, _COEFFICIENT if _is_number(before) else letters)
    ]
    tokens = _bars(source, tokens, functions)
    tokens = _translated(tokens, declared)
    tokens = _products(source, tokens)
    return joined(tokens)


def joined(tokens: list[Token]) -> tuple[str, list[int]]:
    """The text of tokens, and where each character of it comes from."""
    offsets: list[int] = []
    for token in tokens:
        same = len(token.text) == token.end - token.start
        offsets += range(token.start, token.end) if same else [token.start] * len(token.text)
    offsets.append(tokens[-1].end if tokens else 0)
    return "".join(token.text for token in tokens), offsets


def _beginning(text: str) -> int:
    """Where the expression begins: behind `f(x) =` of the last statement, `argmin_w` and the like."""
    start = 0
    head = _HEAD.match(text) if text.count("=") == 1 and ";" not in text.rstrip(" ;\n") else None
    rest = text[head.end() :].strip() if head else ""
    if head and rest and ("\n" not in rest or "(" in head[0]):
        start = head.end()
    if goal := _GOAL.match(text, start):
        start = goal.end()
    return start


def _without_libraries(tokens: list[Token]) -> list[Token]:
    """`np.sum(x)` is `sum(x)`; `*` and `/` are those of NumPy where its functions or @ are used."""
    numpy = any(token.kind == "library" or token.text == "@" for token in tokens)
    result: list[Token] = []
    for token in tokens:
        if token.kind == "library":
            continue
        if numpy and token.text in ("*", "/"):
            token.text = NUMPY_TIMES if token.text == "*" else NUMPY_OVER
        result.append(token)
    return result


def _is_number(token: Token | None) -> bool:
    return token is not None and token.kind == "number"


def _split(token: Token, declared: Collection[str], functions: Container[str], letters: re.Pattern) -> list[Token]:
    """`Ax`, and more between the bars of a norm, is a product, unless it is a name; so is `2xy`."""
    is_name = token.text in declared or token.text in functions or token.text in SCALARS or token.text in GREEK
    if token.kind != "name" or is_name or letters.fullmatch(token.text) is None:
        return [token]
    parts: list[Token] = []
    for k, letter in enumerate(token.text):
        at = token.start + k
        parts += [Token("operator", "*", at, at)] * (k > 0) + [Token("name", letter, at, at + 1)]
    return parts


def _bars(source: Source, tokens: list[Token], functions: Container[str]) -> list[Token]:
    """`‖x‖₁` is `norm1(x)`, `|x|` is `bars(x)`: a bar closes where an operand ends and one of its kind is open."""
    result: list[Token] = []
    opened: list[tuple[int, str]] = []
    skip = 0
    for token in tokens:
        if token.start < skip:
            continue
        if token.kind != "bar":
            result.append(token)
            continue
        before = next((t for t in reversed(result) if t.kind not in ("blank", "line", "comment")), None)
        bar = "|" if token.text == "|" else "‖"
        if opened and opened[-1][1] == bar and before is not None and before.ends_operand:
            skip = _close_bar(source, token, bar, opened.pop()[0], result, functions)
        else:
            opened.append((len(result), bar))
            result.append(Token("open", "(", token.start, token.end))
    if opened:
        left_open = result[opened[-1][0]]
        problem = "this bar is never closed; abs(x) and norm2(x) are words for |x| and ‖x‖"
        raise source.error(problem, left_open.start, left_open.end)
    return result


_SQUARED_NORM = re.compile(r"\s*(?:\^\s*(\d)\s*|([²]))_\s*(\w|\{\w\})")  # of ‖x‖^2_2


def _close_bar(
    source: Source, token: Token, bar: str, place: int, result: list[Token], functions: Container[str]
) -> int:  # fmt: skip
    """Write the function that a pair of bars stands for, with its index and power; gives where the text goes on."""
    index = _NORM_INDEX.match(source.text, token.end) if bar == "‖" else None
    power = _SQUARED_NORM.match(source.text, token.end) if bar == "‖" and index is None else None
    name = norm_name(index[0] if index else power[3] if power else "")
    if bar == "‖" and name not in NORMS:
        raise source.error(f"norms are ‖x‖, ‖x‖₁, ‖x‖_F and ‖x‖_*; there is no ‖x‖_{name}", token.start, token.end)
    called = place > 0 and result[place - 1].kind == "name" and result[place - 1].text in functions
    result[place].text = f"{'(' * called}{'bars' if bar == '|' else NORMS[name]}("
    end = index.end() if index else token.end
    result.append(Token("close", "))" if called else ")", token.start, end))
    if power:
        result.append(Token("power", "^2", token.end, power.end()))
        return power.end()
    return end


def norm_name(written: str) -> str:
    """The index of a norm without what surrounds it."""
    name = written.strip().lstrip("_").strip("{} ").translate(_SUBSCRIPTS)
    return {"∞": "inf", "infty": "inf", r"\infty": "inf", r"\ast": "*"}.get(name, name)


_IN_GRAMMAR = {"**": ".^", "{": "(", "}": ")"}  # in the words of the grammar


def _translated(tokens: list[Token], declared: Collection[str]) -> list[Token]:
    """Transposes, powers and methods in the words of the grammar."""
    is_name = "T" in declared or any(token.kind == "name" and token.text == "T" for token in tokens)
    result: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "transpose" and not (is_name and token.text.lstrip("^ ") == "T"):
            token.text = "'"
        elif token.kind == "superscript":
            token.text = f"^({token.text.translate(SUPERSCRIPT_DIGITS)})"
        elif token.kind == "fraction":
            token.kind, token.text = "number", f"({FRACTIONS[token.text]})"
        elif token.text in _IN_GRAMMAR:
            token.text = _IN_GRAMMAR[token.text]
        elif token.kind == "name" and token.text in ("max", "min") and _has_two_arguments(tokens, at):
            token.text += "imum"
        elif token.kind == "method":
            at = _call_method(tokens, at, result)
            continue
        result.append(token)
        at += 1
    return result


def _call_method(tokens: list[Token], at: int, result: list[Token]) -> int:
    """`H.dot(P)` is `dot(H, P)`, `x.sum()` is `sum(x)`: writes what comes before `P)`, and gives where that begins."""
    method, begin = tokens[at], _operand(result)
    result.insert(begin, Token("name", f"{method.text[1:]}(", result[begin].start, result[begin].start))
    opening = next(k for k in range(at + 1, len(tokens)) if tokens[k].kind != "blank")
    following = next((token for token in tokens[opening + 1 :] if token.kind != "blank"), method)
    if following.text != ")":
        result.append(Token("open", ", ", method.start, method.end))
    return opening + 1


def _operand(tokens: list[Token]) -> int:
    """Where the operand begins that the last token ends."""
    at = len(tokens) - 1
    while at > 0 and tokens[at].text in ("'", "’"):
        at -= 1
    if tokens[at].text in (")", "]"):
        depth = 0
        while at >= 0:
            depth += (tokens[at].text in (")", "]", "))")) - (tokens[at].text[-1:] in ("(", "["))
            if depth == 0:
                break
            at -= 1
        if at > 0 and tokens[at - 1].kind == "name":
            at -= 1
    return max(at, 0)


def _has_two_arguments(tokens: list[Token], at: int) -> bool:
    """Whether a call has a comma of its own, and no argument with a name."""
    depth, comma = 0, False
    for token in tokens[at + 1 :]:
        if token.kind == "blank":
            continue
        depth += (token.text[-1:] in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth <= 0:
            return comma
        comma |= depth == 1 and token.text == ","
        if depth == 1 and token.text == "=":
            return False
    return False


def refuse_quotient(source: Source, number: Token, token: Token) -> None:
    """`1/2m` is half of m, or one over 2m, which people mean as often where m counts."""
    if is_count(token.text):
        way = f"/({number.text}*{token.text}) or /{number.text}*{token.text}"
        raise source.error(
            f"`/{number.text}{token.text}` can be read in two ways; write {way}", number.start, token.end
        )


def _stand_together(before: Token, token: Token) -> bool:
    """Whether an operand follows another one, and is not what a function is called with."""
    opens = token.kind in ("name", "number") or token.text[-1:] == "("
    is_called = before.kind == "name" and token.text[0] == "("
    return opens and before.ends_operand and not is_called


def _products(source: Source, tokens: list[Token]) -> list[Token]:
    """`2x`, `2(x+y)`, `λ‖x‖` and `(a+b)(c+d)` are products."""
    result: list[Token] = []
    before: Token | None = None
    for token in tokens:
        if token.kind in ("blank", "line", "comment"):
            before = None if token.kind == "line" else before
            result.append(token)
            continue
        if before is not None and _stand_together(before, token):
            if before.kind == "number" and before.end == token.start and result[-2:-1] and result[-2].text == "/":
                refuse_quotient(source, before, token)
            is_bare = before.kind == "name" and token.kind == "name"
            if not (is_bare or (before.text == "]" and token.kind != "open") or token.kind == "number"):
                result.append(Token("operator", "*", token.start, token.start))
        result.append(token)
        before = token
    return result

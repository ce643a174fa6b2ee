"""Variables and what is declared about them: in text, as a dictionary, or not at all (then by their name)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from eindiff.core.construct import PROPERTIES, variable
from eindiff.core.errors import EindiffError
from eindiff.core.leaves import OF_SQUARE_MATRICES
from eindiff.core.nodes import Expr, Variable
from eindiff.core.sizes import Shape, Size
from eindiff.functions.declarations import indices
from eindiff.functions.multilinear import diag
from eindiff.text.read.conventions import hint
from eindiff.text.read.source import Source
from eindiff.text.read.syntax import read
from eindiff.text.read.unify import Type, Unknown

_ORDERS = {"scalar": 0, "vector": 1, "matrix": 2}
_MATRICES = PROPERTIES - {"positive", "diagonal"}
_DECLARED = [*_ORDERS, *sorted(PROPERTIES)]
_OTHER_WORDS = {  # that people and other programs have for properties
    "psd": ("spd", "spsd", "pd", "posdef", "definite", "semidefinite"),
    "lower or upper": ("triangular",),
    "orthogonal": ("orthonormal", "unitary", "rotation"),
    "symmetric": ("hermitian", "selfadjoint"),
    "positive": ("pos",),
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known of a variable. A size that is None is found from its use."""

    name: str
    shape: tuple[Size | None, ...]
    properties: tuple[str, ...] = ()
    diagonal: bool = False
    expr: Expr | None = None  # given in Python
    guessed: bool = False  # by its name
    is_indices: bool = False  # of an axis whose size is `into`, if that is given
    into: Size | None = None

    def type(self) -> Type:
        """The type of the variable, with an unknown for each size that is to be found."""
        axes = tuple(Unknown() if size is None else size for size in self.shape)
        square = self.diagonal or OF_SQUARE_MATRICES.intersection(self.properties)
        return Type((axes[0], axes[0]) if square and None in self.shape else axes)

    def build(self, shape: Shape, into: Size | None = None) -> Expr:
        """The variable, now that its sizes are known. A diagonal matrix is diag of a vector of its name."""
        if self.expr is not None:
            return self.expr
        if self.is_indices:
            return indices(self.name, *shape, into=self.into or into or "n")
        if self.diagonal:
            return diag(variable(self.name, shape[:1], self.properties))
        return variable(self.name, shape, self.properties)


def by_name(name: str, order: int | None = None) -> Declaration:
    """An undeclared name, of the order that was found from its use, or that it has by itself."""
    return Declaration(name, (None,) * (hint(name).order if order is None else order), guessed=True)


def parse_declarations(text: str) -> dict[str, Expr | str]:
    """Declarations in text as the dictionary that `parse` takes.

    Declarations are separated by `;`, `,` or line breaks. A name may have sizes (names or numbers; none: a scalar)
    and properties: symmetric, psd, positive, orthogonal, permutation, tridiagonal, banded, lower or upper
    (triangular), unit besides, or diagonal, which makes it `diag` of a vector of that name.
    `g(m) into n` is an array of indices of an axis of size n, for `x[g]`.
    Words without sizes (`x vector`, `S symmetric`) leave the sizes to be found from use; they stay text.

    >>> parse_declarations("A(m,n); S(3,3) symmetric; c; x vector")
    {'A': A, 'S': S, 'c': c, 'x': 'vector'}
    """
    result: dict[str, Expr | str] = {}
    for name, declaration in _read(text).items():
        known = [size for size in declaration.shape if size is not None]
        if len(known) == len(declaration.shape):
            result[name] = declaration.build(tuple(known))
        else:
            order = next(word for word, order in _ORDERS.items() if order == len(declaration.shape))
            result[name] = " ".join([order, *declaration.properties, *(["diagonal"] if declaration.diagonal else [])])
    return result


def declared(declarations: str | Mapping[str, Any] | None) -> dict[str, Declaration]:
    """Declarations in any form, by name."""
    if declarations is None:
        return {}
    if isinstance(declarations, str):
        return _read(declarations)
    if not isinstance(declarations, Mapping):
        raise EindiffError(f"declarations are text or a dictionary, not {type(declarations).__name__}", "names")
    return {name: _from_python(name, value) for name, value in declarations.items()}


def _from_python(name: Any, value: Any) -> Declaration:
    """`"A": ("m", "n")`, `"x": "vector"`, `"S": "(n,n) symmetric"`, or an expression under that name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise EindiffError(f"the name {name!r} in declarations: use letters, digits and underscores", "names")
    if isinstance(value, Declaration):
        return value
    if isinstance(value, Expr):
        into = value.into if isinstance(value, Variable) else None
        return Declaration(name, value.shape, expr=value, is_indices=into is not None, into=into)
    if isinstance(value, str):
        found = _read(f"{name} {value}")
        if list(found) == [name]:
            return found[name]
    elif isinstance(value, int):
        return Declaration(name, (value,), expr=variable(name, (value,)))
    elif isinstance(value, Sequence):
        return Declaration(name, tuple(value), expr=variable(name, tuple(value)))
    raise EindiffError(
        f"the declaration of {name}, {value!r}: give a shape like ('m', 'n'), a word like 'vector', or a variable",
        "names",
    )


def _read(text: str) -> dict[str, Declaration]:
    source = Source(text)
    result: dict[str, Declaration] = {}
    for name, sizes, *words in read(source, "declarations"):
        if str(name) in result:
            raise source.error(f"{name} is declared twice", name.start_pos, name.end_pos)
        result[str(name)] = _declaration(source, name, sizes, words)
    return result


def _declaration(source: Source, name: Any, sizes: list | None, words: list) -> Declaration:
    """One declaration from its tokens."""
    into = None
    if "into" in words[:-1]:
        at = words.index("into")
        into = _size(source, words[at + 1])
        words = words[:at] + words[at + 2 :]
    _refuse_unknown(source, words)
    diagonal = "diagonal" in words
    properties = tuple(dict.fromkeys(str(word) for word in words if word in PROPERTIES - {"diagonal"}))
    shape = _shape(source, name, sizes, words)
    if diagonal:  # a diagonal matrix is symmetric anyway; positive is said of its diagonal
        properties = ("positive",) if "positive" in properties else ()
    declaration = Declaration(str(name), shape, properties, diagonal, is_indices=into is not None, into=into)
    try:
        declaration.build(tuple("n" if size is None else size for size in shape))
    except EindiffError as error:
        raise source.error(str(error), name.start_pos, name.end_pos) from None
    return declaration


def _shape(source: Source, name: Any, sizes: list | None, words: list) -> tuple[Size | None, ...]:
    """The sizes that are given, or as many unknown ones as the words say; both must go together."""
    shape: tuple[Size | None, ...] = tuple(_size(source, size) for size in sizes or ())
    orders = [_ORDERS[word] for word in words if word in _ORDERS]
    orders += [2] if _MATRICES.union({"diagonal"}).intersection(words) else []
    if sizes is None and orders:
        shape = (None,) * orders[0]
    if any(order != len(shape) for order in orders) or ("diagonal" in words and shape[0] != shape[1]):
        shown = "×".join("?" if size is None else str(size) for size in shape) or "scalar"
        raise source.error(f"{name} cannot be {' and '.join(words)}: it is {shown}", name.start_pos, words[-1].end_pos)
    return shape


def _refuse_unknown(source: Source, words: list) -> None:
    for word in words:
        if word not in _DECLARED:
            word_for = next((known for known, others in _OTHER_WORDS.items() if str(word).lower() in others), None)
            near = [word_for] if word_for else get_close_matches(str(word).lower(), _DECLARED, 1)
            known = f"did you mean {near[0]}?" if near else f"known are {', '.join(_DECLARED)}"
            raise source.error(f"unknown property {word[:50]}; {known}", word.start_pos, word.end_pos)


def _size(source: Source, token: Any) -> Size:
    if token.type == "NAME":
        return str(token)
    if not token.isdigit() or not 0 < len(token) < 19 or int(token) == 0:
        raise source.error("a size is a name or a positive whole number", token.start_pos, token.end_pos)
    return int(token)

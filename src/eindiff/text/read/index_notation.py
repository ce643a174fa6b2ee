"""Index notation, as `to_text(..., "index")` writes it: `parse("[i,j] sum[k] X[k,i]*v[k]*X[k,j]", variables, "index")`.

    text    = (name "=" tensor ";")* tensor
    tensor  = ["[" label [":" size], ... "]"] sum_
    sum_    = ["-"] term (("+" | "-") term)*
    term    = "sum" "[" labels "]" term | power (("*" | "/") power)* ["*" "sum" ...]
    power   = atom ["^" (number | atom)]
    atom    = number | "(" sum_ ")" | function "(" arguments ")" ["[" indices "]"]
            | name ["[" indices "]"] | "delta" "[" a "," b "]"

A sum goes on to the end of its product. The arguments of a function of whole tensors are tensors, those of an
elementwise one are entries. An index is a label, or `2*i + 1` of labels whose sizes are given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from eindiff.calculus.divided import divided, divided_base
from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import Given, IndexMap, Lower, Table
from eindiff.core.nodes import Expr
from eindiff.core.sizes import Size
from eindiff.functions.elementwise import TABLE, power
from eindiff.functions.frechet import frechet_function
from eindiff.functions.indexing import getitem
from eindiff.functions.reductions import prod_function
from eindiff.text.read.labelled import (
    Labelled,
    added,
    aligned,
    contracted,
    flat_list,
    known_number,
    multiplied,
    number_of,
    scaled,
    size_of,
    tensor_of,
    unstacked,
)  # fmt: skip

_INDEX_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([^\W\d]\w*)|(\"[^\"]*\")|(\S))")

_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?")

Labels = tuple[str, ...]


def parse_index(text: str, variables: Mapping[str, Expr]) -> Expr:
    """The expression that a text in index notation stands for. `variables` are those that it may use."""
    try:
        return _Reader(text, dict(variables)).read()
    except RecursionError:
        raise EindiffError("the text is nested too deeply: name parts of it, t = [i] ...; ...", "text") from None


class _Reader:
    """A recursive-descent parser that builds expressions as it goes."""

    def __init__(self, text: str, known: dict[str, Expr]) -> None:
        self.text = text
        self.known = known
        self.tokens = [(m.group().strip(), m.start(m.lastindex or 0)) for m in _INDEX_TOKEN.finditer(text)]
        self.at = 0
        self.scope: dict[str, Size | None] = {}
        self.written: frozenset[str] = frozenset()  # labels with a written size: they run over a part of a larger axis
        self.sizes_known = {name for expr in known.values() for size in expr.shape for name in sz.names(size)}

    # Tokens

    @property
    def token(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def ahead(self, count: int) -> str:
        """A token further on."""
        return self.tokens[self.at + count][0] if self.at + count < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        """The next token, which must be the wanted one."""
        token = self.token
        if not token or (wanted and token != wanted):
            raise self.error(f"expected {wanted or 'more'}, found {token or 'the end'}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether a token is next; then it is taken."""
        if self.token == token:
            self.at += 1
            return True
        return False

    def error(self, problem: str) -> EindiffError:
        """An error at the next token."""
        column = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        start, end = max(0, column - 30), column + 30
        return EindiffError(f"{problem}\n  {self.text[start:end]}\n  {' ' * (column - start)}^", "text")

    def syntax(self, text: str) -> ast.expr:
        """An index or a size in Python's grammar."""
        try:
            return ast.parse(text, mode="eval").body
        except SyntaxError:
            raise self.error(f"{text or 'nothing'} is neither an index nor a size") from None

    # Grammar

    def read(self) -> Expr:
        while self.ahead(1) == "=":
            name = self.take()
            self.take("=")
            self.known[name] = self.tensor()
            self.take(";")
        result = self.tensor()
        if self.token:
            raise self.error(f"did not expect {self.token}")
        return result

    def tensor(self) -> Expr:
        outside, self.scope, self.written = (self.scope, self.written), {}, frozenset()
        labels = self.labels() if self.token == "[" else ()
        body = self.sum()
        sizes = dict(zip(body.labels, body.expr.shape, strict=True))
        for label in labels:
            if label not in sizes:
                sizes[label] = self.known_size(label, self.scope[label])
        if missing := [label for label in body.labels if label not in labels]:
            raise self.error(f"{missing[0]} is neither an axis nor summed over")
        self.scope, self.written = outside
        return tensor_of([body], labels, sizes)

    def labels(self) -> Labels:
        """`[i, j:n]`, put into scope."""
        self.take("[")
        found: list[str] = []
        while not self.accept("]"):
            found.append(self.take())
            has_size = self.accept(":")
            size = self.size() if has_size else None
            self.scope[found[-1]] = size
            self.sizes_known |= set() if size is None else sz.names(size)
            self.written = self.written | {found[-1]} if has_size else self.written - {found[-1]}
            self.accept(",")
        return tuple(found)

    def size(self, until: str = ",]") -> Size:
        """A size: names and numbers with + - * and brackets."""
        return size_of(self.syntax(self.pieces(until)))

    def pieces(self, until: str = ",]") -> str:
        """The text up to one of some tokens outside of brackets."""
        found, depth = "", 0
        while self.token and (depth or self.token not in until):
            depth += (self.token in "([") - (self.token in ")]")
            found += self.take()
        return found

    def sum(self) -> Labelled:
        sign = -1 if self.accept("-") else 1
        terms = [scaled(sign, self.term())]
        while self.token in ("+", "-"):
            sign = -1 if self.take() == "-" else 1
            terms.append(scaled(sign, self.term()))
        return added(terms) if len(terms) > 1 else terms[0]

    def term(self) -> Labelled:
        factors = self.factors()
        return multiplied(factors) if len(factors) > 1 else factors[0]

    def factors(self) -> list[Labelled]:
        if self.is_sum():
            return [self.summed()]
        factors = [self.power()]
        while self.token in ("*", "/"):
            if self.take() == "/":
                factors.append(self.inverse(self.power()))
            elif self.is_sum():
                factors.append(self.summed())
            else:
                factors.append(self.power())
        return factors

    def is_sum(self) -> bool:
        """Whether a sum begins here; Σ is one too, for those who have a variable named sum."""
        return self.token in ("sum", "Σ") and self.token not in self.known and self.ahead(1) == "["

    def summed(self) -> Labelled:
        self.take()
        outside = dict(self.scope), self.written
        labels = self.labels()
        factors = self.factors()
        sizes = {label: self.scope[label] for label in labels}
        self.scope, self.written = outside
        bound = dict.fromkeys(label for factor in factors for label in factor.labels)
        alone = [self.known_size(label, sizes[label]) for label in labels if label not in bound]
        unbound = [Labelled(construct.size_number(size)) for size in alone]
        return contracted([*factors, *unbound], tuple(label for label in bound if label not in labels))

    def known_size(self, label: str, size: Size | None) -> Size:
        """The size that is written with a label, where nothing else shows it."""
        if size is None:
            raise self.error(f"the size of {label} is not known: write [{label}:n]")
        return size

    def inverse(self, value: Labelled) -> Labelled:
        if (known := known_number(value)) is not None:
            return Labelled(construct.filled(Fraction(1) / known if not isinstance(known, float) else 1 / known, ()))
        return Labelled(power(value.expr, -1), value.labels)

    def power(self) -> Labelled:
        base = self.atom()
        if not self.accept("^"):
            return base
        exponent = self.atom()
        if (known := known_number(exponent)) is not None:
            return Labelled(power(base.expr, known), base.labels)
        both = aligned([base, exponent])
        return Labelled(power(*(value.expr for value in both)), both[0].labels)

    def atom(self) -> Labelled:
        token = self.take()
        if token == "(":
            return self.bracket()
        if _NUMBER.fullmatch(token):
            return Labelled(construct.filled(number_of(token), ()))
        if token in ("delta", "δ") and token not in self.known:
            return self.delta()
        if token == "[":
            self.at -= 1
            return self.entry(construct.constant(self.array()))
        if self.token == "(":
            return self.call(token)
        if token in self.sizes_known and token not in self.known:
            return Labelled(construct.size_number(token))
        if token not in self.known:
            raise self.error(f"there is no variable {token}")
        return self.entry(self.known[token])

    def bracket(self) -> Labelled:
        """`a + b)`, `a > b)`, or a size."""
        if (size := self.size_in_brackets()) is not None:
            return Labelled(construct.size_number(size))
        inside = self.sum()
        if self.accept(">"):
            pair = aligned([inside, self.sum()])
            inside = Labelled(construct.map_(TABLE["greater"], [x.expr for x in pair]), pair[0].labels)
        self.take(")")
        return inside

    def size_in_brackets(self) -> Size | None:
        """`n - 1)` as a size, if all of it is one."""
        words: list[str] = []
        while self.ahead(len(words)) not in (")", ""):
            words.append(self.ahead(len(words)))
        is_size = all(w in self.sizes_known - self.known.keys() or w.isdigit() or w in "+-*" for w in words)
        if not is_size or not any(w in self.sizes_known for w in words):
            return None
        self.at += len(words) + 1
        return size_of(self.syntax(" ".join(words)))

    def delta(self) -> Labelled:
        """`[i, j]`: the unit matrix, or `[i, j + 1]`: the index map that has i at j + 1."""
        self.take("[")
        a = self.take()
        self.take(",")
        one, other = self.scope.get(a), self.scope.get(self.token)
        if self.token in self.scope and self.ahead(1) == "]" and (None in (one, other) or one == other):
            b = self.take()
            self.take("]")
            return Labelled(construct.einsum(1, [], (0, 0), {0: self.known_size(a, one or other)}), (a, b))
        factors: list[tuple[Expr, tuple]] = []
        self.index(0, self.known_size(a, one), factors)
        self.take("]")
        [(chosen, (_, *labels))] = factors
        return self._contracted([(chosen, (a, *labels))])

    # Functions

    def call(self, name: str) -> Labelled:
        self.take("(")
        if name == "tril":
            return self.entry(construct.constant(self.triangle()))
        if name == "sqrt":
            value = self.sum()
            self.take(")")
            return Labelled(power(value.expr, Fraction(1, 2)), value.labels)
        name = {"at_max": "argmax"}.get(name, name)
        if name == "prod_except":
            return self.entry(self.left_out())
        if name not in TABLE:
            raise self.error(f"there is no function {name}")
        if not TABLE[name].core:
            args = aligned(self.arguments(self.sum))
            wanted = len(TABLE[name].derivatives)
            if len(args) != wanted and divided_base(TABLE[name]) is None:
                raise self.error(f"{name} takes {wanted} arguments, not {len(args)}")
            exprs, inner = [arg.expr for arg in args], divided_base(TABLE[name])
            return Labelled(divided(inner, exprs) if inner else construct.map_(TABLE[name], exprs), args[0].labels)
        return self.entry(self.apply(name))

    def arguments(self, read: Any) -> list:
        found = []
        while not self.accept(")"):
            found.append(read())
            self.accept(",")
        return found

    def whole(self) -> Expr:
        """A tensor as an argument: by its name, or by its entries."""
        if self.token in self.known and self.ahead(1) in (",", ")"):
            return self.known[self.take()]
        return self.tensor()

    def apply(self, name: str) -> Expr:
        args = self.arguments(self.whole)
        function = TABLE[name]
        if len(args) <= len(function.core):
            return construct.apply(function, args)
        deepest = max(arg.ndim for arg in args)
        stacked = [unstacked(arg, deepest - arg.ndim) for arg in args]
        function = frechet_function(name, len(args) - 1)
        return construct.apply(function, [arg for arg, _ in stacked], [labels for _, labels in stacked])

    def left_out(self) -> Expr:
        """`prod_except(x, 2)`."""
        arg = self.whole()
        count = int(self.digits()) if self.accept(",") else 1
        self.take(")")
        return construct.apply(prod_function(count), [arg])

    def triangle(self) -> Lower:
        """`tril(ones(n, n))`."""
        self.take("ones")
        self.take("(")
        size = self.size(",")
        self.take(",")
        self.size(")")
        self.take(")")
        self.take(")")
        return Lower(size)

    def array(self) -> list:
        """An array of numbers."""
        self.take("[")
        found: list[Any] = []
        while not self.accept("]"):
            negative = self.accept("-")
            found.append(self.array() if self.token == "[" else float(self.digits()) * (-1 if negative else 1))
            self.accept(",")
        return found

    def digits(self) -> str:
        """A number, as it is written."""
        if not _NUMBER.fullmatch(self.token):
            raise self.error(f"expected a number, found {self.token or 'the end'}")
        return self.take()

    # Entries

    def entry(self, tensor: Expr) -> Labelled:
        """A tensor at indices: labels, which may repeat, or sums of multiples of them."""
        if tensor.ndim == 0 and self.token != "[":
            return Labelled(tensor)
        self.take("[")
        factors: list[tuple[Expr, tuple]] = []
        labels: list[str] = []
        for axis, size in enumerate(tensor.shape):
            labels.append(self.index(axis, size, factors))
            if axis < tensor.ndim - 1:
                self.take(",")
        self.take("]")
        return self._contracted([(tensor, tuple(labels)), *factors])

    def index(self, axis: int, size: Size, factors: list[tuple[Expr, tuple]]) -> str:
        """The label of an axis; of one that is indexed by more than a label, with the index map as one more factor."""
        is_part = self.token in self.written and self.scope[self.token] != size
        if self.token in self.scope and self.ahead(1) in (",", "]") and not is_part:
            label = self.take()
            if self.scope[label] is None:
                self.scope[label] = size
            if self.scope[label] != size:
                raise self.error(f"{label} has size {self.scope[label]}, but the axis {axis} has size {size}")
            return label
        chosen, labels = self._map(self.pieces(), size)
        factors.append((construct.constant(chosen), (f"#{axis}", *labels)))
        return f"#{axis}"

    def _map(self, pieces: str, size: Size) -> tuple[IndexMap, list[str]]:
        """The index map that an index of more than a label stands for, and the labels that it maps."""
        if pieces.startswith("["):
            return self._listed(pieces, size)
        if (name := pieces.partition("[")[0]) != pieces and name not in self.known:
            raise self.error(f"there is no variable {name}")
        if name in self.known:
            return self._looked_up(pieces, size)
        offset, strides = self._affine(self.syntax(pieces))
        inputs = [self.scope[label] for label, _ in strides]
        if None in inputs:
            raise self.error("an index is computed from labels whose sizes are written, [i:n]")
        chosen = IndexMap(size, tuple(inputs), offset, tuple(s for _, s in strides))  # type: ignore[arg-type]
        return chosen, [label for label, _ in strides]

    def _listed(self, pieces: str, size: Size) -> tuple[IndexMap, list[str]]:
        """`[0, 2, 1][i]`: the places of a list."""
        listed, _, inside = pieces.rpartition("[")
        labels = inside.rstrip("]").split(",") if inside != "]" else []
        shape, flat = flat_list(self.literal(listed))
        self.run_over(labels, shape)
        return IndexMap(size, shape, indices=Table(flat)), labels

    def literal(self, text: str) -> Any:
        """Nested lists of places."""
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):
            raise self.error(f"{text} is no list of places") from None

    def run_over(self, labels: Sequence[str], shape: Sequence[Size]) -> None:
        """Labels run over the axes of a table."""
        if len(labels) != len(shape) or not set(labels) <= set(self.scope):
            raise self.error(f"a table of {len(shape)} axes takes as many labels, which are axes or summed over")
        for label, count in zip(labels, shape, strict=True):
            self.scope[label] = self.scope.get(label) or count

    def _looked_up(self, pieces: str, size: Size) -> tuple[IndexMap, list[str]]:
        """`g[i]`: indices that come at run time, or some of them, as in `g[h][i]`."""
        name, _, inside = pieces.rpartition("[") if pieces.endswith("]") else (pieces, "", "]")
        places = self._some(self.syntax(name))
        labels = inside[:-1].split(",") if inside != "]" else []
        self.run_over(labels, places.shape)
        return IndexMap(size, places.shape, indices=Given(places)), labels

    def _some(self, node: ast.expr) -> Expr:
        """Indices by their name, or some of them: `g`, `g[h]`, `g[1:]`."""
        match node:
            case ast.Name(id=name) if name in self.known:
                return self.known[name]
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                bounds = [None if part is None else size_of(part) for part in (lower, upper, step)]
                return getitem(self._some(value), slice(*bounds))
            case ast.Subscript(value=value, slice=ast.Name() | ast.Subscript() as chosen):
                return getitem(self._some(value), self._some(chosen))
        raise self.error(f"{ast.unparse(node)} is neither an index nor the name of indices")

    def _affine(self, node: ast.expr) -> tuple[Size, list[tuple[str, Size]]]:
        """Offset and strides of an index."""
        match node:
            case ast.Name(id=name) if name in self.scope:
                return 0, [(name, 1)]
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                (a, first), (b, second) = self._affine(left), self._affine(right)
                sign = 1 if isinstance(op, ast.Add) else -1
                return sz.add(a, sz.multiply(sign, b)), first + [(x, sz.multiply(sign, s)) for x, s in second]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                offset, strides = self._affine(operand)
                return sz.multiply(-1, offset), [(x, sz.multiply(-1, s)) for x, s in strides]
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                (a, first), (b, second) = self._affine(left), self._affine(right)
                if not first:
                    return sz.multiply(a, b), [(x, sz.multiply(a, s)) for x, s in second]
        if unknown := sz.names(offset := size_of(node)) - self.sizes_known:
            raise self.error(f"{min(unknown)} is no label here: it is neither an axis nor summed over")
        return offset, []

    def _contracted(self, factors: Sequence[tuple[Expr, tuple]]) -> Labelled:
        kept = tuple(dict.fromkeys(x for _, labels in factors for x in labels if not x.startswith("#")))
        names = {label: k for k, label in enumerate(dict.fromkeys(x for _, labels in factors for x in labels))}
        sizes: dict[int, Size] = {}
        for node, labels in factors:
            sizes.update({names[label]: size for label, size in zip(labels, node.shape, strict=True)})
        placed = [(node, tuple(names[label] for label in labels)) for node, labels in factors]
        return Labelled(construct.einsum(1, placed, tuple(names[label] for label in kept), sizes), kept)


"""Whether undeclared names are scalars, vectors or matrices: the reading that fits the text best.

Every node of the syntax gets a table: for each kind that it can have, and for each choice for the names that occur
outside of it too, the least cost. Where all places of a name are below a node, the best choice for it is settled. So
the best reading is found without trying all of them. What costs, from most to least:

1. a scalar where only a vector or matrix makes sense: transposed, summed, to the right of a matrix;
2. a name that is a scalar nearly everywhere (λ) and is none here;
3. a scalar that meets a vector or a matrix entry by entry; numbers may;
4. a vector or matrix that scales a number: in `C*sum(x)` all is a number if C is one;
5. what letters mean on matrixcalculus.org, except that t and Greek letters are usually scalars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from eindiff.core.groups import grouped
from eindiff.text.read.conventions import Hint, hint, is_usual_scalar, may_be_number
from eindiff.text.read.function_rows import values
from eindiff.text.read.infer import CONSTANTS, Inference
from eindiff.text.read.notation import NUMPY_OVER
from eindiff.text.read.offsets import AMPLITUDE, BOLD, INTERCEPT, RATE, VECTOR, offsets
from eindiff.text.read.shapes import KnownNames
from eindiff.text.read.source import ParseError, Source
from eindiff.text.read.syntax import Node
from eindiff.text.read.table import TABLE
from eindiff.text.read.unify import Type, Unknown

# Kinds: scalars by what they come from, then rows, columns, matrices, and tensors by their order.
LITERAL, WORD, PLAIN, UNUSUAL, POWERED, REDUCED, ROW, COLUMN, MATRIX = range(-6, 3)
_ALL = (PLAIN, REDUCED, ROW, COLUMN, MATRIX)

_FORCED, _SCALAR_WORD, _BROADCAST, _SCALED, _LETTER = (1 << 20 * k for k in range(4, -1, -1))
_EXPONENT = 5 * _LETTER  # a vector as the exponent of .^, or as a factor of c^2
_DOT = 9 * _LETTER  # of two vectors, as m·g·h are numbers
_QUOTIENT = 8 * _LETTER  # of two vectors, entry by entry
_ENTRY_BY_ENTRY = 16 * _SCALAR_WORD  # a number where .* and .^ say that there are entries
_AS_OFFSET = {
    INTERCEPT: Hint((0, 2, 12), True), VECTOR: Hint((4, 0, 12)), RATE: Hint((0, 9, 12)), BOLD: Hint((10, 0, 12)),
    AMPLITUDE: Hint((0, 12, 12)),
}  # fmt: skip
_WIDEST = 400  # entries of a table that are kept
_LARGEST = 3000  # nodes of a text whose names are read by their letters alone

Key = tuple[Any, tuple[tuple[str, int], ...]]
Combine = Callable[[Any, Any], Iterable[tuple[Any, int]]]


def order_of(kind: int) -> int:
    """How many axes a kind has."""
    return 0 if kind < ROW else 1 if kind == ROW else kind


class Way:
    """The best way to an entry of a table: its cost, and what was chosen; `other` is a way that is as good."""

    __slots__ = ("cost", "made", "other")

    def __init__(self, cost: int, made: Any = (), other: Any = None) -> None:
        self.cost, self.made, self.other = cost, made, other

    def orders(self, other: bool = False) -> dict[str, int]:
        """The orders of all names that were settled on the way."""
        found: dict[str, int] = {}
        stack = [self.other if other else self.made]
        while stack:
            made = stack.pop()
            if made and isinstance(made[0], str):
                found[made[0]] = made[1]
            else:
                stack.extend(part for part in made if part)
        return found


class KindCosts:
    """The least costs of a node by its kind and the names that are still open; how often each was met below."""

    def __init__(self, entries: dict[Key, Way], met: Counter[str]) -> None:
        self.entries, self.met = entries, met

    def __setitem__(self, key: Key, choice: Way) -> None:
        known = self.entries.get(key)
        if known is None or choice.cost < known.cost:
            self.entries[key] = choice
        elif choice.cost == known.cost and known.other is None:
            known.other = choice.made

    def mapped(self, change: Callable[[Any], Iterable[tuple[Any, int]]]) -> KindCosts:
        """The table of a node with this one below."""
        result = KindCosts({}, self.met)
        for (kind, names), choice in self.entries.items():
            for found, cost in change(kind):
                result[found, names] = Way(choice.cost + cost, choice.made, choice.other)
        return result

    def joined(self, other: KindCosts, combine: Combine) -> KindCosts:
        """The table of a node with these two below: entries that agree on the names they share."""
        shared = self.met.keys() & other.met.keys()
        groups = grouped((_part(key, shared), (key, choice)) for key, choice in other.entries.items())
        result = KindCosts({}, self.met + other.met)
        for (kind, names), left in self.entries.items():
            for (right_kind, more), right in groups.get(_part((kind, names), shared), ()):
                found = list(combine(kind, right_kind))
                if not found:
                    continue
                union = tuple(sorted({*names, *more})) if names or more else ()
                made, rest = (left.made, right.made), None
                if left.other is not None or right.other is not None:
                    rest = (left.other or left.made, right.other or right.made)
                for result_kind, cost in found:
                    result[result_kind, union] = Way(left.cost + right.cost + cost, made, rest)
        return result

    def settled(self, total: Counter[str]) -> KindCosts:
        """The same with the names closed that occur nowhere else; only the best entries are kept."""
        closed = {name for name, count in self.met.items() if total[name] == count}
        result = KindCosts({}, Counter({name: count for name, count in self.met.items() if name not in closed}))
        for (kind, names), choice in self.entries.items():
            known = tuple(pair for pair in names if pair[0] in closed)
            rest = tuple(pair for pair in names if pair[0] not in closed) if known else names
            made = (*known, choice.made) if known else choice.made
            other = (*known, choice.other) if choice.other is not None else None
            result[kind, rest] = Way(choice.cost, made, other)
        if len(result.entries) > _WIDEST:
            best = sorted(result.entries.items(), key=lambda item: item[1].cost)[:_WIDEST]
            result.entries = dict(best)
        return result


def _part(key: Key, shared: set[str]) -> tuple:
    return tuple(pair for pair in key[1] if pair[0] in shared) if shared else ()


class Kinds:
    """One text whose names get their orders."""

    def __init__(self, source: Source, names: KnownNames) -> None:
        self.names = names
        self.declared, self.bound, self.sizes = names.declared, names.bound, names.sizes
        self.identities = names.identities
        self.scratch = Inference(source, KnownNames(names.declared, ranges=names.ranges, lengths=names.lengths))
        self.total: Counter[str] = Counter()
        self.offsets: dict[str, int] = {}

    def read(self, statements: list[tuple[str | None, list[Node]]]) -> Way | None:
        """The best choice of orders for statements, each the name that it binds and its nodes; None if none fits."""
        nodes = [node for _, below in statements for node in below]
        names = [str(node.value) for node in nodes if node.kind == "name" and not node.literal]
        self.total = Counter(name for name in names if self._is_open(name))
        if not self.total or len(nodes) > _LARGEST:
            return None
        self.offsets = dict.fromkeys(self.names.bold, BOLD) | offsets(nodes)
        self.total.update(str(name) for name, _ in statements if name is not None)
        joined = KindCosts({(LITERAL, ()): Way(0)}, Counter())
        for name, below in statements:
            root = self._root(below)
            if name is not None:
                root = self._binding(str(name), root)
            joined = joined.joined(root, lambda _, kind: [(kind, 0)]).settled(self.total)
        declared = {name: len(self.declared[name].shape) for name in {*names} & self.declared.keys()}
        for (kind, _), choice in joined.entries.items():
            if kind >= ROW:
                choice.cost += _unlikely(declared | choice.orders())
        return min(joined.entries.values(), key=lambda choice: choice.cost, default=None)

    def _is_open(self, name: str) -> bool:
        known = name in self.declared or name in self.sizes or name in self.identities
        return name in self.bound or not (known or name in CONSTANTS)

    def _binding(self, name: str, root: KindCosts) -> KindCosts:
        """A statement that binds a name: the name has the kind of what it is bound to."""
        result = KindCosts({}, root.met + Counter([name]))
        for (kind, names), choice in root.entries.items():
            simple = REDUCED if UNUSUAL < kind < ROW else PLAIN if kind < ROW else kind
            result[LITERAL, tuple(sorted({*names, (name, simple)}))] = choice
        return result

    def _root(self, nodes: list[Node]) -> KindCosts:
        """The table of a statement, from those of all its nodes, the last of which is the whole."""
        tables: dict[int, KindCosts] = {}
        for node in nodes:
            if not node.literal:
                table = getattr(self, f"_{node.kind}")(node, [tables[id(arg)] for arg in values(node)])
                tables[id(node)] = table.settled(self.total)
        return tables[id(nodes[-1])]

    # Leaves

    def _number(self, node: Node, below: list[KindCosts]) -> KindCosts:
        return _single(LITERAL)

    def _text(self, node: Node, below: list[KindCosts]) -> KindCosts:
        return _single(LITERAL)

    _ellipsis = _slice = _keyword = _text

    def _array(self, node: Node, below: list[KindCosts]) -> KindCosts:
        return _single(_kind(self._type(node, ())))

    def _name(self, node: Node, below: list[KindCosts]) -> KindCosts:
        name = str(node.value)
        if name in self.bound:
            return KindCosts({(kind, ((name, kind),)): Way(0) for kind in _ALL}, Counter([name]))
        own = _AS_OFFSET[self.offsets[name]] if name in self.offsets else hint(name)
        if name in self.declared:
            return _single(_kind(self.declared[name].type(), _flavour(name, own)))
        if name in self.sizes or name in CONSTANTS:
            return _single(LITERAL)
        if name in self.identities:
            return _single(MATRIX)
        if name in self.names.indexed:
            return self._indexed_name(name, self.names.indexed[name])
        scalar = _flavour(name, own)
        costs = [_LETTER * cost + _SCALAR_WORD * (own.is_scalar and k > 0) for k, cost in enumerate(own.costs)]
        if own.order < 2:
            costs[2] += 6 * _FORCED  # small letters are no matrices
        else:  # capitals are no vectors, but C*sum(x) may well scale
            costs[1] += _FORCED
            costs[0] += _FORCED * (own.costs[0] > 4)
        kinds = (scalar, COLUMN, MATRIX)
        return KindCosts({(kinds[k], ((name, k),)): Way(cost) for k, cost in enumerate(costs)}, Counter([name]))

    def _indexed_name(self, name: str, count: int) -> KindCosts:
        """A name with indices of sums: its entries are numbers, or the rows of a matrix that has one index only."""
        usual = count + ((hint(name).order == 2 or name in self.names.bold) and count == 1)
        costs = {order: 3 * abs(order - usual) * _LETTER for order in range(count, count + 3)}
        return KindCosts({(_order_kind(k), ((name, k),)): Way(cost) for k, cost in costs.items()}, Counter([name]))

    def _over(self, node: Node, below: list[KindCosts]) -> KindCosts:
        return below[0].mapped(lambda kind: [(max(kind, REDUCED), 0)])

    # Operators

    def _negative(self, node: Node, below: list[KindCosts]) -> KindCosts:
        return below[0]

    def _transpose(self, node: Node, below: list[KindCosts]) -> KindCosts:
        turned = {LITERAL: LITERAL, ROW: COLUMN, COLUMN: ROW, MATRIX: MATRIX}
        return below[0].mapped(
            lambda kind: [(turned[kind], 0)] if kind in turned else [(kind, 4 * _FORCED)] if kind < ROW else []
        )

    def _sum(self, node: Node, below: list[KindCosts]) -> KindCosts:
        """Entry by entry; the state counts the scalars that have met no vector yet."""
        tables = [table.mapped(lambda kind: [((kind, WORD < kind < ROW), 0)]) for table in below]
        result = tables[0]
        for table in tables[1:]:
            result = result.joined(table, _added).settled(self.total)
        return result.mapped(lambda state: [(state[0], 0)])

    _compare = _sum

    def _product(self, node: Node, below: list[KindCosts]) -> KindCosts:
        """From left to right; the state says too whether only names are no scalars, and whether a number is scaled."""
        result = self._factor(node.args[0], below[0], "*")
        if node.args[0].kind == "name" and may_be_number(str(node.args[0].value)) and {"*", "·"} & {*node.value}:
            result = result.mapped(lambda state: [((*state[:2], -1) if state[0] == COLUMN else state, 0)])
        for operator, arg, table in zip(node.value, node.args[1:], below[1:], strict=True):
            step = (_Paper if operator.startswith("*_") else _Step)(operator, arg.kind, arg is node.args[-1])
            result = result.joined(self._factor(arg, table, operator), step).settled(self.total)
        return result.mapped(lambda state: [(state[0], max(state[2], 0) * (state[0] >= ROW and state[1]))])

    def _factor(self, arg: Node, table: KindCosts, operator: str) -> KindCosts:
        """A factor as a state, with what it costs if names alone make a vector or matrix of the number that it is."""
        bare = _is_one_name(arg)
        scaled = {POWERED: _SCALED} if operator == "/" else {POWERED: _SCALED, REDUCED: _SCALED}
        if arg.kind in ("power", "call") and operator != "/":
            scaled |= {PLAIN: _EXPONENT, WORD: _EXPONENT}  # m*c^2, N*exp(-t)
        return table.mapped(lambda kind: [((kind, kind < ROW or bare, 0 if bare else scaled.get(kind, 0)), 0)])

    def _power(self, node: Node, below: list[KindCosts]) -> KindCosts:
        if node.value != "^":
            return below[0].joined(below[1], _raised_by_entry)
        cost = 8 * _LETTER if node.args[1].kind == "number" else 0  # matrices have inverses, and few other powers
        return below[0].joined(below[1], lambda base, exponent: _raised(base, exponent, cost))

    def _index(self, node: Node, below: list[KindCosts]) -> KindCosts:
        return below[0].mapped(lambda kind: self._called(node, (kind,)))

    # Calls

    def _call(self, node: Node, below: list[KindCosts]) -> KindCosts:
        if node.value not in TABLE:
            return _single(PLAIN) if not below else _merged(below)
        if not below:
            return _single(_kind(self._type(node, ())))
        alike = TABLE[node.value].is_by_entry or node.value in ("stack", "concatenate", "inner")
        result = below[0].mapped(lambda kind: [((kind,), 0)])
        for table in below[1:]:
            result = result.joined(table, lambda kinds, kind: _listed(kinds, kind, alike)).settled(self.total)
        return result.mapped(lambda kinds: self._called(node, kinds))

    def _called(self, node: Node, kinds: tuple[int, ...]) -> list[tuple[int, int]]:
        """The kind of a call from those of its arguments, and what it costs."""
        found = self._type(node, kinds)
        if found is None:
            return []
        flavour = max(kinds)
        scalars = sum(LITERAL < kind < ROW for kind in kinds)
        if node.kind == "call" and TABLE[node.value].is_by_entry:
            cost = _BROADCAST * sum(WORD < kind < ROW for kind in kinds) * (flavour >= ROW)
            flavour = POWERED if flavour == UNUSUAL else flavour
        elif node.kind == "call":
            cost = 4 * _FORCED * scalars * (node.value not in ("vector", "matrix", "bars"))
        else:
            cost = 0
        return [(_kind(found, PLAIN if node.kind == "index" else min(flavour, REDUCED)), cost)]

    def _type(self, node: Node, kinds: tuple[int, ...]) -> Type | None:
        """What inference says of a node whose args have some kinds and any sizes; None if that does not fit."""
        for arg, kind in zip(values(node), kinds, strict=True):
            arg.type = Type(tuple(Unknown() for _ in range(order_of(kind))), kind == ROW)
        try:
            found: Type = getattr(self.scratch, f"_{node.kind}")(node)
        except ParseError:
            return None
        return found


def _is_one_name(node: Node, depth: int = 3) -> bool:
    """Whether a factor is a name, or an entry of one, up to a number: y, -y, y_i, 1/(2*m)."""
    if node.kind in ("negative", "product"):
        others = [arg for arg in node.args if arg.kind != "number"]
        return depth > 0 and len(others) == 1 and _is_one_name(others[0], depth - 1)
    return node.kind == "name" or (node.kind == "index" and node.args[0].kind == "name")


def _flavour(name: str, own: Hint) -> int:
    """The kind of a name that is a scalar."""
    return WORD if own.is_scalar else PLAIN if is_usual_scalar(name) else UNUSUAL


def _unlikely(orders: dict[str, int]) -> int:
    """What it costs that a text is no number although some of its names are.

    Where x is a number, so is the whole; where p and n are, V, R and T are no matrices in p*V - n*R*T.
    """
    scalars, columns, matrices = ([name for name, k in orders.items() if k == order] for order in range(3))
    numbers = [name for name in scalars if name == "I" or not is_usual_scalar(name)]
    vectors = [name for name in columns if not is_usual_scalar(name)]
    costs = [hint(name).costs[0] for name in vectors]  # of numbers in their places
    is_odd = 6 in [hint(name).costs[0] for name in scalars]
    if numbers and not vectors and (cost := _forced(orders, matrices, is_odd)):
        return cost
    is_scaled = bool(columns) and any(map(str.isupper, numbers))
    return _SCALED * bool(is_odd or is_scaled or (numbers and max(costs, default=6) < 6))


def _forced(orders: dict[str, int], matrices: list[str], is_odd: bool) -> int:
    """What it costs that some names are matrices, beside which there are numbers and no vectors."""
    if matrices and sum(name[0].isupper() for name in orders) > 1 and all(map(may_be_number, matrices)):
        return _FORCED
    return 2 * _FORCED * bool(matrices and is_odd)


def _single(kind: int) -> KindCosts:
    return KindCosts({(kind, ()): Way(0)}, Counter())


def _merged(tables: list[KindCosts]) -> KindCosts:
    """Tables without names as one, by the highest kind."""
    result = tables[0]
    for table in tables[1:]:
        result = result.joined(table, lambda a, b: [(max(a, b), 0)])
    return result


def _order_kind(order: int) -> int:
    """The kind of a name of some order."""
    return (PLAIN, COLUMN, MATRIX)[order] if order < 3 else order


def _kind(type_: Type | None, scalar: int = LITERAL) -> int:
    """The kind of a type; scalars are of a given one."""
    if type_ is None or type_.order == 0:
        return scalar
    return (ROW if type_.row else COLUMN) if type_.order == 1 else type_.order


def _added(a: tuple[int, int], b: tuple[int, int]) -> list[tuple[tuple[int, int], int]]:
    """Two terms of a sum, each a kind and how many scalars it has that meet nothing else so far."""
    if a[0] < ROW and b[0] < ROW:
        return [((max(a[0], b[0]), a[1] + b[1]), 0)]
    if a[0] < ROW or b[0] < ROW:
        return [((max(a[0], b[0]), 0), _BROADCAST * (a[1] + b[1]))]
    return [(a, 0)] if a[0] == b[0] else []


def _listed(kinds: tuple[int, ...], kind: int, alike: bool) -> list[tuple[tuple[int, ...], int]]:
    """One more argument; where all are to be alike, what is no scalar has one kind."""
    others = {known for known in kinds if known >= ROW}
    return [] if alike and kind >= ROW and others and kind not in others else [((*kinds, kind), 0)]


class _Step:
    """One more factor of a product."""

    def __init__(self, operator: str, kind: str, is_last: bool) -> None:
        self.operator, self.kind, self.is_last = operator, kind, is_last

    def __call__(self, a: tuple, b: tuple) -> list[tuple[tuple, int]]:
        (left, names, scaled), (right, more, other) = a, b
        found = self.product(left, right)
        if found is None:
            return []
        if scaled < 0:  # y*w'*x: a label that scales a number, or an outer product
            if left == MATRIX and right == COLUMN:
                return [((found, False, 0), _SCALED)]
            keeps = right == ROW or (left == MATRIX and right == MATRIX)
            scaled = scaled if keeps else 0
            other = 0 if keeps else other
        return [((found, names and more, scaled if scaled < 0 else max(scaled, other)), self.cost(left, right))]

    def cost(self, left: int, right: int) -> int:
        """What it costs that a person would have meant this product of two kinds."""
        if self.operator in (".*", "./", "⊙", "⊘"):
            return self._by_entry(left, right)
        if self.operator == "/" and right >= ROW:
            return 2 * _FORCED if self.kind == "name" or left == REDUCED else _QUOTIENT
        if self.operator == NUMPY_OVER and right >= ROW:
            return _EXPONENT * (self.kind == "name")
        if self.operator == "·" and left == right == COLUMN:
            return _DOT
        sure = LITERAL if self.is_last else WORD  # of a number: rho in A*rho*x
        is_turned = left in (ROW, MATRIX) and sure < right < REDUCED  # x'*c, A*c
        is_alone = self.operator in ("*", "@", "·") and self.kind not in ("power", "call")
        return 2 * _FORCED * (is_turned and is_alone)

    def _by_entry(self, left: int, right: int) -> int:
        cost = _BROADCAST * (left >= ROW or right >= ROW) * sum(WORD < kind < ROW for kind in (left, right))
        if self.kind == "name" and right == WORD and left > LITERAL:
            cost += _ENTRY_BY_ENTRY
        return cost + _ENTRY_BY_ENTRY * (LITERAL < left < REDUCED and LITERAL < right < REDUCED)

    def product(self, left: int, right: int) -> int | None:
        return _product(self.operator, left, right)


class _Paper(_Step):
    """`*_(s1,s2,s3)`: the labels say the orders."""

    def product(self, left: int, right: int) -> int | None:
        labels = [len("".join(part.split())) for part in self.operator.strip("*_({)} \t").split(",")]
        if len(labels) != 3 or [order_of(left), order_of(right)] != labels[:2]:
            return None
        return (REDUCED, COLUMN, MATRIX)[labels[2]] if labels[2] < 3 else labels[2]


@lru_cache(maxsize=512)
def _product(operator: str, left: int, right: int) -> int | None:
    """The kind of a product of two, as inference has it for any sizes."""
    node = Node("product", 0, 0, [Node("group", 0, 0), Node("group", 0, 0)], [operator])
    for arg, kind in zip(node.args, (left, right), strict=True):
        arg.type = Type(tuple(Unknown() for _ in range(order_of(kind))), kind == ROW)
    try:
        found = Inference(Source(""), KnownNames())._product(node)
    except ParseError:
        return None
    return _kind(found, REDUCED if left >= ROW else max(left, right))


def _raised(base: int, exponent: int, of_matrix: int) -> list[tuple[int, int]]:
    """`^`: the power of a number or of a square matrix; of a vector only where it cannot be otherwise."""
    if exponent >= ROW:
        return []
    if base < ROW:
        return [(POWERED if UNUSUAL in (base, exponent) else max(base, exponent), 0)]
    if base == MATRIX and exponent > LITERAL:  # matrices have powers with known exponents only
        return []
    return [(base, of_matrix if base == MATRIX else 2 * _FORCED)] if base <= MATRIX else []


def _raised_by_entry(base: int, exponent: int) -> list[tuple[int, int]]:
    """`.^`: exponents are mostly numbers, and the base has entries."""
    if exponent < ROW:
        return [(max(base, exponent), _ENTRY_BY_ENTRY * (base == WORD))]
    if base < ROW:
        return [(exponent, _BROADCAST * (base > WORD))]
    return [(base, _EXPONENT)] if base == exponent else []

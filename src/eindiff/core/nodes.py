"""The six kinds of node of an expression, immutable and interned: equal expressions are the same object.

Nodes are made by the constructors in `core/construct.py`, which keep the canonical form; the classes here only hold
what a node is. Python's operators on expressions are installed by `functions/operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard
from weakref import WeakValueDictionary

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.coefficients import Number as Number
from eindiff.core.coefficients import number as number
from eindiff.core.errors import EindiffError
from eindiff.core.function import Function
from eindiff.core.index_relations import Given, IndexMap, SizeOf, Structure
from eindiff.core.labels import Labels, Symmetry
from eindiff.core.locks import reentrant_lock
from eindiff.core.remembered import ordered
from eindiff.core.sizes import Shape, Size
from eindiff.core.traverse import post_order

if TYPE_CHECKING:
    from eindiff.core.derivation import Derivation

_CHILDREN = attrgetter("children")
INDICES = "indices into "  # a property, before the size of the axis

_interned: WeakValueDictionary[bytes, Expr] = WeakValueDictionary()
_interning = reentrant_lock()


class Expr:
    """A tensor expression. See `Variable`, `Constant`, `Einsum`, `Add`, `Map` and `Apply`.

    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> (A @ x).shape, (A @ x).ndim, A.T.shape
    (('m',), 1, ('n', 'm'))

    See also: `variables`, `matrix`, `to_text`.
    """

    __slots__ = ("__weakref__", "_depth", "_facts", "_interval", "_levels", "digest", "shape", "symmetries")

    shape: Shape
    digest: bytes  # of the structure: the same in every run, and what nodes are interned and ordered by
    symmetries: tuple[Symmetry, ...]  # permutations of axes that leave the value as it is, up to a sign
    derivation: Derivation | None = None  # what a derivative is one of
    children: Sequence[Expr] = ()  # that this one is made of
    _depth: int  # where `depth` has been asked for it
    _facts: Any  # what `facts` has found out already
    _interval: Any
    _levels: dict[Any, Any]

    if not TYPE_CHECKING:  # a type checker knows only what is declared

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"expressions have no attribute {name!r}")
            return self._numpy_attribute(name)

    def __init_subclass__(cls, parts: str = "") -> None:
        if parts:  # the slot itself, which all walks read without a call
            cls.children = vars(cls)[parts]

    @property
    def ndim(self) -> int:
        """The order of the tensor."""
        return len(self.shape)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("expressions are immutable")

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def __eq__(self, other: object) -> Any:
        """Whether this is the same expression; with numbers and arrays, 1 where entries are equal, else 0."""
        if self is other:
            return True
        if isinstance(other, Expr):
            return plain(self) is plain(other)
        return self._compare(other)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same if isinstance(same, bool) else 1 - same

    __hash__ = object.__hash__

    def __pos__(self) -> Expr:
        return self

    def __ge__(self, other: Any) -> Expr:
        return 1 - (self < other)

    def __le__(self, other: Any) -> Expr:
        return 1 - (self > other)

    def __and__(self, other: Any) -> Any:
        return np.logical_and(self, other)

    def __or__(self, other: Any) -> Any:
        return np.logical_or(self, other)

    def __xor__(self, other: Any) -> Any:
        return np.logical_xor(self, other)

    def __invert__(self) -> Any:
        return np.logical_not(self)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
        """The sum over all axes or the given ones."""
        result: Any = np.sum(self, axis, keepdims=keepdims)
        return result

    if TYPE_CHECKING:
        # Operators are installed by `functions/operators.py`, which defines them.
        def __add__(self, other: Any) -> Expr: ...
        def __radd__(self, other: Any) -> Expr: ...
        def __sub__(self, other: Any) -> Expr: ...
        def __rsub__(self, other: Any) -> Expr: ...
        def __mul__(self, other: Any) -> Expr: ...
        def __rmul__(self, other: Any) -> Expr: ...
        def __truediv__(self, other: Any) -> Expr: ...
        def __rtruediv__(self, other: Any) -> Expr: ...
        def __pow__(self, other: Any) -> Expr: ...
        def __rpow__(self, other: Any) -> Expr: ...
        def __matmul__(self, other: Any) -> Expr: ...
        def __rmatmul__(self, other: Any) -> Expr: ...
        def __neg__(self) -> Expr: ...
        def __abs__(self) -> Expr: ...
        def __gt__(self, other: Any) -> Expr: ...
        def __lt__(self, other: Any) -> Expr: ...
        def __getitem__(self, index: Any) -> Expr: ...
        def __iter__(self) -> Iterator[Expr]: ...
        def __len__(self) -> int: ...
        def reshape(self, *shape: Any) -> Expr: ...
        @property
        def T(self) -> Expr: ...

        # What NumPy, Python and notebooks ask for, and the text of messages, is installed by `eindiff/__init__.py`.
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray: ...
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any: ...
        def __array_function__(self, function: Any, types: Any, args: tuple, keywords: dict[str, Any]) -> Any: ...
        def __bool__(self) -> bool: ...
        def __float__(self) -> float: ...
        def __int__(self) -> int: ...
        def __index__(self) -> int: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def _compare(self, other: object) -> Any: ...
        def _repr_html_(self) -> str: ...
        def _repr_latex_(self) -> str: ...
        def _readable(self) -> str: ...


class Variable(Expr):
    """An input, known by its name."""

    __slots__ = ("name", "properties")
    name: str
    properties: frozenset[str]

    @property
    def into(self) -> Size | None:
        """The size of the axis that it holds indices of, if it does: `indices into n`."""
        found = [text.removeprefix(INDICES) for text in self.properties if text.startswith(INDICES)]
        return sz.read(int(found[0]) if found[0].isdigit() else found[0]) if found else None


class Constant(Expr):
    """Literal data, or a structured constant; an index map may have the values of an expression for its places."""

    __slots__ = ("value",)
    value: np.ndarray | Structure

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        given = self.value.indices if isinstance(self.value, IndexMap) else None
        return (given.expr,) if isinstance(given, Given) else ()


class Einsum(Expr, parts="operands"):
    """`coefficient * sum of products of operands`, with labels 0, 1, 2, ... for axes.

    The output may repeat a label (a delta) or name one that no operand has (ones); `sizes` has the size of every label.
    It is either a *product*, which sums over nothing, or a *contraction*, which has coefficient 1, an output of
    distinct bound labels, and operands that hang together through the labels it sums over.
    """

    __slots__ = ("_bare", "_placed", "coefficient", "is_product", "labels", "operands", "output", "sizes")
    coefficient: Number
    operands: tuple[Expr, ...]
    labels: tuple[Labels, ...]
    output: Labels
    sizes: Shape
    is_product: bool
    _bare: Any  # it with coefficient 1, where `einsums.with_coefficient` has made that
    _placed: Any  # what `networks.placed_factors` has found

    @property
    def has_delta(self) -> bool:
        """Whether the output repeats a label."""
        return len(set(self.output)) < len(self.output)

    def same_along(self, axis: int) -> bool:
        """Whether it is the same all along an axis."""
        label = self.output[axis]
        return self.output.count(label) == 1 and not any(label in labels for labels in self.labels)

    @property
    def factors(self) -> list[tuple[Expr, Labels]]:
        """The operands with their labels."""
        return list(zip(self.operands, self.labels, strict=True))

    @property
    def contracted(self) -> tuple[int, ...]:
        """The labels that are summed over."""
        return tuple(label for label in range(len(self.sizes)) if label not in self.output)


class Add(Expr, parts="terms"):
    """A sum of two or more terms of the same shape."""

    __slots__ = ("_balance", "_has_delta", "_relations", "_summed", "_totals", "terms")
    terms: tuple[Expr, ...]
    _has_delta: bool  # where it has been asked for, as it is for each product with the sum
    _relations: list[Einsum | Constant]
    _summed: dict[Any, Expr]  # its sums over axes, as `einsums` has made them
    _totals: dict[tuple[int, tuple[Expr, ...]], Expr | None]  # along axes, with weights, where terms cancel
    _balance: Any  # how entries on a diagonal are what others add up to, if it is not multiplied out
    make: ClassVar[Callable[[Sequence[Expr]], Expr]]  # the constructor, which `sums` installs
    keep: ClassVar[Callable[..., tuple[Number, list[tuple[Expr, Labels]]] | None]]  # `kept_sums` installs it

    @property
    def has_delta(self) -> bool:
        """Whether some term repeats a label in its output."""
        if not hasattr(self, "_has_delta"):
            remember(self, "_has_delta", any(isinstance(term, Einsum) and term.has_delta for term in self.terms))
        return self._has_delta

    @property
    def relations(self) -> list[Einsum | Constant]:
        """The terms that relate their axes by index maps, as deltas do: nothing is stored where they are 0."""
        if not hasattr(self, "_relations"):
            remember(self, "_relations", [term for term in self.terms if _relates(term)])
        return self._relations


def _relates(term: Expr) -> TypeGuard[Einsum | Constant]:
    if isinstance(term, Einsum):
        return term.is_product and any(operand.ndim > 1 and is_index_map(operand) for operand in term.operands)
    return is_index_map(term) and term.ndim > 1


class Map(Expr, parts="args"):
    """A function applied entry by entry to arguments of one shape."""

    __slots__ = ("args", "function")
    function: Function
    args: tuple[Expr, ...]
    make: ClassVar[Callable[[Function, Sequence[Expr]], Expr]]  # the constructor, which `applications` installs


class Apply(Expr, parts="args"):
    """A function of whole tensors. Its core axes are the last ones; leading axes are batch axes.

    `batch` has the labels of each argument's batch axes; those of the result are 0, 1, 2, ...
    """

    __slots__ = ("args", "batch", "function")
    function: Function
    args: tuple[Expr, ...]
    batch: tuple[Labels, ...]


def intern(kind: type, identity: tuple, **fields: Any) -> Any:
    """The one node of this kind and identity, made from `fields` if it does not exist yet."""
    return interned(kind, blake2b(repr((kind.__name__, identity)).encode(), digest_size=16).digest(), fields)


def interned(kind: type, digest: bytes, fields: dict[str, Any]) -> Any:
    """The one node with this digest, made from `fields` if it does not exist yet."""
    node = _interned.get(digest)
    if node is None:
        made = unlisted(kind, digest, **fields)
        with _interning:  # another thread may have made it meanwhile
            node = _interned.get(digest)
            if node is None:
                node = _interned[digest] = made
    return node


def unlisted(kind: type, digest: bytes, **fields: Any) -> Any:
    """A node that is not interned (yet)."""
    node: Any = object.__new__(kind)
    keep = object.__setattr__
    for name, value in fields.items():
        keep(node, name, value)
    keep(node, "digest", digest)
    return node


def is_canonical(node: Expr) -> bool:
    """Whether a node is made by the constructors, and so equal to another one only if it is the same."""
    return _interned.get(node.digest) is node


def expression(value: Any) -> Expr:
    """What is an expression, or an error."""
    if not isinstance(value, Expr):
        raise EindiffError(f"{value!r} is no expression: declare a variable, for instance vector('x', 'n')", "options")
    return value


def plain(expr: Expr) -> Expr:
    """The node itself, which is part of larger expressions and does not know whose derivative it is."""
    return expr if expr.derivation is None else expr.derivation.expr


def remember(node: Expr, name: str, found: Any) -> Any:
    """What was found out about a node, kept on it."""
    object.__setattr__(node, name, found)
    return found


def topological(outputs: Iterable[Expr]) -> list[Expr]:
    """All nodes below the outputs, each after its children."""
    return ordered(map(plain, outputs), _CHILDREN)


def depth(node: Expr) -> int:
    """How many nodes there are on the longest way down to a leaf."""
    if not hasattr(node, "_depth"):
        for below in post_order([node], lambda x: () if hasattr(x, "_depth") else x.children):
            if not hasattr(below, "_depth"):
                remember(below, "_depth", 1 + max([x._depth for x in below.children], default=0))
    return node._depth


def is_diagonal(node: Expr) -> bool:
    """Whether a node is a variable that is declared diagonal: its two axes are one."""
    return isinstance(node, Variable) and "diagonal" in node.properties


def is_index_map(node: Expr) -> TypeGuard[Constant]:
    """Whether a node is the 0/1 tensor of an index map."""
    return isinstance(node, Constant) and isinstance(node.value, IndexMap)


def is_inverse(node: Expr) -> TypeGuard[Apply]:
    """Whether a node is the inverse of a matrix, or of several."""
    return isinstance(node, Apply) and node.function.name == "inv"


def is_contraction(node: Expr) -> TypeGuard[Einsum]:
    """Whether a node is a product with a sum over something."""
    return isinstance(node, Einsum) and not node.is_product


def is_sealed(node: Expr) -> TypeGuard[Einsum]:
    """Whether a node is a sum that other sums do not take in."""
    return isinstance(node, Einsum) and not node.is_product and [type(x) for x in node.operands] == [Add]


def is_kept(node: Expr) -> TypeGuard[Einsum]:
    """Whether a node is a sum with deltas that is not multiplied out."""
    return is_sealed(node) and isinstance(total := node.operands[0], Add) and total.has_delta


def variables(*outputs: Expr) -> list[Variable]:
    """The variables of some expressions, by name.

    Args:
        *outputs: expressions

    >>> [x.name for x in ed.variables(ed.matrix("A", "m", "n") @ ed.vector("x", "n"))]
    ['A', 'x']

    See also: `parse`.
    """
    return sorted({n for n in topological(outputs) if isinstance(n, Variable)}, key=lambda v: v.name)


def size_names(*outputs: Expr) -> set[str]:
    """The named sizes that some expressions need."""
    sizes = {size for node in topological(outputs) for size in sizes_in(node)}
    return {name for size in sizes for name in sz.names(size)}


def sizes_in(node: Expr) -> list[Size]:
    """The sizes that a node may have to write: of its axes, of labels, and those in structured constants."""
    sizes = [*node.shape, *(node.sizes if isinstance(node, Einsum) else ())]
    if isinstance(node, Constant) and isinstance(node.value, SizeOf):
        sizes.append(node.value.size)
    if isinstance(node, Constant) and isinstance(node.value, IndexMap):
        sizes += [node.value.offset, *node.value.strides]
    return sizes

"""The functions of the language: one row each, with how it is written, how its shape is found and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from eindiff.calculus import divided
from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.function import Function
from eindiff.core.nodes import Expr
from eindiff.core.sizes import Size
from eindiff.functions import elementwise as functions
from eindiff.functions import frechet, reductions
from eindiff.functions import matrices as matrix_functions
from eindiff.functions import multilinear as arrays
from eindiff.functions.table import Vocabulary
from eindiff.text.read.literals import HIGHEST_ORDER, Text
from eindiff.text.read.syntax import Node
from eindiff.text.read.unify import Term, Type, Unknown

if TYPE_CHECKING:
    from eindiff.text.read.infer import Inference

Check = Callable[["Inference", Node], Type]
Build = Callable[[Node, list[Expr]], Expr]


@dataclass(frozen=True, slots=True)
class Row:
    """A function: its arguments from `literal` on are sizes or axes, named ones always are."""

    usage: str
    infer: Check
    build: Build
    least: int = 1
    most: int = 1
    literal: int = 1_000_000
    keywords: tuple[str, ...] = ()

    def check(self, inference: Inference, node: Node) -> Type:
        """The type of a call, after its arguments are counted."""
        given = sum(arg.kind != "keyword" for arg in node.args)
        if not self.least <= given <= self.most:
            more = "" if self.least == self.most else " or more" if self.most > 9 else f" to {self.most}"
            plural = "" if self.most == 1 else "s"
            inference.fail(node, f"{node.value} takes {self.least}{more} argument{plural}, not {given}: {self.usage}")
        seen: set[str] = set()
        for arg in node.args:
            if arg.kind != "keyword":
                continue
            if arg.value not in self.keywords and not (node.value == "einsum" and len(arg.value) == 1):
                inference.fail(arg, f"{node.value} has no argument {arg.value}: {self.usage}")
            if arg.value in seen:
                inference.fail(arg, f"the argument {arg.value} is given twice")
            seen.add(arg.value)
        return self.infer(inference, node)


TABLE: Vocabulary[Row] = Vocabulary({}, functions.TABLE, lambda function: _by_row(function))


def mark_literals(node: Node) -> None:
    """Mark what is no expression below a call, an index or an array, so that inference reads it as sizes."""
    if node.kind == "call" and not node.literal:
        row = TABLE.get(node.value)
        below = [
            arg for k, arg in enumerate(node.args)
            if arg.kind == "keyword" or (row is not None and k >= row.literal)
            or (arg.kind == "text" and node.value == "einsum")
        ]  # fmt: skip
    elif node.kind == "index":
        below = node.args[1:]
    elif node.kind == "array":
        below = node.args[:]
    else:
        return
    while below:
        arg = below.pop()
        if not arg.literal:
            arg.literal = True
            below.extend(arg.args)


def values(node: Node) -> list[Node]:
    """The arguments of a call that are expressions."""
    return [arg for arg in node.args if not arg.literal]


def positional(node: Node) -> list[Any]:
    """The literal arguments of a call that have no name."""
    return [arg.plan for arg in node.args if arg.literal and arg.kind != "keyword"]


def named(node: Node, name: str, default: Any = None) -> Any:
    """The literal argument of a call under a name."""
    return next((arg.plan for arg in node.args if arg.kind == "keyword" and arg.value == name), default)


def _type(node: Node) -> Type:
    assert node.type is not None
    return node.type


# Entry by entry


def _entry_by_entry(usage: str, function: Callable[..., Expr], least: int = 1, most: int = 0) -> Row:
    return Row(
        usage, lambda inference, node: inference.equal_shapes(node, node.args),
        lambda node, args: function(*args), least, most or least,
    )  # fmt: skip


def _by_row(function: Function) -> Row | None:
    """An elementwise function as its row in the table of functions says, if it has a name in text."""
    name = function.name
    if function.core or function.parameter is not None:
        return None
    if (base := divided.divided_base(function)) is not None:
        differences = partial(divided.divided, base)
        return _entry_by_entry(f"{name}(x, y)", lambda *args: differences(arrays.broadcast(name, args)), 2, 20)
    count = len(function.derivatives)
    build = function.public or (lambda *args: construct.map_(function, arrays.broadcast(name, args)))
    return _entry_by_entry(f"{name}({', '.join('xyz'[:count])})", build, count)


for _row in (
    _entry_by_entry("sqrt(x)", functions.sqrt),
    _entry_by_entry("square(x)", functions.square),
    _entry_by_entry("reciprocal(x)", functions.reciprocal),
    _entry_by_entry("power(x, y)", functions.power, 2),
    _entry_by_entry("minimum(x, y)", functions.minimum, 2),
    _entry_by_entry("where(condition, x, y)", functions.where, 3),
):
    TABLE[_row.usage.partition("(")[0]] = _row


# Along axes


def _axes(inference: Inference, node: Node, order: int) -> list[int]:
    """The axes that a reduction names, or all; they count from 0, negative ones from the last."""
    given = positional(node) + [named(node, "axis")] * (named(node, "axis") is not None)
    flat = [k for item in given for k in (item if isinstance(item, list) else [item])]
    fits = all(isinstance(k, int) and -order <= k < order for k in flat)
    if not fits or len({k % order for k in flat}) < len(flat):
        axes = ", ".join(map(str, range(order))) or "none"
        inference.fail(node, f"`{inference.text(node)}`: {inference.shape_of(node.args[0])}, so its axes are {axes}")
    node.plan = [k % order for k in flat] if given else None
    return node.plan if given else list(range(order))


def _reduced(inference: Inference, node: Node) -> Type:
    shape = _type(node.args[0])
    if node.value in ("max", "min") and positional(node):
        text, k, name = inference.text(node.args[0]), inference.text(node.args[1]), node.value
        along = f"{name}({text}, axis={k}) along an axis"
        inference.fail(node, f"write {name}imum({text}, {k}) for the {name}imum of each entry and {k}, or {along}")
    gone = _axes(inference, node, shape.order)
    kept = tuple(axis for k, axis in enumerate(shape.axes) if k not in gone)
    without = named(node, "without", 0)
    if without:
        if not isinstance(without, int) or not 0 < without < HIGHEST_ORDER or len(gone) != 1:
            inference.fail(node, "prod(x, without=k) leaves k entries out, along one axis")
        node.plan = (gone[0], without)
        return Type(kept + (shape.axes[gone[0]],) * without)
    return Type(kept)


def _build_reduced(function: Callable[..., Expr]) -> Build:
    def build(node: Node, args: list[Expr]) -> Expr:
        if isinstance(node.plan, tuple):
            axis, without = node.plan
            return construct.apply(reductions.prod_function(without), (arrays.moveaxis(args[0], axis, -1),))
        return function(args[0], node.plan)

    return build


for _name in ("sum", "mean", "prod", "max", "min", "norm1", "norm2", "logsumexp"):
    _reduce = getattr(arrays, _name, None) or getattr(reductions, _name)
    TABLE[_name] = Row(
        f"{_name}(X), or {_name}(X, axis=0) along axes, which count from 0", _reduced, _build_reduced(_reduce),
        1, 1 + HIGHEST_ORDER, 1, ("axis", "without") if _name == "prod" else ("axis",),
    )  # fmt: skip


def _along(inference: Inference, node: Node) -> Type:
    shape = _type(node.args[0])
    if len(_axes(inference, node, shape.order)) > 1 and node.plan is not None:
        inference.fail(node, f"{node.value} works along one axis")
    if shape.order == 0:
        inference.fail(node, f"`{inference.text(node)}`: {inference.shape_of(node.args[0])} and has no axis")
    node.plan = node.plan[0] if node.plan else -1
    return shape


TABLE["softmax"] = Row(
    "softmax(x), or softmax(X, axis=0)",
    _along,
    lambda node, args: reductions.softmax(args[0], node.plan),
    1,
    2,
    1,
    ("axis",),
)
TABLE["cumsum"] = Row(
    "cumsum(x), or cumsum(X, axis=0)", _along, lambda node, args: arrays.cumsum(args[0], node.plan), 1, 2, 1, ("axis",)
)


def _same_shapes(inference: Inference, node: Node) -> Type:
    x, weights = node.args
    fits = _type(x).order == _type(weights).order > 0
    if not fits or not all(
        inference.sizes.unite(a, b, node) for a, b in zip(_type(x).axes, _type(weights).axes, strict=True)
    ):
        shapes = f"{inference.shape_of(x)}, {inference.shape_of(weights)}"
        inference.fail(node, f"`{inference.text(node)}`: {shapes}; both need one shape")
    return _type(x)


def _one_axis_less(inference: Inference, node: Node) -> Type:
    return Type(_same_shapes(inference, node).axes[:-1])


TABLE["log_weighted_sum"] = Row(
    "log_weighted_sum(x, w)", _one_axis_less, lambda node, args: reductions.log_weighted_sum(*args), 2, 2
)
TABLE["weighted_softmax"] = Row(
    "weighted_softmax(x, w)", _same_shapes, lambda node, args: reductions.weighted_softmax(*args), 2, 2
)


def _pairs_along(inference: Inference, node: Node) -> Type:
    shape = _along(inference, node)
    return Type((*shape.axes, shape.axes[-1]))


def _last_axis(name: str, infer: Check) -> None:
    TABLE[name] = Row(f"{name}(x)", infer, lambda node, args: construct.apply(functions.TABLE[name], args))


for _name in ("argmax", "simple", "nonzero"):
    _last_axis(_name, _along)
for _name in ("gaps", "nonzero_pairs"):
    _last_axis(_name, _pairs_along)


# Functions of matrices; of a stack of matrices along the last two axes


def _matrix_axes(inference: Inference, node: Node, square: bool) -> Type:
    shape = _type(node.args[0])
    if shape.order < 2:
        inference.fail(node, f"{node.value} needs a {'square ' * square}matrix; {inference.shape_of(node.args[0])}")
    if square:
        inference.square(node, node.args[0])
    return shape


def _whole(name: str) -> Callable:
    """A function of whole tensors by its name."""
    return next(f for module in (matrix_functions, frechet, arrays) if (f := getattr(module, name, None)) is not None)


def _matrix(names: str, output: Callable[[Inference, Node, Type], tuple[Term, ...]], square: bool = True) -> None:
    def infer(inference: Inference, node: Node) -> Type:
        shape = _matrix_axes(inference, node, square)
        return Type(shape.axes[:-2] + output(inference, node, shape))

    for name in names.split():
        function = _whole(name)
        TABLE[name] = Row(f"{name}(A)", infer, lambda node, args, f=function: f(args[0]))  # type: ignore[misc]


def _smaller(inference: Inference, node: Node, shape: Type) -> Term:
    return inference.sizes.derive(node, sz.minimum, *shape.axes[-2:])


_matrix("inv chol eigvecs adj", lambda inference, node, shape: shape.axes[-2:])
_matrix("tr det logdet lambdamax", lambda inference, node, shape: ())
_matrix("eigvals", lambda inference, node, shape: shape.axes[-1:])
_matrix("normnuc normspec", lambda inference, node, shape: (), square=False)
_matrix("pinv", lambda inference, node, shape: shape.axes[:-3:-1], square=False)
_matrix("svdvals", lambda inference, node, shape: (_smaller(inference, node, shape),), square=False)
_matrix("svdleft", lambda inference, node, shape: (shape.axes[-2], _smaller(inference, node, shape)), square=False)
_matrix("svdright", lambda inference, node, shape: (shape.axes[-1], _smaller(inference, node, shape)), square=False)


_BATCH_LETTERS = "ijklmnopqrstuvwxyzabcdefghABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _frechet(inference: Inference, node: Node) -> Type:
    """`expm(A)`, or its derivative in directions, `expm(A, E, F)`.

    `batch` has the labels of the leading axes of each argument where there are several: `expm(A, E, batch=",i")`.
    """
    args = values(node)
    spec = named(node, "batch", ",".join([_BATCH_LETTERS[: _type(arg).order - 2] for arg in args]))
    groups = spec.split(",") if isinstance(spec, Text | str) else []
    if [len(group) + 2 for group in groups] != [_type(arg).order for arg in args] or set(spec) - {*_BATCH_LETTERS, ","}:
        inference.fail(
            node, f"{node.value} takes square matrices; batch has the labels of the axes before the last two"
        )
    n = _type(args[0]).axes[-1]
    sizes: dict[str, Term] = {}
    for arg, group in zip(args, groups, strict=True):
        pairs = [(sizes.setdefault(c, size), size) for c, size in zip(group, _type(arg).axes, strict=False)]
        united = [inference.sizes.unite(a, b, node) for a, b in [*pairs, *((n, m) for m in _type(arg).axes[-2:])]]
        if not all(united):
            shapes = ", ".join(inference.shape_of(arg) for arg in args)
            inference.fail(node, f"`{inference.text(node)}`: {shapes}; {node.value} takes square matrices of one size")
    node.plan = [tuple(_BATCH_LETTERS.index(c) for c in group) for group in groups]
    return Type((*(sizes[c] for c in sorted(sizes, key=_BATCH_LETTERS.index)), n, n))


def _build_frechet(node: Node, args: list[Expr]) -> Expr:
    order = sorted(range(1, len(args)), key=lambda k: (args[k].digest, node.plan[k]))
    function = frechet.frechet_function(node.value, len(args) - 1)
    return construct.apply(function, [args[k] for k in (0, *order)], [node.plan[k] for k in (0, *order)])


for _name in ("expm", "logm", "sqrtm"):
    TABLE[_name] = Row(f"{_name}(A)", _frechet, _build_frechet, 1, 20, keywords=("batch",))


def _diag(inference: Inference, node: Node) -> Type:
    shape = _type(node.args[0])
    if shape.order == 1:
        return Type(shape.axes * 2)
    if shape.order != 2:
        inference.fail(node, f"diag takes a vector or a square matrix; {inference.shape_of(node.args[0])}")
    inference.square(node, node.args[0])
    return Type(shape.axes[:1])


def _solve(inference: Inference, node: Node) -> Type:
    a, b = node.args
    _matrix_axes(inference, node, True)
    fits = _type(a).order == 2 and _type(b).order in (1, 2)
    if not fits or not inference.sizes.unite(_type(a).axes[1], _type(b).axes[0], node):
        shapes = f"{inference.shape_of(a)}, {inference.shape_of(b)}"
        inference.fail(node, f"`{inference.text(node)}`: {shapes}; b is a vector or matrix with as many rows as A")
    return Type(_type(b).axes)


def _matrix_power(inference: Inference, node: Node) -> Type:
    [node.plan] = positional(node)
    if not isinstance(node.plan, int):
        inference.fail(node, "the exponent of a matrix power is a whole number")
    return _matrix_axes(inference, node, True)


TABLE["diag"] = Row("diag(v) or diag(A)", _diag, lambda node, args: arrays.diag(args[0]))
TABLE["solve"] = Row("solve(A, b)", _solve, lambda node, args: matrix_functions.solve(*args), 2, 2)
TABLE["matrix_power"] = Row(
    "matrix_power(A, k)", _matrix_power, lambda node, args: matrix_functions.matrix_power(args[0], node.plan), 2, 2, 1
)


# Einsum


def _labels(inference: Inference, node: Node, spec: str, args: list[Node]) -> tuple[list[list[str]], list[str]]:
    """The labels of operands and output; `...` stands for the axes that are not named."""
    left, arrow, right = "".join(spec.split()).partition("->")
    terms = left.split(",") if left or args else []
    if len(terms) != len(args):
        inference.fail(node, f"einsum {spec!r} names {len(terms)} operands, not {len(args)}")
    for text in (*terms, right):
        if not all(c.isalpha() for c in text.replace("...", "", 1)):
            inference.fail(node, f"einsum {spec!r}: labels are letters, {text!r} has others")
    inputs = []
    for term, arg in zip(terms, args, strict=True):
        before, dots, after = term.partition("...")
        rest = _type(arg).order - len(before) - len(after)
        if rest < 0 or (rest and not dots):
            count = len(before) + len(after)
            inference.fail(node, f"einsum {spec!r}: {term!r} names {count} axes, but {inference.shape_of(arg)}")
        inputs.append([*before, *(f".{rest - k}" for k in range(rest)), *after])
    return inputs, arrays.spec_output(inputs, right if arrow else None)


def contract(
    inference: Inference, node: Node, spec: str, args: list[Node], given: dict[str, Size]
) -> tuple[Type, dict[str, Term]]:
    """The type of an einsum, and the sizes of output labels that no operand has (given, or to be found)."""
    inputs, output = _labels(inference, node, spec, args)
    found: dict[str, tuple[Term, Node]] = {}
    for labels, arg in zip(inputs, args, strict=True):
        for label, size in zip(labels, _type(arg).axes, strict=True):
            if label not in found:
                found[label] = (size, arg)
            elif not inference.sizes.unite(found[label][0], size, node):
                other = inference.shape_of(found[label][1])
                both = other if found[label][1] is arg else f"{other}, {inference.shape_of(arg)}"
                inference.fail(node, f"einsum {spec!r}: {both}; the sizes of label {label!r} must be equal")
    unbound: dict[str, Term] = {label: given.get(label, Unknown()) for label in output if label not in found}
    for label, size in given.items():
        if label in found and not inference.sizes.unite(found[label][0], size, node):
            shape = inference.shape_of(found[label][1])
            inference.fail(node, f"einsum {spec!r}: label {label!r} cannot have size {size}; {shape}")
    return Type(tuple(found[x][0] if x in found else unbound[x] for x in output)), unbound


def _einsum(inference: Inference, node: Node) -> Type:
    spec = node.args[0].plan
    if not isinstance(spec, Text):
        inference.fail(node.args[0], f"einsum begins with its labels: {TABLE['einsum'].usage}")
    if positional(node)[1:]:
        inference.fail(node, f"einsum has one quoted text: {TABLE['einsum'].usage}")
    given = {arg.value: size_value(inference, arg) for arg in node.args if arg.kind == "keyword"}
    shape, unbound = contract(inference, node, spec, values(node), given)
    node.plan = (str(spec), unbound)
    return shape


def _build_einsum(node: Node, args: list[Expr]) -> Expr:
    spec, sizes = node.plan
    return arrays.einsum(spec, *args, sizes=sizes)


TABLE["einsum"] = Row('einsum("ij,jk->ik", A, B), or einsum("i->ij", x, j=n)', _einsum, _build_einsum, 1, 200)


def size_value(inference: Inference, node: Node) -> Size:
    """A literal that must be a size."""
    size = node.plan
    if isinstance(size, Text) or not isinstance(size, int | str) or (isinstance(size, int) and size < 1):
        inference.fail(node, "a size is a name, a positive whole number, or a sum or product of those")
    return size


def slice_size(entry: slice, n: Size) -> Size:
    """How many entries of an axis a slice takes."""
    step = 1 if entry.step is None else entry.step
    bounds = [bound for bound in (entry.start, entry.stop, step) if bound is not None]
    whole = all(isinstance(bound, int | str) and not isinstance(bound, Text) for bound in bounds)
    if not whole or not isinstance(step, int) or step == 0:
        raise EindiffError("the bounds of a slice are whole numbers, its step is not 0")
    if isinstance(n, int) and not any(isinstance(bound, str) for bound in bounds):
        count: Size = len(range(*entry.indices(n)))
    elif step == 1:
        first, last = (
            bound if isinstance(bound, str) or bound >= 0 else sz.add(n, bound)
            for bound in (0 if entry.start is None else entry.start, n if entry.stop is None else entry.stop)
        )
        count = sz.subtract(last, first)
    else:
        raise EindiffError(f"a slice with a step needs an axis of known size, not {n}")
    if isinstance(count, int) and count < 1:
        raise EindiffError(f"this slice is empty: the axis has size {n}")
    return count


# The rest, constants and shapes, is in a file of its own
from eindiff.text.read import table_shapes as _shapes  # noqa: E402, F401

"""Functions of the language: entry by entry, along axes, of whole matrices, and einsum."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eindiff.calculus import divided
from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.function import Function
from eindiff.core.nodes import Einsum, Expr
from eindiff.core.sizes import Size
from eindiff.functions import elementwise as functions
from eindiff.functions import frechet, reductions
from eindiff.functions import matrices as matrix_functions
from eindiff.functions import multilinear as arrays
from eindiff.text.read.function_rows import (
    Build,
    FunctionRow,
    FunctionRows,
    Infer,
    named,
    positional,
    size_value,
    values,
)
from eindiff.text.read.literals import LARGEST_ORDER, Quoted
from eindiff.text.read.shapes import Shapes, typed
from eindiff.text.read.syntax import Node
from eindiff.text.read.unify import SCALAR, Term, Type, Unknown

# Entry by entry


def _by_entry(usage: str, function: Callable[..., Expr], least: int = 1, most: int = 0) -> FunctionRow:
    def build(node: Node, args: list[Expr]) -> Expr:
        return function(*args)

    def infer(shapes: Shapes, node: Node) -> Type:
        return shapes.equal_shapes(node, node.args)

    return FunctionRow(usage, infer, build, least, most or least, is_by_entry=True)


def by_row(function: Function) -> FunctionRow | None:
    """An elementwise function as its row in the table of functions says, if it has a name in text."""
    name = function.name
    if function.core or function.parameter is not None or function.formula is not None:
        return None
    if (base := divided.divided_base(function)) is not None:
        differences = partial(divided.divided, base)
        return _by_entry(f"{name}(x, y)", lambda *args: differences(arrays.broadcast(name, args)), 2, 20)
    count = len(function.derivatives)
    build = function.public or (lambda *args: construct.map_(function, arrays.broadcast(name, args)))
    return _by_entry(f"{name}({', '.join('xyz'[:count])})", build, count)


FUNCTIONS = FunctionRows(
    sqrt=_by_entry("sqrt(x)", functions.sqrt),
    square=_by_entry("square(x)", functions.square),
    reciprocal=_by_entry("reciprocal(x)", functions.reciprocal),
    power=_by_entry("power(x, y)", functions.power, 2),
    minimum=_by_entry("minimum(x, y)", functions.minimum, 2),
    where=_by_entry("where(condition, x, y)", functions.where, 3),
)


# Along axes


def _axes(shapes: Shapes, node: Node, order: int) -> list[int]:
    """The axes that a reduction names, or all; they count from 0, negative ones from the last."""
    given = positional(node) + [named(node, "axis")] * (named(node, "axis") is not None)
    flat = [k for item in given for k in (item if isinstance(item, list) else [item])]
    fits = all(isinstance(k, int) and -order <= k < order for k in flat)
    if not fits or len({k % order for k in flat}) < len(flat):
        axes = ", ".join(map(str, range(order))) or "none"
        shapes.fail(node, f"`{shapes.text(node)}`: {shapes.shape_of(node.args[0])}, so its axes are {axes}")
    node.plan = [k % order for k in flat] if given else None
    return node.plan if given else list(range(order))


def _reduced(shapes: Shapes, node: Node) -> Type:
    shape = typed(node.args[0])
    if node.value in ("max", "min") and positional(node):
        text, k, name = shapes.text(node.args[0]), shapes.text(node.args[1]), node.value
        along = f"{name}({text}, axis={k}) along an axis"
        shapes.fail(node, f"write {name}imum({text}, {k}) for the {name}imum of each entry and {k}, or {along}")
    gone = _axes(shapes, node, shape.order)
    kept = tuple(axis for k, axis in enumerate(shape.axes) if k not in gone)
    return Type(kept)


def _build_reduced(function: Callable[..., Expr]) -> Build:
    def build(node: Node, args: list[Expr]) -> Expr:
        return function(args[0], node.plan)

    return build


for _name in ("sum", "mean", "prod", "max", "min", "norm1", "norm2", "logsumexp"):
    _reduce = getattr(arrays, _name, None) or getattr(reductions, _name)
    FUNCTIONS.add(
        f"{_name}(X), or {_name}(X, axis=0) along axes, which count from 0", _reduced, _build_reduced(_reduce),
        1, 1 + LARGEST_ORDER, literal=1, keywords=("axis",),
    )  # fmt: skip


def _along(shapes: Shapes, node: Node) -> Type:
    shape = typed(node.args[0])
    if len(_axes(shapes, node, shape.order)) > 1 and node.plan is not None:
        shapes.fail(node, f"{node.value} works along one axis")
    if shape.order == 0:
        shapes.fail(node, f"`{shapes.text(node)}`: {shapes.shape_of(node.args[0])} and has no axis")
    node.plan = node.plan[0] if node.plan else -1
    return shape


def _along_axis(name: str, function: Callable[[Expr, int], Expr]) -> None:
    usage = f"{name}(x), or {name}(X, axis=0)"
    FUNCTIONS.add(usage, _along, lambda node, args: function(args[0], node.plan), 1, 2, literal=1, keywords=("axis",))


_along_axis("softmax", reductions.softmax)
_along_axis("cumsum", arrays.cumsum)


def _same_shapes(shapes: Shapes, node: Node) -> Type:
    x, weights = (typed(arg) for arg in node.args[:2])
    if not x.order == weights.order > 0 or not shapes.unite(x.axes, weights.axes, node):
        shapes.fail_together(node, node.args[:2], "both need one shape")
    if _axes(shapes, node, x.order)[-1:] != [x.order - 1]:
        shapes.fail(node, f"{node.value} works along the last axis")
    return x


def _one_axis_less(shapes: Shapes, node: Node) -> Type:
    return Type(_same_shapes(shapes, node).axes[:-1])


def _weighted(name: str, infer: Infer, function: Callable[[Expr, Expr], Expr]) -> None:
    usage = f"{name}(x, w)"
    FUNCTIONS.add(usage, infer, lambda node, args: function(*args[:2]), 2, 3, literal=2, keywords=("axis",))


_weighted("log_weighted_sum", _one_axis_less, reductions.log_weighted_sum)
_weighted("weighted_softmax", _same_shapes, reductions.weighted_softmax)


def _left_out(shapes: Shapes, node: Node) -> Type:
    shape, (count,) = typed(node.args[0]), positional(node) or [1]
    if shape.order == 0 or not isinstance(count, int) or not 0 < count < LARGEST_ORDER:
        shapes.fail(node, f"`{shapes.text(node)}` leaves entries of a vector out, 1 or the number that is given")
    node.plan = count
    return Type((*shape.axes[:-1], *[shape.axes[-1]] * count))


def _build_left_out(node: Node, args: list[Expr]) -> Expr:
    return construct.apply(reductions.prod_function(node.plan), args)


def _last_axis(shapes: Shapes, node: Node) -> Type:
    if typed(node.args[0]).order == 0:
        shapes.fail(node, f"`{shapes.text(node)}`: {shapes.shape_of(node.args[0])} and has no axis")
    return typed(node.args[0])


FUNCTIONS.add("prod_except(x), or prod_except(x, 2)", _left_out, _build_left_out, 1, 2, literal=1)
FUNCTIONS.add("at_max(x)", _last_axis, lambda node, args: construct.apply(functions.TABLE["argmax"], args))


# Functions of matrices; of a stack of matrices along the last two axes


def _matrix_axes(shapes: Shapes, node: Node, square: bool) -> Type:
    shape = typed(node.args[0])
    if shape.order < 2:
        shapes.fail(node, f"{node.value} needs a {'square ' * square}matrix; {shapes.shape_of(node.args[0])}")
    if square:
        shapes.square(node, node.args[0])
    return shape


def _is_declared(shapes: Shapes, node: Node) -> bool:
    """Whether all names in a piece of syntax are declared; else they may be matrices."""
    return (node.kind != "name" or node.value in shapes.declared) and all(_is_declared(shapes, x) for x in node.args)


def _whole(name: str) -> Callable:
    """A function of whole tensors by its name."""
    return next(f for module in (matrix_functions, frechet, arrays) if (f := getattr(module, name, None)) is not None)


def _matrix(names: str, output: Callable[[Shapes, Node, Type], tuple[Term, ...]], square: bool = True) -> None:
    def infer(shapes: Shapes, node: Node) -> Type:
        if node.value == "inv" and typed(node.args[0]).order == 0 and _is_declared(shapes, node.args[0]):
            return typed(node.args[0])  # of a number
        shape = _matrix_axes(shapes, node, square)
        return Type(shape.axes[:-2] + output(shapes, node, shape))

    for name in names.split():
        function = _whole(name)
        FUNCTIONS.add(f"{name}(A)", infer, lambda node, args, f=function: f(args[0]))  # type: ignore[misc]


def _smaller(shapes: Shapes, node: Node, shape: Type) -> Term:
    return shapes.sizes.derive(node, sz.minimum, *shape.axes[-2:])


_matrix("inv chol eigvecs adj", lambda shapes, node, shape: shape.axes[-2:])
_matrix("tr det logdet signdet logabsdet lambdamax", lambda shapes, node, shape: ())
_matrix("eigvals", lambda shapes, node, shape: shape.axes[-1:])
_matrix("normnuc normspec", lambda shapes, node, shape: (), square=False)
_matrix("pinv", lambda shapes, node, shape: shape.axes[:-3:-1], square=False)
_matrix("svdvals", lambda shapes, node, shape: (_smaller(shapes, node, shape),), square=False)
_matrix("svdleft", lambda shapes, node, shape: (shape.axes[-2], _smaller(shapes, node, shape)), square=False)
_matrix("svdright", lambda shapes, node, shape: (shape.axes[-1], _smaller(shapes, node, shape)), square=False)


def _frechet(shapes: Shapes, node: Node) -> Type:
    """`expm(A)`, or its derivative in directions, `expm(A, E, F)`; axes before the last two are stacks, as in NumPy."""
    types = [typed(arg) for arg in node.args]
    if any(own.order < 2 for own in types):
        shapes.fail_together(node, node.args, f"{node.value} takes square matrices")
    deepest = max(types, key=lambda own: own.order)
    for own in types:
        if not shapes.unite([*deepest.axes[-own.order : -2], *types[0].axes[-1:] * 2], own.axes, node):
            shapes.fail_together(node, node.args, f"{node.value} takes square matrices of one size")
    return Type(deepest.axes)


def _build_frechet(node: Node, args: list[Expr]) -> Expr:
    """A direction that is the same along an axis of the stack, where another one is not, does not have the axis."""
    deepest = max(arg.ndim for arg in args)
    changing = {deepest - arg.ndim + axis for arg in args for axis in range(arg.ndim - 2) if not _is_same(arg, axis)}
    factors = []
    for arg in args:
        first = deepest - arg.ndim
        kept = [axis for axis in range(arg.ndim - 2) if first + axis not in changing or not _is_same(arg, axis)]
        coefficient, inner, output, sizes = construct.parts(arg)
        axes = [*kept, arg.ndim - 2, arg.ndim - 1]
        bare = construct.einsum(coefficient, inner, tuple(output[axis] for axis in axes), sizes)
        factors.append((bare, tuple(first + axis for axis in kept)))
    base, *directions = factors
    ordered = [base, *sorted(directions, key=lambda factor: (factor[0].digest, factor[1]))]
    function = frechet.frechet_function(node.value, len(directions))
    return construct.apply(function, [arg for arg, _ in ordered], [labels for _, labels in ordered])


def _is_same(arg: Expr, axis: int) -> bool:
    return isinstance(arg, Einsum) and arg.same_along(axis)


for _name in ("expm", "logm", "sqrtm"):
    FUNCTIONS.add(f"{_name}(A), or {_name}(A, E), its derivative in a direction", _frechet, _build_frechet, 1, 20)


def _diag(shapes: Shapes, node: Node) -> Type:
    shape = typed(node.args[0])
    if shape.order == 1:
        return Type(shape.axes * 2)
    if shape.order != 2:
        shapes.fail(node, f"diag takes a vector or a square matrix; {shapes.shape_of(node.args[0])}")
    shapes.square(node, node.args[0])
    return Type(shape.axes[:1])


def _solve(shapes: Shapes, node: Node) -> Type:
    _matrix_axes(shapes, node, True)
    a, b = (typed(arg) for arg in node.args)
    if a.order != 2 or b.order not in (1, 2) or not shapes.sizes.unite(a.axes[1], b.axes[0], node):
        shapes.fail_together(node, node.args, "b is a vector or matrix with as many rows as A")
    return Type(b.axes)


def _matrix_power(shapes: Shapes, node: Node) -> Type:
    [node.plan] = positional(node)
    if not isinstance(node.plan, int):
        shapes.fail(node, "the exponent of a matrix power is a whole number")
    return _matrix_axes(shapes, node, True)


FUNCTIONS.add("diag(v) or diag(A)", _diag, lambda node, args: arrays.diag(args[0]))
FUNCTIONS.add("solve(A, b)", _solve, lambda node, args: matrix_functions.solve(*args), 2)
FUNCTIONS.add(
    "matrix_power(A, k)", _matrix_power, lambda node, args: matrix_functions.matrix_power(args[0], node.plan), 2,
    literal=1,
)  # fmt: skip


# Einsum


def _labels(shapes: Shapes, node: Node, spec: str, args: list[Node]) -> tuple[list[list[str]], list[str]]:
    """The labels of operands and output; `...` stands for the axes that are not named."""
    left, arrow, right = "".join(spec.split()).partition("->")
    terms = left.split(",") if left or args else []
    if len(terms) != len(args):
        shapes.fail(node, f"einsum {spec!r} names {len(terms)} operands, not {len(args)}")
    for text in (*terms, right):
        if not all(c.isalpha() for c in text.replace("...", "", 1)):
            shapes.fail(node, f"einsum {spec!r}: labels are letters, {text!r} has others")
    inputs = []
    for term, arg in zip(terms, args, strict=True):
        before, dots, after = term.partition("...")
        rest = typed(arg).order - len(before) - len(after)
        if rest < 0 or (rest and not dots):
            count = len(before) + len(after)
            shapes.fail(node, f"einsum {spec!r}: {term!r} names {count} axes, but {shapes.shape_of(arg)}")
        inputs.append([*before, *(f".{rest - k}" for k in range(rest)), *after])
    return inputs, arrays.spec_output(inputs, right if arrow else None)


def contract(
    shapes: Shapes, node: Node, spec: str, args: list[Node], given: dict[str, Size]
) -> tuple[Type, dict[str, Term]]:
    """The type of an einsum, and the sizes of output labels that no operand has (given, or to be found)."""
    inputs, output = _labels(shapes, node, spec, args)
    found: dict[str, tuple[Term, Node]] = {}
    for labels, arg in zip(inputs, args, strict=True):
        for label, size in zip(labels, typed(arg).axes, strict=True):
            if label not in found:
                found[label] = (size, arg)
            elif not shapes.sizes.unite(found[label][0], size, node):
                other = shapes.shape_of(found[label][1])
                both = other if found[label][1] is arg else f"{other}, {shapes.shape_of(arg)}"
                shapes.fail(node, f"einsum {spec!r}: {both}; the sizes of label {label!r} must be equal")
    unbound: dict[str, Term] = {label: given.get(label, Unknown()) for label in output if label not in found}
    for label, size in given.items():
        if label in found and not shapes.sizes.unite(found[label][0], size, node):
            shape = shapes.shape_of(found[label][1])
            shapes.fail(node, f"einsum {spec!r}: label {label!r} cannot have size {size}; {shape}")
    return Type(tuple(found[x][0] if x in found else unbound[x] for x in output)), unbound


def _einsum(shapes: Shapes, node: Node) -> Type:
    spec = node.args[0].plan
    if not isinstance(spec, Quoted):
        shapes.fail(node.args[0], f"einsum begins with its labels: {_EINSUM}")
    if positional(node)[1:]:
        shapes.fail(node, f"einsum has one quoted text: {_EINSUM}")
    given = {arg.value: size_value(shapes, arg) for arg in node.args if arg.kind == "keyword"}
    shape, unbound = contract(shapes, node, spec, values(node), given)
    node.plan = (str(spec), unbound)
    return shape


def _build_einsum(node: Node, args: list[Expr]) -> Expr:
    spec, sizes = node.plan
    return arrays.einsum(spec, *args, sizes=sizes)


_EINSUM = 'einsum("ij,jk->ik", A, B), or einsum("i->ij", x, j=n)'
FUNCTIONS.add(_EINSUM, _einsum, _build_einsum, 1, 200)


# Norms by their number, and bars


def _norm(shapes: Shapes, node: Node) -> Type:
    """`norm(x)`, `norm(x, 1)`, `norm(x, inf)`, `norm(X, "nuc")`; `norm(X, 2)` is the largest singular value."""
    given = [*positional(node), *(arg.plan for arg in node.args if arg.kind == "keyword")]
    order = str(given[0]) if given else ""
    is_matrix = typed(node.args[0]).order == 2
    found = {"": "norm2", "fro": "norm2", "F": "norm2", "nuc": "normnuc", "inf": "norminf"}
    found |= {"2": "normspec", "1": ""} if is_matrix else {"2": "norm2", "1": "norm1"}
    node.plan = found.get(order, "")
    if not node.plan:
        text = shapes.text(node.args[0])
        other = "norm1" if is_matrix and order == "1" else "norm2"
        shapes.fail(node, f"there is no norm {order} here; write {other}({text}) for that of all entries")
    return SCALAR


def _build_norm(node: Node, args: list[Expr]) -> Expr:
    if node.plan == "norminf":
        return reductions.max(functions.abs(args[0]))
    name = node.plan
    return (getattr(reductions, name, None) or getattr(matrix_functions, name))(args[0])


FUNCTIONS.add("norm(x), norm(x, 1) or norm(x, inf)", _norm, _build_norm, 1, 2, literal=1, keywords=("ord", "p"))


def _bars(shapes: Shapes, node: Node) -> Type:
    """`|x|` is the absolute value, `|A|` the determinant."""
    shape = typed(node.args[0])
    node.plan = shape.order == 2
    return _matrix_axes(shapes, node, True) and SCALAR if node.plan else shape


FUNCTIONS.add(
    "bars(x), as |x|", _bars, lambda node, args: matrix_functions.det(args[0]) if node.plan else functions.abs(args[0])
)


def _all_entries(shapes: Shapes, node: Node) -> Type:
    return SCALAR


FUNCTIONS.add("norminf(x)", _all_entries, lambda node, args: reductions.max(functions.abs(args[0])))
FUNCTIONS.add("sumsq(x)", _all_entries, lambda node, args: arrays.sum(functions.square(args[0])))

"""From typed syntax to the expression: the sizes that were found get names, and every node its constructor."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Einsum, Expr, Number, number
from eindiff.core.sizes import Size
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import matrices as matrix_functions
from eindiff.functions import multilinear as arrays
from eindiff.text.read.function_rows import values
from eindiff.text.read.infer import CONSTANTS, Inference
from eindiff.text.read.literals import Places
from eindiff.text.read.notation import NUMPY_OVER
from eindiff.text.read.over import Terms
from eindiff.text.read.shapes import Use, typed
from eindiff.text.read.source import ParseError
from eindiff.text.read.syntax import Node
from eindiff.text.read.table import TABLE
from eindiff.text.read.unify import Term, Unknown, known, resolve

_SIZE_NAMES = "mnpqklrstuvwhijabcdefg"
_MOST_WORK = 50_000  # operands of all nodes made on the way
_CONTRACTION_WORK = 20
_MOST_FACTORS = 4_000  # in one product


def name_sizes(inference: Inference, nodes: list[Node]) -> None:
    """Give names to the sizes that nothing determines: m, n, p, q, k, ... as they come; n if it is the only one.

    Names that the text or the declarations use for something else are left out.
    """
    inference.sizes.settle()
    axes = [axis for use in inference.used.values() for axis in use.type.axes]
    alone = [node for node in nodes if node.kind == "name" and node.plan == "eye" and node.value != "eye"]
    axes += [typed(node).axes[0] for node in alone]  # λ*I, which nothing else gives a size
    sizes = dict.fromkeys(map(resolve, axes))
    unknown = [size for size in sizes if isinstance(size, Unknown) and not size.derived]
    taken = _taken(inference, nodes)
    candidates = [*("n" if len(unknown) == 1 else ""), *_SIZE_NAMES, *(f"n{k}" for k in range(1, len(unknown) + 1))]
    free = [name for name in dict.fromkeys(candidates) if name not in taken]
    free += [f"size{k}" for k in range(len(unknown))]
    for size, name in zip(unknown, free, strict=False):
        size.link = name
    inference.sizes.settle()


def _taken(inference: Inference, nodes: list[Node]) -> set[str]:
    """Names of variables, of bound values, and of the sizes that occur."""
    names = {*inference.used, *inference.bound, *inference.declared}
    for declaration in inference.declared.values():
        for size in declaration.shape:
            names.update(sz.names(size) if isinstance(size, str) else ())
    names.update(node.value for node in nodes if node.kind == "name")
    return names


def build_variables(inference: Inference) -> dict[str, Expr]:
    """The variables, with the sizes that were found."""
    result: dict[str, Expr] = {}
    for name, use in inference.used.items():
        shape = [_found(inference, use, axis) for axis in use.type.axes]
        try:
            result[name] = use.declaration.build(tuple(shape), _into(use))
        except EindiffError as error:
            raise inference.error(use.node, str(error)) from None
    return result


def _into(use: Use) -> Size | None:
    """The size of the axis that indices are for."""
    found = None if use.into is None else resolve(use.into)
    return None if isinstance(found, Unknown) else found


def _found(inference: Inference, use: Use, axis: Term) -> Size:
    size = resolve(axis)
    if isinstance(size, Unknown):
        inference.fail(use.node, f"the size of {inference.text(use.node)} depends on itself; declare it")
    if use.declaration.expr is None and isinstance(size, str) and not size.isidentifier():
        text = inference.text(use.node)
        inference.fail(
            use.node,
            f"{text} would need the size {size}; a variable's size is one name or number: declare the sizes as numbers",
        )
    if isinstance(size, int) and size < 1:
        inference.fail(use.node, f"{inference.text(use.node)} would need the size {size}")
    return size


class Building:
    """One text on its way from types to the expression."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.variables = build_variables(inference)
        self.terms = Terms()
        self.work = 0

    def visit(self, node: Node) -> None:
        """Make the expression of a node whose args have theirs."""
        if node.literal or node.kind == "keyword":
            return
        try:
            node.expr = getattr(self, f"_{node.kind}")(node)
        except ParseError:
            raise
        except ArithmeticError:
            raise self.inference.error(node, f"`{self.inference.text(node)}` is not a finite number") from None
        except EindiffError as error:
            raise self.inference.error(node, str(error)) from None
        if isinstance(node.expr, Einsum) and not _is_finite(node.expr.coefficient):
            self.inference.fail(node, f"`{self.inference.text(node)}` is not a finite number")
        self._spend(node, len(node.expr.children))

    def _spend(self, node: Node, work: int) -> None:
        """Count work, and stop where a text would take long: an error and no long wait."""
        self.work += work
        if self.work > _MOST_WORK:
            self.inference.fail(node, "the expression is too large")

    def _sizes(self, node: Node, terms: tuple[Term, ...], hint: str) -> tuple[Size, ...]:
        sizes = known(terms)
        if sizes is None:
            self.inference.fail(node, f"the size of `{self.inference.text(node)}` does not follow from its use; {hint}")
        return sizes

    def _number(self, node: Node) -> Expr:
        return construct.filled(node.plan, ())

    def _name(self, node: Node) -> Expr:
        if node.plan == "eye":
            [n, _] = self._sizes(node, typed(node).axes, "write eye(n) with its size")
            return arrays.eye(n)
        if node.plan == "number":
            value = CONSTANTS.get(node.value)
            return construct.size_number(node.value) if value is None else construct.filled(value, ())
        return built(node.plan) if isinstance(node.plan, Node) else self.variables[node.value]

    def _array(self, node: Node) -> Expr:
        return construct.constant([_floats(entry) for entry in node.plan])

    def _call(self, node: Node) -> Expr:
        if node.value in ("vector", "matrix"):
            self._sizes(
                node,
                node.plan,
                f"write {self.inference.text(node.args[0])}*ones({'n' if node.value == 'vector' else 'm, n'})",
            )
        if node.value == "einsum":
            node.plan = (node.plan[0], self._label_sizes(node, node.plan[1]))
        return TABLE[node.value].build(node, [built(arg) for arg in values(node)])

    def _label_sizes(self, node: Node, sizes: dict[str, Term]) -> dict[str, Size]:
        hint = f"give the size of label {next(iter(sizes), '')}: einsum(..., {next(iter(sizes), '')}=n)"
        return dict(zip(sizes, self._sizes(node, tuple(sizes.values()), hint), strict=True))

    def _negative(self, node: Node) -> Expr:
        return construct.scale(-1, built(node.args[0]))

    def _transpose(self, node: Node) -> Expr:
        return arrays.transpose(built(node.args[0]))

    def _sum(self, node: Node) -> Expr:
        if (size := self._size_of(node)) is not None:
            return construct.size_number(size)
        terms = [built(node.args[0])]
        for sign, arg in zip(node.value, node.args[1:], strict=True):
            terms.append(built(arg) if sign == "PLUS" else construct.scale(-1, built(arg)))
        return arrays.add(*terms)

    def _size_of(self, node: Node) -> Size | None:
        """The size that a sum of names of sizes and whole numbers is: n - 1."""
        total: Size = 0
        for sign, arg in zip(["PLUS", *node.value], node.args, strict=True):
            is_size = arg.kind == "name" and arg.value in self.inference.names.sizes and arg.plan == "number"
            if not is_size and not (arg.kind == "number" and isinstance(arg.plan, int)):
                return None
            part: Size = arg.value if is_size else arg.plan
            total = sz.add(total, part) if sign == "PLUS" else sz.subtract(total, part)
        return total if isinstance(total, str) else None

    def _compare(self, node: Node) -> Expr:
        a, b = (built(arg) for arg in node.args)
        return {">": a.__gt__, "<": a.__lt__}.get(node.value, a.__ge__ if node.value in (">=", "≥") else a.__le__)(b)

    def _product(self, node: Node) -> Expr:
        """Scalars are collected and multiplied at once: a long chain is one product and not one for each step."""
        result, scale, scalars = built(node.args[0]), _Coefficient(), list[Expr]()
        for operator, step, arg in zip(node.value, node.plan, node.args[1:], strict=True):
            right, inverse = built(arg), operator in ("/", "./", "⊘", NUMPY_OVER)
            scales = step == "scale" or (step == "multiply" and not inverse and 0 in (right.ndim, result.ndim))
            if not scales:
                result = self._multiplied(node, step, result, _inverse(right) if inverse else right)
                continue
            if result.ndim == 0 and right.ndim and not inverse:
                result, right = right, result
            scale.take(right, inverse, scalars)
        if len(scalars) > _MOST_FACTORS:
            raise EindiffError(f"a product of more than {_MOST_FACTORS} factors", "large")
        known = arrays.coefficient_of(result) if result.ndim == 0 and not scalars else None
        if known is not None:
            return construct.filled(scale.times(known), ())
        return arrays.multiply(scale.value, *scalars, result)

    def _multiplied(self, node: Node, step: str | tuple[str, dict[str, Term]], left: Expr, right: Expr) -> Expr:
        """One step of a product that does not only scale."""
        if step == "multiply":
            return arrays.multiply(left, right)
        if step == "kron":
            return indexing.kron(left, right)
        if isinstance(step, tuple):
            return arrays.einsum(step[0], left, right, sizes=self._label_sizes(node, step[1]))
        self._spend(node, _CONTRACTION_WORK)
        return _contracted(step, left, right)

    def _power(self, node: Node) -> Expr:
        base, exponent = (built(arg) for arg in node.args)
        a, b = arrays.coefficient_of(base), arrays.coefficient_of(exponent)
        if node.plan == "matrix_power":
            if not isinstance(b, int) or abs(b) > 2**31:
                raise EindiffError(
                    "a matrix has powers with whole numbers only; .^ is entry by entry, sqrtm a function",
                    "domain",
                )
            return matrix_functions.matrix_power(base, b)
        scalars = base.ndim == exponent.ndim == 0
        if scalars and isinstance(a, int | Fraction) and isinstance(b, int) and a != 0 and abs(b) <= 64:
            return construct.filled(number(Fraction(a) ** b), ())
        return functions.power(base, exponent)

    def _index(self, node: Node) -> Expr:
        self._spend(node, _CONTRACTION_WORK)
        base, running = built(node.args[0]), [self.inference.index_of(entry) for entry in node.plan]
        if not any(running):
            plain = tuple([slice(None) if isinstance(entry, Places) else self._chosen(entry) for entry in node.plan])
            return self._at_places(indexing.getitem(base, plain), node.plan)
        return self.terms.entry(base, node.plan, running, self.inference.span)

    @staticmethod
    def _at_places(base: Expr, entries: tuple) -> Expr:
        """`x[2*arange(m) + 1]`: the axis of each such entry, read at its places."""
        for k, entry in enumerate(entries):
            if isinstance(entry, Places):
                axis = sum(len(e.sizes) if isinstance(e, Places) else isinstance(e, slice) for e in entries[:k])
                base = indexing.read_at(base, axis, entry.of(base.shape[axis]))
        return base

    def _chosen(self, entry: Any) -> Any:
        return self.variables[entry] if isinstance(entry, str) else entry

    def _over(self, node: Node) -> Expr:
        self._spend(node, _CONTRACTION_WORK)
        index = node.args[1].plan
        [size] = self._sizes(node, (self.inference.names.ranges[index].size,), "give it a range, as in i=1 to n")
        terms = self.terms.along(built(node.args[0]), index, size)
        return arrays.sum(terms, 0) if node.value == "sum_over" else reductions.prod(terms, 0)


def _contracted(spec: str, a: Expr, b: Expr) -> Expr:
    """A product of two: what `arrays.einsum` makes of it, without its checks, which inference has done."""
    left, _, rest = spec.partition(",")
    right, _, output = rest.partition("->")
    sizes = dict(zip(map(ord, left + right), a.shape + b.shape, strict=True))
    factors = [(a, tuple(map(ord, left))), (b, tuple(map(ord, right)))]
    return construct.einsum(1, factors, tuple(map(ord, output)), sizes)


class _Coefficient:
    """The numbers of a product, exact as long as they are."""

    def __init__(self) -> None:
        self.value: Number = 1

    def times(self, factor: Number) -> Number:
        return number(self.value * factor)

    def take(self, factor: Expr, inverse: bool, scalars: list[Expr]) -> None:
        """Multiply by a scalar, or divide by it."""
        known = arrays.coefficient_of(factor)
        if known is None:
            scalars.append(_inverse(factor) if inverse else factor)
        elif inverse and known == 0:
            raise EindiffError("division by zero", "domain")
        elif inverse:
            self.value = self.times(Fraction(1) / known if isinstance(known, int | Fraction) else 1 / known)
        else:
            self.value = self.times(known)


def _is_finite(value: Number) -> bool:
    """Whether a number can be computed with as a float."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _inverse(expr: Expr) -> Expr:
    known = arrays.coefficient_of(expr)
    if known == 0:
        raise EindiffError("division by zero", "domain")
    if known is not None and isinstance(known, int | Fraction):
        return construct.filled(Fraction(1) / known, expr.shape)
    return functions.reciprocal(expr)


def _floats(entry: object) -> object:
    """Entries of an array as NumPy takes them."""
    if isinstance(entry, list):
        return [_floats(item) for item in entry]
    return float(entry) if isinstance(entry, Fraction) else entry


def built(node: Node) -> Expr:
    """The expression of a node that building has been to."""
    assert node.expr is not None
    return node.expr

"""The shape of every part of a text, and what its operators mean: `A*x` is `ij,j->i` where A is a matrix, x a column.

A type says the sizes of the axes, and of a vector whether it lies down (`x'` is a row). It follows from those of the
operands, which come first.
"""

from __future__ import annotations

from difflib import get_close_matches
from math import pi
from typing import Any, NoReturn

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.sizes import Size
from eindiff.text.read import literals
from eindiff.text.read.declarations import by_name
from eindiff.text.read.notation import NUMPY_OVER, NUMPY_TIMES
from eindiff.text.read.shapes import Shapes, Use, typed
from eindiff.text.read.syntax import Node
from eindiff.text.read.table import TABLE
from eindiff.text.read.table_functions import contract
from eindiff.text.read.unify import SCALAR, Term, Type, Unknown, resolve

# What `*` means for the kinds of its sides: an einsum, and whether the result lies down. The sizes of a label agree.
_PRODUCTS: dict[tuple[str, str], tuple[str, bool]] = {
    ("row", "column"): ("i,i->", False),
    ("column", "row"): ("i,j->ij", False),
    ("matrix", "column"): ("ij,j->i", False),
    ("row", "matrix"): ("i,ij->j", True),
    ("matrix", "matrix"): ("ij,jk->ik", False),
}
# These work out only where the axis (side, axis) that is summed away has size 1.
_THIN_PRODUCTS: dict[tuple[str, str], tuple[str, bool, tuple[int, int], str]] = {
    ("column", "column"): ("i,j->i", False, (1, 0), "write {a}'*{b} (inner), {a}*{b}' (outer) or {a}.*{b} (by entry)"),
    ("row", "row"): ("i,j->j", True, (0, 0), "write {a}*{b} for the inner product"),
    ("column", "matrix"): ("i,jk->ik", False, (1, 0), "a column times a matrix; did you mean {a}'*{b}?"),
    ("matrix", "row"): ("ij,k->ik", False, (0, 1), "vectors are columns, so {a}*{b} needs no transpose"),
}  # fmt: skip
# How a product with a number is built, where one of the sides is a number.
_SCALES = {"*": "scale", "/": "scale", NUMPY_TIMES: "multiply", NUMPY_OVER: "multiply"}

CONSTANTS = {"pi": pi, "π": pi}
ALSO_NAMES = frozenset(("step", "power", "size", "mean"))  # functions that may be names as well

_WRITTEN_OUT = {  # functions that people know, in the words of the language
    "var": "mean((x - mean(x)).^2)", "std": "sqrt(mean((x - mean(x)).^2))", "log2": "log(x)/log(2)",
    "log10": "log(x)/log(10)", "mse_loss": "mean((x - y).^2)", "mse": "mean((x - y).^2)", "mae": "mean(abs(x - y))",
    "l1_loss": "mean(abs(x - y))", "cross_entropy": "-sum(y.*log(p))", "cov": "X'*X/n with columns around their means",
    "corr": "x'*y/(norm2(x)*norm2(y)) with x and y around their means", "sum_i": "sum_over(i, y[i]*x[i])",
    "log_softmax": "x - logsumexp(x)", "huber": "sum(where(abs(r) > d, d*(abs(r) - d/2), r.^2/2))",
}  # fmt: skip


class Inference(Shapes):
    """One text on its way from syntax to types: a method for each kind of syntax."""

    def visit(self, node: Node) -> None:
        """Type a node whose args are typed; a literal gets its value instead."""
        if node.literal:
            node.plan = literals.fold(self.source, node)
            return
        node.type = getattr(self, f"_{node.kind}")(node)
        if node.type.order > literals.LARGEST_ORDER:
            self.fail(node, f"a tensor of order {node.type.order}; the most is {literals.LARGEST_ORDER}")

    # Leaves

    def _number(self, node: Node) -> Type:
        node.plan = literals.read_number(self.source, node)
        return SCALAR

    def _text(self, node: Node) -> Type:
        self.fail(node, "a quoted text has a meaning only as the first argument of einsum")

    def _name(self, node: Node) -> Type:
        name = node.value
        if name in self.bound:
            bound = self.bound[name]
            node.plan = bound
            return typed(bound)
        if name not in self.used:
            special = self._special_name(node) if name not in self.declared else None
            if special is not None:
                return special
            declaration = self.declared.get(name) or by_name(name, self.names.orders.get(name))
            into = declaration.into if declaration.into is not None else Unknown() if declaration.is_indices else None
            self.used[name] = Use(declaration, declaration.type(), node, into)
        return self.used[name].type

    def _special_name(self, node: Node) -> Type | None:
        if node.value in self.names.identities:
            size = Unknown()
            node.plan = "eye"
            return Type((size, size))
        if node.value in CONSTANTS or node.value in self.names.sizes:
            node.plan = "number"
            return SCALAR
        if node.value in TABLE and node.value not in ALSO_NAMES:
            self.fail(node, f"{node.value} is a function: {TABLE[node.value].usage}")
        if not node.value.isidentifier():
            self.fail(node, f"the name {node.value!r}: use letters, digits and underscores; powers are written with ^")
        return None

    def _array(self, node: Node) -> Type:
        node.plan = [arg.plan for arg in node.args]
        return Type(literals.array_shape(self.source, node))

    def _call(self, node: Node) -> Type:
        row = TABLE.get(node.value)
        if row is None:
            self._unknown_function(node, list(TABLE))
        return row.check(self, node)

    def _unknown_function(self, node: Node, names: list[str]) -> NoReturn:
        place = Node("name", node.start, node.start + len(node.value))
        if node.value in self.used or node.value in self.bound or node.value in self.declared:
            self.fail(
                place,
                f"{node.value} is no function; a product is written {node.value}*(...), an index {node.value}[...]",
            )
        if node.value in _WRITTEN_OUT:
            self.fail(place, f"there is no function {node.value}; write {_WRITTEN_OUT[node.value]}")
        near = get_close_matches(node.value[:50], names, 3, 0.6)
        self.fail(
            place, f"unknown function {node.value[:50]}" + (f"; did you mean {' or '.join(near)}?" if near else "")
        )

    def _keyword(self, node: Node) -> Type:
        self.fail(node, "a named argument holds a size or an axis")

    # Operators

    def _part(self, node: Node, count: int, type_: Type) -> Node:
        """The first operands of a product as a node of its own."""
        if count == 1:
            return node.args[0]
        part = Node(node.kind, node.start, node.args[count - 1].end)
        part.type = type_
        return part

    def _negative(self, node: Node) -> Type:
        return typed(node.args[0])

    def _transpose(self, node: Node) -> Type:
        shape = typed(node.args[0])
        if shape.order > 2:
            text = self.text(node.args[0])
            hint = f"' transposes vectors and matrices; write transpose({text}, 2, 0, 1) with the order of axes"
            self.fail(node, f"{self.shape_of(node.args[0])}: {hint}")
        return Type(shape.axes[::-1], shape.order == 1 and not shape.row)

    def _sum(self, node: Node) -> Type:
        return self.equal_shapes(node, node.args, "+")

    def _compare(self, node: Node) -> Type:
        return self.equal_shapes(node, node.args, node.value)

    def _product(self, node: Node) -> Type:
        """Operands from left to right; `plan` has for each step how it is built: scale, einsum, multiply, kron."""
        left = typed(node.args[0])
        node.plan = []
        for count, (operator, arg) in enumerate(zip(node.value, node.args[1:], strict=True), 1):
            right = typed(arg)
            if operator == "·":  # the inner product of vectors, and a row times a matrix, as @
                is_row = left.kind == "column" and right.kind in ("column", "matrix")
                operator = "@" if is_row else "*"
            if operator in _SCALES and (right.order == 0 or (left.order == 0 and operator != "/")):
                node.plan.append(_SCALES[operator])
                left = left if left.order else right
            elif operator == "⊗":
                node.plan.append("kron")
                left = self.kron(node, left, right)
            else:
                left = self._multiplied(node, operator, self._part(node, count, left), arg)
        return left

    def _multiplied(self, node: Node, operator: str, part: Node, arg: Node) -> Type:
        """One step of a product whose operands have axes."""
        left, right = typed(part), typed(arg)
        whole = Node("product", part.start, arg.end)
        if operator == "@":
            return self._matrix_product(node, whole, part, arg)
        if operator == "*":
            return self._times(node, whole, part, arg)
        if operator == "/" and (left.kind == "matrix" or left.kind != right.kind):
            self._no_quotient(whole, part, arg)
        if operator.startswith("*_"):
            return self._paper_product(node, whole, operator, part, arg)
        node.plan.append("multiply")
        return self.equal_shapes(node, [part, arg], operator)

    def _times(self, node: Node, whole: Node, part: Node, arg: Node) -> Type:
        left, right = typed(part), typed(arg)
        kinds = (left.kind, right.kind)
        if "tensor" in kinds:
            hint = 'a tensor of order above 2 is multiplied with einsum("ijk,k->ij", T, x)'
            self.fail_together(whole, [part, arg], hint)
        if kinds in _THIN_PRODUCTS:
            spec, row, (side, axis), hint = _THIN_PRODUCTS[kinds]
            if resolve((left, right)[side].axes[axis]) != 1:
                b = self.text(arg) if right.kind != "row" else self._upright(arg)
                self.fail_together(whole, [part, arg], hint.format(a=self.text(part), b=b))
        else:
            spec, row = _PRODUCTS[kinds]
            if kinds != ("column", "row") and not self.sizes.unite(left.axes[-1], right.axes[0], whole):
                hint = f"{resolve(left.axes[-1])} and {resolve(right.axes[0])} must be equal"
                self.fail_together(whole, [part, arg], hint)
        node.plan.append(spec)
        inputs, _, output = spec.partition("->")
        found = dict(zip(inputs.replace(",", ""), left.axes + right.axes, strict=True))
        return Type(tuple(found[label] for label in output), row)

    def _matrix_product(self, node: Node, whole: Node, part: Node, arg: Node) -> Type:
        """NumPy's @: a vector on the left is a row where that fits, and what comes out is a vector."""
        left, right = typed(part), typed(arg)
        if left.order == 0 or right.order == 0:
            self.fail_together(whole, [part, arg], "@ multiplies vectors and matrices; * scales")
        if left.kind == "column" and right.kind == "row":
            self._refuse_outer(whole, part, arg)
        if left.kind != "column":
            return self._times(node, whole, part, arg)
        lying = Node("name", part.start, part.end)
        lying.type = Type(left.axes, row=True)
        return Type(self._times(node, whole, lying, arg).axes)

    def _refuse_outer(self, whole: Node, part: Node, arg: Node) -> None:
        """v @ v.T is a number for NumPy's vectors, and a matrix for columns; x @ A @ x.T is a number for both."""
        if part.kind == "name":
            a, b = self.text(part), self._upright(arg)
            self.fail_together(whole, [part, arg], f"write outer({a}, {b}), or {a} @ {b} for the inner product")
        arg.type = Type(typed(arg).axes)

    def _upright(self, arg: Node) -> str:
        """A row's text without the transpose that made it one."""
        return self.text(arg.args[0]) if arg.kind == "transpose" else f"{self.text(arg)}'"

    def _no_quotient(self, whole: Node, part: Node, arg: Node) -> NoReturn:
        a, b = self.text(part), self.text(arg)
        inverse = f"{a}*inv({b}) or, entry by entry, {a}./{b}"
        hint = inverse if typed(arg).kind == "matrix" else f"{a}./{b} to divide entry by entry"
        self.fail_together(whole, [part, arg], f"/ divides by a scalar; write {hint}")

    def _paper_product(self, node: Node, whole: Node, operator: str, part: Node, arg: Node) -> Type:
        """The paper's `A *_(s1,s2,s3) B`."""
        labels = ["".join(part.split()) for part in operator.strip("*_({)} \t").split(",")]
        if len(labels) != 3:
            self.fail(whole, f"`{operator}` needs three groups of labels, like *_(ij,jk,ik)")
        spec = f"{labels[0]},{labels[1]}->{labels[2]}"
        result, sizes = contract(self, whole, spec, [part, arg], {})
        node.plan.append((spec, sizes))
        return result

    def _power(self, node: Node) -> Type:
        base, exponent = node.args
        shape, by = typed(base), typed(exponent)
        if exponent.kind == "transpose" and by.order == 0 and shape.order:
            a, b = self.text(base), self.text(exponent.args[0])
            self.fail(exponent, f"this transposes the exponent; write ({a}{node.value}{b})' for the transposed power")
        if node.value == ".^":
            node.plan = "power"
            return self.equal_shapes(node, node.args, ".^")
        if shape.order == 0 and by.order == 0:
            node.plan = "power"
            return SCALAR
        if shape.order == 1 and base.kind == "call" and base.value == "bars":
            inner = self.text(base).strip("|")
            ways = f"norm2({inner})^2 for the square of its length, abs({inner}).^2 for those of its entries"
            self.fail(node, f"`{self.text(node)}`: bars around a vector; write {ways}")
        if shape.order == 1 and by.order == 0:  # nothing else that it could be
            node.plan = "power"
            return shape
        if shape.kind == "matrix" and by.order == 0:
            node.plan = "matrix_power"
            self.square(node, base)
            return shape
        a, b = self.text(base), self.text(exponent)
        hint = f"the exponent of ^ is a scalar; write {a}.^{b} entry by entry"
        self.fail_together(node, node.args, hint)

    # Indexing

    def _over(self, node: Node) -> Type:
        """A sum over an index has the type of its terms."""
        return typed(node.args[0])

    def _index(self, node: Node) -> Type:
        base, entries = node.args[0], [arg.plan for arg in node.args[1:]]
        shape = typed(base)
        self._refuse_indices(node, entries, shape.order)
        axes: list[Term] = []
        left = list(shape.axes)
        together: Type | None = None
        for entry, place in _written_out(node, entries, shape.order):
            if self._is_index_array(entry):
                found = self._index_array(node, place, entry, left.pop(0))
                axes.extend(() if together is not None else found.axes)
                if together is not None and found.order and not self.unite(together.axes, found.axes, place):
                    self.fail(place, f"`{self.text(node)}`: the arrays of indices differ in shape")
                together = found if together is None or found.order else together
            elif isinstance(entry, str) and (index := self.index_of(entry)) is not None:
                self._run(node, place, index, entry, len(shape.axes) - len(left), left.pop(0))
            else:
                axes.extend([1] if entry is None else self._indexed(node, place, entry, left.pop(0)))
        node.plan = tuple(entries)
        return Type(tuple(axes), shape.row and len(axes) == 1 and shape.order == 1)

    def _is_index_array(self, entry: object) -> bool:
        return isinstance(entry, str) and entry in self.declared and self.declared[entry].is_indices

    def _index_array(self, node: Node, place: Node, name: str, size: Term) -> Type:
        """u[g]: the indices g are for all axes that they are used with, which have one size."""
        if name not in self.used:
            found = self.declared[name]
            self.used[name] = Use(found, found.type(), place, Unknown() if found.into is None else found.into)
        use = self.used[name]
        if use.into is None:
            use.into = size
        if not self.sizes.unite(use.into, size, node):
            into = resolve(use.into)
            self.fail(place, f"`{self.text(node)}`: {name} has indices of an axis of size {into}, not {resolve(size)}")
        return use.type

    def index_of(self, entry: Size) -> str | None:
        """The index of a sum that an entry of an index is about: i in x[i + 1]."""
        names = sz.names(entry) if isinstance(entry, str) and self.names.ranges else ()
        return next((name for name in names if name in self.names.ranges), None)

    def span(self, entry: Size, index: str) -> tuple[Size, Size | None]:
        """The first place that x[i + 1] takes, which counts from 1, and the last."""
        found, shift = self.names.ranges[index], sz.subtract(entry, index)
        return sz.add(found.first, shift), None if found.last is None else sz.add(found.last, shift)

    def _run(self, node: Node, place: Node, index: str, entry: Size, axis: int, size: Term) -> None:
        """An index of a sum runs along an axis: what that says about its size."""
        found = self.names.ranges[index]
        first, last = self.span(entry, index)
        if last is None:
            if first != 1:
                self.fail(place, f"`{self.text(node)}`: give the sum a range, from i=1 to n, to shift its index")
            last_size: Term = found.size
        else:
            name = node.args[0].value if node.args[0].kind == "name" else ""
            last_size = self.names.lengths.get((str(name), axis), last)
        if not self.sizes.unite(size, last_size, node):
            self.fail(
                node, f"`{self.text(node)}`: the index runs to {resolve(last_size)}; the axis has size {resolve(size)}"
            )

    def _refuse_indices(self, node: Node, entries: list, order: int) -> None:
        """There are not more indices than axes, and at most one list, which no slice parts from numbers."""
        if _named(entries) > order or entries.count(...) > 1:
            count, shape = _named(entries), self.shape_of(node.args[0])
            self.fail(node, f"`{self.text(node)}` has {count} indices; {shape}")
        arrays = [self._is_index_array(entry) for entry in entries]
        lists = sum(isinstance(entry, list | literals.Places) for entry in entries)
        chosen = [k for k, entry in enumerate(entries) if isinstance(entry, list | int) or arrays[k]]
        parted = bool(chosen) and chosen[-1] - chosen[0] >= len(chosen)
        if lists + any(arrays) > 1 or ((lists or any(arrays)) and parted):
            self.fail(node, f"`{self.text(node)}`: a list stands alone; index in two steps, as in A[[0,2],:][:,1]")

    def _indexed(self, node: Node, place: Node, entry: object, size: Term) -> list[Term]:
        """The axes that one index leaves of an axis."""
        if isinstance(entry, slice):
            if entry in (slice(None), slice(None, None, 1), slice(None, None, -1)):
                return [size]
            return [self.sizes.derive(place, lambda n: slice_size(entry, n), size)]
        if isinstance(entry, str) and entry in self.declared and len(self.declared[entry].shape) == 1:
            into = f"{entry}({self.declared[entry].shape[0] or 'm'}) into {resolve(size)}"
            self.fail(place, f"`{self.text(node)}`: {entry} is a vector of numbers; declare {into} for indices")
        if isinstance(entry, literals.Places):
            known_size = resolve(size)
            try:
                _ = None if isinstance(known_size, Unknown) else entry.of(known_size)
            except EindiffError as error:
                self.fail(place, f"`{self.text(node)}`: {error.args[0].splitlines()[0]}")
            return list(entry.sizes)
        if isinstance(entry, list):
            shape: Type = Type(literals.array_shape(self.source, place))
            return list(shape.axes)
        if not isinstance(entry, int):
            self.fail(
                place,
                "an index is a whole number, a slice a:b:c, ..., None, a list of whole numbers or the name of indices",
            )
        known = resolve(size)
        if isinstance(known, int) and not -known <= entry < known:
            self.fail(place, f"`{self.text(node)}`: the index {entry} is out of range, the axis has size {known}")
        return []


def _written_out(node: Node, entries: list, order: int) -> list[tuple[Any, Node]]:
    """The entries of an index, each with its place, and with slices for `...`, which may be left out at the end."""
    places = [*zip(entries, node.args[1:], strict=True), (..., node)]
    at = entries.index(...) if ... in entries else len(entries)
    slices = [(slice(None), node)] * (order - _named(entries))
    return places[:at] + slices + places[at + 1 : len(entries)]


def _named(entries: list) -> int:
    """How many indices name an axis."""
    return sum(entry is not None and entry is not ... for entry in entries)


def slice_size(entry: slice, n: Size) -> Size:
    """How many entries of an axis a slice takes."""
    step = 1 if entry.step is None else entry.step
    bounds = [bound for bound in (entry.start, entry.stop, step) if bound is not None]
    if not all(map(literals.is_size, bounds)) or not isinstance(step, int) or step == 0:
        raise EindiffError("the bounds of a slice are whole numbers, its step is not 0", "indices")
    if isinstance(n, int) and not any(isinstance(bound, str) for bound in bounds):
        count: Size = len(range(*entry.indices(n)))
    elif step == 1:
        count = sz.subtract(_bound(entry.stop, n, n), _bound(entry.start, 0, n))
    else:
        raise EindiffError(f"a slice with a step needs an axis of known size, not {n}", "indices")
    if isinstance(count, int) and count < 1:
        raise EindiffError(f"this slice is empty: the axis has size {n}", "indices")
    return count


def _bound(bound: Size | None, default: Size, n: Size) -> Size:
    """A bound of a slice, counted from the beginning."""
    bound = default if bound is None else bound
    return bound if isinstance(bound, str) or bound >= 0 else sz.add(n, bound)

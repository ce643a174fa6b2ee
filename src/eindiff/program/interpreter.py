"""The plain NumPy interpreter: one node after the other. What compiled programs are tested against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import ratio
from eindiff.core.derivation import origins
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import Given, IndexMap
from eindiff.core.labels import Labels
from eindiff.core.nodes import (
    Add,
    Apply,
    Constant,
    Einsum,
    Expr,
    Map,
    Number,
    Variable,
    is_contraction,
    is_index_map,
    is_inverse,
    plain,
    size_names,
    topological,
    variables,
)
from eindiff.core.partial_sums import Parts, partial_sums, parts_apart, with_parts_first
from eindiff.core.ranges import Ranges
from eindiff.functions.reductions import as_log_softmax, as_softmax
from eindiff.planning.alternatives import nested_around_inverses, with_thin_products
from eindiff.planning.contraction_order import contraction_path
from eindiff.planning.deviations import Balance, Deviation, balances, centered, deviations
from eindiff.planning.off_diagonals import without_diagonals
from eindiff.planning.offsets import without_offsets
from eindiff.program.inputs import check, common_type, real_array
from eindiff.program.near_terms import added_up, balanced, without_mean
from eindiff.program.norms import is_root, squares, units

Array = np.ndarray


def evaluate(
    outputs: Any, arrays: Mapping[str, Any] | None = None, sizes: Mapping[str, int] | None = None, validate: bool = True
) -> Any:
    """The value of an expression, or of a list of them (which share work), as NumPy arrays.

    Arrays for names that are not needed are ignored. `sizes` is only needed for sizes that no array shows. Numbers are
    computed in float64; results are float32 if the arrays are.

    Args:
        outputs: an expression, or a list of them
        arrays: arrays or numbers by the names of the variables
        sizes: sizes by name that no array shows
        validate: whether arrays are held against what their variables are declared to be

    >>> import eindiff as ed
    >>> x = ed.vector("x", "n")
    >>> float(ed.evaluate(x @ x, {"x": [3.0, 4.0]}))
    25.0

    See also: `compile`, `check`.
    """
    several = isinstance(outputs, list | tuple)
    wanted = flatten(outputs)
    given = {} if arrays is None else arrays
    if not isinstance(given, Mapping):
        raise EindiffError(
            f"evaluate takes arrays by the names of variables, as in {{'x': ...}}, not {arrays!r}", "arrays"
        )
    inputs = read_inputs(wanted, given)
    bindings = bind_sizes(inputs, {} if sizes is None else sizes)
    bind_from_unneeded(wanted, given, bindings)
    Ranges(wanted).check(bindings)
    for variable in declared(wanted):
        if variable.name in given and (validate or variable.into is not None):  # indices are looked at in any case
            check(variable, real_array(variable.name, given[variable.name]), bindings)
    dtype = common_type([v.name for v in inputs], given)
    with np.errstate(all="ignore"):
        exact = {v: np.asarray(array, float) for v, array in inputs.items()}
        values = _Interpreter(exact, bindings).run(wanted)
        results = iter([value.astype(dtype) for value in values])
    return like(outputs, results) if several else next(results)


def flatten(outputs: Any) -> list[Expr]:
    """Expressions from an expression or (nested) lists of them."""
    if isinstance(outputs, Expr):
        return [outputs]
    if isinstance(outputs, list | tuple):
        return [expr for output in outputs for expr in flatten(output)]
    raise EindiffError(f"expected an expression or a list of them, not {outputs!r}", "options")


def like(outputs: Any, results: Any) -> Any:
    """Results one after the other, in (nested) lists like those of the outputs."""
    return [like(output, results) for output in outputs] if isinstance(outputs, list | tuple) else next(results)


def as_tuples(outputs: Any) -> Any:
    """Nested lists as nested tuples, which can be keys."""
    return tuple([as_tuples(output) for output in outputs]) if isinstance(outputs, list | tuple) else outputs


def read_inputs(outputs: Sequence[Expr], arrays: Mapping[str, Any]) -> dict[Variable, Array]:
    """The array of each variable, checked."""
    needed = variables(*outputs)
    for first, second in pairwise(needed):
        if first.name == second.name:
            shapes = f"{shape_text(first.shape)} and {shape_text(second.shape)}"
            raise EindiffError(
                f"two variables are named {first.name}, with shapes {shapes}, or different properties", "names"
            )
    missing = [v.name for v in needed if v.name not in arrays]
    if missing:
        listing = ", ".join(f"{v.name} ({shape_text(v.shape)})" for v in needed)
        raise EindiffError(f"no array is given for {', '.join(missing)}; the inputs are {listing}", "arrays")
    inputs = {}
    for v in needed:
        array = inputs[v] = real_array(v.name, arrays[v.name])
        if array.ndim != v.ndim:
            is_square = v.ndim == 1 and array.ndim == 2 and array.shape[0] == array.shape[1]
            hint = f"; of a diagonal matrix the diagonal is given, np.diag({v.name})" if is_square else ""
            raise EindiffError(
                f"{v.name} is declared {shape_text(v.shape)}, but its array has shape {shape_text(array.shape)}{hint}",
                "arrays",
            )
    return inputs


def declared(outputs: Sequence[Expr]) -> list[Variable]:
    """The variables with properties that outputs were made of, also where they have dropped out."""
    return [v for v in sorted({*variables(*outputs), *origins(*outputs)}, key=lambda v: v.name) if v.properties]


def bind_sizes(inputs: Mapping[Variable, Array], given: Mapping[str, int]) -> dict[str, int]:
    """The named sizes, from the shapes of the arrays and from what is given."""
    bindings = sz.read_given(given)
    source = dict.fromkeys(given, "sizes")
    for variable, array in inputs.items():
        for size, actual in zip(variable.shape, array.shape, strict=True):
            known = bindings.setdefault(size, actual) if isinstance(size, str) else size
            if known != actual:
                because = f", because {size} = {known} in {source[size]}" if isinstance(size, str) else ""
                raise EindiffError(
                    f"{variable.name} is declared {shape_text(variable.shape)}, but its array has shape "
                    f"{shape_text(array.shape)}: the size {actual} must be {known}{because}",
                    "arrays",
                )
            source.setdefault(str(size), variable.name)
    return bindings


def bind_from_unneeded(outputs: Sequence[Expr], arrays: Mapping[str, Any], bindings: dict[str, int]) -> None:
    """Named sizes that no input shows, from arrays of variables that dropped out, if these leave no doubt.

    The Hessian of `‖T - U V'‖²` by U has as many blocks as U has rows, but no U in it.
    """
    unknown = size_names(*outputs) - set(bindings)
    found: dict[str, set[int]] = {name: set() for name in unknown}
    for variable in (origins(*outputs) if unknown else set()).difference(variables(*outputs)):
        actual: tuple[int, ...] = np.shape(arrays.get(variable.name, 0))
        shown: dict[str, int] = {}
        fits = len(variable.shape) == len(actual) and all(
            (bindings[size] if size in bindings else shown.setdefault(size, n) if isinstance(size, str) else size) == n
            for size, n in zip(variable.shape, actual, strict=True)
        )
        for size, n in shown.items() if fits else ():
            if size in found:
                found[size].add(n)
    bindings.update({name: values.pop() for name, values in found.items() if len(values) == 1})


class Values:
    """The values of expressions at some arrays, one after the other; they may be no numbers."""

    def __init__(self, arrays: Mapping[Variable, Any]) -> None:
        self._interpreter = _Interpreter({v: np.asarray(array, float) for v, array in arrays.items()}, {})

    def __call__(self, expr: Expr) -> Array:
        with np.errstate(all="ignore"):
            return self._interpreter.found(plain(expr))


class _Interpreter:
    """Evaluates nodes in topological order, each once."""

    def __init__(self, inputs: Mapping[Variable, Array], bindings: Mapping[str, int]) -> None:
        self.values: dict[Expr, Array] = dict(inputs)  # type: ignore[arg-type]
        self.bindings = bindings
        self.parts: dict[Expr, Parts] = {}  # sums that are parts of others
        self.deviations: dict[Expr, Deviation | Balance] = {}  # sums that are 0 in total

    def run(self, outputs: Sequence[Expr]) -> list[Array]:
        outputs, named = without_offsets(outputs, self.size)
        for variable, expr in named.items():
            self.values[variable] = self.found(expr)
        outputs = parts_apart(without_diagonals(centered(outputs)))
        outputs = nested_around_inverses(with_thin_products(outputs, self.size), self.size)
        self.deviations = {**deviations(topological(outputs)), **balances(outputs)}
        self.parts = partial_sums(topological(outputs))
        order = with_parts_first(outputs, self.parts)
        formed = {child for node in order if not isinstance(node, Einsum) for child in node.children} | set(outputs)
        for node in order:
            if node not in self.values and (node in formed or not is_index_map(node)):
                self.values[node] = self.value(node)
        for output in outputs:
            if np.isnan(self.values[output]).any():
                self._explain_nan(order)
        return [np.array(self.values[output]) for output in outputs]

    def found(self, expr: Expr) -> Array:
        """The value of one more expression, not a number where it is none; what was computed before is kept."""
        waiting = [expr]
        while waiting:
            node = waiting[-1]
            children = [] if node in self.values else node.children
            skipped = is_index_map if isinstance(node, Einsum) else (lambda _: False)
            unknown = [child for child in children if child not in self.values and not skipped(child)]
            waiting += unknown
            if not unknown:
                waiting.pop()
                if node not in self.values:
                    self.values[node] = self.value(node)
        return self.values[expr]

    def size(self, size: sz.Size) -> int:
        return sz.evaluate(size, self.bindings)

    def shape(self, node: Expr) -> tuple[int, ...]:
        return tuple(self.size(size) for size in node.shape)

    def value(self, node: Expr) -> Array:
        match node:
            case Constant() if isinstance(node.value, IndexMap):
                return self._one_hot(node.value)
            case Constant():
                return node.value if isinstance(node.value, np.ndarray) else node.value.to_array(self.bindings)
            case Einsum():
                return self._einsum(node)
            case Add() if len(node.terms) == 2 and (found := as_log_softmax(node)) is not None:
                return np.moveaxis(found.sign * _log_softmax(self.values[found.total.args[0]]), -1, found.axis)
            case Add():
                return self._sum(node)
            case Map() if _is_of_norm(node) and (norm := self._norm(node.args[0])) is not None:
                return power_of_norm(norm, self.values[node.args[0]], node.function.parameter)
            case Map() if (softmax := as_softmax(node)) is not None:
                entries = np.exp(self.values[node.args[0]])  # up to a factor, where the sum is large
                return np.asarray(entries / np.nansum(entries, axis=softmax.axis, keepdims=True))
            case Map():
                return np.asarray(node.function.value(*(self.values[arg] for arg in node.args)))
            case Apply():
                return self._apply(node)
        raise AssertionError(f"a node of unknown kind: {type(node)}")

    def _sum(self, node: Add) -> Array:
        """The sum of terms, of which some are there as another sum."""
        sums, rest = self.parts.get(node, Parts([], list(node.terms)))
        if isinstance(found := self.deviations.get(node), Balance):
            sums, rest = [], found.beside(node.terms)
        known = [float(factor) * self.values[part].transpose(axes) for factor, part, axes in sums]
        times = found.times if isinstance(found, Deviation) else 1
        known = [x / float(times) for x in known] + [self._part_of(term, times) for term in rest]
        total = added_up([np.zeros(self.shape(node)), *known])
        match found:
            case Deviation():
                return float(times) * without_mean(total, found, self.values)
            case Balance():
                return balanced(total, found)
        return total

    def _part_of(self, term: Expr, times: Number) -> Array:
        """The value of a term without some factor, which is not rounded where it is a number beside an array."""
        coefficient, factors, output, _ = construct.parts(term)
        if times == 1 or len(factors) != 1 or sorted(factors[0][1]) != sorted(output):
            return self.values[term] if times == 1 else self.values[term] / float(times)
        [(x, labels)] = factors
        return float(ratio(coefficient, times)) * self.values[x].transpose([labels.index(k) for k in output])

    def _apply(self, node: Apply) -> Array:
        """Arguments with their batch axes aligned, so that NumPy's broadcasting does the rest."""
        count = len({label for labels in node.batch for label in labels})
        args = []
        for arg, labels in zip(node.args, node.batch, strict=True):
            value = self.values[arg]
            core = value.shape[len(labels) :]
            order = sorted(range(len(labels)), key=labels.__getitem__)
            value = value.transpose([*order, *range(len(labels), value.ndim)])
            present = dict(zip(sorted(labels), value.shape, strict=False))
            args.append(value.reshape(tuple(present.get(k, 1) for k in range(count)) + core))
        return np.asarray(node.function.value(*args))

    def _einsum(self, node: Einsum) -> Array:
        sizes = {label: self.size(size) for label, size in enumerate(node.sizes)}
        bound = {label for labels in node.labels for label in labels}
        core = tuple(label for label in dict.fromkeys(node.output) if label in bound)
        value = self._contract(node.factors, core, sizes)
        if node.coefficient != 1:
            value = value * float(node.coefficient)
        return expand(value, core, node.output, sizes)

    def _contract(self, factors: list[tuple[Expr, Labels]], output: Labels, sizes: dict[int, int]) -> Array:
        """The sum of products over the labels not in output, index maps by indexing and inverses by solving."""
        maps = [(x.value, ls) for x, ls in factors if isinstance(x, Constant) and isinstance(x.value, IndexMap)]
        plain = [(node, labels) for node, labels in factors if not is_index_map(node)]
        arrays: list[list[Any]] = [[node, self.values[node], labels] for node, labels in plain]
        self._divide_by_norms(arrays)
        self._solve_inverses(arrays, {*output, *(x for _, labels in maps for x in labels)})
        return self._with_maps(maps, [(array, labels) for _, array, labels in arrays], output, sizes)

    def _divide_by_norms(self, arrays: list[list[Any]]) -> None:
        """Vectors beside powers of their norms become unit vectors, which are never out of range."""
        if (found := units([(node, labels) for node, _, labels in arrays])) is None:
            return
        root, places = found
        node, _, labels = arrays[root]
        exponent = node.function.parameter + Fraction(len(places), 2)
        norm = self._norm(node.args[0])
        assert norm is not None
        arrays[root][1] = power_of_norm(norm, self.values[node.args[0]], exponent)
        sizes = dict(zip(labels, norm.shape, strict=True))
        for place in places:
            _, array, theirs = arrays[place]
            if len(theirs) < len(labels):
                array, theirs = expand(array, theirs, labels, sizes), labels
            turned = norm.transpose([labels.index(label) for label in theirs if label in labels])
            arrays[place][1:] = array / turned.reshape([sizes.get(label, 1) for label in theirs]), theirs

    def _norm(self, total: Expr) -> Array | None:
        """The root of a sum of squares, without the squares: these may be out of range."""
        if (found := squares(total)) is None:
            return None
        norms = []
        for part in found:
            norms.append(_norm(self.found(part.y), tuple(range(part.y.ndim - part.summed, part.y.ndim))))
        return np.asarray(np.hypot.reduce(np.stack(norms)))

    def _with_maps(
        self, maps: list[tuple[IndexMap, Labels]], operands: list, output: Labels, sizes: dict[int, int]
    ) -> Array:
        """Index maps one after the other: what has the target label is indexed, and an output that has it scattered to.

        A map that meets another one, or itself, is an operand like others.
        """
        if not maps:
            return sum_of_products(operands, output, sizes)
        (index_map, labels), *rest = maps
        target, inputs = labels[0], labels[1:]
        meets = any(target in other for _, other in rest) or len(set(labels)) < len(labels)
        used = any(target in theirs for _, theirs in operands)
        if meets or (target in output and set(inputs) & set(output)) or not (used or target in output):
            return self._with_maps(rest, [*operands, (self._one_hot(index_map), labels)], output, sizes)
        index = self._places(index_map)
        taken = []
        for array, theirs in operands:
            while target in theirs:
                axis = theirs.index(target)
                array, theirs = np.take(array, index, axis=axis), (*theirs[:axis], *inputs, *theirs[axis + 1 :])
            taken.append((array, theirs))
        if target not in output:
            return self._with_maps(rest, taken, output, sizes)
        others = tuple([label for label in output if label != target])
        inside = self._with_maps(rest, taken, (*inputs, *others), sizes)
        total = np.zeros((sizes[target], *inside.shape[len(inputs) :]))
        np.add.at(total, index.ravel(), inside.reshape(index.size, *total.shape[1:]))
        return np.moveaxis(total, 0, output.index(target))

    def _places(self, index_map: IndexMap) -> Array:
        """The places of an index map, which may be given as values of an expression."""
        if isinstance(index_map.indices, Given):
            return self.values[index_map.indices.expr].astype(np.intp)
        return index_map.index_array(self.bindings)

    def _one_hot(self, index_map: IndexMap) -> Array:
        return index_map.one_hot(self._places(index_map), self.bindings)

    def _solve_inverses(self, arrays: list[list], kept_labels: set[int]) -> None:
        """`inv(A)` next to something that shares one contracted axis with it becomes a solve."""
        for entry in list(arrays):
            node, _, labels = entry
            if not (is_inverse(node) and node.ndim == 2):
                continue
            matrix = self.values[node.args[0]]
            for system, (kept, gone) in ((matrix, labels), (matrix.T, labels[::-1])):
                users = [e for e in arrays if e is not entry and gone in e[2]]
                alone = kept != gone and gone not in kept_labels and len(users) == 1
                if alone and _is_solved(users[0], system, kept, gone):
                    arrays.remove(entry)
                    break

    def _explain_nan(self, order: Sequence[Expr]) -> None:
        """Name the first operation that made a NaN out of numbers."""
        bad = {node for node, value in self.values.items() if np.isnan(value).any()}
        for node in order:
            if node not in bad or any(child in bad for child in node.children):
                continue
            if isinstance(node, Variable):
                raise EindiffError(f"the array for {node.name} has NaN entries", "domain")
            if isinstance(node, Map | Apply):
                raise EindiffError(
                    f"{node} is not a number here: the domain of {node.function.name} is {node.function.domain}",
                    "domain",
                )
            raise EindiffError(f"{node} is not a number here: it meets infinite values or a singular matrix", "domain")


def _log_softmax(z: Array) -> Array:
    """z less the logarithms of the sums of its exponentials along the last axis, to the digits of the difference."""
    top = z.max(axis=-1, keepdims=True)
    shifted = z - np.where(np.isfinite(top), top, 0)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _is_of_norm(node: Map) -> bool:
    """Whether a node may be a power of a norm that is to be told from that of a number out of range."""
    return is_root(node) or (node.function.name == "pow" and (node.ndim == 0 or is_contraction(node.args[0])))


def _is_solved(other: list, matrix: Array, kept: int, gone: int) -> bool:
    """Put the solution in the place of a right-hand side that has one axis to solve along, and say whether it has."""
    _, array, labels = other
    if kept in labels or labels.count(gone) != 1:
        return False
    axis = labels.index(gone)
    right = np.moveaxis(array, axis, 0)
    try:
        solved = np.linalg.solve(matrix, right.reshape(right.shape[0], prod(right.shape[1:]))).reshape(right.shape)
    except np.linalg.LinAlgError:
        solved = np.full_like(right, np.nan)
    other[:] = None, np.moveaxis(solved, 0, axis), tuple(kept if label == gone else label for label in labels)
    return True


def _norm(x: Array, axes: tuple[int, ...]) -> Array:
    top = np.max(np.abs(x), axes, keepdims=True, initial=0)
    top = np.where((top == 0) | ~np.isfinite(top), 1.0, top)
    return (np.sqrt(((x / top) ** 2).sum(axes, keepdims=True)) * top).squeeze(axes)


def power_of_norm(norm: Array, total: Array, exponent: Number) -> Array:
    """A power of a sum of squares, through its root: the squares alone may be out of range."""
    with np.errstate(all="ignore"):
        ordinary = (total > 1e-280) & (total < 1e280)
        result = np.where(ordinary, np.power(total, float(exponent)), np.power(norm, 2 * float(exponent)))
        lost = (norm > 0) & np.isfinite(norm) & ((result == 0) | np.isinf(result))
        return np.where(lost, np.nan, result) if exponent < 0 else result


def sum_of_products(operands: list[tuple[Array, Labels]], output: Labels, sizes: Mapping[int, int]) -> Array:
    """np.einsum along the chosen order; labels of the output that no operand has are ones."""
    bound = {label for _, labels in operands for label in labels}
    core = tuple(label for label in output if label in bound)
    if not operands:
        return expand(np.asarray(1.0), core, output, sizes)
    path = contraction_path([labels for _, labels in operands], core, sizes)
    arguments: list[Any] = []
    names = {label: k for k, label in enumerate(sorted(bound))}
    for array, labels in operands:
        arguments += [array, [names[label] for label in labels]]
    optimize: Any = ["einsum_path", *path] if len(operands) > 2 else len(operands) == 2
    value = np.einsum(*arguments, [names[label] for label in core], optimize=optimize)
    return expand(value, core, output, sizes)


def expand(value: Array, core: Labels, output: Labels, sizes: Mapping[int, int]) -> Array:
    """A value with axes `core` written out to all of `output`: zeros off the deltas, copies along unbound labels."""
    if output == core:
        return value
    distinct = tuple(dict.fromkeys(output))
    grown = value.transpose([core.index(x) for x in distinct if x in core])
    grown = grown.reshape([sizes[x] if x in core else 1 for x in distinct])
    grown = np.broadcast_to(grown, [sizes[x] for x in distinct])
    if len(distinct) == len(output):
        return grown
    dense = np.zeros([sizes[x] for x in output], value.dtype)
    strides = [sum(s for s, x in zip(dense.strides, output, strict=True) if x == label) for label in distinct]
    view = np.lib.stride_tricks.as_strided(dense, [sizes[x] for x in distinct], strides)
    view[...] = grown
    return dense

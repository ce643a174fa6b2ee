"""What a compiled function gives: nested lists of expressions and requests, as a flat list of expressions, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from eindiff.core import construct
from eindiff.core.derivation import derivation
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.labels import Labels
from eindiff.core.nodes import Expr
from eindiff.core.recent import Recent
from eindiff.core.sizes import Shape, evaluate
from eindiff.facts.bounds import facts
from eindiff.program.foreign_arrays import to_numpy
from eindiff.program.interpreter import flatten
from eindiff.structure.grid import Grid
from eindiff.structure.joins import given, place_of
from eindiff.structure.patterns import Pattern, decompose, inverted
from eindiff.structure.places import Place
from eindiff.structure.solvers.solver import Known
from eindiff.structure.terms import Term


@dataclass(frozen=True)
class Frame:
    """What is known of a structured output before it is computed: its name, its rows (in axes), and its blocks."""

    name: str
    rows: tuple[int, ...]  # for each row of blocks
    exprs: Sequence[Sequence[Expr]]

    @cached_property
    def _facts(self) -> Known:
        return _known(self.exprs)

    def facts(self) -> Known:
        """What is known of the values, which takes a while to find."""
        return self._facts


_Maker = Callable[[Sequence[Any]], Any]  # makes an output from all arrays


class Composite:
    """An output that is made of the values of others, each dense or structured."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[tuple[Any, str], ...]:
        """The others, with their forms."""
        raise NotImplementedError

    @property
    def key(self) -> Any:
        """What tells it apart from others of the same parts."""
        raise NotImplementedError

    def combined(self, *values: Any) -> Any:
        """What is made of their values."""
        raise NotImplementedError


class Results:
    """The outputs of a compiled function, each dense or structured."""

    def __init__(self, outputs: Any, form: str) -> None:
        self._outputs = outputs
        self._form = form
        self.exprs: list[Expr] = []
        self.structured: list[bool] = []  # for each expression
        self.frames: list[Frame] = []  # for each structured output
        self._collect(outputs, form)
        self.is_array = isinstance(outputs, Expr) and form == "dense"

    def _collect(self, output: Any, form: str) -> None:
        if isinstance(output, Composite):
            for part, its_form in output.parts:
                self._collect(part, its_form)
        elif form == "structured" and (isinstance(output, Expr) or _is_grid(output)):
            exprs = _grid(output)
            self.frames.append(_frame(exprs))
            self.exprs += [expr for row in exprs for expr in row]
            self.structured += [True for row in exprs for _ in row]
        elif isinstance(output, list | tuple):
            for part in output:
                self._collect(part, form)
        else:
            self.exprs += flatten(output)
            self.structured.append(False)

    def parts(self, exprs: Sequence[Expr], sizes: Mapping[str, int]) -> Factors | None:
        """The factors of structured outputs, and the dense ones."""
        return Factors(exprs, self.structured, sizes) if any(self.structured) else None

    def assembler(
        self, parts: Factors | None, computed: Sequence[Expr], sizes: Mapping[str, int], dtype: np.dtype, is_numpy: bool
    ) -> _Maker:  # fmt: skip
        """What makes the outputs from the arrays of all expressions, or of the parts that are computed for them."""
        if parts is None and isinstance(self._outputs, tuple) and all(isinstance(x, Expr) for x in self._outputs):
            return list
        found: Iterable[_Found] = parts.places(computed, sizes) if parts else range(len(self.exprs))
        terms = partial(_grid_of, dtype, is_numpy)
        return _maker(self._outputs, self._form, iter(found), iter(self.frames), terms)

    def __reduce__(self) -> tuple:
        return Results, (self._outputs, self._form)


def _maker(output: Any, form: str, found: Iterator[_Found], frames: Iterator[Frame], terms: Callable) -> _Maker:
    """What makes an output from the arrays at the next places; structured ones find their terms when asked for them."""
    if isinstance(output, Composite):
        parts = [_maker(x, of, found, frames, terms) for x, of in output.parts]
        return lambda arrays: output.combined(*[make(arrays) for make in parts])
    if form == "structured" and (isinstance(output, Expr) or _is_grid(output)):
        from eindiff.structure.derivative import Derivative  # for start-up time: it has all solvers

        blocks, frame = [[next(found) for _ in row] for row in _grid(output)], next(frames)
        rows, facts, name = frame.rows, frame.facts, frame.name
        return lambda arrays: Derivative(partial(terms, blocks, rows, arrays), facts, name)
    if isinstance(output, list | tuple):
        makers = [_maker(part, form, found, frames, terms) for part in output]
        if len(makers) == 1:
            [only] = makers
            return lambda arrays: [only(arrays)]
        return lambda arrays: [make(arrays) for make in makers]
    return itemgetter(next(found))


class Factors:
    """The factors of structured outputs, which a program computes; and how they make terms."""

    def __init__(self, outputs: Sequence[Expr], structured: Sequence[bool], sizes: Mapping[str, int]) -> None:
        self._outputs = outputs
        flags = zip(outputs, structured, strict=True)
        self._patterns = {expr: decompose(expr, sizes) for expr, is_structured in flags if is_structured}
        self.terms: list[Pattern] = [term for terms in self._patterns.values() for term in terms]
        factors = [factor for term in self.terms for factor, _ in term.factors]
        factors += [matrix for factor in factors if (matrix := inverted(factor)) is not None]
        factors += [expr for expr in outputs if expr not in self._patterns]
        factors += [table for term in self.terms for node, _ in term.places for table in node.children]
        self.exprs = list(dict.fromkeys(factors)) or [construct.filled(1, ())]

    def places(self, computed: Sequence[Expr], sizes: Mapping[str, int]) -> list[_Found]:
        """Where dense outputs, and the terms of structured ones, are among the arrays of the factors."""
        place = {factor: k for k, factor in enumerate(computed)}
        known: dict[Expr, np.ndarray] = {}  # tables, by which patterns are known again
        return [
            (
                tuple([evaluate(size, sizes) for size in expr.shape]),
                [_Planned.of(term, sizes, place, known) for term in self._patterns[expr]],
            )
            if expr in self._patterns else place[expr]
            for expr in self._outputs
        ]  # fmt: skip


class _Planned(NamedTuple):
    """A term whose arrays are not computed yet: where they will be."""

    coefficient: float
    arrays: list[int]
    labels: tuple[Labels, ...]
    output: Labels
    sizes: dict[int, int]
    inverses: list[int | None]
    places: tuple[Place | tuple[Labels, int], ...]  # or labels, and where the array of the table will be

    @classmethod
    def of(
        cls, term: Pattern, sizes: Mapping[str, int], place: Mapping[Expr, int], known: dict[Expr, np.ndarray]
    ) -> _Planned:  # fmt: skip
        factors = [factor for factor, _ in term.factors]
        return cls(
            float(term.coefficient), [place[x] for x in factors], tuple([labels for _, labels in term.factors]),
            term.output, {label: evaluate(size, sizes) for label, size in term.sizes.items()},
            [None if (x := inverted(factor)) is None else place[x] for factor in factors],
            tuple([_place(node, labels, sizes, place, known) for node, labels in term.places]),
        )  # fmt: skip

    def made(self, arrays: Sequence[Any], is_numpy: bool) -> Term:
        found = tuple([np.asarray(arrays[k]) if is_numpy else arrays[k] for k in self.arrays])
        matrices = tuple([None if k is None else arrays[k] for k in self.inverses])
        places = tuple([place if isinstance(place, Place) else _tabled(arrays, *place) for place in self.places])
        return Term(self.coefficient, found, self.labels, self.output, self.sizes, matrices, places)


# The place of an array among all, or the shape of a block and its terms, whose arrays are at some places.
_Found = int | tuple[tuple[int, ...], list[_Planned]]
_tables: Recent[np.ndarray] = Recent(16, 2**26)


def _tabled(arrays: Sequence[Any], labels: Labels, which: int) -> Place:
    """A place by a table that is given. Equal tables are one array, by which patterns are known again."""
    array = np.ascontiguousarray(to_numpy(arrays[which]), np.int64)
    key = array.shape, blake2b(array.data, digest_size=16).digest()
    known = _tables.get(key)
    return Place(labels[0], labels[1:], table=_tables.keep(key, array.copy(), array.nbytes) if known is None else known)


def _place(
    node: Expr, labels: Labels, sizes: Mapping[str, int], computed: Mapping[Expr, int], known: dict[Expr, np.ndarray]
) -> Place | tuple[Labels, int]:
    """An index map as the place of an axis, for some sizes."""
    table = given(node)
    if table is not None:
        return labels, computed[table]
    found = place_of(node, labels, sizes)
    return found if found.table is None else replace(found, table=known.setdefault(node, found.table))


def _is_grid(output: Any) -> bool:
    """Whether an output is the blocks of a derivative by several variables: rows of derivatives, all as long."""
    if not isinstance(output, list | tuple) or not output or not all(isinstance(row, list | tuple) for row in output):
        return False
    if not all(len(row) == len(output[0]) > 0 and all(isinstance(x, Expr) for x in row) for row in output):
        return False
    return all(derivation(x).by for row in output for x in row)


def _grid(output: Any) -> Sequence[Sequence[Expr]]:
    return [[output]] if isinstance(output, Expr) else output


def _grid_of(
    dtype: np.dtype, is_numpy: bool, blocks: Sequence[Sequence[Any]], counts: tuple[int, ...], arrays: Sequence[Any]
) -> Grid:  # fmt: skip
    """The terms of blocks, whose rows are the first axes, so many in each row, from the arrays of all factors."""
    rows = tuple([row[0][0][:count] for row, count in zip(blocks, counts, strict=True)])
    cols = tuple([shape[counts[0] :] for shape, _ in blocks[0]])
    terms = tuple([
        tuple([tuple([term.made(arrays, is_numpy) for term in planned]) for _, planned in row]) for row in blocks
    ])  # fmt: skip
    return Grid(rows, cols, terms, dtype)


def _frame(exprs: Sequence[Sequence[Expr]]) -> Frame:
    """The rows of each row of blocks. Blocks on the diagonal of several leave no doubt, so they are looked at last."""
    rows: list[Shape] = [()] * len(exprs)
    cols: list[Shape] = [()] * len(exprs[0])
    square = len(rows) == len(cols) > 1
    for on_diagonal, i, j in sorted((square and i == j, i, j) for i, row in enumerate(exprs) for j in range(len(row))):
        shape = exprs[i][j].shape
        split = len(shape) // 2 if on_diagonal else _split(exprs[i][j])
        rows[i], cols[j] = shape[:split], shape[split:]
    for i, row in enumerate(exprs):
        for j, expr in enumerate(row):
            if expr.shape != rows[i] + cols[j]:
                raise EindiffError(
                    f"blocks need the same rows in a row and the same columns in a column of the grid: {expr} has "
                    f"shape {shape_text(expr.shape)} instead of {shape_text(rows[i] + cols[j])}",
                    "shapes",
                )
    return Frame(_name(exprs[0][0]), tuple([len(shape) for shape in rows]), exprs)


def _split(expr: Expr) -> int:
    """How many axes of a derivative are rows: all but those of the last variable; of another tensor, half of them."""
    by = derivation(expr).by
    return expr.ndim - by[-1].ndim if by else expr.ndim // 2


def _name(expr: Expr) -> str:
    known = derivation(expr)
    names = {(0, 1): "Gradient", (0, 2): "Hessian", (1, 1): "Jacobian"}
    order = len(known.by)
    return names.get((min(known.function.ndim, 1), order), f"Derivative of order {order}") if order else "Tensor"


def _known(exprs: Sequence[Sequence[Expr]]) -> Known:
    """What is known of a derivative: a Hessian is symmetric, and the expression may say that it is semidefinite."""
    if len(exprs) == len(exprs[0]) == 1:
        found = facts(exprs[0][0])
        return Known(found.symmetric or None, found.psd)
    known = [[derivation(expr) for expr in row] for row in exprs]
    functions = {found.function for row in known for found in row}
    is_hessian = len(functions) == 1 and functions.pop().ndim == 0 and len(exprs) == len(exprs[0])
    by = [row[k].by[:1] for k, row in enumerate(known) if k < len(row)]
    is_hessian = is_hessian and all(
        found.by == by[i] + by[j] for i, row in enumerate(known) for j, found in enumerate(row)
    )
    return Known(is_hessian or None)

"""A derivative's value, kept in the structure that its labels have: a Hessian that can be solved with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from eindiff.core.errors import EindiffError, bytes_text, shape_text
from eindiff.core.shown import Shown, Text
from eindiff.planning import tuning
from eindiff.structure.choose import Arranged, is_structured, ways
from eindiff.structure.given import finite_number, joined, real_array, shapes_text
from eindiff.structure.grid import Grid, Shape, split
from eindiff.structure.solvers import solver as limits
from eindiff.structure.solvers.iterative import probably_symmetric
from eindiff.structure.solvers.solver import Known, SingularError, Solver, singular
from eindiff.structure.solvers.trusted import ALLOWED, Careful
from eindiff.structure.terms import Array, Term, identity, inner_product, is_finite
from eindiff.structure.words import interleaved

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csc_array
    from scipy.sparse.linalg import LinearOperator


_Later = Callable[[], Grid]


class Derivative(Shown):
    """The value of a derivative: a sum of terms, none of which is written out, as a linear map.

    The map takes a change of the variable (`cols`) to the change of what is differentiated (`rows`). Several variables
    make one map with `blocks`. **Tensors are flattened in row-major order, several variables one after the other.**

    >>> x = ed.vector("x", "n")
    >>> H = ed.structured(ed.hessian(ed.sum(x**3), x), {"x": np.array([1.0, 2.0])})
    >>> H.structure, H.solve(np.array([6.0, 12.0]))
    ('diagonal', array([1., 1.]))

    See also: `structured`, `newton_step`, `Term`.
    """

    def __init__(self, grid: Grid | _Later, facts: Known | Callable[[], Known], name: str = "Derivative") -> None:
        self._terms = grid
        self._known = facts
        self._solvers: dict[float, Careful] = {}
        self.name = name

    # What it is

    @property
    def _facts(self) -> Known:
        """What is known from the expression, found when it is first asked for."""
        if not isinstance(self._known, Known):
            self._known = self._known()
        return self._known

    @cached_property
    def _given(self) -> Grid:
        """The terms as they were given, but for those that are zero; made when they are first asked for."""
        self._terms = self._terms if isinstance(self._terms, Grid) else self._terms()
        return self._terms.without_zeros()

    @cached_property
    def _grid(self) -> Grid:
        """The terms with arrays of NumPy, which all computations are done with."""
        return self._given.changed(lambda terms: [term.in_numpy() for term in terms])

    @property
    def terms(self) -> list[Term]:
        """The terms: arrays of the library that computed them, and the pattern of where their products go."""
        return self._given.all_terms

    @property
    def rows(self) -> Any:
        """The shape of what the map gives; for several variables a list."""
        return self._grid.rows[0] if len(self._grid.rows) == 1 else list(self._grid.rows)

    @property
    def cols(self) -> Any:
        """The shape of what the map takes; for several variables a list."""
        return self._grid.cols[0] if len(self._grid.cols) == 1 else list(self._grid.cols)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as a tensor; for several variables that of the matrix."""
        return self._grid.rows[0] + self._grid.cols[0] if self._is_single else self._grid.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of the entries."""
        return self._grid.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of all different arrays in it."""
        return self._given.nbytes

    @property
    def dense_nbytes(self) -> int:
        """The bytes of all entries."""
        return prod(self._grid.shape) * self.dtype.itemsize

    @property
    def structure(self) -> str:
        """The structure in a word or two."""
        return self._described[0]

    @property
    def formula(self) -> str:
        """The structure with its sizes."""
        return self._described[1]

    @property
    def blocks(self) -> list[list[Derivative]]:
        """The derivative by each pair of variables."""
        return [
            [Derivative(self._grid.block([i], [j]), self._facts if i == j else Known(), self.name)
             for j in range(len(self._grid.cols))]
            for i in range(len(self._grid.rows))
        ]  # fmt: skip

    @property
    def T(self) -> Derivative:
        """The map in the other direction."""
        return Derivative(self._grid.transposed(), self._facts, self.name)

    @property
    def core(self) -> Array:
        """The core of an operator that has one: of `identity ⊗ core`, of blocks along a diagonal, of a diagonal."""
        solver = self._candidates[0] if self._is_square and self.terms else None
        if not isinstance(solver, Arranged) or not (solver.layout.identity or solver.layout.stacked):
            raise EindiffError(f"there is no single core in this structure: {self.structure}; see terms", "shapes")
        layout = solver.layout
        blocks = layout.core(self._grid.terms[0][0], self.dtype).dense()
        inner = (prod(layout.sizes(layout.inner)),) * 2 if layout.inner else ()
        return blocks.reshape(layout.sizes(layout.stacked) + inner).copy()

    def __repr__(self) -> str:
        rows, columns = self._grid.shape
        size = f"{rows}×{columns}" if self._grid.rows != ((),) else shape_text(self._grid.cols[0])
        return (
            f"{self.name} {size} = {self.formula}, {bytes_text(self.nbytes)} instead of {bytes_text(self.dense_nbytes)}"
        )

    # As a linear map

    def mv(self, v: Any) -> Any:
        """The product with a vector: a tensor of shape `cols`, a list of these, or all entries in a flat array."""
        flat, form = self._vector(v, self._grid.cols, "mv")
        return self._shaped(self._apply(flat), self._grid.rows, form)

    def __matmul__(self, other: Any) -> Any:
        """The product with a vector (see `mv`), or with each column of a matrix.

        The product with another derivative, or with a sparse matrix of SciPy, is an operator with structure again:
        `J.T @ J`, or `J.T @ scipy.sparse.diags_array(w) @ J`.
        """
        if isinstance(other, Derivative) or hasattr(other, "tocoo"):
            return self._times(other)
        flat, form = self._vector(other, self._grid.cols, "@", columns=True)
        return self._shaped(self._apply(flat), self._grid.rows, form)

    def _apply(self, flat: Array) -> Array:
        return self._grid.apply(flat)

    def _times(self, other: Any) -> Derivative:
        from eindiff.structure.products import as_grid, product  # as SciPy's sparse matrices are: for start-up time

        if not isinstance(other, Derivative):
            shapes = self._grid.cols if other.shape[0] == other.shape[1] else ((other.shape[1],),)
            return Derivative(product(self._grid, as_grid(other, self._grid.cols, shapes)), Known(), "Product")
        if self._grid.cols != other._grid.rows:
            raise EindiffError(
                f"the product of derivatives {self._sizes()} and {other._sizes()} does not fit", "shapes"
            )
        return Derivative(product(self._grid, other._grid), Known(), "Product")

    __array_ufunc__ = None  # arrays leave operators to this class

    def __rmatmul__(self, other: Any) -> Any:
        array = real_array(other, "@")
        return (self.T @ array.T).T if array.ndim == 2 and array.shape not in self._grid.rows else self.T.mv(other)

    def __add__(self, other: Any) -> Derivative:
        if not isinstance(other, Derivative):
            raise EindiffError(
                f"a derivative and {other!r} cannot be added; for a multiple of the identity: damped(μ)", "options"
            )
        if (self._grid.rows, self._grid.cols) != (other._grid.rows, other._grid.cols):
            raise EindiffError(f"derivatives of shapes {self._sizes()} and {other._sizes()} cannot be added", "shapes")
        terms = tuple(
            tuple(a + b for a, b in zip(one, two, strict=True))
            for one, two in zip(self._grid.terms, other._grid.terms, strict=True)
        )
        both = Known(
            True if self._facts.symmetric and other._facts.symmetric else None, self._facts.psd and other._facts.psd
        )
        name = self.name if self.name == other.name else "Sum"
        dtype = np.result_type(self.dtype, other.dtype)
        return Derivative(replace(self._grid, terms=terms, dtype=dtype), both, name)

    def __mul__(self, factor: Any) -> Derivative:
        factor = finite_number(factor, "a derivative is scaled by a number; for products use @")
        grid = self._grid.changed(lambda terms: [term.scaled(factor) for term in terms])
        facts = Known(self._facts.symmetric, self._facts.psd and factor >= 0)
        return Derivative(grid, facts, self.name)

    __rmul__ = __mul__

    def __neg__(self) -> Derivative:
        return self * -1.0

    def __sub__(self, other: Any) -> Derivative:
        return self + (-other if isinstance(other, Derivative) else other)

    def __truediv__(self, divisor: Any) -> Derivative:
        divisor = finite_number(divisor, "a derivative is divided by a number")
        if not divisor:
            raise EindiffError("a derivative cannot be divided by zero", "domain")
        return self * (1 / divisor)

    def damped(self, damping: float) -> Derivative:
        """With a multiple of the identity added, which keeps the structure."""
        self._square("damping")
        damping = finite_number(damping, "damping is a number")
        if not damping:
            return self
        grid = self._grid
        for k, shape in enumerate(grid.rows):
            grid = grid.with_terms(k, k, [identity(shape, damping)])
        return Derivative(grid, Known(self._facts.symmetric, self._facts.psd and damping >= 0), self.name)

    def operator(self, rows: int) -> Derivative:
        """The same tensor with its first `rows` axes as rows and the others as columns."""
        if not self._is_single:
            raise EindiffError("rows and columns are those of the variables: take one of the blocks", "shapes")
        if not 0 <= rows <= len(self.shape):
            raise EindiffError(f"rows must be a number of axes from 0 to {len(self.shape)}, not {rows}", "options")
        grid = replace(self._grid, rows=(self.shape[:rows],), cols=(self.shape[rows:],))
        return Derivative(grid, Known(), self.name)

    # Dense results

    def as_matrix(self) -> Array:
        """All entries as a matrix."""
        return self._grid.dense().astype(self.dtype, copy=False)

    def as_tensor(self) -> Array:
        """All entries as a tensor of shape `(*rows, *cols)`."""
        if not self._is_single:
            raise EindiffError(
                "several variables have no common tensor: use as_matrix(), or as_tensor() of a block", "shapes"
            )
        return self.as_matrix().reshape(self.shape)

    def diagonal(self) -> Any:
        """The diagonal, in the shape of the variable."""
        self._square("diagonal")
        return self._shaped(self._entries()[:, None], self._grid.rows, "tensor")

    def _entries(self) -> Array:
        return self._grid.diagonal()

    def trace(self) -> float:
        """The sum of the diagonal."""
        self._square("trace")
        return float(self._entries().sum())

    def frobenius_norm(self) -> float:
        """The root of the sum of squares of all entries."""
        if prod(self._grid.shape) <= tuning.FORMED_ENTRIES:
            return float(np.linalg.norm(self.as_matrix()))
        if any(term.places for term in self._grid.all_terms):
            return float(np.linalg.norm(self.to_csc().data))
        total = 0.0
        for row in self._grid.terms:
            for block in row:
                total += sum(inner_product(one, other) for one in block for other in block)
        return float(np.sqrt(max(total, 0.0)))

    # Solving

    def solver(self, damping: float = 0.0) -> Solver:
        """The way to solve with it that is used."""
        return self._solver(damping).chosen

    def _solver(self, damping: Any) -> Careful:
        """The ways to solve, kept, so that a factorization is computed once."""
        self._square("solving")
        damping = finite_number(damping, "damping is a number")
        if damping not in self._solvers:
            damped = self.damped(damping)
            if not damped.terms:
                raise singular(f"the {self.name.lower()} is zero: there is nothing to solve with")
            if not all(is_finite(x) for term in damped.terms for x in term.arrays):
                raise EindiffError(f"the {self.name.lower()} has entries that are infinite or not a number", "domain")
            self._solvers[damping] = Careful(damped._candidates, damped._grid)
        return self._solvers[damping]

    def solve(self, b: Any, damping: float = 0.0) -> Any:
        """x with `(H + damping I) x = b`, in the form of b: a tensor, a list of them, a flat vector, or columns."""
        self._square("solving")
        flat, form = self._vector(b, self._grid.rows, "solve", columns=True)
        if not is_finite(flat):
            raise EindiffError("solve: the right-hand side has entries that are infinite or not a number", "domain")
        x = self._solver(damping).solve(flat) if flat.size else flat
        return self._shaped(x.astype(np.result_type(self.dtype, flat.dtype), copy=False), self._grid.cols, form)

    def inverse(self, damping: float = 0.0) -> Derivative:
        """The inverse, with the same structure."""
        if not self._grid.shape[0]:
            return self
        solver = self._solver(damping)
        facts = Known(self._facts.symmetric)
        if self._is_single:
            terms = tuple(solver.ask(lambda one: one.inverse(), ALLOWED))
            return Derivative(replace(self._grid, terms=((terms,),)), facts, "Inverse")
        return from_matrix(solver.solve(np.eye(self._grid.shape[0], dtype=self.dtype)), self._grid, facts, "Inverse")

    def inverse_diagonal(self, damping: float = 0.0) -> Any:
        """The diagonal of the inverse, in the shape of the variable: variances, where the inverse is a covariance."""
        self._square("inverse_diagonal")
        found = self._solver(damping).ask(lambda one: one.inverse_diagonal(), ALLOWED)
        return self._shaped(found[:, None], self._grid.rows, "tensor")

    def logdet(self, damping: float = 0.0) -> float:
        """The logarithm of the determinant, which must be positive (see `slogdet`)."""
        sign, value = self.slogdet(damping)
        if sign < 0:
            raise EindiffError(
                f"the determinant is negative: the logarithm of its absolute value is {value:g} (slogdet)", "systems"
            )
        if sign == 0:
            raise singular("the determinant is zero, so it has no logarithm")
        return value

    def slogdet(self, damping: float = 0.0) -> tuple[float, float]:
        """The sign of the determinant, and the logarithm of its absolute value."""
        if not self._grid.shape[0]:
            return 1.0, 0.0
        return self._solver(damping).ask(lambda one: one.logdet())

    def cholesky(self, damping: float = 0.0) -> Derivative:
        """The lower triangular L with `L L' = H`, with the same structure."""
        if not self._grid.shape[0]:
            return self
        solver = self._solver(damping)
        if solver.chosen.is_dense and not self._is_single:
            if not self.is_definite(damping):
                raise EindiffError(
                    "there is no Cholesky factor: the operator is not symmetric and positive definite", "systems"
                )
            factor = np.linalg.cholesky(self.damped(damping).as_matrix())
            return from_matrix(factor, self._grid, Known(), "Cholesky factor")
        terms = tuple(solver.ask(lambda one: one.cholesky()))
        return Derivative(replace(self._grid, terms=((terms,),)), Known(), "Cholesky factor")

    def eigvals(self) -> Array:
        """All eigenvalues, in ascending order if they are real."""
        self._square("eigvals")
        if not self.terms or not self._grid.shape[0]:
            return np.zeros(self._grid.shape[0], self.dtype)
        values = self._solver(0.0).eigvals()
        return np.sort(values) if not np.iscomplexobj(values) else values

    def is_definite(self, damping: float = 0.0) -> bool:
        """Whether it is symmetric and positive definite, as its expression says or a factorization finds."""
        damped = self.damped(damping)
        if damping > 0 and damped._facts.psd:
            return True
        if not damped.terms or not damped._grid.shape[0]:
            return not damped._grid.shape[0]
        known = damped._facts.symmetric
        if not (probably_symmetric(damped._grid) if known is None else known):
            return False
        try:
            return self._solver(damping).ask(lambda one: one.is_definite())
        except SingularError:
            return False

    def explain(self, damping: float = 0.0) -> Text:
        """How it is solved with, at which cost, and what else there is."""
        self._square("solving")
        lines = [repr(self), f"{'':2}{'method':76}{'operations':>11}{'memory':>10}"]
        ways = self.damped(damping)._candidates
        for rank, one in enumerate(ways):
            name = f"{'→' if rank == 0 else ' '} {one.word}: {one.method}"
            lines.append(f"{name:78.78}{one.operations():11.1e}{bytes_text(one.nbytes):>10}")
        if any(one.nbytes > limits.LIMIT for one in ways[1:]):
            lines.append(f"Ways that take more than {bytes_text(limits.LIMIT)} are not tried.")
        return Text("\n".join(lines))

    # For other libraries and for the eye

    def to_scipy(self) -> LinearOperator:
        """As an operator of scipy.sparse.linalg, on flat vectors."""
        from eindiff.structure.scipy_operator import to_scipy  # for start-up time: SciPy's operators

        return to_scipy(self)

    def to_lineax(self) -> Any:
        """As an operator of lineax, on flat vectors; lineax must be installed."""
        try:
            from eindiff.structure.lineax_operator import to_lineax  # only when it is asked for
        except ModuleNotFoundError as error:
            raise EindiffError("an operator of lineax needs that library: pip install lineax", "install") from error
        return to_lineax(self)

    def to_csc(self) -> csc_array:
        """As a sparse matrix of SciPy in compressed columns, whose pattern stays the same between calls.

        It has all entries that labels allow, those that happen to be zero here included.
        """
        from eindiff.structure.quotients import to_csc  # for start-up time, as for the others

        return to_csc(self._grid)

    def to_coo(self) -> coo_array:
        """As a sparse matrix of SciPy with rows and columns of entries, each once, in the order of `to_csc()`."""
        return self.to_csc().tocoo()

    def plot(self, axis: Any = None) -> Any:
        """Draw where entries are, and the cores; matplotlib must be installed."""
        try:
            from eindiff.structure.picture import plot  # only when something is drawn
        except ModuleNotFoundError as error:
            raise EindiffError("a picture needs matplotlib: pip install matplotlib", "install") from error
        return plot(self, axis)

    # Inside

    @property
    def _is_single(self) -> bool:
        return len(self._grid.rows) == len(self._grid.cols) == 1

    @property
    def _is_square(self) -> bool:
        return self._grid.rows == self._grid.cols

    def _square(self, what: str) -> None:
        if not self._is_square:
            raise EindiffError(
                f"{what} needs as many rows as columns, of the same shapes; they are {self._sizes()}", "shapes"
            )

    def _sizes(self) -> str:
        rows, cols = (", ".join(shape_text(x) for x in shapes) for shapes in (self._grid.rows, self._grid.cols))
        return f"({rows}) by ({cols})"

    @cached_property
    def _candidates(self) -> list[Solver]:
        return ways(self._grid, self._facts)

    @cached_property
    def _described(self) -> tuple[str, str]:
        if not self.terms:
            return "zero", "0"
        if structured := [one for one in self._candidates if is_structured(one)] if self._is_square else []:
            return interleaved(self._grid) or structured[0].word, structured[0].formula
        if 2 * self.nbytes > self.dense_nbytes:
            return "dense", f"core({'×'.join(map(str, self._grid.shape))})"
        return "sum of products", " + ".join(f"{term.coefficient:g} {term.subscripts}" for term in self.terms)

    def _vector(self, v: Any, shapes: Sequence[Shape], what: str, columns: bool = False) -> tuple[Array, str]:
        """Any form of a vector as columns of a flat matrix, and which form it was."""
        size = sum(map(prod, shapes))
        if isinstance(v, list | tuple) and (len(shapes) > 1 or (len(v) == 1 and isinstance(v[0], np.ndarray))):
            flat = joined([real_array(x, what) for x in v], shapes, what)
            return flat.astype(np.result_type(self.dtype, flat.dtype), copy=False), "list"
        array = real_array(v, what)
        array = array.astype(np.result_type(self.dtype, array.dtype), copy=False)
        if len(shapes) == 1 and array.shape == shapes[0]:
            return array.reshape(size, 1), "tensor"
        if array.shape == (size,):
            return array[:, None], "flat"
        if columns and array.ndim == 2 and len(array) == size:
            return array, "columns"
        given, more = shape_text(array.shape), f", or ({size}, columns)" if columns else ""
        wanted = f"{shapes_text(shapes)}, or ({size},){more}"
        raise EindiffError(f"{what}: the shape {given} does not fit; it must be {wanted}", "shapes")

    @staticmethod
    def _shaped(flat: Array, shapes: Sequence[Shape], form: str) -> Any:
        if form == "columns":
            return flat
        if form == "flat":
            return flat[:, 0]
        parts = [part[..., 0] for part in split(flat, shapes)]
        return parts if form == "list" or len(parts) > 1 else parts[0]


def from_matrix(matrix: Array, grid: Grid, facts: Known, name: str) -> Derivative:
    """A matrix as a derivative with the variables of another one."""
    return Derivative(grid.with_matrix(matrix), facts, name)

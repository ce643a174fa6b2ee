"""Factorizations as operations, shared among all that is computed from one matrix: solves, inverses, determinants.

A symmetric matrix is factorized by Cholesky's method, which takes half the work, or by LU where it turns out not to be
positive definite; any other one by LU, if that is needed more than once. A single system without symmetry stays as it
is; one with many right sides is solved by the inverse, if its matrix is far from singular. An inverse that is not small
takes less time by factors than by the library's own function, which solves for all columns of the identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from eindiff.core import sizes as sz
from eindiff.core.groups import grouped
from eindiff.core.leaves import BANDS, TRIANGLES
from eindiff.core.sizes import Evaluate, Shape
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.halves import half, solution
from eindiff.program.operations import (
    BLAS,
    LAPACK,
    Operation,
    Operations,
    count_uses,
    is_call,
    reachable,
    with_operands,
)

OF_FACTORS = ("inv", "det", "logdet", "logabsdet", "signdet")  # functions that a factorization gives, besides solutions


def _shared(
    operations: Operations, users: Sequence[Operation], always: Set[Operation], costs: Costs
) -> set[Operation]:
    """The matrices whose factorization pays, as some operations need it; those of others have one in any case."""
    by_matrix = grouped((_base(x.operands[0]), x) for x in users)
    found = {x for x, own in by_matrix.items() if _pays(operations, x, own, costs)}
    found.update(_base(x.operands[0]) for x in always)
    return {x for x in found if half(operations, x) not in TRIANGLES}


def factorize(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """The outputs, with factorizations where they save work."""
    order = reachable(outputs)
    uses = count_uses(order, outputs)
    many, small = _with_many_sides(operations, order, costs)
    conjugated = {x: found for x in order if (found := _conjugated(operations, x, uses)) is not None}
    small -= {found.system for found in conjugated.values()}
    wanted = [x for x in order if _needs_factors(x) and x not in small and costs.evaluate(x.operands[0].shape[0]) > 1]
    few = {x for x in wanted if _has_few_entries(operations, x, costs)}
    shared = _shared(operations, [x for x in wanted if x not in few], many - small, costs)
    if not shared and not few and not small:
        return [*outputs]
    on_diagonal = {x for x in order if _is_on_diagonal(operations, x, uses)}
    roots = {x.operands[0]: x for x in order if is_call(x, "chol") and len(x.shape) == 2}
    return _Factorizations(operations, shared, few, small, conjugated, on_diagonal, roots).run(order, outputs)


def _has_few_entries(operations: Operations, x: Operation, costs: Costs) -> bool:
    """Whether it is the inverse of a matrix with few entries."""
    kind = half(operations, x.operands[0]) if is_call(x, "inv") else ""
    return kind in TRIANGLES or (bool(kind) and costs.evaluate(x.shape[0]) >= tuning.TRIANGLE)


def _pays(operations: Operations, matrix: Operation, users: Sequence[Operation], costs: Costs) -> bool:
    """Whether factors of a matrix save work for what needs them; a determinant alone is as quick without."""
    if all(is_call(x, "det") for x in users):
        return False
    is_large = costs.evaluate(matrix.shape[0]) >= tuning.FACTORED
    is_inverted = is_large and any(is_call(x, "inv") for x in users)
    return matrix in operations.symmetric or len(users) > 1 or is_inverted


def _with_many_sides(
    operations: Operations, order: Sequence[Operation], costs: Costs
) -> tuple[set[Operation], set[Operation]]:
    """Systems that are small beside what they are solved for, and those of them that an inverse is quicker for."""
    least, general, symmetric = tuning.RIGHT_SIDES
    many = {x for x in order if _has_right_sides(x, costs, least, general)}
    definite = {x for x in many if _base(x.operands[0]) in operations.symmetric}
    return many, (many - definite) | {x for x in definite if _has_right_sides(x, costs, 2 * least, symmetric)}


def _needs_factors(x: Operation) -> bool:
    if x.op == "solve":
        return not x.parameters[0]
    return x.op == "call" and x.parameters[0] in OF_FACTORS and len(x.operands[0].shape) == 2


def _has_right_sides(x: Operation, costs: Costs, least: int, times: int) -> bool:
    """Whether a system is small beside what it is solved for: at least some entries, and so many columns for a row."""
    if x.op != "solve" or x.parameters[0] or len(x.shape) != 2:
        return False
    rows, columns = map(costs.evaluate, x.shape)
    return rows * columns >= least and columns >= times * rows


class _Conjugate(NamedTuple):
    """A multiple of `X' inv(A) X` for a symmetric A, or of its diagonal, or of the sum of that."""

    system: Operation  # `inv(A) X`, which nothing else needs
    right: Operation  # X, of which the right side of the system may be a multiple
    multiple: list[Operation]  # numbers whose product it is


def _conjugated(operations: Operations, x: Operation, uses: Mapping[Operation, int]) -> _Conjugate | None:
    """What an operation is if it multiplies the solution of a system with its own right side."""
    if len(x.operands) != 2 or x.op not in ("matmul", "inner", "einsum") or len(x.shape) > 2:
        return None
    for one, other in (x.operands, x.operands[::-1]):
        system = _base(one)
        is_system = system.op == "solve" and not system.parameters[0] and len(system.shape) == 2
        if not is_system or uses[system] > 1 or system.operands[0] not in operations.symmetric:
            continue
        own, left = (_of_numbers(operations, y) for y in (system.operands[1], other))
        if _is_conjugated(operations, x, one, own[0], left[0]):
            return _Conjugate(system, own[0], [*own[1], *left[1]])
    return None


def _is_conjugated(operations: Operations, x: Operation, one: Operation, right: Operation, left: Operation) -> bool:
    """Whether an operation multiplies a solution, or its transpose, with its own right side so that this is X' beside
    it, or sums the products of their entries."""
    is_turned = operations.transpose(left) is right
    if x.op == "matmul":
        is_left = one is x.operands[0]
        return len(x.shape) == 2 and (left is right and is_left if one.op == "transpose" else is_turned and not is_left)
    if one.op == "transpose":
        return False
    if x.op == "inner":
        return left is right
    turned = "ij,ji->j" if one is x.operands[0] else "ij,ji->i"
    return (is_turned and x.parameters[0] == turned) or (left is right and x.parameters[0] == "ij,ij->j")


def _of_numbers(operations: Operations, x: Operation) -> tuple[Operation, list[Operation]]:
    """A matrix of which one is a multiple, and the numbers by which that is multiplied."""
    if x.op == "transpose":
        found, numbers = _of_numbers(operations, x.operands[0])
        return operations.transpose(found), numbers
    if x.op in ("scale", "negate"):
        found, numbers = _of_numbers(operations, x.operands[0])
        return found, [*numbers, operations.number(x.parameters[0] if x.op == "scale" else -1)]
    if x.op == "multiply":
        numbers = [y for y in x.operands if not y.shape]
        matrices = [y for y in x.operands if y.shape]
        return (matrices[0], numbers) if numbers and [y.shape for y in matrices] == [x.shape] else (x, [])
    return x, []


def _is_on_diagonal(operations: Operations, x: Operation, uses: Mapping[Operation, int]) -> bool:
    """Whether it is the diagonal of the inverse of a symmetric matrix, or its sum, which factors show without it."""
    if x.op not in ("diagonal", "trace") or len(x.operands[0].shape) != 2 or not is_call(_base(x.operands[0]), "inv"):
        return False
    inverse = _base(x.operands[0])
    return inverse.operands[0] in operations.symmetric and uses[inverse] == 1


def _base(matrix: Operation) -> Operation:
    return matrix.operands[0] if matrix.op == "transpose" else matrix


class _Factorizations:
    """Operations in terms of the factors of some matrices."""

    def __init__(
        self, operations: Operations, shared: set[Operation], few: set[Operation], small: set[Operation],
        conjugated: Mapping[Operation, _Conjugate], on_diagonal: set[Operation], roots: Mapping[Operation, Operation],
    ) -> None:  # fmt: skip
        self.operations = operations
        self.shared = shared
        self.few = few
        self.small = small
        self.conjugated = conjugated
        self.on_diagonal = on_diagonal
        self.roots = roots  # Cholesky factors that are there, by their matrices
        self.known: dict[Operation, Operation] = {}  # the same, made anew

    def run(self, order: Sequence[Operation], outputs: Sequence[Operation]) -> list[Operation]:
        """The outputs, made anew."""
        done: dict[Operation, Operation] = {}
        for x in order:
            operands = [done[y] for y in x.operands]
            if x in self.small:
                done[x] = self.operations.make("solve_many", operands, shape=x.shape, work=x.work, speed=x.speed)
            elif (found := self.conjugated.get(x)) is not None and self._is_shared(found.system):
                done[x] = self._conjugated(x, found, done)
            elif x in self.on_diagonal:
                matrix = _base(x.operands[0]).operands[0]
                done[x] = self._on_diagonal(x, done[matrix])
            elif self._is_shared(x):
                done[x] = self._factored(x, operands)
            elif x in self.few:
                done[x] = self._inverse_of_few(operands[0], half(self.operations, x.operands[0]))
            else:
                done[x] = with_operands(self.operations, x, operands)
            if x in self.roots:
                self.known[done[x]] = with_operands(self.operations, self.roots[x], [done[x]])
        return [done[x] for x in outputs]

    def _is_shared(self, x: Operation) -> bool:
        return _needs_factors(x) and x not in self.small and _base(x.operands[0]) in self.shared

    def _inverse_of_few(self, matrix: Operation, kind: str) -> Operation:
        """The inverse of a triangle, or of a band: the solution for all columns of the identity."""
        n = matrix.shape[0]
        if kind in BANDS:
            units = self.operations.make("identity", parameters=(n,), shape=matrix.shape)
            return solution(self.operations, matrix, units, kind)

        def work(evaluate: Evaluate) -> float:
            return evaluate(n) ** 3 / 3

        parameters = (kind,)
        return self.operations.make(
            "triangular_inverse", [matrix], parameters, shape=matrix.shape, work=work, speed=LAPACK
        )

    def _factors(self, matrix: Operation, symmetric: bool) -> Operation:
        n, times = matrix.shape[0], 1 if symmetric else 2

        def work(evaluate: Evaluate) -> float:
            return times / 3 * evaluate(n) ** 3

        if symmetric and matrix in self.known:
            root = self.known[matrix]
            return self.operations.make("factors", [root], ("cholesky",), shape=matrix.shape, work=sz.product((n, n)))
        return self.operations.make("factors", [matrix], (symmetric,), shape=matrix.shape, work=work, speed=LAPACK)

    def _on_diagonal(self, x: Operation, matrix: Operation) -> Operation:
        """The diagonal of the inverse of a symmetric matrix, or the sum of that."""
        n = matrix.shape[0]
        made = self._of_factors(self._factors(matrix, True), "inverse_diagonal", (n,))
        return self.operations.make("sum", [made], shape=(), work=n) if x.op == "trace" else made

    def _conjugated(self, x: Operation, found: _Conjugate, done: Mapping[Operation, Operation]) -> Operation:
        """A multiple of `X' inv(A) X`, of its diagonal, or of the sum of that."""
        right = found.right
        right = done[right] if right in done else self.operations.transpose(done[right.operands[0]])
        conjugate = self._conjugate if x.op == "matmul" else self._conjugate_diagonal
        made = conjugate(done[found.system.operands[0]], right)
        if x.op == "inner":
            made = self.operations.make("sum", [made], shape=(), work=right.shape[1])
        is_symmetric = made in self.operations.symmetric
        for y in found.multiple:
            is_number, own = y.op == "number", self.operations
            made = own.scale(y.parameters[0], made) if is_number else own.times([done[y], made])
        self.operations.symmetric.update([made] if is_symmetric else [])
        return made

    def _conjugate(self, matrix: Operation, right: Operation) -> Operation:
        n, m = right.shape

        def work(evaluate: Evaluate) -> float:
            return evaluate(n) * evaluate(m) * (evaluate(n) + evaluate(m))

        made = self.operations.make(
            "conjugate_inverse", [self._factors(matrix, True), right], shape=(m, m), work=work, speed=BLAS
        )
        self.operations.symmetric.add(made)
        return made

    def _conjugate_diagonal(self, matrix: Operation, right: Operation) -> Operation:
        n, m = right.shape

        def work(evaluate: Evaluate) -> float:
            return evaluate(n) * evaluate(m) * (evaluate(n) + 2.0)

        operands = [self._factors(matrix, True), right]
        return self.operations.make("conjugate_diagonal", operands, shape=(m,), work=work, speed=BLAS)

    def _factored(self, x: Operation, operands: list[Operation]) -> Operation:
        """A solution, an inverse or a determinant, by the factors of the matrix."""
        turned = x.operands[0].op == "transpose"
        matrix = self.operations.transpose(operands[0]) if turned else operands[0]
        symmetric = _base(x.operands[0]) in self.operations.symmetric
        factors = self._factors(matrix, symmetric)
        if x.op == "solve":
            return self._solved(factors, operands[1], turned)
        result = self._of_factors(factors, x.parameters[0], x.shape)
        if symmetric and x.shape:
            self.operations.symmetric.add(result)
        return self.operations.transpose(result) if turned and x.shape else result

    def _of_factors(self, factors: Operation, name: str, shape: Shape) -> Operation:
        """An inverse, its diagonal, or a determinant."""
        n, times = factors.shape[0], {"inv": 2 if factors.parameters[0] else 4, "inverse_diagonal": 1}.get(name)

        def work(evaluate: Evaluate) -> float:
            return times / 3 * evaluate(n) ** 3 if times else evaluate(n)

        return self.operations.make("of_factors", [factors], (name,), shape=shape, work=work, speed=LAPACK)

    def _solved(self, factors: Operation, right: Operation, turned: bool) -> Operation:
        n, entries = right.shape[0], sz.product(right.shape)

        def work(evaluate: Evaluate) -> float:
            return 2.0 * evaluate(n) * evaluate(entries)

        operands = [factors, right]
        return self.operations.make("solve_factored", operands, (turned,), shape=right.shape, work=work, speed=BLAS)

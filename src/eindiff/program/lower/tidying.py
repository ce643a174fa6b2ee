"""Operations in simpler forms that take no operation more."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eindiff.program.operations import Operation, Operations, count_uses, reachable, with_operands


def tidy(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """`(A @ B.T).T` is `B @ A.T`, `-(a - b)` is `b - a`, in products too, where what is inside is not needed itself."""
    order = reachable(outputs)
    uses = count_uses(order, outputs)
    done: dict[Operation, Operation] = {}
    once: set[Operation] = set()  # results that stand where they are used
    for x in order:
        operands = [done[y] for y in x.operands]
        better = _turned(operations, x, operands[0], once) if len(operands) == 1 and operands[0] in once else None
        done[x] = with_operands(operations, x, operands) if better is None else better
        if uses[x] == 1:
            once.add(done[x])
    return [done[x] for x in outputs]


def _turned(operations: Operations, x: Operation, inner: Operation, once: Collection[Operation]) -> Operation | None:
    """A transposed product or a negated difference in another way, if that is simpler."""
    if x.op == "transpose" and inner.op == "matmul":
        a, b = inner.operands
        if any(y.op == "transpose" or y in operations.symmetric for y in (a, b)):
            return operations.matmul(operations.transpose(b), operations.transpose(a))
    return _negated(operations, inner, once) if x.op == "negate" else None


def _negated(operations: Operations, x: Operation, once: Collection[Operation]) -> Operation | None:
    """The negative of a result that nothing else needs, if it takes no operation more: of a difference in it."""
    if x.op == "add":
        terms = operations.terms[x]
        is_difference = min(coefficient for coefficient, _ in terms) < 0
        return operations.plus([(-coefficient, term) for coefficient, term in terms]) if is_difference else None
    if x.op == "matmul":
        for k, y in enumerate(x.operands):
            if y in once and (better := _negated(operations, y, once)) is not None:
                return with_operands(operations, x, [*x.operands[:k], better, *x.operands[k + 1 :]])
    return None

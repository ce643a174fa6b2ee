"""Operations in simpler forms that take no operation more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from eindiff.program.operations import (
    ARITHMETIC_OPS,
    Operation,
    Operations,
    count_uses,
    reachable,
    rewritten,
    with_operands,
)

_PRODUCTS = ("matmul", "multiply", "outer")
_BY_ENTRIES = ARITHMETIC_OPS | {"inner"}
_IN_ANY_ORDER = _BY_ENTRIES | {"transpose", "matmul", "einsum", "sum"}  # of the axes of their operands


def tidy(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """`(A @ B.T).T` is `B @ A.T`, `-(a - b)` is `b - a`, `-(2 * a)` is `-2 * a`, in products too, where what is inside
    is not needed itself."""
    order = reachable(outputs)
    uses = count_uses(order, outputs)
    done: dict[Operation, Operation] = {}
    once: set[Operation] = set()  # results that stand where they are used
    for x in order:
        operands = [done[y] for y in x.operands]
        if x.op in _PRODUCTS:
            operands = _with_one_sign(operations, operands, once)
        better = _turned(operations, x, operands[0], once) if len(operands) == 1 and operands[0] in once else None
        done[x] = with_operands(operations, x, operands) if better is None else better
        if uses[x] == 1:
            once.add(done[x])
    return [done[x] for x in outputs]


def turn_products(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """Operations with `B.T @ A.T` for a product `A @ B` whose transpose is what arrays are added to, or multiplied with
    entry by entry: it takes no longer, and these go through memory in the order in which they lie."""
    turned = _liked_as_transposes(reachable(outputs)) - set(outputs)

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        if x in turned:
            return operations.transpose(operations.matmul(*[operations.transpose(y) for y in reversed(operands)]))
        is_of_turned = x.op == "einsum" and not turned.isdisjoint(x.operands)
        return _of_turned(operations, x, operands, [y in turned for y in x.operands]) if is_of_turned else None

    return rewritten(operations, outputs, change) if turned else [*outputs]


def _liked_as_transposes(order: Sequence[Operation]) -> set[Operation]:
    """Products of matrices whose transposes meet more arrays entry by entry than they do, used in no fixed order."""
    wanted: Counter[Operation] = Counter()
    for x in order:
        whole = [y for y in x.operands if x.op == "inner" or y.shape == x.shape] if x.op in _BY_ENTRIES else []
        transposes = [y.operands[0] for y in whole if y.op == "transpose"]
        wanted.update(transposes if len(transposes) < len(whole) else ())
        wanted.subtract([y for y in whole if y.op == "matmul"])
    fixed = {y for x in order if x.op not in _IN_ANY_ORDER for y in x.operands}
    products = {x for x in order if x.op == "matmul" and {len(x.shape), *(len(y.shape) for y in x.operands)} == {2}}
    return {x for x in products - fixed if wanted[x] > 0}


def _of_turned(operations: Operations, x: Operation, operands: list[Operation], turned: Sequence[bool]) -> Operation:
    """A sum of products of arrays, of some of which the transposes are there."""
    inputs, arrow, output = x.parameters[0].partition("->")
    labels = [own[::-1] if turn else own for own, turn in zip(inputs.split(","), turned, strict=True)]
    arrays = [operations.transpose(y) if turn else y for y, turn in zip(operands, turned, strict=True)]
    parameters = (",".join(labels) + arrow + output, *x.parameters[1:])
    return operations.make("einsum", arrays, parameters, shape=x.shape, work=x.work, speed=x.speed)


def _turned(operations: Operations, x: Operation, inner: Operation, once: Collection[Operation]) -> Operation | None:
    """A transposed product or a negated difference in another way, if that is simpler."""
    if x.op == "transpose" and inner.op == "matmul":
        a, b = inner.operands
        if any(y.op == "transpose" or y in operations.symmetric for y in (a, b)):
            return operations.matmul(operations.transpose(b), operations.transpose(a))
    return _negated(operations, inner, once) if x.op == "negate" else None


def _with_one_sign(operations: Operations, factors: list[Operation], once: Collection[Operation]) -> list[Operation]:
    """Factors without a sign before one of them, if a difference in another one may have it."""
    [k, *_] = [k for k, x in enumerate(factors) if x.op == "negate"] or [-1]
    for j, x in enumerate(factors if k >= 0 else ()):
        if j != k and x in once and (better := _negated(operations, x, once)) is not None:
            return [factors[k].operands[0] if i == k else better if i == j else y for i, y in enumerate(factors)]
    return factors


def _opposite(operations: Operations, x: Operation) -> Operation | None:
    """The negative of a difference, or of a multiple, as another one."""
    if x.op == "scale":
        return operations.scale(-x.parameters[0], x.operands[0])
    if x.op == "add" and min(coefficient for coefficient, _ in operations.terms(x)) < 0:
        return operations.plus([(-coefficient, term) for coefficient, term in operations.terms(x)])
    return None


def _negated(operations: Operations, x: Operation, once: Collection[Operation]) -> Operation | None:
    """The negative of a result that nothing else needs, if it takes no operation more: of a difference in it, or of a
    multiple."""
    above: dict[Operation, tuple[Operation, int] | None] = {x: None}
    stack = [x]
    while stack:
        y = stack.pop()
        if (made := _opposite(operations, y)) is not None:
            while (place := above[y]) is not None:
                y, k = place
                made = with_operands(operations, y, [*y.operands[:k], made, *y.operands[k + 1 :]])
            return made
        for k, z in enumerate(y.operands if y.op in _PRODUCTS else ()):
            if z in once:
                above[z] = (y, k)
                stack.append(z)
    return None

"""The same function of several small arrays, side by side in one: of small arrays the calls decide, not the entries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from eindiff.core import sizes as sz
from eindiff.core.traverse import post_order
from eindiff.planning import tuning
from eindiff.program.costs import Costs, missing
from eindiff.program.operations import (
    ARITHMETIC,
    ARITHMETIC_OPS,
    Operation,
    Operations,
    count_uses,
    reachable,
    with_operands,
)


class Chain(NamedTuple):
    """A function of one array, entry by entry: operations on it and on numbers."""

    argument: Operation
    function: Hashable  # equal for equal functions
    calls: int


def side_by_side(
    outputs: Sequence[Operation], costs: Costs, is_universal: Callable[[Operation], bool]
) -> list[Operation]:
    """Operations with `f(T)[0]`, `f(T)[1]`, ... and one `T = [x, y, ...]` for `f(x)`, `f(y)`, ...

    So the derivatives of all layers of a net are one call for each operation in them, where a sample is small.
    """
    operations = Operations()
    while group := _group(outputs, costs, is_universal):
        outputs = _joined(operations, outputs, group)
    return list(outputs)


def _group(
    outputs: Sequence[Operation], costs: Costs, is_universal: Callable[[Operation], bool]
) -> list[tuple[Operation, Chain]]:
    """The most results of one function that can be computed together, if that takes fewer calls."""
    groups: dict[Hashable, list[tuple[Operation, Chain]]] = {}
    for x, chain in _chains(outputs, costs, is_universal).items():
        groups.setdefault((chain.function, x.shape), []).append((x, chain))
    for group in sorted(groups.values(), key=len, reverse=True):
        arguments = [chain.argument for _, chain in group] if _pays(group, costs) else []
        places = {x: place for place, x in enumerate(reachable(arguments))}
        if arguments and places.keys().isdisjoint([x for x, _ in group]):
            return sorted(group, key=lambda one: places[one[1].argument])
    return []


def _pays(group: Sequence[tuple[Operation, Chain]], costs: Costs) -> bool:
    """Whether calls are saved that take more than putting arrays side by side, and all are in the cache."""
    count, [(x, chain), *_] = len(group), group
    saved = (count - 1) * chain.calls - tuning.JOINED - tuning.PICKED * count
    return saved > 0 and count * costs.size(x) < tuning.REUSED_BYTES


def _chains(
    outputs: Sequence[Operation], costs: Costs, is_universal: Callable[[Operation], bool]
) -> dict[Operation, Chain]:
    """Small results that are functions of one array of numbers of their shape, of what is used by nothing else."""
    order = reachable(outputs)
    uses, found = count_uses(order, outputs), dict[Operation, Chain]()
    inside: set[Operation] = set()  # parts of longer ones
    numbers: set[Operation] = set()  # arrays of numbers, not of places
    for x in order:
        if x.speed != ARITHMETIC or (x.op in ARITHMETIC_OPS and not numbers.isdisjoint(x.operands)):
            numbers.add(x)
        arrays = {y for y in x.operands if y.op != "number"}
        if len(arrays) != 1 or not (x.op in ARITHMETIC_OPS or is_universal(x)) or not costs.is_small(x):
            continue
        [y] = arrays
        argument, function, calls = found[y] if y in found and uses[y] == 1 else Chain(y, (), 0)
        if argument in numbers and argument.shape == x.shape and x.shape:
            inside.update({y} if calls else ())
            parts = [function if z is y else repr(z.parameters) for z in x.operands]
            function = (x.op, repr(x.parameters), *parts)
            found[x] = Chain(argument, function, calls + max(1, len(x.operands) - 1))
    return {x: chain for x, chain in found.items() if x not in inside and x not in outputs}


def _joined(
    operations: Operations, outputs: Sequence[Operation], group: Sequence[tuple[Operation, Chain]]
) -> list[Operation]:
    """Operations with the results of a group as rows of one array."""
    first, (argument, *_) = group[0]
    shape, done = (len(group), *first.shape), dict[Operation, Operation]()
    _lower(operations, [chain.argument for _, chain in group], done)
    parts, joined = [done[chain.argument] for _, chain in group], (sz.multiply(*shape[:2]), *shape[2:])
    whole = operations.make("concatenate", parts, (0,), shape=joined)
    rows = {argument: operations.make("reshape", [whole], shape, shape=shape)}
    for x in post_order([first], lambda x: () if x is argument else x.operands):
        operands = [rows.get(y, y) for y in x.operands]
        rows.setdefault(x, operations.make(x.op, operands, x.parameters, speed=x.speed) if operands else x)
    for place, (x, _) in enumerate(group):
        done[x] = operations.make("cut", [rows[first]], (0, place), shape=x.shape)
    _lower(operations, outputs, done)
    return [done[x] for x in outputs]


def _lower(operations: Operations, wanted: Iterable[Operation], done: dict[Operation, Operation]) -> None:
    """Operations with others in the place of those that are done."""
    for x in missing(wanted, done):
        done[x] = with_operands(operations, x, [done[y] for y in x.operands])

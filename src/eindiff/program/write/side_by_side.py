"""The same function of several small arrays, side by side in one: of small arrays the calls decide, not the entries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from eindiff.core import sizes as sz
from eindiff.core.groups import grouped
from eindiff.core.traverse import post_order
from eindiff.planning import tuning
from eindiff.program.costs import Costs
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

    def then(self, x: Operation, y: Operation) -> Chain:
        """The same with one more operation x, on the result y."""
        parts = [self.function if z is y else repr(z.parameters) for z in x.operands]
        function = (x.op, repr(x.parameters), *parts)
        return Chain(self.argument, function, self.calls + max(1, len(x.operands) - 1))


Group = list[tuple[Operation, Chain]]  # results of one function


def side_by_side(
    outputs: Sequence[Operation], costs: Costs, is_universal: Callable[[Operation], bool]
) -> list[Operation]:
    """Operations with `f(T)[0]`, `f(T)[1]`, ... and one `T = [x, y, ...]` for `f(x)`, `f(y)`, ...

    So the derivatives of all layers of a net are one call for each operation in them, where a sample is small.
    """
    groups = _groups(outputs, costs, is_universal)
    return _joined(outputs, groups) if groups else list(outputs)


def _groups(
    outputs: Sequence[Operation], costs: Costs, is_universal: Callable[[Operation], bool]
) -> dict[Operation, Group]:
    """The results that are computed together with others, those of each function with all of it; the most first."""
    chains = _chains(outputs, costs, is_universal)
    alike = grouped(((chain.function, x.shape), (x, chain)) for x, chain in chains.items())
    chosen: dict[Operation, Group] = {}
    for group in sorted(alike.values(), key=len, reverse=True):
        if _pays(group, costs):
            order = post_order([chain.argument for _, chain in group], lambda x: _below(x, chosen))
            places = {x: place for place, x in enumerate(order)}
            if places.keys().isdisjoint([x for x, _ in group]):
                group.sort(key=lambda one: places[one[1].argument])
                chosen.update((x, group) for x, _ in group)
    return chosen


def _below(x: Operation, groups: Mapping[Operation, Group]) -> Sequence[Operation]:
    """What has to be there before an operation: for one of a group the arguments of all of them."""
    return [chain.argument for _, chain in groups[x]] if x in groups else x.operands


def _pays(group: Group, costs: Costs) -> bool:
    """Whether calls are saved that take more than putting arrays side by side, and all are in the cache."""
    count, [(x, chain), *_] = len(group), group
    saved = (count - 1) * chain.calls - tuning.JOINED - tuning.PICKED * count
    return saved > 0 and count * costs.size(x) < tuning.REUSED_BYTES


def _chains(
    outputs: Sequence[Operation], costs: Costs, is_universal: Callable[[Operation], bool]
) -> dict[Operation, Chain]:
    """Small results that are functions of one array of numbers of their shape, of what is used by nothing else."""
    order = reachable(outputs)
    numbers, uses, found = _of_numbers(order), count_uses(order, outputs), dict[Operation, Chain]()
    inside: set[Operation] = set()  # parts of longer ones
    for x in order:
        arrays = {y for y in x.operands if y.op != "number"}
        if len(arrays) != 1 or not x.shape:
            continue
        [y] = arrays
        chain = found[y] if y in found and uses[y] == 1 else Chain(y, (), 0)
        is_of_numbers = chain.argument in numbers and chain.argument.shape == x.shape
        if is_of_numbers and costs.is_small(x) and (x.op in ARITHMETIC_OPS or is_universal(x)):
            inside.update({y} if chain.calls else ())
            found[x] = chain.then(x, y)
    return {x: chain for x, chain in found.items() if x not in inside and x not in outputs}


def _of_numbers(order: Sequence[Operation]) -> set[Operation]:
    """Arrays that are computed of numbers, not of places."""
    found: set[Operation] = set()
    for x in order:
        if x.speed != ARITHMETIC or (x.op in ARITHMETIC_OPS and not found.isdisjoint(x.operands)):
            found.add(x)
    return found


def _joined(outputs: Sequence[Operation], groups: Mapping[Operation, Group]) -> list[Operation]:
    """Operations with the results of each group as rows of one array."""
    operations, done = Operations(), dict[Operation, Operation]()
    for x in post_order(outputs, lambda x: _below(x, groups)):
        if x not in groups:
            done[x] = with_operands(operations, x, [done[y] for y in x.operands])
        elif x not in done:
            whole = _rows(operations, groups[x], done)
            for place, (one, _) in enumerate(groups[x]):
                done[one] = operations.make("cut", [whole], (0, place), shape=one.shape)
    return [done[x] for x in outputs]


def _rows(operations: Operations, group: Group, done: Mapping[Operation, Operation]) -> Operation:
    """The results of a group, whose arguments are done, as one array."""
    first, (argument, *_) = group[0]
    shape, parts = (len(group), *first.shape), [done[chain.argument] for _, chain in group]
    whole = operations.make("concatenate", parts, (0,), shape=(sz.multiply(*shape[:2]), *shape[2:]))
    rows = {argument: operations.make("reshape", [whole], shape, shape=shape)}
    for x in post_order([first], lambda x: () if x is argument else x.operands):
        operands = [rows.get(y, y) for y in x.operands]
        rows.setdefault(x, operations.make(x.op, operands, x.parameters, speed=x.speed) if operands else x)
    return rows[first]

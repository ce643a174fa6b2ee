"""Programs in which loops that Python has written out are loops again: `lax.scan`.

So a recurrence over 500 rows is compiled as fast as one over 5, and a sum over rows can be seen to need no loop at all
(`parallel.py`). Rows that turns read are read for all of them at once, and what is the same in all turns is computed
once, as are few numbers of all turns, and their sums; all else stays in the loop, as tangents of many directions would
take more memory outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any, TypeGuard

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from eindiff.tracing.jax.constants import as_function
from eindiff.tracing.jax.memory import is_entrywise
from eindiff.tracing.jax.numbers import PLAIN_CALLS, variables_in
from eindiff.tracing.jax.repeats import Atoms, Inner, Outside, Repeat, repeats

LEAST_TURNS = 21  # of what is made a loop
FEW_TURNS = 4  # of one in a program that JAX differentiates, and its compiler takes long for as it is written
SHARE_REPEATED = 0.3  # of the equations of a program, from which on short loops are worth it
WITHOUT_ARITHMETIC = frozenset({"slice", "squeeze", "reshape", "broadcast_in_dim", "convert_element_type"})
MOST_AT_ONCE = 2**10  # numbers of all turns that are computed at once, entry by entry


def rerolled(closed: Any, least: int = LEAST_TURNS) -> Any:
    """A program with loops in the place of equations that repeat at least so often; itself if there are none."""
    if not _has_repeats(closed.jaxpr, least):
        return closed
    given = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype, weak_type=x.aval.weak_type) for x in closed.jaxpr.invars]
    return jax.make_jaxpr(lambda *args: _Values(closed.jaxpr, closed.consts, args, least).run())(*given)


def _has_repeats(jaxpr: Any, least: int) -> bool:
    inside = [eqn.params[PLAIN_CALLS[eqn.primitive.name]] for eqn in jaxpr.eqns if eqn.primitive.name in PLAIN_CALLS]
    found = sum(x.turns * len(x.equations) for x in repeats(jaxpr.eqns, least) if _computes(x))
    share = SHARE_REPEATED if least < LEAST_TURNS else 0.0  # short loops that are a small part do not change much
    return found > share * len(jaxpr.eqns) or any(_has_repeats(x.jaxpr, least) for x in inside)


def _computes(repeat: Repeat) -> bool:
    """Whether a loop does more than to read rows, from arrays or one by one."""
    return _pays(repeat) and not WITHOUT_ARITHMETIC.issuperset(eqn.primitive.name for eqn in repeat.equations)


def _pays(repeat: Repeat, values: _Values | None = None) -> bool:
    """Whether a loop takes fewer equations than its turns, with those that put values for all turns together."""
    rows = {x.atoms for row in repeat.operands for x in row if isinstance(x, Outside) and len(x.atoms) > 1}
    moving = [x for x in rows if any(not isinstance(y, jex.Literal) for y in x)]
    pieces = sum(len(values.pieces(x.all)) if values else len(x) for x in moving)
    return 2 * pieces < repeat.turns * len(repeat.equations)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A row of an array that holds a value of each turn."""

    array: Any
    index: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Row) and self.array is other.array and self.index == other.index

    @property
    def before(self) -> _Row:
        """The row before it."""
        return _Row(self.array, self.index - 1)


Spread = tuple[Any, int | None]  # a value for all turns, and the axis of the turns, if it has one


class _Values:
    """The values of a program, whose repeated equations are computed as loops."""

    def __init__(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], least: int) -> None:
        self._jaxpr, self._least = jaxpr, least
        self._values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def run(self) -> list[Any]:
        """The results."""
        done = 0
        for repeat in repeats(self._jaxpr.eqns, self._least):
            self._steps(done, repeat.start)
            done = repeat.start
            if _pays(repeat, self):
                _Loop(self, repeat).run()
                done = repeat.stop
        self._steps(done, len(self._jaxpr.eqns))
        return [self.read(x) for x in self._jaxpr.outvars]

    def _steps(self, start: int, stop: int) -> None:
        for eqn in self._jaxpr.eqns[start:stop]:
            self._values.update(zip(eqn.outvars, self._step(eqn), strict=True))

    def _step(self, eqn: Any) -> list[Any]:
        name = eqn.primitive.name
        if name == "concatenate" and len(pieces := self.pieces(eqn.invars)) < len(eqn.invars):
            axis = eqn.params["dimension"]
            return [jnp.concatenate([self._joined(x, axis) for x in pieces], axis)]
        if name == "stack":
            return [jnp.moveaxis(self.stacked(eqn.invars), 0, eqn.params["axis"])]
        values = [self.read(x) for x in eqn.invars]
        if name in PLAIN_CALLS and _has_repeats(eqn.params[PLAIN_CALLS[name]].jaxpr, self._least):
            inside = eqn.params[PLAIN_CALLS[name]]
            return _Values(inside.jaxpr, inside.consts, values, self._least).run()
        return _bound(eqn, values)

    def _joined(self, atoms: Sequence[Any], axis: int) -> Any:
        """Values side by side along an axis."""
        if len(atoms) == 1:
            return self.read(atoms[0])
        rows = jnp.moveaxis(self._together(atoms), 0, axis)
        return rows.reshape(*rows.shape[:axis], -1, *rows.shape[axis + 2 :])

    def read(self, atom: Any) -> Any:
        """The value of an argument."""
        if isinstance(atom, jex.Literal):
            return np.asarray(atom.val, atom.aval.dtype)
        value = self._values[atom]
        return lax.index_in_dim(value.array, value.index, keepdims=False) if isinstance(value, _Row) else value

    def stacked(self, atoms: Sequence[Any]) -> Any:
        """Values of one shape as rows of an array."""
        if not any(isinstance(self._held(x), _Row | jax.core.Tracer) for x in atoms):
            return np.stack([self.read(x) for x in atoms])
        pieces = [self._together(x) for x in self.pieces(atoms)]
        return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)

    def pieces(self, atoms: Sequence[Any]) -> list[list[Any]]:
        """Values in order, those together that are rows of one array which follow each other."""
        found: list[list[Any]] = []
        for x in atoms:
            is_next = found and isinstance(y := self._held(x), _Row) and self._held(found[-1][-1]) == y.before
            found[-1].append(x) if is_next else found.append([x])
        return found

    def _held(self, atom: Any) -> Any:
        return None if isinstance(atom, jex.Literal) else self._values[atom]

    def _together(self, atoms: Sequence[Any]) -> Any:
        """Rows of one array, or one value as a row."""
        first = self._held(atoms[0])
        if not isinstance(first, _Row):
            return jnp.asarray(self.read(atoms[0]))[None]
        is_all = first.index == 0 and len(atoms) == len(first.array)
        return first.array if is_all else lax.slice_in_dim(first.array, first.index, first.index + len(atoms))

    def keep(self, variable: Any, value: Any) -> None:
        """Know a result."""
        self._values[variable] = value

    def needed(self, stop: int) -> set[Any]:
        """What is used from some equation on."""
        used = [x for eqn in self._jaxpr.eqns[stop:] for x in eqn.invars] + list(self._jaxpr.outvars)
        return set(variables_in(used))

    def results(self, k: int) -> Sequence[Any]:
        """The variables of the results of an equation."""
        return self._jaxpr.eqns[k].outvars


class _Loop:
    """Equations that repeat, computed for all turns at once where they only read rows, else in a scan."""

    def __init__(self, values: _Values, repeat: Repeat) -> None:
        self._values, self._repeat, self._turns = values, repeat, repeat.turns
        self._at_once: dict[int, list[Spread]] = {}

    def run(self) -> None:
        """Compute all turns, and keep what is used after them."""
        rest = list(range(len(self._repeat.equations)))
        while True:
            left = [k for k in rest if not self._computed(k)]
            if left == rest:
                break
            rest = left
        wanted = self._wanted()
        for k in tuple(rest):
            done = self._summed(k, rest, wanted)
            rest = [j for j in rest if j not in done]
        last, rows = self._scanned(rest, wanted) if rest else ({}, {})
        for (k, j), uses in wanted.items():
            for t, x in uses:
                if k in self._at_once:
                    value, axis = self._at_once[k][j]
                    self._values.keep(x, value if axis is None else _Row(value, t))
                else:
                    self._values.keep(x, _Row(rows[k, j], t) if (k, j) in rows else last[k, j])

    def _wanted(self) -> dict[tuple[int, int], list[tuple[int, Any]]]:
        """The turns in which results of an equation, by its place and theirs, are used after the loop, and where."""
        found: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        needed, period = self._values.needed(self._repeat.stop), len(self._repeat.equations)
        for place in range(self._turns * period):
            turn, k = divmod(place, period)
            for j, x in enumerate(self._values.results(self._repeat.start + place)):
                if x in needed:
                    found.setdefault((k, j), []).append((turn, x))
        return found

    # What is known before the loop

    def _computed(self, k: int) -> bool:
        """Compute an equation for all turns, if its arguments are known for all of them."""
        eqn, starts = self._repeat.equations[k], self._repeat.starts.get(k)
        given = [self._spread(x) for x in self._repeat.operands[k]]
        known = [*(x for x in given if x is not None), *([] if starts is None else [(starts, 0)])]
        if None in given:
            return False
        values, axes = zip(*known, strict=True) if known else ((), ())
        if all(axis is None for axis in axes):
            self._at_once[k] = [(x, None) for x in _bound(eqn, values)]
            return True
        if eqn.primitive.name not in WITHOUT_ARITHMETIC and not (is_entrywise(eqn) and self._is_small(eqn)):
            return False
        rows = _rows_of(eqn, values[0], starts) if axes[0] is None else None
        found = jax.vmap(lambda *args: _bound(eqn, args), axes)(*values) if rows is None else [rows]
        self._at_once[k] = [(x, 0) for x in found]
        return True

    def _is_small(self, eqn: Any) -> bool:
        return self._turns * sum(prod(x.aval.shape) for x in eqn.outvars) <= MOST_AT_ONCE

    def _summed(self, k: int, rest: Sequence[int], wanted: dict[tuple[int, int], list]) -> list[int]:
        """Compute the total of values that are known for all turns, if nothing else is asked of it.

        It gives the equations that add the values of a turn, the last of them first.
        """
        if [t for t, _ in wanted.get((k, 0), [])] != [self._turns - 1]:
            return []
        chain, terms = [k], list[Spread]()
        while self._repeat.equations[chain[-1]].primitive.name == "add":
            operands = self._repeat.operands[chain[-1]]
            spread = {i: x for i, operand in enumerate(operands) if (x := self._spread(operand)) is not None}
            link = operands[0 in spread]
            if len(spread) != 1 or not isinstance(link, Inner):
                break
            terms += spread.values()
            if link.equation == k and len(link.first) == 1:
                if any((j, 0) in wanted for j in chain[1:]) or self._is_read(chain, rest):
                    break
                self._add_up(chain, self._values.read(link.first.all[0]), terms)
                return chain
            if link.first:
                break
            chain.append(link.equation)
        return []

    def _is_read(self, chain: Sequence[int], rest: Sequence[int]) -> bool:
        """Whether others of the equations use results of some."""
        others = [x for j in rest if j not in chain for x in self._repeat.operands[j]]
        return any(isinstance(x, Inner) and x.equation in chain for x in others)

    def _add_up(self, chain: Sequence[int], first: Any, terms: Sequence[Spread]) -> None:
        rows = [value * self._turns if axis is None else jnp.sum(value, 0, dtype=value.dtype) for value, axis in terms]
        total = reduce(lax.add, rows)
        total = lax.add(jnp.asarray(first, total.dtype), total)
        self._at_once |= {j: [(total, None)] for j in chain}

    def _spread(self, operand: Inner | Outside) -> Spread | None:
        """An argument for all turns; None if it has to wait for turns before."""
        if isinstance(operand, Outside):
            if len(operand.atoms) == 1:
                return self._values.read(*operand.atoms), None
            return self._values.stacked(operand.atoms.all), 0
        if operand.equation not in self._at_once:
            return None
        value, axis = self._at_once[operand.equation][operand.output]
        if not operand.first:
            return value, axis
        before, delay = self._values.stacked(operand.first.all), len(operand.first)
        if axis is None:
            value = jnp.broadcast_to(value, (self._turns, *value.shape))
        return jnp.concatenate([jnp.asarray(before, value.dtype), value[: self._turns - delay]]), 0

    # The loop

    def _scanned(self, rest: list[int], wanted: dict[tuple[int, int], list]) -> tuple[dict, dict]:
        """The last values of what is used after all turns, and those of all turns."""
        operands = [x for k in rest for x in self._repeat.operands[k]]
        carried = {x: self._first(x) for x in operands if self._is_carried(x)}
        known = {x: value for x in operands if not self._is_carried(x) and (value := self._spread(x)) is not None}
        ends = {(k, j): [t for t, _ in uses] == [self._turns - 1] for (k, j), uses in wanted.items() if k in rest}
        have = {(x.equation, x.output): x for x in carried}
        for k, j in [place for place, is_last in ends.items() if is_last and place not in have]:
            aval = self._repeat.equations[k].outvars[j].aval
            have[k, j] = Inner(k, j, Atoms([None]))
            carried[have[k, j]] = (jnp.zeros(aval.shape, aval.dtype),)
        all_turns = [place for place, is_last in ends.items() if not is_last]
        turn = _Turn(self._repeat, rest, list(carried), known, all_turns)
        carry, collected = lax.scan(turn, list(carried.values()), turn.rows, length=self._turns)
        final = dict(zip(carried, carry, strict=True))
        return {place: final[x][-1] for place, x in have.items()}, dict(zip(all_turns, collected, strict=True))

    def _is_carried(self, operand: Inner | Outside) -> TypeGuard[Inner]:
        return isinstance(operand, Inner) and bool(operand.first) and operand.equation not in self._at_once

    def _first(self, operand: Any) -> tuple[Any, ...]:
        aval = self._repeat.equations[operand.equation].outvars[operand.output].aval
        return tuple(jnp.asarray(self._values.read(x), aval.dtype) for x in operand.first)


class _Turn:
    """A turn of a loop: of what is carried and what is given for it, what is carried on, and what is collected."""

    def __init__(
        self, repeat: Repeat, equations: Sequence[int], carried: Sequence[Inner],
        known: dict[Inner | Outside, Spread], collected: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        self._repeat, self._equations, self._carried, self._collected = repeat, equations, carried, collected
        self._fixed = {x: value for x, (value, axis) in known.items() if axis is None}
        self._moving = {x: value for x, (value, axis) in known.items() if axis is not None}
        self._starts = {k: jnp.asarray(starts) for k, starts in repeat.starts.items() if k in equations}

    @property
    def rows(self) -> tuple[list[Any], dict[int, Any]]:
        """What is given for the turns: rows of arrays, and where slices begin."""
        return list(self._moving.values()), self._starts

    def __call__(self, carry: Any, row: Any) -> Any:
        moving, starts = row
        given = self._fixed | dict(zip(self._moving, moving, strict=True))
        given |= {x: values[0] for x, values in zip(self._carried, carry, strict=True)}
        done: dict[int, list[Any]] = {}
        for k in self._equations:
            operands = self._repeat.operands[k]
            args = [given[x] if x in given or isinstance(x, Outside) else done[x.equation][x.output] for x in operands]
            done[k] = _bound(self._repeat.equations[k], [*args, starts[k]] if k in starts else args)
        after = [(*old[1:], done[x.equation][x.output]) for x, old in zip(self._carried, carry, strict=True)]
        return after, [done[k][j] for k, j in self._collected]


def _bound(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """The results of an equation; one more value than it has is where a slice begins."""
    if len(values) > len(eqn.invars):
        operand, begin = values
        return [lax.dynamic_slice(operand, list(begin), eqn.outvars[0].aval.shape)]
    return as_function(eqn)(*values)


def _rows_of(eqn: Any, array: Any, starts: np.ndarray | None) -> Any:
    """Slices of size 1 at equal distances along an axis, as one; None if they are not that."""
    if starts is None:
        return None
    sizes, steps = eqn.outvars[0].aval.shape, np.diff(starts, axis=0)
    [*moving] = np.flatnonzero((starts != starts[0]).any(0))
    if len(moving) != 1 or (steps != steps[0]).any() or sizes[moving[0]] != 1:
        return None
    axis = int(moving[0])
    ends, step = starts[[0, -1], axis], int(steps[0, axis])
    low, high, strides = starts[0].tolist(), (starts[0] + sizes).tolist(), [1] * len(sizes)
    low[axis], high[axis], strides[axis] = int(ends.min()), int(ends.max()) + 1, abs(step)
    found = jnp.expand_dims(jnp.moveaxis(lax.slice(array, low, high, strides), axis, 0), axis + 1)
    return found if step > 0 else lax.rev(found, (0,))

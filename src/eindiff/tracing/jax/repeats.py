"""Equations of a program that repeat: loops that Python has written out.

Two equations are the same if they have one primitive with the same parameters, and arguments of the same shapes and
types; where a slice begins may differ. A run of them with a period is a loop if each argument is, in all turns, the
result of the same equation of that turn or of one some turns before, or comes from outside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import jax.extend.core as jex
import numpy as np

from eindiff.tracing.jax.refusals import JAX_SOURCE

MOST_PERIOD = 1000  # equations in a turn
STARTS = ("start_indices", "limit_indices")  # of a slice, whose size its result has


class Atoms:
    """Variables and literals, which can be compared."""

    def __init__(self, atoms: Sequence[Any]) -> None:
        self.all = tuple(atoms)
        self._key = tuple(_value(x) if isinstance(x, jex.Literal) else x for x in atoms)

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atoms) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


NONE = Atoms(())


@dataclass(frozen=True, slots=True)
class Inner:
    """A result of an equation of a turn: one of the same turn, or of as many turns before as there are first values."""

    equation: int
    output: int
    first: Atoms = NONE  # what is there in the place of turns before the first one, the oldest first


@dataclass(frozen=True, slots=True)
class Outside:
    """What comes from outside: the same for all turns, or one value for each."""

    atoms: Atoms


@dataclass(frozen=True, slots=True)
class Repeat:
    """Equations that repeat: those of the first turn, where their arguments come from, and where slices begin."""

    start: int
    turns: int
    equations: Sequence[Any]
    operands: Sequence[Sequence[Inner | Outside]]
    starts: dict[int, np.ndarray]  # of slices, in all turns, where they differ

    @property
    def stop(self) -> int:
        """The first equation after all turns."""
        return self.start + self.turns * len(self.equations)


def repeats(eqns: Sequence[Any], least: int) -> list[Repeat]:
    """All loops of at least so many turns, in order."""
    if len(eqns) < 2 * least:
        return []
    signatures, seen = _Signatures(), dict[Hashable, int]()
    ids = np.array([seen.setdefault(signatures.of(eqn), len(seen)) for eqn in eqns])
    return list(_between(eqns, ids, 0, len(eqns), least))


def _between(eqns: Sequence[Any], ids: np.ndarray, start: int, stop: int, least: int) -> Iterator[Repeat]:
    """The loops of a part of a program: the longest run, and what is beside it."""
    if stop - start < least or (run := _longest(ids[start:stop], least)) is None:
        return
    first, period, length = run
    first += start
    shifts = [(shift, (length - shift) // period) for shift in range(period) if (length - shift) // period >= least]
    whole = (_repeat(eqns, first + shift, period, turns) for shift, turns in shifts)
    some = (_most_turns(eqns, first + shift, period, least, turns) for shift, turns in shifts)
    found = next((x for x in chain(whole, some) if x is not None), None)
    end = found.stop if found is not None else first + length
    yield from _between(eqns, ids, start, found.start if found is not None else first, least)
    if found is not None:
        yield found
    yield from _between(eqns, ids, end, stop, least)


def _longest(ids: np.ndarray, least: int) -> tuple[int, int, int] | None:
    """Start, period and length of the longest run with a period."""
    best, most = None, 0
    for period in range(1, min(len(ids) // least, MOST_PERIOD) + 1):
        breaks = np.flatnonzero(np.concatenate([[True], ids[period:] != ids[:-period], [True]]))
        lengths = np.diff(breaks) - 1
        k = int(lengths.argmax())
        length = int(lengths[k]) + period
        if length >= least * period and length - length % period > most:
            best, most = (int(breaks[k]), period, length), length - length % period
        if most > len(ids) - period:
            break
    return best


def _most_turns(eqns: Sequence[Any], start: int, period: int, least: int, most: int) -> Repeat | None:
    """The longest loop that a run begins with: the next one may do the same with other arguments."""
    found = _repeat(eqns, start, period, least)
    while found is not None and found.turns + 1 < most:
        turns = (found.turns + most) // 2
        longer = _repeat(eqns, start, period, turns)
        found, most = (longer, most) if longer is not None else (found, turns)
    return found


def _repeat(eqns: Sequence[Any], start: int, period: int, turns: int) -> Repeat | None:
    """A run as a loop, if the arguments of its equations are those of a loop."""
    made = {
        x: (k // period, k % period, j)
        for k, eqn in enumerate(eqns[start : start + period * turns])
        for j, x in enumerate(eqn.outvars)
    }
    operands, starts = [], {}
    for k in range(period):
        same = [eqns[start + k + t * period] for t in range(turns)]
        row = [_operand(column, made) for column in zip(*(eqn.invars for eqn in same), strict=True)]
        if any(x is None for x in row):
            return None
        operands.append([x for x in row if x is not None])
        if same[0].primitive.name == "slice":
            begin = np.array([eqn.params["start_indices"] for eqn in same])
            if (begin != begin[0]).any():
                if set(same[0].params["strides"] or (1,)) != {1}:
                    return None
                starts[k] = begin
    return Repeat(start, turns, eqns[start : start + period], operands, starts)


def _operand(atoms: Sequence[Any], made: dict[Any, tuple[int, int, int]]) -> Inner | Outside | None:
    """Where an argument comes from; None if that is not the same in all turns."""
    places = [None if isinstance(x, jex.Literal) else made.get(x) for x in atoms]
    last = places[-1]
    if last is None:
        if any(place is not None for place in places):
            return None
        one = Atoms(atoms[:1])
        return Outside(one if all(Atoms([x]) == one for x in atoms) else Atoms(atoms))
    turn, equation, output = last
    delay = len(atoms) - 1 - turn
    if any(place != (t - delay, equation, output) for t, place in enumerate(places) if t >= delay):
        return None
    if any(place is not None for place in places[:delay]):
        return None
    return Inner(equation, output, Atoms(atoms[:delay]))


def _value(literal: Any) -> tuple[str, bytes]:
    """What a literal is."""
    return str(literal.aval.dtype), np.asarray(literal.val).tobytes()


class _Signatures:
    """What equations have in common."""

    def __init__(self) -> None:
        self._programs: dict[int, tuple[Any, Hashable]] = {}  # by identity, and kept so that it is theirs

    def of(self, eqn: Any) -> Hashable:
        """Equal for equations that do the same with arguments of the same shapes and types."""
        if eqn.effects:
            return object()
        varies = STARTS if eqn.primitive.name == "slice" else ()
        params = tuple((name, self._known(x)) for name, x in sorted(eqn.params.items()) if name not in varies)
        types = tuple((x.aval.shape, x.aval.dtype) for x in (*eqn.invars, *eqn.outvars))
        return (eqn.primitive, params, types)

    def _known(self, value: Any) -> Hashable:
        if isinstance(value, jex.ClosedJaxpr):
            return (self._program(value.jaxpr), *map(id, value.consts))
        if isinstance(value, jex.Jaxpr):
            return self._program(value)
        if isinstance(value, list | tuple):
            return tuple(map(self._known, value))
        if hasattr(value, "call_wrapped"):  # a rule for derivatives, made anew at each call
            info = value.debug_info
            return (info.func_filename, info.func_lineno) if _is_own(info) else id(value)
        try:
            hash(value)
        except TypeError:
            return id(value)
        return value

    def _program(self, jaxpr: Any) -> Hashable:
        """The equations of a program, with variables by number."""
        if id(jaxpr) not in self._programs:
            numbers: dict[Any, int] = {}

            def name(x: Any) -> Hashable:
                return _value(x) if isinstance(x, jex.Literal) else numbers.setdefault(x, len(numbers))

            inputs = tuple((name(x), x.aval.shape, x.aval.dtype) for x in (*jaxpr.constvars, *jaxpr.invars))
            rows = tuple((self._inner(e), *map(name, e.invars), *map(name, e.outvars)) for e in jaxpr.eqns)
            self._programs[id(jaxpr)] = (jaxpr, (inputs, rows, tuple(map(name, jaxpr.outvars))))
        return self._programs[id(jaxpr)][1]

    def _inner(self, eqn: Any) -> Hashable:
        """Of an equation in a program that is called: slices begin where they do."""
        own = tuple((name, eqn.params[name]) for name in STARTS if eqn.primitive.name == "slice")
        return (self.of(eqn), own)


def _is_own(info: Any) -> bool:
    """Whether a function is one of JAX's own, all calls of which do the same."""
    return info is not None and (info.func_filename or "").startswith(JAX_SOURCE)

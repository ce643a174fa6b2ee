"""Which of two programs of JAX is the better one: ours, or its own derivative.

Both are counted alike: the time and the memory of a call, and the time of the compiler. Its own derivative takes long
to be read, so that it is asked for only where it may be the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eindiff.tracing.jax.kernels import START, compiling, operations
from eindiff.tracing.jax.memory import peak
from eindiff.tracing.jax.predicted import READING, seconds
from eindiff.tracing.jax.whole import Written
from eindiff.tracing.library import Traced

MOST_SLOWER = 1.5  # than JAX's own derivative, as predicted
LEAST_BYTES, MOST_MEMORY = 2**14, 3.0  # that are worth a look; and times as many as JAX's own derivative stores
MOST_LONGER = 1.1  # that its compiler may take, and more if so many calls make up for it:
PAYING_CALLS = 50
MOST_FIRST = 1.3  # times as long that a first call may take, unless later ones take a part of the time,
FAR_QUICKER, FEW_CALLS = 4, 10  # and so few of them make up for it
TIMES_LARGER = {"hessian": 2.5, "value_grad_hessian": 2.5, "hvp": 3}  # JAX's own derivatives, at least; others 1.5
ALL_COLUMNS = 1.02  # times as long as for one direction it takes to compile a Hessian, at least; 1.12 in the median
BLOCK = 1e-2  # seconds more for each block of a Hessian by several arguments
LEAST_SWEEPS = 2  # times as long as the function its second derivative takes at least
MANY_EQUATIONS = 12  # equations of a function from which on JAX takes its time to read its derivative
AT_ONCE = 1000  # operations of a program from which on JAX gives it to another thread
FOR_ENTRY = 7  # operations that JAX's own derivatives take for each entry, and rarely fewer
BRIEF_LOOPS = 2.4e-5  # seconds, as predicted, of loops that take less time than another thread takes to start
TWICE = frozenset({"hessian", "value_grad_hessian"})  # derivatives along all entries, of gradients


@dataclass(frozen=True, slots=True)
class Own:
    """JAX's own derivative of a kind, by arguments of some sizes, which is written when it is looked at."""

    written: Callable[[], Written]
    kind: str
    traced: Traced
    sizes: Sequence[int]

    def bounds(self) -> Iterator[tuple[float, float]]:
        """The least that its compiler and a call take: as the function tells, and then a program for one direction."""
        blocks, traced = (BLOCK * (len(self.sizes) ** 2 - 1) if self.kind in TWICE else 0.0), self.traced
        compiler = START + TIMES_LARGER.get(self.kind, 1.5) * (traced.compiling - START) + blocks
        compiler += READING * max(0, traced.equations - MANY_EQUATIONS)
        call = max(LEAST_SWEEPS * traced.seconds, sum(self.sizes) * traced.along) if self.kind in TWICE else 0.0
        yield compiler, call
        if (along := self.written().along) is not None:
            yield ALL_COLUMNS * compiling(along) + blocks, max(call, seconds(along))

    def is_better(self, ours: Any, least: float, is_slow: bool) -> bool:
        """Whether it is a better program than another one."""
        is_in_doubt = self.traced.has_loops or sum(x.aval.size for x in ours.outvars) * FOR_ENTRY < AT_ONCE
        if is_in_doubt and _is_handed_over(ours, self.written):
            return True
        if any(_is_surely_good(ours, compiler, call, least, is_slow) for compiler, call in self.bounds()):
            return False
        return _is_worse(ours, self.written().jaxpr, least)

    def is_sooner(self, ahead: float) -> bool:
        """Whether it takes less time than it will take to find and compile another one that takes no time at all."""
        if not all(takes_longer(ahead, compiler, 0.0, call) for compiler, call in self.bounds()):
            return False
        program, reading = self.written().jaxpr, READING * self.traced.equations
        return takes_longer(ahead, compiling(program) + reading, 0.0, seconds(program))


def _is_handed_over(ours: Any, own: Callable[[], Written]) -> bool:
    """Whether JAX gives a program to another thread, and calls its own derivative at once: it counts operations, of
    each loop those of one turn, and what is brief is over before a thread has started."""
    return operations(ours) >= AT_ONCE > operations(own().jaxpr) and seconds(own().jaxpr) < BRIEF_LOOPS


def _is_surely_good(ours: Any, compiler: float, own_call: float, least: float, is_slow: bool) -> bool:
    """Whether a program needs no look at JAX's own derivative, for which its compiler and a call take at least so long:
    it is better than that."""
    call = seconds(ours)
    written = sum(x.aval.size * x.aval.dtype.itemsize for x in ours.outvars)  # which JAX stores as well
    is_light = call <= max(least, MOST_SLOWER * own_call) and peak(ours) <= max(LEAST_BYTES, MOST_MEMORY * written)
    return (is_light or not is_slow) and not takes_longer(compiling(ours), compiler, call, max(call, own_call))


def _is_worse(ours: Any, theirs: Any, least: float) -> bool:
    """Whether a program is predicted to take longer than another one, more memory without being quicker, or its
    compiler longer than it saves."""
    if seconds(ours) > least + MOST_SLOWER * seconds(theirs):
        return True
    is_quicker = seconds(ours) * MOST_SLOWER < seconds(theirs)
    if not is_quicker and peak(ours) > max(LEAST_BYTES, MOST_MEMORY * peak(theirs)):
        return True
    return takes_longer(compiling(ours), compiling(theirs), seconds(ours), seconds(theirs))


def takes_longer(ours: float, theirs: float, call: float, their_call: float) -> bool:
    """Whether a first call takes longer than another one by more than calls save, or by so much that people mind."""
    saved = their_call - call
    if ours - MOST_LONGER * theirs > PAYING_CALLS * saved:
        return True
    is_repaid = call * FAR_QUICKER <= their_call and ours - theirs <= FEW_CALLS * saved
    return not is_repaid and ours + call > MOST_FIRST * (theirs + their_call)

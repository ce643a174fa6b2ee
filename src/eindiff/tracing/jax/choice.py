"""Which of two programs of JAX is the better one: ours, or its own derivative.

Both are counted alike: the time and the memory of a call, and the time of the compiler. Its own derivative takes long
to be read, so that it is asked for only where it may be the better one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eindiff.tracing.jax.kernels import START, compiling, operations
from eindiff.tracing.jax.memory import peak
from eindiff.tracing.jax.predicted import READING, seconds
from eindiff.tracing.jax.whole import Written
from eindiff.tracing.library import Traced

MOST_SLOWER = 1.5  # than JAX's own derivative, as predicted
LEAST_BYTES, MOST_MEMORY = 2**14, 3.0  # that are worth a look; and times as many as JAX's own derivative stores
MOST_LONGER = 1.1  # that its compiler may take, and more if so many calls make up for it:
CALLS = 50
MOST_FIRST = 1.3  # times as long that a first call may take, unless later ones take a part of the time,
FAR_QUICKER, FEW_CALLS = 4, 10  # and so few of them make up for it
TIMES_LARGER = {"hessian": 2.5, "value_grad_hessian": 2.5, "hvp": 3}  # JAX's own derivatives, at least; others 1.5
ALL_COLUMNS = 1.02  # times as long as for one direction it takes to compile a Hessian, at least; 1.12 in the median
MANY = 12  # equations of a function from which on JAX takes its time to read its derivative
AT_ONCE = 1000  # operations of a program from which on JAX gives it to another thread
BRIEF_LOOPS = 2.4e-5  # seconds, as predicted, of loops that take less time than another thread takes to start
TWICE = frozenset({"hessian", "value_grad_hessian"})  # derivatives along all entries, of gradients


def is_own_better(
    ours: Any, own: Callable[[], Written], kind: str, traced: Traced, entries: int, least: float, is_slow: bool
) -> bool:
    """Whether JAX's own derivative of a kind, by so many entries, is the better program: what the function tells of it
    may be enough to know, or its program for one direction."""
    if traced.has_loops and _is_handed_over(ours, own):
        return True
    compiler, call = _at_least(kind, traced, entries)
    if _is_surely_good(ours, compiler, call, least, is_slow):
        return False
    if (along := own().along) is not None:
        compiler, call = ALL_COLUMNS * compiling(along), max(call, seconds(along))
        if _is_surely_good(ours, compiler, call, least, is_slow):
            return False
    return _is_worse(ours, own().jaxpr, least)


def _is_handed_over(ours: Any, own: Callable[[], Written]) -> bool:
    """Whether JAX gives a program to another thread, and calls its own derivative at once: it counts one turn of each
    loop, and brief loops are over before a thread has started."""
    return operations(ours) >= AT_ONCE > operations(own().jaxpr) and seconds(own().jaxpr) < BRIEF_LOOPS


def _at_least(kind: str, traced: Traced, entries: int) -> tuple[float, float]:
    """The least that JAX's compiler takes for its own derivative of a kind, by so many entries, and that a call takes,
    as far as the function tells."""
    compiler = START + TIMES_LARGER.get(kind, 1.5) * (traced.compiling - START)
    compiler += READING * max(0, traced.equations - MANY)
    return compiler, entries * traced.along if kind in TWICE else 0.0


def _is_surely_good(ours: Any, compiler: float, own_call: float, least: float, is_slow: bool) -> bool:
    """Whether a program needs no look at JAX's own derivative, for which its compiler and a call take at least so long:
    it is better than that."""
    call = seconds(ours)
    written = sum(x.aval.size * x.aval.dtype.itemsize for x in ours.outvars)  # which JAX stores as well
    is_light = call <= max(least, MOST_SLOWER * own_call) and peak(ours) <= max(LEAST_BYTES, MOST_MEMORY * written)
    return (is_light or not is_slow) and not takes_longer(compiling(ours), compiler, call, max(call, own_call))


def is_sooner(own: Written, ahead: float) -> bool:
    """Whether JAX's own derivative takes less time than it will take to find and compile another one that takes no time
    at all."""
    if own.along is not None and not takes_longer(ahead, compiling(own.along), 0.0, seconds(own.along)):
        return False
    return takes_longer(ahead, compiling(own.jaxpr), 0.0, seconds(own.jaxpr))


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
    if ours - MOST_LONGER * theirs > CALLS * saved:
        return True
    is_repaid = call * FAR_QUICKER <= their_call and ours - theirs <= FEW_CALLS * saved
    return not is_repaid and ours + call > MOST_FIRST * (theirs + their_call)

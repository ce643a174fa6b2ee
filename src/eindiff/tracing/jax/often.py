"""Derivatives that are called often: by a program of NumPy, until one that JAX compiles has paid.

NumPy's program is there first, and each of its operations is a call from Python; JAX's takes a fraction of the time
where there are many, and a second to compile. So NumPy computes until its calls have taken as long as the compiler is
predicted to take: whoever calls a few times does not wait, and whoever calls often waits at most twice as long as for
the best. Then both are timed, and the quicker one stays.

What is not finite NumPy computes again: it says that a matrix is singular, where JAX goes on without a word.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.computation import Computation
from eindiff.tracing.jax.constants import as_function
from eindiff.tracing.jax.function import CONCRETE
from eindiff.tracing.jax.kernels import MATRICES, compiling
from eindiff.tracing.jax.memory import peak
from eindiff.tracing.jax.numbers import INSIDE
from eindiff.tracing.jax.predicted import planning, seconds
from eindiff.tracing.jax.whole import more, of_leaves
from eindiff.tracing.library import Arguments, Traced

if TYPE_CHECKING:
    from eindiff.tracing.traced_function import TracedFunction

UNNOTICED = 1.0  # seconds that nobody minds to wait once, for what is called often
QUICKER = 1.2  # times that a program of JAX is predicted to be, if it is worth to be compiled
MOST_BYTES, MOST_MEMORY = 2**26, 2.0  # that it may store, or times as many as NumPy's program
TRIALS, TRYING = 2, 5e-3  # calls of a program that are timed at least, and seconds: a few brief ones may be disturbed
MOST_TOGETHER = 2**12  # entries of an array that is looked at with others: alone it takes longer than to copy it
MOST_UNUSUAL = 3  # results that are not finite, after which NumPy computes all
SINGULAR = MATRICES | {"custom_linear_solve"}

Run = Callable[[Arguments, Any], Any]  # of arguments and directions


class Often:
    """A derivative that is called often, by the program that is best for the next call."""

    def __init__(self, function: TracedFunction, arguments: Arguments, traced: Traced, found: Computation) -> None:
        self._function, self._traced, self._found = function, traced, found
        self._places = list(traced.inputs)
        self._derivative = of_leaves(function, arguments, self._places)
        self._price = planning(found.exprs, True)  # in seconds, of what comes next
        self._taken, self._best, self._calls = 0.0, inf, 0  # of NumPy's program: all seconds, those of a call, calls
        self._program: Callable | None = None  # of JAX
        self._timed: list[float] = []  # seconds of its calls
        self._unusual = 0
        self._run: Run = self._rented

    def __call__(self, arguments: Arguments, directions: Any) -> Any:
        run = self._by_numpy if jax.config.jax_disable_jit else self._run
        return run(arguments, directions)

    def _by_numpy(self, arguments: Arguments, directions: Any) -> Any:
        return self._function.values(arguments, self._traced, directions)

    def _rented(self, arguments: Arguments, directions: Any) -> Any:
        """By NumPy, until its calls have taken as long as it takes to write JAX's program, and then to compile it."""
        start = perf_counter()
        result = self._by_numpy(arguments, directions)
        seconds_taken = perf_counter() - start
        self._taken, self._best = self._taken + seconds_taken, min(self._best, seconds_taken)
        self._calls += 1
        if self._calls >= TRIALS and self._is_paid() and self._program is None:
            self._write(arguments, directions)
        if self._program is not None and self._is_paid():
            self._run = self._tried
        return result

    def _is_paid(self) -> bool:
        return self._taken >= self._price - UNNOTICED

    def _write(self, arguments: Arguments, directions: Any) -> None:
        """Write JAX's program, to know what it takes; it is compiled by its first call."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were given at the first call
                closed, shapes = self._written(*self._inputs(arguments, directions))
        except (EindiffError, NotImplementedError, *CONCRETE):
            self._run = self._by_numpy
            return
        assert self._found.dense is not None
        most = max(MOST_BYTES, MOST_MEMORY * self._found.dense.moving.compiled("numpy").plan().peak)
        if QUICKER * seconds(closed.jaxpr) > self._best or peak(closed.jaxpr) > most:
            self._run = self._by_numpy
            return

        def checked(*given: Any) -> tuple[Any, Any]:
            leaves = jax.tree_util.tree_leaves(given)
            is_same = [jax.typeof(x) for x in leaves] == closed.in_avals
            program, results = (closed, shapes) if is_same else self._written(*given)  # for other directions
            return _checked(program, jax.tree_util.tree_structure(results), leaves)

        self._program, self._price = jax.jit(checked), compiling(closed.jaxpr)

    def _written(self, *given: Any) -> tuple[Any, Any]:
        return jax.make_jaxpr(self._derivative, return_shape=True)(*given)

    def _inputs(self, arguments: Arguments, directions: Any) -> tuple[list[Any], dict[str, Any]]:
        return [arguments.leaves[k] for k in self._places], more(directions)

    def _tried(self, arguments: Arguments, directions: Any) -> Any:
        """By JAX, to see which program is quicker."""
        start = perf_counter()
        result = jax.block_until_ready(self._compiled(arguments, directions))
        self._timed.append(perf_counter() - start)
        if self._run == self._tried and len(self._timed) > 1:  # the first one was compiled
            if self._timed[-1] < self._best:
                self._run = self._compiled
            elif len(self._timed) > TRIALS and sum(self._timed[1:]) > TRYING:
                self._run = self._by_numpy
        return result

    def _compiled(self, arguments: Arguments, directions: Any) -> Any:
        assert self._program is not None
        result, is_usual = self._program(*self._inputs(arguments, directions))
        if np.asarray(is_usual):
            return result
        self._unusual += 1
        if self._unusual >= MOST_UNUSUAL:
            self._run = self._by_numpy
        return self._by_numpy(arguments, directions)


def _checked(closed: Any, structure: Any, given: Sequence[Any]) -> tuple[Any, Any]:
    """What a program gives, and whether that is finite, with all solutions of systems and factors on the way."""
    found, inverted = _values(closed, given)
    flat = [jnp.ravel(x) for x in (*found, *inverted)]
    together = [jnp.concatenate([x for x in flat if x.size <= MOST_TOGETHER] or [jnp.zeros(0)])]
    are_finite = [jnp.isfinite(x).all() for x in together + [x for x in flat if x.size > MOST_TOGETHER]]
    return structure.unflatten(found), jnp.stack(are_finite).all()


def _values(closed: Any, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The results of a program, and those of the functions of matrices in it."""
    jaxpr, inverted = closed.jaxpr, list[Any]()
    if not any(map(_has_matrices, jaxpr.eqns)):
        return jax.core.eval_jaxpr(jaxpr, closed.consts, *given), []
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *given], strict=True))

    def value(x: Any) -> Any:
        return x.val if isinstance(x, jex.Literal) else known[x]

    for eqn in jaxpr.eqns:
        inside = eqn.params.get(INSIDE.get(eqn.primitive.name, ""))
        values, has_matrices = [value(x) for x in eqn.invars], _has_matrices(eqn)
        if has_matrices and isinstance(inside, jex.ClosedJaxpr):
            results, others = _values(inside, values)
        else:
            results = as_function(eqn)(*values)
            others = results if has_matrices else []
        inverted += others
        known.update(zip(eqn.outvars, results, strict=True))
    return [value(x) for x in jaxpr.outvars], inverted


def _has_matrices(eqn: Any) -> bool:
    if eqn.primitive.name in SINGULAR:
        return True
    return any(_has_matrices(x) for one in jex.jaxprs_in_params(eqn.params) for x in one.eqns)

"""A derivative of a function of arrays, as a function of the same arguments: traced, differentiated and compiled once.

A trace serves all calls with arguments of the same shapes and types that take the same branches, as long as what the
function sees around it is the same. What a library of arrays does in its own way is asked of its `Library`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial, update_wrapper
from itertools import repeat
from typing import Any

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.core.recent import Seen
from eindiff.core.remembered import remembering
from eindiff.core.stages import stage
from eindiff.tracing.branches import Branches
from eindiff.tracing.closures import HashedOnce, Surroundings
from eindiff.tracing.computation import Computation, Lowered, Programs
from eindiff.tracing.derivatives import Kind, Options, Selection, check_directions, direction_name, selection
from eindiff.tracing.library import LEFT, Arguments, LeftToLibraryError, Library, NeedsLeavesError, Traced
from eindiff.tracing.names import function_name
from eindiff.tracing.verify import compare, interpreter

MOST_CALLS = 16  # of one function that are found without a look at what else is remembered
OFTEN, SOON = 50, 1  # calls, after which the library is asked for what takes less time


class TracedFunction:
    """A function of the same arguments that gives derivatives of another one.

    `lower(*args)` shows what runs; `traces` counts how often the function was traced, which is once for each set of
    shapes, types and known values.
    """

    def __init__(
        self, library: Library, kind: Kind, f: Callable, argnums: Any = 0, has_aux: bool = False,
        fallback: bool = False, verify: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self.library, self.kind, self.function = library, kind, f
        self.argnums = tuple(argnums) if isinstance(argnums, list | tuple) else argnums
        self.has_aux, self.fallback, self.verify, self.options = has_aux, fallback, verify, Options(**options)
        self.traces = 0
        self._memory = library.memory()
        self._wanted = HashedOnce((kind, self.options, self.argnums, has_aux))
        self._around: Surroundings | None = None
        self._epoch = library.epoch
        update_wrapper(self, f, updated=())

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The derivatives at some arguments."""
        return self._computed(args, keywords)

    def lower(self, /, *args: Any, **keywords: Any) -> Lowered:
        """The expressions and the program for arguments like these: `.expression`, `.formula`, `.source`, `.plan`."""
        arguments = self.library.read(self, args, keywords)
        arguments.may_be_left = False
        traced, found, computation = self._read(arguments)
        return computation.lowered(found, traced.opaque)

    def cache_info(self) -> dict[str, int]:
        """How often this function was traced, and how many traces are remembered in all."""
        return {"traces": self.traces, "remembered": len(self._memory)}

    def __repr__(self) -> str:
        return f"<{self.kind.name} of {function_name(self.function)}, traced {self.traces} times>"

    def _computed(self, args: tuple, keywords: dict[str, Any], directions: Any = None) -> Any:
        library = self.library
        try:
            arguments = library.read(self, args, keywords)
            traced, found, computation = self._read(arguments)
            if found is None:
                return computation(arguments, directions)
            arrays = self.arrays(arguments, traced)
            if directions is not None:
                arrays |= self._directions(found, directions)
            return computation.run(found, arrays)
        except EindiffError as reason:
            own = library.fall_back(self, reason) if self.fallback else None
            if own is None:
                raise
            library.log.info("%s of %s by %s: %s", self.kind.name, function_name(self.function), library.name, reason)
        return own(*args, **keywords, **({} if directions is None else {"tangents": directions}))

    def arrays(self, arguments: Arguments, traced: Traced) -> dict[str, Any]:
        """The arrays of the variables of a trace, by name."""
        leaves = arguments.leaves
        found = {x.name: leaves[k] for k, x in traced.inputs.items()}
        if traced.captured:
            found |= {name: x.get() if isinstance(x, Seen) else x for name, x in traced.captured.items()}
        return found

    def _read(self, arguments: Arguments) -> tuple[Traced, Any, Any]:
        """The trace and the program for arguments like these, made if there are none that still hold.

        Without a selection the program is the library's own, which is given the arguments as they are.
        """
        around = self._around
        if around is None or not around.holds() or self._epoch is not self.library.epoch:
            around, self._epoch = self.library.surroundings(self.function), self.library.epoch
            self._around = around
        call = self._call_key(arguments, around.looked_at and around.looked_at.get(arguments.key))
        found, turns = around.calls.get(call) or (None, repeat(0))
        if found is not None and found[0].holds() and (found[1] is not None or arguments.may_be_left):
            return found if next(turns, None) is not None else self._called_often(around, call, arguments, found)
        return self._found(around, arguments)

    def _found(self, around: Surroundings, arguments: Arguments) -> tuple[Traced, Any, Any]:
        """The same, kept for the next call with arguments like these if it stays."""
        looked_at = frozenset[int]()
        found: tuple[Traced, Any, Any]
        try:
            traced, key, looked_at = self._traced(around, arguments)
        except LeftToLibraryError as left:
            found, lasts = (LEFT, None, left.program), left.lasts
        else:
            with remembering():
                found = (traced, *self._ready(around, traced, arguments))
            is_done = self._wanted in traced.ready and traced.is_verified >= self.verify
            lasts = is_done and self._memory.get(key) is traced
        if lasts and arguments.may_be_left and not arguments.is_written:
            if len(around.calls) >= MOST_CALLS:
                around.calls.clear()
                around.looked_at.clear()
            if looked_at:
                around.looked_at[arguments.key] = looked_at
            around.calls[self._call_key(arguments, looked_at)] = found, self._turns(arguments, found)
        return found

    def _turns(self, arguments: Arguments, found: tuple[Traced, Any, Any]) -> Iterator[int]:
        """A turn for each call until the library is asked for what takes less time."""
        _, selected, computation = found
        if selected is None or arguments.is_inside:
            return repeat(0)
        return iter(range(SOON if self.library.has_many_calls(computation) else OFTEN))

    def _call_key(self, arguments: Arguments, looked_at: Collection[int] | None) -> Any:
        """What a call is known by: its arguments as they are read, where, and the values that the function looks at.
        One that is written into a program around it is known by nothing."""
        if arguments.is_written:
            return None
        if not looked_at:
            return (arguments.key, "inside") if arguments.is_inside else arguments.key
        if not self.library.are_knowable(arguments, looked_at):
            return None
        values = [(k, self.library.contents(self, arguments, k)) for k in sorted(looked_at)]
        return (arguments.key, arguments.is_inside, *values)

    def _called_often(
        self, around: Surroundings, call: Any, arguments: Arguments, found: tuple[Traced, Any, Any]
    ) -> Any:
        """What runs from now on."""
        traced, _, computation = found
        if arguments.may_be_left:
            own = self.library.again(self, arguments, traced, computation)
            found = found if own is None else (LEFT, None, own)
        around.calls[call] = found, repeat(0)
        return found

    def _ready(self, around: Surroundings, traced: Traced, arguments: Arguments) -> tuple[Any, Any]:
        """What is selected of a trace and the program for it; None and the library's own program if that is better."""
        ready = traced.ready.get(self._wanted)
        if ready is None:
            selected = selection(self, traced, arguments)
            if arguments.may_be_left and (own := self.library.meanwhile(self, arguments, around, traced)) is not None:
                return None, own
            ready = traced.ready[self._wanted] = (selected, self._computation(traced, selected))
            ready[1].expect(self.arrays(arguments, traced))
        if arguments.may_be_left:
            own = self.library.instead(self, arguments, around, traced, ready[1])
            return ready if own is None else (None, own)
        return ready

    def read(self, arguments: Arguments) -> Traced:
        """A trace for arguments like these, and the program for it; `values` runs that."""
        return self._read(arguments)[0]

    def values(self, arguments: Arguments, traced: Traced, directions: Any) -> Any:
        """What the program of a trace gives that is ready."""
        found, computation = traced.ready[self._wanted]
        return computation.run(found, self.arrays(arguments, traced) | self._directions(found, directions))

    def prepare(self, traced: Traced, backend: str) -> None:
        """Compile what is ready for the arrays of a library."""
        _, computation = traced.ready[self._wanted]
        computation.prepare(backend)

    def _directions(self, found: Selection, directions: Any) -> dict[str, Any]:
        """The arrays of the variables that stand for directions, by name."""
        if directions is None:
            return {}
        given, form = self.library.flatten(directions)
        check_directions(found, given, form)
        return dict(zip(map(direction_name, found.variables), given, strict=True))

    def _computation(self, traced: Traced, found: Selection) -> Computation:
        """The program, which serves other traces too, unless an opaque part has brought constants of its own."""
        key = (self.kind, self.options, found.key)
        computation = None if traced.opaque else self.library.computations.get(key)
        if computation is None:
            computation = Computation(self.kind, found, self.options)
            if not traced.opaque:
                self.library.computations.keep(key, computation)
        return computation

    # Traces

    def _traced(self, around: Surroundings, arguments: Arguments) -> tuple[Traced, Any, frozenset[int]]:
        """The function as expressions for arguments like these, its key, and the leaves whose values it looks at."""
        key: Any = (around.key, arguments.key)
        known, unknowable = frozenset[int](), None
        while True:
            found = self._memory.get(key)
            if isinstance(found, frozenset):  # it looks at the values of these leaves
                if key is not unknowable and not self.library.are_knowable(arguments, found):
                    key = unknowable = (key, None)  # it may be read without them, in another way
                    continue
                known |= found
                key = (key, *[self.library.contents(self, arguments, k) for k in sorted(found)])
                continue
            if isinstance(found, Branches):
                found = found.find(partial(self.arrays, arguments))
            if found is not None and found.holds() and (found.is_verified or not self.verify):
                return found, key, known
            try:
                return self._made(around, key, arguments, known, found), key, known
            except NeedsLeavesError as needed:
                self._memory.keep(key, needed.leaves - known)

    def _made(
        self, around: Surroundings, key: Any, arguments: Arguments, known: frozenset[int], found: Traced | None
    ) -> Traced:
        """A trace that is new, or that was not compared with the function yet."""
        traced = found
        if traced is None or not traced.holds():
            with stage("trace"):
                traced = self.library.trace(self, arguments, known, around, found)
            self.traces += 1
        if self.verify and not traced.is_verified:
            self._compare(arguments, traced)
        if traced is not found and traced.is_lasting:
            arrays = [array for _, array in around.arrays.values()]
            kept = self._with_branches(key, traced)
            nbytes = sum(one.nbytes for one in kept) if isinstance(kept, Branches) else traced.nbytes
            self._memory.keep(key, kept, nbytes, arrays)
            if traced.is_verified and not around.holds():  # it counts its calls, for instance, without an effect
                self._around = again = self.library.surroundings(self.function)
                self._memory.keep(_moved(key, around.key, again.key), kept, nbytes, arrays)
        return traced

    def _with_branches(self, key: Any, traced: Traced) -> Traced | Branches:
        """What is remembered: a trace as it is, or together with those of other branches."""
        if not traced.answers:
            return traced
        before = self._memory.get(key)
        branches = before if isinstance(before, Branches) else Branches(self.library)
        branches.keep(traced)
        return branches

    def _compare(self, arguments: Arguments, traced: Traced) -> None:
        """Compare the traced function with itself, if there are numbers to do so."""
        library, given = self.library, self.arrays(arguments, traced)
        if not traced.is_lasting or not arguments.has_values or not library.are_numbers(given):
            return
        is_elsewhere, arrays, apart = library.is_accelerated(given), library.settled(given), traced.stops.apart

        def values(exprs: list[Expr]) -> Callable[[Mapping[str, Any]], list[Any]]:
            programs = Programs(exprs, dtype=traced.dtype)
            return lambda given: programs(library, library.completed(given, apart)) if exprs else []

        if sum(values(traced.stops.put_in(list(traced.outside)))(arrays)) <= 0:  # else the library has its own rules
            exprs = traced.stops.put_in([x for x in traced.outputs if isinstance(x, Expr)])
            plain = partial(library.plain_call, self, arguments, traced)
            form = (traced.structure, [x for x in traced.types if x is not None])
            quick = None if is_elsewhere or apart else interpreter(exprs, values(exprs))
            compare(self.function, values(exprs), arrays, plain, form, is_elsewhere, quick)
        traced.is_verified = True


def _moved(key: Any, old: Any, new: Any) -> Any:
    """The key of a trace for other surroundings."""
    return (new, *key[1:]) if key[0] is old else (_moved(key[0], old, new), *key[1:])


class HessianProduct(TracedFunction):
    """A Hessian-vector product: a function of the arguments, and of `tangents` in their structure."""

    def __call__(self, /, *args: Any, tangents: Any, **keywords: Any) -> Any:
        return self._computed(args, keywords, tangents)

    def lower(self, /, *args: Any, tangents: Any = None, **keywords: Any) -> Lowered:
        """The expressions and the program for arguments like these."""
        return super().lower(*args, **keywords)

"""Programs for what is asked of traced functions, and what they give to the reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from eindiff.calculus.kinks import away_from_kinks, zeros
from eindiff.core.nodes import Expr, Variable, plain, topological
from eindiff.core.recent import once
from eindiff.program.compiled import Compiled
from eindiff.program.inputs import likely_type
from eindiff.program.interpreter import flatten
from eindiff.program.plan import Plan
from eindiff.structure.compile import compile
from eindiff.tracing.derivatives import Kind, Options, ResultPart, Selection, auxiliary, is_bare, nested, value
from eindiff.tracing.library import Library

MOST_KNOWN = 2**16  # entries of results that depend on nothing and are computed by NumPy,
MOST_OF_MANY, MANY = 2**18, 8  # and of those that so many nodes are computed for: others are written as fast as copied
MOST_SHARED = 2**12  # entries of a result that is kept to be given again


class Programs:
    """Expressions, compiled for each library whose arrays are given."""

    def __init__(self, exprs: list[Any], form: str = "dense", dtype: Any = None) -> None:
        self.exprs, self._form, self._dtype = exprs, form, dtype
        self.likely = "float64"  # type of the arrays that are given
        self._made: dict[str, Compiled] = {}
        dense = [plain(x) for x in exprs if isinstance(x, Expr)] if form == "dense" else []
        order = topological(dense)
        most = MOST_OF_MANY if len(order) > MANY else MOST_KNOWN
        are_all = len(dense) == len(exprs)
        self._needed = {x.name for x in order if isinstance(x, Variable)} if are_all else None
        self._may_be_known = sum(prod(map(int, x.shape)) for x in dense) <= most
        constant = _constants(order)
        small = [k for k, x in enumerate(dense) if x in constant and prod(map(int, x.shape)) <= MOST_SHARED]
        self.constant = small if are_all else []  # what depends on nothing, and takes no memory to speak of
        self.changing = sorted({*range(len(exprs))}.difference(self.constant))

    def __call__(self, library: Library, arrays: Mapping[str, Any]) -> list[Any]:
        """The values, in the library of their choice."""
        results = self.results(library, arrays)
        return results if len(self.exprs) > 1 else [results]

    @cached_property
    def moving(self) -> Programs:
        """For what is to be computed at each call, if there is anything."""
        return self.part(self.changing) if self.constant and self.changing else self

    def part(self, places: Sequence[int]) -> Programs:
        """For some of the expressions."""
        found = Programs([self.exprs[k] for k in places], self._form, self._dtype)
        found.likely = self.likely
        return found

    def is_known(self, names: Collection[str]) -> bool:
        """Whether nothing is needed but the arrays of these names: in a library that folds NumPy computes it."""
        return self._needed is not None and self._may_be_known and self._needed <= set(names)

    def results(self, library: Library, arrays: Mapping[str, Any]) -> Any:
        """The values, or the only one."""
        needed = self._needed
        if needed is not None and library.folds and not needed.issuperset(arrays):
            arrays = {name: x for name, x in arrays.items() if name in needed or self._tells_library(x, arrays)}
        backend, given = library.inputs(arrays, self._form)
        if backend not in self._made:
            self.likely = likely_type(given)
        return (self._made.get(backend) or self.compiled(backend))(**given)

    def _tells_library(self, array: Any, arrays: Mapping[str, Any]) -> bool:
        """Whether an array that is not needed tells which library computes. NumPy's are left out where others tell it:
        they take time to become inputs; all are where what is needed may be known, which NumPy computes."""
        if self._may_be_known:
            return False
        return not isinstance(array, np.ndarray) or all(isinstance(x, np.ndarray) for x in arrays.values())

    def compiled(self, backend: str | None = None) -> Compiled:
        """The program of a library; without one that which was made last."""
        backend = backend or next(reversed(self._made), "numpy")
        if backend not in self._made:
            exprs = self.exprs if len(self.exprs) > 1 else self.exprs[0]
            self._made[backend] = compile(exprs, backend, self._dtype, form=self._form, likely=self.likely)
        return self._made[backend]


class Computation:
    """Parts of a result, compiled together. It serves all traces that are the same expressions.

    Where many kinks would meet, the program is one for all arrays at which they do not, which it finds out. Another one
    is made when there are arrays at which they do.
    """

    def __init__(self, kind: Kind, s: Selection, options: Options, everywhere: bool = False) -> None:
        with away_from_kinks(s.library.sees_numbers and not (options.structured or everywhere)) as kinks:
            self.parts = [part(s, options) for part in kind.parts]
        self._zeros = s.stops.put_in([zeros(kinks)]) if kinks else []
        self._everywhere = once(lambda: Computation(kind, s, options, everywhere=True))
        if s.aux_structure is not None:
            self.parts.append(auxiliary(s))
        self._value_at = kind.parts.index(value) if value in kind.parts else None
        self._outside = s.outside
        self.is_better_elsewhere: dict[bool, bool] = {}  # whether the library does, in a program of its own and alone
        self._programs: dict[str, Programs] = {}
        self._types: dict[str, list[Any]] = {}  # that values are given
        self._add_programs("dense", s.dtype, [*self._zeros, *self._outside])
        self._add_programs("structured", s.dtype, [])
        self._known: list[Any] = []  # all arrays that depend on nothing, once they are made
        self._look_for_short_ways()

    def _look_for_short_ways(self) -> None:
        """Whether the result is one array, or arrays that one program computes."""
        [first, *others] = self.parts
        self._type = first.types[0]
        self._single: Programs | None = None
        self._arrays: Programs | None = None
        if self._outside or self._zeros or any(part.finish for part in self.parts):
            return
        inside = [[x for x in part.structures if not is_bare(x)] for part in self.parts]
        if not others and len(first.exprs) == 1 and not inside[0]:
            self._single = self._programs[first.form]
        if self.gives_arrays:
            self._arrays = self.dense
        self._structures = inside  # those of values that are more than one array
        self._whole = inside[0][0] if self._arrays and not others and len(inside[0]) == 1 else None

    def _add_programs(self, form: str, dtype: Any, more: list[Any]) -> None:
        """The programs of all parts in a form, and of more expressions, if there is anything to compute."""
        parts = [part for part in self.parts if part.form == form]
        exprs = [x for part in parts for x in part.exprs if not _is_plain(x)]
        if exprs:
            self._programs[form] = Programs([*exprs, *more], form, dtype)
            self._types[form] = [x for part in parts for x in _types(part)] + [None] * len(more)

    def run(self, s: Selection, arrays: Mapping[str, Any]) -> Any:
        """The result for the arrays of all variables."""
        arrays = s.library.completed(arrays, s.stops.apart) if s.stops.apart else arrays
        if self._single is not None:
            return s.library.all_typed([self._single.results(s.library, arrays)], [self._type], arrays)[0]
        if self._arrays is not None:
            found = self._every(self._arrays, s.library, arrays)
            if self._whole is not None:
                return self._whole.unflatten(found)
            every = iter(found)
            results = [nested(every, structures) for structures in self._structures]
        else:
            assembled = self._assembled(s, arrays)
            if assembled is None:
                return self._everywhere().run(s, arrays)
            results = assembled
        if s.aux_structure is not None and self._value_at is not None:
            aux = results.pop()
            results[self._value_at] = (results[self._value_at], aux)
        return results[0] if len(results) == 1 else tuple(results)

    def _assembled(self, s: Selection, arrays: Mapping[str, Any]) -> list[Any] | None:
        """All parts, some of which are no arrays that are computed together; None where kinks may be left out."""
        if self._zeros and not s.library.are_numbers(arrays):
            return None
        found = {
            form: s.library.all_typed(programs(s.library, arrays), self._types[form], arrays)
            for form, programs in self._programs.items()
        }
        if self._zeros and found["dense"][-1 - len(self._outside)] > 0:
            return None
        outside = sum(found["dense"][-len(self._outside) :]) if self._outside and "dense" in found else None
        values = {form: iter(results) for form, results in found.items()}
        return [self._assembled_part(s, part, values, arrays, outside) for part in self.parts]

    def _every(self, programs: Programs, library: Library, arrays: Mapping[str, Any]) -> list[Any]:
        """All arrays. Those that depend on nothing are made once, if nobody can change them."""
        types = self._types["dense"]
        if not programs.constant or not library.may_share(arrays):
            return library.all_typed(programs(library, arrays), types, arrays)

        def fill(part: Programs, places: Sequence[int], results: list[Any]) -> None:
            values = library.all_typed(part(library, arrays), [types[k] for k in places], arrays)
            for k, x in zip(places, values, strict=True):
                results[k] = x

        if not self._known or not library.are_lasting([self._known[k] for k in programs.constant]):
            self._known = [None] * len(types)
            fill(programs.part(programs.constant), programs.constant, self._known)
        every = self._known.copy()
        if programs.changing:
            fill(programs.moving, programs.changing, every)
        return every

    def _assembled_part(
        self, s: Selection, part: ResultPart, values: Mapping[str, Any], arrays: Mapping[str, Any], outside: Any
    ) -> Any:
        is_aux = s.aux_structure is not None and part is self.parts[-1]
        exprs = s.aux if is_aux else part.exprs
        if part.finish is not None:
            numbers = [x if _is_plain(x) else next(values[part.form]) for x in exprs]
            return nested(map(part.finish, numbers), part.structures)
        typed = [
            s.library.typed(x, dtype, arrays) if _is_plain(x) else next(values[part.form])
            for x, dtype in zip(exprs, part.types, strict=True)
        ]
        if outside is not None and not is_aux and part.form == "dense":
            typed = [s.library.spoiled(x, outside) for x in typed]
        return nested(iter(typed), part.structures)

    def lowered(self, s: Selection, opaque: Mapping[str, str]) -> Lowered:
        """What runs, to be read; at kinks too."""
        if self._zeros:
            return self._everywhere().lowered(s, opaque)
        part = self.parts[-1 if s.aux_structure is None else -2]
        whole = s.output_structure.unflatten(s.stops.put_in(s.outputs))
        program = self._programs[part.form].compiled()
        expression = nested(iter(part.exprs), part.structures)
        return Lowered(whole, expression, dict(opaque), part.exprs, program, s.library.formula)

    def expect(self, arrays: Mapping[str, Any]) -> None:
        """Programs are for arrays like these, where they are made before any are given."""
        for programs in self._programs.values():
            programs.likely = likely_type(arrays)

    def prepare(self, backend: str) -> None:
        """Compile all programs for the arrays of a library, which may have no values."""
        if self._zeros:
            return self._everywhere().prepare(backend)
        for programs in self._programs.values():
            programs.compiled(backend)

    @property
    def dense(self) -> Programs | None:
        """The programs of all that is given as arrays, if that is all."""
        return self._programs["dense"] if list(self._programs) == ["dense"] else None

    @property
    def gives_arrays(self) -> bool:
        """Whether all that is given are arrays that are computed."""
        parts = self.parts if self.dense is not None else []
        return bool(parts) and not any(part.finish or any(map(_is_plain, part.exprs)) for part in parts)

    @property
    def exprs(self) -> list[Expr]:
        """All that is computed."""
        return [x for programs in self._programs.values() for x in flatten(programs.exprs)]


def _constants(order: Sequence[Expr]) -> set[Expr]:
    """Those of some nodes, each after its children, that depend on nothing."""
    found: set[Expr] = set()
    for node in order:
        if not isinstance(node, Variable) and found.issuperset(node.children):
            found.add(node)
    return found


def _types(part: ResultPart) -> list[Any]:
    """The types of the values that are computed for a part; None where something else is made of them."""
    types = part.types if part.finish is None else [None] * len(part.exprs)
    return [dtype for x, dtype in zip(part.exprs, types, strict=True) if not _is_plain(x)]


def _is_plain(x: Any) -> bool:
    """Whether an auxiliary result is neither an expression nor made of them: it is given back as it is."""
    return not isinstance(x, Expr | list) and not hasattr(x, "parts")


@dataclass(frozen=True, slots=True)
class Lowered:
    """What runs for a function and arguments of certain shapes, to be read.

    >>> import torch
    >>> from eindiff.torch import lower
    >>> lower(lambda x: (x**3).sum())(torch.ones(2)).formula
    '6*diag(x)'

    See also: `lower`.
    """

    function: Any  # itself as an expression; in the structure of what it gives if there are several
    expression: Any  # the derivative as an expression, or several in their structure
    opaque: dict[str, str]  # the parts that the library computes and differentiates, and where they are
    exprs: Any
    program: Compiled
    text: Callable[[Any], str] | None

    @property
    def formula(self) -> str:
        """The derivative as text, one line for each block."""
        from eindiff.text.write.to_text import to_text  # for start-up time

        return self.text(self.expression) if self.text else "\n".join(map(to_text, flatten(self.exprs)))

    @property
    def source(self) -> str:
        """The program that runs."""
        return self.program.source

    @property
    def plan(self) -> Plan:
        """What each line of the program costs."""
        return self.program.plan()

    def __repr__(self) -> str:
        return self.formula

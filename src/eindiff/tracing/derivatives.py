"""Derivatives of traced functions: what is computed, as expressions, and in which structures the values are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from eindiff.calculus import contracted, derive
from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable
from eindiff.functions import multilinear as arrays
from eindiff.tracing.library import Arguments, Library, Recurrence, Stops, Traced
from eindiff.tracing.names import function_name

if TYPE_CHECKING:
    from eindiff.structure.derivative import Derivative
    from eindiff.structure.newton import Step

# What is differentiated by what


@dataclass(frozen=True, slots=True)
class Options:
    """How a derivative is wanted."""

    structured: bool = False
    together: bool = False  # one structured value for all outputs, not one for each
    mode: str = "auto"
    modes: tuple[str, str] = ("jacrev", "jacfwd")  # of the two derivatives of a Hessian
    damping: float | str = 0.0  # of a Newton step


@dataclass(frozen=True, slots=True)
class Selection:
    """The outputs of a traced function that are differentiated, the variables, and the structures of both."""

    library: Library
    name: str  # of the derivative
    outputs: list[Expr]
    output_types: list[Any]
    output_structure: Any
    aux: list[Any]
    aux_types: list[Any]
    aux_structure: Any  # None if there is none
    variables: list[Variable]
    variable_types: list[Any]
    variable_structure: Any
    stops: Stops
    outside: list[Expr]
    dtype: Any
    recurrences: Sequence[Recurrence] = ()

    @property
    def key(self) -> tuple:
        """What a program depends on. Equal expressions are one object."""
        aux = [x if isinstance(x, Expr) else None for x in self.aux]
        types = (self.output_types, self.aux_types, self.variable_types)
        stops = (self.stops.always.items(), self.stops.in_reverse.items())
        structures = (self.output_structure, self.aux_structure, self.variable_structure)
        parts: list[Any] = [self.outputs, aux, self.variables, self.outside, *types, *stops, self.recurrences]
        return (*map(tuple, parts), *structures, self.dtype)

    def numbers(self, what: str) -> list[Expr]:
        """The outputs, which have to be numbers."""
        self.library.check_numbers(what, self.outputs, self.name)
        return self.outputs

    def symmetric(self) -> None:
        """Refuse a function whose second derivatives are not symmetric in its library."""
        if self.stops.in_reverse:
            raise EindiffError(
                "PyTorch's gradient of this function is not its derivative (an embedding with padding_idx or "
                "scale_grad_by_freq, a variance that is clamped), so its Hessian is not symmetric here; grad, "
                "jacrev, jacfwd, hessian and hvp give what PyTorch gives",
                "tracing",
            )


def selection(function: Any, traced: Traced, arguments: Arguments) -> Selection:
    """The part of a trace that a derivative is asked of."""
    library = function.library
    places, aux = traced.structure.unflatten(range(len(traced.outputs))), None
    if function.has_aux:
        if not isinstance(places, tuple) or len(places) != 2:
            name = function_name(function.function)
            raise EindiffError(f"has_aux=True: {name} must return a pair (value, auxiliary results)", "options")
        places, aux = places
    which, form = library.flatten(places)
    for problem in filter(None, [library.problem(traced, k) for k in which]):
        raise EindiffError(problem, "tracing")
    others, aux_form = library.flatten(aux) if function.has_aux else ([], None)
    chosen, variable_form = library.chosen(function, arguments)
    exprs = [x for k in others if isinstance(x := traced.outputs[k], Expr)]
    values = dict(zip(exprs, traced.stops.put_in(exprs), strict=True))
    return Selection(
        library, getattr(function, "__name__", ""),
        [traced.outputs[k] for k in which], [traced.types[k] for k in which], form,
        [values.get(x, x) if isinstance(x := traced.outputs[k], Expr) else x for k in others],
        [traced.types[k] for k in others], aux_form,
        [traced.inputs[k] for k in chosen], [library.type_of(arguments.leaves[k]) for k in chosen], variable_form,
        traced.stops, traced.stops.put_in(list(traced.outside)), traced.dtype,
        traced.recurrences,
    )  # fmt: skip


# What is computed


@dataclass(frozen=True, slots=True)
class ResultPart:
    """Some values that are computed, and how they are put together: one structure inside the other."""

    exprs: list[Any]  # expressions; for structured values grids of them; or Newton steps
    types: list[Any]
    structures: tuple[Any, ...]
    form: str = "dense"
    finish: Callable[[Any], Any] | None = None  # what is made of each value


def nested(values: Iterator[Any], structures: Sequence[Any]) -> Any:
    """Values in turn, in structures one inside the other."""
    if not structures:
        return next(values)
    first, *rest = structures
    count = first.num_leaves
    return first.unflatten([nested(values, rest) for _ in range(count)] if rest else list(islice(values, count)))


def is_bare(structure: Any) -> bool:
    """Whether a structure is that of one value."""
    marked = object()
    return structure.num_leaves == 1 and structure.unflatten([marked]) is marked


def value(s: Selection, options: Options) -> ResultPart:
    """The function itself."""
    return ResultPart(s.stops.put_in(s.outputs), s.output_types, (s.output_structure,))


def auxiliary(s: Selection) -> ResultPart:
    """What a function gives beside its value: arrays, and anything else as it is."""
    return ResultPart(s.aux, s.aux_types, (s.aux_structure,))


def gradient(s: Selection, options: Options) -> ResultPart:
    """The derivative of the one number that a function gives, or of each."""
    rows = [s.stops.put_in(derive.jacobian(y, s.variables, options.mode)) for y in s.numbers("the gradient")]
    lead = (s.output_structure,) if len(rows) > 1 else ()
    return ResultPart([x for row in rows for x in row], s.variable_types * len(rows), (*lead, s.variable_structure))


def jacobian(s: Selection, options: Options, forward: bool = False) -> ResultPart:
    """The derivative of each output by each variable, in the type of the variable; in forward mode of the output."""
    outputs = Stops(in_reverse=s.stops.in_reverse).put_in(s.outputs) if forward else s.outputs
    blocks = [s.stops.put_in(derive.jacobian(y, s.variables, options.mode)) for y in outputs]
    if options.structured:
        return _structured(s, options, [[row] for row in blocks])
    types = [one if forward else x for one in s.output_types for x in s.variable_types]
    return ResultPart([x for row in blocks for x in row], types, (s.output_structure, s.variable_structure))


def jacobian_forward(s: Selection, options: Options) -> ResultPart:
    """The same in forward mode."""
    return jacobian(s, options, forward=True)


def hessian(s: Selection, options: Options) -> ResultPart:
    """The second derivative of each output by each pair of variables."""
    if options.structured and options.together:
        s.numbers("a structured Hessian")
    if s.recurrences:
        return _eliminated(s, options)
    grids = [_second(s, y, options) for y in s.outputs]
    if options.structured:
        return _structured(s, options, grids)
    types = [one for _ in grids for one in s.variable_types for _ in s.variable_types]
    exprs = [x for grid in grids for row in grid for x in row]
    return ResultPart(exprs, types, (s.output_structure, s.variable_structure, s.variable_structure))


def _eliminated(s: Selection, options: Options) -> ResultPart:
    """That of a function of recurrences, as a Schur complement."""
    from eindiff.structure.eliminated import Eliminated  # for start-up time

    f, variables, stops = _lagrangian(s)
    grid = [stops.put_in(row) for row in derive.hessian(f, variables, options.mode)]
    return ResultPart([grid], [None], (), "structured", partial(Eliminated, kept=len(s.variables)))


def _lagrangian(s: Selection) -> tuple[Expr, list[Variable], Stops]:
    """A function with its recurrences as constraints, its variables with states and multipliers, and their values."""
    [f], values = s.outputs, dict(s.stops.always)
    for one in reversed(s.recurrences):
        values |= dict(zip(one.multipliers, one.adjoint(derive.gradient(f, one.states)), strict=True))
        f = arrays.add(f, *map(arrays.inner, one.multipliers, one.defects))
    states = [x for one in s.recurrences for x in one.states]
    multipliers = [x for one in s.recurrences for x in one.multipliers]
    return f, [*s.variables, *states, *multipliers], replace(s.stops, always=values)


def _structured(s: Selection, options: Options, grids: list[list[list[Expr]]]) -> ResultPart:
    if options.together:
        return ResultPart([[row for grid in grids for row in grid]], [None], (), "structured")
    return ResultPart(grids, s.output_types, (s.output_structure,), "structured")


def _second(s: Selection, y: Expr, options: Options) -> list[list[Expr]]:
    """The derivative of the derivative, which differs with the modes where a value is constant in one of them.

    In reverse mode twice it is symmetric: such a value is constant throughout.
    """
    if not s.stops.in_reverse or options.structured or options.modes == ("jacrev", "jacrev"):
        blocks = derive.hessian_blocks(y, s.variables, options.mode, dense=not options.structured)
        return [s.stops.put_in(row) for row in blocks]
    first, second = options.modes
    if second == "jacrev":
        s.symmetric()
    rows = derive.jacobian(s.stops.put_in([y])[0] if first == "jacfwd" else y, s.variables)
    return [derive.jacobian(row, s.variables) for row in s.stops.put_in(rows)]


def diagonal(s: Selection, options: Options) -> ResultPart:
    """The diagonal of the Hessian of the one number, in the shapes of the variables."""
    [f] = s.numbers("the diagonal of the Hessian")
    found = s.stops.put_in([contracted.hessian_diagonal(f, x) for x in s.variables])
    return ResultPart(found, s.variable_types, (s.variable_structure,))


def product(s: Selection, options: Options) -> ResultPart:
    """The Hessian times a direction: the derivative of the slope along it."""
    [f] = s.numbers("the Hessian-vector product")
    gradients = derive.gradient(f, s.variables)
    directions = [construct.variable(direction_name(x), x.shape) for x in s.variables]
    slope = arrays.add(*map(arrays.inner, gradients, directions))
    return ResultPart(s.stops.put_in(derive.gradient(slope, s.variables)), s.variable_types, (s.variable_structure,))


def field(of: Callable[[Expr, Expr], Expr]) -> Kind:
    """A differential operator by the one variable, of each output."""

    def part(s: Selection, options: Options) -> ResultPart:
        s.symmetric()
        if len(s.variables) != 1:
            raise EindiffError(
                f"a differential operator is by one array, a point, not by {len(s.variables)}", "options"
            )
        found = s.stops.put_in([of(y, s.variables[0]) for y in s.outputs])
        return ResultPart(found, s.output_types, (s.output_structure,))

    return Kind("operator", (part,))


def direction_name(x: Variable) -> str:
    """The variable that holds a direction of another one."""
    return f"direction_{x.name}"


def check_directions(s: Selection, given: Sequence[Any], form: Any) -> None:
    """Refuse directions that have not the structure and the shapes of the variables."""
    if form != s.variable_structure:
        raise EindiffError(f"tangents has the structure {form}; the arguments have {s.variable_structure}", "tracing")
    for x, v in zip(s.variables, given, strict=True):
        if tuple(np.shape(v)) != x.shape:
            raise EindiffError(f"the tangent of {x.name} has shape {tuple(np.shape(v))} instead of {x.shape}", "shapes")


@dataclass(frozen=True, slots=True)
class Newton:
    """A Newton step, `(H + damping I) step = -gradient`, in the structure of the arguments.

    >>> import torch
    >>> from eindiff.torch import newton_step
    >>> newton_step(lambda x: (x**2).sum())(torch.ones(2)).step
    tensor([-1., -1.])

    See also: `newton_step`.
    """

    step: Any
    damping: float
    gradient: Any
    hessian: Derivative
    decrease: float  # of the quadratic model along the step


def newton_step(s: Selection, options: Options) -> ResultPart:
    """The Newton step by all variables at once."""
    from eindiff.structure import newton  # for start-up time: all solvers

    s.numbers("a Newton step")
    f, variables, stops = _lagrangian(s)
    found: Any = newton.newton_step(f, variables, damping=options.damping)
    if stops.always or stops.in_reverse:
        rows = [stops.put_in(list(row)) for row in (found.gradient[: len(s.variables)], *found.hessian)]
        kept = len(s.variables) if s.recurrences else None
        found = newton.NewtonStep(tuple(rows[0]), tuple(map(tuple, rows[1:])), found.damping, kept)

    def finished(step: Step) -> Newton:
        shaped = [
            s.variable_structure.unflatten(
                [s.library.typed(np.asarray(x), t, {}) for x, t in zip(parts, s.variable_types, strict=True)]
            )
            for parts in (step.step, step.gradient)
        ]
        return Newton(shaped[0], step.damping, shaped[1], step.hessian, step.decrease)

    return ResultPart([found], [None], (), finish=finished)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is asked of a function: one derivative, or several that share their work."""

    name: str
    parts: tuple[Callable[[Selection, Options], ResultPart], ...]


GRADIENT, JACREV, JACFWD = Kind("grad", (gradient,)), Kind("jacrev", (jacobian,)), Kind("jacfwd", (jacobian_forward,))
HESSIAN, DIAGONAL, PRODUCT = Kind("hessian", (hessian,)), Kind("hessian_diagonal", (diagonal,)), Kind("hvp", (product,))
VALUE_GRADIENT, GRADIENT_VALUE = Kind("value_and_grad", (value, gradient)), Kind("grad_and_value", (gradient, value))
VALUE_GRADIENT_HESSIAN = Kind("value_grad_hessian", (value, gradient, hessian))
NEWTON = Kind("newton_step", (newton_step,))


def is_eliminated(function: Any) -> bool:
    """Whether a Hessian is given as an operator, in which states of recurrences may be eliminated."""
    return function.kind is NEWTON or (function.kind is HESSIAN and function.options.structured)

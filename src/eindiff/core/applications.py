"""Functions applied to expressions: the constructors of Map and Apply nodes."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.core.einsums import einsum, filled, is_number, parts, product, transpose, transpose_core
from eindiff.core.function import Function
from eindiff.core.labels import Labels, Symmetry
from eindiff.core.nodes import Apply, Einsum, Expr, Map, intern, is_diagonal, plain
from eindiff.core.rewrite import rewrite
from eindiff.core.sizes import Shape, Size


def map_(function: Function, args: Sequence[Expr]) -> Expr:
    """An elementwise function of arguments of one shape, in canonical form.

    Axes along which nothing changes and transpositions are taken out first, so that rules see the bare arguments.
    """
    args = tuple([plain(arg) for arg in args])
    shape = args[0].shape
    kept = [axis for axis in range(len(shape)) if not all(_is_unbound(arg, axis) for arg in args)]
    if len(kept) < len(shape):
        return _spread(map_(function, [_drop(arg, kept) for arg in args]), kept, shape)
    axes = _orientation(args)
    if axes != tuple(range(len(shape))):
        turned = map_(function, [transpose(arg, axes) for arg in args])
        return transpose(turned, [axes.index(axis) for axis in range(len(shape))])
    if (rewritten := rewrite(function.name, *function.rule_arguments, *args)) is not None:
        return rewritten
    numbers = [arg.coefficient for arg in args if is_number(arg)]
    if len(numbers) == len(args):
        return filled(function.fold(numbers), shape)
    return intern(
        Map, (function.identity, [arg.digest for arg in args]), function=function, args=args, shape=shape,
        symmetries=_common_swap(args),
    )  # fmt: skip


Map.make = map_


def _orientation(args: tuple[Expr, ...]) -> tuple[int, ...]:
    """The order of axes in which arguments are stored: that of the first that is one factor, and not symmetric.

    It is the same for all multiples of an argument, so that exp(x) and exp(-x) are stored alike.
    """
    identity = tuple(range(args[0].ndim))
    if len(identity) < 2:
        return identity
    for arg in args:
        _, factors, _, _ = parts(arg)
        if len(factors) == 1 and sorted(factors[0][1]) == list(identity) and not factors[0][0].symmetries:
            return factors[0][1]
    if len(identity) > 2:
        return identity
    return min([identity, (1, 0)], key=lambda axes: [_bare_digest(transpose(arg, axes)) for arg in args])


def _bare_digest(arg: Expr) -> bytes:
    _, factors, output, sizes = parts(arg)
    return product(1, factors, output, sizes).digest


def _common_swap(args: tuple[Expr, ...]) -> tuple[Symmetry, ...]:
    """The exchange of two axes that leaves all arguments as they are, if there is one alone: a group of two."""
    found = [swap for swap in _swaps(args[0].shape) if all(transpose(arg, swap) is arg for arg in args)]
    return ((found[0], 1),) if len(found) == 1 else ()


def _swaps(shape: Shape) -> list[tuple[int, ...]]:
    """The exchanges of two axes of equal size."""
    swaps = []
    for a in range(len(shape)):
        for b in range(a + 1, len(shape)):
            if shape[a] == shape[b]:
                axes = list(range(len(shape)))
                axes[a], axes[b] = b, a
                swaps.append(tuple(axes))
    return swaps


def _is_unbound(arg: Expr, axis: int) -> bool:
    """Whether an expression is the same all along an axis."""
    return isinstance(arg, Einsum) and arg.same_along(axis)


def _drop(arg: Expr, kept: Sequence[int]) -> Expr:
    """An expression without the axes along which it is the same."""
    coefficient, factors, output, sizes = parts(arg)
    return product(coefficient, factors, tuple([output[axis] for axis in kept]), sizes)


def _spread(expr: Expr, kept: Sequence[int], shape: Shape) -> Expr:
    """An expression repeated along the axes that `_drop` took away."""
    return einsum(1, [(expr, tuple(kept))], tuple(range(len(shape))), dict(enumerate(shape)))


def apply(function: Function, args: Sequence[Expr], batch: Sequence[Labels] | None = None) -> Expr:
    """A function of whole tensors, in canonical form. Leading axes beyond the function's core are batch axes."""
    args = tuple([plain(arg) for arg in args])
    if batch is None:
        batch = _leading_axes(function, args)
    if not any(batch):
        given = [_with_delta(arg) for arg in args]
        if (rewritten := rewrite(function.name, *given)) is not None:
            return rewritten
    factors = list(zip(args, batch, strict=True))
    sizes: dict[int, Size] = {}
    for arg, labels in factors:
        sizes.update(zip(labels, arg.shape, strict=False))
    names = sorted(sizes)
    kept = [label for label in names if not _is_same_along(label, factors)]
    if len(kept) < len(names):
        return _unbatched(function, args, batch, sizes, kept)
    rename = {label: index for index, label in enumerate(names)}
    batch = tuple([tuple([rename[x] for x in labels]) for labels in batch])
    cores = [arg.shape[len(labels) :] for arg, labels in factors]
    shape = tuple([sizes[x] for x in names]) + function.output_shape(cores)
    return intern(
        Apply, (function.identity, [arg.digest for arg in args], batch), function=function, args=args, batch=batch,
        shape=shape, symmetries=_core_swap(function, args, len(shape)),
    )  # fmt: skip


def _leading_axes(function: Function, args: Sequence[Expr]) -> list[Labels]:
    """The axes of arguments beyond the function's core, as labels that are the same for all."""
    return [tuple(range(arg.ndim - core)) for arg, core in zip(args, function.core, strict=True)]


def _with_delta(x: Expr) -> Expr:
    """A diagonal variable as its diagonal, which rules know."""
    return einsum(1, [(x, (0, 1))], (0, 1), dict(enumerate(x.shape))) if is_diagonal(x) else x


def _is_same_along(label: int, factors: Sequence[tuple[Expr, Labels]]) -> bool:
    """Whether all arguments are the same along a batch axis."""
    return all(_is_unbound(arg, labels.index(label)) for arg, labels in factors if label in labels)


def _core_swap(function: Function, args: tuple[Expr, ...], order: int) -> tuple[Symmetry, ...]:
    """The exchange of the last two axes of the result, if the function keeps that symmetry of its arguments."""
    if not function.keeps_symmetry or not all(transpose_core(arg) is arg for arg in args):
        return ()
    return (((*range(order - 2), order - 1, order - 2), 1),)


def _unbatched(
    function: Function, args: tuple, batch: Sequence[Labels], sizes: dict[int, Size], kept: list[int]
) -> Expr:
    """The function without the batch axes along which all arguments are the same, repeated along them."""
    smaller = []
    for arg, labels in zip(args, batch, strict=True):
        axes = [axis for axis, label in enumerate(labels) if label in kept]
        smaller.append(_drop(arg, [*axes, *range(len(labels), arg.ndim)]))
    inner = apply(function, smaller, [tuple([x for x in labels if x in kept]) for labels in batch])
    core = range(len(sizes), len(sizes) + inner.ndim - len(kept))
    names = sorted(sizes)
    rename = {label: index for index, label in enumerate(names)}
    shape = tuple([sizes[x] for x in names]) + inner.shape[len(kept) :]
    return _spread(inner, [*(rename[x] for x in kept), *core], shape)

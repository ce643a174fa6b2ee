"""The algebra of networks, factors with labels: contractions opened, and factors found among others.

A *factor* is an expression with a label for each of its axes; in a network, labels that are equal are one index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from eindiff.core.labels import Labels, best_arrangement
from eindiff.core.nodes import Add, Einsum, Expr, is_index_map, remember
from eindiff.core.sizes import Size

Factor = tuple[Expr, Labels]
Names = dict[int, int]  # of labels of one network in another one


def new_label(sizes: dict[int, Size], size: Size) -> int:
    """A label that is not in use yet, of the given size, which is added to the sizes."""
    label = 1 + max(sizes, default=-1)
    sizes[label] = size
    return label


def fresh_in(sizes: dict[int, Size]) -> Callable[[Size], int]:
    """A source of labels that are not in use yet."""
    return partial(new_label, sizes)


def opened(
    node: Einsum, labels: Labels, fresh: Callable[[Size], int], unite: Callable[[int, int], None] | None = None
) -> list[Factor]:
    """The operands of a product or contraction, in the labels of the network that it is a factor of.

    `fresh` gives a label for each that is summed over; `unite` makes two labels one, as a delta says. Contractions
    have no deltas. Coefficients and ones are left to the caller.
    """
    names: Names = {}
    for inner, outer in zip(node.output, labels, strict=True):
        if names.setdefault(inner, outer) != outer and unite is not None:
            unite(names[inner], outer)
    if not node.is_product:
        for inner in node.contracted:
            names[inner] = fresh(node.sizes[inner])
    return [(op, tuple([names[x] for x in own])) for op, own in node.factors]


def is_delta(term: Expr, axes: Collection[int]) -> bool:
    """Whether a term has a delta, or is the same along one of some axes."""
    return isinstance(term, Einsum) and (term.has_delta or any(map(term.same_along, axes)))


def filled_axes(node: Expr) -> list[int]:
    """The axes of a contraction that an index map puts entries into."""
    if not isinstance(node, Einsum):
        return []
    targets = {labels[0] for operand, labels in node.factors if is_index_map(operand)}
    return [axis for axis, label in enumerate(node.output) if label in targets]


def arrangements_of(node: Expr, labels: Labels) -> list[Labels]:
    """The orders of labels in which a factor has the same value."""
    return [labels, *(tuple([labels[axis] for axis in axes]) for axes, sign in node.symmetries if sign == 1)]


def arranged(node: Expr, labels: Labels) -> Factor:
    """A factor with its labels in the order that stands for all orders with the same value."""
    return node, best_arrangement(labels, [(axes, sign) for axes, sign in node.symmetries if sign == 1])[0]


def extended(names: Names, labels: Labels, theirs: Labels, fixed: Collection[int] = ()) -> Names | None:
    """Names of labels with those of one more factor, if these are possible: each label has one name, and those that
    had none get one that no other has and that is not fixed."""
    result, taken = dict(names), {*names.values(), *fixed}
    for mine, other in zip(labels, theirs, strict=True):
        if mine not in result and other in taken:
            return None
        if result.setdefault(mine, other) != other:
            return None
        taken.add(other)
    return result


def matches(
    part: Sequence[Factor], whole: Sequence[Factor], names: Names, fixed: Collection[int] = ()
) -> Iterator[tuple[list[int], Names]]:
    """All ways to find the factors of a part in a whole: their places there, and the names of their labels."""
    stack: list[tuple[list[int], Names]] = [([], names)]
    while stack:
        places, known = stack.pop()
        if len(places) == len(part):
            yield places, known
            continue
        node, labels = part[len(places)]
        found = []
        for place, (candidate, theirs) in enumerate(whole):
            if candidate is node and place not in places:
                for order in arrangements_of(node, theirs):
                    if (more := extended(known, labels, order, fixed)) is not None:
                        found.append(([*places, place], more))
        stack += found


def in_common(
    ours: Sequence[Factor], theirs: Sequence[Factor], names: Names
) -> Iterator[tuple[list[tuple[int, int]], Names]]:
    """The factors that two networks share under one naming of labels, in some ways: pairs of places, and our names of
    theirs. Each pair of equal factors is tried as a beginning, and extended as it comes."""
    equal = [(i, j) for i, (x, _) in enumerate(ours) for j, (y, _) in enumerate(theirs) if x is y]
    for start in equal:
        pairs: list[tuple[int, int]] = []
        known = names
        for i, j in [start, *equal]:
            if any(i == k or j == l for k, l in pairs):
                continue
            ways = (extended(known, order, ours[i][1]) for order in arrangements_of(*theirs[j]))
            if (more := next((way for way in ways if way is not None), None)) is not None:
                pairs.append((i, j))
                known = more
        yield pairs, known


class Placed(NamedTuple):
    """A contraction with index maps: these apart, in an order and with labels that do not depend on the rest.

    The axes of the result are labels 0, 1, ...
    """

    maps: tuple[Factor, ...]
    kept: Labels  # of the rest: those of maps or of the result
    rest: tuple[Factor, ...]
    sizes: dict[int, Size]


def has_maps(term: Expr) -> bool:
    """Whether a term of a sum is a product or a contraction with index maps, or has one."""
    inside = [term, *(term.operands if isinstance(term, Einsum) and term.is_product else ())]
    return any(is_index_map(x) or (isinstance(x, Einsum) and any(map(is_index_map, x.operands))) for x in inside)


def placed_factors(term: Expr) -> Placed | None:
    """A term as what its index maps read or place, if it is a contraction with such, with its axes in any order.

    None where the rest is a sum of such terms, which is shared, and would not be in a sum with others; or a product
    that is larger than its factors, and maybe than what is read of it.
    """
    if not isinstance(term, Einsum):
        return None
    found: Placed | None = term._placed if hasattr(term, "_placed") else remember(term, "_placed", _placed(term))
    return found


def _placed(term: Einsum) -> Placed | None:
    found = _contraction(term)
    if found is None:
        return None
    inside, axes = found
    names: Names = dict(zip(inside.output, axes, strict=True))
    factors = inside.factors
    maps = _sorted_maps(factors, names, inside.ndim)
    read = [x for _, labels in maps for x in labels]
    for label in [*read, *inside.contracted]:
        names.setdefault(label, len(names))
    known = {*axes, *(names[x] for x in read)}
    renamed = [(node, tuple([names[x] for x in labels])) for node, labels in [*maps, *factors]]
    rest = tuple([factor for factor in renamed if not is_index_map(factor[0])])
    kept = tuple(sorted({x for _, labels in rest for x in labels} & known))
    if not maps or not _is_read_whole(rest, known, kept):
        return None
    sizes = {name: inside.sizes[label] for label, name in names.items()}
    return Placed(tuple(renamed[: len(maps)]), kept, rest, sizes)


def _sorted_maps(factors: Sequence[Factor], names: Names, unknown: int) -> list[Factor]:
    """The index maps among factors, by what they are and the known names of their labels."""
    maps = [factor for factor in factors if is_index_map(factor[0])]
    return sorted(maps, key=lambda factor: (factor[0].digest, [names.get(label, unknown) for label in factor[1]]))


def _contraction(term: Einsum) -> tuple[Einsum, Labels] | None:
    """The contraction that a term is, maybe with its axes in another order; none that has index maps alone."""
    if term.has_delta:
        return None
    inside: Expr = term
    axes = tuple(range(term.ndim))
    if term.is_product:
        if len(term.operands) != 1 or set(term.labels[0]) != set(axes):
            return None
        [axes], [inside] = term.labels, term.operands
    if not isinstance(inside, Einsum) or len(set(axes)) < len(axes) or all(map(is_index_map, inside.operands)):
        return None
    return inside, axes


def _is_read_whole(rest: Sequence[Factor], known: set[int], kept: Labels) -> bool:
    """Whether factors are no larger than their product, over known labels, and none is a sum of terms with maps."""
    if any(isinstance(node, Add) and any(map(has_maps, node.terms)) for node, _ in rest):
        return False
    return all(known.issuperset(ls) for _, ls in rest) and any(set(ls) == set(kept) for _, ls in rest)

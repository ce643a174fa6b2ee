"""Products and contractions: the constructor of Einsum nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, TypeGuard

from eindiff.core.coefficients import Number, number, times
from eindiff.core.errors import EindiffError
from eindiff.core.groups import grouped
from eindiff.core.index_relations import SizeOf
from eindiff.core.labels import Labels, Symmetry, UnionFind, best_arrangement, canonical, components, first_appearance
from eindiff.core.networks import Factor, arranged, filled_axes, is_delta, new_label, opened
from eindiff.core.nodes import (
    Add,
    Constant,
    Einsum,
    Expr,
    Map,
    intern,
    is_diagonal,
    is_index_map,
    is_kept,
    is_sealed,
    plain,
    remember,
    topological,
    unlisted,
)
from eindiff.core.powers import known_power, power_parts
from eindiff.core.remembered import made
from eindiff.core.rewrite import rewrite
from eindiff.core.sizes import Shape, Size

FLAT_LIMIT = 8  # a contraction takes in the contractions among its operands up to this many operands in all
DIAGONAL_LIMIT = 60  # nodes; the diagonal of a larger elementwise function is not taken inside it
RELATIONS_LIMIT = 8  # a product of sums of relations is multiplied out to at most so many terms
PRODUCT_LIMIT = 8  # more factors over the same labels are multiplied apart
Inline = bool | Collection[Expr]


def filled(value: Number, shape: Shape) -> Expr:
    """A tensor with one value everywhere."""
    labels = tuple(range(len(shape)))
    return product(number(value), [], labels, dict(zip(labels, shape, strict=True)))


def _size(size: Size) -> Expr:
    value = SizeOf(size)
    return intern(Constant, (repr(value),), value=value, shape=(), symmetries=())


def size_number(size: Size) -> Expr:
    """The size of an axis as a scalar expression; that of several axes is the product of theirs."""
    if isinstance(size, int):
        return filled(size, ())
    if " " in size:
        return _size(size)
    names = [name for name in size.split("*") if not name.isdigit()]
    factor = int(size.split("*")[0]) if size[0].isdigit() else 1
    return einsum(factor, [(_size(name), ()) for name in names], (), {})


def is_number(expr: Expr) -> TypeGuard[Einsum]:
    """Whether an expression is one known number everywhere."""
    return isinstance(expr, Einsum) and not expr.operands and not expr.has_delta


def is_zero(expr: Expr) -> TypeGuard[Einsum]:
    """Whether an expression is known to be zero."""
    return isinstance(expr, Einsum) and expr.coefficient == 0


def scale(factor: Number, expr: Expr) -> Expr:
    """A multiple of an expression."""
    if factor == 1:
        return expr
    expr = plain(expr)
    if isinstance(expr, Einsum) and expr.is_product:
        return with_coefficient(times(factor, expr.coefficient), expr)
    labels = tuple(range(expr.ndim))
    return einsum(factor, [(expr, labels)], labels, dict(zip(labels, expr.shape, strict=True)))


def transpose(expr: Expr, axes: Sequence[int]) -> Expr:
    """Axis `axes[k]` becomes axis k."""
    labels = tuple(range(expr.ndim))
    if tuple(axes) == labels:
        return expr
    return einsum(1, [(expr, labels)], tuple(axes), dict(zip(labels, expr.shape, strict=True)))


def transpose_core(expr: Expr) -> Expr:
    """The last two axes exchanged."""
    return transpose(expr, (*range(expr.ndim - 2), expr.ndim - 1, expr.ndim - 2))


def parts(expr: Expr) -> tuple[Number, list[Factor], Labels, dict[int, Size]]:
    """Any expression as a product: coefficient, factors, output and sizes."""
    expr = plain(expr)
    if isinstance(expr, Einsum) and expr.is_product:
        return expr.coefficient, expr.factors, expr.output, dict(enumerate(expr.sizes))
    labels = tuple(range(expr.ndim))
    return 1, [(expr, labels)], labels, dict(enumerate(expr.shape))


def einsum(
    coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size], inline: Inline = True
) -> Expr:
    """`coefficient * sum over the labels not in output of the product of factors`, in canonical form.

    `inline` says which contractions may be taken into a contraction that uses them: derivatives keep theirs apart,
    because they are shared.
    """
    known = made() if isinstance(inline, bool) else None
    if known is None:
        return _einsum(coefficient, factors, output, sizes, inline)
    shape = tuple([sizes[label] for label in output])
    key = (coefficient, type(coefficient), tuple(factors), output, shape, inline)
    found = known.get(key)
    if found is None:
        found = known[key] = _einsum(coefficient, factors, output, sizes, inline)
    return found


def _einsum(
    coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size], inline: Inline
) -> Expr:
    if len(factors) == 1 and (found := _relabelled(coefficient, *factors[0], output, sizes)) is not None:
        return found
    return Network(coefficient, factors, output, sizes, inline).build()


def _relabelled(
    coefficient: Number, node: Expr, labels: Labels, output: Labels, sizes: Mapping[int, Size]
) -> Expr | None:
    """A multiple of one node, with its axes in another order, on diagonals or repeated: canonical as the node is.

    None where there is something to sum over, to unite or to multiply out, or for constants, which are made as they
    are. This is most of what sums do with their terms.
    """
    if len(set(labels)) < len(labels) or not set(output).issuperset(labels) or isinstance(node, Constant):
        return None
    node = plain(node)
    if (isinstance(node, Add) and node.has_delta) or is_diagonal(node):
        return None
    if not isinstance(node, Einsum) or not node.is_product:
        return product(coefficient, [(node, labels)], output, sizes)
    names = dict(zip(reversed(node.output), reversed(labels), strict=True))
    if node.has_delta:
        same = {outer: names[inner] for inner, outer in zip(node.output, labels, strict=True)}
        output = tuple([same.get(x, x) for x in output])
    inside = [(op, tuple([names[x] for x in own])) for op, own in node.factors]
    return product(times(coefficient, node.coefficient), inside, output, sizes)


class Network:
    """An Einsum under construction: factors whose labels are united, rewritten and contracted until canonical."""

    def __init__(
        self, coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size],
        inline: Inline, checked: bool = False,
    ) -> None:  # fmt: skip
        self.coefficient = coefficient
        self.factors = [(plain(node), labels) for node, labels in factors]
        self.output = output
        self.sizes = dict(sizes)
        self.inline = inline
        self.checked = checked  # whether another term has the same index maps
        self.sets = UnionFind()
        self.summed = {label for _, labels in factors for label in labels}

    def build(self) -> Expr:
        while True:
            self._absorb_products()
            if self.coefficient == 0:
                return filled(0, tuple([self.sizes[label] for label in self.output]))
            if (expanded := self._distribute()) is not None:
                return expanded
            if self._take_diagonals() or self._gather_powers() or self._flatten() or self._apply_rules():
                continue
            if not self._contract():
                return product(self.coefficient, self.factors, self.output, self.sizes)

    def snapshot(self) -> Expr:
        """The network as it stands, as a node outside the canonical form, for logs."""
        names = first_appearance([*(labels for _, labels in self.factors), self.output])
        sizes = tuple([self.sizes[label] for label in names])
        labels = tuple([tuple([names[x] for x in ls]) for _, ls in self.factors])
        output = tuple([names[label] for label in self.output])
        return unlisted(
            Einsum, b"", coefficient=self.coefficient, operands=tuple([node for node, _ in self.factors]),
            labels=labels, output=output, sizes=sizes, shape=tuple([sizes[label] for label in output]), symmetries=(),
            is_product=not self.summed,
        )  # fmt: skip

    def unite(self, a: int, b: int) -> None:
        """Make two labels the same."""
        if self.sizes[a] != self.sizes[b]:
            raise EindiffError(f"two axes that must be equal have sizes {self.sizes[a]} and {self.sizes[b]}", "sizes")
        self.sets.unite(a, b)

    def exchange(self, changes: Mapping[int, Factor | None], gone: Collection[int] = ()) -> bool:
        """Put other factors at some places, or none; over labels that are `gone` no sum is left. Always True."""
        kept = [changes.get(place, factor) for place, factor in enumerate(self.factors)]
        self.factors = [factor for factor in kept if factor is not None]
        self.summed = self.summed.difference(gone)
        return True

    def occurrences(self) -> Counter[int]:
        """How many axes of factors have each label."""
        return Counter([label for _, labels in self.factors for label in labels])

    def fresh(self, size: Size) -> int:
        """A new label, which is summed over."""
        label = new_label(self.sizes, size)
        self.summed.add(label)
        return label

    def _enter(self, node: Einsum, labels: Labels) -> list[Factor]:
        """The operands of an operand, in the labels of this network."""
        return opened(node, labels, self.fresh, self.unite)

    def _absorb_products(self) -> None:
        """Facts 2 and 3: inline products, unite what their deltas unite, and sum over what is left unbound."""
        pending, self.factors = self.factors[::-1], []
        while pending:
            node, labels = pending.pop()
            if isinstance(node, Einsum) and (node.is_product or (is_sealed(node) and not is_kept(node))):
                self.coefficient = times(self.coefficient, node.coefficient)
                pending.extend(self._enter(node, labels))
            else:
                if is_diagonal(node):
                    self.unite(*labels)
                self.factors.append((node, labels))
        find = self.sets.find
        self.factors = [(node, tuple([find(label) for label in labels])) for node, labels in self.factors]
        self.output = tuple([find(label) for label in self.output])
        self.summed = {find(label) for label in self.summed} - set(self.output)
        bound = {label for _, labels in self.factors for label in labels}
        unbound = self.summed - bound
        if unbound:
            self.summed -= unbound
            self.factors += [(size_number(self.sizes[label]), ()) for label in sorted(unbound)]
            self._absorb_products()

    def _distribute(self) -> Expr | None:
        """Fact 6; and the sum of a sum is the sum of the sums, and `(x + 1)[1:] = x[1:] + 1`."""
        relations = prod([max(1, len(node.relations)) for node, _ in self.factors if isinstance(node, Add)])
        for index, (node, labels) in enumerate(self.factors):
            if not isinstance(node, Add) or len(set(labels)) < len(labels):
                continue  # of its diagonal there are other terms
            others = [*self.factors[:index], *self.factors[index + 1 :]]
            if node.has_delta and (whole := Add.keep(node, labels, others, self.summed)) is not None:
                self.coefficient = times(self.coefficient, whole[0])
                self.factors[index : index + 1] = whole[1]
                self._absorb_products()
                return self._distribute()
            if self.summed and not others:
                return scale(self.coefficient, self._sum_of_sums(node, labels))
            if pieces := self._pieces(node, labels, others, relations):
                return Add.make([self._with(others, (t, labels), checked) for t, checked in pieces])
        return None

    def _sum_of_sums(self, node: Add, labels: Labels) -> Expr:
        """The sum over some axes as that of the sums of terms; kept on the node, as those of the steps of a loop, in
        which the sum of the steps before is a term, ask for it again."""
        names = first_appearance([labels, self.output])
        sizes = {name: self.sizes[label] for label, name in names.items()}
        inner, output = tuple([names[x] for x in labels]), tuple([names[x] for x in self.output])
        known: dict[Any, Expr] = node._summed if hasattr(node, "_summed") else remember(node, "_summed", {})
        key = (inner, output, tuple([sizes[x] for x in output]), self.inline is True)
        if key in known and isinstance(self.inline, bool):
            return known[key]
        found = Add.make([einsum(1, [(x, inner)], output, sizes, self.inline) for x in node.terms])
        return known.setdefault(key, found) if isinstance(self.inline, bool) else found

    def _pieces(self, node: Add, labels: Labels, others: list[Factor], relations: int) -> list[tuple[Expr, bool]]:
        """The terms of a sum with which the other factors are multiplied apart, and the rest; and of which it is known
        that others have the same index maps."""
        read = self._read_axes(labels, others)
        split = [t for t in node.terms if is_delta(t, read)] if read or node.has_delta else []
        if 1 < relations <= RELATIONS_LIMIT and not self.summed.isdisjoint(labels):
            split += [t for t in node.relations if t not in split]
        rest = [t for t in node.terms if t not in split] if split else []
        pieces = [*split, Add.make(rest)] if rest else split
        return [(t, bool(rest and t in split) or (len(pieces) > 1 and is_number(t))) for t in pieces]

    def _read_axes(self, labels: Labels, others: list[Factor]) -> list[int]:
        """The axes of a factor that index maps alone read."""
        targets = {theirs[0] for other, theirs in others if is_index_map(other)} & self.summed
        if not targets:
            return []
        uses = Counter([label for _, theirs in others for label in theirs] + list(labels))
        return [axis for axis, label in enumerate(labels) if label in targets and uses[label] == 2]

    def _with(self, others: list[Factor], factor: Factor, checked: bool) -> Expr:
        if not (self.checked or checked):
            return einsum(self.coefficient, [*others, factor], self.output, self.sizes, self.inline)
        return Network(self.coefficient, [*others, factor], self.output, self.sizes, self.inline, True).build()

    def _take_diagonals(self) -> bool:
        """A diagonal of a contraction, a sum or an elementwise function is taken inside it, before it is computed."""
        for index, (node, labels) in enumerate(self.factors):
            distinct = tuple(dict.fromkeys(labels))
            if len(distinct) == len(labels):
                continue
            if isinstance(node, Einsum):
                self.factors = [*self.factors[:index], *self._enter(node, labels), *self.factors[index + 1 :]]
                return True
            if isinstance(node, Add) or (isinstance(node, Map) and len(topological([node])) <= DIAGONAL_LIMIT):
                return self.exchange({index: (self._diagonal(node, labels, distinct), distinct)})
        return False

    def _diagonal(self, node: Add | Map, labels: Labels, distinct: Labels) -> Expr:
        sizes = {label: self.sizes[label] for label in labels}
        inside = [einsum(1, [(child, labels)], distinct, sizes, self.inline) for child in node.children]
        return Add.make(inside) if isinstance(node, Add) else Map.make(node.function, inside)

    def _groups(self) -> list[list[int]]:
        """Indices of the factors that hang together through summed labels."""
        if not self.summed:
            return []
        groups = components([[x for x in labels if x in self.summed] for _, labels in self.factors])
        return [g for g in groups if any(x in self.summed for x in self.factors[g[0]][1])]

    def _flatten(self) -> bool:
        """Fact 4: a contraction of contractions is one contraction (Lemma 1).

        Index maps that meet may cancel, so contractions with such are always taken in.
        """
        if Einsum not in [type(node) for node, _ in self.factors]:
            return False
        for group in self._groups():
            inner = {i: node for i in group if self._is_inlined(node := self.factors[i][0])}
            if sum(len(inner[i].children) if i in inner else 1 for i in group) > FLAT_LIMIT:
                inner = {}
            inner |= {i: node for i in self._meeting(group) if isinstance(node := self.factors[i][0], Einsum)}
            if inner:
                flat: list[Factor] = []
                for i, factor in enumerate(self.factors):
                    flat += self._enter(inner[i], factor[1]) if i in inner else [factor]
                self.factors = flat
                return True
        return False

    def _is_inlined(self, node: Expr) -> TypeGuard[Einsum]:
        if not isinstance(node, Einsum) or is_kept(node):
            return False
        return self.inline if isinstance(self.inline, bool) else node in self.inline

    def _meeting(self, group: list[int]) -> set[int]:
        """Factors with index maps into axes that are summed, where they meet index maps of other factors."""
        found: dict[int, set[int]] = {}
        for i in group:
            node, labels = self.factors[i]
            for axis in [0] if is_index_map(node) else filled_axes(node):
                found.setdefault(labels[axis], set()).add(i)
        return {i for label, factors in found.items() if label in self.summed and len(factors) > 1 for i in factors}

    def _gather_powers(self) -> bool:
        """`x^p x^q` with the same labels is `x^(p+q)`; a square stays two factors."""
        if len(self.factors) < 2:
            return False
        groups: dict[Factor, list[Number]] = {}
        for node, labels in self.factors:
            base, exponent = power_parts(node)
            groups.setdefault(arranged(base, labels), []).append(exponent)
        if all(len(exponents) == 1 or exponents == [1, 1] for exponents in groups.values()):
            return False
        kept = self.factors
        self.factors = []
        for node, labels in kept:
            base, _ = power_parts(node)
            exponents = groups[arranged(base, labels)]
            if len(exponents) == 1 or exponents == [1, 1]:
                self.factors.append((node, labels))
            elif exponents:
                total = number(sum(exponents))
                if total in (1, 2):
                    self.factors += [(base, labels)] * int(total)
                elif total != 0:
                    self.factors.append((known_power(base, total), labels))
                exponents.clear()
        return True

    def _apply_rules(self) -> bool:
        kinds = [node.function.name if isinstance(node, Map) else type(node) for node, _ in self.factors]
        return bool(rewrite("einsum", self, kinds=frozenset(kinds), summed=bool(self.summed)))

    def _contract(self) -> bool:
        """Make the contraction of each group of factors that hang together; False if there is none."""
        groups = self._groups()
        if not groups:
            return False
        made: list[Factor] = []
        for group in groups:
            members = [self.factors[i] for i in group]
            free = sorted({x for _, labels in members for x in labels} - self.summed)
            if len(members) == 1 and isinstance(members[0][0], Add):
                sizes = {x: self.sizes[x] for x in members[0][1]}
                made.append((einsum(1, members, tuple(free), sizes, self.inline), tuple(free)))
            else:
                sign, node, ordered = contraction(members, free)
                self.coefficient *= sign
                made.append((node, ordered))
        taken = {i for group in groups for i in group}
        self.factors = [factor for i, factor in enumerate(self.factors) if i not in taken] + made
        self.summed = set()
        return True


def contraction(factors: list[Factor], free: list[int]) -> tuple[int, Expr, Labels]:
    """The canonical contraction of connected factors: its sign (0 if it vanishes), the node, the labels of its axes."""
    form = canonical(
        [n.digest for n, _ in factors], [ls for _, ls in factors], [n.symmetries for n, _ in factors], free
    )
    if form.sign == 0:
        return 0, filled(0, ()), ()
    operands = tuple([factors[i][0] for i in form.order])
    size_of: dict[int, Size] = {}
    for operand, labels in zip(operands, form.labels, strict=True):
        size_of.update(zip(labels, operand.shape, strict=True))
    ordered = tuple([size_of[label] for label in range(len(size_of))])
    node = intern_einsum(1, operands, tuple(form.labels), form.output, ordered, form.symmetries, False)
    return form.sign, node, tuple(form.free)


def product(coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size]) -> Expr:
    """The canonical product: labels are named by their first place in the output, which has them all."""
    if len(factors) > PRODUCT_LIMIT:
        sign, factors = _sealed(factors)
        coefficient = number(coefficient * sign)
    names: dict[int, int] = first_appearance([output])
    entries = []
    for node, labels in factors:
        order = tuple([names[label] for label in labels])
        if node.symmetries:
            order, sign = best_arrangement(order, node.symmetries)
            coefficient = number(coefficient * sign) if sign != 1 else coefficient
        entries.append((node.digest, order, node))
    if len(entries) > 1:
        entries.sort(key=lambda entry: entry[:2])
    operands, arranged_labels = tuple([e[2] for e in entries]), tuple([e[1] for e in entries])
    by_name = tuple([sizes[label] for label in names])
    return _multiple(coefficient, operands, arranged_labels, tuple([names[label] for label in output]), by_name)


def _multiple(
    coefficient: Number, operands: tuple[Expr, ...], labels: tuple[Labels, ...], output: Labels, sizes: Shape
) -> Expr:
    """A product of operands that are in order."""
    if coefficient == 0 and (operands or len(sizes) < len(output)):
        return filled(0, tuple([sizes[label] for label in output]))
    if coefficient == 1 and len(operands) == 1 and labels[0] == output and len(sizes) == len(output):
        return operands[0]
    return intern_einsum(coefficient, operands, labels, output, sizes, (), True)


def with_coefficient(coefficient: Number, node: Einsum) -> Expr:
    """A product with another number in front; without one it is asked for again and again, by sums."""
    if coefficient != 1:
        return _multiple(coefficient, node.operands, node.labels, node.output, node.sizes)
    if node.coefficient == 1:
        return plain(node)
    if hasattr(node, "_bare"):
        bare: Expr = node._bare
        return bare
    return remember(node, "_bare", _multiple(1, node.operands, node.labels, node.output, node.sizes))


def _sealed(factors: Sequence[Factor]) -> tuple[int, list[Factor]]:
    """A sign, and a long product whose largest group of factors over the same labels, if long, is one operand.

    Without this the derivative of a chain of n elementwise functions would have n factors at every step.
    """
    groups = grouped((frozenset(factor[1]), factor) for factor in factors)
    labels, group = max(groups.items(), key=lambda item: len(item[1]))
    if len(group) <= PRODUCT_LIMIT:
        return 1, list(factors)
    sign, node, ordered = contraction(group, sorted(labels))
    return sign, [factor for factor in factors if frozenset(factor[1]) != labels] + [(node, ordered)]


def intern_einsum(
    coefficient: Number, operands: tuple[Expr, ...], labels: tuple[Labels, ...], output: Labels, sizes: Shape,
    symmetries: tuple[Symmetry, ...], is_product: bool,
) -> Einsum:  # fmt: skip
    bound = {x for own in labels for x in own}
    unbound = [(x, size) for x, size in enumerate(sizes) if x not in bound] if len(bound) < len(sizes) else []
    identity = (coefficient, [operand.digest for operand in operands], labels, output, unbound)
    return intern(
        Einsum, identity, coefficient=coefficient, operands=operands, labels=labels, output=output, sizes=sizes,
        shape=tuple([sizes[label] for label in output]), symmetries=symmetries, is_product=is_product,
    )  # fmt: skip

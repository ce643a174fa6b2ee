"""The smart constructors: they keep the canonical form, so that equal expressions are the same object.

Facts about every node ever made (Lemmas 1 to 3 of the paper made structural):

1. Labels, operands and terms are in a canonical order and coefficients are folded.
2. Deltas and ones are absorbed at once: no operand of an Einsum has a repeated or unbound output label.
3. Products, which sum over nothing, are inlined wherever they are used.
4. Sums are pushed inward: a contraction holds just the operands that hang together through contracted labels;
   whatever the contraction does not touch stays outside, in the surrounding product. A contraction of contractions is one
   contraction (Lemma 1), up to `FLAT_LIMIT` operands and where `inline` allows it.
5. Adds are flat, like terms are merged, terms of one delta pattern are grouped under it, and what is common to all
   terms stands in front (Lemma 3).
6. An Einsum over an Add with delta terms distributes over those terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from eindiff import sizes as sz
from eindiff.constants import IndexMap, SizeOf, Structure
from eindiff.errors import EindiffError, shape_text
from eindiff.expr import Add, Apply, Constant, Einsum, Expr, Map, Number, Variable, intern, number
from eindiff.labels import Labels, Symmetry, UnionFind, arrangements, best_arrangement, canonical, components
from eindiff.rewrite import rewrite
from eindiff.sizes import Shape, Size

if TYPE_CHECKING:
    from eindiff.functions import Function

FLAT_LIMIT = 8  # a contraction takes in the contractions among its operands up to this many operands in all

PRODUCT_LIMIT = 32  # a product of more factors is computed in parts

Factor = tuple[Expr, Labels]
Inline = bool | Collection[Expr]

PROPERTIES = frozenset({"symmetric", "positive", "psd", "orthogonal"})


def variable(name: str, shape: Shape, properties: Collection[str] = ()) -> Variable:
    """An input of the given shape. `symmetric` and `psd` matrices equal their transposes, `Q'Q` of an `orthogonal` one is I."""
    declared = frozenset(properties)
    if not name.isidentifier():
        raise EindiffError(f"variable name {name!r}: use letters, digits and underscores")
    if unknown := sorted(declared - PROPERTIES):
        raise EindiffError(f"variable {name}: unknown property {unknown[0]!r}; known are {', '.join(sorted(PROPERTIES))}")
    for size in shape:
        if not (isinstance(size, str) and size.isidentifier()) and not (isinstance(size, int) and size >= 1):
            raise EindiffError(f"variable {name}: a size is a name or a positive integer, not {size!r}")
    if declared - {"positive"} and (len(shape) != 2 or shape[0] != shape[1]):
        raise EindiffError(f"variable {name}: only a square matrix can be {sorted(declared)[0]}, not {shape_text(shape)}")
    symmetric = (((1, 0), 1),) if declared & {"symmetric", "psd"} else ()
    return intern(
        Variable, (name, shape, sorted(declared)), name=name, shape=shape, properties=declared, symmetries=symmetric
    )


def constant(value: Any) -> Expr:
    """Literal data (numbers become coefficients, uniform arrays ones), or a structured constant."""
    if isinstance(value, Structure):
        return intern(Constant, (repr(value),), value=value, shape=value.shape, symmetries=())
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise EindiffError(f"a constant needs real numbers, not {array.dtype}: {value!r}")
    shape = tuple(array.shape)
    if array.size == 0:
        raise EindiffError(f"a constant needs at least one entry; this one has shape {shape}")
    if array.ndim == 0 or (array == array.flat[0]).all():
        return filled(array.flat[0].item(), shape)
    array = np.array(array, dtype=float)
    array.flags.writeable = False
    symmetric = array.ndim == 2 and shape[0] == shape[1] <= 512 and bool((array == array.T).all())
    symmetries = (((1, 0), 1),) if symmetric else ()
    return intern(Constant, (shape, array.tobytes()), value=array, shape=shape, symmetries=symmetries)


def filled(value: Number, shape: Shape) -> Expr:
    """A tensor with one value everywhere."""
    labels = tuple(range(len(shape)))
    return _product(number(value), [], labels, dict(zip(labels, shape, strict=True)))


def _is_index_map(expr: Expr) -> bool:
    return isinstance(expr, Constant) and isinstance(expr.value, IndexMap)


def size_number(size: Size) -> Expr:
    """The size of an axis as a scalar expression; that of several axes is the product of theirs."""
    if isinstance(size, int):
        return filled(size, ())
    if " " in size:
        return constant(SizeOf(size))
    names = [name for name in size.split("*") if not name.isdigit()]
    factor = int(size.split("*")[0]) if size[0].isdigit() else 1
    return einsum(factor, [(constant(SizeOf(name)), ()) for name in names], (), {})


def is_number(expr: Expr) -> bool:
    """Whether an expression is one known number everywhere."""
    return isinstance(expr, Einsum) and not expr.operands and not expr.has_delta


def is_zero(expr: Expr) -> bool:
    """Whether an expression is known to be zero."""
    return isinstance(expr, Einsum) and expr.coefficient == 0


def scale(factor: Number, expr: Expr) -> Expr:
    """A multiple of an expression."""
    if factor == 1:
        return expr
    labels = tuple(range(expr.ndim))
    return einsum(factor, [(expr, labels)], labels, dict(zip(labels, expr.shape, strict=True)))


def transpose(expr: Expr, axes: Sequence[int]) -> Expr:
    """Axis `axes[k]` becomes axis k."""
    labels = tuple(range(expr.ndim))
    return einsum(1, [(expr, labels)], tuple(axes), dict(zip(labels, expr.shape, strict=True)))


def parts(expr: Expr) -> tuple[Number, list[Factor], Labels, dict[int, Size]]:
    """Any expression as a product: coefficient, factors, output and sizes."""
    if isinstance(expr, Einsum) and expr.is_product:
        return expr.coefficient, list(zip(expr.operands, expr.labels, strict=True)), expr.output, dict(enumerate(expr.sizes))
    labels = tuple(range(expr.ndim))
    return 1, [(expr, labels)], labels, dict(enumerate(expr.shape))


# Products and contractions


def einsum(
    coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size], inline: Inline = True
) -> Expr:
    """`coefficient * sum over the labels not in output of the product of factors`, in canonical form.

    `inline` says which contractions may be taken into a contraction that uses them: derivatives keep theirs apart,
    because they are shared.
    """
    return _Network(coefficient, factors, output, sizes, inline).build()


class _Network:
    """An Einsum under construction: factors whose labels are united, rewritten and contracted until canonical."""

    def __init__(
        self, coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size], inline: Inline
    ) -> None:
        self.coefficient = coefficient
        self.factors = list(factors)
        self.output = output
        self.sizes = dict(sizes)
        self.inline = inline
        self.sets = UnionFind()
        self.summed = {label for _, labels in factors for label in labels}

    def build(self) -> Expr:
        while True:
            self._absorb_products()
            if self.coefficient == 0:
                return filled(0, tuple([self.sizes[label] for label in self.output]))
            if (expanded := self._distribute()) is not None:
                return expanded
            if self._take_diagonals() or self._flatten() or self._gather_powers() or self._apply_rules():
                continue
            if not self._contract():
                return _product(self.coefficient, self.factors, self.output, self.sizes)

    def unite(self, a: int, b: int) -> None:
        """Make two labels the same."""
        if self.sizes[a] != self.sizes[b]:
            raise EindiffError(f"two axes that must be equal have sizes {self.sizes[a]} and {self.sizes[b]}")
        self.sets.unite(a, b)

    def occurrences(self) -> Counter[int]:
        """How many axes of factors have each label."""
        return Counter(label for _, labels in self.factors for label in labels)

    def _enter(self, node: Einsum, labels: Labels) -> list[Factor]:
        """The operands of an operand, in the labels of this network."""
        mapping: dict[int, int] = {}
        for inner, outer in zip(node.output, labels, strict=True):
            if inner in mapping:
                self.unite(mapping[inner], outer)
            else:
                mapping[inner] = outer
        for inner in node.contracted:
            mapping[inner] = fresh = 1 + max(self.sizes, default=0)
            self.sizes[fresh] = node.sizes[inner]
            self.summed.add(fresh)
        return [(op, tuple([mapping[x] for x in ls])) for op, ls in zip(node.operands, node.labels, strict=True)]

    def _absorb_products(self) -> None:
        """Facts 2 and 3: inline products, unite what their deltas unite, and sum over what is left unbound."""
        pending, self.factors = self.factors[::-1], []
        while pending:
            node, labels = pending.pop()
            if isinstance(node, Einsum) and node.is_product:
                self.coefficient = number(self.coefficient * node.coefficient)
                pending.extend(self._enter(node, labels))
            else:
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
        """Fact 6; and the sum of a sum is the sum of the sums, a slice of a sum the sum of the slices."""
        for index, (node, labels) in enumerate(self.factors):
            if not isinstance(node, Add):
                continue
            others = self.factors[:index] + self.factors[index + 1 :]
            alone = bool(self.summed) and all(_is_index_map(other) for other, _ in others)
            split = [t for t in node.terms if alone or (isinstance(t, Einsum) and t.has_delta)]
            if split:
                rest = [t for t in node.terms if t not in split]
                pieces = split + ([add(rest)] if rest else [])
                return add([self._with(others, (piece, labels)) for piece in pieces])
        return None

    def _with(self, others: list[Factor], factor: Factor) -> Expr:
        return einsum(self.coefficient, [*others, factor], self.output, self.sizes, self.inline)

    def _take_diagonals(self) -> bool:
        """A diagonal of a contraction or a sum is taken inside it, before it is computed."""
        for index, (node, labels) in enumerate(self.factors):
            distinct = tuple(dict.fromkeys(labels))
            if len(distinct) == len(labels) or not isinstance(node, Einsum | Add):
                continue
            if isinstance(node, Add):
                sizes = {label: self.sizes[label] for label in labels}
                diagonals = [einsum(1, [(term, labels)], distinct, sizes, self.inline) for term in node.terms]
                self.factors[index] = (add(diagonals), distinct)
            else:
                self.factors[index : index + 1] = self._enter(node, labels)
            return True
        return False

    def _groups(self) -> list[list[int]]:
        """Indices of the factors that hang together through summed labels."""
        groups = components([[x for x in labels if x in self.summed] for _, labels in self.factors])
        return [g for g in groups if any(x in self.summed for x in self.factors[g[0]][1])]

    def _flatten(self) -> bool:
        """Fact 4: a contraction of contractions is one contraction (Lemma 1)."""
        if self.inline is False:
            return False
        for group in self._groups():
            inner = {i: node for i in group if isinstance(node := self.factors[i][0], Einsum)}
            if self.inline is not True:
                inner = {i: node for i, node in inner.items() if node in self.inline}
            count = sum(len(inner[i].operands) if i in inner else 1 for i in group)
            if inner and count <= FLAT_LIMIT:
                flat: list[Factor] = []
                for i, factor in enumerate(self.factors):
                    flat += self._enter(inner[i], factor[1]) if i in inner else [factor]
                self.factors = flat
                return True
        return False

    def _gather_powers(self) -> bool:
        """`x^p x^q` with the same labels is `x^(p+q)`; a square stays two factors."""
        groups: dict[Factor, list[Number]] = {}
        for node, labels in self.factors:
            base, exponent = power_parts(node)
            groups.setdefault((base, best_arrangement(labels, base.symmetries)[0]), []).append(exponent)
        if all(len(exponents) == 1 or exponents == [1, 1] for exponents in groups.values()):
            return False
        kept = self.factors
        self.factors = []
        for node, labels in kept:
            base, _ = power_parts(node)
            exponents = groups.get((base, best_arrangement(labels, base.symmetries)[0]), [])
            if len(exponents) == 1 or exponents == [1, 1]:
                self.factors.append((node, labels))
            elif exponents:
                total = number(sum(exponents))
                if total in (1, 2):
                    self.factors += [(base, labels)] * int(total)
                elif total != 0:
                    self.factors.append((rewrite_power(base, total), labels))
                exponents.clear()
        return True

    def _apply_rules(self) -> bool:
        return bool(rewrite("einsum", self))

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
                sign, node, ordered = _contraction(members, free)
                self.coefficient *= sign
                made.append((node, ordered))
        taken = {i for group in groups for i in group}
        self.factors = [factor for i, factor in enumerate(self.factors) if i not in taken] + made
        self.summed = set()
        return True


def _contraction(factors: list[Factor], free: list[int]) -> tuple[int, Expr, Labels]:
    """The canonical contraction of connected factors: its sign, the node, and the labels of its axes."""
    form = canonical([n.digest for n, _ in factors], [ls for _, ls in factors], [n.symmetries for n, _ in factors], free)
    operands = tuple([factors[i][0] for i in form.order])
    size_of: dict[int, Size] = {}
    for operand, labels in zip(operands, form.labels, strict=True):
        size_of.update(zip(labels, operand.shape, strict=True))
    ordered = tuple([size_of[label] for label in range(len(size_of))])
    node = _intern_einsum(1, operands, tuple(form.labels), form.output, ordered, form.symmetries, False)
    return form.sign, node, tuple(form.free)


def _product(coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: Mapping[int, Size]) -> Expr:
    """The canonical product: labels are named by their first place in the output, which has them all."""
    if len(factors) > PRODUCT_LIMIT:
        factors = _sealed(factors)
    names: dict[int, int] = {}
    for label in output:
        names.setdefault(label, len(names))
    entries = []
    for node, labels in factors:
        arranged, sign = best_arrangement(tuple([names[label] for label in labels]), node.symmetries)
        coefficient = number(coefficient * sign)
        entries.append((node.digest, arranged, node))
    shape = tuple([sizes[label] for label in output])
    output = tuple([names[label] for label in output])
    if coefficient == 0 and (entries or len(names) < len(output)):
        return filled(0, shape)
    if coefficient == 1 and len(entries) == 1 and entries[0][1] == output:
        return entries[0][2]
    entries.sort(key=lambda entry: entry[:2])
    by_name = tuple([sizes[label] for label in names])
    operands, arranged_labels = tuple([e[2] for e in entries]), tuple([e[1] for e in entries])
    return _intern_einsum(coefficient, operands, arranged_labels, output, by_name, (), True)


def _sealed(factors: Sequence[Factor]) -> list[Factor]:
    """A long product with its largest group of factors over the same labels made one operand that is computed once.

    Without this the derivative of a chain of n elementwise functions would have n factors at every step.
    """
    groups: dict[frozenset[int], list[Factor]] = {}
    for factor in factors:
        groups.setdefault(frozenset(factor[1]), []).append(factor)
    labels, group = max(groups.items(), key=lambda item: len(item[1]))
    _, node, ordered = _contraction(group, sorted(labels))
    return [factor for factor in factors if factor not in group] + [(node, ordered)]


def _intern_einsum(
    coefficient: Number, operands: tuple[Expr, ...], labels: tuple[Labels, ...], output: Labels, sizes: Shape,
    symmetries: tuple[Symmetry, ...], is_product: bool,
) -> Einsum:  # fmt: skip
    unbound = [(x, sizes[x]) for x in range(len(sizes)) if not any(x in ls for ls in labels)]
    identity = (coefficient, [operand.digest for operand in operands], labels, output, unbound)
    return intern(
        Einsum, identity, coefficient=coefficient, operands=operands, labels=labels, output=output, sizes=sizes,
        shape=tuple([sizes[label] for label in output]), symmetries=symmetries, is_product=is_product,
    )  # fmt: skip


# Powers, which products gather


def power_parts(node: Expr) -> tuple[Expr, Number]:
    """Base and exponent of a node: itself and 1 unless it is a power with a known exponent."""
    if isinstance(node, Map) and node.function.name == "pow":
        return node.args[0], node.function.parameter
    return node, 1


def rewrite_power(base: Expr, exponent: Number) -> Expr:
    """`base ** exponent` for a known exponent."""
    from eindiff.functions import power_function

    return map_(power_function(exponent), (base,))


# Sums


def add(terms: Sequence[Expr]) -> Expr:
    """The sum of terms of one shape, in canonical form."""
    shape = terms[0].shape
    collected = _collect(terms)
    if (rewritten := rewrite("add", collected, shape)) is not None:
        return rewritten
    if len(collected) > 1:
        collected = _group(collected)
    if not collected:
        return filled(0, shape)
    if len(collected) == 1:
        [(term, coefficient)] = collected.items()
        return scale(coefficient, term)
    return _orient(collected, shape)


def _collect(terms: Sequence[Expr]) -> dict[Expr, Number]:
    """Flatten sums of sums and merge like terms: each term without its coefficient, and the coefficient."""
    collected: dict[Expr, Number] = {}
    stack: list[tuple[Number, Expr]] = [(1, term) for term in reversed(terms)]
    while stack:
        coefficient, term = stack.pop()
        if isinstance(term, Add):
            stack.extend((coefficient, inner) for inner in term.terms)
            continue
        own, factors, output, sizes = parts(term)
        if own == 0:
            continue
        if len(factors) == 1 and isinstance(factors[0][0], Add):
            (inner_add, labels) = factors[0]
            for inner in inner_add.terms:
                stack.append((number(coefficient * own), einsum(1, [(inner, labels)], output, sizes)))
            continue
        bare = _product(1, factors, output, sizes)
        collected[bare] = number(collected.get(bare, 0) + coefficient * own)
    return {term: coefficient for term, coefficient in collected.items() if coefficient != 0}


def _group(collected: dict[Expr, Number]) -> dict[Expr, Number]:
    """Fact 5: put terms of one pattern of deltas and ones under it, and common factors in front (Lemma 3)."""
    patterns: dict[tuple, list[Expr]] = {}
    for term in collected:
        _, factors, output, _ = parts(term)
        bound = frozenset(label for _, labels in factors for label in labels)
        patterns.setdefault((output, bound), []).append(term)
    result: dict[Expr, Number] = {}
    for (output, bound), members in patterns.items():
        weighted = {term: collected[term] for term in members}
        trivial = len(set(output)) == len(output) and len(bound) == len(output)
        if len(members) > 1:
            combined = _factor_out(weighted) if trivial else _under_pattern(weighted, output, bound)
            if combined is not None:
                coefficient, factors, output_labels, sizes = parts(combined)
                weighted = {_product(1, factors, output_labels, sizes): coefficient} if coefficient else {}
        result.update(weighted)
    return result


def _under_pattern(terms: dict[Expr, Number], output: Labels, bound: Collection[int]) -> Expr:
    """The sum of terms that share a pattern of deltas and ones: the pattern of the sum of their cores."""
    core = tuple(label for label in dict.fromkeys(output) if label in bound)
    cores, sizes = [], {}
    for term, coefficient in terms.items():
        own, factors, _, sizes = parts(term)
        cores.append(einsum(number(coefficient * own), factors, core, sizes))
    return einsum(1, [(add(cores), core)], output, sizes)


def _factor_out(terms: dict[Expr, Number]) -> Expr | None:
    """`x*y + x*z = x*(y + z)`: the factors common to all terms stand in front of the sum of the rest."""
    views = [(coefficient, parts(term)) for term, coefficient in terms.items()]
    common: Counter[Factor] = Counter(views[0][1][1])
    for _, (_, factors, _, _) in views[1:]:
        common &= Counter(factors)
    if not common:
        return None
    _, _, output, sizes = views[0][1]
    rests = [list((Counter(factors) - common).elements()) for _, (_, factors, _, _) in views]
    used = tuple(sorted({label for rest in rests for _, labels in rest for label in labels}))
    inner = add([einsum(c, rest, used, sizes) for (c, _), rest in zip(views, rests, strict=True)])
    return einsum(1, [*common.elements(), (inner, used)], output, sizes)


def _orient(terms: dict[Expr, Number], shape: Shape) -> Expr:
    """The Add of the terms in canonical orientation, behind the transposition and the factor that undo it.

    The orientations that give the same Add are its symmetries.
    """
    identity = tuple(range(len(shape)))
    content = _content(list(terms.values()))
    orders = [identity]
    if len(shape) > 1 and not any(isinstance(term, Einsum) and term.has_delta for term in terms):
        orders = arrangements(_axis_signatures(list(terms), shape))
    found = [(_turned(terms, axes, content), axes) for axes in orders]
    (_, sign, scaled), axes = min(found, key=lambda candidate: candidate[0][0])
    same = {(tuple([axes.index(a) for a in other]), sign * s) for (_, s, these), other in found if these == scaled}
    node = intern(
        Add, [term.digest for term in scaled], terms=scaled, shape=tuple([shape[axis] for axis in axes]),
        symmetries=tuple(sorted(same - {(identity, 1)})),
    )  # fmt: skip
    return _product(number(sign * content), [(node, axes)], identity, dict(enumerate(shape)))


def _turned(terms: dict[Expr, Number], axes: tuple[int, ...], content: Number) -> tuple[tuple, int, tuple[Expr, ...]]:
    """The terms with axes in another order and without the factor in front: a key to compare, the sign, the terms."""
    turned = sorted(((transpose(term, axes), c) for term, c in terms.items()), key=lambda pair: pair[0].digest)
    sign = -1 if turned[0][1] < 0 else 1
    scaled = [(term, _divide(c, sign * content)) for term, c in turned]
    return tuple([(term.digest, float(c)) for term, c in scaled]), sign, tuple([scale(c, term) for term, c in scaled])


def _divide(a: Number, b: Number) -> Number:
    return number(Fraction(a) / Fraction(b) if _exact(a, b) else a / b)


def _exact(*values: Number) -> bool:
    return not any(isinstance(value, float) for value in values)


def _content(coefficients: Sequence[Number]) -> Number:
    """The positive factor that all coefficients have in common: their content if they are exact, else their size if equal."""
    if _exact(*coefficients):
        exact = [Fraction(c) for c in coefficients]
        return number(Fraction(gcd(*(c.numerator for c in exact)), lcm(*(c.denominator for c in exact))))
    sizes = {abs(c) for c in coefficients}
    return sizes.pop() if len(sizes) == 1 else 1


def _axis_signatures(terms: Sequence[Expr], shape: Shape) -> list[tuple]:
    """What distinguishes the axes of a sum whatever their order: where each occurs in the factors of the terms."""
    signatures: list[list] = [[] for _ in shape]
    for term in terms:
        _, factors, output, _ = parts(term)
        for axis, label in enumerate(output):
            where = [(n.digest, orbit(n, a)) for n, labels in factors for a, x in enumerate(labels) if x == label]
            signatures[axis].append(tuple(sorted(where)))
    return [(str(size), tuple(sorted(signature))) for size, signature in zip(shape, signatures, strict=True)]


def orbit(node: Expr, axis: int) -> int:
    """The smallest axis that a symmetry of the node takes to this one."""
    return min([axis, *(permutation[axis] for permutation, _ in node.symmetries)])


# Functions


def map_(function: Function, args: Sequence[Expr]) -> Expr:
    """An elementwise function of arguments of one shape, in canonical form."""
    args = tuple(args)
    if (rewritten := rewrite(function.name, *function.rule_arguments, *args)) is not None:
        return rewritten
    kept = [axis for axis in range(args[0].ndim) if not all(_is_unbound(arg, axis) for arg in args)]
    shape = args[0].shape
    if len(kept) < len(shape):
        return _spread(map_(function, [_drop(arg, kept) for arg in args]), kept, shape)
    if all(is_number(arg) for arg in args):
        return filled(function.fold([arg.coefficient for arg in args]), shape)  # type: ignore[attr-defined]
    axes, args = _map_orientation(args)
    symmetries = tuple(
        (swap, 1) for swap in _swaps(args[0].shape) if all(transpose(arg, swap) is arg for arg in args)
    )
    node = intern(
        Map, (function.identity, [arg.digest for arg in args]), function=function, args=args, shape=args[0].shape,
        symmetries=symmetries if len(symmetries) <= 1 else (),
    )  # fmt: skip
    return transpose(node, axes) if axes is not None else node


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


def _map_orientation(args: tuple[Expr, ...]) -> tuple[tuple[int, ...] | None, tuple[Expr, ...]]:
    """Arguments in canonical orientation, and the transposition that undoes it for the result (None: as they are)."""
    if args[0].ndim < 2:
        return None, args
    identity = tuple(range(args[0].ndim))
    _, factors, _, _ = parts(args[0])
    alone = len(factors) == 1 and sorted(factors[0][1]) == list(identity)
    candidates = [identity, (1, 0)] if args[0].ndim == 2 else [factors[0][1] if alone else identity]
    turned = [(tuple([transpose(arg, axes) for arg in args]), axes) for axes in candidates]
    best, axes = min(turned, key=lambda pair: [arg.digest for arg in pair[0]])
    if axes == identity:
        return None, best
    return tuple([axes.index(axis) for axis in identity]), best


def _is_unbound(arg: Expr, axis: int) -> bool:
    """Whether an expression is the same all along an axis."""
    if not isinstance(arg, Einsum) or not arg.is_product:
        return False
    label = arg.output[axis]
    return arg.output.count(label) == 1 and not any(label in labels for labels in arg.labels)


def _drop(arg: Expr, kept: Sequence[int]) -> Expr:
    """An expression without the axes along which it is the same."""
    coefficient, factors, output, sizes = parts(arg)
    return _product(coefficient, factors, tuple([output[axis] for axis in kept]), sizes)


def _spread(expr: Expr, kept: Sequence[int], shape: Shape) -> Expr:
    """An expression repeated along the axes that `_drop` took away."""
    return einsum(1, [(expr, tuple(kept))], tuple(range(len(shape))), dict(enumerate(shape)))


def apply(function: Function, args: Sequence[Expr], batch: Sequence[Labels] | None = None) -> Expr:
    """A function of whole tensors, in canonical form. Leading axes beyond the function's core are batch axes."""
    args = tuple(args)
    if batch is None:
        batch = [tuple(range(arg.ndim - core)) for arg, core in zip(args, function.core, strict=True)]
    if not any(batch) and (rewritten := rewrite(function.name, *args)) is not None:
        return rewritten
    sizes: dict[int, Size] = {}
    for arg, labels in zip(args, batch, strict=True):
        sizes.update(zip(labels, arg.shape, strict=False))
    names = sorted(sizes)
    kept_labels = [x for x in names if not all(_is_unbound(a, ls.index(x)) for a, ls in zip(args, batch, strict=True) if x in ls)]
    if len(kept_labels) < len(names):
        return _unbatched(function, args, batch, sizes, kept_labels)
    rename = {label: index for index, label in enumerate(names)}
    batch = tuple([tuple([rename[x] for x in labels]) for labels in batch])
    shape = tuple([sizes[x] for x in names]) + function.output_shape([a.shape[len(ls):] for a, ls in zip(args, batch, strict=True)])
    symmetric = function.keeps_symmetry and all(transpose_core(arg) is arg for arg in args)
    last = len(shape)
    swap = (*range(last - 2), last - 1, last - 2)
    return intern(
        Apply, (function.identity, [arg.digest for arg in args], batch), function=function, args=args, batch=batch,
        shape=shape, symmetries=((swap, 1),) if symmetric else (),
    )  # fmt: skip


def transpose_core(expr: Expr) -> Expr:
    """The last two axes exchanged."""
    return transpose(expr, (*range(expr.ndim - 2), expr.ndim - 1, expr.ndim - 2))


def _unbatched(function: Function, args: tuple, batch: Sequence[Labels], sizes: dict[int, Size], kept: list[int]) -> Expr:
    """The function without the batch axes along which all arguments are the same, repeated along them."""
    smaller = []
    for arg, labels in zip(args, batch, strict=True):
        axes = [axis for axis, label in enumerate(labels) if label in kept]
        smaller.append(_drop(arg, [*axes, *range(len(labels), arg.ndim)]))
    inner = apply(function, smaller, [tuple([x for x in labels if x in kept]) for labels in batch])
    core = range(len(sizes), len(sizes) + inner.ndim - len(kept))
    names = sorted(sizes)
    rename = {label: index for index, label in enumerate(names)}
    shape = tuple([sizes[x] for x in names]) + inner.shape[len(kept):]
    return _spread(inner, [*(rename[x] for x in kept), *core], shape)



"""What the colours in the picture of a Hessian stand for, in the notation of the user: `I ⊗ 2VᵀV`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eindiff.core import construct
from eindiff.core.errors import shape_text
from eindiff.core.labels import UnionFind
from eindiff.core.nodes import Expr, Variable, intern, is_index_map, variables
from eindiff.structure.patterns import Pattern, decompose
from eindiff.structure.picture_scheme import COLOURS, OTHER, Scheme
from eindiff.structure.terms import Term
from eindiff.text.write.mathml import MathmlStyle, name_mathml, whole
from eindiff.text.write.plain import POWER, PRODUCT, Piece, UnicodeStyle
from eindiff.text.write.to_text import Equations
from eindiff.text.write.tree import Tree, call, literal, product, split_number

LONGEST_FORMULA = 120  # characters of a formula; in a longer one, factors have names
FACTOR_NAMES = "CDEFGKLMNPQ"


class LegendStyle(UnicodeStyle):
    """Unicode with ⊗ for Kronecker products."""

    def call(self, tree: Tree) -> Piece:
        if tree.data == "kron":
            left, right = (self.text(part, POWER) for part in tree.parts)
            return f"{left} ⊗ {right}", PRODUCT
        return UnicodeStyle.call(self, tree)


def legend(
    scheme: Scheme, blocks: Sequence[Sequence[Expr]], names: Sequence[str], sizes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The models `TermData`, one for each colour."""
    rows = []
    for colour, [(i, j, term), *_] in zip(COLOURS, scheme.kinds, strict=False):
        patterns = [pattern for pattern in decompose(blocks[i][j], sizes) if pattern.coefficient]
        place = next(k for k, other in enumerate(scheme.grid.terms[i][j]) if other is term)
        between = f"{names[i]}, {names[j]}" if len(names) > 1 else ""
        row = {"colour": colour, "block": between, "text": "a product of arrays", "mathml": "", "where": []}
        if place < len(patterns) and is_of(patterns[place], term):
            row.update(described(patterns[place], len(scheme.grid.rows[i])))
        rows.append(row)
    if (more := len(scheme.kinds) - len(rows)) > 0:
        rows.append({"colour": OTHER, "block": "", "text": f"{more} more terms", "mathml": "", "where": []})
    return rows


def is_of(pattern: Pattern, term: Term) -> bool:
    """Whether a term was computed by a pattern."""
    labels = tuple([own for _, own in pattern.factors])
    return (labels, pattern.output, float(pattern.coefficient)) == (term.labels, term.output, term.coefficient)


def described(pattern: Pattern, rows: int) -> dict[str, Any]:
    """The formula of a term; if that is long, with names for its factors."""
    if (made := _formula(written(pattern, rows))) is not None:
        return made
    alone = len(pattern.factors) == 1 and sorted(pattern.factors[0][1]) == sorted(pattern.output)
    short, parts = _named(pattern)
    if alone or (made := _formula(written(short, rows))) is None:
        return {"text": "all entries, as in the result above"}
    where = []
    for name, expr in parts.items():
        found = _formula(_matrix(expr)) if expr.ndim <= 2 else None
        shape = f"an array of shape {shape_text(expr.shape)}" if expr.ndim else "a number"
        own = {"name": name, "name_mathml": whole(name_mathml(name), display=False)}
        where.append(own | (found or {"text": shape, "mathml": ""}))
    return made | {"where": where}


def _formula(tree: Tree) -> dict[str, str] | None:
    text = LegendStyle().text(tree)
    return {"text": text, "mathml": whole(MathmlStyle().text(tree))} if len(text) <= LONGEST_FORMULA else None


def _named(pattern: Pattern) -> tuple[Pattern, dict[str, Expr]]:
    """A pattern with variables in the place of its factors, and what they stand for."""
    taken = {v.name for node, _ in pattern.factors for v in variables(node)}
    free = (letter + mark for mark in ("", "1", "2", "3") for letter in FACTOR_NAMES if letter + mark not in taken)
    names: dict[Expr, str] = {}
    factors = []
    for node, labels in pattern.factors:
        if isinstance(node, Variable) or is_index_map(node):
            factors.append((node, labels))
            continue
        if node not in names:
            names[node] = next(free)
        made = intern(
            Variable, ("legend", names[node], node.shape), name=names[node], shape=node.shape,
            properties=frozenset(), symmetries=node.symmetries,
        )  # fmt: skip
        factors.append((made, labels))
    return replace(pattern, factors=tuple(factors)), {name: node for node, name in names.items()}


def written(pattern: Pattern, rows: int) -> Tree:
    """A term: a matrix, a Kronecker product of matrices, or what stands in each entry."""
    if len(pattern.output) > 2 and not pattern.places and (found := kronecker(pattern, rows)) is not None:
        front, factors = found
        value, trees = split_number(_matrix(front))[0], [_matrix(factor) for factor in factors]
        rest = split_number(_matrix(front))[1]
        for k, tree in enumerate(trees):  # numbers stand in front
            own, bare = split_number(tree)
            if bare is not None:
                value, trees[k] = value * own, bare
        made = trees[0]
        for tree in trees[1:]:
            made = call("kron", [made, tree], 2)
        return product([literal(value), *([] if rest is None else [rest]), made])
    everything = [*pattern.factors, *pattern.places]
    whole_term = construct.einsum(pattern.coefficient, everything, pattern.output, pattern.sizes)
    if whole_term.ndim <= 2:
        return _matrix(whole_term)
    line = Equations.of(whole_term, "index", names=False).lines[-1]
    return Tree("tensor", (line.tree,), line.labels, whole_term.ndim)


def _matrix(expr: Expr) -> Tree:
    return Equations.of(expr, "matrix", names=False).lines[-1].tree


def kronecker(pattern: Pattern, rows: int) -> tuple[Expr, list[Expr]] | None:
    """A scalar and the factors of a Kronecker product, one for each axis of the rows, if a term is one."""
    output, sizes = pattern.output, pattern.sizes
    if len(output) != 2 * rows:
        return None
    sets = UnionFind()
    for left, right in zip(output[:rows], output[rows:], strict=True):
        sets.unite(left, right)
    for _, labels in pattern.factors:
        for label in labels[1:]:
            sets.unite(labels[0], label)
    roots = [sets.find(label) for label in output[:rows]]
    if len(set(roots)) < rows or any(labels and sets.find(labels[0]) not in roots for _, labels in pattern.factors):
        return None
    factors = []
    for k, root in enumerate(roots):
        own = [(node, labels) for node, labels in pattern.factors if labels and sets.find(labels[0]) == root]
        factors.append(construct.einsum(1, own, (output[k], output[k + rows]), sizes))
    scalars: list[Any] = [factor for factor in pattern.factors if not factor[1]]
    return construct.einsum(pattern.coefficient, scalars, (), {}), factors

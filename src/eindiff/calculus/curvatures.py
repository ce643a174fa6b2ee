"""Second derivatives as a sum of curvatures: `Σ_v v̄ φ_v''(∂v/∂x, ∂v/∂z)` over all nodes `v = φ_v(children)`.

Two derivatives of the chain rule, one after the other, multiply the Jacobian of what is inside of a function from one
side first. Where few variables go through a function of a large matrix, its second derivative along both sides takes
less: that of `log det K` is `-tr(K⁻¹ K_d K⁻¹ K_e)`, for which all `K⁻¹ K_d` are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from math import prod

from eindiff.calculus.chain_rule import depends, pullback, pullbacks, pushforwards, unit
from eindiff.calculus.derive import finished
from eindiff.calculus.second_order import elementwise_second, is_known
from eindiff.core import construct
from eindiff.core.construct import Factor, add, einsum
from eindiff.core.labels import Labels
from eindiff.core.nodes import Apply, Einsum, Expr, Map, Number, Variable, plain
from eindiff.core.rebuild import substituted
from eindiff.core.sizes import Evaluate, Size
from eindiff.functions.table import TABLE

Slopes = Mapping[Expr, Expr]  # derivatives of nodes by a variable


def is_through_matrices(f: Expr, by: Sequence[Variable], evaluate: Evaluate) -> bool:
    """Whether variables go through a function of a matrix that has more rows than they have entries."""
    entries = max(prod(map(evaluate, x.shape)) for x in by)
    order, active = depends([f], by)
    general = [node for node in order if isinstance(node, Apply) and node in active]
    return any(node.function.core[0] == 2 and evaluate(node.args[0].shape[-1]) >= entries for node in general)


def curvatures(f: Expr, x: Variable, z: Variable) -> Expr | None:
    """The derivative of a scalar f by x and z; None where it is not known how."""
    f = plain(f)
    order, active = depends([f], [x, z])
    nodes = [node for node in order if node in active and node not in (x, z)]
    if any(v.properties for v in (x, z)) or not all(map(_is_known, nodes)):
        return None
    slopes = [pushforwards(f, v, unit(v)) for v in ((x,) if x is z else (x, z))]
    found = _Curvatures(slopes[0], slopes[-1], x, z)
    bars = pullbacks(f, [x, z], construct.filled(1, ()))
    terms = [term for node in nodes if node in bars for term in found.of(node, bars[node])]
    return finished([add([construct.filled(0, x.shape + z.shape), *terms])])[0]


def _is_known(node: Expr) -> bool:
    """Whether the derivative of a node can be derived: that of a function of another library cannot."""
    return is_known(node) and (not isinstance(node, Apply) or node.function.name in TABLE)


class _Curvatures:
    """What nodes contribute to the second derivative by two variables, from the slopes of their children."""

    def __init__(self, by_x: Slopes, by_z: Slopes, x: Variable, z: Variable) -> None:
        self.slopes = (by_x, by_z)
        self.variables = (x, z)

    def of(self, node: Expr, bar: Expr) -> Iterator[Expr]:
        """The terms of one node, whose pullback is given."""
        match node:
            case Einsum():
                yield from self._of_multiplication(node, bar)
            case Map():
                yield from self._of_elementwise(node, bar)
            case Apply():
                yield from self._of_general(node, bar)

    def _of_multiplication(self, node: Einsum, bar: Expr) -> Iterator[Expr]:
        factors = node.factors
        for places in permutations(range(len(factors)), 2):
            if (pair := self._pair([factors[k] for k in places])) is not None:
                others = [factor for k, factor in enumerate(factors) if k not in places]
                sizes = dict(enumerate(node.sizes))
                yield self._joined(node.coefficient, pair, [(bar, node.output), *others], sizes)

    def _of_elementwise(self, node: Map, bar: Expr) -> Iterator[Expr]:
        own = tuple(range(node.ndim))
        for i, j in product(range(len(node.args)), repeat=2):
            if (pair := self._pair([(node.args[k], own) for k in (i, j)])) is not None:
                curvature = elementwise_second(node, i, j)
                if not construct.is_zero(curvature):
                    yield self._joined(1, pair, [(bar, own), (curvature, own)], dict(enumerate(node.shape)))

    def _of_general(self, node: Apply, bar: Expr) -> Iterator[Expr]:
        """The pullback along the slope by x, derived along that by z: for arguments that are variables."""
        args = [construct.placeholder(f"argument_{k}", arg.shape) for k, arg in enumerate(node.args)]
        seed = construct.placeholder("bar", node.shape)
        own = construct.apply(node.function, args, node.batch)
        x, z = self.variables
        for i, j in product(range(len(args)), repeat=2):
            if (pair := self._pair([(node.args[k], ()) for k in (i, j)])) is None:
                continue
            along_x = construct.placeholder("along_x", args[i].shape + x.shape)
            along_z = construct.placeholder("along_z", args[j].shape + z.shape)
            if (back := pullback(own, seed, i)) is not None:
                labels = tuple(range(along_x.ndim))
                inner = [(back, labels[: args[i].ndim]), (along_x, labels)]
                slope = einsum(1, inner, labels[args[i].ndim :], dict(enumerate(along_x.shape)))
                curved = pushforwards(slope, args[j], along_z).get(plain(slope))
                values: dict[Expr, Expr] = dict(zip(args, node.args, strict=True))
                values |= {seed: bar, along_x: pair[0][0], along_z: pair[1][0]}
                yield from substituted([curved], values) if curved is not None else ()

    def _pair(self, children: list[Factor]) -> list[Factor] | None:
        """The slopes of two children, by x and by z, if both have one."""
        if not all(child in slopes for (child, _), slopes in zip(children, self.slopes, strict=True)):
            return None
        return [(slopes[child], labels) for (child, labels), slopes in zip(children, self.slopes, strict=True)]

    def _joined(self, coefficient: Number, pair: list[Factor], others: list[Factor], sizes: dict[int, Size]) -> Expr:
        """The product of two slopes and other factors."""
        output: Labels = ()
        moving = []
        for (slope, labels), v in zip(pair, self.variables, strict=True):
            new = tuple(range(len(sizes), len(sizes) + v.ndim))
            sizes |= dict(zip(new, v.shape, strict=True))
            moving.append((slope, (*labels, *new)))
            output += new
        return einsum(coefficient, [*others, *moving], output, sizes, inline=False)

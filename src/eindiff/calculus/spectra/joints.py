"""The derivative of a contraction by the matrix whose eigenvectors or singular vectors are in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eindiff.calculus.spectra.kernels import Kernels, both
from eindiff.calculus.spectra.networks import Joint, SpectralNetwork
from eindiff.core import construct
from eindiff.core.coefficients import HALF
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels
from eindiff.core.nodes import Expr, Number, Variable
from eindiff.functions.elementwise import TABLE, power
from eindiff.functions.matrices import nonzero, nonzero_pairs

Hold = Callable[[Expr], Variable]  # a place holder for a node


@dataclass
class JointTerm:
    """One term of the derivative: a network without the direction, whose axes have labels here."""

    network: SpectralNetwork
    direction: Labels


def joint_terms(network: SpectralNetwork, joint: Joint, hold: Hold) -> list[JointTerm]:
    """The derivative of a network through one of its joints."""
    used = {*joint.legs, *joint.kernels}
    others = [factor for k, factor in enumerate(network.factors) if k not in used]
    product = [network.factors[k] for k in joint.kernels]
    kernels = Kernels(joint.family, hold(joint.family), {})
    legs = [network.factors[k] for k in joint.legs]
    network = replace(network, factors=others, sizes=dict(network.sizes))
    if joint.family.function.name == "eigvals":
        return _eigen_terms(network, joint, kernels, product, legs)
    return _Singular(network, joint, kernels, product, hold).terms(legs)


def _eigen_terms(
    network: SpectralNetwork, joint: Joint, kernels: Kernels, product: list[Factor], legs: list[Factor]
) -> list[JointTerm]:
    """Q_ip Q_ja k[λ_p, λ_a] Q_kp Q_la for Q_ia Q_ja k(λ_a), with the direction E_kl."""
    (vectors, first), (_, second) = legs
    a, batch = joint.label, first[:-2]
    p, k, l = (network.fresh(network.sizes[a]) for _ in range(3))
    legs = [(vectors, (*batch, first[-2], p)), (vectors, second), (vectors, (*batch, k, p)), (vectors, (*batch, l, a))]
    return [
        JointTerm(network.with_factors([*network.factors, *legs, *factors]), (*batch, k, l))
        for factors in kernels.differences(product, a, p)
    ]


class _Singular:
    """The derivative through a joint of singular vectors, A = U diag(σ) V', with P = U' E V for the direction E.

    With the sums s = (k_a + k_p) / (σ_a + σ_p), and what E has outside of the range of A and of A':

        U_ia V_ja k(σ_a):  U_ip V_ja ((k[σ_a, σ_p] + s) P_pa + (k[σ_a, σ_p] - s) P_ap) / 2
        U_ia U_ja k(σ_a):  U_ip U_ja (P_pa σ_a + P_ap σ_p) k[σ_a, σ_p] / (σ_a + σ_p)
        V_ia V_ja k(σ_a):  V_ip V_ja (P_pa σ_p + P_ap σ_a) k[σ_a, σ_p] / (σ_a + σ_p)
    """

    def __init__(
        self, network: SpectralNetwork, joint: Joint, kernels: Kernels, product: list[Factor], hold: Hold
    ) -> None:
        left, right = (
            construct.apply(TABLE[name], joint.family.args, joint.family.batch) for name in ("svdleft", "svdright")
        )
        self.network, self.product, self.kernels, self.a = network, product, kernels, joint.label
        self.vectors = {"U": hold(left), "V": hold(right)}
        self.p, self.k, self.l = (
            network.fresh(size) for size in (network.sizes[self.a], left.shape[-2], right.shape[-2])
        )
        self.batch: Labels = ()

    def terms(self, legs: list[Factor]) -> list[JointTerm]:
        """All terms of the derivative."""
        (first, own), (second, theirs) = sorted(legs, key=lambda leg: leg[0] is self.vectors["V"])
        self.batch = own[:-2]
        kinds = "".join("U" if x is self.vectors["U"] else "V" for x in (first, second))
        i, j = own[-2], theirs[-2]
        inside = self._of_both(i, j) if kinds == "UV" else self._of_one(kinds[0], i, j)
        return [*inside, *self._outside(kinds[0], i, kinds[1], j), *self._outside(kinds[1], j, kinds[0], i)]

    def _leg(self, kind: str, i: int, a: int) -> Factor:
        return self.vectors[kind], (*self.batch, i, a)

    def _projected(self, p: int, a: int) -> list[Factor]:
        """P_pa, but for the direction."""
        return [self._leg("U", self.k, p), self._leg("V", self.l, a)]

    def _term(self, coefficient: Number, *factors: Factor) -> JointTerm:
        whole = self.network.with_factors([*self.network.factors, *factors], coefficient)
        return JointTerm(whole, (*self.batch, self.k, self.l))

    def _value(self, label: int) -> Factor:
        return self.kernels.slot, (*self.batch, label)

    def _inverse_sum(self) -> list[Factor]:
        slot, labels = self.kernels.slot, (*self.batch, self.a, self.p)
        here, there = both(slot, slot.ndim - 1)
        return [(power(here + there, -1), labels), (nonzero_pairs(slot), labels)]

    def _of_both(self, i: int, j: int) -> list[JointTerm]:
        a, p = self.a, self.p
        legs = [self._leg("U", i, p), self._leg("V", j, a)]
        moved = [(x, tuple([p if label == a else label for label in own])) for x, own in self.product]
        result = []
        for sign, projected in ((1, self._projected(p, a)), (-1, self._projected(a, p))):
            for slopes in self.kernels.differences(self.product, a, p):
                result.append(self._term(HALF, *legs, *projected, *slopes))
            for kernel in (self.product, moved):
                result.append(self._term(sign * HALF, *legs, *projected, *kernel, *self._inverse_sum()))
        return result

    def _of_one(self, kind: str, i: int, j: int) -> list[JointTerm]:
        a, p = self.a, self.p
        legs = [self._leg(kind, i, p), self._leg(kind, j, a)]
        first, second = (a, p) if kind == "U" else (p, a)
        return [
            self._term(1, *legs, *projected, self._value(value), *slopes, *self._inverse_sum())
            for slopes in self.kernels.differences(self.product, a, p)
            for projected, value in ((self._projected(p, a), first), (self._projected(a, p), second))
        ]

    def _outside(self, kind: str, i: int, other: str, j: int) -> list[JointTerm]:
        """The part of dU (or dV) outside of its range, (I - U U') E V diag(1/σ), at the row i of this kind."""
        vectors = self.vectors[kind]
        if vectors.shape[-1] == vectors.shape[-2]:
            return []
        row, column, partner = (self.k, self.l, "V") if kind == "U" else (self.l, self.k, "U")
        legs = [self._leg(partner, column, self.a), self._leg(other, j, self.a)]
        inverse = power(self.kernels.slot, -1) * nonzero(self.kernels.slot)
        kernel = [*self.product, (inverse, (*self.batch, self.a))]
        c = self.network.fresh(vectors.shape[-1])
        size = vectors.shape[-2]
        unit = construct.einsum(1, [], (0, 0), {0: size})
        return [
            self._term(1, *legs, *kernel, (unit, (i, row))),
            self._term(-1, *legs, *kernel, self._leg(kind, i, c), self._leg(kind, row, c)),
        ]

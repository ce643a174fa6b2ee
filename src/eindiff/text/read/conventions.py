"""What names mean by themselves: λ is a scalar nearly everywhere, x a vector, A a matrix; lambda and λ are one name.

These are hints. What a text does with a name comes first (`kinds.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WORDS = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi
    omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega"""
_SCALARS = "λ γ η ε ρ τ ν κ σ α δ lam eps lr reg tol step dt rate learning_rate weight_decay margin"
GREEK = dict(zip(_WORDS.split(), "αβγδεζηθικλμνξρστυφχψωΓΔΘΛΞΣΦΨΩ", strict=True))
SCALARS = frozenset(_SCALARS.split())
_VARIANTS = str.maketrans("ϵϑϱϕµ₀₁₂₃₄₅₆₇₈₉", "εθρφμ0123456789")
_VECTORS = frozenset(("grad", "gradient", "bias", "coef", "acc"))
_COUNTS = frozenset("nmNM")
_FACTORS = frozenset("BCDEFGHIJKLMNPQRSTUVWY")  # capitals that are often numbers, in physics
_LABELS = frozenset("yt")  # vectors of which one entry, a label, has the same name
_WEIGHTS = frozenset(("w", "β", "θ", "b", "coef", "weights"))
_INTERCEPTS = frozenset(("b", "b0", "b_0", "β0", "β_0", "w0", "w_0", "θ0", "θ_0", "a", "c", "intercept"))
_LINE = frozenset("abcdkm")  # of a + b*x
_COUNTED = re.compile(r"(?:n|N|num|number_of)_[a-z_]{3,}|nobs|batch_size|n(?:samples|data|points|train)")
_STEM = re.compile(r"([^\W\d_]+)(.*)", re.DOTALL)


def canonical(name: str) -> str:
    """One spelling of a name: Greek words as letters, digits below the line on it.

    >>> canonical("lambda_1"), canonical("x₁"), canonical("lambdas")
    ('λ_1', 'x1', 'lambdas')
    """
    found = _STEM.fullmatch(name.translate(_VARIANTS))
    if found is None:
        return name
    stem, rest = found.groups()
    return GREEK.get(stem, stem) + rest


def spellings(names: Iterable[str]) -> dict[str, str]:
    """The first of the given names for each canonical one."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(canonical(name), name)
    return found


@dataclass(frozen=True, slots=True)
class Hint:
    """How well a name fits to a scalar, a vector and a matrix: `costs` of the three, 0 for the best.

    `is_scalar`: nearly everywhere it is one, even if that means that it is added to each entry of a vector.
    """

    costs: tuple[int, int, int]
    is_scalar: bool = False

    @property
    def order(self) -> int:
        """The order that the name has by itself."""
        return self.costs.index(0)


def hint(name: str) -> Hint:
    """What a name stands for by itself, from its first letter: a..g scalar, h..z vector, A..Z matrix.

    So it is on matrixcalculus.org. Letters differ in how sure that is: k may well be a number where x is not.
    """
    plain = canonical(name)
    found = _STEM.match(plain)
    stem = found[1] if found else plain
    first = plain[0]
    if {plain, stem} & SCALARS:
        return Hint((0, 2, 12), True)
    if stem in _VECTORS:
        return Hint((6, 0, 12))
    if plain == "I":  # a current, where it is not the identity
        return Hint((0, 8, 3))
    if first.isupper():
        return Hint((3 if stem in _FACTORS or len(stem) > 1 else 10, 8, 0))
    if stem == "t" or not "a" <= first <= "z":
        return Hint((0, 4, 12))
    if plain[1:] in ("_i", "_j"):  # an entry
        return Hint((0, 3, 12))
    if first < "h" or plain == "n":
        return Hint((0, 5 if first < "e" else 2, 12))
    return Hint((6 if first >= "u" else 4, 0, 12))


def is_usual_scalar(name: str) -> bool:
    """Whether nobody is surprised that a name is a scalar: by its letter, or as it counts something."""
    return hint(name).order == 0 or name in _COUNTS


def is_count(name: str) -> bool:
    """Whether a name counts: n, N, m, n_samples, batch_size."""
    return name in _COUNTS or _COUNTED.fullmatch(name) is not None


def may_be_number(name: str) -> bool:
    """Whether a capital may be a number, as in p*V - n*R*T, or a letter one of the labels y."""
    return name in _FACTORS or (name[:1] in _FACTORS and len(name) > 1) or canonical(name) in _LABELS


def is_intercept(name: str, matrix: str, vector: str) -> bool:
    """Whether a name that is added to `matrix*vector` is the same for all rows: b in X*w + b."""
    return matrix == "X" and canonical(vector) in _WEIGHTS and name != vector and canonical(name) in _INTERCEPTS


def is_line(name: str, slope: str) -> bool:
    """Whether a name that is added to `slope*x` is the intercept of a line: a in a + b*x."""
    return name in _LINE and slope in _LINE and name != slope


def is_noise(name: str) -> bool:
    """Whether a name that is added to a matrix times a vector is a vector of errors: X*beta + epsilon."""
    return name in ("epsilon", "ε", "varepsilon", "noise")


def is_right_side(name: str, matrix: str, vector: str) -> bool:
    """Whether a capital beside a matrix times a vector is a vector, too: F in K*u - F."""
    return name in _FACTORS and hint(matrix).order == 2 and hint(vector).order == 1

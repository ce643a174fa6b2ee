"""Objective functions of machine learning and statistics, with the structure that their Hessians have by hand.

The docstring of each gives its Hessian, entries of variables in row-major order: `A ⊗ B` has A_ik B_jl between the
entries (i, j) and (k, l). For several variables it gives the blocks. `M_i` is row i, `∘` the product of entries,
`diag(a_i) over i` a block for each i, σ the sigmoid, p softmax probabilities.
"""

from __future__ import annotations

from objective import Makers, Objective
from objectives_elementwise import ELEMENTWISE
from objectives_factorization import FACTORIZATION
from objectives_matrices import MATRICES
from objectives_regression import REGRESSION

__all__ = ["OBJECTIVES", "Objective"]

OBJECTIVES: Makers = {**FACTORIZATION, **REGRESSION, **MATRICES, **ELEMENTWISE}

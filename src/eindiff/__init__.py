"""Closed-form derivatives of tensor expressions, of any order, that run as fast as the best hand-written code."""

from eindiff import simplify as _simplify
from eindiff.arrays import (
    concatenate, cumsum, diag, einsum, eye, inner, kron, matmul, matrix, mean, moveaxis, ones, outer, reshape, scalar, stack, sum,
    symmetric, take, tensor, tr, transpose, vec, vector, zeros,
)  # fmt: skip
from eindiff.check import Check, check
from eindiff.cost import Cost, cost
from eindiff.derive import (
    cut, derivative, gradient, hessian, hessian_diagonal, hvp, jacobian, jvp, laplacian, quadratic_form, vjp,
)  # fmt: skip
from eindiff.errors import EindiffError
from eindiff.evaluate import evaluate
from eindiff.expr import Expr, variables
from eindiff.functions import (
    abs, arccos, arcsin, arctan, cos, cosh, erf, exp, expm1, greater, log, log1p, maximum, minimum, power, reciprocal, relu,
    sigmoid, sign, sin, sinh, softmax, softplus, sqrt, square, step, tan, tanh, where,
)  # fmt: skip
from eindiff.matrix_functions import (
    adj, chol, det, eigvals, eigvecs, expm, inv, lambdamax, logdet, logm, logsumexp, matrix_power, max, min, norm1, norm2, normnuc,
    normspec, pinv, prod, solve, sqrtm, svdleft, svdright, svdvals,
)  # fmt: skip
from eindiff.rewrite import rewrite_log

__version__ = "0.1.0"

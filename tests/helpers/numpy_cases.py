"""Cases for each row of the tables of NumPy functions: what is called, and the domains and shapes of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpy_programs import made

EXACT = 1e-10  # how far values may be off that are computed in two ways, relative to the largest,
FLOOR = 1e-3  # or to this, if all are small

# Elementwise functions: the domains of their arguments

X, P, I = "real:2x3", "positive:2x3", "between -1 and 1:2x3"
DOMAINS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("negative", "positive", "square", "absolute", "fabs", "sign", "conjugate", "cbrt"), (X,)),
    **dict.fromkeys(("exp", "exp2", "expm1", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh"), (X,)),
    **dict.fromkeys(("degrees", "rad2deg", "radians", "deg2rad"), (X,)),
    **dict.fromkeys(("logical_not", "expit", "log_expit", "erf", "erfc", "ndtr", "log_ndtr"), (X,)),
    **dict.fromkeys(("sqrt", "reciprocal", "log", "log2", "log10", "log1p", "entr"), (P,)),
    **dict.fromkeys(("arcsin", "arccos", "arctanh", "erfinv"), (I,)),
    **dict.fromkeys(("add", "subtract", "multiply", "hypot", "logaddexp", "logaddexp2", "arctan2"), (X, "real:3")),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin", "greater", "less"), (X, "real:3")),
    **dict.fromkeys(("greater_equal", "less_equal", "equal", "not_equal"), (X, "real:3")),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), (X, "real:3")),
    **dict.fromkeys(("divide", "xlog1py"), (X, "positive:3")),
    **dict.fromkeys(("power", "float_power", "xlogy", "rel_entr", "kl_div"), (P, "positive:3")),
    "arccosh": ("above one",),
    "logit": ("unit",),
    **dict.fromkeys(("floor", "ceil", "trunc", "rint", "isnan"), (X,)),
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), (X, "positive:3")),
    "copysign": (X, "real:3"),
    # scipy.special
    **dict.fromkeys(("erfcx", "erfi", "dawsn", "cosm1", "exprel", "exp10", "sindg", "cosdg", "tandg"), (X,)),
    **dict.fromkeys(("gamma", "rgamma", "gammasgn", "loggamma", "exp1", "expi", "spence"), (P,)),
    **dict.fromkeys(("betaln", "beta", "poch", "binom", "boxcox", "boxcox1p", "powm1"), (P, "positive:3")),
    **dict.fromkeys(("j0", "j1", "y0", "y1", "i0", "i1", "k0", "k1", "i0e", "i1e", "k0e", "k1e"), (P,)),
    **dict.fromkeys(("jv", "yv", "iv", "kv", "ive", "kve"), (0.7, P)),
    **dict.fromkeys(("yn", "kn", "expn"), (2, P)),
    **dict.fromkeys(("gammainc", "gammaincc", "chdtr", "chdtrc"), (1.7, P)),
    **dict.fromkeys(("betainc", "betaincc"), (1.7, 2.2, "unit")),
    **dict.fromkeys(("gdtr", "gdtrc"), (1.1, 1.3, P)),
    **dict.fromkeys(("pdtr", "pdtrc"), (2, P)),
    **dict.fromkeys(("fdtr", "fdtrc"), (3.2, 2.5, P)),
    **dict.fromkeys(("hyp1f1",), (0.7, 1.2, X)),
    **dict.fromkeys(("ellipk", "ellipe", "ndtri", "erfcinv"), ("unit",)),
    **dict.fromkeys(("gammaincinv", "gammainccinv", "stdtrit", "chdtri"), (1.7, "unit")),
    **dict.fromkeys(("betaincinv", "fdtri"), (1.7, 2.2, "unit")),
    "stdtr": (3.3, X),
    "hyp0f1": (1.2, X),
    "hyp2f1": (0.7, 1.2, 2.1, "unit"),
    "huber": ("positive:3", X),
    "pseudo_huber": ("positive:3", X),
    **dict.fromkeys(("eval_legendre", "eval_chebyt", "eval_chebyu", "eval_laguerre"), (4, X)),
    **dict.fromkeys(("eval_hermite", "eval_hermitenorm"), (3, X)),
    **dict.fromkeys(("gammaln", "psi"), (P,)),
    "heaviside": (X, "real:3"),
    "matmul": (X, "real:3x2"),
    "vecdot": (X, "real:2x3"),
    "matvec": (X, "real:3"),
    "vecmat": ("real:3", "real:3x2"),
    "bitwise_and": ("mask", "mask"),
    "bitwise_or": ("mask", "mask"),
    "bitwise_xor": ("mask", "mask"),
    "invert": ("mask",),
}


# Functions of arrays

Table = dict[str, list[tuple]]
CASES: Table = {
    "sum": [
        (np.sum, X),
        (lambda a: np.sum(a, axis=0), X),
        (lambda a: np.sum(a, axis=(0, 2), keepdims=True), "real:2x3x2"),
    ],
    "mean": [(np.mean, X), (lambda a: np.mean(a, -1, keepdims=True), X)],
    "prod": [(np.prod, X), (lambda a: np.prod(a, axis=1), X)],
    "max": [(np.max, "distinct entries:2x3"), (lambda a: np.max(a, axis=1, keepdims=True), "distinct entries:2x3")],
    "min": [(np.min, "distinct entries:2x3"), (lambda a: np.min(a, axis=0), "distinct entries:2x3")],
    "amax": [(lambda a: np.amax(a, 1), "distinct entries:2x3")],
    "amin": [(np.amin, "distinct entries:2x3")],
    "ptp": [(lambda a: np.ptp(a, axis=1), "distinct entries:2x3")],
    "var": [(np.var, X), (lambda a: np.var(a, axis=1, ddof=1, keepdims=True), X)],
    "std": [(np.std, X), (lambda a: np.std(a, axis=0, correction=0.5), X)],
    "average": [
        (np.average, X),
        (lambda a, w: np.average(a, axis=0, weights=w), X, "positive:2"),
        (lambda a, w: np.average(a, weights=w), X, P),
    ],
    "count_nonzero": [(lambda a: np.count_nonzero(a, axis=1), X)],
    "cumsum": [(np.cumsum, X), (lambda a: np.cumsum(a, axis=0), X)],
    "diff": [(np.diff, X), (lambda a: np.diff(a, n=2, axis=0), "real:4x2")],
    "trapezoid": [(lambda y: np.trapezoid(y, dx=0.5), X), (lambda y, x: np.trapezoid(y, x), "real:2x3", "real:3")],
    "dot": [
        (np.dot, X, "real:3"),
        (np.dot, "real:3", "real:3"),
        (np.dot, "real:2x2x3", "real:2x3x2"),
        (np.dot, "real", X),
    ],
    "inner": [(np.inner, "real:3", "real:3"), (np.inner, "real:2x3", "real:4x3"), (np.inner, "real", "real:2")],
    "vdot": [(np.vdot, X, X), (np.vdot, X, "real:6")],
    "outer": [(np.outer, "real:2", "real:3"), (np.outer, "real:2x2", "real:3")],
    "linalg.outer": [(np.linalg.outer, "real:2", "real:3")],
    "tensordot": [
        (np.tensordot, "real:2x3x2", "real:3x2x2"),
        (lambda a, b: np.tensordot(a, b, ([0, 1], [1, 0])), X, "real:3x2x2"),
        (lambda a, b: np.tensordot(a, b, 0), "real:2", "real:2"),
        (lambda a, b: np.tensordot(a, b, axes=1), X, "real:3x2"),
    ],
    "linalg.tensordot": [(lambda a, b: np.linalg.tensordot(a, b, axes=1), X, "real:3x2")],
    "einsum": [
        (lambda a, b: np.einsum("ij,jk->ik", a, b, optimize=True), X, "real:3x2"),
        (lambda a: np.einsum("ii", a), "real:3x3"),
        (lambda a, b: np.einsum("...i,i", a, b), X, "real:3"),
        (lambda a: np.einsum("ij->ji", a), X),
    ],
    "cross": [
        (np.cross, "real:3", "real:3"),
        (np.cross, "real:2x3", "real:3"),
        (lambda a, b: np.cross(a, b, axis=0), "real:3x2", "real:3x2"),
    ],
    "linalg.cross": [(np.linalg.cross, "real:3", "real:3")],
    "convolve": [
        (np.convolve, "real:5", "real:3"),
        (lambda a, v: np.convolve(a, v, "same"), "real:5", "real:2"),
        (lambda a, v: np.convolve(a, v, "same"), "real:3", "real:4"),
        (lambda a, v: np.convolve(a, v, "valid"), "real:5", "real:3"),
    ],
    "kron": [(np.kron, "real:2", "real:3"), (np.kron, "real:2x2", "real:1x3"), (np.kron, "real:2", "real:2x3")],
    "linalg.matmul": [(np.linalg.matmul, X, "real:3x2")],
    "linalg.vecdot": [(np.linalg.vecdot, X, X), (lambda a, b: np.linalg.vecdot(a, b, axis=0), X, X)],
    "transpose": [(np.transpose, X), (lambda a: np.transpose(a, (1, 2, 0)), "real:2x3x2")],
    "matrix_transpose": [(np.matrix_transpose, "real:2x3x2")],
    "linalg.matrix_transpose": [(np.linalg.matrix_transpose, X)],
    "swapaxes": [(lambda a: np.swapaxes(a, 0, -1), "real:2x3x2")],
    "rollaxis": [
        (lambda a: np.rollaxis(a, 2), "real:2x3x2"),
        (lambda a: np.rollaxis(a, 0, 2), "real:2x3x2"),
        (lambda a: np.rollaxis(a, -1, 1), "real:2x3x2"),
    ],
    "moveaxis": [
        (lambda a: np.moveaxis(a, 0, -1), "real:2x3x2"),
        (lambda a: np.moveaxis(a, (0, 1), (-1, 0)), "real:2x3x2"),
    ],
    "reshape": [
        (lambda a: np.reshape(a, (3, 2)), X),
        (lambda a: np.reshape(a, -1), X),
        (lambda a: np.reshape(a, (3, 2), order="F"), X),
    ],
    "ravel": [(np.ravel, X), (lambda a: np.ravel(a, order="F"), X)],
    "squeeze": [(np.squeeze, "real:1x3x1"), (lambda a: np.squeeze(a, axis=-1), "real:1x3x1")],
    "expand_dims": [(lambda a: np.expand_dims(a, 1), X), (lambda a: np.expand_dims(a, (0, -1)), "real:2")],
    "broadcast_to": [(lambda a: np.broadcast_to(a, (2, 3)), "real:3")],
    "broadcast_arrays": [(np.broadcast_arrays, "real:2x1", "real:3")],
    "atleast_1d": [(np.atleast_1d, "real"), (np.atleast_1d, "real:2", "real")],
    "atleast_2d": [(np.atleast_2d, "real:3"), (np.atleast_2d, "real")],
    "concatenate": [
        (lambda a, b: np.concatenate([a, b]), X, "real:1x3"),
        (lambda a, b: np.concatenate((a, b), axis=1), X, "real:2x1"),
        (lambda a, b: np.concatenate((a, b), axis=None), X, "real:2"),
    ],
    "stack": [
        (lambda a, b: np.stack([a, b]), X, X),
        (lambda a, b: np.stack([a, b], axis=-1), "real:2", "real:2"),
        (lambda a: np.stack([a, 2.0]), "real"),
    ],
    "hstack": [(lambda a, b: np.hstack([a, b]), "real:2", "real:3"), (lambda a, b: np.hstack([a, b]), X, "real:2x1")],
    "vstack": [(lambda a, b: np.vstack([a, b]), "real:3", "real:3"), (lambda a, b: np.vstack([a, b]), X, "real:3")],
    "column_stack": [(lambda a, b: np.column_stack([a, b]), "real:2", "real:2x3")],
    "append": [(lambda a, b: np.append(a, b), X, "real:2"), (lambda a, b: np.append(a, b, axis=0), X, "real:1x3")],
    "block": [
        (lambda a, b: np.block([[a, b], [b.T, np.eye(1)]]), "real:3x3", "real:3x1"),
        (lambda a, b: np.block([a, b]), "real:3", "real:2"),
    ],
    "split": [(lambda a: np.split(a, 3, axis=1), X), (lambda a: np.split(a, [1, 3]), "real:5")],
    "array_split": [(lambda a: np.array_split(a, 2), "real:5")],
    "take": [(lambda a: np.take(a, [2, 0, 0], axis=1), X), (lambda a: np.take(a, [5, 1]), X)],
    "flip": [(np.flip, X), (lambda a: np.flip(a, axis=0), X)],
    "flipud": [(np.flipud, X)],
    "fliplr": [(np.fliplr, X)],
    "roll": [(lambda a: np.roll(a, 2), X), (lambda a: np.roll(a, (1, -1), axis=(0, 1)), X)],
    "repeat": [(lambda a: np.repeat(a, 2), X), (lambda a: np.repeat(a, [1, 2, 0], axis=1), X)],
    "tile": [(lambda a: np.tile(a, 2), "real:3"), (lambda a: np.tile(a, (2, 1, 2)), X)],
    "pad": [(lambda a: np.pad(a, 1), X), (lambda a: np.pad(a, ((0, 1), (2, 0)), constant_values=2.0), X)],
    "meshgrid": [
        (np.meshgrid, "real:2", "real:3"),
        (lambda a, b: np.meshgrid(a, b, indexing="ij"), "real:2", "real:3"),
    ],
    "diagonal": [
        (np.diagonal, "real:3x3"),
        (lambda a: np.diagonal(a, offset=1), X),
        (lambda a: np.diagonal(a, 0, 1, 2), "real:2x3x3"),
    ],
    "linalg.diagonal": [(np.linalg.diagonal, "real:2x3x3")],
    "trace": [(np.trace, "real:3x3"), (lambda a: np.trace(a, offset=-1), X)],
    "linalg.trace": [(np.linalg.trace, "real:2x3x3")],
    "diag": [
        (np.diag, "real:3"),
        (np.diag, "real:3x3"),
        (lambda a: np.diag(a, 1), "real:2"),
        (lambda a: np.diag(a, -1), "real:3x3"),
    ],
    "tril": [(np.tril, "real:3x3"), (lambda a: np.tril(a, -1), X)],
    "triu": [(np.triu, "real:3x3"), (lambda a: np.triu(a, 1), "real:3x3"), (lambda a: np.triu(a, 1), X)],
    "where": [(lambda a, b: np.where(a > b, a * b, b), X, "real:3")],
    "clip": [
        (lambda a: np.clip(a, -0.5, 0.6), X),
        (lambda a, b: np.clip(a, b, None), X, "real:3"),
        (lambda a: np.clip(a, max=0.5), X),
    ],
    "sinc": [(np.sinc, X)],
    "round": [(lambda a: a * np.round(a, 1), X)],
    "around": [(lambda a: a * np.around(a), X)],
    "fix": [(lambda a: a * np.fix(a), X)],
    "polyval": [(np.polyval, "real:3", "real:2")],
    "linspace": [
        (lambda a, b: np.linspace(a, b, 4), "real", "real"),
        (lambda a, b: np.linspace(a, b, 3, endpoint=False), "real:2", "real:2"),
    ],
    "zeros_like": [(lambda a: a + np.zeros_like(a), X)],
    "empty_like": [
        (lambda a: a + 0 * np.nan_to_num(np.empty_like(a)) if isinstance(a, np.ndarray) else a + np.empty_like(a), X)
    ],
    "ones_like": [(lambda a: a * np.ones_like(a), X)],
    "full_like": [(lambda a, b: a * np.full_like(a, b), X, "real")],
    "copy": [(np.copy, X)],
    "real": [(np.real, X)],
    "imag": [(np.imag, X)],
    "shape": [(lambda a: a * np.shape(a)[0], X)],
    "ndim": [(lambda a: a * np.ndim(a), X)],
    "size": [(lambda a: a * np.size(a) * np.size(a, 1), X)],
    "iscomplexobj": [(lambda a: a * (2 - np.iscomplexobj(a)), X)],
    "isrealobj": [(lambda a: a * (1 + np.isrealobj(a)), X)],
    "result_type": [(lambda a: np.zeros(3, np.result_type(a)) + a, X)],
    "linalg.inv": [(np.linalg.inv, "invertible:3x3")],
    "linalg.det": [(np.linalg.det, "invertible:3x3")],
    "linalg.slogdet": [(np.linalg.slogdet, "positive determinant:3x3")],
    "linalg.solve": [(np.linalg.solve, "invertible:3x3", "real:3"), (np.linalg.solve, "invertible:3x3", "real:3x2")],
    "linalg.cholesky": [
        (lambda a: np.linalg.cholesky(a + a.T), "positive definite:3x3"),
        (lambda a: np.linalg.cholesky(a + a.T, upper=True), "positive definite:2x2"),
    ],
    "linalg.eigvalsh": [(lambda a: np.linalg.eigvalsh(a + a.T), "symmetric, distinct eigenvalues:3x3")],
    "linalg.eigh": [
        (
            lambda a: (np.linalg.eigh(a + a.T)[0], np.linalg.eigh(a + a.T).eigenvectors ** 2),
            "symmetric, distinct eigenvalues:3x3",
        )
    ],
    "linalg.svd": [
        (lambda a: (np.linalg.svd(a, full_matrices=False).U ** 2, np.linalg.svd(a, compute_uv=False)), "full rank:3x2"),
        (lambda a: np.linalg.svd(a)[2] ** 2, "full rank:2x2"),
    ],
    "linalg.svdvals": [(np.linalg.svdvals, "full rank:3x2")],
    "linalg.pinv": [(np.linalg.pinv, "full rank:3x2")],
    "linalg.matrix_power": [
        (lambda a: np.linalg.matrix_power(a, 3), "invertible:2x2"),
        (lambda a: np.linalg.matrix_power(a, -2), "invertible:2x2"),
    ],
    "linalg.multi_dot": [(lambda a, b, c: np.linalg.multi_dot([a, b, c]), "real:2", X, "real:3x2")],
    "linalg.norm": [
        (np.linalg.norm, X),
        (lambda a: np.linalg.norm(a, axis=1, keepdims=True), X),
        *((lambda a, p=p: np.linalg.norm(a, p), "distinct entries:4") for p in (1, 2, 3, np.inf, -np.inf)),
        *((lambda a, p=p: np.linalg.norm(a, p), "full rank:3x2") for p in ("fro", "nuc", 1, 2, -2, np.inf)),
    ],
    "linalg.vector_norm": [
        (lambda a: np.linalg.vector_norm(a, axis=1), X),
        (lambda a: np.linalg.vector_norm(a, ord=3), X),
    ],
    "linalg.matrix_norm": [
        (np.linalg.matrix_norm, X),
        (lambda a: np.linalg.matrix_norm(a, ord="nuc"), "full rank:3x2"),
    ],
}


def arrays_of(specs: tuple[Any, ...], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    special = {
        "above one": lambda: 1.2 + rng.random((2, 3)),
        "unit": lambda: 0.1 + 0.8 * rng.random((2, 3)),
        "mask": lambda: rng.random((2, 3)) < 0.5,
    }
    return [special[s]() if s in special else made(s, rng) if isinstance(s, str) else s for s in specs]

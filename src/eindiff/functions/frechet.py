"""Matrix exponential, logarithm and square root, with their derivatives of any order.

The k-th derivative at A in directions E1, ..., Ek is a function of its own, multilinear in the directions. So the
derivatives of all orders are written with it, and none is ever formed as a tensor of order four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.labels import Labels
from eindiff.core.nodes import Apply, Expr
from eindiff.functions.matrices import inv
from eindiff.functions.multilinear import Operand, eye, square_matrix
from eindiff.functions.table import add, written


def _frechet_value(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """The k-th Fréchet derivative at A in directions E1, ..., Ek: the last block of the function of a block matrix.

    The block matrix is X_0 = A, X_k = [[X_(k-1), I ⊗ E_k], [0, X_(k-1)]].
    """

    def one(a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
        n, block = a.shape[0], a
        for direction in directions:
            copies = block.shape[0] // n
            above = np.kron(np.eye(copies), direction)
            block = np.block([[block, above], [np.zeros_like(block), block]])
        if not np.isfinite(block).all():
            return np.full((n, n), np.nan)
        result = np.asarray(function(block))[:n, -n:]
        return np.where(np.abs(result.imag) > 1e-8 * (1 + np.abs(result.real)), np.nan, result.real)

    def value(a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(x.shape[:-2] for x in (a, *directions)))
        spread = [np.broadcast_to(x, shape + x.shape[-2:]) for x in (a, *directions)]
        result = np.empty(shape + a.shape[-2:])
        for index in np.ndindex(shape):
            result[index] = one(*(x[index] for x in spread))
        return result

    return value


def _scipy(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of scipy.linalg, which is imported when it is first needed: its import takes long."""

    def function(a: np.ndarray) -> np.ndarray:
        import scipy.linalg

        return getattr(scipy.linalg, name)(a)

    return function


_CUT = "no eigenvalue on the negative axis"
_NONE = dict.fromkeys(("jax", "torch", "tensorflow", "cupy"), "")  # libraries that do not have it
_MATRIX_FUNCTIONS: dict[str, tuple[Callable, str, dict[str, str]]] = {
    "expm": (_scipy("expm"), "real", {"torch": "torch.matrix_exp", "tensorflow": "tf.linalg.expm"}),
    "logm": (_scipy("logm"), _CUT, _NONE),
    "sqrtm": (_scipy("sqrtm"), _CUT, _NONE | {"tensorflow": "tf.linalg.sqrtm"}),
}


@lru_cache(maxsize=64)
def frechet_function(name: str, order: int) -> Function:
    """The derivative of a matrix function in `order` directions: multilinear and symmetric in the directions."""
    function, domain, others = _MATRIX_FUNCTIONS[name]
    return Function(
        name, _frechet_value(function), domain=domain, latex=rf"\operatorname{{{name}}}", parameter=order or None,
        maker=(frechet_function, (name, order)),
        core=(2,) * (order + 1), output=lambda *shapes: shapes[0], keeps_symmetry=True,
        pushforward=_frechet_pushforward, pullback=_frechet_pullback, flops=lambda n, _: 25 * (2**order * n) ** 3,
        source=written(f"linalg.{name}", 1, others),
    )  # fmt: skip


def _frechet(name: str, args: Sequence[Expr], batch: Sequence[Labels]) -> Expr:
    """The derivative of a matrix function at args[0] in directions args[1:], which are put in canonical order."""
    if len(args) == 2 and not any(batch) and (product := _commuting(name, *args)) is not None:
        return product
    if name == "expm" and (kept := [k for k in range(1, len(args)) if not _is_eye(args[k])]) != [*range(1, len(args))]:
        return _frechet(name, [args[k] for k in (0, *kept)], [batch[k] for k in (0, *kept)])
    directions = sorted(zip(args[1:], batch[1:], strict=True), key=lambda pair: (pair[0].digest, pair[1]))
    ordered, labels = [args[0], *(d for d, _ in directions)], [batch[0], *(b for _, b in directions)]
    return construct.apply(frechet_function(name, len(directions)), ordered, labels)


_PRIMES: dict[str, Callable[[Expr], Expr]] = {
    "expm": lambda a: expm(a), "logm": lambda a: inv(a), "sqrtm": lambda a: Fraction(1, 2) * inv(sqrtm(a)),
}  # fmt: skip


def _is_eye(x: Expr) -> bool:
    return x.ndim == 2 and x is eye(x.shape[0])


def _commuting(name: str, a: Expr, direction: Expr) -> Expr | None:
    """D f(A)[E] = f'(A) E if E commutes with A: if it is a multiple of I or of what A is a multiple of."""
    _, ours, out, _ = construct.parts(a)
    coefficient, theirs, output, sizes = construct.parts(direction)
    scalars = [factor for factor in theirs if not factor[1]]
    if output == (0, 0) and len(scalars) == len(theirs):
        return construct.einsum(coefficient, [*scalars, (_PRIMES[name](a), (0, 1))], (0, 1), {0: sizes[0], 1: sizes[0]})
    if out == output and [f for f in ours if f[1]] == [f for f in theirs if f[1]]:
        return direction @ _PRIMES[name](a)
    return None


def _frechet_pushforward(node: Apply, index: int, tangent: Expr) -> Expr:
    """D f(A)[E..] changes by D f(A)[E.., Ȧ] with A, and by D f(A)[.., Ė] with E. New axes come last."""
    args, batch, count = list(node.args), list(node.batch), node.ndim - 2
    new = tuple(range(count, count + tangent.ndim - args[index].ndim))
    own = len(batch[index])
    moved = construct.transpose(tangent, [*range(own), *range(own + 2, tangent.ndim), own, own + 1])
    if index == 0:
        args, batch = [*args, moved], [*batch, batch[0] + new]
    else:
        args[index], batch[index] = moved, batch[index] + new
    result = _frechet(node.function.name, args, batch)
    return construct.transpose(
        result, [*range(count), result.ndim - 2, result.ndim - 1, *range(count, result.ndim - 2)]
    )


def _frechet_pullback(node: Apply, index: int, cotangent: Expr) -> Expr:
    """The adjoint takes A' for A, the transposed other directions, and C̄ as a direction. The axes of y come first."""
    count = node.ndim - 2
    extra = cotangent.ndim - node.ndim
    shift = [tuple([label + extra for label in labels]) for labels in node.batch]
    flipped = [construct.transpose_core(arg) for arg in node.args]
    args, batch = [flipped[0]], [shift[0]]
    for k in range(1, len(flipped)):
        if k != index:
            args.append(flipped[k])
            batch.append(shift[k])
    result = _frechet(node.function.name, [*args, cotangent], [*batch, tuple(range(extra + count))])
    own = [label + extra for label in node.batch[index]]
    labels = tuple(range(result.ndim))
    output = (*range(extra), *own, result.ndim - 2, result.ndim - 1)
    return construct.einsum(1, [(result, labels)], output, dict(enumerate(result.shape)))


def expm(a: Operand) -> Expr:
    """The matrix exponential.

    Args:
        a: a square matrix, or a stack of them

    >>> ed.evaluate(ed.expm(ed.matrix("A", 2, 2)), {"A": np.zeros((2, 2))})
    array([[1., 0.],
           [0., 1.]])

    See also: `logm`, `sqrtm`, `exp`.
    """
    return construct.apply(frechet_function("expm", 0), (square_matrix("expm", a),))


def logm(a: Operand) -> Expr:
    """The principal matrix logarithm.

    Args:
        a: a square matrix, or a stack of them, without eigenvalues on the negative axis

    >>> ed.evaluate(ed.logm(ed.matrix("A", 2, 2)), {"A": np.eye(2)})
    array([[0., 0.],
           [0., 0.]])

    See also: `expm`.
    """
    return construct.apply(frechet_function("logm", 0), (square_matrix("logm", a),))


def sqrtm(a: Operand) -> Expr:
    """The principal matrix square root.

    Args:
        a: a square matrix, or a stack of them, without eigenvalues on the negative axis

    >>> ed.evaluate(ed.sqrtm(ed.matrix("A", 2, 2)), {"A": 4 * np.eye(2)})
    array([[2., 0.],
           [0., 2.]])

    See also: `expm`, `chol`.
    """
    return construct.apply(frechet_function("sqrtm", 0), (square_matrix("sqrtm", a),))


for _name in _MATRIX_FUNCTIONS:
    add(frechet_function(_name, 0))

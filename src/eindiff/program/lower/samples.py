"""Sums over samples, `Σ_s x[i, s] x[m, s] M[s, k, l]` in the order i, k, m, l (see `planning.stacks`)."""

from __future__ import annotations

from eindiff.core import sizes as sz
from eindiff.core.sizes import Shape
from eindiff.planning import tuning
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Arrays, Value
from eindiff.program.operations import BLAS, Operation


def sum_over_samples(arrays: Arrays, x: Operation, matrices: Operation, is_symmetric: bool) -> Value:
    """The sum; of many samples a half is computed, or a quarter if M is symmetric, and the rest mirrored."""
    inner, own = x.shape[1:], matrices.shape[len(x.shape) - 1 :]
    middle = len(own) // 2
    first, second = own[:middle], own[middle:]
    shape = (x.shape[0], *first, x.shape[0], *second)
    many, few = tuning.MIRRORED
    if arrays.products.entries(shape) < many or arrays.products.entries(inner) < few:
        return _contracted(arrays, x, matrices, shape)
    rows, samples, k, l = map(sz.product, (x.shape[:1], inner, first, second))
    reshape = arrays.products.reshape
    made = arrays.operations.make(
        "mirrored",
        [reshape(x, [rows, samples]), reshape(matrices, [samples, k, l])],
        (is_symmetric and arrays.products.entries(inner) >= tuning.PACKED,),
        shape=(rows, k, rows, l),
        work=sz.product((rows, k, rows, l, samples)),
        speed=BLAS,
        scratch=sz.product((4, rows, sz.add(samples, sz.product((k, l))))),
    )
    return arrays.value(Tensor(reshape(made, shape), tuple(range(len(shape)))), shape)


def _contracted(arrays: Arrays, x: Operation, matrices: Operation, shape: Shape) -> Value:
    """The sum as any other contraction."""
    axes, half = tuple(range(len(shape))), len(shape) // 2
    sizes = dict(enumerate((*shape, *x.shape[1:])))
    summed = tuple(range(len(shape), len(sizes)))
    factors = [Tensor(x, (end, *summed)) for end in (0, half)]
    factors.append(Tensor(matrices, (*summed, *axes[1:half], *axes[half + 1 :])))
    coefficient, tensor = arrays.products.contract(1, factors, axes, sizes)
    return arrays.value(tensor, shape, coefficient)

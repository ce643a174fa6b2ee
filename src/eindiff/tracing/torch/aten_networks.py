"""Rows of the table of ATen's operations: what neural networks are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, pi, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d

from eindiff.core import construct
from eindiff.core.index_relations import IndexMap, Table
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import multilinear as arrays
from eindiff.functions.elementwise import greater
from eindiff.functions.multilinear import as_expr
from eindiff.functions.special_functions import erf
from eindiff.tracing.composed import not_equal
from eindiff.tracing.given_indices import has_entry
from eindiff.tracing.shapes import along
from eindiff.tracing.torch.aten import ATEN, between, op, ops
from eindiff.tracing.torch.aten_shapes import chosen_at
from eindiff.tracing.unsupported import Unsupported
from eindiff.tracing.windows import convolution, padded, windows

# Activations


@op("softplus")
def _softplus(x: Expr, beta: Any = 1, threshold: Any = 20) -> Expr:
    """The threshold saves PyTorch an exponential; from 20 on it makes no difference."""
    smooth = functions.softplus(x) if beta == 1 else functions.softplus(beta * x) / beta
    return smooth if threshold >= 20 else functions.where(greater(beta * x, threshold), x, smooth)


@op("elu")
def _elu(x: Expr, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Expr:
    """The exponential of the negative part only, so that it never overflows; 0 belongs to that."""
    positive = greater(x, 0)
    negative = functions.where(positive, 0, x)
    return functions.where(positive, scale * x, scale * alpha * functions.expm1(input_scale * negative))


@op("gelu")
def _gelu(x: Expr, approximate: str = "none") -> Expr:
    if approximate == "tanh":
        return x / 2 * (1 + functions.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
    return x / 2 * (1 + erf(x / sqrt(2)))


@op("glu")
def _glu(x: Expr, dim: int = -1) -> Expr:
    half = int(x.shape[dim]) // 2
    return along(x, dim, slice(0, half)) * functions.sigmoid(along(x, dim, slice(half, None)))


@op("_softmax", "softmax", "_safe_softmax")
def _softmax(x: Expr, dim: int, *_: Any, **__: Any) -> Expr:
    return reductions.softmax(x, dim % x.ndim) if x.ndim else construct.filled(1, ())


@op("_log_softmax", "log_softmax")
def _log_softmax(x: Expr, dim: int, *_: Any, **__: Any) -> Expr:
    if not x.ndim:
        return construct.filled(0, ())
    return x - along(reductions.logsumexp(x, dim)[None], 0, 0)[(slice(None),) * (dim % x.ndim) + (None,)]


ops({
    "log_sigmoid_forward": lambda x: (-functions.softplus(-x), None),
    "leaky_relu": lambda x, slope=0.01: (1 - slope) * functions.relu(x) + slope * x,
    "prelu _prelu_kernel": lambda x, weight: functions.where(greater(x, 0), x, weight * x),
    "threshold": lambda x, threshold, value: functions.where(greater(x, threshold), x, value),
    "celu": lambda x, alpha=1: _elu(x, alpha, 1, 1 / alpha),
    "selu": lambda x: _elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946),
    "hardtanh": lambda x, low=-1, high=1: between(x, low, high),
})


# Losses: reduction is 0 for none, 1 for the mean, 2 for the sum


def _averaged(loss: Expr, reduction: int) -> Expr:
    return loss if reduction == 0 else arrays.mean(loss) if reduction == 1 else arrays.sum(loss)


@op("huber_loss")
def _huber_loss(a: Expr, b: Any, reduction: int = 1, delta: Any = 1.0) -> Expr:
    change = arrays.subtract(a, b)
    size = functions.abs(change)
    return _averaged(functions.where(size > delta, delta * (size - delta / 2), change * change / 2), reduction)


ops({
    "mse_loss": lambda a, b, reduction=1: _averaged(functions.square(arrays.subtract(a, b)), reduction),
    "smooth_l1_loss": lambda a, b, reduction=1, beta=1.0: _huber_loss(a, b, reduction, beta) / beta,
})


@op("multilabel_margin_loss_forward", known=(1,))
def _multilabel_margin_loss(x: Expr, target: Any, reduction: int) -> tuple:
    """Classes that are right, up to the first -1 in a row, should be 1 above all that are not.

    PyTorch's own way to take this apart counts classes after the first -1.
    """
    rows, classes = target.reshape(-1, target.shape[-1]).numpy(), int(x.shape[-1])
    counts = np.zeros(rows.shape)
    for count, row in zip(counts, rows, strict=True):
        np.add.at(count, row[: np.argmax(np.append(row, -1) < 0)], 1)
    pairs = counts[:, :, None] * (counts[:, None, :] == 0)
    x = indexing.reshape(x, rows.shape)
    margins = functions.relu(1 - x[:, :, None] + x[:, None, :])
    losses = arrays.einsum("nij,nij->n", construct.constant(pairs), margins) / classes
    total = _averaged(losses, reduction) if target.ndim == 2 or reduction else losses[0]
    return total, None


@op("nll_loss_forward", "nll_loss2d_forward", known=(1,), takes_given=True)
def _nll_loss(x: Expr, target: Any, weight: Any, reduction: int, ignored: int) -> tuple:
    """The negative entries at the targets, with weights of their classes; the axis of classes is the second or only."""
    scale, safe = _counted(target, ignored)
    if weight is not None:
        scale = scale * chosen_at(as_expr(weight), [safe])
    loss = -_at_targets(x, safe) * scale
    total = arrays.sum(scale)
    if reduction == 0:
        return loss, total
    return (arrays.divide(arrays.sum(loss), total) if reduction == 1 else arrays.sum(loss)), total


def _counted(target: Any, ignored: int) -> tuple[Expr, Any]:
    """1 for each label that counts, and labels with 0 for those that do not."""
    if not isinstance(target, Expr):
        labels = target.numpy()
        return as_expr((labels != ignored).astype(float)), np.where(labels == ignored, 0, labels)
    if not has_entry(target, ignored):
        return construct.filled(1, target.shape), target
    counted = not_equal(target, ignored)
    return counted, target * counted


def _at_targets(x: Expr, targets: Any) -> Expr:
    """The entries at one class of each sample: classes are the second axis, or the only one."""
    if x.ndim == 1:
        return x[int(targets)]
    if x.ndim == 2 and not isinstance(targets, Expr):  # the index map shares the label of samples
        chosen = IndexMap(x.shape[1], (x.shape[0],), indices=Table(targets.tolist()))
        factors = [(x, (0, 1)), (construct.constant(chosen), (1, 0))]
        return construct.einsum(1, factors, (0,), dict(enumerate(x.shape)))
    grids = np.indices(targets.shape)
    return chosen_at(x, [grids[0], targets, *grids[1:]])


# Normalization


def _normalized(x: Expr, axes: Sequence[int], eps: float) -> tuple[Expr, Expr, Expr]:
    variance, mean = ATEN["var_mean"].function(x, list(axes), 0, True)
    scale = functions.power(variance + eps, -0.5)
    return (x - mean) * scale, mean, scale


@op("native_layer_norm")
def _layer_norm(x: Expr, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> tuple:
    result, mean, scale = _normalized(x, range(x.ndim - len(shape), x.ndim), eps)
    return _affine(result, weight, bias), mean, scale


@op("_fused_rms_norm")
def _rms_norm(x: Expr, shape: Sequence[int], weight: Any, eps: float | None) -> tuple:
    axes = list(range(x.ndim - len(shape), x.ndim))
    square = ATEN["mean"].function(x * x, axes, True)
    scale = functions.power(square + (np.finfo(float).eps if eps is None else eps), -0.5)
    return _affine(x * scale, weight, None), scale


def _affine(x: Expr, weight: Any, bias: Any) -> Expr:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


@op("native_group_norm")
def _group_norm(x: Expr, weight: Any, bias: Any, batch: int, channels: int, _: int, groups: int, eps: float) -> tuple:
    parts = indexing.reshape(x, (batch, groups, -1))
    result, mean, scale = _normalized(parts, [2], eps)
    shape = (1, channels) + (1,) * (x.ndim - 2)
    weight, bias = (None if part is None else indexing.reshape(as_expr(part), shape) for part in (weight, bias))
    return _affine(indexing.reshape(result, x.shape), weight, bias), mean, scale


@op("native_batch_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "cudnn_batch_norm")
def _batch_norm(x: Expr, weight: Any, bias: Any, mean: Any, variance: Any, training: Any, *rest: Any) -> tuple:
    """By running statistics. In train mode these are updated, which is a side effect: refused before it comes here."""
    eps = rest[-1]
    shape = (1, int(x.shape[1])) + (1,) * (x.ndim - 2)

    def spread(part: Any) -> Expr | None:
        return None if part is None else indexing.reshape(as_expr(part), shape)

    if training is True:
        result, *_ = _normalized(x, [k for k in range(x.ndim) if k != 1], eps)
    else:
        result = (x - spread(mean)) * functions.power(spread(as_expr(variance) + eps), -0.5)
    return _affine(result, spread(weight), spread(bias)), None, None


# Convolution and pooling


def _several(value: Any, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


@op("convolution", "_convolution", "conv1d", "conv2d", "conv3d")
def _convolution(
    x: Expr, weight: Expr, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, transposed: bool = False,
    output_padding: Any = 0, groups: int = 1, *_: Any,
) -> Expr:  # fmt: skip
    count = weight.ndim - 2
    stride, padding, dilation = (_several(v, count) for v in (stride, padding, dilation))
    if transposed:
        if groups != 1:
            raise Unsupported
        result = _transposed(x, weight, stride, padding, dilation, _several(output_padding, count))
    else:
        grown = padded(x, 0, [(0, 0, 0)] * 2 + [(width, width, 0) for width in padding])
        result = convolution(grown, weight, stride, dilation, groups)
    return result if bias is None else result + indexing.reshape(as_expr(bias), (-1,) + (1,) * count)


def _transposed(
    x: Expr, weight: Expr, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], more: Sequence[int]
) -> Expr:
    """The adjoint of a convolution: entries are spread to the places of windows, the index map read the other way."""
    count = weight.ndim - 2
    b, c, o, *others = range(3 + 3 * count)
    letters = list(zip(others[::3], others[1::3], others[2::3], strict=True))  # of place, window, result
    sizes: dict[int, Any] = {b: x.shape[0], c: x.shape[1], o: weight.shape[1]}
    factors = [(x, (b, c, *(i for i, _, _ in letters))), (weight, (c, o, *(j for _, j, _ in letters)))]
    cuts: list[Any] = [slice(None), slice(None)]
    for k, (i, j, r) in enumerate(letters):
        places, window = int(x.shape[2 + k]), int(weight.shape[2 + k])
        full = (places - 1) * stride[k] + dilation[k] * (window - 1) + 1 + more[k]
        sizes |= {i: places, j: window, r: full}
        chosen = IndexMap(full, (places, window), 0, (stride[k], dilation[k]))
        factors.append((construct.constant(chosen), (r, i, j)))
        cuts.append(slice(padding[k], full - padding[k]))
    return construct.einsum(1, factors, (b, o, *(r for _, _, r in letters)), sizes)[tuple(cuts)]


def _left_over(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How far the last window goes beyond the end, if it starts before that."""
    window = dilation * (kernel - 1) + 1
    steps = -(-(size + 2 * padding - window) // stride)
    steps -= steps * stride >= size + padding
    return max(0, steps * stride + window - size - 2 * padding)


def _pooled(reduce: Callable[[Expr, list[int]], Expr], filler: float) -> Callable:
    """Pooling over windows of the last axes."""

    def row(x: Expr, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, count: int) -> Expr:
        kernel, padding, dilation = (_several(v, count) for v in (kernel, padding, dilation))
        stride = _several(stride, count) if stride else kernel
        first = x.ndim - count
        more = [0] * count
        if ceil_mode:
            ways = zip(x.shape[first:], kernel, stride, padding, dilation, strict=True)
            more = [_left_over(int(size), *way) for size, *way in ways]
        widths = [(width, width + rest, 0) for width, rest in zip(padding, more, strict=True)]
        grown = padded(x, filler, [(0, 0, 0)] * first + widths)
        found = windows(grown, range(first, x.ndim), kernel, stride, dilation)
        return reduce(found, list(range(found.ndim - count, found.ndim)))

    return row


_max_pooled = _pooled(lambda x, axes: reductions.max(x, axes), -inf)
_mean_pooled = _pooled(lambda x, axes: arrays.mean(x, axes), 0)


@op("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(
    x: Expr, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple:
    return _max_pooled(x, kernel, stride, padding, dilation, ceil_mode, len(kernel)), None


@op("avg_pool2d", "avg_pool3d", "avg_pool1d")
def _avg_pool(
    x: Expr, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, include: bool = True,
    divisor: int | None = None,
) -> Expr:  # fmt: skip
    count = len(kernel)
    if not ceil_mode and divisor is None and (include or not any(_several(padding, 1))):
        return _mean_pooled(x, kernel, stride, padding, 1, False, count)
    ways = zip(kernel, _several(stride or kernel, count), _several(padding, count), strict=True)
    summed = 1 if divisor else None

    def pooled(units: Any, size: int, step: int, width: int) -> Any:
        """Windows along one axis; with a divisor of its own, their sums."""
        return avg_pool2d(units, (1, size), (1, step), (0, width), ceil_mode, include, summed)

    result = _along_axes(x, [partial(pooled, size=size, step=step, width=width) for size, step, width in ways])
    return result / divisor if divisor else result


@op("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_avg_pool(x: Expr, shape: Sequence[int]) -> Expr:
    sizes = [int(size) for size in x.shape[x.ndim - len(shape) :]]
    if any(size % wanted for size, wanted in zip(sizes, shape, strict=True)):
        return _along_axes(x, [partial(adaptive_avg_pool2d, output_size=(1, wanted)) for wanted in shape])
    kernel = [size // wanted for size, wanted in zip(sizes, shape, strict=True)]
    return _avg_pool(x, kernel, kernel)


# Linear maps along each axis


def _along_axes(x: Expr, maps: Sequence[Callable[[Tensor], Tensor]]) -> Expr:
    """Linear maps along the last axes, one for each, as the matrices that PyTorch itself gives for unit vectors."""
    first = x.ndim - len(maps)
    labels, sizes = list(range(x.ndim)), dict(enumerate(x.shape))
    factors: list[tuple[Expr, tuple[int, ...]]] = [(x, tuple(labels))]
    for axis, along_axis in enumerate(maps, first):
        units = torch.eye(int(x.shape[axis]), dtype=torch.float64)
        matrix = along_axis(units[None, :, None, :])[0, :, 0, :].numpy()
        sizes[labels[axis] + x.ndim] = matrix.shape[1]
        factors.append((construct.constant(matrix), (axis, axis + x.ndim)))
        labels[axis] = axis + x.ndim
    return construct.einsum(1, factors, tuple(labels), sizes)


def _interpolated(name: str) -> Callable:
    """A row for interpolation by one of PyTorch's operations on planes, along each axis."""
    by_planes = getattr(torch.ops.aten, name)

    def row(x: Expr, shape: Sequence[int], align_corners: bool, *scales: float | None) -> Expr:
        each = list(scales) or [None] * len(shape)
        ways = zip(shape, each, strict=True)
        return _along_axes(x, [partial(_resized, by_planes, align_corners, size, scale) for size, scale in ways])

    return row


def _resized(by_planes: Callable, align_corners: bool, size: int, scale: float | None, units: Tensor) -> Tensor:
    return by_planes(units, [1, size], align_corners, None, scale)


for _name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    op(_name)(_interpolated(_name))
op("upsample_trilinear3d")(_interpolated("upsample_bilinear2d"))

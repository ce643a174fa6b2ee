"""Functions of PyTorch as others of its own: those that look at values, and those whose gradient is another one.

PyTorch differentiates some functions by a rule that is not the derivative of their value: the gradient by the row of an
embedding with `padding_idx` is 0, for instance. Some of these rules are for reverse mode alone. Two marks in a graph
say so: what passes through `stop_gradient` is constant for derivatives, and what passes through `stop_reverse` is for
those in reverse mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes


def _mark(name: str) -> Any:
    """An operation that gives its argument, as a mark in a graph."""

    @torch.library.custom_op(f"eindiff::{name}", mutates_args=())
    def mark(x: Tensor) -> Tensor:
        return x.clone()

    @mark.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @mark.register_vmap
    def _(info: Any, in_dims: tuple, x: Tensor) -> tuple:
        return mark(x), in_dims[0]

    return mark


_stopped = _mark("stop_gradient")
stop_reverse = _mark("stop_reverse")  # of a tensor that is a constant for derivatives in reverse mode
scaled_in_reverse = _mark("scaled_in_reverse")  # the same; in reverse mode twice it is PyTorch's own


def stop_gradient(x: Tensor) -> Tensor:
    """A tensor that is a constant for derivatives, for those of PyTorch inside of the function as well."""
    return _stopped(x.detach())


def _gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """As in PyTorch, without its check of values. For its reverse mode the clamping of the variance does not exist."""
    var = var if isinstance(var, Tensor) else torch.full_like(input, var)
    if var.size() != input.size() and input.size()[:-1] == var.size():
        var = var.unsqueeze(-1)
    fixed = stop_reverse(var)
    var = fixed.clamp(min=eps) + (var - fixed)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _cov(input: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """As in PyTorch, without its check of values."""
    if fweights is not None or aweights is not None:
        return torch.cov(input, correction=correction, fweights=fweights, aweights=aweights)
    centred = input - input.mean(-1, keepdim=True)
    return (centred @ centred.mT if input.ndim == 2 else centred @ centred) / (input.shape[-1] - correction)


def _corrcoef(input: Tensor) -> Tensor:
    """As in PyTorch, without its check of values."""
    covariance = _cov(input)
    if input.ndim < 2:
        return covariance / covariance
    scale = covariance.diagonal().sqrt()
    return (covariance / scale[:, None] / scale[None]).clip(-1, 1)


def _values(index: Tensor) -> np.ndarray:
    """The entries of a tensor of integers, which are known."""
    with temporarily_clear_interpreter_stack(), _disable_current_modes():
        return index.cpu().numpy()


def _rows(weight: Tensor, index: Tensor, padding: int | None, by_frequency: bool) -> Tensor:
    """A table whose entries have the gradients of embeddings: none in the row of padding, or shares of them."""
    fixed = scaled_in_reverse(weight) if by_frequency else stop_reverse(weight)
    if by_frequency:
        counts = (index.reshape(-1) == torch.arange(len(weight), device=index.device)[:, None]).sum(1).clamp(min=1)
        weight = fixed + (weight - fixed) / counts[:, None]
    if padding is not None:
        is_padding = np.arange(len(weight))[:, None] == padding % len(weight)
        weight = torch.where(torch.tensor(is_padding, device=weight.device), fixed, weight)
    return weight


def _embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """As in PyTorch, with its gradient. A table that is rescaled in place (`max_norm`) is refused later on."""
    if max_norm is not None or (padding_idx is None and not scale_grad_by_freq):
        return torch.nn.functional.embedding(input, weight, None, max_norm, norm_type)
    return torch.nn.functional.embedding(input, _rows(weight, input, padding_idx, scale_grad_by_freq))


def _embedding_of(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """`torch.embedding`, where no padding is -1."""
    return _embedding(indices, weight, None if padding_idx < 0 else padding_idx, scale_grad_by_freq=scale_grad_by_freq)


def _embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """As in PyTorch: the sum, mean or maximum of the rows of each bag that are no padding; 0 for an empty bag.

    PyTorch's gradient is its own where it is scaled: it divides by frequencies of other rows.
    """
    if max_norm is not None or scale_grad_by_freq:
        return torch.nn.functional.embedding_bag(
            input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, False, per_sample_weights,
            include_last_offset, padding_idx,
        )  # fmt: skip
    values = _values(input)
    index = values.reshape(-1)
    bags = _bags(values, None if offsets is None else _values(offsets), include_last_offset)
    padding = None if padding_idx is None else padding_idx % len(weight)
    places = [[k for k in bag if index[k] != padding] for bag in bags]
    rows = weight[index.tolist()]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    ways = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.max(0).values}
    empty = weight.new_zeros(weight.shape[1])
    return torch.stack([ways[mode](rows[place]) if place else empty for place in places])


def _bags(index: np.ndarray, offsets: np.ndarray | None, has_last: bool) -> list[range]:
    """The places of each bag: a row of the index, or what is between two offsets."""
    if offsets is None:
        return [range(k * index.shape[1], (k + 1) * index.shape[1]) for k in range(len(index))]
    ends = offsets if has_last else [*offsets, len(index)]
    return [range(*pair) for pair in pairwise(ends)]


_NEVER = -1e30  # the logarithm of a probability of 0, whose derivatives are 0 and no NaN


def _ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """As in PyTorch, by the recursion for all ways to write a target with blanks between, which it differentiates once.

    PyTorch's gradient is the one behind `log_softmax`; here it is the derivative, whatever the logarithms come from.
    """
    x = log_probs if log_probs.ndim == 3 else log_probs[:, None]
    steps, lengths = (np.ravel(_values(y) if isinstance(y, Tensor) else y) for y in (input_lengths, target_lengths))
    labels = _with_blanks(_values(targets), lengths, blank)
    states = np.arange(labels.shape[1])
    may_skip = (states > 1) & (labels != np.roll(labels, 2, 1)) & (labels != blank)
    alpha = torch.where(_told(states < 2, x), x[0][_pairs(labels)], _NEVER)
    for t in range(1, max(steps)):
        ways = [alpha, _later(alpha, 1), torch.where(_told(may_skip, x), _later(alpha, 2), _NEVER)]
        new = torch.logsumexp(torch.stack(ways), 0) + x[t][_pairs(labels)]
        alpha = new if t < min(steps) else torch.where(_told(t < steps[:, None], x), new, alpha)
    ends = np.stack([2 * lengths, np.maximum(2 * lengths - 1, 0)], 1)
    last = torch.where(_told(np.stack([lengths >= 0, lengths > 0], 1), x), alpha[_pairs(ends)], _NEVER)
    loss = -torch.logsumexp(last, 1)
    loss = torch.where(loss < -_NEVER / 2, loss, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        return (loss / torch.as_tensor(np.maximum(lengths, 1), device=x.device)).mean()
    return loss.sum() if reduction == "sum" else loss if log_probs.ndim == 3 else loss[0]


def _with_blanks(targets: np.ndarray, lengths: np.ndarray, blank: int) -> np.ndarray:
    """Blanks around all labels of each target; targets are rows, or one after another."""
    found = np.full((len(lengths), 2 * max(lengths) + 1), blank)
    ends = np.cumsum(lengths)
    is_joined = targets.ndim == 1
    for k, (row, length, end) in enumerate(zip(found, lengths, ends, strict=True)):
        row[1 : 2 * length : 2] = targets[end - length : end] if is_joined else targets[k, :length]
    return found


def _told(mask: np.ndarray, x: Tensor) -> Tensor:
    return torch.tensor(mask, device=x.device)


def _pairs(places: np.ndarray) -> tuple[list, list]:
    """The index of one entry of a row for each place in this row."""
    return np.indices(places.shape)[0].tolist(), places.tolist()


def _later(alpha: Tensor, count: int) -> Tensor:
    """States moved on, with none before."""
    return torch.nn.functional.pad(alpha, (count, 0), value=_NEVER)[:, : alpha.shape[1]]


_LEAST = float(np.float32(1e-12))  # in PyTorch too it has single precision


def _binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """As in PyTorch, where logarithms are at least -100, and a slope is one by at least 1e-12."""
    fixed = stop_gradient(input)
    kept = (fixed * (1 - fixed)).clamp(min=_LEAST)
    inside = fixed * (1 - fixed) > _LEAST
    p = torch.where(inside, input, 0.5)
    smooth = -(target * torch.log(p) + (1 - target) * torch.log(1 - p))
    at_end = -(target * torch.log(fixed).clamp(min=-100) + (1 - target) * torch.log(1 - fixed).clamp(min=-100))
    loss = torch.where(inside, smooth, at_end + (fixed - stop_gradient(target)) / kept * (input - fixed))
    loss = loss if weight is None else loss * weight
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


SPELLED_OUT: dict[Any, Callable] = {
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss, torch.cov: _cov, torch.corrcoef: _corrcoef,
    torch.Tensor.cov: _cov, torch.Tensor.corrcoef: _corrcoef, torch.nn.functional.embedding: _embedding,
    torch.embedding: _embedding_of, torch.nn.functional.embedding_bag: _embedding_bag,
    torch.nn.functional.binary_cross_entropy: _binary_cross_entropy, torch.nn.functional.ctc_loss: _ctc_loss,
}  # fmt: skip
NEED_VALUES = {torch.nn.functional.embedding_bag, torch.nn.functional.ctc_loss}  # of tensors of integers

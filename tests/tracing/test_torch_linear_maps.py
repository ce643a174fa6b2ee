"""Layers that are linear maps or look at integers: gradient, product and Hessian as PyTorch's, and known as linear."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from eindiff.torch import grad, hessian, hvp

LINE, PLANE, SPACE = (1, 2, 7), (1, 2, 5, 6), (1, 1, 3, 4, 5)
WORDS = torch.tensor([[0, 2, 1], [3, 0, 0]])

Case = tuple[Callable[[Tensor], Tensor], tuple[int, ...]]
LINEAR: dict[str, Case] = {
    "embedding with padding": (lambda w: F.embedding(WORDS, w, padding_idx=0), (5, 3)),
    "embedding with padding from the end": (lambda w: F.embedding(WORDS, w, padding_idx=-2), (5, 3)),
    "index_copy_": (lambda x: x.new_zeros(4, 3).index_copy_(0, torch.tensor([2, 0]), x), (2, 3)),
    "index_copy_ at one place": (lambda x: x.new_zeros(4, 3).index_copy_(0, torch.tensor(2), x), (1, 3)),
    "index_select of one place": (lambda x: x.index_select(1, torch.tensor(2)), (2, 3)),
    "divisor": (partial(F.avg_pool2d, kernel_size=(2, 3), padding=1, divisor_override=5), PLANE),
    "divisor in space": (partial(F.avg_pool3d, kernel_size=2, divisor_override=5), SPACE),
    "finer without aliasing": (partial(F.interpolate, size=(3, 4), mode="bilinear", antialias=True), PLANE),
    "cubes without aliasing": (partial(F.interpolate, size=(3, 4), mode="bicubic", antialias=True), PLANE),
}
for size in (1, 2, 3, 7, 9):
    LINEAR[f"adaptive to {size}"] = partial(F.adaptive_avg_pool1d, output_size=size), LINE
for sizes in ((1, 1), (2, 4), (None, 2), (7, 7)):
    LINEAR[f"adaptive to {sizes}"] = partial(F.adaptive_avg_pool2d, output_size=sizes), PLANE
LINEAR["adaptive in space"] = partial(F.adaptive_avg_pool3d, output_size=(2, 3, 2)), SPACE

POOLING: list[dict[str, Any]] = [
    {"stride": 1},
    {"stride": 2, "padding": 1, "count_include_pad": False},
    {"stride": 2, "ceil_mode": True, "padding": 1},
    {"stride": 3, "ceil_mode": True, "padding": 1, "count_include_pad": False},
]
for options in POOLING:
    for pool, shape in ((F.avg_pool1d, LINE), (F.avg_pool2d, PLANE), (F.avg_pool3d, SPACE)):
        LINEAR[f"{pool.__name__} {options}"] = partial(pool, kernel_size=3, **options), shape

MODES = {LINE: ("nearest", "nearest-exact", "linear", "area"), SPACE: ("nearest", "trilinear", "area")}
MODES[PLANE] = ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
RESIZED: list[dict[str, Any]] = [
    {"scale_factor": 1.5}, {"scale_factor": 0.6}, {"size": 4}, {"scale_factor": 1.5, "recompute_scale_factor": True},
]  # fmt: skip
for shape, modes in MODES.items():
    for mode in modes:
        for options in RESIZED:
            way = options if "nearest" in mode or mode == "area" else options | {"align_corners": "size" in options}
            LINEAR[f"{mode} {len(shape) - 2} {way}"] = partial(F.interpolate, mode=mode, **way), shape


def compare(f: Callable[[Tensor], Tensor], x: Tensor, plain: Callable[[Tensor], Tensor] | None = None) -> None:
    """The derivatives of a loss of a layer, with PyTorch's of the same or of a plain way to write it."""
    weights, along = torch.randn_like(f(x)), torch.randn_like(x)

    def loss(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return (torch.sin(layer(x)) * weights).sum()

    ours, theirs = partial(loss, f), partial(loss, plain or f)
    torch.testing.assert_close(ours(x), theirs(x))
    near = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)
    near(grad(ours)(x), torch.autograd.functional.jacobian(theirs, x))
    near(hvp(ours)(x, tangents=along), torch.autograd.functional.hvp(theirs, x, along)[1])
    near(hessian(ours)(x), torch.autograd.functional.hessian(theirs, x))


@pytest.fixture(autouse=True)
def _random() -> None:
    torch.manual_seed(0)


def real(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("name", LINEAR)
def test_linear_maps(name: str) -> None:
    f, shape = LINEAR[name]
    x = real(shape)
    assert str(hessian(lambda x: f(x).sum(), structured=True)(x).structure) == "zero"
    compare(f, x)


@pytest.mark.parametrize("pool", [F.max_pool1d, F.max_pool2d, F.max_pool3d])
@pytest.mark.parametrize("padding", [0, 1])
def test_maxima_with_a_last_window_that_is_not_full(pool: Callable, padding: int) -> None:
    shape = {F.max_pool1d: LINE, F.max_pool2d: PLANE, F.max_pool3d: SPACE}[pool]
    compare(lambda x: pool(x, 3, stride=2, padding=padding, ceil_mode=True), real(shape))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str) -> None:
    """PyTorch differentiates them once: a plain way to write them says what is right."""
    ways = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.amax(0)}

    def plain(w: Tensor) -> Tensor:
        return torch.stack([ways[mode](w[[0, 2]]), torch.zeros(3), ways[mode](w[[1, 3, 3]])])

    def bags(w: Tensor) -> Tensor:
        words, offsets = torch.tensor([0, 2, 4, 1, 3, 4, 3]), torch.tensor([0, 2, 3])
        return F.embedding_bag(words, w, offsets, mode=mode, padding_idx=4)

    compare(bags, real((5, 3)), plain)


def test_adaptive_softmax() -> None:
    """One row belongs to each cluster, so that the places of a cluster are a single number."""
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 4], div_value=2).double()
    targets = torch.tensor([0, 3, 6])
    compare(lambda x: layer(x, targets).output, real((3, 4)))
    compare(lambda x: layer(x, targets).loss, real((3, 4)))


def spellings(x: Tensor, target: list[int]) -> Tensor:
    """The loss of a target by its meaning: all sequences that become it without repetitions and blanks."""
    labels = range(x.shape[1])
    kept = [way for way in product(labels, repeat=len(x)) if [k for k, _ in groupby(way) if k] == target]
    return -torch.logsumexp(torch.stack([x[range(len(x)), way].sum() for way in kept]), 0)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("is_joined", [False, True])
def test_connectionist_temporal_classification(reduction: str, is_joined: bool) -> None:
    """PyTorch differentiates it once. The last target has more labels than steps to write them in."""
    rows = [[1, 2], [2, 2], [], [1, 1, 1]]
    joined, padded = torch.tensor([1, 2, 2, 2, 1, 1, 1]), torch.tensor([[1, 2, 0], [2, 2, 0], [0, 0, 0], [1, 1, 1]])
    steps, lengths = torch.tensor([4, 3, 4, 4]), torch.tensor([len(row) for row in rows])

    def ours(x: Tensor) -> Tensor:
        targets = joined if is_joined else padded
        return F.ctc_loss(x.log_softmax(-1), targets, steps, lengths, reduction=reduction, zero_infinity=True)

    def plain(x: Tensor) -> Tensor:
        y = x.log_softmax(-1)
        losses = [spellings(y[: steps[k], k], row) for k, row in enumerate(rows[:3])]
        found = torch.stack([*losses, torch.zeros(())])
        return {"none": found, "sum": found.sum(), "mean": (found / lengths.clamp(min=1)).mean()}[reduction]

    compare(ours, real((4, 4, 3)), plain)

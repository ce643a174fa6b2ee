"""Functions whose gradient in PyTorch is no derivative, at kinks, and those that PyTorch itself takes apart wrongly."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import eindiff.torch as et
from eindiff.core.errors import EindiffError
from torch_functions import assert_same, randn

W, c = randn(6, 3), randn(2, 3, seed=3)
index, offsets = torch.tensor([[0, 2, 1], [2, 5, 2]]), torch.tensor([0, 2, 2])
pair = (randn(4, 3), randn(5, 3, seed=1))


def squares(x: torch.Tensor) -> torch.Tensor:
    return (x**2).sum() * x.sum()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "target",
    [
        [[3, 0, -1, 1], [0, 1, 2, 3]], [[-1, 0, 1, 2], [2, -1, 2, 3]], [[1, 1, -1, 0], [2, -1, -1, -1]],
        [3, 0, -1, 1], [-1, 0, 0, 0],
    ],
)  # fmt: skip
def test_multilabel_margin_loss(target: list, reduction: str) -> None:
    y = torch.tensor(target)
    f = lambda x: F.multilabel_margin_loss(x, y, reduction=reduction)  # noqa: E731
    x = randn(*y.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of batching rules that PyTorch has not
        expected = torch.func.jacrev(f)(x)
    assert_same(et.jacrev(f)(x), expected)


OPTIONS: list[dict] = [
    {"padding_idx": 2}, {"padding_idx": -1}, {"scale_grad_by_freq": True},
    {"padding_idx": 0, "scale_grad_by_freq": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_embedding(options: dict) -> None:
    """PyTorch's rules are for reverse mode only, so its Hessians are not symmetric."""
    f = lambda w: squares(F.embedding(index, w, **options))  # noqa: E731
    for name in ("grad", "jacrev", "jacfwd", "hessian"):
        assert_same(getattr(et, name)(f)(W), getattr(torch.func, name)(f)(W))
    for one, other in (("jacfwd", "jacrev"), ("jacfwd", "jacfwd")):
        ours = getattr(et, one)(getattr(et, other)(f))(W)
        assert_same(ours, getattr(torch.func, one)(getattr(torch.func, other)(f))(W))
    assert_same(et.grad_and_value(f)(W), torch.func.grad_and_value(f)(W))
    with pytest.raises(EindiffError, match="not symmetric"):
        et.jacrev(et.jacfwd(f))(W)
    if options == {"scale_grad_by_freq": True}:  # a direction is not scaled
        product = torch.func.vjp(torch.func.grad(f), W)[1](W)[0]
        assert_same(et.hvp(f)(W, tangents=W), product)
        assert_same(et.hvp(f)(W, tangents=W), torch.func.jvp(torch.func.grad(f), (W,), (W,))[1])
    if not options.get("scale_grad_by_freq"):
        expected = torch.autograd.functional.hessian(f, W)
        assert_same(et.jacrev(et.jacrev(f))(W), expected)
        assert_same(et.hvp(f)(W, tangents=W), torch.tensordot(expected, W, 2))
        assert_same(et.hessian_diagonal(f)(W), expected.reshape(18, 18).diagonal().reshape(6, 3))
        assert_same(torch.as_tensor(et.hessian(f, structured=True)(W).as_tensor()), expected)


@pytest.mark.parametrize("options", OPTIONS)
def test_embedding_at_places_that_are_made_inside(options: dict) -> None:
    f = lambda w: squares(F.embedding(torch.tensor([0, 2, 2, 5, 1, 0]) + 0, w, **options))  # noqa: E731
    assert_same(et.grad(f)(W), torch.func.grad(f)(W))


def test_embedding_module() -> None:
    module = torch.nn.Embedding(6, 3, padding_idx=2, dtype=torch.float64)
    f = lambda w: squares(torch.func.functional_call(module, {"weight": w}, (index,)))  # noqa: E731
    assert_same(et.grad(f)(W), torch.func.grad(f)(W))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embedding_bag(mode: str, padding: int | None) -> None:
    f = lambda w: squares(F.embedding_bag(index, w, mode=mode, padding_idx=padding))  # noqa: E731
    g = lambda w: squares(F.embedding_bag(index.reshape(-1), w, offsets, mode=mode, padding_idx=padding))  # noqa: E731
    assert_same(et.grad(f)(W), torch.func.grad(f)(W))
    assert_same(et.grad(g)(W), torch.func.grad(g)(W))


@pytest.mark.filterwarnings("ignore:without a closed form")
def test_embedding_bag_by_frequency() -> None:
    """PyTorch divides by the frequencies of other rows, and has one derivative."""
    f = lambda w: squares(F.embedding_bag(index, w, mode="sum", scale_grad_by_freq=True))  # noqa: E731
    assert_same(et.grad(f)(W), torch.func.grad(f)(W))
    with pytest.raises(EindiffError, match="no derivative of this order"):
        et.hessian(f)(W)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances(p: float) -> None:
    x, y = pair
    f = lambda x: torch.cdist(x, y, p).square().sum()  # noqa: E731
    assert_same(et.grad(f)(x), torch.func.grad(f)(x))
    if p:
        g = lambda x: torch.pdist(x, p).square().sum()  # noqa: E731
        assert_same(et.grad(g)(x), torch.func.grad(g)(x))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_cross_entropy_at_its_ends(reduction: str) -> None:
    x = torch.tensor([0.3, 0.2, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    y = torch.tensor([1.0, 0.3, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    f = lambda x: F.binary_cross_entropy(x, y, weight=x.detach() + 1, reduction=reduction)  # noqa: E731
    assert_same(et.jacrev(f)(x), torch.func.jacrev(f)(x))


def test_variance_that_is_clamped() -> None:
    x, y, v = randn(4), randn(4, seed=1), randn(4, seed=2).abs()
    f = lambda v: F.gaussian_nll_loss(x, y, v, eps=0.7)  # noqa: E731
    assert_same(et.grad(f)(v), torch.func.grad(f)(v))


KINKS = torch.tensor([0.0, 1.0, -1.0, 3.0, 6.0, -3.0, 0.5, -0.5], dtype=torch.float64)
ZERO, ONE = torch.zeros(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64)
AT_KINKS: dict[str, Callable] = {
    "abs": torch.abs, "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh, "clamp": lambda x: x.clamp(-1, 1),
    "clamp by tensors": lambda x: torch.clamp(x, -ONE, ONE), "leaky": F.leaky_relu, "elu": F.elu,
    "hardshrink": F.hardshrink, "softshrink": F.softshrink, "hardswish": F.hardswish,
    "threshold": lambda x: F.threshold(x, 1.0, 2.0),
    "prelu": lambda x: F.prelu(x, torch.tensor(0.3, dtype=torch.float64)),
    "softplus": lambda x: F.softplus(x, 2.0, 1.0),
    "max with 0": lambda x: torch.maximum(x, ZERO), "max of equals": lambda x: torch.stack([x, x]).amax(0),
    "first of equals": lambda x: torch.stack([x, x]).max(0).values, "sign": lambda x: torch.sign(x) * x,
    "norm at 0": lambda x: (0 * x).norm(), "where": lambda x: torch.where(x > 0, x, 2 * x),
    "straight through": lambda x: x + (torch.round(x) - x).detach(), "detach": lambda x: x * x.detach(),
    "smooth l1": lambda x: F.smooth_l1_loss(x, ZERO, beta=1.0), "huber": lambda x: F.huber_loss(x, ZERO),
    "l1": lambda x: F.l1_loss(x, ZERO), "hinge": lambda x: F.hinge_embedding_loss(x, ONE),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_KINKS)
def test_kinks(name: str) -> None:
    f = lambda x: (AT_KINKS[name](x) * torch.arange(1.0, 9)).sum()  # noqa: E731
    assert_same(et.grad(f)(KINKS), torch.func.grad(f)(KINKS))


def test_powers_of_negative_numbers_are_derived_again_by_torch() -> None:
    """In what PyTorch derives again the exponent does not depend on the base, whose logarithm is none."""
    x, k = (torch.tensor(values, dtype=torch.float64) for values in ([1.5, -2.0, -0.5, 0.0], [2.0, 3.0, 1.0, 2.0]))

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x**k).sum()

    for derive in (torch.func.jacfwd, torch.func.jacrev):
        torch.testing.assert_close(derive(et.grad(f))(x), torch.func.hessian(f)(x))


def test_custom_derivatives_are_refused() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            pass

        @staticmethod
        def backward(ctx, g: torch.Tensor) -> torch.Tensor:
            return 2 * g

    with pytest.raises(EindiffError, match="Double has derivatives of its own"):
        et.grad(lambda x: Double.apply(x).sum())(KINKS)


def test_indices_that_go_unused() -> None:
    x = randn(1, 2, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = lambda x: squares(F.max_pool1d(x, 3, 2, 1))  # noqa: E731
        assert_same(et.grad(f)(x), torch.func.grad(f)(x))

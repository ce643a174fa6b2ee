"""What is left to PyTorch: parts without expressions, whole derivatives that it computes in less time, and nesting."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import eindiff.torch as et
from eindiff.program.write.module import Module
from eindiff.tracing.torch import meanwhile
from torch_functions import assert_same, randn

x = randn(1, 2, 4, 4, 4)
WINDOW = torch.hann_window(8, dtype=torch.float64)
FILTER = torch.polar(randn(5).abs(), randn(5, seed=1))
EDGES, LEVELS = torch.tensor([-0.5, 0.5], dtype=torch.float64), torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)


def unpooled(x: Tensor) -> Tensor:
    return functional.max_unpool3d(*functional.max_pool3d(x, 2, return_indices=True), 2).pow(3).sum()


PARTS: dict[str, tuple[Callable, Tensor]] = {
    "spectrum": (lambda v: (torch.fft.rfft(v).abs() ** 3).sum(), randn(8)),
    "filter": (lambda v: (torch.fft.irfft(torch.fft.rfft(v) * FILTER, n=8) ** 3).sum(), randn(8)),
    "spectrogram": (lambda v: (torch.stft(v, 8, 4, window=WINDOW, return_complex=True).abs() ** 3).sum(), randn(32)),
    "places of maxima": (unpooled, x),
    "index by values": (lambda v: v[v.argmax()] ** 3 + v.prod(), randn(4)),
    "nearest level": (lambda v: ((v - LEVELS[torch.bucketize(v.detach(), EDGES)]) ** 4).sum(), randn(4, 3)),
    "windows in memory": (lambda v: (v.as_strided((3, 4), (2, 1)).prod(1) ** 2).sum(), randn(8)),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.filterwarnings("ignore:without a closed form")
def test_parts_without_expressions(name: str) -> None:
    f, v = PARTS[name]
    along = torch.cos(v)
    hessian = torch.func.jacrev(torch.func.grad(f))(v)
    assert_same(et.grad(f)(v), torch.func.grad(f)(v))
    assert_same(et.hessian(f)(v), hessian)
    assert_same(et.hvp(f)(v, tangents=along), torch.tensordot(hessian, along, v.ndim))


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_layers_without_entries() -> None:
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], dtype=torch.float64)  # the last has 4 // 16 features
    targets = torch.tensor([0, 4, 8])

    def f(v: Tensor) -> Tensor:
        return layer(v, targets).loss

    v = randn(3, 4)
    assert_same(et.grad(f)(v), torch.func.grad(f)(v))


def is_left(function: Callable, *args: Tensor) -> bool:
    """Whether PyTorch computes a derivative."""
    return function._read(et.TORCH.read(function, args, {}))[1] is None


def test_what_takes_pytorch_less_time_is_left_to_it() -> None:
    """Products by entries that are each written at places of their own, in a program of PyTorch's."""
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def f(v: Tensor) -> Tensor:
        total = torch.zeros(40, dtype=torch.float64)
        for k in range(12):
            total = total.index_put((torch.tensor([k, 3 * k, 7]),), torch.sin(v * weight + total[k]), accumulate=True)
        return total.pow(2).sum()

    v = randn(3)
    ours = et.grad(f)
    assert_same(ours(v), torch.func.grad(f)(v))
    assert ours(v).requires_grad
    assert is_left(ours, v)
    short = et.grad(lambda v: (v * weight).sin().pow(2).sum())
    assert_same(short(v), torch.func.grad(lambda v: (v * weight).sin().pow(2).sum())(v))
    assert not is_left(short, v)


@pytest.mark.parametrize("is_quicker", [True, False])
def test_where_the_prediction_is_in_doubt_both_are_measured(monkeypatch: pytest.MonkeyPatch, is_quicker: bool) -> None:
    seconds = iter([1.0, 2.0] if is_quicker else [2.0, 1.0])  # of PyTorch's own derivative, and of the program
    monkeypatch.setattr("eindiff.tracing.torch.library.times_longer", lambda *_: 1.0)
    monkeypatch.setattr("eindiff.tracing.torch.library.is_worth_a_look", lambda *_: True)
    monkeypatch.setattr("eindiff.tracing.torch.library.timed", lambda call, _: (next(seconds), call()))
    exponent = 5 if is_quicker else 7  # what was found is kept for all functions of the same formula
    ours, v = et.grad(lambda v: v.pow(exponent).sum()), randn(3)
    assert_same(ours(v), exponent * v ** (exponent - 1))
    assert is_left(ours, v) == is_quicker


def test_what_is_written_in_place_is_read_as_it_was_written() -> None:
    """No entry is put into a tensor and read from there."""
    layer = torch.nn.GRU(3, 2, dtype=torch.float64)  # its gates are changed in place, one after the other
    f, v = (lambda v: layer(v)[0].pow(2).sum()), randn(2, 3)
    assert_same(et.grad(f)(v), torch.func.grad(f)(v))
    assert "put(" not in et.grad(f).lower(v).source

    def changed(v: Tensor) -> Tensor:
        y = v.clone()
        y[1:3] *= 2
        y[0] = y[2].clone().sin()
        y[1:4:2] += y[0].clone()
        y[:, 1] = y[:, 1].clone().exp()
        return (y[1] * y[0] * y[2:].sum()).sum()

    v = randn(4, 3)
    assert_same(et.hessian(changed)(v), torch.func.hessian(changed)(v))


def test_what_pytorch_gets_wrong_is_not_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eindiff.tracing.torch.library.times_longer", lambda *_: inf)
    monkeypatch.setattr("eindiff.tracing.torch.library.is_worth_a_look", lambda *_: True)
    v = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)

    def by_hand(w: Tensor) -> Tensor:
        return ((w - w.mean()) / (w.var(correction=0) + 1e-5).sqrt() * w)[0]

    ours, another = et.hessian(lambda w: functional.layer_norm(w, (3,), weight=w)[0]), et.hessian(lambda w: w.prod())
    assert_same(ours(v), torch.func.hessian(by_hand)(v))
    assert_same(another(v), torch.func.hessian(lambda w: w.prod())(v))
    assert not is_left(ours, v)
    assert is_left(another, v)
    w = v.clone().requires_grad_()
    product = et.hvp(lambda w: functional.layer_norm(w, (3,), weight=w)[0])(w, tangents=v)
    third = torch.func.jacfwd(torch.func.hessian(by_hand))(v) @ v
    assert_same(torch.autograd.grad(product.sum(), w)[0], third.sum(0))


@pytest.mark.parametrize("kind", ["hessian", "hvp"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_takes_long_to_find_is_computed_by_pytorch_meanwhile(
    monkeypatch: pytest.MonkeyPatch, kind: str, dtype: torch.dtype
) -> None:
    """Until its calls have taken as long."""
    monkeypatch.setitem(meanwhile.DERIVING, kind, 100.0)
    q = {"w": randn(3, 3).to(dtype), "b": randn(3, seed=1).to(dtype)}
    more = {"tangents": {"w": randn(3, 3, seed=2).to(dtype), "b": randn(3, seed=3).to(dtype)}} if kind == "hvp" else {}

    def f(q: dict[str, Tensor]) -> Tensor:
        h = q["b"]
        for _ in range(3):
            h = torch.tanh(q["w"] @ h + q["b"])
        return h.pow(3).sum()

    ours = getattr(et, kind)(f)
    first = ours(q, **more)
    traced, *_ = ours._traced(ours._around, et.TORCH.read(ours, (q,), {}))
    assert ours._wanted not in traced.ready
    allowance = traced.allowances[ours.kind, ours.options, ours.argnums]
    assert allowance.seconds > 0
    allowance.seconds = 0.0
    then = ours(q, **more)
    assert ours._wanted in traced.ready
    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (first, then)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4 if dtype is torch.float32 else 1e-10, atol=1e-5)


WEIGHTS = randn(12, 4, seed=9)
LAYERS: dict[str, tuple[Callable, Tensor]] = {
    "layer norm": (lambda v: functional.layer_norm(v, (3,), weight=v[0]).pow(3).sum(), randn(2, 3)),
    "batch norm": (
        lambda v: functional.batch_norm(v, None, None, weight=v[0], training=True).pow(3).sum(), randn(4, 3)
    ),
    "instance norm": (lambda v: functional.instance_norm(v, weight=v[0, :, 0]).pow(3).sum(), randn(2, 3, 4)),
    "attention": (lambda v: functional.scaled_dot_product_attention(v, v.sin(), v).pow(3).sum(), randn(2, 3, 4)),
    "heads": (
        lambda v: functional.multi_head_attention_forward(
            v, v, v, 4, 2, WEIGHTS, None, None, None, False, 0.0, WEIGHTS[:4], None, need_weights=False
        )[0].pow(3).sum(), randn(3, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_meanwhile_no_part_is_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the scale of a norm depends on what it is a norm of, and where PyTorch's kernels have no derivatives."""
    f, v = LAYERS[name]
    monkeypatch.setitem(meanwhile.DERIVING, "hessian", 100.0)
    ours = et.hessian(f)
    first = ours(v)
    traced, *_ = ours._traced(ours._around, et.TORCH.read(ours, (v,), {}))
    allowance = traced.allowances[ours.kind, ours.options, ours.argnums]
    assert allowance.seconds > 0
    allowance.seconds = 0.0
    assert_same(first, ours(v))


def test_meanwhile_pytorch_has_to_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that it loses shows in central differences of its gradient."""
    monkeypatch.setitem(meanwhile.DERIVING, "hessian", 100.0)

    class Squared(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(v: Tensor) -> Tensor:
            return v * v

        @staticmethod
        def setup_context(context: Any, inputs: tuple, output: Tensor) -> None:
            context.save_for_backward(*inputs)

        @staticmethod
        def backward(context: Any, bar: Tensor) -> Tensor:
            [v] = context.saved_tensors
            return 2 * v.detach() * bar

    v = randn(4)
    wrong = torch.func.jacrev(torch.func.grad(lambda v: Squared.apply(v).sum()))
    gradient = torch.func.grad(lambda v: v.pow(2).sum())
    arguments = et.TORCH.read(et.hessian(lambda v: v.sum()), (v,), {})
    form = torch.utils._pytree.tree_structure(v)

    def is_right(run: Callable) -> bool:
        return meanwhile.is_right(lambda given, _: run(*given.args), gradient, arguments, [0], form, False)

    assert not is_right(wrong)
    assert is_right(torch.func.hessian(lambda v: v.pow(2).sum()))


def normed(v: Tensor) -> Tensor:
    return functional.layer_norm(v, (3,), weight=v).pow(3).sum()


def normed_by_hand(v: Tensor) -> Tensor:
    return ((v - v.mean()) / ((v - v.mean()).pow(2).mean() + 1e-5).sqrt() * v).pow(3).sum()


def ours_and_theirs(kind: str) -> tuple[Callable, Callable]:

    def twice(f: Callable) -> Callable:
        return torch.func.jacfwd(torch.func.grad(f))

    theirs = {
        "grad": torch.func.grad, "hessian": twice, "jacfwd": torch.func.jacfwd,
        "hessian_diagonal": lambda f: lambda v: twice(f)(v).diagonal(),
        "laplacian": lambda f: lambda v: twice(f)(v).trace(),
        "hvp": lambda f: lambda v: twice(f)(v) @ torch.ones_like(v),
    }  # fmt: skip

    def own(f: Callable) -> Callable:
        return lambda v: et.hvp(f)(v, tangents=torch.ones_like(v))

    return own if kind == "hvp" else getattr(et, kind), theirs[kind]


@pytest.mark.parametrize("kind", ["grad", "hessian", "jacfwd", "hessian_diagonal", "laplacian", "hvp"])
def test_derivatives_nest_in_any_order(kind: str) -> None:
    """Inside of another transformation a derivative is a program of PyTorch's operations, which has derivatives."""
    et.clear_cache()  # the first trace of the inner function is one inside of the other
    inner, expected = ours_and_theirs(kind)
    v = randn(3, seed=5)
    total, reference = (lambda v: inner(normed)(v).pow(2).sum()), (lambda v: expected(normed_by_hand)(v).pow(2).sum())
    slope = torch.func.grad(reference)(v)
    if kind == "hvp":
        assert_same(et.hessian(total)(v), torch.func.hessian(reference)(v))
    assert_same(torch.func.grad(total)(v), slope)
    assert_same(et.grad(total)(v), slope)
    assert_same(torch.func.vmap(inner(normed))(v[None]), expected(normed_by_hand)(v)[None])
    assert_same(torch.func.jacfwd(inner(normed))(v), torch.func.jacfwd(expected(normed_by_hand))(v))
    outside = torch.func.grad(lambda a: (inner(lambda v: normed(v * a))(v) ** 2).sum())  # it sees a tensor of this one
    if kind not in ("laplacian", "hessian_diagonal"):
        assert torch.isfinite(outside(torch.ones((), dtype=torch.float64)))


def test_derivatives_in_compiled_functions() -> None:
    gradient = et.grad(normed)
    compiled = torch.compile(lambda v: gradient(v) * 2, backend="eager")
    v = randn(3, seed=6)
    assert_same(compiled(v), torch.func.grad(normed_by_hand)(v) * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_programs_are_made_for_the_type_that_is_given(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is predicted before the first call is the program that runs: to make another one takes as long again."""
    made: list[str] = []
    program = Module.program

    def noted(self: Module, known: Any, dtype: str = "float64", *args: Any, **keywords: Any) -> Any:
        made.append(dtype)
        return program(self, known, dtype, *args, **keywords)

    monkeypatch.setattr(Module, "program", noted)
    et.clear_cache()
    v = randn(3, seed=7).to(dtype)
    found = et.hessian(lambda v: torch.tanh(v.outer(v) + 0.12345).pow(2).sum())(v)
    assert found.dtype == dtype
    assert made and {f"torch.{one}" for one in made} == {str(dtype)}

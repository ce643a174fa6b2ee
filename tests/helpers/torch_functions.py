"""Functions as people write them with PyTorch, with arguments: each is differentiated by eindiff and by torch.func."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Case:
    """A function, its arguments, and what it is differentiated by."""

    function: Callable
    args: tuple
    argnums: int | tuple[int, ...] = 0
    order: int = 2
    opaque: bool = False  # whether an operation is left to PyTorch
    reference: Callable | None = None  # what torch.func can differentiate twice, if it cannot the function


CASES: dict[str, Case] = {}
TOLERANCE = 1e-9


def assert_same(actual, expected, tolerance=TOLERANCE):
    """Both have the same structure, shapes, types and values."""
    ours, form = pytree.tree_flatten(actual)
    theirs, expected_form = pytree.tree_flatten(expected)
    assert form == expected_form
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        one, other = one.detach().double(), other.detach().double()
        assert float((one - other).abs().max()) <= tolerance * max(1.0, float(other.abs().max()))


def case(*args: Any, **options: Any) -> Callable:
    """A function is a case, under its name."""

    def add(function: Callable) -> Callable:
        CASES[function.__name__.strip("_")] = Case(function, args, **options)
        return function

    return add


def of(name: str, function: Callable, *args: Any, **options: Any) -> None:
    """A case that is one expression."""
    CASES[name] = Case(function, args, **options)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 7), dtype=torch.float64)


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    return randn(*shape, seed=seed).abs() + 0.3


x, y, z = randn(4), randn(4, seed=1), randn(4, seed=2)
p = positive(4)
u = torch.tanh(randn(4))  # between -1 and 1
A, B = randn(3, 4), randn(4, 3, seed=3)
S = randn(4, 4)
SPD = S @ S.T + 2 * torch.eye(4, dtype=torch.float64)
T = randn(2, 3, 4)
X, labels = randn(6, 3), torch.tensor([0, 2, 1, 1, 0, 2])
target = randn(6, seed=4)
weights = randn(3, seed=5)
big = randn(6, 8)
mask = torch.tensor([True, False, True, True])
KERNELS = [randn(2, 4, 4), randn(2, 3, 2), randn(1, 2, 5, 5), randn(1, 4, 4, 4), randn(1, 2, 3, 3), randn(6, 4)]

# Elementwise functions

for _name, _function in {
    "abs": torch.abs, "atan": torch.atan, "asinh": torch.asinh, "cos": torch.cos, "cosh": torch.cosh, "erf": torch.erf,
    "erfc": torch.erfc, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "sigmoid": torch.sigmoid,
    "sin": torch.sin, "sinh": torch.sinh, "sinc": torch.sinc, "square": torch.square, "tan": torch.tan,
    "tanh": torch.tanh, "neg": torch.neg, "logit of sigmoid": lambda v: torch.logit(torch.sigmoid(v)),
    "deg2rad": torch.deg2rad, "floor": lambda v: torch.floor(v) * v, "frac": torch.frac,
    "sign": lambda v: torch.sign(v) * v * v, "logaddexp": lambda v: torch.logaddexp(v, y),
}.items():  # fmt: skip
    of(f"elementwise {_name}", lambda v, f=_function: (f(v) * z).sum(), x)

for _name, _function in {
    "log": torch.log, "log10": torch.log10, "log1p": torch.log1p, "log2": torch.log2, "rsqrt": torch.rsqrt,
    "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "pow": lambda v: v**2.5, "pow of": lambda v: 1.7**v,
    "xlogy": lambda v: torch.xlogy(v, v), "lgamma": torch.lgamma, "digamma": torch.digamma,
    "acosh": lambda v: torch.acosh(v + 1), "power of tensors": lambda v: v**v, "atan2": lambda v: torch.atan2(v, 2 - v),
    "hypot": lambda v: torch.hypot(v, y), "remainder": lambda v: torch.remainder(v * v, 0.7),
    "fmod": lambda v: torch.fmod(v * v, 0.7), "nan_to_num": lambda v: torch.nan_to_num(v) * v,
    "special.entr": torch.special.entr, "log_ndtr": torch.special.log_ndtr,
}.items():  # fmt: skip
    of(f"elementwise {_name}", lambda v, f=_function: (f(v) * z).sum(), p)

for _name, _function in {
    "acos": torch.acos, "asin": torch.asin, "atanh": torch.atanh, "erfinv": torch.erfinv,
}.items():  # fmt: skip
    of(f"elementwise {_name}", lambda v, f=_function: (f(v) * z).sum(), u)

for _name, _function in {
    "relu": F.relu, "leaky_relu": F.leaky_relu, "elu": F.elu, "selu": F.selu, "celu": F.celu, "silu": F.silu,
    "gelu": F.gelu, "gelu tanh": lambda v: F.gelu(v, approximate="tanh"), "softplus": F.softplus, "mish": F.mish,
    "softplus beta": lambda v: F.softplus(v, beta=2.0), "softsign": F.softsign, "tanhshrink": F.tanhshrink,
    "hardtanh": F.hardtanh, "hardswish": F.hardswish, "relu6": F.relu6,
    "logsigmoid": F.logsigmoid, "softshrink": F.softshrink, "hardshrink": F.hardshrink, "threshold":
    lambda v: F.threshold(v, 0.1, 0.5), "glu": lambda v: F.glu(v).repeat(2), "softmax": lambda v: F.softmax(v, 0),
    "log_softmax": lambda v: F.log_softmax(v, 0), "softmin": lambda v: F.softmin(v, 0),
    "prelu": lambda v: F.prelu(v, torch.tensor([0.2], dtype=torch.float64)), "dropout off": lambda v:
    F.dropout(v, training=False) ** 2, "normalize": lambda v: F.normalize(v, dim=0),
}.items():  # fmt: skip
    of(f"activation {_name}", lambda v, f=_function: (f(v * 2) * z).sum() ** 2, x)

of(
    "activation hardsigmoid",
    lambda v: (F.hardsigmoid(v * 2) * z).sum() ** 2,
    x,
    reference=lambda v: ((F.relu6(v * 2 + 3) / 6) * z).sum() ** 2,
)

# Arithmetic, broadcasting, comparisons, choices

of("broadcasting", lambda a, v: ((a * v + v / (a * a + 1)) ** 2).sum(), A, x, argnums=(0, 1))
of("scalars", lambda v: (2 - v / 3 + 1 / (v * v + 1) - (-v) ** 3).sum(), x)
of("where", lambda v: torch.where(v > 0, v**2, torch.exp(v)).sum(), x)
of("masked_fill", lambda v: torch.logsumexp(v.masked_fill(mask, float("-inf")), 0) + (v**2).sum(), x)
of("clamp", lambda v: (torch.clamp(v, -0.5, 0.5) * v).sum(), x)
of("clamp_min", lambda v: (v.clamp_min(0.1) ** 2).sum(), x)
of("maximum", lambda v: (torch.maximum(v, y) * torch.minimum(v, z)).sum(), x)
of("comparisons", lambda v: ((v >= 0) * v**2 + (v <= 0.2) * v**3 + (v == 1) * v + (v != 0) * v**2).sum(), x)
of("logic", lambda v: (torch.logical_and(v > 0, v < 1) * v**2 + torch.logical_or(v > 1, ~(v > 0)) * v**3).sum(), x)
of("lerp and addcmul", lambda v: (torch.lerp(v, v * v, 0.3) + torch.addcmul(v, v, v, value=2)).sum(), x)
of("in-place", lambda v: (v * 2).add_(1).mul_(v).sum(), x)
of("integer power", lambda v: (v**3 - v**-2).sum(), x)
of("captured scalar", lambda v: (v * torch.tensor(0.1, dtype=torch.float64)).pow(2).sum(), x)

# Products

of("matmul", lambda a, b: torch.tanh(a @ b).sum(), A, B, argnums=(0, 1))
of("mv and dot", lambda v: torch.dot(S @ v, v) + S.mv(v).pow(2).sum(), x)
of("addmm", lambda a: torch.addmm(torch.ones(3, 3, dtype=a.dtype), a, B, beta=0.5, alpha=2).pow(2).sum(), A)
of("baddbmm", lambda t: torch.baddbmm(t @ SPD, t, SPD.expand(2, 4, 4)).pow(2).sum(), T)
of("outer", lambda v: (torch.outer(v, v) * S).sum() ** 2, x)
of("einsum", lambda a, b: torch.einsum("ij,jk,kl->il", a, b, a).pow(2).sum(), A, B)
of("einsum batch", lambda t: torch.einsum("bij,bkj->bik", t, t).pow(2).sum(), T)
of("tensordot", lambda t: torch.tensordot(t, T, dims=([1, 2], [1, 2])).pow(2).sum(), T)
of("bilinear", lambda v, kernel=KERNELS[0]: F.bilinear(v[None], v[None], kernel).pow(2).sum(), x)
of("kron", lambda a: torch.kron(a[:2, :2], a[1:, 2:]).pow(2).sum(), A)
of("linear", lambda a, b: F.linear(X, a, b).pow(2).sum(), randn(2, 3), randn(2), argnums=(0, 1))
of("cross", lambda v: torch.linalg.cross(v[:3], v[1:]).pow(2).sum(), x)
of("multi_dot", lambda a: torch.linalg.multi_dot([a, B, a]).pow(2).sum(), A)
of("matrix_power", lambda s: torch.linalg.matrix_power(s, 3).sum(), S)

# Reductions

of("sum and mean", lambda t: (t.sum(1) * t.mean((0, 1))).pow(2).sum(), T)
of("keepdim", lambda t: (t - t.mean(-1, keepdim=True)).pow(3).sum(), T)
of("prod", lambda v: v.prod() + v[:3].prod(0) ** 2, x)
of("max", lambda a: a.max() ** 2 + a.max(1).values.pow(2).sum() + a.amin(0).pow(3).sum(), A)
of("logsumexp", lambda a: torch.logsumexp(a, 1).pow(2).sum() + torch.logsumexp(a, (0, 1)), A)
of("var and std", lambda a: a.var() + a.std(0).sum() + a.var(1, unbiased=False).pow(2).sum(), A)
of(
    "norms",
    lambda a: a.norm() + torch.linalg.norm(a, 1, dim=1).sum() + torch.linalg.vector_norm(a, 3) + a.norm(dim=0).sum(),
    A,
)
of("nuclear norm", lambda a: torch.linalg.matrix_norm(a, "nuc"), A)
of("cumsum", lambda v: v.cumsum(0).pow(2).sum() + A.cumsum(1).sum(), x)
of("cumprod", lambda v: v.cumprod(0).pow(2).sum(), x)
of("any and all", lambda v: (v.gt(0).any() * v**2 + (v < 9).all() * v**3).sum(), x)
of("median", lambda v: torch.median(v) ** 2 + (v**3).sum(), x, opaque=True)
of("sort", lambda v: (torch.sort(v).values * z).sum() ** 2, x, opaque=True)
of("topk", lambda v: torch.topk(v, 2).values.prod(), x, opaque=True)
of("trace", lambda s: torch.trace(s @ s) + torch.trace(s) ** 2, S)
of(
    "histogram of distances",
    lambda v: torch.exp(-((v[:, None] - torch.linspace(-1, 1, 5, dtype=v.dtype)) ** 2)).sum(0).log().sum(),
    x,
)

# Shapes

of("view and permute", lambda t: (t.view(6, 4) @ t.permute(2, 0, 1).reshape(4, 6)).pow(2).sum(), T)
of("transpose and t", lambda t: (t.transpose(0, 2).flatten(1) @ A.t().reshape(6, 2)).pow(2).sum(), T)
of("expand and squeeze", lambda v: (v.unsqueeze(0).expand(3, 4) * A).squeeze().sum(0).pow(2).sum(), x)
of("cat and stack", lambda a: torch.cat([a, a**2, A], 0).pow(2).sum() + torch.stack([a, a], 1).pow(3).sum(), A)
of(
    "split and chunk",
    lambda t: sum((k + 1) * s.pow(2).sum() for k, s in enumerate((*t.split(2, 1), *t.chunk(2, 2)))),
    T,
)
of("select and slice", lambda t: (t[0, 1:, ::2] * t[1, :2, 1::2]).sum() ** 2 + t[..., -1].pow(3).sum(), T)
of("index", lambda a: a[[0, 2, 0], [1, 1, 3]].pow(2).sum() + a[:, torch.tensor([0, 0, 2])].pow(3).sum(), A)
of("boolean mask", lambda v: (v[mask] ** 3).sum() + v.masked_select(mask).prod(), x)
of("gather", lambda a: a.gather(1, torch.tensor([[0, 1], [2, 2], [3, 0]])).pow(3).sum(), A)
of("index_select", lambda a: a.index_select(0, torch.tensor([2, 0, 2])).pow(3).sum(), A)
of("take_along_dim", lambda a: torch.take_along_dim(a, torch.tensor([[1], [0], [3]]), 1).pow(3).sum(), A)
of("embedding", lambda a: F.embedding(torch.tensor([[0, 2], [1, 1]]), a).prod(-1).pow(2).sum(), A)
of("flip and roll", lambda a: (a.flip(0, 1) * a.roll(1, 1) * a.roll(-2)).sum(), A)
of("triangles", lambda s: (s.tril() @ s.triu(1) @ s.tril(-2)).pow(2).sum(), S)
of("diagonals", lambda s: s.diagonal().prod() + (torch.diag(s[0]) @ s).pow(2).sum() + s.diagonal(1).pow(3).sum(), S)
of("diag_embed", lambda a: torch.linalg.det(torch.diag_embed(a) + torch.ones(4, 4)).sum(), A)
of("pad", lambda a: (F.pad(a, (1, 2, 0, 1)) ** 2).sum() + F.pad(a, (1, 1), value=2.0).pow(3).mean(), A)
of("pad reflect", lambda a: F.pad(a[None], (1, 2), mode="reflect").pow(3).sum(), A)
of("repeat", lambda v: (v.repeat(2, 3) * big.flatten()[:24].view(2, 12)).sum() ** 2, x)
of("unfold", lambda v: v.unfold(0, 2, 1).prod(1).pow(2).sum(), x)
of("meshgrid", lambda v: (torch.meshgrid(v, v, indexing="ij")[0] * S).sum() ** 2, x)
of("assignment", lambda v: _assigned(v).pow(2).sum(), x)
of("scatter_add", lambda v: torch.zeros(3, dtype=v.dtype).scatter_add(0, torch.tensor([0, 2, 0, 1]), v).pow(3).sum(), x)
of("index_add", lambda a: torch.zeros(2, 4, dtype=a.dtype).index_add(0, torch.tensor([0, 1, 0]), a).pow(3).sum(), A)
of("index_put", lambda v: v.clone().index_put((torch.tensor([1, 3]),), v[:2] ** 2).pow(2).sum(), x)
of("repeat_interleave", lambda v: (v.repeat_interleave(2) * big.flatten()[:8]).sum() ** 2, x)
of("triu_indices", lambda s: s[torch.triu_indices(4, 4)[0], torch.triu_indices(4, 4)[1]].pow(3).sum(), S)
of("movedim", lambda t: (t.movedim(0, -1).sum(0) * t.swapaxes(1, 2).sum(2).T).pow(2).sum(), T)


def _assigned(v: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, 2, dtype=v.dtype)
    out[:, 0] = v**2
    out[1:, 1] = torch.sin(v[:-1])
    out[0, 1] = v.sum()
    return out


# Losses

of("mse_loss", lambda w: F.mse_loss(torch.tanh(X @ w), target), weights)
of("l1_loss", lambda w: F.l1_loss(torch.tanh(X @ w), target), weights)
of("huber_loss", lambda w: F.huber_loss(X @ w, target, delta=0.5), weights)
of("smooth_l1_loss", lambda w: F.smooth_l1_loss(X @ w, target, beta=0.7), weights)
of("cross_entropy", lambda W: F.cross_entropy(X @ W, labels), randn(3, 3))
of(
    "cross_entropy smoothed",
    lambda W: F.cross_entropy(X @ W, labels, label_smoothing=0.1, weight=torch.ones(3, dtype=W.dtype) * 2),
    randn(3, 3),
)
of("cross_entropy labels given", lambda W, X, y: F.cross_entropy(X @ W, y, reduction="sum"), randn(3, 3), X, labels)
of("cross_entropy ignored", lambda W: F.cross_entropy(X @ W, labels, ignore_index=1), randn(3, 3))
of("nll_loss", lambda W: F.nll_loss(F.log_softmax(X @ W, 1), labels, reduction="sum"), randn(3, 3))
of("binary_cross_entropy", lambda w: F.binary_cross_entropy(torch.sigmoid(X @ w), (target > 0).double()), weights)
of("bce_with_logits", lambda w: F.binary_cross_entropy_with_logits(X @ w, (target > 0).double()), weights)
of(
    "bce_with_logits weighted",
    lambda w: F.binary_cross_entropy_with_logits(X @ w, (target > 0).double(), pos_weight=torch.tensor(2.0)),
    weights,
)
of("kl_div", lambda W: F.kl_div(F.log_softmax(X @ W, 1), F.softmax(X, 1), reduction="batchmean"), randn(3, 3))
of("poisson_nll", lambda w: F.poisson_nll_loss(X @ w, target.abs()), weights)
of("gaussian_nll", lambda w: F.gaussian_nll_loss(X @ w, target, F.softplus(X @ w) + 0.1), weights)
of("hinge", lambda w: F.relu(1 - target.sign() * (X @ w)).pow(2).mean(), weights)
of("cosine", lambda w: F.cosine_similarity(X * w, X + 1).sum(), weights)
of("triplet", lambda w: F.triplet_margin_loss(X * w, X + 1, X - 1), weights)
of(
    "soft_margin",
    lambda w: F.soft_margin_loss(X @ w, target.sign()),
    weights,
    reference=lambda w: F.softplus(-target.sign() * (X @ w)).mean(),
)

# Linear algebra

of("cholesky", lambda s: torch.linalg.cholesky(s @ s.T + torch.eye(4)).sum(), S)
of("solve", lambda s: torch.linalg.solve(s + 3 * torch.eye(4), y).pow(2).sum(), S)
of("inv", lambda s: torch.linalg.inv(s + 3 * torch.eye(4)).pow(2).sum(), S)
of("det", lambda s: torch.linalg.det(s), S)
of("slogdet", lambda s: torch.linalg.slogdet(s)[1], S)
of("logdet", lambda s: torch.logdet(s @ s.T + torch.eye(4)), S)
of(
    "solve_triangular",
    lambda s: torch.linalg.solve_triangular(s.tril() + 3 * torch.eye(4), y[:, None], upper=False).pow(2).sum(),
    S,
)
of(
    "solve_triangular with ones on the diagonal",
    lambda s: torch.linalg.solve_triangular(s, y[:, None], upper=True, unitriangular=True).pow(2).sum(),
    S,
)
of(
    "cholesky_solve",
    lambda s: torch.cholesky_solve(y[:, None], torch.linalg.cholesky(s @ s.T + torch.eye(4))).pow(2).sum(),
    S,
)
of("eigvalsh", lambda s: torch.linalg.eigvalsh(s + s.T).pow(3).sum(), S)
of("eigh", lambda s: (torch.linalg.eigh(s + s.T)[1][:, 0] ** 2 * z).sum(), S)
of("svdvals", lambda a: torch.linalg.svdvals(a).pow(3).sum(), A)
of("matrix_exp", lambda s: torch.linalg.matrix_exp(s / 3).sum(), S[:3, :3])
of("pinv", lambda a: torch.linalg.pinv(a).pow(2).sum(), A)
of("qr", lambda a: torch.linalg.qr(a.T)[1].pow(2).sum(0).log().sum(), A, opaque=True)
of("lstsq by normal equations", lambda a: torch.linalg.solve(a.T @ a, a.T @ y).pow(2).sum(), S[:, :3])
of(
    "cdist",
    lambda a: torch.exp(-torch.cdist(a, B.T)).sum(),
    A,
    reference=lambda a: torch.exp(-(a[:, None] - B.T[None]).norm(dim=-1)).sum(),
)
of("squared distances", lambda a: torch.exp(-((a[:, None] - a[None]) ** 2).sum(-1)).sum(), A)
of("mahalanobis", lambda v: torch.sqrt((v - y) @ torch.linalg.inv(SPD) @ (v - y)), x)

# Normalization, convolution, attention

of("layer_norm", lambda a: (F.layer_norm(a, (4,), torch.arange(1.0, 5.0).double(), y) ** 3).sum(), A)
of("rms_norm", lambda a: (F.rms_norm(a, (4,)) ** 3).sum(), A)
of("group_norm", lambda t: (F.group_norm(t.reshape(2, 4, 3), 2) ** 3).sum(), T)
of("instance_norm", lambda t: (F.instance_norm(t) ** 3).sum(), T)
of("batch_norm", lambda t: (F.batch_norm(t, weights, weights.abs() + 1) ** 3).sum(), T)
of("conv1d", lambda w: F.conv1d(T, w, stride=1, padding=1).pow(3).sum(), randn(2, 3, 3))
of("conv1d by input", lambda t, k=KERNELS[1]: torch.tanh(F.conv1d(t, k, bias=y[:2], dilation=2)).sum(), T)
of("conv2d", lambda w, i=KERNELS[2]: F.conv2d(i, w, stride=2).pow(3).sum(), randn(2, 2, 3, 2))
of("conv2d grouped", lambda w, i=KERNELS[3]: F.conv2d(i, w, groups=2).pow(3).sum(), randn(2, 2, 2, 2))
of(
    "conv_transpose2d",
    lambda w, i=KERNELS[4]: F.conv_transpose2d(i, w, stride=2, padding=1).pow(3).sum(),
    randn(2, 2, 3, 3),
)
of("max_pool2d", lambda t: F.max_pool2d(t.reshape(1, 1, 6, 4), 2).pow(3).sum(), T)
of("max_pool2d padded", lambda t: F.max_pool2d(t.reshape(1, 1, 6, 4), 3, stride=2, padding=1).pow(3).sum(), T)
of("avg_pool2d", lambda t: F.avg_pool2d(t.reshape(1, 1, 6, 4), 2).pow(3).sum(), T)
of("adaptive_avg_pool2d", lambda t: F.adaptive_avg_pool2d(t.reshape(1, 1, 6, 4), (3, 2)).pow(3).sum(), T)
of("attention", lambda q: F.scaled_dot_product_attention(q[None], T[:1], T[1:]).pow(2).sum(), A)
of("attention causal", lambda q: F.scaled_dot_product_attention(q[None], T[:1], T[1:], is_causal=True).pow(2).sum(), A)
of("upsample", lambda t: F.interpolate(t, scale_factor=2, mode="nearest").pow(3).sum(), T)
of("pixel_shuffle", lambda t, c=KERNELS[5]: (F.pixel_shuffle(t.reshape(1, 4, 3, 2), 2) * c).sum() ** 2, T)

# Constants for derivatives

of("detach", lambda v: (v.detach() * v**2).sum() + (v.detach() * v).sum() ** 2, x)
of("straight through", lambda v: (((v > 0).double() - v).detach() + v).pow(2).sum(), x)
of("inner gradient", lambda v: torch.func.grad(lambda w: torch.tanh(w @ S @ w))(v).pow(2).sum(), x)
of("inner vmap", lambda v: torch.func.vmap(lambda row: torch.tanh(row @ v))(S).sum(), x)
of("inner jacobian", lambda v: torch.func.jacrev(lambda w: torch.sin(S @ w))(v).pow(2).sum(), x)

# Vector-valued functions and several outputs

of("jacobian of a vector", lambda v: torch.sin(S @ v) * v, x, order=1)
of("hessian of a vector", lambda v: torch.sin(S @ v) * v, x)
of("several outputs", lambda v: {"a": v**2, "b": (v.sum(), torch.exp(v[:2]))}, x)
of(
    "dictionary of parameters",
    lambda q, data: F.mse_loss(torch.tanh(data @ q["w"] + q["b"]), target),
    {"w": weights, "b": randn(1)[0]},
    X,
)
of(
    "nested parameters",
    lambda q: (torch.tanh(X @ q[0]["w"]) @ q[1][0] + q[1][1]).pow(2).sum(),
    [{"w": randn(3, 2)}, (randn(2), randn(1))],
)
of("two arguments", lambda v, w: torch.exp(v @ w) + (v**2).sum(), x, y, argnums=(0, 1))
of("second argument", lambda v, w: torch.exp(v @ w) + (w**4).sum(), x, y, argnums=1)
of("no dependence", lambda v, w: (w**2).sum(), x, y, argnums=(0, 1))
of("linear function", lambda v: (v * y).sum(), x)
of("identity", lambda v: v, x)

# Distributions, whose checks of arguments look at values

of("normal distribution", lambda v: -torch.distributions.Normal(v, torch.exp(v)).log_prob(y).sum(), x)
of("bernoulli distribution", lambda v: torch.distributions.Bernoulli(logits=v).log_prob(mask.double()).sum(), x)
of("gamma distribution", lambda v: torch.distributions.Gamma(torch.exp(v), 2.0).log_prob(p).sum(), x)
of("dirichlet distribution", lambda v: torch.distributions.Dirichlet(torch.exp(v)).log_prob(torch.softmax(y, 0)), x)
of("multivariate normal", lambda v: torch.distributions.MultivariateNormal(v, SPD).log_prob(y), x)

# Types

of("cast to integers", lambda v: ((v * 3).long() * v**2).sum() + ((v * 2).int() % 2 * v**3).sum(), x)
of("cast to truth values", lambda v: ((v * 3).bool() * v**2).sum() + (((v > 0) + (v < 1)) * v**3).sum(), x)
of("single precision inside", lambda v: (v.float() ** 2).double().sum(), x)
of("counts", lambda v: ((v > 0).sum() // 2 * v**2).sum(), x)
of("choice in place", lambda v: _nonnegative(v).pow(2).sum(), x)
of("covariance", lambda a: torch.cov(a).pow(2).sum() + torch.corrcoef(a).pow(3).sum(), A)
of("inner jvp", lambda v: torch.func.jvp(torch.sin, (v,), (v,))[1].pow(2).sum(), x)
of("pdist", lambda a: torch.pdist(a).pow(3).sum(), A, reference=lambda a: _pairs(a).norm(dim=1).pow(3).sum())
of("searchsorted", lambda v: torch.searchsorted(torch.linspace(-1, 1, 5).double(), v).sum() * v.pow(2).sum(), x,
   opaque=True)  # fmt: skip
of("trapezoid and diff", lambda v: torch.trapezoid(v**2) ** 2 + torch.diff(v, n=2).pow(3).sum(), x)
of("lu", lambda a: torch.linalg.lu_factor(a[:, :3])[0].pow(2).sum(), A, opaque=True)


def _nonnegative(v: torch.Tensor) -> torch.Tensor:
    out = v * 2
    out[out < 0] = 0.1
    return out * v


def _pairs(a: torch.Tensor) -> torch.Tensor:
    return torch.stack([a[0] - a[1], a[0] - a[2], a[1] - a[2]])

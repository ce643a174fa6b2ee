"""Models as people write them with PyTorch: regressions, physics, filters, networks. They are cases as the others."""

from __future__ import annotations

from math import pi

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from torch_functions import A, S, X, big, case, labels, of, randn, target, weights, x


@case(weights)
def logistic_regression(w):
    return torch.log1p(torch.exp(-target.sign() * (X @ w))).sum() + 0.1 * w @ w


@case(randn(6, 2), randn(8, 2), argnums=(0, 1))
def matrix_factorization(U, V):
    return ((big - U @ V.T) ** 2).sum() + 0.1 * (U.norm() ** 2 + V.norm() ** 2)


@case(randn(3, 2))
def poisson_regression(W):
    rate = torch.exp(X @ W)
    return (rate - target.abs()[:, None] * torch.log(rate)).sum()


@case({"mu": randn(2, 3), "log_sigma": randn(2) / 3, "logits": randn(2)})
def gaussian_mixture(q):
    squares = ((X[:, None] - q["mu"][None]) ** 2).sum(-1)
    parts = -0.5 * squares * torch.exp(-2 * q["log_sigma"]) - 3 * q["log_sigma"] - 1.5 * torch.log(torch.tensor(2 * pi))
    return -torch.logsumexp(F.log_softmax(q["logits"], 0) + parts, 1).sum()


@case(torch.tensor([0.1, 0.2, -0.5], dtype=torch.float64))
def gaussian_process(theta):
    scale, length, noise = torch.exp(theta)
    K = scale * torch.exp(-0.5 * torch.cdist(X, X) ** 2 / length**2) + noise * torch.eye(6, dtype=theta.dtype)
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(target[:, None], L)[:, 0]
    return 0.5 * target @ alpha + torch.log(torch.diagonal(L)).sum()


@case(x, torch.eye(4, dtype=torch.float64))
def kalman_step(state, P):
    F_, H, Q, R = S / 4, A, 0.1 * torch.eye(4, dtype=torch.float64), 0.2 * torch.eye(3, dtype=torch.float64)
    state, P = F_ @ state, F_ @ P @ F_.T + Q
    innovation = weights - H @ state
    covariance = H @ P @ H.T + R
    gain = torch.linalg.solve(covariance, H @ P).T
    new = state + gain @ innovation
    return (
        0.5 * innovation @ torch.linalg.solve(covariance, innovation) + torch.logdet(covariance) + torch.sin(new).sum()
    )


@case(randn(5, 3))
def lennard_jones(r):
    i, j = torch.triu_indices(5, 5, 1)
    inverse = 1 / ((r[i] - r[j]) ** 2).sum(-1)
    return 4 * (inverse**6 - inverse**3).sum() / 1000


@case(randn(5, 2))
def springs(r):
    lengths = torch.linalg.norm(r[1:] - r[:-1], dim=1)
    return 0.5 * ((lengths - 1) ** 2).sum() + 0.1 * r[:, 1].sum()


@case(torch.tensor([0.3, 0.8], dtype=torch.float64), torch.tensor([0.1, -0.4], dtype=torch.float64))
def double_pendulum(q, velocity):
    kinetic = velocity[0] ** 2 + 0.5 * velocity[1] ** 2 + velocity[0] * velocity[1] * torch.cos(q[0] - q[1])
    return kinetic + 2 * 9.81 * torch.cos(q[0]) + 9.81 * torch.cos(q[1])


@case(x, argnums=0)
def rosenbrock(v):
    return (100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2).sum()


@case(torch.tensor([0.6, 0.4], dtype=torch.float64))
def euler_integration(v):
    state = v
    for _ in range(4):
        state = state + 0.1 * torch.stack([state[1], -torch.sin(state[0])])
    return (state**2).sum()


@case({"Wx": randn(3, 2) / 2, "Wh": randn(2, 2) / 2, "b": randn(2)})
def recurrent_network(q):
    h = torch.zeros(2, dtype=torch.float64)
    for row in X[:4]:
        h = torch.tanh(row @ q["Wx"] + h @ q["Wh"] + q["b"])
    return (h**2).sum()


@case({"Wi": randn(8, 3) / 2, "Wh": randn(8, 2) / 2, "b": randn(8)})
def lstm(q):
    h = c = torch.zeros(2, dtype=torch.float64)
    for row in X[:2]:
        i, f, g, o = (q["Wi"] @ row + q["Wh"] @ h + q["b"]).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return (h**2).sum()


noise = randn(6, 2, seed=9)


@case({"enc": randn(3, 4) / 2, "dec": randn(2, 3) / 2})
def vae(q):
    mean, log_variance = (X @ q["enc"]).chunk(2, dim=1)
    code = mean + torch.exp(0.5 * log_variance) * noise
    reconstruction = F.binary_cross_entropy_with_logits(code @ q["dec"], torch.sigmoid(X), reduction="sum")
    return reconstruction - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()


def _network(activation: nn.Module) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 2)).double()
    return module, {name: parameter.detach() for name, parameter in module.named_parameters()}


for _activation in (
    nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.ELU(), nn.LeakyReLU(0.1), nn.Mish(),
    nn.SELU(), nn.CELU(), nn.Hardswish(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(),
):  # fmt: skip
    _module, _parameters = _network(_activation)
    of(
        f"network {type(_activation).__name__}",
        lambda q, m=_module: F.cross_entropy(torch.func.functional_call(m, q, (X,)), labels % 2),
        _parameters,
    )

_tanh_network, _ = _network(nn.Tanh())
of("network by its inputs", lambda data, m=_tanh_network: m(data).pow(2).sum(), X)


def _cnn() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    ).double().eval()  # fmt: skip
    return module, {name: parameter.detach() for name, parameter in module.named_parameters()}


_convolutional, _convolutional_parameters = _cnn()


@case(_convolutional_parameters)
def convolutional_network(q):
    images = big.reshape(3, 1, 4, 4)
    return F.cross_entropy(torch.func.functional_call(_convolutional, q, (images,)), torch.tensor([0, 1, 1]))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.Linear(width, 4), nn.GELU(), nn.Dropout(0.1), nn.Linear(4, width))

    def forward(self, h):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(-2, -3) for part in self.qkv(self.first(h)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(-2, -3).flatten(-2)
        h = h + self.out(mixed)
        return h + self.net(self.second(h))


torch.manual_seed(2)
_block = Block(4).double().eval()
_block_parameters = {name: parameter.detach() for name, parameter in _block.named_parameters()}


@case({name: _block_parameters[name] for name in ("qkv.weight", "net.0.weight", "first.weight")})
def transformer_block(q):
    return torch.func.functional_call(_block, q, (A,)).pow(2).sum()


@case(A)
def transformer_block_by_input(h):
    return _block(h).pow(2).sum()


torch.manual_seed(3)
_attention = nn.MultiheadAttention(4, 2, batch_first=True).double().eval()


def _by_weights(h):
    return _attention(h[None], h[None], h[None], need_weights=True)[0].pow(2).sum()


@case(A, reference=_by_weights)
def multihead_attention(h):
    return _attention(h[None], h[None], h[None], need_weights=False)[0].pow(2).sum()


torch.manual_seed(4)
_gru = nn.GRU(3, 2).double()


@case(X[:2])
def gru_module(sequence):
    return _gru(sequence)[0].pow(2).sum()

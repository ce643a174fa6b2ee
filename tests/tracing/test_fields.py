"""Differential operators of JAX and PyTorch functions are the contractions of nested derivatives of these libraries."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
import eindiff.jax as ej
import eindiff.torch as et
import oracles  # noqa: F401 (double precision)

RNG = np.random.default_rng(0)
W, V, U = (RNG.normal(size=shape) / 2 for shape in ((5, 3), (5, 5), (3, 5)))
POINTS = RNG.normal(size=(4, 3))


def net(x):
    """A network with one output."""
    return jnp.sum(jnp.tanh(V @ jnp.tanh(W @ x)))


def flow(x):
    """A field."""
    return U @ jnp.tanh(W @ x) * x[::-1]


def torch_net(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.as_tensor(V) @ torch.tanh(torch.as_tensor(W) @ x)).sum()


def third(x):
    return jax.jacfwd(jax.hessian(net))(x)


C = RNG.normal(size=(3, 3, 3))
CASES = {
    "laplacian": (ej.laplacian(net), lambda x: jnp.trace(jax.hessian(net)(x))),
    "biharmonic": (
        ej.biharmonic(net), lambda x: jnp.trace(jax.hessian(lambda z: jnp.trace(jax.hessian(net)(z)))(x))
    ),
    "laplacian of a field": (ej.laplacian(flow), lambda x: jnp.einsum("ijj->i", jax.hessian(flow)(x))),
    "divergence": (ej.divergence(flow), lambda x: jnp.trace(jax.jacfwd(flow)(x))),
    "curl": (
        ej.curl(flow),
        lambda x: jnp.stack([(J := jax.jacfwd(flow)(x))[2, 1] - J[1, 2], J[0, 2] - J[2, 0], J[1, 0] - J[0, 1]]),
    ),
    "directional": (ej.directional(net, C[0, 0], 3), lambda x: jnp.einsum("ijk,i,j,k->", third(x), *[C[0, 0]] * 3)),
    "operator": (ej.operator(net, C), lambda x: jnp.einsum("ijk,ijk->", third(x), C)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_nested_derivatives(name: str) -> None:
    ours, theirs = CASES[name]
    for x in POINTS:
        np.testing.assert_allclose(ours(x), jax.jit(theirs)(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(jax.vmap(ours)(POINTS), jax.jit(jax.vmap(theirs))(POINTS), rtol=1e-9, atol=1e-9)


def test_points_of_a_batch_are_differentiated_by_themselves() -> None:
    together = ej.laplacian(jax.vmap(net), batch=1)
    np.testing.assert_allclose(together(POINTS), [CASES["laplacian"][1](x) for x in POINTS], rtol=1e-9)
    whole = ej.laplacian(jax.vmap(net))(POINTS)  # by all points
    np.testing.assert_allclose(whole, together(POINTS), rtol=1e-9)
    field = ej.divergence(jax.vmap(flow), batch=1)
    np.testing.assert_allclose(field(POINTS), jax.vmap(CASES["divergence"][1])(POINTS), rtol=1e-9)


def test_training_by_an_operator() -> None:
    """The gradient by weights of a loss that is made of Laplacians."""

    def loss(weights, inner):
        return jnp.mean(jax.vmap(lambda x: inner(weights, x))(POINTS) ** 2)

    def of_weights(weights, x):
        return jnp.sum(jnp.tanh(weights @ x) ** 3)

    ours = jax.grad(loss)(W, ej.laplacian(of_weights, argnums=1))
    theirs = jax.grad(loss)(W, lambda w, x: jnp.trace(jax.hessian(of_weights, 1)(w, x)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_pytorch() -> None:
    for x in POINTS:
        point = torch.as_tensor(x)
        np.testing.assert_allclose(et.laplacian(torch_net)(point), CASES["laplacian"][1](x), rtol=1e-9)
        np.testing.assert_allclose(et.operator(torch_net, C)(point), CASES["operator"][1](x), rtol=1e-9)


def test_expressions() -> None:
    """All mixed derivatives of a polynomial by coefficients that choose one."""
    x = ed.vector("x", 2)
    f = x[0] ** 3 * x[1] ** 2
    for i, j, k in itertools.product(range(2), repeat=3):
        chosen = np.zeros((2, 2, 2))
        chosen[i, j, k] = 1
        expected = {0: 6.0, 1: 12.0, 2: 6.0, 3: 0.0}[i + j + k]  # at ones
        found = ed.evaluate(ed.operator(f, x, chosen), {"x": np.ones(2)})
        assert float(found) == expected


# Second derivatives in one forward sweep, against traces of Hessians


def attention(x):
    """Points that look at each other, with layers, a norm and a power of two functions."""
    h = jnp.tanh(x @ W.T)
    weights = jax.nn.softmax(h @ V @ h.T / 2, -1)
    h = h + jnp.tanh(weights @ h @ V)
    h = h / jnp.sqrt(jnp.mean(h**2, -1, keepdims=True) + 0.1)
    return jnp.sum((1.5 + jnp.sin(h[:, 0])) ** h[:, 1]) + jnp.linalg.norm(h) * jax.nn.logsumexp(h)


SYSTEMS = RNG.normal(size=(2, 4, 3))
M = RNG.normal(size=(4, 3, 4, 3))


def test_points_with_several_axes_and_weights() -> None:
    hessians = jax.jit(jax.vmap(jax.hessian(attention)))(SYSTEMS)
    for x, hessian in zip(SYSTEMS, hessians, strict=True):
        np.testing.assert_allclose(ej.laplacian(attention)(x), jnp.einsum("ijij->", hessian), rtol=1e-9)
        np.testing.assert_allclose(ej.operator(attention, M)(x), jnp.einsum("ijkl,ijkl->", hessian, M), rtol=1e-9)
    together = ej.laplacian(jax.vmap(attention), batch=1)(SYSTEMS)
    np.testing.assert_allclose(together, jnp.einsum("bijij->b", hessians), rtol=1e-9)
    weighted = ej.operator(jax.vmap(attention), M, batch=1)(SYSTEMS)
    np.testing.assert_allclose(weighted, jnp.einsum("bijkl,ijkl->b", hessians, M), rtol=1e-9)


def test_points_that_meet_in_a_batch() -> None:
    """Values of the whole batch in that of each point: only its own point moves."""

    def f(x):
        centre = x.mean(0)
        return jnp.sum(jnp.tanh(x - centre) ** 3, -1) * jnp.exp(centre @ centre)

    full = jax.hessian(f)(POINTS)
    np.testing.assert_allclose(ej.laplacian(f, batch=1)(POINTS), jnp.einsum("aaiai->a", full), rtol=1e-9)


def test_what_has_kinks_or_spectra() -> None:
    f = ed.parse("sum(abs(A*x).^3 .* sign(B*x)) + logdet(A + x*x')", "A(3,3); B(3,3); x(3)")
    arrays = {"A": np.eye(3) + 0.1 * C[0] @ C[0].T, "B": C[1], "x": POINTS[0]}
    trace = np.trace(ed.evaluate(ed.hessian(f, "x"), arrays))
    np.testing.assert_allclose(ed.evaluate(ed.laplacian(f, "x"), arrays), trace, rtol=1e-9)


def test_a_network_needs_few_products() -> None:
    """Those of its derivatives, layer by layer: a third of what a derivative of the gradient needs."""
    layers = [RNG.normal(size=(64, 64)).astype(np.float32) for _ in range(3)]
    first = RNG.normal(size=(10, 64)).astype(np.float32)

    def deep(x):
        h = jnp.tanh(x @ first)
        for layer in layers:
            h = jnp.tanh(h @ layer)
        return h.sum(-1)

    plan = ej.laplacian(deep, batch=1).lower(np.zeros((256, 10), np.float32)).plan
    assert plan.flops < 1.3 * 3 * (2 * 256 * 10 * 64 * 64)

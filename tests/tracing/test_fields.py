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
        np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(jax.vmap(ours)(POINTS), jax.vmap(theirs)(POINTS), rtol=1e-9, atol=1e-9)


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

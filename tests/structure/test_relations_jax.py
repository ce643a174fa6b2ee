"""The structures that functions of JAX have as people write them: found, equal to JAX's Hessian, and solved with."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import eindiff.jax as ej  # noqa: E402

RANDOM = np.random.default_rng(3)
STEP = RANDOM.normal(size=(2, 2))
KERNEL = RANDOM.normal(size=(3, 3))
GROUP, OTHER = RANDOM.integers(0, 20, size=100), RANDOM.integers(0, 15, size=100)
FROM, TO = RANDOM.integers(0, 80, size=(2, 100))
DESIGN, TARGET, TIME = RANDOM.normal(size=(100, 3)), RANDOM.normal(size=100), RANDOM.normal(size=100)


def mixed_effects(beta, u, s):
    return jnp.sum((TARGET - DESIGN @ beta - u[GROUP] - s[GROUP] * TIME) ** 2) + jnp.sum(u**2) + jnp.sum(s**2)


def crossed_effects(beta, u, w):
    return jnp.sum(jnp.exp(TARGET - DESIGN @ beta - u[GROUP] - w[OTHER])) + jnp.sum(u**2) + jnp.sum(w**2)


def control(x, u, multipliers):
    dynamics = x[1:] - jnp.sin(x[:-1] @ STEP) - u @ STEP[:1]
    return jnp.sum(x**2) + jnp.sum(u**2) + jnp.sum(multipliers * dynamics)


def smoother(S):
    def step(before, after):
        return jnp.sum((after - jnp.tanh(STEP @ before)) ** 2)

    return jnp.sum(jax.vmap(step)(S[:-1], S[1:])) + jnp.sum(S**2)


HERE = jnp.arange(40)


def smoothed(x):
    for _ in range(2):
        x = x.at[1:-1].set((x[:-2] + x[2:]) / 2)
    return jnp.sum(x**4)


def padded(x):
    p = jnp.pad(x, 1, mode="edge")
    return jnp.sum((p[2:] - 2 * p[1:-1] + p[:-2]) ** 4)


def stencil(X):
    P = jnp.pad(X, 1)
    return jnp.sum((P[2:, 1:-1] + P[:-2, 1:-1] + P[1:-1, 2:] + P[1:-1, :-2] - 4 * X) ** 4)


def pairs(x):
    y = jnp.tanh(x.reshape(-1, 2) @ STEP).reshape(-1)
    return jnp.sum((y[1:] - y[:-1]) ** 2)


def convolved_twice(x):
    y = jnp.tanh(jnp.convolve(x, KERNEL[0], mode="same"))
    return jnp.sum(jnp.convolve(y, KERNEL[0], mode="same") ** 4)


CASES = {
    "first and differences": (
        lambda x: jnp.sum(jnp.concatenate([x[:1], jnp.diff(x)]) ** 4), [(40,)], "tridiagonal",
    ),
    "ends repeated": (lambda x: jnp.sum(jnp.diff(x, prepend=x[0], append=x[-1]) ** 4), [(40,)], "tridiagonal"),
    "rolled and chosen": (
        lambda x: jnp.sum(jnp.where(HERE > 0, x - jnp.roll(x, 1), x) ** 4), [(40,)], "tridiagonal",
    ),
    "rolled and masked": (
        lambda x: jnp.sum(((jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)) * ((HERE > 0) & (HERE < 39))) ** 4), [(40,)],
        "band of half-width 2",
    ),
    "set": (
        lambda x: jnp.sum(jnp.zeros(40).at[1:].set(jnp.diff(x)).at[0].set(x[0]) ** 4), [(40,)], "tridiagonal",
    ),
    "by a matrix": (
        lambda x: jnp.sum((np.diff(np.eye(40), 2, axis=0) @ x) ** 4), [(40,)], "band of half-width 2",
    ),
    "padded": (padded, [(40,)], "band of half-width 2"),
    "padded image": (stencil, [(20, 8)], "13-point stencil on 20×8"),
    "smoothed": (smoothed, [(80,)], "band of half-width 4"),
    "pairs": (pairs, [(80,)], "band of half-width 3"),
    "mirrored": (lambda x: jnp.sum(jnp.diff(jnp.concatenate([x, x[::-1]])) ** 4), [(40,)], "tridiagonal"),
    "convolved twice": (convolved_twice, [(240,)], None),
    "chain": (lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), [(40,)], "tridiagonal"),
    "spline": (lambda x: jnp.sum(x**2) + jnp.sum(jnp.diff(x, 2) ** 2), [(40,)], "band of half-width 2"),
    "trend": (lambda x: jnp.sum(x**2) + jnp.sum(jnp.sqrt(jnp.diff(x, 2) ** 2 + 1)), [(40,)], "band of half-width 2"),
    "smoother": (smoother, [(30, 2)], "block tridiagonal, blocks 2×2"),
    "image": (
        lambda X: jnp.sum(jnp.sqrt(jnp.diff(X, axis=0)[:, :-1] ** 2 + jnp.diff(X, axis=1)[:-1] ** 2 + 1)),
        [(9, 8)], "seven-point stencil on 9×8",
    ),
    "deblurring": (
        lambda X: jnp.sum(jnp.tanh(jax.scipy.signal.convolve2d(X, KERNEL, mode="same")) ** 2),
        [(20, 20)], "25-point stencil on 20×20",
    ),
    "convolution": (
        lambda x: jnp.sum(jnp.tanh(jnp.convolve(x, KERNEL[0], mode="valid"))), [(40,)], "band of half-width 2",
    ),
    "padded convolution": (
        lambda x: jnp.sum(jnp.exp(-(jnp.convolve(x, KERNEL[0], mode="same") ** 2))), [(40,)], "band of half-width 2",
    ),
    "convolutions": (
        lambda X: jnp.sum(jax.vmap(lambda x: jnp.exp(-(jnp.convolve(x, KERNEL[0], mode="full") ** 2)))(X)), [(4, 30)],
        "block diagonal (band of half-width 2)",
    ),
    "mixed effects": (mixed_effects, [(3,), (20,), (20,)], "arrowhead"),
    "crossed effects": (crossed_effects, [(3,), (20,), (15,)], "arrowhead"),
    "control": (
        control, [(21, 2), (20, 1), (20, 2)], "block tridiagonal, blocks 5×5, once variables are interleaved",
    ),
    "states and controls": (
        lambda x, u: jnp.sum((x[1:] - jnp.tanh(x[:-1] @ STEP) - u @ STEP[:1]) ** 2) + jnp.sum(u**2),
        [(31, 2), (30, 1)], "block tridiagonal, blocks 3×3, once variables are interleaved",
    ),
    "comparisons": (lambda x: jnp.sum(jax.nn.softplus(x[FROM] - x[TO])), [(80,)], "sparse, 7 nonzeros a row"),
    "factorization": (
        lambda U, V: jnp.sum((TARGET - jnp.sum(U[GROUP] * V[OTHER], axis=1)) ** 2), [(20, 2), (15, 2)], "arrowhead",
    ),
    "roll": (lambda x: jnp.sum((x - jnp.roll(x, 1)) ** 2) + jnp.sum(x**2), [(40,)], "circulant (tridiagonal)"),
    "groups": (lambda x: jnp.sum(jnp.sum(x.reshape(8, 5), axis=1) ** 4), [(40,)], "block diagonal, blocks 5×5"),
    "segments": (
        lambda x: jnp.sum(jax.ops.segment_sum(x, np.repeat(np.arange(8), 5), 8) ** 4), [(40,)],
        "block diagonal, blocks 5×5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_structures_of_jax_functions(name):
    function, shapes, word = CASES[name]
    arguments = [np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(shapes)]
    which = tuple(range(len(shapes)))
    with jax.enable_x64(True):
        blocks = jax.jit(jax.hessian(function, argnums=which))(*arguments)
        operator = ej.hessian(function, argnums=which if len(which) > 1 else 0, structured=True)(*arguments)
    matrix = np.block(
        [[np.asarray(blocks[i][j]).reshape(arguments[i].size, arguments[j].size) for j in which] for i in which]
    )
    np.testing.assert_allclose(operator.as_matrix(), matrix, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())
    sparse = operator.to_csc()
    np.testing.assert_allclose(sparse.toarray(), matrix, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())
    assert sparse.nnz <= 1.1 * np.count_nonzero(np.abs(matrix) > 1e-12 * np.abs(matrix).max()) + 8
    damping = 1 + max(0.0, -np.linalg.eigvalsh(matrix).min())
    b = RANDOM.normal(size=len(matrix))
    expected = np.linalg.solve(matrix + damping * np.eye(len(matrix)), b)
    np.testing.assert_allclose(operator.solve(b, damping), expected, rtol=1e-7, atol=1e-9)
    assert word is None or operator.structure == word


def out_of_range():
    """Reads and writes outside of an array in each mode that JAX defines; what is only promised to be inside is not."""
    i = jnp.array([0, 4, 7, -1, -9])
    return {
        "clip": lambda x: jnp.sum(x.at[i].get(mode="clip") ** 3),
        "fill": lambda x: jnp.sum(x.at[i].get(mode="fill", fill_value=2.0) ** 3),
        "add, dropped": lambda x: jnp.sum((x**2).at[i].add(x**2) ** 2),
        "add, clipped": lambda x: jnp.sum((x**2).at[i].add(x**2, mode="clip") ** 2),
        "segments": lambda x: jnp.sum(jax.ops.segment_sum(x**2, i, num_segments=4) ** 2),
    }


@pytest.mark.parametrize("mode", out_of_range())
def test_indices_out_of_range(mode):
    function, x = out_of_range()[mode], jnp.arange(1.0, 6.0)
    operator = ej.hessian(function, structured=True)(x)
    np.testing.assert_allclose(operator.as_matrix(), jax.hessian(function)(x), rtol=1e-5)

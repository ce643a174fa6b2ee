"""`python -m benchmarks.operators`: differential operators of networks, against folx, Taylor mode and nested modes.

Networks have 4 layers of 64 units and tanh, for 256 points of 3, 10 and 30 entries, and two layers of attention for 64
systems of 5 points. Times are those of the processor, so that others on the machine count little; all sides take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.report import duration, markdown

Sides = dict[str, Callable[[], Any]]
WIDTH, DEPTH, POINTS = 64, 4, 256


def weights(d: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Matrices and vectors of a network with one output."""
    sizes = [d, *[WIDTH] * DEPTH, 1]
    return [(_normal(rng, m, n) / np.float32(np.sqrt(m)), _normal(rng, n) / 10) for m, n in pairwise(sizes)]


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def network(xp: Any) -> Callable[[Any, Any], Any]:
    """A network of `jax.numpy` or `torch`."""

    def f(layers: Any, x: Any) -> Any:
        for matrix, vector in layers[:-1]:
            x = xp.tanh(x @ matrix + vector)
        matrix, vector = layers[-1]
        return (x @ matrix + vector)[..., 0]

    return f


# JAX


def in_jax(d: int, rng: np.random.Generator) -> dict[str, Sides]:
    """Laplacian, training step and biharmonic operator."""
    import folx
    import jax
    import jax.numpy as jnp

    import eindiff.jax as ej

    f = network(jnp)
    p = [(jnp.asarray(a), jnp.asarray(b)) for a, b in weights(d, rng)]
    x = jnp.asarray(_normal(rng, POINTS, d))

    def with_folx(f: Callable) -> Callable:
        return lambda y: folx.forward_laplacian(f)(y).laplacian

    def with_hessian(f: Callable) -> Callable:
        return lambda y: jnp.trace(jax.hessian(f)(y))

    def with_nested(f: Callable) -> Callable:
        def along(y: Any, v: Any) -> Any:
            return jnp.vdot(v, jax.jvp(jax.grad(f), (y,), (v,))[1])

        return lambda y: jax.vmap(lambda v: along(y, v))(jnp.eye(y.size, dtype=y.dtype)).sum()

    def with_jet(f: Callable) -> Callable:
        from jax.experimental.jet import jet

        def along(y: Any, v: Any) -> Any:
            return jet(f, (y,), ((v, jnp.zeros_like(v)),))[1][1]

        return lambda y: jax.vmap(lambda v: along(y, v))(jnp.eye(y.size, dtype=y.dtype)).sum()

    def each(of: Callable, times: int = 1) -> Callable:
        def values(p: Any, x: Any) -> Any:
            g: Callable = lambda y: f(p, y)  # noqa: E731
            for _ in range(times):
                g = of(g)
            return jax.vmap(g)(x)

        return values

    def trained(laplacian: Callable) -> Callable:
        return jax.value_and_grad(lambda p, x: jnp.mean((laplacian(p, x) - 1) ** 2))

    ours = ej.laplacian(f, 1, batch=1)
    plain = {"folx": each(with_folx), "hessian": each(with_hessian), "nested": each(with_nested), "jet": each(with_jet)}
    found = {
        "Laplacian": {"eindiff": ours, **plain},
        "training step": {"eindiff": trained(ours), **{name: trained(g) for name, g in plain.items()}},
    }
    if d <= 10:
        twice = {"nested folx": each(with_folx, 2), "nested hessian": each(with_hessian, 2)}
        found["biharmonic"] = {"eindiff": ej.biharmonic(f, 1, batch=1), **twice}
    return {task: {name: _jitted(jax, g, p, x) for name, g in sides.items()} for task, sides in found.items()}


def _jitted(jax: Any, f: Callable, *args: Any) -> Callable[[], Any]:
    compiled = jax.jit(f)
    return lambda: jax.block_until_ready(compiled(*args))


def attention(rng: np.random.Generator) -> dict[str, Sides]:
    """The Laplacian of two layers of attention, by the places of particles."""
    import folx
    import jax
    import jax.numpy as jnp

    import eindiff.jax as ej

    names = {"E": (3, 32), **dict.fromkeys("QKVOA", (32, 32)), "B": (32, 1)}
    p = {name: jnp.asarray(_normal(rng, *shape)) / np.sqrt(shape[0]) for name, shape in names.items()}
    x = jnp.asarray(_normal(rng, 64, 5, 3))

    def f(p: Any, x: Any) -> Any:
        h = jnp.tanh(x @ p["E"])
        for _ in range(2):
            scores = (h @ p["Q"]) @ (h @ p["K"]).T / np.sqrt(32)
            h = h + jnp.tanh(jax.nn.softmax(scores, -1) @ (h @ p["V"]) @ p["O"])
        return (jnp.tanh(h @ p["A"]) @ p["B"]).sum()

    def flat(of: Callable) -> Callable:
        return lambda p, x: jax.vmap(lambda y: of(lambda z: f(p, z.reshape(5, 3)), y))(x.reshape(64, 15))

    def trained(laplacian: Callable) -> Callable:
        return jax.value_and_grad(lambda p, x: jnp.mean((laplacian(p, x) - 1) ** 2))

    plain = {
        "folx": flat(lambda f, y: folx.forward_laplacian(f)(y).laplacian),
        "hessian": flat(lambda f, y: jnp.trace(jax.hessian(f)(y))),
    }
    ours = ej.laplacian(lambda p, x: jax.vmap(lambda y: f(p, y))(x), 1, batch=1)
    found = {
        "Laplacian": {"eindiff": ours, **plain},
        "training step": {"eindiff": trained(ours), **{name: trained(g) for name, g in plain.items()}},
    }
    return {task: {name: _jitted(jax, g, p, x) for name, g in sides.items()} for task, sides in found.items()}


# PyTorch


def in_torch(d: int, rng: np.random.Generator) -> dict[str, Sides]:
    """The Laplacian, against one that is written out by hand."""
    import torch

    import eindiff.torch as et

    torch.set_num_threads(1)  # others that wait for work would count
    f = network(torch)
    p = [(torch.as_tensor(a), torch.as_tensor(b)) for a, b in weights(d, rng)]
    x = torch.as_tensor(_normal(rng, POINTS, d))

    def by_hand() -> Any:
        matrix, vector = p[0]
        h = torch.tanh(x @ matrix + vector)
        slope = 1 - h * h
        first, second = slope[:, None, :] * matrix, -2 * h * slope * (matrix * matrix).sum(0)
        for matrix, vector in p[1:-1]:
            h = torch.tanh(h @ matrix + vector)
            slope, first, second = 1 - h * h, first @ matrix, second @ matrix
            second = slope * (second - 2 * h * (first * first).sum(1))
            first = slope[:, None, :] * first
        return (second @ p[-1][0])[:, 0]

    ours = et.laplacian(f, 1, batch=1)
    hessian = torch.func.vmap(lambda y: torch.func.hessian(f, 1)(p, y).trace())
    return {"Laplacian": {"eindiff": lambda: ours(p, x), "by hand": by_hand, "hessian": lambda: hessian(x)}}


# Measuring


def measured(sides: Sides, budget: float) -> dict[str, tuple[float, float]]:
    """Seconds of the first call and of others, the median, of each side; the results must be the same."""
    first, results, taken = {}, {}, {name: list[float]() for name in sides}
    for name, f in sides.items():
        start = perf_counter()
        results[name] = f()
        first[name] = perf_counter() - start
    _check(results)
    end = perf_counter() + budget * len(sides)
    while perf_counter() < end or len(taken["eindiff"]) < 5:
        for name, f in sides.items():
            start = process_time()
            f()
            taken[name].append(process_time() - start)
    return {name: (first[name], median(taken[name])) for name in sides}


def _check(results: dict[str, Any]) -> None:
    def leaves(value: Any) -> list[np.ndarray]:
        if isinstance(value, dict):
            value = list(value.values())
        return [x for part in value for x in leaves(part)] if isinstance(value, list | tuple) else [np.asarray(value)]

    expected = leaves(results["eindiff"])
    for name, result in results.items():
        for one, two in zip(leaves(result), expected, strict=True):
            error = np.abs(one - two).max() / max(np.abs(two).max(), 1e-30)
            if error > 1e-3:
                raise AssertionError(f"{name} differs from eindiff by {error:.1e}")


def main() -> None:
    """Read the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[3, 10, 30], help="entries of a point")
    parser.add_argument("--libraries", nargs="+", choices=["jax", "torch"], default=["jax", "torch"])
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of calls for each side")
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    tasks = {}
    if "jax" in options.libraries:
        tasks |= {f"JAX, d = {d}": in_jax(d, rng) for d in options.sizes} | {"JAX, attention": attention(rng)}
    if "torch" in options.libraries:
        tasks |= {f"PyTorch, d = {d}": in_torch(d, rng) for d in options.sizes}
    rows = []
    for place, found in tasks.items():
        for task, sides in found.items():
            times = measured(sides, options.budget)
            ours = times["eindiff"][1]
            others = [f"{name} {duration(t)} ({ours / t:.2f})" for name, (_, t) in times.items() if name != "eindiff"]
            rows.append([place, task, duration(times["eindiff"][0]), duration(ours), ", ".join(others)])
            print(" | ".join(rows[-1]), flush=True)
    head = ["", "operator", "first call", "eindiff", "others, and the time of eindiff relative to them"]
    text = f"# Differential operators of networks\n\n{(__doc__ or '').partition(chr(10) * 2)[2]}\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "operators.md").write_text(f"{text}{markdown(head, rows)}\n")


if __name__ == "__main__":
    main()

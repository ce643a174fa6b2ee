"""Random NumPy programs full of views, aliases and changes in place.

What a program does depends on its seed and on shapes alone, so that the same program runs with arrays of real or of
complex numbers, and with symbolic ones. It is a polynomial, or one of sines: a complex step gives its derivatives.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def _bounds(draw: random.Random, n: int) -> slice:
    start = draw.randrange(n)
    return slice(start, draw.randrange(start + 1, n + 1))


def _index(draw: random.Random, a: Array) -> Any:
    """An index that gives a view with at least one axis."""
    kinds: list[Any] = [_bounds(draw, len(a)), slice(None, None, -1), slice(None, None, 2), Ellipsis, (None, Ellipsis)]
    if a.ndim > 1:
        kinds += [draw.randrange(len(a)), (slice(None), draw.randrange(a.shape[1]))]
        kinds += [(Ellipsis, _bounds(draw, a.shape[-1]))]
    return draw.choice(kinds)


def _places(draw: random.Random, a: Array) -> Any:
    """An index for an assignment: basic, of lists, or a mask."""
    n = len(a)
    some = sorted(draw.sample(range(n), draw.randrange(1, n + 1)))
    mask = np.array([k in some for k in range(n)])
    whole = np.array([draw.random() < 0.5 for _ in range(a.size)])
    whole[draw.randrange(a.size)] = True
    whole = whole.reshape(a.shape)
    one = tuple(draw.randrange(size) for size in a.shape)
    return draw.choice([_index(draw, a), some, mask, whole, one, draw.randrange(n), slice(None)])


def _shaped(draw: random.Random, a: Array) -> Array:
    kinds = {
        "transpose": lambda: a.T,
        "ravel": lambda: a.ravel(),
        "reshape": lambda: np.reshape(a, (-1, draw.choice([k for k in range(1, a.size + 1) if a.size % k == 0]))),
        "reshaped by columns": lambda: a.reshape(a.shape[::-1], order="F"),
        "flip": lambda: np.flip(a, axis=draw.randrange(a.ndim)),
        "swapaxes": lambda: np.swapaxes(a, 0, -1),
        "moveaxis": lambda: np.moveaxis(a, 0, -1),
        "squeeze": lambda: np.atleast_1d(np.squeeze(a)),
        "expand": lambda: np.expand_dims(a, draw.randrange(a.ndim + 1)),
        "split": lambda: np.array_split(a, 2)[0],
        "same": lambda: np.asarray(a),
        "flatten": lambda: a.flatten(),
        "copy": lambda: draw.choice([a.copy, lambda: np.copy(a)])(),
        "row": lambda: next(iter(a)) if a.ndim > 1 else a,
    }
    return kinds[draw.choice(sorted(kinds))]()


def _made(draw: random.Random, a: Array, pool: list[Array]) -> Array:
    kinds = {
        "product": lambda: a * draw.uniform(-1, 1),
        "sine": lambda: np.sin(a) + a,
        "square": lambda: a**2 / 2,
        "zeros": lambda: np.zeros_like(a),
        "sum": lambda: a + a.sum() / 4,
        "list": lambda: np.array([a.sum(), draw.uniform(-1, 1), draw.choice(pool).mean()]),
        "rows": lambda: np.array([a[0], a[-1]]) if a.ndim == 1 else np.stack([a[0], a[-1]]),
        "gather": lambda: a[[draw.randrange(len(a)) for _ in range(3)]],
        "join": lambda: np.concatenate([a, a[:1]]),
        "product of columns": lambda: a.T * 2 if a.ndim > 1 else np.outer(a, a),
        "sums": lambda: np.cumsum(a, axis=0) if a.ndim == 1 else a.sum(0),
    }
    return kinds[draw.choice(sorted(kinds))]()


def _twice(z: Array) -> None:
    z *= 2


def _change(draw: random.Random, a: Array, pool: list[Array]) -> None:
    """One statement that changes an array in place."""
    number = draw.choice([draw.uniform(-1, 1), pool[0].sum() / 3, draw.choice(pool).ravel()[0]])
    like = [b for b in pool if b.shape == a.shape]
    value = draw.choice([number, draw.choice(like) if like else number])
    kind = draw.randrange(10)
    if kind == 0:
        a += value
    elif kind == 1:
        a *= 0.5
    elif kind == 2:
        a[_places(draw, a)] = number
    elif kind == 3:
        a[_places(draw, a)] *= 0.7
    elif kind == 4:
        a[...] = value
    elif kind == 5:
        np.multiply(a, number, out=a)
    elif kind == 6:
        _twice(a)
    elif kind == 7:
        np.copyto(a, value)
    elif kind == 8:
        index = _index(draw, a)
        part = a[index]
        part -= 2 * a[index]
    else:
        a.fill(draw.uniform(-1, 1))


def program(seed: int, steps: int = 12) -> Callable[[Array], Array]:
    """A function of a matrix that gives a number."""

    def f(x: Array) -> Array:
        draw = random.Random(seed)
        pool, total = [x], 0.0
        for _ in range(steps):
            a = draw.choice(pool)
            kind = draw.randrange(6)
            if kind == 0:
                pool.append(a[_index(draw, a)])
            elif kind == 1:
                pool.append(_shaped(draw, a))
            elif kind == 2:
                pool.append(_made(draw, a, pool))
            elif kind < 5:
                _change(draw, a, pool)
            else:
                total = total + np.sum(a * np.arange(1.0, a.size + 1).reshape(a.shape))
            pool = [b for b in pool if b.size <= 40]
        return total + sum(np.sum(b * b) * 0.1 for b in pool)

    return f

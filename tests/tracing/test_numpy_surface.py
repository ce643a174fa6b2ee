"""What people call with traced arrays: lists of numbers, parts without entries, iterators, running results."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed

A = np.random.default_rng(3).normal(size=(4, 3))
FUNCTIONS: dict[str, Callable] = {}


def function(f: Callable) -> Callable:
    FUNCTIONS[f.__name__] = f
    return f


@function
def lists(x: Any) -> Any:
    return (
        np.linalg.norm([x[0], x[1]])
        + np.max([x[0], x[1], 0.2])
        + np.mean([x[0], 2.0])
        + np.exp([x[0], x[2]]).sum()
        + np.dot([x[0], x[1]], [1.0, 2.0])
        + np.sum([[x[0], 1], [2, x[1]]])
    )


@function
def tuples(x: Any) -> Any:
    return np.hypot(*x[:2]) + np.prod((x[0], x[1], 3.0)) + np.cross([x[0], 0, 1.0], [1.0, x[1], 0]).sum()


@function
def r_(x: Any) -> Any:
    return np.r_[x, 1.0, x[0]].sum() * np.c_[x, x][0, 1]


@function
def rowcol(x: Any) -> Any:
    return (
        np.vstack([x, x * 2])[1].sum()
        + np.hstack(([x[0]], [1.0, 2.0], x)).sum()
        + np.column_stack([x, x**2]).prod()
        + np.block([[x[0], 1], [2.0, x[1]]]).sum()
    )


@function
def einsum1(x: Any) -> Any:
    return (
        np.einsum("ij,j->i", A, x).sum()
        + np.einsum("i,i", x, x)
        + np.einsum("ij,ij->j", A[:1], x[None]) @ x
        + np.einsum("ij,ij->ij", A, x[None, :]).sum()
    )


@function
def cut_and_chosen(x: Any) -> Any:
    return (
        np.extract(x > 0.3, x).sum()
        + np.compress([True, False, True], x).prod()
        + np.dstack([x, x**2])[0, 1, 1]
        + np.hsplit(np.outer(x, x), 3)[1].sum()
        + np.vsplit(np.outer(x, x), 3)[2].prod()
        + np.delete(x, 1).prod()
        + np.insert(x, 1, 2.0 * x[0]).prod()
        + np.broadcast_arrays(x, 2 * x[:, None])[0][2, 1]
    )


@function
def without_nan(x: Any) -> Any:
    y = np.where(np.array([True, False, True]), x, np.nan)
    return (
        np.nansum(y * x)
        + np.nanprod(y)
        + np.nanmean(y**2)
        + np.nanvar(y, ddof=1)
        + np.nanstd(y[None], axis=1)[0]
        + np.nanmax(y)
        + np.nanmin(np.outer(x, y), axis=1, keepdims=True)[1, 0]
    )


@function
def polynomials(x: Any) -> Any:
    y = np.stack([x[0] * x[1], x[1], x[2] ** 2, x[0], x[1] - x[2]])
    return (
        np.polyfit(np.arange(5.0), y, 1) @ [1.0, 2.0]
        + np.polymul(x, x[:2]).prod()
        + np.polyadd(x, x[:2])[1]
        + np.polyder(x)[0] * np.polyint(x)[1]
        + np.vander(x, 3, increasing=True)[:, 2].sum()
        + np.correlate(y, x, "full")[3]
    )


@function
def decompositions(x: Any) -> Any:
    B = A * x
    return (
        np.linalg.qr(B)[1][0, 2]
        + np.linalg.cond(B) / 10
        + np.linalg.eigh(B.T @ B)[0][0]
        + np.corrcoef(B.T)[0, 1]
        + np.cumprod(x)[2]
        + np.cumulative_sum(x, include_initial=True)[2]
        + np.std(x, ddof=1)
        + np.count_nonzero(x) * x[0]
        + np.round(x, 1) @ x
        + np.fft.irfft(np.fft.rfft(x), 3)[1]
    )


@function
def empties(x: Any) -> Any:
    return (
        x[3:].sum()
        + np.concatenate([x[:0], x]).sum()
        + (x[:0] * x[0]).sum()
        + np.sum(A[:, :0] @ x[:0])
        + np.append([], x)[0]
        + np.hstack([x[5:], x])[1]
    )


@function
def fulllike(x: Any) -> Any:
    y = np.full_like(x, x[0])
    z = np.full_like(x, 2, dtype=int)
    o = np.ones_like(x, dtype=float)
    return (y * z * o * x).sum()


@function
def dq(x: Any) -> Any:
    d = deque(maxlen=2)
    s = 0.0
    for v in x:
        d.append(v)
        s = s + max(d) * min(d)
    return s


@function
def dd(x: Any) -> Any:
    g = defaultdict(list)
    for v in x:
        g["p" if v > 0 else "n"].append(v)
    return sum(np.prod(v) for v in g.values())


@function
def fmt(x: Any) -> Any:
    s = f"{x[0]:.3f}"
    print(x, end="") if False else None
    return x[0] * len(s) * 0 + x[1]


@function
def np_float(x: Any) -> Any:
    return np.float64(x[0]) * x[1] + float(x[2]) ** 2


@function
def sign_bits(x: Any) -> Any:
    return np.where(np.signbit(x), -x, x).sum() + np.copysign(x[0], -1.0) + np.abs(x).max()


@function
def minmaxaxis(x: Any) -> Any:
    B = np.outer(x, x) + A[:3]
    return B.max(axis=0).sum() + B.argmax(axis=1).sum() * x[0] + np.ptp(B) + B.min()


@function
def accum(x: Any) -> Any:
    return (
        np.maximum.accumulate(x).sum()
        + np.add.accumulate(x)[-1]
        + np.multiply.reduce(x)
        + np.minimum.reduce(x)
        + np.logaddexp.reduce(x)
    )


@function
def accmult(x: Any) -> Any:
    return np.multiply.accumulate(x).sum() + np.subtract.outer(x, x).max()


@function
def trilidx(x: Any) -> Any:
    L = np.zeros((2, 2))
    L[np.tril_indices(2)] = x
    return np.linalg.slogdet(L @ L.T + np.eye(2))[1]


@function
def ndit(x: Any) -> Any:
    s = 0.0
    for (_, j), a in np.ndenumerate(A):
        s += a * x[j] if a > 0 else a * x[j] ** 2
    return s


@function
def ziprev(x: Any) -> Any:
    return (
        sum(a * b for a, b in zip(x, reversed(x), strict=True))
        + sum(map(operator.mul, x, x))
        + functools.reduce(lambda a, b: a * b, x)
    )


@function
def itert(x: Any) -> Any:
    return sum((a - b) ** 2 for a, b in itertools.combinations(x, 2))


@function
def anyall(x: Any) -> Any:
    return x.sum() if any(v > 1 for v in x) else (x**2).sum() if all(v < 0.9 for v in x) else x[0]


@function
def idxs(x: Any) -> Any:
    i = [2, 0]
    y = x[i]
    y[0] += 1
    x2 = x[np.array([True, False, True])]
    return y @ x2 + x[..., None].sum() + x[-1]


@function
def aug(x: Any) -> Any:
    y = x
    y = y + 1
    y *= 2
    y /= 3
    y -= x
    y **= 2
    return y.sum()


@function
def inplacearg(x: Any) -> Any:
    z = x.copy()
    z += z[::-1]
    z[1:] = z[:-1]
    return (z * np.arange(3)).sum()


@function
def takeput(x: Any) -> Any:
    y = np.zeros(5)
    np.put(y, [0, 3], x[:2])
    np.putmask(y, y == 0, x[2])
    return (y**2).sum() + np.take(x, [0, 0, 1]).prod()


@function
def sumwhere(x: Any) -> Any:
    return np.sum(x, where=x > 0) + np.mean(x, where=[True, False, True]) + np.max(x, initial=0.3)


@function
def whereout(x: Any) -> Any:
    y = np.zeros(3)
    np.log(np.abs(x), out=y, where=x > 0.1)
    return y.sum()


@function
def divwhere(x: Any) -> Any:
    return np.divide(x, x + 1, out=np.zeros_like(x), where=x != 0).sum()


@function
def nested(x: Any) -> Any:
    def inner(z, depth):
        if depth == 0 or z < -0.3:
            return z
        return inner(z * z - 0.1, depth - 1)

    return sum(inner(v, 3) for v in x)


@function
def poly1(x: Any) -> Any:
    return (
        np.polyval(x, 0.7)
        + np.polyval([1.0, 2.0, 3], x[0])
        + np.poly1d([1.0, 2])(x[0])
        + np.polynomial.polynomial.polyval(x[1], [1.0, 2.0, 3.0])
    )


@function
def cumul(x: Any) -> Any:
    return (
        np.cumsum(x)[::-1].prod()
        + np.trapezoid(x, dx=0.2)
        + np.convolve(x, [1, 2.0], "valid").sum()
        + np.kron(x, [1, 2.0]).max()
    )


@function
def rolls(x: Any) -> Any:
    return (
        (np.roll(x, 1) * x).sum()
        + (np.flip(x) * x)[0]
        + np.rot90(np.outer(x, x))[0, 0]
        + np.tile(x, 2)[4]
        + np.repeat(x, [1, 2, 0]).sum()
    )


@function
def lstsq(x: Any) -> Any:
    c, *_ = np.linalg.lstsq(A, np.append(x, 1.0), rcond=None)
    return c.sum()


@function
def eigs(x: Any) -> Any:
    w, _ = np.linalg.eigh(np.outer(x, x) + np.diag([1.0, 2, 3]))
    return w[0] * w[-1]


@function
def isin(x: Any) -> Any:
    return x[0] if np.isclose(x[1], 0.3) else x[2] ** 2


@function
def strs(x: Any) -> Any:
    k = {"a": 0, "b": 1}
    return sum(x[k[c]] for c in "abba")


@function
def gen(x: Any) -> Any:
    def g():
        for v in x:
            if v > 0:
                yield v

    return sum(g()) + len(list(g())) * x[0]


@function
def wl(x: Any) -> Any:
    i = 0
    s = 0.0
    while i < len(x) and s < 0.8:
        s += abs(x[i])
        i += 1
    return s * i


@function
def ufat(x: Any) -> Any:
    a = np.ones(3)
    a[[0, 1]] += x[:2]
    np.subtract.at(a, [0, 0], x[2])
    return (a**2).sum()


@function
def matrixpow(x: Any) -> Any:
    M = np.eye(3) + np.outer(x, x) * 0.1
    return np.linalg.matrix_power(M, 3).trace() + np.linalg.multi_dot([M, M, x]).sum()


@function
def comp(x: Any) -> Any:
    return abs(complex(1, 2)) * x[0] + (x[0] + 1j * x[1]).real + np.abs(np.exp(1j * x[1]) * x[2]) ** 2


@function
def sharedview(x: Any) -> Any:
    a = np.zeros((2, 3))
    b = a.T
    c = a.reshape(-1)
    c[0] = x[0]
    b[1] = x[1]
    a[1] += x
    return (b @ np.ones(2)).prod() + c[4] * b[2, 1]


@function
def swaps(x: Any) -> Any:
    y = x.copy()
    for i in range(3):
        for j in range(2 - i):
            if y[j] > y[j + 1]:
                y[j], y[j + 1] = y[j + 1], y[j]
    return y @ np.array([1.0, 2, 4])


@function
def nanr(x: Any) -> Any:
    return np.nan if x[0] > 50 else np.nanmean(np.where(x > 10, np.nan, x))


@function
def rnd(x: Any) -> Any:
    return np.round(x, 1).sum() * x[0] + np.floor(x[1]) * x[2] + np.trunc(3 * x).sum() * x[1]


@function
def lamb(x: Any) -> Any:
    fs = [np.sin, np.cos, lambda t: t**2]
    return sum(f(v) for f, v in zip(fs, x, strict=True))


@function
def mesh(x: Any) -> Any:
    a, b = np.meshgrid(x, [1.0, 2])
    return (a * b).sum() + np.ix_([0, 1], [1])[0].sum() * x[0] + a.flat[1]


@function
def flat_entries(x: Any) -> Any:
    y = np.outer(x, x)
    return sum(v for v in y.flat) + y.size * x[0] + y.nbytes * 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_differences(name: str) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(len(name))
    gradient = ed.gradient(f)
    for _ in range(4):
        x = 0.7 * rng.normal(size=3)
        expected = [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-4, atol=1e-5 * (1 + abs(f(x))))

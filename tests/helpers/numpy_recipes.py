"""NumPy functions as people write them: recipes, filters, recurrences, containers, iterators, loops of text-books."""

from __future__ import annotations

import bisect
import collections
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

IMAGE = np.random.default_rng(0).normal(size=(5, 5))
TIMES = np.linspace(0, 1, 6)
RECIPES: dict[str, Callable] = {}


def recipe(f: Callable) -> Callable:
    RECIPES[f.__name__] = f
    return f


@recipe
def sum_by_iterator(x: Any) -> Any:
    s = 0.0
    for v in np.nditer(x):
        s += v * v
    return s


@recipe
def write_by_iterator(x: Any) -> Any:
    y = x.copy()
    for v in np.nditer(y, op_flags=["readwrite"]):
        v[...] = v * 2 + 1
    return (y**2).sum()


@recipe
def ndenumerate_w(x: Any) -> Any:
    s = 0.0
    for (i,), v in np.ndenumerate(x):
        s += (i + 1) * v**2
    return s


@recipe
def ix_sub(x: Any) -> Any:
    A = np.outer(x, x) + np.diag(x)
    return A[np.ix_([0, 2], [1, 3])].sum() * A[np.ix_([True, False, True, False], [0, 1])].prod()


@recipe
def add_at(x: Any) -> Any:
    out = np.zeros(3)
    np.add.at(out, [0, 1, 0, 2], x)
    np.subtract.at(out, [1, 1], x[:2])
    return (out**3).sum()


@recipe
def hist_weights(x: Any) -> Any:
    h, _ = np.histogram(np.array([0.1, 0.2, 0.7, 0.9]), bins=3, range=(0, 1), weights=x)
    return (h**2).sum()


@recipe
def bincount_w(x: Any) -> Any:
    return (np.bincount([0, 2, 2, 1], weights=x, minlength=4) ** 2).sum()


@recipe
def stride(x: Any) -> Any:
    w = np.lib.stride_tricks.sliding_window_view(x, 2)
    return (w.max(axis=1) * w.min(axis=1)).sum()


@recipe
def asstrided(x: Any) -> Any:
    y = np.concatenate([x, x**2])
    v = np.lib.stride_tricks.as_strided(y, (4, 3), (8, 8))
    return (v.sum(1) ** 2).sum()


@recipe
def einsum_path(x: Any) -> Any:
    A = np.outer(x, x)
    return np.einsum("ij,jk,k->", A, A + 1, x, optimize="greedy") + np.einsum("ii", A)


@recipe
def einsum_out(x: Any) -> Any:
    out = np.empty((4, 4))
    np.einsum("i,j->ij", x, x, out=out)
    return out[1:].sum()


@recipe
def image_filter(x: Any) -> Any:
    img = IMAGE.copy()
    img[1:3, 1:3] = x.reshape(2, 2)
    out = np.zeros_like(img)
    k = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0.0]])
    for i in range(1, 4):
        for j in range(1, 4):
            out[i, j] = (img[i - 1 : i + 2, j - 1 : j + 2] * k).sum()
    return np.abs(out).sum()


@recipe
def median_filter(x: Any) -> Any:
    y = np.pad(x, 1, mode="edge")
    return sum(np.median(y[i : i + 3]) ** 2 for i in range(4))


@recipe
def dtw(x: Any) -> Any:
    a, b = (x[:2], np.array([0.3, -0.2, 0.5]))
    n, m = (len(a), len(b))
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = abs(a[i - 1] - b[j - 1]) + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m] + x[2] ** 2


@recipe
def viterbi(x: Any) -> Any:
    logA = np.array([[-0.3, -1.2], [-0.8, -0.6]])
    d = np.array([x[0], x[1]])
    back = []
    for t in range(3):
        s = d[:, None] + logA * x[2]
        back.append(s.argmax(0))
        d = s.max(0) + x[3] * np.array([0.2, -0.4]) * t
    path = [int(d.argmax())]
    for b in reversed(back):
        path.append(int(b[path[-1]]))
    return d.max() + sum(path) * x[0]


@recipe
def ranking(x: Any) -> Any:
    r = np.empty(4)
    r[np.argsort(x)] = np.arange(4)
    return (r * x**2).sum()


@recipe
def lagrange(x: Any) -> Any:
    xs = np.array([0.0, 1.0, 2.0, 3.0])
    s = 0.0
    for i in range(4):
        t = x[i]
        for j in range(4):
            if i != j:
                t *= (1.5 - xs[j]) / (xs[i] - xs[j])
        s += t
    return s**2


@recipe
def cubic_interp(x: Any) -> Any:
    i = int(np.clip(np.searchsorted(TIMES, abs(x[0]) % 1) - 1, 0, 4))
    t = (abs(x[0]) % 1 - TIMES[i]) / 0.2
    return (1 - t) * x[1] + t * x[2] ** 2


@recipe
def dict_of_arrays(x: Any) -> Any:
    p = {"w": x[:2], "b": x[2], "g": np.exp(x[3])}
    p["w"] *= p["g"]
    p.update(h=p["w"].sum() + p["b"])
    return sum((np.sum(v**2) for k, v in sorted(p.items())))


@dataclass
class State:
    pos: object
    vel: object
    log: list = field(default_factory=list)

    def step(self, dt):
        acc = -self.pos if np.linalg.norm(self.pos) > 0.5 else self.pos**2
        self.vel = self.vel + dt * acc
        self.pos = self.pos + dt * self.vel
        self.log.append(self.pos.sum())
        return self


@recipe
def class_state(x: Any) -> Any:
    s = State(x[:2].copy(), x[2:])
    for _ in range(4):
        s.step(0.3)
    return s.pos @ s.vel + max(s.log)


@recipe
def generators(x: Any) -> Any:

    def pairs():
        for i, j in itertools.combinations(range(4), 2):
            yield (x[i] * x[j] if x[i] > x[j] else x[i] - x[j])

    return sum(pairs())


@recipe
def named(x: Any) -> Any:
    P = collections.namedtuple("P", "a b")
    p = P(x[0] * x[1], x[2:])
    q = p._replace(a=p.a**2)
    return q.a + q.b.sum()


@recipe
def defaultdict(x: Any) -> Any:
    d = collections.defaultdict(float)
    for k, v in zip("abab", x, strict=False):
        d[k] += v
    return d["a"] * d["b"]


@recipe
def try_except(x: Any) -> Any:
    try:
        return math.log(x[0]) * x[1]
    except ValueError:
        return x[0] ** 2


@recipe
def inplace_views(x: Any) -> Any:
    y = x.copy()
    a, b = (y[:2], y[2:])
    a += b
    b *= a
    y[::2] -= 1
    y[y > 1] = 1
    return (y * np.arange(4)).sum()


@recipe
def bubble(x: Any) -> Any:
    y = list(x)
    for i in range(4):
        for j in range(3 - i):
            if y[j] > y[j + 1]:
                y[j], y[j + 1] = (y[j + 1], y[j])
    return sum(((k + 1) * v for k, v in enumerate(y)))


@recipe
def horner(x: Any) -> Any:
    return np.polyval(x, 0.7) + np.poly1d(x)(0.3)


@recipe
def thomas(x: Any) -> Any:
    n = 4
    a = np.full(n, -1.0)
    b = 3 + x**2
    c = np.full(n, -1.0)
    d = x.copy()
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    z = np.zeros(n)
    z[-1] = d[-1] / b[-1]
    for i in range(n - 2, -1, -1):
        z[i] = (d[i] - c[i] * z[i + 1]) / b[i]
    return z.sum()


@recipe
def out_ufunc(x: Any) -> Any:
    b = np.empty(4)
    np.multiply(x, 2, out=b)
    np.exp(b, out=b)
    b.clip(0, 3, out=b)
    return b.sum()


@recipe
def ufunc_where(x: Any) -> Any:
    b = np.zeros(4)
    np.sqrt(x, out=b, where=x > 0)
    return b.sum() + np.divide(1.0, x, out=np.ones(4), where=np.abs(x) > 0.3).sum()


@recipe
def cumulative(x: Any) -> Any:
    return (np.maximum.accumulate(x) - x).max() + np.cumprod(1 + x**2)[-1] + np.diff(x, prepend=0).std()


@recipe
def conv(x: Any) -> Any:
    return np.convolve(x, [1, -2, 1], "same").clip(0).sum() + np.correlate(x, x, "full").max()


@recipe
def fft_power(x: Any) -> Any:
    return (np.abs(np.fft.rfft(x)) ** 2).sum() + np.fft.fft(x).real[1]


@recipe
def lstsq(x: Any) -> Any:
    A = np.vander(TIMES[:4], 2)
    return np.linalg.lstsq(A, x, rcond=None)[0] @ np.array([1.0, 2.0])


@recipe
def slogdet(x: Any) -> Any:
    s, l = np.linalg.slogdet(np.outer(x, x) + np.diag([1, -2, 3, 4.0]))
    return s * l


@recipe
def masked_mean(x: Any) -> Any:
    m = x > x.mean()
    return x[m].mean() - x[~m].mean() if m.any() and (~m).any() else 0 * x[0]


@recipe
def take_along(x: Any) -> Any:
    A = np.outer(x, [1.0, -1, 2])
    i = A.argmax(1)
    return np.take_along_axis(A, i[:, None], 1).sum()


@recipe
def polyroots(x: Any) -> Any:
    a, b, c = (1 + x[0] ** 2, x[1], x[2])
    d = b * b - 4 * a * c
    if d < 0:
        return -b / (2 * a)
    q = -0.5 * (b + math.copysign(math.sqrt(d), b))
    return q / a + c / q


@recipe
def newton_sys(x: Any) -> Any:
    z = np.array([1.0, 1.0])
    for _ in range(20):
        r = np.array([z[0] ** 2 + z[1] - 2 - x[0] * 0.1, z[0] - z[1] ** 2 + x[1] * 0.1])
        J = np.array([[2 * z[0], 1.0], [1.0, -2 * z[1]]])
        dz = np.linalg.solve(J, r)
        z = z - dz
        if np.max(np.abs(dz)) < 1e-10:
            break
    return z @ z


@recipe
def zip_star(x: Any) -> Any:
    return sum((a * b - c for a, b, c in zip(*[x[k : k + 2] for k in range(3)], strict=False)))


@recipe
def walrus(x: Any) -> Any:
    return y**2 if (y := x.sum()) > 0 else -y


@recipe
def matchcase(x: Any) -> Any:
    match int(np.sign(x[0])):
        case 1:
            return x[1] ** 2
        case -1:
            return x[2] ** 3
        case _:
            return x[3]


@recipe
def int_index(x: Any) -> Any:
    return x[int(abs(x[0]) * 2) % 4] ** 2


@recipe
def copyto(x: Any) -> Any:
    y = np.zeros(4)
    np.copyto(y, x, where=x > 0)
    np.put(y, [0], x[3])
    np.fill_diagonal((z := np.zeros((2, 2))), x[:2])
    return y.sum() + z.trace()


@recipe
def roll_hstack(x: Any) -> Any:
    return (np.roll(x, 1) * np.hstack([x[2:], x[:2]])).sum() + np.tile(x, 2)[5] * np.repeat(x, 2)[3]


@recipe
def lexsort(x: Any) -> Any:
    k = np.lexsort((x, np.array([0, 0, 1, 1])))
    return (x[k] * np.arange(4)).sum()


@recipe
def quantiles(x: Any) -> Any:
    return np.percentile(x, [25, 75]).ptp() if hasattr(np.ndarray, "ptp") else np.ptp(np.percentile(x, [25, 75]))


@recipe
def vectorize_branch(x: Any) -> Any:
    return np.vectorize(lambda v: v**2 if v > 0 else -v)(x).sum()


@recipe
def frompy(x: Any) -> Any:
    return np.frompyfunc(lambda v: v * v if v > 0 else v, 1, 1)(x).sum()


@recipe
def maparr(x: Any) -> Any:
    return np.array([max(v, 0.1 * v) for v in x]).sum()


@recipe
def fromiter(x: Any) -> Any:
    return np.fromiter((v**2 for v in x), float).sum()


@recipe
def errstate(x: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(x > 0, np.log(x), 0.0)
        return np.nan_to_num(r).sum()


@recipe
def heap(x: Any) -> Any:
    h = list(x)
    heapq.heapify(h)
    return heapq.heappop(h) * 2 + heapq.heappop(h)


@recipe
def between_bounds(x: Any) -> Any:
    return x[bisect.bisect([-0.5, 0, 0.5], x[0])] ** 2


@recipe
def sorted_key(x: Any) -> Any:
    return sum(((i + 1) * v for i, v in enumerate(sorted(x, key=lambda v: -abs(v)))))


@recipe
def triu(x: Any) -> Any:
    A = np.zeros((3, 3))
    A[np.triu_indices(3, 1)] = x[:3]
    A = A + A.T
    return np.linalg.norm(np.triu(A) @ A)


@recipe
def multi_out(x: Any) -> Any:
    _q, r = np.divmod(x, 0.7)
    f, i = np.modf(x * 2)
    return (r * f).sum() + i.sum() * x[0]


@recipe
def rng_seeded(x: Any) -> Any:
    rng = np.random.default_rng(3)
    return (rng.normal(size=4) * x).sum() ** 2

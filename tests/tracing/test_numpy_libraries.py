"""Traced functions as libraries are written: abstract classes, validation, caches, namespaces, arrays of all kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import stats

import eindiff as ed

X = np.array([0.4, -0.7, 1.1])


def numeric(f: Any, x: np.ndarray) -> np.ndarray:
    return np.array([(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(x.size)])


def same(f: Any, x: np.ndarray = X) -> None:
    np.testing.assert_allclose(ed.gradient(f)(x), numeric(f, x), rtol=1e-6, atol=1e-7)


class Check:
    def __init__(self, least: float) -> None:
        self.least = least


CHECKS = {"x": [Check(-10.0), "array"]}


class Kernel(ABC):
    def __init__(self, scale: Any) -> None:
        self.scale = scale

    @abstractmethod
    def __call__(self, x: Any) -> Any: ...

    @cached_property
    def width(self) -> Any:
        return np.exp(np.array([self.scale, 0.0])).sum()

    def with_scale(self, scale: Any) -> Kernel:
        return self.__class__(scale)


class Bell(Kernel):
    def __call__(self, x: Any) -> Any:
        return np.exp(-((x / self.width) ** 2))


BELL = Bell(0.3)


@lru_cache
def namespace(kind: type) -> Any:
    import numpy

    return numpy if issubclass(kind, np.ndarray | np.generic) else None


@lru_cache
def binomial(n: int, k: int) -> int:
    return 1 if k in (0, n) else binomial(n - 1, k - 1) + binomial(n - 1, k)


def checked(x: Any) -> Any:
    for check in CHECKS["x"]:
        if not isinstance(check, Check | str):
            raise TypeError(check)
    xp = namespace(type(x))
    out = xp.empty(x.shape, dtype=x.dtype)
    out[()] = x
    copied = xp.array(out, copy=np._CopyMode.IF_NEEDED, dtype=float)
    return copied if not np.may_share_memory(x, copied) else None


def test_abstract_classes_and_what_they_keep() -> None:
    same(lambda x: np.sum(x**2) if isinstance(BELL, Kernel) and not isinstance(x, Kernel) else 0 * x[0])
    same(lambda x: np.sum(BELL(x) * BELL.with_scale(x[0])(x)))
    assert type(vars(BELL)["width"]) is np.float64


def test_validation_caches_and_namespaces() -> None:
    same(lambda x: np.sum(checked(x) ** 3) * binomial(30, 12) / binomial(30, 13))


class Model:
    def __init__(self) -> None:
        self.distribution, self.data = stats.logistic, X

    def cdf(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def loglike(self, p: Any) -> Any:
        return self.logs(p).sum()

    def logs(self, p: Any) -> Any:
        return self.cdf(p * self.data)


def test_methods_that_see_others_through_attributes_only() -> None:
    method = Model().loglike
    same(method)
    same(lambda p, f=method: f(p))


def test_what_only_shapes_say() -> None:
    def f(x: Any) -> Any:
        K = np.outer(x, x)
        K[np.diag_indices_from(K)] += 0.5
        K[np.tril_indices_from(K, -1)] *= 2
        assert not np.any(np.iscomplex(K))
        assert np.common_type(K) == np.float64 and {float: 1}[float] and float is float
        assert np.may_share_memory(K[:2], K[1:]) and not np.may_share_memory(K[:1], K[1:])
        assert type(K) is type(np.zeros(2)) is np.ndarray and type(x[0]) is np.float64 and isinstance(type(K), type)
        return np.sum(np.rollaxis(K, 1) ** 2) + np.multiply(x, 2.0, casting="no").sum()

    same(f)


def test_joined_rows_and_columns() -> None:
    same(lambda x: np.sum(np.r_[1, -x[0], x, 2:4] ** 2) + np.sum(np.c_[x, X, x**2] @ X))
    same(lambda x: np.polyval(np.array(np.r_[1, -x[0]]), x[1]))

"""Functions, distributions and sparse matrices of SciPy in traced functions, against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.interpolate
import scipy.linalg
import scipy.sparse
import scipy.spatial
import scipy.special as sp
import scipy.stats as st
from scipy import integrate, linalg, sparse, stats
from scipy.linalg import cho_factor, cho_solve, expm, solve_triangular
from scipy.spatial.distance import cdist, pdist
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal, norm

import eindiff as ed
from eindiff.tracing.numpy.scipy.distributions import DISTRIBUTIONS

WEIGHTS = np.array([1.0, 0.5, 2.0])
SHAPES: dict[str, list[float]] = {
    "gamma": [2.3],
    "erlang": [2.0],
    "invgamma": [2.5],
    "loggamma": [1.7],
    "chi2": [3.3],
    "chi": [2.7],
    "nakagami": [1.4],
    "beta": [2.1, 1.7],
    "t": [4.2],
    "f": [5.1, 7.2],
    "lognorm": [0.6],
    "weibull_min": [1.6],
    "weibull_max": [1.8],
    "pareto": [2.2],
    "lomax": [2.4],
    "powerlaw": [1.7],
    "fisk": [2.3],
    "triang": [0.4],
    "skewnorm": [1.3],
    "exponnorm": [1.2],
    "gennorm": [1.7],
    "invgauss": [0.8],
    "foldnorm": [0.9],
    "truncnorm": [-1.1, 1.6],
    "truncexpon": [2.3],
    "vonmises": [1.8],
    "genextreme": [0.2],
    "genpareto": [0.3],
    "poisson": [2.4],
    "bernoulli": [0.3],
    "binom": [6.0, 0.4],
    "nbinom": [3.5, 0.4],
    "geom": [0.3],
}
FIXED = {("binom", 1), ("erlang", 1)}  # parameters that are integers


def difference(f: Callable, args: list[Any], k: int, step: float = 1e-6) -> Any:
    """The derivative by one argument, by central differences."""

    def moved(away: Any) -> Any:
        return f(*args[:k], args[k] + away, *args[k + 1 :])

    if np.ndim(args[k]) == 0:
        return (moved(step) - moved(-step)) / (2 * step)
    return np.array([(moved(e) - moved(-e)) / (2 * step) for e in step * np.eye(len(args[k]))])


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_by_all_their_parameters(name: str) -> None:
    row, dist, shapes = DISTRIBUTIONS[name], getattr(stats, name), SHAPES.get(name, [])
    methods = ["logpmf", "cdf"] if row.is_discrete else ["logpdf", "cdf"]
    for method in [m for m in methods if row.cdf is not None or m.endswith(("pdf", "pmf"))]:
        x = np.array([0.0, 1.0, 1.0]) if name == "bernoulli" else np.array([1.0, 2.0, 1.0])
        x = x if row.is_discrete else dist.ppf([0.2, 0.55, 0.8], *shapes) * 1.3 + 0.1
        args: list[Any] = [x, *shapes] if row.is_discrete else [x, *shapes, 0.1, 1.3]

        def f(*args: Any, dist: Any = dist, method: str = method) -> Any:
            return np.sum(WEIGHTS * getattr(dist, method)(*args))

        for k in range(int(row.is_discrete), len(args)):
            if (name, k) not in FIXED:
                found = ed.gradient(f, argnums=k)(*args)
                np.testing.assert_allclose(found, difference(f, args, k), rtol=1e-5, atol=1e-7, err_msg=f"{method} {k}")


A = np.array([[4.0, 1, 0.3], [1, 5, 0.2], [0.3, 0.2, 6]])
M = np.arange(9.0).reshape(3, 3) / 5 - 0.7
S = scipy.sparse.csr_matrix(np.array([[1.0, 0, 2], [0, 3.0, 0], [0, 0, 0]]))
FROZEN, LU = norm(0.3, 2.0), linalg.lu_factor(M + np.eye(3))
FUNCTIONS: dict[str, Callable] = {
    "lse": lambda x: logsumexp(x),
    "lse2": lambda x: logsumexp(np.outer(x, x), axis=1).sum(),
    "lseb": lambda x: logsumexp(x, b=[1.0, 2, 3]),
    "sm": lambda x: softmax(x) @ x,
    "sm2": lambda x: sp.softmax(np.outer(x, [1, 2.0]), axis=1)[:, 0].sum(),
    "ls": lambda x: scipy.special.log_softmax(x)[1],
    "chol": lambda x: linalg.cholesky(A + np.outer(x, x)).sum(),
    "chs": lambda x: cho_solve(cho_factor(A + np.outer(x, x)), x) @ x,
    "chl": lambda x: cho_solve((np.linalg.cholesky(A + np.diag(x**2)), True), x).sum(),
    "st": lambda x: solve_triangular(A + np.outer(x, x), x, lower=True).sum(),
    "st2": lambda x: solve_triangular(A + np.outer(x, x), x, trans=1, unit_diagonal=True).sum(),
    "so": lambda x: scipy.linalg.solve(A + np.diag(x), x, assume_a="pos").sum(),
    "lu": lambda x: linalg.lu_solve(linalg.lu_factor(A + np.outer(x, x)), x).sum(),
    "lu2": lambda x: linalg.lu_solve(LU, x**2).sum(),
    "expm": lambda x: expm(M * x).sum(),
    "sq": lambda x: linalg.sqrtm(A + np.diag(x)).sum(),
    "bd": lambda x: (linalg.block_diag(np.outer(x, x), x, 3.0) ** 2).sum(),
    "tp": lambda x: np.linalg.det(linalg.toeplitz(x) + A),
    "tp2": lambda x: (linalg.toeplitz(x, [1, 2.0, 3, 4]) ** 3).sum(),
    "cd": lambda x: cdist(np.outer(x, [1, 2.0]), M[:, :2]).sum(),
    "cdx": lambda x: np.exp(-cdist(x[:, None], x[:, None], "sqeuclidean")).sum(),
    "cdself": lambda x: np.exp(-cdist(x[:, None], x[:, None])).sum(),
    "pd": lambda x: pdist(np.stack([x, x**2], 1), "cityblock").sum(),
    "pm": lambda x: pdist(np.outer(x, x), "minkowski", p=3).sum(),
    "cos": lambda x: cdist(np.outer(x, x) + M, M + 2, "cosine").sum(),
    "sparse": lambda x: (S @ x) @ x,
    "sparse2": lambda x: (S.dot(x)).sum() + (S.T @ x).sum(),
    "sparse3": lambda x: x @ (S @ x),
    "sparse4": lambda x: (S * x).sum(),
    "xS": lambda x: (x @ S).sum(),
    "toarr": lambda x: (S.toarray() @ x).sum(),
    "mvn": lambda x: multivariate_normal.logpdf(x, mean=np.zeros(3), cov=A),
    "mvn2": lambda x: st.multivariate_normal.logpdf(M, x, np.diag(x**2) + A).sum(),
    "frz": lambda x: FROZEN.logpdf(x).sum(),
    "frz2": lambda x: norm(x[0], x[1] ** 2).logpdf(np.arange(3)).sum(),
    "frz3": lambda x: stats.gamma(2.0, scale=3.0).pdf(x + 2).sum(),
    "out": lambda x: stats.expon.pdf(x).sum() + stats.uniform.cdf(x).sum() + stats.beta.pdf(x, 2, 3).sum(),
    "poly": lambda x: sp.polygamma(1, x + 2).sum(),
    "mg": lambda x: sp.multigammaln(x[0] + 4, 3),
    "ti": lambda x: integrate.trapezoid(x**2, dx=0.1) + integrate.simpson(x**2, dx=0.1),
    "zs": lambda x: stats.zscore(x)[0],
    "comb": lambda x: sp.comb(5.0 + x[0], 2),
    "ndt": lambda x: sp.ndtr(x).sum() + sp.log_ndtr(x).sum(),
    "vm": lambda x: np.linalg.norm(linalg.inv(A + np.diag(x))),
    "gi": lambda x: sp.gammainc(x + 2, 1.5).sum() + sp.betainc(x + 2, 2.0 - x, 0.4).sum(),
    "hub": lambda x: sp.huber(0.4, x).sum(),
    "eigh": lambda x: linalg.eigh(A + np.outer(x, x))[0][0],
    "inte": lambda x: sp.xlogy(x + 2, x + 3).sum(),
    "ed1": lambda x: scipy.special.erf(x).sum() + scipy.spatial.distance.euclidean(x, [1, 2, 3]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(len(name))
    gradient = ed.gradient(f)
    for _ in range(3):
        x = rng.normal(size=3) * 0.4 + 0.1
        np.testing.assert_allclose(gradient(x), difference(f, [x], 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [x for x, row in DISTRIBUTIONS.items() if row.ppf and x != "erlang"])
def test_quantiles_by_all_parameters(name: str) -> None:
    quantile = getattr(stats, name).ppf
    for q in (0.15, 0.8):
        point = [q, *SHAPES.get(name, []), 0.3, 1.4]
        found = ed.gradient(quantile, tuple(range(len(point))))(*point)
        expected = [difference(quantile, point, k) for k in range(len(point))]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_other_functions_of_quantiles() -> None:
    upper = ed.gradient(lambda m, s: norm.interval(0.9, m, s)[1] + norm(m, s).median() + norm.isf(0.2, loc=m), (0, 1))
    np.testing.assert_allclose(upper(0.3, 1.2), [3, norm.ppf(0.95)])
    assert ed.gradient(lambda m: stats.poisson.ppf(0.3, m) * m**2)(3.1) == 2 * 3.1 * stats.poisson.ppf(0.3, 3.1)


SECOND: list[tuple[Callable, list[float]]] = [
    (sp.gammainc, [1.7, 2.2]), (sp.gammaincc, [0.4, 6.0]), (sp.gammaincinv, [1.7, 0.4]), (sp.gammainccinv, [2.1, 0.3]),
    (sp.betainc, [1.2, 2.3, 0.4]), (sp.betainc, [4.2, 0.6, 0.85]), (sp.betaincinv, [1.3, 2.1, 0.3]),
    (sp.stdtr, [3.3, -0.7]), (sp.stdtrit, [3.3, 0.7]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "point"), SECOND)
def test_incomplete_integrals_two_times(f: Callable, point: list[float]) -> None:
    hessian = ed.hessian(lambda p: f(*p))(np.array(point))
    first = [ed.gradient(lambda *args: f(*args), k) for k in range(len(point))]
    expected = [[difference(one, point, k) for k in range(len(point))] for one in first]
    np.testing.assert_allclose(hessian, expected, rtol=1e-5, atol=1e-6)


def test_splines() -> None:
    places = np.linspace(0, 2, 7)
    spline, cubic = scipy.interpolate.splrep(places, np.sin(places)), scipy.interpolate.CubicSpline(places, places**3)
    at = np.array([0.13, 0.9, 1.71])

    def by_places(x: Any) -> Any:
        return np.sum(scipy.interpolate.splev(x, spline) * cubic(x) + cubic(x, 1) + cubic.derivative()(x))

    def by_coefficients(c: Any) -> Any:
        return np.sum(scipy.interpolate.splev(at, (spline[0], c, 3)) ** 2)

    for f, x in ((by_places, at), (by_coefficients, spline[1])):
        np.testing.assert_allclose(ed.gradient(f)(x), difference(f, [x], 0), rtol=1e-5, atol=1e-6)


def test_student_in_the_middle() -> None:
    assert ed.gradient(lambda t: stats.t.cdf(t, 3.0))(0.0) == pytest.approx(stats.t.pdf(0.0, 3.0))
    assert ed.gradient(lambda df: stats.t.cdf(0.0, df))(3.0) == 0


@pytest.mark.parametrize("x", [0.2, 1.4, 6.0, 30.0])
def test_incomplete_integrals_by_their_parameters(x: float) -> None:
    for a in (0.4, 2.0, 11.0):
        found = ed.gradient(lambda a, x=x: sp.gammainc(a, x))(a)
        np.testing.assert_allclose(found, difference(lambda a, x=x: sp.gammainc(a, x), [a], 0), rtol=1e-6, atol=1e-9)
        for b in (0.7, 5.0):
            for k in (0, 1):
                point = [a, b, x / (1 + x)]
                found = ed.gradient(lambda *args: sp.betainc(*args), argnums=k)(*point)
                np.testing.assert_allclose(found, difference(sp.betainc, point, k), rtol=1e-6, atol=1e-9)


def test_what_has_no_derivative_is_refused_by_name() -> None:
    with pytest.raises(ed.EindiffError, match="iv has no derivative by its order in closed form"):
        ed.gradient(lambda v: sp.iv(v, 1.0))(0.5)
    with pytest.raises(ed.EindiffError, match=r"scipy.stats.norm.rvs is random"):
        ed.gradient(lambda m: norm.rvs(loc=m))(0.5)
    with pytest.raises(ed.EindiffError, match=r"scipy.stats.norm.entropy of symbolic arrays: only pdf"):
        ed.gradient(lambda s: norm.entropy(0.0, s))(0.5)
    with pytest.raises(ed.EindiffError, match=r"metric='jaccard'"):
        ed.gradient(lambda x: cdist(x, x, "jaccard").sum())(np.ones((2, 2)))


SPARSE = sparse.random(9, 9, 0.4, format="csr", random_state=np.random.default_rng(1))
MADE: dict[str, Callable[[Any], Any]] = {
    "multiples": lambda x: (2 * SPARSE / 3 - SPARSE**2) @ x,
    "made inside": lambda x: sparse.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(7, 9)) @ x,
    "class": lambda x: sparse.csc_array(np.diag(np.arange(9.0))) @ x + x @ -SPARSE,
    "products": lambda x: (SPARSE.T @ SPARSE + sparse.identity(9)) @ x,
    "Kronecker": lambda x: sparse.kron(sparse.identity(3), np.ones((3, 3)), format="csr")[2:7] @ x,
    "stacked": lambda x: sparse.vstack([SPARSE.tocsc(), sparse.eye(9).transpose()]) @ x,
    "asked for": lambda x: SPARSE @ x if sparse.issparse(SPARSE) and isinstance(SPARSE, sparse.csr_matrix) else x,
    "numbers": lambda x: SPARSE.sum() * SPARSE.diagonal() * x,
}


@pytest.mark.parametrize("name", MADE)
def test_sparse_matrices_made_of_others(name: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(MADE[name](x)))

    x, step = np.linspace(-1, 1, 9), 1e-6
    expected = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(9)]
    np.testing.assert_allclose(ed.gradient(f)(x), expected, 1e-6, 1e-7)

"""`python -m benchmarks.functions`: how many functions of other packages are differentiated as they are.

Line shapes and models of lmfit, losses, kernels and densities of scikit-learn, likelihoods of statsmodels, and, with
`--examples FOLDER` (of autograd's source archive), autograd's examples with their imports changed. Each Jacobian is
compared with differences that are extrapolated to a step of 0. A function counts as refused if the error says a line.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import eindiff as ed
from benchmarks.report import markdown

Case = tuple[str, Callable[[np.ndarray], Any], np.ndarray]
RNG = np.random.default_rng(0)


def differences(f: Callable, p: np.ndarray) -> np.ndarray:
    """The Jacobian by central differences, extrapolated."""

    def column(e: np.ndarray) -> np.ndarray:
        steps = [1e-3 / 2**k for k in range(4)]
        found = [(np.asarray(f(p + h * e)) - np.asarray(f(p - h * e))) / (2 * h) for h in steps]
        for k in range(1, 4):
            found = [(4**k * fine - rough) / (4**k - 1) for rough, fine in pairwise(found)]
        return found[0]

    columns = [column(e.reshape(p.shape)) for e in np.eye(p.size)]
    return np.stack(columns, -1).reshape((*np.shape(columns[0]), *p.shape))


# lmfit

_POINT = {"amplitude": 1.3, "center": 0.31, "sigma": 0.77, "gamma": 0.42, "beta": 2.1, "expon": 1.6, "exponent": 1.7}
_POINT |= {"center1": -0.43, "sigma1": 0.83, "center2": 0.9, "sigma2": 1.17}
_X = np.linspace(-3.05, 3.2, 23)


def lmfit() -> Iterator[Case]:
    """Line shapes, and models as a whole."""
    from lmfit import lineshapes, models

    for name in lineshapes.functions:
        f = getattr(lineshapes, name)
        names = [x for x in f.__code__.co_varnames[1 : f.__code__.co_argcount] if x != "form"]
        at = np.array([_POINT.get(x, 0.5) for x in names])
        x = np.abs(_X) + 0.5 if name in ("lognormal", "powerlaw", "thermal_distribution") else _X
        yield name, lambda p, f=f, names=names, x=x: f(x, **dict(zip(names, p, strict=True))), at
    special = {"Polynomial": {"degree": 3}, "Expression": {"expr": "a*exp(-b*x)*sin(c*x)"}}
    for name, kind in models.lmfit_models.items():
        model = kind(xknots=np.linspace(-3, 3, 7)) if name == "Spline" else kind(**special.get(name, {}))
        x = np.abs(_X) + 0.5 if name in ("Lognormal", "PowerLaw", "Exponential") else _X
        given = {v: x if k == 0 else x[::-1] * 0.7 for k, v in enumerate(model.independent_vars) if v != "form"}
        names = list(model.param_names)
        at = np.array([_POINT.get(x, 0.5) for x in names])

        def evaluated(p: Any, model: Any = model, names: Any = names, given: Any = given) -> Any:
            return model.eval(**given, **dict(zip(names, p, strict=True)))

        yield f"model {name}", evaluated, at


# scikit-learn


def scikit_learn() -> Iterator[Case]:
    """Metrics, kernels, losses of networks, densities and predictions."""
    from sklearn import metrics
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky, _estimate_log_gaussian_prob
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network._base import LOSS_FUNCTIONS

    y, z, above = RNG.normal(size=12), RNG.normal(size=12), RNG.uniform(0.5, 3, 12)
    X, two, three = RNG.normal(size=(12, 3)), np.arange(12) % 2, np.arange(12) % 3
    chance, chances = RNG.uniform(0.1, 0.9, 12), RNG.dirichlet(np.ones(3) * 2, 12)
    real = "mean_squared_error mean_absolute_error median_absolute_error max_error explained_variance_score r2_score \
        root_mean_squared_error mean_pinball_loss mean_absolute_percentage_error d2_absolute_error_score"
    positive = "mean_squared_log_error root_mean_squared_log_error mean_poisson_deviance mean_gamma_deviance \
        mean_tweedie_deviance d2_tweedie_score"
    for names, truth, at in ((real, y, z), (positive, above, above[::-1].copy())):
        for name in names.split():
            yield name, lambda p, name=name, truth=truth: getattr(metrics, name)(truth, p), at
    yield "log_loss", lambda p: metrics.log_loss(two, p), chance
    yield "log_loss, 3 classes", lambda p: metrics.log_loss(three, p), chances
    yield "brier_score_loss", lambda p: metrics.brier_score_loss(two, p), chance
    yield "hinge_loss", lambda p: metrics.hinge_loss(2 * two - 1, p), z
    yield "hinge_loss, 3 classes", lambda p: metrics.hinge_loss(three, p), chances
    pairs = "rbf_kernel polynomial_kernel sigmoid_kernel linear_kernel cosine_similarity euclidean_distances"
    for name in pairs.split():
        yield name, lambda p, name=name: getattr(metrics.pairwise, name)(p, X), np.abs(X) + 0.3
    targets = {"log_loss": (np.eye(3)[three], chances), "binary_log_loss": (two[:, None], chance[:, None])}
    for name, f in LOSS_FUNCTIONS.items():
        truth, at = targets.get(name, (above[:, None], above[::-1, None].copy()))
        yield f"network {name}", lambda p, f=f, truth=truth: f(truth, p), at
    made = [kernels.RBF(0.7), kernels.RBF([0.7, 0.8, 1.1]), kernels.Matern(0.8, nu=1.5), kernels.Matern(0.8, nu=1.2)]
    made += [kernels.RationalQuadratic(0.8, 1.2), kernels.ExpSineSquared(0.9, 1.4), kernels.DotProduct(0.7)]
    for kernel in made:
        yield f"{kernel} by theta", lambda t, k=kernel: k.clone_with_theta(t)(X), kernel.theta
        yield f"{kernel} by points", lambda t, k=kernel: k(t, X), X + 0.3
    whole = kernels.ConstantKernel(1.3) * kernels.RBF(0.6) + kernels.WhiteKernel(0.1)
    process = GaussianProcessRegressor(whole, optimizer=None).fit(X, y)
    yield "marginal likelihood", lambda t: process.log_marginal_likelihood(t, clone_kernel=True), process.kernel_.theta
    scales = {"diag": np.array([[0.8, 1, 1.2], [1, 0.9, 0.7]]), "spherical": np.array([0.8, 1.2])}
    for name, scale in scales.items():
        yield f"mixture, {name}", lambda s, name=name: _estimate_log_gaussian_prob(
            X, X[:2], _compute_precision_cholesky(s, name), name
        ), scale
    for model, truth in ((LogisticRegression(), two), (GaussianNB(), two)):
        model.fit(X, truth)
        yield f"{model} log-probabilities", model.predict_log_proba, X[:3]
    for model, truth in ((Ridge(), y), (PoissonRegressor(), above)):
        model.fit(X, truth)
        yield f"{model} prediction", model.predict, X[:3]


# statsmodels


def statsmodels() -> Iterator[Case]:
    """Likelihoods by parameters, and norms of robust statistics."""
    import statsmodels.api as sm
    from statsmodels.discrete import count_model, discrete_model
    from statsmodels.miscmodels.ordinal_model import OrderedModel
    from statsmodels.othermod.betareg import BetaModel

    n, b = 20, np.array([0.4, -0.6, 0.3])
    X = np.column_stack([np.ones(n), RNG.normal(size=(n, 2))])
    y, labels, counts = X @ b + RNG.normal(size=n), np.arange(n) % 2, RNG.poisson(np.exp(X @ b))
    more = np.append(b, 0.7)
    models = [
        (discrete_model.Logit(labels, X), b), (discrete_model.Probit(labels, X), b),
        (discrete_model.Poisson(counts, X), b), (discrete_model.NegativeBinomial(counts, X), more),
        (discrete_model.NegativeBinomialP(counts, X), more), (discrete_model.GeneralizedPoisson(counts, X), more),
        (discrete_model.MNLogit(np.arange(n) % 3, X), np.tile(b, 2)),
        (count_model.ZeroInflatedPoisson(counts, X), np.append(-0.5, b)),
        (count_model.ZeroInflatedNegativeBinomialP(counts, X), np.array([-0.5, *b, 0.6])),
        (sm.OLS(y, X), b), (sm.WLS(y, X, weights=np.exp(y)), b), (sm.GLS(y, X, sigma=np.eye(n) + 0.2), b),
        (BetaModel(1 / (1 + np.exp(-y)), X), np.append(b, 1.2)),
        (OrderedModel(np.arange(n) % 3, X[:, 1:], distr="logit"), np.array([0.2, 0.3, -0.5, 0.1])),
        (OrderedModel(np.arange(n) % 3, X[:, 1:], distr="probit"), np.array([0.2, 0.3, -0.5, 0.1])),
    ]  # fmt: skip
    families, log = sm.families, sm.families.links.Log()
    for family, truth in (
        (families.Gaussian(), y), (families.Binomial(), labels), (families.Poisson(), counts),
        (families.Gamma(log), np.exp(y)), (families.InverseGaussian(log), np.exp(y)),
        (families.NegativeBinomial(alpha=0.5), counts), (families.Binomial(families.links.Probit()), labels),
        (families.Tweedie(log, var_power=1.5, eql=True), np.exp(y)),
    ):  # fmt: skip
        models.append((sm.GLM(truth, X, family=family), b))
    for model, at in models:
        kind = type(getattr(model, "family", model)).__name__
        yield f"{type(model).__name__} {kind} loglike", model.loglike, at
    norms = sm.robust.norms
    for name in ("HuberT", "LeastSquares", "RamsayE", "AndrewWave", "TrimmedMean", "Hampel", "TukeyBiweight"):
        yield f"{name} rho", getattr(norms, name)().rho, 2 * y
    for name in ("Logit", "Probit", "Log", "CLogLog", "LogLog", "Cauchy", "InversePower", "InverseSquared", "Sqrt"):
        yield f"link {name}", getattr(families.links, name)(), 1 / (1 + np.exp(-y))


# autograd's examples


class Examples(MetaPathFinder, Loader):
    """Imports examples with NumPy and SciPy in the places of autograd's, and without what they do when they are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """That of a file of the folder."""
        return spec_from_loader(fullname, self) if (self.folder / f"{fullname}.py").exists() else None

    def create_module(self, spec: Any) -> None:
        """As usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Definitions, and arrays that they need."""
        path = self.folder / f"{module.__name__}.py"
        text = re.sub(r"autograd\.(numpy|scipy)", r"\1", path.read_text())
        text = re.sub(r"import scipy\.stats\.(\w+) as", r"from scipy.stats import \1 as", text)
        tree = ast.parse(re.sub(r"(?m)^(from autograd|import matplotlib|from matplotlib|from data).*$", "", text))
        kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)
        runs = re.compile("grad|plt|check")
        tree.body = [x for x in tree.body if isinstance(x, kept) and not runs.search(ast.unparse(x)[:60])]
        module.__dict__["grad"] = ed.gradient
        exec(compile(tree, str(path), "exec"), module.__dict__)


def autograd(folder: Path) -> Iterator[Case]:
    """The functions that the examples differentiate."""
    from importlib import import_module

    sys.meta_path.insert(0, Examples(folder))
    load, normal = import_module, RNG.normal
    yield "logistic_regression", load("logistic_regression").training_loss, normal(size=3)
    yield "rosenbrock", load("rosenbrock").rosenbrock, normal(size=2)
    process = load("gaussian_process")
    X, y = process.build_toy_dataset(n_data=8)
    count, predict, likelihood = process.make_gp_funs(process.rbf_covariance, 2)
    yield "gaussian_process", lambda p: likelihood(p, X, y), normal(size=count) / 3
    yield "gaussian_process, predict", lambda x: predict(np.zeros(count), X, y, x[:, None])[0], normal(size=3)
    better = load("bayesian_optimization").expected_new_max
    yield "bayesian_optimization", lambda p: better(p[0], p[1] ** 2 + 0.3, 0.4), normal(size=2)
    mixture, data = load("gmm"), normal(size=(6, 2))
    base = {"log proportions": normal(size=2), "means": normal(size=(2, 2))}
    base["lower triangles"] = np.stack([np.eye(2)] * 2)
    yield "gmm", lambda m: mixture.gmm_log_likelihood(base | {"means": m}, data), base["means"]
    chain, rows = load("hmm_em"), [np.array([0, 2, 1, 1])]
    yield "hmm_em", lambda A: chain.log_partition_function([np.zeros(2), A, np.ones((2, 3))], rows), normal(size=(2, 2))
    _, _, density, _ = load("ica").make_ica_funs(3, 2)
    yield "ica", lambda w: density(w, data[:2], 0.7, 0.3), normal(size=(3, 2))
    inputs = np.eye(4)[np.array([[0, 1], [2, 3], [1, 1]])]
    for name in ("rnn", "lstm"):
        network = load(name)
        make = network.create_rnn_params if name == "rnn" else network.init_lstm_params
        params = make(4, 3, 4, 0.5)
        f = getattr(network, f"{name}_log_likelihood")
        yield name, lambda w, f=f, params=params: f(params | {"change": w}, inputs, inputs), params["change"]
    perceptron = load("neural_net_regression")
    layers = perceptron.init_random_params(0.5, [1, 4, 1])
    (first, shift), last = layers
    yield "neural_net_regression", lambda w: perceptron.logprob([(w, shift), last], X, y[:, None]), first
    number, _, logprob = load("bayesian_neural_net").make_nn_funs([1, 4, 1], 0.1, 0.1)
    yield "bayesian_neural_net", lambda w: logprob(w, X, y[:, None]), normal(size=(2, number))
    objective, _, _ = load("black_box_svi").black_box_variational_inference(lambda x, t: np.sum(x**2, 1), 2, 5)
    yield "black_box_svi", lambda p: objective(p, 0), normal(size=4)
    likely = load("negative_binomial_maxlike").negbin_loglike
    yield "negative_binomial_maxlike", lambda p: likely(p[0] ** 2 + 1, 0.4, np.arange(5)), normal(size=2)
    yield "tanh", load("tanh").tanh, normal(size=4)
    bound = load("mixture_variational_inference")
    yield "mixture_variational_inference", lambda p: bound.variational_log_density_gaussian(p, data), normal(size=4)
    coder = load("variational_autoencoder")
    net = coder.init_net_params(0.5, [2, 3, 4])
    yield "variational_autoencoder", lambda z: coder.p_images_given_latents(net, np.ones((6, 4)), z), data


# Counting


def outcome(f: Callable, at: np.ndarray) -> str:
    """What becomes of a function: it runs, is refused with a line, is refused without, or is wrong."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = differences(f, at)
        try:
            found = ed.jacobian(lambda p: f(p))(at)
        except ed.EindiffError as error:
            return f"refused: {error}" if re.search(r"\(\w+\.py:\d+: .*\)", str(error)) else f"no line: {error}"
    return "runs" if np.allclose(found, expected, rtol=1e-5, atol=1e-6) else "wrong"


def main() -> None:
    """Read the command line, count, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.functions", description=__doc__)
    parser.add_argument("--examples", type=Path, help="the folder of autograd's examples")
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    sources: dict[str, Callable[[], Iterator[Case]]] = {
        "lmfit": lmfit, "scikit-learn": scikit_learn, "statsmodels": statsmodels,
    }  # fmt: skip
    if options.examples is not None:
        sources["autograd's examples"] = lambda: autograd(options.examples)
    rows, refused = [], []
    for source, cases in sources.items():
        found = {name: outcome(f, np.asarray(at, float)) for name, f, at in cases()}
        kinds = [result.partition(":")[0] for result in found.values()]
        rows.append([source, str(len(found)), *[str(kinds.count(x)) for x in ("runs", "refused", "no line", "wrong")]])
        refused += [f"- {source}, {name}: {result}" for name, result in found.items() if result != "runs"]
        print(" | ".join(rows[-1]), flush=True)
    head = ["", "functions", "run", "refused with the line", "refused without", "wrong"]
    text = f"# Functions of other packages as they are\n\n{(__doc__ or '').partition(chr(10) * 2)[2]}\n"
    text += f"{markdown(head, rows)}\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "functions.md").write_text(text + "\n" + "\n".join(refused) + "\n")


if __name__ == "__main__":
    main()

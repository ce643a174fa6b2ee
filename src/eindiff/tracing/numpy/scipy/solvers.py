"""Functions of SciPy that call a function with numbers: an integral of a symbolic one, and cures for all others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Map, topological
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.numpy.protocol import NeedsValueError
from eindiff.tracing.numpy.traced_array import has_traced
from eindiff.tracing.questions import current

_ROOT = (
    "scipy.optimize.newton(f, start) runs here for one number; for several, write Newton's method out: "
    "for _ in range(20): r = r - np.linalg.solve(J(r), f(r))"
)
_MINIMUM = (
    "write the steps out, which run here, such as Newton's: for _ in range(20): x = x - np.linalg.solve(H(x), g(x))"
)
_STEPS = (
    "write the steps out, which run here: for _ in range(n): k1 = f(y); k2 = f(y + h/2*k1); k3 = f(y + h/2*k2); "
    "k4 = f(y + h*k3); y = y + h/6*(k1 + 2*k2 + 2*k3 + k4)"
)
_LINES = "CubicSpline, make_interp_spline and interp1d run here; on grids, scipy.ndimage.map_coordinates by its values"
_NODES = "use np.polynomial.legendre.leggauss(n): np.sum(weights * f(nodes))"
CURES: dict[str, str] = {
    **dict.fromkeys([f"optimize.{name}" for name in ("brentq", "brenth", "ridder", "bisect", "toms748")], _ROOT),
    **dict.fromkeys([f"optimize.{name}" for name in ("root", "root_scalar", "fsolve")], _ROOT),
    **dict.fromkeys([f"optimize.{name}" for name in ("minimize", "minimize_scalar", "least_squares")], _MINIMUM),
    **dict.fromkeys([f"optimize.{name}" for name in ("curve_fit", "leastsq", "fmin", "fmin_bfgs")], _MINIMUM),
    **dict.fromkeys([f"integrate.{name}" for name in ("solve_ivp", "odeint", "ode", "solve_bvp")], _STEPS),
    **dict.fromkeys([f"integrate.{name}" for name in ("dblquad", "tplquad", "nquad", "quad_vec")], _NODES),
    **dict.fromkeys([f"interpolate.{name}" for name in ("PchipInterpolator", "Akima1DInterpolator")], _LINES),
    **dict.fromkeys([f"interpolate.{name}" for name in ("UnivariateSpline", "splrep", "griddata")], _LINES),
    **dict.fromkeys([f"interpolate.{name}" for name in ("RegularGridInterpolator", "RBFInterpolator")], _LINES),
}
_KINKED = frozenset({
    "abs", "sign", "max", "min", "maximum", "minimum", "where", "relu", "floor", "ceil", "round", "trunc", "remainder",
    "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "heaviside",
})  # fmt: skip
_SMOOTH = "integrate from kink to kink, or replace the variable where a root has its end"
_HALVINGS = 12  # of an interval, at most: what is not smooth takes more, and its derivative would be less accurate


def with_cure(name: str, original: Callable, cure: str) -> Callable:
    """A function that refuses symbolic numbers with what to write instead."""

    def checked(value: Any) -> Any:
        if has_traced(value):
            raise EindiffError(f"scipy.{name} of symbolic numbers: {cure}", "tracing")
        return value

    def watched(f: Any) -> Any:
        is_own = isinstance(f, FunctionType | MethodType | partial)
        return (lambda *args, **keywords: checked(f(*args, **keywords))) if is_own else checked(f)

    @wraps(original)
    def called(*args: Any, **keywords: Any) -> Any:
        return original(*map(watched, args), **{key: watched(value) for key, value in keywords.items()})

    return called


def quad(original: Callable) -> Callable:
    """`scipy.integrate.quad`; of symbolic functions by Gauss's rule on intervals that are halved until it agrees."""

    @wraps(original)
    def called(func: Callable, a: Any, b: Any, args: Any = (), *others: Any, **keywords: Any) -> Any:
        given = args if isinstance(args, tuple) else (args,)
        try:
            return original(func, a, b, args, *others, **keywords)
        except NeedsValueError:
            if others or keywords.get("weight") or keywords.get("points") or keywords.get("full_output"):
                raise
        return _integral(lambda t: func(t, *given), a, b, keywords.get("epsabs", 1.5e-8))

    return called


def _integral(f: Callable, a: Any, b: Any, accuracy: float) -> tuple[Any, float]:
    """An integral, also over infinite intervals, and how accurate it is."""
    infinite = [not has_traced(x) and bool(np.isinf(x)) for x in (a, b)]
    if not any(infinite):
        return _finite(f, a, b, accuracy), accuracy
    if all(infinite):
        return _integral(f, 0.0, b, accuracy)[0] - _integral(f, 0.0, a, accuracy)[0], accuracy
    known, other = (a, b) if infinite[1] else (b, a)
    sign = 1.0 if other > 0 else -1.0
    found = _finite(lambda t: f(known + sign * (1 - t) / t) / t**2, 0.0, 1.0, accuracy)
    return found if infinite[1] == (sign > 0) else -found, accuracy


def _finite(f: Callable, a: Any, b: Any, accuracy: float) -> Any:
    """An integral; one of a kink or a branch that depends on the variable is refused: rules agree there by chance."""
    answers, found, asked = current(), [], []
    for t in (a + 0.37 * (b - a), a + 0.61 * (b - a)):
        before = set() if answers is None else set(answers.given)
        nodes = topological([as_expr(f(t))])
        found.append({node for node in nodes if isinstance(node, Map) and node.function.name in _KINKED})
        asked.append(set() if answers is None else set(answers.given) - before)
    if found[0] != found[1] or asked[1]:
        raise EindiffError(f"scipy.integrate.quad of a symbolic function that is not smooth: {_SMOOTH}", "tracing")
    return _halved(f, a, b, accuracy, _HALVINGS)


def _halved(f: Callable, a: Any, b: Any, accuracy: float, depth: int) -> Any:
    """An integral by two rules of Gauss, of which the finer one is taken if both agree."""
    if depth == 0:
        raise EindiffError(f"scipy.integrate.quad of a symbolic function that is not smooth: {_SMOOTH}", "tracing")
    coarse, fine = _gauss(f, a, b, 10), _gauss(f, a, b, 21)
    if abs(fine - coarse) <= max(1e-3 * accuracy, 1e-11 * abs(fine)):
        return fine
    middle = (a + b) / 2
    return _halved(f, a, middle, accuracy, depth - 1) + _halved(f, middle, b, accuracy, depth - 1)


def _gauss(f: Callable, a: Any, b: Any, count: int) -> Any:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half, middle = (b - a) / 2, (a + b) / 2
    return half * sum(float(w) * f(middle + half * float(t)) for t, w in zip(nodes, weights, strict=True))

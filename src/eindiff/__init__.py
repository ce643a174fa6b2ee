"""Closed-form derivatives of tensor expressions, of any order, that run as fast as the best hand-written code."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from eindiff.calculus.contracted import cut, hessian_diagonal, hvp, jvp, quadratic_form, vjp
from eindiff.calculus.fields import biharmonic, curl, directional, divergence, laplacian, operator
from eindiff.core import pickling as _pickling  # noqa: F401 (importing it lets expressions be stored)
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, variables
from eindiff.core.rewrite import rewrite_log
from eindiff.core.shown import Shown as _Shown
from eindiff.facts import rules as _fact_rules  # noqa: F401
from eindiff.functions import operators as _operators  # noqa: F401 (importing it installs Python's operators)
from eindiff.functions import rules as _rules  # noqa: F401 (importing it registers the rewrite rules)
from eindiff.functions.declarations import indices, matrix, scalar, symmetric, tensor, vector
from eindiff.functions.define import define
from eindiff.functions.elementwise import (  # fmt: skip
    abs,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    ceil,
    cos,
    cosh,
    exp,
    expm1,
    floor,
    greater,
    isnan,
    log,
    log1p,
    maximum,
    minimum,
    power,
    reciprocal,
    relu,
    rint,
    sigmoid,
    sign,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    step,
    tan,
    tanh,
    trunc,
    where,
)
from eindiff.functions.frechet import expm, logm, sqrtm
from eindiff.functions.indexing import concatenate, kron, reshape, stack, take, vec
from eindiff.functions.matrices import (  # fmt: skip
    adj,
    chol,
    det,
    eigvals,
    eigvecs,
    inv,
    lambdamax,
    logdet,
    matrix_power,
    normnuc,
    normspec,
    pinv,
    solve,
    svdleft,
    svdright,
    svdvals,
)
from eindiff.functions.multilinear import (  # fmt: skip
    cumsum,
    diag,
    einsum,
    eye,
    inner,
    matmul,
    mean,
    moveaxis,
    ones,
    outer,
    sum,
    tr,
    transpose,
    zeros,
)
from eindiff.functions.reductions import logsumexp, max, min, norm1, norm2, prod, softmax
from eindiff.functions.special_functions import digamma, erf, erfc, erfinv, gammaln, log_ndtr, polygamma
from eindiff.functions.table import TABLE as _TABLE
from eindiff.planning.simplify import simplify
from eindiff.program.check import Check, check
from eindiff.program.interpreter import evaluate
from eindiff.tracing.dispatch import derivative, gradient, hessian, jacobian
from eindiff.version import __version__ as __version__

if TYPE_CHECKING:
    from eindiff.program.compiled import Compiled
    from eindiff.program.plan import Plan, plan
    from eindiff.program.write.source import to_script, to_source
    from eindiff.scale.descent import Fit, lbfgs, newton
    from eindiff.scale.passes import ShardingError
    from eindiff.scale.sharded import Sharded, compile
    from eindiff.structure.compile import structured
    from eindiff.structure.derivative import Derivative
    from eindiff.structure.newton import NewtonStep, Step, newton_step
    from eindiff.structure.solvers.solver import SingularError
    from eindiff.structure.terms import Term
    from eindiff.text.read.parse import parse, reading
    from eindiff.text.read.reading import Reading
    from eindiff.text.read.source import ParseError
    from eindiff.text.step_by_step import Steps, steps
    from eindiff.text.write.to_text import to_text
    from eindiff.tracing.numpy.functions import symbolic

# Text and code are loaded when they are first asked for, so that importing the package stays quick.
_HOMES = {  # names by their modules
    "eindiff.program.compiled": "Compiled",
    "eindiff.structure.derivative": "Derivative",
    "eindiff.structure.newton": "NewtonStep Step newton_step",
    "eindiff.structure.solvers.solver": "SingularError",
    "eindiff.structure.terms": "Term",
    "eindiff.structure.compile": "structured",
    "eindiff.program.plan": "Plan plan",
    "eindiff.scale.descent": "Fit lbfgs newton",
    "eindiff.scale.sharded": "Sharded compile",
    "eindiff.scale.passes": "ShardingError",
    "eindiff.text.read.source": "ParseError",
    "eindiff.text.read.parse": "parse reading",
    "eindiff.text.read.reading": "Reading",
    "eindiff.tracing.numpy.functions": "symbolic",
    "eindiff.program.write.source": "to_script to_source",
    "eindiff.text.write.to_text": "to_text",
    "eindiff.text.step_by_step": "Steps steps",
}
_LATER = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in _TABLE and _TABLE[name].public is not None:  # a row that was added
        return _TABLE[name].public
    raise AttributeError(f"module 'eindiff' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


# So are the methods of expressions by which NumPy, Python's conversions, notebooks and messages ask for something.
_METHODS_LATER = {
    ("eindiff.tracing.numpy.protocol", "EXPRESSION_METHODS"): (
        "__array__", "__array_function__", "__array_ufunc__", "__bool__", "__float__", "__index__", "__int__",
        "__setitem__", "_compare", "_numpy_attribute",
    ),
    ("eindiff.text.write.to_text", "EXPRESSION_TEXTS"): ("__str__", "_readable", "_repr_latex_"),
}  # fmt: skip


def _method(module: str, table: str, name: str) -> Callable[..., Any]:
    return lambda *args, **keywords: getattr(import_module(module), table)[name](*args, **keywords)


for _table, _names in _METHODS_LATER.items():
    for _name in _names:
        setattr(Expr, _name, _method(*_table, _name))


def _rich(value: Any) -> str:
    found: str = import_module("eindiff.apps.notebook").rich(value)
    return found


for _kind, _name in ((Expr, "_repr_html_"), (_Shown, "_html")):
    setattr(_kind, _name, _rich)

__all__ = [
    "Check", "Compiled", "Derivative", "EindiffError", "Expr", "Fit", "NewtonStep", "ParseError", "Plan", "Reading",
    "Sharded", "ShardingError", "SingularError", "Step", "Steps", "Term", "abs", "adj", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "biharmonic", "cbrt", "ceil", "check", "chol", "compile", "concatenate",
    "cos", "cosh", "cumsum", "curl", "cut", "define", "derivative", "det", "diag", "digamma", "directional",
    "divergence", "eigvals", "eigvecs", "einsum", "erf", "erfc", "erfinv", "evaluate", "exp", "expm", "expm1", "eye",
    "floor", "gammaln", "gradient", "greater", "hessian", "hessian_diagonal", "hvp", "indices", "inner", "inv", "isnan",
    "jacobian", "jvp", "kron", "lambdamax", "laplacian", "lbfgs", "log", "log1p", "log_ndtr", "logdet", "logm",
    "logsumexp", "matmul", "matrix", "matrix_power", "max", "maximum", "mean", "min", "minimum", "moveaxis", "newton",
    "newton_step", "norm1", "norm2", "normnuc", "normspec", "ones", "operator", "outer", "parse", "pinv", "plan",
    "polygamma", "power", "prod", "quadratic_form", "reading", "reciprocal", "relu", "reshape", "rewrite_log", "rint",
    "scalar", "sigmoid", "sign", "simplify", "sin", "sinh", "softmax", "softplus", "solve", "sqrt", "sqrtm", "square",
    "stack", "step", "steps", "structured", "sum", "svdleft", "svdright", "svdvals", "symbolic", "symmetric", "take",
    "tan", "tanh", "tensor", "to_script", "to_source", "to_text", "tr", "transpose", "trunc", "variables", "vec",
    "vector", "vjp", "where", "zeros",
]  # fmt: skip

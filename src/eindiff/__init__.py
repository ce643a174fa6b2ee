"""Closed-form derivatives of tensor expressions, of any order, that run as fast as the best hand-written code."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eindiff import rules as _rules  # noqa: F401 (importing it registers the rewrite rules)
from eindiff.arrays import (
    cumsum,
    diag,
    einsum,
    eye,
    inner,
    matmul,
    matrix,
    mean,
    moveaxis,
    ones,
    outer,
    scalar,
    sum,
    symmetric,
    tensor,
    tr,
    transpose,
    vector,
    zeros,
)  # fmt: skip
from eindiff.check import Check, check
from eindiff.derive import (
    cut,
    derivative,
    gradient,
    hessian,
    hessian_diagonal,
    hvp,
    jacobian,
    jvp,
    laplacian,
    quadratic_form,
    vjp,
)  # fmt: skip
from eindiff.errors import EindiffError
from eindiff.evaluate import evaluate
from eindiff.expr import Expr, variables
from eindiff.frechet import expm, logm, sqrtm
from eindiff.functions import (
    abs,
    arccos,
    arcsin,
    arctan,
    cos,
    cosh,
    erf,
    exp,
    expm1,
    greater,
    log,
    log1p,
    maximum,
    minimum,
    power,
    reciprocal,
    relu,
    sigmoid,
    sign,
    sin,
    sinh,
    softmax,
    softplus,
    sqrt,
    square,
    step,
    tan,
    tanh,
    where,
)  # fmt: skip
from eindiff.indexing import concatenate, kron, reshape, stack, take, vec
from eindiff.matrix_functions import (
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
)  # fmt: skip
from eindiff.reductions import logsumexp, max, min, norm1, norm2, prod
from eindiff.rewrite import rewrite_log
from eindiff.simplify import simplify

if TYPE_CHECKING:
    from eindiff.compiled import Compiled, compile, structured
    from eindiff.emit import to_script, to_source
    from eindiff.language.parse import parse
    from eindiff.language.print_expr import to_text
    from eindiff.language.source import ParseError
    from eindiff.newton import NewtonStep, Step, newton_step
    from eindiff.operators import Derivative, SingularError, Term
    from eindiff.planning import Plan, plan
    from eindiff.trace.functions import symbolic

__version__ = "0.1.0"

# Text and code are loaded when they are first asked for, so that importing the package stays quick.
_LATER = {
    "Compiled": "eindiff.compiled",
    "Derivative": "eindiff.operators",
    "NewtonStep": "eindiff.newton",
    "SingularError": "eindiff.operators",
    "Step": "eindiff.newton",
    "Term": "eindiff.operators",
    "newton_step": "eindiff.newton",
    "structured": "eindiff.compiled",
    "Plan": "eindiff.planning",
    "compile": "eindiff.compiled",
    "ParseError": "eindiff.language.source",
    "parse": "eindiff.language.parse",
    "plan": "eindiff.planning",
    "symbolic": "eindiff.trace.functions",
    "to_script": "eindiff.emit",
    "to_source": "eindiff.emit",
    "to_text": "eindiff.language.print_expr",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'eindiff' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Check",
    "Compiled",
    "Derivative",
    "EindiffError",
    "Expr",
    "NewtonStep",
    "ParseError",
    "Plan",
    "SingularError",
    "Step",
    "Term",
    "abs",
    "adj",
    "arccos",
    "arcsin",
    "arctan",
    "check",
    "chol",
    "compile",
    "concatenate",
    "cos",
    "cosh",
    "cumsum",
    "cut",
    "derivative",
    "det",
    "diag",
    "eigvals",
    "eigvecs",
    "einsum",
    "erf",
    "evaluate",
    "exp",
    "expm",
    "expm1",
    "eye",
    "gradient",
    "greater",
    "hessian",
    "hessian_diagonal",
    "hvp",
    "inner",
    "inv",
    "jacobian",
    "jvp",
    "kron",
    "lambdamax",
    "laplacian",
    "log",
    "log1p",
    "logdet",
    "logm",
    "logsumexp",
    "matmul",
    "matrix",
    "matrix_power",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moveaxis",
    "newton_step",
    "norm1",
    "norm2",
    "normnuc",
    "normspec",
    "ones",
    "outer",
    "parse",
    "pinv",
    "plan",
    "power",
    "prod",
    "quadratic_form",
    "reciprocal",
    "relu",
    "reshape",
    "rewrite_log",
    "scalar",
    "sigmoid",
    "sign",
    "simplify",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "solve",
    "sqrt",
    "sqrtm",
    "square",
    "stack",
    "step",
    "structured",
    "sum",
    "svdleft",
    "svdright",
    "svdvals",
    "symbolic",
    "symmetric",
    "take",
    "tan",
    "tanh",
    "tensor",
    "to_script",
    "to_source",
    "to_text",
    "tr",
    "transpose",
    "variables",
    "vec",
    "vector",
    "vjp",
    "where",
    "zeros",
]

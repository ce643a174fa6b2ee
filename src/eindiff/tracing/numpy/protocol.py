"""The NumPy protocol of expressions: `np.exp(x)`, `np.linalg.inv(A)`, `np.ones(3) * x` and `x.mean(0)` are expressions.

Functions are found by their names in two tables: `UFUNCS` here, and `FUNCTIONS` of the other modules. What needs the
values of symbolic arrays is refused with a `NeedsValueError`, which says of what and what to write instead.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.function import Function
from eindiff.core.nodes import Expr, variables
from eindiff.functions import elementwise as functions
from eindiff.functions import multilinear as arrays
from eindiff.functions import reductions
from eindiff.functions.multilinear import as_expr, short
from eindiff.functions.table import NAMES, Vocabulary
from eindiff.tracing.algebra import FUNCTIONS, Reduce, reduction
from eindiff.tracing.composed import COMPOSED
from eindiff.tracing.special import SPECIAL


class NeedsValueError(EindiffError):
    """Something needs the value of a symbolic expression."""

    code = "tracing"

    def __init__(self, message: str, expressions: Sequence[Expr]) -> None:
        super().__init__(message)
        self.expressions = tuple(expressions)


class NoAttributeError(EindiffError, AttributeError):
    """NumPy's arrays may have it, symbolic ones have not."""

    code = "tracing"


def refuse(operation: str, expressions: Sequence[Expr], hint: str) -> NoReturn:
    """Refuse what needs values, naming the expression and the variables it depends on."""
    first = expressions[0]
    names = ", ".join(x.name for x in variables(*expressions))
    of = f", a function of {names}" if names and names != repr(first) else ""
    raise NeedsValueError(f"{operation} needs the value of {short(first)}{of}, which is symbolic: {hint}", expressions)


def _called(found: Any) -> Any:
    return found.public if isinstance(found, Function) else found


UFUNCS: Vocabulary[Callable[..., Expr]] = Vocabulary(COMPOSED, ChainMap[str, Any](NAMES["numpy"], SPECIAL), _called)

# ufunc.reduce, along the first axis if none is given
REDUCTIONS: dict[str, Reduce] = {
    "add": arrays.sum,
    "multiply": reductions.prod,
    "maximum": reductions.max,
    "minimum": reductions.min,
    "logaddexp": reductions.logsumexp,
}


# What is refused, and what to write instead

BRANCH = "choose entry by entry with np.where(condition, a, b), np.maximum or np.minimum"
ORDER = "the order of entries is no smooth function of them; np.max and np.min are there"
PLACES = "places cannot depend on it; choose with np.where(condition, a, b), or give the places as an argument"
NO_CHANGE = "expressions do not change: make a new one with np.where, np.concatenate or np.stack"
ONLY_ROUNDING = "only np.floor, ceil, trunc, rint, round and remainder are there"
COMPLEX = "only real numbers have derivatives here"
NO_FORM = "it has no symbolic form; write it with functions that have one"
ROOTS = (
    "the roots of a quadratic can be written out; a root r is found by a loop of Newton's method, which runs here: "
    "r = r - np.polyval(c, r) / np.polyval(np.polyder(c), r)"
)
NO_FACTOR = "use np.linalg.cholesky, eigh, svd or solve"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("sort", "argsort", "median", "percentile", "quantile", "partition", "argpartition"), ORDER),
    **dict.fromkeys(("unique", "searchsorted", "digitize", "histogram", "bincount", "interp"), ORDER),
    **dict.fromkeys(("argmax", "argmin", "nonzero", "flatnonzero", "argwhere", "extract", "compress"), PLACES),
    **dict.fromkeys(("any", "all", "allclose", "isclose", "array_equal", "isinf", "isfinite"), BRANCH),
    **dict.fromkeys(("copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis"), NO_CHANGE),
    **dict.fromkeys(("divmod", "modf"), ONLY_ROUNDING),
    "roots": ROOTS,
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.rfft", "angle", "linalg.eig", "linalg.eigvals"), COMPLEX),
    **dict.fromkeys(("linalg.qr", "linalg.lstsq", "linalg.matrix_rank", "linalg.cond"), NO_FACTOR),
}

# Python functions of SciPy make NumPy arrays of what they get; these are the ones to call for expressions.
INSTEAD: dict[str, str] = {
    "logsumexp": "eindiff.logsumexp(x, axis)",
    "softmax": "eindiff.softmax(x, axis)",
    "log_softmax": "np.log(eindiff.softmax(x, axis))",
    "expm": "eindiff.expm(A)",
    "logm": "eindiff.logm(A)",
    "sqrtm": "eindiff.sqrtm(A)",
    **{name: f"np.linalg.{name}" for name in ("inv", "det", "solve", "cholesky", "pinv", "norm")},
    **{name: f"np.linalg.{name}" for name in ("eigh", "eigvalsh", "svd")},
    "svdvals": "np.linalg.svd(A, compute_uv=False)",
    "solve_triangular": "np.linalg.solve(A, b)",
    "cho_factor": "np.linalg.solve(A, b)",
    "cho_solve": "np.linalg.solve(A, b)",
    "lu_factor": "np.linalg.solve(A, b)",
    "lu_solve": "np.linalg.solve(A, b)",
    "full": "value * np.ones(shape)",
    "__getitem__": "np.column_stack or np.concatenate",
}  # fmt: skip


# Dispatch


def _expressions(value: Any) -> list[Expr]:
    """The expressions among arguments, in nested lists too."""
    if isinstance(value, Expr):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [x for part in value for x in _expressions(part)] if isinstance(value, list | tuple) else []


# Arguments that say nothing, for functions that do not have them
DEFAULTS = {"order": "K", "subok": True}


def _is_default(name: str, value: Any, is_parameter: bool) -> bool:
    """Whether an argument says nothing: not given, or a type of real numbers."""
    if value is np._NoValue or is_parameter:
        return value is np._NoValue
    if value is None or name not in ("dtype", *DEFAULTS):
        return value is None or name == "casting"  # real numbers are real numbers
    return np.dtype(value).kind == "f" if name == "dtype" else bool(value == DEFAULTS[name])


_signature = lru_cache(maxsize=512)(signature)


def call(name: str, function: Callable, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a row of a table with NumPy's arguments; those it has no parameter for are refused by name."""
    own = _signature(function)
    given = {key: value for key, value in keywords.items() if not _is_default(key, value, key in own.parameters)}
    if given.get("out") is not None:
        refuse(f"{name} into an array", _expressions([*args, given]) or [as_expr(0)], "use the result it returns")
    try:
        bound = own.bind(*args, **given)
    except TypeError as error:
        raise EindiffError(f"{name} of symbolic arrays: {error}", "tracing") from None
    return function(*bound.args, **bound.kwargs)


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, keywords: dict[str, Any]) -> Any:
    """A NumPy ufunc (or one of its methods) of expressions."""
    name = ufunc.__name__
    home = "np" if getattr(np, name, None) is ufunc else "scipy.special"
    if home != "np" and getattr(sys.modules.get(home), name, None) is not ufunc:
        refuse(f"the ufunc {name}", _expressions(inputs), "only those of numpy and scipy.special are known")
    text = f"{home}.{name}"
    if keywords.get("out") is not None:
        hint = "a NumPy array cannot take symbolic values: write a = a + b instead of a += b, and give no out="
        refuse(f"{text} in place", _expressions(inputs), hint)
    if name in REFUSED:
        refuse(text, _expressions(inputs), REFUSED[name])
    if name not in UFUNCS:
        refuse(text, _expressions(inputs), NO_FORM)
    if method == "__call__":
        return call(text, UFUNCS[name], inputs, keywords)
    if method == "outer":
        a, b = as_expr(inputs[0]), as_expr(inputs[1])
        return UFUNCS[name](a[(..., *[None] * b.ndim)], b)
    if method == "accumulate" and name == "add":
        return call(text, FUNCTIONS["cumsum"], inputs, {"axis": 0, **keywords})
    if method == "reduce" and name in REDUCTIONS:
        return call(text, reduction(REDUCTIONS[name], name, along=0), inputs, keywords)
    return refuse(f"{text}.{method}", _expressions(inputs), "only reduce, outer and accumulate of sums are there")


def function_name(function: Callable) -> str:
    """The name of a function inside of `numpy`."""
    module = function.__module__.removeprefix("numpy").removeprefix(".")
    return f"{module}.{function.__name__}" if module else function.__name__


def array_function(function: Callable, args: tuple, keywords: dict[str, Any]) -> Any:
    """A NumPy function of expressions."""
    name = function_name(function)
    if name in FUNCTIONS:
        return call(f"np.{name}", FUNCTIONS[name], args, keywords)
    found = _expressions([args, keywords]) or [as_expr(0)]
    return refuse(f"np.{name}", found, COMPLEX if name.startswith("fft.") else REFUSED.get(name, NO_FORM))


# Attributes and conversions

METHODS: dict[str, str] = {
    **{name: name for name in ("mean", "prod", "max", "min", "var", "std", "dot", "ravel", "squeeze", "swapaxes")},
    **{name: name for name in ("copy", "cumsum", "clip", "repeat", "take", "trace", "diagonal")},
    **{name: name for name in ("argmax", "argmin", "argsort", "sort", "any", "all", "round", "nonzero", "put")},
    "flatten": "ravel",
    "conj": "copy",
    "conjugate": "copy",
}  # fmt: skip
ATTRIBUTES: dict[str, Callable[[Expr], Any]] = {
    "size": FUNCTIONS["size"],
    "dtype": FUNCTIONS["result_type"],
    "real": FUNCTIONS["real"],
    "imag": FUNCTIONS["imag"],
    "mT": FUNCTIONS["matrix_transpose"],
    "astype": lambda a: (
        lambda dtype, **_: a if np.dtype(dtype).kind == "f" else refuse("astype", [a], "it holds real numbers")
    ),
    "item": lambda a: lambda *_: refuse("item", [a], "numbers are known only when arrays are given"),
    "tolist": lambda a: lambda: refuse("tolist", [a], "numbers are known only when arrays are given"),
    "transpose": lambda a: (
        lambda *axes: FUNCTIONS["transpose"](
            a, None if axes in ((), (None,)) else axes[0] if isinstance(axes[0], tuple | list) else axes
        )
    ),
}


def attribute(expr: Expr, name: str) -> Any:
    """What NumPy's arrays have under a name, for an expression."""
    if name in ATTRIBUTES:
        return ATTRIBUTES[name](expr)
    if name not in METHODS:
        raise NoAttributeError(f"symbolic arrays have no attribute {name!r}")
    target = METHODS[name]

    def method(*args: Any, **keywords: Any) -> Any:
        if target in REFUSED:
            refuse(f"{name}()", [expr], REFUSED[target])
        return call(f"{name}()", FUNCTIONS[target], (expr, *args), keywords)

    return method


_CONVERSIONS = {
    "bool": ("a branch of Python (if, while, and, or, not)", BRANCH),
    "float": ("a Python number", "use functions of NumPy instead of those of math; to print it, f'{x}'"),
    "int": ("an integer", "sizes, counts and places cannot depend on it; give it as an argument that is an integer"),
    "setitem": ("an assignment into it", NO_CHANGE),
}


def convert(expr: Expr, kind: str) -> NoReturn:
    """Refuse to make a Python number of an expression, or to change it."""
    what, hint = _CONVERSIONS[kind]
    if kind == "bool":
        hint += f"; {short(expr)} has no truth value"
    refuse(what, [expr], hint)


def compare(a: Expr, b: object) -> Any:
    """`a == b` where b is a number or an array."""
    if not isinstance(b, int | float | np.ndarray | np.number | np.bool_ | list):
        return NotImplemented
    return functions.equal(a, b)


def package(frame: FrameType | None) -> str:
    """The package that asks for something, through functions of NumPy."""
    name = "numpy"
    while frame is not None and name == "numpy":
        name, frame = frame.f_globals.get("__name__", "").partition(".")[0], frame.f_back
    return name


def convert_to_array(expr: Expr, dtype: Any = None, copy: Any = None) -> NoReturn:
    """Refuse to make a NumPy array of an expression; names the function of NumPy or SciPy that asked for it."""
    frame: FrameType | None = sys._getframe(2)
    caller = name = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "eindiff.functions.indexing":
            refuse("an index or a mask", [expr], PLACES)
        if module.partition(".")[0] not in ("numpy", "scipy"):
            break
        if not frame.f_code.co_name.startswith("<"):
            wrapped = frame.f_locals.get("f", None)  # what a decorator of SciPy calls
            name = getattr(wrapped, "__name__", "") if frame.f_code.co_name == "wrapper" else frame.f_code.co_name
            caller = ".".join([part for part in module.split(".")[:2] if not part.startswith("_")] + [name])
        frame = frame.f_back
    if name in INSTEAD:
        refuse(caller, [expr], f"for expressions there is {INSTEAD[name]}")
    hint = "np.stack and np.concatenate join expressions, np.array cannot hold them"
    refuse(caller or "a NumPy array", [expr], hint)


# What `eindiff` gives to the class of expressions
EXPRESSION_METHODS: dict[str, Callable[..., Any]] = {
    "__array_ufunc__": lambda expr, ufunc, method, *inputs, **keywords: array_ufunc(ufunc, method, inputs, keywords),
    "__array_function__": lambda expr, function, types, args, keywords: array_function(function, args, keywords),
    "__array__": convert_to_array,
    "__bool__": lambda expr: convert(expr, "bool"),
    "__float__": lambda expr: convert(expr, "float"),
    "__int__": lambda expr: convert(expr, "int"),
    "__index__": lambda expr: convert(expr, "int"),
    "__setitem__": lambda expr, index, value: convert(expr, "setitem"),
    "_numpy_attribute": attribute,
    "_compare": compare,
}

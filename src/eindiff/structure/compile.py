"""Functions of arrays by name, for expressions and what is made of them: dense arrays, or structured derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.locks import reentrant_lock
from eindiff.core.nodes import Constant, Expr, topological
from eindiff.core.recent import Recent
from eindiff.program.backends import NAMES
from eindiff.program.compiled import Compiled
from eindiff.program.interpreter import as_tuples, flatten
from eindiff.structure.results import Composite, Results

FORMS = ("dense", "structured")
DTYPES = ("float32", "float64")


def compile(
    outputs: Any, backend: str | None = None, dtype: Any = None, sizes: Mapping[str, int] | None = None,
    form: str = "dense", validate: bool = True, likely: str = "float64",
) -> Compiled:  # fmt: skip
    """A fast function for an expression, or for a list of them. See `scale/sharded.py`, which adds data in blocks.

    What is made before the first call is for arrays of the `likely` type, if none is said.
    """
    if backend is not None and backend not in NAMES:
        raise EindiffError(f"backend {backend!r}: choose one of {', '.join(NAMES)}", "options")
    if form not in FORMS:
        raise EindiffError(f"form {form!r}: choose one of {', '.join(FORMS)}", "options")
    try:
        name = None if dtype is None else np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in (None, *DTYPES):
        raise EindiffError(f"dtype {name}: choose one of {', '.join(DTYPES)}", "options")
    key = (_request(outputs), name, tuple(sorted((sizes or {}).items())), form, backend, validate)
    found = _compiled.get(key)
    return found if found is not None else _function(key, outputs, likely)


def structured(outputs: Any, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> Any:
    """The value of a derivative (or of several), in the structure that it has: a `Derivative`.

    Args:
        outputs: a derivative, a list of rows of blocks, or several of these
        arrays: arrays by the names of the variables
        sizes: sizes by name that no array shows

    >>> import numpy as np
    >>> import eindiff as ed
    >>> T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    >>> hessian = ed.hessian(ed.norm2(T - U @ V.T) ** 2, U)
    >>> ed.structured(hessian, {"U": np.ones((1000, 2)), "V": np.eye(3, 2)})
    Hessian 2000×2000 = I₁₀₀₀ ⊗ core(2×2), 32 B instead of 32 MB

    See also: `Derivative`, `newton_step`, `compile`.
    """
    return compile(outputs, form="structured")(sizes=sizes, **named_arrays(arrays))


def named_arrays(arrays: Any) -> Mapping[str, Any]:
    """Arrays by name, or an error that says so."""
    if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
        kind = type(arrays).__name__
        raise EindiffError(f"arrays are given in a dictionary, by the names of variables, not as {kind}", "arrays")
    return arrays


_compiled: Recent[Compiled] = Recent()
_compiling = reentrant_lock()


def _request(output: Any) -> Any:
    """What tells outputs apart: the digests of expressions, which say what they are derivatives of."""
    if isinstance(output, Expr):
        return output.digest
    if isinstance(output, Composite):
        return tuple([_request(part) for part, _ in output.parts]), output.key
    if isinstance(output, list | tuple):
        return tuple([_request(part) for part in output])
    return flatten(output)  # refuses anything that is no expression


def _function(key: tuple, outputs: Any, likely: str) -> Compiled:
    """A function for a request. It is kept with the literal arrays in it, which its source spells out, too."""
    _, dtype, sizes, form, backend, validate = key
    made = Compiled(Results(as_tuples(outputs), form), dtype, dict(sizes), form, backend, None, validate, likely)
    literals = [x.value for x in topological(made.exprs) if isinstance(x, Constant)]
    size = 10 * sum(value.nbytes for value in literals if isinstance(value, np.ndarray))
    with _compiling:  # equal requests of several threads give the same function
        return _compiled.get(key) or _compiled.keep(key, made, size)

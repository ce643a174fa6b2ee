"""What NumPy's functions cannot do with symbolic arrays: refused, with the reason and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.tracing.numpy.protocol import INSTEAD, REFUSED

LISTED = [name for name in REFUSED if not name.startswith("linalg") and name not in ("modf", "divmod")]


def _call(name: str, x: Expr) -> Any:
    f: Any = np
    for part in name.split("."):
        f = getattr(f, part)
    arguments = {"copyto": (np.zeros(3), x), "put_along_axis": (x, [0], 1.0, 0), "interp": (x, [0, 1], [0, 1])}
    counts = {
        "percentile": 50,
        "quantile": 0.5,
        "partition": 1,
        "argpartition": 1,
        "fill_diagonal": 1.0,
        "digitize": [0.5],
    }
    two = ("allclose", "isclose", "array_equal", "searchsorted", "extract", "fmod")
    if name in arguments:
        return f(*arguments[name])
    if name in ("put", "putmask", "place"):
        return f(x, [0], [1.0])
    if name == "compress":
        return f([True], x)
    return f(x, counts[name]) if name in counts else f(x, x) if name in two else f(x)


@pytest.mark.parametrize("name", LISTED)
def test_what_needs_values_is_refused(name: str) -> None:
    with pytest.raises(EindiffError, match=f"np.{name} .*the value of x, which is symbolic: "):
        _call(name, ed.vector("x", 3))


@pytest.mark.parametrize("name", [name for name in REFUSED if name.startswith("linalg")])
def test_factorizations_are_refused(name: str) -> None:
    A = ed.matrix("A", 3, 3)
    f = getattr(np.linalg, name.partition(".")[2])
    with pytest.raises(EindiffError, match=f"np.{name} needs the value of A"):
        f(A, A) if name.endswith("lstsq") else f(A)


x, A = ed.vector("x", 3), ed.matrix("A", 3, 3)


def _assign() -> None:
    x[0] = 1


def _assign_into_array() -> None:
    np.zeros((2, 3))[0] = x


def _add_in_place() -> None:
    y = np.zeros(3)
    y += x


ERRORS: dict[str, tuple[Callable, str]] = {
    "branch": (lambda: 1 if x[0] > 0 else 2, r"a branch of Python .* a function of x, .*np.where\(condition, a, b\)"),
    "and": (lambda: (x[0] > 0) and (x[1] > 0), "has no truth value"),
    "float": (lambda: float(x[0]), "a Python number needs .* functions of NumPy"),
    "math": (lambda: math.exp(x[0]), "functions of NumPy instead of those of math"),
    "int": (lambda: int(x[0]), "an integer needs the value"),
    "range": (lambda: range(x[0]), "an integer needs the value"),
    "mask": (lambda: x[x > 0], r"an index or a mask .*choose with np.where"),
    "index": (lambda: np.arange(3)[x[0]], "needs the value"),
    "assignment": (_assign, "expressions do not change"),
    "assignment into an array": (_assign_into_array, "a NumPy array needs the value of x"),
    "in place": (_add_in_place, "write a = a [+] b instead of a [+]= b"),
    "out": (lambda: np.exp(x, out=np.zeros(3)), "give no out="),
    "out of a function": (lambda: np.sum(A, axis=0, out=np.zeros(3)), "use the result it returns"),
    "asarray": (lambda: np.asarray(x), "np.stack and np.concatenate join expressions"),
    "array": (lambda: np.array([x[0], 1.0]), "np.array cannot hold them"),
    "random": (lambda: np.random.default_rng(0).normal(x), "a NumPy array needs the value of x"),
    "unknown argument": (lambda: np.sum(x, where=[True, False, True]), "np.sum of symbolic arrays: .*'where'"),
    "type": (lambda: np.sum(x, dtype=int), "np.sum of symbolic arrays: .*'dtype'"),
    "no row": (lambda: np.i0(x), "np.i0 needs .* no symbolic form"),
    "no ufunc": (lambda: np.nextafter(x, x), "np.nextafter needs .* no symbolic form"),
    "method of a ufunc": (lambda: np.add.reduceat(x, [0, 1]), "np.add.reduceat needs"),
    "foreign ufunc": (lambda: np.frompyfunc(math.exp, 1, 1)(x), "only those of numpy and scipy.special"),
    "special": (lambda: scipy.special.struve(1, x), "scipy.special.struve needs .* no symbolic form"),
    "fft": (lambda: np.fft.fft2(A), "only real numbers"),
    "loop": (lambda: list(ed.vector("z", "n")), "first axis of known size"),
    "where with one argument": (lambda: np.where(x > 0), "give np.where"),
    "squeeze": (lambda: np.squeeze(A, axis=0), "has size 3, not 1"),
    "expand_dims": (lambda: np.expand_dims(x, 5), "which then has 2 axes"),
    "tensordot": (lambda: np.tensordot(A, ed.vector("v", 4), 1), "do not fit"),
    "einsum by numbers": (lambda: np.einsum(x, [0]), "write the labels as text"),
    "cross": (lambda: np.cross(ed.vector("v", 2), x), "length 3"),
    "broadcast": (lambda: np.broadcast_to(A, (2, 3, 1)), "does not fit|do not fit"),
    "pad": (lambda: np.pad(x, 1, mode="edge"), "only one constant"),
    "convolve": (lambda: np.convolve(x, x, "other"), "mode 'other'"),
    "full svd": (lambda: np.linalg.svd(ed.matrix("B", 2, 3)), "full_matrices=False"),
    "norm": (lambda: np.linalg.norm(A, "other"), "order 'other'"),
    "zero norm": (lambda: np.linalg.norm(x, 0), "has no derivative"),
    "triangle": (lambda: np.tril(x), "need a matrix"),
    "gradient without a variable": (lambda: ed.gradient(x @ x), "by a variable"),
    "options of an expression": (lambda: ed.hessian(x @ x, x, argnums=0), "by a variable"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    action, message = ERRORS[name]
    with pytest.raises(EindiffError, match=message):
        action()


SCIPY = [name for name in INSTEAD if name not in ("full", "__getitem__")]


@pytest.mark.parametrize("name", SCIPY)
def test_python_functions_of_scipy_name_what_to_use(name: str) -> None:
    f = getattr(scipy.special, name, None) or getattr(scipy.linalg, name)
    extra = {"cho_solve": lambda a: f((a, True), a), "lu_solve": lambda a: f((a, a), a)}
    call = extra.get(name) or (lambda a: f(a, a) if name.startswith("solve") else f(a))
    hint = INSTEAD[name].partition("(")[0]
    with pytest.raises(EindiffError, match=rf"scipy\.\S*{name} needs the value of .*: for expressions there is {hint}"):
        call(A)


def test_functions_of_numpy_that_take_no_expressions_name_what_to_use() -> None:
    with pytest.raises(EindiffError, match=r"numpy.full .*there is value \* np.ones"):
        np.full(3, x[0])
    with pytest.raises(EindiffError, match=r"np\.column_stack or np\.concatenate"):
        np.c_[x, x]

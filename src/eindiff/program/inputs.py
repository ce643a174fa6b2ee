"""What is given for variables: arrays of real numbers, of one type, held against what the variables are declared to be.

A wrong declaration makes wrong results, so that every array is held against it at every call, at a price that is small
next to what is computed with it. Entries of a `positive` variable are compared with zero. A matrix is multiplied by one
fixed random vector: that takes as long as the simplest use of the matrix, and changes with any of its entries. If it is
the product that a matrix had which passed before, that is all. Else the matrix is tested: `symmetric` by the product of
its transpose with that vector (entry by entry if these differ), `orthogonal` by `Q'Qu = u`, and `psd` besides by a
Cholesky factorization. Differences in the size of rounding errors pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.leaves import TRIANGLES
from eindiff.core.locks import lock
from eindiff.core.nodes import INDICES, Variable
from eindiff.core.sizes import Size

Array = np.ndarray

ACCURATE = 1e-8  # what symmetric and semidefinite matrices may be off, relative to entries in the same rows and columns
RELATIVE = 1e-5  # and symmetric ones relative to the entry itself
ORTHOGONAL = 1e-6
FLOAT_ERROR = 100  # times the machine precision: what any float may be off
REMEMBERED = 256  # matrices

_POSITIVE = frozenset({"positive"})


def real_array(name: str, value: Any) -> Array:
    """What is given for a variable as an array of NumPy with real numbers, or an error that says what it is."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise EindiffError(
            f"the array for {name} has masked entries: fill them, or leave them out of the expression", "arrays"
        )
    if type(value).__module__.startswith("dask."):
        raise EindiffError(
            f"{name} is given as an array of dask: compile with shard= and the name of the index that its blocks have, "
            f"or load it with {name}.compute()",
            "arrays",
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise EindiffError(f"what is given for {name} is no array: {error}", "arrays") from None
    if array.dtype.kind not in "biuf":
        kind = "" if isinstance(value, np.ndarray) else f" (it is given as {type(value).__name__})"
        raise EindiffError(f"the array for {name} holds {array.dtype}, not real numbers{kind}", "arrays")
    return array


def type_of(value: Any) -> np.dtype | None:
    """The type of an array's entries in NumPy's terms, without a look at them; None if NumPy has none like it."""
    if not hasattr(value, "dtype"):
        return np.asarray(value).dtype
    try:
        return np.dtype(getattr(value.dtype, "name", str(value.dtype)).rpartition(".")[2])
    except TypeError:
        return None


def common_type(names: Collection[str], arrays: Mapping[str, Any]) -> np.dtype:
    """The type of results from arrays by name: NumPy's for those that are needed; if none is, for all that are given.

    Integers, and numbers of Python, take the type of the others; alone they are float64.
    """
    given = {name: arrays[name] for name in names} or {k: x for k, x in arrays.items() if hasattr(x, "dtype")}
    types = {name: type_of(x) for name, x in given.items() if type(x) is not float}
    floats = {name: dtype for name, dtype in types.items() if dtype is not None and dtype.kind == "f"}
    found = np.result_type(*floats.values()) if floats else np.dtype(np.float64)
    if found not in (np.float32, np.float64):
        name = next(name for name, dtype in floats.items() if dtype == found)
        raise EindiffError(f"the array for {name} holds {found}: use float32 or float64", "arrays")
    return found


def likely_type(arrays: Mapping[str, Any]) -> str:
    """The type of results from arrays by name, as far as it can be told before it is known which are needed."""
    types = [type_of(x) for x in arrays.values() if type(x) is not float]
    floats = {dtype for dtype in types if dtype is not None and dtype.kind == "f"}
    return "float32" if floats == {np.dtype(np.float32)} else "float64"


def check(variable: Variable, array: Array, sizes: Mapping[str, int]) -> None:
    """Refuse an array that has not the properties which its variable is declared to have.

    The variable may have dropped out of what is computed; then an array of another shape is none of it.
    """
    if (into := variable.into) is not None:
        return _check_indices(variable, array, into, sizes)
    if array.dtype.char not in "fd":
        array = real_array(variable.name, array).astype(float)
    if array.ndim != variable.ndim or not array.size:
        return
    if "positive" in variable.properties and not (least := array.min()) > 0:
        _refuse(variable, "positive", f"has the entry {least}")
    matrices = array.ndim == 2 and variable.properties != _POSITIVE
    if matrices and (array.shape[0] == array.shape[1] or variable.properties & TRIANGLES):
        _check_matrix(variable, array)


def _check_indices(variable: Variable, array: Array, into: Size, sizes: Mapping[str, int]) -> None:
    """Refuse what is no index of an axis."""
    if array.dtype.kind not in "iu":
        _refuse(variable, f"{INDICES}{into}", f"holds {array.dtype}: indices are whole numbers")
    if array.ndim != variable.ndim or not array.size or not sz.names(into) <= set(sizes):
        return
    size = sz.evaluate(into, sizes)
    if array.min() < 0 or array.max() >= size:
        place = np.argwhere((array < 0) | (array >= size))[0]
        where = ", ".join(map(str, place))
        bound = str(into) if isinstance(into, int) else f"{into} = {size}"
        entry = f"has {array[tuple(place)]} at {where}" if array.ndim else f"is {array}"
        _refuse(variable, f"{INDICES}{into}", f"{entry}: indices are from 0 to below {bound}")


_passed: dict[tuple, None] = {}  # products of matrices that had the properties with a fixed vector, oldest first
_changing = lock()


def _check_matrix(variable: Variable, matrix: Array) -> None:
    probe = _probe(matrix.shape[1], matrix.dtype.char)
    image = matrix.dot(probe)
    key = (variable.properties, matrix.shape, matrix.dtype.char, hash(image.tobytes()))
    if key in _passed:
        return
    with np.errstate(all="ignore"):
        if variable.properties & {"symmetric", "psd"}:
            _check_symmetric(variable, matrix, image, matrix.T.dot(probe))
        if "psd" in variable.properties:
            _check_semidefinite(variable, matrix)
        if "orthogonal" in variable.properties:
            _check_orthogonal(variable, matrix, image, probe)
        _check_entries(variable, matrix)
    if np.isfinite(image).all():  # else it does not tell matrices apart
        with _changing:
            _passed[key] = None
            if len(_passed) > REMEMBERED:
                del _passed[next(iter(_passed))]


@lru_cache(maxsize=64)
def _probe(size: int, dtype: str) -> Array:
    """A vector that no entry of a matrix drops out of a product with: positive, and without any structure."""
    return np.random.default_rng(size).uniform(0.5, 1.5, size).astype(dtype)


def _check_symmetric(variable: Variable, matrix: Array, image: Array, other: Array) -> None:
    """Compare the products of the matrix and of its transpose with a vector, and where these differ all entries."""
    rounding = FLOAT_ERROR * np.finfo(matrix.dtype).eps
    if np.abs(image - other).max() <= rounding * np.abs(image).max() < np.inf:
        return
    size = np.abs(np.where(np.isfinite(matrix), matrix, 0))
    rows = np.sqrt(size.max(axis=1))
    allowed = max(ACCURATE, rounding) * np.outer(rows, rows) + len(matrix) * rounding * size.max()
    allowed += max(RELATIVE, 10 * rounding) * np.maximum(size, size.T)
    if (wrong := np.argwhere((matrix != matrix.T) & ~(np.abs(matrix - matrix.T) <= allowed))).size:
        i, j = wrong[0]
        what = "symmetric" if "symmetric" in variable.properties else "psd"
        entries = f"the entries {i}, {j} and {j}, {i} are {matrix[i, j]} and {matrix[j, i]}"
        _refuse(variable, what, f"is not symmetric: {entries}" if what == "psd" else f"is not: {entries}")


def _check_semidefinite(variable: Variable, matrix: Array) -> None:
    """Factorize with a small multiple of the identity added; the second time with the diagonal scaled to ones."""
    rounding = FLOAT_ERROR * np.finfo(matrix.dtype).eps
    diagonal = matrix.diagonal()
    if _is_definite(matrix, max(len(matrix) * rounding * np.abs(diagonal).max(), np.finfo(matrix.dtype).tiny)):
        return
    if (diagonal > 0).all():
        roots = np.sqrt(diagonal)
        if _is_definite(matrix / roots / roots[:, None], max(ACCURATE, rounding)):
            return
    if not np.isfinite(matrix).all():
        _refuse(variable, "psd", "has entries that are infinite or no numbers")
    _refuse(variable, "psd", f"has the eigenvalue {np.linalg.eigvalsh(matrix)[0]:.6g}")


def _is_definite(matrix: Array, added: float) -> bool:
    moved = matrix.copy()
    moved.flat[:: len(matrix) + 1] += added
    try:
        return bool(np.isfinite(np.linalg.cholesky(moved).diagonal()).all())
    except np.linalg.LinAlgError:
        return False


# Entries that a matrix with a property cannot have, by their rows, columns and values, as far as they are not 0.
_WRONG: dict[str, Callable[[Array, Array, Array], Array]] = {
    "lower": lambda i, j, x: j > i,
    "upper": lambda i, j, x: i > j,
    "tridiagonal": lambda i, j, x: np.abs(i - j) > 1,
    "diagonal": lambda i, j, x: i != j,
    "permutation": lambda i, j, x: x != 1,
    "unit": lambda i, j, x: (i == j) & (x != 1),
}


def _check_entries(variable: Variable, matrix: Array) -> None:
    """Refuse entries that have to be 0 or 1, and are not."""
    for what in sorted(variable.properties & _WRONG.keys()):
        rows, columns = np.nonzero(matrix)
        wrong = _WRONG[what](rows, columns, matrix[rows, columns])
        if wrong.any():
            i, j = rows[wrong][0], columns[wrong][0]
            _refuse(variable, what, f"has the entry {matrix[i, j]} at {i}, {j}")
        if what == "unit" and not matrix.diagonal().all():
            _refuse(variable, what, "has a zero on its diagonal")


def _check_orthogonal(variable: Variable, matrix: Array, image: Array, probe: Array) -> None:
    allowed = max(ORTHOGONAL, FLOAT_ERROR * FLOAT_ERROR * np.finfo(matrix.dtype).eps) * np.sqrt(len(matrix))
    if not np.abs(matrix.T.dot(image) - probe).max() <= allowed:
        what = "permutation" if "permutation" in variable.properties else "orthogonal"
        _refuse(variable, what, f"is not: {variable.name}'{variable.name} is not the identity")


def _refuse(variable: Variable, what: str, why: str) -> None:
    raise EindiffError(f"{variable.name} is declared {what}, but its array {why}", "arrays")

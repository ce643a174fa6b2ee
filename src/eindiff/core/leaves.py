"""Leaves: variables and constants."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from eindiff.core.einsums import filled
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import IndexMap, Structure
from eindiff.core.nodes import INDICES, Constant, Expr, Variable, intern
from eindiff.core.sizes import Shape

# What only square matrices are
OF_SQUARE_MATRICES = frozenset({"symmetric", "psd", "orthogonal", "permutation", "banded", "tridiagonal", "diagonal"})
BANDS = frozenset({"tridiagonal", "banded"})  # where entries are near the diagonal
TRIANGLES = frozenset({"lower", "upper"})  # where entries may be other than 0: also of matrices that are not square
PROPERTIES = OF_SQUARE_MATRICES | TRIANGLES | {"positive", "unit"}
# What others call them. A system with a matrix has a solution only if it is definite: then both words say the same.
SYNONYMS = {
    "spd": ("psd",), "spsd": ("psd",), "posdef": ("psd",), "positivedefinite": ("psd",),
    "positivesemidefinite": ("psd",), "lowertriangular": ("lower",), "uppertriangular": ("upper",),
    "unitlowertriangular": ("unit", "lower"), "unituppertriangular": ("unit", "upper"), "sym": ("symmetric",),
    "hermitian": ("symmetric",), "unitary": ("orthogonal",), "rotation": ("orthogonal",),
}  # fmt: skip


def properties_of(word: str) -> tuple[str, ...]:
    """The properties that a word stands for, in letters of any case; none if it is no such word.

    >>> properties_of("Diagonal"), properties_of("unit_lower_triangular"), properties_of("tall")
    (('diagonal',), ('unit', 'lower'), ())
    """
    plain = word.lower().replace("_", "")
    return (plain,) if plain in PROPERTIES else SYNONYMS.get(plain, ())


def variable(name: str, shape: Shape, properties: Collection[str] = ()) -> Variable:
    """An input of the given shape. A `symmetric` or `psd` matrix is its transpose, `Q'Q = I` if `orthogonal`.

    Entries of a matrix that is `lower`, `upper` (triangular), `tridiagonal` or `diagonal` are 0 elsewhere; a triangular
    one that is `unit` has ones on its diagonal. A `permutation` is orthogonal. Those of a `banded` one are near its
    diagonal: how near is seen in the array.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise EindiffError(f"variable name {name!r}: use letters, digits and underscores", "names")
    declared: set[str] = set()
    for one in properties:
        found = (one,) if str(one).startswith(INDICES) else properties_of(one) if isinstance(one, str) else ()
        if not found:
            raise EindiffError(
                f"variable {name}: unknown property {one!r}; known are {', '.join(sorted(PROPERTIES))}", "names"
            )
        declared.update(found)
    if "permutation" in declared:
        declared.add("orthogonal")
    for size in shape:
        if not (isinstance(size, str) and size.isidentifier()) and not (isinstance(size, int) and size >= 1):
            raise EindiffError(f"variable {name}: a size is a name or a positive integer, not {size!r}", "sizes")
    if (wrong := _misfit(shape, declared)) is not None:
        raise EindiffError(f"variable {name}: {wrong}", "names")
    return placeholder(name, shape, declared)


def placeholder(name: str, shape: Shape, declared: Collection[str] = ()) -> Variable:
    """A variable that may stand for a part of an expression: its sizes may be any, `n - 1` for instance."""
    properties = frozenset(declared)
    symmetric = (((1, 0), 1),) if properties & {"symmetric", "psd", "diagonal"} else ()
    return intern(
        Variable, (name, shape, sorted(properties)), name=name, shape=shape, properties=properties, symmetries=symmetric
    )


def _misfit(shape: Shape, declared: Collection[str]) -> str | None:
    """What a variable of this shape and these properties cannot be."""
    properties = frozenset(declared)
    if properties & OF_SQUARE_MATRICES and (len(shape) != 2 or shape[0] != shape[1]):
        return f"only a square matrix can be {min(properties & OF_SQUARE_MATRICES)}, not {shape_text(shape)}"
    if properties & TRIANGLES and len(shape) != 2:
        return f"only a matrix can be {min(properties & TRIANGLES)}, not {shape_text(shape)}"
    if properties & TRIANGLES and properties & BANDS:
        return f"a matrix can be {min(properties & TRIANGLES)} or {min(properties & BANDS)}: declare one of them"
    if properties & TRIANGLES and len(properties - {"unit", "positive"}) > 1:
        return f"what is {' and '.join(sorted(properties - {'unit', 'positive'}))} is diagonal: declare that"
    if "positive" in properties and (sparse := properties & {"diagonal", "permutation", *TRIANGLES, *BANDS}):
        instead = "take diag of a positive vector" if "diagonal" in sparse else "not all its entries are positive"
        return f"a {min(sparse)} matrix has zeros: {instead}"
    if "unit" in properties and not properties & TRIANGLES:
        return "only a matrix that is lower or upper can be unit"
    return None


def constant(value: Any) -> Expr:
    """Literal data (numbers become coefficients, uniform arrays ones), or a structured constant."""
    if isinstance(value, Structure):
        value = value.simplest() if isinstance(value, IndexMap) else value
        return intern(Constant, (repr(value),), value=value, shape=value.shape, symmetries=())
    try:
        array = np.asarray(value)
    except ValueError:
        raise EindiffError(f"a constant needs rows of one length, not {value!r}", "names") from None
    if array.dtype.kind not in "biuf":
        raise EindiffError(f"a constant needs real numbers, not {array.dtype}: {value!r}", "names")
    shape = tuple(array.shape)
    if array.size == 0:
        raise EindiffError(f"a constant needs at least one entry; this one has shape {shape}", "names")
    if array.ndim == 0 or (array == array.flat[0]).all():
        return filled(array.flat[0].item(), shape)
    array = np.array(array, dtype=float)
    array.flags.writeable = False
    symmetric = array.ndim == 2 and shape[0] == shape[1] <= 512 and bool((array == array.T).all())
    symmetries = (((1, 0), 1),) if symmetric else ()
    return intern(Constant, (shape, array.tobytes()), value=array, shape=shape, symmetries=symmetries)

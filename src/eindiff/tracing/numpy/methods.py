"""The methods of NumPy's arrays, for traced ones: those that are no function of NumPy under the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.tracing.numpy import protocol
from eindiff.tracing.questions import current


class Flat:
    """The entries of an array one after the other."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def _places(self, index: Any) -> Any:
        return np.unravel_index(np.arange(np.size(self._array))[index], np.shape(self._array))

    def __len__(self) -> int:
        return np.size(self._array)

    def __getitem__(self, index: Any) -> Any:
        return self._array[self._places(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._places(index)] = value

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))


class Methods(NDArrayOperatorsMixin):
    """The methods of a traced array."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: tuple
        _is_number: bool

        @property
        def __eindiff_expression__(self) -> Expr: ...

        @property
        def dtype(self) -> np.dtype: ...

        def _new(self, expr: Expr, dtype: np.dtype, is_number: bool = False) -> Any: ...

        def _call(self, name: str, args: tuple, keywords: dict[str, Any]) -> Any: ...

        def __getitem__(self, index: Any) -> Any: ...

        def __setitem__(self, index: Any, value: Any) -> None: ...

        def __iter__(self) -> Any: ...

    # Python's rounding

    def __round__(self, decimals: int | None = None) -> Any:
        if decimals is None and self._is_number and current() is not None:
            return int(self._call("round", (), {}))
        return self._call("round", (decimals or 0,), {})

    def __floor__(self) -> int:
        return int(self // 1)

    def __ceil__(self) -> int:
        return -int(-self // 1)

    def __trunc__(self) -> int:
        return int(self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    @property
    def T(self) -> Any:
        """The transpose: all axes in reverse order."""
        return self._call("transpose", (), {})

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return self._call("swapaxes", (-1, -2), {})

    @property
    def nbytes(self) -> int:
        """The bytes that NumPy would need."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The bytes of an entry."""
        return self.dtype.itemsize

    @property
    def device(self) -> str:
        """Where NumPy's arrays are."""
        return "cpu"

    def transpose(self, *axes: Any) -> Any:
        """Axes in another order."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)) else axes or None
        return self._call("transpose", (order,), {})

    def reshape(self, *shape: Any, **keywords: Any) -> Any:
        """The same entries with another shape."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return self._call("reshape", (tuple(wanted),), keywords)

    def flatten(self, order: str = "C") -> Any:
        """A copy of all entries, as one vector."""
        return self._call("ravel", (order,), {}).copy()

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> Any:
        """A copy of another type of real numbers."""
        wanted = np.dtype(dtype)
        if wanted.kind not in "biuf":
            protocol.refuse("astype", [self.__eindiff_expression__], "it holds real numbers")
        if wanted.kind == "b" and self.dtype.kind != "b":
            return self.__ne__(0)
        if wanted.kind in "iu" and self.dtype.kind == "f":
            return self._new(functions.trunc(self.__eindiff_expression__), wanted, self._is_number)
        is_same = wanted == self.dtype and not copy
        return self if is_same else self._new(self.__eindiff_expression__, wanted, self._is_number)

    def copy(self, order: str = "C") -> Any:
        """A copy, in row-major order."""
        return self._new(self.__eindiff_expression__, self.dtype)

    def item(self, *index: Any) -> Any:
        """One entry as a number."""
        if not index:
            return self.reshape(())[()]
        return self[index[0] if isinstance(index[0], tuple) else index]

    def tolist(self) -> Any:
        """Nested lists of numbers."""
        return [part.tolist() for part in self] if self.shape else self.item()

    # Changes in place

    def fill(self, value: Any) -> None:
        """Give all entries one value."""
        self[...] = value

    def sort(self, axis: int = -1, **keywords: Any) -> None:
        """Put the entries in order, in place."""
        self[...] = self._call("sort", (axis,), keywords)

    def partition(self, kth: Any, axis: int = -1, **keywords: Any) -> None:
        """Put entries of some ranks at their places, in place."""
        self[...] = self._call("partition", (kth, axis), keywords)


"""What needs the values of a traced array: they are known if it depends on nothing symbolic, else it is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eindiff.core.nodes import Expr, variables
from eindiff.program.interpreter import evaluate
from eindiff.tracing.numpy import protocol

MOST_OBJECTS = 4096  # entries of an array of objects


class Values:
    """The conversions of a traced array to arrays and numbers of NumPy and Python."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def __eindiff_expression__(self) -> Expr: ...

        @property
        def dtype(self) -> np.dtype: ...

        def _numbers(self) -> np.ndarray | None: ...

        def __getitem__(self, place: Any) -> Any: ...

    def _known(self) -> np.ndarray | None:
        """The values, if they depend on nothing that is symbolic."""
        expr = self.__eindiff_expression__
        known = all(isinstance(size, int) for size in expr.shape) and not variables(expr)
        return np.asarray(evaluate(expr, {}), self.dtype) if known else None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The values if they are known; else an array of objects, where a function asks that is traced as it is."""
        known = self._known()
        if known is not None:
            return np.asarray(known, dtype)
        numbers, asks = self._numbers(), protocol.package(sys._getframe(1))
        is_small = numbers is not None and numbers.size <= MOST_OBJECTS
        if asks in ("eindiff", "scipy") or dtype not in (None, object) or not is_small:
            protocol.convert_to_array(self.__eindiff_expression__)
        entries = np.empty_like(numbers, object)
        for place in np.ndindex(entries.shape):
            entries[place] = self[place]
        return entries

    def _converted(self, kind: str, convert: Callable[[np.ndarray], Any]) -> Any:
        known = self._known()
        return protocol.convert(self.__eindiff_expression__, kind) if known is None else convert(known)

    def __bool__(self) -> bool:
        return self._converted("bool", bool)

    def __float__(self) -> float:
        return self._converted("float", float)

    def __int__(self) -> int:
        return self._converted("int", int)

    def __index__(self) -> int:
        return self._converted("int", index)

    def __reduce__(self) -> NoReturn:
        protocol.refuse("pickle", [self.__eindiff_expression__], "symbolic arrays stay in the function that is traced")

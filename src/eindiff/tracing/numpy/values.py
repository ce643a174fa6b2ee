"""What needs the values of a traced array.

What is discrete (a truth value, an integer, the order of entries) is asked of the values at the call, and the trace
stands for arguments with the same answer. Real numbers are known only if they depend on nothing symbolic.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eindiff.core.nodes import Expr, variables
from eindiff.functions.multilinear import as_expr
from eindiff.program.interpreter import Values as Evaluation
from eindiff.program.interpreter import evaluate
from eindiff.tracing.numpy import protocol
from eindiff.tracing.questions import Question, current

MOST_OBJECTS = 4096  # entries of an array of objects

# Functions whose values are discrete
DISCRETE = frozenset({
    "argmax", "argmin", "argsort", "argpartition", "lexsort", "nanargmax", "nanargmin", "nonzero", "flatnonzero",
    "argwhere", "searchsorted", "digitize", "any", "all", "allclose", "isclose", "array_equal", "array_equiv", "isin",
    "isposinf", "isneginf", "linalg.matrix_rank",
})  # fmt: skip
# Ufuncs whose values are truth values, and those of them that have no expression
TRUTHS = frozenset({
    "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor",
    "logical_not", "isnan", "isfinite", "isinf", "signbit", "bitwise_and", "bitwise_or", "bitwise_xor", "invert",
})  # fmt: skip
ONLY_ASKED = frozenset({"isfinite", "isinf", "signbit"})


def ask(
    function: Callable, args: Sequence[Any], keywords: Mapping[str, Any] | None = None, is_kept: bool = True
) -> Any:
    """What a function with discrete values gives at this call, or NotImplemented where values are not known.

    An answer that is not kept may be another one at other calls.
    """
    question = asking(function, args, keywords)
    unknown, answers = variables(*question.expressions()), current()
    if not unknown:
        return question.answer(Evaluation({}))
    if answers is None or not answers.knows(unknown):
        return NotImplemented
    return answers(question) if is_kept else question.answer(answers.value)


def asking(function: Callable, args: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Question:
    """A function of traced arrays, and of what is known, as a question."""
    named = tuple([(name, _part(value)) for name, value in (keywords or {}).items()])
    return Question(function, tuple(map(_part, args)), named)


def _part(value: Any) -> Any:
    """A part of a question that is equal to the same one only."""
    if hasattr(type(value), "__eindiff_expression__"):
        return value._value_asked()
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and value.size:
            return as_expr(value)
        return Question(_read, (value.tobytes(), value.dtype.str, value.shape))
    return tuple(map(_part, value)) if isinstance(value, list | tuple) else value


def _read(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(data, dtype).reshape(shape)


def _of_type(value: np.ndarray, dtype: str) -> np.ndarray:
    return value.astype(dtype)


class Conversions:
    """The conversions of a traced array to arrays and numbers of NumPy and Python."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def __eindiff_expression__(self) -> Expr: ...

        @property
        def dtype(self) -> np.dtype: ...

        def _numbers(self) -> np.ndarray | None: ...

        def _question(self) -> Question | None: ...

        def __getitem__(self, place: Any) -> Any: ...

    def _known(self) -> np.ndarray | None:
        """The values, if they depend on nothing that is symbolic."""
        expr = self.__eindiff_expression__
        known = all(isinstance(size, int) for size in expr.shape) and not variables(expr)
        return np.asarray(evaluate(expr, {}), self.dtype) if known else None

    def _value_asked(self) -> Question | Expr:
        """What stands for the values in a question."""
        if self.dtype.kind == "f":
            return self.__eindiff_expression__
        return self._question() or Question(_of_type, (self.__eindiff_expression__, self.dtype.str))

    def _discrete(self) -> np.ndarray | None:
        """The values if they are discrete or known; else None."""
        if self.dtype.kind == "f":
            return self._known()
        found = ask(np.asarray, (self,))
        return None if found is NotImplemented else found

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The values if they are known; else an array of objects, where a function asks that is traced as it is."""
        known = self._discrete()
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

    def _asked(self, kind: str, function: Callable) -> Any:
        found = ask(function, (self,))
        return protocol.convert(self.__eindiff_expression__, kind) if found is NotImplemented else found

    def __bool__(self) -> bool:
        return self._asked("bool", bool)

    def __int__(self) -> int:
        return self._asked("int", int)

    def __index__(self) -> int:
        if self.dtype.kind == "f" and current() is not None:
            raise TypeError(f"'{type(self.dtype.type(0)).__name__}' object cannot be interpreted as an integer")
        return self._asked("int", index)

    def __float__(self) -> float:
        known = self._discrete()
        return protocol.convert(self.__eindiff_expression__, "float") if known is None else float(known)

    def __reduce__(self) -> NoReturn:
        protocol.refuse("pickle", [self.__eindiff_expression__], "symbolic arrays stay in the function that is traced")

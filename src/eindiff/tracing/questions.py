"""What a function that is traced beside its values asks of them: which branch to take, masks, the order of entries.

A question is a function of NumPy with discrete values, of expressions. It is answered with the values of the call, and
kept with its answer: a trace stands for all arguments that give the same answers, and for no others. Discrete values
have no derivative, or it is 0, so a derivative loses nothing by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.core.nodes import Expr, Variable
from eindiff.core.rebuild import substituted
from eindiff.program.interpreter import Values


@dataclass(frozen=True, slots=True)
class Question:
    """A function with discrete values, of expressions, of answers to other questions, and of what is known."""

    function: Callable
    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()

    def answer(self, value: Callable[[Expr], np.ndarray]) -> Any:
        """What the function gives for the values of the expressions."""
        with np.errstate(all="ignore"):
            named = {name: _answered(arg, value) for name, arg in self.keywords}
            return self.function(*[_answered(arg, value) for arg in self.args], **named)

    def at(self, values: Mapping[Expr, Expr]) -> Question:
        """The same of other expressions in the places of variables."""
        return Question(self.function, _at(self.args, values), _at(self.keywords, values))

    def expressions(self) -> Iterator[Expr]:
        """The expressions whose values it asks for."""
        yield from _expressions((self.args, self.keywords))


def _answered(arg: Any, value: Callable[[Expr], np.ndarray]) -> Any:
    if isinstance(arg, Expr):
        return value(arg)
    if isinstance(arg, tuple):
        return tuple([_answered(part, value) for part in arg])
    return arg.answer(value) if isinstance(arg, Question) else arg


def _at(arg: Any, values: Mapping[Expr, Expr]) -> Any:
    if isinstance(arg, Expr):
        return substituted([arg], values)[0]
    if isinstance(arg, tuple):
        return tuple([_at(part, values) for part in arg])
    return arg.at(values) if isinstance(arg, Question) else arg


def _expressions(arg: Any) -> Iterator[Expr]:
    if isinstance(arg, Expr):
        yield arg
    elif isinstance(arg, Question):
        yield from arg.expressions()
    elif isinstance(arg, tuple):
        for part in arg:
            yield from _expressions(part)


def written(answer: Any) -> Any:
    """An answer as something that is equal to the same answer only."""
    if isinstance(answer, tuple | list):
        return tuple(map(written, answer))
    array = np.asarray(answer)
    return array.dtype.str, array.shape, array.tobytes()


class Answers:
    """The answers that a function gets while it is traced, from the values of its variables."""

    def __init__(self, arrays: Mapping[Variable, Any]) -> None:
        self.value, self.arrays = Values(arrays), arrays
        self.given: dict[Question, Any] = {}  # in the order that they were asked for

    def knows(self, unknown: Iterable[Variable]) -> bool:
        """Whether there are values for some variables."""
        return all(x in self.arrays for x in unknown)

    def __call__(self, question: Question) -> Any:
        answer = question.answer(self.value)
        self.given[question] = written(answer)
        return answer


_ANSWERS: ContextVar[Answers | None] = ContextVar("answers", default=None)


def current() -> Answers | None:
    """What answers the questions of the function that is traced in this thread, if it runs beside values."""
    return _ANSWERS.get()


@contextmanager
def answering(arrays: Mapping[Variable, Any]) -> Iterator[Answers]:
    """Let questions be answered from the values of variables."""
    answers = Answers(arrays)
    token = _ANSWERS.set(answers)
    try:
        yield answers
    finally:
        _ANSWERS.reset(token)

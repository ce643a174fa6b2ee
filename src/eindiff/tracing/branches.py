"""The traces of one function that takes branches: one for each set of answers to its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.locks import lock
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.program.interpreter import Values
from eindiff.tracing.computation import Programs
from eindiff.tracing.library import Library, Traced
from eindiff.tracing.questions import Question, written

MOST_BRANCHES = 64  # traces for arguments of one kind; the one that was not used for longest goes
MOST_INTERPRETED = 2  # times that questions are answered without a program

Arrays = Callable[[Traced], Mapping[str, Any]]


class _Asked:
    """Traces that have asked the same questions, by their answers."""

    def __init__(self, questions: Sequence[Question], first: Traced) -> None:
        self.questions, self.first = questions, first
        self.traces: dict[Any, Traced] = {}  # the one that was used last comes last
        self._exprs = list(dict.fromkeys([expr for question in questions for expr in question.expressions()]))
        self._variables: list[Variable] = variables(*self._exprs)
        self._program = Programs(list(self._exprs), dtype=first.dtype)
        self._count = 0

    def answers(self, library: Library, arrays: Mapping[str, Any]) -> Any:
        """The answers for other arrays; None where there are none."""
        try:
            value = self._values(library, arrays)
            return tuple([written(question.answer(value)) for question in self.questions])
        except (EindiffError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            return None  # of a branch that is not taken: a singular matrix, an integer made of what is no number

    def _values(self, library: Library, arrays: Mapping[str, Any]) -> Callable[[Expr], Any]:
        self._count += 1
        if self._count <= MOST_INTERPRETED or not self._exprs:
            return Values({x: arrays[x.name] for x in self._variables})
        with np.errstate(all="ignore"):
            found = self._program(library, {x.name: arrays[x.name] for x in self._variables})
        return dict(zip(self._exprs, map(np.asarray, found), strict=True)).__getitem__


class Branches:
    """Traces for arguments of one kind, which differ in the answers to their questions."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._asked: dict[Any, _Asked] = {}
        self._lock = lock()

    def __iter__(self) -> Iterator[Traced]:
        return (traced for asked in list(self._asked.values()) for traced in list(asked.traces.values()))

    def find(self, arrays: Arrays) -> Traced | None:
        """The trace that stands for the arrays of a call; questions that were asked last come first."""
        for number, asked in enumerate(reversed(list(self._asked.values()))):
            answers = asked.answers(self._library, arrays(asked.first))
            if answers is not None and (found := asked.traces.get(answers)) is not None:
                if number or next(reversed(asked.traces), None) != answers:
                    self.keep(found)
                return found
        return None

    def keep(self, traced: Traced) -> None:
        """Remember a trace as the one that was used last; the oldest go if there are too many."""
        questions, answers = tuple(traced.answers), tuple(traced.answers.values())
        with self._lock:
            asked = self._asked.pop(questions, None) or _Asked(questions, traced)
            asked.traces.pop(answers, None)
            asked.traces[answers] = traced
            self._asked[questions] = asked
            while sum(len(one.traces) for one in self._asked.values()) > MOST_BRANCHES:
                oldest, theirs = next(iter(self._asked.items()))
                theirs.traces.pop(next(iter(theirs.traces)))
                if not theirs.traces:
                    self._asked.pop(oldest)

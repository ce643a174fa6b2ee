"""The one engine that applies rewrite rules, and the log of what it did.

A rule is a plain function that looks at a node about to be made, and returns a better expression or None. It is
registered for the function (or kind of node) it looks at. Constructors ask the engine before they make a node, so an
expression is simplified as it is built, and every rule sees arguments that are already simplified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

Rule = Callable[..., Any]

RULES: dict[str, list[Rule]] = {}
Kind = type | str  # of a node; of an elementwise function its name

_NEEDS: dict[Rule, tuple[tuple[Kind, ...], bool]] = {}  # of each rule: a node of some kind, and a sum
_by_kinds: dict[tuple[str, frozenset[Kind], bool], list[Rule]] = {}


@dataclass(frozen=True, slots=True)
class Applied:
    """One application of a rule: `name(before)` became `after`."""

    rule: str
    subject: str
    before: tuple
    after: Any

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}({', '.join(map(str, self.before))}) → {self.after}"


_log: ContextVar[list[Applied] | None] = ContextVar("eindiff_rewrite_log", default=None)


def rule(*subjects: str, among: tuple[Kind, ...] = (), summed: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for the functions or kinds of node it looks at; some need a node of one of the kinds `among`
    those that a node is about to be made of, or that something is `summed` over."""

    def register(function: Rule) -> Rule:
        for subject in subjects:
            RULES.setdefault(subject, []).append(function)
        _NEEDS[function] = among, summed
        _by_kinds.clear()
        return function

    return register


def _rules(subject: str, kinds: frozenset[Kind], summed: bool) -> list[Rule]:
    """The rules for a node made of nodes of some kinds."""
    found = _by_kinds.get((subject, kinds, summed))
    if found is None:
        every = [(function, *_NEEDS[function]) for function in RULES.get(subject, ())]
        fitting = [(function, among) for function, among, needs_sum in every if summed or not needs_sum]
        found = [function for function, among in fitting if not among or not kinds.isdisjoint(among)]
        _by_kinds[subject, kinds, summed] = found
    return found


def rewrite(subject: str, *before: Any, kinds: frozenset[Kind] | None = None, summed: bool = False) -> Any:
    """What the first rule that applies makes of a node about to be made, or None; `kinds` are those of its factors."""
    log = _log.get()
    for function in RULES.get(subject, ()) if kinds is None else _rules(subject, kinds, summed):
        kept = tuple(_snapshot(item) for item in before) if log is not None else ()
        after = function(*before)
        if after is not None:
            if log is not None:
                log.append(Applied(function.__name__, subject, kept, _snapshot(before[0] if after is True else after)))
            return after
    return None


def _snapshot(item: Any) -> Any:
    """What the log keeps of something that a rule may change in place."""
    return item.snapshot() if hasattr(item, "snapshot") else item


def record(rule: str, subject: str, before: tuple, after: Any) -> None:
    """Log a step that is not a rewrite rule, such as a theorem of the chain rule."""
    log = _log.get()
    if log is not None:
        log.append(Applied(rule, subject, before, after))


def is_logged() -> bool:
    """Whether somebody reads which rules are applied."""
    return _log.get() is not None


@contextmanager
def rewrite_log() -> Iterator[list[Applied]]:
    """Collect the rules applied inside a `with` block.

    >>> import eindiff as ed
    >>> with ed.rewrite_log() as log:
    ...     _ = ed.log(ed.exp(ed.vector("x", "n")))
    >>> [entry.rule for entry in log]
    ['log_of_exp']

    See also: `simplify`.
    """
    log: list[Applied] = []
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)

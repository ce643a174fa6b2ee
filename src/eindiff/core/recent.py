"""What was used last, remembered by keys: only so many values and bytes, and no longer than the keys can be met again.

Functions that are made anew for each call are known again by the objects that they see. These are named by identity,
with a weak reference, so that no key keeps an array alive; what was remembered for an array goes when the array does.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from sys import is_finalizing
from typing import Any, Generic, TypeVar
from weakref import ref

from eindiff.core.locks import lock, reentrant_lock

T = TypeVar("T")

MOST_BYTES = 2**24


def once(make: Callable[[], T]) -> Callable[[], T]:
    """A function that makes something when it is first called, whichever thread does so, and gives it ever after."""
    making, made = reentrant_lock(), list[T]()

    def get() -> T:
        if not made:
            with making:
                if not made:
                    made.append(make())
        return made[0]

    return get


class Same:
    """An object that only itself is equal to. It is not kept alive, unless Python cannot refer to it weakly."""

    __slots__ = ("_hash", "_value")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._value: Any = ref(value)
        except TypeError:
            self._value = lambda: value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Same) and (value := self._value()) is not None and value is other._value()

    def __hash__(self) -> int:
        return self._hash


class Seen:
    """An array that a function sees around it, for what is remembered of the function and must not keep it alive."""

    __slots__ = ("get",)

    def __init__(self, array: Any) -> None:
        self.get = ref(array)


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    value: T
    size: int
    watched: list[Any]  # weak references, which have to exist to call back


class Recent(Generic[T]):
    """The values that were used last, by keys. Several threads may use it."""

    def __init__(self, count: int = 256, size: int = MOST_BYTES) -> None:
        self._count = count
        self._size = size
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()
        self._bytes = 0
        self._lock = lock()
        self._dead: deque[Hashable] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> T | None:
        """The value of a key, if it is remembered."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.value

    def keep(self, key: Hashable, value: T, size: int = 0, alive: Iterable[Any] = ()) -> T:
        """Remember a value of so many bytes while some objects are alive, and give it back.

        What was not used for longest goes if there is too much; the last one stays, however large it is.
        """
        entry = _Entry(value, size, [ref(x, lambda _: self._forget(key)) for x in alive])
        gone: list[_Entry[T] | None] = []  # what is freed after the lock is, since that may run anything
        with self._lock:
            gone.append(self._remove(key))
            self._entries[key] = entry
            self._bytes += size
            while len(self._entries) > 1 and (len(self._entries) > self._count or self._bytes > self._size):
                gone.append(self._remove(next(iter(self._entries))))
        self._clean()
        return value

    def cache_clear(self) -> None:
        """Forget all."""
        with self._lock:
            gone, self._entries, self._bytes = self._entries, OrderedDict(), 0
        gone.clear()

    def _remove(self, key: Hashable) -> _Entry[T] | None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._bytes -= entry.size
        return entry

    def _forget(self, key: Hashable) -> None:
        """An object that a value was remembered for is gone. That may be seen in the midst of anything."""
        # When Python ends, keys may be made of modules that are gone, and the names of this one may be as well.
        if is_finalizing is not None and not is_finalizing():
            self._dead.append(key)
            self._clean()

    def _clean(self) -> None:
        gone: list[_Entry[T] | None] = []
        while self._dead and self._lock.acquire(blocking=False):
            try:
                while self._dead:
                    gone.append(self._remove(self._dead.popleft()))
            finally:
                self._lock.release()

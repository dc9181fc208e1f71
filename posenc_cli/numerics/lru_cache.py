"""A small cache for values that the blocks of a table use repeatedly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Cached = TypeVar("Cached")


class LRUCache(Generic[Cached]):
    """The last ``count`` values made, by key; if two threads ask for one, only one makes it.

    >>> squares = LRUCache[int](2)
    >>> [squares.get(n, lambda: n * n) for n in (2, 3, 4)]
    [4, 9, 16]
    >>> 2 in squares, 3 in squares, len(squares)
    (False, True, 2)
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._values: dict[Hashable, Cached] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Cached]) -> Cached:
        """Return the value of a key, making it if it is not cached; the oldest value is dropped."""
        with self._lock:
            if key not in self._values:
                made = make()
                while len(self._values) >= self._count:
                    del self._values[next(iter(self._values))]
                self._values[key] = made
            return self._values[key]

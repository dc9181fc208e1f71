"""Memory of tables: a small cache of values, and arrays whose rows start at cache lines.

The kernel can write past the caches to rows that start at cache lines.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import StoredArray


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


LINE = 64
"""Bytes of a cache line, on every processor where the kernel uses streaming stores."""

CACHED_BYTES = 1 << 23
"""A larger array does not stay in the caches."""


def on_lines(shape: tuple[int, ...], dtype: Any) -> StoredArray:
    """Return an uninitialized array whose first value begins a cache line.

    Raises: MemoryError.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % LINE
    values: StoredArray = memory[begin : begin + size].view(dtype).reshape(shape)
    return values


def large_or_small(shape: tuple[int, ...], dtype: Any) -> StoredArray:
    """Return an uninitialized array, aligned to cache lines if it is too large for the caches.

    Raises: MemoryError.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return on_lines(shape, dtype) if size > CACHED_BYTES else np.empty(shape, dtype)

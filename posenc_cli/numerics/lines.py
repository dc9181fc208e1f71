"""Arrays whose rows start at cache lines, so that the kernel can write past the caches.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import StoredArray

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

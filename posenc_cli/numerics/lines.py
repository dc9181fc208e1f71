"""Arrays whose rows start at cache lines, which the kernel can write past the caches.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import StoredArray

LINE = 64
"""Bytes of a cache line, of every processor that the kernel streams on."""

CACHED_BYTES = 1 << 23
"""A larger array does not stay in the caches."""


def on_lines(shape: tuple[int, ...], dtype: Any) -> StoredArray:
    """An array, not yet filled, whose first value begins a line.

    Raises: MemoryError.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % LINE
    values: StoredArray = memory[begin : begin + size].view(dtype).reshape(shape)
    return values


def large_or_small(shape: tuple[int, ...], dtype: Any) -> StoredArray:
    """An array, not yet filled: on lines if it does not stay in the caches, else NumPy's own.

    Raises: MemoryError.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return on_lines(shape, dtype) if size > CACHED_BYTES else np.empty(shape, dtype)

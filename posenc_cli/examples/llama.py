"""The rotation of Llama 3.1 as ports often have it: wrong, though q·k depends only on m − n.

``posenc rope-check --model llama-3.1-8b --impl posenc_cli.examples.llama:rotate`` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rotate(x: NDArray[np.float32], positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows of q or k (n, dim), rotated to their positions (n,)."""
    half = x.shape[1] // 2
    inv_freq = 500_000.0 ** (-np.arange(half) / half)
    angles = positions[:, None] * inv_freq
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    first, second = x[:, :half], x[:, half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)

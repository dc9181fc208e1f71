"""Positions as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.positions import Positions


def position_array(positions: Positions) -> NDArray[np.int64]:
    """All the positions, in order, as int64.

    Shape: (positions.count,).
    """
    return np.concatenate(
        [np.arange(r.start, r.stop, r.step, dtype=np.int64) for r in positions.ranges]
    )


def position_blocks(positions: Positions, count: int) -> Iterator[NDArray[np.int64]]:
    """The positions in order, at most ``count`` at a time."""
    return map(position_array, positions.blocks(count))

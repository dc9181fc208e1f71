"""Waves in a precision of frameworks: what they have in common, whichever library computes them.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.numerics.rounding import narrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.numerics.arrays import Integers, RealRows, Reals, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement


class ReducedWaves(ABC):
    """cos and sin of position · frequency in a precision, by arrays of some library."""

    def fill(
        self,
        out: StoredRows,
        positions: Integers | Reals,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row a position.

        Shape: ``positions`` (P,) int64, or float64 where some are not whole; ``out`` (P,
        columns) in the storage of ``dtype``.
        """
        with np.errstate(all="ignore"):
            angles = self._products(positions)
            for placement in placements:
                if placement.function == "zero":
                    out[:, placement.columns] = 0
                    continue
                values = self._scaled_values(angles[:, placement.waves], placement.function)
                out[:, placement.columns] = narrow(self._doubles(values), None, dtype)

    def angles(self, positions: Integers | Reals, *, dtype: DType) -> StoredRows:
        """The product of position and frequency in the precision, then reduced to (−π, π].

        Shape: (positions, frequencies).
        """
        with np.errstate(all="ignore"):
            turns = np.remainder(self._doubles(self._products(positions)), 2 * np.pi)
            return narrow(np.where(turns > np.pi, turns - 2 * np.pi, turns), None, dtype)

    @abstractmethod
    def _products(self, positions: Integers | Reals) -> Any:
        """Positions · frequencies, (P, frequencies), in the precision."""

    @abstractmethod
    def _scaled_values(self, angles: Any, function: Literal["cos", "sin"]) -> Any:
        """The scaled cosine or sine of some angles, in the precision."""

    @abstractmethod
    def _doubles(self, values: Any) -> RealRows:
        """Values of the precision, exactly, in an array of NumPy's."""

"""The NumPy backend: always available, and the reference for the others.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.backends.registry import FrequencyRule, Reduced, ReducedFiller, Status, WaveFiller
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT64, DType
from posenc_cli.numerics.rounding import narrow, round_to, singles_to_bfloat16
from posenc_cli.numerics.waves import WaveTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from numpy.typing import ArrayLike

    from posenc_cli.numerics.arrays import Floats, Integers, RealRows, Reals, StoredRows
    from posenc_cli.numerics.placements import Placement


class ReducedWaves(ABC):
    """cos and sin of position · frequency in a given precision, by the arrays of some library."""

    def fill(
        self,
        out: StoredRows,
        positions: Integers | Reals,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position.

        Shape: ``positions`` (P,) int64, or float64 if some are not integers; ``out`` (P, columns)
        in the storage of ``dtype``.
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
        """Return position · frequency computed in the precision, then reduced to (−π, π].

        Shape: (positions, frequencies).
        """
        with np.errstate(all="ignore"):
            turns = np.remainder(self._doubles(self._products(positions)), 2 * np.pi)
            return narrow(np.where(turns > np.pi, turns - 2 * np.pi, turns), None, dtype)

    @abstractmethod
    def _products(self, positions: Integers | Reals) -> Any:
        """Return positions · frequencies, (P, frequencies), in the precision."""

    @abstractmethod
    def _scaled_values(self, angles: Any, function: Literal["cos", "sin"]) -> Any:
        """Return the scaled cosine or sine of some angles, in the precision."""

    @abstractmethod
    def _doubles(self, values: Any) -> RealRows:
        """Return values of the precision exactly, as a float64 NumPy array."""


FEW_VALUES = 1 << 15  # values that take each step together: temporary arrays stay near the cache


class NumpyBackend:
    """Waves by NumPy, on the CPU."""

    name = "numpy"
    block_values: int | None = None
    call_values: int | None = None

    def status(self) -> Status:
        """Return the status: NumPy is a dependency, so it is always available."""
        return Status(True, np.__version__, ("cpu",), "always installed; the reference")

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Return waves whose every entry is correctly rounded."""
        return WaveTable(frequencies, scale=scale)

    def reduced(
        self, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: str | None
    ) -> ReducedFiller:
        """Return waves as NumPy code in that precision computes them."""
        return NumpyReducedWaves(rule, scale=scale, arithmetic=arithmetic)

    def frequencies(self, rule: FrequencyRule, *, arithmetic: Reduced, device: str | None) -> Reals:
        """Return the frequencies as NumPy code in that precision computes them."""
        return Rounding(arithmetic).frequencies(rule).astype(np.float64)


class ReducedNamespace:
    """NumPy, with arrays in one precision instead of NumPy's default.

    >>> xp = ReducedNamespace(np.dtype("float32"))
    >>> (1 / 10_000.0 ** (xp.arange(0, 4, 2) / 4)).dtype
    dtype('float32')
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.float64 = dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def arange(self, *bounds: int) -> Floats:
        """Return integers in the precision."""
        return np.arange(*bounds).astype(self.float64)

    def asarray(self, values: Any, dtype: Any = None) -> Floats:
        """Return values in the precision."""
        return np.asarray(values, dtype=dtype or self.float64)


class Rounding:
    """The steps of a computation in one precision: bfloat16 is float32, rounded at each step."""

    def __init__(self, arithmetic: Reduced) -> None:
        self.dtype = np.dtype("float64" if arithmetic == "float64" else "float32")
        self.namespace = ReducedNamespace(self.dtype)
        self._bfloat16 = arithmetic == "bfloat16"

    def __call__(self, values: ArrayLike) -> Floats:
        """Return ``values`` in the precision."""
        if not self._bfloat16:
            return np.asarray(values, dtype=self.dtype)
        if isinstance(values, np.ndarray) and values.dtype == np.float32:
            return singles_to_bfloat16(values)
        wide = np.asarray(values, dtype=np.float64)
        return round_to(wide, FLOAT64, BFLOAT16).astype(np.float32)

    def frequencies(self, rule: FrequencyRule) -> Floats:
        """Return a rule's frequencies in the precision; overflow gives infinity or 0."""
        with np.errstate(all="ignore"):
            return self(rule(self.namespace))


class NumpyReducedWaves(ReducedWaves):
    """cos and sin of position · frequency, every step rounded to a precision by NumPy."""

    def __init__(self, rule: FrequencyRule, *, scale: float, arithmetic: Reduced) -> None:
        self._rounding = Rounding(arithmetic)
        self._frequencies = self._rounding.frequencies(rule)  # (frequencies,)
        # A scalar of the precision: a float64 scalar would widen the product.
        self._scale = self._rounding.dtype.type(scale)

    def fill(
        self,
        out: StoredRows,
        positions: Integers | Reals,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out`` as `ReducedWaves` does, a few rows at a time."""
        step = max(1, FEW_VALUES // max(1, self._frequencies.size))
        for start in range(0, positions.size, step):
            rows = slice(start, start + step)
            super().fill(out[rows], positions[rows], placements, dtype=dtype)

    def _products(self, positions: Integers | Reals) -> Floats:
        rounding = self._rounding
        return rounding(rounding(positions)[:, None] * self._frequencies)  # (P, frequencies)

    def _scaled_values(self, angles: Floats, function: Literal["cos", "sin"]) -> Floats:
        values = self._rounding(np.cos(angles) if function == "cos" else np.sin(angles))
        return values if self._scale == 1 else self._rounding(values * self._scale)

    def _doubles(self, values: Floats) -> RealRows:
        return values.astype(np.float64)

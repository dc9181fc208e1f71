"""The interface of a backend: a library that computes waves, exactly or as its users' code does.

Every backend gives the same bytes for exact arithmetic. For the arithmetic of frameworks
(``--arithmetic float32`` …) each gives the values that its own library computes in that precision.
Rows and scores, which are formulas of integers, are always computed by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.backends.numpy import NumpyBackend
    from posenc_cli.backends.torch import TorchBackend
    from posenc_cli.numerics.arrays import Integers, Reals, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement

Arithmetic = Literal["exact", "float64", "float32", "bfloat16"]
Reduced = Literal["float64", "float32", "bfloat16"]

FrequencyRule = Callable[[Any], Any]
"""A scheme's frequencies over an array namespace: ``rule(xp)`` → (K,)."""


class Status(Record):
    """Whether a backend can be used here.

    ``reason`` tells why it cannot, or what it is good for. ``devices`` are values of ``--device``.
    """

    available: bool
    version: str | None
    devices: tuple[str, ...]
    reason: str


class WaveFiller(Protocol):
    """Fills columns of a block of rows with the cosines and sines of some waves."""

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position.

        Threads may fill different rows of one array at the same time.

        Shape: ``positions`` (P,) int64; ``out`` (P, columns) in the storage of ``dtype``.
        """

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return the angles position · frequency in (−π, π], in the storage of ``dtype``.

        Units: radians.
        Shape: (positions, frequencies).
        """


class ReducedFiller(Protocol):
    """A `WaveFiller` that computes in a given precision and accepts non-integer positions."""

    def fill(
        self,
        out: StoredRows,
        positions: Integers | Reals,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position.

        Shape: ``positions`` (P,) int64, or float64 if some are not integers.
        """

    def angles(self, positions: Integers | Reals, *, dtype: DType) -> StoredRows:
        """Return the angles position · frequency in (−π, π], in the storage of ``dtype``."""


Backend: TypeAlias = "NumpyBackend | TorchBackend"
"""A library that computes waves, found by name; the kernel's backend is one of NumPy's."""

"""The interface of a backend: a library that computes waves, exactly or as its users' code does.

Every backend gives the same bytes for exact arithmetic. For the arithmetic of frameworks
(``--arithmetic float32`` …) each gives the values that its own library computes in that precision.
Rows and scores, which are formulas of integers, are always computed by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from posenc_cli.records import Record

if TYPE_CHECKING:
    from decimal import Decimal

    from posenc_cli.numerics.arrays import Integers, Reals, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement

Arithmetic = Literal["exact", "float64", "float32", "bfloat16"]
ARITHMETICS: tuple[Arithmetic, ...] = get_args(Arithmetic)
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


class Backend(Protocol):
    """A library that computes waves, found by name."""

    @property
    def name(self) -> str:
        """The name for ``--backend``."""

    @property
    def block_values(self) -> int | None:
        """The number of values it fills best at a time, or None if that does not matter."""

    @property
    def call_values(self) -> int | None:
        """The number of values it computes best in one call, into memory of the caller."""

    def status(self) -> Status:
        """Return whether it can be used here, and on which devices.

        ``auto`` asks for the status of CPU backends, so those must not import their library here.
        """

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Return waves whose every entry is correctly rounded.

        Units: frequencies in radians per position.
        Raises: Unavailable if the library or the device is missing or lacks float64.
        """

    def reduced(
        self, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: str | None
    ) -> ReducedFiller:
        """Return waves computed in one precision throughout, as code written with the library does.

        Positions, frequencies, their product, its cosine and the scaled cosine are each rounded to
        the precision. In bfloat16 the frequencies are evaluated in float32 and then rounded, as in
        a module that was built in float32 and cast.

        Raises: Unavailable if the library or the device is missing.
        """

    def frequencies(self, rule: FrequencyRule, *, arithmetic: Reduced, device: str | None) -> Reals:
        """Return the frequencies that ``reduced`` waves use, each held exactly by a float64.

        Raises: Unavailable if the library or the device is missing.
        """

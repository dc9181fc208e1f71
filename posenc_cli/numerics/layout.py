"""The columns of a table, laid out so that one formula serves them all.

Owns the two factors that angle addition multiplies, arranged column by column as the output wants
them: cosines and sines, halves or interleaved, come out of the same passes over memory, and the
bound of the error of every column.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli.numerics.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from posenc_cli.numerics.phasors import Phasors
    from posenc_cli.numerics.placements import Placement

UNIT = 2.0**-53
BATCHES_KEPT = 4


@dataclass(frozen=True)
class Columns:
    """Neighbouring or evenly spaced columns of the output, and the wave behind each.

    Shape: ``waves``, ``sine`` and ``zero`` (columns,); ``target`` selects them in the output.
    """

    target: slice
    waves: NDArray[Any]
    sine: NDArray[Any]
    zero: NDArray[Any]

    @property
    def key(self) -> tuple[bytes, bytes, bytes]:
        """What their tables depend on."""
        return self.waves.tobytes(), self.sine.tobytes(), self.zero.tobytes()


def columns_of(placements: Sequence[Placement], *, width: int, waves: int) -> list[Columns]:
    """Return the columns the placements fill: one group where together they are a plain range.

    Shape: ``width`` is the number of columns of the output, ``waves`` that of the frequencies.
    Raises: ValueError: a placement with another number of columns than waves.
    """
    wave = np.zeros(width, np.intp)
    sine, zero = np.zeros(width, bool), np.zeros(width, bool)
    owners = np.zeros(width, np.intp)
    each = []
    for placement in placements:
        target = placement.columns
        count = len(range(width)[target])
        if placement.function == "zero":
            selected = np.zeros(count, np.intp)
        else:
            selected = np.arange(waves)[placement.waves]
            if selected.size != count:
                raise ValueError(f"{count} columns cannot hold {selected.size} waves")
        wave[target] = selected
        sine[target] = placement.function == "sin"
        zero[target] = placement.function == "zero"
        owners[target] += 1
        each.append(Columns(target, wave[target].copy(), sine[target].copy(), zero[target].copy()))
    owned = np.flatnonzero(owners)
    if owned.size == 0:
        return []
    first, last = int(owned[0]), int(owned[-1]) + 1
    if (owners[first:last] == 1).all():
        target = slice(first, last)
        return [Columns(target, wave[target], sine[target], zero[target])]
    return each


class Batch(NamedTuple):
    """U[a] and V[a] of some multiples a, and bounds of their cells: (multiples, columns) each."""

    first: NDArray[Any]
    second: NDArray[Any]
    bounds: NDArray[Any]


class Factors:
    """X[b] and Y[b] of every column, for every b below ``rows`` or for the offsets given.

    Shape: ``first`` (X) and ``second`` (Y) are (offsets, columns), contiguous float64.
    """

    def __init__(
        self, columns: Columns, phasors: Phasors, offsets: NDArray[Any] | None = None
    ) -> None:
        self.columns = columns
        self.phasors = phasors
        cosines, sines = phasors.low(offsets)
        cosines = np.take(cosines, columns.waves, axis=1)
        sines = np.take(sines, columns.waves, axis=1)
        # Row after row in memory: selecting columns with an index would leave columns together.
        self.first = np.where(columns.sine, sines, cosines)
        self.second = np.where(columns.sine, cosines, sines)
        self.first[:, columns.zero] = self.second[:, columns.zero] = 0.0
        self._reach_first = np.abs(self.first).max(axis=0)
        self._reach_second = np.abs(self.second).max(axis=0)
        rates = np.array([abs(float(frequency)) for frequency in phasors.frequencies] or [0.0])
        self._steps = rates[columns.waves] * phasors.rows
        # −0.0 must not come out of a wave that does not turn.
        turning = np.array([bool(frequency) for frequency in phasors.frequencies] or [False])
        self._odd = columns.sine & turning[columns.waves]
        self._batches = Kept[Batch](BATCHES_KEPT)

    def high(
        self, multiples: NDArray[Any], negative: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return U[a] and V[a] of every column, with the sines' signs of negative positions.

        Shape: (multiples, columns) each.
        """
        columns = self.columns
        cosines, sines = self.phasors.high(multiples)
        first = np.take(cosines, columns.waves, axis=1)
        second = np.take(sines, columns.waves, axis=1)
        second[:, ~columns.sine] *= -1.0
        if negative is not None and negative.any():
            flipped = negative[:, None] & self._odd[None, :]
            first, second = np.where(flipped, -first, first), np.where(flipped, -second, second)
        first[:, columns.zero] = second[:, columns.zero] = 0.0
        return first, second

    def batch(self, index: int, *, scale: float) -> Batch:
        """Return the high factors of the multiples from ``index`` · ``batch_size`` on.

        A table is filled a block at a time, and small arrays cost as much as large ones: what the
        next blocks will ask for is computed along and kept.
        """

        def ahead() -> Batch:
            multiples = np.arange(index * self.batch_size, (index + 1) * self.batch_size)
            first, second = self.high(multiples)
            return Batch(first, second, self.bounds(multiples, first, second, scale))

        return self._batches.get(index, ahead)

    @property
    def batch_size(self) -> int:
        """The multiples of a batch: 2048 factors or so."""
        return max(1, 2048 // int(self.first.shape[1]))

    def bounds(
        self, multiples: NDArray[Any], first: NDArray[Any], second: NDArray[Any], scale: float
    ) -> NDArray[Any]:
        """Return a bound of (|X U| + |Y V|) of every column, times 1 + 2^−30.

        It is at most the scale's magnitude, and as small as the cells where all angles are.
        Elsewhere 2^−36 of the scale is added, for what double-double loses to cancellation: u times
        that is 2^−89.

        Shape: (multiples, columns).
        """
        bound = self._reach_first * np.abs(first) + self._reach_second * np.abs(second)
        cancelling = (multiples[:, None] + 1.0) * self._steps > 0.5
        bound += np.where(cancelling & ~self.columns.zero, scale * 2.0**-36, 0.0)
        capped: NDArray[Any] = np.minimum(bound, scale)
        return capped * (1 + 2.0**-30)

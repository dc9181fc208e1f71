"""From waves at rows to what they are: rates a row, and the positions at which rows stand.

Owns three steps. Rates, from rows that follow one another evenly. Signals, the cosine and sine of
a wave of which one function is known. Positions, from the phases of pairs whose frequencies are
supposed: the slowest pair says roughly where a row stands, each faster one more exactly.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.fitting import fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EVEN = 0.12
"""Radians: phases of float32 code at positions to a million, or of half precision tables."""
_MOST_TURNS = 96
_FARTHEST = 1 << 21


@dataclass(frozen=True)
class Rates:
    """Radians a row of each pair, what they may be off by, and the rows they were found on."""

    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    rows: int
    complete: bool


def rates_of(
    pairs: NDArray[np.complex128], rows: NDArray[np.int64], rounding: float
) -> Rates | None:
    """The rates of waves over the first rows, as far as these follow one another evenly.

    ``pairs`` (rows, pairs) have the size 1; ``rounding`` is what their format leaves of a phase.
    """
    gaps = np.flatnonzero(np.diff(rows) != 1)
    count = int(gaps[0]) + 1 if gaps.size else rows.size
    if count < 2:
        return None
    some = pairs[:count]
    steps = some[1:] * some[:-1].conj()
    uneven = np.abs(np.angle(steps * steps[0].conj())).max(axis=1) > _EVEN + 4 * rounding
    even = int(np.argmax(uneven)) + 1 if uneven.any() else count
    where = np.arange(even, dtype=np.int64)
    rotations = fitted(where, some[:even])
    left = np.abs(np.angle(some[:even] / rotations.at(where) * np.abs(rotations.amplitudes)))
    noise = np.maximum(np.sqrt(np.mean(left**2, axis=0)), rounding)
    span = max(even - 1, 1)
    errors = 4 * noise / (span * np.sqrt(max(even, 6) / 6)) + 1.5e-6 * np.abs(rotations.frequencies)
    return Rates(rotations.frequencies, errors, even, even == count)


def signal_of(columns: NDArray[np.float64]) -> NDArray[np.complex128] | None:
    """The waves amplitude · exp(i·(ω·row + φ)), ω > 0, whose real parts columns are nearest to.

    None where the columns are no waves. Shape: that of the columns.

    >>> rows = np.arange(50)
    >>> wave = signal_of(np.cos(0.3 * rows + 0.5)[:, None])
    >>> bool(abs(wave[7, 0] - np.exp(1j * (0.3 * 7 + 0.5))) < 1e-9)
    True
    """
    count = columns.shape[0]
    largest = float(np.abs(columns).max())
    if largest == 0:
        return None
    rates = _recurrent(columns)
    rows = np.arange(count, dtype=np.float64)
    out = np.empty(columns.shape, np.complex128)
    for pair in range(columns.shape[1]):
        rate, real, imaginary = _polished(columns[:, pair], float(rates[pair]), largest)
        out[:, pair] = (real - 1j * imaginary) * np.exp(1j * rate * rows)
    missed = np.abs(out.real - columns).max()
    return out if missed <= 0.03 * largest else None


def _recurrent(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rates from x[r+k] + x[r−k] = 2·cos(k·ω)·x[r], for k = 1, 2, 4, …"""
    count = columns.shape[0]
    rates: NDArray[np.float64] = np.zeros(columns.shape[1])
    step = 1
    while 2 * step < count:
        middle = columns[step:-step]
        power = (middle**2).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = (middle * (columns[2 * step :] + columns[: -2 * step])).sum(axis=0) / (
                2 * power
            )
        angles = np.arccos(np.clip(np.where(np.isfinite(cosines), cosines, 1.0), -1, 1))
        if step == 1:
            rates = angles
        else:
            turns = np.round((rates * step - angles) / (2 * np.pi))
            back = np.round((rates * step + angles) / (2 * np.pi))
            ahead = (angles + 2 * np.pi * turns) / step
            behind = (-angles + 2 * np.pi * back) / step
            nearer = np.abs(ahead - rates) <= np.abs(behind - rates)
            rates = np.abs(np.where(nearer, ahead, behind))
        if step >= 32:
            break
        step *= 2
    return rates


def _polished(
    column: NDArray[np.float64], rate: float, amplitude: float
) -> tuple[float, float, float]:
    """A wave a·cos(ω·r) + b·sin(ω·r) near a column: ω, a and b, by Gauss and Newton's steps.

    A wave too slow to show its curve is given the common amplitude.
    """
    rows = np.arange(column.size, dtype=np.float64)
    best = (np.inf, rate, column[0], 0.0)
    for start in (rate, rate * 0.5, 1e-3, 1e-5):
        value = start
        for _ in range(24):
            cos, sin = np.cos(value * rows), np.sin(value * rows)
            design = np.stack([cos, sin], axis=1)
            (a, b), *_ = np.linalg.lstsq(design, column, rcond=1e-12)
            missed = column - design @ (a, b)
            error = float(missed @ missed)
            if np.hypot(a, b) < 1.5 * amplitude and error < best[0]:
                best = (error, value, float(a), float(b))
            slope = rows * (b * cos - a * sin)
            power = float(slope @ slope)
            if power == 0:
                break
            change = float(slope @ missed) / power
            if abs(change) < 1e-15:
                break
            value = abs(value + change)
        if best[0] <= 1e-9 * column.size * amplitude**2:
            break
    _, rate, real, imaginary = best
    return rate, real, imaginary


def positions_at(
    pairs: NDArray[np.complex128],
    frequencies: NDArray[np.float64],
    *,
    signed: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Where rows stand if their pairs turn with ``frequencies``, and how badly that fits.

    The misfit is the mean distance of a row's pairs from the points on the circle they should be.
    ``signed`` looks at small negative positions too.
    Shape: both (rows,).
    """
    turning = np.flatnonzero(frequencies > 0)
    order = turning[np.argsort(frequencies[turning], kind="stable")]
    if order.size == 0:
        return np.zeros(pairs.shape[0], np.int64), np.full(pairs.shape[0], np.inf)
    phases = np.angle(pairs[:, order]) % (2 * np.pi)
    rates = frequencies[order]
    wavelength = 2 * np.pi / rates[0]
    turns = np.arange(-1 if signed else 0, int(np.clip(_FARTHEST / wavelength, 1, _MOST_TURNS)) + 1)
    found = phases[:, :1] / rates[0] + wavelength * turns[None, :]
    for index in range(1, order.size):
        rate = rates[index]
        wanted = np.round((found * rate - phases[:, index : index + 1]) / (2 * np.pi))
        found = (phases[:, index : index + 1] + 2 * np.pi * wanted) / rate
    whole = np.round(found)
    if not signed:
        whole = np.maximum(whole, 0)
    misfits = np.empty(whole.shape)
    for turn in range(whole.shape[1]):
        angles = np.multiply.outer(whole[:, turn], rates)
        misfits[:, turn] = np.abs(np.exp(1j * (angles - phases)) - 1).mean(axis=1)
    best = np.argmin(misfits, axis=1)
    every = np.arange(pairs.shape[0])
    return whole[every, best].astype(np.int64), misfits[every, best]

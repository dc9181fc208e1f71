"""Fit the rotation that a subject performs: one frequency for each pair.

In: factors at positions. Out: frequencies and amplitudes. Phases wrap, so a rate is found from
adjacent positions first. It is then sharpened over windows that double in length: in each window,
the phases that remain are small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import (
        Complexes,
        ComplexRows,
        Integers,
        NumberArray,
        RealRows,
        Reals,
    )

_LONGEST = 1 << 14
"""Longest span of positions whose spectrum is computed; longer ones take too long."""


_HUGE = 1e100
"""Larger numbers are not factors of a rotation, and their products would overflow."""


class Rotations(Record):
    """Factors amplitude · exp(i·p·ω), with one ω and one complex amplitude per pair.

    ``gap`` is the smallest distance between positions: frequencies are known modulo 2π/gap.
    ``axes`` has the axis of each pair, whose coordinate is the position p; None without axes.
    """

    frequencies: Reals
    amplitudes: Complexes
    gap: int
    axes: tuple[int, ...] | None = None

    def at(self, positions: Integers) -> ComplexRows:
        """Return the factors at positions (P,), or at coordinates (P, pairs). Shape: (P, pairs)."""
        unit_factors: ComplexRows = np.exp(1j * _angles(positions, self.frequencies))
        return unit_factors * self.amplitudes


def phasors(angles: RealRows) -> ComplexRows:
    """Return cos + i·sin of angles, in half the time of an exponential."""
    out = np.empty(angles.shape, np.complex128)
    out.real, out.imag = np.cos(angles), np.sin(angles)
    return out


def _angles(positions: Integers, frequencies: Reals) -> RealRows:
    """Return positions (P,), or coordinates (P, pairs), times frequencies. Shape: (P, pairs)."""
    coordinates = positions.astype(np.float64).reshape(positions.shape[0], -1)
    return np.asarray(coordinates * frequencies, np.float64)


def _usable_factors(factors: ComplexRows) -> ComplexRows:
    """Return the factors, with 0 for NaN, infinite and huge ones."""
    return np.where(np.abs(factors) <= _HUGE, factors, 0)


def fit(positions: Integers, factors: ComplexRows, *, growth: float = 1.0) -> Rotations:
    """Return the rotations nearest to ``factors`` (P, pairs) at ``positions`` (P,).

    Errors are assumed to grow as 1 + ``growth`` · |angle|.

    >>> at = np.arange(40)
    >>> factors = 1.5 * np.exp(1j * np.multiply.outer(at, [1.0, -0.01]))
    >>> [round(float(f), 9) for f in fit(at, factors).frequencies]
    [1.0, -0.01]
    """
    order = np.argsort(positions, kind="stable")
    distinct, first = np.unique(positions[order], return_index=True)
    values = _usable_factors(factors[order][first])  # (P, pairs)
    if distinct.size == 1:
        return Rotations(np.zeros(values.shape[1]), values[0], 1)
    steps = np.diff(distinct)
    gap = int(steps.min())
    near = np.flatnonzero(steps == gap)
    rates = np.angle((values[near].conj() * values[near + 1]).sum(axis=0)) / gap  # (pairs,)
    reach, last = 2 * gap, int(distinct[-1] - distinct[0])
    while True:
        rates = _sharpen(distinct, values, rates, reach)
        if reach >= last:
            break
        reach *= 2
    rotations = _refine(distinct, values, rates, gap, growth)
    sparse = distinct.size < 256 and int(median(steps)) > 1
    if last > _LONGEST or not sparse:
        return rotations
    # Sparse positions have few adjacent ones: the peaks of their spectra are the rates.
    by_spectra = _refine(distinct, values, _peaks(distinct, values), gap, growth)
    nearer = _largest_errors(by_spectra, distinct, values) < _largest_errors(
        rotations, distinct, values
    )
    return Rotations(
        np.where(nearer, by_spectra.frequencies, rotations.frequencies),
        np.where(nearer, by_spectra.amplitudes, rotations.amplitudes),
        gap,
    )


def fit_on_axes(coordinates: Integers, factors: ComplexRows, *, growth: float = 1.0) -> Rotations:
    """Return the rotations nearest to ``factors`` (P, pairs), each pair along one of (P, axes).

    >>> grid = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    >>> rotations = fit_on_axes(grid, np.exp(1j * grid * [0.5, -0.25]))
    >>> rotations.axes, [round(float(f), 9) for f in rotations.frequencies]
    ((0, 1), [0.5, -0.25])
    """
    values = _usable_factors(factors)
    tried = [fit(axis, factors, growth=growth) for axis in coordinates.T]
    missed = [
        np.abs(values - rotations.at(along)).max(axis=0)
        for rotations, along in zip(tried, coordinates.T, strict=True)
    ]
    nearest = np.argmin(missed, axis=0)  # (pairs,)
    pairs = np.arange(nearest.size)
    return Rotations(
        np.stack([rotations.frequencies for rotations in tried])[nearest, pairs],
        np.stack([rotations.amplitudes for rotations in tried])[nearest, pairs],
        max(rotations.gap for rotations in tried),
        tuple(nearest.tolist()),
    )


def _refine(
    positions: Integers,
    values: ComplexRows,
    rates: Reals,
    gap: int,
    growth: float,
) -> Rotations:
    for _ in range(2):
        rates = _refit(positions, values, rates, growth)
    return Rotations(rates, _amplitudes(positions, values, rates, growth), gap)


def _largest_errors(rotations: Rotations, positions: Integers, values: ComplexRows) -> Reals:
    return np.asarray(np.abs(values - rotations.at(positions)).max(axis=0))


def _peaks(positions: Integers, values: ComplexRows) -> Reals:
    """Return the rate at the peak of each pair's spectrum, to a fraction of its width."""
    offsets = positions - positions[0]
    length = 4 << int(offsets[-1]).bit_length()
    rates = np.empty(values.shape[1])
    for pair in range(values.shape[1]):
        signal = np.zeros(length, np.complex128)
        signal[offsets] = values[:, pair]
        peak = int(np.argmax(np.abs(np.fft.fft(signal))))
        rates[pair] = 2 * np.pi * ((peak + length // 2) % length - length // 2) / length
    return rates


def with_frequencies(
    positions: Integers,
    factors: ComplexRows,
    frequencies: Reals,
    *,
    growth: float = 1.0,
) -> Rotations:
    """Return the rotations of given frequencies that are nearest to ``factors``."""
    amplitudes = _amplitudes(positions, _usable_factors(factors), frequencies, growth)
    return Rotations(frequencies, amplitudes, 1)


def _sharpen(
    positions: Integers,
    values: ComplexRows,
    rates: Reals,
    reach: int,
) -> Reals:
    """Return the rates, corrected by the slopes of the remaining phases within a window."""
    window = positions - positions[0] <= reach
    if window.sum() < 2:
        return rates
    near = positions[window].astype(np.float64)
    rest = values[window] * np.exp(-1j * np.multiply.outer(near, rates))
    phases = np.angle(rest * rest.mean(axis=0).conj())  # (window, pairs)
    centred = near - near.mean()
    correction: Reals = (centred @ phases) / (centred @ centred)
    return rates + correction


def _weights(positions: Integers, rates: Reals, growth: float) -> RealRows:
    """Return the weights of phases, whose errors grow with the angle as in float32 code."""
    angles = _angles(np.abs(positions), np.abs(rates))
    return np.asarray((1 + growth * angles) ** -2.0)


def _refit(
    positions: Integers,
    values: ComplexRows,
    rates: Reals,
    growth: float,
) -> Reals:
    """Return the rates, corrected by a weighted line through all remaining phases."""
    points = positions.astype(np.float64)
    rest = values * np.exp(-1j * np.multiply.outer(points, rates))  # (P, pairs)
    weights = _weights(positions, rates, growth)
    total = weights.sum(axis=0)
    phases = np.angle(rest * (weights * rest).sum(axis=0).conj())
    centred = points[:, None] - (weights * points[:, None]).sum(axis=0) / total
    slopes = (weights * centred * phases).sum(axis=0) / (weights * centred**2).sum(
        axis=0
    )  # (pairs,)
    return np.asarray(rates + slopes)


def _amplitudes(
    positions: Integers,
    values: ComplexRows,
    rates: Reals,
    growth: float,
) -> ComplexRows:
    """Return the amplitudes: the median magnitude and the mean phase after removing the rates.

    The magnitude of the mean would be too small, since the phases scatter.
    """
    rest = values * np.exp(-1j * _angles(positions, rates))
    mean = (rest * _weights(positions, rates, growth)).sum(axis=0)
    size = np.abs(mean)  # (pairs,)
    direction = np.where(size > 0, mean / np.where(size > 0, size, 1), 1)
    return np.asarray(median(np.abs(values), axis=0) * direction)


def unwrapped(angles: RealRows, rates: Reals, turns: Integers) -> RealRows:
    """Return the positions that the angles (n, waves) of waves of increasing rates show.

    ``turns`` are numbers of full rotations of the slowest wave. Shape: (n, turns).

    >>> rates = np.array([0.01, 1.0])
    >>> unwrapped(np.array([[0.07, 7 - 2 * np.pi]]), rates, np.array([0]))
    array([[7.]])
    """
    read = (angles[:, :1] + 2 * np.pi * turns) / rates[0]
    for index in range(1, rates.size):
        angle = angles[:, index : index + 1]
        wraps = np.round((read * rates[index] - angle) / (2 * np.pi))
        read = (angle + 2 * np.pi * wraps) / rates[index]
    return np.asarray(np.clip(read, -(2.0**53), 2.0**53), np.float64)


def spread(count: int, most: int) -> Integers:
    """Return at most ``most`` of ``count`` rows, evenly spaced from the first to the last.

    >>> spread(10, 4).tolist()
    [0, 3, 6, 9]
    """
    rows = np.linspace(0, count - 1, most).astype(np.int64)
    return rows[np.diff(rows, prepend=-1) > 0]  # np.unique imports numpy.ma


def common_line(
    positions: NumberArray, rows: Integers, step: int | None = None
) -> tuple[int, int, int]:
    """Return the position at row 0 and the step of the line that most rows share, and their number.

    >>> common_line(np.array([7, 9, 0, 13]), np.arange(4))
    (7, 2, 3)
    """
    if step is None:
        step = int(median(np.diff(positions) / np.diff(rows)))
    starts, counts = np.unique(positions - step * rows, return_counts=True)
    most = int(np.argmax(counts))
    return int(starts[most]), step, int(counts[most])


def median(values: NumberArray, axis: int | None = None) -> Any:
    """Return the median without NaN values; NaN if there are no others.

    NumPy's own imports numpy.ma, and then takes ten times as long on NaN values.

    >>> float(median(np.array([3.0, np.nan, 1.0, 2.0, 6.0])))
    2.5
    """
    ordered, along = np.sort(values, axis=axis), axis or 0  # NaN is sorted last
    known = (~np.isnan(ordered)).sum(axis=along, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, np.maximum(at, 0), along)
        for at in ((known - 1) // 2, known // 2)
    )
    return np.squeeze((low + high) / 2, along)

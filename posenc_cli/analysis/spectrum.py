"""The spectrum of an encoding: the wavelength of each pair, or the power of each column.

Waves have wavelengths and rotations, and the changes that an extended rotary scheme made to each.
Other columns have a power spectrum along the positions.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.encoded import wavelengths
from posenc_cli.analysis.similarity import finite_or_none
from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from posenc_cli.positions import Positions
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from posenc_cli.analysis.products import MatrixRows
    from posenc_cli.encoding.request import Encoding
    from posenc_cli.formulas.declare import Bound, Waves
    from posenc_cli.numerics.arrays import RealRows, Reals

Along = Literal["positions", "offsets"]
Zone = Literal["kept", "blended", "interpolated", "quickened", "still"]

DEFAULT_CONTEXT = 4096


_SAME = 1e-12
"""Relative tolerance for ratios of 60-digit frequencies to floats from users."""
_TRANSFORMED_ROWS = 1 << 20
_TRANSFORMED_VALUES = 1 << 20  # at a time, in whole columns


class Stretch(Record):
    """The changes that a rule made to the waves of plain RoPE.

    ``wavelengths`` and ``turns`` are those of plain RoPE. ``ratio`` is the factor by which each
    wavelength grew, infinite for frequency 0.

    Shape: (waves,) each.
    """

    wavelengths: Reals
    turns: Reals
    ratio: Reals
    zones: tuple[Zone, ...]


class WaveSpectrum(Record):
    """The waves of an encoding, in the order of its pairs.

    ``turns`` counts their full turns within the context, or within the extent of the axis that they
    follow; ``axes`` names the axes. A wave of frequency 0 has no finite wavelength. ``along`` says
    whether rows are positions or offsets, the unit of a wavelength.

    Shape: (waves,) each.

    Units: frequencies in radians, wavelengths in positions or offsets.
    """

    context: int
    frequencies: Reals
    wavelengths: Reals
    turns: Reals
    stretch: Stretch | None
    axes: tuple[int, ...] | None
    along: Along = "positions"

    @property
    def incomplete(self) -> tuple[int, ...]:
        """The pairs with a wavelength longer than the context."""
        return tuple(np.flatnonzero(self.turns < 1).tolist())


def context_of(
    encoding: Encoding, positions: Positions | None, stated: tuple[int, str] | None = None
) -> tuple[int, str]:
    """The context length for counting rotations, and its source.

    ``stated`` is what a model's config states.
    """
    if positions is not None:
        span = positions.last - positions.first + 1
        return span, "the positions asked for"
    waves = encoding.bound.content.waves
    if waves is not None and waves.capacity is not None:
        return waves.capacity.positions, "all its positions"
    if stated is not None:
        return stated
    for name in ("original_max_position_embeddings", "max_position_embeddings"):
        given = encoding.bound.params.get(name)
        if given:
            return int(given), name
    return DEFAULT_CONTEXT, "default"


def wave_spectrum(bound: Bound, context: int, positions: Positions | None = None) -> WaveSpectrum:
    """The waves of a scheme that is made of waves.

    ``positions`` are the positions for waves along axes; by default the first of the context.
    """
    waves = bound.content.waves
    assert waves is not None
    frequencies = list(waves.frequencies(exact))
    extents: Reals | float = float(context)
    coordinates = waves.coordinates
    if coordinates is not None and coordinates.at is not None:
        extents = _extents(waves, context, positions)
    lengths = wavelengths(frequencies)
    if coordinates is not None:
        lengths = lengths / np.array(coordinates.step_of_each(), np.float64)
    return WaveSpectrum(
        context=context,
        frequencies=np.array([*map(float, frequencies)]),
        wavelengths=lengths,
        turns=_turns(extents, lengths),
        stretch=_stretch(bound, frequencies, context) if coordinates is None else None,
        axes=coordinates.axes if coordinates else None,
        along=along(bound),
    )


def along(bound: Bound) -> Along:
    """Whether the rows of a scheme are positions or offsets."""
    return "offsets" if bound.scheme.kind == "relative" else "positions"


def _extents(waves: Waves, context: int, positions: Positions | None) -> Reals:
    """The number of coordinates on each wave's axis."""
    from posenc_cli.encoding.arrays import position_array

    coordinates = waves.coordinates
    assert coordinates is not None
    assert coordinates.at is not None
    capacity = coordinates.capacity.positions if coordinates.capacity else context
    places = positions or Positions.contiguous(0, capacity)
    if set(coordinates.axes) == {0}:  # one axis, which runs with the positions
        first, last = places.first, places.last
        places = Positions((range(first, first + 1), range(last, last + 1)))
    asked = positions.option if positions else "the grid"
    check_size(asked, places.count, HELD_VALUES, "places on axes")
    lows, highs = [], []  # (blocks, axes)
    for part in places.blocks(_TRANSFORMED_ROWS):
        axes = [np.asarray(axis) for axis in coordinates.at(position_array(part))]
        lows.append([int(axis.min()) for axis in axes])
        highs.append([int(axis.max()) for axis in axes])
    reach = np.asarray(np.max(highs, axis=0) - np.min(lows, axis=0), np.float64)  # (axes,)
    steps = np.array(coordinates.step_of_each(), np.float64)
    return np.asarray(reach[np.array(coordinates.axes)] / steps + 1)


def _turns(extents: Reals | float, wavelengths: Reals) -> Reals:
    """The full turns within some extents; infinite if they overflow a float."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(extents / wavelengths)


def _stretch(bound: Bound, frequencies: list[Decimal], context: int) -> Stretch | None:
    """The changes to plain RoPE's waves, for a rotary scheme with a factor and a base."""
    params = bound.params
    if bound.scheme.kind != "rotary" or "base" not in params or "factor" not in params:
        return None
    from posenc_cli.formulas.rotary import ladder

    plain = list(ladder(exact, 2 * len(frequencies), params["base"]))
    ratios = [float(ratio) for ratio in exact.asarray(plain) / exact.asarray(frequencies)]
    finite = [ratio for ratio in ratios if math.isfinite(ratio)]
    factor = params["factor"] or max(finite, default=1.0)
    if "seq_len" in params and "original_max_position_embeddings" not in params:
        # A base that depends on the length changes the lowest frequency by more than the factor.
        factor = max(finite, default=1.0)
    before = wavelengths(plain)
    return Stretch(
        wavelengths=before,
        turns=_turns(float(context), before),
        ratio=np.array(ratios),
        zones=tuple(_zone(ratio, factor) for ratio in ratios),
    )


def same_ratio(ratio: Any, expected: float) -> Any:
    """Whether ratios equal an expected one, up to the rounding of numbers from users."""
    return abs(ratio / expected - 1) <= _SAME


def _zone(ratio: float, factor: float) -> Zone:
    if math.isinf(ratio):
        return "still"
    if same_ratio(ratio, 1.0):
        return "kept"
    if ratio < 1:
        return "quickened"
    return "interpolated" if ratio >= factor * (1 - _SAME) else "blended"


class PowerSpectrum(Record):
    """The power of columns along positions, without their means.

    ``power`` is the share of each wavelength in the power of all columns. ``dominant`` is the
    wavelength with the most power in each column, and ``share`` its share of the column's power,
    NaN for a column that is constant or not finite. ``dropped`` columns are not finite. Only the
    first ``transformed`` of ``count`` rows were used.

    Shape: ``wavelengths`` and ``power`` (rows // 2,), longest first; the others (columns,).
    """

    count: int
    transformed: int
    wavelengths: Reals
    power: Reals
    dominant: Reals
    share: Reals
    dropped: tuple[int, ...]
    along: Along = "positions"


def power_spectrum(rows: MatrixRows, *, name: str) -> PowerSpectrum:
    """The power spectrum of the columns of some rows, by a Fourier transform of each.

    Raises: InvalidInput if there are fewer than two rows, or no finite column.
    """
    if rows.count < 2:
        raise InvalidInput(f"{name}: has one row; a spectrum along positions needs at least two")
    count = min(rows.count, _TRANSFORMED_ROWS, max(2, HELD_VALUES // rows.width))
    bins = count // 2
    power, scale = np.zeros(bins), 0.0
    dominant, share = np.full(rows.width, np.nan), np.full(rows.width, np.nan)
    dropped: list[int] = []
    columns_of = rows.columns
    if columns_of is None:
        values = rows.read(range(count))

        def columns_of(first: int, which: slice) -> RealRows:
            return values[:first, which]

    step = max(1, _TRANSFORMED_VALUES // count)
    for begin in range(0, rows.width, step):
        part = columns_of(count, slice(begin, begin + step))  # (rows, columns)
        finite = np.isfinite(part).all(axis=0)
        dropped += (begin + np.flatnonzero(~finite)).tolist()
        largest = np.abs(part[:, finite]).max(axis=0, initial=0)
        columns = begin + np.flatnonzero(finite)[largest > 0]
        # Scaled to 1, so that no square overflows or underflows.
        largest = largest[largest > 0]
        unit = part[:, columns - begin] / largest
        columns_power = _column_power(unit)  # (bins, columns)
        total = columns_power.sum(axis=0)
        moving = total > 0  # a constant is all ones here, so it has no power
        best = columns_power[:, moving].argmax(axis=0)
        dominant[columns[moving]] = count / (best + 1)
        share[columns[moving]] = columns_power[best, np.flatnonzero(moving)] / total[moving]
        if moving.any():
            top = max(scale, float(largest[moving].max()))
            power *= (scale / top) ** 2
            power += columns_power[:, moving] @ (largest[moving] / top) ** 2
            scale = top
    if len(dropped) == rows.width:
        raise InvalidInput(f"{name}: no column is finite, so there is no spectrum")
    total_power = power.sum()
    return PowerSpectrum(
        count=rows.count,
        transformed=count,
        wavelengths=count / np.arange(1, bins + 1),
        power=power / total_power if total_power else power,
        dominant=dominant,
        share=share,
        dropped=tuple(dropped),
    )


def _column_power(values: RealRows) -> RealRows:
    """The power of each column at 1, 2, … full turns over all rows.

    Shape: values (rows, columns) → (rows // 2, columns).
    """
    count = len(values)
    transformed = np.fft.rfft(values - values.mean(axis=0), axis=0)[1:]
    power: RealRows = 2 * (transformed.real**2 + transformed.imag**2)
    if count % 2 == 0:
        power[-1] /= 2  # for an even number of rows, the highest frequency has no mirror image
    return power


def spectrum_fields(spectrum: WaveSpectrum) -> Mapping[str, Any]:
    """A spectrum of waves for JSON; an infinite wavelength is null."""
    stretch = spectrum.stretch
    return {
        "context": spectrum.context,
        "along": spectrum.along,
        "frequencies": finite_or_none(spectrum.frequencies),
        "wavelengths": finite_or_none(spectrum.wavelengths),
        "turns": finite_or_none(spectrum.turns),
        "axes": spectrum.axes,
        "incomplete": list(spectrum.incomplete),
        "zones": list(stretch.zones) if stretch else None,
        "stretch": finite_or_none(stretch.ratio) if stretch else None,
        "before": {
            "wavelengths": finite_or_none(stretch.wavelengths),
            "turns": finite_or_none(stretch.turns),
        }
        if stretch
        else None,
    }


class WaveDifference(Record):
    """The differences of all wavelengths from those of the same pairs of another encoding.

    ``ratio`` is the one farthest from 1, infinite for frequency 0, and ``at`` lists its pairs. If
    no pair differs, they are 1 and empty.
    """

    pairs: int
    differing: tuple[int, ...]
    ratio: float
    at: tuple[int, ...]


def wave_difference(first: WaveSpectrum, other: WaveSpectrum) -> WaveDifference | None:
    """The differences of another encoding's waves; None if their pairs do not correspond."""
    a, b = first.wavelengths, other.wavelengths
    if len(a) != len(b) or first.axes != other.axes or first.along != other.along:
        return None
    with np.errstate(invalid="ignore"):
        ratios = np.where(a == b, 1.0, b / a)  # also if both are infinite
    apart = ~same_ratio(ratios, 1.0)
    if not apart.any():
        return WaveDifference(len(a), (), 1.0, ())
    with np.errstate(divide="ignore"):
        farthest = float(ratios[np.abs(np.log(np.abs(ratios))).argmax()])
    at = np.flatnonzero(
        apart
        & (
            ratios == farthest
            if math.isinf(farthest) or not farthest
            else same_ratio(ratios, farthest)
        )
    )
    return WaveDifference(
        len(a), tuple(np.flatnonzero(apart).tolist()), farthest, tuple(at.tolist())
    )


class PowerDifference(Record):
    """The ``share`` of the power that lies at other wavelengths than in another encoding."""

    share: float


def power_difference(first: PowerSpectrum, other: PowerSpectrum) -> PowerDifference | None:
    """The difference in the power of two encodings' columns.

    None if their wavelengths differ, or one has no power.
    """
    if not first.power.any() or not other.power.any():
        return None
    if not np.array_equal(first.wavelengths, other.wavelengths) or first.along != other.along:
        return None
    return PowerDifference(float(np.abs(first.power - other.power).sum()) / 2)

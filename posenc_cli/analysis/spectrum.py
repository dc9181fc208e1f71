"""What an encoding is made of: the wavelength of each of its waves, or the power of each column.

Owns the wavelengths and turns of waves, what a stretched rotary scheme did to each, and from which
position on neighbours are the same row in a number format. Columns that are no waves have a power
spectrum along the positions instead.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.encoded import wavelengths
from posenc_cli.analysis.profile import wave_weights
from posenc_cli.analysis.similarity import finite_or_none
from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32
from posenc_cli.numerics.rounding import widen
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from posenc_cli.analysis.products import MatrixRows
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Encoding, Request
    from posenc_cli.formulas.declare import Bound, Waves
    from posenc_cli.numerics.arrays import RealRows, Reals
    from posenc_cli.numerics.dtypes import DType

Along = Literal["positions", "offsets"]
Zone = Literal["kept", "blended", "interpolated", "quickened", "still"]

DEFAULT_CONTEXT = 4096

NARROW = FLOAT16, BFLOAT16, FLOAT32
"""The formats in which neighbours are compared."""

_SAME = 1e-12
"""Relative: ratios of 60-digit frequencies to floats that users gave."""
_SEARCHED_VALUES = 1 << 26
_SEARCHED_GROWING = 1 << 22  # of waves with an amplitude of their own at each position
_TRANSFORMED_ROWS = 1 << 20
_TRANSFORMED_VALUES = 1 << 20  # at a time, in whole columns


class Stretch(Record):
    """What a rule did to the waves of plain RoPE: these are its, before.

    ``ratio`` is how many times longer each wavelength became, infinite where a wave stands still.

    Shape: (waves,) each.
    """

    wavelengths: Reals
    turns: Reals
    ratio: Reals
    zones: tuple[Zone, ...]


class WaveSpectrum(Record):
    """The waves of an encoding, in the order of its pairs.

    ``turns`` are those within the context, or of waves that follow an axis within its extent;
    ``axes`` names those. A wave of frequency 0 has no finite wavelength. ``along`` says what the
    rows are of, and so what a wavelength counts.

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
        """The pairs that never complete a turn in the context."""
        return tuple(np.flatnonzero(self.turns < 1).tolist())


def context_of(
    encoding: Encoding, positions: Positions | None, stated: tuple[int, str] | None = None
) -> tuple[int, str]:
    """The length of context that turns are counted in, and where it comes from.

    ``stated`` is what a model says of its context.
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

    ``positions`` say where waves along axes go, in place of the first of the context.
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
        frequencies=_floats(frequencies),
        wavelengths=lengths,
        turns=_turns(extents, lengths),
        stretch=_stretch(bound, frequencies, context) if coordinates is None else None,
        axes=coordinates.axes if coordinates else None,
        along=along(bound),
    )


def along(bound: Bound) -> Along:
    """What the rows of a scheme are of."""
    return "offsets" if bound.scheme.kind == "relative" else "positions"


def _extents(waves: Waves, context: int, positions: Positions | None) -> Reals:
    """How many places each wave's axis has."""
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
    extents: Reals = reach[np.array(coordinates.axes)] / steps + 1
    return extents


def _floats(numbers: list[Decimal]) -> Reals:
    return np.array([float(number) for number in numbers])


def _turns(extents: Reals | float, wavelengths: Reals) -> Reals:
    """Turns within some extents: infinitely many where a float holds them no more."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(extents / wavelengths)


def _stretch(bound: Bound, frequencies: list[Decimal], context: int) -> Stretch | None:
    """What became of plain RoPE's waves, for a rotary scheme with a factor and a base."""
    params = bound.params
    if bound.scheme.kind != "rotary" or "base" not in params or "factor" not in params:
        return None
    from posenc_cli.formulas.rotary import ladder

    plain = list(ladder(exact, 2 * len(frequencies), params["base"]))
    ratios = [float(ratio) for ratio in exact.asarray(plain) / exact.asarray(frequencies)]
    finite = [ratio for ratio in ratios if math.isfinite(ratio)]
    factor = params["factor"] or max(finite, default=1.0)
    if "seq_len" in params and "original_max_position_embeddings" not in params:
        # A base that follows the length stretches the slowest wave by more than the factor.
        factor = max(finite, default=1.0)
    before = wavelengths(plain)
    return Stretch(
        wavelengths=before,
        turns=_turns(float(context), before),
        ratio=np.array(ratios),
        zones=tuple(_zone(ratio, factor) for ratio in ratios),
    )


def same_ratio(ratio: Any, expected: float) -> Any:
    """Whether ratios are one that is expected, but for the rounding of what users gave."""
    return abs(ratio / expected - 1) <= _SAME


def _zone(ratio: float, factor: float) -> Zone:
    if math.isinf(ratio):
        return "still"
    if same_ratio(ratio, 1.0):
        return "kept"
    if ratio < 1:
        return "quickened"
    return "interpolated" if ratio >= factor * (1 - _SAME) else "blended"


class Neighbours(Record):
    """From where on neighbouring positions cannot be told apart in a number format.

    ``rows`` is the first p whose row is that of p + 1, None where of the first ``searched`` pairs
    of neighbours none is; ``never`` says that no position at all is one. ``number`` is the first
    position that is the same number as the next, in this format.
    """

    dtype: str
    rows: int | None
    searched: int
    never: bool
    number: int


def neighbours(request: Request, positions: Positions, engine: Engine) -> tuple[Neighbours, ...]:
    """Where neighbours become equal in each of the narrow formats, among some positions.

    Of a relative scheme these are offsets: those between the positions.
    """
    return tuple(_neighbours(request, positions, engine, dtype) for dtype in NARROW)


def _neighbours(request: Request, positions: Positions, engine: Engine, dtype: DType) -> Neighbours:
    number = 2**dtype.precision  # the next is a tie, and goes to the even
    runs = _runs(positions)
    if _always_apart(request.encoding.bound, dtype):
        return Neighbours(dtype.name, None, positions.count, never=True, number=number)
    request = replace(request, precision=Precision.of(dtype, None))
    offsets = request.scheme.kind == "relative"
    if offsets and positions.count != sum(map(len, runs[:1])):
        runs = []  # no declaration has rows for the offsets between these
    waves = request.encoding.bound.content.waves
    assert waves is not None
    values = _SEARCHED_VALUES if waves.growth is None else _SEARCHED_GROWING
    searched = 0
    for run in runs:
        asked = replace(request, positions=Positions((run[:2],)))
        most = (values // max(1, asked.plan().shape[-1]) - searched) // (1 + offsets)
        if most < 2:
            break
        part = Positions((run[:most],))
        origin = part.offsets().first if offsets else run.start
        first, done = _first_equal(replace(request, positions=part), engine, dtype)
        searched += done - 1
        if first is not None:
            return Neighbours(dtype.name, origin + first, searched, never=False, number=number)
    return Neighbours(dtype.name, None, searched, never=False, number=number)


def _runs(positions: Positions) -> list[range]:
    """The positions that follow one another, two or more at a time.

    >>> _runs(Positions.parse("5,6,9,0:20:2,30:40,40"))
    [range(5, 7), range(30, 41)]
    """
    runs: list[range] = []
    for stretch in positions.ranges:
        if stretch.step != 1 and len(stretch) > 1:
            continue
        if runs and runs[-1].stop == stretch.start:
            runs[-1] = range(runs[-1].start, stretch.start + len(stretch))
        else:
            runs.append(range(stretch.start, stretch.start + len(stretch)))
    return [run for run in runs if len(run) > 1]


def _first_equal(request: Request, engine: Engine, dtype: DType) -> tuple[int | None, int]:
    """The first row of a request that is the one after it, and how many rows were looked at."""
    matrix = request.plan().matrix(engine)
    width = matrix.shape[-1]
    done, last = 0, np.empty((0, width))  # the last row of the block before
    for block in matrix.blocks():
        rows = np.concatenate([last, widen(block.reshape(-1, width), dtype)])
        equal = np.flatnonzero((rows[1:] == rows[:-1]).all(axis=1))
        if equal.size:
            first = done - len(last) + int(equal[0])
            return first, first + 2
        done, last = done + len(block.reshape(-1, width)), rows[-1:]
    return None, done


def _always_apart(bound: Bound, dtype: DType) -> bool:
    """Whether neighbours differ at every position, by proof.

    Numbers that round to the same one are at most 2^(1 − precision) of the largest apart, so equal
    rows have both parts of each wave that near; but from one position to the next a wave moves by
    the chord 2 · |sin(ω/2)|.
    """
    waves = bound.content.waves
    assert waves is not None
    if waves.coordinates is not None or waves.growth is not None:
        return False
    counted = wave_weights(waves.count, bound.content.columns().placements)
    if counted is None:
        return False
    frequencies = _floats(list(waves.frequencies(exact)))
    if not np.isfinite(frequencies).all():
        return False
    chords = 2 * np.abs(np.sin(frequencies[counted > 0] / 2))
    # A thousandth more than the bound: the sine above is a float, too.
    return bool((chords > 1.001 * math.sqrt(2) * 2.0 ** (1 - dtype.precision)).any())


class PowerSpectrum(Record):
    """The power of columns along positions, their means left out.

    ``power`` is the share of each wavelength in the power of all columns together, ``dominant``
    the wavelength with the most power in each column and ``share`` its part of the column's, NaN
    for a column that is constant or not finite. ``dropped`` columns are not finite; of ``count``
    rows the first ``transformed`` were looked at.

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

    Raises: InvalidInput where there are fewer than two rows, or no finite column.
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
        # Scaled to 1, so that no square overflows or vanishes.
        largest = largest[largest > 0]
        unit = part[:, columns - begin] / largest
        columns_power = _column_power(unit)  # (bins, columns)
        total = columns_power.sum(axis=0)
        moving = total > 0  # a constant is all ones here, and leaves nothing beside its mean
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
    """The power of each column at 1, 2, … turns in all rows.

    Shape: values (rows, columns) → (rows // 2, columns).
    """
    count = len(values)
    transformed = np.fft.rfft(values - values.mean(axis=0), axis=0)[1:]
    power: RealRows = 2 * (transformed.real**2 + transformed.imag**2)
    if count % 2 == 0:
        power[-1] /= 2  # the fastest of an even number has no mirror image
    return power


def spectrum_fields(spectrum: WaveSpectrum) -> Mapping[str, Any]:
    """A spectrum of waves as JSON has it; an infinite wavelength is null."""
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

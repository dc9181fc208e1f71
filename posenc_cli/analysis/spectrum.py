"""The spectrum of an encoding: the wavelength of each pair, and its rotations within the context.

For an extended rotary scheme, it includes the change of each wavelength.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.encoded import wavelengths
from posenc_cli.analysis.similarity import finite_or_none
from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.numerics import exact
from posenc_cli.positions import Positions
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from posenc_cli.encoding.request import Encoding
    from posenc_cli.formulas.declare import Bound, Waves
    from posenc_cli.numerics.arrays import Reals

Along = Literal["positions", "offsets"]
Zone = Literal["kept", "blended", "interpolated", "quickened", "still"]

DEFAULT_CONTEXT = 4096


_SAME = 1e-12
"""Relative tolerance for ratios of 60-digit frequencies to floats from users."""
_BLOCK = 1 << 20  # positions whose coordinates are held at a time


class Stretch(Record):
    """The changes of a RoPE scaling to the waves of plain RoPE.

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

    ``turns`` counts their full rotations within the context, or within the extent of the axis that
    they follow; ``axes`` names the axes. A wave of frequency 0 has no finite wavelength. ``along``
    says whether rows are positions or offsets, the unit of a wavelength.

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
    """Return the context length for counting rotations, and its source.

    ``stated`` is the context of a model's config, with its source.
    """
    if positions is not None:
        return (positions.last - positions.first + 1), "the requested positions"
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
    """Return the spectrum of a scheme that is made of waves.

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
    """Return whether the rows of a scheme are positions or offsets."""
    return "offsets" if bound.scheme.kind == "relative" else "positions"


def _extents(waves: Waves, context: int, positions: Positions | None) -> Reals:
    """Return the number of coordinates on each wave's axis. Shape: (waves,)."""
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
    for part in places.blocks(_BLOCK):
        axes = [np.asarray(axis) for axis in coordinates.at(position_array(part))]
        lows.append([int(axis.min()) for axis in axes])
        highs.append([int(axis.max()) for axis in axes])
    reach = np.asarray(np.max(highs, axis=0) - np.min(lows, axis=0), np.float64)  # (axes,)
    steps = np.array(coordinates.step_of_each(), np.float64)
    return np.asarray(reach[np.array(coordinates.axes)] / steps + 1)


def _turns(extents: Reals | float, wavelengths: Reals) -> Reals:
    """Return the rotations within some extents; infinite if they overflow a float."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(extents / wavelengths)


def _stretch(bound: Bound, frequencies: list[Decimal], context: int) -> Stretch | None:
    """Return the changes to plain RoPE, for a rotary scheme with a factor and a base."""
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


def _same_ratio(ratio: Any, expected: float) -> Any:
    """Return whether ratios equal an expected one, up to the rounding of numbers from users."""
    return abs(ratio / expected - 1) <= _SAME


def _zone(ratio: float, factor: float) -> Zone:
    if math.isinf(ratio):
        return "still"
    if _same_ratio(ratio, 1.0):
        return "kept"
    if ratio < 1:
        return "quickened"
    return "interpolated" if ratio >= factor * (1 - _SAME) else "blended"


def spectrum_fields(spectrum: WaveSpectrum) -> Mapping[str, Any]:
    """Return a spectrum for JSON; an infinite wavelength is null."""
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
    """The differences between the wavelengths of two encodings, pair by pair.

    ``ratio`` is the one farthest from 1, infinite for frequency 0, and ``at`` lists its pairs. If
    no pair differs, they are 1 and empty.
    """

    pairs: int
    differing: tuple[int, ...]
    ratio: float
    at: tuple[int, ...]


def wave_difference(first: WaveSpectrum, other: WaveSpectrum) -> WaveDifference | None:
    """Return the differences of another encoding's waves; None if the pairs do not correspond."""
    a, b = first.wavelengths, other.wavelengths
    if len(a) != len(b) or first.axes != other.axes or first.along != other.along:
        return None
    with np.errstate(invalid="ignore"):
        ratios = np.where(a == b, 1.0, b / a)  # also if both are infinite
    changed = ~_same_ratio(ratios, 1.0)
    if not changed.any():
        return WaveDifference(len(a), (), 1.0, ())
    with np.errstate(divide="ignore"):
        farthest = float(ratios[np.abs(np.log(np.abs(ratios))).argmax()])
    at = np.flatnonzero(
        changed
        & (
            ratios == farthest
            if math.isinf(farthest) or not farthest
            else _same_ratio(ratios, farthest)
        )
    )
    return WaveDifference(
        len(a), tuple(np.flatnonzero(changed).tolist()), farthest, tuple(at.tolist())
    )

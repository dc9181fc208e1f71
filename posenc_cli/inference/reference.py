"""Compute the reference rotation in float64, within an ulp, at any positions."""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encoding.axial import placed_waves
from posenc_cli.encoding.engine import Engine, wave_filler
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Coordinates, Rotation, Waves
from posenc_cli.formulas.parameters import as_text
from posenc_cli.formulas.tables import rotary_placements
from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.numerics.rounding import widen
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.backends.registry import WaveFiller
    from posenc_cli.encoding.request import Encoding
    from posenc_cli.inference.tolerance import Tolerance
    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Flags,
        Integers,
        NumberArray,
        RealRows,
        Reals,
    )

_LARGEST_POWER = 700.0
"""Limit on exponents of e: float64 holds up to e^709, whose inverse is subnormal."""


class RotationFactors(Record):
    """The factors exp(i·p·ω) of pairs, within an ulp of the exact ones at any position."""

    waves: Waves
    engine: Engine
    backward: Flags | None = None

    @classmethod
    def of(
        cls,
        frequencies: Reals,
        engine: Engine,
        coordinates: Coordinates | None = None,
    ) -> RotationFactors:
        """Return the rotation by frequencies, each taken as exactly this number; any sign."""
        values = [abs(float(f)) for f in frequencies]
        backward = frequencies < 0
        return cls(
            Waves(len(values), lambda xp: xp.asarray(values), coordinates=coordinates),
            engine,
            backward if backward.any() else None,
        )

    @cached_property
    def _filler(self) -> WaveFiller:
        return wave_filler(self.waves, self.engine)

    def at(self, positions: Integers) -> ComplexRows:
        """Return the factor of each pair at each position. Shape: (positions, pairs)."""
        pairs = self.waves.count
        out = np.empty((positions.shape[0], 2 * pairs))
        placements = rotary_placements("interleaved", pairs)
        self._filler.fill(out, positions, placements, dtype=FLOAT64)
        factors = out.view(np.complex128)
        return (
            factors if self.backward is None else np.where(self.backward, factors.conj(), factors)
        )


@lru_cache(maxsize=4)
def rotation_by(rates: bytes, engine: Engine) -> RotationFactors:
    """Return the rotation by frequencies that are given as the bytes of float64 numbers."""
    return RotationFactors.of(np.frombuffer(rates), engine)


class Reference(Record):
    """A rotary scheme with its parameters: the rotation that a subject should have.

    ``opposite`` is the other side of a score, where growing amplitudes fall instead. References are
    compared by identity, so that results derived from one can be cached.
    """

    encoding: Encoding
    engine: Engine
    opposite: bool = False

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def of(cls, encoding: Encoding, engine: Engine | None = None) -> Reference:
        """Return the reference of an encoding, whose content must be a Rotation."""
        return cls(encoding, engine or Engine())

    @cached_property
    def content(self) -> Rotation:
        """The content of the scheme, with falling amplitudes if ``opposite``."""
        rotation = self.encoding.bound.rotation
        growth = rotation.waves.growth
        if growth is None or not self.opposite:
            return rotation
        falling = replace(growth, span=-growth.span)
        return replace(rotation, waves=replace(rotation.waves, growth=falling))

    @property
    def symmetric(self) -> bool:
        """Whether queries and keys are rotated alike: not if the amplitudes grow."""
        return self.encoding.bound.rotation.waves.growth is None

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the scheme."""
        return self.encoding.bound.params

    @property
    def pairs(self) -> int:
        """The number of dimension pairs."""
        return self.content.waves.count

    @property
    def head(self) -> int:
        """The number of columns of a head, with those that are not rotated."""
        return max(int(self.params.get("dim", 0) or 0), 2 * self.pairs)

    @cached_property
    def scale(self) -> float:
        """The attention factor: the factor on cosines and sines."""
        return float(self.content.waves.scale)

    @cached_property
    def frequencies(self) -> Reals:
        """The frequencies, correctly rounded. Units: radians per position."""
        return np.array([float(f) for f in self.content.waves.frequencies(exact)])

    @cached_property
    def rotation(self) -> RotationFactors:
        """The exact factors of the pairs, with the attention factor, without growth."""
        waves = self.content.waves
        return RotationFactors(
            Waves(waves.count, waves.frequencies, waves.scale, waves.coordinates), self.engine
        )

    @property
    def pairing(self) -> ColumnPairing:
        """The scheme's pairing of columns."""
        return ColumnPairing.named(self.content.layout, self.pairs, parts=self.content.blocks)

    def likely_pairings(self, head: int) -> list[ColumnPairing]:
        """Return the likely pairings of a head's columns in code, the scheme's own first.

        If only the first pairs rotate, code may pair columns within the first columns.
        """
        likely = ColumnPairing.likely(self.content.layout, self.pairs, head, self.content.blocks)
        rotated = int(np.count_nonzero(self.frequencies))
        if 0 < rotated < self.pairs and self.frequencies[:rotated].all():
            likely.append(ColumnPairing.of_first_columns(rotated, self.pairs))
        return likely

    def angle_positions(self, positions: Integers, axes: tuple[int, ...] | None = None) -> Integers:
        """Return the positions or coordinates that the angles of pairs are multiples of.

        ``axes`` are the axes that the pairs follow; None for those of the scheme. Shape:
        (positions,), or (positions, pairs) if each pair follows an axis.
        """
        coordinates = self.coordinates
        if coordinates is None or coordinates.at is None:
            return positions
        chosen = coordinates.axes if axes is None else axes
        return np.stack(coordinates.at(positions), axis=1)[:, list(chosen)]

    @cached_property
    def coordinates(self) -> Coordinates | None:
        """The coordinates of positions on several axes; None if pairs follow the position."""
        along = placed_waves(self.content.waves).coordinates
        return None if along is None or along.at is None else along

    @cached_property
    def axes(self) -> int:
        """The number of coordinates per position; 0 without axes, or for oblique lines."""
        coordinates = self.coordinates
        if coordinates is None or coordinates.at is None or coordinates.oblique:
            return 0
        return len(coordinates.at(np.zeros(1, np.int64)))

    @cached_property
    def grid(self) -> tuple[int, ...] | None:
        """The sizes of the grid that all positions fill; None if they do not fill one."""
        coordinates = self.coordinates
        if not self.axes or coordinates is None or coordinates.capacity is None:
            return None
        if self.params.get("grid") and not self.params.get("axes"):
            return tuple(self.params["grid"])
        count = coordinates.capacity.positions
        sizes = tuple(len({*along.tolist()}) for along in self.coordinates_at(np.arange(count)))
        return sizes if prod(sizes) == count else None

    def coordinates_at(self, positions: Integers) -> NumberArray:
        """Return the coordinates of positions of any shape, as a model counts them.

        Shape: (axes, *positions.shape). Whole numbers are int64, others float32.
        """
        coordinates = self.coordinates
        assert coordinates is not None
        assert coordinates.at is not None
        along = np.stack(coordinates.at(positions.reshape(-1)))  # (axes, positions)
        parts = coordinates.parts or (coordinates.denominator,) * len(along)
        if any(part != 1 for part in parts):
            along = (along / np.array(parts)[:, None]).astype(np.float32)
        return along.reshape(-1, *positions.shape)

    def growth_at(self, positions: Integers) -> RealRows | None:
        """Return the amplitudes that change with the position; None if they are constant.

        Shape: (positions, pairs).

        Raises: InvalidInput if an amplitude exceeds float64.
        """
        growth = self.content.waves.growth
        if growth is None:
            return None
        logarithms = np.log([float(base) for base in growth.bases(exact)])
        exponents = (positions - growth.centre).astype(np.float64) / float(growth.span)
        powers = np.multiply.outer(exponents, logarithms)  # (positions, pairs)
        if np.abs(powers).max() > _LARGEST_POWER:
            row = int(np.argmax(np.abs(powers).max(axis=1)))
            raise InvalidInput(
                f"position {int(positions[row])}: the amplitudes of "
                f"{self.encoding.bound.scheme.name} are e^±{np.abs(powers).max():.6g} there; "
                f"float64 holds up to e^{_LARGEST_POWER:g}"
            )
        return np.asarray(np.exp(powers))

    def cells(self, positions: Integers, dtype: DType) -> ComplexRows:
        """Return cosine and sine of each pair as a table in ``dtype`` has them, correctly rounded.

        Shape: (positions, pairs).
        """
        pairs = self.pairs
        out = np.empty((positions.shape[0], 2 * pairs), dtype.numpy)
        placements = rotary_placements("interleaved", pairs)
        self._filler.fill(out, positions, placements, dtype=dtype)
        return widen(out, dtype).view(np.complex128)

    @cached_property
    def _filler(self) -> WaveFiller:
        return wave_filler(self.content.waves, self.engine)

    @property
    def text(self) -> str:
        """The scheme and the parameters that matter, on one line.

        >>> from posenc_cli import catalogue
        >>> from posenc_cli.encoding.request import Encoding
        >>> Reference.of(Encoding.of(catalogue.find("rope"), {}, seq_len=None)).text
        'rope dim=64 base=10000 layout=interleaved'
        """
        return encoding_text(self.encoding)


def text_encoding(encoding: Encoding) -> Encoding | None:
    """Return the encoding of text: the same pairs, with equal positions on every axis.

    None if there are no axes, or a coordinate differs from the position.
    """
    bound = encoding.bound
    waves = bound.rotation.waves
    along = waves.coordinates
    if along is None or along.oblique or len({*along.axes}) == 1:
        return None
    parts, rule = along.denominator, waves.frequencies
    if any(step != parts for step in along.step_of_each()):
        return None
    plain = replace(waves, coordinates=None, frequencies=lambda xp: rule(xp) * parts)
    content = replace(bound.rotation, waves=plain)
    return replace(encoding, bound=replace(bound, content=content))


_VIDEO = (2, 4, 6)
"""Frames, rows and columns of a video that fits into the first 64 positions, after some text."""

VIDEO_POSITIONS = prod(_VIDEO)
"""The number of positions of that video."""


def video_encoding(encoding: Encoding, first: int) -> Encoding | None:
    """Return the encoding of text around a video, for a scheme that reads coordinates from a file.

    ``first`` is the video's first position. Text continues after the largest coordinate, as in
    Qwen2-VL. None if the coordinates are given, or the scheme has none.
    """
    bound = encoding.bound
    if bound.params.get("axes", "") is not None or bound.rotation.waves.coordinates is not None:
        return None
    given = {name: value for name, value in bound.params.items() if value is not None}
    placed = bound.scheme.bind({**given, "axes": "of a video"}).rotation.waves.coordinates
    assert placed is not None
    assert placed.file is not None
    count, after = VIDEO_POSITIONS, max(_VIDEO)

    def at(positions: Integers) -> tuple[Integers, ...]:
        inside = positions - first
        text = np.where(inside < count, positions, positions - count + after)
        seen = (inside >= 0) & (inside < count)
        places = np.unravel_index(np.where(seen, inside, 0), _VIDEO)
        time, row, column = (np.where(seen, first + place, text) for place in places)
        return (time, row, column) if axes == 3 else (positions, column, row, time)

    axes = placed.file.axes
    waves = replace(bound.rotation.waves, coordinates=replace(placed, at=at, file=None))
    content = replace(bound.rotation, waves=waves)
    return replace(encoding, bound=replace(bound, content=content))


def encoding_text(encoding: Encoding) -> str:
    """Return the scheme and the parameters that matter, on one line."""
    scheme, params = encoding.bound.scheme, encoding.bound.params
    shown = [
        f"{name}={as_text(value)}"
        for name, value in params.items()
        if value is not None
        and (name in ("dim", "base", "layout") or value != scheme.parameters[name].default)
        and not isinstance(value, tuple)
    ]
    return " ".join([scheme.name, *shown])


class Sample(Record):
    """Factors of a subject at some positions, with its own pairing of columns.

    ``stray`` is the norm of everything that does not rotate a pair: (positions, pairs) or
    (positions, 1).
    """

    positions: Integers
    factors: ComplexRows
    seen: Flags
    stray: RealRows
    tolerance: Tolerance
    amplitude: float
    reference: Reference

    def rows(self, rows: Integers) -> Sample:
        """Return the sample of some of its rows."""
        return replace(
            self,
            positions=self.positions[rows],
            factors=self.factors[rows],
            seen=self.seen[rows],
            stray=self.stray[rows],
        )

    def compare(
        self, predicted: ComplexRows, frequencies: Reals, followed: Integers | Reals | None = None
    ) -> tuple[RealRows, Flags]:
        """Return differences from factors (n, pairs), and which entries are within tolerance.

        Differences of unseen entries are 0. Tolerances follow angles that are multiples of
        ``followed``, (n,) or (n, pairs); by default the positions of the reference.
        """
        if followed is None:
            followed = self.reference.angle_positions(self.positions)
        larger = max(1.0, self.amplitude / self.reference.scale)  # tolerances assume the scale
        allowed = self.tolerance.cells(followed, frequencies)
        with np.errstate(invalid="ignore"):
            allowed *= larger
            missed: RealRows = np.abs(self.factors - predicted)
            missed += self.stray
            np.copyto(missed, 0.0, where=~self.seen)
            return missed, np.asarray((missed <= allowed) | ~self.seen)

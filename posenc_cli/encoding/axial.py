"""Waves of several axes, each filled by the engine at its coordinates.

This module converts positions to coordinates, by formula or from a file, and places the columns of
each axis in the table. A grid repeats the same few coordinates: their entries are computed once and
copied.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encoding.arrays import whole_parts
from posenc_cli.errors import InvalidInput, sizes_text
from posenc_cli.formulas.declare import AxesFile, Capacity, Waves
from posenc_cli.numerics.memory import LRUCache
from posenc_cli.numerics.placements import Placement
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.backends.registry import WaveFiller
    from posenc_cli.numerics.arrays import Integers, Places, StoredRows
    from posenc_cli.numerics.dtypes import DType

    FillerOf = Callable[[Waves], WaveFiller]

_LAYOUTS_KEPT = 4  # a picture requests a table as a whole and in parts


class AxialWaves:
    """Cosines and sines of waves that each follow one of several axes.

    Shape: as :class:`posenc_cli.backends.registry.WaveFiller`.
    """

    def __init__(self, waves: Waves, filler_of: FillerOf) -> None:
        """Set up the axes; ``filler_of`` returns the filler for waves that follow the position."""
        waves = placed_waves(waves)
        coordinates = waves.coordinates
        if coordinates is None or coordinates.at is None:
            raise ValueError("these waves follow no axes")
        if len(coordinates.axes) != waves.count:
            raise ValueError(f"{len(coordinates.axes)} axes where {waves.count} were declared")
        self._at = coordinates.at
        self._count = waves.count
        followed = np.asarray(coordinates.axes, np.intp)
        ladder = lru_cache(maxsize=1)(waves.frequencies)
        self._axes = [  # for each axis: its number, the waves that follow it, and their filler
            (
                axis,
                own := np.flatnonzero(followed == axis),
                filler_of(_waves_of(own, waves, ladder)),
            )
            for axis in sorted(set(coordinates.axes))
        ]
        self._layouts = LRUCache[list[_AxisColumns]](_LAYOUTS_KEPT)

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position; skip other columns."""
        if positions.size == 0:
            return
        for placement in placements:
            if placement.function == "zero":
                out[:, placement.columns] = 0
        coordinates = self._at(positions)  # (positions,) for each axis
        axes = zip(self._axes, self._columns(placements, out.shape[1]), strict=True)
        for (axis, _, filler), columns in axes:
            if columns.width == 0:
                continue
            once, rows = _distinct(coordinates[axis])
            narrow = np.empty((once.size, columns.width), out.dtype)
            filler.fill(narrow, once, columns.placements, dtype=dtype)
            cells = narrow[rows]
            for target, source in columns.copies:
                out[:, target] = cells[:, source]

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return the angles coordinate · frequency in (−π, π], in radians."""
        out = np.empty((positions.size, self._count), dtype.numpy)
        if positions.size == 0:
            return out
        coordinates = self._at(positions)
        for axis, own, filler in self._axes:
            once, rows = _distinct(coordinates[axis])
            out[:, own] = filler.angles(once, dtype=dtype)[rows]
        return out

    def _columns(self, placements: Sequence[Placement], width: int) -> list[_AxisColumns]:
        """Return the columns of each axis, cached for all blocks of a table."""
        return self._layouts.get(
            (width, *(placement.key for placement in placements)),
            lambda: [
                _AxisColumns.of(own, placements, width, self._count) for _, own, _ in self._axes
            ],
        )


class _AxisColumns(Record):
    """The columns of a table that hold waves of one axis.

    ``placements`` are those of a narrower table with only these columns, in the same order.
    ``copies`` pairs columns of the table with columns of the narrow one.
    """

    width: int
    placements: tuple[Placement, ...]
    copies: tuple[tuple[slice, slice], ...]

    @classmethod
    def of(
        cls, waves: Places, placements: Sequence[Placement], width: int, count: int
    ) -> _AxisColumns:
        """Return the columns of the axis that these ``waves``, out of ``count``, follow."""
        inner = np.full(count, -1)  # (waves,): the place on this axis, −1 for waves of other axes
        inner[waves] = np.arange(waves.size)
        parts = []  # function, columns (n,) and places of waves (n,)
        for placement in placements:
            if placement.function == "zero":
                continue
            columns = np.arange(width)[placement.columns]
            placed = inner[np.arange(count)[placement.waves]]
            if columns.size != placed.size:
                raise ValueError(f"{columns.size} columns cannot hold {placed.size} waves")
            parts.append((placement.function, columns[placed >= 0], placed[placed >= 0]))
        owned = np.unique(np.concatenate([columns for _, columns, _ in parts] or [inner[:0]]))
        narrow = [
            Placement(function, *run)
            for function, columns, placed in parts
            for run in _runs(np.searchsorted(owned, columns), placed)
        ]
        return cls(owned.size, tuple(narrow), tuple(_runs(owned, np.arange(owned.size))))


def _distinct(coordinates: Integers) -> tuple[Integers, Integers | slice]:
    """Return coordinates without repeats, and the index of each row: a whole range if that pays."""
    low, high = int(coordinates.min()), int(coordinates.max())
    if 2 * (high - low + 1) > coordinates.size:
        return coordinates, slice(None)
    return np.arange(low, high + 1, dtype=np.int64), coordinates - low


def _waves_of(own: Places, whole: Waves, ladder: Callable[[Any], Any]) -> Waves:
    """Return the waves of the ``whole`` that follow an axis."""
    runs = [run for run, _ in _runs(own, own)]

    def frequencies(xp: Any) -> Any:
        every = ladder(xp)
        if every.shape[0] != whole.count:
            raise ValueError(f"{every.shape[0]} frequencies where {whole.count} were declared")
        return every[runs[0]] if len(runs) == 1 else xp.concat([every[run] for run in runs])

    return Waves(own.size, frequencies, scale=whole.scale, denominator=whole.denominator)


def _runs(first: Places, second: Places) -> Iterator[tuple[slice, slice]]:
    """Yield two rising sequences as slices, split where the step of either changes.

    >>> list(_runs(np.array([0, 3, 6, 7]), np.array([0, 1, 2, 3])))
    [(slice(0, 7, 3), slice(0, 3, 1)), (slice(7, 8, 1), slice(3, 4, 1))]
    """
    start = 0
    while start < first.size:
        stop = start + 1
        steps = (1, 1)
        if stop < first.size:
            steps = int(first[stop] - first[start]), int(second[stop] - second[start])
        while stop < first.size and steps == (
            first[stop] - first[stop - 1],
            second[stop] - second[stop - 1],
        ):
            stop += 1
        yield (
            slice(int(first[start]), int(first[stop - 1]) + 1, steps[0]),
            slice(int(second[start]), int(second[stop - 1]) + 1, steps[1]),
        )
        start = stop


def placed_waves(waves: Waves) -> Waves:
    """Return waves with their coordinates loaded, if these are in a file.

    If some are fractions, all become integer multiples of a part of 1, and the frequencies are per
    such part.

    Raises: InvalidInput if the file does not hold them; Unavailable if it cannot be read.
    """
    coordinates = waves.coordinates
    if coordinates is None or coordinates.file is None:
        return waves
    rows, parts = _read(coordinates.file)
    capacity = Capacity(
        rows.shape[1],
        f"axes={coordinates.file.path} has {rows.shape[1]} columns",
        "give the file a column for each position",
    )
    placed = replace(
        coordinates,
        at=lambda positions: tuple(row[positions] for row in rows),
        capacity=capacity,
        file=None,
    )
    if parts == 1:
        return replace(waves, coordinates=placed)
    return replace(
        waves,
        frequencies=lambda xp: waves.frequencies(xp) / parts,
        coordinates=replace(placed, denominator=parts, steps=(parts,) * len(rows)),
    )


def _read(file: AxesFile) -> tuple[Integers, int]:
    """Return the numbers of a file as integers, one row per axis, and their denominator."""
    from posenc_cli.files.reading import read_array

    values = np.asarray(read_array(file.path).values)
    where = f"--set axes={file.path}"
    if values.ndim != 2 or values.shape[0] != file.axes:
        raise InvalidInput(
            f"{where} holds an array of shape {sizes_text(values.shape)}; it must be "
            f"{file.axes}×L, one row per axis",
            hint="transpose it" if values.ndim == 2 and values.shape[1] == file.axes else None,
        )
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise InvalidInput(f"{where}: must hold real numbers, not {values.dtype}")
    return whole_parts(values, name=where)

"""The ``fast`` backend: the waves of the NumPy core, filled by a kernel that Numba compiles.

Owns when the kernel serves, what it is given, and what becomes of the cells it leaves undecided.
It serves consecutive positions, which long tables are made of (in float64 where a cosine and a sine
share each wave); elsewhere, and for extreme scales and frequencies, the NumPy core does. Both give
the same bytes.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from posenc_cli.backends.base import Status
from posenc_cli.backends.numpy import NumpyBackend
from posenc_cli.errors import Unavailable, described
from posenc_cli.numerics import cells, halves
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.layout import Columns, Factors, Pairing, columns_of
from posenc_cli.numerics.lru_cache import LRUCache
from posenc_cli.numerics.waves import WaveTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.backends.base import WaveFiller
    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.phasors import Phasors
    from posenc_cli.numerics.placements import Placement
    from posenc_cli.numerics.wide import WidePairs

TILE_CELLS = 256  # loops this long hide their set-up, and what they read fits the cache
PAIRS_FROM = 16  # the pairs of a row are such a loop too
BATCH_CELLS = 1 << 15  # of each high table: computed together, they cost few calls
BATCHES_KEPT = 4
PREPARED_KEPT = 4
KERNELS = 8  # two storages in three layouts, float64 in two
UNDECIDED_KEPT = 1 << 12  # of a call; where more are undecided, all its cells are settled
SMALLEST_SCALE, LARGEST_SCALE = Decimal(2) ** -20, Decimal(2) ** 14
SMALLEST_FREQUENCY = Decimal("1e-200")  # below, cells for float16 would leave float64's range


ColumnLayout = Literal["columns", "halves", "alternate"]


class _Form(NamedTuple):
    """How the kernel rounds to a format: an exact factor of its cells, and its bit operations."""

    factor: float
    half_unit: int
    narrower: int


FORMS = {
    FLOAT32.name: _Form(1.0, 0, 0),
    **{
        dtype.name: _Form(halves.factor(dtype), int(half.tie), half.shift)
        for dtype in (BFLOAT16, FLOAT16)
        for half in (halves.FORMATS[dtype.name],)
    },
}


class FastBackend(NumpyBackend):
    """Waves by a compiled kernel, on the CPU; in the precisions of frameworks by NumPy."""

    name = "fast"
    block_values = 1 << 19  # each call of the kernel costs as much as filling 10^5 values

    def status(self) -> Status:
        """Whether Numba is installed, found out without importing it."""
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec

        if find_spec("numba") is None:
            return Status(False, None, (), "numba is not installed")
        try:
            numba_version = version("numba")
        except PackageNotFoundError:
            numba_version = None
        return Status(True, numba_version, ("cpu",), "for long tables; the same bytes as numpy")

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Waves whose every cell is correctly rounded.

        Raises: Unavailable for any device but the CPU, and where Numba cannot be used.
        """
        if device not in (None, "cpu"):
            raise Unavailable(
                f"--device {device}: the fast backend computes on the CPU",
                hint="--backend torch computes on other devices",
            )
        return FusedWaves(WaveTable(frequencies, scale=scale), _kernels())


class Kernels:
    """The compiled kernels, one for each storage and layout, each made when first asked for."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._made = LRUCache[Any](KERNELS)

    def of(self, storage: np.dtype[Any], layout: ColumnLayout) -> Any:
        """The kernel that writes float64, float32 or uint16, for one layout of columns."""
        return self._made.get((storage, layout), lambda: self._module.compiled(storage, layout))


_loaded: list[Kernels] = []


def _kernels() -> Kernels:
    """The kernels of this process.

    Raises: Unavailable where Numba is missing, broken or switched off.
    """
    if not _loaded:
        import warnings

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from posenc_cli.backends import fused
        except ModuleNotFoundError as error:
            reason = "numba is not installed" if error.name == "numba" else described(error)
            raise Unavailable(f"--backend fast: {reason}") from error
        except Exception as error:
            raise Unavailable(
                f"--backend fast: numba cannot be used ({described(error)})"
            ) from error
        if fused.switched_off():
            raise Unavailable("--backend fast: NUMBA_DISABLE_JIT switches numba off")
        _loaded.append(Kernels(fused))
    return _loaded[0]


class FusedWaves:
    """scale · cos(n · ω) and scale · sin(n · ω): ``core`` gives the same bytes, more slowly.

    Units: frequencies in radians per position.
    """

    def __init__(self, core: WaveTable, kernels: Kernels) -> None:
        self._core = core
        self._kernels = kernels
        self._phasors = core.phasors
        self._magnitude = abs(float(core.scale))
        self._ordinary = SMALLEST_SCALE < abs(core.scale) < LARGEST_SCALE and all(
            not frequency or abs(frequency) > SMALLEST_FREQUENCY for frequency in core.frequencies
        )
        self._wide_low: LRUCache[tuple[Reals, ...]] = LRUCache(PREPARED_KEPT)
        self._prepared = LRUCache[list[_KernelTables]](PREPARED_KEPT)

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row a position; leave other columns alone.

        Threads may fill different rows of one array at the same time.

        Shape: ``positions`` (P,) integers of magnitude ≤ 2^53; ``out`` (P, columns) in the storage
        of ``dtype``, with any strides.
        """
        if dtype.component is not None:
            dtype = dtype.component
            out = out.view(dtype.numpy)
        positions = np.asarray(positions, np.int64)
        if not (self._ordinary and out.dtype.isnative and cells.rising_by_one(positions)):
            self._core.fill(out, positions, placements, dtype=dtype)
            return
        with np.errstate(all="ignore"):
            if dtype.name == FLOAT64.name:
                self._fill_wide(out, positions, placements)
                return
            prepared = self._prepare(placements, out.shape, dtype)
            if prepared is None:
                self._core.fill(out, positions, placements, dtype=dtype)
                return
            for tables in prepared:
                self._fill(out[:, tables.columns.target], positions, tables)

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """The angles n · ω in (−π, π], correctly rounded to ``dtype``; the scale plays no part.

        Units: radians.
        Shape: (positions, frequencies).
        """
        return self._core.angles(positions, dtype=dtype)

    def _prepare(
        self, placements: Sequence[Placement], shape: tuple[int, ...], dtype: DType
    ) -> list[_KernelTables] | None:
        """Return the tables of these columns, or None where building them would not pay."""
        count, width = shape
        key = (dtype.name, width, *(placement.key for placement in placements))
        if key not in self._prepared and count * 4 < self._phasors.rows:
            return None

        def tables() -> list[_KernelTables]:
            groups = columns_of(placements, width=width, waves=len(self._core.frequencies))
            return [
                _tables(columns, self._phasors, dtype, magnitude=self._magnitude)
                for columns in groups
            ]

        return self._prepared.get(key, tables)

    def _fill_wide(
        self, out: StoredRows, positions: Integers, placements: Sequence[Placement]
    ) -> None:
        """Fill float64 columns: pairs by the kernel, others by the core."""
        for columns in columns_of(
            placements, width=out.shape[1], waves=len(self._core.frequencies)
        ):
            pairs = self._core.wide.paired(columns, positions)
            if pairs is None:
                self._core.wide.fill(out[:, columns.target], positions, columns)
            else:
                self._fill_pairs(out[:, columns.target], positions, columns, pairs)

    def _fill_pairs(
        self, out: StoredRows, positions: Integers, columns: Columns, pairs: WidePairs
    ) -> None:
        layout: ColumnLayout = "alternate" if pairs.pairing.first.step == 2 else "halves"
        kernel = self._kernels.of(FLOAT64.numpy, layout)
        low = self._wide_low.get(columns.key, lambda: _parts(pairs.grid, pairs.rest))
        target = out if out.flags.c_contiguous else np.empty(out.shape)
        flat = target.reshape(-1)
        undecided = np.empty(UNDECIDED_KEPT, np.int64)
        rows, width = self._phasors.rows, columns.waves.size
        start, stop = int(positions[0]), int(positions[-1]) + 1
        doubtful: list[Integers] = []
        multiple = start // rows
        while multiple * rows < stop:
            batch, place = pairs.batch(multiple)
            last = multiple + batch.grid.shape[0] - place
            begin, end = max(start, multiple * rows), min(stop, last * rows)
            cells_of = slice((begin - start) * width, (end - start) * width)
            count = kernel(
                flat[cells_of],
                *low,
                *_parts(*(part[place:] for part in batch)),
                pairs.margin,
                (np.uint64(begin - multiple * rows), np.uint64(width // 2)),
                undecided,
                True if layout == "alternate" else None,
            )
            if count > undecided.size:
                doubtful.append(np.arange(cells_of.start, cells_of.stop))
            elif count:
                doubtful.append(undecided[:count] + cells_of.start)
            multiple = last
        if doubtful:
            places = np.concatenate(doubtful)
            self._core.settle(target, positions, columns, places, dtype=FLOAT64)
        if target is not out:
            out[...] = target

    def _fill(self, out: StoredRows, positions: Integers, tables: _KernelTables) -> None:
        dtype, columns = tables.dtype, tables.columns
        storage = np.dtype(np.uint16) if dtype.itemsize == 2 else dtype.numpy
        kernel = self._kernels.of(storage, tables.layout)
        target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        flat = target.reshape(-1).view(storage)
        undecided = np.empty(UNDECIDED_KEPT, np.int64)
        rows, width = self._phasors.rows, columns.waves.size
        start, stop = int(positions[0]), int(positions[-1]) + 1
        multiple = start // rows
        doubtful: list[Integers] = []
        while multiple * rows < stop:
            batch = tables.batch(multiple, (stop - 1) // rows + 1)
            last = multiple + batch[0].shape[0]
            begin, end = max(start, multiple * rows), min(stop, last * rows)
            count = kernel(
                flat[(begin - start) * width : (end - start) * width],
                *tables.low,
                *(table.reshape(-1) for table in batch),
                tables.sizes(begin - multiple * rows),
                tables.form,
                undecided,
                *tables.more,
            )
            if count > undecided.size:
                doubtful.append(np.arange((begin - start) * width, (end - start) * width))
            elif count:
                doubtful.append(undecided[:count] + (begin - start) * width)
            multiple = last
        if doubtful:
            places = np.concatenate(doubtful)
            self._core.settle(target, positions, columns, places, dtype=dtype)
        if target is not out:
            out[...] = target


class _KernelTables(ABC):
    """What a kernel reads to fill these columns in one format.

    Shape: ``low``, X and Y, (rows · columns,) each; batches, what follows from the multiples,
    (multiples, ``_cells``) each.
    """

    layout: ColumnLayout
    more: tuple[object, ...] = ()
    _cells: int

    def __init__(
        self, columns: Columns, used: Columns, phasors: Phasors, dtype: DType, magnitude: float
    ) -> None:
        self.columns = columns
        self.dtype = dtype
        form = FORMS[dtype.name]
        self.form = (np.uint32(form.half_unit), np.uint32(form.narrower))
        self._factor = form.factor
        self._magnitude = magnitude
        self._factors = Factors(used, phasors)
        low = self._factors.first, self._factors.second
        self.low = tuple(_aligned_copy(table).reshape(-1) for table in low)
        self._batches: LRUCache[tuple[RealRows, ...]] = LRUCache(BATCHES_KEPT)

    @abstractmethod
    def sizes(self, row: int) -> tuple[np.uint64, np.uint64]:
        """The kernel's ``sizes``, to start from a row of the low tables."""

    def batch(self, start: int, stop: int) -> tuple[RealRows, ...]:
        """The high tables from multiple ``start`` on, as far as they are at hand or to ``stop``."""
        together = max(1, BATCH_CELLS // self._cells)
        key, offset = divmod(start, together)
        multiples = np.arange(key * together, (key + 1) * together)
        whole = self._batches.get(key, lambda: self._high_tables(multiples))
        rows = slice(offset, offset + stop - start)
        return tuple(table[rows] for table in whole)

    @abstractmethod
    def _high_tables(self, multiples: Integers) -> tuple[RealRows, ...]:
        """Return the high tables of some multiples, with the limits of their cells."""

    def _limits(
        self, multiples: Integers, first: RealRows, second: RealRows
    ) -> tuple[RealRows, RealRows]:
        """Return the margins and the floors of the cells with these factors."""
        bounds = self._factors.bounds(multiples, first, second, self._magnitude)
        margins = cells.MARGIN * bounds * self._factor
        # Less than a quarter of float32's smallest number is less than one of any unit; the sign of
        # a cell below the margin still is to be judged.
        return margins, np.where(margins > 2.0**-151, margins * 2.0**26, margins)


class _ColumnTables(_KernelTables):
    """Of any columns: each row of the batches is repeated to a tile."""

    layout = "columns"

    def __init__(self, columns: Columns, phasors: Phasors, dtype: DType, magnitude: float) -> None:
        super().__init__(columns, columns, phasors, dtype, magnitude)
        self._width = columns.waves.size
        self._repeats = max(1, min(phasors.rows, TILE_CELLS // self._width))
        self._cells = self._repeats * self._width

    def sizes(self, row: int) -> tuple[np.uint64, np.uint64]:
        """The cell to start from, and the cells of a tile."""
        return np.uint64(row * self._width), np.uint64(self._cells)

    def _high_tables(self, multiples: Integers) -> tuple[RealRows, ...]:
        first, second = self._factors.high(multiples)
        limits = self._limits(multiples, first, second)
        factor = self._factor
        return tuple(self._tiles(table) for table in (first * factor, second * factor, *limits))

    def _tiles(self, rows: RealRows) -> RealRows:
        count, width = rows.shape
        tiles = _aligned_memory((count, self._repeats, width))
        tiles[...] = rows[:, None, :]
        return tiles.reshape(count, self._cells)  # (multiples, cells of a tile)


class _PairTables(_KernelTables):
    """Of columns that are a cosine and a sine of each wave."""

    def __init__(
        self,
        columns: Columns,
        pairing: Pairing,
        phasors: Phasors,
        dtype: DType,
        magnitude: float,
    ) -> None:
        super().__init__(columns, columns.selected(pairing.first), phasors, dtype, magnitude)
        self._cells = columns.waves.size // 2
        self.layout = "alternate" if pairing.first.step == 2 else "halves"
        self.more = (True if self.layout == "alternate" else None,)

    def sizes(self, row: int) -> tuple[np.uint64, np.uint64]:
        """The row to start from, and the pairs of a row."""
        return np.uint64(row), np.uint64(self._cells)

    def _high_tables(self, multiples: Integers) -> tuple[RealRows, ...]:
        first, second = self._factors.high(multiples)
        limits = self._limits(multiples, first, second)
        # The other cell of a pair takes its factors the other way round.
        others = self._limits(multiples, second, first)
        by_cell = (limit for both in zip(limits, others, strict=True) for limit in both)
        factor = self._factor
        return tuple(_aligned_copy(table) for table in (first * factor, second * factor, *by_cell))


def _tables(columns: Columns, phasors: Phasors, dtype: DType, *, magnitude: float) -> _KernelTables:
    pairing = columns.pairing
    if pairing is None or columns.waves.size < 2 * PAIRS_FROM:
        return _ColumnTables(columns, phasors, dtype, magnitude)
    return _PairTables(columns, pairing, phasors, dtype, magnitude)


def _parts(*tables: ComplexRows) -> tuple[Reals, ...]:
    """The real and the imaginary part of each table, one after another, (values,) each."""
    return tuple(
        _aligned_copy(part).reshape(-1) for table in tables for part in (table.real, table.imag)
    )


def _aligned_copy(array: RealRows) -> RealRows:
    copy = _aligned_memory(array.shape)
    copy[...] = array
    return copy


def _aligned_memory(shape: tuple[int, ...]) -> RealRows:
    """An array that begins on a cache line, where no vector straddles two of them."""
    size = math.prod(shape) * 8
    memory = np.empty(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(np.float64).reshape(shape)

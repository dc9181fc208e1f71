"""The ``fast`` backend: the waves of the NumPy core, filled by a kernel that Numba compiles.

Owns when the kernel serves, what it is given, and what becomes of the cells it leaves undecided.
It serves consecutive positions, which long tables are made of; for all others, and for extreme
scales and frequencies, the NumPy core does. Both give the same bytes.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli.backends.base import Status
from posenc_cli.backends.numpy import NumpyBackend
from posenc_cli.errors import Unavailable, described
from posenc_cli.numerics import cells
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.kept import Kept
from posenc_cli.numerics.layout import Columns, Factors, columns_of
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.waves import WaveTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from posenc_cli.backends.base import Formula, Reduced, Rule, Table, WaveFiller
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.phasors import Phasors

TILE_CELLS = 256  # loops this long hide their set-up, and what they read fits the cache
BATCH_CELLS = 8192  # of the high tables: computed together, they cost few calls
BATCHES_KEPT = 4
PREPARED_KEPT = 4
STORAGES = 3
UNDECIDED_KEPT = 1 << 12
SMALLEST_SCALE, LARGEST_SCALE = Decimal(2) ** -20, Decimal(2) ** 14
SMALLEST_FREQUENCY = Decimal("1e-200")  # below, cells for float16 would leave float64's range


class _Form(NamedTuple):
    """How the kernel rounds to a format: an exact factor of its cells, and its bit operations."""

    factor: float
    half_unit: int
    narrower: int


FORMS = {
    FLOAT64.name: _Form(1.0, 0, 0),
    FLOAT32.name: _Form(1.0, 0, 0),
    BFLOAT16.name: _Form(1.0, 1 << 15, 0),
    FLOAT16.name: _Form(2.0**-112, 1 << 12, 3),
}


class FastBackend:
    """Waves by a compiled kernel, on the CPU; what is not waves by NumPy."""

    name = "fast"
    block_values = 1 << 19  # each call of the kernel costs as much as filling 10^5 values

    def __init__(self) -> None:
        self._numpy = NumpyBackend()

    def status(self) -> Status:
        """Whether Numba is installed, found out without importing it."""
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec

        if find_spec("numba") is None:
            return Status(False, None, (), "numba is not installed")
        try:
            found = version("numba")
        except PackageNotFoundError:
            found = None
        return Status(True, found, ("cpu",), "for long tables; the same bytes as numpy")

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

    def reduced(
        self, rule: Rule, *, scale: float, arithmetic: Reduced, device: str | None
    ) -> WaveFiller:
        """Waves as NumPy code in that precision computes them.

        Raises: Unavailable for any device but the CPU.
        """
        return self._numpy.reduced(rule, scale=scale, arithmetic=arithmetic, device=device)

    def frequencies(
        self, rule: Rule, *, arithmetic: Reduced, device: str | None
    ) -> NDArray[np.float64]:
        """The frequencies as NumPy code in that precision computes them.

        Raises: Unavailable for any device but the CPU.
        """
        return self._numpy.frequencies(rule, arithmetic=arithmetic, device=device)

    def rows(
        self, formula: Formula, positions: NDArray[Any], table: Table | None, *, device: str | None
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """A formula for rows, by NumPy.

        Raises: Unavailable for any device but the CPU.
        """
        return self._numpy.rows(formula, positions, table, device=device)


class Kernels:
    """The compiled kernel, one for each storage, each made when it is first asked for."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._made = Kept[Any](STORAGES)

    def of(self, storage: np.dtype[Any]) -> Any:
        """The kernel that writes float64, float32 or uint16."""
        return self._made.get(storage, lambda: self._module.compiled(storage))


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
        self._prepared = Kept[list[_Prepared]](PREPARED_KEPT)

    def fill(
        self,
        out: NDArray[Any],
        positions: NDArray[Any],
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
            prepared = self._prepare(placements, out.shape, dtype)
            if prepared is None:
                self._core.fill(out, positions, placements, dtype=dtype)
                return
            for tables in prepared:
                self._fill(out[:, tables.columns.target], positions, tables)

    def angles(self, positions: NDArray[Any], *, dtype: DType) -> NDArray[Any]:
        """The angles n · ω in (−π, π], correctly rounded to ``dtype``; the scale plays no part.

        Units: radians.
        Shape: (positions, frequencies).
        """
        return self._core.angles(positions, dtype=dtype)

    def _prepare(
        self, placements: Sequence[Placement], shape: tuple[int, ...], dtype: DType
    ) -> list[_Prepared] | None:
        """Return the tables of these columns, or None where building them would not pay."""
        count, width = shape
        key = (dtype.name, width, *(each.key for each in placements))
        if key not in self._prepared and count * 4 < self._phasors.rows:
            return None

        def prepared() -> list[_Prepared]:
            groups = columns_of(placements, width=width, waves=len(self._core.frequencies))
            return [
                _Prepared(each, self._phasors, dtype, magnitude=self._magnitude) for each in groups
            ]

        return self._prepared.get(key, prepared)

    def _fill(self, out: NDArray[Any], positions: NDArray[Any], tables: _Prepared) -> None:
        dtype, columns = tables.dtype, tables.columns
        storage = np.dtype(np.uint16) if dtype.itemsize == 2 else dtype.numpy
        kernel = self._kernels.of(storage)
        target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        flat = target.reshape(-1).view(storage)
        undecided = np.empty(UNDECIDED_KEPT, np.int64)
        rows, width = self._phasors.rows, columns.waves.size
        start, stop = int(positions[0]), int(positions[-1]) + 1
        multiple = start // rows
        doubtful: list[NDArray[Any]] = []
        while multiple * rows < stop:
            batch = tables.batch(multiple, (stop - 1) // rows + 1)
            last = multiple + batch.first.shape[0]
            begin, end = max(start, multiple * rows), min(stop, last * rows)
            count = kernel(
                flat[(begin - start) * width : (end - start) * width],
                tables.low,
                tuple(table.reshape(-1) for table in batch),
                (np.uint64((begin - multiple * rows) * width), np.uint64(batch.first.shape[1])),
                tables.form,
                undecided,
            )
            if count > undecided.size:
                doubtful.append(np.arange((begin - start) * width, (end - start) * width))
            elif count:
                doubtful.append(undecided[:count] + (begin - start) * width)
            multiple = last
        if doubtful:
            self._settle(target, positions, columns, np.concatenate(doubtful), dtype)
        if target is not out:
            out[...] = target

    def _settle(
        self,
        out: NDArray[Any],
        positions: NDArray[Any],
        columns: Columns,
        places: NDArray[Any],
        dtype: DType,
    ) -> None:
        """Write the cells at these places of a table as the NumPy core computes them."""
        rows, at = np.divmod(places, columns.waves.size)
        chosen, row = np.unique(rows, return_inverse=True)
        used, column = np.unique(at, return_inverse=True)
        settled = np.empty((chosen.size, used.size), dtype.numpy)
        placements = [
            Placement(
                "zero" if columns.zero[place] else "sin" if columns.sine[place] else "cos",
                slice(index, index + 1),
                slice(int(columns.waves[place]), int(columns.waves[place]) + 1),
            )
            for index, place in enumerate(used)
        ]
        self._core.fill(settled, positions[chosen], placements, dtype=dtype)
        out[rows, at] = settled[row, column]


class _Batch(NamedTuple):
    """The high tables of some multiples, each row repeated to a tile, with the test's limits.

    Shape: (multiples, tile) each.
    """

    first: NDArray[Any]
    second: NDArray[Any]
    margins: NDArray[Any]
    floors: NDArray[Any]


class _Prepared:
    """What the kernel reads to fill these columns in one format.

    Shape: ``low``, X and Y, (rows · columns,) each.
    """

    def __init__(
        self, columns: Columns, phasors: Phasors, dtype: DType, *, magnitude: float
    ) -> None:
        self.columns = columns
        self.dtype = dtype
        how = FORMS[dtype.name]
        self.form = (np.uint32(how.half_unit), np.uint32(how.narrower))
        self._factor = how.factor
        self._magnitude = magnitude
        self._factors = Factors(columns, phasors)
        self.low = tuple(
            _aligned(table).reshape(-1) for table in (self._factors.first, self._factors.second)
        )
        width = columns.waves.size
        self._repeats = max(1, min(phasors.rows, TILE_CELLS // width))
        self._size = max(1, BATCH_CELLS // width)
        self._batches = Kept[_Batch](BATCHES_KEPT)

    def batch(self, start: int, stop: int) -> _Batch:
        """The high tables from multiple ``start`` on, as far as they are at hand or to ``stop``."""
        key, offset = divmod(start, self._size)
        first = key * self._size
        whole = self._batches.get(key, lambda: self._computed(np.arange(first, first + self._size)))
        some = slice(offset, offset + stop - start)
        return _Batch(*(table[some] for table in whole))

    def _computed(self, multiples: NDArray[Any]) -> _Batch:
        first, second = self._factors.high(multiples)
        margins = floors = np.zeros_like(first)
        if self.dtype.name != FLOAT64.name:
            bounds = self._factors.bounds(multiples, first, second, self._magnitude)
            margins = cells.MARGIN * bounds * self._factor
            first, second = first * self._factor, second * self._factor
            # Less than a quarter of float32's smallest number is less than one of any unit; the
            # sign of a cell below the margin still is to be judged.
            floors = np.where(margins > 2.0**-151, margins * 2.0**26, margins)
        return _Batch(*(self._tiled(table) for table in (first, second, margins, floors)))

    def _tiled(self, rows: NDArray[Any]) -> NDArray[Any]:
        count, width = rows.shape
        tiles = _aligned_memory((count, self._repeats, width))
        tiles[...] = rows[:, None, :]
        return tiles.reshape(count, self._repeats * width)


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    copy = _aligned_memory(array.shape)
    copy[...] = array
    return copy


def _aligned_memory(shape: tuple[int, ...]) -> NDArray[Any]:
    """An array that begins on a cache line, where no vector straddles two of them."""
    size = math.prod(shape) * 8
    memory = np.empty(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(np.float64).reshape(shape)

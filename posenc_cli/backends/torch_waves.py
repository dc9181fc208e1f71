"""Waves computed by torch, exactly or in the precision of a framework.

Exact: the device computes angle addition, rounding and the rounding test; NumPy settles doubts.

This is the device's half of :mod:`posenc_cli.numerics.waves`. The small tables come from there. The
entries are the same products and sums in float64, with the bounds proved there. The bounds hold on
every device that follows IEEE 754, fused or not.

Half precisions. torch narrows float64 through float32, which rounds twice. So both ends of an entry
are first rounded to odd, which makes rounding twice harmless.

Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd, IEEE Transactions on Computers 57 (2008).

In a precision: the arithmetic of a rotary module as commonly written. ``inv_freq`` is evaluated in
float32, then come the outer product with the positions, ``cos()`` and ``sin()``, and the scale. In
bfloat16 it is that module after ``.to(torch.bfloat16)``, which rounds ``inv_freq`` too.

Imports NumPy; torch is passed in: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from posenc_cli.backends.numpy import ReducedWaves
from posenc_cli.numerics.angles import AngleTable
from posenc_cli.numerics.cells import MARGIN, Scratch, rising_by_one, scattered_blocks
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from posenc_cli.numerics.judge import JUDGES_KEPT, Judge
from posenc_cli.numerics.layout import Columns, Factors, columns_of
from posenc_cli.numerics.memory import LRUCache
from posenc_cli.numerics.phasors import Phasors
from posenc_cli.numerics.wide import Wide, WideWaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from numpy.typing import NDArray

    from posenc_cli.backends.registry import FrequencyRule, Reduced
    from posenc_cli.numerics.arrays import (
        Flags,
        Integers,
        Places,
        RealRows,
        Reals,
        StoredArray,
        StoredRows,
    )
    from posenc_cli.numerics.placements import Placement

Tensor = Any
"""A torch tensor, on any device."""

LAYOUTS_KEPT = 4
CPU_CELLS = (1 << 15) - 1  # fits the cache; torch would split more among its own threads
DEVICE_CELLS = 1 << 24  # half a gigabyte of temporaries: enough to hide the launch of a kernel


class LowTables(NamedTuple):
    """The low tables of some columns: on the host, and on the device, (1, rows, columns) each."""

    factors: Factors | Wide
    low: tuple[Tensor, ...]


class Piece(NamedTuple):
    """Rows start … stop: factors from the low tables, the factors to multiply by, and a margin.

    They are X and Y, U and V. For float64 each is split in two (:mod:`posenc_cli.numerics.wide`).

    Shape: the tensors broadcast to (multiples, rows of each, columns).
    """

    start: int
    stop: int
    low: tuple[Tensor, ...]
    by: tuple[Tensor, ...]
    margin: Tensor

    def cells(self) -> Tensor:
        """Return X U + Y V."""
        (first, second), (by_first, by_second) = self.low, self.by
        return (first * by_first).add_(second * by_second)

    def ends(self) -> tuple[Tensor, Tensor]:
        """Return both ends of the error interval of float64 entries; only the last step rounds."""
        first, first_rest, second, second_rest = self.low
        by_first, by_first_rest, by_first_all, by_second, by_second_rest, by_second_all = self.by
        exact = (first * by_first).add_(second * by_second)
        rest = (first * by_first_rest).add_(first_rest * by_first_all)
        rest.add_(second * by_second_rest).add_(second_rest * by_second_all)
        return exact + (rest + self.margin), exact.add_(rest.sub_(self.margin))


class ExactWaves:
    """scale · cos(n · ω) and scale · sin(n · ω) by torch on one device, correctly rounded.

    Units: frequencies in radians per position.
    """

    def __init__(
        self, torch: Any, frequencies: Sequence[Decimal], *, scale: Decimal, device: Any
    ) -> None:
        self._torch = torch
        self._device = device
        self._cells = CPU_CELLS if device.type == "cpu" else DEVICE_CELLS
        self._phasors = Phasors(frequencies, scale=scale)
        self._magnitude = abs(float(scale))
        self._layouts = LRUCache[LowTables](LAYOUTS_KEPT)
        self._judges = LRUCache[Judge](JUDGES_KEPT)
        self._wides = LRUCache[WideWaves](1)
        self._angles = LRUCache[AngleTable](1)
        self._scratch = Scratch()
        self._words = {2: torch.int16, 4: torch.int32, 8: torch.int64}
        self._formats = {
            FLOAT16.name: torch.float16,
            BFLOAT16.name: torch.bfloat16,
            FLOAT32.name: torch.float32,
            FLOAT64.name: torch.float64,
        }

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position; skip other columns.

        Threads may fill different rows of one array at the same time.

        Shape: ``positions`` (P,) integers of magnitude ≤ 2^53; ``out`` (P, columns) in the storage
        of ``dtype``, with any strides.
        """
        if positions.size == 0:
            return
        positions = np.asarray(positions, np.int64)
        count = len(self._phasors.frequencies)
        with np.errstate(all="ignore"):
            for columns in columns_of(placements, width=out.shape[1], waves=count):
                target = out[:, columns.target]
                if self._phasors.scale == 0:
                    target[...] = 0
                elif dtype.name == FLOAT64.name and not self._wide().ordinary:
                    self._wide().fill(target, positions, columns)
                else:
                    self._fill(target, positions, columns, dtype)

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return n · ω in (−π, π], correctly rounded, computed by NumPy on the CPU.

        Units: radians.
        Shape: (positions, frequencies).
        """
        table = self._angles.get(None, lambda: AngleTable(self._phasors.frequencies))
        return table.rows(positions, dtype=dtype)

    def _fill(self, out: StoredRows, positions: Integers, columns: Columns, dtype: DType) -> None:
        tables = self._tables(columns, dtype)
        doubts = []
        for piece in self._pieces(tables, positions):
            rounded, rows = self._round(piece, dtype)
            out[piece.start : piece.stop] = self._storage(rounded, dtype).reshape(-1, out.shape[1])
            if rows is not None:
                doubts.append(rows + piece.start)
        if doubts:
            rows = np.concatenate(doubts)
            out[rows] = self._settle(positions[rows], tables, dtype)

    def _pieces(self, tables: LowTables, positions: Integers) -> Iterator[Piece]:
        step = max(1, self._cells // tables.factors.columns.waves.size)
        if rising_by_one(positions):
            yield from self._consecutive(tables, int(positions[0]), positions.size, step)
            return
        for start in range(0, positions.size, step):
            yield self._gather(tables, start, positions[start : start + step])

    def _consecutive(self, tables: LowTables, first: int, count: int, step: int) -> Iterator[Piece]:
        """Yield pieces that use a slice of the low tables, or all of them several times."""
        rows = self._phasors.rows
        multiples = np.arange(first // rows, (first + count - 1) // rows + 1)  # (multiples,)
        high = self._high(tables.factors, multiples)
        done = 0
        while done < count:
            multiple, offset = divmod(first + done, rows)
            if offset == 0 and min(step, count - done) >= rows:
                repeats = min(step, count - done) // rows
                span, size = slice(None), repeats * rows
            else:
                repeats, size = 1, min(step, rows - offset, count - done)
                span = slice(offset, offset + size)
            place = multiple - int(multiples[0])
            yield Piece(
                done,
                done + size,
                tuple(part[:, span] for part in tables.low),
                *_parted([part[place : place + repeats] for part in high]),
            )
            done += size

    def _gather(self, tables: LowTables, start: int, positions: Integers) -> Piece:
        """Return a piece for any positions; each has its own rows."""
        rows = self._phasors.rows
        sizes = np.abs(positions)
        # One row for each multiple and sign: ~a stands for −a.
        keys, places = np.unique(
            np.where(positions < 0, ~(sizes // rows), sizes // rows), return_inverse=True
        )
        offsets = self._tensor(sizes % rows)  # (P,)
        high = self._high(tables.factors, np.where(keys < 0, ~keys, keys), keys < 0)
        by = self._tensor(places)  # (P,)
        return Piece(
            start,
            start + positions.size,
            tuple(part[0, offsets].unsqueeze(1) for part in tables.low),
            *_parted([part[by] for part in high]),
        )

    def _high(
        self, factors: Factors | Wide, multiples: Integers, negative: Flags | None = None
    ) -> list[Tensor]:
        """Return U and V for a `Piece`, and the margin, (multiples, 1, columns) each."""
        if isinstance(factors, Wide):
            parts: tuple[RealRows, ...] = factors.by(multiples, negative)
        else:
            first, second = factors.high(multiples, negative)
            margin = MARGIN * factors.bounds(multiples, first, second, self._magnitude)
            parts = first, second, margin
        return [self._tensor(part).unsqueeze(1) for part in parts]

    def _round(self, piece: Piece, dtype: DType) -> tuple[Tensor, Places | None]:
        """Return entries in a number format, and the rows with an unproven entry, if any."""
        margin = piece.margin
        if dtype.name == FLOAT64.name:
            upper, lower = piece.ends()
        else:
            cells = piece.cells()
            upper, lower = cells + margin, cells - margin
            if dtype.itemsize == FLOAT16.itemsize:
                upper, lower = self._odd(upper), self._odd(lower)
            upper, lower = self._narrow(upper, dtype), self._narrow(lower, dtype)
        word = self._words[dtype.itemsize]
        # Compare bits, not values: 0.0 and −0.0 differ.
        if self._torch.equal(upper.view(word), lower.view(word)):
            return upper, None
        where = (upper.view(word) != lower.view(word)).nonzero(as_tuple=True)
        rows = (where[0] * upper.shape[1] + where[1]).unique()
        return upper, rows.cpu().numpy()

    def _narrow(self, values: Tensor, dtype: DType) -> Tensor:
        """Return values as torch narrows them: rounded to float32, and from there once more."""
        return values.to(self._torch.float32).to(self._formats[dtype.name])

    def _odd(self, values: Tensor) -> Tensor:
        """Return float64 values truncated to float32, with the last bit set if that is inexact."""
        torch = self._torch
        single = values.to(torch.float32)
        back = single.to(torch.float64)
        bits = single.view(torch.int32) - (back.abs() > values.abs()).to(torch.int32)
        return (bits | (back != values).to(torch.int32)).view(torch.float32)

    def _storage(self, values: Tensor, dtype: DType) -> StoredArray:
        """Return a tensor as an array in the storage of ``dtype``."""
        if dtype.name != BFLOAT16.name:
            return values.cpu().numpy()  # type: ignore[no-any-return]
        return values.view(self._torch.int16).cpu().numpy().view(np.uint16)  # type: ignore[no-any-return]

    def _settle(self, positions: Integers, tables: LowTables, dtype: DType) -> StoredRows:
        """Return whole rows from the numerical core, which settles every doubt."""
        columns = tables.factors.columns
        out = np.empty((positions.size, columns.waves.size), dtype.numpy)  # (P, columns)
        if isinstance(tables.factors, Wide):
            self._wide().fill(out, positions, columns)
            return out
        blocks = scattered_blocks(
            columns,
            self._phasors,
            positions,
            tables.factors,
            magnitude=self._magnitude,
            scratch=self._scratch,
        )
        self._judge(dtype).fill(out, positions, columns, blocks, self._scratch)
        return out

    def _judge(self, dtype: DType) -> Judge:
        return self._judges.get(dtype.name, lambda: Judge(self._phasors, dtype))

    def _wide(self) -> WideWaves:
        return self._wides.get(
            None, lambda: WideWaves(self._phasors, self._scratch, self._judge(FLOAT64))
        )

    def _tables(self, columns: Columns, dtype: DType) -> LowTables:
        def tables() -> LowTables:
            factors: Factors | Wide
            if dtype.name == FLOAT64.name:
                factors = Wide(columns, self._phasors)
                low: tuple[RealRows, ...] = factors.low
            else:
                factors = Factors(columns, self._phasors)
                low = factors.first, factors.second
            return LowTables(factors, tuple(self._tensor(part).unsqueeze(0) for part in low))

        return self._layouts.get((columns.key, dtype.name == FLOAT64.name), tables)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return tensor_of(self._torch, array, self._device)


def _parted(tensors: list[Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the factors, and the margin that follows them."""
    return tuple(tensors[:-1]), tensors[-1]


def tensor_of(torch: Any, array: NDArray[Any], device: Any) -> Tensor:
    """Return a copy of an array on a device.

    It is copied because torch cannot share memory with arrays that are read-only or reversed.
    """
    return torch.tensor(np.ascontiguousarray(array), device=device)


class RuleNamespace:
    """torch as the namespace of a frequency rule: arrays in one precision on one device."""

    def __init__(self, torch: Any, dtype: Any, device: Any) -> None:
        self._torch = torch
        self._given = {"dtype": dtype, "device": device}
        self.float64 = dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def arange(self, *bounds: int) -> Tensor:
        """Return integers in the precision."""
        # Start from integers: with float bounds, torch rounds each value.
        torch, device = self._torch, self._given["device"]
        return torch.arange(*bounds, dtype=torch.int64, device=device).to(self.float64)

    def asarray(self, values: Any, dtype: Any = None) -> Tensor:
        """Return values in the precision."""
        return self._torch.asarray(values, **{**self._given, **({"dtype": dtype} if dtype else {})})


def reduced_frequencies(
    torch: Any, rule: FrequencyRule, *, arithmetic: Reduced, device: Any
) -> Tensor:
    """Return a rule's frequencies, evaluated in float32 (or float64) and cast to the arithmetic."""
    form = torch.float64 if arithmetic == "float64" else torch.float32
    return rule(RuleNamespace(torch, form, device)).to(getattr(torch, arithmetic))


class TorchReducedWaves(ReducedWaves):
    """cos and sin of position · frequency as torch computes them in a precision."""

    def __init__(
        self, torch: Any, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: Any
    ) -> None:
        self._torch = torch
        self._device = device
        self._scale = scale
        self._frequencies = reduced_frequencies(torch, rule, arithmetic=arithmetic, device=device)

    def _products(self, positions: Integers | Reals) -> Tensor:
        column = tensor_of(self._torch, positions, self._device)[:, None]  # (P, 1)
        return column.to(self._frequencies.dtype) * self._frequencies[None, :]

    def _scaled_values(self, angles: Tensor, function: Literal["cos", "sin"]) -> Tensor:
        values = angles.cos() if function == "cos" else angles.sin()
        return values if self._scale == 1 else values * self._scale

    def _doubles(self, values: Tensor) -> RealRows:
        # Widened on the host, because not every device has float64.
        return values.cpu().to(self._torch.float64).numpy()  # type: ignore[no-any-return]

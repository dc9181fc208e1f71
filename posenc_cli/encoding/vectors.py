"""GivenVectors of a file or a seed, and their positions, as arrays that a file keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.arrays import position_blocks
from posenc_cli.encoding.weights import DrawnTable
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.reading import read_vectors
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT64, REAL_DTYPES
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.encoding.application import VectorRows
    from posenc_cli.numerics.arrays import NumberArray, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.positions import Positions

_BLOCK_VALUES = 1 << 16


class GivenVectors(Record):
    """GivenVectors (…, n, columns) as rows, and the number format that they are in."""

    shape: tuple[int, ...]
    rows: VectorRows
    dtype: DType

    @classmethod
    def read(cls, path: str) -> GivenVectors:
        """The vectors in a file.

        Raises: InvalidInput, Unavailable: as `read_vectors`.
        """
        shape, rows = read_vectors(path)
        return cls(shape, rows, REAL_DTYPES[rows.dtype])

    @classmethod
    def drawn(cls, shape: tuple[int, int], seed: int, dtype: DType) -> GivenVectors:
        """GivenVectors of independent normal(0, 1) numbers, rounded to a format."""
        return cls(shape, _DrawnRows(DrawnTable(shape[1], seed, 1.0), dtype, shape[0]), dtype)

    def matrix(self, *, wide: bool) -> Matrix:
        """Them as they are, in a file as ``x``; ``wide`` holds bfloat16 in float32."""
        stored = FLOAT32 if wide and self.dtype is BFLOAT16 else self.dtype
        return Matrix(self.shape, stored, lambda: self._blocks(stored), {}, name="x")

    def _blocks(self, stored: DType) -> Iterator[StoredRows]:
        count = int(np.prod(self.shape[:-1]))
        rows = max(1, _BLOCK_VALUES // self.shape[-1])
        for start in range(0, count, rows):
            block = self.rows[start : min(start + rows, count)]
            yield narrow(block.astype(np.float64), None, stored)


class _DrawnRows(Record):
    """Rows of a drawn table in a number format, any of them as they are asked for."""

    table: DrawnTable
    dtype: DType
    count: int

    def __getitem__(self, rows: slice) -> NumberArray:
        drawn = self.table(np.arange(*rows.indices(self.count)))
        return widen(narrow(drawn, None, self.dtype), self.dtype)


def positions_matrix(positions: Positions) -> Matrix:
    """The positions as an array: int64, or float64 where they are not whole."""
    parts = positions.denominator
    stored = INT64 if parts == 1 else FLOAT64

    def blocks() -> Iterator[StoredRows]:
        for block in position_blocks(positions, _BLOCK_VALUES):
            yield block if parts == 1 else block / float(parts)

    return Matrix((positions.count,), stored, blocks, {}, name="positions")

"""Tables cell by cell: cosines and sines of each column beside the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


class TableCells(Record):
    """The cells of some rows beside right ones, and what these may be off by.

    Shape: (tables, n, pairs): cosines and sines, and once more those of the second column of each
    pair, where these are others. ``angles`` are (n, pairs), ``positions`` and ``rows`` (n,).
    """

    cells: RealRows
    right: RealRows
    allowed: RealRows
    angles: RealRows
    positions: Integers
    rows: Integers

    @classmethod
    def of(cls, suspect: Suspect, rows: SomeRows) -> TableCells:
        """The cells of some rows of a table."""
        examination = suspect.examination
        block, reference = examination.subject.own.read(rows), examination.reference
        places = reference.angle_positions(block.positions)
        tolerance, frequencies = suspect.sample.tolerance, reference.frequencies
        allowed = tolerance.cells(places, frequencies) * max(1.0, reference.scale)
        angles = places.reshape(places.shape[0], -1) * frequencies  # (n, pairs)
        turns = np.exp(1j * angles)
        right = reference.scale * np.stack([turns.real, turns.imag])
        cells = np.stack([block.turned.real, block.turned.imag])
        if block.mirrored is not None:
            apart = np.stack([block.mirrored.real, -block.mirrored.imag])
            with np.errstate(invalid="ignore", over="ignore"):
                cells = np.concatenate([cells + apart, cells - apart])
            right = np.concatenate([right, right])
        allowed = np.broadcast_to(allowed, cells.shape)
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop, dtype=np.int64)
        return cls(cells, right, allowed, angles, block.positions, rows)

    def part(self, rows: Flags, pairs: Flags) -> TableCells:
        """Some of the rows (n,), and some of the pairs (pairs,)."""
        cells, right, allowed = (
            table[:, rows][:, :, pairs] for table in (self.cells, self.right, self.allowed)
        )
        angles = self.angles[rows][:, pairs]
        return TableCells(cells, right, allowed, angles, self.positions[rows], self.rows[rows])

    @classmethod
    def all_of(cls, suspect: Suspect) -> Iterator[TableCells]:
        """The cells of all rows, in pieces."""
        for rows in suspect.examination.subject.own.places.row_blocks():
            yield cls.of(suspect, rows)


def are_tables(suspect: Suspect) -> bool:
    """Whether the subject is made of tables whose cells all keep one size."""
    waves = suspect.examination.reference.content.waves
    is_tables = suspect.examination.subject.is_tables
    return is_tables and waves is not None and waves.growth is None

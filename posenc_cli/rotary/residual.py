"""What an explanation leaves over, of all values, positions and pairs that it is about."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


class Residual(Record):
    """What a claim leaves over, of all cells, positions and pairs that it is about.

    ``largest`` is the largest difference at any cell, ``within`` at those that are reproduced;
    ``cells`` and ``rows`` count what is not, ``first`` is the first position with such a cell, and
    ``pairs`` says which pairs are reproduced at every position.
    """

    largest: float
    within: float
    cells: int
    of_cells: int
    rows: int
    of_rows: int
    first: int | None
    pairs: Flags

    @classmethod
    def of(cls, positions: Integers, missed: RealRows, explained: Flags) -> Residual:
        """The residual of some positions (n,): what is missed and explained there, (n, pairs)."""
        if not positions.size:
            return _NOTHING
        left = ~explained.all(axis=1)  # (n,)
        high = float(missed.max())
        return cls(
            math.inf if math.isnan(high) else high,
            max(0.0, float(np.where(explained, missed, 0).max())),
            int(np.count_nonzero(~explained)),
            explained.size,
            int(np.count_nonzero(left)),
            left.size,
            int(positions[int(np.argmax(left))]) if left.any() else None,
            np.asarray(explained.all(axis=0), bool),
        )

    @classmethod
    def measure(cls, pieces: Iterable[tuple[Integers, RealRows, Flags]]) -> Residual:
        """The residual of positions (n,), what is missed and what is explained, both (n, pairs)."""
        return joined_residual(cls.of(*piece) for piece in pieces)

    @property
    def whole(self) -> bool:
        """Whether every cell is reproduced, by numbers that have not overflowed."""
        return not self.cells and math.isfinite(self.within)

    @property
    def exceptions(self) -> str:
        """What is left over, in words that follow others; empty if nothing.

        >>> Residual(1.0, 0.0, 9, 99, 2, 40, 7, np.ones(1, bool)).exceptions
        '; 2 of the 40 positions differ, the first at 7'
        """
        if self.first is None:
            return ""
        if self.rows == 1:
            return f"; one of the {self.of_rows} positions differs: {self.first}"
        return f"; {self.rows} of the {self.of_rows} positions differ, the first at {self.first}"

    @property
    def text(self) -> str:
        """The residual as evidence has it.

        >>> Residual(3e-8, 3e-8, 0, 99, 0, 40, None, np.ones(1, bool)).text
        'reproduced to 3e-08 at all 40 positions'
        >>> Residual(1.0, 3e-8, 9, 99, 1, 9, 7, np.ones(1, bool)).text
        '90 of 99 pairs of cells reproduced to 3e-08, 9 not; one of the 9 positions differs: 7'
        """
        if self.cells == self.of_cells:
            return "not reproduced"
        near = f"reproduced to {self.within:.2g}"
        if self.first is None:
            return f"{near} at all {self.of_rows} positions" if self.of_rows > 1 else near
        right = self.of_cells - self.cells
        count = f"{right} of {self.of_cells} pairs of cells"
        return f"{count} {near}, {self.cells} not{self.exceptions}"

    def fields(self) -> dict[str, object]:
        """The residual as JSON has it, finite numbers only."""
        shown = self.cells < self.of_cells and math.isfinite(self.within)
        return {
            "max_abs": self.largest if math.isfinite(self.largest) else None,
            "reproduced_to": self.within if shown else None,
            "cells": self.of_cells,
            "left_over": {
                "cells": self.cells,
                "positions": self.rows,
                "pairs": int(np.count_nonzero(~self.pairs)),
            },
        }


_NOTHING = Residual(0.0, 0.0, 0, 0, 0, 0, None, np.ones(1, bool))


def joined_residual(parts: Iterable[Residual]) -> Residual:
    """The residual of several parts together."""

    def both(one: Residual, other: Residual) -> Residual:
        return Residual(
            max(one.largest, other.largest),
            max(one.within, other.within),
            one.cells + other.cells,
            one.of_cells + other.of_cells,
            one.rows + other.rows,
            one.of_rows + other.of_rows,
            other.first if one.first is None else one.first,
            one.pairs & other.pairs,
        )

    return reduce(both, parts, _NOTHING)

"""Which columns of a matrix hold which function of which frequencies."""

from __future__ import annotations

from typing import Literal

from posenc_cli.records import Record

Function = Literal["cos", "sin", "zero"]


class Placement(Record):
    """These ``columns`` of a matrix hold this ``function`` of these of its ``waves``, in order.

    >>> Placement("sin", slice(0, 4, 2), slice(0, 2))
    Placement(function='sin', columns=slice(0, 4, 2), waves=slice(0, 2, None))
    """

    function: Function
    columns: slice
    waves: slice = slice(None)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others, hashable where slices are not (before Python 3.12)."""
        columns, waves = self.columns, self.waves
        parts = columns.start, columns.stop, columns.step, waves.start, waves.stop, waves.step
        return self.function, *parts

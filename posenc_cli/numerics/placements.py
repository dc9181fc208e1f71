"""Which columns of a matrix hold which function of which frequencies."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from posenc_cli.records import Record

Function = Literal["cos", "sin", "zero"]


class Placement(Record):
    """The ``columns`` of a matrix that hold a ``function`` of some of its ``waves``, in order.

    >>> Placement("sin", slice(0, 4, 2), slice(0, 2))
    Placement(function='sin', columns=slice(0, 4, 2), waves=slice(0, 2, None))
    """

    function: Function
    columns: slice
    waves: slice = slice(None)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A hashable key of the placement; slices are not hashable before Python 3.12."""
        columns, waves = self.columns, self.waves
        parts = columns.start, columns.stop, columns.step, waves.start, waves.stop, waves.step
        return self.function, *parts

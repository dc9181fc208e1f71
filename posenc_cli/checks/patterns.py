"""The ways in which a sequence reaches a function: whole, in chunks, row by row, packed, very long.

A row's result must not depend on them. They are tried on a short sequence, a handful of calls; what
takes long is left out, and said.
"""

from __future__ import annotations

import contextlib
import time
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.moved_rows import counted_otherwise
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.checks.answers import Differs, Rows
    from posenc_cli.numerics.arrays import NumberArray

SEQUENCE = 256
"""Rows of the sequence: more than float16 or bfloat16 tell apart by steps."""

_CHUNKS = ((64, 64, 7, 1), (2, 8, 16, 32, 128))
"""Rows of the first chunks, those of a block twice: code may have a path of its own for each."""

_STEPS = 4
"""Rows that come one by one: the first after a prefill, and some after it."""

_LONG = (1 << 16) + 64
"""Rows of one very long call: more than the 65,535 blocks that a GPU launches along an axis."""

_SLOW_SECONDS = 0.2
"""Where a call of the sequence takes more, a very long one might take a minute: it is left out."""


class PatternFault(Record):
    """A way to call a function that changes what it gives.

    ``known`` says what is wrong, where every row shows it, else it is empty; ``cause`` is its word.
    """

    text: str
    known: str = ""
    cause: Cause = Cause.POSITION_OFFSET


class PatternReport(Record):
    """Which ways were tried, in words, in which the results differ, and which were not tried."""

    tried: tuple[str, ...]
    faults: tuple[PatternFault, ...]
    untried: tuple[str, ...] = ()


def try_patterns(
    rows: Rows, differs: Differs, *, context: int, any_rows: bool, from_zero: bool
) -> PatternReport:
    """Call a function on one sequence in every way that its form has.

    ``rows(indices, positions)`` are its results for some rows of one input. ``any_rows`` says that
    a call may have any positions, ``from_zero`` that each begins at position 0.

    Raises: InvalidInput where a call fails that is no longer than the context.
    """
    count = min(SEQUENCE, context)
    if count < 2 * _STEPS or from_zero:
        return PatternReport((), ())
    chunk, last = count // 2, count - _STEPS
    steps = list(range(last, count))
    # In pieces first: a cache grows as it would.
    pieces = [_chunks(rows, count, sizes) for sizes in _CHUNKS]
    pieces.insert(1, _Pieces.of(f"a prefill of {last} and steps of one", rows, count, steps))
    sequence = np.arange(count)
    began = time.monotonic()
    whole = rows(sequence, sequence)
    seconds = time.monotonic() - began
    tried = [each.name for each in pieces]
    faults = _agreed([each.fault(whole, rows, differs, context) for each in pieces])
    if any_rows:
        tried.append("packed sequences")
        faults.append(_packed_fault(whole, chunk, rows, differs))
        if seconds <= _SLOW_SECONDS:
            # A function may have a longest call.
            with contextlib.suppress(InvalidInput):
                faults.append(_long_fault(whole, rows, differs))
                tried.append(f"{_LONG} rows in one call")
    return PatternReport(tuple(tried), tuple(fault for fault in faults if fault))


class _Pieces(Record):
    """A sequence that came in pieces, which begin at ``stops``."""

    name: str
    values: NumberArray
    stops: list[int]

    @classmethod
    def of(cls, name: str, rows: Rows, count: int, stops: list[int]) -> _Pieces:
        """The results of ``count`` rows in pieces."""
        pieces = np.split(np.arange(count), stops)
        return cls(name, np.concatenate([rows(piece, piece) for piece in pieces]), stops)

    def fault(
        self, whole: NumberArray, rows: Rows, differs: Differs, context: int
    ) -> PatternFault | None:
        """What is otherwise than in one call."""
        if not differs(self.values, whole):
            return None
        first = _first_row(self.values, whole, differs)
        text = f"called in {self.name} gives other values than in one call, from row {first} on"
        moved = counted_otherwise(self.values, self.stops, first, rows, differs, most=context)
        if moved:
            text += f"; all {whole.shape[0]} rows are reproduced so"
        return PatternFault(text, moved)


def _agreed(faults: list[PatternFault | None]) -> list[PatternFault | None]:
    """The faults, a rule of some pieces as one of those alone."""
    known = {fault.known for fault in faults if fault}
    if len(known) < 2:
        return faults
    return [
        fault and replace(fault, known=fault.known and f"{fault.known}, in calls of some lengths")
        for fault in faults
    ]


def _chunks(rows: Rows, count: int, first: tuple[int, ...]) -> _Pieces:
    """A sequence in chunks, of which the first have so many rows, as far as they go."""
    stops = [stop for stop in accumulate(first) if stop < count] or [count // 2]
    *sizes, last = (str(size) for size in np.diff([0, *stops, count]))
    return _Pieces.of(f"chunks of {', '.join(sizes)} and {last} rows", rows, count, stops)


def _packed_fault(
    whole: NumberArray, chunk: int, rows: Rows, differs: Differs
) -> PatternFault | None:
    """What is wrong where two sequences come in one call."""
    sequence = np.arange(whole.shape[0])
    positions = np.concatenate([sequence[:chunk], sequence[: sequence.size - chunk]])
    halves = (slice(0, chunk), slice(chunk, None))
    own = np.concatenate([rows(sequence[half], positions[half]) for half in halves])
    values = rows(sequence, positions)
    if not differs(values, own):
        return None
    first = _first_row(values, own, differs)
    text = f"called with packed sequences gives other values than with each, from row {first} on"
    if differs(values, whole):
        return PatternFault(text)
    moved = "rows are counted on: a second sequence does not start at position 0"
    return PatternFault(f"{text}; all {whole.shape[0]} rows are reproduced so", moved)


def _long_fault(whole: NumberArray, rows: Rows, differs: Differs) -> PatternFault | None:
    """What is wrong where more rows come than a GPU has blocks for along an axis."""
    repeated = np.resize(np.arange(whole.shape[0]), _LONG)
    values, wanted = rows(repeated, repeated), whole[repeated]
    if not differs(values, wanted):
        return None
    first = _first_row(values, wanted, differs)
    return PatternFault(
        f"called with {_LONG} rows gives other values than with few, from row {first} on"
    )


def _first_row(values: NumberArray, wanted: NumberArray, differs: Differs) -> int:
    """The first row that differs.

    Rows differ by the size of all: what no row alone shows begins with the first.
    """
    low, high = 0, values.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if differs(values[low:middle], wanted[low:middle]):
            high = middle
        else:
            low = middle
    return low

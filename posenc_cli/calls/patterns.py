"""The ways in which a sequence reaches a function: whole, in chunks, row by row, packed, very long.

A row's result must not depend on them. They are tried on a short sequence, a handful of calls; what
takes long is left out, and said.
"""

from __future__ import annotations

import contextlib
import time
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from posenc_cli.calls.moved_rows import RESTARTED, moved_in_pieces
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.calls.answers import Differs, Rows
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import Integers, NumberArray

SEQUENCE = 256
"""Rows of the sequence: more than float16 or bfloat16 tell apart by steps."""

_CHUNKS = ((64, 64, 7, 1), (2, 8, 16, 32, 128))
"""Rows of the first chunks, those of a block twice: code may have a path of its own for each."""

_BLOCKS = (256, 256, 512, 1024, 2048)
"""Rows of the chunks of a longer sequence: what a long prompt is commonly cut into."""

_FEW = (1, 2, 9, 100)
"""Rows of short calls of a function whose every call begins at position 0."""

_STEPS = 4
"""Rows that come one by one: the first after a prefill, and some after it."""

_SINGLE = "a single row is turned at position 0, so not at all"

LONG = (1 << 16) + 64
"""Rows of one very long call: more than the 65,535 blocks that a GPU launches along an axis."""

_ENDS = (1 << 16, (1 << 16) - 1)
"""The first rows past what 16 bits count, and past those blocks."""

SLOW_SECONDS = 0.2
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


_Compared = TypeVar("_Compared")


class PlannedCalls:
    """Calls that are planned: each was compared, or is said not to be tried, and why."""

    def __init__(self, function: ServedFunction) -> None:
        self._function = function
        self.tried: list[str] = []
        self.untried: list[str] = []

    @contextlib.contextmanager
    def planned(self, text: str) -> Iterator[None]:
        """A call, in words, with what compares its result."""
        try:
            yield
        except InvalidInput as error:
            self._function.revive()
            self.skip(text, self._function.reason(error))
        else:
            self.tried.append(text)

    def attempt(self, text: str, call: Callable[[], _Compared]) -> _Compared | None:
        """What a call gives; None where it fails."""
        results: list[_Compared] = []
        with self.planned(text):
            results.append(call())
        return results[0] if results else None

    def skip(self, text: str, why: str) -> None:
        """Leave out a call."""
        self.untried.append(f"{text} ({why})")

    def report(self, *faults: PatternFault | None) -> PatternReport:
        """The report on all of them."""
        found = tuple(fault for fault in faults if fault)
        return PatternReport(tuple(self.tried), found, tuple(self.untried))


def try_patterns(
    function: ServedFunction, rows: Rows, differs: Differs, *, context: int
) -> PatternReport:
    """Call a function on one sequence in every way that its form has.

    ``rows(indices, positions)`` are its results for some rows of one input.

    Raises: InvalidInput where a call fails that is no longer than the context.
    """
    form, calls, count = function.form, PlannedCalls(function), min(SEQUENCE, context)
    if count < 2 * _STEPS:
        return PatternReport((), ())
    sequence = np.arange(count)
    if form.from_zero:
        whole = rows(sequence, sequence)
        return calls.report(*_shorter_faults(calls, whole, rows, differs))
    chunk, last = count // 2, count - _STEPS
    steps = list(range(last, count))
    # In pieces first: a cache grows as it would.
    pieces = [_Pieces.of(rows, _Chunks.of(count, sizes)) for sizes in _CHUNKS]
    prefill = _Chunks(f"a prefill of {last} and steps of one", count, steps)
    pieces.insert(1, _Pieces.of(rows, prefill))
    began = time.monotonic()
    whole = rows(sequence, sequence)
    slow = time.monotonic() - began > SLOW_SECONDS
    calls.tried += [each.name for each in pieces]
    in_pieces, other = [(each, whole) for each in pieces], None
    # Tables that are chosen from are too short to show where a call far from 0 starts again.
    if context > sum(_BLOCKS[:2]) and not form.chosen:
        chunks = _Chunks.of(min(context, sum(_BLOCKS)), _BLOCKS)
        if slow:
            calls.skip(chunks.name, SLOW)
        else:
            with calls.planned(chunks.name):
                other = _block_fault(chunks, in_pieces, whole, rows, differs)
    faults = [*_faults_of_pieces(in_pieces, rows, differs, context), *filter(None, [other])]
    if not faults and context > _FIRST_FAR:
        with calls.planned("single rows far from the first"):
            powers = range(8, context.bit_length())
            firsts = [1 << power for power in powers if (1 << power) + 1 < context]
            faults += _far_steps(rows, differs, firsts)
    if form.any_rows:
        with calls.planned("packed sequences"):
            faults += filter(None, [_packed_fault(whole, chunk, rows, differs)])
    faults += _long_faults(calls, whole, rows, differs, context, slow=slow, repeats=form.any_rows)
    if not faults and context > _FIRST_FAR and form.has("offset"):
        with calls.planned("the last row alone"):  # last: it grows a cache to its end
            faults += _far_steps(rows, differs, [context - 2])
    return calls.report(*faults)


SLOW = f"a call of {SEQUENCE} rows takes more than {SLOW_SECONDS:g} s"


def _shorter_faults(
    calls: PlannedCalls, whole: NumberArray, rows: Rows, differs: Differs
) -> Iterator[PatternFault]:
    """What is wrong in short calls of a function whose every call begins at position 0."""
    for few in (few for few in _FEW if few < len(whole)):
        with calls.planned(f"a call of {rows_text({few})}"):
            values = rows(np.arange(few), np.arange(few))
            if differs(values, whole[:few]):
                text = f"called with {rows_text({few})} gives other values than with {len(whole)}"
                first = _first_row(values, whole[:few], differs)
                yield PatternFault(f"{text}, from row {first} on")
                return


def _block_fault(
    chunks: _Chunks,
    in_pieces: list[tuple[_Pieces, NumberArray]],
    whole: NumberArray,
    rows: Rows,
    differs: Differs,
) -> PatternFault | None:
    """What is wrong in one long call; where nothing is, its chunks are added to ``in_pieces``."""
    blocks, count = _Pieces.of(rows, chunks), len(whole)
    in_one = rows(np.arange(chunks.count), np.arange(chunks.count))
    if not differs(in_one[:count], whole):
        in_pieces.append((blocks, in_one))
        return None
    text = f"called with {chunks.count} rows gives other values than with {count}"
    return PatternFault(f"{text}, from row {_first_row(in_one[:count], whole, differs)} on")


def _long_faults(
    calls: PlannedCalls,
    whole: NumberArray,
    rows: Rows,
    differs: Differs,
    context: int,
    *,
    slow: bool,
    repeats: bool,
) -> list[PatternFault]:
    """What is wrong in one very long call, whose rows repeat where any positions may."""
    count = LONG if repeats else min(LONG, context)
    if not repeats and count <= sum(_BLOCKS):
        return []
    text, faults = f"{count} rows in one call", list[PatternFault | None]()
    if slow:
        calls.skip(text, SLOW)
        return []
    with calls.planned(text):
        if repeats:
            faults.append(_long_fault(whole, rows, differs))
        else:
            faults.append(_long_sequence_fault(count, whole, rows, differs))
    return [fault for fault in faults if fault]


def _far_steps(rows: Rows, differs: Differs, firsts: Sequence[int]) -> tuple[PatternFault, ...]:
    """What is wrong where a row far from the first comes alone.

    It is compared with itself behind the one before it, which is at each of ``firsts``.
    """
    for first in firsts:
        where = np.arange(first, first + 2)
        both, alone = rows(where, where), rows(where[1:], where[1:])
        if differs(both[1:], alone):
            text = f"called with the row of position {where[1]} alone gives other values than with"
            return (PatternFault(f"{text} the one before it"),)
    return ()


_FIRST_FAR = 258


class _Chunks(Record):
    """How ``count`` rows are cut into pieces, of which all but the first begin at ``stops``."""

    name: str
    count: int
    stops: list[int]

    @classmethod
    def of(cls, count: int, first: tuple[int, ...]) -> _Chunks:
        """Chunks of which the first have so many rows, as far as they go."""
        stops = [stop for stop in accumulate(first) if stop < count] or [count // 2]
        *sizes, last = (str(size) for size in np.diff([0, *stops, count]))
        return cls(f"chunks of {', '.join(sizes)} and {last} rows", count, stops)


class _Pieces(Record):
    """A sequence that came in pieces, of which all but the first begin at ``stops``."""

    name: str
    values: NumberArray
    stops: list[int]

    @classmethod
    def of(cls, rows: Rows, chunks: _Chunks) -> _Pieces:
        """The results of rows in pieces."""
        pieces = np.split(np.arange(chunks.count), chunks.stops)
        values = np.concatenate([rows(piece, piece) for piece in pieces])
        return cls(chunks.name, values, chunks.stops)

    @property
    def parts(self) -> list[Integers]:
        """The rows of each piece."""
        return np.split(np.arange(self.values.shape[0]), self.stops)

    def wrong(self, whole: NumberArray, differs: Differs) -> list[bool]:
        """Which pieces are otherwise than in one call."""
        return [differs(self.values[part], whole[part]) for part in self.parts]


def _faults_of_pieces(
    in_pieces: Sequence[tuple[_Pieces, NumberArray]], rows: Rows, differs: Differs, context: int
) -> list[PatternFault]:
    """What is otherwise in pieces than in one call, and in pieces of which lengths."""
    faults, wrong, right = [], set[int](), set[int]()
    for each, whole in in_pieces:
        bad = each.wrong(whole, differs)
        # Not the first: what begins at position 0 is right however later pieces are counted.
        later = zip(each.parts[1:], bad[1:], strict=True)
        right |= {part.size for part, is_bad in later if not is_bad}
        if not differs(each.values, whole):
            continue
        first = _first_row(each.values, whole, differs)
        text = f"called in {each.name} gives other values than in one call, from row {first} on"
        moved = moved_in_pieces(each.values, each.parts, bad, rows, differs, most=context)
        if moved is None:
            faults.append(PatternFault(text))
            continue
        wrong |= {part.size for part, is_bad in zip(each.parts, bad, strict=True) if is_bad}
        text += f"; all {whole.shape[0]} rows are reproduced so"
        faults.append(PatternFault(text, moved.text, moved.cause))
    rules = {fault.known for fault in faults if fault.known}
    if wrong == {1} and rules == {RESTARTED}:
        faults = [replace(fault, known=fault.known and _SINGLE) for fault in faults]
    where = lengths_text(wrong, right) if len(rules) < 2 else ", in calls of some lengths"
    return [replace(fault, known=fault.known and f"{fault.known}{where}") for fault in faults]


def lengths_text(wrong: set[int], right: set[int]) -> str:
    """In pieces of which lengths rows are wrong, for a reader; empty where in all of them."""
    if not wrong or not right:
        return ""
    if wrong & right:
        return ", in some calls"
    if len(wrong) <= len(right):
        return f", in calls of {rows_text(wrong)} and not in those of {rows_text(right)}"
    return f", in calls of other lengths than {rows_text(right)}"


def rows_text(sizes: set[int]) -> str:
    """So many rows, as words."""
    *some, last = map(str, sorted(sizes))
    return f"{', '.join(some)} or {last} rows" if some else f"{last} row{'s' * (last != '1')}"


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
    """What is wrong where more rows come than a GPU has blocks for along an axis.

    They are so many repeated that none begins again at an end: what starts anew there, or does not
    turn, shows.
    """
    cycle = next(n for n in range(whole.shape[0], 1, -1) if all(end % n for end in _ENDS))
    repeated = np.resize(np.arange(cycle), LONG)
    values, wanted = rows(repeated, repeated), whole[repeated]
    if not differs(values, wanted):
        return None
    first = _first_row(values, wanted, differs)
    text = f"called with {LONG} rows gives other values than with few, from row {first} on"
    if first < LONG // 2:
        return PatternFault(text)
    # Few enough for a call of their own.
    last, from_first = repeated[first:], repeated[: LONG - first]
    if not differs(values[first:], rows(last, from_first)):
        known = f"rows from {first} on are turned at the positions of the first rows of a call"
        return PatternFault(text, known)
    if not differs(values[first:], rows(last, np.zeros_like(last))):
        known = f"rows from {first} on do not turn: they are as at position 0"
        return PatternFault(text, known, Cause.NO_ROTATION)
    return PatternFault(text)


def _long_sequence_fault(
    count: int, whole: NumberArray, rows: Rows, differs: Differs
) -> PatternFault | None:
    """What is wrong with the first and the last rows of one very long sequence."""
    values = rows(np.arange(count), np.arange(count))
    last = np.arange(count - 2, count)
    for part, wanted, which in (
        (values[: len(whole)], whole, "first"),
        (values[last], rows(last, last), "last"),
    ):
        if differs(part, wanted):
            text = f"called with {count} rows gives other values than with few, in the {which} ones"
            return PatternFault(text)
    return None


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

"""Which position each row of a call was rotated at: the log of all calls, and what it shows.

Every call is kept. If rows are wrong, their positions are read from their rotations: every row of
every wrong call has to be explained so, and all other calls have to be right. Otherwise the cause
is unknown.
"""

from __future__ import annotations

import time
from collections import deque
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import Irregularity
from posenc_cli.calls.patterns import (
    SEQUENCE,
    SLOW,
    SLOW_SECONDS,
    rows_text,
)
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.position_maps import shown_positions
from posenc_cli.inference.reference import Sample
from posenc_cli.inference.tolerance import Tolerance
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.answers import Rows
    from posenc_cli.calls.patterns import PlannedCalls
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, NumberArray

_ROUNDINGS = 4
"""Of vectors before and after, as :mod:`rotated` counts them."""

_FIRST_ROWS = 48
"""Of an object that is made with its default length, and around that."""

_SHOWN = 3
"""Rows, or lengths of calls, that are shown."""


class MadeCall(Record):
    """Rows (n, columns) before and after, at positions (n,)."""

    positions: Integers
    x: NumberArray
    after: Callable[[], NumberArray]

    @cached_property
    def values(self) -> NumberArray:
        """The rows after, which are computed when they are looked at."""
        return self.after()

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.positions.size

    @property
    def start(self) -> int:
        """Where it begins."""
        return int(self.positions[0])

    @property
    def end(self) -> int:
        """How many positions there are up to its last."""
        return int(self.positions.max()) + 1


CALL_RULES: tuple[tuple[str, Callable[[MadeCall], Integers]], ...] = (
    ("each call restarts at position 0", lambda call: call.positions - call.positions.min()),
    (
        "positions are ignored: rows are numbered from 0",
        lambda call: np.arange(call.rows),
    ),
    (
        "rows get the rotation of other positions: they count on from the first",
        lambda call: call.start + np.arange(call.rows),
    ),
)
"""Rules for the positions of wrong calls that public libraries follow, and their names."""


class RowReader:
    """Reads at which positions the reference rotates vectors as a function does.

    ``dtype`` is the number format of the results.
    """

    def __init__(self, reference: Reference, dtype: str) -> None:
        self.reference = reference
        self._tolerance = Tolerance.of(
            "auto", dtype=dtype, roundings=_ROUNDINGS, amplitude=reference.scale
        )

    def right(self, call: MadeCall, used: Integers) -> Flags:
        """Which rows are rotated as the reference rotates them at these positions. Shape: (n,)."""
        before, after = self.factors(call)
        farther = np.maximum(call.positions, np.abs(used))
        size = np.abs(call.x).max(axis=1, keepdims=True)  # (n, 1)
        floor = _ROUNDINGS * self._tolerance.floor * size
        allowed = self._tolerance.cells(farther, self.reference.frequencies) * np.abs(before)
        positions, places = np.unique(used, return_inverse=True)
        turns = np.asarray(self.reference.rotation.at(positions.astype(np.int64))[places])
        missed = np.abs(after - before * turns)
        others = list(self.reference.pairing.others(call.x.shape[1]))
        stays = np.abs(call.values[:, others] - call.x[:, others]) <= floor
        right: Flags = (missed <= allowed + floor).all(axis=1) & stays.all(axis=1)
        return right

    def positions(self, call: MadeCall) -> Integers | None:
        """The position that each row is rotated at; None if one shows none, or all run backward."""
        if self.reference.coordinates is not None or not np.isfinite(call.values).all():
            return None  # on several axes there are only the positions that calls have
        before, after = self.factors(call)
        sample = Sample(
            call.positions,
            after / np.where(before == 0, 1, before),
            np.abs(before) > _SEEN * np.abs(call.x).max(axis=1, keepdims=True),
            np.zeros((call.rows, 1)),
            replace(self._tolerance, floor=_WIDER * self._tolerance.floor),
            self.reference.scale,
            self.reference,
        )
        read, explained = shown_positions(sample)
        shown = explained.all() and (read.min() >= 0 or read.max() > 0)
        return read if shown and self.right(call, read).all() else None

    def factors(self, call: MadeCall) -> tuple[ComplexRows, ComplexRows]:
        """The dimension pairs before and after, as complex numbers. Shape: (n, pairs) each."""
        pairing = self.reference.pairing
        with np.errstate(invalid="ignore"):
            before, after = (
                vectors[:, list(first)] + 1j * vectors[:, list(second)].astype(np.float64)
                for vectors, first, second in (
                    (call.x, pairing.first, pairing.second),
                    (call.values, pairing.out_first, pairing.out_second),
                )
            )
        return before, after


_SEEN = 0.02
"""Of the largest value of a row: pairs that are smaller show their rotation too coarsely."""

_WIDER = 8 / _SEEN
"""Times the tolerance of vectors of length 1 that a row's rotation is read with; it is then
compared with its own."""


class CallLog:
    """The calls of one result of a function."""

    def __init__(
        self,
        function: ServedFunction,
        reference: Reference,
        x: NumberArray,
        rows: Rows,
    ) -> None:
        self.function, self.reference = function, reference
        self._x, self._rows = x, rows
        self.made: list[MadeCall] = []

    @classmethod
    def of_vectors(
        cls,
        function: ServedFunction,
        reference: Reference,
        drawn: Sequence[NumberArray],
    ) -> list[CallLog]:
        """Of what happens to vectors (rows, columns) of each result, given again and again.

        Every call has all results: those of the others are kept until their logs make this call.
        """
        kept: list[deque[tuple[bytes, NumberArray]]] = [deque() for _ in drawn]

        def rows(which: int, indices: Integers, where: Integers) -> NumberArray:
            key = indices.tobytes() + where.tobytes()
            if kept[which] and kept[which][0][0] == key:
                return kept[which].popleft()[1]
            results = function.each_value([x[indices % SEQUENCE] for x in drawn], where)
            for others, values in zip(kept, results, strict=True):
                others.append((key, values))
            kept[which].clear()
            return results[which]

        return [cls(function, reference, x, partial(rows, which)) for which, x in enumerate(drawn)]

    @classmethod
    def of_tables(cls, function: ServedFunction, reference: Reference, rows: Rows) -> CallLog:
        """Of tables of cosines and sines, as what happens to (1, 0) in every pair."""
        x = np.zeros((SEQUENCE, reference.head), np.float32)
        x[:, list(reference.pairing.first)] = 1
        return cls(function, reference, x, rows)

    @property
    def compares(self) -> bool:
        """Whether its rows can be compared: not where the largest position is part of each call."""
        return self.reference.symmetric and not self.function.follows_length

    def rows(self, indices: Integers, where: Integers) -> NumberArray:
        """What happens to some rows in one call, which is kept."""
        values = self._rows(indices, where)
        # Without positions for each row what is no sequence takes several calls. Longer tables,
        # of which rows are chosen, have each position once: rows that repeat find others.
        form = self.function.form
        steps = np.diff(where if not form.chosen else np.sort(where))
        whole = values.shape[1] / self.reference.pairs in (2, 4)  # of tables
        if (whole or self.function.outcome == "vectors") and (
            (steps == 1).all() or (form.any_rows and (steps.all() or not form.chosen))
        ):
            after = partial(self._as_vectors, values)
            self.made.append(MadeCall(where, self._x[indices % SEQUENCE], after))
        return values

    def sequence(self, count: int, first: int = 0) -> None:
        """Make a call of rows that follow on each other."""
        self.rows(np.arange(first, first + count), np.arange(first, first + count))

    def _as_vectors(self, values: NumberArray) -> NumberArray:
        """What became of vectors."""
        if self.function.outcome == "vectors":
            return values
        pairing, (cos, sin) = self.reference.pairing, np.split(values, 2, axis=1)
        first, second = list(pairing.first), list(pairing.second)
        if cos.shape[1] == 2 * pairing.pairs:
            cos, sin = cos[:, first], sin[:, first]
        after = np.zeros((values.shape[0], self.reference.head), values.dtype)
        after[:, first], after[:, second] = cos, sin
        return after


def by_call(log: CallLog, dtype: str) -> tuple[Irregularity, ...]:
    """What happens to rows by their calls; nothing where no rule gives all of them.

    ``dtype`` is the number format of the results. Longer tables, of which rows are chosen, have the
    first positions and those of the call: among the first ones any rule shows.
    """
    near = [call for call in log.made if call.end <= SEQUENCE]
    parts = [near, log.made] if log.function.form.chosen else [log.made]
    return next(filter(None, (_Calls(log, own, dtype).causes() for own in parts)), ())


def of_far_rows(log: CallLog, dtype: str) -> tuple[Irregularity, ...]:
    """What is wrong in calls of one or two rows, where those near position 0 are right.

    Other calls agree among themselves; that these are right follows from no other.
    """
    few = [call for call in log.made if call.rows <= 2]
    near = sorted((call for call in log.made if call.end <= SEQUENCE), key=lambda call: call.rows)
    calls, reader = _Calls(log, few, dtype), RowReader(log.reference, dtype)
    # The longest has 65,600 rows: it is looked at last.
    near_right = (reader.right(call, call.positions).all() for call in near)
    if not log.compares or calls.right or not all(near_right):
        return ()
    message = "single rows are rotated differently far from position 0"
    text = f"called with {calls.first_wrong}: results differ from the reference"
    return by_call(log, dtype) or (_irregular(Cause.UNKNOWN, message, text),)


def in_a_long_call(
    log: CallLog, dtype: str, rows: int, planned: PlannedCalls
) -> tuple[Irregularity, ...]:
    """What happens to so many rows of one call, which is ``planned``.

    Nothing where those of a short one are wrong, or none can be compared.
    """
    before, known, text = len(log.made), len(planned.faults), f"{rows} rows in one call"
    with planned.planned(text):
        began = time.monotonic()
        log.sequence(SEQUENCE)
        if time.monotonic() - began > SLOW_SECONDS:
            raise InvalidInput(SLOW)
        if not log.made[before:] or not _Calls(log, log.made[before:], dtype).right:
            raise InvalidInput("a short call is wrong too")
        log.sequence(rows)
    calls = _Calls(log, log.made[before:], dtype)
    if crashes := planned.faults[known:]:
        return tuple(crashes)
    if text not in planned.tried or calls.right:
        return ()
    text = f"called with {calls.first_wrong}: results differ from the reference"
    message = "the function rotates rows of long calls differently"
    return calls.causes() or (_irregular(Cause.UNKNOWN, message, text),)


def past_default_length(
    logs: Sequence[CallLog], planned: PlannedCalls, dtype: str, last: int, *, half: str = ""
) -> Irregularity | None:
    """What happens to rows past the length that an object has by default, up to position ``last``.

    The object is made anew; with ``half`` its first calls, which grow it, are in that precision.
    One whose first, short call is wrong too is told its length by who makes it.
    """
    function, columns = logs[0].function, logs[0].function.form.columns
    assert function.process.default_length is not None
    name, length = function.process.default_length
    of_default = f"an object made with its default {name}={length}"
    past = f"past that length in {half}" if half else "past that length"
    if not logs[0].compares:
        planned.skip(f"{of_default}, {past}")
        return None
    right = True
    with planned.planned(f"{of_default}, {past}", surely=False):
        function.process.by_default = True
        function.process.renew()
        calls = _around(function, length, last)
        if half:
            coarse = function.varied(last=function.last, dtype=half)
            for first, count in calls:
                where = np.arange(first, first + count)
                coarse.all_values(np.ones((count, columns), np.float32), where)
        for (first, count), log in product(calls, logs):
            log.rows(np.arange(count), np.arange(first, first + count))
        if not (half or all(_Calls(log, log.made[:1], dtype).right for log in logs)):
            raise InvalidInput("its first, short call is wrong too")
        right = all(_Calls(log, log.made, dtype).right for log in logs)
    if right:
        return None
    known = f"rows are wrong after a call past the length, in {of_default}"
    text = f"called {past}: results differ from an object of length {last + 1}"
    return Irregularity(Cause.UNKNOWN, known, text)


def _around(function: ServedFunction, length: int, last: int) -> list[tuple[int, int]]:
    """First positions and rows of calls that pass a length, pass it again, and are short again."""
    short = (0, min(_FIRST_ROWS, length))
    if function.form.from_zero:
        longer = [(0, end) for end in sorted({length + 1, min(2 * length, last + 1)})]
    else:
        latest = last + 1 - _FIRST_ROWS
        starts = (length - _FIRST_ROWS // 2, latest)
        longer = [(start, _FIRST_ROWS) for start in starts if 0 <= start <= latest]
    return [short, *longer, short]


class _Calls:
    """Calls, and which of them are wrong."""

    def __init__(self, log: CallLog, made: Sequence[MadeCall], dtype: str) -> None:
        self._reader, self._made = RowReader(log.reference, dtype), made
        right = [bool(self._reader.right(call, call.positions).all()) for call in made]
        self._wrong = [call for call, all_right in zip(made, right, strict=True) if not all_right]
        ends = (call.end for call, all_right in zip(made, right, strict=True) if all_right)
        self._right_up_to = max(ends, default=0)

    @property
    def right(self) -> bool:
        """Whether all rows are rotated as they should be."""
        return not self._wrong

    @property
    def first_wrong(self) -> str:
        """The first wrong call, in words."""
        return f"{rows_text({self._wrong[0].rows})} from position {self._wrong[0].start} on"

    def causes(self) -> tuple[Irregularity, ...]:
        """At which positions the rows of wrong calls are rotated; nothing if not all show it."""
        if not self._wrong or self._reader.reference.coordinates is not None:
            return ()
        some = ""
        if len(self._wrong) < len(self._made):
            some = f", in {len(self._wrong)} of {len(self._made)} calls"
        for known, rule in CALL_RULES:
            if all(self._reader.right(call, rule(call)).all() for call in self._wrong):
                return (_irregular(Cause.POSITION_OFFSET, known + some, self._evidence),)
        shown, unrotated, ends = [], True, set[int | None]()
        for call in self._wrong:
            own = self._reader.positions(call)
            if own is None:
                return ()
            unrotated = unrotated and not own[own != call.positions].any()
            end = int(own.max())
            ends.add(end if np.array_equal(own, np.minimum(call.positions, end)) else None)
            row = int(np.argmax(own != call.positions))
            at = f"position {call.positions[row]} is rotated as {own[row]}"
            shown.append(f"in a call of {rows_text({call.rows})} from {call.start} on, {at}")
        evidence = "; ".join([*shown[not unrotated : _SHOWN], self._evidence])
        if unrotated:
            message = "in some calls rows are returned unrotated"
            return (_irregular(Cause.NO_ROTATION, message, evidence),)
        shared = ends.pop() if len(ends) == 1 else None
        if shared is not None and self._right_up_to <= shared + 1:
            message = f"positions are clamped at {shared}"
            return (_irregular(Cause.POSITION_OFFSET, message, self._evidence),)
        message = f"rows get the rotation of other positions: {shown[0]}"
        return (_irregular(Cause.POSITION_OFFSET, message, evidence),)

    @property
    def _evidence(self) -> str:
        """How much was compared."""
        rows, wrong = sum(call.rows for call in self._wrong), len(self._wrong)
        text = f"this reproduces every row of the wrong calls (calls: {wrong}, rows: {rows})"
        return f"{text}; right calls: {len(self._made) - wrong}"


def _irregular(cause: Cause, message: str, evidence: str) -> Irregularity:
    unlike = "the function rotates a row differently in other calls"
    return Irregularity(cause, message, evidence, unlike)

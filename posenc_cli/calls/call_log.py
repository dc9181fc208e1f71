"""Log all calls, and read the position that each row was rotated at.

If rows are wrong, their positions are read from their rotations. This must explain every row of
every wrong call, and all other calls must be right. Otherwise the cause is unknown.
"""

from __future__ import annotations

import math
import time
from collections import deque
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.called_function import SHAPE
from posenc_cli.calls.function_trial import Irregularity
from posenc_cli.calls.patterns import (
    SEQUENCE,
    SLOW,
    SLOW_SECONDS,
    PlannedCalls,
    rows_text,
)
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.position_maps import shown_positions
from posenc_cli.inference.reference import Reference, Sample
from posenc_cli.inference.tolerance import Tolerance
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.answers import Rows
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, NumberArray

_ROUNDINGS = 4
"""Rounding steps of vectors before and after."""

_FIRST_ROWS = 48
"""Rows of the calls of an object of a short length."""

_SHOWN = 3
"""Most rows that the evidence lists."""


class MadeCall(Record):
    """Rows (n, columns) before and after a call, at positions (n,)."""

    positions: Integers
    x: NumberArray
    after: Callable[[], NumberArray]

    @cached_property
    def values(self) -> NumberArray:
        """The rows after the call, computed on first use."""
        return self.after()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.positions.size

    @property
    def start(self) -> int:
        """The first position."""
        return int(self.positions[0])

    @property
    def end(self) -> int:
        """The largest position plus 1."""
        return int(self.positions.max()) + 1


CALL_RULES: tuple[tuple[str, Callable[[MadeCall], Integers]], ...] = (
    ("positions restart at 0", lambda call: call.positions - call.positions.min()),
    (
        "positions are ignored: rows are numbered from 0",
        lambda call: np.arange(call.rows),
    ),
    (
        "rows get the rotation of other positions: consecutive ones from the first,",
        lambda call: call.start + np.arange(call.rows),
    ),
)
"""Rules for positions that bugs of public libraries follow, with their messages."""


class RowReader:
    """A comparison of results with the reference's rotations, at given or unknown positions.

    ``dtype`` is the number format of the results.
    """

    def __init__(self, reference: Reference, dtype: str) -> None:
        self.reference = reference
        self._tolerance = Tolerance.of(
            "auto", dtype=dtype, roundings=_ROUNDINGS, amplitude=reference.scale
        )

    def right(self, call: MadeCall, used: Integers) -> Flags:
        """Return which rows are rotated as by the reference at positions ``used``. Shape: (n,)."""
        before, after = self.factors(call)
        farther = np.maximum(call.positions, np.abs(used))
        floor = np.abs(call.x).max(axis=1, keepdims=True) * _ROUNDINGS * self._tolerance.floor
        allowed = self._tolerance.cells(farther, self.reference.frequencies) * np.abs(before)
        positions, places = np.unique(used, return_inverse=True)
        factors = np.asarray(self.reference.rotation.at(positions.astype(np.int64))[places])
        rotated = np.abs(after - before * factors) <= allowed + floor
        others = list(self.reference.pairing.others(call.x.shape[1]))
        stays = np.abs(call.values[:, others] - call.x[:, others]) <= floor
        return np.asarray(rotated.all(axis=1) & stays.all(axis=1))

    def positions(self, call: MadeCall) -> Integers | None:
        """Return the position that each row is rotated at.

        It is None if one cannot be read, or if all are negative.
        """
        if self.reference.coordinates is not None or not np.isfinite(call.values).all():
            return None  # on several axes, only the positions of the calls could be tried
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
        """Return the pairs before and after, as complex numbers. Shape of each: (n, pairs)."""
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
"""Smallest pair whose rotation is read, relative to the largest value of the row."""

_WIDER = 8 / _SEEN
"""Factor of the tolerance with which a row's rotation is read, for small pairs. The row is then
compared with its proper tolerance."""


class CallLog:
    """The log of calls of one result of a function."""

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
        """Return a log for each result, with fixed vectors (rows, columns) that calls repeat.

        Every call returns all results. Those of the other logs are kept until they make the same
        call.
        """
        kept: list[deque[tuple[bytes, NumberArray]]] = [deque() for _ in drawn]

        def rows(which: int, indices: Integers, positions: Integers) -> NumberArray:
            key = indices.tobytes() + positions.tobytes()
            if kept[which] and kept[which][0][0] == key:
                return kept[which].popleft()[1]
            results = function.each_value([x[indices % SEQUENCE] for x in drawn], positions)
            for others, values in zip(kept, results, strict=True):
                others.append((key, values))
            kept[which].clear()
            return results[which]

        return [cls(function, reference, x, partial(rows, which)) for which, x in enumerate(drawn)]

    @classmethod
    def of_tables(cls, function: ServedFunction, reference: Reference, rows: Rows) -> CallLog:
        """Return a log of tables of cosines and sines, as rotations of (1, 0) in every pair."""
        x = np.zeros((SEQUENCE, reference.head), np.float32)
        x[:, list(reference.pairing.first)] = 1
        return cls(function, reference, x, rows)

    @property
    def compares(self) -> bool:
        """Whether rows can be compared; false if the largest position is part of each call."""
        return self.reference.symmetric and not self.function.follows_length

    def rows(self, indices: Integers, positions: Integers) -> NumberArray:
        """Return the results for some rows in one call, and log the call."""
        values = self._rows(indices, positions)
        # Not logged: rows that are not consecutive, if they need several calls for that; repeated
        # positions, if they choose rows of tables, which hold each position once.
        form = self.function.form
        steps = np.diff(positions if not form.chosen else np.sort(positions))
        whole = values.shape[1] / self.reference.pairs in (2, 4)  # the width of tables
        if (whole or self.function.outcome == "vectors") and (
            (steps == 1).all() or (form.any_rows and (steps.all() or not form.chosen))
        ):
            after = partial(self._as_vectors, values)
            self.made.append(MadeCall(positions, self._x[indices % SEQUENCE], after))
        return values

    def sequence(self, count: int) -> None:
        """Make a call of the first rows."""
        self.rows(np.arange(count), np.arange(count))

    def _as_vectors(self, values: NumberArray) -> NumberArray:
        """Return results as vectors; tables as the rotation of (1, 0) in every pair."""
        if self.function.outcome == "vectors":
            return values
        pairing, (cos, sin) = self.reference.pairing, np.split(values, 2, axis=1)
        first, second = list(pairing.first), list(pairing.second)
        if cos.shape[1] == 2 * pairing.pairs:
            cos, sin = cos[:, first], sin[:, first]
        after = np.zeros((values.shape[0], self.reference.head), values.dtype)
        after[:, first], after[:, second] = cos, sin
        return after


def explain_by_calls(log: CallLog, dtype: str) -> tuple[Irregularity, ...]:
    """Return the irregularity that explains rows by the positions of their calls, if one does.

    ``dtype`` is the number format of the results. Tables whose rows are chosen contain the first
    positions and those of the call. Therefore calls of the first positions are tried alone too: in
    these, any rule shows.
    """
    near = [call for call in log.made if call.end <= SEQUENCE]
    found = _Calls(log, near, dtype).causes() if log.function.form.chosen else ()
    return found or _Calls(log, log.made, dtype).causes()


def far_row_faults(log: CallLog, dtype: str) -> tuple[Irregularity, ...]:
    """Return the fault of calls of one or two rows, if calls near position 0 are right.

    Other checks compare these calls only with each other, which does not show that they are right.
    """
    few = _Calls(log, [call for call in log.made if call.rows <= 2], dtype)
    near = [call for call in log.made if call.end <= SEQUENCE]
    if not log.compares or few.right or not _Calls(log, near, dtype).right:
        return ()
    return explain_by_calls(log, dtype) or few.unexplained(
        "single rows are rotated differently far from position 0"
    )


def long_call_faults(
    log: CallLog, dtype: str, rows: int, planned: PlannedCalls
) -> tuple[Irregularity, ...]:
    """Return the fault of a call of many ``rows``, which is ``planned``.

    Return nothing if a short call is wrong, or calls cannot be compared.
    """
    before, faults_before, text = len(log.made), len(planned.faults), f"{rows} rows in one call"
    with planned.planned(text):
        began = time.monotonic()
        log.sequence(SEQUENCE)
        if time.monotonic() - began > SLOW_SECONDS:
            raise InvalidInput(SLOW)
        if not log.made[before:] or not _Calls(log, log.made[before:], dtype).right:
            raise InvalidInput("a short call is wrong too")
        log.sequence(rows)
    calls, crashes = _Calls(log, log.made[before:], dtype), planned.faults[faults_before:]
    if crashes or text not in planned.tried or calls.right:
        return tuple(crashes)
    return calls.causes() or calls.unexplained(
        "the function rotates rows of long calls differently"
    )


def short_length_fault(
    logs: Sequence[CallLog], planned: PlannedCalls, dtype: str, last: int, *, half: str = ""
) -> Irregularity | None:
    """Return the fault of calls beyond the length of an object, up to position ``last``.

    The object is made again with its default length, or with a short one if it requires one. With
    ``half``, its first calls, which grow its tables, are in that precision. If the first, short
    call is wrong too, the caller must set the length, and there is no fault. There is none past a
    required length either, but line 1 says that results are wrong there, unless it raises an error.
    """
    function, process = logs[0].function, logs[0].function.process
    assert process.short_length is not None
    name, length, end = process.short_length
    of_short = f"an object made with {'its default ' * (end > length)}{name}={length}"
    past = f"past that length in {half}" if half else "past that length"
    if not logs[0].compares:
        planned.skip(f"{of_short}, {past}")
        return None
    right, calls = True, _calls_around(function, length, last)
    exceed = f"callers that exceed {name}"
    with planned.planned(f"{of_short}, {past}", surely=False):
        process.by_short = True
        process.renew()
        try:
            if half:
                coarse = function.varied(last=function.last, dtype=half)
                for positions in calls:
                    ones = np.ones((positions.size, function.form.columns), np.float32)
                    coarse.all_values(ones, positions)
            for positions, log in product(calls, logs):
                log.rows(np.arange(positions.size), positions)
        except InvalidInput as error:
            planned.untested += [f"{exceed} (they get fewer rows)"] * (error.code == SHAPE)
            raise
        if not (half or all(_Calls(log, log.made[:1], dtype, end).right for log in logs)):
            raise InvalidInput("its first, short call is wrong too")
        right = all(_Calls(log, log.made, dtype, end).right for log in logs)
        if right and not all(_Calls(log, log.made, dtype).right for log in logs):
            planned.untested.append(f"{exceed} (their results are wrong, without an error)")
    if right:
        return None
    return Irregularity(
        Cause.UNKNOWN,
        f"rows are wrong after a call past the length, in {of_short}",
        f"called {past}: results differ from an object of length {last + 1}",
    )


def _calls_around(function: ServedFunction, length: int, last: int) -> list[Integers]:
    """Return the positions of calls below a length, twice beyond it, and below again."""
    short = np.arange(min(_FIRST_ROWS, length))
    if function.form.from_zero:
        longer = [np.arange(end) for end in sorted({length + 1, min(2 * length, last + 1)})]
    else:
        latest = last + 1 - _FIRST_ROWS
        starts = (length - _FIRST_ROWS // 2, latest)
        longer = [start + np.arange(_FIRST_ROWS) for start in starts if 0 <= start <= latest]
    return [short, *longer, short]


class _Calls:
    """Calls, and which of them are wrong in rows before the position ``end``."""

    def __init__(
        self, log: CallLog, made: Sequence[MadeCall], dtype: str, end: float = math.inf
    ) -> None:
        self._reader, self._made = RowReader(log.reference, dtype), made
        self._wrong, self._right_up_to = list[MadeCall](), 0
        for call in made:
            if (self._reader.right(call, call.positions) | (call.positions >= end)).all():
                self._right_up_to = max(self._right_up_to, call.end)
            else:
                self._wrong.append(call)

    @property
    def right(self) -> bool:
        return not self._wrong

    def unexplained(self, message: str) -> tuple[Irregularity, ...]:
        """Return the fault of calls whose wrong rows no positions explain."""
        rows, start = rows_text({self._wrong[0].rows}), self._wrong[0].start
        text = f"called with {rows} from position {start} on: results differ from the reference"
        return (_irregularity(Cause.UNKNOWN, message, text),)

    def causes(self) -> tuple[Irregularity, ...]:
        """Return at which positions wrong calls are rotated; nothing if one cannot be read."""
        if not self._wrong or self._reader.reference.coordinates is not None:
            return ()
        rows, wrong, made = sum(call.rows for call in self._wrong), len(self._wrong), self._made
        evidence = (
            f"this reproduces every row of the wrong calls (calls: {wrong}, rows: {rows}); "
            f"right calls: {len(made) - wrong}"
        )
        some = f"{wrong} of {len(made)} calls" if wrong < len(made) else "each call"
        for text, rule in CALL_RULES:
            if all(self._reader.right(call, rule(call)).all() for call in self._wrong):
                message = f"{text} in {some}"
                return (_irregularity(Cause.POSITION_OFFSET, message, evidence),)
        places = [(call, self._reader.positions(call)) for call in self._wrong]
        read = [(call, at) for call, at in places if at is not None]
        if len(read) < wrong:
            return ()
        shown = [_moved_row_text(call, at) for call, at in read]
        if not any(at[at != call.positions].any() for call, at in read):
            evidence = "; ".join([*shown[:_SHOWN], evidence])
            message = "in some calls rows are returned unrotated"
            return (_irregularity(Cause.NO_ROTATION, message, evidence),)
        end = max(int(at.max()) for _, at in read)
        clamped = all(np.array_equal(at, np.minimum(call.positions, end)) for call, at in read)
        message = f"positions are clamped at {end}"
        if not clamped or self._right_up_to > end + 1:
            evidence = "; ".join([*shown[1:_SHOWN], evidence])
            message = f"rows get the rotation of other positions: {shown[0]}"
        return (_irregularity(Cause.POSITION_OFFSET, message, evidence),)


def _moved_row_text(call: MadeCall, read: Integers) -> str:
    """Return the first row of a call that is rotated at another position, in words."""
    row = int(np.argmax(read != call.positions))
    in_call = f"in a call of {rows_text({call.rows})} from {call.start} on"
    return f"{in_call}, position {call.positions[row]} is rotated as {read[row]}"


_irregularity = partial(
    Irregularity, unlike="the function rotates a row differently in other calls"
)

"""How the result of a row depends on its call: the log of all calls, and what it shows.

Every call that was made is kept, and some are made of lengths and beginnings of their own. Of calls
that come out wrong, a rule for the positions of their rows is looked for, or what is wrong with all
of their rows together, as of vectors before and after. It is told where every row of every call
is reproduced so: in the calls that it speaks of by it, and in all others by the reference.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from itertools import product, starmap
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.arrangements import STARTS, Arrangement
from posenc_cli.calls.batches import RowsGuess, called_together
from posenc_cli.calls.function_trial import Irregularity, vectors_differ
from posenc_cli.calls.patterns import (
    SEQUENCE,
    SLOW,
    SLOW_SECONDS,
    PatternFault,
    given_by,
    rows_text,
)
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.position_maps import rows_of_any_turn
from posenc_cli.inference.reference import Sample
from posenc_cli.inference.tolerance import Tolerance
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.calls.answers import Rows
    from posenc_cli.calls.function_trial import RowCauses
    from posenc_cli.calls.patterns import PlannedCalls
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, NumberArray, Reals

_LENGTHS = (2, 3, 16, 100, 300, 1200)
"""Rows of calls of several."""

_BEGINNINGS = (0, 1, 50, 700, 3000, 30_000)
"""Where such calls begin."""

_SINGLE = (*range(12), *(2**power + more for power in range(4, 17) for more in (-1, 0, 1)))
"""Positions of calls of one row."""

_ROUNDINGS = 4
"""Of vectors before and after, as :mod:`rotated` counts them."""

_FIRST_ROWS = 48
"""Of an object that is made with its default length, and around that."""

_SHOWN = 3
"""Rows, or lengths of calls, that are shown."""

_GLANCE = 64
"""Rows of a long call that are looked at before all of them."""


class MadeCall(Record):
    """Rows (n, columns) before and after, at positions (n,).

    ``first`` is how many rows the function's first call had, ``first_end`` up to which position;
    ``alike`` are the positions of the first call of as many rows that is known, and ``indices``
    which of the log's vectors it was given.
    """

    positions: Integers
    x: NumberArray
    values: NumberArray
    first: int = 0
    first_end: int = 0
    alike: Integers | None = None
    indices: Integers | None = None

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


class CallRule(Record):
    """At which positions the rows of a call are rotated."""

    text: str
    at: Callable[[MadeCall], Integers | Reals]
    cause: Cause = Cause.POSITION_OFFSET


CALL_RULES = (
    CallRule("rows are rotated in reverse order", lambda call: call.positions[::-1]),
    CallRule(
        "the last row is rotated as the one before it",
        lambda call: np.append(call.positions[:-1], call.positions[-2:][0]),
    ),
    CallRule(
        "the first position comes twice: each later row is rotated as the one before it",
        lambda call: np.append(call.positions[:1], call.positions[:-1]),
    ),
    CallRule(
        "the second row is rotated as the first",
        lambda call: np.where(np.arange(call.rows) == 1, call.start, call.positions),
    ),
    CallRule(
        "each row is rotated as the next, and the last as itself",
        lambda call: np.append(call.positions[1:], call.positions[-1:]),
    ),
    CallRule(
        "the last row of a call is rotated by the angles of the position before it",
        lambda call: np.minimum(call.positions, max(call.end - 2, 0)),
    ),
    CallRule(
        "rows are rotated one place on, and the first as the last",
        lambda call: np.roll(call.positions, 1),
    ),
    CallRule(
        "rows are rotated one place back, and the last as the first",
        lambda call: np.roll(call.positions, -1),
    ),
    CallRule(
        "a single row is rotated at position 0, so not at all",
        lambda call: np.zeros(1, np.int64) if call.rows == 1 else np.full(call.rows, np.nan),
    ),
    CallRule(
        "rows are rotated at position 0, so not at all",
        lambda call: 0 * call.positions,
        Cause.NO_ROTATION,
    ),
    CallRule("rows are counted down to 0", lambda call: np.arange(call.rows)[::-1]),
    CallRule(
        "rows are spread evenly from the first position to one past the last: an end that counts",
        lambda call: np.linspace(call.start, call.positions[-1] + 1, call.rows),
    ),
    CallRule(
        "of the positions only the first is used: rows are counted from it",
        lambda call: call.start + np.arange(call.rows),
    ),
    CallRule(
        "each call starts again at position 0", lambda call: call.positions - call.positions.min()
    ),
    CallRule(
        "the positions that it is given are ignored: it counts rows",
        lambda call: np.arange(call.rows),
    ),
    CallRule(
        "all rows of a call are rotated at the position of its first",
        lambda call: np.full(call.rows, call.start),
    ),
    CallRule(
        "positions are sorted: rows in another order are rotated as if they ascended",
        lambda call: np.sort(call.positions),
    ),
    CallRule(
        "where positions of a call fall, rows are rotated at the largest before them",
        lambda call: np.maximum.accumulate(call.positions),
    ),
    CallRule(
        "all rows of a call are rotated at the position of its last",
        lambda call: np.full(call.rows, call.positions[-1]),
    ),
    CallRule(
        "positions are clamped to the number of rows of the call",
        lambda call: np.minimum(call.positions, call.rows - 1),
    ),
    CallRule(
        "positions wrap at the number of rows of the call",
        lambda call: call.positions % call.rows,
    ),
    CallRule(
        "positions are clamped to the number of rows of the first call",
        lambda call: np.minimum(call.positions, call.first - 1),
    ),
    CallRule(
        "positions wrap at the number of rows of the first call",
        lambda call: call.positions % call.first if call.first else call.positions,
    ),
    CallRule(
        "calls of one length all have the positions of the first of that length: something is kept "
        "by the length alone",
        lambda call: call.positions if call.alike is None else call.alike,
    ),
    CallRule(
        "positions are clamped at the last position of the first call",
        lambda call: np.minimum(call.positions, call.first_end - 1),
    ),
)
"""Rules without a number, the plainest first."""

RULES_OF_TABLES = (
    CallRule(
        "a single row is rotated by the last row of the tables, not by that of its position",
        lambda call: (
            np.minimum(call.positions, 1) if call.rows == 1 else np.full(call.rows, np.nan)
        ),
    ),
)
"""The same of tables that are longer than the call, and end with another position than its own."""


OFFS: tuple[tuple[str, Callable[[MadeCall], int]], ...] = (
    ("what came before is counted twice", lambda call: call.start),
    ("later calls start again at position 0", lambda call: -call.first),
    ("the rows of the call itself are counted before it", lambda call: call.rows),
    ("rows are counted from the end of their call", lambda call: call.rows - 1),
    ("the rows of the call are taken off its positions", lambda call: -call.rows),
    ("the first row is rotated as the last should be", lambda call: 1 - call.rows),
)
"""By how much rows may be off, as it follows from their call."""

CALL_KINDS: tuple[tuple[str, Callable[[MadeCall], bool]], ...] = (
    ("", lambda _: True),
    (", in calls of one row alone", lambda call: call.rows == 1),
    (", in calls of more than one row", lambda call: call.rows > 1),
    (", in calls that do not begin at position 0", lambda call: call.start > 0),
    (", in calls that begin at position 0", lambda call: call.start == 0),
    (
        ", in calls longer than the first, which had {first}",
        lambda call: call.rows > call.first,
    ),
    (
        ", in calls past position {last}, where the first call ended",
        lambda call: call.end > call.first_end,
    ),
)
"""What all calls that are wrong may have in common, in words that go on from a sentence."""

CALL_LIMITS: tuple[tuple[str, Callable[[MadeCall], int]], ...] = (
    # Position 0 alone is right whatever the frequencies: numbers that are 0 do not count.
    (", in calls up to position {}, and not in those up to {}", lambda call: 1 - call.end),
    (", in calls of {} rows and more, and not of up to {}", lambda call: call.rows),
    (", in calls of up to {} rows, and not of {} and more", lambda call: -call.rows),
)
"""Numbers of calls, or their opposites, that may be larger in all wrong ones than in right ones."""


class CallLog:
    """The calls of one result of a function."""

    def __init__(
        self,
        function: ServedFunction,
        reference: Reference,
        x: NumberArray,
        rows: Rows,
        causes: RowCauses,
    ) -> None:
        self.function, self.reference, self.causes = function, reference, causes
        self._x, self._rows = x, rows
        self.made: list[MadeCall] = []

    @classmethod
    def of_vectors(
        cls,
        function: ServedFunction,
        reference: Reference,
        drawn: Sequence[NumberArray],
        causes: RowCauses,
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

        return [
            cls(function, reference, x, partial(rows, which), causes)
            for which, x in enumerate(drawn)
        ]

    @classmethod
    def of_tables(
        cls, function: ServedFunction, reference: Reference, rows: Rows, causes: RowCauses
    ) -> CallLog:
        """Of tables of cosines and sines, as what happens to (1, 0) in every pair."""
        x = np.zeros((SEQUENCE, reference.head), np.float32)
        x[:, list(reference.pairing.first)] = 1
        return cls(function, reference, x, rows, causes)

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
        if (steps == 1).all() or (form.any_rows and (steps.all() or not form.chosen)):
            after = self._as_vectors(values)
            if after is not None:
                x = self._x[indices % SEQUENCE]
                first = self.function.process.first_rows, self.function.process.first_end
                alike = next((one.positions for one in self.made if one.rows == where.size), None)
                self.made.append(MadeCall(where, x, after, *first, alike, indices))
        return values

    def sequence(self, count: int, first: int = 0) -> None:
        """Make a call of rows that follow on each other."""
        self.rows(np.arange(first, first + count), np.arange(first, first + count))

    def _as_vectors(self, values: NumberArray) -> NumberArray | None:
        """What became of vectors; None of tables that have not the reference's pairs."""
        if self.function.outcome == "vectors":
            return values
        pairing, (cos, sin) = self.reference.pairing, np.split(values, 2, axis=1)
        first, second = list(pairing.first), list(pairing.second)
        if cos.shape[1] == 2 * pairing.pairs:
            cos, sin = cos[:, first], sin[:, first]
        if cos.shape[1] != pairing.pairs:
            return None
        after = np.zeros((values.shape[0], self.reference.head), values.dtype)
        after[:, first], after[:, second] = cos, sin
        return after

    def extend(self, context: int) -> None:
        """Make calls of more lengths and beginnings, none past the context."""
        starts = (0,) if self.function.form.from_zero else _BEGINNINGS
        asked = [*product(_LENGTHS, starts)]
        asked += [(1, start) for start in (starts if starts == (0,) else _SINGLE)]
        try:
            for rows, start in asked:
                if start + rows <= context:
                    self.sequence(rows, start)
        except InvalidInput:
            self.function.revive()


def by_call(log: CallLog, dtype: str) -> tuple[Irregularity, ...]:
    """What happens to rows by their calls; nothing where no rule gives all of them.

    ``dtype`` is the number format of the results. Longer tables, of which rows are chosen, have the
    first positions and those of the call: among the first ones any rule shows.
    """
    near = [call for call in log.made if call.end <= SEQUENCE]
    parts = [near, log.made] if log.function.form.chosen else [log.made]
    return next(filter(None, (_Calls(log, own, dtype).causes() for own in parts)), ())


def of_far_rows(log: CallLog, dtype: str, context: int) -> tuple[Irregularity, ...]:
    """What is wrong in calls of one or two rows, where those near position 0 are right.

    Other calls agree among themselves; that these are right follows from no other.
    """
    few = [call for call in log.made if call.rows <= 2]
    near = [call for call in log.made if call.end <= SEQUENCE]
    calls = _Calls(log, few, dtype)
    if not log.compares or calls.right or not _Calls(log, near, dtype).right:
        return ()
    message = "rows that come alone are rotated differently far from position 0"
    text = f"called with {calls.first_wrong} it gives other values than it should"
    log.extend(context)
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
            raise InvalidInput("a short call is another too")
        log.sequence(rows)
    calls = _Calls(log, log.made[before:], dtype)
    for crash in planned.faults[known:]:
        return (_irregular(crash.cause, crash.known, crash.text),)
    if text not in planned.tried or calls.right:
        return ()
    text = f"called with {calls.first_wrong} it gives other values than it should"
    message = "the function rotates rows of long calls differently"
    return calls.causes() or (_irregular(Cause.UNKNOWN, message, text),)


def past_default_length(
    logs: Sequence[CallLog], planned: PlannedCalls, dtype: str, last: int, *, half: str = ""
) -> PatternFault | None:
    """What happens to rows past the length that an object has by default, up to position ``last``.

    The object is made anew; with ``half`` its first calls, which grow it, are in that precision.
    One whose first, short call is wrong too is told its length by who makes it.
    """
    function = logs[0].function
    assert function.process.default_length is not None
    name, length = function.process.default_length
    of_default = f"an object that is made with its default {name}={length}"
    past = f"past that length in {half}" if half else "past that length"
    if not logs[0].compares:
        planned.skip(f"{of_default}, {past}")
        return None
    parts: list[tuple[_Calls, _Calls]] = []
    with planned.planned(f"{of_default}, {past}", surely=False):
        function.process.by_default = True
        function.process.renew()
        if half:
            coarse = function.varied(last=function.last, dtype=half)
            for where in _around(function, length, last):
                coarse.all_values(np.ones((where.size, function.form.columns), np.float32), where)
        for where, log in product(_around(function, length, last), logs):
            log.rows(np.arange(where.size), where)
        parts += [(_Calls(o, o.made[:1], dtype), _Calls(o, o.made[1:], dtype)) for o in logs]
        if not (half or all(first.right for first, _ in parts)):
            parts.clear()
            raise InvalidInput("its first, short call is another too")
    for of, (first, grown) in zip(("", "k of "), parts, strict=False):
        if first.right and grown.right:
            continue
        text = f"called {past}, it gives other values than one of length {last + 1}"
        for cause in grown.causes()[:1]:
            known = f"{cause.message}, in {of}{of_default}"
            return PatternFault(f"{text}; {cause.evidence}", known, cause.cause)
        known = f"rows are wrong once it has been called {past}, in {of}{of_default}"
        return PatternFault(text, known, Cause.UNKNOWN)
    return None


def _around(function: ServedFunction, length: int, last: int) -> Iterator[Integers]:
    """Positions of calls that come to a length, pass it twice, and are short again."""
    first = np.arange(min(_FIRST_ROWS, length))
    yield first
    if function.form.from_zero:
        for end in sorted({length + 1, min(2 * length, last + 1)}):
            yield np.arange(end)
    elif function.form.any_rows:
        near = np.arange(max(0, length - _FIRST_ROWS), length + _FIRST_ROWS)
        far = np.geomspace(length, last, _FIRST_ROWS).astype(np.int64)
        where = np.unique(np.concatenate([np.arange(_FIRST_ROWS), near, far]))
        for end in sorted({length, last}):
            yield where[where <= end]
    else:
        for start in (length - _FIRST_ROWS // 2, last + 1 - _FIRST_ROWS):
            if 0 <= start <= last + 1 - _FIRST_ROWS:
                yield np.arange(start, start + _FIRST_ROWS)
    yield first


class _Calls:
    """Calls, and what their rows should become."""

    def __init__(self, log: CallLog, made: Sequence[MadeCall], dtype: str) -> None:
        self._reference, self._dtype, self._causes = log.reference, dtype, log.causes
        self._of_tables = RULES_OF_TABLES * log.function.form.chosen
        self._tolerance = Tolerance.of(
            "auto", dtype=dtype, roundings=_ROUNDINGS, amplitude=log.reference.scale
        )
        self._made = sorted(made, key=lambda call: call.rows)
        self._known = max((call.end for call in made), default=0)
        flags = [self._turned_at(call, call.positions) for call in self._made]
        self._wrong, self._right = (
            [call for call, right in zip(self._made, flags, strict=True) if right == wanted]
            for wanted in (False, True)
        )

    @property
    def right(self) -> bool:
        """Whether all rows are rotated as they should be."""
        return not self._wrong

    @property
    def first_wrong(self) -> str:
        """The first wrong call, in words."""
        return f"{rows_text({self._wrong[0].rows})} from position {self._wrong[0].start} on"

    def causes(self) -> tuple[Irregularity, ...]:
        """The causes."""
        if not self._wrong or not all(np.isfinite(call.values).all() for call in self._made):
            return ()
        parts = list(self._parts())
        for (text, some), rule in product(parts, list(self._rules())):
            if all(self._turned_at(call, rule.at(call)) for call in some):
                return (_irregular(rule.cause, rule.text + text, self._evidence(some)),)
        return next(filter(None, starmap(self._diagnosed, parts)), ()) or self._moved()

    def _parts(self) -> Iterator[tuple[str, Sequence[MadeCall]]]:
        """Calls that have something in common, of which all wrong ones are, the most first."""
        first, last = rows_text({self._made[0].first}), self._made[0].first_end - 1
        for text, belongs in CALL_KINDS:
            some = tuple(call for call in self._made if belongs(call))
            if all(map(belongs, self._wrong)) and (not text or len(some) < len(self._made)):
                yield text.format(first=first, last=last), some
        for text, number in CALL_LIMITS:
            least = min(filter(None, map(number, self._wrong)), default=0)
            most = max(filter(None, map(number, self._right)), default=least)
            if least > most:
                yield text.format(abs(least), abs(most)), self._wrong
        lengths = {call.rows for call in self._wrong}
        # What begins at position 0 is right however later calls are counted.
        later = [call for call in self._right if call.start] or self._right
        text = ", in some calls"
        if len(lengths) <= _SHOWN and not lengths & {call.rows for call in later}:
            text = f", in calls of {rows_text(lengths)} alone"
        yield text, self._wrong

    def _rules(self) -> Iterator[CallRule]:
        """Rules by which the rows of a call may be rotated at other positions, the plainest first.

        Of what is off by a number, the first wrong call of several rows shows it.
        """
        yield from (*self._of_tables, *CALL_RULES)
        shown = next((call for call in self._wrong if call.rows > 1), self._wrong[0])
        read, explained = self._read(shown)
        lags = np.unique((read - shown.positions)[explained])
        if lags.size == 1 and lags[0]:
            off = int(lags[0])
            yield CallRule(f"rows are off by {off:+d}", lambda call: call.positions + off)
            yield from (
                CallRule(text, partial(lambda by, call: call.positions + by(call), by))
                for text, by in OFFS
                if by(shown) == off
            )

    def _factors(self, call: MadeCall) -> tuple[ComplexRows, ComplexRows]:
        """The dimension pairs before and after, as complex numbers. Shape: (n, pairs) each."""
        pairing = self._reference.pairing
        with np.errstate(invalid="ignore"):
            before, after = (
                vectors[:, list(first)] + 1j * vectors[:, list(second)].astype(np.float64)
                for vectors, first, second in (
                    (call.x, pairing.first, pairing.second),
                    (call.values, pairing.out_first, pairing.out_second),
                )
            )
        return before, after

    def _turned_at(self, call: MadeCall, used: Integers | Reals) -> bool:
        """Whether the rows of a call are rotated as the reference rotates them at these positions.

        Some rows of a long call show most rules to be none.
        """
        if self._reference.coordinates is not None and (
            used.dtype.kind != "i" or used.min() < 0 or used.max() >= self._known
        ):
            return False  # on several axes there are only the positions that calls have
        steps = dict.fromkeys((max(1, call.rows // _GLANCE), 1))
        return all(self._rows_turned_at(call, used, step).all() for step in steps)

    def _rows_turned_at(self, call: MadeCall, used: Integers | Reals, step: int = 1) -> Flags:
        """Which of every so many of them are. Shape: (n,)."""
        positions, x, values = call.positions[::step], call.x[::step], call.values[::step]
        used = used[::step]
        before, after = self._factors(replace(call, x=x, values=values))
        farther = np.maximum(positions, np.abs(used))
        size = np.abs(x).max(axis=1, keepdims=True)  # (n, 1)
        floor = _ROUNDINGS * self._tolerance.floor * size
        allowed = self._tolerance.cells(farther, self._reference.frequencies) * np.abs(before)
        missed = np.abs(after - before * self._turns(used))
        others = list(self._reference.pairing.others(x.shape[1]))
        stays = np.abs(values[:, others] - x[:, others]) <= floor
        right: Flags = (missed <= allowed + floor).all(axis=1) & stays.all(axis=1)
        return right

    def _turns(self, used: Integers | Reals) -> ComplexRows:
        """The factors of the pairs at positions, which may lie between whole ones."""
        if used.dtype.kind == "i":
            positions, places = np.unique(used, return_inverse=True)
            return np.asarray(self._reference.turns.at(positions.astype(np.int64))[places])
        angles = np.multiply.outer(used, self._reference.frequencies)
        return np.asarray(self._reference.scale * np.exp(1j * angles))

    def _read(self, call: MadeCall) -> tuple[Integers, Flags]:
        """As which positions the rows of a call are rotated, and of which all pairs show it."""
        if self._reference.coordinates is not None:
            return call.positions, np.zeros(call.rows, bool)
        before, after = self._factors(call)
        sample = Sample(
            call.positions,
            after / np.where(before == 0, 1, before),
            np.abs(before) > _SEEN * np.abs(call.x).max(axis=1, keepdims=True),
            np.zeros((call.rows, 1)),
            replace(self._tolerance, floor=_WIDER * self._tolerance.floor),
            self._reference.scale,
            self._reference,
        )
        read, explained = rows_of_any_turn(sample)
        return read, np.asarray(explained.all(axis=1))

    def _diagnosed(self, text: str, some: Sequence[MadeCall]) -> tuple[Irregularity, ...]:
        """What is wrong with the rows of calls, where it is one thing with all of them.

        Rows of one vector at one position come out alike, and it is the same thing with the first
        and the last row of each position.
        """
        positions = np.concatenate([call.positions for call in some])
        x = np.concatenate([call.x for call in some])
        values = np.concatenate([call.values for call in some])
        order = np.argsort(positions, kind="stable")
        limit = _ROUNDINGS * self._tolerance.floor * np.abs(values).max()
        same = np.flatnonzero(np.diff(positions[order]) == 0)
        rows, others = order[same], order[same + 1]
        apart = np.abs(values[rows].astype(np.float64) - values[others]).max(axis=1)
        if ((x[rows] == x[others]).all(axis=1) & (apart > limit)).any():
            return ()
        found = []
        for rows in (order, order[::-1]):
            distinct, first = np.unique(positions[rows], return_index=True)
            own = rows[first]
            whys = self._causes(x[own], values[own], self._dtype, self._reference, distinct)
            found.append(whys or ())
        if [why.message for why in found[0]] != [why.message for why in found[1]]:
            return ()
        evidence = self._evidence(some)
        return tuple(
            _irregular(why.cause, why.message + text, f"{why.evidence}; {evidence}")
            for why in found[0]
        )

    def _moved(self) -> tuple[Irregularity, ...]:
        """That rows stand at other positions, by no rule that is known, where all of them do."""
        shown: list[str] = []
        still = True
        for call in self._wrong:
            read, explained = self._read(call)
            if not explained.all() or not self._turned_at(call, read):
                return ()
            still = still and not read[read != call.positions].any()
            row = int(np.argmax(read != call.positions))
            at = f"position {call.positions[row]} is rotated as {read[row]}"
            shown.append(f"in a call of {rows_text({call.rows})} from {call.start} on, {at}")
        of_all = self._evidence(self._made)
        evidence = f"{'; '.join(shown[:_SHOWN])}; {of_all}"
        if still:
            message = "in some calls rows come back unrotated"
            return (_irregular(Cause.NO_ROTATION, message, evidence),)
        message = f"rows are rotated at other positions than theirs: {shown[0]}"
        return (_irregular(Cause.POSITION_OFFSET, message, evidence),)

    def _evidence(self, some: Sequence[MadeCall]) -> str:
        """What was compared with the rule."""
        count, others = sum(call.rows for call in some), len(self._made) - len(some)
        text = f"all {count} rows of {len(some)} calls are reproduced so"
        return text + (f"; the other {others} calls are right" if others else "")


_SEEN = 0.02
"""Of the largest value of a row: pairs that are smaller show their turn too coarsely."""

_WIDER = 8 / _SEEN
"""Times the tolerance of vectors of length 1 that a row's turn is read with; it is then compared
with its own."""


def _irregular(cause: Cause, message: str, evidence: str) -> Irregularity:
    unlike = "the function rotates a row differently in other calls"
    return Irregularity(cause, message, evidence, unlike)


_HEADS = (12, 10, 14)
"""Heads of a call, the first of which is the length of no other axis."""

_ROWS = 64
"""Rows of that call."""

_MISTAKEN = (
    RowsGuess(
        "rows are rotated by their head index, not by their position",
        lambda part: part.index[1],
        cause=Cause.AXIS,
        whole=True,
    ),
    RowsGuess(
        "heads side by side, (rows, heads·d), are read as (heads, rows, d)",
        lambda part: part.in_row(part.index[2] * part.heads + part.index[1]),
        cause=Cause.AXIS,
        whole=True,
    ),
)
"""How rows and heads are taken for one another."""


def unlike_heads(log: CallLog, which: int, context: int) -> tuple[Irregularity, ...]:
    """What is wrong with some heads of one call; nothing where all are rotated alike."""
    function, form = log.function, log.function.form
    if not form.has_heads or function.follows_length:
        return ()
    rows = max(2, min(_ROWS, context - STARTS[0]))
    heads = next(n for n in _HEADS if n not in (form.columns, form.columns // 2, rows))
    arrangement = Arrangement(form, 1, 1, rows, heads, heads)
    alone = partial(_rotated, log.reference)
    call = partial(called_together, function, arrangement, vectors_differ, alone=alone)
    together = given_by(function, call)
    if together is None or not together.parts[which].wrong.any():
        return ()
    fault, every = together.fault(f"{heads} heads", *_MISTAKEN), together.parts[which].wrong.all()
    if fault is None or (
        every and (not fault.known or fault.cause not in (Cause.AXIS, Cause.LAYOUT))
    ):
        return ()
    known = fault.known or f"{together.where} do not rotate as the others do"
    return (Irregularity(fault.word, known, fault.text, "the function rotates heads differently"),)


def _rotated(reference: Reference, _: int, x: NumberArray, places: Integers) -> NumberArray:
    """Vectors (k, n, columns) as the reference rotates them at positions (k, n)."""
    pairing = reference.pairing
    turns = reference.turns.at(places.reshape(-1)).reshape(*places.shape, -1)
    after = (x[..., list(pairing.first)] + 1j * x[..., list(pairing.second)]) * turns
    y = x.astype(np.float64)
    y[..., list(pairing.out_first)], y[..., list(pairing.out_second)] = after.real, after.imag
    return y

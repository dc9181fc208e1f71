"""Make the calls that real callers make, listed in tables, and compare their results.

A row of a table says when a pattern applies, how its calls are made, and which results must be
equal. Each planned call is compared, or the report says that it was not tried and why. The table in
this file has the ways in which a sequence reaches a function: whole, in chunks, row by row, packed,
very long.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from posenc_cli.calls.called_function import Crash, WrongShape
from posenc_cli.calls.function_trial import NO_MAP, Irregularity, alike_at
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.codes import Cause
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.calls.answers import Differs, Rows
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import NumberArray

    _Pair = tuple[NumberArray, NumberArray] | tuple[NumberArray, NumberArray, float]

SEQUENCE = 256
"""Rows of the sequence: more than the consecutive integers that bfloat16 represents."""

_STEPS = 4
"""Rows after a prefill that are given one by one."""

_CHUNKS = ((64, 64, 7, 1), (), (2, 8, 16, 32, 128))
"""Rows of the first chunks. Each block size comes twice, as code may have a path for each.

The empty tuple is a prefill followed by steps of one row.
"""

_BLOCKS = (256, 256, 512, 1024, 2048)
"""Rows of the chunks of a longer sequence: common chunk sizes for long prompts."""

_FEW = (1, 2, 9, 100)
"""Rows of short calls, for a function whose calls all begin at position 0."""

LONG = (1 << 16) + 64
"""Rows of one very long call: more than the 65,535 blocks that a GPU launches along an axis."""

_ENDS = (1 << 16, (1 << 16) - 1)
"""The first rows beyond a 16-bit counter, and beyond those blocks."""

_FIRST_FAR = 258
"""Least context in which single rows far from the first are compared."""

SLOW_SECONDS = 0.2
"""If a call of the sequence takes longer, a very long call might take a minute and is skipped."""

SLOW = f"a call of {SEQUENCE} rows takes more than {SLOW_SECONDS:g} s"


_Compared = TypeVar("_Compared")


class PlannedCalls:
    """Planned calls: each was compared, or is listed as not tried, with the reason.

    A function that does not support a call raises an error. A call that ends the process or returns
    another shape is a fault. ``untested`` is what line 1 lists as not tested. ``tested`` are the
    parameters that a call varied one at a time and whose results were judged.
    """

    def __init__(self, function: ServedFunction) -> None:
        self._function = function
        self.tried: list[str] = []
        self.untried: list[str] = []
        self.untested: list[str] = []
        self.tested: list[str] = []
        self.faults: list[Irregularity] = []

    @contextlib.contextmanager
    def planned(
        self, text: str, *, surely: bool = True, refusable: bool = True, tests: Sequence[str] = ()
    ) -> Iterator[None]:
        """Run a call, described by ``text``, and its comparison, which ``tests`` some parameters.

        A crash is a fault if callers ``surely`` make such calls. Every function must support a call
        that is not ``refusable``: its error ends the check.
        """
        try:
            yield
        except InvalidInput as error:
            if not refusable:
                raise
            self._function.revive()
            self.skip(text, self._function.process.reason(error))
            if surely:
                self.crash(text, error)
        else:
            self.tried.append(text)
            self.tested += tests

    def crash(self, text: str, error: InvalidInput) -> None:
        """Record the fault of a call that ended the process or returned another shape."""
        if isinstance(error, Crash | WrongShape):
            what, _, how = self._function.process.reason(error).partition(", called as ")
            text = f"called with {text}" + f": {how}" * bool(how)
            message = f"the function {what} in a call that callers make"
            self.faults.append(Irregularity(Cause.UNKNOWN, message, text))

    def attempt(
        self,
        text: str,
        call: Callable[[], _Compared],
        *,
        surely: bool = True,
        tests: Sequence[str] = (),
    ) -> _Compared | None:
        """Return the result of a call, or None if it fails."""
        results: list[_Compared] = []
        with self.planned(text, surely=surely, tests=tests):
            results.append(call())
        return results[0] if results else None

    def skip(self, text: str, why: str = "", *, untested: Sequence[str] = ()) -> None:
        """Record a call that was not tried, and what line 1 lists as ``untested``."""
        self.untried.append(f"{text} ({why})" if why else text)
        self.untested += untested

    def fault(self, fault: Irregularity | None) -> None:
        """Record a fault, if there is one."""
        self.faults += filter(None, [fault])

    def judge(
        self,
        text: str,
        call: Callable[[], Irregularity | None],
        *,
        surely: bool = True,
        tests: Sequence[str] = (),
    ) -> None:
        """Record the fault that a call and its comparison return."""
        self.fault(self.attempt(text, call, surely=surely, tests=tests))


def result_or_none(function: ServedFunction, call: Callable[[], _Compared]) -> _Compared | None:
    """Return the result of a call, or None if it fails."""
    return PlannedCalls(function).attempt("", call)


class Pattern(Record):
    """A kind of calls: when it applies, and which results must be equal.

    ``text`` describes it, or is a function that does. ``pairs`` yields results with what they must
    equal, or a fault. If a call is ``surely`` supported, its error ends the check. A ``last`` row
    is compared only if all rows before it are right, and a ``long`` row only if a call of the
    sequence is fast. A ``rare`` row may end the process.
    """

    text: str | Callable[[Any], str]
    pairs: Callable[[Any], Iterable[_Pair | Irregularity]]
    when: Callable[[Any], bool]
    surely: bool = False
    last: bool = False
    long: bool = False
    rare: bool = False


def compare_patterns(
    patterns: Sequence[Pattern], tried: Any, calls: PlannedCalls, differs: Differs
) -> None:
    """Make the calls of all patterns that apply, and record their faults.

    Raises: InvalidInput if a call fails that is surely supported.
    """
    before = len(calls.faults)
    for pattern in patterns:
        if (pattern.last and len(calls.faults) > before) or not pattern.when(tried):
            continue
        text = pattern.text if isinstance(pattern.text, str) else pattern.text(tried)
        if pattern.long and tried.slow:
            calls.skip(text, SLOW)
            continue
        with calls.planned(text, surely=not pattern.rare, refusable=not pattern.surely):
            faults = (_fault(text, pair, differs) for pair in pattern.pairs(tried))
            calls.fault(next(filter(None, faults), None))


def _fault(text: str, pair: _Pair | Irregularity, differs: Differs) -> Irregularity | None:
    """Return the fault of a call that ``text`` describes, or None if both results are equal."""
    if isinstance(pair, Irregularity):
        return pair
    if not differs(*pair):
        return None
    values, wanted = pair[:2]
    off = np.abs(values - wanted).max()
    evidence = f"called with {text}: results differ from other calls by up to {off:.2g}"
    if len(values) > 1:
        evidence += f", first at row {_first_differing_row(values, wanted, differs)}"
    return Irregularity(Cause.UNKNOWN, NO_MAP, evidence)


class _Sequence:
    """A sequence for a function; ``rows`` returns the results of some rows of a fixed input."""

    slow = False

    def __init__(self, function: ServedFunction, rows: Rows, context: int) -> None:
        self.function, self.form = function, function.form
        self.rows, self.context = rows, context
        self.count = min(SEQUENCE, context)

    @cached_property
    def whole(self) -> NumberArray:
        """The results of the whole sequence in one call."""
        began = time.monotonic()
        whole = self.run(self.count)
        self.slow = time.monotonic() - began > SLOW_SECONDS
        return whole

    def run(self, count: int, first: int = 0) -> NumberArray:
        positions = np.arange(first, first + count)
        return self.rows(positions, positions)

    def stops(self, sizes: Sequence[int], count: int) -> list[int]:
        """Return the ends of pieces below ``count``, if the first pieces have these sizes."""
        ends = accumulate(sizes or (count - _STEPS, *[1] * (_STEPS - 1)))
        return [end for end in ends if end < count] or [count // 2]

    def length(self, sizes: Sequence[int]) -> int:
        """Return the number of rows of a sequence in such chunks."""
        return min(self.context, sum(_BLOCKS)) if sizes == _BLOCKS else self.count


def try_patterns(
    calls: PlannedCalls, function: ServedFunction, rows: Rows, differs: Differs, *, context: int
) -> None:
    """Call a function on one sequence in every way that its form allows.

    ``rows(indices, positions)`` returns its results for some rows of one input.

    Raises: InvalidInput if a call fails that is no longer than the context.
    """
    if context < 2 * _STEPS:
        return
    tried = _Sequence(function, rows, context)
    if function.form.from_zero:
        _ = tried.whole  # this call must not fail
    compare_patterns(_PATTERNS, tried, calls, differs)


def rows_text(sizes: set[int]) -> str:
    """Return numbers of rows in words."""
    *some, last = map(str, sorted(sizes))
    return f"{', '.join(some)} or {last} rows" if some else f"{last} row{'s' * (last != '1')}"


def _chunks_text(sizes: Sequence[int], tried: _Sequence) -> str:
    count = tried.length(sizes)
    if not sizes:
        return f"a prefill of {count - _STEPS} and steps of one"
    *some, last = (str(size) for size in np.diff([0, *tried.stops(sizes, count), count]))
    return f"chunks of {', '.join(some)} and {last} rows"


def _chunks(sizes: Sequence[int], tried: _Sequence) -> Iterator[_Pair]:
    """Yield the results of a sequence in chunks, before one call, as a cache grows in decoding."""
    count = tried.length(sizes)
    pieces = np.split(np.arange(count), tried.stops(sizes, count))
    in_pieces = np.concatenate([tried.rows(piece, piece) for piece in pieces])
    whole = tried.whole
    if count > len(whole):
        whole, few = tried.run(count), len(whole)
        yield whole[:few], tried.whole
    yield in_pieces, whole


def _short_call(count: int, tried: _Sequence) -> Iterator[_Pair]:
    """Yield the results of a short call, for a function whose calls begin at position 0."""
    yield tried.run(count), tried.whole[:count]


def _far_rows(firsts: Iterable[int], tried: _Sequence) -> Iterator[_Pair]:
    """Yield results of a row far from the first, alone and after the row before it."""
    for first in firsts:
        after = tried.run(2, first)[1:]
        yield tried.run(1, first + 1), after, alike_at(tried.function, first + 1)


def _packed(tried: _Sequence) -> Iterator[_Pair]:
    """Yield the results of two sequences in one call, and of each in its own."""
    sequence, chunk = np.arange(tried.count), tried.count // 2
    positions = np.where(sequence < chunk, sequence, sequence - chunk)
    halves = (slice(0, chunk), slice(chunk, None))
    alone = np.concatenate([tried.rows(sequence[half], positions[half]) for half in halves])
    yield tried.rows(sequence, positions), alone


def _reordered(tried: _Sequence) -> Iterator[_Pair]:
    """Yield the results of some first rows in another order, in which positions fall and rise.

    The call before has as many rows, and the same ends: code may keep tables for these.
    """
    few, first = tried.count // 4, _STEPS
    tried.run(tried.count - first, first)
    order = np.arange(first, tried.count)
    order[1:few] = np.roll(order[1:few], few // 3)
    order[1 : few // 4] = order[1 : few // 4][::-1]
    yield tried.rows(order, order), tried.whole[order]


def _very_long_call(tried: _Sequence) -> Iterator[_Pair]:
    """Yield the results of more rows than a GPU has blocks along an axis.

    If any positions are allowed, a few are repeated. No repetition begins at one of these limits,
    so that a counter that wraps, or rows that are not rotated, show.
    """
    if tried.form.any_rows:
        cycle = next(n for n in range(tried.count, 1, -1) if all(end % n for end in _ENDS))
        repeated = np.resize(np.arange(cycle), LONG)
        yield tried.rows(repeated, repeated), tried.whole[repeated]
    else:
        count = min(LONG, tried.context)
        values = tried.run(count)
        yield values[: tried.count], tried.whole
        yield values[-2:], tried.run(2, count - 2)


_PATTERNS = (
    *(
        Pattern(
            partial(_chunks_text, sizes),
            partial(_chunks, sizes),
            lambda tried: not tried.form.from_zero,
            surely=True,
        )
        for sizes in _CHUNKS
    ),
    *(
        Pattern(
            f"a call of {rows_text({few})}",
            partial(_short_call, few),
            partial(lambda few, tried: tried.form.from_zero and few < tried.count, few),
            last=True,
        )
        for few in _FEW
    ),
    Pattern(
        partial(_chunks_text, _BLOCKS),
        partial(_chunks, _BLOCKS),
        # Tables whose rows are chosen are too short for calls far from 0.
        lambda tried: (
            not (tried.form.from_zero or tried.form.chosen) and tried.context > sum(_BLOCKS[:2])
        ),
        long=True,
    ),
    Pattern(
        "single rows far from the first",
        # Powers of two that at least two positions follow.
        lambda tried: _far_rows(
            [2**n for n in range(8, tried.context.bit_length()) if 2**n + 1 < tried.context], tried
        ),
        lambda tried: not tried.form.from_zero and tried.context > _FIRST_FAR,
        last=True,
    ),
    Pattern("packed sequences", _packed, lambda tried: tried.form.any_rows),
    Pattern(
        "rows in another order",
        _reordered,
        # An offset cannot choose rows of longer tables in another order.
        lambda tried: tried.form.any_rows and not (tried.form.chosen and tried.form.has("offset")),
    ),
    Pattern(
        lambda tried: (
            f"{LONG if tried.form.any_rows else min(LONG, tried.context)} rows in one call"
        ),
        _very_long_call,
        lambda tried: (
            tried.form.any_rows
            or (not tried.form.from_zero and min(LONG, tried.context) > sum(_BLOCKS))
        ),
        long=True,
    ),
    Pattern(
        "the last row alone",  # last: it fills a cache
        lambda tried: _far_rows([tried.context - 2], tried),
        lambda tried: not tried.form.from_zero and tried.context > _FIRST_FAR,
        last=True,
    ),
)
"""The calls for a sequence."""


def _first_differing_row(values: NumberArray, wanted: NumberArray, differs: Differs) -> int:
    """Return the first row that differs.

    ``differs`` measures rows relative to the largest value of all. If no row differs alone, it is
    0.
    """
    within = bisect_left(
        range(len(values)), True, key=lambda row: differs(values[: row + 1], wanted[: row + 1])
    )
    return within % len(values)

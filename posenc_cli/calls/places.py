"""Rules for the positions at which the rows of a call are rotated, as they follow from the call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, Reals


class PartOfCall(Record):
    """One result of a call of several sequences and heads, and what each head becomes alone.

    ``x``, ``values`` and ``alone`` are (b, h, n, d), ``places`` (b, h, n) the positions of rows,
    ``wrong`` (b, h) which heads differ. Each head of x comes back ``times`` times, and the other
    result has ``others`` heads.
    """

    which: int
    places: Integers
    x: NumberArray
    values: NumberArray
    alone: NumberArray
    wrong: Flags
    times: int
    others: int

    @property
    def heads(self) -> int:
        """How many heads come back."""
        return int(self.places.shape[1])

    @property
    def rows(self) -> int:
        """How many rows a sequence has."""
        return int(self.places.shape[2])

    @property
    def index(self) -> list[Integers]:
        """The number of the sequence, the head and the row of each row."""
        return [np.asarray(number, np.int64) for number in np.indices(self.places.shape)]

    @property
    def in_turn(self) -> NumberArray:
        """The heads as they come where all are repeated one after the other."""
        return np.tile(self.x[:, :: self.times], (1, self.times, 1, 1))

    def counted(self, of_sequence: int, of_head: int, of_row: int) -> Integers:
        """Positions that go on from the first of a sequence, so much with each index."""
        sequence, head, row = self.index
        return self.places[:, :, :1] + of_sequence * sequence + of_head * head + of_row * row

    def shifted(self, shift: int) -> Integers:
        """Positions that are all off by so much."""
        return self.places + shift

    def in_row(self, number: Integers, *, of_all: bool = False) -> Integers:
        """The positions of numbered rows, of a sequence or ``of_all``, counted again and again."""
        own = self.places[:, 0]
        if of_all:
            return own.reshape(-1)[number % own.size]
        return np.asarray(own[self.index[0], number % own.shape[1]])


class BatchRule(Record):
    """At which positions the rows of several sequences and heads are rotated.

    ``by_head`` says that heads differ, as those of a function that takes axes for others;
    ``tells`` that what follows it surely takes such a call all the same, ``when`` where it applies.
    """

    text: str
    at: Callable[[PartOfCall], Integers]
    when: Callable[[PartOfCall], bool] = lambda _: True
    by_head: bool = False
    tells: bool = False
    cause: Cause = Cause.POSITION_OFFSET


_ON = "rows are counted on through {}, as if they were one sequence"

BATCH_RULES = (
    BatchRule(
        "where there are as many heads as rows, positions are counted along heads: the axes are "
        "taken for one another",
        lambda part: part.in_row(part.index[1]),
        lambda part: part.heads == part.rows,
        by_head=True,
        cause=Cause.AXIS,
    ),
    BatchRule(
        "where there are as many sequences as rows, positions are counted along sequences: the "
        "axes are taken for one another",
        lambda part: part.in_row(part.index[0]),
        lambda part: len(part.places) == part.rows,
        cause=Cause.AXIS,
    ),
    BatchRule(
        _ON.format("the sequences of a batch"),
        lambda part: part.counted(part.rows, 0, 1),
        tells=True,
    ),
    BatchRule(
        f"{_ON.format('the sequences of a batch')}, from the first",
        lambda part: part.counted(part.rows, 0, 1) - part.places[:, :, :1] + part.places[0, 0, 0],
        tells=True,
    ),
    BatchRule(_ON.format("the heads"), lambda part: part.counted(0, part.rows, 1), tells=True),
    BatchRule(
        _ON.format("all heads and sequences"),
        lambda part: part.counted(part.heads * part.rows, part.rows, 1),
        tells=True,
    ),
    BatchRule(
        _ON.format("the heads of all rows"),
        lambda part: part.counted(part.heads * part.rows, 1, part.heads),
        tells=True,
    ),
    BatchRule(
        "positions are multiplied by the number of sequences",
        lambda part: part.places * len(part.places),
        tells=True,
    ),
    BatchRule(
        "each sequence of a batch starts at position 0, whatever its positions",
        lambda part: part.places - part.places[:, :, :1],
        tells=True,
    ),
    *(
        BatchRule(
            f"sequences of a batch are rotated at other positions than alone: by {shift:+d}",
            partial(PartOfCall.shifted, shift=shift),
            tells=True,
        )
        for shift in sorted(range(-8, 9), key=abs)
        if shift
    ),
    BatchRule(
        "positions (b, n) are read as (n, b)",
        lambda part: part.places[:, 0].reshape(part.rows, -1).T[:, None],
    ),
    BatchRule(
        "positions (b, n) are transposed, and read as (b, n) then",
        lambda part: part.places[:, 0].T.reshape(-1, 1, part.rows),
    ),
    BatchRule(
        "sequences are rotated at the positions of each other, the first at those of the last",
        lambda part: part.places[::-1],
    ),
    BatchRule("rows are rotated in reverse order", lambda part: part.places[..., ::-1]),
    BatchRule(
        "all rows of a sequence are rotated at the position of its first",
        lambda part: part.places[..., :1],
    ),
    BatchRule(
        "the head index is added to the position",
        lambda part: part.places + part.index[1],
        by_head=True,
    ),
    BatchRule(
        "the head index + 1 is added to the position",
        lambda part: part.places + part.index[1] + 1,
        by_head=True,
    ),
    BatchRule(
        "the sequence index is added to the position",
        lambda part: part.places + part.index[0],
    ),
    BatchRule(
        "rows of {own} are found by dividing through the heads of {other}",
        lambda part: part.in_row((part.index[2] * part.heads + part.index[1]) // part.others),
        by_head=True,
    ),
    BatchRule(
        "rows of {own} in all sequences are found by dividing through the heads of {other}",
        lambda part: part.in_row(
            ((part.index[0] * part.rows + part.index[2]) * part.heads + part.index[1])
            // part.others,
            of_all=True,
        ),
        by_head=True,
    ),
    BatchRule(
        "rows and heads of {own} are counted as one, and what is past the rows starts again",
        lambda part: part.in_row(part.index[2] * part.heads + part.index[1]),
        by_head=True,
    ),
    BatchRule(
        "rows of {own} are found by dividing through the heads, though rows come after heads",
        lambda part: part.in_row((part.index[1] * part.rows + part.index[2]) // part.heads),
        by_head=True,
    ),
)
"""Rules for the rows of several sequences and heads, the plainest first."""


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
    """At which positions the rows of a call are rotated; ``rivals`` must not give them as well.

    ``unlike`` says why unit vectors say nothing of others, where the rule has words of its own.
    """

    text: str
    at: Callable[[MadeCall], Integers | Reals]
    cause: Cause = Cause.POSITION_OFFSET
    rivals: tuple[Callable[[MadeCall], Integers | Reals], ...] = ()
    unlike: str = "the function rotates rows by the call that they come in"


def moved_by(by: Callable[[MadeCall], int]) -> Callable[[MadeCall], Integers]:
    """The positions of a call, off by what follows from it."""
    return lambda call: call.positions + by(call)


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
        unlike="the function counts rows",
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


BLOCKS = tuple(2**power for power in range(1, 12))
"""Rows that a kernel takes at once."""


def rules_of_blocks(block: int, *, later: bool) -> tuple[CallRule, ...]:
    """Rules of rows that are taken in blocks of so many.

    ``later`` says that a call begins past position 0: in others rows are positions, of which rules
    are looked for elsewhere.
    """
    of_later = (
        CallRule(
            f"rows are rotated as those of the first block of {block}, again and again",
            lambda call: call.positions[np.arange(call.rows) % block],
        ),
        CallRule(
            f"rows are counted from 0 in each block of {block}",
            lambda call: np.arange(call.rows) % block,
        ),
    )
    return (
        *(of_later if later else ()),
        CallRule(
            f"all rows of a block of {block} are rotated at the position of its first",
            lambda call: call.positions[np.arange(call.rows) // block * block],
        ),
        CallRule(
            f"rows behind the last whole block of {block} are left as given",
            lambda call: call.positions * (np.arange(call.rows) < call.rows // block * block),
            Cause.NO_ROTATION,
        ),
        CallRule(
            f"rows past the first block of {block} are left as given",
            lambda call: call.positions * (np.arange(call.rows) < block),
            Cause.NO_ROTATION,
        ),
    )


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

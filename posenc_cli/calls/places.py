"""Rules for the positions at which the rows of a call are turned, as they follow from the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import Integers, NumberArray, Reals


class MadeCall(Record):
    """Rows (n, columns) before and after, at positions (n,).

    ``first`` is how many rows the function's first call had, ``first_end`` up to which position;
    ``alike`` are the positions of the first call of as many rows that is known.
    """

    positions: Integers
    x: NumberArray
    values: NumberArray
    first: int = 0
    first_end: int = 0
    alike: Integers | None = None

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
    """At which positions the rows of a call are turned; ``rivals`` must not give them as well."""

    text: str
    at: Callable[[MadeCall], Integers | Reals]
    cause: Cause = Cause.POSITION_OFFSET
    rivals: tuple[Callable[[MadeCall], Integers | Reals], ...] = ()


def moved_by(by: Callable[[MadeCall], int]) -> Callable[[MadeCall], Integers]:
    """The positions of a call, off by what follows from it."""
    return lambda call: call.positions + by(call)


def _last_as_before(call: MadeCall) -> Integers:
    return np.append(call.positions[:-1], call.positions[-2:][0])


def _second_as_first(call: MadeCall) -> Integers:
    used = call.positions.copy()
    used[1:2] = used[0]
    return used


def _from_first(call: MadeCall) -> Integers:
    return call.start + np.arange(call.rows)


CALL_RULES = (
    CallRule("rows are turned in reverse order", lambda call: call.positions[::-1]),
    CallRule("the last row is turned as the one before it", _last_as_before),
    CallRule(
        "the first position comes twice: each later row is turned as the one before it",
        lambda call: np.append(call.positions[:1], call.positions[:-1]),
    ),
    CallRule("the second row is turned as the first", _second_as_first),
    CallRule(
        "each row is turned as the next, and the last as itself",
        lambda call: np.append(call.positions[1:], call.positions[-1:]),
    ),
    CallRule(
        "positions end before the last of a call, which is turned as the one before it",
        lambda call: np.minimum(call.positions, max(call.end - 2, 0)),
    ),
    CallRule(
        "rows are turned one place on, and the first as the last",
        lambda call: np.roll(call.positions, 1),
    ),
    CallRule(
        "rows are turned one place back, and the last as the first",
        lambda call: np.roll(call.positions, -1),
    ),
    CallRule(
        "rows are turned at position 0, so not at all",
        lambda call: 0 * call.positions,
        Cause.NO_ROTATION,
    ),
    CallRule("rows are counted down to 0", lambda call: np.arange(call.rows)[::-1]),
    CallRule(
        "rows are spread evenly from the first position to one past the last: an end that counts",
        lambda call: np.linspace(call.start, call.positions[-1] + 1, call.rows),
    ),
    CallRule("of the positions only the first is used: rows are counted from it", _from_first),
    CallRule(
        "each call starts again at position 0", lambda call: call.positions - call.positions.min()
    ),
    CallRule(
        "the positions that it is given are ignored: it counts rows",
        lambda call: np.arange(call.rows),
    ),
    CallRule(
        "all rows are turned at the first position", lambda call: np.full(call.rows, call.start)
    ),
    CallRule(
        "all rows are turned at the last position",
        lambda call: np.full(call.rows, call.positions[-1]),
    ),
    CallRule(
        "positions end with the number of rows: what is past it is turned as the last of so many",
        lambda call: np.minimum(call.positions, call.rows - 1),
    ),
    CallRule(
        "positions start again at every multiple of the number of rows",
        lambda call: call.positions % call.rows,
    ),
    CallRule(
        "positions end with the rows of the first call: what is past it is turned as its last",
        lambda call: np.minimum(call.positions, call.first - 1),
    ),
    CallRule(
        "positions start again at every multiple of the rows of the first call",
        lambda call: call.positions % call.first,
    ),
    CallRule(
        "calls of one length all have the positions of the first of that length: something is kept "
        "by the length alone",
        lambda call: call.positions if call.alike is None else call.alike,
    ),
    CallRule(
        "positions end where the first call did: what is past it is turned as its last",
        lambda call: np.minimum(call.positions, call.first_end - 1),
    ),
)
"""Rules without a number, the plainest first."""


BLOCKS = tuple(2**power for power in range(1, 12))
"""Rows that a kernel takes at once."""


def rules_of_blocks(block: int, *, later: bool) -> Iterator[CallRule]:
    """Rules of rows that are taken in blocks of so many.

    ``later`` says that a call begins past position 0: in others rows are positions, of which rules
    are looked for elsewhere.
    """

    def number(call: MadeCall) -> Integers:
        return np.arange(call.rows)

    if later:
        yield CallRule(
            f"rows are turned as those of the first block of {block}, again and again",
            lambda call: call.positions[number(call) % block],
        )
        yield CallRule(
            f"rows are counted from 0 in each block of {block}",
            lambda call: number(call) % block,
        )
    yield CallRule(
        f"all rows of a block of {block} are turned at the position of its first",
        lambda call: call.positions[number(call) // block * block],
    )
    yield CallRule(
        f"rows behind the last whole block of {block} are left as given",
        lambda call: np.where(
            number(call) < call.rows // block * block, call.positions, np.int64(0)
        ),
        Cause.NO_ROTATION,
    )
    yield CallRule(
        f"rows past the first block of {block} are left as given",
        lambda call: np.where(number(call) < block, call.positions, np.int64(0)),
        Cause.NO_ROTATION,
    )


OFFS: tuple[tuple[str, Callable[[MadeCall], int]], ...] = (
    ("what came before is counted twice", lambda call: call.start),
    ("later calls start again at position 0", lambda call: -call.first),
    ("the rows of the call itself are counted before it", lambda call: call.rows),
    ("rows are counted from the end of their call", lambda call: call.rows - 1),
    ("the rows of the call are taken off its positions", lambda call: -call.rows),
    ("the first row is turned as the last should be", lambda call: 1 - call.rows),
)
"""By how much rows may be off, as it follows from their call."""

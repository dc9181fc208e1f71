"""At which positions rows are turned that come in pieces: read off, and held against every row.

One call from position 0 on shows what becomes of a row at any position. Where a row of a piece is
turned as at another position than its own, a rule for all rows of the pieces is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.checks.answers import Differs, Rows
    from posenc_cli.numerics.arrays import Integers, NumberArray


class _CountingRule(Record):
    """How rows of later pieces are counted.

    ``starts`` times the first row of the piece, and ``off``, are added to the position.
    """

    text: str
    starts: int = 0
    off: int = 0


def counted_otherwise(
    values: NumberArray, stops: list[int], first: int, rows: Rows, differs: Differs, *, most: int
) -> str:
    """How the rows of pieces that begin at ``stops`` are counted; empty where no rule is known.

    ``values`` are those of rows 0, 1, …, of which ``first`` is the first that is wrong; positions
    below ``most`` can be asked for.
    """
    count = values.shape[0]
    reach = min(2 * count, most)
    one_row = rows(np.full(reach, first), np.arange(reach))
    apart = np.abs(one_row - values[first]).max(axis=1)
    turned_as = int(np.argmin(apart))
    if differs(one_row[turned_as : turned_as + 1], values[first : first + 1]):
        return ""
    own = np.arange(count)
    starts = np.array([0, *stops])[np.searchsorted(stops, own, side="right")]
    for rule in _rules(turned_as - first, stops[0]):
        used = np.where(own < stops[0], own, own + rule.starts * starts + rule.off)
        if used[first] != turned_as or used.min() < 0 or used.max() >= most:
            continue
        if _reproduced(values, used, [*stops, count], rows, differs):
            return rule.text
    return ""


def _rules(off: int, prefill: int) -> tuple[_CountingRule, ...]:
    """Rules by which positions get lost between calls, where one row is off by so many."""
    return (
        _CountingRule("each call starts again at position 0", starts=-1),
        _CountingRule("what came before is counted twice", starts=1),
        _CountingRule("later calls start again at position 0", off=-prefill),
        _CountingRule(f"rows of later calls are off by {off:+d}", off=off),
    )


def _reproduced(
    values: NumberArray, used: Integers, stops: list[int], rows: Rows, differs: Differs
) -> bool:
    """Whether each row is what one call from 0 on makes of it at the position used."""
    begin = 0
    for stop in stops:
        piece = np.arange(begin, stop)
        begin = stop
        if not piece.size:
            continue
        whole = np.zeros(int(used[piece].max()) + 1, np.int64)
        whole[used[piece]] = piece
        made = rows(whole, np.arange(whole.size))[used[piece]]
        if differs(values[piece], made):
            return False
    return True

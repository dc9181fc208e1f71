"""At which positions rows are turned that come in pieces: read off, and held against every row.

One call from position 0 on shows what becomes of a row at any position. Where a row of a piece is
turned as at another position than its own, a rule for all rows of the pieces is looked for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.answers import Differs, Rows
    from posenc_cli.numerics.arrays import Integers, NumberArray


class CountingRule(Record):
    """How the rows of a piece are counted: ``at(own, start)`` are the positions that they have.

    ``own`` (n,) are their own positions, of which ``start`` is the first.
    """

    text: str
    at: Callable[[Integers, int], Integers]
    cause: Cause = Cause.POSITION_OFFSET


def moved_in_pieces(
    values: NumberArray,
    parts: Sequence[Integers],
    wrong: Sequence[bool],
    rows: Rows,
    differs: Differs,
    *,
    most: int,
) -> CountingRule | None:
    """How the rows of wrong pieces are counted; None where no rule is known.

    ``values`` are those of rows 0, 1, …, which came in pieces, ``parts``; positions below ``most``
    can be asked for.
    """
    reach = min(2 * values.shape[0], most)
    bad = [part for part, is_wrong in zip(parts, wrong, strict=True) if is_wrong]
    if not bad:
        return None
    first = int(bad[0][-1])
    one_row = rows(np.full(reach, first), np.arange(reach))
    turned_as = int(np.argmin(np.abs(one_row - values[first]).max(axis=1)))
    if differs(one_row[turned_as : turned_as + 1], values[first : first + 1]):
        return None
    for rule in _rules(turned_as - first, parts[0].size):
        used = [rule.at(part, int(part[0])) for part in bad]
        if used[0][-1] != turned_as or min(map(np.min, used)) < 0 or max(map(np.max, used)) >= most:
            continue
        if all(map(partial(_reproduced, values, rows, differs), bad, used)):
            return rule
    return None


RESTARTED = "each call starts again at position 0"
"""Of a single row it is as well that it is left as given."""


def _rules(off: int, prefill: int) -> tuple[CountingRule, ...]:
    """Rules by which positions get lost between calls, where one row is off by so many."""
    return (
        CountingRule(RESTARTED, lambda own, start: own - start),
        CountingRule("what came before is counted twice", lambda own, start: own + start),
        CountingRule("later calls start again at position 0", lambda own, _: own - prefill),
        CountingRule(f"rows of later calls are off by {off:+d}", lambda own, _: own + off),
        CountingRule(
            "rows do not turn: they are as at position 0",
            lambda own, _: np.zeros_like(own),
            Cause.NO_ROTATION,
        ),
        CountingRule("all rows of a call are turned at the position of its first", np.full_like),
    )


def _reproduced(
    values: NumberArray, rows: Rows, differs: Differs, part: Integers, used: Integers
) -> bool:
    """Whether rows are what one call from 0 on makes of each at the position used."""
    distinct = np.unique(used).size == used.size
    for call in (
        [slice(None)] if distinct else map(slice, range(used.size), range(1, used.size + 1))
    ):
        whole = np.zeros(int(used[call].max()) + 1, np.int64)
        whole[used[call]] = part[call]
        made = rows(whole, np.arange(whole.size))[used[call]]
        if differs(values[part[call]], made):
            return False
    return True

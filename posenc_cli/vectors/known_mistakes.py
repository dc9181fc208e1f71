"""A known bug, and what it makes of the values of a golden pack.

The mistakes of what is added, rows or scores, are the known bugs that `posenc check` names.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.search import changes_of
from posenc_cli.errors import PosencError
from posenc_cli.inference.tolerance import smallest, unit
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.expected import Change, Expected
    from posenc_cli.numerics.arrays import NumberArray, RealRows

ROUNDINGS = 4
"""Of what adds a row that is looked up, or computed in a step or two."""

_SAME = 1e-3
"""Of the tolerance: what a change of nothing may show, computed in another way."""


class WrongValues(Record):
    """What a mistake makes of values, and what code in float32 may err by that makes it.

    Both are (rows, columns).
    """

    values: RealRows
    tolerance: RealRows


class KnownMistake(Record):
    """A mistake: its cause, what it is, and what it makes of the values.

    ``wrong`` is None where it cannot be made of this encoding; ``reason`` says why.
    """

    cause: str
    message: str
    wrong: WrongValues | None
    reason: str = ""


def fixed_tolerance(values: RealRows, fixed: float) -> RealRows:
    """A number that all values may be off by, above 0: errors are told as shares of it."""
    return np.full_like(values, max(fixed, smallest("float32")))


def added_mistakes(e: Expected, context: int, *, usual: bool) -> Iterator[KnownMistake]:
    """The known bugs of rows or scores that are added, in a model of so many positions.

    ``usual`` says that the positions are those that show most: what changes nothing there cannot
    be made.
    """
    right = added_values(e, e.right())
    seen = set[str]()
    for bug, change in changes_of(e, solved=False, context=context):
        if change.text in seen:
            continue
        seen.add(change.text)
        cause = str(change.code or bug.code)
        try:
            with np.errstate(all="ignore"):
                wrong = added_values(e, e.changed(change), drawn=change)
        except PosencError as error:
            yield KnownMistake(cause, change.text, None, error.message)
            continue
        if wrong.values.shape != right.values.shape:
            continue
        apart, reason = np.abs(wrong.values - right.values), ""
        if not np.isfinite(apart).all():
            reason = "it reads what is not in the table"
        elif usual and (apart <= _SAME * wrong.tolerance).all():
            reason = "it changes no value at the positions that show most"
        yield KnownMistake(cause, change.text, None if reason else wrong, reason)


def added_values(e: Expected, added: NumberArray, *, drawn: Change | None = None) -> WrongValues:
    """Vectors with rows added (n, columns), or scores as rows (heads · n, n), and what may be off.

    Right ones where no change was ``drawn``.
    """
    if e.vectors is None:
        allowed = e.judged(added) if drawn is None else np.abs(e.allowed(added, drawn=drawn))
        return WrongValues(*(each.reshape(-1, added.shape[-1]) for each in (added, allowed)))
    values = e.vectors + added
    if isinstance(e.rule, float):
        return WrongValues(values, fixed_tolerance(values, e.rule))
    rounding = max(unit(e.dtype), unit("float32"))
    allowed = ROUNDINGS * rounding * (np.abs(e.vectors) + np.abs(added)) + smallest("float32")
    if e.is_waves:
        allowed = allowed + e.allowed(added, drawn=drawn)
    return WrongValues(values, allowed)

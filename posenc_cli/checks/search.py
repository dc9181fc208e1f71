"""Why a subject that rotates nothing differs: the table of known bugs is tried, row by row.

A change is tried at a few places; what fits there is rebuilt and compared at every value before it
is named. Where no single change explains all values, two are combined: the first one of those that
need no measuring, the second measured after it. Equally good explanations are all named.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.expected import Change, ValuePlaces
from posenc_cli.checks.known_bugs import KNOWN_BUGS
from posenc_cli.errors import PosencError
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.expected import Expected
    from posenc_cli.checks.known_bugs import KnownBug
    from posenc_cli.numerics.arrays import Integers, NumberArray

BLOCK = 1 << 20
"""Values that are compared at a time."""
_MOST = 4
"""Explanations that are named: more of them say that the subject is too small to tell."""


class NamedBug(Record):
    """A known bug that gives the subject's values, in words, and what to do about it."""

    code: str
    message: str
    remedy: str
    seen: str

    @property
    def text(self) -> str:
        """The bug in a sentence."""
        return f"{self.code}: {self.message}"


Explained = tuple[NamedBug, ...]
"""Bugs that together give the subject's values: one or two."""


def explanations(e: Expected, wrong: Integers) -> list[Explained]:
    """All equally good explanations of a subject, the likeliest first; none where none is known.

    ``wrong`` are some of the rows, queries or entries that differ.
    """
    with np.errstate(all="ignore"):
        part = e.sample(wrong)
        kept: dict[tuple[str, ...], Explained] = {}
        general: dict[tuple[str, ...], Explained] = {}
        for bug, change in _changes(e):
            codes = (str(change.code or bug.code),)
            if codes in kept or (kept and change.general):
                continue
            if _fits(part, change) and fits_everywhere(e, change):
                (general if change.general else kept).setdefault(codes, (_named(bug, change),))
        if not kept:
            for bugs in islice(_pairs(e, part), _MOST):
                kept.setdefault(tuple(sorted(bug.code for bug in bugs)), bugs)
    return list((kept or general).values())[:_MOST]


def _changes(e: Expected, *, solved: bool = True) -> Iterator[tuple[KnownBug, Change]]:
    """The changes that the rows of the table make of a reference."""
    for bug in KNOWN_BUGS:
        if e.form in bug.forms and (solved or not bug.solves):
            try:
                for change in bug.changes(e):
                    yield bug, change
            except PosencError:
                continue


def _named(bug: KnownBug, change: Change) -> NamedBug:
    code, remedy = change.code or bug.code, change.remedy or bug.remedy
    return NamedBug(str(code), change.text, remedy, bug.seen)


def _fits(e: Expected, change: Change) -> bool:
    """Whether a changed reference gives the values found at these places, NaN being NaN."""
    try:
        wrong = e.changed(change)
        allowed = e.allowed(wrong, drawn=change)
    except (PosencError, ValueError, IndexError, OverflowError):
        return False
    if wrong.shape != e.found.shape:
        return False
    found = np.asarray(e.found, np.float64)
    near = np.isfinite(wrong) & (np.abs(found - wrong) <= np.abs(allowed) + e.slack)
    odd = ~np.isfinite(e.found) & ((found == wrong) | (np.isnan(found) & np.isnan(wrong)))
    return bool((near | odd).all())


def blocks_of(e: Expected) -> Iterator[Expected]:
    """The reference at all of its places, some at a time."""
    count = e.places.at.size
    size = max(1, e.found.size // max(1, count))
    step = max(1, BLOCK // size)
    for start in range(0, count, step):
        part = slice(start, start + step)
        keys = e.places.keys
        if e.form == "scores":
            yield replace(e, places=ValuePlaces(e.places.at[part], keys), found=e.found[:, part])
        else:
            own = keys if keys is None else keys[part]
            yield replace(e, places=ValuePlaces(e.places.at[part], own), found=e.found[part])


def fits_everywhere(e: Expected, change: Change) -> bool:
    """Whether a change gives every value of the subject, and is a change at all."""
    changes = False
    for part in blocks_of(e):
        if not _fits(part, change):
            return False
        if not changes:
            right = part.right()
            apart = np.abs(part.changed(change) - right)
            changes = bool(~(apart <= part.judged(right)).all())
    return changes


def _pairs(e: Expected, part: Expected) -> Iterator[Explained]:
    """Two changes, of which the second is measured after the first where that can be undone."""
    for bug, first in _changes(part, solved=False):
        if first.places is not None or not _alters(part, first):
            continue
        after = _undone(part, first)
        whole = e if after is None else None
        for other, second in _changes(after or part, solved=after is not None):
            both = second if after else _joined(first, second)
            if both is None or second.general or _alike(bug, first, other, second):
                continue
            if _fits(after or part, both):
                whole = whole or _undone(e, first) or e
                if fits_everywhere(whole, both):
                    yield _named(bug, first), _named(other, second)


def _alike(bug: KnownBug, first: Change, other: KnownBug, second: Change) -> bool:
    """Whether two changes are of one kind, or of one parameter."""
    codes = first.code or bug.code, second.code or other.code
    return codes[0] == codes[1] or bool(set(first.params) & set(second.params))


def _alters(e: Expected, change: Change) -> bool:
    """Whether a change makes a difference at these places."""
    try:
        return not (np.abs(e.changed(change) - e.right()) <= e.allowed(e.right())).all()
    except (PosencError, ValueError, IndexError, OverflowError):
        return False


def _undone(e: Expected, first: Change) -> Expected | None:
    """What is left to explain after a change of parameters, of columns' order, or of some rows."""
    if first.make is not None or (first.values is not None and (first.params or e.form != "rows")):
        return None
    if first.values is None:
        return replace(e, params={**e.params, **first.params}) if first.params else None
    kept = np.any(first.values(np.ones(e.found.shape), e), axis=1)
    if not kept.all():  # the others hold what no reference does
        places = ValuePlaces(e.places.at[kept])
        return replace(e, places=places, found=e.found[kept]) if kept.any() else None
    straight = np.arange(e.found.shape[1])
    order = first.values(straight[None], e)[0]
    if not np.array_equal(np.sort(order), straight):
        return None
    return replace(e, found=e.found[:, np.argsort(order)])


def _joined(first: Change, second: Change) -> Change | None:
    """Two changes as one; None where both compute the values."""
    if first.make is not None and second.make is not None:
        return None
    before, after = first.values, second.values
    values = before or after
    if before is not None and after is not None:
        values = _one_after_another(before, after)
    return Change(
        first.text,
        {**first.params, **second.params},
        second.places,
        first.make or second.make,
        values,
    )


def _one_after_another(
    before: Callable[[NumberArray, Expected], NumberArray],
    after: Callable[[NumberArray, Expected], NumberArray],
) -> Callable[[NumberArray, Expected], NumberArray]:
    return lambda values, e: after(before(values, e), e)

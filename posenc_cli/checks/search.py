"""Find the cause of a wrong subject that does not rotate, in the table of known bugs.

A change is tried at a few places. If it fits there, it is compared at every value before it is
reported. If no single change explains all values, two are combined: one that needs no
measurement, and one that is measured after it. All equally good explanations are returned.
"""

from __future__ import annotations

import contextlib
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.expected import blocks_of
from posenc_cli.checks.known_bugs import arrangement, parameters, positions_and_values
from posenc_cli.checks.known_bugs.bug import BugCode, KnownBug
from posenc_cli.errors import PosencError
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.expected import Change, Expected, Form
    from posenc_cli.numerics.arrays import Flags, Integers

KNOWN_BUGS = (*arrangement.BUGS, *parameters.BUGS, *positions_and_values.BUGS)
"""Known bugs of encodings that do not rotate; the first of two that give the same values wins."""

_MOST_NAMED = 4
"""Most explanations that are reported; more mean that the subject is too small to tell."""


class NamedBug(Record):
    """A known bug that gives the subject's values, in words, and its remedy."""

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


def explanations(e: Expected, wrong: Integers, *, context: int | None = None) -> list[Explained]:
    """Return all equally good explanations of a subject, likeliest first; [] if none is known.

    ``wrong`` are some of the rows, queries or entries that differ. ``context`` is the number of a
    model's positions: then changes of usual size are tried too, for subjects with few positions.
    """
    with np.errstate(all="ignore"):
        part = e.sample(wrong)
        specific: dict[tuple[str, ...], Explained] = {}
        general: dict[tuple[str, ...], Explained] = {}
        usual = changes_of(e, context=context) if context else ()
        for bug, change in chain(changes_of(e), usual):
            codes = (str(change.code or bug.code),)
            if codes in specific or (specific and change.general):
                continue
            if _matches(part, change).all() and fits_everywhere(e, change):
                (general if change.general else specific).setdefault(
                    codes, (_named_bug(bug, change),)
                )
        # A measured base with many digits may hide two bugs, so it does not end the search.
        single = specific or (BugCode.POSITION_OFFSET,) in general
        pairs = () if single or e.form == "rotations" else _pairs_of_bugs(e, part)
        for bugs, is_general in islice(pairs, _MOST_NAMED):
            (general if is_general else specific).setdefault(
                tuple(sorted(bug.code for bug in bugs)), bugs
            )
    return list((specific or general).values())[:_MOST_NAMED]


def bugs_of(form: Form) -> tuple[KnownBug, ...]:
    """Return the rows of the table with the bugs of a form."""
    if form != "rotations":
        return KNOWN_BUGS
    from posenc_cli.checks.known_bugs import rotations  # slow to import: diagnosis and schemes

    return rotations.BUGS


def changes_of(
    e: Expected, *, solved: bool = True, context: int | None = None
) -> Iterator[tuple[KnownBug, Change]]:
    """Yield the changes that the table's rows make to a reference.

    With ``context``, the number of a model's positions, rows that measure yield changes of usual
    size instead. ``solved=False`` omits rows that measure the whole subject.
    """
    for bug in bugs_of(e.form):
        with contextlib.suppress(PosencError):
            if e.form not in bug.forms:
                continue
            if context is not None and bug.examples is not None:
                yield from ((bug, change) for change in bug.examples(e, context))
            elif solved or not bug.solves:
                yield from ((bug, change) for change in bug.changes(e))


def _named_bug(bug: KnownBug, change: Change) -> NamedBug:
    return NamedBug(
        str(change.code or bug.code), change.text, change.remedy or bug.remedy, bug.seen
    )


def _matches(e: Expected, change: Change) -> Flags:
    """Return which found values a changed reference gives; NaN equals NaN."""
    try:
        wrong = e.changed(change)
        if wrong.shape == e.found.shape:
            return e.near(wrong, change)
    except (PosencError, ValueError, IndexError, OverflowError):
        pass
    return np.zeros(e.found.shape, bool)


def fits_everywhere(e: Expected, change: Change, *, after: Change | None = None) -> bool:
    """Return whether a change, ``after`` undoing another, gives every value and has an effect."""
    changes = False
    for block in blocks_of(e):
        part = block if after is None else _without_change(block, after)
        if part is None or not _matches(part, change).all():
            return False
        changes = changes or _has_effect(part, change)
    return changes


def _pairs_of_bugs(e: Expected, part: Expected) -> Iterator[tuple[Explained, bool]]:
    """Yield pairs of bugs, the second measured after undoing the first.

    Each comes with whether it is reported only if no other explains the values. Roundings come
    last.
    """
    for bug, first in changes_of(e, solved=False):
        after = _without_change(part, first) if _has_effect(part, first) else None
        if after is None:
            continue
        for other, second in changes_of(after):
            bugs = _named_bug(bug, first), _named_bug(other, second)
            # Only the first may be of NaN, since it counts all values.
            if second.general or other.code is BugCode.NOT_A_NUMBER or bugs[0].code == bugs[1].code:
                continue
            if _matches(after, second).all() and fits_everywhere(e, second, after=first):
                yield (bugs[::-1] if first.rounding else bugs), first.general


def _has_effect(e: Expected, change: Change) -> bool:
    """Return whether a change makes a difference at these places."""
    if change.rounding:
        return True
    try:
        right = e.right()
        near = np.abs(e.changed(change) - right) <= e.tolerated(right)
        return not (near | e.absent).all()
    except (PosencError, ValueError, IndexError, OverflowError):
        return False


def _without_change(e: Expected, first: Change) -> Expected | None:
    """Undo a change in the found values; return None if that is impossible.

    Values that no longer depend on the reference, zeros or NaN, are excluded. They contradict the
    change if it makes zeros where others were found, or leaves other NaN.
    """
    if first.make is not None or first.places is not None:
        return None
    found = np.asarray(e.found, np.float64)
    gaps = e.gaps
    if first.values is not None:
        factors, nothing = (first.values(make(found.shape), e) for make in (np.ones, np.zeros))
        if factors.shape != found.shape:  # factors of all heads, but some slopes are missing
            return None
        kept = np.isfinite(factors) & (factors != 0)
        adds = nothing[np.isfinite(nothing)].any()
        if adds or found[factors == 0].any() or (not kept.all() and np.isnan(found[kept]).any()):
            return None
        found = np.where(kept, found / factors, np.nan)
        gaps = gaps or not kept.all()
    if first.order is not None:  # of columns: an order of heads is measured, so never first
        found = found[:, np.argsort(first.order)]
    return replace(e.with_change(first), found=found, gaps=gaps)

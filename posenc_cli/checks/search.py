"""The cause for a subject that does not rotate: a search of the table of known bugs.

A change is tried at a few places; what fits there is rebuilt and compared at every value before it
is named. Where no single change explains all values, two are combined: the first one of those that
can be told by themselves, the second measured after it. Equally good explanations are all named.
"""

from __future__ import annotations

import contextlib
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.known_bugs import arrangement, parameters, positions_and_values
from posenc_cli.checks.known_bugs.bug import BugCode
from posenc_cli.errors import PosencError
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.expected import Change, Expected, Form
    from posenc_cli.checks.known_bugs.bug import KnownBug
    from posenc_cli.numerics.arrays import Flags, Integers

KNOWN_BUGS = (*arrangement.BUGS, *parameters.BUGS, *positions_and_values.BUGS)
"""Those of what does not rotate: of two that give the same values, the first is named first."""

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


class _Contradicted(Exception):
    """A change that the values found contradict, or that does more than multiply them."""


Explained = tuple[NamedBug, ...]
"""Bugs that together give the subject's values: one or two."""


def explanations(e: Expected, wrong: Integers, *, context: int | None = None) -> list[Explained]:
    """All equally good explanations of a subject, the likeliest first; none where none is known.

    ``wrong`` are some of the rows, queries or entries that differ. Where few positions are known
    of a model of ``context`` positions, changes of usual size are tried too.
    """
    with np.errstate(all="ignore"):
        part = e.sample(wrong)
        kept: dict[tuple[str, ...], Explained] = {}
        general: dict[tuple[str, ...], Explained] = {}
        usual = changes_of(e, context=context) if context else ()
        for bug, change in chain(changes_of(e), usual):
            codes = (str(change.code or bug.code),)
            if codes in kept or (kept and change.general):
                continue
            if _near(part, change).all() and fits_everywhere(e, change):
                (general if change.general else kept).setdefault(codes, (_named(bug, change),))
        single = kept or (BugCode.POSITION_OFFSET,) in general  # a base of many digits may be two
        pairs = () if single or e.form == "rotations" else _pairs(e, part)
        for bugs, rare in islice(pairs, _MOST):
            (general if rare else kept).setdefault(tuple(sorted(bug.code for bug in bugs)), bugs)
    return list((kept or general).values())[:_MOST]


def bugs_of(form: Form) -> tuple[KnownBug, ...]:
    """The part of the table that has the bugs of a form."""
    if form != "rotations":
        return KNOWN_BUGS
    from posenc_cli.checks.known_bugs import rotations  # slow to import: the diagnosis, and schemes

    return rotations.BUGS


def changes_of(
    e: Expected, *, solved: bool = True, context: int | None = None
) -> Iterator[tuple[KnownBug, Change]]:
    """The changes that the rows of the table make of a reference.

    In a model of ``context`` positions those of usual size, as examples of what is measured.
    """
    for bug in bugs_of(e.form):
        with contextlib.suppress(PosencError):
            if e.form not in bug.forms:
                continue
            if context is not None and bug.examples is not None:
                yield from ((bug, change) for change in bug.examples(e, context))
            elif solved or not bug.solves:
                yield from ((bug, change) for change in bug.changes(e))


def _named(bug: KnownBug, change: Change) -> NamedBug:
    return NamedBug(
        str(change.code or bug.code), change.text, change.remedy or bug.remedy, bug.seen
    )


def _near(e: Expected, change: Change) -> Flags:
    """Which values found at these places a changed reference gives, NaN being NaN."""
    try:
        wrong = e.changed(change)
        if wrong.shape == e.found.shape:
            return e.near(wrong, change)
    except (PosencError, ValueError, IndexError, OverflowError):
        pass
    return np.zeros(e.found.shape, bool)


def blocks_of(e: Expected) -> Iterator[Expected]:
    """The reference at all of its places, some at a time."""
    count = e.places.at.size
    step = max(1, BLOCK // max(1, e.found.size // max(1, count)))
    for start in range(0, count, step):
        yield e.at_places(slice(start, start + step))


def fits_everywhere(e: Expected, change: Change) -> bool:
    """Whether a change gives every value of the subject, and is a change at all."""
    changes = False
    for part in blocks_of(e):
        if not _near(part, change).all():
            return False
        changes = changes or _alters(part, change)
    return changes


def _pairs(e: Expected, part: Expected) -> Iterator[tuple[Explained, bool]]:
    """Two changes, of which the second is measured after the first where that can be undone.

    Each with whether it is said only where no other explains the values. Roundings come last.
    """
    for bug, first in changes_of(e, solved=False):
        if first.places is None and _alters(part, first):
            with contextlib.suppress(_Contradicted):
                for second in _seconds(e, part, bug, first):
                    bugs = _named(bug, first), second
                    yield (bugs[::-1] if first.rounding else bugs), first.general


def _seconds(e: Expected, part: Expected, bug: KnownBug, first: Change) -> Iterator[NamedBug]:
    """The bugs that, after a first change, give all values."""
    after = _undone(part, first)
    whole = e if after is None else None
    for other, second in changes_of(after or part, solved=after is not None):
        both = second if after else _joined(first, second)
        if both is None or second.general or _alike(bug, first, other, second):
            continue
        if other.code is BugCode.NOT_A_NUMBER:  # a first one, which is counted in all values
            continue
        if _near(after or part, both).all():
            whole = whole or _undone(e, first) or e
            if fits_everywhere(whole, both):
                yield _named(other, second)


def _alike(bug: KnownBug, first: Change, other: KnownBug, second: Change) -> bool:
    """Whether two changes are of one kind, or of one parameter."""
    codes = first.code or bug.code, second.code or other.code
    return codes[0] == codes[1] or bool(set(first.params) & set(second.params))


def _alters(e: Expected, change: Change) -> bool:
    """Whether a change makes a difference at these places."""
    if change.rounding:
        return True
    try:
        right = e.right()
        near = np.abs(e.changed(change) - right) <= e.judged(right)
        return not (near | e.absent).all()
    except (PosencError, ValueError, IndexError, OverflowError):
        return False


def _undone(e: Expected, first: Change) -> Expected | None:
    """What is left to explain after a change; None where it cannot be undone.

    Values that hold nothing of the reference any more, zeros or NaN, are left out.

    Raises: _Contradicted where the change makes zeros and others were found, or leaves other NaN.
    """
    if first.make is not None or first.places is not None:
        return None
    found = np.asarray(e.found, np.float64)
    gaps = e.gaps
    if first.values is not None:
        factors, nothing = (first.values(make(found.shape), e) for make in (np.ones, np.zeros))
        if factors.shape != found.shape:  # of all heads, where some slopes are missing
            return None
        if nothing[np.isfinite(nothing)].any():  # it adds something
            raise _Contradicted
        kept = np.isfinite(factors) & (factors != 0)
        if found[factors == 0].any() or (not kept.all() and np.isnan(found[kept]).any()):
            raise _Contradicted
        found = np.where(kept, found / factors, np.nan)
        gaps = gaps or not kept.all()
    if first.order is not None:  # of columns: orders of heads are measured, and never first
        found = found[:, np.argsort(first.order)]
    return replace(e.with_change(first), found=found, gaps=gaps)


def _joined(first: Change, second: Change) -> Change | None:
    """A change that follows one that computes the values; None where it computes them too."""
    if second.make is not None:
        return None
    params = {**first.params, **second.params}
    return replace(second, params=params, rates=first.rates or second.rates, make=first.make)

"""Causes of values that are not numbers, and of uninitialized frequencies.

A frequency of a ladder is above 0 and at most that of the first pair. Numbers that were never
written are of any size and sign (huggingface/transformers#45902, pytorch/torchtitan#4783). Only
numbers of a size that no rule gives are called so: those that merely differ have another cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import pairs_text, spec
from posenc_cli.diagnosis.rows_and_pairs import Extent
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from posenc_cli.diagnosis.bug_search import Suspect
    from posenc_cli.diagnosis.defects import Whole
    from posenc_cli.numerics.arrays import Flags, Integers, Reals
    from posenc_cli.rotary.findings import Survey
    from posenc_cli.rotary.verdict import Examination

_ABOVE = 1.001
"""Times the largest right frequency: what any rounding stays below."""

_TINY = 1e-6
"""Times the smallest right frequency: no context that anybody has is extended so far."""

_HUGE = 1e12
"""What is larger, or smaller than its inverse, is the size of no frequency anybody chose."""

MEANING = (
    "uninitialized memory, such as a non-persistent buffer built on the meta "
    "device, or bytes of another number format"
)


def missing_cause(suspect: Suspect) -> Explanation | None:
    """Why values are no numbers, where all that are none, and no others, follow from it."""
    return unwritten_cause(suspect.examination) or (
        None if _infinite_text(suspect) else _missing_pairs_cause(suspect.whole)
    )


class _MissingCells(Record):
    """Which factors are no numbers, and how many have no cosine, or no sine."""

    extent: Extent
    cosines: int
    sines: int

    @classmethod
    def of(cls, whole: Whole) -> _MissingCells:
        counts = np.zeros(2, np.int64)

        def lost() -> Iterator[tuple[Integers, Flags]]:
            for _, piece in whole.pieces():
                parts = ~np.isfinite([piece.factors.real, piece.factors.imag])
                counts[:] += parts.sum(axis=(1, 2))
                yield piece.positions, np.asarray(parts.any(axis=0))

        extent = Extent.measure(lost())
        return cls(extent, *counts.tolist())


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Which values are no numbers, where nothing says why."""
    deviation, subject = survey.reference, suspect.examination.subject
    cells = _MissingCells.of(suspect.whole)
    extent = cells.extent
    # But for columns that no pair has.
    count, first = (
        (extent.count, extent.first) if extent.first else (deviation.missing, deviation.missing_at)
    )
    position, pair = first or (0, 0)
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} are not, the first at position {position}, pair {pair}"
    if subject.frequencies is not None:
        evidence = "; ".join(subject.broken)
    details = []
    place = extent.place if extent.fills else f"of {count} at {extent.positions.size} positions"
    if 0 < extent.count < total:
        others = "before" if place.startswith("from") else "others"
        details.append(f"none {place} is, and all {others} are")
    details += filter(None, [_infinite_text(suspect)])
    table = "value"
    if subject.is_tables and 0 in (cells.cosines, cells.sines):
        table = "cosine" if cells.cosines else "sine"
    message = (
        f"no {table} is a number" if extent.count == total else f"not all {table}s are numbers"
    )
    return Explanation(
        Cause.NOT_A_NUMBER,
        ": ".join([message, *filter(None, [", ".join(details)])]),
        evidence,
        where=extent.where if extent.fills else None,
    )


def _infinite_text(suspect: Suspect) -> str:
    """Which values are infinite, as the cosine of no frequency is; empty if none."""
    subject = suspect.examination.subject
    infinite = subject.infinite
    if subject.vectors is not None:  # after the rotation: factors of infinity may be no numbers
        after = (subject.vectors(rows)[1] for rows in subject.own.places.row_blocks())
        infinite = any(bool(np.isinf(part).any()) for part in after)
    if infinite:
        return "some are infinite, as what overflows"
    count = sum(
        int(np.count_nonzero(np.isinf(piece.factors.real) | np.isinf(piece.factors.imag)))
        for _, piece in suspect.whole.pieces()
    )
    return f"{count} {'is' if count == 1 else 'are'} infinite, as what overflows" if count else ""


def _missing_pairs_cause(whole: Whole) -> Explanation | None:
    """The cause where some pairs are no numbers from position 2 on, and all others are."""
    cells = _MissingCells.of(whole)
    extent = cells.extent
    near = np.concatenate(
        [piece.positions[np.abs(piece.positions) <= 1] for _, piece in whole.pieces()]
    )
    # Of a frequency that is no number neither the cosine nor the sine is one.
    both = cells.cosines == cells.sines == extent.count
    every = np.union1d(extent.positions, near).size == whole.count
    if not (extent.fills and both and every) or extent.pairs.all():
        return None
    if (np.abs(extent.positions) <= 1).all():
        return None
    of_pairs = pairs_text(np.flatnonzero(extent.pairs).tolist(), extent.pairs.size)
    later = "" if extent.positions.size == whole.count else " from 2 on"
    return Explanation(
        Cause.UNINITIALISED,
        f"{of_pairs} {'has' if extent.pairs.sum() == 1 else 'have'} no number at any position"
        f"{later}, so no finite frequency: {MEANING}",
        "all other pairs have numbers at every position",
        where=Where(None, spec(np.flatnonzero(extent.pairs))),
    )


def unwritten_cause(examination: Examination, *, zeros: bool = False) -> Explanation | None:
    """The cause where frequencies were given that are no finite numbers, or of no size for one.

    ``zeros`` asks for those that are 0 and should not be: all, or some among others.
    """
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    sizes = np.abs(given)
    wrong = ~((sizes <= _HUGE) & ((sizes >= 1 / _HUGE) | (given == 0))) & (given != right)
    text = "" if zeros else counts_text(_impossible(given, right))
    if zeros:
        wrong = (given == 0) & (right > 0)
        wrong &= wrong.all() or np.count_nonzero(np.diff(wrong)) != 1
        text = counts_text([("0", wrong)])
    if not wrong.any():
        return None
    cause, message = Cause.UNINITIALISED, f"{text}: {MEANING}"
    infinite = np.isinf(given[wrong])
    if infinite.any() and not np.isfinite(given[wrong]).any():  # as a division by 0 gives as well
        cause = Cause.NOT_A_NUMBER
        message = counts_text([("infinite", infinite), ("no number", ~infinite)])
    pair = int(np.argmax(wrong))
    return Explanation(
        cause,
        f"of the {right.size} frequencies {message}",
        f"pair {pair} has {given[pair]:.6g}, not {right[pair]:.6g}",
        where=Where(None, spec(np.flatnonzero(wrong))),
    )


def _impossible(values: Reals, right: Reals) -> list[tuple[str, Flags]]:
    """Which frequencies are impossible in which way."""
    largest = float(right.max(initial=0.0))
    least = float(right[right > 0].min(initial=np.inf)) * _TINY
    # The right one with the wrong sign is a matter of direction.
    backward = np.isclose(-values, right, rtol=1e-3)
    return [
        ("no finite number", ~np.isfinite(values)),
        ("below 0", (values < 0) & ~backward),
        (f"above {largest:.4g}", values > largest * _ABOVE),
        (f"below {least:.1g}", (values > 0) & (values < least)),
    ]


def counts_text(kinds: Iterable[tuple[str, Flags]]) -> str:
    """How many are of which kind, those of none left out.

    >>> counts_text([("0", np.array([True, True])), ("infinite", np.array([False, True]))])
    '2 are 0, 1 is infinite'
    """
    counts = [(int(np.count_nonzero(flags)), text) for text, flags in kinds]
    return ", ".join(f"{n} {'is' if n == 1 else 'are'} {text}" for n, text in counts if n)

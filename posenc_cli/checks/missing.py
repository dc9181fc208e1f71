"""The causes of values that are no numbers: what overflowed, what nobody has written, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.unwritten import missing_pairs_cause, unwritten_cause
from posenc_cli.checks.verdict import Explanation, Where
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.tolerance import PER_ANGLE
from posenc_cli.inference.uninitialised import outrageous_of

if TYPE_CHECKING:
    from posenc_cli.checks.rope import Survey
    from posenc_cli.checks.subject import Subject
    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.localise import Whole
    from posenc_cli.numerics.arrays import Flags

_FLOAT16_OVERFLOW = 65520.0
"""From here on float16 rounds to infinity."""

_FEWEST = 2
"""Pairs that must lose their values at one angle: one loses them from some position on as well."""


def missing_cause(suspect: Suspect) -> Explanation | None:
    """Why values are no numbers, where all that are none, and no others, follow from it."""
    return (
        _float16_cause(suspect.whole)
        or unwritten_cause(suspect.examination, outrageous_of)
        or _overflow_cause(suspect.whole)
        or (None if _infinite_text(suspect) else missing_pairs_cause(suspect.whole))
    )


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Which values are no numbers, where nothing says why."""
    whole, deviation = suspect.whole, survey.reference
    count, place = _missing_factors(whole)
    if place is None:  # but for columns that no pair has
        count, place = deviation.missing, deviation.missing_at
    position, pair = place or (0, 0)
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} are not, the first at position {position}, pair {pair}"
    if suspect.examination.subject.frequencies is not None:
        evidence = "; ".join(suspect.examination.subject.broken)
    details, where = [], None
    last, infinite = _last_rows(whole), _infinite_text(suspect)
    if last is not None:
        details.append(f"none from position {last[0]} on is, and all before are")
        where = Where(f"{last[0]}:{last[1] + 1}", None)
    if infinite:
        details.append(infinite)
    message = ": ".join(["not all values are numbers", *filter(None, [", ".join(details)])])
    return Explanation(Cause.UNKNOWN, message, evidence, where=where)


def _infinite_text(suspect: Suspect) -> str:
    """Which values are infinite, as the cosine of no frequency is; empty if none."""
    if _returned_infinite(suspect.examination.subject):
        return "some are infinite, as what overflows"
    count = sum(
        int(np.count_nonzero(np.isinf(piece.factors.real) | np.isinf(piece.factors.imag)))
        for _, piece in suspect.whole.pieces()
    )
    return f"{count} are infinite, as what overflows" if count else ""


def _returned_infinite(subject: Subject) -> bool:
    """Whether vectors after the rotation are infinite, of which factors may be no numbers."""
    if subject.vectors is None:
        return subject.infinite
    after = (subject.vectors(rows)[1] for rows in subject.own.places.row_blocks())
    return any(bool(np.isinf(part).any()) for part in after)


def _missing_factors(whole: Whole) -> tuple[int, tuple[int, int] | None]:
    """How many factors are no numbers, and the position and the pair of the first."""
    count, first = 0, None
    for _, piece in whole.pieces():
        missing = ~np.isfinite(piece.factors)  # (n, pairs)
        if first is None and missing.any():
            row, pair = divmod(int(np.argmax(missing)), missing.shape[1])
            first = int(piece.positions[row]), pair
        count += int(np.count_nonzero(missing))
    return count, first


def _last_rows(whole: Whole) -> tuple[int, int] | None:
    """The first and the last position of rows without a number, where these are all the last."""
    ends: list[int] = []
    for row, piece in whole.pieces():
        missing = ~np.isfinite(piece.factors)  # (n, pairs)
        blank = np.flatnonzero(missing.all(axis=1))
        in_part = missing.any(axis=1).sum() > blank.size
        if in_part or blank.size != (missing.shape[0] - blank[0] if blank.size else 0):
            return None
        if (ends and blank.size < missing.shape[0]) or (blank.size and not row + blank[0]):
            return None
        if blank.size:
            ends = [ends[0] if ends else int(piece.positions[blank[0]]), int(piece.positions[-1])]
    return (ends[0], ends[1]) if ends else None


def _float16_cause(whole: Whole) -> Explanation | None:
    """Values that are missing just where a float16 overflows."""
    for what in ("positions", "angles"):
        first: int | None = None
        for _, piece in whole.pieces():
            missing = ~np.isfinite(piece.factors)
            values = np.broadcast_to(np.abs(piece.positions)[:, None], missing.shape)
            if what == "angles":
                values = values * piece.reference.frequencies
            if not np.array_equal(missing, values >= _FLOAT16_OVERFLOW):
                break
            if first is None and missing.any():
                first = int(piece.positions[int(np.argmax(missing.any(axis=1)))])
        else:
            if first is not None:
                return Explanation(
                    Cause.POSITION_PRECISION,
                    f"{what} were float16, whose largest number is 65504",
                    f"values are missing where {what} reach 65520, as at position {first}",
                )
    return None


def _overflow_cause(whole: Whole) -> Explanation | None:
    """Values that are missing just where the angle is above some number."""
    least, most, count = np.inf, 0.0, 0
    pairs: Flags = np.zeros(1, bool)
    for _, piece in whole.pieces():
        missing = ~np.isfinite(piece.factors)  # (n, pairs)
        angles = np.abs(piece.positions)[:, None] * piece.reference.frequencies
        least = min(least, float(angles[missing].min(initial=np.inf)))
        most = max(most, float(angles[~missing].max(initial=0.0)))
        count += int(np.count_nonzero(missing))
        pairs = np.logical_or(missing.any(axis=0), pairs)
    if (
        not most * (1 - PER_ANGLE) < least < np.inf
        or np.count_nonzero(pairs) < _FEWEST
        or pairs.all()
    ):
        return None
    return Explanation(
        Cause.POSITION_PRECISION,
        f"angles overflow: there is no value where position × frequency is {least:.5g} or more",
        f"all {count} values that are missing lie there, and none that is a number does, but for "
        "float32 products",
    )

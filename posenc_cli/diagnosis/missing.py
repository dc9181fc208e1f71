"""The causes of values that are no numbers: what overflowed, what nobody has written, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.rows_and_pairs import Extent
from posenc_cli.diagnosis.uninitialised import MEANING, outrageous_of, unwritten_cause
from posenc_cli.diagnosis.wording import pairs_text, spec
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from posenc_cli.diagnosis.claims import Whole
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags
    from posenc_cli.rotary.findings import Survey
    from posenc_cli.rotary.subject import Subject

_FLOAT16_OVERFLOW = 65520.0
"""From here on float16 rounds to infinity."""


def missing_cause(suspect: Suspect) -> Explanation | None:
    """Why values are no numbers, where all that are none, and no others, follow from it."""
    cells = _MissingCells.of(suspect.whole)
    return (
        _float16_cause(suspect.whole, cells)
        or unwritten_cause(suspect.examination, outrageous_of)
        or (None if _infinite_text(suspect) else _missing_pairs_cause(suspect.whole, cells))
    )


class _MissingCells(Record):
    """Which factors are no numbers, and how many have no cosine, or no sine."""

    extent: Extent
    cosines: int
    sines: int

    @classmethod
    def of(cls, whole: Whole) -> _MissingCells:
        """What two passes over all rows show."""
        extent = Extent.measure(
            (piece.positions, ~np.isfinite(piece.factors)) for _, piece in whole.pieces()
        )
        missing = sum(
            (~np.isfinite(piece.factors.view(np.float64).reshape(*piece.factors.shape, 2))).sum(
                axis=(0, 1)
            )
            for _, piece in whole.pieces()
        )
        cosines, sines = np.asarray(missing).tolist()
        return cls(extent, cosines, sines)

    @property
    def table(self) -> str:
        """What is no number: cosines alone, sines alone, or values of both."""
        if not self.sines:
            return "cosines"
        return "values" if self.cosines else "sines"


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Which values are no numbers, where nothing says why."""
    deviation = survey.reference
    cells = _MissingCells.of(suspect.whole)
    extent = cells.extent
    # But for columns that no pair has.
    count, first = (
        (extent.count, extent.first) if extent.first else (deviation.missing, deviation.missing_at)
    )
    position, pair = first or (0, 0)
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} are not, the first at position {position}, pair {pair}"
    if suspect.examination.subject.frequencies is not None:
        evidence = "; ".join(suspect.examination.subject.broken)
    details = []
    place = extent.place if extent.fills else ""
    if extent.count and not extent.fills:
        details.append(
            f"none of {count} at {extent.positions.size} positions is, and all others are"
        )
    if place:
        others = "all before are" if place.startswith("from") else "all others are"
        details.append(f"none {place} is, and {others}")
    infinite = _infinite_text(suspect)
    if infinite:
        details.append(infinite)
    table = cells.table if suspect.examination.subject.is_tables else "values"
    message = f"not all {table} are numbers"
    if extent.count == total and table == "values":
        message = "no value is a number"
    elif extent.count == total:
        message = (
            f"no {table[:-1]} is a number, and all {'sines cosines'.replace(table, '').strip()} are"
        )
    message = ": ".join([message, *filter(None, [", ".join(details)])])
    return Explanation(
        Cause.NOT_A_NUMBER, message, evidence, where=extent.where if extent.fills else None
    )


def _infinite_text(suspect: Suspect) -> str:
    """Which values are infinite, as the cosine of no frequency is; empty if none."""
    if _returned_infinite(suspect.examination.subject):
        return "some are infinite, as what overflows"
    count = sum(
        int(np.count_nonzero(np.isinf(piece.factors.real) | np.isinf(piece.factors.imag)))
        for _, piece in suspect.whole.pieces()
    )
    are = "is" if count == 1 else "are"
    return f"{count} {are} infinite, as what overflows" if count else ""


def _returned_infinite(subject: Subject) -> bool:
    """Whether vectors after the rotation are infinite, of which factors may be no numbers."""
    if subject.vectors is None:
        return subject.infinite
    after = (subject.vectors(rows)[1] for rows in subject.own.places.row_blocks())
    return any(bool(np.isinf(part).any()) for part in after)


def _missing_pairs_cause(whole: Whole, cells: _MissingCells) -> Explanation | None:
    """The cause where some pairs are no numbers from position 2 on, and all others are."""
    extent = cells.extent
    near = np.concatenate(
        [piece.positions[np.abs(piece.positions) <= 1] for _, piece in whole.pieces()]
    )
    rows = np.union1d(extent.positions, near)
    # Of a frequency that is no number neither the cosine nor the sine is one.
    if not (
        extent.fills and rows.size == whole.count and cells.cosines == cells.sines == extent.count
    ):
        return None
    if extent.pairs.all() or (np.abs(extent.positions) <= 1).all():
        return None
    of_pairs = pairs_text(np.flatnonzero(extent.pairs).tolist(), extent.pairs.size)
    return Explanation(
        Cause.UNINITIALISED,
        f"{of_pairs} {'has' if extent.pairs.sum() == 1 else 'have'} no number at any position from "
        f"2 on, so no finite frequency: {MEANING}",
        "all other pairs have numbers at every position",
        where=Where(None, spec(np.flatnonzero(extent.pairs))),
    )


def _float16_cause(whole: Whole, cells: _MissingCells) -> Explanation | None:
    """Values that are missing just where a float16 overflows."""

    def overflows(piece: Sample, power: int) -> Flags:
        """Where positions times frequencies to a power are too large: 0 leaves these out."""
        angles = np.multiply.outer(piece.positions, piece.reference.frequencies**power)
        return np.asarray(np.abs(angles) >= _FLOAT16_OVERFLOW, bool)

    for power, what in enumerate(("positions", "angles")):
        if cells.extent.first and all(
            np.array_equal(~np.isfinite(piece.factors), overflows(piece, power))
            for _, piece in whole.pieces()
        ):
            return Explanation(
                Cause.POSITION_PRECISION,
                f"{what} were float16, whose largest number is 65504",
                f"values are missing where {what} reach 65520, as at position "
                f"{cells.extent.first[0]}",
            )
    return None

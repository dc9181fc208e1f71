"""The causes of values that are no numbers: what overflowed, what nobody has written, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.uninitialised_rows import unwritten_cause
from posenc_cli.diagnosis.uninitialised_values import MEANING, outrageous_of
from posenc_cli.diagnosis.wording import pairs_text, spec
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import ordinal, range_texts
from posenc_cli.records import Record
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from posenc_cli.diagnosis.claims import Whole
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.numerics.arrays import Flags, Integers
    from posenc_cli.rotary.findings import Survey
    from posenc_cli.rotary.subject import Subject

_FLOAT16_OVERFLOW = 65520.0
"""From here on float16 rounds to infinity."""

_FEWEST = 2
"""Pairs that must lose their values at one angle: one loses them from some position on as well."""

_MOST_RUNS = 6
"""Of positions, which a sentence can hold."""


def missing_cause(suspect: Suspect) -> Explanation | None:
    """Why values are no numbers, where all that are none, and no others, follow from it."""
    return (
        _float16_cause(suspect.whole)
        or unwritten_cause(suspect.examination, outrageous_of)
        or (None if _infinite_text(suspect) else _missing_pairs_cause(suspect.whole))
    )


class _MissingCells(Record):
    """Which factors are no numbers: how many, at which positions (n,), and in which pairs.

    ``first`` is the position and the pair of the first. ``cosines`` and ``sines`` count those that
    have no cosine, or no sine; ``near`` counts the rows that are left at positions −1, 0 and 1.
    """

    count: int
    first: tuple[int, int] | None
    positions: Integers
    of_positions: int
    last: int
    pairs: Flags
    cosines: int
    sines: int
    near: int

    @classmethod
    def of(cls, whole: Whole) -> _MissingCells:
        """What one pass over all rows shows."""
        count = cosines = sines = near = 0
        first: tuple[int, int] | None = None
        positions: list[Integers] = []
        pairs: Flags = np.zeros(1, bool)
        last = 0
        for _, piece in whole.pieces():
            missing = ~np.isfinite(piece.factors)  # (n, pairs)
            rows = missing.any(axis=1)
            if first is None and rows.any():
                row, pair = divmod(int(np.argmax(missing)), missing.shape[1])
                first = int(piece.positions[row]), pair
            count += int(np.count_nonzero(missing))
            cosines += int(np.count_nonzero(~np.isfinite(piece.factors.real)))
            sines += int(np.count_nonzero(~np.isfinite(piece.factors.imag)))
            positions.append(piece.positions[rows])
            near += int(np.count_nonzero(~rows & (np.abs(piece.positions) <= 1)))
            pairs = np.logical_or(missing.any(axis=0), pairs)
            last = int(piece.positions[-1])
        held = np.concatenate(positions)
        return cls(count, first, held, whole.count, last, pairs, cosines, sines, near)

    @property
    def table(self) -> str:
        """What is no number: cosines alone, sines alone, or values of both."""
        if not self.sines:
            return "cosines"
        return "values" if self.cosines else "sines"

    @property
    def fills(self) -> bool:
        """Whether none is a number at these positions in these pairs: rows, columns, a block."""
        return self.count == self.positions.size * int(np.count_nonzero(self.pairs))

    @property
    def place(self) -> str:
        """Where none is a number, in words; empty where they lie scattered."""
        if not self.fills or self.count == self.of_positions * self.pairs.size:
            return ""
        texts = []
        if not self.pairs.all():
            texts.append(f"in {pairs_text(np.flatnonzero(self.pairs).tolist(), self.pairs.size)}")
        if self.positions.size < self.of_positions:
            texts.append(self._rows_text())
        return " ".join(texts)

    def _rows_text(self) -> str:
        positions = self.positions
        steps = np.unique(np.diff(positions))
        if steps.size == 1 and positions.size > _FEWEST and steps[0] > 1:
            return f"at every {ordinal(int(steps[0]))} position from {positions[0]} on"
        runs = range_texts(positions.tolist())
        if len(runs) == 1 and positions[-1] == self.last:
            return f"from position {positions[0]} on"
        if len(runs) > _MOST_RUNS:
            return f"at {positions.size} of {self.of_positions} positions"
        return f"at position{'s' * (positions.size > 1)} {', '.join(runs)}"

    @property
    def where(self) -> Where | None:
        """The same as JSON has it, None where no few ranges say it."""
        if not self.place or len(range_texts(self.positions.tolist())) > _MOST_RUNS:
            return None
        rows = spec(self.positions) if self.positions.size < self.of_positions else None
        if rows and self.positions.size == 1:
            rows = f"{self.positions[0]}:{self.positions[0] + 1}"
        return Where(rows, None if self.pairs.all() else spec(np.flatnonzero(self.pairs)))


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Which values are no numbers, where nothing says why."""
    deviation = survey.reference
    cells = _MissingCells.of(suspect.whole)
    # But for columns that no pair has.
    count, place = (
        (cells.count, cells.first) if cells.first else (deviation.missing, deviation.missing_at)
    )
    position, pair = place or (0, 0)
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} are not, the first at position {position}, pair {pair}"
    if suspect.examination.subject.frequencies is not None:
        evidence = "; ".join(suspect.examination.subject.broken)
    details = []
    if cells.count and not cells.fills:
        details.append(
            f"none of {count} at {cells.positions.size} positions is, and all others are"
        )
    if cells.place:
        others = "all before are" if cells.place.startswith("from") else "all others are"
        details.append(f"none {cells.place} is, and {others}")
    infinite = _infinite_text(suspect)
    if infinite:
        details.append(infinite)
    table = cells.table if suspect.examination.subject.is_tables else "values"
    message = f"not all {table} are numbers"
    if cells.count == total and table == "values":
        message = "no value is a number"
    elif cells.count == total:
        message = (
            f"no {table[:-1]} is a number, and all {'sines cosines'.replace(table, '').strip()} are"
        )
    message = ": ".join([message, *filter(None, [", ".join(details)])])
    return Explanation(Cause.NOT_A_NUMBER, message, evidence, where=cells.where)


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


def _missing_pairs_cause(whole: Whole) -> Explanation | None:
    """The cause where some pairs are no numbers from position 2 on, and all others are."""
    cells = _MissingCells.of(whole)
    rows = cells.positions.size + cells.near
    # Of a frequency that is no number neither the cosine nor the sine is one.
    if not (cells.fills and rows == whole.count and cells.cosines == cells.sines == cells.count):
        return None
    if cells.pairs.all() or (np.abs(cells.positions) <= 1).all():
        return None
    of_pairs = pairs_text(np.flatnonzero(cells.pairs).tolist(), cells.pairs.size)
    return Explanation(
        Cause.UNINITIALISED,
        f"{of_pairs} {'has' if cells.pairs.sum() == 1 else 'have'} no number at any position from "
        f"2 on, so no finite frequency: {MEANING}",
        "all other pairs have numbers at every position",
        where=Where(None, spec(np.flatnonzero(cells.pairs))),
    )


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

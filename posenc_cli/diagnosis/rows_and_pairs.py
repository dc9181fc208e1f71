"""Propose known bugs of single rows and pairs, and describe unknown differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    RotaryBug,
    Suspect,
    as_ranges,
    axes_text,
    claim_causes,
    pairs_text,
)
from posenc_cli.diagnosis.defects import (
    ENOUGH,
    AllRows,
    Claim,
    Defect,
    RowCoordinates,
    amplitude_of,
    confirmed_claims,
    nearest_rotations,
)
from posenc_cli.formulas.context_extension.scaled import dynamic_base, rope_dynamic
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.frequency_rules import Alternative
from posenc_cli.inference.position_maps import shown_positions
from posenc_cli.positions import ordinal, range_texts
from posenc_cli.records import Record, replace
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


_MOST_RUNS = 6
"""The most ranges of positions in a sentence."""

_FEWEST_ROWS = 8
"""The fewest rows of a run for which a cause is sought; fewer would prove too little."""

_BESIDE = 16
"""Rows on either side of a run that show whether the cause ends there."""


def own_length_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug of dynamic NTK that each row has the base of its own length.

    Decoding token by token with a cache of rotated keys gives such rows
    (github.com/huggingface/transformers/issues/25104).
    """
    sample, reference = suspect.sample, suspect.sample.reference
    if reference.encoding.bound.scheme is not rope_dynamic or reference.pairs < 2:
        return
    limit = int(reference.params["max_position_embeddings"])
    if (sample.positions < 0).any() or sample.positions.max() < limit:
        return
    exponents = np.arange(reference.pairs) / reference.pairs
    plain = dynamic_base(reference.params, np.full((1, 1), limit)) ** -exponents

    def moved(piece: Sample) -> RealRows:
        """Return the positions at which plain frequencies give the angles of each row's base."""
        positions = piece.positions[:, None].astype(np.float64)
        base = dynamic_base(reference.params, np.maximum(positions + 1, limit))
        return np.asarray(positions * base**-exponents / plain, np.float64)

    explanation = Explanation(
        Cause.FREQUENCY_RULE,
        f"past position {limit - 1} each row uses the base of its own length, m + 1",
        "as with cached keys that are not rotated again while the sequence grows",
    )
    rule = Alternative(Cause.FREQUENCY_RULE, "", plain[0])
    defect = Defect(frequencies=rule, moved=RowCoordinates(moved))
    yield RotaryBug(Claim(defect, sample.amplitude), explanation)


def position_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug that positions are rotated as others, by no known rule."""
    if shown_positions(suspect.sample)[1].mean() < ENOUGH:
        return

    def used(piece: Sample) -> Integers:
        """Return the positions as which the rows of a piece are rotated."""
        used = piece.positions.copy()
        wrong = np.flatnonzero(~Defect().explained(piece).all(axis=1))
        if wrong.size:
            read, explained = shown_positions(piece.rows(wrong))
            shown = explained.all(axis=1)
            used[wrong[shown]] = read[shown]
        return used

    pieces = [(piece.positions, used(piece)) for piece in suspect.whole.pieces()]
    own, read = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    rows, others = own.size, own != read
    own, read = own[others], read[others]
    if not own.size or (read < 0).any():
        return  # positions are not negative
    message = (
        f"{own.size} of {rows} positions get the rotation of another position, first at {own[0]}"
    )
    explanation = Explanation(
        Cause.POSITION_OFFSET,
        message,
        f"position {', '.join(f'{p} as {q}' for p, q in zip(own[:3], read[:3], strict=True))}",
        where=Where(str(own[0]), None) if own.size == 1 else None,
    )
    claim = Claim(Defect(moved=RowCoordinates(used)), suspect.sample.amplitude)
    yield RotaryBug(claim, explanation)


def row_range_causes(suspect: Suspect) -> list[Explanation]:
    """Return the causes of one run of wrong rows, if all other rows are right."""
    whole, plain = suspect.whole, Claim(Defect(), suspect.sample.reference.scale)
    pieces = [(piece.positions, plain.errors(piece)[1].all(axis=1)) for piece in whole.pieces()]
    positions, right = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    wrong = np.flatnonzero(~right)
    if wrong.size < _FEWEST_ROWS or (np.diff(positions) <= 0).any():
        return []
    start, stop = int(wrong[0]), int(wrong[-1]) + 1
    before, after = (  # at position 0 all frequencies give the same
        rows[positions[rows] != 0]
        for rows in (np.arange(start)[-_BESIDE:], np.arange(stop, whole.count)[:_BESIDE])
    )
    beside = [whole.read(rows) for rows in (before, after) if rows.size]
    if not beside:
        return []
    run = whole.rows(start, stop)
    part = run.read(_rows_to_sample(run.count))
    part = replace(part, amplitude=amplitude_of(part, floor=part.tolerance.floor))
    claims = confirmed_claims(part, nearest_rotations(part))
    claim = next((claim for claim in claims if _explains_only(run, claim, beside)), None)
    if claim is None:
        return []
    first, last = int(positions[start]), int(positions[stop - 1])
    place = f"positions {first}–{last}"
    if not after.size:
        place = f"from position {first} on"
    elif not before.size:
        place = f"up to position {last}"
    here, where = replace(suspect, sample=part, whole=run), Where(f"{first}:{last + 1}", None)
    return [
        replace(
            cause, message=f"{place}: {cause.message}", detail=cause.detail or place, where=where
        )
        for cause in claim_causes(claim, here, run.residual(claim), in_part=True)
    ]


def _explains_only(run: AllRows, claim: Claim, beside: list[Sample]) -> bool:
    """Return whether a claim explains a run of rows, and not the rows beside it.

    If it also fits beside the run, the error grows gradually and does not begin there.
    """
    residual = run.residual(claim)
    nearly = claim.defect.rounds and residual.cells <= (1 - ENOUGH) * residual.of_cells
    return (residual.whole or nearly) and not any(claim.errors(rows)[1].all() for rows in beside)


def _rows_to_sample(count: int) -> Integers:
    """Return rows to sample from a run: the first ones, and evenly spaced ones up to the last."""
    rows = [np.arange(min(count, 96)), np.linspace(0, count - 1, 96).astype(np.int64)]
    return np.unique(np.concatenate(rows))


class Extent(Record):
    """The positions and pairs that are flagged, such as those that differ, and their number.

    ``first`` is the position and pair of the first flag. ``of_positions`` counts all positions, and
    ``last`` is the last of them.
    """

    count: int
    first: tuple[int, int] | None
    positions: Integers
    of_positions: int
    last: int
    pairs: Flags

    @classmethod
    def measure(cls, pieces: Iterable[tuple[Integers, Flags]]) -> Extent:
        """Return the extent of flags (n, pairs) at positions (n,), given piece by piece."""
        count, rows, last = 0, 0, 0
        first: tuple[int, int] | None = None
        positions: list[Integers] = []
        pairs: Flags = np.zeros(1, bool)
        for of_piece, flags in pieces:
            flagged = flags.any(axis=1)
            if first is None and flagged.any():
                row, pair = divmod(int(np.argmax(flags)), flags.shape[1])
                first = int(of_piece[row]), pair
            count, rows = count + int(np.count_nonzero(flags)), rows + of_piece.size
            positions.append(of_piece[flagged])
            pairs, last = np.logical_or(flags.any(axis=0), pairs), int(of_piece[-1])
        return cls(count, first, np.concatenate(positions), rows, last, pairs)

    @property
    def fills(self) -> bool:
        """Whether all flagged pairs are flagged at all flagged positions."""
        return self.count == self.positions.size * int(np.count_nonzero(self.pairs))

    @property
    def place(self) -> str:
        """The pairs and the positions in words; empty if they are all of them."""
        texts = []
        if not self.pairs.all():
            texts.append(f"in {pairs_text(np.flatnonzero(self.pairs).tolist(), self.pairs.size)}")
        if self.positions.size < self.of_positions:
            texts.append(self._rows_text())
        return " ".join(texts)

    def _rows_text(self) -> str:
        positions = self.positions
        steps = np.unique(np.diff(positions))
        if steps.size == 1 and positions.size > 2 and steps[0] > 1:
            return f"at every {ordinal(int(steps[0]))} position from {positions[0]} on"
        runs = range_texts(positions.tolist())
        if len(runs) == 1 and positions.size > 1 and positions[-1] == self.last:
            return f"from position {positions[0]} on"
        if len(runs) > _MOST_RUNS:
            return f"at {positions.size} of {self.of_positions} positions"
        return f"at position{'s' * (positions.size > 1)} {', '.join(runs)}"

    @property
    def where(self) -> Where | None:
        """The place for JSON, without positions that need too many ranges."""
        rows = None
        if self.positions.size == 1 < self.of_positions:
            rows = f"{self.positions[0]}:{self.positions[0] + 1}"
        elif self.positions.size < self.of_positions:
            few = len(range_texts(self.positions.tolist())) <= _MOST_RUNS
            rows = as_ranges(self.positions) if few else None
        pairs = None if self.pairs.all() else as_ranges(np.flatnonzero(self.pairs))
        return Where(rows, pairs) if rows or pairs else None


def unknown_cause(suspect: Suspect) -> Explanation:
    """Return an unknown cause: the pairs and positions that differ, and the largest error."""
    reference = suspect.sample.reference
    plain = Claim(Defect(), reference.scale)
    worst = -1.0, 0, 0  # error, position, pair

    def wrong() -> Iterator[tuple[Integers, Flags]]:
        nonlocal worst
        for piece in suspect.whole.pieces():
            errors, explained = plain.errors(piece)
            far = np.where(explained, -1.0, errors)
            row, pair = divmod(int(np.argmax(far)), errors.shape[1])
            worst = max(worst, (float(far[row, pair]), int(piece.positions[row]), pair))
            yield piece.positions, np.asarray(~explained, bool)

    extent = Extent.measure(wrong())
    most, position, pair = worst
    total = extent.of_positions * extent.pairs.size
    place = extent.place or "at every position, in every pair"
    evidence = (
        f"{extent.count} of {total} rotations (positions × pairs) "
        f"differ{'s' * (extent.count == 1)}, by up to {most:.2g}: most at position {position}, "
        f"pair {pair}"
    )
    message = f"values differ {place}{_axes_note(extent.pairs, reference)}"
    return Explanation(Cause.UNKNOWN, message, evidence, where=extent.where)


def _axes_note(pairs: Flags, reference: Reference) -> str:
    """Return the axes whose pairs these are, as the end of a sentence.

    Empty if they are only some of the pairs of an axis, or all pairs of all axes.
    """
    along = reference.coordinates
    if along is None or along.oblique or pairs.all():
        return ""
    own = np.array(along.axes)
    axes = np.unique(own[pairs])
    return f": {axes_text(axes.tolist())}" if (np.isin(own, axes) == pairs).all() else ""

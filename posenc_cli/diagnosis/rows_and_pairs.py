"""Known bugs of single pairs and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import RotaryBug, axes_text, pairs_text, spec, words_of
from posenc_cli.diagnosis.defects import (
    ENOUGH,
    Claim,
    Defect,
    RowCoordinates,
    amplitude_of,
    claims_that_hold,
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

    from posenc_cli.diagnosis.bug_search import Suspect
    from posenc_cli.diagnosis.defects import Whole
    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


_MOST_RUNS = 6
"""Of positions, which a sentence can hold."""

_FEWEST_ROWS = 8
"""Rows of a run that a cause is looked for: fewer show too little."""

_BESIDE = 16
"""Rows on either side of a run that show whether it ends there."""


def own_length_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Dynamic NTK with the base of each row's own length: a cache that is never rotated anew.

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
        """The positions at which the plain ladder has the angles of each row's own base."""
        positions = piece.positions[:, None].astype(np.float64)
        base = dynamic_base(reference.params, np.maximum(positions + 1, limit))
        return np.asarray(positions * base**-exponents / plain, np.float64)

    words = Explanation(
        Cause.FREQUENCY_RULE,
        f"past position {limit - 1} each row uses the base of its own length, m + 1",
        "as with cached keys that are not rotated again while the sequence grows",
    )
    rule = Alternative(Cause.FREQUENCY_RULE, "", plain[0])
    defect = Defect(frequencies=rule, moved=RowCoordinates(moved))
    yield RotaryBug(Claim(defect, sample.amplitude), words)


def position_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Positions that are rotated as if they were others, by no rule."""
    if shown_positions(suspect.sample)[1].mean() < ENOUGH:
        return

    def used(piece: Sample) -> Integers:
        """The positions as which the rows of a piece are rotated."""
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
        return  # no position is negative
    message = (
        f"{own.size} of {rows} positions get the rotation of another position, first at {own[0]}"
    )
    words = Explanation(
        Cause.POSITION_OFFSET,
        message,
        f"position {', '.join(f'{p} as {q}' for p, q in zip(own[:3], read[:3], strict=True))}",
        where=Where(str(own[0]), None) if own.size == 1 else None,
    )
    claim = Claim(Defect(moved=RowCoordinates(used)), suspect.sample.amplitude)
    yield RotaryBug(claim, words)


def row_range_causes(suspect: Suspect) -> list[Explanation]:
    """The causes of one run of rows that is wrong, where all other rows are right."""
    whole, plain = suspect.whole, Claim(Defect(), suspect.sample.reference.scale)
    pieces = [(piece.positions, plain.missed(piece)[1].all(axis=1)) for piece in whole.pieces()]
    positions, right = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    wrong = np.flatnonzero(~right)
    if wrong.size < _FEWEST_ROWS or (np.diff(positions) <= 0).any():
        return []
    start, stop = int(wrong[0]), int(wrong[-1]) + 1
    before, after = (  # at position 0 any frequencies give the same
        rows[positions[rows] != 0]
        for rows in (np.arange(start)[-_BESIDE:], np.arange(stop, whole.count)[:_BESIDE])
    )
    beside = [whole.read(rows) for rows in (before, after) if rows.size]
    if not beside:
        return []
    run = whole.rows(start, stop)
    part = run.read(_rows_of_a_run(run.count))
    part = replace(part, amplitude=amplitude_of(part, floor=part.tolerance.floor))
    claims = claims_that_hold(part, nearest_rotations(part))
    claim = next((claim for claim in claims if _ends_with(run, claim, beside)), None)
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
        replace(word, message=f"{place}: {word.message}", detail=word.detail or place, where=where)
        for word in words_of(claim, here, run.residual(claim), in_part=True)
    ]


def _ends_with(run: Whole, claim: Claim, beside: list[Sample]) -> bool:
    """Whether a claim explains a run of rows, and not the rows beside it.

    What is nearly right everywhere becomes wrong by and by.
    """
    residual = run.residual(claim)
    nearly = claim.defect.rounds and residual.cells <= (1 - ENOUGH) * residual.of_cells
    return (residual.whole or nearly) and not any(claim.missed(rows)[1].all() for rows in beside)


def _rows_of_a_run(count: int) -> Integers:
    """Rows that show a run: its first ones, and some up to its last."""
    rows = [np.arange(min(count, 96)), np.linspace(0, count - 1, 96).astype(np.int64)]
    return np.unique(np.concatenate(rows))


class Extent(Record):
    """Which pairs are otherwise at which positions: how many, at how many of all positions.

    ``first`` is the position and the pair of the first, ``last`` the last position of all.
    """

    count: int
    first: tuple[int, int] | None
    positions: Integers
    of_positions: int
    last: int
    pairs: Flags

    @classmethod
    def measure(cls, pieces: Iterable[tuple[Integers, Flags]]) -> Extent:
        """The extent of flags (n, pairs) at positions (n,), piece by piece."""
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
        """Whether all are otherwise at these positions in these pairs: rows, columns, a block."""
        return self.count == self.positions.size * int(np.count_nonzero(self.pairs))

    @property
    def place(self) -> str:
        """The pairs, and the positions, in words; empty where they are all."""
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
        """The same as JSON has it, without positions that no few ranges say."""
        rows = None
        if self.positions.size == 1 < self.of_positions:
            rows = f"{self.positions[0]}:{self.positions[0] + 1}"
        elif self.positions.size < self.of_positions:
            few = len(range_texts(self.positions.tolist())) <= _MOST_RUNS
            rows = spec(self.positions) if few else None
        pairs = None if self.pairs.all() else spec(np.flatnonzero(self.pairs))
        return Where(rows, pairs) if rows or pairs else None


def unknown_cause(suspect: Suspect) -> Explanation:
    """What no known bug gives: which pairs differ at which positions, and by how much."""
    reference = suspect.sample.reference
    plain = Claim(Defect(), reference.scale)
    worst = -1.0, 0, 0  # by how much, the position, the pair

    def wrong() -> Iterator[tuple[Integers, Flags]]:
        nonlocal worst
        for piece in suspect.whole.pieces():
            missed, explained = plain.missed(piece)
            far = np.where(explained, -1.0, missed)
            row, pair = divmod(int(np.argmax(far)), missed.shape[1])
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
    message = f"values differ {place}{_axes_of(extent.pairs, reference)}"
    return Explanation(Cause.UNKNOWN, message, evidence, where=extent.where)


def _axes_of(pairs: Flags, reference: Reference) -> str:
    """Which axes these are all pairs of, to follow other words; empty where they are not."""
    along = reference.coordinates
    if along is None or along.oblique or pairs.all():
        return ""
    own = np.array(along.axes)
    axes = np.unique(own[pairs])
    return f": {axes_text(axes.tolist())}" if (np.isin(own, axes) == pairs).all() else ""

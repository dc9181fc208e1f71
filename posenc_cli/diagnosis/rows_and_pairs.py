"""Propose known bugs of single rows and pairs; describe unknown and not finite values.

Correct frequencies are above 0 and at most that of the first pair. Uninitialized memory has any
size and sign (huggingface/transformers#45902, pytorch/torchtitan#4783). Only numbers of a size that
no rule gives are reported as such. Wrong numbers of a usual size have another cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    MOST_RANGES,
    RotaryBug,
    Suspect,
    as_ranges,
    axes_text,
    pairs_text,
)
from posenc_cli.diagnosis.defects import ENOUGH, Defect, RowCoordinates
from posenc_cli.formulas.context_extension.scaled import dynamic_base, rope_dynamic
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import Alternative
from posenc_cli.inference.position_maps import PositionMap, shown_positions
from posenc_cli.positions import ordinal, range_texts
from posenc_cli.records import replace
from posenc_cli.rotary.verdict import Examination, Explanation, Residual, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows
    from posenc_cli.rotary.findings import Survey

_HUGE = 1e12
"""Larger numbers, and those below its inverse, are not frequencies that anybody chose."""

MEANING = (
    "uninitialized memory, such as a non-persistent buffer built on the meta "
    "device, or bytes of another number format"
)


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
    yield RotaryBug(defect, explanation)


def position_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug that positions are rotated as others, by no known rule."""
    if shown_positions(suspect.sample)[1].mean() < ENOUGH:
        return

    pieces = []
    for piece in suspect.pieces():
        pieces.append((piece.positions, _used_positions(piece)))
        if (pieces[-1][1] < 0).any():
            return  # positions are not negative
    own, read = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    moved = own[own != read]
    if not moved.size:
        return
    order = np.argsort(own, kind="stable")
    message = (
        f"{moved.size} of {own.size} positions get the rotation of another position, first at "
        f"{moved[0]}"
    )
    lookup = PositionMap(message, lambda p: read[order[np.searchsorted(own, p, sorter=order)]])
    yield RotaryBug(Defect(moved=lookup))


def _used_positions(piece: Sample) -> Integers:
    """Return the positions as which rows are rotated; -1 for a wrong row that shows none."""
    used = piece.positions.copy()
    wrong = np.flatnonzero(~Defect().explained(piece).all(axis=1))
    if wrong.size:
        read, explained = shown_positions(piece.rows(wrong))
        used[wrong] = np.where(explained.all(axis=1), read, -1)
    return used


def unknown_cause(suspect: Suspect) -> Explanation:
    """Return an unknown cause: the pairs and positions that differ, and the largest error."""
    reference = suspect.sample.reference
    exact = suspect.changed(lambda piece: replace(piece, amplitude=reference.scale))
    wrong = exact.residual(Defect())
    largest, position, pair = wrong.worst
    place = place_text(wrong) or "at every position, in every pair"
    evidence = (
        f"{wrong.count} of {wrong.of_entries} rotations (positions × pairs) "
        f"differ{'s' * (wrong.count == 1)}, by up to {largest:.2g}: most at position {position}, "
        f"pair {pair}"
    )
    message = f"values differ {place}{_axes_note(wrong.pairs, reference)}"
    return Explanation(Cause.UNKNOWN, message, evidence, where=place_of(wrong))


def place_text(wrong: Residual) -> str:
    """Return the wrong pairs and positions in words; empty if they are all of them."""
    texts = []
    if not wrong.pairs.all():
        texts.append(f"in {pairs_text(np.flatnonzero(wrong.pairs).tolist(), wrong.pairs.size)}")
    if wrong.positions.size < wrong.of_positions:
        texts.append(_rows_text(wrong))
    return " ".join(texts)


def _rows_text(wrong: Residual) -> str:
    positions = wrong.positions
    steps = np.unique(np.diff(positions))
    if steps.size == 1 and positions.size > 2 and steps[0] > 1:
        return f"at every {ordinal(int(steps[0]))} position from {positions[0]} on"
    runs = range_texts(positions.tolist())
    if len(runs) == 1 and positions.size > 1 and positions[-1] == wrong.last:
        return f"from position {positions[0]} on"
    if len(runs) > MOST_RANGES:
        return f"at {positions.size} of {wrong.of_positions} positions"
    return f"at position{'s' * (positions.size > 1)} {', '.join(runs)}"


def place_of(wrong: Residual) -> Where | None:
    """Return the place for JSON, without positions that need too many ranges."""
    rows = None
    if wrong.positions.size == 1 < wrong.of_positions:
        rows = f"{wrong.positions[0]}:{wrong.positions[0] + 1}"
    elif wrong.positions.size < wrong.of_positions:
        few = len(range_texts(wrong.positions.tolist())) <= MOST_RANGES
        rows = as_ranges(wrong.positions) if few else None
    pairs = None if wrong.pairs.all() else as_ranges(np.flatnonzero(wrong.pairs))
    return Where(rows, pairs) if rows or pairs else None


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


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Return the cause of values that are not finite, with their place."""
    deviation = survey.reference
    finite = ((piece.positions, np.isfinite(piece.factors)) for piece in suspect.pieces())
    missing = Residual.measure((at, np.where(flags, 0.0, np.inf), flags) for at, flags in finite)
    count, first = missing.count, missing.first
    if first is None:  # only values outside the pairs are not finite
        count, first = deviation.missing, (deviation.position, deviation.pair)
    position, pair = first
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} rotations, first at position {position}, pair {pair}"
    message = f"{'all' if count == total else 'some'} values are NaN or infinite"
    place, where = place_text(missing), place_of(missing)
    if missing.count < missing.positions.size * np.count_nonzero(missing.pairs):
        return Explanation(Cause.NOT_A_NUMBER, message, evidence)
    message += f": all {place}" if place else ""
    return Explanation(Cause.NOT_A_NUMBER, message, evidence, where=where)


def uninitialized_cause(examination: Examination) -> Explanation | None:
    """Return the cause of given frequencies that are not finite, or whose size no rule gives."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    sizes = np.abs(given)
    wrong = ~((sizes <= _HUGE) & ((sizes >= 1 / _HUGE) | (given == 0))) & (given != right)
    if not wrong.any():
        return None
    cause, what = Cause.UNINITIALISED, f"outside the range of any rule: {MEANING}"
    if np.isinf(given[wrong]).any() and not np.isfinite(given[wrong]).any():
        cause, what = Cause.NOT_A_NUMBER, "NaN or infinite"
    pair, count = int(np.argmax(wrong)), int(np.count_nonzero(wrong))
    return Explanation(
        cause,
        f"{count} of the {right.size} frequencies {'is' if count == 1 else 'are'} {what}",
        f"frequency of pair {pair}: {given[pair]:.6g}, not {right[pair]:.6g}",
        where=Where(None, as_ranges(np.flatnonzero(wrong))),
    )

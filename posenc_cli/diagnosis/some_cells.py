"""Causes of pairs, and of rows, that are wrong in ways of their own among others that are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import ENOUGH, Defect
from posenc_cli.diagnosis.reproduced import reproduced, turned_by
from posenc_cli.diagnosis.wording import pairs_text, spec, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.position_maps import rows_of_any_turn
from posenc_cli.records import replace
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Integers


_UNDERFLOW = (
    ("the smallest normal number of float16", 2.0**-14),
    ("half of the smallest number of float16", 2.0**-25),
)
"""Numbers below which frequencies may have become 0."""


def standstill_cause(suspect: Suspect) -> Explanation | None:
    """Pairs that do not turn though they should, the others being right."""
    sample, right = suspect.sample, suspect.sample.reference.frequencies
    sound = Defect().explained(sample).all(axis=0)  # (pairs,)
    factors = np.full(sample.factors.shape, complex(sample.amplitude))
    still = sample.explained_cells(factors, np.zeros_like(right)).all(axis=0)
    if not (sound | still).all() or sound.all() or still.all() or not sound.any():
        return None
    if not (right[~sound] > 0).any() or not sample.positions.any():
        return None
    rates = np.where(sound, right, 0.0)
    residual = reproduced(suspect.whole, lambda piece: turned_by(rates, piece), rates)
    pairs = np.flatnonzero(~sound)
    if not residual.pairs[pairs].all():
        return None
    others = f"the other {right.size - pairs.size} pairs are right" if residual.whole else ""
    for text, least in _UNDERFLOW:
        if residual.whole and right[pairs].max() < least <= right[sound & (right > 0)].min():
            others += f", as where what is below {least:.3g}, {text}, becomes 0"
    cause = Explanation(
        Cause.ROTARY_DIM,
        f"{pairs_text(pairs.tolist(), right.size)} {'does' if pairs.size == 1 else 'do'} not turn",
        others,
        where=Where(None, spec(pairs)),
    )
    return with_residual(cause, residual)


def empty_pairs_cause(suspect: Suspect) -> Explanation | None:
    """Pairs of which no cosine, no sine, or neither was written, the others being right."""
    sample, right = suspect.sample, suspect.sample.reference.frequencies
    if not suspect.examination.subject.is_tables:
        return None
    sized = replace(sample, amplitude=sample.reference.scale)
    odd = ~Defect().explained(sized).all(axis=0)  # (pairs,)
    if odd.all() or not odd.any():
        return None
    pairs = np.flatnonzero(odd)
    no_cosine = not sample.factors.real[:, odd].any()
    no_sine = not sample.factors.imag[:, odd].any()
    if not (no_cosine or no_sine):
        return None

    def predicted(piece: Sample) -> ComplexRows:
        factors, _ = Defect().prediction(replace(piece, amplitude=sample.reference.scale))
        empty = np.where(no_cosine, 0, factors.real) + 1j * np.where(no_sine, 0, factors.imag)
        return np.where(odd, empty, factors)

    residual = reproduced(suspect.whole, predicted, right)
    if not residual.whole:
        return None
    what = "cosine or sine" if no_cosine and no_sine else "cosine" if no_cosine else "sine"
    other = (
        "" if no_cosine and no_sine else f"; their {'sines' if no_cosine else 'cosines'} are right"
    )
    cause = Explanation(
        Cause.UNINITIALISED,
        f"{pairs_text(pairs.tolist(), right.size)} {'has' if pairs.size == 1 else 'have'} no "
        f"{what} but 0, as where nothing was written",
        f"the other {right.size - pairs.size} pairs are right{other}",
        where=Where(None, spec(pairs)),
    )
    return with_residual(cause, residual)


def position_cause(suspect: Suspect) -> Explanation | None:
    """Positions that are turned as if they were others."""
    _, explained = rows_of_any_turn(suspect.sample)
    if explained.mean() < ENOUGH:
        return None
    moved: list[tuple[int, int]] = []
    count = rows = backward = 0
    for _, piece in suspect.whole.pieces():
        read, explained = rows_of_any_turn(piece)
        plain = Defect().explained(piece).all(axis=1)
        others = np.flatnonzero((read != piece.positions) & ~plain & explained.all(axis=1))
        pairs = zip(piece.positions[others[:3]].tolist(), read[others[:3]].tolist(), strict=True)
        moved += pairs if len(moved) < 3 else ()
        count += others.size
        backward += int(np.count_nonzero(read[others] == -piece.positions[others]))
        if (read[others] < 0).any() and backward < count:
            return None  # no position is negative
        rows += piece.positions.size
    if not moved:
        return None
    right = suspect.sample.reference.frequencies

    def used(piece: Sample) -> Integers:
        read, explained = rows_of_any_turn(piece)
        plain = Defect().explained(piece).all(axis=1)
        return np.where(explained.all(axis=1) & ~plain, read, piece.positions)

    residual = reproduced(
        suspect.whole, lambda piece: turned_by(right, piece), right, turned_as=used
    )
    shown = ", ".join(f"{p} as {q}" for p, q in moved[:3])
    which = f"{count} of {rows} positions are turned as others are, the first of them {moved[0][0]}"
    cause = Explanation(Cause.POSITION_OFFSET, which, f"position {shown}")
    if backward == count:
        where = f"at {count} of {rows} positions, the first of them {moved[0][0]}"
        cause = Explanation(
            Cause.DIRECTION,
            f"the rotation runs backward {where}",
            "the sine has the wrong sign there",
        )
    elif count == 1:
        which = f"position {moved[0][0]} is turned as another is, and no other of the {rows}"
        cause = replace(cause, message=which, where=Where(str(moved[0][0]), None))
    return with_residual(cause, residual)


def pairs_cause(suspect: Suspect) -> Explanation | None:
    """Pairs that are wrong in a way of their own, the others being right."""
    sample, right = suspect.sample, suspect.sample.reference.frequencies
    residual = suspect.residual(Defect())
    if (
        not residual.pairs.any()
        or residual.first is None
        or sample.amplitude != (sample.reference.scale)
    ):
        return None
    pairs = np.flatnonzero(~residual.pairs)
    evidence = (
        f"at {residual.rows} of {residual.of_rows} positions, the first of them {residual.first}"
    )
    if residual.rows == 1:
        evidence = f"at one of {residual.of_rows} positions, {residual.first}"
    differ = "differs" if pairs.size == 1 else "differ"
    return Explanation(
        Cause.UNKNOWN,
        f"{pairs_text(pairs.tolist(), right.size)} {differ}, the others are right",
        evidence,
        where=Where(None, spec(pairs)),
    )

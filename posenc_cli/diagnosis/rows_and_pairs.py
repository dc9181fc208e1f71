"""Known bugs of pairs, and of rows, that are wrong in ways of their own among others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import RotaryBug
from posenc_cli.diagnosis.claims import Claim
from posenc_cli.diagnosis.defects import ENOUGH, Defect, RowCoordinates
from posenc_cli.diagnosis.wording import pairs_text, spec, with_residual
from posenc_cli.formulas.scaled import dynamic_base, rope_dynamic
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.position_maps import rows_of_any_turn
from posenc_cli.inference.rules import Alternative
from posenc_cli.records import replace
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


_UNDERFLOW = (
    ("the smallest normal number of float16", 2.0**-14),
    ("half of the smallest number of float16", 2.0**-25),
)
"""Numbers below which frequencies may have become 0."""


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
        f"past position {limit - 1} each row has the base of its own length, m + 1",
        "as keys in a cache that is not rotated anew while the sequence grows",
    )
    rule = Alternative(Cause.FREQUENCY_RULE, "", plain[0])
    defect = Defect(frequencies=rule, moved=RowCoordinates(moved))
    yield RotaryBug(Claim(defect, sample.amplitude), words)


def standstill_cause(suspect: Suspect) -> Explanation | None:
    """Pairs that do not rotate though they should, the others being right."""
    sample, right = suspect.sample, suspect.sample.reference.frequencies
    sound = Defect().explained(sample).all(axis=0)  # (pairs,)
    rule = Alternative(Cause.ROTARY_DIM, "", np.where(sound, right, 0.0))
    if not sound.any() or sound.all() or not sample.positions.any() or not right[~sound].any():
        return None
    still = Alternative(Cause.NO_ROTATION, "", np.zeros(right.shape))
    if Defect(frequencies=still).explained(sample).all():
        return None  # the others are right because they would not show a rotation
    if not Defect(frequencies=rule).explained(sample).all():
        return None
    residual = suspect.residual(Defect(frequencies=rule))
    pairs = np.flatnonzero(~sound)
    if not residual.pairs[pairs].all():
        return None
    others = f"the other {right.size - pairs.size} pairs are right" if residual.whole else ""
    for text, least in _UNDERFLOW:
        if residual.whole and right[pairs].max() < least <= right[sound & (right > 0)].min():
            others += f", as where what is below {least:.3g}, {text}, becomes 0"
    do = "does" if pairs.size == 1 else "do"
    message = f"{pairs_text(pairs.tolist(), right.size)} {do} not rotate"
    where = Where(None, spec(pairs))
    return with_residual(Explanation(Cause.ROTARY_DIM, message, others, where=where), residual)


def position_cause(suspect: Suspect) -> Explanation | None:
    """Positions that are rotated as if they were others."""
    if rows_of_any_turn(suspect.sample)[1].mean() < ENOUGH:
        return None
    pieces: list[tuple[Integers, Integers]] = []

    def compared() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for _, piece in suspect.whole.pieces():
            read, explained = rows_of_any_turn(piece)
            plain = Defect().explained(piece).all(axis=1)
            used = np.where(explained.all(axis=1) & ~plain, read, piece.positions)
            pieces.append((piece.positions, used))
            yield piece.positions, *Defect(moved=_at(used)).missed(piece)

    residual = Residual.measure(compared())
    own, read = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    rows, others = own.size, own != read
    own, read = own[others], read[others]
    backward = bool((read == -own).all())
    if not own.size or ((read < 0).any() and not backward):
        return None  # no position is negative
    which = f"{own.size} of {rows} positions"
    cause = Explanation(
        Cause.POSITION_OFFSET,
        f"{which} are rotated as others are, the first of them {own[0]}",
        f"position {', '.join(f'{p} as {q}' for p, q in zip(own[:3], read[:3], strict=True))}",
    )
    if backward:
        message = f"the rotation runs backward at {which}, the first of them {own[0]}"
        cause = Explanation(Cause.DIRECTION, message, "the sine has the wrong sign there")
    elif own.size == 1:
        message = f"position {own[0]} is rotated as another is, and no other of the {rows}"
        cause = replace(cause, message=message, where=Where(str(own[0]), None))
    return with_residual(cause, residual)


def _at(positions: Integers) -> RowCoordinates:
    """Rows of a piece that stand at these positions."""
    return RowCoordinates(lambda _: positions)


def pairs_cause(suspect: Suspect) -> Explanation | None:
    """Pairs that are wrong in a way of their own, the others being right."""
    sample, residual = suspect.sample, suspect.residual(Defect())
    all_wrong = not residual.pairs.any() or residual.first is None
    if all_wrong or sample.amplitude != sample.reference.scale:
        return None
    pairs = np.flatnonzero(~residual.pairs)
    evidence = (
        f"at {residual.rows} of {residual.of_rows} positions, the first of them {residual.first}"
    )
    if residual.rows == 1:
        evidence = f"at one of {residual.of_rows} positions, {residual.first}"
    message = (
        f"{pairs_text(pairs.tolist(), residual.pairs.size)} "
        f"{'differs' if pairs.size == 1 else 'differ'}, the others are right"
    )
    return Explanation(Cause.UNKNOWN, message, evidence, where=Where(None, spec(pairs)))

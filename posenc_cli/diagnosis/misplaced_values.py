"""Mistakes that rotate no pair as one: cosines and sines that stand at the wrong places.

Owns the hypotheses on the four entries of a pair's matrix ((c, −s), (s, c)): the wrong layout in
one of the tables, a missing sign, a sine of another pair.
"""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.wording import pairs_text, spec
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.turning import LAYOUTS
from posenc_cli.rotary.findings import without_growth
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SubjectBlock
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals
    from posenc_cli.rotary.verdict import Examination

    _Entries = tuple[RealRows, RealRows, RealRows, RealRows]
    """a, b, c and d of the matrices ((a, b), (c, d)) of pairs."""


def mirror_cause(examination: Examination) -> Explanation | None:
    """The cause where cosines and sines are misplaced, None where that is not it."""
    turning = examination.subject.as_reference
    if turning is None:
        return None
    block = turning.read(turning.places.sample(96))
    if block.rest is not None and block.rest.max() > examination.tolerance.floor:
        return None
    (_, _, explained), *mistakes = _explained_cells(block, examination)
    wrong: Flags = np.asarray(~explained.all(axis=0))  # (pairs,)
    for of_some in (np.ones_like(wrong), wrong):
        for place, (message, _, explained) in enumerate(mistakes, 1):
            if explained[:, of_some].all() and of_some.any():
                return _cause(examination, place, message, of_some)
    return None


def _cause(examination: Examination, place: int, message: str, pairs: Flags) -> Explanation:
    """The mistake at this place of the list, in some of the pairs."""
    residual = _residual(examination, place, pairs)
    evidence = f"matches in every pair once this is mended; {residual.text}"
    where = None
    if not pairs.all():
        wrong = np.flatnonzero(pairs)
        message = f"in {pairs_text(wrong.tolist(), pairs.size)}, {message}"
        where = Where(None, spec(wrong))
    cause = Cause.COS_SIN_MISPAIRED
    return Explanation(cause, message, evidence, where=where, residual=residual)


def _explained_cells(
    block: SubjectBlock, examination: Examination
) -> Iterator[tuple[str, RealRows, Flags]]:
    """What may stand at wrong places, by how much it misses a block, and which cells it explains.

    The first is what is right. Shape: both (n, pairs).
    """
    reference = examination.reference
    turned = without_growth(block, reference)  # (n, pairs)
    mirrored = np.zeros_like(turned) if block.mirrored is None else block.mirrored
    size = reference.scale
    unit = reference.turns.at(block.positions) / size  # (n, pairs)
    seen = np.ones(turned.shape, bool) if block.seen is None else block.seen
    followed = reference.angle_positions(block.positions)
    right = "", (unit.real, -unit.imag, unit.imag, unit.real), reference.frequencies
    mistakes = wrong_places(reference, unit.real, unit.imag)
    for message, (a, b, c, d), fastest in (right, *mistakes):
        allowed = 2 * examination.tolerance.cells(followed, fastest)
        z = size * ((a + d) + 1j * (c - b)) / 2
        w = size * ((a - d) + 1j * (c + b)) / 2
        if block.twist is None:
            missed = np.abs(turned - z) + np.abs(mirrored - w)
        else:
            missed = np.abs(turned - z - w * block.twist)
        yield message, np.where(seen, missed, 0.0), (missed <= allowed) | ~seen


def _residual(examination: Examination, place: int, pairs: Flags) -> Residual:
    """What the mistake at this place of the list, in some pairs, leaves over at all positions."""
    turning = examination.subject.as_reference
    assert turning is not None

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for block in turning.blocks():
            right, *_, wrong = islice(_explained_cells(block, examination), place + 1)
            missed, explained = (
                np.where(pairs, of_wrong, of_right)
                for of_right, of_wrong in zip(right[1:], wrong[1:], strict=True)
            )
            yield block.positions, missed, explained

    return Residual.measure(held())


def wrong_places(
    reference: Reference, cos: RealRows, sin: RealRows
) -> Iterator[tuple[str, _Entries, Reals]]:
    """What may stand in the matrices ((a, b), (c, d)) of the pairs instead.

    With each comes the fastest frequency that a pair's entries have, which the tolerance follows.
    """
    own = reference.frequencies
    none, same = 0 * cos, np.full_like(cos, 1 / reference.scale)
    yield from _wrong_layouts(reference, cos, sin)
    for message, entries in (
        (
            "both sines have the sign +: a minus is missing, or stands in half of the table too",
            (cos, sin, sin, cos),
        ),
        ("both sines have the sign −: one minus too many", (cos, -sin, -sin, cos)),
        ("the second dimensions have the wrong sign", (cos, -sin, -sin, -cos)),
        ("a cosine has the wrong sign: pairs are mirrored", (cos, sin, sin, -cos)),
        ("the first dimensions have the wrong sign", (-cos, sin, sin, cos)),
        ("the sine is missing in the first dimension", (cos, none, sin, cos)),
        ("the sine is missing in the second dimension", (cos, -sin, none, cos)),
        ("the cosine is missing in the first dimension", (same, -sin, sin, cos)),
        ("the cosine is missing in the second dimension", (cos, -sin, sin, same)),
        ("the first dimension uses the cosine instead of the sine", (cos, -cos, sin, cos)),
        ("the second dimension uses the cosine instead of the sine", (cos, -sin, cos, cos)),
        ("the first dimension uses the sine instead of the cosine", (sin, -sin, sin, cos)),
        ("the second dimension uses the sine instead of the cosine", (cos, -sin, sin, sin)),
        (
            "the sines multiply the vector itself, not rotate_half of it",
            (cos + sin, none, none, cos + sin),
        ),
        ("the two dimensions of each pair are exchanged", (sin, cos, cos, -sin)),
        (
            "the input is added to the rotated vectors, like a residual",
            (same + cos, -sin, sin, same + cos),
        ),
        ("only cosines are used", (cos, none, none, cos)),
        ("only sines are used", (none, -sin, sin, none)),
        ("only the first dimension of each pair is rotated", (cos, -sin, none, same)),
        ("only the second dimension of each pair is rotated", (same, none, sin, cos)),
        ("the first dimension of each pair becomes 0", (none, none, sin, cos)),
        ("the second dimension of each pair becomes 0", (cos, -sin, none, none)),
        ("both dimensions of each pair get the first", (cos, -sin, cos, -sin)),
        ("both dimensions of each pair get the second", (sin, cos, sin, cos)),
        ("the cosines have lost their sign: none is negative", (abs(cos), -sin, sin, abs(cos))),
        ("the table of cosines is used for both", (cos, -cos, cos, cos)),
        ("the table of sines is used for both", (sin, -sin, sin, sin)),
        (
            "the second dimension is computed from the already rotated first (in place)",
            (cos, -sin, sin * cos, cos - sin * sin),
        ),
    ):
        yield message, entries, own


def _wrong_layouts(
    reference: Reference, cos: RealRows, sin: RealRows
) -> Iterator[tuple[str, _Entries, Reals]]:
    """Full tables whose columns are not in the order in which columns are paired."""
    right, pairs = reference.content.layout, reference.pairs
    first, second = (
        list(columns) for columns in paired_columns(right, pairs, reference.content.blocks)
    )
    frequencies = reference.frequencies[None]
    for of_cos, of_sin in product(LAYOUTS, LAYOUTS):
        if of_cos == of_sin == right or pairs < 2:
            continue
        c, s = _repeated(cos, of_cos), _repeated(sin, of_sin)
        rates = [_repeated(frequencies, of_cos)[0], _repeated(frequencies, of_sin)[0]]
        fastest = np.maximum.reduce(
            [table_rates[columns] for table_rates in rates for columns in (first, second)]
        )
        message = (
            f"the table of cosines is laid out as {of_cos}, that of sines as {of_sin}, and "
            f"columns are paired as {right}"
        )
        yield message, (c[:, first], -s[:, first], s[:, second], c[:, second]), fastest


def _repeated(values: RealRows, layout: str) -> RealRows:
    return np.repeat(values, 2, axis=1) if layout == "interleaved" else np.tile(values, (1, 2))

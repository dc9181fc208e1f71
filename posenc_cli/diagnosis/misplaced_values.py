"""Bugs that do not rotate pairs as a whole: cosines and sines in wrong places.

Owns the hypotheses on the four entries of a pair's matrix ((c, −s), (s, c)): the wrong layout in
one of the tables, a missing sign, a sine of another pair.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.trial import repeated_columns
from posenc_cli.inference.turning import LAYOUTS
from posenc_cli.rotary.findings import without_growth
from posenc_cli.rotary.verdict import Explanation, Residual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SubjectBlock
    from posenc_cli.numerics.arrays import Flags, RealRows, Reals
    from posenc_cli.rotary.verdict import Examination

    _Entries = tuple[RealRows, RealRows, RealRows, RealRows]
    """a, b, c and d of the matrices ((a, b), (c, d)) of pairs."""


def mirror_cause(examination: Examination) -> Explanation | None:
    """The cause where cosines and sines are misplaced, None where that is not it."""
    turning = examination.subject.as_reference
    assert turning is not None  # else the width is the cause
    block = turning.read(turning.places.sample(96))
    if block.rest is not None and block.rest.max() > examination.tolerance.floor:
        return None
    for place, (message, _, explained) in enumerate(_explained_cells(block, examination)):
        if not explained.all():
            continue
        pieces = (
            (part.positions, *[*_explained_cells(part, examination)][place][1:])
            for part in turning.blocks()
        )
        residual = Residual.measure(pieces)
        if residual.whole:
            evidence = f"every pair matches once this is fixed; {residual.text}"
            return Explanation(Cause.COS_SIN_MISPAIRED, message, evidence, residual=residual)
    return None


def _explained_cells(
    block: SubjectBlock, examination: Examination
) -> Iterator[tuple[str, RealRows, Flags]]:
    """What may stand at wrong places, by how much it misses a block, and which entries it explains.

    Shape: both (n, pairs).
    """
    reference = examination.reference
    turned = without_growth(block, reference)  # (n, pairs)
    mirrored = np.zeros_like(turned) if block.mirrored is None else block.mirrored
    size = reference.scale
    unit = reference.rotation.at(block.positions) / size  # (n, pairs)
    seen = np.ones(turned.shape, bool) if block.seen is None else block.seen
    followed = reference.angle_positions(block.positions)
    for message, (a, b, c, d), fastest in wrong_places(reference, unit.real, unit.imag):
        allowed = 2 * examination.tolerance.cells(followed, fastest)
        z = size * ((a + d) + 1j * (c - b)) / 2
        w = size * ((a - d) + 1j * (c + b)) / 2
        if block.twist is None:
            missed = np.abs(turned - z) + np.abs(mirrored - w)
        else:
            missed = np.abs(turned - z - w * block.twist)
        yield message, np.where(seen, missed, 0.0), (missed <= allowed) | ~seen


def wrong_places(
    reference: Reference, cos: RealRows, sin: RealRows
) -> Iterator[tuple[str, _Entries, Reals]]:
    """What may stand in the matrices ((a, b), (c, d)) of the pairs instead.

    With each comes the fastest frequency that a pair's entries have, which the tolerance follows.
    """
    own = reference.frequencies
    yield from _wrong_layouts(reference, cos, sin)
    for message, entries in (
        (
            "both sines have the sign +: a minus is missing, or half of the table has one too",
            (cos, sin, sin, cos),
        ),
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
        c, s = repeated_columns(cos, of_cos), repeated_columns(sin, of_sin)
        rates = [repeated_columns(frequencies, layout)[0] for layout in (of_cos, of_sin)]
        fastest = np.maximum.reduce(
            [table_rates[columns] for table_rates in rates for columns in (first, second)]
        )
        which = f"cos is {of_cos} and sin is {of_sin}"
        if of_cos == of_sin:
            which = f"cos and sin are {of_cos}"
        message = f"{which}, but the rotation pairs dimensions {reference.pairing.text}"
        yield message, (c[:, first], -s[:, first], s[:, second], c[:, second]), fastest

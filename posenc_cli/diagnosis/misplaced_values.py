"""Find bugs that do not rotate pairs as a whole: cosines and sines in wrong places.

Each bug predicts the four entries of a pair's matrix ((c, −s), (s, c)): the wrong layout in one of
the tables, a missing sign, a sine of another pair.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.trial import repeated_columns
from posenc_cli.inference.turning import LAYOUTS, SubjectBlock
from posenc_cli.rotary.findings import without_growth
from posenc_cli.rotary.verdict import Examination, Explanation, Residual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import ComplexRows, Flags, RealRows, Reals

    _Entries = tuple[RealRows, RealRows, RealRows, RealRows]
    """a, b, c and d of the matrices ((a, b), (c, d)) of pairs."""


def misplaced_cause(examination: Examination) -> Explanation | None:
    """Return the cause of misplaced cosines and sines, or None."""
    turning = examination.subject.as_reference
    assert turning is not None  # otherwise the width is the cause
    block = turning.read(turning.places.sample(96))
    if block.rest is not None and block.rest.max() > examination.tolerance.floor:
        return None
    for place, (message, _, explained) in enumerate(_explained_entries(block, examination)):
        if not explained.all():
            continue
        pieces = (
            (part.positions, *[*_explained_entries(part, examination)][place][1:])
            for part in turning.blocks()
        )
        residual = Residual.measure(pieces)
        if residual.whole:
            evidence = f"every pair matches once this is fixed; {residual.text}"
            return Explanation(Cause.COS_SIN_MISPAIRED, message, evidence, residual=residual)
    return None


def _explained_entries(
    block: SubjectBlock, examination: Examination
) -> Iterator[tuple[str, RealRows, Flags]]:
    """Yield each bug's message, its error in a block, and the entries that it explains.

    Shape: both (n, pairs).
    """
    reference = examination.reference
    turned = without_growth(block, reference)  # (n, pairs)
    mirrored = np.zeros_like(turned) if block.mirrored is None else block.mirrored
    size = reference.scale
    unit = reference.rotation.at(block.positions) / size  # (n, pairs)
    seen = np.ones(turned.shape, bool) if block.seen is None else block.seen
    followed = reference.angle_positions(block.positions)
    for message, z, w, fastest in misplaced_maps(reference, unit):
        allowed = 2 * examination.tolerance.cells(followed, fastest)
        if block.twist is None:
            errors = np.abs(turned - size * z) + np.abs(mirrored - size * w)
        else:
            errors = np.abs(turned - size * (z + w * block.twist))
        yield message, np.where(seen, errors, 0.0), (errors <= allowed) | ~seen


def misplaced_maps(
    reference: Reference, unit: ComplexRows
) -> Iterator[tuple[str, ComplexRows, ComplexRows, Reals]]:
    """Yield each bug's message, its factors of z and of z̄, and its highest frequencies.

    ``unit`` are the right factors without the amplitude. The tolerance depends on the highest
    frequency among the entries of each pair.
    """
    cos, sin, own = unit.real, unit.imag, reference.frequencies
    no_minus = "both sines have the sign +: a minus is missing, or half of the table is negated too"
    in_place = "the second dimension is computed from the already rotated first (in place)"
    for message, (a, b, c, d), fastest in (
        *_wrong_layouts(reference, cos, sin),
        (no_minus, (cos, sin, sin, cos), own),
        (in_place, (cos, -sin, sin * cos, cos - sin * sin), own),
    ):
        yield message, ((a + d) + 1j * (c - b)) / 2, ((a - d) + 1j * (c + b)) / 2, fastest


def _wrong_layouts(
    reference: Reference, cos: RealRows, sin: RealRows
) -> Iterator[tuple[str, _Entries, Reals]]:
    """Yield full tables whose layout does not match the paired dimensions."""
    right, pairs = reference.content.layout, reference.pairs
    first, second = (
        list(columns) for columns in paired_columns(right, pairs, reference.content.blocks)
    )
    frequencies = reference.frequencies[None]
    for cos_layout, sin_layout in product(LAYOUTS, LAYOUTS):
        if cos_layout == sin_layout == right or pairs < 2:
            continue
        c, s = repeated_columns(cos, cos_layout), repeated_columns(sin, sin_layout)
        rates = [repeated_columns(frequencies, layout)[0] for layout in (cos_layout, sin_layout)]
        fastest = np.maximum.reduce(
            [table_rates[columns] for table_rates in rates for columns in (first, second)]
        )
        which = f"cos is {cos_layout} and sin is {sin_layout}"
        if cos_layout == sin_layout:
            which = f"cos and sin are {cos_layout}"
        message = f"{which}, but the rotation pairs dimensions {reference.pairing.text}"
        yield message, (c[:, first], -s[:, first], s[:, second], c[:, second]), fastest

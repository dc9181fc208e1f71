"""Read vectors before and after a rotation as a complex factor per pair and position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.inference.codes import SubjectKind
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.turning import (
    LAYOUTS,
    ColumnPairing,
    PositionRows,
    SubjectBlock,
    SubjectRotation,
)
from posenc_cli.rotary.subject import Subject, check_positions, complex_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Integers, NumberArray, Reals
    from posenc_cli.positions import Positions
    from posenc_cli.rotary.subject import GivenRows, Matrices, Vectors


_ROTATION_SCATTER = 1e-2
"""Relative scatter of factors' magnitudes: pairs that rotate scatter less in any format."""


def vectors(files: Matrices, reference: Reference, positions: Positions) -> Subject:
    """Return the subject for two files of vectors, before and after the rotation, (L, d) each."""
    x, y = files
    check_positions(x.shape[0], positions, "--rotated")
    name = f"{quoted_name(x.path)} {quoted_name(y.path)}"
    return rotated_subject(x, y, y.dtype, reference, positions, name=name)


def rotated_subject(
    x: GivenRows,
    y: GivenRows,
    dtype: str,
    reference: Reference,
    positions: Positions,
    *,
    name: str = "rotated",
) -> Subject:
    """Return the subject for vectors before and after the rotation.

    One vector per position shows one complex number per pair, z = y/x, assuming that pairs rotate.

    Raises: InvalidInput if the vectors before are not finite, or are zero in a whole pair or at a
        whole position.
    """
    places = PositionRows.of(positions)
    if not all(np.isfinite(x[rows]).all() for rows in places.row_blocks()):
        raise InvalidInput(f"--rotated {name}: the vectors before the rotation are not finite")

    def rotation_with(pairing: ColumnPairing) -> SubjectRotation:
        reader = _rotated_reader(x, y, pairing, places, most=4 * reference.scale)
        return SubjectRotation(places, pairing.pairs, dtype, 4, pairing, reader)

    notes: tuple[str, ...] = (
        "one vector per position: posenc assumes that pairs of dimensions rotate",
    )
    width = x.shape[1]
    if width not in (reference.head, 2 * reference.pairs):
        if width < 2:
            raise InvalidInput(f"--rotated {name} has one column; rotary encodings rotate pairs")
        own = rotation_with(ColumnPairing.named(reference.content.layout, width // 2))
        mismatch = f"the vectors have {width} columns, a head of the reference {reference.head}"
        return Subject(SubjectKind.ROTATED, name, own, None, mismatch, notes=notes)
    # A likely mistake is to rotate a half or a quarter of the columns.
    fewer = [
        ColumnPairing.named(layout, reference.pairs // share)
        for share in (2, 4)
        for layout in LAYOUTS
        if reference.pairs % share == 0
    ]
    pairings = [*reference.likely_pairings(width), *fewer]

    def before_and_after(rows: SomeRows) -> tuple[NumberArray, NumberArray]:
        return x[rows], y[rows]

    rotations = [rotation_with(pairing) for pairing in pairings]
    own = _likeliest_pairing(rotations, before_and_after)
    if (
        own.pairs != reference.pairs
        and _magnitude_scatter(own, before_and_after) > _ROTATION_SCATTER
    ):
        of_as_many = [other for other in rotations if other.pairs == reference.pairs]
        own = _likeliest_pairing(of_as_many, before_and_after)
    notes += _observation_notes(x, own.pairing or reference.pairing, places, name)
    if own.pairs != reference.pairs:
        mismatch = f"{2 * own.pairs} dimensions rotate; the reference rotates {2 * reference.pairs}"
        return Subject(SubjectKind.ROTATED, name, own, None, mismatch, notes=notes)
    alike = own.pairing is not None and own.pairing.layout == reference.content.layout
    return Subject(
        SubjectKind.ROTATED,
        name,
        own,
        own if alike else rotation_with(reference.pairing),
        notes=notes,
        vectors=before_and_after,
    )


def _observation_notes(
    x: GivenRows, pairing: ColumnPairing, places: PositionRows, name: str
) -> tuple[str, ...]:
    """Return a note on the share of pairs that vectors show; a zero vector shows no rotation.

    Raises: InvalidInput if a pair or a position other than 0 is never observed, so that no error
        there could be found.
    """
    first, second = list(pairing.first), list(pairing.second)
    pairs, cells = np.zeros(pairing.pairs, bool), 0
    moving = False
    blanks: list[int] = []
    for rows in places.row_blocks():
        positions, before = places.at(rows), x[rows]
        seen = (before[:, first] != 0) | (before[:, second] != 0)
        cells += int(np.count_nonzero(seen))
        rotated = positions != 0
        moving |= bool(rotated.any())
        pairs |= seen[rotated].any(axis=0)
        blanks += positions[rotated & ~seen.any(axis=1)].tolist()
    total = places.count * pairing.pairs
    counted = f"{cells} of {total} pairs can be checked"
    if moving and not pairs.all():
        missing = int(np.argmin(pairs))
        raise InvalidInput(
            f"--rotated {name}: {counted}; the vectors before must not be zero in "
            f"{int(np.count_nonzero(~pairs))} of {pairs.size} dimension pairs (pair {missing}) "
            "at all positions"
        )
    if blanks:
        raise InvalidInput(
            f"--rotated {name}: {counted}; the vectors before must not be all zero at "
            f"{len(blanks)} positions (position {blanks[0]})"
        )
    if cells == total:
        return ()
    # Rounded down, so that 100 % means all.
    share = math.floor(1000 * cells / total) / 10
    return (f"{counted} ({share:g} %); the rest are zero before the rotation",)


def _likeliest_pairing(rotations: list[SubjectRotation], vectors: Vectors) -> SubjectRotation:
    """Return the first pairing, unless another gives far better rotations of the same vectors."""
    best, least = rotations[0], _magnitude_scatter(rotations[0], vectors)
    # Magnitudes of right rotations scatter less, in float32 or in their own format.
    good = max(1e-4, 4 * unit(best.dtype))
    for rotation in rotations[1:]:
        if least <= good:
            break
        scatter = _magnitude_scatter(rotation, vectors)
        # Judgement: half the scatter is not chance; a wrong pairing scatters many times more.
        if scatter < 0.5 * least:
            best, least = rotation, scatter
    return best


def _magnitude_scatter(rotation: SubjectRotation, vectors: Vectors) -> float:
    """Return the scatter of the factors' magnitudes: rotations keep all lengths.

    Unpaired columns may be scaled.
    """
    rows = rotation.places.sample(256)
    block = rotation.read(rows)
    sizes = np.abs(block.turned)
    if block.seen is not None:
        sizes = sizes[block.seen]
    sizes = sizes[np.isfinite(sizes)]
    if sizes.size == 0:
        return 0.0
    rest = 0.0
    if block.rest is not None:
        rest = float(np.mean(block.rest))
        if block.passed is not None:
            changed = np.minimum(block.passed, _distance_from_scaled(rotation, vectors, rows))
            rest = float(np.mean(block.rest - block.passed + changed))
    return float(np.mean(np.abs(sizes / max(np.median(sizes), 1e-30) - 1))) + rest


def _distance_from_scaled(rotation: SubjectRotation, vectors: Vectors, rows: Integers) -> Reals:
    """Return the relative distance of unpaired columns from a multiple of themselves.

    Shape: (n,).
    """
    assert rotation.pairing is not None
    before, after = (values.astype(np.float64) for values in vectors(rows))
    others = list(rotation.pairing.others(before.shape[1]))
    size = np.linalg.norm(before, axis=1)  # (n,)
    kept, gained = before[:, others], after[:, others]
    products = (kept * kept).sum(axis=1)
    times = (kept * gained).sum(axis=1) / np.where(products > 0, products, 1)
    missed = np.linalg.norm(gained - times[:, None] * kept, axis=1)
    return np.asarray(missed / np.where(size > 0, size, 1), np.float64)


def _rotated_reader(
    x: GivenRows,
    y: GivenRows,
    pairing: ColumnPairing,
    places: PositionRows,
    *,
    most: float,
) -> Callable[[SomeRows], SubjectBlock]:
    """Return a function that reads factors y/x; those above ``most`` are limited to it.

    If a vector is longer after the rotation, the limit is that many times higher. Unpaired columns
    should stay as they are.
    """
    first, second = list(pairing.first), list(pairing.second)
    out_first, out_second = list(pairing.out_first), list(pairing.out_second)
    others = list(pairing.others(x.shape[1]))

    def read(rows: SomeRows) -> SubjectBlock:
        before, after = x[rows].astype(np.float64), y[rows].astype(np.float64)
        pairs = complex_of(before[:, first], before[:, second])  # (n, pairs)
        turned = complex_of(after[:, out_first], after[:, out_second])
        seen = pairs != 0
        length = np.linalg.norm(before, axis=1)  # (n,)
        length[length == 0] = 1
        kept = after[:, others] - before[:, others]
        lost = np.where(seen, 0, np.abs(turned))
        passed = np.linalg.norm(kept, axis=1) / length  # (n,)
        rest = passed + np.linalg.norm(lost, axis=1) / length
        # Not a reciprocal: 1/x of a small x would be infinite.
        numbers = np.where(np.isfinite(after), after, 0)
        with np.errstate(invalid="ignore"):  # a NaN affects only its own pair
            factors = np.divide(turned, pairs, out=np.full_like(turned, 1), where=seen)
            longer = np.maximum(np.linalg.norm(numbers, axis=1) / length, 1)  # (n,)
            factors /= np.maximum(np.abs(factors) / (most * longer[:, None]), 1)  # (n, pairs)
        return SubjectBlock(
            places.at(rows),
            factors,
            rest=rest if rest.any() else None,
            passed=passed if passed.any() else None,
            seen=None if seen.all() else seen,
            twist=np.divide(pairs.conj(), pairs, out=np.ones_like(pairs), where=seen),
        )

    return read

"""The values of a similarity by offset, and whether it depends only on the offset.

This module defines the tolerance for the question whether S depends only on m − n. If the
declaration proves it, the spread is 0 and no tolerance is needed. Rows rounded to a format with
unit u have a relative error of at most u. So two products of rows of length at most R differ by at
most 2u · R² each, and their float64 sums by (d + 2) · 2^−53 · R² each. The tolerance is twice the
sum of these two.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.products import (
    MatrixRows,
    diagonals,
    near_diagonals,
    windows_of,
)
from posenc_cli.analysis.profile import Profile
from posenc_cli.analysis.similarity import KeyScores, PairScores, Similarity
from posenc_cli.budget import check_size
from posenc_cli.errors import InvalidInput
from posenc_cli.files.matrix import Matrix
from posenc_cli.numerics.rounding import narrow
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.numerics.arrays import Flags, Integers, Reals
    from posenc_cli.numerics.dtypes import DType

PRODUCTS = 1 << 32  # multiplications that a verdict may take: a few seconds
ALL_OFFSETS = 1 << 20  # offsets examined, from 0 on: about a second
SCANNED = 1 << 30
"""With at most this many values, a sample still covers every row."""

_ROUNDING = 1e-12  # of the largest value: sums of a few thousand products in float64
_SCATTERED = 4096  # unevenly spaced positions: all their pairs are held at once


class Verdict(Record):
    """The values of S by offset Δ = m − n, and how S depends on it.

    ``profile`` holds the mean over the pairs examined, ``least`` and ``most`` the extremes, NaN if
    no value is finite. ``half_distance`` is the first Δ > 0 with a value below half of the value at
    0; for scores, the first that halves the attention weight. If it is None, no offset up to
    ``half_searched`` qualifies. ``proof`` says why S depends only on Δ. It is None if that was
    measured, on ``pairs`` of the ``all_pairs`` pairs of positions; ``dropped`` of these had a value
    that is not finite. In a sample, ``toeplitz`` is a statement on the examined pairs only.

    Shape: (offsets,) each, the offsets ascending.
    """

    offsets: Integers
    profile: Reals
    least: Reals
    most: Reals
    toeplitz: bool
    spread: float
    tolerance: float
    symmetric: bool
    peak: float
    half_distance: int | None
    proof: str | None
    pairs: int
    all_pairs: int
    dropped: int = 0
    affine_rows: bool = False
    half_searched: int = 0

    @property
    def measured_all(self) -> bool:
        """Whether all pairs were measured, without sampling."""
        return self.pairs == self.all_pairs

    def matrix(self, dtype: DType, metadata: Mapping[str, object]) -> Matrix:
        """Return the mean by offset as a matrix to write, with offsets as row labels."""
        return Matrix(
            shape=self.profile.shape,
            dtype=dtype,
            blocks=lambda: iter([narrow(self.profile, None, dtype)]),
            metadata=metadata,
            row_labels=lambda: iter(self.offsets.tolist()),
            row_label="offset",
        )


def verdict(of: Similarity) -> Verdict:
    """Return the verdict on a similarity.

    Raises: InvalidInput if no value is finite, or too many positions are unevenly spaced.
    """
    if of.step is None:
        return _verdict_on_pairs(of, "--positions", "positions that are not evenly spaced")
    match of.source:
        case PairScores():
            return _verdict_on_pairs(
                of,
                of.positions.option,
                f"positions of {of.name}, which scores each pair of them",
            )
        case Profile() as profile:
            return _verdict_on_profile(of, profile, of.step)
        case MatrixRows() as rows:
            return _verdict_on_rows(of, rows, of.step)
        case KeyScores() as keys:
            return _verdict_on_keys(of, keys, of.step)


def _verdict_on_profile(of: Similarity, profile: Profile, step: int) -> Verdict:
    count = of.count
    distances = np.arange(min(count, ALL_OFFSETS), dtype=np.int64) * step
    past = profile.at(distances)
    future = past if profile.even else profile.at(-distances)
    values = np.concatenate([future[:0:-1], past])
    half, searched = _halving(distances, past, of)
    return Verdict(
        offsets=np.concatenate([-distances[:0:-1], distances]),
        profile=values,
        least=values,
        most=values,
        toeplitz=True,
        spread=0.0,
        tolerance=0.0,
        symmetric=profile.even
        or (profile.deviation is None and bool(np.array_equal(past, future))),
        peak=float(past[0]),
        half_distance=half,
        half_searched=searched,
        proof=profile.proof,
        pairs=count * (count + 1) // 2,
        all_pairs=count * (count + 1) // 2,
    )


def _verdict_on_rows(of: Similarity, rows: MatrixRows, step: int) -> Verdict:
    windows = windows_of(rows.count, rows.width, products=PRODUCTS)
    measured = diagonals(rows, windows)
    if windows is not None and rows.count * rows.width <= SCANNED:
        measured = measured.with_diagonals(near_diagonals(rows))
    if measured.dropped == measured.pairs:
        raise _nothing_finite(of)
    if (
        measured.reach == 0
        and not measured.dropped
        and any(rows.read(range(min(rows.count, _SCATTERED))).ravel().tolist())
    ):
        raise InvalidInput(
            f"{of.name}: every {of.quantity} of its rows is too small for float64",
            hint="--normalize cosine compares their directions",
        )
    half, searched = _halving(measured.offsets, measured.mean, of)
    tolerance = _tolerance(rows, measured.reach)

    def mirror(values: Reals) -> Reals:
        return np.concatenate([values[:0:-1], values])

    offsets = measured.offsets * step
    return Verdict(
        offsets=np.concatenate([-offsets[:0:-1], offsets]),
        profile=mirror(measured.mean),
        least=mirror(measured.least),
        most=mirror(measured.most),
        toeplitz=measured.spread <= tolerance,
        spread=measured.spread,
        tolerance=tolerance,
        symmetric=True,
        peak=float(measured.mean[0]),
        half_distance=None if half is None else half * step,
        half_searched=searched * step,
        proof=None,
        pairs=measured.pairs,
        all_pairs=rows.count * (rows.count + 1) // 2,
        dropped=measured.dropped,
    )


def _verdict_on_keys(of: Similarity, keys: KeyScores, step: int) -> Verdict:
    """Return the verdict if S[m, n] is the score of key n.

    The values at an offset are the scores of its keys.
    """
    count = of.count
    check_size(of.positions.option, count, ALL_OFFSETS, f"keys of {of.name}, each with a score")
    scores = keys.at(of.positions_at(range(count)))
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    seen = np.arange(count, 0, -1)
    # Offset Δ ≥ 0 has the keys 0 … L − 1 − Δ, offset −Δ the keys Δ … L − 1.
    past, future = sums[:0:-1] / seen, (sums[-1] - sums[:-1]) / seen
    low, high = np.minimum.accumulate, np.maximum.accumulate
    least = np.concatenate([low(scores[::-1])[:-1], low(scores)[::-1]])
    most = np.concatenate([high(scores[::-1])[:-1], high(scores)[::-1]])
    spread = float(scores.max() - scores.min())
    steps = np.diff(scores)
    unevenness = float(np.ptp(steps)) if steps.size else 0.0
    distances = np.arange(count, dtype=np.int64) * step
    profile = np.concatenate([future[:0:-1], past])
    half, searched = _halving(distances, np.concatenate([[0.0], -np.cumsum(steps)]), of)
    affine = unevenness <= 4 * 2.0**-53 * float(np.abs(scores).max())
    return Verdict(
        offsets=np.concatenate([-distances[:0:-1], distances]),
        profile=profile,
        least=least,
        most=most,
        toeplitz=spread == 0,
        spread=spread,
        tolerance=0.0,
        symmetric=spread == 0,
        peak=float(past[0]),
        half_distance=half if affine else None,
        half_searched=searched,
        proof=None,
        pairs=count * (count + 1) // 2,
        all_pairs=count * (count + 1) // 2,
        affine_rows=affine,
    )


def _verdict_on_pairs(of: Similarity, option: str, what: str) -> Verdict:
    count = of.count
    check_size(
        option,
        count,
        _SCATTERED,
        what,
        hint="--len N, or --positions start:stop:step",
    )
    everything = range(count)
    values = of.entries(everything, everything)  # (positions, positions)
    positions = of.positions_at(everything)
    offsets, inverse = np.unique(positions[:, None] - positions, return_inverse=True)
    inverse, flat = inverse.reshape(-1), values.reshape(-1)
    finite = np.isfinite(flat)
    if not finite.any():
        raise _nothing_finite(of)
    least, most = np.full(len(offsets), np.inf), np.full(len(offsets), -np.inf)
    np.minimum.at(least, inverse[finite], flat[finite])
    np.maximum.at(most, inverse[finite], flat[finite])
    counts = np.bincount(inverse[finite], minlength=len(offsets))
    with np.errstate(all="ignore"):
        mean = np.bincount(inverse[finite], flat[finite], len(offsets)) / counts
        mean[counts == 0] = np.nan
    spread = float((most - least)[counts > 0].max())
    proven = of.source if isinstance(of.source, Profile) else None
    tolerance = 0.0
    if isinstance(of.source, MatrixRows):
        reach = np.diagonal(values)
        tolerance = _tolerance(of.source, float(np.where(np.isfinite(reach), reach, 0).max()))
    origin = int(np.searchsorted(offsets, 0))
    half, searched = _halving(offsets[origin:], mean[origin:], of)
    return Verdict(
        offsets=offsets,
        profile=mean if proven is None else most,
        least=least,
        most=most,
        toeplitz=spread <= tolerance,
        spread=spread,
        tolerance=tolerance,
        symmetric=isinstance(of.source, MatrixRows) or bool(np.array_equal(values, values.T)),
        peak=float(mean[origin]),
        half_distance=half,
        half_searched=searched,
        proof=proven.proof if proven else None,
        pairs=count * (count + 1) // 2,
        all_pairs=count * (count + 1) // 2,
        dropped=int(np.tril(~np.isfinite(values) | ~np.isfinite(values.T)).sum()),
    )


def _tolerance(rows: MatrixRows, reach: float) -> float:
    return 2 * (2 * rows.unit + (rows.width + 2) * 2.0**-53) * reach


def _halving(offsets: Integers, values: Reals, of: Similarity) -> tuple[int | None, int]:
    """Return the first offset whose value is below half of the value at 0, or None.

    Also return the offset up to which no value is below it. For rows, the search ends at the first
    offset that a sample left out.
    """
    left_out = np.flatnonzero(np.diff(offsets) > offsets[1:2].sum())
    end = int(left_out[0]) + 1 if left_out.size and of.step else len(offsets)
    below = np.flatnonzero(_below(values[:end], float(values[0]), of))
    if not below.size:
        return None, int(offsets[end - 1])
    return int(offsets[below[0]]), int(offsets[below[0] - 1])


def _below(values: Reals, peak: float, of: Similarity) -> Flags:
    if of.of_scores:
        return values < peak - math.log(2)
    return values < peak / 2 if peak > 0 else np.zeros(len(values), bool)


def _nothing_finite(of: Similarity) -> InvalidInput:
    hint = None
    if isinstance(of.source, MatrixRows) and of.quantity != "cosine":
        rows = of.source.read(range(min(of.count, _SCATTERED)))
        if np.isfinite(rows).all(axis=1).any():
            hint = "--normalize cosine compares their directions"
    return InvalidInput(f"{of.name}: no {of.quantity} of its rows is a finite number", hint=hint)


class ProfileDifference(Record):
    """The difference between two encodings in S by offset, at the offsets that both have.

    ``offsets`` is the number compared, and ``differing`` how many differ by more than rounding
    allows. ``largest`` is the signed difference (other minus first) of largest size, and ``at`` its
    offset. ``complete`` says that no offset of either was left out. ``exact`` says that each offset
    has one value in both; otherwise the means over the examined pairs are compared.
    """

    offsets: int
    differing: int
    largest: float
    at: int
    complete: bool
    exact: bool


def profile_difference(
    first: tuple[Similarity, Verdict], other: tuple[Similarity, Verdict]
) -> ProfileDifference | None:
    """Return the difference of two similarities by offset.

    It is None if their measures differ, or no offset is finite in both.
    """
    if first[0].measure != other[0].measure:
        return None
    both, in_first, in_other = np.intersect1d(
        first[1].offsets, other[1].offsets, assume_unique=True, return_indices=True
    )
    a, b = first[1].profile[in_first], other[1].profile[in_other]
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        return None
    with np.errstate(over="ignore"):
        both, differences = both[finite], b[finite] - a[finite]
    size = max(np.abs(a[finite]).max(), np.abs(b[finite]).max())
    allowed = max(first[1].tolerance, other[1].tolerance, _ROUNDING * float(size))
    # If differences at −Δ and Δ are equally large, the positive offset wins.
    at = int(np.lexsort((both < 0, -np.abs(differences)))[0])
    sides = first, other
    return ProfileDifference(
        len(both),
        int((np.abs(differences) > allowed).sum()),
        float(differences[at]),
        int(both[at]),
        complete=all(
            verdict.measured_all and similarity.offsets_in_all in (None, len(verdict.offsets))
            for similarity, verdict in sides
        ),
        exact=all(verdict.toeplitz for _, verdict in sides),
    )

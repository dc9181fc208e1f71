"""What is told of a similarity: its values by offset, and what they depend on.

Owns the tolerance of the question whether S depends on m − n alone. Where a declaration proves it
there is none: the spread is 0. Rows that were rounded to a format with unit u differ from what they
stand for by at most u, relatively, so two products of rows of length at most R by 2u · R² each, and
their sums in float64 by (d + 2) · 2^−53 · R² each: the tolerance is twice those two together.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.analysis.products import Rows, diagonals, windows_of
from posenc_cli.analysis.profile import Profile
from posenc_cli.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from posenc_cli.analysis.similarity import KeyScores, Similarity

PRODUCTS = 1 << 35
"""Multiplications that a verdict may take: a second or two."""

ALL_OFFSETS = 1 << 20
"""Up to so many positions, every offset has its value; of more, some offsets do."""

_SOME_OFFSETS = 1 << 15
_SCATTERED = 4096
"""Positions that are not evenly spaced, and whose offsets must be told apart one by one."""


@dataclass(frozen=True)
class Verdict:
    """What S is by offset Δ = m − n, and how it depends on it.

    ``profile`` holds the mean over the pairs looked at, ``least`` and ``most`` the extremes, NaN
    where no value is finite. ``half_distance`` is the first Δ > 0 whose value is below half of the
    value at 0; of scores, the first that halves the weight of attention. ``proof`` says why S
    depends on Δ alone, None where that was measured on ``pairs`` pairs of positions, out of
    ``all_pairs``; of these, ``dropped`` had a value that is not finite.

    Shape: (offsets,) each, the offsets ascending.
    """

    offsets: NDArray[np.int64]
    profile: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    toeplitz: bool
    spread: float
    tolerance: float
    symmetric: bool
    peak: float
    half_distance: int | None
    half_of: Literal["value", "attention weight"]
    proof: str | None
    pairs: int
    all_pairs: int
    dropped: int = 0
    affine_rows: bool = False

    @property
    def measured_all(self) -> bool:
        """Whether nothing was left to a sample."""
        return self.pairs == self.all_pairs


def verdict(of: Similarity) -> Verdict:
    """The verdict on a similarity.

    Raises: InvalidInput where no value is finite, or too many positions are unevenly spaced.
    """
    if isinstance(of.source, Profile) and of.step is not None:
        return _proven(of, of.source, of.step)
    if of.step is None:
        return _scattered(of)
    if isinstance(of.source, Rows):
        return _measured(of, of.source, of.step)
    assert not isinstance(of.source, Profile)
    return _by_key(of, of.source, of.step)


def _proven(of: Similarity, profile: Profile, step: int) -> Verdict:
    count = of.count
    stride = 1 if count <= ALL_OFFSETS else -(-count // _SOME_OFFSETS)
    distances = np.arange(0, count, stride, dtype=np.int64) * step
    past = profile.at(distances)
    future = past if profile.even else profile.at(-distances)
    values = np.concatenate([future[:0:-1], past])
    nearest = past if stride == 1 else profile.at(np.arange(ALL_OFFSETS, dtype=np.int64) * step)
    half, half_of = _half(nearest, of)
    return Verdict(
        offsets=np.concatenate([-distances[:0:-1], distances]),
        profile=values,
        least=values,
        most=values,
        toeplitz=True,
        spread=0.0,
        tolerance=0.0,
        symmetric=profile.even or bool(np.array_equal(past, future)),
        peak=float(past[0]),
        half_distance=None if half is None else half * step,
        half_of=half_of,
        proof=profile.proof,
        pairs=count * (count + 1) // 2,
        all_pairs=count * (count + 1) // 2,
    )


def _measured(of: Similarity, rows: Rows, step: int) -> Verdict:
    windows = windows_of(rows.count, rows.width, products=PRODUCTS)
    found = diagonals(rows, windows)
    if found.dropped == found.pairs:
        raise _nothing_finite(of)
    if found.reach == 0 and any(rows.read(range(min(rows.count, _SCATTERED))).ravel().tolist()):
        raise InvalidInput(
            f"{of.name}: every {of.quantity} of its rows is too small for float64",
            hint="--normalize cosine compares their directions",
        )
    tolerance = _tolerance(rows, found.reach)
    half, half_of = _half(found.mean, of)

    def mirrored(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([values[:0:-1], values])

    offsets = found.offsets * step
    return Verdict(
        offsets=np.concatenate([-offsets[:0:-1], offsets]),
        profile=mirrored(found.mean),
        least=mirrored(found.least),
        most=mirrored(found.most),
        toeplitz=found.spread <= tolerance,
        spread=found.spread,
        tolerance=tolerance,
        symmetric=True,
        peak=float(found.mean[0]),
        half_distance=None if half is None else int(offsets[half]),
        half_of=half_of,
        proof=None,
        pairs=found.pairs,
        all_pairs=rows.count * (rows.count + 1) // 2,
        dropped=found.dropped,
    )


def _by_key(of: Similarity, keys: KeyScores, step: int) -> Verdict:
    """S[m, n] is the score of key n: at an offset it takes the values of the keys that reach it."""
    count = of.count
    if count > ALL_OFFSETS:
        raise InvalidInput(
            f"--len {count}: the scores of {of.name} go by the key, and more than {ALL_OFFSETS} "
            "keys are not looked at"
        )
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
    half, half_of = _half(np.concatenate([[0.0], -np.cumsum(steps)]), of)
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
        half_distance=int(distances[half]) if affine and half is not None else None,
        half_of=half_of,
        proof=None,
        pairs=count * (count + 1) // 2,
        all_pairs=count * (count + 1) // 2,
        affine_rows=affine,
    )


def _scattered(of: Similarity) -> Verdict:
    count = of.count
    if count > _SCATTERED:
        raise InvalidInput(
            f"--positions: {count} positions that are not evenly spaced; at most {_SCATTERED} can "
            "be told apart by offset",
            hint="--len N, or --positions start:stop:step",
        )
    everything = range(count)
    values = of.entries(everything, everything)
    positions = of.positions_at(everything)
    offsets, where = np.unique(positions[:, None] - positions, return_inverse=True)
    where, flat = where.reshape(-1), values.reshape(-1)
    finite = np.isfinite(flat)
    if not finite.any():
        raise _nothing_finite(of)
    least, most = np.full(len(offsets), np.inf), np.full(len(offsets), -np.inf)
    np.minimum.at(least, where[finite], flat[finite])
    np.maximum.at(most, where[finite], flat[finite])
    counts = np.bincount(where[finite], minlength=len(offsets))
    with np.errstate(all="ignore"):
        mean = np.bincount(where[finite], flat[finite], len(offsets)) / counts
        mean[counts == 0] = np.nan
    spread = float((most - least)[counts > 0].max())
    proven = of.source if isinstance(of.source, Profile) else None
    tolerance = 0.0
    if isinstance(of.source, Rows):
        reach = np.diagonal(values)
        tolerance = _tolerance(of.source, float(np.where(np.isfinite(reach), reach, 0).max()))
    origin = int(np.searchsorted(offsets, 0))
    half, half_of = _half(mean[origin:], of)
    return Verdict(
        offsets=offsets,
        profile=mean if proven is None else most,
        least=least,
        most=most,
        toeplitz=spread <= tolerance,
        spread=spread,
        tolerance=tolerance,
        symmetric=isinstance(of.source, Rows) or bool(np.array_equal(values, values.T)),
        peak=float(mean[origin]),
        half_distance=None if half is None else int(offsets[origin + half]),
        half_of=half_of,
        proof=proven.proof if proven else None,
        pairs=count * (count + 1) // 2,
        all_pairs=count * (count + 1) // 2,
        dropped=int((~finite).sum()),
    )


def _tolerance(rows: Rows, reach: float) -> float:
    return 2 * (2 * rows.unit + (rows.width + 2) * 2.0**-53) * reach


def _half(
    values: NDArray[np.float64], of: Similarity
) -> tuple[int | None, Literal["value", "attention weight"]]:
    """Where values, from the offset 0 on, first fall below half of the first."""
    if of.of_scores:
        below = values < values[0] - math.log(2)
    else:
        below = values < values[0] / 2 if values[0] > 0 else np.zeros(len(values), bool)
    first = int(np.argmax(below))
    return (first if below[first] else None), "attention weight" if of.of_scores else "value"


def _nothing_finite(of: Similarity) -> InvalidInput:
    return InvalidInput(
        f"{of.name}: no {of.quantity} of its rows is a finite number",
        hint=None if of.quantity == "cosine" else "--normalize cosine compares their directions",
    )

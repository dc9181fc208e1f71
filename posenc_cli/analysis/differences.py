"""What sets one of several encodings apart from the first: their waves, their power, their S.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.spectrum import same_ratio
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.spectrum import PowerSpectrum, WaveSpectrum
    from posenc_cli.analysis.verdict import Verdict


class WaveDifference(Record):
    """How the wavelengths of all pairs differ from those of the same pairs of another encoding.

    ``ratio`` is the one farthest from 1, infinite where a wave stands still, and ``at`` the pairs
    that have it; 1 and none where no pair differs.
    """

    pairs: int
    differing: tuple[int, ...]
    ratio: float
    at: tuple[int, ...]


def wave_difference(first: WaveSpectrum, other: WaveSpectrum) -> WaveDifference | None:
    """How the waves of another encoding differ; None where pairs do not stand for pairs."""
    a, b = first.wavelengths, other.wavelengths
    if len(a) != len(b) or first.axes != other.axes or first.along != other.along:
        return None
    with np.errstate(invalid="ignore"):
        ratios = np.where(a == b, 1.0, b / a)  # of two infinite ones, too
    apart = ~same_ratio(ratios, 1.0)
    if not apart.any():
        return WaveDifference(len(a), (), 1.0, ())
    with np.errstate(divide="ignore"):
        farthest = float(ratios[np.abs(np.log(np.abs(ratios))).argmax()])
    at = np.flatnonzero(
        apart
        & (
            ratios == farthest
            if math.isinf(farthest) or not farthest
            else same_ratio(ratios, farthest)
        )
    )
    return WaveDifference(
        len(a), tuple(np.flatnonzero(apart).tolist()), farthest, tuple(at.tolist())
    )


class PowerDifference(Record):
    """What ``share`` of the power lies at other wavelengths than that of another encoding."""

    share: float


def power_difference(first: PowerSpectrum, other: PowerSpectrum) -> PowerDifference | None:
    """How the power of another's columns differs.

    None where their wavelengths are not the same, or one has no power.
    """
    if not first.power.any() or not other.power.any():
        return None
    if not np.array_equal(first.wavelengths, other.wavelengths) or first.along != other.along:
        return None
    return PowerDifference(float(np.abs(first.power - other.power).sum()) / 2)


class ProfileDifference(Record):
    """How S by offset differs from that of another encoding, at the offsets that both have.

    Of the ``offsets`` compared, ``differing`` have values further apart than rounding allows;
    ``largest`` is the difference of largest size, other less first, and ``at`` its offset.
    ``complete`` says that no offset of either was left out, ``exact`` that each offset has one
    value in both: else their means are compared, over the pairs looked at.
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
    """How another's S differs; None where it is of another measure, or at no offset of both."""
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
    # Of what is as large at −Δ and at Δ, the offset that follows 0.
    order = np.lexsort((both < 0, -np.abs(differences)))
    at = int(order[0])
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


_ROUNDING = 1e-12  # of the largest value: sums of a few thousand products in float64

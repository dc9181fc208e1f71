"""Check whether a subject rotates q and k as RoPE must, and prove that the findings cover all.

**What is checked.** A subject applies a linear map A_p of R^d at position p, to queries and keys
alike, so a score is qᵀ A_mᵀ A_n k. Over all unit q and k, the largest change of a score is the
spectral norm of the change of the matrix A_mᵀ A_n.

**Relative, all pairs of positions.** If A_mᵀ A_n depends only on n − m for all integers, then
A_pᵀ A_p = S² is the same for every p. If S is invertible, A_p = Q G^p S with orthogonal Q and G; in
a plane that S does not distort, that is a factor a·u^p with |u| = 1. Conversely, let
A_p = U^p S + E_p with a rotation U and ‖E_p‖ ≤ e_p. Then for every m and n

    ‖A_mᵀ A_n − S U^(n−m) S‖ ≤ ‖S‖ (e_m + e_n) + e_m e_n,

by the triangle inequality and ‖U‖ = 1. So it is enough to know e_p for each of the L positions:
then the bound covers all L² pairs of positions and all q and k, in O(L·d). For correct code
e_p ≤ t_p, the tolerance at p, and the right side is at most ‖S‖ (t_m + t_n) + t_m t_n for each pair
of positions. If some e_p > t_p, the finding fails. It reports 2‖S‖e_p + e_p² for the largest such
e_p, but no more than ‖S‖² + max ‖A‖², which no change exceeds. The bound is sharp: phases that err
by ±e at two positions change a score by 2 sin e.

If the subject equals the reference, U is the reference's rotation. Otherwise it is the rotation
nearest to the subject (:mod:`posenc_cli.inference.fitting`). A block that does not rotate a plane
belongs to E as a whole. Outside the dimension pairs, the Frobenius norm of the rest of the matrix
bounds it; within a pair, x → z·x + w·x̄ has the norm |z| + |w|.

**Positions with gaps.** On a few positions, a function of n − m is a weak requirement, since most
distances occur once. The check requires what the property implies for all integers: one rotation U
for all positions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.inference.fitting import Rotations, fit, fit_on_axes, with_frequencies
from posenc_cli.inference.reference import Reference, RotationFactors, Sample
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.records import Record, replace
from posenc_cli.rotary.drift import Drift, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.inference.codes import FindingName
    from posenc_cli.inference.turning import Progress, SubjectBlock, SubjectRotation
    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals
    from posenc_cli.numerics.dtypes import DType

    _MapParts = tuple[ComplexRows, ComplexRows | int]
    """The parts of a map at some positions: of x, and of x̄ (0 if it has none)."""

CURVE_POINTS = 120
"""Largest number of points of the error by position: more than a terminal has columns."""

MAP_PAIRS = 128
"""Largest number of pairs in the map of errors: beyond it, one stands for several, with their
largest error."""

SPARSE = 128
"""Number of positions below which a fit may miss the right rotation. Then known rotations are tried
too, as they are if a half precision blurs the fit."""


class Finding(Record):
    """One check: whether it holds, the worst deviation, the allowed deviation there, and the place.

    ``worst`` and ``tolerance`` are None if a value is not finite, or there is none. ``worst_is``
    says whether ``worst`` was measured at ``at``, or bounds all deviations.
    """

    check: FindingName
    ok: bool
    worst: float | None
    tolerance: float | None
    at: dict[str, int] | None
    message: str
    worst_is: Literal["value", "bound"] = "value"


class WorstDeviation:
    """The largest deviation, among those above their limits if there are any.

    If ``ratio`` is above 1, it is the largest ratio of a deviation to its limit, perhaps at another
    place; else it is one of the ratios. ``first_wrong`` is the first row with an entry above its
    limit. ``missing`` counts the entries that are not finite.
    """

    def __init__(
        self,
        ratio: float = -1.0,
        value: float = 0.0,
        allowed: float = 0.0,
        position: int = 0,
        pair: int = 0,
    ) -> None:
        self.ratio, self.value, self.allowed = ratio, value, allowed
        self.position, self.pair = position, pair
        self.row = self.rows = self.missing = 0
        self.first_wrong: int | None = None

    def update(
        self,
        positions: Integers,
        values: RealRows,
        allowed: RealRows,
    ) -> RealRows:
        """Add the values (n, pairs) of the next rows, and return their ratios to the limits.

        NaN is worse than any number.
        """
        before = self.rows
        self.rows += positions.size
        ratios = values / allowed  # (n, pairs)
        highest = float(ratios.max())
        highest = math.inf if math.isnan(highest) else highest
        above = highest > 1
        if above:
            self.missing += int(np.count_nonzero(~np.isfinite(values)))
            if self.first_wrong is None:
                self.first_wrong = before + int(np.argmin((values <= allowed).all(axis=1)))
        if math.isnan(self.value) or (self.ratio > 1 and not above):
            return ratios
        index = int(np.argmax(np.where(ratios <= 1, -1.0, values) if above else values))
        row, pair = divmod(index, values.shape[1])
        value = float(values[row, pair])
        if self.ratio < 0 or (above and self.ratio <= 1) or not value <= self.value:
            self.value, self.row = value, before + row
            self.allowed = float(np.broadcast_to(allowed, values.shape)[row, pair])
            self.position, self.pair = int(positions[row]), pair
        self.ratio = max(self.ratio, highest)
        return ratios


def cell_differences(
    block: SubjectBlock, reference: Reference, dtype: DType
) -> tuple[RealRows, RealRows]:
    """Return the errors of entries against correctly rounded ones: absolute, and in ulp.

    A mirrored part is the difference between two copies of an entry. Shape: (positions, 2 pairs)
    each, cosine and sine alternating.
    """
    right = reference.cells(block.positions, dtype).view(np.float64)
    cells = np.ascontiguousarray(block.turned).view(np.float64)
    differences = np.abs(cells - right)
    if block.mirrored is not None:
        differences = differences + np.abs(np.ascontiguousarray(block.mirrored).view(np.float64))
    exponents = np.maximum(np.frexp(right)[1] - 1, dtype.min_exponent)
    return differences, differences / np.ldexp(1.0, exponents - dtype.precision + 1)


class WrongCells:
    """The number of entries that are not correctly rounded, and the worst of them."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.wrong = self.total = 0
        self.units = 0.0
        self.worst = WorstDeviation()

    def update(self, block: SubjectBlock, reference: Reference) -> None:
        """Compare the entries of a block."""
        differences, shares = cell_differences(block, reference, self.dtype)
        self.wrong += int(np.count_nonzero(differences != 0))
        self.total += differences.size
        row, cell = divmod(int(np.argmax(shares)), shares.shape[1])
        if self.worst.ratio < 0 or shares[row, cell] > self.units:
            self.units = float(shares[row, cell])
            position = int(block.positions[row])
            value = float(differences[row, cell])
            self.worst = WorstDeviation(self.units, value, 0.0, position, cell // 2)


class Survey:
    """The results of one pass over a subject, compared with the right factors.

    ``shortest`` and ``longest`` are the least and the largest factor on lengths. ``stray`` is the
    largest norm of what does not rotate a pair. ``errors`` are the largest errors by position, and
    ``shares`` the ratios to the limit there, for each pair.
    """

    def __init__(self, cells: WrongCells | None = None) -> None:
        self.reference = WorstDeviation()
        self.norm, self.identity = WorstDeviation(), WorstDeviation()
        self.shortest, self.longest = math.inf, 0.0
        self.largest = self.stray = 0.0
        self.errors: list[tuple[int, float]] = []
        self.shares: list[tuple[float, ...]] = []
        self.cells = cells


def without_growth(block: SubjectBlock, reference: Reference) -> ComplexRows:
    """Return the factors of a block without the amplitude that grows with the position by design.

    Keys shrink as queries grow, so the amplitude of a score depends on n − m alone.
    """
    if block.turned.shape[1] != reference.pairs:
        return block.turned
    growth = reference.growth_at(block.positions)
    return block.turned if growth is None else block.turned / growth


def sample_of(
    block: SubjectBlock, reference: Reference, tolerance: Tolerance, amplitude: float = 1.0
) -> Sample:
    """Return a block as a sample, which hypotheses are compared with."""
    stray = block.stray()
    return Sample(
        block.positions,
        without_growth(block, reference),
        np.ones(block.turned.shape, bool) if block.seen is None else block.seen,
        np.zeros((block.positions.size, 1)) if stray is None else stray,
        tolerance,
        amplitude,
        reference,
    )


def take_survey(
    rotation: SubjectRotation,
    reference: Reference,
    tolerance: Tolerance,
    *,
    rounded_to: DType | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Compare all positions of a subject that has as many pairs as the reference.

    With ``rounded_to``, its factors are entries of tables and are compared with those of that
    format.
    """
    result = Survey(cells=None if rounded_to is None else WrongCells(rounded_to))
    per_point = max(1, -(-rotation.places.count // CURVE_POINTS))
    with np.errstate(invalid="ignore", over="ignore"):
        for block in rotation.blocks(progress):
            _survey_block(result, block, reference, tolerance, per_point)
    return result


def _survey_block(
    result: Survey, block: SubjectBlock, reference: Reference, tolerance: Tolerance, per_point: int
) -> None:
    """Add the deviations of one block of rows to a survey."""
    if result.cells is not None:
        result.cells.update(block, reference)
    positions, factors = block.positions, without_growth(block, reference)
    right = reference.rotation.at(positions)  # (n, pairs)
    deviation = np.abs(np.subtract(factors, right, out=right))
    stray = block.stray()
    # Within a pair, lengths are multiplied by | |z| − |w| | to |z| + |w|; the rest adds its norm.
    shortest = longest = np.abs(factors)
    if stray is not None:
        result.stray = max(result.stray, float(stray.max()))
        deviation = deviation + stray
        mirrored = 0.0 if block.mirrored is None else np.abs(block.mirrored)
        rest = 0.0 if block.rest is None else block.rest[:, None]
        shortest, longest = np.abs(longest - mirrored) - rest, longest + mirrored + rest
    if block.seen is not None:
        shortest = np.where(block.seen, shortest, reference.scale)
        longest = np.where(block.seen, longest, reference.scale)
        deviation = np.where(block.seen, deviation, 0.0)
    followed = reference.angle_positions(positions)
    limits = tolerance.cells(followed, reference.frequencies)
    floor = np.full((1, 1), tolerance.floor)
    shares = result.reference.update(positions, deviation, limits)
    _add_lengths(result, positions, (shortest, longest), reference.scale, floor)
    # With several axes, position 0 may have any coordinates.
    start = (followed.reshape(positions.size, -1) == 0).all(axis=1)  # (n,)
    if start.any():
        result.identity.update(positions[start], deviation[start], floor)
    result.largest = max(result.largest, float(deviation.max()))
    if tolerance.fixed is not None:
        shares = deviation / tolerance.fixed
    rows = np.arange(0, positions.size, per_point)
    peaks = np.maximum.reduceat(deviation.reshape(-1), rows * deviation.shape[1])  # (points,)
    result.errors += zip(positions[rows].tolist(), peaks.tolist(), strict=True)
    if tolerance.fixed != 0:  # ratios to a limit of 0 are undefined
        result.shares += _highest_shares(shares, rows)


def _add_lengths(
    result: Survey,
    positions: Integers,
    lengths: tuple[RealRows, RealRows],
    scale: float,
    floor: RealRows,
) -> None:
    """Add the shortest and the longest factors on lengths, (n, pairs) each, of some rows."""
    shortest, longest = lengths
    result.shortest = min(result.shortest, max(float(np.fmin.reduce(shortest, axis=None)), 0.0))
    result.longest = max(result.longest, float(np.fmax.reduce(longest, axis=None)))
    # Rows that are no worse than those before need no place. NaN is never less.
    worst = max(float(longest.max()) - scale, scale - float(shortest.min()))
    if result.norm.ratio < 0 or not worst <= result.norm.value:
        lengthened = np.maximum(np.abs(shortest - scale), np.abs(longest - scale))
        result.norm.update(positions, lengthened, floor)


def _highest_shares(shares: RealRows, rows: Integers) -> Iterator[tuple[float, ...]]:
    """Return the highest shares of every few rows, and of every few pairs if there are many."""
    highest = np.maximum.reduceat(shares, rows, axis=0)  # (points, pairs)
    step = -(-shares.shape[1] // MAP_PAIRS)
    highest = np.maximum.reduceat(highest, np.arange(0, shares.shape[1], step), axis=1)
    return map(tuple, highest.tolist())


def hidden_fault(
    rotation: SubjectRotation, reference: Reference, tolerance: Tolerance, survey: Survey
) -> Fault | None:
    """Return a deviation within the tolerance that no rounding explains; None if there is none.

    ``survey`` is that of the rotation.
    """
    if not tolerance.drifts or reference.coordinates is not None or survey.reference.ratio > 1:
        return None
    drift = Drift(reference.frequencies, tolerance.floor / reference.scale)
    ends = [abs(indices[end]) for indices in rotation.places.positions.ranges for end in (0, -1)]
    if drift.allows_all(survey.largest / reference.scale, max(ends)):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        for block in rotation.blocks():
            right = reference.rotation.at(block.positions)  # (n, pairs)
            drift.update(block.positions, without_growth(block, reference), right, block.seen)
    return drift.fault(reference.scale)


class Partner(Record):
    """The position whose score with the worst one changes most in its pair, and the change.

    ``change`` is None if more than this pair affects the scores, so that only a bound is known.
    """

    position: int
    change: float | None


class Consistency(Record):
    """The distance of a subject from its nearest rotations, at every position.

    ``partner`` belongs to the worst position, None if everything is within its limit. ``longest``
    is the largest factor on any length.
    """

    rotations: Rotations
    worst: WorstDeviation
    stretch: float
    longest: float
    partner: Partner | None


def consistency(
    rotation: SubjectRotation,
    reference: Reference,
    tolerance: Tolerance,
    *,
    progress: Progress | None = None,
) -> Consistency:
    """Return the rotations nearest to a subject, and its distance from them.

    Tolerances follow the angles of those rotations, not of the reference.
    """
    sample = rotation.read(rotation.places.sample())
    factors, mirrored = without_growth(sample, reference), sample.mirrored
    mirrors = mirrored is not None and np.abs(mirrored).sum() > np.abs(factors).sum()
    main = mirrored if mirrors and mirrored is not None else factors
    coarse = unit(rotation.dtype) > unit("float32")
    # The floor of a tiny amplitude may underflow to 0.
    growth = tolerance.per_angle / max(tolerance.floor, float(np.finfo(np.float64).tiny))
    rotations = _nearest_rotations(
        sample.positions, main, reference, coarse=coarse, growth=growth, tolerance=tolerance
    )
    rates = _tolerance_frequencies(rotations, reference)
    other = None
    if mirrored is not None:
        units = _factors_of(rotations, reference, slice(None))(sample.positions)
        rest = (factors if mirrors else mirrored) * units.conj()
        other = np.where(np.isfinite(rest), rest, 0).mean(axis=0)  # (pairs,)
    worst, longest = WorstDeviation(), 0.0

    def parts_of(pairs: slice) -> Callable[[SubjectBlock], tuple[_MapParts, _MapParts]]:
        """Return a function of a block: the main and other parts of pairs, and the fitted ones."""
        units_at = _factors_of(rotations, reference, pairs)

        def parts(block: SubjectBlock) -> tuple[_MapParts, _MapParts]:
            major, minor = without_growth(block, reference), block.mirrored
            if mirrors and minor is not None:
                major, minor = minor, major
            units = units_at(block.positions)
            fitted_minor = 0 if other is None else units * other[pairs]
            own = major[:, pairs], 0 if minor is None else minor[:, pairs]
            return own, (units * rotations.amplitudes[pairs], fitted_minor)

        return parts

    every_part = parts_of(slice(None))
    with np.errstate(invalid="ignore", over="ignore"):
        for block in rotation.blocks(progress):
            (major, minor), (fitted_major, fitted_minor) = every_part(block)
            rest_norm = 0.0 if block.rest is None else block.rest[:, None]
            sizes = np.abs(major) + np.abs(minor)  # (n, pairs)
            longest = max(longest, float((sizes + rest_norm).max()))
            missed = np.abs(major - fitted_major) + rest_norm  # (n, pairs)
            missed += np.abs(minor - fitted_minor)
            if block.seen is not None:
                missed = np.where(block.seen, missed, 0.0)
            followed = reference.angle_positions(block.positions, rotations.axes)
            worst.update(block.positions, missed, tolerance.cells(followed, rates))
    part = parts_of(slice(worst.pair, worst.pair + 1))
    partner = _worst_partner(rotation, part, worst) if worst.ratio > 1 else None
    stretch = float(np.abs(rotations.amplitudes).max())
    if other is not None:
        stretch += float(np.abs(other).max())
    return Consistency(rotations, worst, stretch, longest, partner)


def _worst_partner(
    rotation: SubjectRotation,
    parts: Callable[[SubjectBlock], tuple[_MapParts, _MapParts]],
    worst: WorstDeviation,
) -> Partner | None:
    """Return the n, perhaps m itself, whose score with the worst position m is most wrong.

    ``parts`` returns the parts of the worst pair alone.
    """
    at_worst = rotation.read(np.array([worst.row], np.int64))
    of_worst, right_of_worst = parts(at_worst)
    known = at_worst.rest is None
    best: tuple[float, int] | None = None
    with np.errstate(invalid="ignore", over="ignore"):
        for block in rotation.blocks():
            known = known and block.rest is None
            of_block, right = parts(block)
            differences = zip(
                _score_parts(of_worst, of_block), _score_parts(right_of_worst, right), strict=True
            )
            changes = np.hstack([np.abs(a - b) for a, b in differences]).sum(axis=1)  # (n,)
            if block.seen is not None:
                changes = np.where(block.seen[:, worst.pair], changes, -1.0)
            changes = np.where(np.isfinite(changes), changes, -1.0)
            row = int(np.argmax(changes))
            if changes[row] > (-1.0 if best is None else best[0]):
                best = float(changes[row]), int(block.positions[row])
    return None if best is None else Partner(best[1], best[0] if known else None)


def _score_parts(left: _MapParts, right: _MapParts) -> tuple[ComplexRows, ComplexRows]:
    """Return the two parts of A_mᵀ A_n within a dimension pair: of x, and of x̄.

    With A x = z·x + w·x̄, the transpose is z̄·x + w·x̄. The sum of their magnitudes is the norm. It
    stays the same if z and w are exchanged in both.
    """
    z, w = left
    other_z, other_w = right
    return (
        np.conj(z) * other_z + w * np.conj(other_w),
        np.conj(z) * other_w + w * np.conj(other_z),
    )


def _nearest_rotations(
    positions: Integers,
    factors: ComplexRows,
    reference: Reference,
    *,
    coarse: bool,
    growth: float,
    tolerance: Tolerance,
) -> Rotations:
    """Return the nearest rotations: each pair's fitted frequency, or a known one that is nearer.

    Positions with a gap do not distinguish some frequencies. There, distances are compared as
    shares of the tolerance.
    """
    if reference.coordinates is not None:
        return _nearest_on_axes(positions, factors, reference, growth=growth)
    free = fit(positions, factors, growth=growth)
    scale = complex(reference.scale)
    if free.frequencies.shape != reference.frequencies.shape:
        return free
    gaps = free.gap > 1
    best = free
    least = _largest_errors(free, positions, factors, tolerance if gaps else None)
    known = [reference.frequencies, -reference.frequencies]
    # Judgement: a fit with errors below 1e-3 is good enough; known rotations take time.
    if (least > 1).any() if gaps else (least > 1e-3).any() and (positions.size < SPARSE or coarse):
        from posenc_cli.inference.frequency_rules import likely_alternatives

        known += [alternative.frequencies for alternative in likely_alternatives(reference)]
    tried = [
        with_frequencies(positions, factors, alternative, growth=growth) for alternative in known
    ]
    tried += [
        replace(alternative, amplitudes=np.full(free.amplitudes.shape, scale))
        for alternative in tried
    ]
    for other in tried:
        missed = _largest_errors(other, positions, factors, tolerance if gaps else None)
        nearer = missed < least
        least = np.where(nearer, missed, least)
        best = Rotations(
            np.where(nearer, other.frequencies, best.frequencies),
            np.where(nearer, other.amplitudes, best.amplitudes),
            free.gap,
        )
    return best


def _nearest_on_axes(
    positions: Integers,
    factors: ComplexRows,
    reference: Reference,
    *,
    growth: float,
) -> Rotations:
    """Return the nearest rotations along axes: those of the reference, or fitted ones if nearer."""
    coordinates = reference.coordinates
    assert coordinates is not None
    assert coordinates.at is not None
    along = np.stack(coordinates.at(positions), axis=1)  # (P, axes)
    free = fit_on_axes(along, factors, growth=growth)
    if free.frequencies.shape != reference.frequencies.shape:
        return free
    own = with_frequencies(
        reference.angle_positions(positions), factors, reference.frequencies, growth=growth
    )
    nearer = _largest_errors(
        own, reference.angle_positions(positions), factors, None
    ) > _largest_errors(free, reference.angle_positions(positions, free.axes), factors, None)
    return Rotations(
        np.where(nearer, free.frequencies, own.frequencies),
        np.where(nearer, free.amplitudes, own.amplitudes),
        free.gap,
        tuple(np.where(nearer, np.array(free.axes), np.array(coordinates.axes)).tolist()),
    )


def _tolerance_frequencies(rotations: Rotations, reference: Reference) -> Reals:
    """Return the frequencies that tolerances follow.

    Positions with a gap determine a frequency only modulo 2π/gap. There, the reference's is taken
    if it is higher, since a frequency that looks low may be high.
    """
    right = reference.frequencies
    if rotations.gap == 1 or right.shape != rotations.frequencies.shape:
        return rotations.frequencies
    return np.maximum(np.abs(rotations.frequencies), np.abs(right))


def _largest_errors(
    rotations: Rotations,
    positions: Integers,
    factors: ComplexRows,
    tolerance: Tolerance | None,
) -> Reals:
    """Return the largest error of each pair, as a share of the tolerance if there is one."""
    missed = np.abs(factors - rotations.at(positions))  # (P, pairs)
    if tolerance is not None:
        missed /= tolerance.cells(positions, rotations.frequencies)
    return np.asarray(np.where(np.isfinite(missed), missed, np.inf).max(axis=0))


def _factors_of(
    rotations: Rotations, reference: Reference, pairs: slice
) -> Callable[[Integers], ComplexRows]:
    """Return the function of factors exp(i·p·ω) of fitted rotations, exact at any position."""
    along = reference.coordinates
    if along is not None:
        along = replace(along, axes=(rotations.axes or along.axes)[pairs])
    return RotationFactors.of(rotations.frequencies[pairs], reference.engine, along).at

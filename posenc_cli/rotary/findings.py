"""Whether a subject rotates q and k as RoPE must: the findings, and why they cover all.

**What is checked.** A subject applies a linear map A_p of R^d at position p, to queries and keys
alike, so a score is qᵀ A_mᵀ A_n k, and for all unit q and k at once the largest change of a score
is the spectral norm of the change of the matrix A_mᵀ A_n.

**Relative, all pairs of positions.** If A_mᵀ A_n depends only on n − m for all integers, then
A_pᵀ A_p = S² is the same for every p, and where S is invertible A_p = Q G^p S with orthogonal Q and
G; in a plane that S does not distort, that is a factor a·u^p with |u| = 1. Conversely, let
A_p = U^p S + E_p with a rotation U and ‖E_p‖ ≤ e_p. Then for every m and n

    ‖A_mᵀ A_n − S U^(n−m) S‖ ≤ ‖S‖ (e_m + e_n) + e_m e_n,

by the triangle inequality and ‖U‖ = 1. So it is enough to know e_p for each of the L positions:
every one of the L² pairs of positions, and every q and k, is then within the bound, in O(L·d).
For correct code e_p ≤ t_p, the tolerance at p, and the right side is at most
‖S‖ (t_m + t_n) + t_m t_n for each pair of positions. Where some e_p > t_p the finding fails; it
reports 2‖S‖e_p + e_p² for the largest such e_p, but no more than ‖S‖² + max ‖A‖², which no change
exceeds. The bound is sharp: phases that err by ±e at two positions change a score by 2 sin e.

U is the reference's own rotation where the subject equals the reference, else the one that is
nearest to the subject (:mod:`posenc_cli.inference.fitting`). A block that rotates no plane counts
wholly as E: off the dimension pairs the Frobenius norm of the rest of the matrix bounds it, and
within a pair x → z·x + w·x̄ has the norm |z| + |w|.

**Positions with gaps.** A function of n − m on a few positions says little, since most distances
occur once. Asked is what the property for all integers implies: one rotation U for all of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.inference.fitting import Rotations, fit, fit_on_axes, with_frequencies
from posenc_cli.inference.reference import Sample, Turns
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record, replace
from posenc_cli.rotary.drift import Drift

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.tolerance import Tolerance
    from posenc_cli.inference.turning import Progress, SubjectBlock, Turning
    from posenc_cli.numerics.arrays import Complexes, ComplexRows, Integers, RealRows, Reals
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.rotary.codes import FindingName

    _MapParts = tuple[ComplexRows, ComplexRows | None]
    """The parts of a map, of x and of x̄ (None: 0), at some positions."""

    _PairParts = tuple[Complexes, Complexes | int]
    """The same of one pair."""

CURVE_POINTS = 120
"""Points of the error by position, at most: more than columns of a terminal."""

MAP_PAIRS = 128
"""Pairs of the map of errors, at most: of more, one stands for some, with the largest of them."""

SPARSE = 128
"""Positions below which a fit may miss the rotation that is there: known ones are tried as well,
as they are where half a precision blurs it."""


class Finding(Record):
    """One check: whether it holds, the worst deviation, what was allowed there, and where.

    ``worst`` and ``tolerance`` are None where a value is not a number, or there is none to give.
    ``worst_is`` says whether ``worst`` was measured at ``at``, or bounds what occurs anywhere.
    """

    check: FindingName
    ok: bool
    worst: float | None
    tolerance: float | None
    at: dict[str, int] | None
    message: str
    worst_is: Literal["value", "bound"] = "value"


class WorstDeviation:
    """The largest deviation: among those above what is allowed there, if any are.

    ``ratio`` is the largest share of what is allowed, which may be reached elsewhere, if it is
    above 1; else one of the shares.
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
        self.row = self.rows = 0

    def update(
        self,
        positions: Integers,
        values: RealRows,
        allowed: RealRows,
    ) -> None:
        """Take in these (n, pairs) values of the next rows; NaN is worse than all."""
        self.rows += positions.size
        ratios = values / allowed  # (n, pairs)
        highest = float(ratios.max())
        highest = math.inf if math.isnan(highest) else highest
        above = highest > 1
        if math.isnan(self.value) or (self.ratio > 1 and not above):
            return
        index = int(np.argmax(np.where(ratios <= 1, -1.0, values) if above else values))
        row, pair = divmod(index, values.shape[1])
        value = float(values[row, pair])
        if self.ratio < 0 or (above and self.ratio <= 1) or not value <= self.value:
            self.value, self.row = value, self.rows - positions.size + row
            self.allowed = float(np.broadcast_to(allowed, values.shape)[row, pair])
            self.position, self.pair = int(positions[row]), pair
        self.ratio = max(self.ratio, highest)


def cell_differences(
    block: SubjectBlock, reference: Reference, dtype: DType
) -> tuple[RealRows, RealRows]:
    """How far entries are from the correctly rounded ones, and in units in the last place of these.

    A mirrored part is the distance of two entries that are one.
    Shape: (positions, 2 pairs) each, cosine and sine in turn.
    """
    right = reference.cells(block.positions, dtype).view(np.float64)
    cells = np.ascontiguousarray(block.turned).view(np.float64)
    differences = np.abs(cells - right)
    if block.mirrored is not None:
        differences = differences + np.abs(np.ascontiguousarray(block.mirrored).view(np.float64))
    exponents = np.maximum(np.frexp(right)[1] - 1, dtype.min_exponent)
    return differences, differences / np.ldexp(1.0, exponents - dtype.precision + 1)


class WrongCells:
    """The entries of tables that are not the correctly rounded ones, and how far the worst is."""

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


class ReferenceDeviation(WorstDeviation):
    """The largest deviation from the reference, and where the first ones are.

    ``first_wrong`` is the first row with an entry past what is allowed. ``missing`` counts entries
    that are no numbers, the first of which is ``missing_at`` (position, pair).
    """

    def __init__(self) -> None:
        super().__init__()
        self.first_wrong: int | None = None
        self.missing = 0
        self.missing_at: tuple[int, int] | None = None

    def update(
        self,
        positions: Integers,
        values: RealRows,
        allowed: RealRows,
    ) -> None:
        """Take in these (n, pairs) values of the next rows; NaN is worse than all."""
        wrong = ~(values <= allowed)  # (n, pairs)
        if wrong.any():
            if self.first_wrong is None:
                self.first_wrong = self.rows + int(np.argmax(wrong.any(axis=1)))
            missing = ~np.isfinite(values)
            if self.missing_at is None and missing.any():
                row, pair = divmod(int(np.argmax(missing)), missing.shape[1])
                self.missing_at = int(positions[row]), pair
            self.missing += int(np.count_nonzero(missing))
        super().update(positions, values, allowed)


class Survey:
    """What one pass over a subject shows, compared with the factors that are right.

    ``shortest`` and ``longest`` are the least and the most that lengths are multiplied by,
    ``stray`` the largest norm of what rotates no dimension pair. ``errors`` are the largest by
    position, and ``shares`` what each pair has there of what is allowed.
    """

    def __init__(self, cells: WrongCells | None = None) -> None:
        self.reference = ReferenceDeviation()
        self.norm, self.identity = WorstDeviation(), WorstDeviation()
        self.shortest, self.longest = math.inf, 0.0
        self.largest = self.stray = 0.0
        self.errors: list[tuple[int, float]] = []
        self.shares: list[tuple[float, ...]] = []
        self.drift: Drift | None = None
        self.cells = cells


def without_growth(block: SubjectBlock, reference: Reference) -> ComplexRows:
    """The factors of a block, freed of the amplitude that grows with the position by design.

    Keys shrink as queries grow, so that the amplitude of a score depends on n − m alone.
    """
    if block.turned.shape[1] != reference.pairs:
        return block.turned
    growth = reference.growth_at(block.positions)
    return block.turned if growth is None else block.turned / growth


def sample_of(
    block: SubjectBlock, reference: Reference, tolerance: Tolerance, amplitude: float = 1.0
) -> Sample:
    """A block as what hypotheses are compared with."""
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
    turning: Turning,
    reference: Reference,
    tolerance: Tolerance,
    *,
    rounded_to: DType | None = None,
    progress: Progress | None = None,
) -> Survey:
    """One pass over all positions of a subject that has as many pairs as the reference.

    With ``rounded_to`` its factors are entries of tables, and compared with those of that format.
    """
    result = Survey(cells=None if rounded_to is None else WrongCells(rounded_to))
    if tolerance.drifts and reference.coordinates is None:
        result.drift = Drift(reference.frequencies, tolerance.floor / reference.scale)
    per_point = max(1, -(-turning.places.count // CURVE_POINTS))
    with np.errstate(invalid="ignore", over="ignore"):
        for block in turning.blocks(progress):
            _survey_block(result, block, reference, tolerance, per_point)
    return result


def _survey_block(
    result: Survey, block: SubjectBlock, reference: Reference, tolerance: Tolerance, per_point: int
) -> None:
    if result.cells is not None:
        result.cells.update(block, reference)
    positions, factors = block.positions, without_growth(block, reference)
    stray = block.stray()
    # In a pair lengths are multiplied by | |z| − |w| | to |z| + |w|; all else adds its norm.
    size = np.abs(factors)
    shortest, longest = size, size
    right = reference.turns.at(positions)  # (n, pairs)
    deviation = np.abs(factors - right)  # (n, pairs)
    if result.drift is not None and result.reference.ratio <= 1:
        result.drift.update(positions, factors, right, block.seen)
    if stray is not None:
        result.stray = max(result.stray, float(stray.max()))
        deviation = deviation + stray
        mirrored = 0.0 if block.mirrored is None else np.abs(block.mirrored)
        rest = 0.0 if block.rest is None else block.rest[:, None]
        shortest, longest = np.abs(size - mirrored) - rest, size + mirrored + rest
    lengthened = np.abs(shortest - reference.scale)
    if longest is not shortest:
        lengthened = np.maximum(lengthened, np.abs(longest - reference.scale))
    if block.seen is not None:
        shortest = np.where(block.seen, shortest, reference.scale)
        longest = np.where(block.seen, longest, reference.scale)
        lengthened = np.where(block.seen, lengthened, 0.0)
        deviation = np.where(block.seen, deviation, 0.0)
    followed = reference.angle_positions(positions)
    limits = tolerance.cells(followed, reference.frequencies)
    floor = np.full((1, 1), tolerance.floor)
    result.reference.update(positions, deviation, limits)
    result.norm.update(positions, lengthened, floor)
    # Of axes of their own, position 0 may lie anywhere.
    start = (followed.reshape(positions.size, -1) == 0).all(axis=1)  # (n,)
    if start.any():
        result.identity.update(positions[start], deviation[start], floor)
    result.shortest = min(result.shortest, max(float(np.fmin.reduce(shortest, axis=None)), 0.0))
    result.longest = max(result.longest, float(np.fmax.reduce(longest, axis=None)))
    result.largest = max(result.largest, float(deviation.max()))
    if tolerance.fixed is not None:
        limits = np.full((1, 1), tolerance.fixed)
    _take_in_errors(result, positions, deviation, limits, per_point)


def _take_in_errors(
    result: Survey, positions: Integers, deviation: RealRows, limits: RealRows, per_point: int
) -> None:
    """Take in the largest errors of each few rows, and what share of what is allowed they are."""
    rows = np.arange(0, positions.size, per_point)
    peaks = np.maximum.reduceat(deviation, rows, axis=0)  # (points, pairs)
    result.errors += zip(positions[rows].tolist(), peaks.max(axis=1).tolist(), strict=True)
    if not limits.any():  # nothing is allowed, so that no error is a share of it
        return
    shares = np.maximum.reduceat(deviation / limits, rows, axis=0)
    step = -(-shares.shape[1] // MAP_PAIRS)
    shares = np.maximum.reduceat(shares, np.arange(0, shares.shape[1], step), axis=1)
    result.shares += map(tuple, shares.tolist())


class Partner(Record):
    """The position whose scores with the worst one change most, in its pair, and by how much.

    ``change`` is None where more than the pair has a part in its scores, and only a bound is known.
    """

    position: int
    change: float | None


class Consistency(Record):
    """How near a subject is to rotations of its own, at every position.

    ``partner`` goes with the worst position, None where nothing is worse than allowed.
    ``longest`` is the most that any length is extended.
    """

    rotations: Rotations
    worst: WorstDeviation
    stretch: float
    longest: float
    partner: Partner | None


def consistency(
    turning: Turning,
    reference: Reference,
    tolerance: Tolerance,
    *,
    progress: Progress | None = None,
) -> Consistency:
    """The rotations that a subject comes nearest to, and by how much it misses them anywhere.

    Tolerances follow the angles of those rotations, not of the reference.
    """
    sample = turning.read(turning.places.sample())
    factors, mirrored = without_growth(sample, reference), sample.mirrored
    mirrors = mirrored is not None and np.abs(mirrored).sum() > np.abs(factors).sum()
    main = mirrored if mirrors and mirrored is not None else factors
    coarse = unit(turning.dtype) > unit("float32")
    # An amplitude near the least float64 leaves no room that it could state.
    growth = tolerance.per_angle / max(tolerance.floor, float(np.finfo(np.float64).tiny))
    rotations = _nearest(
        sample.positions, main, reference, coarse=coarse, growth=growth, tolerance=tolerance
    )
    rates = _rates(rotations, reference)
    turns = _turns(rotations, reference)
    other = None
    if mirrored is not None:
        minor = factors if mirrors else mirrored
        rest = minor * turns(sample.positions).conj()
        other = np.where(np.isfinite(rest), rest, 0).mean(axis=0)  # (pairs,)
    worst, longest = WorstDeviation(), 0.0

    def parts(block: SubjectBlock) -> tuple[_MapParts, _MapParts]:
        """What a block does and what the rotations would do: each the main part and the other."""
        major, minor = without_growth(block, reference), block.mirrored
        if mirrors and minor is not None:
            major, minor = minor, major
        units = turns(block.positions)
        fitted_minor = None if other is None else units * other
        return (major, minor), (units * rotations.amplitudes, fitted_minor)

    with np.errstate(invalid="ignore", over="ignore"):
        for block in turning.blocks(progress):
            (major, minor_part), (fitted_major, fitted_minor) = parts(block)
            beside = 0.0 if block.rest is None else block.rest[:, None]
            sizes = np.abs(major) + (0 if minor_part is None else np.abs(minor_part))  # (n, pairs)
            longest = max(longest, float((sizes + beside).max()))
            missed = np.abs(major - fitted_major) + beside  # (n, pairs)
            if minor_part is not None:
                missed = missed + np.abs(minor_part - (0 if fitted_minor is None else fitted_minor))
            if block.seen is not None:
                missed = np.where(block.seen, missed, 0.0)
            followed = reference.angle_positions(block.positions, rotations.axes)
            allowed = tolerance.cells(followed, rates)
            worst.update(block.positions, missed, allowed)
    partner = _partner(turning, parts, worst) if worst.ratio > 1 else None
    stretch = float(np.abs(rotations.amplitudes).max())
    if other is not None:
        stretch += float(np.abs(other).max())
    return Consistency(rotations, worst, stretch, longest, partner)


def _partner(
    turning: Turning,
    parts: Callable[[SubjectBlock], tuple[_MapParts, _MapParts]],
    worst: WorstDeviation,
) -> Partner | None:
    """The n for which the score of m, the worst position, and n is farthest from the rotations'.

    Every n is looked at, m itself too. None where a score of m is not a number.
    """

    def column(parts_of_map: _MapParts) -> _PairParts:
        major, minor = parts_of_map
        return major[:, worst.pair], 0 if minor is None else minor[:, worst.pair]

    def read(block: SubjectBlock) -> tuple[_PairParts, _PairParts]:
        of_block, right = parts(block)
        return column(of_block), column(right)

    at_worst = turning.read(np.array([worst.row], np.int64))
    of_worst, right_of_worst = read(at_worst)
    known = at_worst.rest is None
    best: tuple[float, int] | None = None
    with np.errstate(invalid="ignore", over="ignore"):
        for block in turning.blocks():
            known = known and block.rest is None
            of_block, right = read(block)
            changes = sum(
                np.abs(a - b)
                for a, b in zip(
                    _scores(of_worst, of_block), _scores(right_of_worst, right), strict=True
                )
            )
            if block.seen is not None:
                changes = np.where(block.seen[:, worst.pair], changes, -1.0)
            changes = np.where(np.isfinite(changes), changes, -1.0)
            row = int(np.argmax(changes))
            if changes[row] > (-1.0 if best is None else best[0]):
                best = float(changes[row]), int(block.positions[row])
    return None if best is None else Partner(best[1], best[0] if known else None)


def _scores(left: _PairParts, right: _PairParts) -> tuple[Complexes, Complexes]:
    """The two parts of A_mᵀ A_n within a dimension pair: of x, and of x̄.

    With A x = z·x + w·x̄, whose transpose is z̄·x + w·x̄. The sum of their sizes is the norm, and
    is the same where z and w, of both, change places.
    """
    z, w = left
    other_z, other_w = right
    return (
        np.conj(z) * other_z + w * np.conj(other_w),
        np.conj(z) * other_w + w * np.conj(other_z),
    )


def _nearest(
    positions: Integers,
    factors: ComplexRows,
    reference: Reference,
    *,
    coarse: bool,
    growth: float,
    tolerance: Tolerance,
) -> Rotations:
    """The nearest rotations: each pair's fitted frequency, or a known one where that is nearer.

    Positions with a gap show several frequencies alike: there a known one is taken where it is
    nearer by what it may miss.
    """
    if reference.coordinates is not None:
        return _nearest_on_axes(positions, factors, reference, growth=growth)
    free = fit(positions, factors, growth=growth)
    scale = complex(reference.scale)
    if free.frequencies.shape != reference.frequencies.shape:
        return free
    gaps = free.gap > 1
    best = free
    least = _missed(free, positions, factors, tolerance if gaps else None)
    known = [reference.frequencies, -reference.frequencies]
    # Judgement: a fit that misses by less than 1e-3 needs no help, and known rotations cost time.
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
        missed = _missed(other, positions, factors, tolerance if gaps else None)
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
    """The nearest rotations along axes: those of the reference, or fitted where they are nearer."""
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
    nearer = _missed(own, reference.angle_positions(positions), factors, None) > _missed(
        free, reference.angle_positions(positions, free.axes), factors, None
    )
    return Rotations(
        np.where(nearer, free.frequencies, own.frequencies),
        np.where(nearer, free.amplitudes, own.amplitudes),
        free.gap,
        tuple(np.where(nearer, np.array(free.axes), np.array(coordinates.axes)).tolist()),
    )


def _rates(rotations: Rotations, reference: Reference) -> Reals:
    """The frequencies that tolerances follow.

    Positions with a gap show a frequency modulo 2π/gap alone: then the reference's is taken where
    it is faster, for what looks slow may be fast.
    """
    right = reference.frequencies
    if rotations.gap == 1 or right.shape != rotations.frequencies.shape:
        return rotations.frequencies
    return np.maximum(np.abs(rotations.frequencies), np.abs(right))


def _missed(
    rotations: Rotations,
    positions: Integers,
    factors: ComplexRows,
    tolerance: Tolerance | None,
) -> Reals:
    """By how much each pair is missed at worst, as a share of the tolerance if there is one."""
    missed = np.abs(factors - rotations.at(positions))  # (P, pairs)
    if tolerance is not None:
        missed /= tolerance.cells(positions, rotations.frequencies)
    return np.asarray(np.where(np.isfinite(missed), missed, np.inf).max(axis=0))


def _turns(rotations: Rotations, reference: Reference) -> Callable[[Integers], ComplexRows]:
    """The factors exp(i·p·ω) of fitted rotations, exact at any position."""
    along = reference.coordinates
    if along is not None and rotations.axes is not None:
        along = replace(along, axes=rotations.axes)
    return Turns.of(rotations.frequencies, reference.engine, along).at

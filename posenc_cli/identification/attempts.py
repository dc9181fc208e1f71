"""What is tried of an array: in each form that it may be in, the likeliest hypotheses first.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
import sys
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.identification.exhaustive_check import census, row_positions
from posenc_cli.identification.grids import MOST_PLACES, grid_hypotheses
from posenc_cli.identification.matrix_forms import certain_forms, possible_forms
from posenc_cli.identification.other_matrices import row_hypotheses
from posenc_cli.identification.score_profiles import BiasProfile, profiles_of
from posenc_cli.identification.score_trials import score_census, try_scores
from posenc_cli.identification.scores import bias_hypotheses, pair_hypotheses, slope_hypotheses
from posenc_cli.identification.sharpening import sharpened
from posenc_cli.identification.waves import (
    angle_hypotheses,
    fallback_hypotheses,
    frequency_hypotheses,
    function_hypotheses,
    placed_hypotheses,
    wave_hypotheses,
)
from posenc_cli.inference.trial import Hypothesis, Trial, try_hypothesis
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from posenc_cli.inference.differences import Census
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import NumberArray

MOST_TRIALS = 48
"""Of one way to read an array: judgement, for a trial takes milliseconds, and the dearest fit by
chance if any does."""
MORE_TRIALS = 5
"""After the first that fits: of plain ones that fit, some leave less over."""
OTHER_READINGS = 1
"""Trials of another way to read the array once something fits."""
_MUCH_DEARER = 2.0
"""Of the cost: judgement, what costs so much more is not believed in place of what fits."""
_PLAIN = 4.0
"""What a hypothesis costs that other forms of the array need not be tried beside: judgement, more
than any rule with numbers that people use, and as much as the plainest with a mistake."""
_NOTHING = (True, True, sys.maxsize, 0.0, math.inf, math.inf)
"""The rank of no trial, behind all others."""
_DAMAGED = 0.02
"""Of the rows in no regular order, that may be wrong."""
_DAMAGE = 0.02
"""What no row is farther off by, none is damaged by: noise in all of them is."""
_LEAST_NUMBERS = 3
"""In a row: any two are a ladder of some base, and slopes of some largest bias."""
_AXES_OF_IMAGES = 3
"""Rows, columns and channels."""
_WHOLE = 1 << 13
"""Rows in no regular order that are all looked at, each of which says where it stands."""
_LEAST_ROWS = 12
"""Rows of which a half still shows the rates of waves."""


class Attempt(Record):
    """A trial, and what it takes to hold it against every cell."""

    trial: Trial
    evidence: Evidence
    profile: BiasProfile | None = None

    def census(self) -> Census | None:
        """What the hypothesis leaves over of all cells, None where that cannot be known."""
        if self.profile is not None:
            return score_census(self.trial, self.profile, self.evidence)
        return census(self.trial, self.evidence)


def attempts_of_forms(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """What was tried of an array and of the matrices that may be in it, the best first."""
    heads = _attempts_of_heads(evidence)
    if _is_plain(heads):
        return heads
    known = [heads] if heads else []
    for inner in certain_forms(evidence):
        known.append(attempts_of_forms(inner, notes))
        if _is_plain(known[-1]):
            return known[-1]
    known.append(_attempts(evidence, notes))
    fits_most = any(attempt.trial.fits_most for attempt in known[-1])
    for inner in () if fits_most else possible_forms(evidence):
        known.append(attempts_of_forms(inner, notes))
        if _is_plain(known[-1]):
            break
    return best_of(known)


def best_of(known: Sequence[list[Attempt]]) -> list[Attempt]:
    """The attempts whose best one stands first."""
    return min(known, key=lambda attempts: attempts[0].trial.rank if attempts else _NOTHING)


def _attempts_of_heads(evidence: Evidence) -> list[Attempt]:
    """What a cube of heads is as a bias: looked at before any form, for heads may be alike."""
    square = len(evidence.shape) == _AXES_OF_IMAGES and evidence.shape[1] == evidence.shape[2]
    return _bias_attempts(evidence) if square else []


def _is_plain(attempts: Sequence[Attempt]) -> bool:
    """Whether something fits with numbers that people use, and nothing wrong."""
    return any(a.trial.fits and a.trial.hypothesis.cost < _PLAIN for a in attempts)


def _attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """What was tried, the best first."""
    if len(evidence.shape) == 1:
        return _row_attempts(evidence, notes) if evidence.moderate else []
    if len(evidence.shape) > 2:
        return _cube_attempts(evidence, notes)
    attempts = _matrix_attempts(evidence)
    if evidence.blank_rows == (0,) and not any(attempt.trial.fits for attempt in attempts):
        rest = replace(
            evidence, arrays=tuple(a[1:] for a in evidence.arrays), skipped=evidence.skipped + 1
        )
        without = _matrix_attempts(rest)
        if without and without[0].trial.fits:
            return without
    return attempts


def _row_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """One row of numbers: frequencies, slopes, or a row of a table."""
    if evidence.count < _LEAST_NUMBERS:
        usual = [slopes for slopes in slope_hypotheses(evidence) if slopes.cost < 1]
        if not usual:
            notes.append("two numbers show too little to choose: they may be of any ladder")
        return _attempt_all(usual, evidence, None)
    if len(evidence.arrays) > 1:
        return _placed_row_attempts(evidence, notes) or []
    hypotheses = [*frequency_hypotheses(evidence), *slope_hypotheses(evidence)]
    attempts = _attempt_all(hypotheses, evidence, None)
    if attempts and attempts[0].trial.fits:
        return attempts
    placed = _placed_row_attempts(evidence, notes)
    return attempts if placed is None else placed


def _placed_row_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt] | None:
    """One row of a table, wherever it stands; none where several fit, None where nothing does."""
    row = replace(evidence, arrays=tuple(array[None] for array in evidence.arrays))
    placed = _attempt_all(placed_hypotheses(row), row, None)
    fitting = [attempt.trial for attempt in placed if attempt.trial.fits]
    if not fitting:
        return None
    if all(_same_rates(fitting[0], trial) for trial in fitting[1:]):
        return placed
    notes.append("one row shows too little to choose: several encodings fit it")
    return []


def _same_rates(a: Trial, b: Trial) -> bool:
    """Whether two trials put the same waves at the same positions."""
    first, second = a.bound.content.waves, b.bound.content.waves
    where, there = a.hypothesis.positions, b.hypothesis.positions
    if first is None or second is None or where is None or there is None:
        return False
    same = np.array_equal(np.asarray(first.frequencies(np)), np.asarray(second.frequencies(np)))
    return same and np.array_equal(where, there)


def _matrix_attempts(evidence: Evidence) -> list[Attempt]:
    attempts = _bias_attempts(evidence)
    if not evidence.moderate:
        return attempts
    attempts += _wave_and_row_attempts(evidence)
    if not _is_settled(attempts):
        attempts += _attempt_all(fallback_hypotheses(evidence), evidence, None)
    # Columns that fit may be those in which two rules hardly differ, and a grid of one axis a line.
    if not any(
        (
            each.trial.fits_most
            and not each.trial.strained
            and (each.trial.fits or each.trial.hypothesis.cost < _MUCH_DEARER)
        )
        or (not each.trial.fits_most and each.trial.residual < _DAMAGE)
        for each in attempts
    ):
        attempts += _attempts_of_parts(evidence)
    if not any(attempt.trial.fits_most for attempt in attempts):
        attempts += _attempt_all(placed_hypotheses(evidence), evidence, None)
    attempts.sort(key=_rank)
    if attempts and attempts[0].trial.fits_most and not attempts[0].profile:
        regular = row_positions(attempts[0].trial.hypothesis, evidence) is not None
        if not regular and evidence.every.size < evidence.count <= _WHOLE:
            whole = replace(evidence, only=np.arange(evidence.count), damaged=_DAMAGED)
            return _matrix_attempts(whole)
    return attempts


def _wave_and_row_attempts(evidence: Evidence) -> list[Attempt]:
    attempts = _attempt_all(row_hypotheses(evidence), evidence, None)
    attempts += _attempt_all(angle_hypotheses(evidence), evidence, None)
    if any(attempt.trial.fits and attempt.trial.equal == 1 for attempt in attempts):
        return attempts
    for groups in (
        wave_hypotheses(evidence),
        (grid_hypotheses(evidence),),
        function_hypotheses(evidence),
    ):
        for group in groups:
            more = OTHER_READINGS if _is_settled(attempts) else MORE_TRIALS
            attempts += _attempt_all(group, evidence, None, ordered=True, more=more)
        if _is_settled(attempts):
            break  # what pairs of columns explain, no column does alone
    return attempts


def _is_settled(attempts: Sequence[Attempt]) -> bool:
    """Whether something fits that needs no fitted number and tolerance at once."""
    return any(attempt.trial.fits and not attempt.trial.strained for attempt in attempts)


def _attempts_of_parts(evidence: Evidence) -> list[Attempt]:
    """Attempts that some of the rows suggest, for others may be damaged."""
    rows = evidence.rows
    if rows.size < _LEAST_ROWS:
        return []
    half = rows.size // 2
    for half_rows in (rows[:half], rows[half:]):
        part = replace(evidence, only=half_rows)
        trials = [attempt.trial for attempt in _wave_and_row_attempts(part)]
        fitting = [trial for trial in trials if trial.fits]
        hypotheses = []
        for hypothesis in (trial.hypothesis for trial in fitting):
            where = row_positions(hypothesis, part)
            if where is not None:
                hypotheses.append(replace(hypothesis, positions=where(rows)))
        attempts = _attempt_all(hypotheses, evidence, None)
        if any(attempt.trial.fits_most for attempt in attempts):
            return attempts
    return []


def _bias_attempts(evidence: Evidence) -> list[Attempt]:
    attempts: list[Attempt] = []
    profiles = profiles_of(evidence)
    for profile in profiles:
        attempts += _attempt_all(bias_hypotheses(profile, evidence), evidence, profile)
    if not any(attempt.trial.fits for attempt in attempts):
        by_offset = any(profile.scatter == 0 for profile in profiles)
        for profile, pairs in pair_hypotheses(evidence, by_offset=by_offset):
            attempts += _attempt_all(pairs, evidence, profile)
    return sorted(attempts, key=_rank)


def _cube_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """Three axes or more: rows of a batch of one, heads of a bias, or a grid of vectors."""
    attempts = []
    batch = evidence.shape[1] == 1
    if batch:
        rows = tuple(array[:, 0] for array in evidence.arrays)
        attempts = _attempts(replace(evidence, arrays=rows), notes)
        if any(attempt.trial.fits_most for attempt in attempts):
            return attempts
    if evidence.shape[1] != evidence.shape[2]:  # others were looked at before any form
        attempts = sorted([*attempts, *_bias_attempts(evidence)], key=_rank)
    if any(attempt.trial.fits for attempt in attempts) or batch:
        return attempts
    for text, flat in _flattened(evidence):
        attempts_of_grid = _matrix_attempts(replace(evidence, arrays=flat))
        if attempts_of_grid and attempts_of_grid[0].trial.fits_most:
            notes.append(f"the axes are {text}; rows are counted along the first two of these")
            return attempts_of_grid
    return attempts


def _flattened(evidence: Evidence) -> Iterator[tuple[str, tuple[NumberArray, ...]]]:
    """The matrices of a grid of vectors, whose places are counted along its axes in turn."""
    axes = len(evidence.shape)
    grid = "rows and columns" if axes == _AXES_OF_IMAGES else "those of the grid"
    ways = [(f"{grid.replace(' and', ',')} and channels", axes - 1)]
    ways += [("rows, columns and two of channels", axes - 2)] if axes > _AXES_OF_IMAGES else []
    for text, kept in ways:
        places = math.prod(evidence.shape[:kept])
        if places <= MOST_PLACES:
            yield text, tuple(array.reshape(places, -1) for array in evidence.arrays)
    first, rest = evidence.shape[0], math.prod(evidence.shape[1:])
    if rest <= MOST_PLACES:
        turned = tuple(np.ascontiguousarray(a.reshape(first, -1).T) for a in evidence.arrays)
        yield f"channels, {grid}", turned


def _attempt_all(
    hypotheses: Iterable[Hypothesis],
    evidence: Evidence,
    profile: BiasProfile | None,
    *,
    ordered: bool = False,
    more: int = MORE_TRIALS,
) -> list[Attempt]:
    """The trials of hypotheses from the plainest on, until one fits and ``more`` were tried.

    ``ordered`` hypotheses come so; others are sorted.
    """
    if not ordered:
        hypotheses = sorted(hypotheses, key=lambda hypothesis: hypothesis.cost)
    trials: list[Trial] = []
    best: Trial | None = None
    left = more
    for hypothesis in _distinct_hypotheses(hypotheses):
        if len(trials) >= MOST_TRIALS or (best is not None and _is_enough(best, hypothesis, left)):
            break
        try:
            if profile is not None:
                trial = try_scores(hypothesis, profile, evidence)
            else:
                trial = try_hypothesis(hypothesis, evidence)
        except InvalidInput:
            continue
        trials.append(trial)
        left -= best is not None
        if trial.fits and (best is None or trial.rank < best.rank):
            best, left = trial, more
    # By its ratio, and by its residual: digits that a parameter lacks may be all that is wrong.
    near = (min(trials, key=attrgetter(name), default=None) for name in ("rank", "residual"))
    nearest = [id(trial) for trial in near]
    for index, trial in enumerate(trials):
        uncertain = trial.fits and trial.hypothesis.uncertainty
        if trial.bound.content.waves is not None and (id(trial) in nearest or uncertain):
            trials[index] = sharpened(trial, evidence)
    return [Attempt(each, evidence, profile) for each in sorted(trials, key=attrgetter("rank"))]


def _rank(attempt: Attempt) -> tuple[object, ...]:
    return attempt.trial.rank


def _is_enough(best: Trial, following: Hypothesis, more: int) -> bool:
    """Whether what follows is too special to be believed in place of what fits."""
    dearer = following.cost - best.hypothesis.cost
    return more <= 0 or dearer > _MUCH_DEARER or (best.equal == 1 and dearer >= 1)


def _distinct_hypotheses(hypotheses: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """Hypotheses in their order, none of them twice."""
    seen = set()
    for hypothesis in hypotheses:
        where = None if hypothesis.positions is None else hypothesis.positions.tobytes()
        key = (
            hypothesis.scheme,
            repr(sorted(hypothesis.given.items())),
            hypothesis.tables,
            where,
            hypothesis.denominator,
            hypothesis.multiplier,
        )
        if key not in seen:
            seen.add(key)
            yield hypothesis

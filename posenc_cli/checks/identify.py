"""Which encoding an array is: hypotheses tried, the one that leaves least over believed.

Owns the choice among hypotheses and what is said of the one that fits: its parameters, the model it
belongs to, the positions of its rows, and the command that writes the same array. What leaves more
over than the number format explains is not identified, however near it comes.

Hypotheses stand in the order of what they leave to be said: the bits that all cells are off by
together (``bits_of_difference``), a cell that is wrong being 64 at most. One that leaves more than
twice the least, and what a fitted number takes besides, is outdone: a table that equals an encoding
but for a row is that encoding, damaged, and not another which comes within the tolerance of float32
code everywhere. Of those that are not outdone what fits comes first, then what is plain.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
import shlex
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import positions_of
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.inference.census import census, position_rounding, row_positions
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.forms import (
    certain_forms,
    frequencies_in_other_words,
    possible_forms,
    repeated_frequencies,
)
from posenc_cli.inference.grids import MOST_PLACES, grid_hypotheses
from posenc_cli.inference.presets import models_of, same_cells
from posenc_cli.inference.rows import row_hypotheses
from posenc_cli.inference.scores import (
    BiasProfile,
    bias_hypotheses,
    profiles_of,
    score_census,
    slope_hypotheses,
    try_scores,
)
from posenc_cli.inference.tolerance import real_format
from posenc_cli.inference.trial import (
    MOST_BITS,
    UNREDUCED_TABLES,
    Hypothesis,
    Trial,
    try_hypothesis,
)
from posenc_cli.inference.waves import (
    angle_hypotheses,
    fallback_hypotheses,
    frequency_hypotheses,
    function_hypotheses,
    is_usual,
    placed_hypotheses,
    wave_hypotheses,
)
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace
from posenc_cli.schemes.parameters import OWN_OPTIONS, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from posenc_cli.files.reading import Loaded
    from posenc_cli.inference.census import Census

MOST_TRIALS = 48
"""Of one way to read an array: judgement, for a trial takes milliseconds, and the dearest fit by
chance if any does."""
MORE_TRIALS = 5
"""After the first that fits: of plain ones that fit, some leave less over."""
OTHER_READINGS = 1
"""Trials of another way to read the array once something fits."""
SHOWN = 5
"""Candidates in a report."""
_MUCH_DEARER = 2.0
"""Of the cost: judgement, what costs so much more is not believed in place of what fits."""
_OUTDONE, _ALLOWED_BITS = 2.0, MOST_BITS
"""Times the least bits, and bits besides: noise differs less, and a number more is a fitted one."""
_LISTED = 64
"""Ranges of positions that fit on a command line."""
_PLAIN = 4.0
"""What a hypothesis costs that other forms of the array need not be tried beside: judgement, more
than any rule with numbers that people use, and as much as the plainest with a mistake."""
_NOTHING = (True, True, sys.maxsize, 0.0, math.inf, math.inf)
"""The rank of no trial, behind all others."""
_LEAST_NUMBERS = 3
"""In a row: any two are a ladder of some base, and slopes of some largest bias."""
_LEAST_ROWS = 12
"""Rows of which a half still shows the rates of waves."""
_ROWS_AT_ONCE = 1 << 16
"""Rows whose rounded positions are looked at together: half a mebibyte."""
_MOST_CELLS = 1 << 26
"""Cells that are read again for candidates but the first, which is always held against all."""


class Candidate(Record):
    """One hypothesis in words and numbers; ``params`` are those that the array shows.

    ``census`` is what it leaves over of all cells, None where only the sample was compared; the
    numbers then are the sample's, of ``compared`` rows. ``exact`` says that every cell is the
    correctly rounded value. ``positions`` are those of all rows, None where they are not regular
    and too many to list. ``uncertainty`` says how far a fitted parameter may be off. ``models``
    are those whose own table every cell equals, but in rows that do not fit; ``fitting_models``
    those whose table fits as this does.
    ``bits`` are what all cells are off by together, as far as they were compared; a candidate that
    leaves far more of them than another that fits, or does but for some rows, is ``outdone``.
    ``commands`` write what the cells were compared with, one for each file; empty where posenc
    has no command for it. Where the file holds it in other ``forms``, or ``multiplied`` by a
    number, they write what stands behind these.
    """

    scheme: str
    params: dict[str, Any]
    tables: tuple[str | None, ...]
    layout: str | None
    positions: Positions | None
    head: int | None
    residual: float
    ratio: float
    equal: float
    arithmetic: str | None
    rounded: str
    attention_factor: float | None
    uncertainty: dict[str, float]
    notes: tuple[str, ...]
    wrong: tuple[str, ...]
    models: tuple[str, ...]
    fitting_models: tuple[str, ...]
    commands: tuple[str, ...]
    compared: int
    fits_sample: bool
    census: Census | None
    bits: float
    forms: tuple[str, ...] = ()
    multiplied: float = 1.0
    outdone: bool = False

    @property
    def as_written(self) -> bool:
        """Whether posenc writes the array in this form."""
        return not self.forms and self.multiplied == 1 and self.tables[0] not in UNREDUCED_TABLES

    @property
    def fits(self) -> bool:
        """Whether no cell is farther off than the number format and right code explain."""
        return self.census is not None and self.fits_sample and self.census.fits

    @property
    def exact(self) -> bool:
        """Whether every cell is the correctly rounded value."""
        return (
            self.fits
            and self.arithmetic == "exact"
            and self.as_written
            and not self.wrong
            and self.census is not None
            and self.census.all_equal
        )

    @property
    def fits_rows(self) -> bool:
        """Whether it fits but for some rows, and not by chance in the others."""
        tally = self.census
        return tally is not None and not self.fits and tally.fits_many


class Identification(Record):
    """What an array is, as far as hypotheses go.

    ``candidates`` are what was tried and came nearest, the best first; the first is what the array
    is if it fits.
    """

    stored: str
    shape: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]

    @property
    def match(self) -> Candidate | None:
        """What the array is; None where nothing fits."""
        return self.candidates[0] if self.candidates and self.candidates[0].fits else None

    @property
    def nearest(self) -> Candidate | None:
        """What the array would be but for some rows; None where that is not so of anything."""
        return self.candidates[0] if self.candidates and self.candidates[0].fits_rows else None

    @property
    def summary(self) -> str:
        """What the array is in one line, with what it leaves over of all rows."""
        best = self.match or self.nearest
        if best is None or best.census is None:
            return "no encoding that posenc knows"
        values = [
            f"{name} {as_text(value)}"
            for name, value in best.params.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        multiplied = [] if best.multiplied == 1 else [f"multiplied by {best.multiplied:.9g}"]
        misfits = best.census.misfits
        but = "" if best.fits else f", {misfits} of which do not fit"
        name = ", ".join([best.scheme, *values, *best.forms, *multiplied, *best.wrong])
        compared = f"all {best.compared} rows compared{but}"
        return f"{name} ({compared}; largest difference {best.residual:.3g})"


class Attempt(Record):
    """A trial, and what it takes to hold it against every cell."""

    trial: Trial
    evidence: Evidence
    profile: BiasProfile | None = None

    def census(self) -> Census | None:
        """What the hypothesis leaves over of all cells, None where that cannot be known."""
        slopes = self.trial.hypothesis.tables == ("slopes",)
        if self.profile is not None or slopes:
            return score_census(self.trial, self.profile, self.evidence)
        return census(self.trial, self.evidence)


def identify_files(loaded: Sequence[Loaded]) -> Identification:
    """What one array, or a table of cosines and one of sines, is.

    Raises: InvalidInput for two arrays of different shapes, or of complex numbers.
    """
    shapes = {file.values.shape for file in loaded}
    if len(shapes) > 1:
        texts = ["×".join(map(str, file.values.shape)) for file in loaded]
        raise InvalidInput(
            f"FILE and FILE2 must have one shape, not {' and '.join(texts)}",
            hint="FILE2 is the table of sines of FILE",
        )
    for file in loaded if len(loaded) > 1 else ():
        if file.values.dtype.kind == "c":
            raise InvalidInput(
                f"{quoted_name(file.path)}: holds complex numbers, which are cosines and sines in "
                "one",
                hint="FILE2 is the table of sines of FILE",
            )
    identification = identify(Evidence.of(loaded))
    return replace(identification, shape=loaded[0].values.shape)


def identify(evidence: Evidence) -> Identification:
    """What the arrays of some evidence are.

    >>> rows = np.arange(64)[:, None] * 10_000.0 ** -(np.arange(8) / 8)
    >>> table = np.concatenate([np.cos(rows), np.sin(rows)], axis=1).astype(np.float32)
    >>> found = identify(Evidence.of_arrays(table)).match
    >>> found.scheme, found.params["base"], found.tables
    ('rope', 10000.0, ('cos-sin',))
    """
    notes: list[str] = []
    # Hypotheses that are far off divide by nothing and overflow; what they leave over tells.
    with np.errstate(all="ignore"):
        if 0 in evidence.shape:
            return Identification(evidence.stored, evidence.shape, (), ("it holds no numbers",))
        if _is_constant(evidence):
            notes.append("the numbers looked at are one and the same, which shows no rule")
            return Identification(evidence.stored, evidence.shape, (), tuple(notes))
        attempts = _attempts_of_forms(evidence, notes)
        candidates = _candidates(attempts)
    return Identification(evidence.stored, evidence.shape, tuple(candidates), tuple(notes))


def _candidates(attempts: Sequence[Attempt]) -> list[Candidate]:
    """The best attempts, each held against every cell where that is not too much, best first."""
    candidates: list[Candidate] = []
    counts: list[tuple[Attempt, Census | None]] = []
    left = _MOST_CELLS
    for attempt in _distinct_attempts(_sort_by_evidence(attempts))[:SHOWN]:
        tally = None
        if attempt.trial.fits_most:
            alike = [count for other, count in counts if same_cells(other.trial, attempt.trial)]
            cells = sum(array.size for array in attempt.evidence.arrays)
            if alike:
                tally = alike[0]
            elif not counts or cells <= left:
                tally = attempt.census()
                left -= cells
            counts.append((attempt, tally))
        candidates.append(_candidate(attempt, tally))
    believed = [candidate.bits for candidate in candidates if candidate.fits or candidate.fits_rows]
    judged = [
        replace(candidate, outdone=_is_outdone(candidate.bits, believed))
        for candidate in candidates
    ]
    return sorted(judged, key=_standing)


def _is_outdone(bits: float, others: Sequence[float]) -> bool:
    """Whether one of others leaves so much less to be said that chance does not explain it."""
    return bits > _OUTDONE * min(others, default=bits) + _ALLOWED_BITS


def _sort_by_evidence(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Attempts as they stand by the sample: outdone ones behind those that are not."""
    trials = [attempt.trial for attempt in attempts]
    believed = [trial.bits for trial in trials if trial.fits_most and trial.read_off is None]

    def standing(attempt: Attempt) -> bool:
        return not attempt.trial.fits_most or _is_outdone(attempt.trial.bits, believed)

    return sorted(attempts, key=standing)


def _standing(candidate: Candidate) -> tuple[bool, bool, bool, int]:
    """What sorts candidates: those not outdone, those that fit, those but for the fewest rows."""
    misfits = candidate.census.misfits if candidate.census and candidate.fits_rows else 0
    believed = candidate.fits or candidate.fits_rows
    return not believed or candidate.outdone, not believed, not candidate.fits, misfits


def _attempts_of_forms(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """What was tried of an array and of the matrices that may be in it, the best first."""
    known: list[list[Attempt]] = []
    for inner in certain_forms(evidence):
        known.append(_attempts_of_forms(inner, notes))
        if _is_plain(known[-1]):
            return known[-1]
    known.append(_attempts(evidence, notes))
    fits_most = any(attempt.trial.fits_most for attempt in known[-1])
    for inner in () if fits_most else possible_forms(evidence):
        known.append(_attempts_of_forms(inner, notes))
        if _is_plain(known[-1]):
            break
    return min(known, key=lambda attempts: attempts[0].trial.rank if attempts else _NOTHING)


def _is_plain(attempts: Sequence[Attempt]) -> bool:
    """Whether something fits with numbers that people use, and nothing wrong."""
    return any(a.trial.fits and a.trial.hypothesis.cost < _PLAIN for a in attempts)


def _attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """What was tried, the best first."""
    if len(evidence.shape) == 1:
        return _row_attempts(evidence, notes) if evidence.moderate else []
    if len(evidence.shape) == 3:
        return _cube_attempts(evidence, notes)
    if len(evidence.shape) != 2:
        return []
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
    """One row of numbers: frequencies, slopes, frequencies in other words, or a row of a table."""
    if evidence.count < _LEAST_NUMBERS:
        usual = [slopes for slopes in slope_hypotheses(evidence) if slopes.cost < 1]
        if not usual:
            notes.append("two numbers show too little to choose: they may be of any ladder")
        return _attempt_all(usual, evidence, None)
    if len(evidence.arrays) == 1:
        hypotheses = [*frequency_hypotheses(evidence), *slope_hypotheses(evidence)]
        attempts = _attempt_all(hypotheses, evidence, None)
        if attempts and attempts[0].trial.fits:
            return attempts
        for repeated in repeated_frequencies(evidence):
            of_half = _attempt_all(frequency_hypotheses(repeated), repeated, None)
            if of_half and of_half[0].trial.fits:
                return of_half
    else:
        attempts = []
    row = replace(evidence, arrays=tuple(array[None] for array in evidence.arrays))
    placed = _attempt_all(placed_hypotheses(row), row, None)
    fitting = [attempt.trial for attempt in placed if attempt.trial.fits]
    if fitting and all(_same_rates(fitting[0], trial) for trial in fitting[1:]):
        return placed
    if fitting:
        texts = dict.fromkeys(_row_text(trial) for trial in fitting)
        notes.append(f"one row shows too little to choose: {' and '.join(list(texts)[:2])} fit it")
        return []
    for inner in frequencies_in_other_words(evidence) if len(evidence.arrays) == 1 else ():
        hypotheses = [each for each in frequency_hypotheses(inner) if is_usual(each)]
        of_words = _attempt_all(hypotheses, inner, None)
        if of_words and of_words[0].trial.fits:
            return of_words
    return attempts


def _same_rates(a: Trial, b: Trial) -> bool:
    """Whether two trials put the same waves at the same positions."""
    first, second = a.bound.content.waves, b.bound.content.waves
    where, there = a.hypothesis.positions, b.hypothesis.positions
    if first is None or second is None or where is None or there is None:
        return False
    same = np.array_equal(np.asarray(first.frequencies(np)), np.asarray(second.frequencies(np)))
    return same and np.array_equal(where, there)


def _row_text(trial: Trial) -> str:
    """A trial of one row, as a note names it."""
    assert trial.hypothesis.positions is not None
    base = trial.bound.params.get("base")
    of_base = "" if base is None else f" of base {as_text(base)}"
    return f"{trial.bound.scheme.name}{of_base} at position {trial.hypothesis.positions[0]}"


def _is_constant(evidence: Evidence) -> bool:
    """Whether all that was looked at is one number, which any table may hold, but zero."""
    first = evidence.sample[0].reshape(-1)[:1]
    return bool(first.all() and all((sample == first).all() for sample in evidence.sample))


def _matrix_attempts(evidence: Evidence) -> list[Attempt]:
    attempts = _bias_attempts(evidence)
    if not evidence.moderate:
        return attempts
    attempts += _wave_and_row_attempts(evidence)
    if not _is_settled(attempts):
        attempts += _attempt_all(fallback_hypotheses(evidence), evidence, None)
    if not any(attempt.trial.fits_most and not attempt.trial.strained for attempt in attempts):
        attempts += _attempts_of_parts(evidence)
    if not _is_plain(attempts):
        attempts += _attempt_all(placed_hypotheses(evidence), evidence, None)
    return sorted(attempts, key=_rank)


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
    for profile in profiles_of(evidence):
        attempts += _attempt_all(bias_hypotheses(profile, evidence), evidence, profile)
    return sorted(attempts, key=_rank)


def _cube_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """Three axes: rows of a batch of one, heads of a bias, or a grid of vectors in either order."""
    attempts = []
    batch = evidence.shape[1] == 1
    if batch:
        rows = tuple(array[:, 0] for array in evidence.arrays)
        attempts = _attempts(replace(evidence, arrays=rows), notes)
        if any(attempt.trial.fits_most for attempt in attempts):
            return attempts
    attempts = sorted([*attempts, *_bias_attempts(evidence)], key=_rank)
    if any(attempt.trial.fits for attempt in attempts) or len(evidence.arrays) != 1 or batch:
        return attempts
    first = evidence.arrays[0]
    for text, flat in (
        ("rows, columns and channels", first.reshape(-1, first.shape[2])),
        ("channels, rows and columns", np.ascontiguousarray(first.reshape(first.shape[0], -1).T)),
    ):
        if flat.shape[0] > MOST_PLACES:
            continue
        as_matrix = replace(evidence, arrays=(flat,))
        attempts_of_grid = _matrix_attempts(as_matrix)
        if attempts_of_grid and attempts_of_grid[0].trial.fits_most:
            notes.append(f"the axes are {text}; rows are counted along the first two of these")
            return attempts_of_grid
    return attempts


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
    trials: list[Trial] = []
    best: Trial | None = None
    left = more
    for hypothesis in _distinct_hypotheses(
        hypotheses if ordered else sorted(hypotheses, key=lambda hypothesis: hypothesis.cost)
    ):
        if len(trials) >= MOST_TRIALS or (best is not None and _is_enough(best, hypothesis, left)):
            break
        try:
            if profile is not None or hypothesis.tables == ("slopes",):
                trial = try_scores(hypothesis, profile, evidence)
            else:
                trial = try_hypothesis(hypothesis, evidence)
        except InvalidInput:
            continue
        trials.append(trial)
        left -= best is not None
        if trial.fits and (best is None or trial.rank < best.rank):
            best, left = trial, more
    return [
        Attempt(trial, evidence, profile) for trial in sorted(trials, key=lambda trial: trial.rank)
    ]


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
            hypothesis.wrong,
            hypothesis.multiplier,
        )
        if key not in seen:
            seen.add(key)
            yield hypothesis


def _distinct_attempts(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Attempts without those that say the same again."""
    distinct, seen = [], set()
    for attempt in attempts:
        trial = attempt.trial
        bound, hypothesis = trial.bound, trial.hypothesis
        shown = {k: v for k, v in bound.params.items() if k not in hypothesis.hidden}
        where = None if hypothesis.positions is None else hypothesis.positions.tobytes()
        key = (
            *(bound.scheme.name, repr(shown), hypothesis.tables, hypothesis.wrong),
            *(hypothesis.multiplier, where if attempt.evidence.count == 1 else None),
        )
        if key not in seen:
            seen.add(key)
            distinct.append(attempt)
    return distinct


def _candidate(attempt: Attempt, tally: Census | None) -> Candidate:
    trial, evidence = attempt.trial, attempt.evidence
    hypothesis, bound = trial.hypothesis, trial.bound
    content, rotary = bound.content, bound.scheme.kind == "rotary"
    params = {name: v for name, v in bound.params.items() if name not in hypothesis.hidden}
    positions = _positions(hypothesis, evidence)
    scale = None
    columns = content.waves is not None
    if content.waves is not None and rotary and hypothesis.tables != ("inv-freq",):
        scale = float(content.waves.scale)
    equal_models, fitting_models = _models(attempt, tally)
    return Candidate(
        scheme=bound.scheme.name,
        params=params,
        tables=hypothesis.tables,
        layout=params.get("layout") if columns else None,
        positions=positions,
        head=hypothesis.head,
        residual=trial.residual if tally is None else tally.residual,
        ratio=trial.ratio if tally is None else tally.ratio,
        equal=trial.equal if tally is None else tally.equal / max(tally.cells, 1),
        arithmetic=trial.arithmetic if trial.read_off is None else None,
        rounded=trial.rounded.name,
        attention_factor=scale,
        uncertainty={k: float(v) for k, v in hypothesis.uncertainty.items() if v},
        notes=(
            *hypothesis.notes,
            *_irregularity_notes(hypothesis, evidence, positions),
            *_omissions(attempt, tally),
        ),
        wrong=hypothesis.wrong,
        models=equal_models,
        fitting_models=fitting_models,
        commands=_commands(trial, evidence, positions),
        compared=int(evidence.rows.size) if tally is None else tally.rows,
        fits_sample=trial.fits,
        census=tally,
        bits=trial.bits if tally is None else tally.bits,
        forms=evidence.forms,
        multiplied=hypothesis.multiplier,
    )


def _models(attempt: Attempt, tally: Census | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models whose own table all rows that fit equal, and those whose table these fit."""
    trial = attempt.trial
    if tally is None or trial.hypothesis.wrong or not tally.fits_many:
        return (), ()
    names = models_of(trial)
    if tally.loose == 0 and trial.read_off is None:
        return names, ()
    return (), names


def _omissions(attempt: Attempt, tally: Census | None) -> Iterator[str]:
    """What was not compared with the hypothesis, each with how much it is."""
    blank = [] if attempt.evidence.forms else [*range(attempt.evidence.skipped)]
    blank += tally.padding if tally else ()
    if blank:
        rows = " and ".join(f"row {row}" for row in blank)
        holds = "holds" if len(blank) == 1 else "hold"
        yield f"{rows} {holds} zeros, as of a class or padding token; the others were compared"
    if tally is not None and tally.hidden:
        hides = "1 cell" if tally.hidden == 1 else f"{tally.hidden} cells"
        yield f"a mask hides {hides}; the other {tally.cells} were compared"
    if attempt.profile is not None and attempt.profile.causal:
        yield "keys to the right have 0, as behind a causal mask"


def _positions(hypothesis: Hypothesis, evidence: Evidence) -> Positions | None:
    """The positions of all rows: evenly spaced, or as many as can be listed.

    Of a bias they are those of queries and keys; of a relative scheme offsets.
    """
    where = hypothesis.positions
    if where is None:
        return None
    if (hypothesis.tables == (None,) and len(evidence.shape) == 3) or hypothesis.head is not None:
        return Positions.contiguous(0, evidence.shape[-1])
    rows, count = evidence.rows, evidence.count
    if where.size != rows.size:
        rows, count = np.arange(where.size), where.size
    if where.size == 1:
        return Positions.contiguous(int(where[0]), 1)
    step = (int(where[1]) - int(where[0])) // max(int(rows[1] - rows[0]), 1)
    first = int(where[0]) - step * int(rows[0])
    if step > 0 and np.array_equal(where, first + step * rows):
        return Positions((range(first, first + step * count, step),))
    if rows.size == count and where.min() >= 0:
        return positions_of(where.tolist())
    return None


def _irregularity_notes(
    hypothesis: Hypothesis, evidence: Evidence, positions: Positions | None
) -> tuple[str, ...]:
    """What to know of rows that are not evenly spaced, and cannot be asked for again."""
    where = hypothesis.positions
    if where is None or positions is not None or where.size != evidence.rows.size:
        return ()
    named = position_rounding(where, evidence.rows)
    if named is None:
        return ("rows are at positions that are not evenly spaced",)
    first = int(where[0]) - int(evidence.rows[0])
    for start in range(0, evidence.count, _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, evidence.count))
        moved = np.flatnonzero(named.at(rows) != rows + first)
        if moved.size:
            missing = int(rows[moved[0]]) + first
            return (f"positions were rounded to {named.dtype.name}, which has no {missing}",)
    return ()


def _commands(trial: Trial, evidence: Evidence, positions: Positions | None) -> tuple[str, ...]:
    """Commands that write the array again, one for each file, ready to paste."""
    hypothesis, bound = trial.hypothesis, trial.bound
    if hypothesis.wrong or hypothesis.tables == ("slopes",):
        if hypothesis.tables == ("slopes",) and not hypothesis.wrong:
            return (_slopes_command(trial),)
        return ()
    if positions is None and hypothesis.positions is not None:
        return ()
    words = ["posenc", "generate", "--scheme", bound.scheme.name]
    length = None
    if positions is not None:
        given = _positions_words(trial, positions)
        if given is None:
            return ()
        words += given
        length = positions.last + 1
    parameters = _parameter_words(trial, length)
    if parameters is None:
        return ()
    words += parameters
    if hypothesis.head is not None:
        words += ["--head", str(hypothesis.head)]
    return tuple(
        shlex.join(
            [*words, *_file_words(trial, evidence, table, several=len(hypothesis.tables) > 1)]
        )
        for table in hypothesis.tables
    )


def _parameter_texts(trial: Trial, length: int | None) -> dict[str, str]:
    """The parameters that are not what they would be without, as a command line gives them."""
    hypothesis, bound = trial.hypothesis, trial.bound
    texts: dict[str, str] = {}
    for name, parameter in bound.scheme.parameters.items():
        value = bound.params[name]
        follows = parameter.rules.follows_length and value == length
        usual = value == parameter.default and name not in ("dim", "base", "heads")
        if value is not None and name not in hypothesis.hidden and not follows and not usual:
            texts[name] = as_text(value, separator=parameter.rules.separator)
    return texts


def _parameter_words(trial: Trial, length: int | None) -> list[str] | None:
    """The options that give the parameters; None where they would not give these very ones."""
    hypothesis, bound = trial.hypothesis, trial.bound
    texts = _parameter_texts(trial, length)
    given = bound.scheme.bind(texts, seq_len=length).params
    if any(given[name] != bound.params[name] for name in given if name not in hypothesis.hidden):
        return None
    words = ["--set", "weights=FILE"] if "weights" in hypothesis.hidden else []
    for name, text in texts.items():
        words += (
            [OWN_OPTIONS[name][0], text] if name in OWN_OPTIONS else ["--set", f"{name}={text}"]
        )
    return words


def _positions_words(trial: Trial, positions: Positions) -> list[str] | None:
    """The options that ask for positions, None where none can."""
    if trial.bound.scheme.kind == "relative":
        (only,) = positions.ranges if len(positions.ranges) == 1 else (None,)
        if only is None or only.step != 1 or only[0] != -only[-1]:
            return None
        return ["--len", str(only[-1] + 1)]
    if len(positions.ranges) == 1 and positions.ranges[0].step == 1:
        only = positions.ranges[0]
        start = ["--start", str(only.start)] if only.start else []
        return [*start, "--len", str(len(only))]
    if positions.count > _LISTED and len(positions.ranges) > _LISTED:
        return None
    return ["--positions", str(positions)]


def _file_words(trial: Trial, evidence: Evidence, table: str | None, *, several: bool) -> list[str]:
    """The options of the table, its number format and its file."""
    dtype = real_format(evidence.stored).name
    table = "angles" if table in UNREDUCED_TABLES else table
    words = [] if table in (None, "cos-sin") else ["--table", table or ""]
    # The numbers of a text file are read as float64, whatever they were.
    if dtype == "float64" and trial.rounded.name == "float32":
        dtype = "float32"
    words += ["--dtype", dtype]
    if trial.rounded.name != dtype:
        words += ["--round-to", trial.rounded.name]
    if trial.arithmetic != "exact":
        words += ["--arithmetic", trial.arithmetic]
    if several:
        words += ["--out", f"{(table or '').partition('-')[0]}.npy"]
    elif dtype == "bfloat16":
        words += ["--out", f"{trial.bound.scheme.name}.safetensors"]
    return words


def _slopes_command(trial: Trial) -> str:
    params = trial.bound.params
    words = ["posenc", "alibi-slopes", "--heads", str(params["heads"])]
    if params["max_bias"] != 8:
        words += ["--max-bias", as_text(params["max_bias"])]
    if params["slopes"] != "press":
        words += ["--convention", params["slopes"]]
    return shlex.join(words)

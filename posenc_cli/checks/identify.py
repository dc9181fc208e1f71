"""Which encoding an array is: hypotheses tried, the one that leaves least over believed.

Owns the choice among hypotheses and what is said of the one that fits: its parameters, the model it
belongs to, the positions of its rows, and the command that writes the same array. What leaves more
over than the number format explains is not identified, however near it comes.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import positions_of
from posenc_cli.checks.identify_evidence import Evidence
from posenc_cli.checks.identify_presets import equal_models
from posenc_cli.checks.identify_rows import row_hypotheses
from posenc_cli.checks.identify_scores import (
    Profile,
    bias_hypotheses,
    profiles_of,
    slope_hypotheses,
    tried_scores,
)
from posenc_cli.checks.identify_trial import Hypothesis, Trial, tried
from posenc_cli.checks.identify_waves import (
    fallback_hypotheses,
    frequency_hypotheses,
    wave_hypotheses,
)
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT64, REAL_DTYPES
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.positions import Positions
from posenc_cli.records import Record
from posenc_cli.schemes.declare import Rotation, Sinusoids
from posenc_cli.schemes.parameters import OWN_OPTIONS, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.files.reading import Loaded

MOST_TRIALS = 48
MORE_TRIALS = 5
OTHER_READINGS = 1
SHOWN = 5
_MUCH_DEARER = 2.0
_LISTED = 64
_LARGEST_GRID = 1 << 16


class Candidate(Record):
    """One hypothesis in words and numbers; ``params`` are those that the array shows.

    ``positions`` are those of all rows, None where they are not regular and too many to list.
    ``uncertainty`` says how far a fitted parameter may be off. ``commands`` write the array again,
    one for each file; empty where posenc has no command for it.
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
    arithmetic: str
    rounded: str
    attention_factor: float | None
    uncertainty: dict[str, float]
    notes: tuple[str, ...]
    wrong: tuple[str, ...]
    models: tuple[str, ...]
    commands: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether it leaves no more over than the number format and right code explain."""
        return self.ratio <= 1


class Identification(Record):
    """What an array is, as far as hypotheses go.

    ``candidates`` are what was tried and came nearest, the best first; the first is what the array
    is if it fits. ``compared`` counts the rows that were compared.
    """

    stored: str
    shape: tuple[int, ...]
    compared: int
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]

    @property
    def found(self) -> Candidate | None:
        """What the array is; None where nothing fits."""
        return self.candidates[0] if self.candidates and self.candidates[0].fits else None


def identified(loaded: Sequence[Loaded]) -> Identification:
    """What one array, or a table of cosines and one of sines, is.

    Raises: InvalidInput for two arrays of different shapes, or more than two.
    """
    shapes = {each.values.shape for each in loaded}
    if len(shapes) > 1:
        texts = ["×".join(map(str, each.values.shape)) for each in loaded]
        raise InvalidInput(
            f"FILE and FILE2 must have one shape, not {' and '.join(texts)}",
            hint="FILE2 is the table of sines of FILE",
        )
    return identify(Evidence.of(loaded))


def identify(evidence: Evidence) -> Identification:
    """What the arrays of some evidence are.

    >>> rows = np.arange(64)[:, None] * 10_000.0 ** -(np.arange(8) / 8)
    >>> table = np.concatenate([np.cos(rows), np.sin(rows)], axis=1).astype(np.float32)
    >>> found = identify(Evidence.of_arrays(table)).found
    >>> found.scheme, found.params["base"], found.tables
    ('rope', 10000.0, ('cos-sin',))
    """
    notes: list[str] = []
    shape = evidence.shape
    # Hypotheses that are far off divide by nothing and overflow; what they leave over tells.
    with np.errstate(all="ignore"):
        trials, evidence = _trials(evidence, notes)
        return _identification(trials, evidence, notes, shape)


def _identification(
    trials: Sequence[Trial], evidence: Evidence, notes: list[str], shape: tuple[int, ...]
) -> Identification:
    if evidence.blank_rows and trials and trials[0].fits:
        rows = ", ".join(map(str, evidence.blank_rows[:4]))
        notes.append(f"rows of zeros were left out, as of padding: {rows}")
    candidates = [_candidate(each, evidence) for each in _distinct(trials)[:SHOWN]]
    return Identification(
        evidence.stored, shape, int(evidence.rows.size), tuple(candidates), tuple(notes)
    )


def _trials(evidence: Evidence, notes: list[str]) -> tuple[list[Trial], Evidence]:
    """What was tried, the best first, and the evidence it was tried on: a grid as a matrix."""
    if len(evidence.shape) == 1 and not evidence.moderate:
        return [], evidence
    if len(evidence.shape) == 1:
        hypotheses = [*frequency_hypotheses(evidence), *slope_hypotheses(evidence)]
        return _tried(hypotheses, evidence, None), evidence
    if len(evidence.shape) == 3:
        return _cube_trials(evidence, notes)
    if len(evidence.shape) != 2:
        return [], evidence
    trials = _matrix_trials(evidence)
    if evidence.blank_rows == (0,) and not any(each.fits for each in trials):
        rest = Evidence(tuple(a[1:] for a in evidence.arrays), evidence.stored, evidence.values)
        without = _matrix_trials(rest)
        if without and without[0].fits:
            notes.append("row 0 holds zeros, as of a class token; the others were identified")
            return without, rest
    return trials, evidence


def _matrix_trials(evidence: Evidence) -> list[Trial]:
    trials = _bias_trials(evidence)
    if not evidence.moderate:
        return trials
    trials += _tried(row_hypotheses(evidence), evidence, None)
    if not any(each.fits and each.equal == 1 for each in trials):
        for group in wave_hypotheses(evidence):
            more = OTHER_READINGS if any(each.fits for each in trials) else MORE_TRIALS
            trials += _tried(group, evidence, None, ordered=True, more=more)
    if not any(each.fits for each in trials):
        trials += _tried(fallback_hypotheses(evidence), evidence, None)
    return sorted(trials, key=lambda each: each.rank)


def _bias_trials(evidence: Evidence) -> list[Trial]:
    trials: list[Trial] = []
    for profile in profiles_of(evidence):
        trials += _tried(bias_hypotheses(profile, evidence), evidence, profile)
    return sorted(trials, key=lambda each: each.rank)


def _cube_trials(evidence: Evidence, notes: list[str]) -> tuple[list[Trial], Evidence]:
    """Three axes: heads of a bias, or a grid of vectors in either order."""
    trials = _bias_trials(evidence)
    if any(each.fits for each in trials) or len(evidence.arrays) != 1:
        return trials, evidence
    first = evidence.arrays[0]
    for text, flat in (
        ("rows, columns and channels", first.reshape(-1, first.shape[2])),
        ("channels, rows and columns", np.ascontiguousarray(first.reshape(first.shape[0], -1).T)),
    ):
        if flat.shape[0] > _LARGEST_GRID:
            continue
        as_matrix = Evidence((flat,), evidence.stored, evidence.values)
        found = _matrix_trials(as_matrix)
        if found and found[0].fits:
            notes.append(f"the axes are {text}")
            return found, as_matrix
    return trials, evidence


def _tried(
    hypotheses: Iterable[Hypothesis],
    evidence: Evidence,
    profile: Profile | None,
    *,
    ordered: bool = False,
    more: int = MORE_TRIALS,
) -> list[Trial]:
    """The trials of hypotheses from the plainest on, until one fits and ``more`` were tried.

    ``ordered`` hypotheses come so; others are sorted.
    """
    trial: Callable[[Hypothesis], Trial]
    if profile is not None:

        def trial(hypothesis: Hypothesis) -> Trial:
            return tried_scores(hypothesis, profile, evidence)
    else:

        def trial(hypothesis: Hypothesis) -> Trial:
            if hypothesis.tables == ("slopes",):
                return tried_scores(hypothesis, None, evidence)
            return tried(hypothesis, evidence)

    trials: list[Trial] = []
    best: Trial | None = None
    left = more
    for hypothesis in _unlike(hypotheses if ordered else sorted(hypotheses, key=_cost)):
        if len(trials) >= MOST_TRIALS or (best is not None and _enough(best, hypothesis, left)):
            break
        try:
            found = trial(hypothesis)
        except InvalidInput:
            continue
        trials.append(found)
        left -= best is not None
        if found.fits and (best is None or found.rank < best.rank):
            best, left = found, more
    return sorted(trials, key=lambda each: each.rank)


def _enough(best: Trial, following: Hypothesis, more: int) -> bool:
    """Whether what follows is too special to be believed in place of what fits."""
    dearer = following.cost - best.hypothesis.cost
    return more <= 0 or dearer > _MUCH_DEARER or (best.equal == 1 and dearer >= 1)


def _cost(hypothesis: Hypothesis) -> float:
    return hypothesis.cost


def _unlike(hypotheses: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """Hypotheses in their order, none of them twice."""
    seen = set()
    for each in hypotheses:
        where = None if each.positions is None else each.positions.tobytes()
        key = (each.scheme, repr(sorted(each.given.items())), each.tables, where, each.wrong)
        if key not in seen:
            seen.add(key)
            yield each


def _distinct(trials: Sequence[Trial]) -> list[Trial]:
    """Trials without those that say the same again."""
    found, seen = [], set()
    for each in trials:
        shown = {k: v for k, v in each.bound.params.items() if k not in each.hypothesis.hidden}
        key = (each.bound.scheme.name, repr(shown), each.hypothesis.tables, each.hypothesis.wrong)
        if key not in seen:
            seen.add(key)
            found.append(each)
    return found


def _candidate(trial: Trial, evidence: Evidence) -> Candidate:
    hypothesis, bound = trial.hypothesis, trial.bound
    content = bound.content
    params = {name: v for name, v in bound.params.items() if name not in hypothesis.hidden}
    positions = _positions(hypothesis, evidence)
    scale = None
    if isinstance(content, Rotation) and hypothesis.tables != ("inv-freq",):
        scale = float(content.waves.scale)
    columns = isinstance(content, Rotation | Sinusoids)
    return Candidate(
        scheme=bound.scheme.name,
        params=params,
        tables=hypothesis.tables,
        layout=params.get("layout") if columns else None,
        positions=positions,
        head=hypothesis.head,
        residual=trial.residual,
        ratio=trial.ratio,
        equal=trial.equal,
        arithmetic=trial.arithmetic,
        rounded=trial.rounded.name,
        attention_factor=scale,
        uncertainty={k: float(v) for k, v in hypothesis.uncertainty.items() if v},
        notes=(*hypothesis.notes, *_irregular(hypothesis, evidence, positions)),
        wrong=hypothesis.wrong,
        models=equal_models(bound, frequencies_alone=hypothesis.tables == ("inv-freq",))
        if trial.fits
        else (),
        commands=_commands(trial, evidence, positions),
    )


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


def _irregular(
    hypothesis: Hypothesis, evidence: Evidence, positions: Positions | None
) -> tuple[str, ...]:
    """What to know of rows that are not evenly spaced, and cannot be asked for again."""
    where, rows = hypothesis.positions, evidence.rows
    if where is None or positions is not None or where.size != rows.size:
        return ()
    counted = rows + int(where[0]) - int(rows[0])
    for dtype in (BFLOAT16, FLOAT16):
        rounded = widen(narrow(counted.astype(np.float64), None, dtype), dtype)
        if np.array_equal(where, rounded):
            first = int(counted[np.argmax(rounded != counted)])
            return (f"positions were rounded to {dtype.name}, which has no {first}",)
    return ("rows are at positions that are not evenly spaced",)


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
    words += _parameter_words(trial, length)
    if hypothesis.head is not None:
        words += ["--head", str(hypothesis.head)]
    return tuple(
        shlex.join(
            [*words, *_file_words(trial, evidence, table, several=len(hypothesis.tables) > 1)]
        )
        for table in hypothesis.tables
    )


def _parameter_words(trial: Trial, length: int | None) -> list[str]:
    """The options of the parameters that are not what they would be without."""
    hypothesis, bound = trial.hypothesis, trial.bound
    words: list[str] = []
    for name, parameter in bound.scheme.parameters.items():
        value = bound.params[name]
        if name == "weights" and "weights" in hypothesis.hidden:
            words += ["--set", "weights=FILE"]
            continue
        follows = parameter.rules.follows_length and value == length
        usual = value == parameter.default and name not in ("dim", "base", "heads")
        if value is None or name in hypothesis.hidden or follows or usual:
            continue
        text = as_text(value, separator=parameter.rules.separator)
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
    stored = {"complex64": "float32", "complex128": "float64"}.get(evidence.stored, evidence.stored)
    dtype = REAL_DTYPES.get(stored, FLOAT64).name
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

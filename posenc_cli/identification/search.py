"""Which encoding an array is: the hypothesis that leaves the smallest residual.

Owns the choice among hypotheses and what is said of the one that fits: its parameters, the model it
belongs to, the positions of its rows, and the command that writes the same array. What leaves more
over than the number format explains is not identified, however near it comes.

Hypotheses stand in the order of what they leave to be said: the bits that all entries are off by
together (``bits_of_difference``), an entry that is wrong being 64 at most. One that leaves more
than twice the least, and what a fitted number takes besides, is outdone: a table that equals an
encoding but for a row is that encoding, damaged, and not another which comes within the tolerance
of float32 code everywhere. Of those that are not outdone what fits comes first, then what is plain.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import positions_of
from posenc_cli.errors import InvalidInput, quoted_name, sizes_text
from posenc_cli.formulas.parameters import as_text, brief_text, option_words
from posenc_cli.identification.attempts import attempts_of_forms, best_of, line_of
from posenc_cli.identification.waves import prompt_of
from posenc_cli.inference.candidates import models_of, same_entries
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.tolerance import real_format
from posenc_cli.inference.trial import (
    MOST_BITS,
    UNREDUCED_TABLES,
    Hypothesis,
)
from posenc_cli.positions import FALLING_POSITIONS, Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.files.reading import Loaded
    from posenc_cli.identification.attempts import Attempt
    from posenc_cli.inference.trial import Census, Trial


SHOWN = 5
"""Candidates in a report."""
_OUTDONE, _ALLOWED_BITS = 2.0, MOST_BITS
"""Times the least bits, and bits besides: noise differs less, and a number more is a fitted one."""
_GIVEN = 0.97
"""Of the entries: a fitted number gives so many of a table that is correctly rounded."""
_MOST_CELLS = 1 << 26
"""Entries that are read again for candidates but the first, which is always compared with all."""


class Candidate(Record):
    """One hypothesis in words and numbers; ``params`` are those that the array shows.

    ``census`` is what it leaves over of all entries, None where only the sample was compared; the
    numbers then are the sample's, of ``compared`` rows. ``exact`` says that every entry is the
    correctly rounded value. ``positions`` are those of all rows, None where they are not regular
    and too many to list. ``uncertainty`` says how far a fitted parameter may be off. ``models``
    are those whose own table every entry equals, but in rows that do not fit; ``fitting_models``
    those whose table fits as this does.
    ``bits`` are what all entries are off by together, as far as they were compared; a candidate
    that leaves far more of them than another that fits, or does but for some rows, is ``outdone``.
    ``commands`` write what the entries were compared with, one for each file, behind the one that
    writes the ids of a prompt; empty where posenc has no command for it. Where the file holds it in
    other ``forms``, or ``multiplied`` by a number, they write what stands behind these.
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
        """Whether no entry is farther off than the number format and right code explain."""
        return self.census is not None and self.fits_sample and self.census.fits

    @property
    def exact(self) -> bool:
        """Whether every entry is the correctly rounded value."""
        return (
            self.fits
            and self.arithmetic == "exact"
            and self.as_written
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
        """What the array would be but for some rows; None where nothing is."""
        best = self.candidates[0] if self.candidates else None
        return best if best and best.fits_rows else None

    @property
    def settings(self) -> dict[str, str]:
        """What tells an encoding from others, as texts: its scheme, parameters and table.

        Empty where the array is none; a setting is where it is not shown, or is the usual one.
        """
        best = self.match or self.nearest
        if best is None:
            return {}
        positions = best.positions
        evenly = positions is not None and len(positions.ranges) == 1
        return {
            "scheme": best.scheme,
            **settings_of({k: v for k, v in best.params.items() if k != "layout"}),
            "layout": best.layout or "",
            "table": " and ".join(table for table in best.tables if table),
            "head": "" if best.head is None else str(best.head),
            "positions": str(positions) if evenly else "",
            "arithmetic": "" if best.arithmetic in ("exact", None) else best.arithmetic,
        }

    @property
    def summary(self) -> str:
        """What the array is in one line, with what it leaves over of all rows."""
        best = self.match or self.nearest
        if best is None or best.census is None:
            return "no known encoding"
        multiplied = [] if best.multiplied == 1 else [f"multiplied by {best.multiplied:.9g}"]
        misfits = best.census.misfits
        but = "" if best.fits else f", misfits: {misfits}"
        said = self.settings.items()
        texts = [f"{name} {value}" for name, value in said if name != "scheme" and value]
        name = ", ".join([best.scheme, *texts, *best.forms, *multiplied])
        compared = f"all {best.compared} rows compared{but}"
        as_well = [c.scheme for c in self.candidates if c.fits and c.bits == best.bits]
        others = [other for other in dict.fromkeys(as_well) if other != best.scheme]
        do = "fits" if len(others) == 1 else "fit"
        alike = f"; {' and '.join(others)} {do} as well" if best.fits and others else ""
        return f"{name} ({compared}; largest difference {best.residual:.3g}){alike}"


def settings_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as texts, empty where they have no value."""
    return {name: "" if value is None else brief_text(value) for name, value in params.items()}


def identify_files(loaded: Sequence[Loaded]) -> Identification:
    """What one array, or a table of cosines and one of sines, is.

    Raises: InvalidInput for two arrays of different shapes, or of complex numbers.
    """
    shapes = {file.values.shape for file in loaded}
    if len(shapes) > 1:
        raise InvalidInput(
            "FILE and FILE2 must have one shape, not "
            f"{' and '.join(sizes_text(file.values.shape) for file in loaded)}",
            hint="FILE2 is the table of sines of FILE",
        )
    for file in loaded if len(loaded) > 1 else ():
        if file.values.dtype.kind == "c":
            raise InvalidInput(
                f"{quoted_name(file.path)} holds complex numbers, which are cos and sin in one; "
                "give that file alone",
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
    candidates: list[Candidate] = []
    # Hypotheses that are far off divide by nothing and overflow; what they leave over tells.
    with np.errstate(all="ignore"):
        notes = [*_emptiness(evidence)]
        if not notes:
            attempts = attempts_of_forms(replace(evidence, quantum=0.0), notes)
            if evidence.quantum and not any(attempt.trial.fits for attempt in attempts):
                attempts = best_of([attempts, attempts_of_forms(evidence, notes)])
            candidates = _candidates(attempts)
    return Identification(evidence.stored, evidence.shape, tuple(candidates), tuple(notes))


def _emptiness(evidence: Evidence) -> Iterator[str]:
    """Why an array can be no encoding, or any."""
    if 0 in evidence.shape:
        yield "it is empty"
    elif not any(np.isfinite(sample).any() for sample in evidence.sample):
        yield "all sampled values are NaN or infinite"
    else:
        first = evidence.sample[0].reshape(-1)[:1]  # one number, which any table may hold, but 0
        if first.all() and all((sample == first).all() for sample in evidence.sample):
            yield "all values are equal, and a constant table identifies no encoding"


def _candidates(attempts: Sequence[Attempt]) -> list[Candidate]:
    """The best attempts, each compared with every entry where that is not too much, best first."""
    candidates: list[Candidate] = []
    counts: list[tuple[Attempt, Census | None]] = []
    left = _MOST_CELLS
    for attempt in _distinct_attempts(_sort_by_evidence(attempts))[:SHOWN]:
        tally = None
        if attempt.trial.fits_most:
            alike = [count for other, count in counts if same_entries(other.trial, attempt.trial)]
            cells = sum(array.size for array in attempt.evidence.arrays)
            if alike:
                tally = alike[0]
            elif not counts or cells <= left:
                tally = attempt.census()
                if tally and attempt.evidence.skipped and not attempt.evidence.forms:
                    blank = (*range(attempt.evidence.skipped), *tally.padding)
                    tally = replace(tally, padding=blank)
                left -= cells
            counts.append((attempt, tally))
        candidates.append(_candidate(attempt, tally))
    believed = [
        c.bits
        for c in candidates
        if (c.fits or c.fits_rows) and not _is_fitted_roughly(c.uncertainty, c.equal)
    ]
    judged = [
        replace(candidate, outdone=_is_outdone(candidate.bits, believed))
        for candidate in candidates
    ]
    return sorted(judged, key=_standing)


def _is_outdone(bits: float, others: Sequence[float]) -> bool:
    """Whether one of others leaves so much less to be said that chance does not explain it."""
    return bits > _OUTDONE * min(others, default=bits) + _ALLOWED_BITS


def _is_fitted_roughly(uncertainty: Mapping[str, float], equal: float) -> bool:
    """Whether a number was fitted that does not give the entries: it outdoes no plain one."""
    return bool(uncertainty) and equal < _GIVEN


def _sort_by_evidence(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Attempts as they stand by the sample: outdone ones behind those that are not."""
    trials = [attempt.trial for attempt in attempts]
    believed = [
        trial.bits
        for trial in trials
        if trial.fits_most
        and trial.read_off is None
        and not _is_fitted_roughly(trial.hypothesis.uncertainty, trial.equal)
    ]

    return sorted(
        attempts, key=lambda a: not a.trial.fits_most or _is_outdone(a.trial.bits, believed)
    )


def _standing(candidate: Candidate) -> tuple[bool, bool, bool, int, bool]:
    """What sorts candidates: those not outdone, those that fit, those but for the fewest rows.

    Of those that fit come first those that give every entry.
    """
    misfits = candidate.census.misfits if candidate.census and candidate.fits_rows else 0
    believed = candidate.fits or candidate.fits_rows
    nearly = not candidate.fits or candidate.bits > 0
    doubted = not believed or candidate.outdone
    return doubted, not believed, not candidate.fits, misfits, nearly


def _distinct_attempts(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Attempts without those that say the same again."""
    distinct, seen = [], set()
    for attempt in attempts:
        trial = attempt.trial
        bound, hypothesis = trial.bound, trial.hypothesis
        shown = {k: v for k, v in bound.params.items() if k not in hypothesis.hidden}
        where = None if hypothesis.positions is None else hypothesis.positions.tobytes()
        key = (
            *(bound.scheme.name, repr(shown), hypothesis.tables),
            *(hypothesis.denominator, hypothesis.multiplier),
            where if attempt.evidence.count == 1 else None,
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
    positions = _positions(hypothesis, evidence, keyed=content.by == "key")
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
        notes=(*hypothesis.notes, *_omissions(attempt, tally)),
        models=equal_models,
        fitting_models=fitting_models,
        commands=commands_of(trial, evidence, positions),
        compared=int(evidence.rows.size) if tally is None else tally.rows,
        fits_sample=trial.fits,
        census=tally,
        bits=trial.bits if tally is None else tally.bits,
        forms=(*evidence.forms, *_rounded_to(evidence)),
        multiplied=hypothesis.multiplier,
    )


def _rounded_to(evidence: Evidence) -> Iterator[str]:
    """What all values were rounded to that is no number format."""
    if evidence.quantum == 1:
        yield "rounded to integers"
    elif evidence.quantum:
        yield f"rounded to {round(-math.log10(evidence.quantum))} decimal places"


def _models(attempt: Attempt, tally: Census | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models whose own table all rows that fit equal, and those whose table these fit."""
    trial = attempt.trial
    if tally is None or not tally.fits_many:
        return (), ()
    names = models_of(trial)
    if tally.loose == 0 and trial.read_off is None:
        return names, ()
    return (), names


def _omissions(attempt: Attempt, tally: Census | None) -> Iterator[str]:
    """What was not compared with the hypothesis, each with how much it is."""
    blank = tally.padding if tally else ()
    if blank:
        rows = " and ".join(f"row {row}" for row in blank)
        holds = "holds" if len(blank) == 1 else "hold"
        yield f"{rows} {holds} zeros, as for a class or padding token; the rest was compared"
    if tally is not None and tally.hidden:
        hides = "1 cell" if tally.hidden == 1 else f"{tally.hidden} cells"
        yield f"a mask hides {hides}; the other {tally.cells} were compared"
    if attempt.profile is not None and attempt.profile.causal:
        yield "keys after the query hold 0, as behind a causal mask"


def _positions(
    hypothesis: Hypothesis, evidence: Evidence, *, keyed: bool = False
) -> Positions | None:
    """The positions of all rows: evenly spaced, or as many as can be listed.

    Of a bias they are those of queries and keys, and as ``keyed`` begin where its keys do; of a
    relative scheme offsets.
    """
    where = hypothesis.positions
    if where is None:
        return None
    if (hypothesis.tables == (None,) and len(evidence.shape) == 3) or hypothesis.head is not None:
        first = int(where[0]) if keyed else 0
        return Positions.contiguous(first, evidence.shape[-1])
    rows, count = evidence.rows, evidence.count
    if where.size != rows.size:
        rows, count = np.arange(where.size), where.size
    line = line_of(where, rows)
    if line is not None and line[1] != 0:
        evenly = Positions.evenly(*line, count, hypothesis.denominator)
        return evenly if line[1] > 0 or count <= FALLING_POSITIONS else None
    if rows.size == count and where.min() >= 0:
        return positions_of(where.tolist())
    return None


_LISTED = 512
"""Ranges of positions that a command line gives: some 6 kB, of rows in no regular order."""


def commands_of(trial: Trial, evidence: Evidence, positions: Positions | None) -> tuple[str, ...]:
    """Commands that write the array again, one for each file, ready to paste.

    Before them stands the one that writes the ids of a prompt.
    """
    hypothesis, bound = trial.hypothesis, trial.bound
    if positions is None and hypothesis.positions is not None:
        return ()
    if hypothesis.tables == ("slopes",):
        return (_slopes_command(trial),)
    words = ["posenc", "generate", "--scheme", bound.scheme.name]
    length = None
    if positions is not None:
        given = _positions_words(trial, positions)
        if given is None:
            return ()
        words += given
        length = positions.length
    parameters = _parameter_words(trial, length)
    if parameters is None:
        return ()
    words += parameters
    if hypothesis.head is not None:
        words += ["--head", str(hypothesis.head)]
    several = len(hypothesis.tables) > 1
    files = (_file_words(trial, evidence, table, several=several) for table in hypothesis.tables)
    prompt = None if hypothesis.axes is None else prompt_of(hypothesis.axes)
    return (*filter(None, [prompt]), *(shlex.join([*words, *of_file]) for of_file in files))


def _parameter_texts(trial: Trial, length: int | None) -> dict[str, str]:
    """The parameters that are not what they would be without, as a command line gives them.

    Those that a command needs are among them, whether the array shows them or not.
    """
    hypothesis, bound = trial.hypothesis, trial.bound
    texts: dict[str, str] = {}
    for name, parameter in bound.scheme.parameters.items():
        value = bound.params[name]
        follows = parameter.rules.follows_length and value == length
        usual = value == parameter.default and name not in ("dim", "base", "heads")
        hidden = name in hypothesis.hidden and not parameter.required
        if value is not None and not hidden and not follows and not usual:
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
        words += option_words(name, text)
    return words


def _positions_words(trial: Trial, positions: Positions) -> list[str] | None:
    """The options that ask for positions, None where none can."""
    if trial.bound.scheme.kind == "relative":
        (only,) = positions.ranges if len(positions.ranges) == 1 else (None,)
        if only is None or only.step != 1 or only[0] != -only[-1]:
            return None
        return ["--len", str(only[-1] + 1)]
    if positions.step == positions.denominator:
        start = ["--start", positions.name(positions.first)] if positions.first else []
        return [*start, "--len", str(positions.count)]
    text = str(positions)
    return ["--positions", text] if text.count(",") < _LISTED else None


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

"""Identify the encoding of an array: the hypothesis with the smallest remaining error.

In: arrays from files. Out: the parameters, model, positions and command of the hypothesis that
fits. If the error exceeds the rounding of the number format, the array is not identified.

Candidates are ordered by the total size of their errors in bits (``bits_of_difference``); a wrong
entry counts at most 64. A candidate with more than twice the fewest bits, plus those of a fitted
number, is surpassed and ranked last. So a table that equals an encoding except in one row is that
encoding, damaged. It is not another encoding within the tolerance of float32 code everywhere. Of
the rest, candidates that fit come first, then the simplest.
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
from posenc_cli.identification.attempts import Attempt, attempts_of_forms, best_of, line_of
from posenc_cli.identification.waves import prompt_of
from posenc_cli.inference.candidates import models_of, same_entries
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.tolerance import real_format
from posenc_cli.inference.trial import (
    MOST_BITS,
    UNREDUCED_TABLES,
    Census,
    Hypothesis,
    Trial,
)
from posenc_cli.positions import FALLING_POSITIONS, Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.files.reading import Loaded


SHOWN = 5
"""Candidates in a report."""
_SURPASSED, _ALLOWED_BITS = 2.0, MOST_BITS
"""A candidate is surpassed if its bits exceed this multiple of the fewest, plus these. Noise
differs by less, and an additional parameter is a fitted one."""
_MOST_CELLS = 1 << 26
"""Entries that are read again for candidates after the first, which is always compared with all."""


class Candidate(Record):
    """One hypothesis as a report shows it; ``params`` are those that the array shows.

    ``census`` is the comparison with all entries, or None if only the sample was compared. Then the
    numbers are the sample's, of ``compared`` rows. ``exact`` says that every entry is correctly
    rounded. ``positions`` are those of all rows, or None if they are irregular and too many to
    list. ``uncertainty`` is the possible error of each fitted parameter. ``models`` are those with
    the same table, except in rows that do not fit; ``fitting_models`` those whose table fits
    equally well.

    ``bits`` are the total size of the errors of all compared entries. A candidate with far more
    bits than another that fits, perhaps except in some rows, is ``surpassed``.

    ``commands`` write the expected entries, one for each file, after the command that writes the
    ids of a prompt. There are none if posenc has no such command. If the file holds other ``forms``
    of the entries, or they are ``multiplied``, the commands write them without these.
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
    surpassed: bool = False

    @property
    def as_written(self) -> bool:
        """Whether posenc writes the array in this form."""
        return not self.forms and self.multiplied == 1 and self.tables[0] not in UNREDUCED_TABLES

    @property
    def fits(self) -> bool:
        """Whether the number format and correct code explain the error of every entry."""
        return self.census is not None and self.fits_sample and self.census.fits

    @property
    def exact(self) -> bool:
        """Whether every entry is correctly rounded."""
        return (
            self.fits
            and self.arithmetic == "exact"
            and self.as_written
            and self.census is not None
            and self.census.all_equal
        )

    @property
    def fits_rows(self) -> bool:
        """Whether it fits except in some rows, and the fit of the others is no coincidence."""
        counted = self.census
        return counted is not None and not self.fits and counted.fits_many


class Identification(Record):
    """The result for an array.

    ``candidates`` are the nearest hypotheses, best first; the array is the first one if that fits.
    """

    stored: str
    shape: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]

    @property
    def match(self) -> Candidate | None:
        """The candidate that the array is, or None if nothing fits."""
        return self.candidates[0] if self.candidates and self.candidates[0].fits else None

    @property
    def nearest(self) -> Candidate | None:
        """The candidate that the array is except in some rows, or None."""
        best = self.candidates[0] if self.candidates else None
        return best if best and best.fits_rows else None

    @property
    def settings(self) -> dict[str, str]:
        """Scheme, parameters and table as texts, to compare identifications.

        Empty if nothing was identified. A setting is empty if the array does not show it, or if it
        is the default.
        """
        best = self.match or self.nearest
        if best is None:
            return {}
        return {
            "scheme": best.scheme,
            **settings_of({k: v for k, v in best.params.items() if k != "layout"}),
            "layout": best.layout or "",
            "table": " and ".join(table for table in best.tables if table),
            "head": "" if best.head is None else str(best.head),
            "positions": str(best.positions)
            if best.positions and len(best.positions.ranges) == 1
            else "",
            "arithmetic": "" if best.arithmetic in ("exact", None) else best.arithmetic,
        }

    @property
    def summary(self) -> str:
        """The result in one line, with the remaining error of all rows."""
        best = self.match or self.nearest
        if best is None or best.census is None:
            return "no known encoding"
        multiplied = [] if best.multiplied == 1 else [f"multiplied by {best.multiplied:.9g}"]
        but = "" if best.fits else f", misfits: {best.census.misfits}"
        shown = {name: value for name, value in self.settings.items() if value}
        texts = [f"{name} {value}" for name, value in shown.items() if name != "scheme"]
        name = ", ".join([best.scheme, *texts, *best.forms, *multiplied])
        others_that_fit = [c.scheme for c in self.candidates if c.fits and c.bits == best.bits]
        others = [other for other in dict.fromkeys(others_that_fit) if other != best.scheme]
        fit = f"{' and '.join(others)} fit{'s' * (len(others) == 1)} as well"
        return (
            f"{name} (all {best.compared} rows compared{but}; largest difference "
            f"{best.residual:.3g}){f'; {fit}' if best.fits and others else ''}"
        )


def settings_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as texts, empty for None."""
    return {name: "" if value is None else brief_text(value) for name, value in params.items()}


def identify_files(loaded: Sequence[Loaded]) -> Identification:
    """Identify one array, or a table of cosines and one of sines.

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
    """Identify the arrays of some evidence.

    >>> rows = np.arange(64)[:, None] * 10_000.0 ** -(np.arange(8) / 8)
    >>> table = np.concatenate([np.cos(rows), np.sin(rows)], axis=1).astype(np.float32)
    >>> found = identify(Evidence.of_arrays(table)).match
    >>> found.scheme, found.params["base"], found.tables
    ('rope', 10000.0, ('cos-sin',))
    """
    candidates: list[Candidate] = []
    # Wrong hypotheses divide by zero and overflow; their errors show it.
    with np.errstate(all="ignore"):
        notes = [*_reasons_against(evidence)]
        if not notes:
            attempts = attempts_of_forms(replace(evidence, quantum=0.0), notes)
            if evidence.quantum and not any(attempt.trial.fits for attempt in attempts):
                attempts = best_of([attempts, attempts_of_forms(evidence, notes)])
            candidates = _candidates(attempts)
    return Identification(evidence.stored, evidence.shape, tuple(candidates), tuple(notes))


def _reasons_against(evidence: Evidence) -> Iterator[str]:
    """Yield why an array can be no encoding, or any encoding."""
    if 0 in evidence.shape:
        yield "it is empty"
    elif not any(np.isfinite(sample).any() for sample in evidence.sample):
        yield "all sampled values are NaN or infinite"
    else:
        first = [sample.reshape(-1)[0] for sample in evidence.sample]
        if any(first) and all(  # any table may hold one number, except 0
            (sample == value).all() for sample, value in zip(evidence.sample, first, strict=True)
        ):
            yield (
                ("each table is constant" if len({*first}) > 1 else "all values are equal")
                + ", and a constant table identifies no encoding"
            )


def _candidates(attempts: Sequence[Attempt]) -> list[Candidate]:
    """Return the best attempts, best first, compared with all entries unless that is too much."""
    candidates: list[Candidate] = []
    counts: list[tuple[Attempt, Census | None]] = []
    left = _MOST_CELLS
    for attempt in _distinct_attempts(attempts)[:SHOWN]:
        counted = None
        if attempt.trial.fits_most:
            alike = [count for other, count in counts if same_entries(other.trial, attempt.trial)]
            cells = sum(array.size for array in attempt.evidence.arrays)
            if alike:
                counted = alike[0]
            elif not counts or cells <= left:
                counted = attempt.census()
                left -= cells
            counts.append((attempt, counted))
        candidates.append(_candidate(attempt, counted))
    fewest = min((c.bits for c in candidates if c.fits or c.fits_rows), default=math.inf)
    most = _SURPASSED * fewest + _ALLOWED_BITS
    ranked = [replace(each, surpassed=each.bits > most) for each in candidates]
    return sorted(ranked, key=_sort_key)


def _sort_key(candidate: Candidate) -> tuple[bool, bool, bool]:
    """Return the sort key of a candidate: surpassed ones last, then by fit, equal ones first."""
    accepted = candidate.fits or candidate.fits_rows
    return not accepted or candidate.surpassed, not candidate.fits, candidate.bits > 0


def _distinct_attempts(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return attempts without repetitions of the same result, and without those far away."""
    distinct: dict[object, Attempt] = {}
    for attempt in (each for each in attempts if each.is_near):
        trial = attempt.trial
        hypothesis, scheme = trial.hypothesis, trial.bound.scheme.name
        shown = {k: v for k, v in trial.bound.params.items() if k not in hypothesis.hidden}
        placed = hypothesis.placed if attempt.evidence.count == 1 else hypothesis.placed[1:]
        distinct.setdefault((scheme, repr(shown), hypothesis.tables, placed), attempt)
    return [*distinct.values()]


def _candidate(attempt: Attempt, counted: Census | None) -> Candidate:
    """Return an attempt as a report shows it."""
    trial, evidence = attempt.trial, attempt.evidence
    hypothesis, bound = trial.hypothesis, trial.bound
    content, rotary = bound.content, bound.scheme.kind == "rotary"
    params = {name: v for name, v in bound.params.items() if name not in hypothesis.hidden}
    positions = _positions(hypothesis, evidence, keyed=content.by == "key")
    waves = content.waves
    equal_models, fitting_models = _models(attempt, counted)
    compared = trial.sample if counted is None else counted
    return Candidate(
        scheme=bound.scheme.name,
        params=params,
        tables=hypothesis.tables,
        layout=params.get("layout") if waves else None,
        positions=positions,
        head=hypothesis.head,
        residual=compared.residual,
        ratio=compared.ratio,
        equal=compared.equal_share,
        arithmetic=trial.arithmetic if trial.read_off is None else None,
        rounded=trial.rounded.name,
        attention_factor=float(waves.scale)
        if waves and rotary and hypothesis.tables != ("inv-freq",)
        else None,
        uncertainty={k: float(v) for k, v in hypothesis.uncertainty.items() if v},
        notes=(*hypothesis.notes, *_omissions(attempt, counted)),
        models=equal_models,
        fitting_models=fitting_models,
        commands=commands_of(trial, evidence, positions),
        compared=int(evidence.rows.size) if counted is None else counted.rows,
        fits_sample=trial.fits,
        census=counted,
        bits=compared.bits,
        forms=(*evidence.forms, *_roundings(evidence)),
        multiplied=hypothesis.multiplier,
    )


def _roundings(evidence: Evidence) -> Iterator[str]:
    """Yield a rounding of all values that is not a number format."""
    if evidence.quantum == 1:
        yield "rounded to integers"
    elif evidence.quantum:
        yield f"rounded to {round(-math.log10(evidence.quantum))} decimal places"


def _models(attempt: Attempt, counted: Census | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the models with the same table in all rows that fit, and models that only fit."""
    if counted is None or not counted.fits_many:
        return (), ()
    names = models_of(attempt.trial)
    return (names, ()) if counted.loose == 0 and attempt.trial.read_off is None else ((), names)


def _omissions(attempt: Attempt, counted: Census | None) -> Iterator[str]:
    """Yield the parts of the array that were not compared, each with its size."""
    blank = counted.padding if counted else ()
    if blank:
        rows = " and ".join(f"row {row}" for row in blank)
        yield (
            f"{rows} hold{'s' * (len(blank) == 1)} zeros, as for a class or padding token; "
            "the rest was compared"
        )
    if counted is not None and counted.hidden:
        yield (
            f"a mask hides {counted.hidden} cell{'s' * (counted.hidden > 1)}; "
            f"the other {counted.cells} were compared"
        )
    if attempt.profile is not None and attempt.profile.causal:
        yield "keys after the query hold 0, as behind a causal mask"


def _positions(
    hypothesis: Hypothesis, evidence: Evidence, *, keyed: bool = False
) -> Positions | None:
    """Return the positions of all rows if they are evenly spaced or few enough to list, else None.

    For a bias they are those of queries and keys, and if ``keyed`` they start at its first key. For
    a relative scheme they are offsets.
    """
    row_positions = hypothesis.positions
    if row_positions is None:
        return None
    if (hypothesis.tables == (None,) and len(evidence.shape) == 3) or hypothesis.head is not None:
        first = int(row_positions[0]) if keyed else 0
        return Positions.contiguous(first, evidence.shape[-1])
    rows, count = evidence.rows, evidence.count
    line = line_of(row_positions, rows)
    if line is not None and line[1] != 0:
        evenly = Positions.evenly(*line, count, hypothesis.denominator)
        return evenly if line[1] > 0 or count <= FALLING_POSITIONS else None
    if rows.size == count and row_positions.min() >= 0:
        return positions_of(row_positions.tolist())
    return None


_LISTED = 512
"""Most ranges of positions in a command, some 6 kB, for rows in irregular order."""


def commands_of(trial: Trial, evidence: Evidence, positions: Positions | None) -> tuple[str, ...]:
    """Return the commands that write the array again, one for each file, ready to paste.

    For a prompt, the command that writes its ids comes first.
    """
    hypothesis = trial.hypothesis
    if positions is None and hypothesis.positions is not None:
        return ()
    if hypothesis.tables == ("slopes",):
        return (_slopes_command(trial),)
    places = None if positions is None else _positions_options(trial, positions)
    parameters = _parameter_words(trial, None if positions is None else positions.length)
    if parameters is None or (places is None) != (positions is None):
        return ()
    head = None if hypothesis.head is None else str(hypothesis.head)
    words = [
        *("posenc", "generate", "--scheme", trial.bound.scheme.name),
        *(*_words(places or {}), *parameters, *_words({"--head": head})),
    ]
    files = (_file_options(trial, evidence, table) for table in hypothesis.tables)
    prompt = None if hypothesis.axes is None else prompt_of(hypothesis.axes)
    return (*filter(None, [prompt]), *(shlex.join([*words, *_words(file)]) for file in files))


def _words(options: Mapping[str, str | None]) -> list[str]:
    """Return the words of options, without those that have no value."""
    return [word for name, value in options.items() if value for word in (name, value)]


def _parameter_words(trial: Trial, length: int | None) -> list[str] | None:
    """Return the options for the parameters, or None if options cannot give exactly these.

    Required parameters are included even if the array does not show them.
    """
    bound, hidden = trial.bound, trial.hypothesis.hidden
    texts: dict[str, str] = {}
    for name, parameter in bound.scheme.parameters.items():
        value = bound.params[name]
        follows = parameter.rules.follows_length and value == length
        usual = value == parameter.default and name not in ("dim", "base", "heads")
        unseen = name in hidden and not parameter.required
        if not (value is None or unseen or follows or usual):
            texts[name] = as_text(value, separator=parameter.rules.separator)
    given = bound.scheme.bind(texts, seq_len=length).params
    if any(given[name] != bound.params[name] for name in given if name not in hidden):
        return None
    weights = ["--set", "weights=FILE"] if "weights" in hidden else []
    return [*weights, *(word for own in texts.items() for word in option_words(*own))]


def _positions_options(trial: Trial, positions: Positions) -> dict[str, str | None] | None:
    """Return the options for positions, or None if options cannot give them."""
    if trial.bound.scheme.kind == "relative":
        first = positions.ranges[0]
        centred = len(positions.ranges) == 1 and first.step == 1 and first[0] == -first[-1]
        return {"--len": str(first[-1] + 1)} if centred else None
    if positions.step == positions.denominator:
        start = positions.name(positions.first) if positions.first else None
        return {"--start": start, "--len": str(positions.count)}
    text = str(positions)
    return {"--positions": text} if text.count(",") < _LISTED else None


def _file_options(trial: Trial, evidence: Evidence, table: str | None) -> dict[str, str | None]:
    """Return the options for the table, its number format and its file."""
    dtype, rounded = real_format(evidence.stored).name, trial.rounded.name
    # Text files are read as float64, whatever format wrote them.
    if dtype == "float64" and rounded == "float32":
        dtype = rounded
    out = f"{trial.bound.scheme.name}.safetensors" if dtype == "bfloat16" else None
    if len(trial.hypothesis.tables) > 1:
        out = f"{(table or '').partition('-')[0]}.npy"
    shown = "angles" if table in UNREDUCED_TABLES else table
    return {
        "--table": None if table == "cos-sin" else shown,
        "--dtype": dtype,
        "--round-to": None if rounded == dtype else rounded,
        "--arithmetic": None if trial.arithmetic == "exact" else trial.arithmetic,
        "--out": out,
    }


def _slopes_command(trial: Trial) -> str:
    params = trial.bound.params
    options = {
        "--heads": str(params["heads"]),
        "--max-bias": None if params["max_bias"] == 8 else as_text(params["max_bias"]),
        "--convention": None if params["slopes"] == "press" else params["slopes"],
    }
    return shlex.join(["posenc", "alibi-slopes", *_words(options)])

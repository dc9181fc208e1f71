"""Spectra as a table, as curves, in words, and as JSON.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.similarity import finite_or_none, rows_of, rows_of_array
from posenc_cli.analysis.spectrum import (
    DEFAULT_CONTEXT,
    PowerDifference,
    PowerSpectrum,
    Stretch,
    WaveDifference,
    WaveSpectrum,
    along,
    context_of,
    power_difference,
    power_spectrum,
    spectrum_fields,
    wave_difference,
    wave_spectrum,
)
from posenc_cli.budget import REPEATED_COLUMNS, check_size
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions, range_texts
from posenc_cli.records import Record, replace
from posenc_cli.render.figure import Curve, Curves, Panels, check_looks, distinct_names, grouped
from posenc_cli.render.figures.encoded import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.files.reading import Loaded


MOST_ROWS = 128
"""Rows of a table; with more pairs or columns, some are shown."""

_POINTS = 400

_MOST_NAMES = 3
"""The most names listed for one context; if all encodings have it, more are summarized."""

_UNCHANGED = 1e-9
"""The relative difference that rounding may cause in an unchanged wavelength."""
_ENOUGH = 16
"""The least number of wavelengths at which a flat spectrum can be reported."""


class SpectrumSubject(Record):
    """An encoding or a file, and its spectrum.

    ``label`` has all its parameters, ``short`` is its short name. ``original`` is the context
    before an extension.
    """

    label: str
    short: str
    spectrum: WaveSpectrum | PowerSpectrum
    original: int | None = None


class SpectrumReport(Record):
    """A spectrum ready to be shown: a table with ``all_rows`` in all, a figure, text, and JSON.

    If no column changes, there is no figure. ``subjects`` are its encodings or files.
    """

    columns: list[str]
    rows: list[list[str]]
    all_rows: int
    picture: Curves | Panels | None
    sentences: list[str]
    fields: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    subjects: tuple[SpectrumSubject, ...] = ()

    def drawable(self) -> Curves | Panels:
        """The figure.

        Raises: InvalidInput if there is none.
        """
        if self.picture is None:
            raise InvalidInput("--out: no column changes, so there is no spectrum to draw")
        return self.picture

    def notes(self, rows: int) -> list[str]:
        """The lines below a table that shows ``rows`` of the rows."""
        if rows == self.all_rows:
            return self.sentences
        elided = f"the table has {rows} of {self.all_rows} rows; --json has them all"
        if not rows:
            elided = f"the table of {self.all_rows} rows has no room here; --json has them all"
        return [elided, *self.sentences]


def choice_report(choice: Choice) -> SpectrumReport:
    """The waves of an encoding, or the power spectrum of its columns.

    Raises: InvalidInput if it is a bias, or its positions are not evenly spaced.
    """
    content = choice.encoding().bound.content
    if content.heads is not None:
        raise InvalidInput(
            f"{choice.asked}: is a bias, which has neither waves nor rows of positions",
            hint="posenc dot-similarity shows it",
        )
    waves = content.waves is not None
    if choice.positions is None and not waves:
        choice = choice.at_first(DEFAULT_CONTEXT)
    if choice.positions is not None:
        choice.positions.whole("a spectrum")
    (request,) = choice.requests(Precision.of(FLOAT64, None))
    if waves:
        if choice.positions is None:
            # If frequencies depend on the length, take those at the length in which rotations are
            # counted.
            context, _ = context_of(request.encoding, None, choice.context)
            request = replace(request, encoding=choice.encoding(context))
        return wave_report(request, stated_context=choice.context, source=choice.source)
    return row_report(request, choice.engine, source=choice.source)


def wave_report(
    request: Request, *, stated_context: tuple[int, str] | None, source: str
) -> SpectrumReport:
    """The waves of a request, whose positions may be None.

    ``stated_context`` is the context that a model states; ``source`` names the model or config.

    Raises: InvalidInput if there are too many waves or coordinates.
    """
    bound, positions = request.encoding.bound, request.positions
    one_row = replace(request, positions=Positions.contiguous(0, 1))
    width = one_row.plan().shape[-1]
    check_size(f"dim={width} of {request.scheme.name}", width, REPEATED_COLUMNS, "columns of waves")
    context, origin = context_of(request.encoding, positions, stated_context)
    spectrum = wave_spectrum(bound, context, positions)
    sentences = wave_sentences(spectrum, origin=origin)
    original = bound.params.get("original_max_position_embeddings") or None
    if original not in (None, context):
        sentences.append(f"the original context is {original} positions")
    columns, rows = wave_table(spectrum)
    subject = SpectrumSubject(
        label_of(request, source), source or request.scheme.name, spectrum, original
    )
    return SpectrumReport(
        columns,
        rows,
        len(spectrum.wavelengths),
        wave_figure([subject]),
        sentences,
        {
            **_request_fields(one_row),
            "positions": positions and str(positions),
            "kind": "waves",
            "context_from": origin,
            "original_context": original,
            **spectrum_fields(spectrum),
        },
        subjects=(subject,),
    )


def row_report(request: Request, engine_for: EngineFor, *, source: str) -> SpectrumReport:
    """The power spectrum of the columns of a request; ``source`` names the model or config.

    Raises: InvalidInput if its positions are not evenly spaced.
    """
    assert request.positions is not None
    ranges = request.positions.ranges
    if len(ranges) > 1:
        raise InvalidInput(
            f"--positions {request.positions}: a spectrum needs positions at equal steps",
            hint="--len N, or --positions start:stop:step",
        )
    name = label_of(request, source)
    spectrum = power_spectrum(rows_of(request, engine_for(request.plan())), name=name)
    spectrum = replace(
        spectrum,
        along=along(request.encoding.bound),
        wavelengths=spectrum.wavelengths * ranges[0].step,
        dominant=spectrum.dominant * ranges[0].step,
    )
    subject = SpectrumSubject(name, source or request.scheme.name, spectrum)
    return _power_report(subject, _request_fields(request))


def file_report(loaded: Loaded, *, name: str) -> SpectrumReport:
    """The power spectrum of the columns of a file.

    Raises: InvalidInput if it is not a matrix.
    """
    values = loaded.values[:, None] if loaded.values.ndim == 1 else loaded.values
    spectrum = power_spectrum(rows_of_array(values, loaded.dtype, name=name), name=name)
    fields = {"in": loaded.path, "shape": list(loaded.values.shape), "dtype": loaded.dtype}
    subject = SpectrumSubject(name, name, spectrum)
    return _power_report(subject, fields, complex_values=values.dtype.kind == "c")


def _power_report(
    subject: SpectrumSubject, fields: Mapping[str, Any], *, complex_values: bool = False
) -> SpectrumReport:
    spectrum = subject.spectrum
    assert isinstance(spectrum, PowerSpectrum)
    width, dropped = len(spectrum.dominant), len(spectrum.dropped)
    names = column_names(width, complex_values=complex_values)
    values = zip(names, spectrum.dominant.tolist(), spectrum.share.tolist(), strict=True)
    rows = [[name, rounded(at), "" if math.isnan(of) else f"{of:.1%}"] for name, at, of in values]
    warning = f"{subject.label}: {dropped} of {width} columns are not finite, and left out"
    return SpectrumReport(
        ["column", "dominant wavelength", "share of its power"],
        _some(rows),
        width,
        power_figure([subject]) if spectrum.power.any() else None,
        power_sentences(spectrum),
        {
            **fields,
            "kind": "power",
            "columns": names,
            "rows": spectrum.count,
            "transformed": spectrum.transformed,
            "along": spectrum.along,
            "wavelengths": spectrum.wavelengths.tolist(),
            "power": spectrum.power.tolist(),
            "dominant": finite_or_none(spectrum.dominant),  # null without a wavelength
            "share": finite_or_none(spectrum.share),
            "not_finite": list(spectrum.dropped),
        },
        (warning,) if dropped else (),
        (subject,),
    )


def _request_fields(request: Request) -> dict[str, Any]:
    """The request for JSON."""
    description = request.description()
    return {name: description[name] for name in ("scheme", "params", "positions", "weights")}


def wave_figure(subjects: Sequence[SpectrumSubject], places: Sequence[int] = (0,)) -> Curves:
    """The wavelength of each pair, also before an extension, and the contexts to compare with.

    ``places`` are the indices of the subjects among all shown, which determine their colors.
    """
    alone = len(subjects) == 1
    curves: list[Curve] = []
    for place, subject in zip(places, subjects, strict=True):
        spectrum = waves_of(subject)
        pairs = np.arange(len(spectrum.wavelengths))
        name = subject.short if not alone else "after" if spectrum.stretch else ""
        breaks = np.flatnonzero(np.diff(spectrum.axes or ())) + 1  # each axis has its own waves
        curves.append(Curve.parted(pairs, spectrum.wavelengths, breaks, name, color=place))
        if spectrum.stretch:
            before = "before: plain RoPE" if alone else f"{subject.short} before: plain RoPE"
            plain = Curve.of(pairs, spectrum.stretch.wavelengths, before)
            curves.append(replace(plain, color=place + alone, thin=not alone))
    first = waves_of(subjects[0])
    stretch = first.stretch if alone else None
    what = "wavelength of each pair"
    names = ", ".join(subject.short for subject in subjects)
    title = f"{subjects[0].label}: {what}" if alone else f"{what}: {names}"
    found = stretch_finding(stretch) if stretch else ""
    return Curves(
        tuple(curves),
        title=f"{subjects[0].short}: {found}" if found else title,
        notes=(title,) if found else _labels(subjects),
        x_label="pair",
        y_label=f"wavelength in {first.along}",
        y_scale="log",
        levels=_context_levels(subjects),
        spans=_spans(stretch.zones) if stretch else (),
    )


def _labels(subjects: Sequence[SpectrumSubject]) -> tuple[str, ...]:
    """The labels of several subjects, for notes, if they differ from the curves' names."""
    return tuple(each.label for each in subjects if each.label != each.short and subjects[1:])


def stretch_finding(stretch: Stretch) -> str:
    """The effect of an extension on wavelengths in a few words; empty if no ratio is finite."""
    ratios = stretch.ratio[np.isfinite(stretch.ratio)]
    if not ratios.size:
        return ""
    least, most = f"{ratios.min():.3g}×", f"{ratios.max():.3g}×"
    kept, pairs = stretch.zones.count("kept"), len(stretch.zones)
    if ratios.min() < 1 - _UNCHANGED:
        return f"wavelengths become {least} to {most} as long"
    if kept == pairs:
        return f"all {pairs} pairs keep their wavelength"
    if kept:
        keep = "pairs keeps its" if kept == 1 else "pairs keep their"
        return f"{kept} of {pairs} {keep} wavelength, the others are up to {most} as long"
    if least == most:
        return f"every wavelength is {most} as long"
    return f"wavelengths are {least} to {most} as long"


def waves_of(subject: SpectrumSubject) -> WaveSpectrum:
    """The spectrum of a subject that is made of waves."""
    assert isinstance(subject.spectrum, WaveSpectrum)
    return subject.spectrum


def _context_levels(subjects: Sequence[SpectrumSubject]) -> tuple[tuple[float, str], ...]:
    """The contexts, also those before an extension, each once, with their owners."""
    owners: dict[int, list[str]] = {}
    alone = len(subjects) == 1
    for subject in subjects:
        spectrum = waves_of(subject)
        if spectrum.axes:
            continue
        own = "the original context" if subject.original == spectrum.context else "the context"
        owners.setdefault(spectrum.context, []).append(own if alone else subject.short)
        if subject.original is not None and subject.original != spectrum.context:
            before = "the original context" if alone else f"{subject.short} (original)"
            owners.setdefault(subject.original, []).append(before)
    along, whose = waves_of(subjects[0]).along, "" if alone else "context of "
    if len(subjects) > _MOST_NAMES:
        short = [subject.short for subject in subjects]
        owners = {at: [f"all {len(short)}"] if of == short else of for at, of in owners.items()}
    return tuple(
        (float(context), f"{whose}{', '.join(names)}, {context} {along}")
        for context, names in owners.items()
    )


def _spans(zones: Sequence[str]) -> tuple[tuple[float, float, str], ...]:
    """The pairs of each zone, from half a pair before the first to half a pair after the last.

    >>> _spans(("kept", "kept", "blended"))
    ((-0.5, 1.5, 'kept'), (1.5, 2.5, 'blended'))
    """
    spans = []
    for zone, run in groupby(enumerate(zones), key=lambda neighbour: neighbour[1]):
        pairs = [pair for pair, _ in run]
        spans.append((pairs[0] - 0.5, pairs[-1] + 0.5, zone))
    return tuple(spans)


def wave_table(spectrum: WaveSpectrum) -> tuple[list[str], list[list[str]]]:
    """The column names and the rows of a table of pairs."""
    names = ["pair", "wavelength", "rotations"]
    columns = [spectrum.wavelengths, spectrum.turns]
    rows = [[str(pair)] for pair in range(len(spectrum.wavelengths))]
    if spectrum.axes:
        names.insert(1, "axis")
        rows = [[*row, str(axis)] for row, axis in zip(rows, spectrum.axes, strict=True)]
    rows = [[*row, *(rounded(values[pair]) for values in columns)] for pair, row in enumerate(rows)]
    if spectrum.stretch:
        names += ["before", "stretched", "zone"]
        stretch = spectrum.stretch
        rows = [
            [
                *row,
                rounded(stretch.wavelengths[pair]),
                "" if math.isinf(stretch.ratio[pair]) else f"×{stretch.ratio[pair]:.4g}",
                stretch.zones[pair],
            ]
            for pair, row in enumerate(rows)
        ]
    return names, _some(rows)


def wave_sentences(spectrum: WaveSpectrum, *, origin: str) -> list[str]:
    """The findings on the waves of an encoding."""
    pairs = len(spectrum.wavelengths)
    where = (
        f"{spectrum.context} {spectrum.along} ({origin})"
        if not spectrum.axes
        else "the extent of its axis"
    )
    if spectrum.incomplete:
        longer = f"{len(spectrum.incomplete)} of {pairs} pairs have wavelengths longer than {where}"
        lines = [f"{longer}: {', '.join(range_texts(spectrum.incomplete))}"]
    else:
        lines = [f"no pair has a wavelength longer than {where}"]
    if spectrum.stretch:
        zones: dict[str, list[int]] = {}
        for pair, zone in enumerate(spectrum.stretch.zones):
            zones.setdefault(zone, []).append(pair)
        named = (f"{zone} {', '.join(range_texts(pairs))}" for zone, pairs in zones.items())
        lines.append(f"zones by pair: {'; '.join(named)}")
    return lines


def power_figure(subjects: Sequence[SpectrumSubject], places: Sequence[int] = (0,)) -> Curves:
    """The share of each wavelength in the power of all columns; ``places`` as in `wave_figure`."""
    alone = len(subjects) == 1
    curves, notes = [], dict.fromkeys(_labels(subjects))
    for place, subject in zip(places, subjects, strict=True):
        wavelengths, power = power_of(subject).wavelengths, power_of(subject).power
        if len(power) > _POINTS:
            # Bins of equal width in the logarithm, taking the strongest wavelength of each.
            edges = np.unique(np.geomspace(1, len(power) + 1, _POINTS).astype(int) - 1)[:-1]
            ends = np.append(edges[1:], len(power))
            strongest = [a + int(power[a:b].argmax()) for a, b in zip(edges, ends, strict=True)]
            power, wavelengths = power[strongest], wavelengths[strongest]
            notes["the strongest of neighbouring wavelengths"] = None
        name = "" if alone else subject.short
        curves.append(replace(Curve.of(wavelengths, power, name), color=place))
    what, names = "power by wavelength", ", ".join(subject.short for subject in subjects)
    return Curves(
        tuple(curves),
        title=f"{subjects[0].label}: {what}" if alone else f"{what}: {names}",
        x_label=f"wavelength in {power_of(subjects[0]).along}",
        y_label="share of the power",
        x_scale="log",
        y_scale="log",
        notes=tuple(notes),
    )


def power_of(subject: SpectrumSubject) -> PowerSpectrum:
    """The spectrum of a subject that is made of columns."""
    assert isinstance(subject.spectrum, PowerSpectrum)
    return subject.spectrum


def column_names(count: int, *, complex_values: bool) -> list[str]:
    """The names of ``count`` columns; a complex column counts as two.

    >>> column_names(4, complex_values=True)
    ['0 real', '0 imaginary', '1 real', '1 imaginary']
    """
    if not complex_values:
        return [str(column) for column in range(count)]
    return [f"{column // 2} {('real', 'imaginary')[column % 2]}" for column in range(count)]


def power_sentences(spectrum: PowerSpectrum) -> list[str]:
    """The findings on the power of columns."""
    lines = []
    if spectrum.transformed < spectrum.count:
        lines.append(f"of {spectrum.count} rows, the first {spectrum.transformed}")
    moving = np.isfinite(spectrum.dominant)
    still = int((~moving).sum()) - len(spectrum.dropped)
    if still:
        lines.append(f"{still} of {len(moving)} columns are constant, and have no wavelength")
    if moving.any():
        best = int(np.argmax(spectrum.power))
        lines.append(
            f"strongest wavelength: {spectrum.wavelengths[best]:.6g} {spectrum.along}, "
            f"{spectrum.power[best]:.1%} of the power of all columns"
        )
        flat = 1 / len(spectrum.power)
        if len(spectrum.power) >= _ENOUGH and spectrum.power[best] < 4 * flat:
            lines.append("no wavelength stands out: the power is spread as noise spreads it")
    return lines


def rounded(value: float) -> str:
    """A wavelength or a number of rotations: six digits, without an exponent if possible."""
    if not math.isfinite(value):
        return "none"
    return f"{value:.6g}" if abs(value) < 1e6 or abs(value) >= 1e15 else f"{value:.0f}"


def _some(rows: list[list[str]]) -> list[list[str]]:
    """All rows, or as many from the first to the last as a table may have."""
    if len(rows) <= MOST_ROWS:
        return rows
    chosen = np.unique(np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(int))
    return [rows[row] for row in chosen]


_REST = "longer: pairs of wavelengths longer than the context; --json has all of each"
_MOST_RANGES = 3
"""Runs of pairs that a table entry names."""


def compared_report(reports: Sequence[SpectrumReport]) -> SpectrumReport:
    """Several spectra together: a figure, a table of differences, and all in JSON.

    Raises: InvalidInput if more of them share axes than can be distinguished.
    """
    subjects = [subject for report in reports for subject in report.subjects]
    names = distinct_names([subject.short for subject in subjects])
    subjects = [
        replace(subject, short=name, label=f"{name[:3]}{subject.label}")
        if name != subject.short
        else subject
        for subject, name in zip(subjects, names, strict=True)
    ]
    differences = [_difference(subjects[0], other) for other in subjects[1:]]
    still = [
        f"{subject.short}: no column changes, nothing to draw or to compare"
        for subject, report in zip(subjects, reports, strict=True)
        if report.picture is None
    ]
    comparable = [
        difference
        for difference, report in zip(differences, reports[1:], strict=True)
        if None not in (reports[0].picture, report.picture)
    ]
    unlike = [f"–: pairs or wavelengths are not those of {names[0]}"] * (None in comparable)
    picture = _picture(subjects, reports)
    if picture is not None:
        found = _finding(names, differences) or picture.title
        picture = replace(picture, title=found, notes=(*picture.notes, *still))
    rows = [_row(subjects[0], None, first=True)]
    rows += [
        _row(other, difference) for other, difference in zip(subjects[1:], differences, strict=True)
    ]
    return SpectrumReport(
        ["", "context", "before", "longest", "longer", "differing", "largest ratio"],
        rows,
        len(rows),
        picture,
        [
            f"differences are from {names[0]}, over all pairs or all the power; {_REST}",
            *unlike,
            *(still if picture is None else ()),
        ],
        {
            "parts": [
                {"name": subject.label, **report.fields}
                for subject, report in zip(subjects, reports, strict=True)
            ],
            "differences": [
                {"first": 0, "other": place, **_difference_fields(difference)}
                for place, difference in enumerate(differences, 1)
            ],
        },
        tuple(warning for report in reports for warning in report.warnings),
        tuple(subjects),
    )


def _finding(
    names: Sequence[str], differences: Sequence[WaveDifference | PowerDifference | None]
) -> str:
    """The difference between the waves of two in a few words; empty for columns and for more."""
    difference = differences[0]
    if len(names) != 2 or not isinstance(difference, WaveDifference):
        return ""
    if not difference.differing:
        return f"{names[1]}: all {difference.pairs} wavelengths equal those of {names[0]}"
    return (
        f"{names[1]}: {len(difference.differing)} of {difference.pairs} wavelengths differ from "
        f"{names[0]}, by up to {_ratio_text(difference)}"
    )


def _ratio_text(difference: WaveDifference) -> str:
    return "endless" if math.isinf(difference.ratio) else f"×{difference.ratio:.4g}"


def _picture(
    subjects: Sequence[SpectrumSubject], reports: Sequence[SpectrumReport]
) -> Curves | Panels | None:
    """The curves, in one set of axes if they can share it, otherwise side by side."""
    drawable = [place for place, report in enumerate(reports) if report.picture is not None]
    figures: list[Curves] = []
    for places in grouped(drawable, lambda place: _axes(subjects[place])):
        check_looks(places)
        chosen = [subjects[place] for place in places]
        draw = wave_figure if isinstance(chosen[0].spectrum, WaveSpectrum) else power_figure
        figures.append(draw(chosen, places))
    if len(figures) < 2:
        return figures[0] if figures else None
    title = f"spectra: {', '.join(subject.short for subject in subjects)}"
    return Panels(tuple(figures), title=title, shared=False)


def _axes(subject: SpectrumSubject) -> tuple[bool, str]:
    """The key that spectra with shared axes have in common."""
    return isinstance(subject.spectrum, WaveSpectrum), subject.spectrum.along


def _difference(
    first: SpectrumSubject, other: SpectrumSubject
) -> WaveDifference | PowerDifference | None:
    a, b = first.spectrum, other.spectrum
    if isinstance(a, WaveSpectrum):
        return wave_difference(a, b) if isinstance(b, WaveSpectrum) else None
    return None if isinstance(b, WaveSpectrum) else power_difference(a, b)


def _row(
    subject: SpectrumSubject,
    difference: WaveDifference | PowerDifference | None,
    *,
    first: bool = False,
) -> list[str]:
    spectrum = subject.spectrum
    before = ""
    if isinstance(spectrum, WaveSpectrum):
        context = "" if spectrum.axes else str(spectrum.context)
        if subject.original not in (None, spectrum.context):
            before = str(subject.original)
        longest = rounded(float(spectrum.wavelengths.max()))
        still = f"{len(spectrum.incomplete)} of {len(spectrum.wavelengths)}"
    else:
        context, longest, still = f"{spectrum.transformed} rows", "", ""
    told = ("", "") if first else _difference_texts(difference)
    return [subject.short, context, before, longest, still, *told]


def _difference_texts(difference: WaveDifference | PowerDifference | None) -> tuple[str, str]:
    """The pairs that differ and the largest ratio; for columns, the share of the power."""
    if difference is None:
        return "–", ""
    if isinstance(difference, PowerDifference):
        return f"{difference.share:.1%} of the power", ""
    if not difference.differing:
        return "none", ""
    return (
        f"{_ranges(difference.differing)} ({len(difference.differing)})",
        f"{_ratio_text(difference)} at {_ranges(difference.at)}",
    )


def _ranges(pairs: Sequence[int]) -> str:
    texts = list(range_texts(pairs))
    more = len(texts) - _MOST_RANGES
    return ", ".join([*texts[:_MOST_RANGES], *([f"{more} more runs"] if more > 0 else ())])


def _difference_fields(difference: WaveDifference | PowerDifference | None) -> dict[str, Any]:
    """A difference for JSON; an infinite ratio is null."""
    if difference is None:
        return {"compared": False}
    fields = difference.as_dict()
    if "ratio" in fields and not math.isfinite(fields["ratio"]):
        fields["ratio"] = None
    return {"compared": True, **fields}

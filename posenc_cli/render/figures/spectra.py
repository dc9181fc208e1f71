"""Report spectra as a table, as curves, in words, and as JSON.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.analysis.spectrum import (
    Stretch,
    WaveDifference,
    WaveSpectrum,
    context_of,
    spectrum_fields,
    wave_difference,
    wave_spectrum,
)
from posenc_cli.budget import REPEATED_COLUMNS, check_size
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions, range_texts
from posenc_cli.records import Record, items_by_key, replace
from posenc_cli.render.figure import (
    Curve,
    Curves,
    Panels,
    check_distinguishable,
    distinct_names,
)
from posenc_cli.render.figures.encoded import label_of
from posenc_cli.render.ticks import label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request


MOST_ROWS = 128
"""Rows of a table; with more pairs or columns, some are shown."""

_UNCHANGED = 1e-9
"""The relative difference that rounding may cause in an unchanged wavelength."""


class SpectrumSubject(Record):
    """An encoding, and its spectrum.

    ``label`` has all its parameters, ``short`` is its short name. ``original`` is the context
    before an extension.
    """

    label: str
    short: str
    spectrum: WaveSpectrum
    original: int | None = None


class SpectrumReport(Record):
    """A spectrum ready to be shown: a table with ``all_rows`` in all, a figure, text, and JSON.

    ``subjects`` are its encodings.
    """

    columns: list[str]
    rows: list[list[str]]
    all_rows: int
    picture: Curves | Panels
    sentences: list[str]
    fields: Mapping[str, Any]
    subjects: tuple[SpectrumSubject, ...] = ()

    def notes(self, rows: int) -> list[str]:
        """Return the lines below a table that shows ``rows`` of the rows."""
        if rows == self.all_rows:
            return self.sentences
        elided = f"the table has {rows} of {self.all_rows} rows; --json has them all"
        if not rows:
            elided = f"the table has {self.all_rows} rows, too many to show; --json has them all"
        return [elided, *self.sentences]


def _request_of_waves(choice: Choice) -> Request:
    """Return the request for an encoding that consists of waves.

    Raises: InvalidInput if it does not, or its positions are not whole.
    """
    if choice.encoding().bound.content.waves is None:
        raise InvalidInput(
            f"{choice.asked} is not made of waves, so it has no wavelengths",
            hint="posenc dot-similarity shows how it changes with distance",
        )
    if choice.positions is not None:
        choice.positions.whole("a spectrum")
    (request,) = choice.requests(Precision.of(FLOAT64, None))
    if choice.positions is None:
        # If frequencies depend on the length, take those at the length in which rotations are
        # counted.
        context, _ = context_of(request.encoding, None, choice.context)
        request = replace(request, encoding=choice.encoding(context))
    return request


def choice_report(choice: Choice) -> SpectrumReport:
    """Return the report on the waves of an encoding.

    Raises: InvalidInput if it does not consist of waves, has too many of them, or its positions are
        not whole.
    """
    request = _request_of_waves(choice)
    bound, positions, source = request.encoding.bound, request.positions, choice.source
    one_row = replace(request, positions=Positions.contiguous(0, 1))
    width = one_row.plan().shape[-1]
    check_size(f"dim={width} of {request.scheme.name}", width, REPEATED_COLUMNS, "columns of waves")
    context, origin = context_of(request.encoding, positions, choice.context)
    spectrum = wave_spectrum(bound, context, positions)
    sentences = wave_sentences(spectrum, origin=origin)
    original = bound.params.get("original_max_position_embeddings") or None
    if original not in (None, context):
        sentences.append(f"the original context is {original} positions")
    columns, rows = wave_table(spectrum)
    subject = SpectrumSubject(
        label_of(request, source), source or request.scheme.name, spectrum, original
    )
    described = one_row.description()
    return SpectrumReport(
        columns,
        rows,
        len(spectrum.wavelengths),
        wave_figure([subject]),
        sentences,
        {
            **{name: described[name] for name in ("scheme", "params", "positions", "weights")},
            "positions": positions and str(positions),
            "kind": "waves",
            "context_from": origin,
            "original_context": original,
            **spectrum_fields(spectrum),
        },
        subjects=(subject,),
    )


def wave_figure(subjects: Sequence[SpectrumSubject], places: Sequence[int] = (0,)) -> Curves:
    """Return curves of the wavelength of each pair, also before an extension, and the contexts.

    ``places`` are the indices of the subjects among all shown, which determine their colors.
    """
    alone = len(subjects) == 1
    curves: list[Curve] = []
    for place, subject in zip(places, subjects, strict=True):
        spectrum = subject.spectrum
        pairs = np.arange(len(spectrum.wavelengths))
        name = subject.short if not alone else "after" if spectrum.stretch else ""
        breaks = np.flatnonzero(np.diff(spectrum.axes or ())) + 1  # each axis has separate waves
        curves.append(Curve.with_breaks(pairs, spectrum.wavelengths, breaks, name, color=place))
        if spectrum.stretch:
            before = "before: plain RoPE" if alone else f"{subject.short} before: plain RoPE"
            plain = Curve.of(pairs, spectrum.stretch.wavelengths, before)
            curves.append(replace(plain, color=place + alone, thin=not alone))
    first = subjects[0].spectrum
    stretch = first.stretch if alone else None
    what = "wavelength of each pair"
    names = ", ".join(subject.short for subject in subjects)
    title = f"{subjects[0].label}: {what}" if alone else f"{what}: {names}"
    found = stretch_finding(stretch) if stretch else ""
    # Notes give the full labels if the curves have shorter names.
    labels = tuple(each.label for each in subjects if each.label != each.short and subjects[1:])
    return Curves(
        tuple(curves),
        title=f"{subjects[0].short}: {found}" if found else title,
        notes=(title,) if found else labels,
        x_label="pair",
        y_label=f"wavelength in {first.along}",
        y_scale="log",
        levels=_context_levels(subjects),
        spans=_spans(stretch.zones) if stretch else (),
    )


def stretch_finding(stretch: Stretch) -> str:
    """Describe the effect of an extension on wavelengths; empty if no ratio is finite."""
    ratios = stretch.ratio[np.isfinite(stretch.ratio)]
    if not ratios.size:
        return ""
    least, most = f"{label(ratios.min(), 3)}×", f"{label(ratios.max(), 3)}×"
    kept, pairs = stretch.zones.count("kept"), len(stretch.zones)
    if kept and ratios.min() >= 1 - _UNCHANGED:
        rest = "" if kept == pairs else f", the others are up to {most} as long"
        return f"{kept} of {pairs} pairs keep their wavelength{rest}"
    return f"wavelengths become {most if least == most else f'{least} to {most}'} as long"


def _context_levels(subjects: Sequence[SpectrumSubject]) -> tuple[tuple[float, str], ...]:
    """Return each context once, also before an extension, with the names of its encodings."""
    owners: dict[int, list[str]] = {}
    alone = len(subjects) == 1
    for subject in subjects:
        spectrum = subject.spectrum
        if spectrum.axes:
            continue
        context_name = (
            "the original context" if subject.original == spectrum.context else "the context"
        )
        owners.setdefault(spectrum.context, []).append(context_name if alone else subject.short)
        if subject.original is not None and subject.original != spectrum.context:
            before = "the original context" if alone else f"{subject.short} (original)"
            owners.setdefault(subject.original, []).append(before)
    along, prefix = subjects[0].spectrum.along, "" if alone else "context of "
    return tuple(
        (float(context), f"{prefix}{', '.join(names)}, {context} {along}")
        for context, names in owners.items()
    )


def _spans(zones: Sequence[str]) -> tuple[tuple[float, float, str], ...]:
    """Return the pairs of each zone, from half a pair before to half a pair after it.

    >>> _spans(("kept", "kept", "blended"))
    ((-0.5, 1.5, 'kept'), (1.5, 2.5, 'blended'))
    """
    starts = [0, *(pair for pair in range(1, len(zones)) if zones[pair] != zones[pair - 1])]
    ends = zip(starts, [*starts[1:], len(zones)], strict=True)
    return tuple((start - 0.5, stop - 0.5, zones[start]) for start, stop in ends)


def wave_table(spectrum: WaveSpectrum) -> tuple[list[str], list[list[str]]]:
    """Return the column names and the rows of a table of pairs."""
    names = ["pair", "wavelength", "rotations"]
    rows = [[str(pair)] for pair in range(len(spectrum.wavelengths))]
    if spectrum.axes:
        names.insert(1, "axis")
        rows = [[*row, str(axis)] for row, axis in zip(rows, spectrum.axes, strict=True)]
    rows = [
        [*row, rounded(spectrum.wavelengths[pair]), rounded(spectrum.turns[pair])]
        for pair, row in enumerate(rows)
    ]
    if spectrum.stretch:
        names += ["before", "change", "zone"]
        stretch = spectrum.stretch
        rows = [
            [
                *row,
                rounded(stretch.wavelengths[pair]),
                "" if math.isinf(stretch.ratio[pair]) else f"×{label(stretch.ratio[pair])}",
                stretch.zones[pair],
            ]
            for pair, row in enumerate(rows)
        ]
    return names, [rows[row] for row in spread(len(rows), MOST_ROWS)]


def wave_sentences(spectrum: WaveSpectrum, *, origin: str) -> list[str]:
    """Describe the waves of an encoding in sentences."""
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
        zones = items_by_key((zone, pair) for pair, zone in enumerate(spectrum.stretch.zones))
        zone_texts = (f"{zone} {', '.join(range_texts(pairs))}" for zone, pairs in zones.items())
        lines.append(f"zones by pair: {'; '.join(zone_texts)}")
    return lines


def rounded(value: float) -> str:
    """Return a wavelength or rotation count with six digits, if possible without an exponent."""
    if not math.isfinite(value):
        return "none"
    return f"{value:.6g}" if abs(value) < 1e6 or abs(value) >= 1e15 else f"{value:.0f}"


_LONGER_NOTE = "longer: pairs with wavelengths longer than the context; --json lists all values"
_MOST_RANGES = 3
"""Runs of pairs that a table entry names."""


def compared_report(reports: Sequence[SpectrumReport]) -> SpectrumReport:
    """Return the report on several spectra: a figure, a table of differences, and all in JSON.

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
    first = subjects[0].spectrum
    differences = [wave_difference(first, other.spectrum) for other in subjects[1:]]
    not_comparable = [f"–: not comparable with {names[0]}"] * (None in differences)
    picture = _combined_figure(subjects)
    picture = replace(picture, title=_difference_finding(names, differences) or picture.title)
    rows = [_compared_row(subjects[0], None, first=True)]
    rows += [
        _compared_row(other, difference)
        for other, difference in zip(subjects[1:], differences, strict=True)
    ]
    return SpectrumReport(
        ["", "context", "before", "longest", "longer", "differing", "largest ratio"],
        rows,
        len(rows),
        picture,
        [
            f"differences from {names[0]}, over all pairs; {_LONGER_NOTE}",
            *not_comparable,
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
        tuple(subjects),
    )


def _difference_finding(names: Sequence[str], differences: Sequence[WaveDifference | None]) -> str:
    """Return the difference between the waves of two encodings in a few words; empty for more."""
    difference = differences[0]
    if len(names) != 2 or difference is None:
        return ""
    if not difference.differing:
        return f"{names[1]}: all {difference.pairs} wavelengths equal those of {names[0]}"
    return (
        f"{names[1]}: {len(difference.differing)} of {difference.pairs} wavelengths differ from "
        f"{names[0]}, {'down' if difference.ratio < 1 else 'up'} to {_ratio_text(difference)}"
    )


def _ratio_text(difference: WaveDifference) -> str:
    return "endless" if math.isinf(difference.ratio) else f"×{label(difference.ratio)}"


def _combined_figure(subjects: Sequence[SpectrumSubject]) -> Curves | Panels:
    """Return the curves in one set of axes if they can share it, otherwise side by side."""
    figures: list[Curves] = []
    alongs = ((subject.spectrum.along, place) for place, subject in enumerate(subjects))
    for places in items_by_key(alongs).values():
        check_distinguishable(places)
        figures.append(wave_figure([subjects[place] for place in places], places))
    if len(figures) < 2:
        return figures[0]
    title = f"spectra: {', '.join(subject.short for subject in subjects)}"
    return Panels(tuple(figures), title=title, shared=False)


def _compared_row(
    subject: SpectrumSubject, difference: WaveDifference | None, *, first: bool = False
) -> list[str]:
    spectrum = subject.spectrum
    before = str(subject.original) if subject.original not in (None, spectrum.context) else ""
    return [
        subject.short,
        "" if spectrum.axes else str(spectrum.context),
        before,
        rounded(float(spectrum.wavelengths.max())),
        f"{len(spectrum.incomplete)} of {len(spectrum.wavelengths)}",
        *(("", "") if first else _difference_texts(difference)),
    ]


def _difference_texts(difference: WaveDifference | None) -> tuple[str, str]:
    """Return the pairs that differ, and the largest ratio."""
    if difference is None:
        return "–", ""
    if not difference.differing:
        return "none", ""
    return (
        f"{_ranges_text(difference.differing)} ({len(difference.differing)})",
        f"{_ratio_text(difference)} at {_ranges_text(difference.at)}",
    )


def _ranges_text(pairs: Sequence[int]) -> str:
    texts = list(range_texts(pairs))
    more = len(texts) - _MOST_RANGES
    return ", ".join([*texts[:_MOST_RANGES], *([f"{more} more runs"] if more > 0 else ())])


def _difference_fields(difference: WaveDifference | None) -> dict[str, Any]:
    """Return a difference for JSON; an infinite ratio is null."""
    if difference is None:
        return {"compared": False}
    ratio = difference.ratio if math.isfinite(difference.ratio) else None
    return {"compared": True, **difference.as_dict(), "ratio": ratio}

"""Several spectra in one set of axes, and what sets each apart from the first.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.differences import (
    PowerDifference,
    WaveDifference,
    power_difference,
    wave_difference,
)
from posenc_cli.analysis.spectrum import WaveSpectrum
from posenc_cli.positions import range_texts
from posenc_cli.records import replace
from posenc_cli.render.figure import Panels
from posenc_cli.render.figures.spectra import (
    SpectrumReport,
    SpectrumSubject,
    power_figure,
    rounded,
    wave_figure,
)
from posenc_cli.render.overlays import check_looks, distinct_names, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.figure import Curves

_REST = "longer: pairs of wavelengths longer than the context; --json has all of each"
_MOST_RANGES = 3
"""Runs of pairs that a cell of a table names."""


def compared_report(reports: Sequence[SpectrumReport]) -> SpectrumReport:
    """Several spectra together: a figure, a table of what sets them apart, and all in JSON.

    Raises: InvalidInput where more of them share axes than can be told apart.
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
    """How the waves of two differ, in a few words; empty for more than two, and for columns."""
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
    """The curves: in one set of axes those that can share one, the others beside them."""
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
    """What spectra have in common that share axes."""
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
    """Which pairs differ, and by how much at most; of columns, how much of the power."""
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
    """A difference as JSON has it; an infinite ratio is null."""
    if difference is None:
        return {"compared": False}
    fields = difference.as_dict()
    if "ratio" in fields and not math.isfinite(fields["ratio"]):
        fields["ratio"] = None
    return {"compared": True, **fields}

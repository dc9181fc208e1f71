"""The report of a check for a person: the answer, the findings, and what shows the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.render.report import COLUMNS, answer, rows, scope
from posenc_cli.rotary.codes import FindingName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.blocks import Medium
    from posenc_cli.render.figure import Curves
    from posenc_cli.render.typesetting import Typesetter
    from posenc_cli.rotary.verdict import Report

CURVE_LINES = 14
"""Lines of the curve, where there is room for so many."""
_FEWEST = 3
"""Points that show a course."""


def report_text(report: Report, typesetter: Typesetter, *, verbose: bool = False) -> str:
    """The report for a person: the answer, the findings, and what shows the cause.

    ``verbose`` adds how a function was called, and what was tried and not.
    """
    text = typesetter.paragraph
    details = [f"{one.check}: {one.message}" for one in report.findings if not one.ok]
    details += [f"{why.cause}: {why.evidence}" for why in report.diagnosis if why.evidence]
    blocks = [
        [answer(report).text(typesetter)],
        [typesetter.table(COLUMNS, rows(report))],
        [
            text(f"{scope(report)}; tolerance {report.tolerance}"),
            *map(text, details),
            *(text(f"note: {note}") for note in _notes(report, verbose=verbose)),
        ],
    ]
    whole = "\n\n".join("\n".join(lines) for lines in blocks)
    for words, style in _MARKED:
        whole = typesetter.marked(whole, words, style)
    return whole


_MARKED = (
    (r"\AFAILED|\bFAIL(?=  )", "red"),
    (r"\Aok|\bok(?=  )", "green"),
    (r"^(cause: [\w-]+|next:)", "bold"),
)
"""Words of the answer and of cells of the table, and their styles."""

_OF_CALLS = ("called as ", "it was also called in ", "not tried: ")
"""How the notes begin that say how a function was called."""


def _notes(report: Report, *, verbose: bool) -> Sequence[str]:
    """The notes of a report; those of calls are counted in one, unless it is verbose."""
    call = report.subject.get("call") or {}
    if verbose or not call:
        return report.notes
    others = [note for note in report.notes if not note.startswith(_OF_CALLS)]
    untried, ways = len(call["untried"]), 1 + len(call["patterns"])
    counted = f"called in {ways} way{'s' * (ways > 1)}, {untried or 'no'} more not tried"
    return [*others, f"{counted} (--verbose lists them)"]


def deviation_text(report: Report, width: int, height: int, medium: Medium) -> str | None:
    """The error by position on so many lines at most, where there is a course to show."""
    figure = deviation_figure(report)
    if figure is None:
        return None
    from posenc_cli.render.blocks import Page
    from posenc_cli.render.terminal import curves_text

    return curves_text(figure, Page(width, min(CURVE_LINES, height), medium))


def deviation_figure(report: Report) -> Curves | None:
    """The error by position of a check that failed, None where there is no course to show."""
    points = [(p, error) for p, error in report.curve if 0 < error < float("inf")]
    if report.ok or len(points) < _FEWEST:
        return None
    from posenc_cli.render.figure import Curve, Curves

    errors = [error for _, error in points]
    logarithmic = max(errors) > 10 * min(errors)
    return Curves(
        tuple(
            Curve(x=tuple(float(p) for p, _ in part), y=tuple(e for _, e in part), name=name)
            for name, part in _parts(points, report)
        ),
        title="deviation from the reference by position",
        x_label="position",
        y_label="deviation",
        y_scale="log" if logarithmic else "linear",
        levels=_allowed(report) or (() if logarithmic else ((0.0, "no deviation"),)),
        joined=report.of is None,  # of a sample, nothing is said of what lies between
    )


def _allowed(report: Report) -> tuple[tuple[float, str], ...]:
    """What is allowed where the deviation is worst, as a level; without it noise fills the axis."""
    return tuple(
        (finding.tolerance, f"allowed at position {finding.at['position']}")
        for finding in report.findings
        if finding.check == FindingName.REFERENCE and finding.tolerance and finding.at
    )


def _parts(
    points: list[tuple[int, float]], report: Report
) -> list[tuple[str, list[tuple[int, float]]]]:
    """The points of the curve by the place that a cause is about, each with its name."""
    from posenc_cli.positions import Positions

    parts: list[tuple[str, list[tuple[int, float]]]] = []
    for why in report.diagnosis:
        if why.where is None or why.where.positions is None:
            continue
        ranges = Positions.parse(why.where.positions).ranges
        inside = [point for point in points if any(r.start <= point[0] < r.stop for r in ranges)]
        points = [point for point in points if point not in inside]
        if inside:
            parts.append((f"{why.cause} at {why.where.positions}", inside))
    if points:
        parts.insert(0, ("elsewhere" if parts else "", points))
    return parts

"""The report of a check for a person: the answer, the findings, and what shows the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.render.reports.report import COLUMNS, answer, rows, scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.terminal.blocks import Medium
    from posenc_cli.render.typesetting import Typesetter
    from posenc_cli.rotary.verdict import Report

CURVE_LINES = 14
"""Lines of the curve, where there is room for so many."""


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
    tried = f"tried {'all ' * (ways > 1 and not untried)}{ways} call form{'s' * (ways > 1)}"
    rest = f"; {untried} not tried" * (untried > 0)
    return [*others, f"{tried}{rest} (--verbose lists them)"]


def deviation_text(report: Report, width: int, height: int, medium: Medium) -> str | None:
    """The error of a check that failed, by position, on so many lines at most.

    None where there is no course to show.
    """
    from posenc_cli.render.reports.deviations import error_curve
    from posenc_cli.render.terminal.blocks import Page
    from posenc_cli.render.terminal.text_pictures import curves_text

    curves = None if report.ok else error_curve(report)
    if curves is None:
        return None
    return curves_text(curves, Page(width, min(CURVE_LINES, height), medium))

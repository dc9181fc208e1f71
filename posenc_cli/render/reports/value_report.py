"""Report a check of values: text, JSON, JUnit XML, GitHub, Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.render.reports.ci_forms import Case, CiReport
from posenc_cli.render.ticks import finite_or_null
from posenc_cli.render.typesetting import Answer, Typesetter

if TYPE_CHECKING:
    from posenc_cli.checks.values import ValueReport

_COMMAND = "check"
_COLUMNS = ["worst value", "expected", "found", "allowed"]
_COMPARED = ("reference", "positions", "tolerance")


def value_fields(report: ValueReport) -> dict[str, Any]:
    """Return a report as JSON fields, finite numbers only."""
    worst = finite_or_null(report.worst.as_dict()) if report.worst is not None else None
    return {
        "ok": report.ok,
        "verdict": report.verdict,
        "cause": report.cause,
        "next": report.next_step,
        "explanations": [[bug.as_dict() for bug in bugs] for bugs in report.explained],
        "compared": report.compared,
        "differing": report.differing,
        "worst": worst,
        "where": report.where or None,
        "subject": report.subject,
        "reference": report.reference,
        "positions": report.positions,
        "call": report.call or None,
        "not_tested": report.untested or None,
        "notes": list(report.notes),
        "tolerance": report.tolerance,
    }


def value_answer(report: ValueReport) -> Answer:
    """Return the verdict, and for a failure the cause and the next step."""
    why = {} if report.ok else {"cause": report.cause_text, "next": report.next_step}
    return Answer(report.ok, report.verdict, **why)


def value_text(report: ValueReport, typesetter: Typesetter, *, verbose: bool = False) -> str:
    """Return a report for a reader: verdict, cause, next step, then where values differ.

    ``verbose`` adds the reference, the positions, the tolerance and the calls that failed.
    """
    text = typesetter.paragraph
    rows, blocks = _worst_rows(report), [value_answer(report).text(typesetter)]
    if not report.ok and rows:
        blocks.append(typesetter.table(_COLUMNS, rows))
        blocks.append("\n".join(text(f"{name}: {where}") for name, where in report.where.items()))
    elif report.worst is not None:
        error = abs(report.worst.found - report.worst.expected)
        blocks.append(text(f"farthest from exact: {error:.2g} at {rows[0][0]}"))
    # Unless verbose, shorten the note on calls that raised an error.
    few = "some further calls failed (--verbose lists them)"
    blocks += [
        text(f"note: {few if note.startswith('not tried: ') and not verbose else note}")
        for note in report.notes
    ]
    if verbose:
        basis = report.title, report.positions, report.tolerance
        blocks.append("\n".join(map(text, map("{}: {}".format, _COMPARED, basis))))
    return typesetter.report(*blocks)


def _worst_rows(report: ValueReport) -> list[list[str]]:
    """Return the worst value as a row of a table; empty if nothing was compared."""
    worst = report.worst
    if worst is None:
        return []
    place = ", ".join(f"{name} {value:g}" for name, value in worst.at.items())
    return [[place, f"{worst.expected:.9g}", f"{worst.found:.9g}", f"{worst.allowed:.2g}"]]


def value_ci_report(report: ValueReport) -> CiReport:
    """Return the report for CI systems: one test case."""
    rows = [] if report.ok else _worst_rows(report)
    paragraphs = [*value_answer(report).lines(), *(f"note: {note}" for note in report.notes)]
    paragraphs += [f"{name}: {where}" for name, where in report.where.items()] if rows else []
    worst = [f"{name}: {cell}" for row in rows for name, cell in zip(_COLUMNS, row, strict=True)]
    details = "\n".join([*paragraphs, *worst])
    problem = None if report.ok else ("failure", str(report.cause), report.verdict, details)
    name = f"{report.subject['form']}: {report.subject['name']}"
    group, title = str(report.reference["scheme"]), str(report.cause)
    return CiReport(
        _COMMAND,
        "ok" if report.ok else "failed",
        report.verdict,
        (Case(group, name, report.seconds, title, problem),),
        {
            "subject": str(report.subject["name"]),
            "reference": report.title,
            "positions": report.positions,
            "tolerance": report.tolerance,
        },
        paragraphs=paragraphs,
        columns=_COLUMNS,
        rows=rows,
    )

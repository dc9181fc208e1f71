"""Report a rope-check as text, JSON and forms for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.inference.codes import Cause, FindingName, SubjectKind
from posenc_cli.render.reports.ci_forms import Case, CiReport
from posenc_cli.render.ticks import counted
from posenc_cli.render.typesetting import Answer, Typesetter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.rotary.findings import Finding
    from posenc_cli.rotary.verdict import Report


_COMMAND = "rope-check"

_NEXT: Mapping[str, str] = {
    Cause.LAYOUT: "split and join dimensions and heads in the layout of the reference",
    Cause.DIRECTION: "change the sign of sin",
    Cause.BASE: "use the base (rope_theta) of the reference",
    Cause.SCALING_MISSING: "scale the inverse frequencies as rope_scaling says, before cos and sin",
    Cause.ATTENTION_FACTOR: "multiply cos and sin by the attention factor of the reference, once",
    Cause.ROTARY_DIM: "rotate the same number of dimensions as the reference",
    Cause.NO_ROTATION: "return the rotated vectors, and check that cos and sin reach them",
    Cause.INV_FREQ_PRECISION: "compute and keep the inverse frequencies in float32, or in "
    "float64 if that is required, also when the model is in half precision",
    Cause.POSITION_PRECISION: "compute positions and angles in float32, or in float64 if that is "
    "required, outside of autocast",
    Cause.TABLE_PRECISION: "compute angles, cos and sin with more bits than the table, and round "
    "once, at the end",
    Cause.COS_SIN_MISPAIRED: "check how cos and sin are built, indexed and passed",
    Cause.POSITION_OFFSET: "check which position each row gets: offset, cache length, clamping",
    Cause.FREQUENCY_RULE: "compare your inverse frequencies with posenc generate --table inv-freq",
    Cause.AXIS: "check which pairs follow which axis, and the order of the axes",
    Cause.UNINITIALISED: "recompute the buffers after loading: a checkpoint may not hold them",
    Cause.NOT_A_NUMBER: "look for overflow, a division by 0 and uninitialized memory",
}
"""The next step for each cause that implies one."""


COLUMNS = "check", "result", "worst", "allowed", "where"
"""The column heads of a table of findings."""


def fields(report: Report) -> dict[str, Any]:
    """Return a report as JSON fields, finite numbers only."""
    return {
        **answer(report).fields(),
        "subject": report.subject,
        "reference": report.reference,
        "positions": report.positions,
        "pairs": report.pairs,
        "findings": [finding.as_dict() for finding in report.findings],
        "diagnosis": [explanation.fields() for explanation in report.diagnosis],
        "notes": list(report.notes),
        "not_checked": report.unchecked or None,
        "tolerance": report.tolerance,
        "accepted_by": None if report.accepted_by is None else f"--tol {report.accepted_by}",
        "looked_at": {"positions": report.count, "of": report.of or report.count}
        if report.count
        else None,
    }


def rows(report: Report) -> list[list[str]]:
    """Return the findings as rows: check, result, worst, allowed, where."""
    return [
        [
            finding.check,
            "ok" if finding.ok else "FAIL",
            _number_text(finding.worst),
            _number_text(finding.tolerance),
            place(finding),
        ]
        for finding in report.findings
    ]


def place(finding: Finding) -> str:
    """Return the place where a finding is worst, in words.

    >>> from posenc_cli.inference.codes import FindingName
    >>> from posenc_cli.rotary.findings import Finding
    >>> place(Finding(FindingName.NORM, True, 0.0, 1e-6, {"position": 3, "pair": 0}, ""))
    'position 3, pair 0'
    """
    return ", ".join(f"{name} {value}" for name, value in (finding.at or {}).items())


def _number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def answer(report: Report) -> Answer:
    """Return the verdict, the causes, the largest error of a correct subject and the next step."""
    no_subject = report.subject["kind"] == SubjectKind.POSENC and report.pairs > 0
    own_code = "to check your code, give --impl, --tables, --inv-freq or --rotated"
    return Answer(
        report.ok,
        verdict(report),
        "; ".join(why.text for why in report.diagnosis) or None,
        largest_error(report),
        (own_code if no_subject else None) if report.ok else _next_step(report),
    )


def _next_step(report: Report) -> str | None:
    """Return the next step after a failure, if there is one."""
    if report.accepted_by is not None:
        return f"use --tol {report.accepted_by} to accept that rounding"
    option = f"--layout {report.subject['layout']}"
    complete = [why for why in report.diagnosis if why.residual and not why.residual.count]
    if len(report.diagnosis) == 1 and any(option in why.evidence for why in complete):
        return f"use {option} if your model does, or pair dimensions as the reference does"
    steps = []
    for why in report.diagnosis:
        own_steps = [_NEXT.get(own.cause) for own in (why, *why.alike)]
        steps.append(", or ".join(dict.fromkeys(filter(None, own_steps))))
    if any(steps):
        return "; ".join(dict.fromkeys(filter(None, steps)))
    if not _rotates(report):
        return "run posenc check FILE with the same options to compare a table with this encoding"
    where = next((place(each) for each in report.findings if not each.ok and each.at), None)
    return where and f"look at {where}, where the error is largest relative to the tolerance"


def _rotates(report: Report) -> bool:
    """Return whether the reference is a rotation; an encoding that is added has no pairs."""
    return report.subject["kind"] != SubjectKind.POSENC or report.pairs > 0


def verdict(report: Report) -> str:
    """Return the verdict in one sentence."""
    name, rest = _subject(report), ", at text positions" if report.unchecked else ""
    call = report.subject.get("call") or {}
    order = f"; its table holds {call['order']}, not timm's order" if call.get("order") else ""
    plural = report.subject["kind"] in (SubjectKind.TABLES, SubjectKind.POSENC)
    if report.ok:
        match = "match" if plural else "matches"
        sample = f", at {_positions_text(report)}" if report.count and report.of is not None else ""
        unchecked = "; not checked beyond text positions" if report.unchecked else ""
        details = f"{sample}{unchecked}{_call_notes(report)}{order}{_layout_note(report)}"
        match = f"{match} {report.title}" if _rotates(report) else "(scores depend on m − n alone)"
        return f"ok: {name} {match}{details}"
    # Checks without a worst value were not measured: the function is not linear.
    holds = {each.check: each.ok for each in report.findings if each.ok or each.worst is not None}
    alone = "q·k does not depend on m − n alone"
    if all(finding.check != FindingName.REFERENCE for finding in report.findings):
        return f"FAILED: {name}{rest}: {alone}"
    differs = f"{'do' if plural else 'does'} not match {report.title}{rest}"
    if report.accepted_by is not None:
        values = "cos and sin" if report.subject["kind"] == SubjectKind.TABLES else "its values"
        return f"FAILED: {name} {differs}: {values} are rounded to {report.accepted_by}"
    relative = {None: "", True: ", although q·k depends only on m − n", False: f", and {alone}"}
    return f"FAILED: {name} {differs}{relative[holds.get(FindingName.RELATIVE)]}{order}"


def _call_notes(report: Report) -> str:
    """Return what no call of a function tested, and any unusual result type or axes."""
    call = report.subject.get("call") or {}
    wider = bool(call.get("axes")) and report.subject["dtype"] == "float64"
    axes, usual = call.get("axes"), call.get("usual_axes")
    notes = (
        ("returns float64 for float32 input", wider),
        (f"not tested: {', '.join(call.get('untested') or ())}", call.get("untested")),
        (f"its axes are {axes}, not the usual {usual} (--axes {usual} requires those)", usual),
    )
    return "".join(f"; {text}" for text, applies in notes if applies)


def _layout_note(report: Report) -> str:
    """Return a note if the output layout is not the input layout, else an empty string."""
    input_layout, output_layout = report.subject["layout"], report.subject["out_layout"]
    text = f"; its input layout is {input_layout}, its output layout {output_layout}"
    return "" if output_layout == input_layout else text


def _subject(report: Report) -> str:
    kind, name = report.subject["kind"], report.subject["name"]
    if not _rotates(report):
        return f"{name} does not rotate q and k"
    return "posenc's own tables" if kind == SubjectKind.POSENC else f"{kind} {name}"


def scope(report: Report) -> str:
    """Return the scope of the check, on one line."""
    pairs = [counted(report.pairs, "frequency pair")] * bool(report.pairs)
    return ", ".join([_positions_text(report), *pairs, str(report.subject["dtype"])])


def largest_error(report: Report) -> str | None:
    """Return the largest error of a correct subject and its place, or None if it is wrong."""
    for finding in report.findings if report.ok else ():
        if finding.check == FindingName.REFERENCE and finding.worst is not None:
            return f"maximum absolute error {finding.worst:.2g} at {place(finding)}"
    return None


def _positions_text(report: Report) -> str:
    """Return the number of positions examined, and the number in all if they are a sample."""
    if not report.count:
        return "no position" if report.pairs else "proved for all positions"
    if report.of is None:
        return counted(report.count, "position")
    return f"{report.count} of {counted(report.of, 'position')}"


def _details(report: Report, finding: Finding) -> str:
    parts = [finding.message]
    if finding.worst is not None and finding.tolerance is not None:
        parts.append(f"worst {finding.worst:.3g}, tolerance {finding.tolerance:.3g}")
    if finding.at:
        parts.append(f"at {place(finding)}")
    text = "; ".join(part for part in parts if part)
    causes = [f"cause {why.text} ({why.evidence})" for why in report.diagnosis]
    step = _next_step(report)
    return "\n".join([text, *causes, *([f"next: {step}"] if step else [])])


def ci_report(report: Report) -> CiReport:
    """Return the report for CI systems: one test case per finding.

    One pass over the subject yields several findings, so each gets an equal share of the time.
    """
    share = report.seconds / max(1, len(report.findings))
    group = str(report.reference["scheme"])
    cases = [
        Case(
            group,
            f"{finding.check}: {_subject(report)}",
            share,
            str(finding.check),
            None
            if finding.ok
            else ("failure", finding.check, finding.message, _details(report, finding)),
        )
        for finding in report.findings
    ]
    properties = {
        "subject": _subject(report),
        "reference": report.title,
        "positions": report.positions,
        "looked at": _positions_text(report),
        "tolerance": report.tolerance,
    }
    return CiReport(
        _COMMAND,
        "ok" if report.ok else "failed",
        verdict(report),
        tuple(cases),
        properties,
        paragraphs=[*answer(report).lines(), scope(report)],
        columns=COLUMNS,
        rows=rows(report),
        notes=[*(f"{why.cause}: {why.evidence}" for why in report.diagnosis), *report.notes],
    )


CURVE_LINES = 14
"""The height of the error curve, in lines of text."""


def report_text(report: Report, typesetter: Typesetter, *, verbose: bool = False) -> str:
    """Return the report for a reader: the answer, the findings, and the evidence for the cause.

    ``verbose`` adds how a function was called, and what was tried or not.
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
    return typesetter.report(*map("\n".join, blocks))


_NOTES_ON_CALLS = ("called as ", "further calls: ", "not tried: ")
"""The beginnings of notes that describe how a function was called."""


def _notes(report: Report, *, verbose: bool) -> Sequence[str]:
    """Return the notes of a report; unless verbose, summarize notes on calls in one."""
    call = report.subject.get("call") or {}
    if verbose or not call:
        return report.notes
    others = [note for note in report.notes if not note.startswith(_NOTES_ON_CALLS)]
    untried, ways = len(call["untried"]), 1 + len(call["patterns"])
    tried = f"tried {'all ' * (ways > 1 and not untried)}{counted(ways, 'call form')}"
    rest = f"; {untried} not tried" * (untried > 0)
    return [*others, f"{tried}{rest} (--verbose lists them)"]

"""Report properties as a table, JSON, and forms for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.inspection import PROPERTIES
from posenc_cli.records import items_by_key
from posenc_cli.render.reports.ci_forms import Case, CiReport
from posenc_cli.render.ticks import counted, finite_or_null
from posenc_cli.render.typesetting import Answer, Typesetter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.inspection.inspected import Inspection, Property
    from posenc_cli.checks.requirements import Judgement

_COMMAND = "inspect"
_WORDS = {True: "yes", False: "no", None: "-"}
_LONGEST_WHOLE = 1e9
_TINY = 1e-3
_BETWEEN = 3  # spaces between columns of a table


def inspection_fields(
    inspections: Sequence[Inspection], judgements: Sequence[Judgement]
) -> dict[str, Any]:
    """Return inspections as JSON fields, finite numbers only."""
    return {
        **inspection_answer(inspections, judgements).fields(),
        "schemes": [_fields(inspection) for inspection in inspections],
        "requirements": [
            {
                "scheme": judgement.subject,
                "requirement": judgement.requirement.text,
                "ok": judgement.ok,
                "message": judgement.message,
            }
            for judgement in judgements
        ],
    }


def _fields(inspection: Inspection) -> dict[str, Any]:
    return {
        "scheme": inspection.name,
        "kind": inspection.kind,
        "params": dict(inspection.params),
        "rows": inspection.looked_at,
        "axis": inspection.axis,
        "count": inspection.count,
        "weights": inspection.random_weights,
        "properties": [
            {
                "name": found.name,
                "holds": found.holds,
                "value": finite_or_null(found.value),
                "at": None if found.at is None else list(found.at),
                "evidence": found.evidence,
                "sample": found.sample,
                "reason": found.reason,
                **finite_or_null(dict(found.details)),
            }
            for found in inspection.properties
        ],
    }


def inspection_text(
    inspections: Sequence[Inspection],
    judgements: Sequence[Judgement],
    typesetter: Typesetter,
    *,
    verbose: bool = False,
) -> str:
    """Return the answer, then one inspection with its reasons, or several side by side."""
    answer = inspection_answer(inspections, judgements).verdict.splitlines()
    head = "\n".join(map(typesetter.paragraph, answer))
    if len(inspections) > 1:
        blocks = [head, *_several_inspections(inspections, typesetter, verbose=verbose)]
    else:
        about, *blocks = _one_inspection(inspections[0], typesetter, verbose=verbose)
        blocks = [f"{head}\n{about}", *blocks]
    return typesetter.report(*blocks)


def inspection_answer(inspections: Sequence[Inspection], judgements: Sequence[Judgement]) -> Answer:
    """Return the requirements with their results; without any, the properties that hold."""
    ok = all(judgement.ok for judgement in judgements)
    return Answer(
        ok, "\n".join(judgement_lines(judgements) or map(_properties_sentence, inspections))
    )


def _properties_sentence(inspection: Inspection) -> str:
    """Return the number of properties that hold, and those that do not, in a sentence."""
    asked = [found for found in inspection.properties if found.holds is not None]
    holding = [found for found in asked if found.holds]
    proved = sum(found.evidence == "proved" for found in holding)
    failing = ", ".join(found.name for found in asked if not found.holds)
    text = (
        f"{inspection.name}: {len(holding)} of {len(asked)} properties hold, "
        f"{proved} of them proved"
    )
    return f"{text}; not {failing}" if failing else text


def judgement_lines(judgements: Sequence[Judgement]) -> list[str]:
    """Return whether the requirements are met, and which are not; empty without requirements."""
    if not judgements:
        return []
    failed = [judgement for judgement in judgements if not judgement.ok]
    if not failed:
        return [f"ok: {counted(len(judgements), 'requirement')} met"]
    return [
        f"FAILED: {judgement.subject}: {judgement.requirement.text}: {judgement.message}"
        for judgement in failed
    ]


def _one_inspection(inspection: Inspection, typesetter: Typesetter, *, verbose: bool) -> list[str]:
    header = ["property", "holds", "value", "what the value is"]
    rows = [
        [
            found.name,
            _WORDS[found.holds] + ("" if found.holds is None else f", {found.evidence}"),
            _value_text(found),
            "" if found.value is None else PROPERTIES[found.name],
            *([", ".join(map(str, found.at or ()))] if verbose else []),
        ]
        for found in inspection.properties
    ]
    about = f"{inspection.name}: {inspection.looked_at}"
    if inspection.random_weights:
        about += f"; {inspection.random_weights}"
    return [
        typesetter.paragraph(about),
        typesetter.table([*header, *(["at"] if verbose else [])], rows),
        "\n".join(typesetter.paragraph(note, hanging=2) for note in _notes(inspection)),
    ]


def _notes(inspection: Inspection) -> list[str]:
    """Return notes that do not fit in the table: linear maps, contents, reasons and samples."""
    notes = [_shift_note(inspection), _decay_note(inspection)]
    noted_above = {"linear-shift", "linear-shift-held-out", "decay"} if notes[0] else {"decay"}
    by_reason = items_by_key(
        (found.reason, found.name)
        for found in inspection.properties
        if not (found.name in noted_above or found.name.startswith("distinct"))
        and (found.holds is not True or found.sample)
    )
    notes += [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items() if reason]
    if any(found.sample for found in inspection.properties):
        notes.append("~ is the value of a sample")
    return [note for note in notes if note]


def _shift_note(inspection: Inspection) -> str:
    here, beyond = inspection.property("linear-shift"), inspection.property("linear-shift-held-out")
    if "fitted_on" not in here.details:
        return ""
    first, last = here.details["fitted_on"]
    note = (
        f"linear-shift: the least-squares map to the next row, fitted on {inspection.axis}s "
        f"{first} … {last}, has an error of {here.value:.2g} there"
    )
    if beyond.value is not None:
        note += f" and {beyond.value:.2g} beyond"
    if here.holds is None:
        note += f"; {here.reason}"
    if "rotation" in here.details:
        note += f"; the exact rotation has an error of {here.details['rotation']:.2g} on all rows"
    return note


def _decay_note(inspection: Inspection) -> str:
    decay = inspection.property("decay")
    note = f"decay: {decay.reason}"
    if "independent" not in decay.details:
        return note
    distances = decay.details["distances"]
    deviation = decay.details["independent"]["deviation"]
    ends = (
        f"{_short_number(deviation[0])} at 0 and {_short_number(deviation[-1])} at {distances[-1]}"
    )
    note += f"; independent q and k: mean 0, deviation {ends}"
    if "bound" in decay.details:
        bound = decay.details["bound"]
        note += f"; RoFormer's bound there {_short_number(bound[0])} and {_short_number(bound[-1])}"
    negative = decay.details["negative_from"]
    return note if negative is None else f"{note}; first negative at {negative}"


def _short_number(value: float | None) -> str:
    return "past float64" if value is None else f"{value:.3g}"


def _several_inspections(
    inspections: Sequence[Inspection], typesetter: Typesetter, *, verbose: bool
) -> list[str]:
    labels = ["", "positions", *PROPERTIES]
    columns = [_column(inspection) for inspection in inspections]
    widest = max(len(cell) for column in columns for cell in column) + _BETWEEN
    across = max(1, (typesetter.width - max(map(len, labels))) // widest)
    tables = []
    for begin in range(0, len(columns), across):
        header, *rows = map(list, zip(labels, *columns[begin : begin + across], strict=True))
        tables.append(typesetter.table(header, rows))
    return [*tables, *_legend(inspections, typesetter, values=verbose)]


def _column(inspection: Inspection) -> list[str]:
    """Return the column of one of several inspections, from its name down."""
    cells = [_entry_text(inspection.property(name)) for name in PROPERTIES]
    count = (
        f"{inspection.count}"
        if inspection.axis == "position"
        else f"{inspection.count} {inspection.axis}s"
    )
    return [inspection.name, count, *cells]


def _legend(
    inspections: Sequence[Inspection], typesetter: Typesetter, *, values: bool
) -> list[str]:
    """Return the evidence of values, random weights, and the meaning of ``values``."""
    lines = ["; ".join(f"{name}: {what}" for name, what in PROPERTIES.items())] if values else []
    evidence = "* proved for all positions, else measured on these rows; - does not apply"
    if any(found.sample for inspection in inspections for found in inspection.properties):
        evidence += "; ~ of a sample"
    lines.append(evidence)
    lines += [
        f"{inspection.name}: {inspection.random_weights}"
        for inspection in inspections
        if inspection.random_weights
    ]
    return ["\n".join(map(typesetter.paragraph, lines))]


def _entry_text(found: Property) -> str:
    if found.holds is None:
        return "-"
    proved = "*" if found.evidence == "proved" else ""
    value = _value_text(found)
    return f"{_WORDS[found.holds]}{proved}{f' {value}' if value else ''}"


def _value_text(found: Property) -> str:
    """Return a value in a few digits; a tiny one in one digit."""
    if found.value is None:
        return ""
    sample = "~" if found.sample else ""
    if float(found.value).is_integer() and abs(found.value) < _LONGEST_WHOLE:
        return f"{sample}{int(found.value)}"
    return f"{sample}{found.value:.{1 if abs(found.value) < _TINY else 3}g}"


def inspection_ci_report(
    inspections: Sequence[Inspection], judgements: Sequence[Judgement], seconds: float
) -> CiReport:
    """Return the requirements' report for CI: a case for each encoding and requirement."""
    share = seconds / max(1, len(judgements))
    cases = tuple(
        Case(
            judgement.subject,
            judgement.requirement.text,
            share,
            judgement.requirement.text,
            None
            if judgement.ok
            else (
                *("failure", judgement.requirement.name, judgement.message),
                f"{judgement.subject}: {judgement.message}",
            ),
        )
        for judgement in judgements
    )
    lines = judgement_lines(judgements)
    return CiReport(
        _COMMAND,
        "ok" if all(judgement.ok for judgement in judgements) else "failed",
        "; ".join(lines),
        cases,
        {inspection.name: inspection.looked_at for inspection in inspections},
        paragraphs=lines,
        columns=["encoding", "required", "result", "found"],
        rows=[
            [each.subject, each.requirement.text, "ok" if each.ok else "FAIL", each.message]
            for each in judgements
        ],
    )

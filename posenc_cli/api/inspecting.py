"""The properties of encodings and arrays, proved or measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.inspection.properties import (
    inspection_of_array,
    inspections_of,
    named_apart,
)
from posenc_cli.api.arguments import (
    EncodingLike,
    PositionsLike,
    Shaped,
    argument_text,
    checked_count,
    in_arguments,
)
from posenc_cli.api.arrays import arrays_and_choices
from posenc_cli.api.notebooks import NotebookReport
from posenc_cli.checks.requirements import Judgement, judgements, requirements_of
from posenc_cli.records import Record
from posenc_cli.render.reports.inspection import inspection_fields, inspection_text
from posenc_cli.render.typesetting import Typesetter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.inspection.inspected import Inspection, Property


class InspectionReport(NotebookReport, Record):
    """The properties of some encodings: ``str()`` is what the command prints.

    ``inspections`` has the properties of each encoding, in order. ``judgements`` says for each
    encoding and requirement whether it is met.
    """

    inspections: tuple[Inspection, ...]
    judgements: tuple[Judgement, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all requirements are met."""
        return all(judgement.ok for judgement in self.judgements)

    def __getitem__(self, name: str) -> Property:
        """Return the property with this name, of the first encoding.

        Raises: KeyError if there is none.
        """
        return {known.name: known for known in self.inspections[0].properties}[name]

    def as_json(self) -> dict[str, Any]:
        """Return the output of ``posenc inspect --json``, as a dict of plain values."""
        return {
            "schema": "posenc/inspect/1",
            **inspection_fields(self.inspections, self.judgements),
        }

    def __str__(self) -> str:
        return inspection_text(self.inspections, self.judgements, Typesetter(spelled=argument_text))


@in_arguments
def inspect(
    subject: EncodingLike | Shaped | Sequence[EncodingLike | Shaped],
    positions: PositionsLike | None = None,
    *,
    require: str | Sequence[str] = (),
    fit: int | None = None,
    **parameters: object,
) -> InspectionReport:
    """Return the properties of an encoding or an array, such as unique, bounded or relative.

    Args:
        subject: an encoding as for `encode`, or an array or a tensor with one row per position; or
            a list, for one report on all of them.
        positions: the positions to look at; by default those of the model's context, or the first
            512.
        require: properties that must hold, or bounds, as ``"unique,norm<=1e-6"``; ``ok`` of the
            report says whether they do.
        fit: the number of rows on which the linear map to the next row is fitted; by default 100,
            or half of the rows.
        parameters: of encodings, as for `encode`.

    Raises: ValueError if an argument is wrong, or asks for too much.

    >>> report = inspect("sinusoidal", 128, dim=16, require="unique,bounded<=1")
    >>> report.ok, report["relative"].evidence, report["bounded"].value
    (True, 'proved', 1.0)
    """
    rows = None if fit is None else checked_count("fit", fit)
    texts = [require] if isinstance(require, str) else list(require)
    required = [each for text in texts for each in requirements_of("--require", text)]
    arrays, choices = arrays_and_choices(subject, positions, parameters)
    found: list[Inspection] = []
    for place in sorted({*arrays, *choices}):
        if place in arrays:
            name, loaded = arrays[place]
            found.append(inspection_of_array(loaded, name=name, fit=rows))
        else:
            found += inspections_of(choices[place], rows)
    named = named_apart(found)
    return InspectionReport(tuple(named), tuple(judgements(named, required)))

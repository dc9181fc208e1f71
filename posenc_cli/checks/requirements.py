"""Parse required properties of encodings, and check whether they hold.

A requirement is the name of a property that must hold, or a bound on its value: ``norm<=1e-6``,
``unique>=0.1``. A property that does not apply, or was only sampled, does not pass.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

from posenc_cli.analysis.inspection import PROPERTIES
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from posenc_cli.analysis.inspection.inspected import Inspection, Property

_FORM = re.compile(
    r"(?P<name>(?:[a-z0-9-]+\.)?[a-z0-9-]+)(?:\s*(?P<relation><=|>=)\s*(?P<bound>\S+))?"
)

Relation = Literal["<=", ">="]


class Requirement(Record):
    """A required property, by its ``text``, or a bound on its value."""

    text: str
    name: str
    relation: Relation | None = None
    bound: float = 0.0

    def allows(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value <= self.bound if self.relation == "<=" else value >= self.bound


class Judgement(Record):
    """Result of one requirement on one encoding, with the value found."""

    subject: str
    requirement: Requirement
    ok: bool
    message: str


def requirements_of(flag: str, text: str) -> tuple[Requirement, ...]:
    """Parse a comma-separated list of requirements.

    >>> [each.name for each in requirements_of("--require", "unique,norm<=1e-6")]
    ['unique', 'norm']

    Raises: InvalidInput for a part that is not a requirement.
    """
    form = "the name of a property, NAME<=X or NAME>=X"
    return tuple(requirement_of(flag, part.strip(), form, PROPERTIES) for part in text.split(","))


def requirement_of(
    flag: str, text: str, form: str, names: Iterable[str], of_parts: Iterable[str] = ()
) -> Requirement:
    """Parse one requirement; ``form`` describes the allowed forms in errors.

    Its name is one of ``names``, or one of ``of_parts`` after the name of a part and a dot.

    Raises: InvalidInput for another form or name, or a bound that is not a number.
    """
    match, option = _FORM.fullmatch(text), f"{flag} {abbreviated(text)}"
    if match is None:
        raise InvalidInput(f"{option}: must be {form}; the names are {', '.join(names)}")
    part, _, name = match["name"].rpartition(".")
    allowed = tuple(of_parts if part else names)
    if name not in allowed:
        raise InvalidInput(
            f"{option}: there is no {abbreviated(name)}; the names are {', '.join(allowed)}",
            hint=nearest(name, allowed),
        )
    if match["relation"] is None:
        return Requirement(text, match["name"])
    try:
        bound = float(match["bound"])
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise InvalidInput(f"{option}: {abbreviated(match['bound'])} must be a number")
    return Requirement(text, match["name"], "<=" if match["relation"] == "<=" else ">=", bound)


def judgements(
    inspections: Sequence[Inspection], requirements: Sequence[Requirement]
) -> list[Judgement]:
    """Return for each encoding and each requirement whether it is met."""
    return [
        _judgement(inspection, requirement)
        for inspection in inspections
        for requirement in requirements
    ]


def _judgement(inspection: Inspection, requirement: Requirement) -> Judgement:
    found = inspection.property(requirement.name)
    holds, value = found.holds, found.value

    def judgement(message: str, *, ok: bool) -> Judgement:
        return Judgement(inspection.name, requirement, ok, message)

    if holds is None:
        return judgement(f"does not apply: {found.reason}", ok=False)
    if requirement.relation is None:
        if holds and found.sample == "verdict":
            return judgement(f"holds only in a sample: {found.reason}", ok=False)
        return judgement(_value_text(found, value), ok=holds)
    if found.name == "defined-beyond" and holds:
        value = math.inf
    if value is None or (found.name in ("bounded", "decay") and not holds):
        return judgement(f"does not hold: {found.reason}", ok=False)
    if found.sample is not None:
        return judgement(f"{value:.4g} was measured only in a sample: {found.reason}", ok=False)
    return judgement(_value_text(found, value), ok=requirement.allows(value))


def _value_text(found: Property, value: float | None) -> str:
    value_text = found.reason if value is None else f"{PROPERTIES[found.name]} {value:.4g}"
    at = "" if found.at is None else f" at {', '.join(map(str, found.at))}"
    return f"{value_text}{at}, {found.evidence}"

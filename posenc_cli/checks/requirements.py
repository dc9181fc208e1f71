"""Required properties of encodings, and whether they hold.

A requirement is the name of a property, which must hold, or a bound on its value: ``norm<=1e-6``,
``unique>=0.1``. ``shift@2x<=1e-6`` is one on the map that was fitted on the first rows, applied to
rows up to twice as far. What does not apply to an encoding, or was only sampled, does not pass.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

from posenc_cli.analysis.inspection import PROPERTIES
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.inspection.inspected import Inspection, Property

HELD_OUT = "linear-shift-held-out"
REACHING = "shift"
"""What may stand for the linear map beyond its rows, with how far: ``shift@2x``."""

_FORM = re.compile(
    r"(?P<name>[a-z0-9-]+)(?:@(?P<reach>[0-9]+(?:\.[0-9]+)?)x)?"
    r"(?:\s*(?P<relation><=|>=)\s*(?P<bound>\S+))?"
)
_LARGEST_REACH = 1e9

Relation = Literal["<=", ">="]


class Requirement(Record):
    """A property that is required, by its ``text``; or a bound on its value.

    ``reach`` is up to how many times as many rows as were fitted a linear map must hold.
    """

    text: str
    name: str
    relation: Relation | None = None
    bound: float = 0.0
    reach: float | None = None

    def allows(self, value: float) -> bool:
        """Whether a value is within the bound."""
        return value <= self.bound if self.relation == "<=" else value >= self.bound


class Judgement(Record):
    """Whether an encoding meets a requirement, and what was found."""

    subject: str
    requirement: Requirement
    ok: bool
    message: str


def requirements_of(flag: str, text: str) -> tuple[Requirement, ...]:
    """The requirements that a text lists.

    >>> [each.name for each in requirements_of("--require", "unique,shift@2x<=1e-6")]
    ['unique', 'linear-shift-held-out']

    Raises: InvalidInput for what is none.
    """
    return tuple(_requirement(flag, part.strip()) for part in text.split(","))


def _requirement(flag: str, text: str) -> Requirement:
    match = _FORM.fullmatch(text)
    known = ", ".join(PROPERTIES)
    if match is None:
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be the name of a property, NAME<=X or NAME>=X; the "
            f"names are {known}"
        )
    name, reach = match["name"], match["reach"]
    if name == REACHING and reach is not None:
        name = HELD_OUT
    if name not in PROPERTIES:
        hint = f"{REACHING}@2x says how far" if name == REACHING else nearest(name, PROPERTIES)
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: there is no property {abbreviated(name)}; the names are "
            f"{known}",
            hint=hint,
        )
    times = None if reach is None else float(reach)
    if times is not None and (name != HELD_OUT or not 1 < times <= _LARGEST_REACH):
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: @ goes with {REACHING} and {HELD_OUT}, and more than 1x"
        )
    return required(flag, text, name, match, times)


def required(
    flag: str, text: str, name: str, match: re.Match[str], reach: float | None = None
) -> Requirement:
    """The requirement of a text with a relation and a bound, or with neither.

    Raises: InvalidInput where the bound is no number.
    """
    if match["relation"] is None:
        return Requirement(text, name, reach=reach)
    try:
        bound = float(match["bound"])
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        wrong = abbreviated(match["bound"])
        raise InvalidInput(f"{flag} {abbreviated(text)}: {wrong} must be a number")
    return Requirement(text, name, "<=" if match["relation"] == "<=" else ">=", bound, reach)


def judgements(
    inspections: Sequence[Inspection], requirements: Sequence[Requirement]
) -> list[Judgement]:
    """Whether each encoding meets each requirement.

    Raises: InvalidInput where a linear map is required to reach further than there are rows.
    """
    return [
        _judgement(inspection, requirement)
        for inspection in inspections
        for requirement in requirements
    ]


def _judgement(inspection: Inspection, requirement: Requirement) -> Judgement:
    known = inspection.property(requirement.name)
    holds, value = known.holds, known.value
    if requirement.reach is not None and inspection.shift is not None:
        residual = inspection.shift.held_out(requirement.reach)
        if residual is None:
            count = inspection.shift.count
            needed = math.ceil(requirement.reach * count) + 1
            raise InvalidInput(
                f"--require {requirement.text}: the map is fitted on {count} rows of "
                f"{inspection.name}, so it needs {needed} rows at least; there are "
                f"{inspection.count}",
                hint=f"--len {needed}",
            )
        holds, value = residual.rounded, residual.value
        known = replace(known, at=None)

    def judged(message: str, *, ok: bool) -> Judgement:
        return Judgement(inspection.name, requirement, ok, message)

    if holds is None:
        return judged(f"does not apply: {known.reason}", ok=False)
    if requirement.relation is None:
        if holds and known.sample == "verdict":
            return judged(f"holds of a sample alone: {known.reason}", ok=False)
        return judged(_value_text(known, value), ok=holds)
    if known.name == "defined-beyond" and holds:
        value = math.inf
    if value is None or (known.name in ("bounded", "decay") and not holds):
        return judged(f"does not hold: {known.reason}", ok=False)
    if known.sample is not None:
        return judged(f"{value:.4g} is of a sample alone: {known.reason}", ok=False)
    return judged(_value_text(known, value), ok=requirement.allows(value))


def _value_text(known: Property, value: float | None) -> str:
    found = known.reason if value is None else f"{PROPERTIES[known.name]} {value:.4g}"
    at = "" if known.at is None else f" at {', '.join(map(str, known.at))}"
    return f"{found}{at}, {known.evidence}"

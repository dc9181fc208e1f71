"""What is required of heads: ``previous@8x>=0.9``, and whether it holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.head_patterns.heads import HeadResult

_FORM = re.compile(
    r"(?P<target>.+)@(?P<length>[0-9]{1,9})(?P<times>x?)(?:\.(?P<measure>mass|right))?"
    r"(?P<relation>>=|<=)(?P<bound>[0-9]*\.?[0-9]+)",
    re.DOTALL,
)


class HeadRequirement(Record):
    """A bound on the mass, or on the share that is right, of a target at a length.

    The ``length`` is one of positions, or as many ``times`` the trained length.
    """

    text: str
    target: str
    length: int
    times: bool
    measure: str
    relation: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> HeadRequirement:
        """The requirement of a text: TARGET@LENGTH>=X, of the mass unless ``.right`` says else.

        >>> required = HeadRequirement.parse("back:40@8x.right>=0.9")
        >>> required.target, required.measure, required.length_of(100)
        ('back:40', 'right', 800)

        Raises: InvalidInput.
        """
        asked = f"--require {abbreviated(text)}"
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise InvalidInput(
                f"{asked}: must be TARGET@LENGTH>=SHARE", hint="previous@8x>=0.9 or first@400<=0.5"
            )
        bound = float(match["bound"])
        if not 0 <= bound <= 1:
            raise InvalidInput(f"{asked}: a share must be between 0 and 1")
        return cls(
            text.strip(),
            match["target"].strip(),
            int(match["length"]),
            bool(match["times"]),
            match["measure"] or "mass",
            match["relation"],
            bound,
        )

    def length_of(self, trained: int) -> int:
        """The length in positions."""
        return self.length * trained if self.times else self.length

    def holds(self, result: HeadResult) -> bool:
        """Whether it holds of a result at its length; not where nothing could be measured."""
        value = getattr(result.at(self.length_of(result.head.trained)), self.measure)
        if value is None:
            return False
        return bool(value >= self.bound if self.relation == ">=" else value <= self.bound)


class HeadFinding(Record):
    """A requirement, and the results of which it does not hold."""

    requirement: HeadRequirement
    failing: tuple[HeadResult, ...]

    @property
    def ok(self) -> bool:
        """Whether it holds of all."""
        return not self.failing

    @property
    def fields(self) -> dict[str, Any]:
        """The same as JSON has it."""
        failing = [
            {"scheme": result.head.scheme, "stretch": result.stretch} for result in self.failing
        ]
        return {"require": self.requirement.text, "ok": self.ok, "failing": failing}


def findings(
    requirements: Sequence[HeadRequirement], results: Sequence[HeadResult]
) -> list[HeadFinding]:
    """Whether each requirement holds, of every encoding and stretch."""
    return [
        HeadFinding(
            required,
            tuple(
                result
                for result in results
                if result.head.target.name == required.target and not required.holds(result)
            ),
        )
        for required in requirements
    ]


def check_requirements(
    requirements: Sequence[HeadRequirement],
    targets: Sequence[str],
    trained: int,
    lengths: Sequence[int],
) -> None:
    """Refuse what is required of a target or a length that is not looked at.

    Raises: InvalidInput.
    """
    for required in requirements:
        asked = f"--require {abbreviated(required.text)}"
        if required.target not in targets:
            raise InvalidInput(
                f"{asked}: {abbreviated(required.target)} is not one of the targets",
                hint=f"--target {required.target}",
            )
        if required.length_of(trained) not in (trained, *lengths):
            known = ", ".join(map(str, dict.fromkeys((trained, *lengths))))
            raise InvalidInput(
                f"{asked}: {required.length_of(trained)} is not one of the lengths {known}",
                hint=f"--test {required.length_of(trained)}",
            )

"""The answer that a report begins with: verdict, cause or key number, next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.render.typesetting import Typesetter


class Answer(Record):
    """The first lines of a report, one sentence each.

    ``verdict`` begins with ``ok``, ``FAILED`` or ``DIFFERENT``. ``cause`` says why something is
    wrong; without one, ``number`` is the number that matters. ``next`` says what to do.
    """

    ok: bool
    verdict: str
    cause: str | None = None
    number: str | None = None
    next: str | None = None

    def fields(self) -> dict[str, Any]:
        """The answer as JSON has it, before all else."""
        return {"ok": self.ok, "verdict": self.verdict, "cause": self.cause, "next": self.next}

    def lines(self) -> list[str]:
        """The answer line by line."""
        second = f"cause: {self.cause}" if self.cause else self.number
        return [line for line in (self.verdict, second, self.next and f"next: {self.next}") if line]

    def text(self, typesetter: Typesetter) -> str:
        """The answer as a report begins with it."""
        return "\n".join(map(typesetter.paragraph, self.lines()))

"""The first lines of a report: verdict, cause or key number, next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.render.typesetting import Typesetter


class Answer(Record):
    """The first lines of a report, one sentence each.

    ``verdict`` begins with ``ok``, ``equal``, ``FAILED`` or ``DIFFERENT``. ``cause`` says why
    something is wrong, ``number`` by how much, and ``next`` what to do.
    """

    ok: bool
    verdict: str
    cause: str | None = None
    number: str | None = None
    next: str | None = None

    def fields(self) -> dict[str, Any]:
        """The answer for JSON, where it comes first."""
        return {"ok": self.ok, "verdict": self.verdict, "cause": self.cause, "next": self.next}

    def lines(self) -> list[str]:
        """The answer line by line."""
        cause = self.cause and f"cause: {self.cause}"
        step = self.next and f"next: {self.next}"
        return [line for line in (self.verdict, cause, self.number, step) if line]

    def text(self, typesetter: Typesetter) -> str:
        """The answer as the beginning of a report."""
        return "\n".join(map(typesetter.paragraph, self.lines()))

"""The errors posenc reports: each class owns one exit status of the command line."""

from __future__ import annotations

from typing import ClassVar


class PosencError(Exception):
    """An error that reaches the user as one line, with an optional hint on a second.

    ``message`` names the option or file, the value, and the rule it breaks; ``hint`` says what
    to do instead.
    """

    status: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInput(PosencError):
    """Wrong usage, or input that breaks a rule (malformed files too)."""

    status = 2


class Unavailable(PosencError):
    """The request is right, but the environment cannot serve it: disk, permission, extra."""

    status = 3

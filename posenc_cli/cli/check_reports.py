"""Where the report of a check goes, in which of its forms, and the summary of a workflow's step."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from posenc_cli.cli.options import ReportOptions, form_option
from posenc_cli.errors import quoted_name
from posenc_cli.files.formats import check_suffix
from posenc_cli.records import Record
from posenc_cli.transaction import transaction

if TYPE_CHECKING:
    from posenc_cli.cli.console import Console

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"

FORMATS = {"table": ".txt", "json": ".json", "junit": ".xml", "github": ".txt"}
"""The forms of a report, and the suffix of each."""


class CheckOutput(ReportOptions):
    """Where the report of a check goes, and in which of its forms."""

    form: Annotated[str | None, form_option(FORMATS)] = None

    @property
    def report_form(self) -> str:
        """The form of the report: as asked for, else by the suffix of the file.

        Raises: InvalidInput where a suffix fits none.
        """
        form = self.form_asked_for(FORMATS)
        if form is None:
            forms = {FORMATS[name]: name for name in ("json", "junit")}
            form = forms.get(self.suffix, "table")
            check_suffix(self.out, FORMATS[form], "a report as text")
        return form


class StepSummary(Record):
    """The file to which a step of a GitHub workflow adds what its run is to show."""

    path: str

    @classmethod
    def find(cls) -> StepSummary | None:
        """The summary of this step, where there is one.

        Raises: InvalidInput where the run reads that file.
        """
        path = os.environ.get(_STEP_SUMMARY)
        if not path:
            return None
        with contextlib.suppress(OSError), transaction() as files:
            files.note_replaced(
                Path(path).stat(), f"{_STEP_SUMMARY} {quoted_name(path)}", hint="name another file"
            )
        return cls(path)

    def add_at_end(self, markdown: str, console: Console) -> None:
        """Add to it when the run has succeeded; a summary that fails is but a warning."""
        data = markdown.encode(errors="backslashreplace")

        def add() -> None:
            try:
                # A FIFO is not waited for: no signal is heeded now.
                with open(self.path, "ab", opener=_open_at_once) as file:
                    file.write(data)
            except OSError as error:
                console.warning(f"{_STEP_SUMMARY}: {error.strerror or error}")

        with transaction() as files:
            files.claim_at_end(add)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)

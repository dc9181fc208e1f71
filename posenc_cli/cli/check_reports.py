"""Where the report of a check goes and in which format, and the summary of a CI step."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.cli.exits import report_error
from posenc_cli.cli.options import ReportOptions, form_option
from posenc_cli.errors import PosencError
from posenc_cli.records import Record, fresh, replace
from posenc_cli.transaction import transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posenc_cli.checks.definition import SourcePlace
    from posenc_cli.cli.console import Console
    from posenc_cli.render.reports.ci_forms import CiReport

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_WORKSPACES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""The variables in which GitHub and GitLab give the folder of the checkout."""

FORMATS = {"table": ".txt", "json": ".json", "junit": ".xml", "github": ".txt"}
"""The report formats, and the file suffix of each."""


class CheckOutput(ReportOptions):
    """Where the report of a check goes, and in which format."""

    form: Annotated[str | None, form_option(FORMATS)] = None

    @property
    def report_form(self) -> str:
        """The report format: the one asked for, else by the suffix of the file."""
        return self.chosen_form(FORMATS)


class ReportForms(Record):
    """The report of a check; each format is built on demand.

    ``passes`` is whether ``--quiet`` prints nothing. ``told`` is the verdict, for stderr when the
    report itself goes to a file.
    """

    ok: bool
    passes: bool
    text: Callable[[], str]
    fields: Callable[[], Mapping[str, Any]]
    ci: Callable[[], CiReport]
    told: Callable[[], str]


class CheckRun(Record):
    """One run of a check by ``command``, from the options to the exit status.

    ``place`` is the file of its ``subject``; GitHub shows annotations in it if it ``is_code``.
    """

    command: str
    output: CheckOutput
    console: Console
    subject: str = ""
    place: SourcePlace | None = None
    is_code: bool = False
    began: float = fresh(time.perf_counter)

    def give(self, report: ReportForms) -> int:
        """Print a report in the format asked for and return the exit status."""
        form, output, console = self.output.report_form, self.output, self.console
        if form == "json":
            console.result(console.json_text(self.command, report.fields()), output)
        elif form != "table":
            self._print(report.ci(), form)
        elif not (console.quiet and report.passes and output.out is None):
            console.result(report.text(), output)
        if output.out is not None and not report.ok:
            console.summary(report.told())
        elif output.out is not None and not output.to_stdout:
            console.done(f"wrote {output.place}")
        return 0 if report.ok else 1

    def fail(self, error: PosencError) -> int:
        """Report a subject that gave nothing to judge and return the exit status.

        Raises: the error itself, unless a CI report is asked for.
        """
        from posenc_cli.render.reports.ci_forms import failed_report

        form = self.output.report_form
        if form not in ("junit", "github"):
            raise error from None
        seconds = time.perf_counter() - self.began
        self._print(failed_report(self.command, self.subject, error, seconds), form)
        return report_error(error, debug=self.console.debug)

    def _print(self, report: CiReport, form: str) -> None:
        """Print a CI report, and add it to the step summary on GitHub."""
        place = ci_place(self.place) if form == "junit" or self.is_code else None
        text = report.junit(place) if form == "junit" else report.github(place)
        self.console.result(text, self.output)
        if form == "github":
            _add_to_summary(report.markdown(), self.console)


def ci_place(place: SourcePlace | None) -> SourcePlace | None:
    """Return the file of a subject as a CI system knows it: by its path in the checkout."""
    if place is None:
        return None
    root = Path(next(filter(None, map(os.environ.get, _WORKSPACES)), ".")).resolve()
    file = Path(place.file).resolve()
    inside = file.relative_to(root) if file.is_relative_to(root) else Path(place.file)
    return replace(place, file=inside.as_posix())


def _add_to_summary(markdown: str, console: Console) -> None:
    """Add to the step summary of GitHub, if any, once the run has succeeded.

    A failed write is only a warning.
    """
    path = os.environ.get(_STEP_SUMMARY)

    def add() -> None:
        try:
            with Path(path or "").open("a", errors="backslashreplace") as file:
                file.write(markdown)
        except OSError as error:
            console.warning(f"{_STEP_SUMMARY}: {error.strerror or error}")

    if path:
        with transaction() as files:
            files.claim_at_end(add)

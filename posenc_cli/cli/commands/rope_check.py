"""``posenc rope-check``: whether an implementation of RoPE is right, and if not, why."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from posenc_cli.calls.roles import CALL_AXES, CALL_ROLES
from posenc_cli.cli.check_reports import CheckOutput, StepSummary
from posenc_cli.cli.choosing import SingleChoice
from posenc_cli.cli.console import Console
from posenc_cli.cli.exits import report_error
from posenc_cli.cli.options import ALIASES, OptionGroup, Verbose, completed_from, one_of, option
from posenc_cli.cli.pictures import IMAGES, PictureOptions, show
from posenc_cli.cli.progress import steps_shown
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.inference.tolerance import RULES, ToleranceRule
from posenc_cli.records import Record, replace
from posenc_cli.render.reports import report as rendering
from posenc_cli.render.reports.ci_forms import FailedSubject
from posenc_cli.render.reports.report_text import CURVE_LINES, deviation_text, report_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.checks.checking import CheckRequest
    from posenc_cli.checks.definition import SourcePlace
    from posenc_cli.render.reports.ci_forms import CiReport
    from posenc_cli.rotary.verdict import Report

_SIDES = 1200, 1200
"""Pixels of the sides of a figure."""
_WORKSPACES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Where GitHub and GitLab say that the repository is checked out."""


class Roles(Record):
    """What the arguments of --impl are for, in order."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, flag: str, text: str) -> Roles:
        """The roles that a text lists.

        Raises: InvalidInput for one that there is not.
        """
        return cls(tuple(one_of(flag, name.strip(), CALL_ROLES) for name in text.split(",")))


class Axes(Record):
    """The order of axes that the vectors of --impl must have."""

    order: str

    @classmethod
    def parse(cls, flag: str, text: str) -> Axes:
        """The order of a text.

        Raises: InvalidInput for one that there is not.
        """
        return cls(one_of(flag, text, CALL_AXES))


class SubjectOptions(OptionGroup):
    """What is checked, and how a function is called."""

    heading = "Subject"

    tables: Annotated[
        tuple[str, str] | None,
        option(
            "--tables",
            metavar="COS SIN",
            help="check cos and sin tables, (L, d/2) or (L, d): two files, or the same file twice "
            "if it holds both",
        ),
    ] = None
    inv_freq: Annotated[
        str | None,
        option("--inv-freq", metavar="FILE", help="check inverse frequencies: (d/2,)"),
    ] = None
    rotated: Annotated[
        tuple[str, str] | None,
        option(
            "--rotated",
            metavar="X Y",
            help="check vectors before and after: (L, d), or with --len (heads, L, d)",
        ),
    ] = None
    impl: Annotated[
        str | None,
        option(
            "--impl",
            metavar="NAME",
            help="check f(x, positions) or f(q, k, cos, sin), as module:f or ./file.py:f, or an "
            "ONNX graph, ./model.onnx",
        ),
    ] = None
    call: Annotated[
        Roles | None,
        option(
            "--call",
            metavar="ROLES",
            parse=Roles.parse,
            help=(
                "roles of the arguments of --impl, in order: q,k,cos,sin; q and k come back in "
                "that order "
                "[default: by its signature]"
            ),
        ),
    ] = None
    axes: Annotated[
        Axes | None,
        option(
            "--axes",
            metavar="ORDER",
            parse=Axes.parse,
            autocompletion=completed_from(CALL_AXES),
            help="axes of x, q and k of --impl: bhnd, bnhd, … (b batch, h heads, n tokens, d "
            "dimensions, f all heads side by side) [default: what fits; the report says which]",
        ),
    ] = None
    in_place: Annotated[bool, option("--in-place", help="--impl changes its input in place")] = (
        False
    )
    python: Annotated[
        str | None,
        option(
            "--python",
            metavar="PATH",
            help="the Python that runs --impl [default: the active environment's, else posenc's]",
        ),
    ] = None

    def request(self, config: Mapping[str, Any] | None) -> CheckRequest:
        """What to check; ``config`` is what a class of transformers is made with.

        Raises: InvalidInput for what says how a function is called, where there is none.
        """
        from posenc_cli.calls.signature import CallRequest
        from posenc_cli.checks.checking import CheckRequest

        if self.impl is None:
            given = {
                "--call": self.call,
                "--axes": self.axes,
                "--in-place": self.in_place or None,
                "--python": self.python,
            }
            for flag in (flag for flag, value in given.items() if value is not None):
                raise InvalidInput(f"{flag}: goes with --impl, which it says how to call")
        roles, axes = self.call.names if self.call else (), self.axes.order if self.axes else None
        how = CallRequest(self.python, roles, self.in_place, axes, config)
        return CheckRequest(self.tables, self.inv_freq, self.rotated, self.impl, how)


class RopeCheckOutput(CheckOutput):
    """Where the report goes, and in which of its forms; or its picture."""

    out: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            metavar="FILE",
            help="write the report to a file, or the error by position to a .png, .svg or .pdf",
        ),
    ] = None

    @property
    def draws(self) -> bool:
        """Whether the file is that of a picture, beside the report on stdout."""
        return self.suffix in IMAGES and self.form is None and not self.json


def _tolerance_rule(flag: str, text: str) -> ToleranceRule:
    """The rule that a text names, or the number that it is.

    Raises: InvalidInput.
    """
    text = ALIASES.get(text, text)
    if text in RULES:
        return cast("ToleranceRule", text)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be {', '.join(RULES)} or a number of at least 0",
            hint=nearest(text, RULES),
        )
    return value


TOLERANCE = Annotated[
    Any,  # a ToleranceRule: Typer takes no unions
    option(
        "--tol",
        metavar="X",
        parse=_tolerance_rule,
        autocompletion=completed_from(RULES),
        help="auto (correct float32 code), float32 (frequencies rounded once), float64, exact "
        "(correctly rounded), float16 or bfloat16 (rounded to it, stored wider), or a maximum "
        "absolute error",
    ),
]
"""What an implementation may be off by."""


def rope_check(
    choice: SingleChoice,
    console: Console,
    *,
    subject: SubjectOptions,
    tol: TOLERANCE = "auto",
    strict: Annotated[bool, option("--strict", help="the same as --tol exact")] = False,
    plot: Annotated[
        bool,
        option(
            "--plot",
            help="draw the error by position below a failed report [default: if the terminal has "
            "room for both]",
        ),
    ] = False,
    verbose: Verbose = False,
    output: RopeCheckOutput,
) -> int:
    """Check a RoPE implementation, and name what is wrong.

    The check covers all q and k and all positions, and compares them with a reference. --scheme,
    --model or --config names the reference. The subject is one of --tables, --inv-freq, --rotated
    and --impl, or else posenc's own tables. If the check fails, the status is 1 and the report
    names the cause.

    posenc calls a function as its signature says: with vectors, and with positions, an offset, or
    the reference's own tables, as float32 arrays or tensors. --verbose shows how. The function runs
    in its own environment, for at most 5 minutes per call. Without --len, posenc tries about 100
    positions of the context. Positions are whole numbers from 0.

    --tol bfloat16 misses errors below one rounding to bfloat16 (0.4%): an attention factor with an
    error of 0.3% passes. If the subject cannot be read or crashes, the status is 2 or 3, and the
    JUnit or GitHub report says so. With -q, a check that passes prints nothing.

    Examples:
      posenc rope-check -m llama-3-8b --tables cos.npy sin.npy
      posenc rope-check -m llama-3.1-8b --inv-freq dump.npy --tol float64
      posenc rope-check -s rope --impl my_model.rope:apply -l 4096 --out rope.xml
    """
    from posenc_cli.checks.checking import Check, SubjectError

    request = subject.request(choice.config)
    _tell_of_own_tables(request, console)
    form = "table" if output.draws else output.report_form
    output.prepare()
    file = None if output.draws else output
    summary = StepSummary.find() if form == "github" else None
    if strict and tol not in ("auto", "exact"):
        raise InvalidInput(f"--tol {tol}: cannot go with --strict")
    began = time.perf_counter()
    try:
        with steps_shown(console, "positions") as progress:
            report = Check(
                asked=request,
                encoding=choice.encoding,
                engine=lambda request: choice.engine(request.plan()),
                positions=choice.positions,
                rule="exact" if strict else tol,
                progress=progress,
            ).report()
    except SubjectError as failure:
        if form not in ("junit", "github"):
            raise failure.error from None
        failed = FailedSubject(
            "rope-check", request.text, failure.error, time.perf_counter() - began
        ).report
        console.result(_ci_text_in(form, failed, request), output)
        if summary is not None:
            summary.add_at_end(failed.markdown(), console)
        # Not raised: the report is to stay.
        return report_error(failure.error, debug=console.debug)
    holds = report.ok and not report.unchecked
    if not (console.quiet and form == "table" and holds and (file is None or file.out is None)):
        text = _text_in(form, report, request, console, verbose=verbose)
        if form == "table":
            text += _curve_below(text, report, console, plot=plot, file=file)
        console.result(text, file)
    if output.draws:
        _draw(report, output, console)
    if summary is not None:
        summary.add_at_end(rendering.ci_report(report).markdown(), console)
    if file is not None and file.out is not None and not report.ok:
        console.summary("\n".join(rendering.answer(report).lines()))
    return 0 if report.ok else 1


def _tell_of_own_tables(request: CheckRequest, console: Console) -> None:
    """That nothing of a user's is checked: in a script, a variable may have been empty."""
    if console.quiet and not request.flags():
        console.warning("no subject is given: posenc's own tables are checked")


def _draw(report: Report, output: RopeCheckOutput, console: Console) -> None:
    """Save the error by position and by pair."""
    from posenc_cli.render.reports.deviations import check_figure

    figure = check_figure(report)
    if figure is None:
        console.warning(
            f"--out {output.place}: no file, for there is no course of deviations to draw"
        )
    else:
        show(figure, PictureOptions(), output, console, usual=_SIDES)


def _curve_below(
    text: str, report: Report, console: Console, *, plot: bool, file: RopeCheckOutput | None
) -> str:
    """The error by position below a report: where it is asked for, or a terminal has room."""
    room = console.height - text.count("\n") - 3  # the blank line between, and the prompt
    shown = (file is None or file.out is None) and sys.stdout.isatty() and room >= CURVE_LINES
    if not (plot or shown):
        return ""
    curve = deviation_text(report, console.width, CURVE_LINES, console.medium)
    return f"\n\n{curve}" if curve else ""


def _text_in(
    form: str, report: Report, request: CheckRequest, console: Console, *, verbose: bool
) -> str:
    """The report in one of its forms."""
    if form == "json":
        return console.json_text("rope-check", rendering.fields(report))
    if form in ("junit", "github"):
        return _ci_text_in(form, rendering.ci_report(report), request)
    return report_text(report, console.typesetter, verbose=verbose)


def _ci_text_in(form: str, report: CiReport, request: CheckRequest) -> str:
    """A report as JUnit or for GitHub."""
    if form == "junit":
        return report.junit(ci_place(request.place))
    return report.github(_code_place(request))


def _code_place(request: CheckRequest) -> SourcePlace | None:
    """The line of code that an annotation is put to; a file of numbers has none."""
    return ci_place(request.place) if request.impl is not None else None


def ci_place(place: SourcePlace | None) -> SourcePlace | None:
    """The file of a subject as a CI system knows it: by its path in what was checked out."""
    if place is None:
        return None
    checked_out = next(filter(None, map(os.environ.get, _WORKSPACES)), None)
    root = Path(checked_out or ".").resolve()
    file = Path(place.file).resolve()
    inside = file.relative_to(root) if file.is_relative_to(root) else Path(place.file)
    return replace(place, file=inside.as_posix())

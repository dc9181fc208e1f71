"""``posenc rope-check``: check a RoPE implementation, and name the cause."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from posenc_cli.calls.roles import CALL_AXES, CALL_ROLES
from posenc_cli.choice import Choice
from posenc_cli.cli.check_reports import CheckOutput, CheckRun, ReportForms
from posenc_cli.cli.console import Console, steps_shown
from posenc_cli.cli.options import (
    ALIASES,
    OptionGroup,
    Verbose,
    completed_from,
    one_of,
    option,
    refuse,
)
from posenc_cli.cli.pictures import IMAGES, PictureOptions, show
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.inference.tolerance import RULES, ToleranceRule
from posenc_cli.records import replace
from posenc_cli.render.reports import report as rendering
from posenc_cli.render.reports.report import report_text

if TYPE_CHECKING:
    from posenc_cli.checks.checking import CheckRequest
    from posenc_cli.rotary.verdict import Report

_SIDES = 1200, 1200
"""The width and height of a figure, in pixels."""


def _roles(flag: str, text: str) -> tuple[str, ...]:
    """Parse the roles of the arguments of --impl, in order.

    Raises: InvalidInput if a role is unknown.
    """
    return tuple(one_of(flag, name.strip(), CALL_ROLES) for name in text.split(","))


class SubjectOptions(OptionGroup):
    """What is checked, and how a function is called."""

    heading = "Subject"

    tables: Annotated[
        tuple[str, str] | None,
        option(
            "--tables",
            metavar="COS SIN",
            help="check cos and sin tables, (L, d/2) or (L, d); if one file holds both, name it "
            "twice",
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
            help="check vectors before and after the encoding, (L, d) each",
        ),
    ] = None
    impl: Annotated[
        str | None,
        option(
            "--impl",
            metavar="NAME",
            help="check a function: module:f, ./file.py:f or ./model.onnx; it takes (x, "
            "positions) or (q, k, cos, sin)",
        ),
    ] = None
    call: Annotated[
        Any,  # tuple[str, ...], which Typer would split into words
        option(
            "--call",
            metavar="ROLES",
            parse=_roles,
            help="roles of the function's arguments, such as q,k,cos,sin; it must return vectors "
            "in this order [default: from its signature]",
        ),
    ] = ()
    axes: Annotated[
        str | None,
        option(
            "--axes",
            metavar="ORDER",
            known=CALL_AXES,
            help="axes of the function's x, q and k, such as bhnd or bnhd; b is batch, h heads, "
            "n tokens, d dimensions [default: posenc finds the order]",
        ),
    ] = None
    in_place: Annotated[bool, option("--in-place", help="--impl modifies its input in place")] = (
        False
    )
    python: Annotated[
        str | None,
        option(
            "--python",
            metavar="PATH",
            help=(
                "the Python that runs --impl [default: the Python of the active environment, if"
                " there is one; otherwise posenc's]"
            ),
        ),
    ] = None

    def request(self, choice: Choice) -> CheckRequest:
        """Return what to check; the choice has the config to build a transformers class from.

        Raises: InvalidInput if options say how to call a function, but --impl is missing.
        """
        from posenc_cli.calls.signature import CallRequest
        from posenc_cli.checks.checking import CheckRequest

        if self.impl is None:
            given = {"--call": bool(self.call), "--axes": self.axes, "--in-place": self.in_place}
            refuse({**given, "--python": self.python}, "needs --impl")
        config, layer_type = choice.config, choice.layer_type
        how = CallRequest(self.python, self.call, self.in_place, self.axes, config, layer_type)
        return CheckRequest(self.tables, self.inv_freq, self.rotated, self.impl, how)


class RopeCheckOutput(CheckOutput):
    """Where the report goes and in which format, or where its picture goes."""

    out: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            metavar="FILE",
            help="write the report to a file; .png, .svg, .pdf and .html draw the errors",
        ),
    ] = None

    @property
    def draws(self) -> bool:
        """Whether the file is a picture; the report then goes to stdout."""
        return self.suffix in IMAGES and self.form is None and not self.json

    @property
    def report_form(self) -> str:
        """Return the report format; with a picture, it is the table."""
        return "table" if self.draws else super().report_form


def _tolerance_rule(flag: str, text: str) -> ToleranceRule:
    """Parse a tolerance: the name of a rule, or a number.

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
    Any,  # a ToleranceRule, a union that Typer does not support
    option(
        "--tol",
        metavar="X",
        parse=_tolerance_rule,
        autocompletion=completed_from(RULES),
        help="accepted error: auto|float32|float64|exact|float16|bfloat16, or a number; auto "
        "accepts correct float32 code",
    ),
]
"""The error that is accepted."""


def rope_check(
    choice: Choice,
    console: Console,
    *,
    subject: SubjectOptions,
    tol: TOLERANCE = "auto",
    strict: Annotated[bool, option("--strict", help="the same as --tol exact")] = False,
    plot: Annotated[
        bool,
        option(
            "--plot",
            help="if the check fails, also draw the error by position",
        ),
    ] = False,
    verbose: Verbose = False,
    output: RopeCheckOutput,
) -> int:
    """Check a RoPE implementation, and name the bug.

    posenc compares a subject with a reference, for all q and k, at all requested positions.
    --scheme, --model or --config names the reference. --tables, --inv-freq, --rotated or --impl
    names the subject. Without a subject, posenc checks its own tables. If the check fails, the
    status is 1, and the report names the cause.

    Without --len, posenc checks about 100 positions, up to 131071. With RoPE scaling, it checks
    positions up to the extended context. Positions are integers from 0.

    With --impl, posenc calls the function with the arguments that its signature asks for. It passes
    vectors, plus positions, an offset or the reference's tables. The first calls use float32
    arrays. --verbose shows the calls. The function runs in its own environment, for at most 5
    minutes per call. If the subject cannot be read or crashes, the status is 2 or 3, and the JUnit
    or GitHub report says so. With -q, a check that passes prints nothing.

    --tol auto accepts correct float32 code. --tol float32 also requires correctly rounded
    frequencies. --tol float64 requires float64 code, and --tol exact requires correctly rounded
    values. --tol float16 and --tol bfloat16 accept values that were rounded to that format. A
    number is the largest absolute error.

    With --tol bfloat16, posenc does not detect relative errors below 0.4%, because rounding to
    bfloat16 alone can cause them. For example, an attention factor that is 0.3% too large passes.

    Examples:
      posenc rope-check -m llama-3-8b --tables cos.npy sin.npy
      posenc rope-check -m llama-3.1-8b --inv-freq dump.npy --tol float64
      posenc rope-check -s rope --impl ./my_model/rope.py:apply -l 4096 --out rope.xml
    """
    from posenc_cli.checks.checking import Check, SubjectError

    request = subject.request(choice)
    if console.quiet and not request.flags():  # in a script, an empty variable may be the reason
        console.warning("no subject is given: posenc's own tables are checked")
    shown = replace(output, out=None) if output.draws else output
    output.prepare()
    if strict and tol not in ("auto", "exact"):
        raise InvalidInput(f"--tol {tol} cannot go with --strict")
    run = CheckRun(
        "rope-check", shown, console, request.text, request.place, request.impl is not None
    )
    try:
        with steps_shown(console, "positions") as progress:
            report = Check(
                asked=request,
                encoding=choice.encoding,
                engine=lambda request: choice.engine(request.plan()),
                positions=choice.positions,
                rule="exact" if strict else tol,
                context=choice.context[0] if choice.context else 0,
                progress=progress,
            ).report()
    except SubjectError as failure:
        return run.fail(failure.error)

    def text() -> str:
        told = report_text(report, console.typesetter, verbose=verbose)
        if not plot:
            return told
        from posenc_cli.render.reports.deviations import deviation_text

        curve = deviation_text(report, console.width, console.medium)
        return f"{told}\n\n{curve}" if curve else told

    status = run.give(
        ReportForms(
            report.ok,
            report.ok and not report.unchecked,
            text,
            partial(rendering.fields, report),
            partial(rendering.ci_report, report),
            lambda: "\n".join(rendering.answer(report).lines()),
        )
    )
    if output.draws:
        _draw(report, output, console)
    return status


def _draw(report: Report, output: RopeCheckOutput, console: Console) -> None:
    """Save a figure of the error by position and by pair."""
    from posenc_cli.render.reports.deviations import check_figure

    figure = check_figure(report)
    if figure is None:
        console.warning(
            f"--out {output.place}: not written, because there is no error by position to draw"
        )
    else:
        show(figure, PictureOptions(), output, console, usual=_SIDES)

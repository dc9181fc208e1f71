"""``posenc check``: check an implementation of any encoding, and name the cause."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.cli.check_reports import CheckOutput, CheckRun, ReportForms
from posenc_cli.cli.choosing import (
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
    SourceOptions,
    choice_of,
    required_choice,
)
from posenc_cli.cli.commands.rope_check import (
    TOLERANCE,
    RopeCheckOutput,
    SubjectOptions,
    rope_check,
)
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Head, Verbose, argument, option
from posenc_cli.errors import InvalidInput
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.checks.any_encoding import ValueCheck
    from posenc_cli.choice import Choice


def check(
    console: Console,
    file: Annotated[
        str | None,
        argument(
            metavar="[FILE]",
            help="rows, scores, cos and sin, or inverse frequencies (npy, npz, csv, …)",
        ),
    ] = None,
    *,
    source: SourceOptions,
    where: PositionOptions,
    parameters: ParameterOptions,
    computing: ComputeOptions,
    subject: SubjectOptions,
    slopes: Annotated[
        str | None, option("--slopes", metavar="FILE", help="check ALiBi slopes: (heads,)")
    ] = None,
    buckets: Annotated[
        str | None,
        option(
            "--buckets",
            metavar="FILE",
            help="check bucket numbers: (n,) or (queries, keys)",
        ),
    ] = None,
    head: Head = None,
    causal: Annotated[
        bool, option("--causal", help="ignore the scores of keys after the query")
    ] = False,
    tol: TOLERANCE = "auto",
    verbose: Verbose = False,
    output: RopeCheckOutput,
) -> int:
    """Check any encoding against a scheme, model or config.

    posenc checks a FILE, a function (--impl), or vectors before and after encoding (--rotated X Y).
    A FILE holds rows (n, d) or scores (heads, queries, keys). posenc also checks frequencies, ALiBi
    slopes and bucket numbers. For RoPE, check runs rope-check and prints its report.

    posenc compares every value. If any value differs, the status is 1. posenc then looks for a
    known bug, such as a wrong layout, a wrong base, or swapped sin and cos. It names a bug only if
    the bug reproduces every value. posenc rope-check --help explains --tol.

    A --buckets file has one number for each relative position, shape (n,), or one for each query
    and key, shape (queries, keys). --buckets applies to -s t5, deberta, swin, shaw and t5-clipped.

    Examples:
      posenc check table.npy -s sinusoidal -d 64
      posenc check dump.npy -m llama-3.1-8b
      posenc check -s sinusoidal --set layout=concat --impl ./waves.py:waves
    """
    given: dict[str, Any] = {
        "rule": tol,
        "file": file,
        "vectors": subject.rotated,
        "inv_freq": subject.inv_freq,
        "slopes": slopes,
        "buckets": buckets,
        "impl": subject.impl,
        "head": head,
        "causal": causal,
    }
    if source.in_order == [("--scheme", "deberta")]:
        made = _of_rule(where, parameters, given)
    else:
        choice = required_choice(choice_of(source, where, parameters, computing, console))
        if choice.scheme.kind == "rotary":
            return _of_rotation(choice, console, subject, given, output, verbose=verbose)
        made = _of_choice(choice, subject, given)
    return _report_on(made, console, output, verbose=verbose)


def _of_rule(
    where: PositionOptions, parameters: ParameterOptions, given: dict[str, Any]
) -> ValueCheck:
    """Return the check of buckets by DeBERTa's rule, which is not a scheme of its own."""
    from posenc_cli.checks.any_encoding import ValueCheck
    from posenc_cli.formulas.buckets import RULES

    if given["buckets"] is None and given["impl"] is None:
        raise InvalidInput("--scheme deberta is a rule for buckets: give --buckets or --impl")
    return ValueCheck(RULES["deberta"], parameters.given, where.resolve(), **given)


def _of_choice(choice: Choice, subject: SubjectOptions, given: dict[str, Any]) -> ValueCheck:
    """Return the check of an encoding that does not rotate vectors."""
    from posenc_cli.checks.any_encoding import ValueCheck

    if subject.tables is not None:
        raise InvalidInput(
            f"--tables: {choice.name} does not rotate vectors",
            hint="posenc check FILE compares its values",
        )
    calling = subject.request(choice).calling
    if given["slopes"] is not None and choice.config is not None:
        from posenc_cli.configs.config import resolve

        layers = resolve(choice.config, name=choice.source).layers
        if any("slope_format" in layer.derived for layer in layers):  # Falcon's are in bfloat16
            given = {**given, "rounding": "bfloat16"}
    return ValueCheck(choice.scheme, choice.given, choice.positions, calling=calling, **given)


def _of_rotation(
    choice: Choice,
    console: Console,
    subject: SubjectOptions,
    given: dict[str, Any],
    output: RopeCheckOutput,
    *,
    verbose: bool,
) -> int:
    """Run rope-check; a file of one row holds frequencies, any other one holds cos and sin."""
    for flag in ("slopes", "buckets", "head", "causal"):
        if given[flag] not in (None, False):
            raise InvalidInput(f"--{flag}: {choice.name} rotates q and k, and has none")
    if given["file"] is None and not subject.request(choice).flags():
        raise InvalidInput(
            "FILE, --tables, --rotated, --inv-freq or --impl: give the values to check",
            hint="posenc rope-check without a subject checks posenc's own tables",
        )
    if given["file"] is not None:
        from posenc_cli.files.reading import read_array

        axes = [size for size in read_array(given["file"]).values.shape if size > 1]
        files = (given["file"], given["file"])
        subject = replace(
            subject, **({"inv_freq": given["file"]} if len(axes) < 2 else {"tables": files})
        )
    return rope_check(
        choice, console, subject=subject, tol=given["rule"], verbose=verbose, output=output
    )


def _report_on(made: ValueCheck, console: Console, output: CheckOutput, *, verbose: bool) -> int:
    """Run the check, and print its report in the format asked for."""
    from posenc_cli.checks.checking import SubjectError
    from posenc_cli.render.reports.value_report import value_ci_report, value_fields, value_text

    output.prepare()
    run = CheckRun("check", output, console, made.text, made.place, bool(made.impl))
    try:
        report = made.report()
    except SubjectError as failure:
        return run.fail(failure.error)
    return run.give(
        ReportForms(
            report.ok,
            report.ok,
            partial(value_text, report, console.typesetter, verbose=verbose),
            partial(value_fields, report),
            partial(value_ci_report, report),
            lambda: f"{report.verdict}; cause: {report.cause_text}",
        )
    )

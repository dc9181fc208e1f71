"""``posenc inspect``: properties of encodings, proved or measured."""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.checks.requirements import judgements, requirements_of
from posenc_cli.choice import Choice
from posenc_cli.cli.check_reports import CheckOutput, CheckRun, ReportForms
from posenc_cli.cli.console import Console, steps_shown
from posenc_cli.cli.options import Verbose, option, whole_option
from posenc_cli.cli.subjects import Subjects
from posenc_cli.errors import InvalidInput, quoted_name

if TYPE_CHECKING:
    from posenc_cli.analysis.inspection.inspected import Inspection


def inspect(
    subjects: Subjects,
    console: Console,
    *,
    require: Annotated[
        Any,  # a tuple of Requirement, which Typer does not support
        option(
            "--require",
            metavar="LIST",
            parse=requirements_of,
            help="required properties or bounds, comma-separated: unique,norm<=1e-6",
        ),
    ] = (),
    fit: Annotated[
        int | None,
        whole_option(
            "--fit",
            minimum=1,
            help="fit the linear-shift map on the first N rows [default: 100, but at most half "
            "of the rows]",
        ),
    ] = None,
    verbose: Verbose = False,
    output: CheckOutput,
) -> int:
    """Report properties of encodings, proved or measured.

    A property is proved if it follows from the scheme's definition at all positions. posenc
    measures other properties over the model's context, or over 512 rows if there is no model.
    posenc inspects the parts of A+B one by one.

    For a rotary scheme, a row holds cosines and sines. For a bias, it holds the scores of all heads
    at one offset. The linear-shift map (--fit) takes each row to the next.

    With --require, the status is 1 if a required property fails or does not apply. It is also 1 if
    posenc inspected only a sample of the rows.

    Examples:
      posenc inspect -s sinusoidal
      posenc inspect -s rope -s alibi -s learned --len 512
      posenc inspect -m llama-3-8b --len 8192 --json
      posenc inspect --in table.npy --require unique,bounded
      posenc inspect -s sinusoidal --require "unique,norm<=1e-9,distinct-bfloat16"
    """
    if (form := output.report_form) in ("junit", "github") and not require:
        raise InvalidInput(
            f"--format {form} needs --require, whose results it reports",
            hint="--require unique,bounded",
        )
    output.prepare()
    run = CheckRun("inspect", output, console)
    from posenc_cli.render.reports import inspection as rendering

    found = _inspections(subjects, fit, console)
    judged = judgements(found, require)
    ok = all(judgement.ok for judgement in judged)
    report = rendering.inspection_ci_report(found, judged, time.perf_counter() - run.began)
    return run.give(
        ReportForms(
            ok,
            bool(judged) and ok,
            partial(rendering.inspection_text, found, judged, console.typesetter, verbose=verbose),
            partial(rendering.inspection_fields, found, judged),
            lambda: report,
            lambda: "\n".join(rendering.judgement_lines(judged)),
        )
    )


def _inspections(subjects: Subjects, fit: int | None, console: Console) -> list[Inspection]:
    """Return the inspections, in the order of the command line."""
    from posenc_cli.analysis.inspection.properties import (
        STEPS,
        inspection_of_array,
        inspections_of,
        named_apart,
    )
    from posenc_cli.files.reading import read_array

    found: list[Inspection] = []
    total, done = STEPS * len(subjects.items), itertools.count(1)
    with steps_shown(console, "properties") as progress:

        def step() -> None:
            if progress is not None:
                progress(next(done), total)

        for item in subjects.items:
            if isinstance(item, Choice):
                found += inspections_of(item, fit, step)
            else:
                name = quoted_name(item)
                found.append(inspection_of_array(read_array(item), name=name, fit=fit, step=step))
    return named_apart(found)

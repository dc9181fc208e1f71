"""``posenc buckets``: the bucket that a rule gives each relative position."""

from __future__ import annotations

from typing import Annotated

import typer

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    Setting,
    completed_from,
    one_of,
    option,
    settings_of,
    settings_option,
)
from posenc_cli.cli.pictures import PictureOptions, PlotOutput, show
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.formulas.buckets import RULES, BucketRule
from posenc_cli.positions import LARGEST_POSITION, Positions

_NEAREST = Positions.contiguous(-600, 1201)
"""Relative positions past the last that either rule tells apart: 128 of T5, 512 of DeBERTa."""

_EACH_ITS_OWN = (
    "A range of buckets beside a range of positions: each position has its own, in order."
)


def _rule(name: str) -> BucketRule:
    return RULES[one_of("RULE", name, RULES)]


def _positions(flag: str, text: str) -> Positions:
    """Relative positions, which may be negative.

    Raises: InvalidInput.
    """
    positions = Positions.parse(text)
    asked = f"{flag} {abbreviated(text)}"
    if max(-positions.first, positions.last) > LARGEST_POSITION:
        raise InvalidInput(f"{asked}: must lie within −2^53 and 2^53, the last exact positions")
    check_size(asked, positions.count, LISTED_VALUES, "positions")
    return positions


def buckets(
    console: Console,
    rule: Annotated[
        BucketRule,
        typer.Argument(
            metavar="RULE",
            help="|".join(RULES),
            parser=_rule,
            autocompletion=completed_from(RULES),
        ),
    ],
    *,
    settings: Annotated[
        list[Setting] | None,
        settings_option("a parameter of the rule (repeatable)"),
    ] = None,
    positions: Annotated[
        Positions,
        option(
            "--positions",
            metavar="SPEC",
            help="relative positions: start:stop[:step], by commas",
            parse=_positions,
        ),
    ] = _NEAREST,
    check: Annotated[
        str | None,
        option(
            "--check", metavar="FILE", help="compare the buckets in FILE; status 1 if they differ"
        ),
    ] = None,
    picture: PictureOptions,
    output: PlotOutput,
) -> int:
    """Print the relative-position buckets of T5 or DeBERTa.

    t5 uses key − query (num_buckets=32 max_distance=128 bidirectional=true), deberta query − key
    (bucket_size=256 max_position=512). Buckets are computed exactly.

    Examples:
      posenc buckets t5
      posenc buckets t5 --plot --positions -150:151
      posenc buckets t5 --set bidirectional=false --positions -200:1
      posenc buckets deberta --set max_position=1024 --json
    """
    output.check(picture)
    if check is not None:
        return _checked(
            rule, settings_of(settings), positions, check, output=output, console=console
        )
    from posenc_cli.encoding.buckets import assign_buckets

    assigned = assign_buckets(rule, settings_of(settings), positions)
    fields = {
        "positions": assigned.positions.tolist(),
        "buckets": assigned.buckets.tolist(),
        "rule": rule.name,
        "params": assigned.params,
    }
    if output.draws:
        from posenc_cli.render.buckets import buckets_figure

        json = ("buckets", fields) if output.json else None
        show(buckets_figure(rule, assigned), picture, output, console, json=json)
        return 0
    if output.json:
        console.json("buckets", fields)
        return 0
    runs = [(run.positions, run.buckets) for run in assigned.runs()]
    rows = [[*map(_range_text, run)] for run in runs]
    console.result(console.table_text([rule.relative, "bucket"], rows))
    if any(first != last for _, (first, last) in runs):
        console.summary(_EACH_ITS_OWN)
    return 0


def _checked(
    rule: BucketRule,
    given: dict[str, str],
    positions: Positions,
    file: str,
    *,
    output: PlotOutput,
    console: Console,
) -> int:
    """Compare the buckets of a file with the rule's, as ``posenc check --buckets`` does."""
    from posenc_cli.checks.any_encoding import ValueCheck
    from posenc_cli.checks.checking import SubjectError
    from posenc_cli.render.value_report import value_fields, value_text

    if output.draws:
        raise InvalidInput("--check: prints a report, and draws nothing")
    try:
        report = ValueCheck(rule, given, positions, buckets=file).report()
    except SubjectError as failure:
        raise failure.error from None
    if output.json:
        console.json("check", value_fields(report))
    else:
        console.result(value_text(report, console.typesetter))
    return 0 if report.ok else 1


def _range_text(ends: tuple[int, int]) -> str:
    first, last = ends
    return str(first) if first == last else f"{first} … {last}"

"""``posenc buckets``: the bucket that a rule gives each relative position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, Setting, one_of, option, settings_of
from posenc_cli.schemes.buckets import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from posenc_cli.encode.buckets import Run


_EACH_ITS_OWN = (
    "A range of buckets beside a range of positions: each position has its own, in order."
)


def buckets(
    console: Console,
    rule: Annotated[str, typer.Argument(metavar="RULE", help="|".join(RULES))],
    *,
    settings: Annotated[
        list[Setting] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="a parameter of the rule (repeatable)",
            parse=Setting.parse,
        ),
    ] = None,
    positions: Annotated[
        str,
        typer.Option(
            "--positions", metavar="SPEC", help="relative positions: start:stop[:step], by commas"
        ),
    ] = "-600:601",
    as_json: Json = False,
) -> None:
    """Print the bucket of each relative position, as T5 or DeBERTa share them out.

    t5 counts key − query (num_buckets=32 max_distance=128 bidirectional=true), deberta query − key
    (bucket_size=256 max_position=512). Buckets are those of exact arithmetic.

    \b
    Examples:
      posenc buckets t5
      posenc buckets t5 --set bidirectional=false --positions -200:1
      posenc buckets deberta --set max_position=1024 --json
    """
    from posenc_cli.encode.buckets import assign_buckets

    chosen = RULES[one_of("RULE", rule, RULES)]
    found = assign_buckets(chosen, settings_of(settings), positions)
    if as_json:
        console.json(
            "buckets",
            {
                "positions": found.positions.tolist(),
                "buckets": found.buckets.tolist(),
                "rule": chosen.name,
                "params": found.params,
            },
        )
        return
    table = console.table_text(
        [chosen.relative, "bucket"], [list(_row(run)) for run in found.runs()]
    )
    console.result(table)
    if _ranges(found.runs()):
        console.summary(_EACH_ITS_OWN)


def _ranges(runs: Iterable[Run]) -> bool:
    """Whether a run of positions has a run of buckets."""
    return any(first != last for first, last in (run.buckets for run in runs))


def _row(run: Run) -> Iterator[str]:
    for first, last in (run.positions, run.buckets):
        yield str(first) if first == last else f"{first} … {last}"

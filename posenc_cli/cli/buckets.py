"""``posenc buckets``: the bucket that a rule gives each relative position."""

from __future__ import annotations

from typing import Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, Setting, one_of, settings_of, settings_option
from posenc_cli.schemes.buckets import RULES

_EACH_ITS_OWN = (
    "A range of buckets beside a range of positions: each position has its own, in order."
)


def buckets(
    console: Console,
    rule: Annotated[str, typer.Argument(metavar="RULE", help="|".join(RULES))],
    *,
    settings: Annotated[
        list[Setting] | None,
        settings_option("a parameter of the rule (repeatable)"),
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
    assigned = assign_buckets(chosen, settings_of(settings), positions)
    if as_json:
        fields = {
            "positions": assigned.positions.tolist(),
            "buckets": assigned.buckets.tolist(),
            "rule": chosen.name,
            "params": assigned.params,
        }
        console.json("buckets", fields)
        return
    runs = [(run.positions, run.buckets) for run in assigned.runs()]
    rows = [[*map(_range_text, run)] for run in runs]
    console.result(console.table_text([chosen.relative, "bucket"], rows))
    if any(first != last for _, (first, last) in runs):
        console.summary(_EACH_ITS_OWN)


def _range_text(ends: tuple[int, int]) -> str:
    first, last = ends
    return str(first) if first == last else f"{first} … {last}"

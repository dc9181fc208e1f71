"""``posenc plan``: settings for a context longer than the trained one."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from posenc_cli.cli.console import Console, steps_shown
from posenc_cli.cli.options import (
    ENCODING,
    Json,
    ModelChoice,
    Setting,
    named_as_settings,
    option,
    settings_of,
    settings_option,
    whole_option,
)
from posenc_cli.errors import InvalidInput, abbreviated, nearest


def _requirements(flag: str, text: str) -> Any:
    from posenc_cli.checks.plan_requirements import plan_requirements_of

    return plan_requirements_of(flag, text)


def plan(
    console: Console,
    *,
    model: ModelChoice,
    layer_type: Annotated[
        str | None,
        option(
            "--layer-type",
            metavar="NAME",
            help="the layer type, if the config has several",
            rich_help_panel=ENCODING,
        ),
    ] = None,
    settings: Annotated[
        list[Setting] | None,
        settings_option("a parameter that replaces the config's value; repeatable"),
    ] = None,
    to: Annotated[
        int | None,
        whole_option(
            "--to", minimum=1, help="number of positions the model should handle (required)"
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        option(
            "--recipe",
            metavar="NAME",
            help="print the config keys and engine flags of this recipe: as-is|linear|dynamic|"
            "yarn|llama3|ntk|base [default: the recommended one]",
        ),
    ] = None,
    bases: Annotated[
        int | None,
        whole_option(
            "--bases",
            minimum=1,
            help="bases to try per power of ten [default: 12 to 128, depending on the length]",
        ),
    ] = None,
    require: Annotated[
        Any,  # a tuple of Requirement, which Typer does not support
        option(
            "--require",
            metavar="LIST",
            parse=_requirements,
            help="status 1 unless the config meets these conditions (comma-separated): "
            "context>=N, unseen<=N, long-wavelengths<=N, negative-from>=N",
        ),
    ] = (),
    as_json: Json = False,
) -> int:
    """Plan a context extension: settings and side effects.

    posenc recommends a recipe. It prints the keys to set in config.json, and the flags for vLLM,
    sglang and llama.cpp.

    For each recipe, posenc counts the frequency pairs that reach unseen angles at the new length.
    An angle is unseen if no training position has it. posenc also shows the factor on logits, and
    the first distance m at which the sum of cos(m·θ) over all pairs is negative. Men et al. (2024)
    choose the base so that the sum is never negative. A plan can fail even without unseen angles
    and negative sums, so test the model.

    --require tests the config as it is. To test a recipe, put its name first: yarn.unseen<=0.

    Examples:
      posenc plan --model llama-2-7b --to 16384
      posenc plan --model llama-2-7b --to 16384 --recipe yarn
      posenc plan --config config.json --to 1e6 --bases 100 --json
      posenc plan --config config.json --to 131072 --require "context>=131072"
      posenc plan --model llama-2-7b --to 8192 --require "yarn.unseen<=0,negative-from>=1024"
    """
    if to is None:
        raise InvalidInput("--to is missing; give the number of positions")
    from posenc_cli.analysis.planning.planner import LengthPlan, plan_length
    from posenc_cli.checks.plan_requirements import plan_judgements
    from posenc_cli.render.reports.length_plans import plan_fields, plan_text

    name, content = model.read()
    with steps_shown(console, "bases") as progress:
        given = settings_of(settings)
        with named_as_settings(given):
            planned, resolved = plan_length(
                content,
                to,
                name=name,
                layer_type=layer_type,
                given=given,
                per_decade=bases,
                progress=progress,
            )
    console.warning(*resolved.warnings)
    if recipe is not None and isinstance(planned, LengthPlan):
        names = [known.name for known in planned.recipes]
        if recipe not in names:
            why = planned.left_out.get(recipe)
            raise InvalidInput(
                f"--recipe {abbreviated(recipe)}: "
                + (why or f"the recipes here are {', '.join(names)}")
                + (
                    ", since the config is already for this length"
                    if len(names) == 1 and not why
                    else ""
                ),
                hint=None if why else nearest(recipe, names),
            )
    judged = plan_judgements(planned, require)
    ok = all(judgement.ok for judgement in judged)
    if as_json:
        console.json("plan", plan_fields(planned, judged, recipe, name=model.model))
    elif not (console.quiet and judged and ok):
        height = console.height - 1 if sys.stdout.isatty() else None
        text = plan_text(
            *(planned, judged, console.typesetter),
            recipe=recipe,
            height=height,
            name=model.model,
        )
        console.result(text)
    return 0 if ok else 1

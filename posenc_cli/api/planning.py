"""Settings for a length beyond the trained one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.planning.planner import LengthPlan, Recipe, plan_length
from posenc_cli.api.arguments import (
    argument_text,
    checked_count,
    config_of,
    in_arguments,
    plain_value,
)
from posenc_cli.api.notebooks import NotebookReport
from posenc_cli.checks.plan_requirements import plan_judgements, plan_requirements_of
from posenc_cli.records import Record
from posenc_cli.render.reports.length_plans import plan_answer, plan_fields, plan_text
from posenc_cli.render.typesetting import Typesetter

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from posenc_cli.analysis.planning.planner import NoPlan
    from posenc_cli.api.arguments import PretrainedConfig
    from posenc_cli.checks.requirements import Judgement


class PlanReport(NotebookReport, Record):
    """The recipes for a model at a length, and their effects: ``str()`` is the command's text.

    ``plan`` has the results. ``judgements`` says for each requirement whether it is met.
    """

    plan: LengthPlan | NoPlan
    judgements: tuple[Judgement, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the length fits, if a table limits it, and all requirements are met."""
        return plan_answer(self.plan, self.judgements, None).ok

    def __getitem__(self, name: str) -> Recipe:
        """The recipe with this name: ``linear``, ``yarn``, ``as-is``, ….

        Raises: KeyError if there is none.
        """
        for recipe in self.plan.recipes if isinstance(self.plan, LengthPlan) else ():
            if recipe.name == name:
                return recipe
        raise KeyError(name)

    def as_json(self) -> dict[str, Any]:
        """The output of ``posenc plan --json``, as a dict of plain values."""
        return {"schema": "posenc/plan/1", **plan_fields(self.plan, self.judgements)}

    def __str__(self) -> str:
        return plan_text(self.plan, self.judgements, Typesetter(spelled=argument_text))


@in_arguments
def plan(
    config: str | os.PathLike[str] | Mapping[str, Any] | PretrainedConfig,
    to: int,
    *,
    layer_type: str | None = None,
    bases: int | None = None,
    require: str | Sequence[str] = (),
    **parameters: object,
) -> PlanReport:
    """Plan a context extension: the settings of each recipe, and its effects on the pairs.

    These are necessary conditions, not promises: only running the model tells.

    Args:
        config: a model that `models` lists, the path of a config.json, of its folder or of a GGUF
            file, a config as a dict or as transformers' PretrainedConfig.
        to: the number of positions that the model should run at.
        layer_type: the layers to read, if several are possible.
        bases: the number of bases to try per decade; by default what takes a moment, 12 to 128.
        require: bounds, as ``"context>=131072,yarn.unseen<=0"``; ``ok`` of the report says whether
            they hold.
        parameters: in place of the config's: ``base=1e6``.

    Raises: ValueError if an argument is wrong; Unavailable if a file cannot be read.

    >>> report = plan("llama-2-7b", 16384)
    >>> report.plan.negative_from, len(report.plan.never_turned)
    (1707, 18)
    >>> report["yarn"].config["rope_scaling"]["factor"], report["ntk"].unseen_from
    (4.0, 11271)
    """
    length = checked_count("to", to)
    per_decade = None if bases is None else checked_count("bases", bases)
    texts = [require] if isinstance(require, str) else list(require)
    required = [each for text in texts for each in plan_requirements_of("--require", text)]
    given = {name: plain_value(value) for name, value in parameters.items()}
    name, content = config_of(config)
    planned, _ = plan_length(
        content, length, name=name, layer_type=layer_type, given=given, per_decade=per_decade
    )
    return PlanReport(planned, tuple(plan_judgements(planned, required)))

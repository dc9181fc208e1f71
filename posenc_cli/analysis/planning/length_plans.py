"""What is known of a model at a length, whether recipes scale it or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.planning.planner import Planner
from posenc_cli.analysis.planning.unplanned import not_planned, window_of
from posenc_cli.budget import check_size
from posenc_cli.configs.config import override, resolve
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posenc_cli.analysis.planning.planner import LengthPlan
    from posenc_cli.analysis.planning.unplanned import NoPlan
    from posenc_cli.configs.resolved import Layers, Resolved
    from posenc_cli.files.gguf import GGUFHeader

LONGEST = 1 << 24
"""Positions of a plan: each distance is looked at, for each recipe and many bases."""


def plan_length(
    config: Mapping[str, Any] | GGUFHeader,
    to: int,
    *,
    name: str,
    layer_type: str | None = None,
    given: Mapping[str, object] | None = None,
    per_decade: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[LengthPlan | NoPlan, Resolved]:
    """The plan of some layers for a length of ``to`` positions, and how the config was read.

    ``per_decade`` bases are tried a decade, else as many as take a moment.

    Raises: InvalidInput where the config cannot be read, layers differ and none is named, or the
    length is longer than what is looked through.
    """
    check_size(f"--to {to}", to, LONGEST, "positions")
    resolved = resolve(config, name=name)
    layers = layers_to_plan(resolved, layer_type)
    if given:
        layers = override(layers, given)
    reason = not_planned(layers, resolved, to)
    if reason is not None:
        return reason, resolved
    window = window_of(layers)
    if window is not None and window < to:
        said = f"these layers see a window of {window} positions: no distance is longer, whatever"
        said += f" the length, and the plan is for {window}"
        resolved, to = replace(resolved, warnings=(*resolved.warnings, said)), window
    planner = Planner(
        *(config, resolved, layers, to),
        changed=bool(given),
        per_decade=per_decade,
        progress=progress,
    )
    return planner.plan(), resolved


def layers_to_plan(resolved: Resolved, layer_type: str | None) -> Layers:
    """The layers of a type, else of the one type that sees all positions, or rotates at all.

    Raises: InvalidInput, with the choices.
    """
    if layer_type is not None:
        return resolved.layer(layer_type)
    far = [each for each in resolved.layers if each.scheme != "nope" and not each.slides]
    near = [each for each in resolved.layers if each.slides]
    alone = far or near
    return alone[0] if len(alone) == 1 else resolved.layer(None)

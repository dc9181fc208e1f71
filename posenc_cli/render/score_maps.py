"""The scores of a sentence, with positions and without, in two orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.checks.order import SEED
from posenc_cli.render.figure import Axis, Heatmap, Panels

if TYPE_CHECKING:
    from posenc_cli.checks.order import ScoreMaps

_LONGEST = 24
"""Letters of a sentence that stand in a title."""
_ORDERS = ("forward", "backward")


def score_maps_figure(maps: ScoreMaps) -> Panels:
    """Four maps of one scale, whose rows and columns are the words in their order.

    So that what changes when the words are read backward is what positions do.
    """
    sentence = " ".join(maps.words)
    sentence = sentence if len(sentence) <= _LONGEST else f"{len(maps.words)} tokens"
    names = [f"{order}, {name}" for name in ("none", maps.scheme) for order in _ORDERS]
    panels = tuple(
        Heatmap(
            scores,
            Axis("query", maps.words),
            Axis("key", maps.words),
            name,
            value_label="score",
            square=True,
        )
        for scores, name in zip(maps.scores, names, strict=True)
    )
    drawn = f"; {maps.random_weights}" if maps.random_weights else ""
    mask = ", before the mask" if maps.causal else ""
    title = (
        f"scores of {sentence} without positions and with {maps.scheme}, head 0 of {maps.heads}"
        f"{mask} (random words and projections, seed {SEED + 1}{drawn})"
    )
    return Panels(panels, title, notes=("down and across: the same words",))

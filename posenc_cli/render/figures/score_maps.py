"""The scores of a sentence, with positions and without, in two orders."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from posenc_cli.checks.order import SEED
from posenc_cli.render.figure import Axis, Heatmap, Panels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.checks.order import ScoreMaps
    from posenc_cli.numerics.arrays import RealRows

_LONGEST = 24
"""Letters of a sentence that stand in a title."""
_ORDERS = ("forward", "backward", "difference")


def score_maps_figure(encodings: Sequence[ScoreMaps], names: Sequence[str]) -> Panels:
    """Six maps of each encoding, all of one scale, whose rows and columns are the words in order.

    What changes when the words are read backward is what positions do: the third of each row.
    """
    first = encodings[0]
    sentence = " ".join(first.words)
    sentence = sentence if len(sentence) <= _LONGEST else f"{len(first.words)} tokens"
    panels = tuple(
        Heatmap(
            scores,
            Axis("query", first.words),
            Axis("key", first.words),
            f"{order}, {encoding}",
            value_label="score",
            square=True,
        )
        for maps, name in zip(encodings, names, strict=True)
        for scores, (encoding, order) in zip(
            _with_differences(maps.scores), product(("none", name), _ORDERS), strict=True
        )
    )
    drawn = "".join(
        f"; {f'{name}: ' if len(names) > 1 else ''}{maps.random_weights}"
        for maps, name in zip(encodings, names, strict=True)
        if maps.random_weights
    )
    mask = ", before the mask" if first.causal else ""
    heads = " and ".join(dict.fromkeys(str(maps.heads) for maps in encodings))
    title = (
        f"scores of {sentence} without positions and with {', '.join(names)}, head 0 of {heads}"
        f"{mask} (random words and projections, seed {SEED + 1}{drawn})"
    )
    return Panels(panels, title, notes=(_NOTE,), across=3)


_NOTE = "down and across: the same words; difference: forward − backward"


def _with_differences(scores: Sequence[RealRows]) -> Iterator[RealRows]:
    """Scores forward and backward, and after each two how they differ."""
    for forward, backward in zip(scores[::2], scores[1::2], strict=True):
        yield from (forward, backward, forward - backward)

"""Make figures of a bias's effect on attention: the softmax of its scores alone.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.head_patterns.regression import softmax
from posenc_cli.budget import check_size
from posenc_cli.checks.order import SEED, ScoreMaps
from posenc_cli.encoding.arrays import rows_a_block
from posenc_cli.encoding.scores import score_rule, scores_between
from posenc_cli.errors import InvalidInput
from posenc_cli.render.figure import Axis, Figure, Heatmap, Panels
from posenc_cli.render.figures.encoded import heads_figure, settled_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.analysis.sampling import CellValues
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import RealRows

FIRST_OF_WEIGHTS = 64
"""Positions shown by default: with more, a single weight is hardly visible."""
_UNIT_SHARE = 0.25
"""The unit of the color scale, relative to equal weights on all keys."""
_MOST_KEYS = 1 << 13
"""The most keys of a softmax: every shown row sums over all of them."""


def weights_figure(request: Request, engine_for: EngineFor, *, causal: bool) -> Figure:
    """Return the attention weights from the softmax of a bias alone, as if all content were equal.

    Raises: InvalidInput if it is not a bias, or has too many keys.
    """
    request.plan()
    if request.encoding.bound.content.heads is None:
        raise InvalidInput(
            f"--softmax: {request.scheme.name} is {request.scheme.kind_text}, not a bias",
            hint="posenc schemes lists the biases",
        )
    positions = settled_positions(request)
    check_size(positions.option, positions.count, _MOST_KEYS, "keys under a softmax")

    mask = "causal mask" if causal else "no mask"
    what = f", softmax of the bias alone, as if all content were equal, {mask}"
    return heads_figure(
        request,
        lambda head, points: weight_cells(request, head, points, engine_for, causal=causal),
        what=what,
        value_label="weight",
        unit=_UNIT_SHARE / positions.count,
    )


def weight_cells(
    request: Request, head: int, points: Sequence[int], engine_for: EngineFor, *, causal: bool
) -> CellValues:
    """Return cells of the weights of one head: for queries at some points and keys at others.

    Each row is the softmax over the keys at all points, and sums to 1. ``causal`` leaves out keys
    after the query.
    """
    encoding, keys, content = request.encoding, np.array(points, np.int64), request.content

    def cells(rows: Sequence[int], columns: Sequence[int]) -> RealRows:
        with request.scheme.answerable():
            engine = engine_for(request.plan())
            rule = score_rule(content, encoding.lookup, precision=request.precision, engine=engine)
            size = rows_a_block(keys.size)
            parts = []
            for start in range(0, len(rows), size):
                queries = keys[np.asarray(rows[start : start + size])]
                scores = scores_between(content, rule, head, queries, keys)
                if causal:
                    scores = np.where(keys[None, :] > queries[:, None], -np.inf, scores)
                parts.append(softmax(scores)[:, np.asarray(columns)])
        return np.concatenate(parts)

    return cells


_LONGEST = 24
"""The most letters of a sentence that a title contains."""
_ORDERS = "forward", "backward", "change"
_CHANGE_DECIMALS = 12
"""Decimals of a change, so that rounding errors of a zero change disappear."""


def score_maps_figure(encodings: Sequence[ScoreMaps], names: Sequence[str]) -> Panels:
    """Return three maps for each encoding: the words in order, reversed, and the change.

    All maps share one scale, and their rows and columns are the words in order. For a single
    encoding, a first row shows the maps without positions, which do not change.
    """
    first = encodings[0]
    rows = [("content only", first.scores[:2])] * (len(encodings) == 1)
    rows += [(name, maps.scores[2:]) for maps, name in zip(encodings, names, strict=True)]
    axes = Axis("query", first.words), Axis("key", first.words)
    panels = tuple(
        Heatmap(scores, *axes, f"{name} {order}", value_label="score", square=True, graded=True)
        for name, both in rows
        for order, scores in zip(
            _ORDERS, [*both, np.round(both[1] - both[0], _CHANGE_DECIMALS) + 0.0], strict=True
        )
    )
    drawn = "".join(
        f"; {f'{name}: ' if len(names) > 1 else ''}{maps.random_weights}"
        for maps, name in zip(encodings, names, strict=True)
        if maps.random_weights
    )
    mask = ", before the mask" if first.causal else ""
    forward, backward = " ".join(first.words), " ".join(first.words[::-1])
    if len(forward) > _LONGEST:
        forward, backward = f"{len(first.words)} tokens", "the same reversed"
    title = (
        f"scores of {forward} with {', '.join(names)}, head 0{mask} (random words and "
        f"projections, seed {SEED + 1}{drawn})"
    )
    note = (
        f"forward: {forward}; backward: {backward}, drawn in the same order; change: backward − "
        "forward"
    )
    return Panels(panels, title, notes=(note,), across=len(_ORDERS))

"""Figures of what a bias alone makes of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.analysis.head_patterns.attention import weight_cells
from posenc_cli.budget import check_size
from posenc_cli.errors import InvalidInput
from posenc_cli.render.figures.encoded import heads_figure, settled_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.analysis.sampling import CellValues
    from posenc_cli.encoding.request import Request
    from posenc_cli.render.figure import Figure

FIRST_OF_WEIGHTS = 64
"""Positions that are shown where nobody says how many: of more, one weight is hardly seen."""
_OF_EVEN = 0.25
"""The unit of the colours of weights, in weights that are the same for all keys."""
_MOST_KEYS = 1 << 13
"""Keys that a softmax goes over: every row that is shown is summed over all."""


def weights_figure(request: Request, engine_for: EngineFor, *, causal: bool) -> Figure:
    """The weights that the softmax of a bias alone gives keys, as if all content were equal.

    Raises: InvalidInput where it is no bias, or has more keys than are summed over.
    """
    request.plan()
    if request.encoding.bound.content.heads is None:
        raise InvalidInput(
            f"--softmax: {request.scheme.name} is {request.scheme.kind}, and has no scores of its "
            "own",
            hint="it goes with a bias: posenc schemes lists them",
        )
    positions = settled_positions(request)
    check_size(positions.option, positions.count, _MOST_KEYS, "keys under a softmax")

    def weights(head: int, points: Sequence[int]) -> CellValues:
        return weight_cells(request, head, points, engine_for, causal=causal)

    mask = "causal mask" if causal else "no mask"
    what = f", softmax of the bias alone, as if all content were equal, {mask}"
    unit = _OF_EVEN / positions.count
    return heads_figure(request, weights, what=what, value_label="weight", unit=unit)

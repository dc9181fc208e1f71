"""What a bias does to attention: the weights that softmax makes of its scores alone.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.arrays import rows_a_block
from posenc_cli.encoding.scores import score_rule, scores_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.analysis.sampling import CellValues
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import RealRows


def weight_cells(
    request: Request, head: int, points: Sequence[int], engine_for: EngineFor, *, causal: bool
) -> CellValues:
    """Cells of the weights of one head: of queries at some points, for keys at others.

    Each row is the softmax over the keys at all points, so that it sums to 1; ``causal`` leaves
    out those after the query.
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


def softmax(scores: RealRows) -> RealRows:
    """The weights that scores give keys, along the last axis.

    >>> softmax(np.array([[0.0, -np.inf], [1.0, 1.0]]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: RealRows = powers / powers.sum(axis=-1, keepdims=True)
    return weights

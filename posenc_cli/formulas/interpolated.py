"""FIRE: a small network's score for how far back a key lies, as a share of the query's position."""

from __future__ import annotations

import math
from typing import Annotated, Any

from posenc_cli.formulas.declare import (
    BucketBias,
    Capacity,
    Network,
    PairRule,
    Weights,
    WeightsShape,
    bias,
)
from posenc_cli.formulas.inverse import unguessed
from posenc_cli.formulas.parameters import Heads, Param, WeightsFile

_FIRE = "Li et al. 2024, arXiv:2310.04418"
_POSITIONS = 2**31
"""That pairs of positions are numbered for: two of them fit an int64."""
_DRAWN = 0.3
_SHARED = "the distance, and of the query's position past the threshold"


@bias(
    source=f"{_FIRE} §3 and its code; FIRE of mcleish7/arithmetic",
    formula=(
        "bias_h(i, j) = Σ_k w_hk · max(0, u_k · t + b_k) + s_h, t = f(|i − j|) / "
        "(f(max(threshold, i)) + 10^−6), f(x) = ln(1 + c · x)"
    ),
    convention=(
        "Up to the threshold it goes by the distance alone; past it the query's position counts "
        "too. The authors' code gives keys to the right the score of their distance, which a "
        "causal mask hides. weights=FILE holds the tensors mlp.0.weight, mlp.0.bias, mlp.2.weight "
        "and mlp.2.bias, weights=FILE:PREFIX those of a checkpoint; what is learned beside them is "
        "given by --set c and threshold, which is |L_multiplier · L| of the code. Without a file "
        "the network is drawn from normal(0, 0.3). It is computed in float64."
    ),
    weights=WeightsShape(
        "hidden",
        "heads",
        "mlp.0.weight (hidden, 1), mlp.0.bias (hidden), mlp.2.weight (heads, hidden) and "
        "mlp.2.bias (heads)",
        rows_to_parameter=lambda rows: rows - 1,
        tensors=("mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"),
        inputs=1,
    ),
    inverse=unguessed,
)
def fire(
    *,
    heads: Heads = 8,
    hidden: Annotated[
        int, Param("units of the network", minimum=1, maximum=65536, source=_FIRE)
    ] = 32,
    c: Annotated[
        float,
        Param(
            "scale of distances in the logarithm",
            above=0,
            maximum=1e15,
            source="the authors' initial value",
        ),
    ] = 0.1,
    threshold: Annotated[
        float,
        Param(
            "queries up to this position have the same scale",
            above=0,
            maximum=1e15,
            source="the authors' initial value",
        ),
    ] = 512.0,
    seed: Annotated[
        int, Param("seed of a network drawn from normal(0, 0.3)", minimum=0, maximum=2**64 - 1)
    ] = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """FIRE: a small network's score for the distance, on a scale that grows with the query.

    >>> content = fire.bind({"heads": 2}).content
    >>> content.by, content.weights.rows, content.weights.columns
    ('pair', 33, 4)
    """
    first = min(math.floor(threshold), _POSITIONS - 1)

    def number(xp: Any, queries: Any, keys: Any) -> Any:
        return xp.maximum(queries, xp.asarray(first)) * _POSITIONS + xp.abs(queries - keys)

    def offsets(_xp: Any, numbers: Any) -> tuple[Any, ...]:
        return numbers % _POSITIONS, numbers // _POSITIONS

    def coordinate(xp: Any, distances: Any, axis: int) -> Any:
        if axis == 0:
            return xp.log(1 + c * distances)
        queries = (distances + threshold + xp.abs(distances - threshold)) / 2  # the larger
        return xp.log(1 + c * queries) + 1 / xp.asarray([10**6])

    return BucketBias(
        heads,
        lambda _xp, numbers: numbers,
        Weights(hidden + 1, 2 + heads, weights, seed, _DRAWN),
        capacity=Capacity(
            _POSITIONS, f"posenc numbers pairs of {_POSITIONS} of them", "fewer positions"
        ),
        pairs=PairRule(number, _SHARED, offsets_until=first),
        network=Network(2, None, offsets, coordinate, quotient=True, shifted=True),
    )

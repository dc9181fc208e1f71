"""Relative encodings: a row for each offset of key and query, which the queries meet."""

from __future__ import annotations

from typing import Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import (
    Coordinates,
    Rows,
    Sinusoids,
    Waves,
    Weights,
    WeightsShape,
    relative,
)
from posenc_cli.formulas.learned import MaxDistance  # noqa: TC001 - read from the signature
from posenc_cli.formulas.parameters import (  # noqa: TC001 - read from the signatures
    Base,
    Dim,
    Seed,
    WeightsFile,
)
from posenc_cli.formulas.rotary import ladder
from posenc_cli.numerics.placements import Placement


@relative(
    source="Shaw et al. 2018, arXiv:1803.02155 §3.2",
    formula="row of offset j − i: table[clip(j − i, −K, K) + K], K = max_distance",
    convention=(
        "Rows are of key − query, the first of the farthest key to the left, as in the paper and "
        "in Wav2Vec2-BERT with both sides alike. SpeechT5 counts query − key: its table is in the "
        "reverse order."
    ),
    weights=WeightsShape(
        "max_distance",
        "dim",
        "(2·max_distance + 1, dim)",
        rows_to_parameter=lambda rows: (rows - 1) // 2 if rows % 2 and rows > 1 else None,
    ),
)
def shaw(
    *,
    dim: Dim = 64,
    max_distance: MaxDistance = 128,
    seed: Seed = 0,
    weights: WeightsFile = None,
) -> Rows:
    """A trained row for each offset up to a largest distance; all larger ones share the last.

    Without a weights file the rows are drawn from normal(0, 0.02).
    """

    def rows(xp: Any, offsets: Any, table: Any) -> Any:
        return table(xp.clip(offsets, -max_distance, max_distance) + max_distance)

    return Rows(
        dim,
        rows,
        positions="indices",
        domain="whole",
        weights=Weights(2 * max_distance + 1, dim, weights, seed),
        farthest=max_distance,
    )


@relative(
    source="Dai et al. 2019, arXiv:1901.02860 §3.3; the authors' PositionalEmbedding",
    formula=(
        "row of offset j − i: sin((i − j) · base^(−2k/dim)) for k = 0 … dim/2 − 1, then the cosines"
    ),
    convention=(
        "A query meets W · r(i − j): the authors number rows from the farthest key to the left, "
        "i − j = L − 1 … 0, as these rows begin. XLNet goes on to keys on the right, as these do."
    ),
)
def transformer_xl(*, dim: Dim = 64, base: Base = 10_000.0) -> Sinusoids:
    """Sines and cosines of the distance from a query back to a key.

    >>> transformer_xl.bind({"dim": 4}).content.width
    4
    """
    if dim % 2:
        raise InvalidInput(
            f"--dim {dim}: transformer-xl pairs a sine with a cosine, so dim must be even"
        )
    pairs = dim // 2

    def frequencies(xp: Any) -> Any:
        return ladder(xp, dim, base)

    def backwards(offsets: Any) -> tuple[Any, ...]:
        return (-offsets,)

    coordinates = Coordinates(axes=(0,) * pairs, at=backwards, domain="real")
    return Sinusoids(
        Waves(pairs, frequencies, coordinates=coordinates),
        dim,
        (Placement("sin", slice(0, pairs)), Placement("cos", slice(pairs, dim))),
    )

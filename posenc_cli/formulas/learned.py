"""Learned encodings: rows by position or offset, or scores by bucket."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Annotated, Any, Literal, get_args

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import (
    BucketBias,
    Capacity,
    Rows,
    Weights,
    WeightsShape,
    absolute,
    bias,
    relative,
    within_length,
)
from posenc_cli.formulas.inverse import Guess, MeasuredScores
from posenc_cli.formulas.parameters import (
    Dim,
    Heads,
    Param,
    Seed,
    SequenceLength,
    WeightsFile,
)
from posenc_cli.positions import LARGEST_POSITION

Method = Literal["linear", "bicubic", "nearest", "nearest-exact"]
"""How values between rows are computed; ``linear`` on a grid is torch's ``bilinear``."""

METHODS: tuple[Method, ...] = get_args(Method)

ResizeArithmetic = Literal["exact", "float32", "float64"]
"""Correctly rounded values, or the values that torch computes in a format."""

RESIZE_ARITHMETICS: tuple[ResizeArithmetic, ...] = get_args(ResizeArithmetic)

LARGEST_TABLE = 2**31 - 1
_T5 = "Raffel et al. 2020, arXiv:1910.10683 §2.1"

MaxLen = Annotated[int, Param("rows of the table", minimum=1, maximum=LARGEST_TABLE, source="BERT")]
_TABLE_NAMES = (
    r"(wpe|((absolute|encoder|decoder|temporal|spatial|[xyhw])_)?pos(ition(al)?)?_embed(ding)?s?"
    r"|embed_positions|(row|col|column)_embed(ding)?s?)(\.weight)?"
)
"""The names of position tables in GPT-2, BERT, OPT, ViT, CLIP, DETR, timm and others."""

MaxDistance = Annotated[
    int,
    Param("maximum distance, to which offsets are clipped", minimum=1, maximum=2**30, source=_T5),
]


@absolute(
    source="Gehring et al. 2017, arXiv:1705.03122; GPT-2, BERT",
    formula="PE[p] = row p + offset of a (max_len, dim) table",
    convention=(
        "The first token is at offset=2 in OPT and BART, and at padding_idx + 1 in RoBERTa. "
        "extend=interpolate resizes the table linearly to seq_len rows in float64, as PyTorch "
        "does with align_corners=False."
    ),
    weights=WeightsShape("max_len", "dim", "(max_len, dim)", tensor_names=_TABLE_NAMES),
)
def learned(
    *,
    dim: Dim = 64,
    max_len: MaxLen = 512,
    std: Annotated[
        float,
        Param(
            "standard deviation of a randomly initialized table",
            minimum=0,
            maximum=1e6,
            source="GPT-2, BERT",
        ),
    ] = 0.02,
    seed: Seed = 0,
    weights: WeightsFile = None,
    extend: Annotated[
        Literal["error", "clamp", "interpolate", "random"],
        Param(
            "what to do past the end of the table: refuse, repeat the last row, interpolate, or "
            "draw random rows"
        ),
    ] = "error",
    offset: Annotated[
        int, Param("number of rows before the row of position 0", minimum=0, maximum=LARGEST_TABLE)
    ] = 0,
    seq_len: SequenceLength = None,
) -> Rows:
    """A trained row for each position, up to a maximum length.

    Without a weights file, the rows are drawn from normal(0, std), as at the start of training.
    """
    length = seq_len or 1
    if extend == "interpolate" and 2 * length * max_len > LARGEST_POSITION:
        raise InvalidInput(
            f"--set extend=interpolate: {max_len} rows interpolated to {length} are more steps "
            "than 2^53, the last that is exact"
        )

    if offset >= max_len:
        raise InvalidInput(f"--set offset {offset}: must be below max_len {max_len}")
    if offset and extend == "interpolate":
        raise InvalidInput(f"--set offset {offset}: extend=interpolate resizes whole tables only")

    def rows(xp: Any, positions: Any, table: Any) -> Any:
        if extend == "interpolate" and length > max_len:
            return _interpolation(xp, positions, table, max_len, length)
        indices = positions + offset
        return table(xp.minimum(indices, xp.asarray(max_len - 1)) if extend == "clamp" else indices)

    capacity = Capacity(
        max_len - offset,
        f"the table has {max_len} rows" + (f", {offset} of them before it" if offset else ""),
        "--set extend=clamp, extend=interpolate or extend=random goes on past its end",
    )
    return Rows(
        dim,
        rows,
        positions="indices",
        weights=Weights(
            max_len, dim, weights, seed, std, max_len - offset if extend == "random" else None
        ),
        capacity={"error": capacity, "interpolate": within_length(seq_len)}.get(extend),
    )


def _interpolation(xp: Any, positions: Any, table: Any, rows: int, length: int) -> Any:
    """Return the table of ``rows`` rows, resized linearly to ``length`` rows."""
    # Row p reads the table at (p + 1/2)·rows/length − 1/2: in integers, over 2·length.
    steps = xp.clip((2 * positions + 1) * rows - length, 0, 2 * length * (rows - 1))
    below = steps // (2 * length)
    share = xp.asarray(steps - below * (2 * length), dtype=xp.float64)[:, None] / (2 * length)
    above = xp.minimum(below + 1, xp.asarray(rows - 1))
    return table(below) * (1 - share) + table(above) * share


_BUCKETS = (32, 16, 64, 8, 128, 256, 48, 24, 12, 40, 20)
_DISTANCES = (128, 256, 64, 512, 32, 1024, 2048, 20, 16, 100, 200)
"""Bucket counts and maximum distances to try: T5's own first, then usual ones."""
_REACHES = (128, 64, 32, 16, 256, 512)
"""Maximum distances to try for a random table that shows no clipping."""
_MOST_BUCKETINGS, _SEEDS = 8, 4
"""Rules with the fewest buckets, and seeds of posenc's own tables, to try."""
_FEW_NUMBERS = 2
"""An identity or a mask has at most this many distinct numbers; a learned table has more."""


def _learned_scores(xp: Any, measured: MeasuredScores) -> tuple[Any, Any] | None:
    """Return the offsets seen, and whether a head's value changes after each of them.

    None if the scores are not a learned bias. Shapes: (n,) and (n − 1,).
    """
    seen = xp.isfinite(measured.values).all(axis=0)
    offsets = measured.indices[seen]
    if measured.by != "offset" or not offsets.size or measured.indices[0] > 1 - measured.keys:
        return None
    if xp.unique(measured.values[xp.isfinite(measured.values)]).size <= _FEW_NUMBERS:
        return None
    return offsets, (xp.diff(measured.values[:, seen], axis=1) != 0).any(axis=0)


def _learned_guesses(
    given: dict[str, Any], count: int, offsets: Any, heads: int
) -> Iterator[Guess]:
    """Yield guesses of a rule that puts some offsets in ``count`` buckets."""
    chosen = {"heads": heads, **given}
    # Fewer buckets cost less; a rule with one bucket per offset explains any table.
    cost = 2.0 + 5e-4 * count + (0.5 if count == offsets.size else 0.0)
    for seed in range(_SEEDS):
        yield Guess({**chosen, "seed": seed}, cost=cost)
    if count < offsets.size:
        of_heads = "1 head" if heads == 1 else f"{heads} heads"
        note = f"a learned table: the scores show {count} of its rows, for {of_heads}"
        yield Guess(chosen, cost=cost + 0.5, hidden=("seed", "weights"), notes=(note,))


def _t5_inverse(xp: Any, measured: MeasuredScores) -> Iterator[Guess]:
    """Guess rules in which all offsets of a bucket have the same value."""
    found = _learned_scores(xp, measured)
    if found is None:
        return
    offsets, changes = found
    bucketings = []
    for both, number, distance in product((True, False), _BUCKETS, _DISTANCES):
        single = number // (4 if both else 2)
        if single >= 1 and distance > single:
            given: dict[str, Any] = {
                "num_buckets": number,
                "max_distance": distance,
                "bidirectional": both,
            }
            steps = xp.diff(t5_buckets(**given)(xp, offsets)) != 0  # a bucket is contiguous
            if not (changes & ~steps).any():
                bucketings.append((int(steps.sum()) + 1, given))
    for count, given in sorted(bucketings, key=lambda pair: pair[0])[:_MOST_BUCKETINGS]:
        yield from _learned_guesses(given, count, offsets, measured.heads)


def _clipped_inverse(xp: Any, measured: MeasuredScores) -> Iterator[Guess]:
    """Guess the distance beyond which nothing changes."""
    found = _learned_scores(xp, measured)
    if found is None:
        return
    offsets, changes = found
    nearer = xp.minimum(xp.abs(offsets[:-1]), xp.abs(offsets[1:]))  # of each two neighbours
    side = max(int(nearer[changes].max(initial=0)) + 1, 1)
    if not changes[nearer < side].all():
        return  # a bucket spans several offsets
    count = int(xp.unique(xp.clip(offsets, -side, side)).size)
    reaches = [reach for reach in _REACHES if count == offsets.size and reach > side]
    for reach in (side, *reaches):
        yield from _learned_guesses({"max_distance": reach}, count, offsets, measured.heads)


def _parameters_by_name(name: str, _rows: int) -> dict[str, str]:
    """Return parameters by a tensor's name: T5's decoder looks back, WavLM reaches farther."""
    if "rel_attn_embed" in name:
        return {"max_distance": "800"}
    return {"bidirectional": "false"} if "decoder" in name else {}


@bias(
    source="Raffel et al. 2020, arXiv:1910.10683 §2.1; Mesh TensorFlow and transformers' code",
    formula=(
        "bias_h(i, j) = table[bucket(j − i), h]; N = num_buckets/2 buckets per side (num_buckets "
        "with bidirectional=false); a distance n < E = ⌊N/2⌋ has bucket n, a larger one min(N − 1, "
        "E + ⌊ln(n/E) / ln(max_distance/E) · (N − E)⌋)"
    ),
    convention=(
        "Encoders use bidirectional=true, and decoders use bidirectional=false. With "
        "bidirectional=false, all keys after the query share bucket 0. T5 does not divide the "
        "scores by √d."
    ),
    weights=WeightsShape(
        "num_buckets",
        "heads",
        "(num_buckets, heads)",
        tensor_names=r"(relative_attention_bias|rel_attn_embed)(\.weight)?",
        settled_by=_parameters_by_name,
    ),
    inverse=_t5_inverse,
)
def t5(
    *,
    heads: Heads = 8,
    num_buckets: Annotated[
        int, Param("rows of the table", minimum=2, maximum=4096, source=_T5)
    ] = 32,
    max_distance: Annotated[
        int,
        Param(
            "maximum distance of the logarithmic buckets",
            minimum=2,
            maximum=2**20,
            source=_T5,
        ),
    ] = 128,
    bidirectional: Annotated[
        bool, Param("whether keys after the query use separate buckets", source=_T5)
    ] = True,
    seed: Seed = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """A learned bias for each bucket of distances, with wide buckets for large distances."""
    bucket = t5_buckets(
        num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional
    )
    return BucketBias(heads, bucket, Weights(num_buckets, heads, weights, seed))


def t5_buckets(
    *, num_buckets: int, max_distance: int, bidirectional: bool
) -> Callable[[Any, Any], Any]:
    """Return the rule for buckets of offsets j − i: xp and offsets (n,) → (n,).

    Raises: InvalidInput if a side has no bucket for a single step, or none that widens.
    """
    # Half of a side's buckets are single steps, the other half widen.
    side = num_buckets // 2 if bidirectional else num_buckets
    single = side // 2
    if single < 1 or max_distance <= single:
        raise InvalidInput(
            f"--set num_buckets={num_buckets} max_distance={max_distance}: each side has {side} "
            f"buckets, half of them ({single}) for single steps; there must be at least 1 such, "
            "and max_distance above their number"
        )

    def bucket(xp: Any, offsets: Any) -> Any:
        if bidirectional:
            distance = xp.abs(offsets)
            right = xp.where(offsets > 0, xp.asarray(side), xp.asarray(0))
        else:
            distance, right = xp.maximum(-offsets, xp.asarray(0)), 0
        thresholds = _log_thresholds(side - single, single, max_distance)
        widening = single - 1 + xp.searchsorted(xp.asarray(thresholds), distance, side="right")
        return right + xp.where(distance < single, distance, widening)

    return bucket


@cache
def _log_thresholds(buckets: int, single: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each widening bucket, in exact integers.

    Bucket k holds the distances n with ⌊ln(n/single) / ln(max_distance/single) · buckets⌋ = k, and
    n reaches k exactly if n^buckets ≥ max_distance^k · single^(buckets−k).

    >>> _log_thresholds(8, 8, 128)
    [8, 12, 16, 23, 32, 46, 64, 91]
    """
    return [
        bisect_left(
            range(max_distance + 1),
            max_distance**k * single ** (buckets - k),
            key=lambda n: n**buckets,
        )
        for k in range(buckets)
    ]


@bias(
    source="the clipped offsets of Shaw et al. 2018, arXiv:1803.02155 §3.2, as a score",
    formula="bias_h(i, j) = table[clip(j − i, −K, K) + K, h], K = max_distance",
    weights=WeightsShape(
        "max_distance",
        "heads",
        "(2·max_distance + 1, heads)",
        rows_to_parameter=lambda rows: (rows - 1) // 2 if rows % 2 else None,
    ),
    inverse=_clipped_inverse,
)
def t5_clipped(
    *,
    heads: Heads = 8,
    max_distance: MaxDistance = 128,
    seed: Seed = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """A learned bias for each offset, clipped at a maximum distance."""
    return BucketBias(
        heads,
        lambda xp, offsets: clipped(xp, offsets, max_distance),
        Weights(2 * max_distance + 1, heads, weights, seed),
    )


def clipped(xp: Any, offsets: Any, farthest: int) -> Any:
    """Return the rows of a table of clipped offsets, which starts at −farthest."""
    return xp.clip(offsets, -farthest, farthest) + farthest


@relative(
    source="Shaw et al. 2018, arXiv:1803.02155 §3.2",
    formula="row of offset j − i: table[clip(j − i, −K, K) + K], K = max_distance",
    convention=(
        "Offsets are key − query, in ascending order, as in the paper and in Wav2Vec2-BERT with "
        "equal maximum distances to the left and right. SpeechT5 uses query − key, so its table is "
        "reversed."
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
    """A trained row for each offset, clipped at a maximum distance.

    Without a weights file the rows are drawn from normal(0, 0.02).
    """
    return Rows(
        dim,
        lambda xp, offsets, table: table(clipped(xp, offsets, max_distance)),
        positions="indices",
        domain="whole",
        weights=Weights(2 * max_distance + 1, dim, weights, seed),
        farthest=max_distance,
    )

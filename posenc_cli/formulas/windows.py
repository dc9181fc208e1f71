"""Learned scores of pairs of positions: of two places in a window, or by a small network.

Defines the numbering of offsets that Swin and BEiT share. Positions are places of the window in
row-major order; a class token, if there is one, is position 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import isqrt
from typing import Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import (
    BucketBias,
    Capacity,
    Network,
    PairRule,
    Weights,
    WeightsShape,
    bias,
)
from posenc_cli.formulas.inverse import no_guesses
from posenc_cli.formulas.parameters import Heads, Param, Seed, WeightsFile, as_text

_LARGEST_SIDE = 32768
WindowSize = Annotated[
    tuple[int, ...],
    Param(
        "rows x columns of a window; one number means a square window",
        minimum=1,
        maximum=_LARGEST_SIDE,
        separator="x",
        source="Swin, Swin V2",
    ),
]
_CLASS_ROWS = 3  # rows of the table: from the class token, to it, and to itself

_FIRE = "Li et al. 2024, arXiv:2310.04418"
_POSITIONS = 2**31
"""Largest number of positions with numbered pairs: the number of a pair fits an int64."""
_DRAWN = 0.3
_SHARED_PAST = "the distance, and of the query's position past the threshold"


def _window_of_rows(rows: int) -> tuple[int, ...] | None:
    """Return the square window whose offsets a table has, with or without rows of a class token.

    >>> _window_of_rows(169), _window_of_rows(732), _window_of_rows(170)
    ((7, 7), (14, 14), None)
    """
    for count in (rows, rows - _CLASS_ROWS):
        side = isqrt(max(count, 0))
        if side % 2 and side * side == count:
            return (side // 2 + 1,) * 2
    return None


@bias(
    source=(
        "Liu et al. 2021, arXiv:2103.14030 §3.2 (Swin); Bao et al. 2022, arXiv:2106.08254, BEiT's "
        "code; transformers' and timm's code"
    ),
    formula=(
        "bias_h(i, j) = table[(r_i − r_j + H − 1)(2W − 1) + c_i − c_j + W − 1, h] of the row r and "
        "column c of a place of an H × W window; query i minus key j"
    ),
    convention=(
        "Patches are in row-major order. With class_token=true (BEiT), position 0 is the class "
        "token. The last three rows of the table are then class token to patch, patch to class "
        "token, and class token to itself. transformers 5.23 transposes a window with unequal "
        "sides. The bias is added after the division by √d. It does not include the mask of "
        "Swin's shifted windows."
    ),
    weights=WeightsShape(
        "window_size",
        "heads",
        "((2·rows − 1)(2·columns − 1), and 3 with a class token, heads)",
        rows_to_parameter=_window_of_rows,
        tensor_names="relative_position_bias_table",
        settled_by=lambda _, rows: {} if isqrt(rows) ** 2 == rows else {"class_token": "true"},
    ),
    inverse=no_guesses,
)
def swin(
    *,
    heads: Heads = 8,
    window_size: WindowSize = (7, 7),
    class_token: Annotated[bool, Param("whether a class token comes first, as in BEiT")] = False,
    seed: Seed = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """A learned bias for each offset in rows and columns within a window.

    >>> content = swin.bind({"window_size": "2x3"}).content
    >>> content.weights.rows, content.capacity.positions
    (15, 6)
    """
    rows, columns = _sides("window_size", window_size)
    offsets = (2 * rows - 1) * (2 * columns - 1)
    first = int(class_token)
    between = _number_of_offset(rows, columns, first)

    def number(xp: Any, queries: Any, keys: Any) -> Any:
        if not class_token:
            return between(xp, queries, keys)
        of_class = xp.where(keys == 0, xp.asarray(offsets + 2), xp.asarray(offsets))
        to_class = xp.where(keys == 0, xp.asarray(offsets + 1), between(xp, queries, keys))
        return xp.where(queries == 0, of_class, to_class)

    shared = f"{_SHARED}, and of which of the two is the class token" if class_token else _SHARED
    return BucketBias(
        heads,
        lambda _xp, numbers: numbers,
        Weights(offsets + _CLASS_ROWS * first, heads, weights, seed),
        capacity=_capacity(rows, columns, first),
        pairs=PairRule(number, shared, offset=not class_token),
    )


@bias(
    source=(
        "Liu et al. 2022, arXiv:2111.09883 §3.3 (Swin V2, log-spaced continuous position bias); "
        "transformers' code"
    ),
    formula=(
        "bias_h(i, j) = 16 · sigmoid(Σ_k w_hk · max(0, u_k · y + v_k · x + b_k)), y = sign(Δ) · "
        "log2(1 + 8 · |Δ| / (H − 1)) / log2(8) of Δ = r_i − r_j, and x of the columns likewise; H "
        "is that of pretrained_window_size if given; offsets are query i minus key j"
    ),
    convention=(
        "weights=FILE names a file with the tensors 0.weight, 0.bias and 2.weight of the network. "
        "In a checkpoint, weights=FILE:PREFIX names them: a PREFIX is "
        "encoder.layers.0.blocks.0.attention.self.continuous_position_bias_mlp or "
        "layers.0.blocks.0.attn.cpb_mlp. Without a file, all weights are random. posenc computes "
        "the network in float64. If a side of the window has length 1, the divisor is 1."
    ),
    weights=WeightsShape(
        "hidden",
        "heads",
        "0.weight (hidden, 2), 0.bias (hidden) and 2.weight (heads, hidden)",
        tensors=("0.weight", "0.bias", "2.weight"),
        tensor_names=r"(continuous_position_bias_mlp|cpb_mlp)\.0\.weight",
    ),
    inverse=no_guesses,
)
def swin_v2(
    *,
    heads: Heads = 8,
    window_size: WindowSize = (8, 8),
    pretrained_window_size: Annotated[
        tuple[int, ...] | None,
        Param(
            "rows x columns of the windows in training, if they differ",
            minimum=1,
            maximum=_LARGEST_SIDE,
            separator="x",
        ),
    ] = None,
    hidden: Annotated[
        int, Param("hidden units of the network", minimum=1, maximum=65536, source="Swin V2")
    ] = 512,
    seed: Seed = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """A bias that a small network computes for each offset in rows and columns within a window."""
    rows, columns = _sides("window_size", window_size)
    trained = (rows, columns)
    if pretrained_window_size is not None:
        trained = _sides("pretrained_window_size", pretrained_window_size)

    def offsets(_xp: Any, numbers: Any) -> tuple[Any, ...]:
        wide = 2 * columns - 1
        return numbers // wide - (rows - 1), numbers % wide - (columns - 1)

    def coordinate(xp: Any, distances: Any, axis: int) -> Any:
        return xp.log(1 + 8 * distances / max(trained[axis] - 1, 1)) / (3 * xp.log(2))

    return BucketBias(
        heads,
        lambda _xp, numbers: numbers,
        Weights(hidden, 3 + heads, weights, seed),
        capacity=_capacity(rows, columns, 0),
        pairs=PairRule(_number_of_offset(rows, columns, 0), _SHARED, offset=True),
        network=Network(2, 16, offsets, coordinate),
    )


@bias(
    source=f"{_FIRE} §3 and its code; FIRE in mcleish7/arithmetic",
    formula=(
        "bias_h(i, j) = Σ_k w_hk · max(0, u_k · t + b_k) + s_h, t = f(|i − j|) / "
        "(f(max(threshold, i)) + 10^−6), f(x) = ln(1 + c · x)"
    ),
    convention=(
        "For queries up to the threshold, the score depends only on the distance. For later "
        "queries, the score also depends on the query's position. In the authors' code, a key "
        "after the query gets the same score as a key at the same distance before it; a causal "
        "mask hides it. weights=FILE "
        "names a file with the tensors mlp.0.weight, mlp.0.bias, mlp.2.weight and mlp.2.bias. "
        "weights=FILE:PREFIX names these tensors in a checkpoint. The other learned "
        "parameters are c and threshold (|L_multiplier · L| in the code); --set sets them. Without "
        "a file, the weights are random, from normal(0, 0.3). posenc computes the network in "
        "float64."
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
    inverse=no_guesses,
)
def fire(
    *,
    heads: Heads = 8,
    hidden: Annotated[
        int, Param("hidden units of the network", minimum=1, maximum=65536, source=_FIRE)
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
            "queries up to this position share one scale",
            above=0,
            maximum=1e15,
            source="the authors' initial value",
        ),
    ] = 512.0,
    seed: Annotated[
        int, Param("seed of a random network (normal, std 0.3)", minimum=0, maximum=2**64 - 1)
    ] = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """FIRE: a small network computes the bias from the distance divided by the query's position.

    >>> content = fire.bind({"heads": 2}).content
    >>> content.by, content.weights.rows, content.weights.columns
    ('pair', 33, 4)
    """
    first = min(math.floor(threshold), _POSITIONS - 1)

    def number(xp: Any, queries: Any, keys: Any) -> Any:
        return xp.maximum(queries, xp.asarray(first)) * _POSITIONS + xp.abs(queries - keys)

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
        pairs=PairRule(number, _SHARED_PAST, offsets_until=first),
        network=Network(
            2,
            None,
            lambda _xp, numbers: (numbers % _POSITIONS, numbers // _POSITIONS),
            coordinate,
            quotient=True,
            shifted=True,
        ),
    )


_SHARED = "how many rows and columns lie between two places of a window"


def _number_of_offset(rows: int, columns: int, first: int) -> Callable[[Any, Any, Any], Any]:
    """Return the index for the offset of two places; the first place is position ``first``."""

    def number(_xp: Any, queries: Any, keys: Any) -> Any:
        apart = (queries - first) // columns - (keys - first) // columns
        across = (queries - first) % columns - (keys - first) % columns
        return (apart + rows - 1) * (2 * columns - 1) + across + columns - 1

    return number


def _capacity(rows: int, columns: int, first: int) -> Capacity:
    text = as_text((rows, columns), separator="x")
    held = f"{rows * columns} places" + (" and a class token" if first else "")
    return Capacity(
        rows * columns + first,
        f"window_size={text} has {held}",
        "--set window_size=ROWSxCOLUMNS, larger",
    )


def _sides(name: str, window_size: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows and columns of a window.

    Raises: InvalidInput unless there are one or two numbers.
    """
    if len(window_size) > 2:
        text = as_text(window_size, separator="x")
        raise InvalidInput(f"--set {name} {text}: must be rows x columns")
    return window_size[0], window_size[-1]

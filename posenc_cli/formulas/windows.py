"""Learned scores of two places of a window: by how many rows and columns lie between them.

Owns the numbering of those offsets that Swin and BEiT share. Positions are places of the window in
row-major order; where a class token comes first, position 0 is it.
"""

from __future__ import annotations

from math import isqrt
from typing import Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import BucketBias, Capacity, PairRule, Weights, WeightsShape, bias
from posenc_cli.formulas.inverse import unguessed
from posenc_cli.formulas.parameters import Heads, Param, Seed, WeightsFile, as_text

_CLASS_ROWS = 3  # of the table: from the class token, to it, and its own


def _window_of_rows(rows: int) -> tuple[int, ...] | None:
    """The square window whose offsets a table has, with or without the rows of a class token.

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
        "Places are in row-major order. class_token=true is BEiT's: position 0 is the class token, "
        "places follow, and the table ends in three rows: from the class token to a place, from a "
        "place to it, and its own; transformers 5.23 reads a table of unequal sides sideways. The "
        "bias is added after the scores are divided by √d. Swin's mask of shifted windows is not "
        "part of it."
    ),
    weights=WeightsShape(
        "window_size",
        "heads",
        "((2·rows − 1)(2·columns − 1), and 3 with a class token, heads)",
        rows_to_parameter=_window_of_rows,
    ),
    inverse=unguessed,
)
def swin(
    *,
    heads: Heads = 8,
    window_size: Annotated[
        tuple[int, ...],
        Param(
            "rows x columns of a window; one number is a square",
            minimum=1,
            maximum=32768,
            separator="x",
            source="Swin",
        ),
    ] = (7, 7),
    class_token: Annotated[bool, Param("whether a class token comes first, as in BEiT")] = False,
    seed: Seed = 0,
    weights: WeightsFile = None,
) -> BucketBias:
    """A learned score for how many rows and columns lie between two places of a window.

    >>> content = swin.bind({"window_size": "2x3"}).content
    >>> content.weights.rows, content.capacity.positions
    (15, 6)
    """
    rows, columns = _sides(window_size)
    places = rows * columns
    offsets = (2 * rows - 1) * (2 * columns - 1)
    first = int(class_token)

    def number(xp: Any, queries: Any, keys: Any) -> Any:
        apart = (queries - first) // columns - (keys - first) // columns
        across = (queries - first) % columns - (keys - first) % columns
        between = (apart + rows - 1) * (2 * columns - 1) + across + columns - 1
        if not class_token:
            return between
        of_class = xp.where(keys == 0, xp.asarray(offsets + 2), xp.asarray(offsets))
        to_class = xp.where(keys == 0, xp.asarray(offsets + 1), between)
        return xp.where(queries == 0, of_class, to_class)

    shared = "how many rows and columns lie between two places of a window"
    if class_token:
        shared = f"{shared}, and of which of the two is the class token"
    text = as_text((rows, columns), separator="x")
    held = f"{places} places" + (" and a class token" if class_token else "")
    return BucketBias(
        heads,
        lambda _xp, numbers: numbers,
        Weights(offsets + _CLASS_ROWS * first, heads, weights, seed),
        capacity=Capacity(
            places + first,
            f"window_size={text} has {held}",
            "--set window_size=ROWSxCOLUMNS, larger",
        ),
        pairs=PairRule(number, shared),
    )


def _sides(window_size: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a window.

    Raises: InvalidInput unless there are one or two numbers.
    """
    if len(window_size) > 2:
        text = as_text(window_size, separator="x")
        raise InvalidInput(f"--set window_size {text}: must be rows x columns")
    return window_size[0], window_size[-1]

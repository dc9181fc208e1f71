"""Learned position tables, resized to another length."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_cli.api.arguments import (
    ArgumentError,
    ArrayLike,
    checked_choice,
    checked_count,
    in_arguments,
    type_text,
)
from posenc_cli.api.arrays import array_like, is_array, loaded_array
from posenc_cli.encoding.methods import METHODS, RESIZE_ARITHMETICS, Method, ResizeArithmetic
from posenc_cli.encoding.resizing import Resizing, Sides
from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES


@in_arguments
def resize(
    table: ArrayLike,
    positions: int | None = None,
    *,
    grid: tuple[Sides, Sides] | None = None,
    method: Method | None = None,
    prefix: int = 0,
    antialias: bool = False,
    interpolate_offset: float = 0.0,
    arithmetic: ResizeArithmetic = "exact",
) -> ArrayLike:
    """Resize a learned table to another number of positions, as torch's ``interpolate`` does.

    Args:
        table: (rows, d) or (1, rows, d), an array or a tensor.
        positions: the number of rows of the result, without the prefix. Or give ``grid``, ((A, B),
            (C, D)): A rows of B positions become C rows of D.
        method: ``linear``, ``bicubic``, ``nearest`` or ``nearest-exact``; by default bicubic for a
            grid, else linear.
        prefix: the number of first rows that are kept unchanged, such as class and register tokens.
        antialias: the argument of torch's ``interpolate``, which timm sets.
        interpolate_offset: DINOv2's offset: scale by (C + offset)/A and (D + offset)/B.
        arithmetic: ``exact``, correctly rounded, or ``float32`` or ``float64``: computed by
            torch, which must be installed.

    Returns: the rows in the format of the table, (…, rows, d).

    Raises: ValueError if an argument is wrong, or the table has another number of rows.

    >>> import numpy as np
    >>> resize(np.array([[0.0], [1.0]]), 4)
    array([[0.  ],
           [0.25],
           [0.75],
           [1.  ]])
    """
    if not is_array(table):
        raise ArgumentError(f"table: must be an array or a tensor, not {type_text(table)}")
    loaded = loaded_array(table, "table")
    resizing = Resizing.of(
        loaded.values.shape,
        "table",
        length=None if positions is None else checked_count("positions", positions),
        grid=_grids(grid),
        method=None if method is None else checked_choice("method", method, METHODS),
        prefix=checked_count("prefix", prefix, 0),
        antialias=bool(antialias),
        interpolate_offset=_offset(interpolate_offset),
    )
    checked_choice("arithmetic", arithmetic, RESIZE_ARITHMETICS)
    stored = REAL_DTYPES.get(loaded.dtype, FLOAT64)
    rows = resizing.checked(loaded.values, "table")
    blocks = list(resizing.blocks(rows, stored, arithmetic))
    values: Any = np.concatenate(blocks).reshape(*loaded.values.shape[:-2], resizing.rows, -1)
    resized: ArrayLike = array_like(values, table, stored)
    return resized


def _grids(given: Any) -> tuple[Sides, Sides] | None:
    if given is None:
        return None
    try:
        (a, b), (c, d) = given
    except (TypeError, ValueError):
        a = b = c = d = 0
    if not all(isinstance(side, int | np.integer) and side > 0 for side in (a, b, c, d)):
        raise ArgumentError(f"grid {given!r}: must be ((A, B), (C, D)), whole numbers from 1")
    return (int(a), int(b)), (int(c), int(d))


def _offset(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1:
        raise ArgumentError(f"interpolate_offset {given!r}: must be a number from 0 to below 1")
    return float(given)

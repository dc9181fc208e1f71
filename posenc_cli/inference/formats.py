"""Round values to half-precision formats, and recognize values that are exact in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.rounding import round_to

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import NumberArray, Reals

HALVES = {"bfloat16": BFLOAT16, "float16": FLOAT16}
CUT_BFLOAT16 = "bfloat16 toward zero"
"""The rounding that drops the lower half of a float32."""
COARSE = (*HALVES, CUT_BFLOAT16)
"""The roundings that occur in tables and frequencies."""
_FLOATS = {**HALVES, "float32": FLOAT32}


def round_to_half(values: Reals, dtype: str) -> Reals:
    """Return ``values`` rounded to a half precision, or to float32, as float64.

    >>> round_to_half(np.array([257.0]), "bfloat16"), round_to_half(np.array([2049.0]), "float16")
    (array([256.]), array([2048.]))
    >>> round_to_half(np.array([255.9]), "bfloat16"), round_to_half(np.array([255.9]), CUT_BFLOAT16)
    (array([256.]), array([255.]))
    """
    if dtype == CUT_BFLOAT16:
        bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    return np.asarray(round_to(np.asarray(values, np.float64), FLOAT64, _FLOATS[dtype]), np.float64)


def on_grid(values: NumberArray, coarse: str) -> bool:
    """Return whether all finite values are exact in a format of `COARSE`.

    >>> on_grid(np.array([1.0, 257.0]), "bfloat16"), on_grid(np.array([1.0, 257.0]), "float16")
    (False, True)
    """
    with np.errstate(all="ignore"):
        single = np.ascontiguousarray(values, np.float32)
        if coarse == "float16":
            rounded = single.astype(np.float16).astype(np.float32)
        else:
            rounded = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return bool(((rounded == values) | ~np.isfinite(values)).all())

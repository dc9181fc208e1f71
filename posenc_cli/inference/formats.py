"""Half-precision formats, and how rounding to them changes values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.rounding import round_to
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import ComplexRows, NumberArray, Reals

HALVES = {"bfloat16": BFLOAT16, "float16": FLOAT16}
CUT_BFLOAT16 = "bfloat16 toward zero"
"""What is left of a float32 of which the lower half is cut off."""
COARSE = (*HALVES, CUT_BFLOAT16)
"""The roundings that tables and frequencies meet."""
_FLOATS = {**HALVES, "float32": FLOAT32}

TF32 = "TF32"
"""Float32 of which matrix products keep 10 bits after the first."""
EVEN_TF32, CUT_TF32 = "TF32 with ties to even", "TF32 toward zero"
"""The same where ties are rounded as float16 has them, and where the other bits are cut off."""
TF32S = (TF32, EVEN_TF32, CUT_TF32)


class CellFormat(Record):
    """A format of finished entries, by its name."""

    name: str

    @property
    def done(self) -> str:
        """What was done to entries, in words that follow others."""
        return f"rounded to {self.name}"

    def rounded(self, factors: ComplexRows) -> ComplexRows:
        """What it makes of factors (n, pairs)."""
        out = np.empty(factors.shape, np.complex128)
        out.real = round_to_half(factors.real, self.name)
        out.imag = round_to_half(factors.imag, self.name)
        return out


def round_to_half(values: Reals, dtype: str) -> Reals:
    """``values`` on the grid of a half precision, or of float32, kept as float64.

    >>> round_to_half(np.array([257.0]), "bfloat16"), round_to_half(np.array([2049.0]), "float16")
    (array([256.]), array([2048.]))
    >>> round_to_half(np.array([255.9]), "bfloat16"), round_to_half(np.array([255.9]), CUT_BFLOAT16)
    (array([256.]), array([255.]))
    >>> round_to_half(np.array([2049.0]), TF32)
    array([2050.])
    >>> round_to_half(np.array([2049.0]), EVEN_TF32), round_to_half(np.array([2051.9]), CUT_TF32)
    (array([2048.]), array([2050.]))
    """
    if dtype in TF32S:
        bits = np.asarray(values, np.float32).view(np.uint32)
        if dtype == TF32:
            bits = bits + np.uint32(0x1000)
        elif dtype == EVEN_TF32:
            bits = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if dtype == CUT_BFLOAT16:
        bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    return np.asarray(round_to(np.asarray(values, np.float64), FLOAT64, _FLOATS[dtype]), np.float64)


def on_grid(values: NumberArray, coarse: str) -> bool:
    """Whether all values that are finite are numbers of a format of `COARSE`.

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


HALF_CELLS = {half: CellFormat(half) for half in COARSE}
"""Entries of tables in a half precision."""

"""Coarse number formats that tables are kept in: what rounding to them makes of exact cells.

The formats of whole numbers and of eight bits have a scale, of a table or of each row. That of a
table is read off its largest number, which stands for the largest code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.rounding import round_to
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.numerics.arrays import ComplexRows, RealRows, Reals

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

FLOAT8 = {"float8 e4m3": (4, -6), "float8 e5m2": (3, -14)}
"""Bits of the significand, and the exponent of the smallest normal number."""

ROUNDED, TO_ZERO, DOWN = "rounded", "cut toward zero", "cut downward"
"""What becomes of numbers between two of a format."""

_LARGEST = {
    "int16": 32767.0,
    "int8": 127.0,
    "int4": 7.0,
    "uint8": 127.5,
    "uint4": 7.5,
    "float8 e4m3": 448.0,
    "float8 e5m2": 57344.0,
}
"""The largest number of each format, which scales are made to fit."""


class CellFormat(Record):
    """A format of finished cells, in words; ``kind`` is its name.

    ``scales`` are what the codes of the cosines and of the sines are multiplied by; with
    ``by_row`` it is what makes the largest number of each row the largest code. ``how`` says
    whether numbers between two of the format were rounded, or cut.
    """

    name: str
    kind: str = ""
    scales: tuple[float, float] = (1.0, 1.0)
    by_row: bool = False
    how: str = ROUNDED

    @property
    def done(self) -> str:
        """What was done to cells, in words that follow others."""
        return f"{self.how} to {self.name}"

    @property
    def factor(self) -> float | None:
        """What finished cells were multiplied by, None where they were not."""
        return None

    def rounded(self, factors: ComplexRows) -> ComplexRows:
        """What it makes of factors (n, pairs)."""
        out = np.empty(factors.shape, np.complex128)
        out.real = self._rounded_table(factors.real, 0)
        out.imag = self._rounded_table(factors.imag, 1)
        return out

    def _rounded_table(self, table: RealRows, which: int) -> RealRows:
        """What it makes of a table, 0 of cosines and 1 of sines."""
        if self.kind in COARSE:
            return round_to_half(table, self.kind)
        scales = np.full((1, 1), self.scales[which])
        if self.by_row:
            scales = np.abs(table).max(axis=1, keepdims=True) / _LARGEST[self.kind]  # (n, 1)
        scales = np.where(scales == 0, 1, scales)
        return np.asarray(scales * round_to_codes(table / scales, self.kind), np.float64)


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


def round_to_codes(values: Reals, name: str) -> Reals:
    """``values`` on the grid of float8, or whole, kept as float64; too large ones saturate.

    >>> round_to_codes(np.array([0.3, 1.1, 500.0]), "float8 e4m3")
    array([3.125e-01, 1.125e+00, 4.480e+02])
    """
    largest = _LARGEST[name]
    if name.startswith("int"):
        return np.clip(np.rint(values), -largest - 1, largest)
    if name.startswith("uint"):  # its middle lies between two codes
        return np.clip(np.rint(values - 0.5) + 0.5, -largest, largest)
    bits, least = FLOAT8[name]
    exponents = np.maximum(np.frexp(values)[1] - 1, least)
    steps = np.ldexp(1.0, exponents - bits + 1)
    return np.asarray(np.clip(np.rint(values / steps) * steps, -largest, largest), np.float64)


def largest_code(name: str) -> float:
    """The largest number of a format, which scales are made to fit."""
    return _LARGEST[name]


HALF_CELLS = {half: CellFormat(half, half) for half in COARSE}
"""Cells of tables in a half precision."""


def whole_codes(factors: ComplexRows) -> bool:
    """Whether cells are whole numbers past 1, as those of a file of integers are."""
    cells = factors[np.isfinite(factors)]
    parts = np.stack([cells.real, cells.imag])
    return bool((parts == np.rint(parts)).all() and np.abs(parts).max(initial=0.0) > 1)


def scales_of(factors: ComplexRows, kind: str) -> tuple[float, float]:
    """What makes the largest code the largest number of each table."""
    # Only positive codes end at the largest: −128 is one code further.
    cos, sin = (
        float(np.nanmax(table, initial=0.0)) / _LARGEST[kind]
        for table in (factors.real, factors.imag)
    )
    return cos, sin


def coarse_formats(factors: ComplexRows) -> Iterator[CellFormat]:
    """Formats of few bits, and whole numbers, with the scales of a sample of cells (n, pairs)."""
    if whole_codes(factors):
        yield CellFormat("whole numbers", "int16")
    for kind in _LARGEST:
        if kind in FLOAT8:
            yield CellFormat(kind, kind)
        scales = scales_of(factors, kind)
        yield CellFormat(f"{kind}, in steps of one scale a table", kind, scales)
        yield CellFormat(f"{kind}, with a scale for each row", kind, by_row=True)

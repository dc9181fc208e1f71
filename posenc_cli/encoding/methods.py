"""The methods to resize a table of positions, by torch's names."""

from __future__ import annotations

from typing import Literal, get_args

Method = Literal["linear", "bicubic", "nearest", "nearest-exact"]
"""How values between rows are computed; ``linear`` on a grid is torch's ``bilinear``."""

METHODS: tuple[Method, ...] = get_args(Method)

NEAREST = "nearest", "nearest-exact"
"""The methods that repeat rows and do not blend them."""

ResizeArithmetic = Literal["exact", "float32", "float64"]
"""Correctly rounded values, or the values that torch computes in a format."""

RESIZE_ARITHMETICS: tuple[ResizeArithmetic, ...] = get_args(ResizeArithmetic)

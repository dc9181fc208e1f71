"""The ways to resize a table of positions, by the names that torch gives them."""

from __future__ import annotations

from typing import Literal, get_args

Method = Literal["linear", "bicubic", "nearest", "nearest-exact"]
"""How values between rows are found; ``linear`` is torch's ``bilinear`` on a grid."""

METHODS: tuple[Method, ...] = get_args(Method)

NEAREST = "nearest", "nearest-exact"
"""The methods that repeat rows and blend none."""

ResizeArithmetic = Literal["exact", "float32", "float64"]
"""Correctly rounded values, or what torch computes in a format."""

RESIZE_ARITHMETICS: tuple[ResizeArithmetic, ...] = get_args(ResizeArithmetic)

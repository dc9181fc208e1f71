"""The properties of encodings by name: `--require` and its help need no more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROPERTIES: Mapping[str, str] = {
    "unique": "smallest distance of rows",
    "bounded": "largest absolute value",
    "norm": "spread of row norms",
    "linear-shift": "error of one linear map",
    "linear-shift-held-out": "same map on later rows",
    "relative": "spread at equal distance",
    "decay": "distance, then below half",
    "defined-beyond": "positions there are",
    "distinct-float16": "distinct rows",
    "distinct-bfloat16": "distinct rows",
}
"""The properties, in their order, and what the value of each is."""

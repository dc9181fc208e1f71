"""The properties of encodings by name: `--require` and its help need no more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROPERTIES: Mapping[str, str] = {
    "unique": "smallest distance",
    "bounded": "largest cell",
    "norm": "spread of lengths",
    "linear-shift": "left where fitted",
    "linear-shift-held-out": "left beyond",
    "relative": "spread of scores",
    "decay": "below half from",
    "defined-beyond": "positions",
    "distinct-float16": "distinct rows",
    "distinct-bfloat16": "distinct rows",
}
"""The properties, in their order, and what the value of each is."""

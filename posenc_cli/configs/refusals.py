"""The model types that posenc does not read, each with its reason: rows of ``refusals.json``.

A reason goes on from the model type: "mamba has no attention". Rotary families that no scheme
stands for have theirs in ``rotary.json``.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Refusal(Record):
    """Why a model type is not read, and what comes near."""

    because: str
    hint: str | None = None


@cache
def refusals() -> Mapping[str, Refusal]:
    """Every model type that is refused.

    >>> refusals()["mamba"].because
    'has no attention'
    """
    rows = json.loads((files("posenc_cli.configs") / "refusals.json").read_text("utf-8"))
    return {name: Refusal(row["because"], row.get("hint")) for row in rows for name in row["types"]}

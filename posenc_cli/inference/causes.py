"""Why something differs from what it should be: the causes that scripts rely on.

Each stands here once, with what it means; JSON, the tables of docs/ and the tests derive from it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Code(StrEnum):
    """A word of a report, and its meaning in one line."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """The word, with its meaning beside it."""
        code = str.__new__(cls, word)
        code._value_ = word
        code.meaning = meaning
        return code


class Cause(Code):
    """Why a subject differs from the reference."""

    LAYOUT = (
        "layout",
        "columns are paired otherwise than the reference pairs them, or heads change places",
    )
    DIRECTION = "direction", "the rotation runs backward: the sine has the wrong sign"
    BASE = "base", "the base is another"
    SCALING_MISSING = "scaling-missing", "the scaling of the context is not applied"
    ATTENTION_FACTOR = "attention-factor", "cosines and sines are multiplied by another number"
    ROTARY_DIM = "rotary-dim", "more or fewer columns turn"
    NO_ROTATION = "no-rotation", "nothing rotates"
    INV_FREQ_PRECISION = "inv-freq-precision", "the frequencies were rounded too coarsely"
    POSITION_PRECISION = "position-precision", "positions or angles were rounded too coarsely"
    TABLE_PRECISION = (
        "table-precision",
        "cosines and sines, or what they turn, were rounded too coarsely",
    )
    COS_SIN_MISPAIRED = "cos-sin-mispaired", "cosines and sines stand at wrong places"
    POSITION_OFFSET = "position-offset", "rows hold the rotations of other positions"
    FREQUENCY_RULE = "frequency-rule", "the frequencies follow another rule, or another factor"
    AXIS = "axis", "pairs follow the coordinate of another axis"
    UNINITIALISED = (
        "uninitialised",
        "frequencies or rows are what memory held that nothing was written to",
    )
    NOT_A_NUMBER = "not-a-number", "cells are NaN or infinite, and nothing says why"
    UNKNOWN = "unknown", "no known bug gives these values"

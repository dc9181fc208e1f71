"""The codes of causes, subjects and findings that scripts rely on.

Each is defined here once, with its meaning. JSON, the tables of docs/ and the tests derive from it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Code(StrEnum):
    """A word of a report, and its meaning in one line."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """Return the word with its meaning."""
        code = str.__new__(cls, word)
        code._value_ = word
        code.meaning = meaning
        return code


class Cause(Code):
    """The reason why a subject differs from the reference."""

    LAYOUT = (
        "layout",
        "dimensions are paired differently from the reference, or heads are swapped",
    )
    DIRECTION = "direction", "the rotation runs backward: the sine has the wrong sign"
    BASE = "base", "the base differs"
    SCALING_MISSING = "scaling-missing", "RoPE scaling is not applied"
    ATTENTION_FACTOR = "attention-factor", "cosines and sines have a different attention factor"
    ROTARY_DIM = "rotary-dim", "too many or too few dimensions rotate"
    NO_ROTATION = "no-rotation", "nothing rotates"
    INV_FREQ_PRECISION = "inv-freq-precision", "the frequencies were rounded too coarsely"
    POSITION_PRECISION = "position-precision", "positions or angles were rounded too coarsely"
    TABLE_PRECISION = (
        "table-precision",
        "cosines, sines or rotated vectors were rounded too coarsely",
    )
    COS_SIN_MISPAIRED = "cos-sin-mispaired", "cosines and sines are misplaced"
    POSITION_OFFSET = "position-offset", "rows are rotated by the angles of other positions"
    FREQUENCY_RULE = "frequency-rule", "the frequencies follow a different rule or factor"
    AXIS = "axis", "pairs use the coordinate of the wrong axis"
    UNINITIALISED = (
        "uninitialised",
        "frequencies or rows are uninitialized memory",
    )
    NOT_A_NUMBER = "not-a-number", "values are NaN or infinite, and no known bug explains them"
    UNKNOWN = "unknown", "no known bug produces these values"


class SubjectKind(Code):
    """The kind of a subject."""

    POSENC = "posenc", "posenc's own tables, if you name no subject"
    TABLES = "tables", "tables of cosines and sines (`--tables COS SIN`)"
    INV_FREQ = "inv-freq", "inverse frequencies (`--inv-freq FILE`)"
    ROTATED = "rotated", "vectors before and after the rotation (`--rotated X Y`)"
    IMPL = "impl", "a function, a class or an ONNX graph (`--impl NAME`)"


class FindingName(Code):
    """The property that a finding is about."""

    RELATIVE = "relative", "q·k depends only on m − n, for all q and k and all pairs of positions"
    NORM = "norm", "norms are kept, or multiplied by the reference's attention factor"
    IDENTITY = "identity", "position 0 is not rotated"
    REFERENCE = "reference", "every rotation equals the reference"

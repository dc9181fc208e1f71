"""ALiBi slopes and their source."""

from __future__ import annotations

import math
from typing import Any

from posenc_cli.formulas.alibi import SlopesRule, exact_slopes
from posenc_cli.records import Record, replace


class Slopes(Record):
    """The slopes of ALiBi for some heads, by a convention.

    ``source`` is the model or config that states them. With ``in_bfloat16`` they are rounded to
    bfloat16.
    """

    heads: int
    max_bias: float
    convention: SlopesRule
    values: tuple[float, ...]
    source: str = ""
    in_bfloat16: bool = False

    @classmethod
    def of(cls, heads: int, max_bias: float, convention: SlopesRule) -> Slopes:
        """Return the exact slopes."""
        values = exact_slopes(heads, max_bias=max_bias, rule=convention)
        return cls(heads, max_bias, convention, tuple(values))

    def rounded(self) -> Slopes:
        """Return the slopes in bfloat16, which has 8 significant bits; ties go to the even number.

        >>> Slopes.of(3, 8.0, "press").rounded().values
        (0.0625, 0.00390625, 0.25)
        """
        parts = map(math.frexp, self.values)
        values = tuple(math.ldexp(round(part * 256), power - 8) for part, power in parts)
        return replace(self, values=values, in_bfloat16=True)

    @property
    def label(self) -> str:
        """The text that distinguishes them from other slopes."""
        heads = f"{self.heads} head{'s' if self.heads > 1 else ''}"
        prefix = f"{self.source}: " if self.source else ""
        rounded = ", rounded to bfloat16" if self.in_bfloat16 else ""
        return f"{prefix}{heads} ({self.convention}, max_bias={self.max_bias:g}{rounded})"

    @property
    def fields(self) -> dict[str, Any]:
        """The slopes and their source, for JSON."""
        asked = {"heads": self.heads, "convention": self.convention, "max_bias": self.max_bias}
        source = {"source": self.source} if self.source else {}
        source |= {"format": "bfloat16"} if self.in_bfloat16 else {}
        return {**source, **asked, "slopes": list(self.values)}

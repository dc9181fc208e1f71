"""The precision of a result: the format it is rounded to, and the format it is stored in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from posenc_cli.numerics.arrays import RealRows, StoredRows, StoredValues
    from posenc_cli.numerics.dtypes import DType


class Precision(Record):
    """The number format values are stored in, and the one they are rounded to first."""

    stored: DType
    rounded: DType

    @classmethod
    def of(cls, stored: DType, rounded: DType | None) -> Precision:
        """Return the precision of values rounded once, to ``rounded``, and stored in ``stored``.

        Raises: InvalidInput if ``stored`` cannot hold every value of ``rounded``.
        """
        rounded = rounded or stored
        holds = (
            stored.precision >= rounded.precision
            and stored.max_exponent >= rounded.max_exponent
            and stored.min_exponent <= rounded.min_exponent
        )
        if not holds:
            raise InvalidInput(
                f"--round-to {rounded.name}: {stored.name} cannot hold every value of it",
                hint="--dtype float32 holds all of float16 and bfloat16",
            )
        return cls(stored, rounded)

    def narrow(self, high: RealRows, low: RealRows | None = None) -> StoredRows:
        """Return the sums ``high + low``, rounded once and stored."""
        from posenc_cli.numerics.rounding import narrow

        return self.stored_as(narrow(high, low, self.rounded))

    def exact(self, values: Sequence[Decimal]) -> StoredValues:
        """Return exact values, rounded once and stored."""
        from posenc_cli.numerics.rounding import round_exact

        return self.stored_as(round_exact(values, self.rounded))

    def stored_as(self, block: StoredRows) -> StoredRows:
        """Return a block of the rounded format in the stored one, which holds it exactly."""
        from posenc_cli.numerics.rounding import stored_as

        return block if self.stored == self.rounded else stored_as(block, self.rounded, self.stored)

"""The number formats posenc writes, how files store them, and the precision of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    import numpy as np

    from posenc_cli.numerics.arrays import RealRows, StoredRows, StoredValues


class DType(Record):
    """A number format.

    ``storage`` is the NumPy dtype (little-endian) that holds its bits. NumPy lacks bfloat16, so its
    bit patterns are stored as ``<u2``. ``precision`` counts the bits of the significand, including
    the hidden one. ``min_exponent`` is the exponent of the smallest normal number, and
    ``max_exponent`` that of the largest. For complex formats they describe a component.
    """

    name: str
    storage: str
    itemsize: int
    precision: int
    min_exponent: int
    max_exponent: int
    component: DType | None = None

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of a block in this format.

        >>> BFLOAT16.numpy
        dtype('uint16')
        """
        import numpy as np

        return np.dtype(self.storage)


FLOAT16 = DType("float16", "<f2", 2, 11, -14, 15)
BFLOAT16 = DType("bfloat16", "<u2", 2, 8, -126, 127)
FLOAT32 = DType("float32", "<f4", 4, 24, -126, 127)
FLOAT64 = DType("float64", "<f8", 8, 53, -1022, 1023)
COMPLEX64 = DType("complex64", "<c8", 8, 24, -126, 127, FLOAT32)
COMPLEX128 = DType("complex128", "<c16", 16, 53, -1022, 1023, FLOAT64)
INT64 = DType("int64", "<i8", 8, 63, 0, 62)
"""For positions stored beside vectors; not a format for encodings."""

REAL_DTYPES = {dtype.name: dtype for dtype in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}


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

        if self.stored == self.rounded:
            return block
        return stored_as(block, self.rounded, self.stored)

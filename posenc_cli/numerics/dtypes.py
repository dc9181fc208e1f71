"""The number formats posenc writes: their names, widths and how files store them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    import numpy as np


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

"""Type names for arrays by content and shape.

Only for annotations: import it under TYPE_CHECKING.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
"""(n,) int64: positions, offsets j − i, places or buckets."""

Reals = NDArray[np.float64]
"""(n,) float64: one number per position, offset, wave or column."""

RealRows = NDArray[np.float64]
"""(rows, columns) float64."""

Places = NDArray[np.intp]
"""(n,) indices of waves, rows or columns, as NumPy uses them."""

Flags = NDArray[np.bool_]
"""(n,), or the shape of the values they describe: one truth value each."""

StoredRows = NDArray[Any]
"""(rows, columns) in the storage of a number format; for bfloat16 its bits, as uint16."""

StoredValues = NDArray[Any]
"""(n,) in the storage of a number format."""

ComplexRows = NDArray[np.complex128]
"""(rows, pairs) complex128: cos + i sin of each pair."""

DigitTable = NDArray[np.float64]
"""(4, values of a digit, waves) float64: cos high, cos low, sin high, sin low."""

Limbs = NDArray[np.uint64]
"""(waves,) uint64: 32 bits of a fraction of a turn."""

Float32Cells = NDArray[np.float32]
"""(n,) float32."""

Words = NDArray[np.uint32]
"""(n,) uint32: the bits of float32 numbers."""

Floats = NDArray[np.floating[Any]]
"""Any shape, float32 or float64: values in the precision of a framework."""

StoredArray = NDArray[Any]
"""Any shape, in the storage of a number format."""

Complexes = NDArray[np.complex128]
"""(n,) complex128: one number per pair."""

HeadMatrices = NDArray[np.float64]
"""(heads, rows, columns) float64: one matrix per head."""

Float32Rows = NDArray[np.float32]
"""(rows, columns) float32."""

NumberArray = NDArray[Any]
"""Numbers from a file or a function, real or complex, of any shape and format."""

UnitMatrices = NDArray[Any]
"""(positions, columns, columns): a function's outputs for each unit vector, in its own format."""

"""Type names for arrays by content and shape.

For annotations alone: import it where types are checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
"""(n,) int64: positions, offsets j − i, places or buckets."""

Reals = NDArray[np.float64]
"""(n,) float64: a number for each position, offset, wave or column."""

RealRows = NDArray[np.float64]
"""(rows, columns) float64."""

Places = NDArray[np.intp]
"""(n,) places among waves, rows or columns, as NumPy indexes with them."""

Flags = NDArray[np.bool_]
"""(n,), or of the shape of what they are about: whether each is so."""

StoredRows = NDArray[Any]
"""(rows, columns) in the storage of a number format; of bfloat16 its bits, as uint16."""

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
"""Of any shape, float32 or float64: values in a precision of frameworks."""

StoredArray = NDArray[Any]
"""Of any shape, in the storage of a number format."""

Complexes = NDArray[np.complex128]
"""(n,) complex128: a number for each pair."""

HeadMatrices = NDArray[np.float64]
"""(heads, rows, columns) float64: a matrix for each head."""

Float32Rows = NDArray[np.float32]
"""(rows, columns) float32."""

NumberArray = NDArray[Any]
"""Numbers that a file or a function gives, real or complex, of any shape and format."""

UnitMatrices = NDArray[Any]
"""(positions, columns, columns): what a function makes of each unit vector, in its own format."""

"""Names of array types, which say what arrays hold and how they are shaped.

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

Flags = NDArray[np.bool_]
"""(n,), or of the shape of what they are about: whether each is so."""

StoredRows = NDArray[Any]
"""(rows, columns) in the storage of a number format; of bfloat16 its bits, as uint16."""

StoredValues = NDArray[Any]
"""(n,) in the storage of a number format."""

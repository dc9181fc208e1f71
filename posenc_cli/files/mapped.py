"""Memory of files that are mapped: pages that were read and will not be read again.

Imported only where arrays are read, so NumPy is imported here at module level.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def release(part: NDArray[Any]) -> None:
    """Give back the memory of some values of a mapped file; they are read again where asked for.

    Without it a process that reads a file once grows to the size of the file. Values that are not
    mapped, or that lie apart, stay as they are.
    """
    owner: Any = part
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, mmap.mmap) or not part.flags.c_contiguous:
        return
    start = part.__array_interface__["data"][0]
    origin = np.frombuffer(owner, np.uint8, count=1).__array_interface__["data"][0]
    first = (start - origin) // mmap.PAGESIZE * mmap.PAGESIZE
    if hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED, first, start - origin + part.nbytes - first)

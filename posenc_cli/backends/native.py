"""The compiled library of the ``fast`` backend: where it is, and a test that it works.

It is one C file without Python's headers, compiled when posenc is built (``hatch_build.py``) and
loaded by ctypes. Its name contains the digest of its source and its platform, so no other library
is found. A library that is damaged, or computes wrong bits, is not used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_cli.errors import Unavailable, described, quoted_name

if TYPE_CHECKING:
    from ctypes import CDLL

_FOLDER = Path(__file__).parent
SOURCES = (_FOLDER / "waves.c", _FOLDER / "waves_kernel.h")
DIGEST = "e096672e6060"
"""The start of the SHA-256 of the concatenated sources."""
PLATFORM = "-".join(
    (sys.platform, os.uname().machine if hasattr(os, "uname") else "unknown")  # Windows lacks uname
    + (("musl",) if "musl" in getattr(sys.implementation, "_multiarch", "") else ())
)
"""The system, machine and C library of this process, such as ``linux-x86_64``."""


def library_of(platform: str) -> Path:
    """Return the path of the library for a platform."""
    return _FOLDER / f"waves.{DIGEST}-{platform}.so"  # the dot prevents an import as a module


LIBRARY = library_of(PLATFORM)

INSTRUCTIONS = ("plain", "AVX2", "AVX-512")
"""Instruction sets that the kernel supports, by number."""

COST = "numpy takes 5 to 8 times as long for large arrays, and 1.4 times as long for large files"
"""The cost of not having the library, as measured in ``benchmarks/results``."""


def checksum_of(library: Path) -> Path:
    """Return the path of the file that holds the CRC-32 of a library."""
    return library.with_name(f"{library.name}.crc32")


def seal(library: Path) -> None:
    """Write the CRC-32 of a library: a truncated one would crash the process when loaded."""
    checksum_of(library).write_text(_crc32(library))


def is_whole(library: Path) -> bool:
    """Return whether a library has the CRC-32 that was written when it was built."""
    return checksum_of(library).exists() and _crc32(library) == checksum_of(library).read_text()


def _crc32(file: Path) -> str:
    # SHA-256 would load OpenSSL, 4 MiB, and protect no better against a truncated file.
    from binascii import crc32

    return f"{crc32(file.read_bytes()):08x}"


def loaded_library() -> CDLL:
    """Return the library, with the types of its functions.

    Raises: Unavailable if it is missing or cannot be loaded.
    """
    if not LIBRARY.exists():
        raise Unavailable(
            f"--backend fast: no compiled kernel for {PLATFORM} is installed (a C compiler builds "
            f"it): {COST}"
        )
    import ctypes

    kernel = f"--backend fast: the compiled kernel {quoted_name(LIBRARY)}"
    try:
        if not checksum_of(LIBRARY).exists():
            raise Unavailable(f"{kernel} has no checksum file beside it (.crc32)")
        if not is_whole(LIBRARY):
            raise Unavailable(f"{kernel} does not match its checksum")
        library = ctypes.CDLL(str(LIBRARY))
        fill, instructions = library.posenc_fill, library.posenc_instructions
    except (OSError, AttributeError) as error:
        raise Unavailable(f"{kernel} cannot be loaded ({described(error)})") from error
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    fill.argtypes = [pointer, pointer, size, pointer, size, ctypes.c_int32, pointer, size]
    fill.restype = size
    instructions.argtypes, instructions.restype = [], ctypes.c_int32
    return library

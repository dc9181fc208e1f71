"""The compiled library of the ``fast`` backend: where it is, and whether it does what it should.

It is one C file without Python's headers, compiled when posenc is built (``hatch_build.py``) and
loaded by ctypes. Its name says of what source it was made, so one of another is not found; one that
is damaged, or computes wrong bits, is not used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from posenc_cli.errors import Unavailable, described

if TYPE_CHECKING:
    from ctypes import CDLL

_FOLDER = Path(__file__).parent
SOURCES = (_FOLDER / "waves.c", _FOLDER / "waves_kernel.h")
DIGEST = "b54003bf0130"
"""The start of the SHA-256 of the sources, one after the other."""
LIBRARY = _FOLDER / f"waves.{DIGEST}.so"  # with a dot no module is taken for it

INSTRUCTIONS = ("plain", "AVX2", "AVX-512")
"""Sets of instructions that the kernel has a form for, by their numbers."""


def reason_missing() -> str | None:
    """Why the library cannot be loaded, as far as that is seen without doing so."""
    if LIBRARY.exists():
        return None
    return "it was installed without its compiled library, which takes a C compiler"


def seal(library: Path) -> None:
    """Append the SHA-256 of a library to it: a part of one is no error to a loader, but a crash."""
    from hashlib import sha256

    whole = library.read_bytes()
    library.write_bytes(whole + sha256(whole).digest())


def is_whole(library: Path) -> bool:
    """Whether a library ends with the SHA-256 of what stands before."""
    from hashlib import sha256

    sealed = library.read_bytes()
    return sha256(sealed[:-32]).digest() == sealed[-32:]


def loaded_library() -> CDLL:
    """The library, with the types of its functions.

    Raises: Unavailable where it is missing or cannot be loaded.
    """
    missing = reason_missing()
    if missing is not None:
        raise Unavailable(f"--backend fast: {missing}")
    import ctypes

    try:
        if not is_whole(LIBRARY):
            raise Unavailable("--backend fast: its library is damaged")
        library = ctypes.CDLL(str(LIBRARY))
        fill, instructions = library.posenc_fill, library.posenc_instructions
    except (OSError, AttributeError) as error:
        raise Unavailable(f"--backend fast: its library is damaged ({described(error)})") from error
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    fill.argtypes = [pointer, pointer, size, pointer, size, ctypes.c_int32, pointer, size]
    fill.restype = size
    instructions.argtypes, instructions.restype = [], ctypes.c_int32
    return library

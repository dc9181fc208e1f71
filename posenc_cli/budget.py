"""How much one command computes, holds or prints by default: the limits and their error.

A command that meets a request past a limit refuses it here, takes a sample and says so, or streams
and shows progress. It never just goes on. Lengths are not limited (any position up to 2^53), and
neither is the file that ``posenc generate`` writes: only the disk limits it.
"""

from __future__ import annotations

import mmap

from posenc_cli.errors import InvalidInput, Unavailable

HELD_VALUES = 1 << 24
"""Numbers in an array held whole: 128 MiB in float64. Computing needs a few such arrays."""

LISTED_VALUES = 1 << 20
"""Numbers in one JSON object: some 20 MB of text, and ten times that in memory."""

TABLE_ROWS = 1 << 13
"""Rows of a table for readers: laying one row out takes about 0.3 ms, so all take two to three
seconds.
"""

REPEATED_COLUMNS = 1 << 14
"""Columns of an encoding whose 60-digit frequencies are needed a dozen times: a few seconds.

This is wider than any model. Computing the frequencies once has no such limit.
"""

COMPUTED_CELLS = 1 << 33
"""Exact entries computed for one answer: about two minutes of one core, with a progress bar."""

ROOM_TO_START = 192 << 20
"""Bytes of memory that a command needs to start: about 80 MiB for imports, and room to compute."""

ROOM_TO_COMPUTE = 128 << 20
"""Bytes that must be free besides the file when a file is read."""

ROOM_FOR_THREADS = 384 << 20
"""Bytes that must be free to start threads: glibc reserves 128 MiB for each of two."""


def has_room(size: int) -> bool:
    """Return whether ``size`` bytes of memory are available.

    NumPy 2.4 may crash when a small allocation fails, so posenc lets none fail.
    """
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        return False
    return True


def check_room(size: int) -> None:
    """Refuse to continue if ``size`` bytes of memory are not available.

    Raises: Unavailable.
    """
    if not has_room(size):
        raise Unavailable("not enough memory")


def check_size(request: str, size: int, most: int, unit: str, *, hint: str | None = None) -> None:
    """Refuse a request that is larger than allowed.

    ``request`` is the option or file as the user wrote it. ``size`` is how much that is in ``unit``
    (a plural).

    >>> check_size("--len 9000", 9000, 512, "tokens")
    Traceback (most recent call last):
    posenc_cli.errors.InvalidInput: --len 9000: 9000 tokens; at most 512 are allowed

    Raises: InvalidInput if ``size`` exceeds ``most``.
    """
    if size > most:
        raise InvalidInput(
            f"{request}: {_digits(size)} {unit}; at most {_digits(most)} are allowed", hint=hint
        )


def _digits(size: int) -> str:
    """Return a whole number in digits, or its rough size if it has too many digits to read.

    >>> _digits(9007199254740992), _digits(10**5000)
    ('9007199254740992', 'over 2^16609')
    """
    return str(size) if size.bit_length() <= 64 else f"over 2^{size.bit_length() - 1}"

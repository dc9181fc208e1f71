"""How much one command computes, holds or prints by default: the bounds, and their error.

A command that meets a request past a bound refuses it here, takes a sample and says so, or streams
and shows progress: it never just goes on. Lengths are free (any position up to 2^53), and so is the
size of a file that ``posenc generate`` writes, which the disk bounds.
"""

from __future__ import annotations

import mmap

from posenc_cli.errors import InvalidInput, Unavailable

HELD_VALUES = 1 << 24
"""Numbers in an array that is held whole: 128 MiB in float64, and computing needs a few of them."""

LISTED_VALUES = 1 << 20
"""Numbers in one JSON object: some 20 MB of text, and ten times that in memory."""

TABLE_ROWS = 1 << 13
"""Rows of a table to be read: laying one out takes some 0.3 ms, so two to three seconds."""

REPEATED_COLUMNS = 1 << 14
"""Columns of an encoding whose 60-digit frequencies are asked for a dozen times: a few seconds.

Wider than any model's; to compute them once, any number is taken.
"""

COMPUTED_CELLS = 1 << 33
"""Exact entries computed for one answer: some two minutes of one core, with a progress bar."""

ROOM_TO_START = 192 << 20
"""Bytes of memory that a command must find: some 80 MiB for its imports, and room to compute."""

ROOM_TO_COMPUTE = 128 << 20
"""Bytes that must be free as a file is read, beside the file."""

ROOM_FOR_THREADS = 384 << 20
"""Bytes that must be free for threads to be started: glibc sets 128 MiB aside for each of two."""


def has_room(size: int) -> bool:
    """Whether ``size`` bytes of memory can be had.

    NumPy 2.4 may crash where a small allocation fails, so none is left to fail.
    """
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        return False
    return True


def check_room(size: int) -> None:
    """Refuse to go on where ``size`` bytes of memory cannot be had.

    Raises: Unavailable.
    """
    if not has_room(size):
        raise Unavailable("not enough memory")


def check_size(request: str, size: int, most: int, unit: str, *, hint: str | None = None) -> None:
    """Refuse a request that is larger than what is taken.

    ``request`` is the option or file as the user wrote it, ``size`` what it comes to in ``unit``
    (a plural).

    >>> check_size("--len 9000", 9000, 512, "tokens")
    Traceback (most recent call last):
    posenc_cli.errors.InvalidInput: --len 9000: 9000 tokens; at most 512 are allowed

    Raises: InvalidInput where ``size`` is more than ``most``.
    """
    if size > most:
        raise InvalidInput(
            f"{request}: {_digits(size)} {unit}; at most {_digits(most)} are allowed", hint=hint
        )


def _digits(size: int) -> str:
    """A whole number in digits, or about how large it is where those are too many to read.

    >>> _digits(9007199254740992), _digits(10**5000)
    ('9007199254740992', 'over 2^16609')
    """
    return str(size) if size.bit_length() <= 64 else f"over 2^{size.bit_length() - 1}"

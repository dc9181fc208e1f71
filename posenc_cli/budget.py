"""How much one command computes, holds or prints without being asked: the bounds, and one error.

A command that meets a request past a bound refuses it here, takes a sample and says so, or streams
and shows progress: it never just goes on. Lengths are free (any position up to 2^53), and so is the
size of a file that ``posenc generate`` writes, which the disk bounds.
"""

from __future__ import annotations

from posenc_cli.errors import InvalidInput

HELD_VALUES = 1 << 26
"""Numbers held in memory at once: 512 MiB in float64, which leaves room for one copy in 2 GiB."""

LISTED_VALUES = 10_000_000
"""Numbers in one listing, text or JSON: some 100 MB, already past what anyone reads."""

COMPUTED_CELLS = 1 << 33
"""Exact cells computed for one answer: some two minutes of one core, with a progress bar."""


def check_size(asked: str, size: int, most: int, unit: str, *, hint: str | None = None) -> None:
    """Refuse a request that is larger than what is taken.

    ``asked`` is the option or file as the user wrote it, ``size`` what it comes to in ``unit``
    (a plural).

    >>> check_size("--len 9000", 9000, 512, "tokens")
    Traceback (most recent call last):
    posenc_cli.errors.InvalidInput: --len 9000: 9000 tokens; at most 512 are taken

    Raises: InvalidInput where ``size`` is more than ``most``.
    """
    if size > most:
        raise InvalidInput(
            f"{asked}: {_digits(size)} {unit}; at most {_digits(most)} are taken", hint=hint
        )


def _digits(size: int) -> str:
    """A whole number in digits, or about how large it is where those are too many to read.

    >>> _digits(9007199254740992), _digits(10**5000)
    ('9007199254740992', 'over 2^16609')
    """
    return str(size) if size.bit_length() <= 64 else f"over 2^{size.bit_length() - 1}"

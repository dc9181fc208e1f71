"""How messages show names that a user or a file chose."""

from __future__ import annotations

import os


def shown(path: str | os.PathLike[str]) -> str:
    r"""``path`` in quotes, on one line whatever is in it, and without ambiguity.

    >>> print(shown("my café.npy"), shown("a\nb"), shown(os.fsdecode(b"\xff")))
    'my café.npy' 'a\nb' '\xff'
    """
    text = ""
    for character in os.fspath(path):
        if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that is not UTF-8
            text += f"\\x{ord(character) - 0xDC00:02x}"
        elif character in "'\\":
            text += "\\" + character
        elif character.isprintable():
            text += character
        else:
            text += character.encode("unicode_escape").decode("ascii")
    return f"'{text}'"

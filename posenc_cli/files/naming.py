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
        text += "\\" + character if character in "'\\" else _visible(character)
    return f"'{text}'"


def printable(text: str) -> str:
    r"""``text`` on one line, with escapes for what moves the cursor or changes a terminal.

    >>> print(printable("red \x1b[31m, a bell \a, a\nline, café"))
    red \x1b[31m, a bell \x07, a\nline, café
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")

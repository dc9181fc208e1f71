"""The text that language models learn here: its own, or a user's, as numbers of characters.

``text.txt`` beside this module is the beginning of Shakespeare's plays as Andrej Karpathy's
char-rnn has them (``data/tinyshakespeare/input.txt``), cut after a speech: Coriolanus, and of
Richard III all but its last scenes. Both are in the public domain.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import Integers

LARGEST_TEXT = 4 << 20
"""Bytes: fifteen times the own text. To count the contexts of so many takes nine seconds."""

MOST_CHARACTERS = 1 << 12
"""Different ones: a model has a row and a score for each. A novel in Chinese has about as many."""

HELD_OUT = 10
"""One part of so many, the last, is not trained on."""


class Corpus(Record):
    """A text, in numbers of its characters, which are sorted.

    ``training`` and ``held_out`` (n,) int64 are its first nine tenths and the rest. ``name`` is
    what messages call it, ``digest`` the SHA-256 of its file.
    """

    name: str
    characters: str
    training: Integers
    held_out: Integers
    digest: str

    @property
    def vocabulary(self) -> int:
        """How many different characters there are, those of the held-out part too."""
        return len(self.characters)

    @classmethod
    def own(cls) -> Corpus:
        """The text that posenc brings."""
        content = (files("posenc_cli.experiments") / "text.txt").read_bytes()
        return cls._of_content("posenc's own text", content)

    @classmethod
    def of_file(cls, path: str) -> Corpus:
        """The text of a user's file, of standard input for ``-``.

        Raises: InvalidInput where it is empty, too large, no UTF-8 text, or one character alone;
        Unavailable where it cannot be read.
        """
        name = f"--text {quoted_name(path)}"
        try:
            with open_input(path) as file:
                content = file.read(LARGEST_TEXT + 1)
        except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
            reason = getattr(error, "strerror", None) or error
            raise Unavailable(f"{name}: {reason}") from error
        if len(content) > LARGEST_TEXT:
            raise InvalidInput(f"{name}: is larger than {LARGEST_TEXT >> 20} MiB")
        return cls._of_content(name, content)

    @classmethod
    def _of_content(cls, name: str, content: bytes) -> Corpus:
        try:
            text = content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{name}: is not UTF-8 text (byte {error.start})") from error
        if "\0" in text:
            raise InvalidInput(f"{name}: is not text: it holds a NUL byte")
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)  # (n,)
        characters, tokens = np.unique(points, return_inverse=True)
        if len(characters) < 2:
            raise InvalidInput(f"{name}: holds only one distinct character")
        check_size(name, len(characters), MOST_CHARACTERS, "different characters")
        first_held = len(tokens) - len(tokens) // HELD_OUT
        tokens = tokens.astype(np.int64)
        return cls(
            name,
            "".join(map(chr, characters)),
            tokens[:first_held],
            tokens[first_held:],
            hashlib.sha256(content).hexdigest(),
        )

"""posenc's errors: each class has one exit status."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import ClassVar


class PosencError(Exception):
    """An error that reaches the user as one line, with an optional hint on a second.

    ``message`` names the option or file, the value, and the rule it breaks. ``hint`` says what to
    do instead. ``code`` tells an error from others of its class where a caller must know which it
    is, such as ``"mistyped"`` for the name of a function that is not there.
    """

    status: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class InvalidInput(PosencError):
    """Wrong usage, or input that breaks a rule (malformed files too)."""

    status = 2


class Unavailable(PosencError):
    """The request is valid, but the environment cannot serve it: disk, permission, extra."""

    status = 3


MOST_NAMES = 12
"""The most names that an error lists; with more names, it shows only the nearest."""


_LISTS = {"backend": "--version --verbose"}
"""What lists the names of a kind, where that is no command."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InvalidInput:
    """Return an error for a name that is not in a list, with the nearest known name as a hint.

    >>> unknown_name("scheme", "rop", ["rope", "alibi"]).hint
    "did you mean 'rope'?"
    >>> print(unknown_name("scheme", "xyz", ["rope", "alibi"]).message)
    unknown scheme 'xyz' (known: alibi, rope)
    """
    names = sorted(known)
    near = nearest(name, names)
    listed = f" (known: {', '.join(names)})" if len(names) <= MOST_NAMES else ""
    return InvalidInput(
        f"unknown {kind} {abbreviated(name)}{listed}",
        hint=near or f"posenc {_LISTS.get(kind, kind + 's')} lists the names",
        code=f"unknown {kind}",
    )


_SIMILAR = 0.65
"""How similar names must be, by difflib's ratio, for one to be a hint for the other.

Of 1,066 options with a letter left out or two letters swapped, 1,047 get the right hint.
"""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with a known name that ``name`` begins, or the most similar one, or None.

    >>> nearest("--lne", ["--len", "--base"]), nearest("--theta", ["--len", "--base"])
    ("did you mean '--len'?", "did you mean '--base'?")
    """
    from difflib import get_close_matches

    # Without their hyphens, which make no option like another.
    asked, bare = name.lower(), {text.lower().lstrip("-"): text for text in map(str, known)}
    found = bare.get(OTHER_NAMES.get(asked, asked).lstrip("-"))
    if found is None:
        asked = asked.lstrip("-")
        # Few letters begin too many names, above all without hyphens (llama3.1).
        longer = [text for text in bare if text.startswith(asked) and len(asked) > 2] or [
            text for text in bare if text.replace("-", "").startswith(asked) and len(asked) > 4
        ]
        near = get_close_matches(asked, longer or bare, n=1, cutoff=0 if longer else _SIMILAR)
        found = bare[near[0]] if near else None
    return None if found is None else f"did you mean {found!r}?"


OTHER_NAMES = {
    **dict.fromkeys(("fp16", "half", "f16"), "float16"),
    **dict.fromkeys(("bf16",), "bfloat16"),
    **dict.fromkeys(("fp32", "float", "f32", "single"), "float32"),
    **dict.fromkeys(("fp64", "double", "f64"), "float64"),
    **dict.fromkeys(("neox", "gpt-neox", "llama", "rotate_half", "halves"), "half"),
    **dict.fromkeys(("gptj", "gpt-j", "pairs", "adjacent"), "interleaved"),
    **dict.fromkeys(("--theta", "--rope-theta"), "--base"),
    **dict.fromkeys(("--length", "--seq-len", "--seqlen", "--max-len"), "--len"),
    **dict.fromkeys(("--len", "--context"), "--to"),
    "--tokens": "--text",
    **dict.fromkeys(("--no-color", "--colour"), "--color"),
    **dict.fromkeys(("--head-dim", "--d-model", "--hidden-size"), "--dim"),
    **dict.fromkeys(("--num-heads", "--n-heads"), "--heads"),
    **dict.fromkeys(("--output", "--file"), "--out"),
    **dict.fromkeys(("--input",), "--in"),
    **dict.fromkeys(("rope-2d", "2d-rope", "axial-rope"), "rope-axial"),
    **dict.fromkeys(("sinusoidal-2d", "sincos-2d", "2d-sincos", "sincos2d"), "sinusoidal-nd"),
    **dict.fromkeys(("--junit", "--junitxml", "--junit-xml"), "--format"),
    **dict.fromkeys(("--atol", "--rtol", "--tolerance"), "--tol"),
    **dict.fromkeys(("length", "len"), "positions"),
}
"""Names that other programs use, and posenc's name for the same."""


def described(error: BaseException) -> str:
    r"""Another program's exception on one line.

    >>> described(ValueError("no good\nat all"))
    'ValueError: no good'
    >>> described(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    return f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")


def abbreviated(text: str, *, limit: int = 60) -> str:
    """Return a user's text, quoted and escaped on one line, and shortened in the middle.

    >>> abbreviated("1" * 5000)
    "'1111111111111111111111111111…1111111111111111111111111111' (5000 characters)"
    """
    if len(text) <= limit:
        return repr(text)
    half = limit // 2 - 2
    return f"{text[:half] + '…' + text[-half:]!r} ({len(text)} characters)"


def sizes_text(shape: Iterable[int], between: str = "×") -> str:
    """Return the shape of an array.

    >>> sizes_text((3, 64)), sizes_text((3, 64), " × ")
    ('3×64', '3 × 64')
    """
    return between.join(map(str, shape))


def quoted_name(name: str | os.PathLike[str]) -> str:
    r"""Return a name from a user or a file, usually a path: quoted, on one line, unambiguous.

    >>> print(quoted_name("my café.npy"), quoted_name("a\nb"), quoted_name(os.fsdecode(b"\xff")))
    'my café.npy' 'a\nb' '\xff'
    """
    text = os.fspath(name).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{printable_text(text)}'"


def shell_word(name: str) -> str:
    r"""Return a name as one word of a command, on one line, that bash and zsh read as it is.

    >>> print(shell_word("a.npy"), shell_word("my café $1.npy"), shell_word("a\nb"))
    a.npy 'my café $1.npy' $'a\nb'
    """
    import shlex  # few commands need it

    return shlex.quote(name) if name.isprintable() else f"${quoted_name(name)}"


def printable_text(text: str) -> str:
    r"""``text`` on one line; characters that move the cursor or change a terminal are escaped.

    >>> print(printable_text("red \x1b[31m, a bell \a, a\nline, café"))
    red \x1b[31m, a bell \x07, a\nline, café
    """
    return text if text.isprintable() else "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")

"""Format paragraphs and tables as text of a given width, and the first lines of a report."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from posenc_cli.budget import TABLE_ROWS, check_size
from posenc_cli.records import Record

WIDTH = 80
_STYLES = {"bold": "1", "red": "1;31", "green": "32"}
"""Parameters of the escape sequences that select graphic renditions."""

_MARKED = (
    (r"^FAILED|\bFAIL(?=  )", "red"),
    (r"^ok(?=: )|\bok(?=  )", "green"),
    (r"^(cause: [\w-]+|next:)", "bold"),
)
"""Words in answers and in table entries, and their styles."""

_KEPT = re.compile(r"not tested: |(?<!\w)'(?:[^'\\\n]|\\.){1,60}'(?!\w)")
"""Texts of a paragraph whose spaces neither break a line nor merge."""

_BETWEEN = "   "
"""The separator between two columns of a table."""
_LAST_PLAIN = "\u02ff"
"""The last character before those that combine with others or are two columns wide."""


def _width(text: str) -> int:
    """Return how many terminal columns a text fills."""
    if max(text, default="") <= _LAST_PLAIN:
        return len(text)
    import unicodedata

    marks = sum(unicodedata.category(char) in ("Mn", "Me", "Cf") for char in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(char) in "WF" for char in text)


def _wrapped_entry(text: str, width: int) -> list[str]:
    """Wrap a table's entry between words to a width, if possible."""
    if _width(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and _width(lines[-1]) + 1 + _width(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _row_lines(
    row: Sequence[str], widths: Sequence[int], *, lowered: bool = False
) -> Iterator[str]:
    """Yield the lines of a row of a table, with entries aligned at the bottom if ``lowered``."""
    entries = [_wrapped_entry(text, width) for text, width in zip(row, widths, strict=True)]
    if lowered:
        lines = max(map(len, entries))
        entries = [[""] * (lines - len(entry)) + entry for entry in entries]
    for line in zip_longest(*entries, fillvalue=""):
        padded = (t + " " * (width - _width(t)) for t, width in zip(line, widths, strict=True))
        yield _BETWEEN.join(padded).rstrip()


class Typesetter(Record):
    """The settings for text: its width in columns, and what the stream can show.

    ``colored`` allows escape sequences. ``spelled`` replaces characters that the stream cannot
    write.

    >>> print(Typesetter(20).paragraph("one, two, three, four and five"))
    one, two, three,
    four and five
    """

    width: int = WIDTH
    colored: bool = False
    spelled: Callable[[str], str] = str

    def paragraph(self, text: str, *, indent: int = 0, hanging: int | None = None) -> str:
        """Wrap a paragraph between words; a word, such as a path or a name, may be wider.

        All lines are indented by ``indent`` columns, all but the first by ``hanging`` if given.
        A line never ends with "not tested:", which the first name of its list follows. Spaces in a
        short quoted name stay as they are.
        """
        kept = _KEPT.sub(lambda found: found[0].replace(" ", "\0"), text)
        return textwrap.fill(
            self.spelled(" ".join(kept.split())),
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent if hanging is None else hanging),
            break_long_words=False,
            break_on_hyphens=False,
        ).replace("\0", " ")

    def marked(self, text: str, words: str, style: str) -> str:
        """Return a text with the matches of a pattern in a style: ``bold``, ``red``, ``green``."""
        if not self.colored:
            return text
        start = _STYLES[style]
        return re.sub(words, lambda found: f"\x1b[{start}m{found[0]}\x1b[0m", text, flags=re.M)

    def report(self, *blocks: str) -> str:
        """Join the blocks of a report that are not empty, with verdicts and causes in styles."""
        text = "\n\n".join(filter(None, blocks))
        for words, style in _MARKED:
            text = self.marked(text, words, style)
        return text

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Return a table, with its entries wrapped between words if it would be too wide.

        Columns that are empty are left out. If the longest words are too wide for a table, each row
        is a paragraph.

        Raises: InvalidInput if it has too many rows.
        """
        check_size("the table", len(rows), TABLE_ROWS, "rows", hint="--json has them all")
        kept = [i for i in range(len(columns)) if not rows or any(row[i] for row in rows)]
        header, *cells = (
            [" ".join(self.spelled(row[i]).splitlines()) for i in kept] for row in (columns, *rows)
        )
        columns_of_cells = [*zip(header, *cells, strict=True)]
        widths = [max(map(_width, column)) for column in columns_of_cells]
        least = [max(map(_width, " ".join(each).split()), default=0) for each in columns_of_cells]
        room = self.width - len(_BETWEEN) * (len(widths) - 1)
        if cells and sum(least) > room:
            return "\n".join(self._row_as_paragraph(header, row) for row in cells)
        while sum(widths) > max(room, sum(least)):  # narrow the widest column that can be narrower
            slack = [(width, at) for at, width in enumerate(widths) if width > least[at]]
            widths[max(slack)[1]] -= 1
        head = "\n".join(_row_lines(header, widths, lowered=True))
        texts = ("\n".join(_row_lines(row, widths)) for row in cells)
        rule = self.spelled("─") * (sum(widths) + self.width - room)
        return "\n".join([self.marked(head, ".+", "bold"), rule, *texts])

    def _row_as_paragraph(self, header: Sequence[str], row: Sequence[str]) -> str:
        """Return a row of a table that is too wide as names with values."""
        named = (f"{name}: {text}" for name, text in zip(header, row, strict=True) if text)
        return self.paragraph("; ".join(named).removeprefix(": "), hanging=2)


def continued_command(command: str, width: int) -> str:
    r"""Return a command on lines of at most ``width`` columns, which a shell reads as one.

    >>> print(continued_command("posenc generate --scheme rope --len 4096", 24))
    posenc generate \
      --scheme rope \
      --len 4096
    """
    if len(command) <= width:
        return command
    words = re.findall(r"""(?:\$'(?:[^'\\]|\\.)*'|"[^"]*"|'[^']*'|[^\s"'])+""", command)
    lines = [words[0]]
    for word, following in zip(words[1:], [*words[2:], "-"], strict=True):
        # Keep an option and its value together if there is room.
        together = word if following.startswith("-") else f"{word} {following}"
        added = word if lines[-1].split(" ")[-1].startswith("-") else together
        if len(f"{lines[-1]} {added} \\") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return " \\\n".join(lines)


class Answer(Record):
    """The first lines of a report, one sentence each.

    ``verdict`` begins with ``ok``, ``equal``, ``FAILED`` or ``DIFFERENT``. ``cause`` says why
    something is wrong, ``number`` by how much, and ``next`` what to do.
    """

    ok: bool
    verdict: str
    cause: str | None = None
    number: str | None = None
    next: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the answer as the first fields of a JSON document."""
        return {"ok": self.ok, "verdict": self.verdict, "cause": self.cause, "next": self.next}

    def lines(self) -> list[str]:
        """Return the answer line by line."""
        cause = self.cause and f"cause: {self.cause}"
        step = self.next and f"next: {self.next}"
        return [line for line in (self.verdict, cause, self.number, step) if line]

    def text(self, typesetter: Typesetter, *, hanging: int = 0) -> str:
        """Return the answer as the beginning of a report: no word of it is split.

        So paths stay whole, and JSON can be copied. A command is continued as a shell reads it.
        """
        return "\n".join(
            continued_command(line, typesetter.width)
            if line.startswith("next: posenc ")
            else typesetter.paragraph(line, hanging=hanging)
            for line in self.lines()
        )

"""Paragraphs and tables as text of a given width."""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING

from posenc_cli.budget import TABLE_ROWS, check_size
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH = 80
_STYLES = {"bold": "1", "red": "1;31", "green": "32"}
"""Parameters of the escape sequences that select graphic renditions."""

_MARKED = (
    (r"^FAILED|\bFAIL(?=  )", "red"),
    (r"^ok(?=: )|\bok(?=  )", "green"),
    (r"^(cause: [\w-]+|next:)", "bold"),
)
"""Words in answers and in table entries, and their styles."""

_NARROWEST_COLUMN = 4
"""The least letters per line of an entry: one letter per line is not readable."""
_BETWEEN = "   "
"""The separator between two columns of a table."""
_LAST_PLAIN = "\u02ff"
"""The last character before those that combine, or are two columns wide."""


def _wrapped(row: list[str], at: int, width: int) -> list[list[str]]:
    """The lines of a row of a table whose entry ``at`` may be so wide."""
    first, *others = textwrap.wrap(
        row[at], width, break_long_words=False, break_on_hyphens=False
    ) or [""]
    blank = [""] * len(row)
    return [
        [*row[:at], first, *row[at + 1 :]],
        *([*blank[:at], other, *blank[at + 1 :]] for other in others),
    ]


class Typesetter(Record):
    """The settings for text: the width in columns, bold or not, and ``spelled`` for the stream.

    >>> print(Typesetter(20).paragraph("one, two, three, four and five"))
    one, two, three,
    four and five
    """

    width: int = WIDTH
    colored: bool = False
    spelled: Callable[[str], str] = str

    def paragraph(self, text: str, *, indent: int = 0, hanging: int | None = None) -> str:
        """A wrapped paragraph.

        All lines are indented by ``indent`` columns, all but the first by ``hanging`` if given.
        """
        return textwrap.fill(
            self.spelled(" ".join(text.split())),
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent if hanging is None else hanging),
            break_on_hyphens=False,
        )

    def marked(self, text: str, words: str, style: str) -> str:
        """A text with the matches of a pattern in a style: ``bold``, ``red``, ``green``."""
        if not self.colored:
            return text
        start = _STYLES[style]
        return re.sub(words, lambda found: f"\x1b[{start}m{found[0]}\x1b[0m", text, flags=re.M)

    def report(self, *blocks: str) -> str:
        """The blocks of a report that are not empty, with verdicts and causes in styles."""
        text = "\n\n".join(filter(None, blocks))
        for words, style in _MARKED:
            text = self.marked(text, words, style)
        return text

    def line(self, text: str) -> str:
        """A line, wrapped only between words: a path is never cut."""
        return textwrap.fill(
            self.spelled(text), self.width, break_long_words=False, break_on_hyphens=False
        )

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """A table, with its entries wrapped if it would be too wide, without its empty columns.

        Raises: InvalidInput if it has too many rows.
        """
        check_size("the table", len(rows), TABLE_ROWS, "rows", hint="--json has them all")
        kept = [i for i in range(len(columns)) if not rows or any(row[i] for row in rows)]
        columns, rows = [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
        lines = self._lines_that_fit(columns, rows)
        if lines:
            return "\n".join(lines)
        least = len(columns) * _NARROWEST_COLUMN + len(_BETWEEN) * (len(columns) - 1)
        if self.width < least:
            return self.paragraph(f"this table needs a screen of {least} columns or more")
        return self._wrapped_table(columns, rows)

    def _lines_that_fit(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]]
    ) -> list[str] | None:
        """The lines of a table with at most one column to wrap, in the format of rich.

        Importing rich and calling it takes a quarter of a short command.
        """
        cells = [[*map(self.spelled, row)] for row in (columns, *rows)]
        text = "".join(map("".join, cells))
        if not text.isprintable() or max(text, default="") > _LAST_PLAIN:
            return None
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        too_wide = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - self.width
        if too_wide > 0:  # the widest column is wrapped, if it stays the widest
            *_, second, widest = sorted([0, 0, *widths])
            at, left = widths.index(widest), widest - too_wide
            words = [word for row in cells for word in row[at].split(" ")]
            if left <= second or left < max(map(len, (cells[0][at], *words))):
                return None
            widths[at] = left
            cells = [line for row in cells for line in _wrapped(row, at, left)]
        header, *lines = (_BETWEEN.join(map(str.ljust, row, widths)).rstrip() for row in cells)
        total = min(self.width, self.width + too_wide)
        return [self.marked(header, ".+", "bold"), self.spelled("─") * total, *lines]

    def _wrapped_table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        from rich.box import Box
        from rich.console import Console
        from rich.table import Table

        rule = Box("\n".join(["    ", "    ", self.spelled(" ── "), *["    "] * 5, ""]))
        table = Table(box=rule, show_edge=False, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(self.spelled(column), overflow="fold")
        for row in rows:
            table.add_row(*map(self.spelled, row))
        text = io.StringIO()
        Console(
            file=text,
            width=self.width,
            force_terminal=self.colored,
            color_system="standard" if self.colored else None,
            no_color=not self.colored,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        ).print(table)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

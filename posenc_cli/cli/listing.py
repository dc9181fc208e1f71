"""Parameters with where they come from, laid out so that no name and no key path is cut."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from posenc_cli.cli import streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.cli.console import Console

_INDENT = "    "


def parameters_text(console: Console, rows: Sequence[Sequence[str]]) -> str:
    """Names, values and sources as a table; where that is too wide, each source on its own line.

    Words are cut only where one alone is wider than the terminal.
    """
    spelled = [
        [streams.ascii_spelling(cell) if console.ascii_only else cell for cell in row]
        for row in rows
    ]
    widest = [max(map(len, column)) for column in zip(*spelled, strict=True)]
    if sum(widest) + 3 * (len(widest) - 1) <= console.width:
        return console.table_text(["parameter", "value", "source"], rows)
    lines = []
    for name, value, source in spelled:
        lines += _wrapped_lines(f"{name}: {value}", console.width, "")
        lines += _wrapped_lines(source, console.width, _INDENT)
    return "\n".join(lines)


def _wrapped_lines(text: str, width: int, indent: str) -> list[str]:
    longest = max(map(len, text.split()), default=0)
    if longest + len(indent) > width:
        indent = ""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent or "  " * (longest + 2 <= width),
        break_long_words=longest > width,
        break_on_hyphens=False,
    )

"""Reports in a notebook: one line as a value, a table as the output of a cell."""

from __future__ import annotations

import base64
from html import escape
from typing import Any


class NotebookReport:
    """A report whose ``repr()`` is one line, and which a notebook shows as its text."""

    @property
    def in_short(self) -> str:
        """The text of its one line, without its type."""
        return "ok" if getattr(self, "ok", True) else "FAILED"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.in_short}>"

    def _repr_png_(self) -> bytes | None:
        """Its figure, or None."""

    def _repr_html_(self) -> str:
        content = self._repr_png_()
        picture = ""
        if content:
            data = base64.b64encode(content).decode()
            picture = f'<img alt="{escape(repr(self))}" src="data:image/png;base64,{data}">'
        return f"{picture}<pre>{escape(str(self))}</pre>"


def report_html(verdict: str, table: tuple[list[str], list[list[str]]], lines: list[str]) -> str:
    """Return a verdict, a table and further lines as HTML; all texts are escaped."""
    heads, rows = table

    def cells(tag: str, texts: list[Any]) -> str:
        return "".join(f"<{tag}>{escape(str(text))}</{tag}>" for text in texts)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    head = f"<p><b>{escape(verdict)}</b></p>{told}"
    return f"{head}<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"

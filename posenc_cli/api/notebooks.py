"""Reports in a notebook: one line as a value, their text as the output of a cell."""

from __future__ import annotations

import base64
from html import escape


class NotebookReport:
    """A report whose ``repr()`` is one line, and which a notebook shows as its text."""

    @property
    def in_short(self) -> str:
        """The text of its one line, without its type: whether it is ok, or else the cause."""
        cause = getattr(self, "cause", "")
        failed = f"FAILED {'unknown' if cause is None else cause}".strip()
        return "ok" if getattr(self, "ok", True) else failed

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

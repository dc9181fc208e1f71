"""The formats that posenc reads: those it writes, and GGUF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.files import gguf
from posenc_cli.files.formats import FORMATS

if TYPE_CHECKING:
    from posenc_cli.files.matrix import InputFormat

READ: tuple[InputFormat, ...] = (
    *FORMATS.values(),
    gguf.FORMAT,
)

READ_BY_SUFFIX = {suffix: form for form in READ for suffix in (form.suffix, *form.other_suffixes)}
"""The formats that are read, by every suffix that identifies one."""

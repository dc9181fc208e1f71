"""What may be said of how a function is to be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class CallRequest(Record):
    """How a function is to be called, where that was said.

    ``python`` is the interpreter, ``roles`` what its arguments are for, and ``in_place`` says that
    it leaves its result in its input. ``axes`` is the order of axes that it has to take, ``config``
    what a class of transformers is made with.
    """

    python: str | None = None
    roles: tuple[str, ...] = ()
    in_place: bool = False
    axes: str | None = None
    config: Mapping[str, Any] | None = None

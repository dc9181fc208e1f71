"""A progress bar for work that takes more than a moment."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from numpy.typing import NDArray

    from posenc_cli.files.matrix import Matrix

PATIENCE = 1.0
"""Seconds before a bar appears."""


def with_progress(matrix: Matrix, stream: TextIO) -> Matrix:
    """``matrix``, with a bar on ``stream`` of how much of it has been drawn, after a second."""

    def blocks() -> Iterator[NDArray[Any]]:
        began = time.monotonic()
        done = 0
        pending = matrix.blocks()
        for block in pending:
            yield block
            done += block.size
            if time.monotonic() - began > PATIENCE:
                yield from _with_bar(pending, done, matrix.size, stream)

    return replace(matrix, blocks=blocks)


def _with_bar(
    pending: Iterator[NDArray[Any]], done: int, total: int, stream: TextIO
) -> Iterator[NDArray[Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(file=stream), transient=True) as progress:
        task = progress.add_task("", total=total, completed=done)
        for block in pending:
            yield block
            progress.advance(task, block.size)

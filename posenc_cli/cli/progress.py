"""A progress bar, and a warning of infinities, while a matrix is computed."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from posenc_cli import interrupts
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from rich.progress import Progress, TaskID

    from posenc_cli.cli.console import Console
    from posenc_cli.files.matrix import Matrix

PATIENCE = 1.0
"""Seconds before a bar appears."""


def with_progress(matrix: Matrix, stream: TextIO) -> Matrix:
    """Return ``matrix`` with a progress bar on ``stream``, which appears after a second."""

    def blocks() -> Iterator[NDArray[Any]]:
        done = 0
        with _bar_after_a_moment(stream, "") as show:
            for block in matrix.blocks():
                yield block
                done += block.size
                show(done, matrix.size)

    return replace(matrix, blocks=blocks)


@contextlib.contextmanager
def progress_bar(stream: TextIO) -> Iterator[Progress]:
    """Yield a bar; at the end, or on a signal, it is removed and the cursor restored."""
    from rich.console import Console as RichConsole
    from rich.progress import Progress

    console = RichConsole(file=stream)
    cleanup = partial(_clear_line, stream)
    if console.is_terminal and not console.is_dumb_terminal:
        interrupts.clean_up_by(cleanup)
    try:
        with Progress(console=console, transient=True) as progress:
            yield progress
    finally:
        interrupts.clean_up_no_more_by(cleanup)


def with_overflow_warning(matrix: Matrix, console: Console) -> Matrix:
    """Return ``matrix`` with a warning at the first value too large for its number format."""

    def blocks() -> Iterator[NDArray[Any]]:
        from posenc_cli.numerics.rounding import widen

        warned = False
        parts = matrix.dtype.component or matrix.dtype  # both parts of a complex number
        for block in matrix.blocks():
            if not warned and math.isinf(abs(widen(block.view(parts.numpy), parts)).max()):
                warned = True
                console.warning(f"some values are too large for {matrix.dtype.name}: they are inf")
            yield block

    return replace(matrix, blocks=blocks)


@contextlib.contextmanager
def steps_shown(console: Console, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that shows progress after a second; None if no progress is shown."""
    if not console.shows_progress:
        yield None
        return
    with _bar_after_a_moment(sys.stderr, what) as show:
        yield show


@contextlib.contextmanager
def _bar_after_a_moment(stream: TextIO, what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows progress on a stream after a second."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        bars: list[tuple[Progress, TaskID]] = []

        def show(done: int, total: int) -> None:
            if not bars and time.monotonic() - began > PATIENCE:
                bar = stack.enter_context(progress_bar(stream))
                bars.append((bar, bar.add_task(what)))
            for bar, task in bars:
                bar.update(task, completed=done, total=total)

        yield show


def _clear_line(stream: TextIO) -> None:
    """Remove the bar and show the cursor, unless the terminal does not accept output now.

    Rich would wait for the terminal, or for a thread that waits for it.
    """
    descriptor = stream.fileno()
    blocking = os.get_blocking(descriptor)  # of the terminal, which other processes share
    os.set_blocking(descriptor, False)
    try:
        os.write(descriptor, b"\r\x1b[2K\x1b[?25h")
    finally:
        os.set_blocking(descriptor, blocking)

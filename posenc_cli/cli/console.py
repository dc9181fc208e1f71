"""Where commands write: results to stdout, everything else, such as a progress bar, to stderr."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import textwrap
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from posenc_cli import interrupts
from posenc_cli.cli import streams
from posenc_cli.cli.options import EVERY_COMMANDS, OptionGroup, OutputOptions, option
from posenc_cli.cli.streams import terminal_size, text_width
from posenc_cli.records import replace
from posenc_cli.transaction import transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray
    from rich.progress import Progress, TaskID

    from posenc_cli.files.matrix import Matrix
    from posenc_cli.render.terminal.blocks import Medium
    from posenc_cli.render.typesetting import Typesetter


COLORS = ("auto", "always", "never")


class Console(OptionGroup):
    """The options that every command has, and the output that follows them."""

    heading = EVERY_COMMANDS

    quiet: Annotated[bool, option("--quiet", "-q", help="print no summary and no progress bar")] = (
        False
    )
    color: Annotated[str, option("--color", metavar="WHEN", known=COLORS)] = "auto"
    debug: Annotated[bool, option("--debug", help="show the traceback of an error")] = False

    @property
    def shows_progress(self) -> bool:
        """Whether a progress bar may be drawn: stderr is a terminal, and not quiet."""
        return not self.quiet and sys.stderr.isatty()

    def summary(self, text: str) -> None:
        """Print a line on what was done to stderr, unless quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def done(self, text: str) -> None:
        """Print a summary once the run has succeeded and files have their names."""
        with transaction() as files:
            files.say_at_end(lambda: self.summary(text))

    def warning(self, *texts: str) -> None:
        """Print a line to stderr for each text, even if quiet."""
        for text in texts:
            print(f"posenc: warning: {text}", file=sys.stderr)

    def result(self, text: str, output: OutputOptions | None = None) -> None:
        """Print a result as text, to stdout or to the file of ``--out`` (``-`` is stdout too)."""
        if output is None or output.out is None or output.to_stdout:
            print(text)
            return
        from posenc_cli.files.atomic import replacing

        with replacing(output.out, clobber=output.clobber) as stream:
            stream.write(f"{text}\n".encode())

    def json(self, schema: str, fields: Mapping[str, Any]) -> None:
        """Print a result as one JSON object, to stdout."""
        print(self.json_text(schema, fields), flush=True)

    def either(
        self,
        schema: str,
        fields: Callable[[], Mapping[str, Any]],
        text: Callable[[], str],
        *,
        as_json: bool,
    ) -> None:
        """Print a result to stdout, as one JSON object or as text."""
        if as_json:
            self.json(schema, fields())
        else:
            self.result(text())

    def json_text(self, schema: str, fields: Mapping[str, Any]) -> str:
        """Return one strict JSON object; ``schema`` comes first."""
        import json  # slow to import; most reports are text

        return json.dumps({"schema": f"posenc/{schema}/1", **fields}, allow_nan=False, indent=2)

    @property
    def typesetter(self) -> Typesetter:
        """The typesetter for stdout, with its width, colors and characters."""
        from posenc_cli.render.typesetting import Typesetter

        spelled = streams.ascii_spelling if self.ascii_only else str
        return Typesetter(self.width, self.uses_color(sys.stdout), spelled)

    @property
    def medium(self) -> Medium:
        """The colors and characters that pictures on stdout may use."""
        from posenc_cli.render.terminal.blocks import Medium

        return Medium.of(
            colored=self.uses_color(sys.stdout),
            encoding=sys.stdout.encoding,
            ascii_only=self.ascii_only,
            spelled=streams.ascii_spelling,
        )

    def command_text(self, command: str, *, indent: int = 2) -> str:
        """Return a command on lines that fit the terminal if possible and that a shell can read."""
        from posenc_cli.render.typesetting import continued_command

        return textwrap.indent(continued_command(command, self.width - indent), " " * indent)

    @property
    def width(self) -> int:
        """The width for text: that of the terminal, or at most 80 if stdout is not a terminal."""
        return text_width()

    @property
    def height(self) -> int:
        """The lines of the terminal."""
        return terminal_size().lines

    @property
    def ascii_only(self) -> bool:
        """Whether stdout supports only ASCII."""
        return streams.ascii_only(sys.stdout)

    def uses_color(self, stream: Any) -> bool:
        """Return whether escape codes may go to a stream.

        The option comes first, then FORCE_COLOR, NO_COLOR, TERM=dumb, and whether the stream is a
        terminal.
        """
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("FORCE_COLOR"):
            return os.environ["FORCE_COLOR"] not in ("0", "false")
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return bool(stream.isatty())


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

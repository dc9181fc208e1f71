"""Options of pictures, and where a figure goes: terminal, file, or JSON."""

from __future__ import annotations

import os
import re
import struct
import sys
import textwrap
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.cli.options import OptionGroup, OutputOptions, option, refuse, whole_option
from posenc_cli.errors import InvalidInput, printable_text, quoted_name
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.cli.console import Console
    from posenc_cli.render.figure import Curves, Figure, Heatmap, Picture
    from posenc_cli.render.html.page import Live, Section
    from posenc_cli.render.style import Style
    from posenc_cli.render.terminal.blocks import Page, Protocol


Graphics = Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"]
GRAPHICS: tuple[Graphics, ...] = ("auto", "blocks", "kitty", "iterm", "sixel", "none")

CELL = 10, 20
"""Width and height of a cell in pixels, if the terminal does not report them."""
_LARGEST_CELL = 100
_KITTY_TERMS = ("xterm-kitty", "xterm-ghostty")
_ITERM_PROGRAMS = {"iTerm.app", "iTerm2", "WezTerm"}
_SIXEL_TERMS = ("foot", "mlterm", "yaft", "contour")
"""Prefixes of TERM: terminals that support sixel."""


def detected(environment: Mapping[str, str] = os.environ) -> Protocol | None:
    """Return how the terminal on stdout shows pixels; None if it does not, or if that is unknown.

    It is None if stdout is not a terminal, in CI, within a terminal multiplexer, or for a dumb
    terminal.
    """
    term = environment.get("TERM", "")
    multiplexed = environment.get("TMUX") or environment.get("STY")
    if not sys.stdout.isatty() or environment.get("CI") or multiplexed:
        return None
    if term in _KITTY_TERMS:
        return "kitty"
    if not term.startswith(("xterm", "wezterm", *_SIXEL_TERMS)):
        return None
    if {environment.get("TERM_PROGRAM"), environment.get("LC_TERMINAL")} & _ITERM_PROGRAMS:
        return "iterm"
    if environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    return "sixel" if term.startswith(_SIXEL_TERMS) else None


def cell_size() -> tuple[int, int]:
    """Return the width and height of a cell of the terminal on stdout, in pixels."""
    try:
        import fcntl
        import termios

        answer = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError, ValueError):
        return CELL
    lines, columns, width, height = struct.unpack("4H", answer)
    across, down = width // max(1, columns), height // max(1, lines)
    known = 0 < across <= _LARGEST_CELL and 0 < down <= _LARGEST_CELL
    return (across, down) if known else CELL


PictureFormat = Literal["png", "svg", "pdf", "html"]
FigureOfKind = TypeVar("FigureOfKind", "Heatmap", "Curves", "Figure")

THEMES = ("light", "dark")
IMAGES: dict[str, PictureFormat] = {".png": "png", ".svg": "svg", ".pdf": "pdf", ".html": "html"}
"""The suffixes of picture files."""

_ROWS_OF_DATA, _COLUMNS_OF_DATA = 512, 1024
_SIDES_OF_DATA = range(1, 1 << 16)
_LARGEST_PAGE = 1000  # no terminal has that many lines or columns
_DPI = range(10, 1201)
_RANDOM = r"random [^();:]*seed \d+|(?:content )?random \([^()]*seed \d+\)"
"""The text on random draws in a title."""
_LOWEST_ABOVE = 12
"""The fewest lines of a picture above a text."""


class PictureOptions(OptionGroup):
    """How a picture looks."""

    heading = "Picture"

    cmap: str | None = None
    title: Annotated[str | None, option("--title", metavar="TEXT", help="title of the picture")] = (
        None
    )
    width: Annotated[
        int | None,
        whole_option("--width", help="columns in the terminal, pixels in a file"),
    ] = None
    height: Annotated[
        int | None,
        whole_option("--height", help="lines in the terminal, pixels in a file"),
    ] = None
    dpi: Annotated[
        int | None,
        whole_option(
            "--dpi",
            help="pixels per inch, which sets the size of text [default: 150]",
        ),
    ] = None
    theme: Annotated[
        Literal["light", "dark"],
        option(
            "--theme",
            known=THEMES,
            help=f"for files and for terminals that show pixels: {'|'.join(THEMES)}",
        ),
    ] = "light"
    graphics: Annotated[
        Graphics,
        option(
            "--graphics",
            metavar="HOW",
            known=GRAPHICS,
            help=f"terminal graphics: {'|'.join(GRAPHICS)}; none is text only "
            "[default: auto, pixels where the terminal supports them]",
            show_default=False,
        ),
    ] = "auto"

    @property
    def given(self) -> dict[str, str]:
        """The options that differ from their defaults, by flag."""
        defaults = type(self)()
        return {
            f"--{name}": str(value)
            for name, value in self.as_dict().items()
            if value != getattr(defaults, name)
        }

    def titled(self, figure: FigureOfKind) -> FigureOfKind:
        """Return a figure with the requested title, without terminal control characters.

        What its own title says about random draws becomes a note.
        """
        if self.title is None:
            return replace(figure, title=printable_text(figure.title))
        drawn = dict.fromkeys(re.findall(_RANDOM, figure.title))
        notes: tuple[str, ...] = figure.notes
        notes += tuple(text for text in drawn if text not in self.title)
        return replace(figure, title=printable_text(self.title), notes=notes)

    def check_text(self) -> None:
        """Reject options that only a picture of pixels supports.

        Raises: InvalidInput.
        """
        pixels = {flag: self.given.get(flag) for flag in ("--dpi", "--theme")}
        refuse(pixels, "needs --out, or a terminal that shows pixels")

    def check_file(self, form: PictureFormat) -> None:
        """Reject options that this file format does not support.

        Raises: InvalidInput.
        """
        if form == "html":
            sides = {flag: self.given.get(flag) for flag in ("--width", "--height", "--dpi")}
            refuse(sides, "does not apply to a page, which has no fixed size")
        refuse(
            {"--graphics": self.given.get("--graphics")}, "applies to the terminal, not to a file"
        )


class ColorPictureOptions(PictureOptions):
    """How a picture with values as colours looks."""

    cmap: Annotated[
        str | None,
        option(
            "--cmap",
            metavar="NAME",
            help="a matplotlib colormap, or polar|polar-dark|phase; NAME_r reverses it",
        ),
    ] = None


class FigureOutput(OutputOptions):
    """Where a figure goes: to the terminal, or to a file."""

    out: Annotated[
        str | None,
        option("--out", "-o", metavar="FILE", help="save the figure as .png, .svg, .pdf or .html"),
    ] = None

    def prepare(self) -> None:
        """Reject a file that cannot hold a picture, before anything is computed.

        Raises: InvalidInput, Unavailable.
        """
        if self.out is not None:
            image_format(self.out, self.file_flag)
            self.check_stdout()
        super().prepare()


class PlotOutput(FigureOutput):
    """Where the optional picture of a text report goes."""

    plot: Annotated[bool, option("--plot", help="draw a picture in the terminal")] = False

    @property
    def draws(self) -> bool:
        """Whether there is a picture."""
        return self.plot or self.out is not None

    def check(self, look: PictureOptions) -> None:
        """Reject picture options without a picture, and a file that cannot hold one.

        Raises: InvalidInput, Unavailable.
        """
        if not self.draws:
            refuse(look.given, f"needs --plot, or {self.file_flag} with a file")
        self.prepare()

    def present(
        self,
        name: str,
        text: str,
        figure: Callable[[], Figure],
        fields: Callable[[], Mapping[str, Any]],
        *,
        look: PictureOptions,
        console: Console,
    ) -> None:
        """Print the result as text or JSON, and draw it if asked for."""
        found = (name, fields()) if self.json else None
        if self.draws:
            show(figure(), self.look_above(text, look, console), self, console, json=found)
        elif found is not None:
            console.json(*found)
        if not self.json:
            self.report(text)

    def look_above(self, text: str, look: PictureOptions, console: Console) -> PictureOptions:
        """Return the look of a picture that fills a screen together with the text below it."""
        if not sys.stdout.isatty() or self.out is not None or look.height is not None:
            return look
        return replace(look, height=max(_LOWEST_ABOVE, console.height - 1 - len(text.splitlines())))

    def report(self, text: str) -> None:
        """Print the text report: to stderr if the picture goes to stdout."""
        print(text, file=sys.stderr if self.to_stdout else sys.stdout)


def image_format(out: str, flag: str = "--out") -> PictureFormat:
    """Return the format of a picture by the suffix of its file; PNG for stdout.

    Raises: InvalidInput if no picture format has the suffix.
    """
    from posenc_cli.files.atomic import STANDARD_OUTPUT, check_no_folder

    if out == STANDARD_OUTPUT:
        return "png"
    suffix = PurePath(out).suffix.lower()
    if suffix not in IMAGES:
        check_no_folder(out)
        name, hint = PurePath(out).name.rstrip("."), None
        if name and (Path(out).is_file() or not Path(out).exists()):  # no device
            other = PurePath(out).with_name(name).with_suffix(".png")
            hint = f"{flag} {quoted_name(str(other))}"
        raise InvalidInput(f"{flag} {quoted_name(out)}: must end in {', '.join(IMAGES)}", hint=hint)
    return IMAGES[suffix]


def show(
    figure: Figure,
    look: PictureOptions,
    output: OutputOptions,
    console: Console,
    *,
    usual: tuple[int, int] | None = None,
    json: tuple[str, Mapping[str, Any]] | None = None,
    live: Callable[[], Sequence[Live]] = tuple,
) -> None:
    """Draw a figure to the terminal, or to the file that the options name.

    ``usual`` is its default width and height in a file. ``json``, a command's name and the first
    fields of its JSON, asks for the plotted data on stdout; without a file, they replace the
    picture. ``live`` makes the interactive parts of a page.

    Raises: InvalidInput, Unavailable: for wrong options, figure or file.
    """
    figure = look.titled(figure)
    picture: Picture[Any]
    if output.out is not None:
        picture = _saved_picture(figure, look, output, usual=usual, live=live)
    elif json is not None:
        look.check_text()
        look.check_file("png")
        picture = _data(figure, look)
    else:
        picture = _printed_picture(figure, look, console)
    console.warning(*picture.warnings)
    if json is not None:
        from posenc_cli.render.figure import data_of

        name, fields = json
        console.json(name, {**fields, **data_of(figure, picture.shown), **output.path_fields})
    elif output.out is not None:
        console.done(f"wrote {output.place}: {figure.title}, {len(picture.content)} bytes")


def _saved_picture(
    figure: Figure,
    look: PictureOptions,
    output: OutputOptions,
    *,
    usual: tuple[int, int] | None,
    live: Callable[[], Sequence[Live]],
) -> Picture[bytes]:
    """Write the picture to its file, and return it."""
    flag = output.file_flag
    form = image_format(output.out or "", flag)
    look.check_file(form)
    if form == "html":
        from posenc_cli.render.html.page import Section

        section = Section(figure, live=tuple(live()))
        theme = "dark" if look.theme == "dark" else None
        return saved_page(figure.title, [section], output, theme=theme, cmap=look.cmap)
    from posenc_cli.render.drawing.image import image_bytes

    if output.to_stdout and sys.stdout.isatty():
        raise InvalidInput(f"{flag} -: {form} is binary and standard output is a terminal")
    return _written(image_bytes(figure, form, _style(look, usual)), output)


def saved_page(
    title: str, sections: Sequence[Section], output: OutputOptions, **look: Any
) -> Picture[bytes]:
    """Write figures to a file as a page, and return it; ``look`` is as for `page_bytes`.

    Raises: InvalidInput if no value is finite, or the colour map does not exist.
    """
    from posenc_cli.render.html.page import page_bytes

    return _written(page_bytes(title, sections, **look), output)


def _written(picture: Picture[bytes], output: OutputOptions) -> Picture[bytes]:
    """Write a picture to its file, and return it."""
    from posenc_cli.files.atomic import replacing, standard_output

    out = output.out or ""
    target = standard_output() if output.to_stdout else replacing(out, clobber=output.clobber)
    with target as stream:
        stream.write(picture.content)
    return picture


def _printed_picture(figure: Figure, look: PictureOptions, console: Console) -> Picture[Any]:
    """Print the picture to the terminal, and return it."""
    from posenc_cli.render.figure import Picture, figure_sentences

    how: Graphics | None = look.graphics
    if how == "auto":
        how = detected() if console.uses_color(sys.stdout) else None
    if how in ("kitty", "iterm", "sixel"):
        return _shown_picture(figure, look, console, how)
    look.check_text()
    if how == "none":
        picture = _data(figure, replace(look, width=None, height=None))
        sentences = figure_sentences(figure, picture.shown)
        console.result("\n".join(wrapped_lines(sentences, look, console)))
        return Picture("", picture.warnings)
    from posenc_cli.render.terminal.text_pictures import picture_text

    text = picture_text(figure, page_of(look, console))
    console.result(text.content)
    return text


def _shown_picture(
    figure: Figure, look: PictureOptions, console: Console, protocol: Protocol
) -> Picture[bytes]:
    """Print a figure as pixels, as large as its text version, and return it."""
    from posenc_cli.render.drawing.image import image_bytes
    from posenc_cli.render.style import LARGEST, SMALLEST, Style
    from posenc_cli.render.terminal.blocks import picture_sequence, through_tmux

    page, cell = page_of(look, console), cell_size()
    width, height = (
        min(max(SMALLEST, count * pixels), LARGEST)
        for count, pixels in zip((page.width, page.height), cell, strict=True)
    )
    resolution = _size("--dpi", look.dpi, _DPI) or Style.resolution_for(cell[1])
    picture = image_bytes(figure, "png", Style(width, height, resolution, look.theme, look.cmap))
    sequence = picture_sequence(picture.content, protocol)
    within = os.environ.get("TMUX") and protocol != "sixel"  # tmux draws sixel itself
    console.result(through_tmux(sequence) if within else sequence)
    return picture


def _data(figure: Figure, look: PictureOptions) -> Picture[str]:
    """Return what a picture shows, without the picture.

    Raises: InvalidInput if no value is finite.
    """
    from posenc_cli.render.figure import Picture, heatmaps_of, scale_of, warnings_of

    heatmaps = heatmaps_of(figure)
    rows, columns = _sides_of_data(look, heatmaps)
    shown = tuple(heatmap.sample(rows, columns, means=False) for heatmap in heatmaps)
    if shown:
        scale_of(shown)
    return Picture("", warnings_of(shown), shown)


def _sides_of_data(look: PictureOptions, heatmaps: Sequence[Heatmap]) -> tuple[int, int]:
    """Return the most rows and columns of each heatmap to list as numbers.

    Raises: InvalidInput if the options ask for too many.
    """
    columns = _size("--width", look.width, _SIDES_OF_DATA) or _COLUMNS_OF_DATA
    most = max(1, LISTED_VALUES // (columns * max(1, len(heatmaps))))
    rows = _size("--height", look.height, _SIDES_OF_DATA) or min(_ROWS_OF_DATA, most)
    count = sum(
        min(rows, len(heatmap.rows.points)) * min(columns, len(heatmap.columns.points))
        for heatmap in heatmaps
    )
    check_size(f"--width {columns} --height {rows}", count, LISTED_VALUES, "values in JSON")
    return rows, columns


def page_of(look: PictureOptions, console: Console) -> Page:
    """Return the size that a picture has in the terminal.

    Raises: InvalidInput if the size asked for is not possible.
    """
    from posenc_cli.render.terminal.blocks import Page
    from posenc_cli.render.terminal.text_pictures import LOWEST, NARROWEST

    # One line less than the terminal has, for the prompt.
    height = _size("--height", look.height, range(LOWEST, _LARGEST_PAGE)) or console.height - 1
    width = _size("--width", look.width, range(NARROWEST, _LARGEST_PAGE)) or console.width
    return Page(width, height, console.medium, look.cmap)


def wrapped_lines(sentences: Sequence[str], look: PictureOptions, console: Console) -> list[str]:
    """Wrap sentences into lines no wider than their picture."""
    page = page_of(look, console)
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(
            page.medium.spelled(" ".join(sentence.split())),
            min(page.width, console.width),
            subsequent_indent="  ",
        )
    ]


def _style(look: PictureOptions, usual: tuple[int, int] | None) -> Style:
    """Return the style of an image."""
    from posenc_cli.render.style import LARGEST, SMALLEST, Style

    sides = range(SMALLEST, LARGEST + 1)
    return Style.of(
        _size("--width", look.width, sides),
        _size("--height", look.height, sides),
        _size("--dpi", look.dpi, _DPI),
        usual=usual,
        theme=look.theme,
        cmap=look.cmap,
    )


def _size(flag: str, number: int | None, allowed: range) -> int | None:
    """Return a size, or None if none is given.

    Raises: InvalidInput if it is out of range.
    """
    if number is not None and number not in allowed:
        rule = f"at least {allowed.start}" if number < allowed.start else f"at most {allowed[-1]}"
        raise InvalidInput(f"{flag} {number}: must be {rule}")
    return number

"""``posenc explore``: an interactive page about one encoding, for a lecture."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

from posenc_cli.choice import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OutputOptions, option
from posenc_cli.cli.pictures import THEMES, saved_page
from posenc_cli.errors import InvalidInput, printable_text, quoted_name


class PageOutput(OutputOptions):
    """The output file of a page."""

    out: Annotated[
        str | None,
        option("--out", "-o", metavar="FILE", help="write the page to this .html file (required)"),
    ] = None
    json: bool = False

    def prepare(self) -> None:
        """Reject a file that cannot hold a page, before anything is computed.

        Raises: InvalidInput, Unavailable.
        """
        if self.out is None:
            raise InvalidInput("--out is needed", hint="--out page.html")
        if not self.to_stdout and PurePath(self.out).suffix.lower() != ".html":
            raise InvalidInput(f"--out {quoted_name(self.out)}: must end in .html")
        super().prepare()


def explore(
    choice: Choice,
    console: Console,
    *,
    title: Annotated[
        str | None, option("--title", metavar="TEXT", help="title of the page")
    ] = None,
    theme: Annotated[
        str | None,
        option("--theme", known=THEMES, help="light|dark [default: the browser's setting]"),
    ] = None,
    output: PageOutput,
) -> None:
    """Write an interactive page that explains an encoding.

    posenc writes one file that needs no network. The page shows an encoding's values, its
    wavelengths (with sliders for base and factor), the rotation of its pairs, the resulting q·k,
    and the similarity by distance. Hover over a plot, or use the arrow keys, to read the position,
    dimension, value and angle. Without JavaScript, the page still shows the pictures and tables.

    Examples:
      posenc explore -m llama-3.1-8b --out llama.html
      posenc explore -s sinusoidal --dim 64 -l 128 --out sinusoidal.html
      posenc explore -s rope-yarn --set factor=8 --title "YaRN" --out yarn.html
    """
    output.prepare()
    from posenc_cli.render.html.lecture import lecture_of

    name = printable_text(title or f"Positions in {choice.source or choice.name}")
    picture = saved_page(name, lecture_of(choice), output, theme=theme)
    console.warning(*picture.warnings)
    console.done(f"wrote {output.place}: {name}, {len(picture.content)} bytes")

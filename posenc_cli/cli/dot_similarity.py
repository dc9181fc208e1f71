"""``posenc dot-similarity``: how alike positions are, and whether only their distance counts."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

import typer

from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.cli.options import Choice, one_of, whole_number
from posenc_cli.cli.pictures import IMAGES, Dpi, Height, PictureOptions, ThemeOption, Title, Width
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.files.atomic import STANDARD_OUTPUT
from posenc_cli.files.formats import FORMATS, format_of
from posenc_cli.numerics.dtypes import REAL_DTYPES

NORMALIZATIONS = ("dot", "cosine")
CONTENTS = ("ones", "random", "independent")


def dot_similarity(
    choice: Choice | None,
    console: Console,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--in", metavar="FILE", help="a matrix to look at: .npy .npz .csv .safetensors"
        ),
    ] = None,
    normalize: Annotated[
        str, typer.Option("--normalize", metavar="NAME", help="|".join(NORMALIZATIONS))
    ] = "dot",
    content: Annotated[
        str | None,
        typer.Option(
            "--content",
            metavar="NAME",
            help="of rotary schemes, what q and k hold before they turn: ones|random (one normal "
            "draw for both)|independent (normal, apart: mean and deviation) [default: ones]",
        ),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="H", help="of a bias [default: 0]")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="only the values by offset m − n, not the matrix")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="the matrix (.npy .csv …) or a figure (.png …)"
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help=f"{'|'.join(FORMATS)} [default: by the suffix]"
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="NAME",
            help=f"of a matrix in a file: {'|'.join(REAL_DTYPES)} [default: float32]",
        ),
    ] = None,
    cmap: Annotated[
        str | None, typer.Option("--cmap", metavar="NAME", help="colours, as posenc heatmap has")
    ] = None,
    title: Title = None,
    width: Width = None,
    height: Height = None,
    dpi: Dpi = None,
    theme: ThemeOption = "light",
    no_clobber: Annotated[
        bool, typer.Option("--no-clobber", help="refuse to replace an existing file")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="the verdict and the values by offset as JSON, of at most "
            "16384 offsets (--profile --out FILE has all)",
        ),
    ] = False,
) -> None:
    """Show how alike positions are: S[m, n], its values by offset, and what they depend on.

    Absolute encodings: dot products of rows. Rotary ones: q·k / d of one content, turned at m and
    at n, attention scaling included. Biases: what query m adds for key n. A+B shows both.

    \b
    Examples:
      posenc dot-similarity --scheme sinusoidal --len 512
      posenc dot-similarity --scheme rope --len 2048 --profile
      posenc dot-similarity -s sinusoidal+rope+alibi --len 256
      posenc dot-similarity --in table.npy --normalize cosine --json
      posenc dot-similarity -s rope-yarn --len 2048 --out similarity.npy
    """
    if json and out == STANDARD_OUTPUT:
        raise InvalidInput("--json: stdout is taken by --out -", hint="write to a file")
    stored = REAL_DTYPES[one_of("--dtype", dtype or "float32", REAL_DTYPES)]
    one_of("--normalize", normalize, NORMALIZATIONS)
    draws = file_format is None and PurePath(out or "").suffix.lower() in IMAGES
    form = None if draws or out is None else format_of(out, file_format)
    options = PictureOptions(out, width, height, dpi, theme, cmap, clobber=not no_clobber)
    _refuse_others(options, title, dtype, numbers=form is not None)
    console.prepare(out, clobber=not no_clobber)
    from posenc_cli.cli import similarities

    subjects = similarities.subjects(
        choice,
        source,
        content=content and one_of("--content", content, CONTENTS),
        normalize=normalize,
        head=None if head is None else whole_number("--head", head, minimum=0),
    )
    saved = None
    if form is not None and out is not None:
        subject = similarities.single(subjects, out)
        saved = similarities.save_values(
            subject, out, form, stored, console, profile=profile, clobber=not no_clobber
        )
        if not json:
            return
    found = similarities.judged(subjects, console)
    if draws:
        similarities.draw(found, options, console, title=title, profile=profile)
    if json:
        written: dict[str, object] = {} if out is None else {"path": out}
        if saved is not None:
            written["bytes"] = saved.bytes
        console.json("dot-similarity", {**similarities.fields(found), **written})
    elif not draws:
        similarities.show(found, options, console, profile=profile)


def _refuse_others(
    options: PictureOptions, title: str | None, dtype: str | None, *, numbers: bool
) -> None:
    """Refuse what goes with a picture where numbers are written, and the other way round."""
    if not numbers:
        if dtype is not None:
            raise InvalidInput(f"--dtype {dtype}: goes with a matrix in a file, --out matrix.npy")
        return
    for flag, value in (
        ("--cmap", options.cmap),
        ("--title", title),
        ("--width", options.width),
        ("--height", options.height),
        ("--dpi", options.dpi),
        ("--theme", options.theme),
    ):
        if value not in (None, PictureOptions.theme):
            file = quoted_name(options.out or "")
            raise InvalidInput(
                f"{flag} {abbreviated(value)}: goes with a picture; --out {file} holds numbers"
            )

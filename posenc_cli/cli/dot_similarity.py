"""``posenc dot-similarity``: how alike positions are, and whether only their distance counts."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import Annotated

import typer

from posenc_cli.cli.choosing import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixOutput
from posenc_cli.cli.options import Source, number_format, option, whole_number
from posenc_cli.cli.pictures import IMAGES, ColorPictureOptions
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.files.formats import format_of
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.records import replace

NORMALIZATIONS = ("dot", "cosine")
CONTENTS = ("ones", "random", "independent")


class SimilarityOutput(MatrixOutput):
    """Where the matrix goes, or the figure."""

    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="the matrix (.npy .csv …) or a figure (.png …)"
        ),
    ] = None
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="the verdict and the values by offset as JSON, of at most "
            "16384 offsets (--profile --out FILE has all)",
        ),
    ] = False


def dot_similarity(
    choice: Choice | None,
    console: Console,
    *,
    source: Source = None,
    normalize: Annotated[str, option("--normalize", known=NORMALIZATIONS)] = "dot",
    content: Annotated[
        str | None,
        option(
            "--content",
            known=CONTENTS,
            help="of rotary schemes, what q and k hold before they turn: ones|random (one normal "
            "draw for both)|independent (normal, apart: mean and deviation) [default: ones]",
        ),
    ] = None,
    head: Annotated[
        int | None,
        option(
            "--head",
            metavar="H",
            help="of a bias [default: 0]",
            parse=partial(whole_number, minimum=0),
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="only the values by offset m − n, not the matrix")
    ] = False,
    dtype: Annotated[
        DType | None,
        option(
            "--dtype",
            metavar="NAME",
            help=f"of a matrix in a file: {'|'.join(REAL_DTYPES)} [default: float32]",
            parse=number_format,
        ),
    ] = None,
    picture: ColorPictureOptions,
    output: SimilarityOutput,
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
    output.check_stdout()
    draws = output.form is None and PurePath(output.out or "").suffix.lower() in IMAGES
    form = None if draws or output.out is None else format_of(output.out, output.form)
    _refuse_others(picture, output, dtype, numbers=form is not None)
    output.prepare()
    from posenc_cli.cli import similarities

    subjects = similarities.subjects(
        choice, source, content=content, normalize=normalize, head=head
    )
    saved = None
    if form is not None:
        subject = similarities.single(subjects, output)
        saved = similarities.save_values(
            subject, output, form, dtype or FLOAT32, console, profile=profile
        )
        if not output.json:
            return
    judged = similarities.judged(subjects, console)
    if draws:
        similarities.draw(judged, picture, output, console, profile=profile)
    if output.json:
        written: dict[str, object] = {} if output.out is None else {"path": output.out}
        if saved is not None:
            written["bytes"] = saved.bytes
        console.json("dot-similarity", {**similarities.fields(judged), **written})
    elif not draws:
        similarities.show(judged, replace(picture, title=None), output, console, profile=profile)


def _refuse_others(
    picture: ColorPictureOptions, output: SimilarityOutput, dtype: DType | None, *, numbers: bool
) -> None:
    """Refuse what goes with a picture where numbers are written, and the other way round."""
    if numbers:
        for flag, value in picture.given.items():
            raise InvalidInput(
                f"{flag} {abbreviated(value)}: goes with a picture; --out {output.place} holds "
                "numbers"
            )
    elif dtype is not None:
        raise InvalidInput(f"--dtype {dtype.name}: goes with a matrix in a file, --out matrix.npy")

"""``posenc dot-similarity``: how alike positions are, and whether only their distance counts."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import check_subject
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixFile, MatrixOutput
from posenc_cli.cli.options import OptionGroup, completed_from, number_format, option, whole_option
from posenc_cli.cli.pictures import IMAGES, ColorPictureOptions, page_of, show, wrapped_lines
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.files.formats import format_of
from posenc_cli.files.save import save
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.parts import SimilarityPart
    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.verdict import Verdict
    from posenc_cli.files.declare import Format
    from posenc_cli.files.save import Saved

PRODUCTS = ("dot", "cosine")
CONTENTS = ("ones", "random", "independent")

_PANEL, _WIDEST = 825, 9600
"""Pixels of a panel of a figure in a file, and of all side by side."""

_CURVE_HEIGHT = 13
_POINTS = 320
"""Points of a curve in the terminal."""

_LOWEST_MAP, _HIGHEST_MAP = 22, 44
"""Lines of a map that is not for a screen, within these."""

_BESIDE = 76
"""Columns from which a map and a curve stand side by side."""


class SimilarityOptions(OptionGroup):
    """What is looked at of an encoding."""

    normalize: Annotated[Literal["dot", "cosine"], option("--normalize", known=PRODUCTS)] = "dot"
    content: Annotated[
        Literal["ones", "random", "independent"] | None,
        option(
            "--content",
            known=CONTENTS,
            help="of rotary schemes, what q and k hold before they turn: ones|random (one normal "
            "draw for both)|independent (normal, apart: mean and deviation) [default: ones]",
        ),
    ] = None
    head: Annotated[
        int | None,
        whole_option("--head", metavar="H", minimum=0, help="of a bias [default: 0]"),
    ] = None


class SimilarityOutput(MatrixOutput):
    """Where the matrix goes, or the figure."""

    out: Annotated[
        str | None,
        option("--out", "-o", metavar="FILE", help="the matrix (.npy .csv …) or a figure (.png …)"),
    ] = None
    json: Annotated[
        bool,
        option(
            "--json",
            help="the verdict and the values by offset as JSON, of at most "
            "16384 offsets (--profile --out FILE has all)",
        ),
    ] = False


def dot_similarity(
    choice: Choice | None,
    console: Console,
    *,
    source: MatrixFile = None,
    aspect: SimilarityOptions,
    profile: Annotated[
        bool, option("--profile", help="only the values by offset m − n, not the matrix")
    ] = False,
    dtype: Annotated[
        DType | None,
        option(
            "--dtype",
            metavar="NAME",
            help=f"of a matrix in a file: {'|'.join(REAL_DTYPES)} [default: float32]",
            parse=number_format,
            autocompletion=completed_from(REAL_DTYPES),
        ),
    ] = None,
    picture: ColorPictureOptions,
    output: SimilarityOutput,
) -> None:
    """Show how alike the encodings of two positions are.

    The matrix S[m, n], its values by offset, and whether they depend on it alone. Absolute
    encodings: dot products of rows. Rotary ones: q·k / d of one content, turned at m and at n,
    attention scaling included. Biases: what query m adds for key n. A+B shows both.

    Examples:
      posenc dot-similarity --scheme sinusoidal --len 512
      posenc dot-similarity --scheme rope --len 2048 --profile
      posenc dot-similarity -s sinusoidal+rope+alibi --len 256
      posenc dot-similarity --in table.npy --normalize cosine --json
      posenc dot-similarity -s rope-yarn --len 2048 --out similarity.npy
    """
    check_subject(choice, source)
    output.check_stdout()
    draws = output.form is None and PurePath(output.out or "").suffix.lower() in IMAGES
    form = None if draws or output.out is None else format_of(output.out, output.form)
    _check(picture, output, dtype, writes=form is not None)
    output.prepare()
    parts = [_of_file(source or "", aspect)] if choice is None else _of_choice(choice, aspect)
    saved = None
    if form is not None:
        saved = _save(parts, output, form, dtype or FLOAT32, console, profile=profile)
        if not output.json:
            return
    judged = _with_verdicts(parts, console)
    if draws:
        _draw(judged, picture, output, console, profile=profile)
    if output.json:
        size = {} if saved is None else {"bytes": saved.bytes}
        fields = {**_fields(parts, judged), **output.path_fields, **size}
        console.json("dot-similarity", fields)
    elif not draws:
        _print(judged, replace(picture, title=None), output, console, profile=profile)


def _of_file(source: str, aspect: SimilarityOptions) -> SimilarityPart:
    """The rows of a file."""
    from posenc_cli.analysis.parts import part_of_array
    from posenc_cli.files.reading import read_array

    for flag, value in (("--content", aspect.content), ("--head", aspect.head)):
        if value is not None:
            raise InvalidInput(f"{flag} {value}: cannot go with --in, whose rows are as they are")
    return part_of_array(read_array(source), name=quoted_name(source), normalize=aspect.normalize)


def _of_choice(choice: Choice, aspect: SimilarityOptions) -> list[SimilarityPart]:
    """An encoding, or the parts of a hybrid."""
    from posenc_cli.analysis.parts import parts_of

    return parts_of(choice, **aspect.as_dict())


def _check(
    picture: ColorPictureOptions, output: SimilarityOutput, dtype: DType | None, *, writes: bool
) -> None:
    """Refuse what goes with a picture where numbers are written, and the other way round."""
    if writes and picture.given:
        flag, value = next(iter(picture.given.items()))
        raise InvalidInput(
            f"{flag} {abbreviated(value)}: goes with a picture; --out {output.place} holds numbers"
        )
    if dtype is not None and not writes:
        raise InvalidInput(f"--dtype {dtype.name}: goes with a matrix in a file, --out matrix.npy")


def _save(
    parts: Sequence[SimilarityPart],
    output: SimilarityOutput,
    form: Format,
    dtype: DType,
    console: Console,
    *,
    profile: bool,
) -> Saved:
    """Write the matrix, or its values by offset.

    Raises: InvalidInput where a file of numbers cannot hold what is asked for.
    """
    from posenc_cli.analysis.profile import Profile
    from posenc_cli.analysis.verdict import verdict

    if len(parts) > 1:
        raise InvalidInput(
            f"--out {output.place}: holds one matrix, and these are {len(parts)}",
            hint="write them one by one, or draw them: --out similarity.png",
        )
    part, subject = parts[0], parts[0].similarity
    if subject.content == "independent":
        raise InvalidInput(
            f"--out {output.place}: of independent q and k there are a mean, which is 0 "
            "everywhere, and a deviation; no matrix",
            hint="--json has both, and --out similarity.png draws them",
        )
    if profile:
        matrix = verdict(subject).matrix(dtype, part.metadata)
        matrix = replace(matrix, header=not form.binary)
    else:
        matrix = subject.matrix(dtype, part.engine, part.metadata)
    matrix = output.watch(matrix, console, may_overflow=not isinstance(subject.source, Profile))

    def announce(saved: Saved) -> None:
        what = f"{subject.quantity} by offset" if profile else subject.quantity
        size = " × ".join(map(str, matrix.shape))
        console.summary(
            f"wrote {output.place}: {subject.name}, {what}, {size} {dtype.name}, "
            f"{saved.bytes} bytes"
        )

    return save(matrix, output.out or "", format=form, clobber=output.clobber, announce=announce)


def _with_verdicts(
    parts: Sequence[SimilarityPart], console: Console
) -> list[tuple[Similarity, Verdict]]:
    """Each similarity with the verdict on it, and a warning of what is not finite."""
    from posenc_cli.analysis.verdict import verdict

    judged = [(part.similarity, verdict(part.similarity)) for part in parts]
    for subject, result in judged:
        if result.dropped:
            looked = "" if result.measured_all else " looked at"
            console.warning(
                f"{subject.name}: {result.dropped} of {result.pairs} products{looked} are not "
                "finite, and left out"
            )
    return judged


def _fields(
    parts: Sequence[SimilarityPart], judged: Sequence[tuple[Similarity, Verdict]]
) -> dict[str, Any]:
    """What was asked and what was found, as JSON has it; of several encodings, of each."""
    from posenc_cli.render.similarities import similarity_fields

    fields = [
        {**part.fields, **similarity_fields(*pair)}
        for part, pair in zip(parts, judged, strict=True)
    ]
    return fields[0] if len(fields) == 1 else {"parts": fields}


def _print(
    judged: Sequence[tuple[Similarity, Verdict]],
    look: ColorPictureOptions,
    output: SimilarityOutput,
    console: Console,
    *,
    profile: bool,
) -> None:
    """Print the maps, the curves and the verdicts.

    On a terminal they fill its screen, the map beside the curve where that is wide enough.
    """
    from posenc_cli.render.similarities import (
        maps_figure,
        profile_figure,
        sentences,
        similarity_figure,
    )
    from posenc_cli.render.terminal import LOWEST

    profile = profile or _has_no_map(judged)
    words = [wrapped_lines(sentences(*pair), look, console) for pair in judged]
    page = page_of(look, console)
    room = look.height and page.height
    if sys.stdout.isatty() and look.height is None:
        room = max(LOWEST, page.height - sum(map(len, words)))
    if len(judged) == 1 and not profile and room is not None and page.width >= _BESIDE:
        show(similarity_figure(judged), replace(look, height=room), output, console)
        print("\n".join(words[0]))
        return
    curve = _CURVE_HEIGHT
    if room is not None:
        shares = len(judged) + (not profile)
        curve = max(LOWEST, room if shares == 1 else min(room // shares, _CURVE_HEIGHT))
    if not profile:
        lines = max(_LOWEST_MAP, min(console.height - _CURVE_HEIGHT - 6, _HIGHEST_MAP))
        if room is not None:
            lines = max(LOWEST, room - curve * len(judged))
        show(maps_figure(judged), replace(look, height=lines), output, console)
    for pair, lines_of_words in zip(judged, words, strict=True):
        figure = profile_figure(*pair, most=_POINTS)
        show(figure, replace(look, height=curve), output, console)
        print("\n".join(lines_of_words))


def _draw(
    judged: Sequence[tuple[Similarity, Verdict]],
    look: ColorPictureOptions,
    output: SimilarityOutput,
    console: Console,
    *,
    profile: bool,
) -> None:
    """Save the maps and the curves as a figure."""
    from posenc_cli.render.similarities import similarity_figure

    profile = profile or _has_no_map(judged)
    figure = similarity_figure(judged, profile_alone=profile)
    usual = None
    if len(judged) > 1:
        usual = min(_PANEL * len(judged), _WIDEST), _PANEL * (1 if profile else 2)
    elif not profile:
        usual = 2 * _PANEL, _PANEL
    show(figure, look, output, console, usual=usual)


def _has_no_map(judged: Sequence[tuple[Similarity, Verdict]]) -> bool:
    """Whether all are means that are 0 everywhere."""
    return all(subject.content == "independent" for subject, _ in judged)

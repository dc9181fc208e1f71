"""``posenc dot-similarity``: how similar positions are, by distance."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Literal

from posenc_cli.choice import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import number_format_option, option, refuse, whole_option
from posenc_cli.cli.pictures import IMAGES, ColorPictureOptions, show, wrapped_lines
from posenc_cli.cli.subjects import MatrixOutput, Subjects
from posenc_cli.errors import InvalidInput, quoted_name, sizes_text
from posenc_cli.files.formats import Saved, format_of, save
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.similarity import SimilarityPart
    from posenc_cli.files.matrix import Format
    from posenc_cli.render.figures.similarities import Judged

PRODUCTS = ("dot", "cosine")
CONTENTS = ("ones", "random", "independent")

_PANEL, _SMALL_PANEL, _ACROSS = 825, 600, 4
"""Pixels of one panel of a figure in a file, and of one of many; the most panels side by side."""

_PAGE = 24
"""Lines of the pictures if they do not go to a screen."""
_BESIDE = 76
"""The width from which a map and its curve stand side by side."""
_ROOM_FOR_MAPS, _ROOM_FOR_ONE, _LEAST_CURVES = 24, 34, 10
"""The least lines for several maps beside their curves, for one above it, and for two sets of
curves.
"""


class SimilarityOutput(MatrixOutput):
    """Where the matrix or the figure goes."""

    out: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            metavar="FILE",
            help="write the matrix (.npy .csv …) or a figure (.png …)",
        ),
    ] = None


def dot_similarity(
    subjects: Subjects,
    console: Console,
    *,
    normalize: Annotated[Literal["dot", "cosine"], option("--normalize", known=PRODUCTS)] = "dot",
    contents: Annotated[
        list[str] | None,
        option(
            "--content",
            known=CONTENTS,
            help="q and k, for rotary schemes: ones|random|independent; repeatable [default: ones]",
        ),
    ] = None,
    head: Annotated[
        int | None,
        whole_option("--head", metavar="H", minimum=0, help="head of a bias [default: 0]"),
    ] = None,
    bounded: Annotated[
        bool,
        option("--bound", help="for rotary schemes, also draw RoFormer's bound (Su et al. 2021)"),
    ] = False,
    profile: Annotated[
        bool, option("--profile", help="show only the values by offset m − n, not the matrix")
    ] = False,
    dtype: Annotated[
        DType | None,
        number_format_option(
            "--dtype",
            help=f"number format of the matrix: {'|'.join(REAL_DTYPES)} [default: float32]",
        ),
    ] = None,
    picture: ColorPictureOptions,
    output: SimilarityOutput,
) -> None:
    """Show how similar the encodings of two positions are.

    posenc shows the matrix S[m, n] and its values by offset m − n. It says whether S depends only
    on the offset. Without --len, it shows the first 512 positions. Encodings of one kind (absolute,
    rotary or bias) share one set of axes, and a table compares them.

    For absolute encodings, S is the dot product of two rows. For biases, S is the score of query m
    for key n.

    For RoPE, S is q·k / d, with q at position m and k at position n. S includes the squared
    attention factor. --content sets q and k before the rotation. With random, q and k are the same
    normal vector. With independent, they are independent normal vectors, and posenc shows the mean
    and standard deviation of S.

    Examples:
      posenc dot-similarity --scheme sinusoidal --len 512
      posenc dot-similarity --scheme rope --len 2048 --profile
      posenc dot-similarity -m llama-3-8b -m llama-3.1-8b --len 2048 --profile
      posenc dot-similarity -s sinusoidal+rope+alibi --len 256
      posenc dot-similarity -s rope -l 256 --content ones --content independent --bound
      posenc dot-similarity --in table.npy --normalize cosine --json
      posenc dot-similarity -s rope-yarn --len 2048 --out similarity.npy
    """
    output.check_stdout()
    draws = output.form is None and PurePath(output.out or "").suffix.lower() in IMAGES
    form = None if draws or output.out is None else format_of(output.out, output.form)
    if form is not None:
        refuse(
            picture.given,
            f"applies only to a picture; --out {quoted_name(output.out or '')} holds numbers",
        )
    elif dtype is not None:
        refuse({"--dtype": dtype.name}, "applies only to a matrix in a file, --out matrix.npy")
    output.prepare()
    parts = _parts(subjects, normalize, contents or (), head, bounded=bounded)
    saved = None
    if form is not None:
        saved = _save(parts, output, form, dtype or FLOAT32, console, profile=profile)
        if not output.json:
            return
    judged = _judged(parts, console)
    profile = profile or all(item.is_mean for item in judged)  # means, which are 0 everywhere
    if draws:
        from posenc_cli.render.figures.similarities import similarity_figure

        side = _PANEL if len(judged) <= 2 else _SMALL_PANEL
        rows = 1 if len(judged) == 1 else 2 * -(-len(judged) // _ACROSS)
        room = side * min(max(2, len(judged)), _ACROSS), side * rows
        figure = similarity_figure(judged, profile_alone=profile, bounded=bounded)
        show(figure, picture, output, console, usual=None if profile else room)
    if output.json:
        from posenc_cli.render.figures.similarities import compared_fields_of

        size = {} if saved is None else {"bytes": saved.bytes}
        fields = compared_fields_of(parts, judged, bounded=bounded)
        console.json("dot-similarity", {**fields, **output.path_fields, **size})
    elif not draws:
        look = replace(picture, title=None)
        _print(judged, look, output, console, profile=profile, bounded=bounded)


def _parts(
    subjects: Subjects,
    normalize: Literal["dot", "cosine"],
    asked: Sequence[str],
    head: int | None,
    *,
    bounded: bool,
) -> list[SimilarityPart]:
    """Return the similarities asked for, in the order of the command line.

    Raises: InvalidInput if no named encoding has what is asked for.
    """
    from posenc_cli.analysis.similarity import part_of_array, parts_of
    from posenc_cli.files.reading import read_array

    places = dict(enumerate(subjects.items))
    choices = {
        place: item.at_default() for place, item in places.items() if isinstance(item, Choice)
    }
    contents = tuple(dict.fromkeys(asked))
    if not choices:
        given = {"--bound": bounded, "--content": next(iter(contents), None), "--head": head}
        refuse(given, "cannot go with --in")
    parts = parts_of(
        choices,
        contents=contents,  # type: ignore[arg-type] # one of CONTENTS each
        normalize=normalize,
        head=head,
    )
    if bounded and all(part.similarity.bound is None for part in parts):
        names = ", ".join(dict.fromkeys(part.short for part in parts))
        raise InvalidInput(
            f"--bound: {names} has no pairs rotated by the position alone",
            hint="--scheme rope has",
        )
    parts += [
        part_of_array(read_array(item), name=quoted_name(item), normalize=normalize, place=place)
        for place, item in places.items()
        if not isinstance(item, Choice)
    ]
    return sorted(parts, key=lambda part: part.subject)


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

    Raises: InvalidInput if a file of numbers cannot hold what is asked for.
    """
    from posenc_cli.analysis.profile import Profile
    from posenc_cli.analysis.verdict import verdict

    if len(parts) > 1:
        raise InvalidInput(
            f"--out {quoted_name(output.out or '')} holds one matrix, but {len(parts)} encodings "
            "are given",
            hint="write them one by one, or draw them: --out similarity.png",
        )
    part, subject = parts[0], parts[0].similarity
    if subject.content == "independent":
        raise InvalidInput(
            f"--out {quoted_name(output.out or '')}: independent q and k have a mean (0 "
            "everywhere) and a deviation, but no matrix",
            hint="--json has both, and --out similarity.png draws them",
        )
    if profile:
        matrix = replace(verdict(subject).matrix(dtype, part.metadata), header=not form.binary)
    else:
        matrix = subject.matrix(dtype, part.engine, part.metadata)
    matrix = output.watch(matrix, console, may_overflow=not isinstance(subject.source, Profile))

    def announce(saved: Saved) -> None:
        what = f"{subject.quantity} by offset" if profile else subject.quantity
        console.done(
            f"wrote {output.place}: {subject.name}, {what}, {sizes_text(matrix.shape, ' × ')} "
            f"{dtype.name}, {saved.bytes} bytes"
        )

    return save(matrix, output.out or "", format=form, clobber=output.clobber, announce=announce)


def _judged(parts: Sequence[SimilarityPart], console: Console) -> list[Judged]:
    """Return each similarity with its verdict, and warn of products that are not finite."""
    from posenc_cli.analysis.verdict import verdict
    from posenc_cli.render.figures.similarities import judged_of

    judged = judged_of(parts, [verdict(part.similarity) for part in parts])
    for subject, result in ((item.similarity, item.verdict) for item in judged):
        if result.dropped:
            sampled = "" if result.measured_all else "sampled "
            console.warning(
                f"{subject.name}: left out {result.dropped} of {result.pairs} {sampled}products, "
                "which are not finite"
            )
    return judged


def _print(
    judged: Sequence[Judged],
    look: ColorPictureOptions,
    output: SimilarityOutput,
    console: Console,
    *,
    profile: bool,
    bounded: bool,
) -> None:
    """Print the maps and curves, then the verdicts; on a terminal, they fit the screen.

    If the maps of several encodings have no room, a line says so.
    """
    from posenc_cli.render.figures.similarities import similarity_figure
    from posenc_cli.render.terminal.text_pictures import LOWEST

    words = _words(judged, look, console, bounded=bounded)
    height = look.height or _PAGE
    if look.height is None and sys.stdout.isatty():
        height = console.height - 1 - len(words)
    stacked = len(judged) > 1 or console.width < _BESIDE  # maps stand above their curves
    missing = []
    least = _ROOM_FOR_MAPS if len(judged) > 1 else _ROOM_FOR_ONE
    if stacked and not profile and height < least:
        profile, height = True, height - 1
        missing.append("maps")
    measures = {item.similarity.measure for item in judged}  # each has axes of its own
    if len(judged) > 1 and height < _LEAST_CURVES * -(-len(measures) // 2):
        missing.append("curves")
    else:
        figure = similarity_figure(judged, profile_alone=profile, bounded=bounded)
        show(figure, replace(look, height=max(LOWEST, height)), output, console)
    if missing:
        words.append(f"no room here for the {' and the '.join(missing)}; --out NAME.png draws them")
    print("\n".join(words))


def _words(
    judged: Sequence[Judged], look: ColorPictureOptions, console: Console, *, bounded: bool
) -> list[str]:
    """Return the lines of one verdict, or of a table of several and what else has room."""
    from posenc_cli.render.figures.similarities import (
        COLUMNS,
        compared_sentences,
        sentences,
        verdict_rows,
    )

    if len(judged) == 1:
        told = sentences(judged[0].similarity, judged[0].verdict, bounded=bounded)
        return wrapped_lines(told, look, console)
    table = console.typesetter.table(COLUMNS, verdict_rows(judged)).split("\n")
    words = wrapped_lines(compared_sentences(judged, bounded=bounded), look, console)
    if sys.stdout.isatty() and look.height is None:
        room = max(0, console.height - _LEAST_CURVES - len(table) - 3)
        words = words if len(words) <= room else [*words[:room], "…; --json has all"]
    return [*table, *words]

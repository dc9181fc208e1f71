"""``posenc dot-similarity``: how similar positions are, by distance."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Literal

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import at_first_positions
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixOutput
from posenc_cli.cli.options import number_format_option, option, refuse, whole_option
from posenc_cli.cli.pictures import IMAGES, ColorPictureOptions, page_of, show, wrapped_lines
from posenc_cli.cli.subjects import Subjects
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.formats import format_of, save
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.similarity import SimilarityPart
    from posenc_cli.files.formats import Saved
    from posenc_cli.files.matrix import Format
    from posenc_cli.render.figure import Figure
    from posenc_cli.render.figures.similarities import Judged

PRODUCTS = ("dot", "cosine")
CONTENTS = ("ones", "random", "independent")

_PANEL, _WIDEST = 825, 9600
"""Pixels of one panel of a figure in a file, and the most for all panels side by side."""

_CURVE_HEIGHT = 13
_LEAST_CURVE = 14
"""Minimum lines for the curves of several encodings; text and rows are cut to leave this room."""
_FEWEST_ROWS = 3
"""Minimum rows of a table of several encodings."""
_NO_ROOM = "no room here for {}; --out NAME.png draws them"
_POINTS = 320
"""Points of a curve in the terminal."""

_PANEL_WIDTH = 60
"""Terminal columns of each set of axes; at least two stand side by side in any terminal."""

_LOWEST_MAP, _HIGHEST_MAP = 22, 44
"""Smallest and largest height, in lines, of a map that does not go to a screen."""

_BESIDE = 76
"""Terminal width from which a map and a curve stand side by side."""


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
    json: Annotated[
        bool,
        option(
            "--json",
            help="print the verdict and the values by offset as JSON, at most 16384 offsets "
            "(--profile --out FILE has all)",
        ),
    ] = False


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
            help="for rotary schemes, q and k before the rotation: ones|random (normal, the "
            "same for both)|independent (normal, drawn separately: mean and deviation); "
            "repeatable [default: ones]",
        ),
    ] = None,
    head: Annotated[
        int | None,
        whole_option("--head", metavar="H", minimum=0, help="head of a bias [default: 0]"),
    ] = None,
    bounded: Annotated[
        bool,
        option("--bound", help="for rotary schemes: also draw RoFormer's bound (Su et al. 2021)"),
    ] = False,
    profile: Annotated[
        bool, option("--profile", help="show only the values by offset m − n, not the matrix")
    ] = False,
    dtype: Annotated[
        DType | None,
        number_format_option(
            "--dtype",
            help=f"number format of the written matrix: {'|'.join(REAL_DTYPES)} [default: float32]",
        ),
    ] = None,
    picture: ColorPictureOptions,
    output: SimilarityOutput,
) -> None:
    """Show how similar the encodings of two positions are.

    Shows the matrix S[m, n], its values by offset m − n, and whether S depends on the offset alone.
    For absolute encodings, S is the dot product of two rows. For RoPE, it is q·k / d for one vector
    rotated to positions m and n, with the attention factor. For biases, it is the score added for
    query m and key n. Several encodings share one set of axes if their measures are the same,
    above a table of their differences. With --content random, the curve is the mean of many draws,
    and the band holds 5–95 % of them. Without --len, the first 512 positions are compared.

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
    _check(picture, output, dtype, writes=form is not None)
    output.prepare()
    parts = _parts(subjects, normalize, contents or (), head, bounded=bounded)
    saved = None
    if form is not None:
        saved = _save(parts, output, form, dtype or FLOAT32, console, profile=profile)
        if not output.json:
            return
    judged = _judged(parts, console)
    if draws:
        _draw(judged, picture, output, console, profile=profile, bounded=bounded)
    if output.json:
        from posenc_cli.render.figures.similarities import compared_fields_of

        size = {} if saved is None else {"bytes": saved.bytes}
        fields = compared_fields_of(parts, judged, bounded=bounded)
        console.json("dot-similarity", {**fields, **output.path_fields, **size})
    elif not draws:
        look, told = replace(picture, title=None), {"profile": profile, "bounded": bounded}
        print("\n".join(_print_pictures(judged, look, output, console, **told)))


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
        place: at_first_positions(item)
        for place, item in places.items()
        if isinstance(item, Choice)
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


def _check(
    picture: ColorPictureOptions, output: SimilarityOutput, dtype: DType | None, *, writes: bool
) -> None:
    """Reject options on a picture if numbers are written, and the reverse."""
    if writes:
        refuse(picture.given, f"goes with a picture; --out {output.place} holds numbers")
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

    Raises: InvalidInput if a file of numbers cannot hold what is asked for.
    """
    from posenc_cli.analysis.profile import Profile
    from posenc_cli.analysis.verdict import verdict

    if len(parts) > 1:
        raise InvalidInput(
            f"--out {output.place}: holds one matrix, but {len(parts)} encodings are given",
            hint="write them one by one, or draw them: --out similarity.png",
        )
    part, subject = parts[0], parts[0].similarity
    if subject.content == "independent":
        raise InvalidInput(
            f"--out {output.place}: independent q and k have a mean (0 everywhere) and a "
            "deviation, but no matrix",
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
        console.done(
            f"wrote {output.place}: {subject.name}, {what}, {size} {dtype.name}, "
            f"{saved.bytes} bytes"
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


def _print_pictures(
    judged: Sequence[Judged],
    look: ColorPictureOptions,
    output: SimilarityOutput,
    console: Console,
    *,
    profile: bool,
    bounded: bool,
) -> list[str]:
    """Print the maps and curves that fit above the verdicts, and return the lines of the verdicts.

    On a terminal the pictures fill the screen, the map beside the curve if it is wide enough.
    Pictures that do not fit are left out, and a line says so.
    """
    from posenc_cli.render.figures.similarities import similarity_figure
    from posenc_cli.render.terminal.text_pictures import LOWEST

    profile = profile or _has_no_map(judged)
    words = _words(judged, look, console, bounded=bounded)
    page, several = page_of(look, console), len(judged) > 1
    fills = sys.stdout.isatty() and look.height is None
    room = max(LOWEST, page.height - len(words)) if fills else look.height and page.height
    if not several and not profile and room is not None and page.width >= _BESIDE:
        both = similarity_figure(judged, bounded=bounded)
        show(both, replace(look, height=room), output, console)
        return words
    curves, height = _curves(judged, page.width, bounded=bounded)
    if fills and room is not None and room < height // 2 and hasattr(curves, "panels"):
        words += wrapped_lines([_NO_ROOM.format("curves")], look, console)
        return words
    if several and not profile and room is not None and room < height + _LOWEST_MAP:
        profile, room = True, max(LOWEST, room - 1)
        words += wrapped_lines([_NO_ROOM.format("the maps")], look, console)
    if room is not None:
        height = room if profile else max(LOWEST, min(room // 2, height))
    if not profile:
        _print_maps(judged, look, output, console, room and max(LOWEST, room - height))
    show(curves, replace(look, height=height), output, console)
    return words


def _curves(judged: Sequence[Judged], width: int, *, bounded: bool) -> tuple[Figure, int]:
    """Return the curves by offset, and their height in lines on a page of this width."""
    from posenc_cli.render.figure import Panels
    from posenc_cli.render.figures.similarities import profile_figures

    curves = profile_figures(judged, most=_POINTS, bounded=bounded)
    height = _CURVE_HEIGHT
    if len(judged) > 1:
        across, named = max(2, width // _PANEL_WIDTH), max(len(each.curves) for each in curves)
        height = (_CURVE_HEIGHT + 2 * named) * -(-len(curves) // across)
    if len(curves) == 1:
        return curves[0], height
    return Panels(tuple(curves), title="by offset m − n", shared=False), height


def _print_maps(
    judged: Sequence[Judged],
    look: ColorPictureOptions,
    output: SimilarityOutput,
    console: Console,
    lines: int | None,
) -> None:
    """Print the maps in ``lines`` lines, or at their usual height if None."""
    from posenc_cli.render.figures.similarities import maps_figure

    usual = max(_LOWEST_MAP, min(console.height - _CURVE_HEIGHT - 6, _HIGHEST_MAP))
    show(maps_figure(judged), replace(look, height=lines or usual), output, console)


def _words(
    judged: Sequence[Judged], look: ColorPictureOptions, console: Console, *, bounded: bool
) -> list[str]:
    """Return the lines of one verdict, or a table of several cut to fit the screen."""
    if len(judged) == 1:
        from posenc_cli.render.figures.similarities import sentences

        told = sentences(judged[0].similarity, judged[0].verdict, bounded=bounded)
        return wrapped_lines(told, look, console)
    from posenc_cli.render.figures.similarities import (
        COLUMNS,
        compared_sentences,
        verdict_rows,
    )

    rows, told = verdict_rows(judged), compared_sentences(judged, bounded=bounded)
    table = console.typesetter.table(COLUMNS, rows).split("\n")
    words = wrapped_lines(told, look, console)
    if sys.stdout.isatty() and look.height is None:
        room = page_of(look, console).height - _LEAST_CURVE
        kept, shown = len(told), len(rows)
        while len(table) + len(words) > room and (kept > 1 or shown > _FEWEST_ROWS):
            kept, shown = (kept - 1, shown) if kept > 1 else (kept, shown - 1)
            fewer = f"the table shows {shown} of {len(rows)} rows; --json has all"
            names = dict.fromkeys(text.split(":")[0] for text in told[kept:])
            left_out = f"left out for lack of room: {', '.join(names)}" if names else ""
            lines = [fewer if shown < len(rows) else "", *told[:kept], left_out]
            words = wrapped_lines([*filter(None, lines)], look, console)
            table = console.typesetter.table(COLUMNS, rows[:shown]).split("\n")
    return [*table, *words]


def _draw(
    judged: Sequence[Judged],
    look: ColorPictureOptions,
    output: SimilarityOutput,
    console: Console,
    *,
    profile: bool,
    bounded: bool,
) -> None:
    """Save the maps and the curves as a figure."""
    from posenc_cli.render.figures.similarities import similarity_figure

    profile = profile or _has_no_map(judged)
    usual = min(_PANEL * len(judged), _WIDEST), 2 * _PANEL
    if len(judged) == 1:
        usual = 2 * _PANEL, _PANEL
    show(
        similarity_figure(judged, profile_alone=profile, bounded=bounded),
        *(look, output, console),
        usual=None if profile else usual,
    )


def _has_no_map(judged: Sequence[Judged]) -> bool:
    """Whether all similarities are means that are 0 everywhere."""
    return all(item.is_mean for item in judged)

"""Pictures of encodings: matplotlib figures, similarities and spectra."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from posenc_cli.analysis.similarity import (
    Normalization,
    QueryKeyContent,
    SimilarityPart,
    part_of_array,
    parts_of,
)
from posenc_cli.analysis.verdict import Verdict, verdict
from posenc_cli.api.arguments import (
    ArgumentError,
    EncodingLike,
    PositionsLike,
    Shaped,
    check_unused,
    checked_choice,
    choice_at,
    in_arguments,
)
from posenc_cli.api.arrays import arrays_and_choices, is_array, loaded_array
from posenc_cli.api.notebooks import NotebookReport
from posenc_cli.errors import abbreviated
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record
from posenc_cli.render.drawing.image import drawn_page, png_of
from posenc_cli.render.figures.columns import FIRST_OF_CURVES, column_figure, curves_of
from posenc_cli.render.figures.encoded import figure_of, figure_of_array, figure_of_choice
from posenc_cli.render.figures.similarities import (
    COLUMNS,
    Judged,
    compared_fields_of,
    compared_sentences,
    judged_of,
    sentences,
    similarity_figure,
    verdict_rows,
)
from posenc_cli.render.figures.spectra import (
    SpectrumReport,
    choice_report,
    compared_report,
)
from posenc_cli.render.style import LARGEST, PALETTES, SMALLEST, Style, Theme
from posenc_cli.render.typesetting import Typesetter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure as Page

    from posenc_cli.choice import Choice
    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.arrays import RealRows
    from posenc_cli.render.figure import Figure

    Several = Sequence[EncodingLike | Shaped]


@in_arguments
def heatmap(
    subject: EncodingLike | Shaped,
    positions: PositionsLike | None = None,
    *,
    table: str | None = None,
    head: int | None = None,
    columns: range | None = None,
    split: bool = True,
    width: int | None = None,
    height: int | None = None,
    dpi: int | None = None,
    theme: Theme = "light",
    cmap: str | None = None,
    **parameters: object,
) -> Page:
    """Draw an encoding or an array as colors: a matplotlib figure, which a notebook shows.

    Args:
        subject: an encoding as for `encode`, or an array or a tensor.
        positions, table, head, parameters: of an encoding, as for `encode`.
        columns: the columns to draw.
        split: whether to draw sines and cosines separately.
        width, height: in pixels, at ``dpi`` pixels per inch.
        theme, cmap: the colors: ``light`` or ``dark``, and the name of a color map.

    Raises: ValueError if an argument is wrong; Unavailable without matplotlib.
    """
    style = _style(width, height, dpi, theme=theme, cmap=cmap)
    figure = _figure(
        *(subject, positions, parameters, table, columns),
        of_array=partial(figure_of_array, head=head, dims=columns),
        of_choice=lambda choice: figure_of_choice(
            choice, table, head, partial(figure_of, dims=columns, split=split)
        ),
    )
    return drawn_page(figure, style)


@in_arguments
def curve(
    subject: EncodingLike | Shaped,
    positions: PositionsLike | None = None,
    *,
    table: str | None = None,
    head: int | None = None,
    columns: range | None = None,
    width: int | None = None,
    height: int | None = None,
    dpi: int | None = None,
    theme: Theme = "light",
    **parameters: object,
) -> Page:
    """Columns over the positions as lines, or a bias by offset: a matplotlib figure.

    Args:
        subject: an encoding as for `encode`, or an array or a tensor.
        positions, table, head, parameters: of an encoding, as for `encode`.
        columns: the columns to draw; by default six at most, from the first to the last.
        width, height, dpi, theme: as for `heatmap`.

    Raises: ValueError if an argument is wrong; Unavailable without matplotlib.
    """
    style = _style(width, height, dpi, theme=theme)
    figure = _figure(
        *(subject, positions, parameters, table, columns),
        of_array=lambda loaded: curves_of(
            figure_of_array(loaded, head=head, dims=columns), all_of_them=columns is not None
        ),
        of_choice=lambda choice: figure_of_choice(
            choice, table, head, partial(column_figure, dims=columns), first=FIRST_OF_CURVES
        ),
    )
    return drawn_page(figure, style)


def _figure(
    subject: object,
    positions: PositionsLike | None,
    parameters: Mapping[str, Any],
    table: str | None,
    columns: range | None,
    *,
    of_array: Callable[[Loaded], Figure],
    of_choice: Callable[[Choice], tuple[Figure, Any]],
) -> Figure:
    """Return the figure of an array, or of an encoding at positions.

    Raises: ArgumentError if there are no such columns, or if parameters of an encoding are passed
        with an array.
    """
    if columns is not None and not (isinstance(columns, range) and len(columns)):
        raise ArgumentError("columns: must be a range that is not empty")
    if is_array(subject):
        check_unused(positions=positions, table=table, **parameters)
        return of_array(loaded_array(subject, "array"))
    return of_choice(choice_at(subject, positions, parameters))[0]


def _style(width: int | None, height: int | None, dpi: int | None, **look: Any) -> Style:
    """Return the style of a figure.

    Raises: ArgumentError for a size outside the limits.
    """
    checked_choice("theme", look["theme"], PALETTES)
    sides = range(SMALLEST, LARGEST + 1)
    for name, value, allowed in (
        ("width", width, sides),
        ("height", height, sides),
        ("dpi", dpi, range(10, 1201)),
    ):
        if value is not None and value not in allowed:
            rule = f"{allowed.start} to {allowed[-1]}"
            raise ArgumentError(f"{name} {abbreviated(str(value))}: must be {rule}")
    return Style.of(width, height, dpi, **look)


class SimilarityReport(NotebookReport, Record):
    """The similarity of positions: ``str()`` is the findings, and a notebook shows the figure.

    ``parts`` are the similarities. ``verdicts`` says for each whether it depends only on the
    offset, and how S falls with it.
    """

    parts: tuple[SimilarityPart, ...]
    verdicts: tuple[Verdict, ...]
    bounded: bool = False

    @property
    def verdict(self) -> Verdict:
        """The verdict on the first similarity."""
        return self.verdicts[0]

    def matrix(self) -> RealRows:
        """S[m, n] of the first similarity in float64: (positions, positions).

        Raises: ValueError if S is a mean over random draws, which has no matrix.
        """
        part = self.parts[0]
        if part.similarity.content == "independent":
            raise ArgumentError("content 'independent' has a mean and a deviation, but no matrix")
        matrix = part.similarity.matrix(FLOAT64, part.engine, {})
        return np.concatenate(list(matrix.blocks())).reshape(matrix.shape)

    def as_json(self) -> dict[str, Any]:
        """Return the output of ``posenc dot-similarity --json``, as a dict of plain values."""
        fields = compared_fields_of(self.parts, self._judged, bounded=self.bounded)
        return {"schema": "posenc/dot-similarity/1", **fields}

    def figure(
        self, *, width: int | None = None, height: int | None = None, theme: Theme = "light"
    ) -> Page:
        """Return the maps and the values by offset, as a matplotlib figure."""
        drawn = similarity_figure(self._judged, bounded=self.bounded)
        rows = 1 if len(self.parts) == 1 else 2
        sides = width or 825 * max(2, len(self.parts)), height or 825 * rows
        return drawn_page(drawn, _style(*sides, None, theme=theme))

    def __str__(self) -> str:
        if len(self.parts) == 1:
            told = sentences(self.parts[0].similarity, self.verdict, bounded=self.bounded)
            return _paragraphs(told)
        table = Typesetter().table(COLUMNS, verdict_rows(self._judged))
        return f"{table}\n{_paragraphs(compared_sentences(self._judged, bounded=self.bounded))}"

    def _repr_png_(self) -> bytes:
        return png_of(self.figure())

    @property
    def in_short(self) -> str:
        """The names of its subjects."""
        return ", ".join(dict.fromkeys(part.short for part in self.parts))

    @property
    def _judged(self) -> list[Judged]:
        return judged_of(self.parts, self.verdicts)


@in_arguments
def similarity(
    subject: EncodingLike | Shaped | Several,
    positions: PositionsLike | None = None,
    *,
    content: QueryKeyContent | Sequence[QueryKeyContent] | None = None,
    normalize: Normalization = "dot",
    head: int | None = None,
    bound: bool = False,
    **parameters: object,
) -> SimilarityReport:
    """Return the similarity of positions, S[m, n], and whether it depends only on their distance.

    Args:
        subject: an encoding as for `encode`, or an array or a tensor whose rows are compared; or a
            list, for one report on all of them.
        content: what q and k hold, for a rotary encoding: ``ones``, ``random`` or ``independent``,
            or several of these.
        normalize: ``dot`` or ``cosine``.
        head: one head of a bias.
        bound: whether to show RoFormer's bound with the values of rotary encodings.

    Raises: ValueError if an argument is wrong.

    >>> print(similarity("sinusoidal", 64, dim=16))  # doctest: +ELLIPSIS
    depends only on m − n: yes, by definition...
    """
    checked_choice("normalize", normalize, get_args(Normalization))
    contents = (content,) if isinstance(content, str) else tuple(content or ())
    for asked in contents:
        checked_choice("content", asked, get_args(QueryKeyContent))
    arrays, choices = arrays_and_choices(subject, positions, parameters)
    for choice in choices.values():
        if choice.parts:
            raise ArgumentError(f"encoding {choice.name!r} is several encodings; give one")
    parts = [
        part_of_array(loaded, name=name, normalize=normalize, place=place)
        for place, (name, loaded) in arrays.items()
    ]
    if choices:
        parts += parts_of(choices, contents=contents, normalize=normalize, head=head)
    parts.sort(key=lambda part: part.subject)
    if bound and all(part.similarity.bound is None for part in parts):
        raise ArgumentError(
            "bound applies only to rotary encodings whose pairs rotate with the position"
        )
    verdicts = tuple(verdict(part.similarity) for part in parts)
    return SimilarityReport(tuple(parts), verdicts, bool(bound))


class Spectrum(NotebookReport, SpectrumReport):
    """The waves of an encoding: ``str()`` is the table and its notes."""

    def as_json(self) -> dict[str, Any]:
        """Return the output of ``posenc spectrum --json``, as a dict of plain values."""
        return {"schema": "posenc/spectrum/1", **self.fields}

    def figure(self, *, width: int = 1200, height: int = 800, theme: Theme = "light") -> Page:
        """Return the figure as one of matplotlib's."""
        return drawn_page(self.picture, _style(width, height, None, theme=theme))

    def __str__(self) -> str:
        table = Typesetter().table(self.columns, self.rows)
        return f"{table}\n{_paragraphs(self.notes(len(self.rows)))}"

    def _repr_png_(self) -> bytes:
        return png_of(self.figure())

    @property
    def in_short(self) -> str:
        """The names of its subjects."""
        return ", ".join(dict.fromkeys(subject.short for subject in self.subjects))


@in_arguments
def spectrum(
    subject: EncodingLike | Several,
    positions: PositionsLike | None = None,
    **parameters: object,
) -> Spectrum:
    """Return the waves of an encoding.

    Args:
        subject: an encoding as for `encode`; or a list, for one set of axes and the differences of
            each from the first.
        positions: those over which rotations are counted; by default those of the model's context,
            or 4096.

    Raises: ValueError if an argument is wrong, or an encoding is not made of waves.
    """
    arrays, choices = arrays_and_choices(subject, positions, parameters)
    if arrays:
        raise ArgumentError("subject: must be an encoding; an array has no declared wavelengths")
    reports = [choice_report(choice) for choice in choices.values()]
    report = reports[0] if len(reports) == 1 else compared_report(reports)
    return Spectrum(**report.as_dict())


def _paragraphs(texts: list[str]) -> str:
    return "\n".join(Typesetter().paragraph(text) for text in texts)

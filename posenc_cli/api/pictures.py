"""What an encoding looks like: figures of matplotlib's, similarities and spectra."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from posenc_cli.analysis.parts import SimilarityPart, part_of_array, parts_of
from posenc_cli.analysis.similarity import Normalization, QueryKeyContent
from posenc_cli.analysis.verdict import Verdict, verdict
from posenc_cli.api.arguments import (
    ArgumentError,
    GivenPositions,
    checked_choice,
    choice_of,
    in_arguments,
)
from posenc_cli.api.arrays import is_array
from posenc_cli.api.checking import loaded_array
from posenc_cli.errors import abbreviated
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record
from posenc_cli.render.encoded import figure_of, figure_of_choice
from posenc_cli.render.image import drawn_page
from posenc_cli.render.similarities import sentences, similarity_fields, similarity_figure
from posenc_cli.render.spectra import SpectrumReport, choice_report, file_report
from posenc_cli.render.stored import figure_of_array
from posenc_cli.render.style import LARGEST, PALETTES, SMALLEST, Style
from posenc_cli.render.typesetting import Typesetter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure as Page

    from posenc_cli.api.arguments import EncodingLike, PositionsLike, Shaped
    from posenc_cli.choice import Choice
    from posenc_cli.numerics.arrays import RealRows
    from posenc_cli.render.style import Theme


def _choice(
    encoding: object, positions: PositionsLike | None, parameters: Mapping[str, Any]
) -> Choice:
    given = None if positions is None else GivenPositions.of(positions)
    return choice_of(encoding, given.positions if given else None, parameters)


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
    """An encoding or an array as colours: a figure of matplotlib's, which a notebook shows.

    Args:
        subject: an encoding as for `encode`, or an array or a tensor.
        positions, table, head, parameters: of an encoding, as for `encode`.
        columns: those to draw.
        split: whether sines and cosines stand apart.
        width, height: in pixels, at ``dpi`` pixels an inch.
        theme, cmap: the colours: ``light`` or ``dark``, and the name of a colour map.

    Raises: ValueError where an argument is wrong; Unavailable without matplotlib.
    """
    style = _style(width, height, dpi, theme=theme, cmap=cmap)
    if columns is not None and not (isinstance(columns, range) and len(columns)):
        raise ArgumentError("columns: must be a range of some")
    if is_array(subject):
        loaded = loaded_array(subject, "array")
        figure = figure_of_array(loaded, head=head, dims=columns, split=split)
    else:
        choice = _choice(subject, positions, parameters)
        draw = partial(figure_of, dims=columns, split=split)
        figure, _ = figure_of_choice(choice, table, head, draw)
    return drawn_page(figure, style)


def _style(width: int | None, height: int | None, dpi: int | None, **look: Any) -> Style:
    """How a figure looks.

    Raises: ArgumentError for a size that no figure has.
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


class SimilarityReport(Record):
    """How alike positions are: ``str()`` says what was found, and a notebook shows the figure.

    ``verdict`` says whether only the offset counts, and how S falls with it.
    """

    part: SimilarityPart
    verdict: Verdict

    def matrix(self) -> RealRows:
        """S[m, n] in float64: (positions, positions).

        Raises: ValueError where S is a mean over draws, which has no matrix.
        """
        if self.part.similarity.content == "independent":
            raise ArgumentError("content 'independent': of it there are a mean and a deviation")
        matrix = self.part.similarity.matrix(FLOAT64, self.part.engine, {})
        return np.concatenate(list(matrix.blocks())).reshape(matrix.shape)

    def as_json(self) -> dict[str, Any]:
        """What ``posenc dot-similarity --json`` prints, as a dict of plain values."""
        fields = similarity_fields(self.part.similarity, self.verdict)
        return {"schema": "posenc/dot-similarity/1", **self.part.fields, **fields}

    def figure(self, *, width: int = 1650, height: int = 825, theme: Theme = "light") -> Page:
        """The map and the values by offset, as a figure of matplotlib's."""
        drawn = similarity_figure([(self.part.similarity, self.verdict)])
        return drawn_page(drawn, _style(width, height, None, theme=theme))

    def __str__(self) -> str:
        return _paragraphs(sentences(self.part.similarity, self.verdict))

    def _repr_png_(self) -> bytes:
        return _png(self.figure())


@in_arguments
def similarity(
    subject: EncodingLike | Shaped,
    positions: PositionsLike | None = None,
    *,
    content: QueryKeyContent | None = None,
    normalize: Normalization = "dot",
    head: int | None = None,
    **parameters: object,
) -> SimilarityReport:
    """How alike positions are, S[m, n], and whether that depends on their distance alone.

    Args:
        subject: one encoding as for `encode`, or an array or a tensor whose rows are compared.
        content: of a rotary one what q and k hold: ``ones``, ``random`` or ``independent``.
        normalize: ``dot`` or ``cosine``.
        head: of a bias.

    Raises: ValueError where an argument is wrong.

    >>> print(similarity("sinusoidal", 64, dim=16))  # doctest: +ELLIPSIS
    depends only on m − n: yes, by its declaration...
    """
    checked_choice("normalize", normalize, get_args(Normalization))
    if content is not None:
        checked_choice("content", content, get_args(QueryKeyContent))
    if is_array(subject):
        part = part_of_array(loaded_array(subject, "array"), name="array", normalize=normalize)
    else:
        choice = _choice(subject, positions, parameters)
        parts = parts_of(choice, content=content, normalize=normalize, head=head)
        if len(parts) > 1:
            raise ArgumentError(f"encoding {choice.name!r}: is several encodings; look at each")
        part = parts[0]
    return SimilarityReport(part, verdict(part.similarity))


class Spectrum(SpectrumReport):
    """The waves of an encoding: ``str()`` is the table and what it says."""

    def as_json(self) -> dict[str, Any]:
        """What ``posenc spectrum --json`` prints, as a dict of plain values."""
        return {"schema": "posenc/spectrum/1", **self.fields}

    def figure(self, *, width: int = 1200, height: int = 800, theme: Theme = "light") -> Page:
        """The figure as one of matplotlib's.

        Raises: ValueError where no column changes, so that there is nothing to draw.
        """
        return drawn_page(self.drawable(), _style(width, height, None, theme=theme))

    def __str__(self) -> str:
        typesetter = Typesetter()
        table = typesetter.table(self.columns, self.rows)
        return f"{table}\n{_paragraphs(self.notes(len(self.rows)))}"

    def _repr_png_(self) -> bytes | None:
        return None if self.curves is None else _png(self.figure())


@in_arguments
def spectrum(
    subject: EncodingLike | Shaped, positions: PositionsLike | None = None, **parameters: object
) -> Spectrum:
    """The waves of an encoding; of an array, and of what has no waves, the power of its columns.

    Args:
        subject: an encoding as for `encode`, or an array or a tensor.
        positions: in which turns are counted; else those of the model's context, or 4096.

    Raises: ValueError where an argument is wrong, or the encoding is a bias.
    """
    if is_array(subject):
        report = file_report(loaded_array(subject, "array"), name="array")
    else:
        report = choice_report(_choice(subject, positions, parameters))
    return Spectrum(**report.as_dict())


def _paragraphs(texts: list[str]) -> str:
    return "\n".join(Typesetter().paragraph(text) for text in texts)


def _png(page: Page) -> bytes:
    content = io.BytesIO()
    page.savefig(content, format="png")
    return content.getvalue()

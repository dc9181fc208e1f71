"""Collect the figures of one encoding on one page, in the order of a lecture.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.analysis.sampling import spread
from posenc_cli.analysis.similarity import parts_of
from posenc_cli.analysis.verdict import verdict
from posenc_cli.positions import Positions
from posenc_cli.render.figures.circles import rotated_pairs
from posenc_cli.render.figures.encoded import figure_of, figure_of_choice
from posenc_cli.render.figures.similarities import judged_of, sentences, similarity_figure
from posenc_cli.render.figures.spectra import choice_report
from posenc_cli.render.html.live import ladder_of
from posenc_cli.render.html.page import Section

if TYPE_CHECKING:
    from posenc_cli.choice import Choice

_ROWS, _OFFSETS = 80, 256
"""Default numbers of positions of the map and of the similarity."""
_CLOCKS = 8
_FINDINGS = 3
"""The number of sentences with findings on a similarity; later ones name options."""


def lecture_of(choice: Choice) -> list[Section]:
    """Return sections on an encoding and its effect on attention: values, waves, clocks, scores.

    Raises: InvalidInput if the choice is a hybrid, or its positions cannot be drawn.
    """
    content = choice.encoding().bound.content
    table, _ = figure_of_choice(choice, None, None, figure_of, first=_ROWS)
    what = "what is added to scores" if content.heads is not None else "the values"
    sections = [Section(table, f"1. {what[:1].upper()}{what[1:]}", _VALUES[what])]
    if content.waves is not None:
        report = choice_report(choice)
        words = f"{_WAVES} {report.sentences[0][:1].upper()}{report.sentences[0][1:]}."
        heading = f"{len(sections) + 1}. The wavelengths"
        sections.append(Section(report.picture, heading, words, ladder_of(choice)))
    if choice.scheme.kind == "rotary":
        sections.append(_rotation_section(choice, f"{len(sections) + 1}. The rotation"))
    sections.append(_similarity_section(choice, f"{len(sections) + 1}. Similarity by distance"))
    return sections


_VALUES = {
    "the values": "Each row is a position, and each column a dimension.",
    "what is added to scores": "Each row is a query, and each column a key; a map for each head.",
}
_WAVES = (
    "A pair of dimensions rotates once within its wavelength. Move a slider to change the base or "
    "the factor of a context extension."
)
_ROTATION = (
    "In each pair, q at position m rotates by m·θ and k at position n by n·θ. Move both by as "
    "much: the angle between them stays, and so does q·k."
)


def _rotation_section(choice: Choice, heading: str) -> Section:
    """Return a section with some pairs as clocks, at positions up to the context."""
    count = choice.encoding().bound.rotation.waves.count
    pairs = Positions.parse(",".join(map(str, spread(count, _CLOCKS))))
    rotated = rotated_pairs(choice, pairs)
    clocks = rotated.clocks()
    return Section(rotated.figure, heading, _ROTATION if clocks else "", clocks)


def _similarity_section(choice: Choice, heading: str) -> Section:
    """Return a section with S by position and by offset, and the verdict."""
    if choice.positions is None:
        choice = choice.at_first(_OFFSETS)
    parts = parts_of({0: choice})
    judged = judged_of(parts, [verdict(part.similarity) for part in parts])
    findings = sentences(judged[0].similarity, judged[0].verdict)[:_FINDINGS]
    words = ". ".join(f"{line[:1].upper()}{line[1:]}" for line in findings)
    return Section(similarity_figure(judged), heading, f"{words}.")

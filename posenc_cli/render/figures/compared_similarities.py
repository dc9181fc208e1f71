"""Several similarities in words: a table of the verdicts, and what sets each apart from the first.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.differences import profile_difference
from posenc_cli.analysis.similarity import DRAWS, SEED
from posenc_cli.render.figures.similarities import (
    SHOWS,
    bound_sentences,
    evidence_of,
    similarity_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.differences import ProfileDifference
    from posenc_cli.analysis.parts import SimilarityPart
    from posenc_cli.render.figures.profiles import Judged

COLUMNS = ["", "m − n alone", "even", "at 0", "half at", "farthest from the first"]
_EVIDENCE = {"declaration": "declared", "measured": "measured", "sample": "in a sample"}


def differences_of(judged: Sequence[Judged]) -> list[ProfileDifference | None]:
    """What sets each but the first apart from the first of its measure."""
    return [
        profile_difference(
            *((each.similarity, each.verdict) for each in (_reference(judged, item), item))
        )
        for item in judged[1:]
    ]


def _reference(judged: Sequence[Judged], item: Judged) -> Judged:
    """What an encoding is compared with: the first of its measure."""
    return next(each for each in judged if each.similarity.measure == item.similarity.measure)


def verdict_rows(judged: Sequence[Judged]) -> list[list[str]]:
    """The rows of a table of `COLUMNS`."""
    differences = [None, *differences_of(judged)]
    return [
        _row(item, _reference(judged, item), difference)
        for item, difference in zip(judged, differences, strict=True)
    ]


def _row(item: Judged, reference: Judged, difference: ProfileDifference | None) -> list[str]:
    verdict = item.verdict
    answer = f"{'yes' if verdict.toeplitz else 'no'}, {_EVIDENCE[evidence_of(verdict)]}"
    half = "never"
    if verdict.half_within is not None:
        half = f"by {verdict.half_within}"
    elif verdict.half_distance is not None:
        half = str(verdict.half_distance)
    if item.similarity.of_scores and half != "never":
        half += " (weight)"
    if not verdict.peak > 0 and not item.similarity.of_scores:
        half = "–"
    apart = "" if item is reference else "–"
    if difference is not None and item is not reference:
        apart = (
            "same"
            if not difference.differing
            else (
                f"{difference.largest:+.3g} at {difference.at}; "
                f"{difference.differing} of {difference.offsets} differ"
            )
        )
    even = "yes" if verdict.symmetric else "no"
    name = f"{item.short}, one draw" if item.similarity.is_drawn else item.short
    return [name, answer, even, f"{verdict.peak:.4g}", half, apart]


def compared_sentences(judged: Sequence[Judged], *, bounded: bool = False) -> list[str]:
    """What is to be said below the table; ``bounded`` adds how near RoFormer's bounds come."""
    differences = [difference for difference in differences_of(judged) if difference]
    contents = dict.fromkeys(
        item.similarity.content for item in judged if item.similarity.content is not None
    )
    lines: list[str] = []
    if any(item.similarity.of_scores for item in judged):
        lines.append("half at: of a bias, where the weight of attention halves; else where S does")
    if any(item.similarity.is_drawn for item in judged):
        lines.append(f"one draw: the row is of seed {SEED}; its curve is the mean of {DRAWS} draws")
    if differences:
        of = "values" if all(difference.exact for difference in differences) else "means"
        where = "all offsets of both"
        if not all(difference.complete for difference in differences):
            where = "the offsets looked at, a sample"
        lines.append(f"farthest from the first of its measure: {of} by offset, at {where}")
    if bounded:
        lines += dict.fromkeys(
            f"{item.short}: {sentence}"
            for item in judged
            for sentence in bound_sentences(item.similarity, item.verdict)
        )
    return [*lines, *(SHOWS[content] for content in contents)]


def compared_fields_of(
    parts: Sequence[SimilarityPart], judged: Sequence[Judged], *, bounded: bool
) -> dict[str, Any]:
    """What was asked and what was found, as JSON has it; of several, of each, and how they differ.

    ``bounded`` adds RoFormer's bound.
    """
    fields = [
        {**part.fields, **similarity_fields(item.similarity, item.verdict, bounded=bounded)}
        for part, item in zip(parts, judged, strict=True)
    ]
    if len(fields) == 1:
        return fields[0]
    named = [{"name": item.label, **own} for item, own in zip(judged, fields, strict=True)]
    return {"parts": named, "differences": _difference_fields(judged)}


def _difference_fields(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    fields = []
    for item, difference in zip(judged[1:], differences_of(judged), strict=True):
        reference = _reference(judged, item)
        entry: dict[str, Any] = {"first": reference.place, "other": item.place}
        if difference is None or reference is item:
            fields.append({**entry, "compared": False})
            continue
        largest = difference.largest if math.isfinite(difference.largest) else None  # it overflows
        fields.append({**entry, "compared": True, **difference.as_dict(), "largest": largest})
    return fields

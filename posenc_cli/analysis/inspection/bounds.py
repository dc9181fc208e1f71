"""How large cells are, where that is looked at, and however far positions go."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.inspection.property import InspectedEncoding, Property
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.analysis.inspection.inspected import InspectedRows


class Extremes(Record):
    """The largest cell, the shortest and the longest row, each with its row, and what is no number.

    ``not_finite`` is the first row that holds such.
    """

    largest: tuple[float, int]
    shortest: tuple[float, int]
    longest: tuple[float, int]
    not_finite: int | None


def extremes_of(inspected: InspectedRows) -> Extremes:
    """What one pass over the rows tells."""
    largest, shortest, longest = (-1.0, 0), (math.inf, 0), (-1.0, 0)
    not_finite = None
    for begin, block in inspected.blocks():
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            not_finite = begin + int(np.argmin(finite))
            break
        cells = np.abs(block).max(axis=1, initial=0)
        sizes = np.where(cells > 0, cells, 1.0)
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(block / sizes[:, None], axis=1) * sizes
        row, short, long = int(np.argmax(cells)), int(np.argmin(lengths)), int(np.argmax(lengths))
        largest = max(largest, (float(cells[row]), begin + row), key=lambda pair: pair[0])
        shortest = min(shortest, (float(lengths[short]), begin + short), key=lambda pair: pair[0])
        longest = max(longest, (float(lengths[long]), begin + long), key=lambda pair: pair[0])
    return Extremes(largest, shortest, longest, not_finite)


def bounded(subject: InspectedEncoding, extremes: Extremes) -> Property:
    """Whether cells stay below some number, however far positions go."""
    name = "bounded"
    if extremes.not_finite is not None:
        at = (subject.inspected.place(extremes.not_finite),)
        return Property(name, False, None, at, reason="a value is not finite")
    largest, at = extremes.largest[0], (subject.inspected.place(extremes.largest[1]),)
    declared = _declared_bound(subject)
    if declared is not None:
        limit, reason = declared
        if limit is None or limit == math.inf:
            return Property(name, limit is None, largest, at, "proved", reason)
        return Property(name, True, limit, None, "proved", reason)
    more = subject.content is not None and not _looked_at_all(subject)
    reason = "of the rows sampled" if more else "of all rows"
    return Property(name, True, largest, at, reason=reason, sample="verdict" if more else None)


def _declared_bound(subject: InspectedEncoding) -> tuple[float | None, str] | None:
    """The least bound that the declaration shows, infinite where there is none, and why.

    None in place of the bound where that is the largest cell of a table; None where nothing is
    said.
    """
    content, waves = subject.content, subject.waves
    if content is None:
        return None
    if waves is not None:
        if waves.growth is not None:
            rates = (math.log(base) / waves.growth.span for base in waves.growth.bases(exact))
            grows = any(rate > 0 for rate in rates)
            return (math.inf, "its amplitudes grow without end") if grows else None
        functions = {placement.function for placement in content.columns().placements}
        limit = float(waves.scale) if functions - {"zero"} else 0.0
        return limit, "no sine or cosine is larger than its scale"
    if content.limit is not None:
        without_end = content.limit == math.inf
        reason = (
            "its formula grows without end" if without_end else "no value is larger, by the formula"
        )
        return content.limit, reason
    ends = content.farthest is not None or content.capacity is not None
    tabled = content.weights is not None and content.network is None
    if tabled and (content.heads is not None or ends):
        return None, "the table has no other values"
    return None


def _looked_at_all(subject: InspectedEncoding) -> bool:
    """Whether there are no positions past those looked at."""
    request, content = subject.request, subject.content
    if request is None or content is None or content.capacity is None:
        return request is None
    positions = request.row_positions()
    return positions.count == content.capacity.positions

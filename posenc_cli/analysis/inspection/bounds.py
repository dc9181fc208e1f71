"""How large cells are, where that is looked at, and however far positions go."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.inspection.property import InspectedEncoding, Property, score_rule_of
from posenc_cli.analysis.sampling import positions_of
from posenc_cli.errors import InvalidInput
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.inspection.inspected import InspectedRows
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Request


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
    far = _far_cells(subject) if subject.request is not None else []
    if not far:
        more = subject.content is not None and not _looked_at_all(subject)
        reason = "of the rows sampled" if more else "of all rows"
        return Property(name, True, largest, at, reason=reason, sample="verdict" if more else None)
    if _keep_growing([largest, *(cell for _, cell in far)]):
        place, cell = next((pair for pair in far if math.isinf(pair[1])), far[-1])
        size = f"{cell:.3g}" if math.isfinite(cell) else "more than float64 holds"
        reason = f"grows at every doubling of the position, to {size} at {place}"
        return Property(name, False, largest, at, reason=reason, sample="verdict")
    highest = max(largest, *(cell for _, cell in far))
    reason = f"does not keep growing: at most {highest:.3g} at doublings up to {far[-1][0]}"
    return Property(name, True, largest, at, reason=reason, sample="verdict")


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
            return None
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


def _far_cells(subject: InspectedEncoding) -> list[tuple[int, float]]:
    """The largest cell at each doubling of the last position, as far as the scheme has some.

    None where the code of a scheme of one's own refuses such positions.
    """
    request, inspected = subject.request, subject.inspected
    assert request is not None
    content = request.encoding.bound.content
    if content.by == "pair":
        return []
    last = LARGEST_POSITION
    if content.capacity is not None:
        last = min(last, content.capacity.positions - 1)
    ends = inspected.place(0), inspected.place(inspected.rows.count - 1)
    place, places = 2 * max(1, *map(abs, ends)), list[int]()
    while place <= last:
        places.append(place)
        place *= 2
    if not places:
        return []
    try:
        return [*zip(places, _largest_cells(request, places, subject.engine), strict=True)]
    except InvalidInput:
        return []


def _largest_cells(request: Request, places: list[int], engine: Engine) -> list[float]:
    """The largest cell of each of some rows; of a bias by the offset those of keys before."""
    content = request.encoding.bound.content
    if content.heads is None:
        matrix = request.plan_at(positions_of(places)).matrix(engine)
        rows = np.concatenate([*matrix.blocks()])  # (places, width)
    else:
        rule = score_rule_of(request, engine)
        indices = np.array(places, np.int64) * (1 if content.by == "key" else -1)
        with request.scheme.answerable():
            rows = np.stack([rule(head, indices) for head in range(content.heads)], axis=1)
    largest: list[float] = np.abs(rows).max(axis=1, initial=0).tolist()
    return largest


def _keep_growing(cells: Sequence[float]) -> bool:
    """Whether cells grow at each step, and no less at the end than about as at the start.

    >>> _keep_growing([1, 2, 4, 8, 16]), _keep_growing([1, 2, 3, 4, 5])
    (True, True)
    >>> _keep_growing([1, 1.5, 1.75, 1.875, 1.9375]), _keep_growing([1, 2, 1, 2, 1])
    (False, False)
    >>> _keep_growing([1, math.inf, math.inf])
    True
    """
    finite = [*itertools.takewhile(math.isfinite, cells)]
    steps = [after - before for before, after in itertools.pairwise(finite)]
    if min(steps, default=1) <= 0:
        return False
    return len(finite) < len(cells) or (len(steps) > 3 and steps[-1] >= steps[0] / 4)

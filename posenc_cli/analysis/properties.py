"""What an encoding is like: its properties, each with a number, where it is, and how it is known.

A verdict is *proved* where the declaration of the scheme shows that it covers every pair of the
positions looked at, or every position there is; elsewhere it is *measured* on the rows looked at.

- Waves that each have as many sines as cosines, all by the position, give rows of one length, at
  distances that depend on the offset alone, and the next row by a fixed rotation
  (:mod:`posenc_cli.analysis.profile`, :mod:`posenc_cli.analysis.distances`).
- A cell of waves that do not grow is at most their scale. A learned table of which no row is drawn
  later holds no more than it holds.
- A bias by the offset, and a row of an offset, depend on the distance by what they are.
- How many positions there are is declared.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.distances import distinct_rows, nearest_rows, nearest_waves
from posenc_cli.analysis.fading import decay
from posenc_cli.analysis.inspected import inspected_array, inspected_rows
from posenc_cli.analysis.products import MatrixRows
from posenc_cli.analysis.profile import wave_weights
from posenc_cli.analysis.property_names import PROPERTIES
from posenc_cli.analysis.sampling import positions_of
from posenc_cli.analysis.shift import linear_shift, rotation_residual
from posenc_cli.analysis.similarity import similarity, similarity_of_array
from posenc_cli.analysis.verdict import verdict
from posenc_cli.encoding.arrays import position_array
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.request import Encoding
from posenc_cli.encoding.scores import score_rule, scores_between
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16
from posenc_cli.positions import LARGEST_POSITION, Positions
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.analysis.inspected import InspectedRows
    from posenc_cli.analysis.shift import LinearShift
    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.verdict import Verdict
    from posenc_cli.encoding.request import Request
    from posenc_cli.encoding.scores import ScoreRule
    from posenc_cli.files.reading import Loaded
    from posenc_cli.formulas.declare import Content, Waves
    from posenc_cli.numerics.arrays import RealRows, Reals
    from posenc_cli.numerics.dtypes import DType

HowKnown = Literal["proved", "measured"]
Sampled = Literal["value", "verdict"]

STEPS = 5
"""How often an inspection tells that it has come further."""

SAME_EVERYWHERE = "rows are the same everywhere"


class Property(Record):
    """A property: whether it ``holds`` (None: it does not apply), its value, and where that is.

    ``reason`` says why, ``at`` names positions, or offsets, keys or rows as the inspection does.
    ``sample`` says that not all that the value, or the verdict too, speaks of was looked at;
    ``details`` are further numbers.
    """

    name: str
    holds: bool | None
    value: float | None = None
    at: tuple[int, ...] | None = None
    evidence: HowKnown = "measured"
    reason: str = ""
    sample: Sampled | None = None
    details: Mapping[str, Any] = fresh(dict)


class Cost(Record):
    """What applying an encoding takes, its table at hand: so many operations of a sort, each time.

    Of a token and head, queries and keys together are turned.
    """

    operations: int
    sort: Literal["additions", "multiply-adds"]
    per: Literal["token", "token and head", "score"]

    @property
    def text(self) -> str:
        """In words."""
        if not self.operations:
            return "nothing"
        sort = self.sort.removesuffix("s") if self.operations == 1 else self.sort
        return f"{self.operations} {sort} a {self.per}"


class Inspection(Record):
    """The properties of one encoding or file, and what was looked at.

    ``parameters`` counts the numbers that are trained; it and ``cost`` are None of a file.
    """

    name: str
    kind: str | None
    params: Mapping[str, Any]
    looked_at: str
    axis: str
    count: int
    properties: tuple[Property, ...]
    parameters: int | None = None
    cost: Cost | None = None
    random_weights: str | None = None
    shift: LinearShift | None = None

    def property(self, name: str) -> Property:
        """The property of a name."""
        return next(known for known in self.properties if known.name == name)


class _Inspected(Record):
    """What is inspected: its rows, and what its declaration says where it has one.

    ``weights`` count each wave where all have as many sines as cosines.
    """

    inspected: InspectedRows
    engine: Engine
    request: Request | None = None
    loaded: Loaded | None = None
    name: str = ""

    @property
    def content(self) -> Content | None:
        return None if self.request is None else self.request.encoding.bound.content

    @property
    def kind(self) -> str | None:
        return None if self.request is None else self.request.scheme.kind

    @property
    def waves(self) -> Waves | None:
        return None if self.content is None else self.content.waves

    @property
    def weights(self) -> Reals | None:
        """How often each wave has a sine and a cosine; None where one lacks some, or it grows."""
        if self.content is None or self.waves is None or self.waves.growth is not None:
            return None
        return wave_weights(self.waves.count, self.content.columns().placements)

    @property
    def complete(self) -> bool:
        """Whether the declaration shows that rows at one offset differ by one rotation."""
        waves = self.waves
        by_position = waves is not None and waves.count > 0 and waves.coordinates is None
        return by_position and self.weights is not None

    @property
    def unused(self) -> bool:
        """Whether the rows are declared not to depend on positions."""
        return self.content is not None and self.content.positions == "unused"


class _Extremes(Record):
    """The largest cell, the shortest and the longest row, each with its row, and what is no number.

    ``not_finite`` is the first row that holds such.
    """

    largest: tuple[float, int]
    shortest: tuple[float, int]
    longest: tuple[float, int]
    not_finite: int | None


def inspection(
    request: Request,
    engine: Engine,
    *,
    fit: int | None = None,
    name: str | None = None,
    step: Callable[[], None] = lambda: None,
) -> Inspection:
    """What an encoding is like at its positions; the linear map is fitted on ``fit`` rows.

    ``step`` is called some `STEPS` times, as properties are known.

    Raises: InvalidInput where the request is, or asks for too much.
    """
    bound, content = request.encoding.bound, request.encoding.bound.content
    subject = _Inspected(inspected_rows(request, engine), engine, request)
    kind = bound.scheme.kind
    return _inspection(
        subject,
        fit,
        step,
        name=name or bound.scheme.name,
        kind=kind,
        params=dict(bound.params),
        parameters=content.trained,
        cost=_cost(kind, content),
        random_weights=request.random_weights,
    )


def inspection_of_array(
    loaded: Loaded, *, name: str, fit: int | None = None, step: Callable[[], None] = lambda: None
) -> Inspection:
    """What the rows of an array are like, all of it measured.

    Raises: InvalidInput unless it is a matrix of no more than is looked at.
    """
    subject = _Inspected(inspected_array(loaded, name=name), Engine(), loaded=loaded, name=name)
    return _inspection(subject, fit, step, name=name, kind=None, params={})


def _inspection(
    subject: _Inspected, fit: int | None, step: Callable[[], None], **fields: Any
) -> Inspection:
    inspected = subject.inspected
    extremes = _extremes(inspected)
    known: dict[str, Property] = {}
    shift = None
    known["bounded"] = _bounded(subject, extremes)
    known["defined-beyond"] = _defined_beyond(subject)
    if extremes.not_finite is None:
        step()
        known["unique"] = _unique(subject)
        step()
        known["norm"] = _norm(subject, extremes)
        shifts, shift = _shifts(subject, fit)
        known |= shifts
        step()
        known |= _by_distance(subject)
        for dtype in (FLOAT16, BFLOAT16):
            step()
            known[f"distinct-{dtype.name}"] = _distinct(subject, dtype)
    else:
        place = inspected.place(extremes.not_finite)
        reason = f"{inspected.axis} {place} holds what is no finite number"
        for name in PROPERTIES.keys() - known.keys():
            known[name] = Property(name, None, reason=reason)
    return Inspection(
        looked_at=inspected.text,
        axis=inspected.axis,
        count=inspected.rows.count,
        properties=tuple(known[name] for name in PROPERTIES),
        shift=shift,
        **fields,
    )


def _extremes(inspected: InspectedRows) -> _Extremes:
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
    return _Extremes(largest, shortest, longest, not_finite)


def _unique(subject: _Inspected) -> Property:
    """Whether no two rows are the same: the smallest distance of two, and of which."""
    inspected = subject.inspected
    if inspected.rows.count < 2:
        return Property("unique", None, reason="there is one row")
    if subject.unused:
        at = inspected.place(0), inspected.place(1)
        return Property("unique", False, 0.0, at, "proved", SAME_EVERYWHERE)
    if subject.complete and inspected.step is not None and subject.content is not None:
        assert subject.waves is not None
        assert subject.weights is not None
        nearest = nearest_waves(
            subject.waves,
            subject.weights,
            count=inspected.rows.count,
            step=inspected.step,
            engine=subject.engine,
        )
        evidence: HowKnown = "proved"
        reason = "distances depend on the offset alone, and every offset was looked at"
    else:
        nearest, evidence = nearest_rows(inspected.rows), "measured"
        reason = "the nearest of all pairs of rows"
        if nearest.sampled:
            reason = (
                "no two rows are the same; the distance is that of a sample, of each row and the "
                "nearest before it"
            )
    at = inspected.place(nearest.pair[0]), inspected.place(nearest.pair[1])
    sample: Sampled | None = "value" if nearest.sampled else None
    details = {}
    if inspected.axis == "offset" and inspected.of_scores:
        mirrored = _mirrored(subject)
        details["mirrored"] = mirrored
        reason += "; keys after the query have " + (
            "the scores of those before it" if mirrored else "other scores than those before it"
        )
    return Property(
        "unique", nearest.distance > 0, nearest.distance, at, evidence, reason, sample, details
    )


def _mirrored(subject: _Inspected) -> bool:
    """Whether a bias is the same at each offset after the query as at that before it."""
    request, inspected = subject.request, subject.inspected
    assert request is not None
    rule = _score_rule(request, subject.engine)
    offsets = position_array(inspected.places)
    with request.scheme.answerable():
        after = np.stack([rule(head, -offsets) for head in range(inspected.rows.width)], axis=1)
    return bool(np.array_equal(after, inspected.rows.read(range(inspected.rows.count))))


def _bounded(subject: _Inspected, extremes: _Extremes) -> Property:
    """Whether cells stay below some number, however far positions go."""
    name = "bounded"
    if extremes.not_finite is not None:
        at = (subject.inspected.place(extremes.not_finite),)
        return Property(name, False, None, at, reason="a cell is no finite number")
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
        reason = "of the rows that were looked at" if more else "of all rows that there are"
        return Property(name, True, largest, at, reason=reason, sample="verdict" if more else None)
    if _keep_growing([largest, *(cell for _, cell in far)]):
        place, cell = next((pair for pair in far if math.isinf(pair[1])), far[-1])
        size = f"{cell:.3g}" if math.isfinite(cell) else "more than float64 holds"
        reason = f"grows at every doubling of the position, to {size} at {place}"
        return Property(name, False, largest, at, reason=reason, sample="verdict")
    highest = max(largest, *(cell for _, cell in far))
    reason = f"does not keep growing: at most {highest:.3g} at doublings up to {far[-1][0]}"
    return Property(name, True, largest, at, reason=reason, sample="verdict")


def _declared_bound(subject: _Inspected) -> tuple[float | None, str] | None:
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
        reason = "its formula grows without end" if without_end else "no cell is larger, by formula"
        return content.limit, reason
    ends = content.farthest is not None or content.capacity is not None
    tabled = content.weights is not None and content.network is None
    if tabled and (content.heads is not None or ends):
        return None, "a table has no other values"
    return None


def _looked_at_all(subject: _Inspected) -> bool:
    """Whether there are no positions past those looked at."""
    request, content = subject.request, subject.content
    if request is None or content is None or content.capacity is None:
        return request is None
    positions = request.row_positions()
    return positions.count == content.capacity.positions


def _far_cells(subject: _Inspected) -> list[tuple[int, float]]:
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
        rule = _score_rule(request, engine)
        indices = np.array(places, np.int64) * (1 if content.by == "key" else -1)
        with request.scheme.answerable():
            rows = np.stack([rule(head, indices) for head in range(content.heads)], axis=1)
    largest: list[float] = np.abs(rows).max(axis=1, initial=0).tolist()
    return largest


def _score_rule(request: Request, engine: Engine) -> ScoreRule:
    content, lookup = request.encoding.bound.content, request.encoding.lookup
    return score_rule(content, lookup, precision=request.precision, engine=engine)


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


def _norm(subject: _Inspected, extremes: _Extremes) -> Property:
    """Whether all rows have one length: the longest less the shortest, and of which rows."""
    inspected, weights = subject.inspected, subject.weights
    if inspected.of_scores:
        return Property("norm", None, evidence="proved", reason="a bias has scores, not vectors")
    if subject.waves is not None and weights is not None:
        length = float(subject.waves.scale) * math.sqrt(float(weights.sum()))
        reason = f"each pair has one length: {length:.6g} together"
        return Property("norm", True, 0.0, None, "proved", reason, details={"length": length})
    if subject.unused:
        return Property("norm", True, 0.0, None, "proved", SAME_EVERYWHERE)
    (short, first), (long, second) = extremes.shortest, extremes.longest
    if math.isinf(long):
        return Property("norm", None, reason="lengths are past what float64 holds")
    spread = long - short
    tolerance = 2 * (2 * inspected.rows.unit + (inspected.rows.width + 2) * 2.0**-53) * long
    at = inspected.place(first), inspected.place(second)
    return Property(
        "norm",
        spread <= tolerance,
        spread,
        at,
        reason=f"lengths from {short:.4g} to {long:.4g}",
        details={"shortest": short, "longest": long, "tolerance": tolerance},
    )


def _shifts(subject: _Inspected, fit: int | None) -> tuple[dict[str, Property], LinearShift | None]:
    """Whether the next row is a fixed linear map of a row: where it was fitted, and beyond."""
    inspected = subject.inspected
    names = "linear-shift", "linear-shift-held-out"
    reason = ""
    if inspected.of_scores:
        reason = "a bias has scores, not rows that are mapped"
    elif inspected.step is None:
        reason = "the positions are unevenly spaced"
    elif inspected.rows.count < 3:
        reason = "there are fewer than three rows"
    if reason:
        evidence: HowKnown = "proved" if inspected.of_scores else "measured"
        none = {name: Property(name, None, evidence=evidence, reason=reason) for name in names}
        return none, None
    shift = linear_shift(inspected, fit)
    ends = f"{inspected.axis}s {inspected.place(0)} … {inspected.place(shift.count - 1)}"
    details: dict[str, Any] = {
        "fitted_on": [inspected.place(0), inspected.place(shift.count - 1)],
        "rank": shift.rank,
        "tolerance": shift.tolerance,
    }
    exactly = subject.complete
    if exactly:
        rotated = _rotated(subject)
        details["rotation"] = rotated
        holds: bool | None = True
        reason = f"the exact rotation of each pair leaves {rotated:.2g} on all rows"
    elif shift.trivial:
        holds, reason = None, f"{shift.count} independent rows are fitted by any map"
    else:
        holds = shift.fitted.value <= shift.tolerance
        reason = f"the least-squares map on {ends}"
    here = Property(
        names[0],
        holds,
        shift.fitted.value,
        (inspected.place(shift.fitted.row),),
        "proved" if exactly else "measured",
        reason,
        details=details,
    )
    held = shift.held_out()
    if held is None:
        reason = "every row was fitted, and none is left"
        return {here.name: here, names[1]: Property(names[1], None, reason=reason)}, shift
    if shift.trivial:
        reason = f"{shift.count} independent rows are fitted by any map, and tell nothing of others"
        beyond = Property(names[1], None, held.value, reason=reason)
        return {here.name: here, beyond.name: beyond}, shift
    beyond = Property(
        names[1],
        held.rounded,
        held.value,
        (inspected.place(held.row),),
        reason=f"the least-squares map fitted on {ends}, on the rows beyond",
        details={**details, "tolerance": held.allowed},
    )
    return {here.name: here, beyond.name: beyond}, shift


def _rotated(subject: _Inspected) -> float:
    """What the exact rotation by one step leaves, in float64."""
    request, inspected, waves = subject.request, subject.inspected, subject.waves
    assert request is not None
    assert waves is not None
    assert inspected.step is not None
    plan = request.plan_at(Positions.contiguous(inspected.step, 1))
    (step_row,) = np.concatenate([*plan.matrix(subject.engine).blocks()])
    placements = request.encoding.bound.content.columns().placements
    return rotation_residual(inspected, placements, step_row, float(waves.scale)).value


def _by_distance(subject: _Inspected) -> dict[str, Property]:
    """Whether scores depend on the distance alone, and whether they fall with it."""
    inspected, request = subject.inspected, subject.request
    if subject.kind == "relative":
        reason = "a row is of an offset: scores are q · row"
        return {
            "relative": Property("relative", True, 0.0, None, "proved", reason),
            "decay": Property("decay", None, evidence="proved", reason=f"{reason}, and q decides"),
        }
    if inspected.rows.count < 2 and not inspected.of_scores:
        reason = "there is one row"
        return {name: Property(name, None, reason=reason) for name in ("relative", "decay")}
    if request is not None:
        alike = similarity(request, subject.engine)
        if isinstance(alike.source, MatrixRows):
            alike = replace(alike, source=alike.source.in_memory())
    else:
        assert subject.loaded is not None
        loaded = subject.loaded
        alike = similarity_of_array(loaded.values, loaded.dtype, name=subject.name)
    try:
        judged = _verdict(subject, alike)
    except InvalidInput as error:
        return {name: Property(name, None, reason=error.message) for name in ("relative", "decay")}
    return {
        "relative": _relative(subject, judged),
        "decay": Property(name="decay", **decay(request, subject.engine, alike, judged)),
    }


def _verdict(subject: _Inspected, alike: Similarity) -> Verdict:
    """The verdict on a similarity; of scores that differ otherwise from head to head the worst."""
    request, content = subject.request, subject.content
    if request is None or content is None or content.by not in ("key", "pair"):
        return verdict(alike)
    judged = [
        verdict(similarity(replace(request, head=head), subject.engine))
        for head in range(content.heads or 0)
    ]
    worst = max(judged, key=lambda each: (not each.affine_rows, each.spread))
    return replace(worst, toeplitz=all(each.toeplitz for each in judged))


def _relative(subject: _Inspected, judged: Verdict) -> Property:
    evidence: HowKnown = "measured" if judged.proof is None else "proved"
    if judged.affine_rows and not judged.toeplitz:
        reason = (
            "a score goes by the key; a step of both adds the same to all keys, which the softmax "
            "takes out"
        )
        return Property("relative", True, 0.0, None, reason=reason)
    if subject.unused:
        reason = SAME_EVERYWHERE
        return Property("relative", True, 0.0, None, "proved", reason)
    sample: Sampled | None = None
    reason = judged.proof or f"all {judged.all_pairs} pairs of positions were looked at"
    if not judged.measured_all:
        # One pair of another score is enough to show that it does not hold.
        sample = "verdict" if judged.toeplitz else "value"
        reason = f"in a sample of {judged.pairs} of {judged.all_pairs} pairs of positions"
    spread = judged.spread if math.isfinite(judged.spread) else None
    return Property(
        "relative",
        judged.toeplitz,
        spread,
        None,
        evidence,
        reason,
        sample,
        {"tolerance": judged.tolerance},
    )


def _defined_beyond(subject: _Inspected) -> Property:
    """Whether there are positions past every table: else how many there are."""
    name, content, request = "defined-beyond", subject.content, subject.request
    if content is None or request is None:
        count = subject.inspected.rows.count
        return Property(name, False, count, reason="a file has the rows that it has")
    changed = _follows_length(subject)
    follows = "; at twice the length, values are others" if changed else ""
    capacity = content.capacity
    if capacity is not None and not changed and capacity.positions in _lengths(request).values():
        reason = "a longer sequence has more positions, and the last row is the same in it"
        return Property(name, True, None, None, "measured", reason)
    if capacity is None:
        reason = "a formula gives any position" if content.weights is None else "rows go on"
        if content.network is not None:
            reason = "a network gives any position"
        elif content.weights is not None and (content.farthest or content.heads):
            reason = "offsets past the farthest share a row"
        return Property(name, True, None, None, "proved", f"{reason}{follows}")
    reason = f"{capacity.reason}{follows}"
    return Property(name, False, capacity.positions, None, "proved", reason)


def _lengths(request: Request) -> dict[str, int]:
    """The parameters of an encoding that are lengths of the sequence, where they are settled."""
    bound = request.encoding.bound
    declared = bound.scheme.parameters
    return {
        name: value
        for name, value in bound.params.items()
        if value is not None and declared[name].rules.follows_length
    }


def _follows_length(subject: _Inspected) -> bool:
    """Whether the last row is another where the sequence is twice as long."""
    request, inspected = subject.request, subject.inspected
    assert request is not None
    lengths = _lengths(request)
    if not lengths:
        return False
    params = request.encoding.bound.params
    given = {name: value for name, value in params.items() if value is not None}
    longer = {**given, **{name: 2 * length for name, length in lengths.items()}}
    other = replace(request, encoding=Encoding.of(request.scheme, longer, seq_len=None))
    here, there = (_last_values(each, inspected, subject.engine) for each in (request, other))
    return not np.array_equal(here, there)


def _last_values(request: Request, inspected: InspectedRows, engine: Engine) -> RealRows:
    """The last row of an encoding, of a bias the score of the last query and the first key."""
    last = inspected.place(inspected.rows.count - 1)
    if not inspected.of_scores:
        return np.concatenate(
            [*request.plan_at(Positions.contiguous(last, 1)).matrix(engine).blocks()]
        )
    positions = request.row_positions()
    ends = (np.array([place], np.int64) for place in (positions.last, positions.first))
    content, rule = request.encoding.bound.content, _score_rule(request, engine)
    with request.scheme.answerable():
        return scores_between(content, rule, 0, *ends)


def _distinct(subject: _Inspected, dtype: DType) -> Property:
    """Whether rows are still told apart when their cells are rounded to a number format."""
    inspected = subject.inspected
    count = inspected.rows.count
    distinct = distinct_rows(inspected.rounded(dtype), count)
    at = None
    reason = f"{distinct.count} of {count} rows"
    if distinct.first is not None:
        at = inspected.place(distinct.first[0]), inspected.place(distinct.first[1])
        reason += f"; the first that is as one before it is at {at[1]}"
    return Property(f"distinct-{dtype.name}", at is None, distinct.count, at, reason=reason)


def _cost(kind: str, content: Content) -> Cost:
    if content.positions == "unused":
        return Cost(0, "additions", "token")
    if kind == "absolute":
        return Cost(content.width, "additions", "token")
    if kind == "rotary":
        # Two products and a sum for each column of q and of k.
        return Cost(4 * content.width, "multiply-adds", "token and head")
    if kind == "bias":
        return Cost(1, "additions", "score")
    return Cost(content.width, "multiply-adds", "score")

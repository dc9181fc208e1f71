"""Test the properties of an encoding; each result has a number, a place, and how it is known.

A verdict is *proved* if the scheme's declaration covers every pair of the inspected positions, or
every possible position. Otherwise it is *measured* on the inspected rows.

- If each wave has as many sines as cosines and follows only the position, all rows have one norm.
  Their distances depend only on the offset, and the next row is a fixed rotation
  (:mod:`posenc_cli.analysis.profile`, :mod:`posenc_cli.analysis.inspection.distances`).
- An entry of waves that do not grow is at most their scale. A learned table without randomly
  initialized later rows has no larger value than its largest entry.
- A bias by the offset, and a row of an offset, depend on the distance by definition.
- The number of positions is declared.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.inspection import PROPERTIES
from posenc_cli.analysis.inspection.distances import distinct_rows, nearest_rows, nearest_waves
from posenc_cli.analysis.inspection.inspected import (
    MOST_SCORES,
    MOST_WAVE_CELLS,
    HowKnown,
    InspectedEncoding,
    InspectedRows,
    Inspection,
    Property,
    Sampled,
    inspected_array,
    inspected_rows,
    linear_shift,
    rotation_residual,
    score_rule_of,
)
from posenc_cli.analysis.products import MatrixRows
from posenc_cli.analysis.similarity import (
    Similarity,
    finite_or_none,
    similarity,
    similarity_of_array,
)
from posenc_cli.analysis.verdict import Verdict, verdict
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.encoding.scores import scores_between
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT64, DType
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.choice import Choice
    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows


class Extremes(Record):
    """The largest entry, and the shortest and the longest row, each with its row number.

    ``not_finite`` is the first row with a NaN or an infinity.
    """

    largest: tuple[float, int]
    shortest: tuple[float, int]
    longest: tuple[float, int]
    not_finite: int | None


def extremes_of(inspected: InspectedRows) -> Extremes:
    """Return the extremes of all rows, from one pass over them."""
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
    """Return whether entries stay below some number, however far positions go."""
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
    more = not _inspects_all(subject)
    reason = "of the rows sampled" if more else "of all rows"
    return Property(name, True, largest, at, reason=reason, sample="verdict" if more else None)


def _declared_bound(subject: InspectedEncoding) -> tuple[float | None, str] | None:
    """Return the smallest bound that the declaration proves, and the reason.

    The bound is infinite if entries grow without end, and None if it is the largest entry of a
    table. The result is None if the declaration proves nothing.
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
        return limit, "no sine or cosine exceeds its scale"
    if content.limit is not None:
        without_end = content.limit == math.inf
        reason = "its formula grows without end" if without_end else "the formula gives this bound"
        return content.limit, reason
    ends = content.farthest is not None or content.capacity is not None
    tabled = content.weights is not None and content.network is None
    if tabled and (content.heads is not None or ends):
        return None, "the table has no other values"
    return None


def _inspects_all(subject: InspectedEncoding) -> bool:
    """Return whether the inspected positions are all there are."""
    request, content = subject.request, subject.content
    if request is None or content is None:
        return True  # a file has only its own rows
    capacity = content.capacity
    return capacity is not None and request.row_positions().count == capacity.positions


def decay(
    request: Request | None, engine: Engine, alike: Similarity, judged: Verdict
) -> dict[str, Any]:
    """Return the distance from which similarity stays below half of its value at 0.

    Waves come back, so the last few distances may be below half by chance: the farther half of all
    distances must be. Returns the fields of a property. An array from a file has no ``request``.
    """
    past = judged.offsets >= 0
    distances, values = judged.offsets[past], judged.profile[past]
    inspects_all = judged.measured_all and len(distances) == alike.count
    if len(distances) < 2:
        return {"holds": None, "reason": "there is only one distance"}
    if request is not None and request.encoding.bound.content.heads is not None:
        return _head_decay(request, engine, judged, distances)
    peak = float(values[0])
    if not peak > 0:
        return {"holds": None, "reason": "a row has no similarity to itself"}
    fields = _decay_fields(distances, values < peak / 2)
    if not inspects_all:
        fields["sample"] = "verdict"
        fields["reason"] += ", in a sample of pairs"
    if alike.content is None:
        fields["reason"] = f"dot products of rows, {fields['reason']}"
        return fields
    assert request is not None
    fields["reason"] = f"equal q and k: {fields['reason']}"
    below = np.flatnonzero(values < 0)
    fields["details"] = {
        "negative_from": int(distances[below[0]]) if below.size else None,
        **_content_details(request, engine, alike, int(distances[-1])),
    }
    return fields


def _decay_fields(distances: Integers, below: Flags) -> dict[str, Any]:
    """Return the verdict from the flags of ascending distances that are below half."""
    above = np.flatnonzero(~below)
    last = int(above[-1]) if above.size else -1
    end = int(distances[-1])
    if last == len(distances) - 1:
        reason = f"not below half at distance {end}, the last"
        return {"holds": False, "value": None, "reason": reason}
    start = int(distances[last + 1])
    if 2 * start > end:
        reason = f"below half only from {start} to {end}, not over the farther half"
        return {"holds": False, "value": start, "reason": reason}
    return {"holds": True, "value": start, "reason": f"below half from {start} to {end}"}


def _content_details(
    request: Request, engine: Engine, alike: Similarity, last: int
) -> dict[str, Any]:
    """Return values for equal and for independent q and k, and the bound, at some distances."""
    step = alike.step or 1
    distances = sorted({0, *(step * 10**power for power in range(16)), last})
    offsets = np.array([distance for distance in distances if distance <= last], np.int64)
    apart = similarity(request, engine, content="independent")
    details: dict[str, Any] = {"distances": offsets.tolist()}
    deviation = apart.deviation(offsets)
    assert deviation is not None
    details["independent"] = {"mean": 0.0, "deviation": finite_or_none(deviation)}
    bound = alike.bound
    if bound is not None and bound.constant is not None:
        details["bound"] = finite_or_none(bound.constant * bound.average(offsets))
    return details


def _head_decay(
    request: Request, engine: Engine, judged: Verdict, distances: Integers
) -> dict[str, Any]:
    """Return the verdict on the scores of all heads, for keys before the query."""
    content = request.encoding.bound.content
    by_key = content.by == "key"
    if content.by == "pair":
        return {"holds": None, "reason": "scores depend on both positions, not on their distance"}
    if by_key and not judged.affine_rows:
        return {"holds": None, "reason": "scores depend on the key, not on a distance"}
    rule = score_rule_of(request, engine)
    slowest, worst = 0, None
    with request.scheme.answerable():
        for head in range(content.heads or 0):
            # For keys on a line, only the difference between the query's own key and another
            # matters.
            indices = distances[-1] - distances if by_key else -distances
            scores = np.asarray(rule(head, indices), np.float64)
            fields = _decay_fields(distances, scores < scores[0] - math.log(2))
            if not fields["holds"]:
                return {**fields, "reason": f"head {head}: {fields['reason']}"}
            if worst is None or fields["value"] > slowest:
                slowest, worst = fields["value"], (head, fields["reason"])
    assert worst is not None
    heads = f"all {content.heads} heads" if (content.heads or 0) > 1 else "its head"
    reason = f"{heads}: below half of the attention weight from {slowest} on, head {worst[0]} last"
    return {"holds": True, "value": slowest, "reason": reason}


STEPS = 5
"""How often an inspection reports progress."""

SAME_EVERYWHERE = "rows are the same everywhere"


def inspection(
    request: Request,
    engine: Engine,
    *,
    fit: int | None = None,
    name: str | None = None,
    step: Callable[[], None] = lambda: None,
) -> Inspection:
    """Return the properties of an encoding at its positions.

    The linear map is fitted on ``fit`` rows. ``step`` is called about `STEPS` times, as properties
    become known.

    Raises: InvalidInput if the request is not valid, or asks for too much.
    """
    bound = request.encoding.bound
    subject = InspectedEncoding(inspected_rows(request, engine), engine, request)
    return _inspection(
        subject,
        fit,
        step,
        name=name or bound.scheme.name,
        kind=bound.scheme.kind,
        params=dict(bound.params),
        random_weights=request.random_weights,
    )


def inspection_of_array(
    loaded: Loaded, *, name: str, fit: int | None = None, step: Callable[[], None] = lambda: None
) -> Inspection:
    """Return the properties of the rows of an array, all measured.

    Raises: InvalidInput if it is not a matrix, or too large.
    """
    subject = InspectedEncoding(
        inspected_array(loaded, name=name), Engine(), loaded=loaded, name=name
    )
    return _inspection(subject, fit, step, name=name, kind=None, params={})


def _inspection(
    subject: InspectedEncoding, fit: int | None, step: Callable[[], None], **fields: Any
) -> Inspection:
    inspected = subject.inspected
    extremes = extremes_of(inspected)
    known = {
        "bounded": bounded(subject, extremes),
        "defined-beyond": _defined_beyond(subject),
    }
    if extremes.not_finite is None:
        step()
        known["unique"] = _unique(subject)
        step()
        known["norm"] = _norm(subject, extremes)
        known |= _shifts(subject, fit)
        step()
        known |= _by_distance(subject)
        for dtype in (FLOAT16, BFLOAT16):
            step()
            known[f"distinct-{dtype.name}"] = _distinct(subject, dtype)
    else:
        place = inspected.place(extremes.not_finite)
        reason = f"{inspected.axis} {place} holds a value that is not finite"
        for name in PROPERTIES.keys() - known.keys():
            known[name] = Property(name, None, reason=reason)
    return Inspection(
        looked_at=inspected.text,
        axis=inspected.axis,
        count=inspected.rows.count,
        properties=tuple(known[name] for name in PROPERTIES),
        **fields,
    )


def _unique(subject: InspectedEncoding) -> Property:
    """Return whether no two rows are equal, with the smallest distance of two rows."""
    inspected = subject.inspected
    if inspected.rows.count < 2:
        return Property("unique", None, reason="there is one row")
    if subject.unused:
        at = inspected.place(0), inspected.place(1)
        return Property("unique", False, 0.0, at, "proved", SAME_EVERYWHERE)
    if subject.complete and inspected.step is not None:
        nearest = nearest_waves(
            *subject.complete,
            count=inspected.rows.count,
            step=inspected.step,
            engine=subject.engine,
        )
        evidence: HowKnown = "proved"
        reason = "distances depend only on the offset; every offset was measured"
    else:
        nearest, evidence = nearest_rows(inspected.rows), "measured"
        reason = "the nearest of all pairs of rows"
        if nearest.sampled:
            reason = (
                "no two rows are equal; the distance is from a sample: each row and the nearest "
                "row before it"
            )
    at = inspected.place(nearest.pair[0]), inspected.place(nearest.pair[1])
    sample: Sampled | None = "value" if nearest.sampled else None
    return Property("unique", nearest.distance > 0, nearest.distance, at, evidence, reason, sample)


def _norm(subject: InspectedEncoding, extremes: Extremes) -> Property:
    """Return whether all rows have one norm, with the largest minus the smallest one."""
    inspected, weights = subject.inspected, subject.weights
    if inspected.of_scores:
        return Property("norm", None, evidence="proved", reason="a bias has scores, not vectors")
    if subject.waves is not None and weights is not None:
        length = float(subject.waves.scale) * math.sqrt(float(weights.sum()))
        reason = f"every frequency pair has a constant norm: {length:.6g} together"
        return Property("norm", True, 0.0, None, "proved", reason, details={"length": length})
    if subject.unused:
        return Property("norm", True, 0.0, None, "proved", SAME_EVERYWHERE)
    (short, first), (long, second) = extremes.shortest, extremes.longest
    if math.isinf(long):
        return Property("norm", None, reason="norms exceed float64")
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


def _shifts(subject: InspectedEncoding, fit: int | None) -> dict[str, Property]:
    """Return whether the next row is a fixed linear map of a row: in fitted rows, and beyond."""
    inspected = subject.inspected
    names = "linear-shift", "linear-shift-held-out"
    reason = ""
    if inspected.of_scores:
        reason = "a bias has scores, not rows"
    elif inspected.step is None:
        reason = "the positions are unevenly spaced"
    elif inspected.rows.count < 3:
        reason = "there are fewer than three rows"
    if reason:
        evidence: HowKnown = "proved" if inspected.of_scores else "measured"
        return {name: Property(name, None, evidence=evidence, reason=reason) for name in names}
    shift = linear_shift(inspected, fit)
    ends = f"{inspected.axis}s {inspected.place(0)} … {inspected.place(shift.count - 1)}"
    details: dict[str, Any] = {
        "fitted_on": [inspected.place(0), inspected.place(shift.count - 1)],
        "rank": shift.rank,
        "tolerance": shift.tolerance,
    }
    exactly = subject.complete is not None
    if exactly:
        rotated = _rotation_error(subject)
        details["rotation"] = rotated
        holds: bool | None = True
        reason = f"the exact rotation of each pair leaves {rotated:.2g} on all rows"
    elif shift.trivial:
        holds, reason = None, f"{shift.count} independent rows fit any map"
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
        reason = "every row was used for the fit; none is held out"
        return {here.name: here, names[1]: Property(names[1], None, reason=reason)}
    if shift.trivial:
        reason = f"{shift.count} independent rows fit any map, so they say nothing about other rows"
        beyond = Property(names[1], None, held.value, reason=reason)
        return {here.name: here, beyond.name: beyond}
    beyond = Property(
        names[1],
        held.rounded,
        held.value,
        (inspected.place(held.row),),
        reason=f"the least-squares map fitted on {ends}, on the rows beyond",
        details={**details, "tolerance": held.allowed},
    )
    return {here.name: here, beyond.name: beyond}


def _rotation_error(subject: InspectedEncoding) -> float:
    """Return the residual of the exact rotation by one step, in float64."""
    request, inspected, waves = subject.request, subject.inspected, subject.waves
    assert request is not None
    assert waves is not None
    assert inspected.step is not None
    plan = request.plan_at(Positions.contiguous(inspected.step, 1))
    (step_row,) = np.concatenate([*plan.matrix(subject.engine).blocks()])
    placements = request.encoding.bound.content.columns().placements
    return rotation_residual(inspected, placements, step_row, float(waves.scale)).value


def _by_distance(subject: InspectedEncoding) -> dict[str, Property]:
    """Return whether scores depend only on the distance, and whether they fall with it."""
    inspected, request = subject.inspected, subject.request
    if subject.kind == "relative":
        reason = "rows belong to offsets: scores are q · row"
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


def _verdict(subject: InspectedEncoding, alike: Similarity) -> Verdict:
    """Return the verdict on a similarity; the worst head's if scores depend on keys or pairs."""
    request, content = subject.request, subject.content
    if request is None or content is None or content.by not in ("key", "pair"):
        return verdict(alike)
    judged = [
        verdict(similarity(replace(request, head=head), subject.engine))
        for head in range(content.heads or 0)
    ]
    worst = max(judged, key=lambda each: (not each.affine_rows, each.spread))
    return replace(worst, toeplitz=all(each.toeplitz for each in judged))


def _relative(subject: InspectedEncoding, judged: Verdict) -> Property:
    evidence: HowKnown = "measured" if judged.proof is None else "proved"
    if judged.affine_rows and not judged.toeplitz:
        reason = (
            "the score depends on the key; a shift of both positions adds a constant, which the "
            "softmax cancels"
        )
        return Property("relative", True, 0.0, None, reason=reason)
    if subject.unused:
        return Property("relative", True, 0.0, None, "proved", SAME_EVERYWHERE)
    sample: Sampled | None = None
    reason = judged.proof or f"all {judged.all_pairs} pairs of positions were measured"
    if not judged.measured_all:
        # One pair with a different score is enough to disprove it.
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


def _defined_beyond(subject: InspectedEncoding) -> Property:
    """Return whether positions never run out, or else how many there are."""
    name, content, request = "defined-beyond", subject.content, subject.request
    if content is None or request is None:
        count = subject.inspected.rows.count
        return Property(name, False, count, reason="a file has only its own rows")
    if request.scheme.as_given:
        return Property(name, None, None, reason="unknown for a function")
    changed = _follows_length(subject)
    follows = "; values differ at twice the length" if changed else ""
    capacity = content.capacity
    if capacity is not None and not changed and capacity.positions in _lengths(request).values():
        reason = "a longer sequence has more positions and the same last row"
        return Property(name, True, None, None, "measured", reason)
    if capacity is None:
        reason = (
            "the formula covers any position"
            if content.weights is None
            else "the scheme extends the table"
        )
        if content.network is not None:
            reason = "the network covers any position"
        elif content.weights is not None and (content.farthest or content.heads):
            reason = "offsets beyond the largest share a row"
        return Property(name, True, None, None, "proved", f"{reason}{follows}")
    reason = f"{capacity.reason}{follows}"
    return Property(name, False, capacity.positions, None, "proved", reason)


def _lengths(request: Request) -> dict[str, int]:
    """Return the parameters of an encoding that are sequence lengths, with resolved values."""
    bound = request.encoding.bound
    declared = bound.scheme.parameters
    return {
        name: value
        for name, value in bound.params.items()
        if value is not None and declared[name].rules.follows_length
    }


def _follows_length(subject: InspectedEncoding) -> bool:
    """Return whether the last row changes if the sequence is twice as long."""
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
    """Return the last row of an encoding; for a bias, the score of the last query and first key."""
    last = inspected.place(inspected.rows.count - 1)
    if not inspected.of_scores:
        return np.concatenate(
            [*request.plan_at(Positions.contiguous(last, 1)).matrix(engine).blocks()]
        )
    positions = request.row_positions()
    ends = (np.array([place], np.int64) for place in (positions.last, positions.first))
    content, rule = request.encoding.bound.content, score_rule_of(request, engine)
    with request.scheme.answerable():
        return scores_between(content, rule, 0, *ends)


def _distinct(subject: InspectedEncoding, dtype: DType) -> Property:
    """Return whether rows stay distinct when their entries are rounded to a number format."""
    inspected = subject.inspected
    count = inspected.rows.count
    distinct = distinct_rows(inspected.rounded(dtype), count)
    at = None
    reason = f"{distinct.count} of {count} rows"
    if distinct.first is not None:
        at = inspected.place(distinct.first[0]), inspected.place(distinct.first[1])
        reason += f"; the first repeated row is at {at[1]}"
    return Property(f"distinct-{dtype.name}", at is None, distinct.count, at, reason=reason)


FIRST = 512
"""Positions to inspect, if neither the user nor a model says how many."""

MOST_OF_CONTEXT = 1 << 17
"""Positions of a model's context to inspect by default: a few seconds."""


def inspections_of(
    choice: Choice, fit: int | None = None, step: Callable[[], None] = lambda: None
) -> Iterator[Inspection]:
    """Yield the properties of a choice, or of each part of a hybrid.

    The linear map is fitted on ``fit`` rows. ``step`` is called as properties become known. The
    default positions are those of the model's context, or the first 512.

    Raises: InvalidInput if it asks for too much, or for positions that do not exist.
    """
    for part in choice.parts or (choice,):
        placed = part if part.positions is not None else _at_default_positions(part)
        for request in placed.requests(Precision.of(FLOAT64, None)):
            engine = placed.engine(request.plan())
            yield inspection(request, engine, fit=fit, name=choice.source or None, step=step)


def _at_default_positions(choice: Choice) -> Choice:
    """Return a choice at as many first positions as are inspected by default."""
    content = choice.encoding().bound.content
    count = FIRST
    if choice.context is not None:
        cells = MOST_WAVE_CELLS // max(1, content.width)
        count = min(choice.context[0], MOST_OF_CONTEXT, cells)
    if content.heads is not None:
        scores = MOST_SCORES // content.heads
        count = min(count, max(1, math.isqrt(scores) if content.by == "pair" else scores))
    return choice.at_first(count)


def names_apart(names: Sequence[str]) -> list[str]:
    """Return the names, with repeated ones numbered in order.

    >>> names_apart(["rope", "alibi", "rope"])
    ['rope (1)', 'alibi', 'rope (2)']
    """
    return [
        f"{name} ({1 + names[:place].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def named_apart(inspections: list[Inspection]) -> list[Inspection]:
    """Return the inspections, each with a unique name."""
    names = names_apart([known.name for known in inspections])
    return [replace(known, name=name) for known, name in zip(inspections, names, strict=True)]

"""Whether what two positions have in common falls with their distance, and of which content.

Of equal q and k a rotary score falls (Su et al. 2021, section 3.4.3), within a bound; of
independent ones its mean is 0 and its deviation the same at every distance, so there nothing falls.
Both are told. A bias falls where every head's score does; half of it is half of the attention
weight.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.similarity import finite_or_none, similarity
from posenc_cli.encoding.scores import score_rule

if TYPE_CHECKING:
    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.verdict import Verdict
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import Flags, Integers


def decay(
    request: Request | None, engine: Engine, alike: Similarity, judged: Verdict
) -> dict[str, Any]:
    """From which distance on similarity stays below half of that at none, up to the last.

    Of waves that come back the last few distances may be below half by chance: the farther half of
    all distances must be. The fields of a property. What was read from a file has no ``request``.
    """
    past = judged.offsets >= 0
    distances, values = judged.offsets[past], judged.profile[past]
    looked_at_all = judged.measured_all and len(distances) == alike.count
    if len(distances) < 2:
        return {"holds": None, "reason": "there is only one distance"}
    if request is not None and request.encoding.bound.content.heads is not None:
        return _of_heads(request, engine, judged, distances)
    peak = float(values[0])
    if not peak > 0:
        return {"holds": None, "reason": "a row has no similarity to itself"}
    fields = _fields(distances, values < peak / 2)
    if not looked_at_all:
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
        **_contents(request, engine, alike, int(distances[-1])),
    }
    return fields


def _fields(distances: Integers, below: Flags) -> dict[str, Any]:
    """The verdict on what is below half at some ascending distances."""
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


def _contents(request: Request, engine: Engine, alike: Similarity, last: int) -> dict[str, Any]:
    """Equal and independent q and k, and the bound, at some distances."""
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


def _of_heads(
    request: Request, engine: Engine, judged: Verdict, distances: Integers
) -> dict[str, Any]:
    """The verdict on the scores of all heads: those of keys before the query."""
    content, lookup = request.encoding.bound.content, request.encoding.lookup
    by_key = content.by == "key"
    if content.by == "pair":
        return {"holds": None, "reason": "scores depend on both positions, not on their distance"}
    if by_key and not judged.affine_rows:
        return {"holds": None, "reason": "scores depend on the key, not on a distance"}
    rule = score_rule(content, lookup, precision=request.precision, engine=engine)
    slowest, worst = 0, None
    with request.scheme.answerable():
        for head in range(content.heads or 0):
            # Of keys in a line, what matters is how much the query's own is above another.
            indices = distances[-1] - distances if by_key else -distances
            scores = np.asarray(rule(head, indices), np.float64)
            fields = _fields(distances, scores < scores[0] - math.log(2))
            if not fields["holds"]:
                return {**fields, "reason": f"head {head}: {fields['reason']}"}
            if worst is None or fields["value"] > slowest:
                slowest, worst = fields["value"], (head, fields["reason"])
    assert worst is not None
    heads = f"all {content.heads} heads" if (content.heads or 0) > 1 else "its head"
    reason = f"{heads}: below half of the attention weight from {slowest} on, head {worst[0]} last"
    return {"holds": True, "value": slowest, "reason": reason}

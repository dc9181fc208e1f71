"""Check whether scores depend on m − n alone, for schemes that do not rotate.

**Added to embeddings.** With rows p_m added, a score is (q + p_m)·(k + p_n) = q·k + q·p_n + p_m·k +
p_m·p_n. For positions m, n and m′, n′ of the same distance, the change over all unit q and k is

    sup |q·(p_n − p_n′) + (p_m − p_m′)·k + c| = ‖p_n − p_n′‖ + ‖p_m − p_m′‖ + |c|,

where c = p_m·p_n − p_m′·p_n′, since the signs of q and k are free. So scores depend on n − m alone
only if all rows are equal. With m = n the change is 2‖p_m − p_m′‖ + |‖p_m‖² − ‖p_m′‖²|. The largest
‖p_m − p_0‖ is at least half the largest distance between any two rows. So one pass over the rows
finds the worst change up to a factor of two, and finds 0 only if it is 0.

**Added to scores.** A bias that is a function of the offset j − i depends on m − n by its form. A
bias of the key alone, c·j = c·(j − i) + c·i, differs from such a function by a constant for each
query, which the softmax cancels. For a bias by pairs, the declaration says whether pairs with equal
scores share an offset on a grid, and up to which position. Otherwise the scores of each offset are
compared, at the first positions and at the last.

**Multiplied by queries.** The row of an offset depends on the offset.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.formulas.declare import BucketBias, PairRule
from posenc_cli.inference.codes import FindingName, SubjectKind
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.rotary.findings import Finding
from posenc_cli.rotary.verdict import Report

if TYPE_CHECKING:
    from posenc_cli.encoding.request import Request
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.inference.turning import Progress

_COMPARED_POSITIONS = 512
"""Positions at each end that are compared if the offset may not determine the scores."""

FLOOR = 1e-6
"""Error of scores of unit vectors that float32 code may have."""


def additive_report(
    request: Request, rule: ToleranceRule, *, progress: Progress | None = None
) -> Report:
    """Return the report on a scheme that is not rotary, with the one check that applies."""
    bound = request.encoding.bound
    assert request.positions is not None
    if bound.scheme.kind in ("bias", "relative"):
        finding = _offset_finding(request)
    else:
        finding = _row_finding(request, rule, progress)
    return Report(
        subject={
            "kind": SubjectKind.POSENC,
            "name": bound.scheme.name,
            "dtype": "float64",
            "layout": None,
            "out_layout": None,
        },
        reference={"scheme": bound.scheme.name, "params": dict(bound.params)},
        positions=str(request.positions),
        count=0 if finding.at is None else request.positions.count,
        pairs=0,
        findings=(finding,),
        diagnosis=(),
        notes=(
            f"{bound.scheme.name} does not rotate: norm, identity and reference do not apply",
            *filter(None, [request.random_weights]),
        ),
        tolerance="float32 code",
        title=bound.scheme.name,
    )


def _offset_finding(request: Request) -> Finding:
    content, positions, worst = request.encoding.bound.content, request.positions, 0.0
    assert positions is not None
    message = "the scheme is a function of the offset alone"
    if content.by == "key":
        message = (
            "the bias c·j of a key is c·(j − i) plus a constant for each query, which the softmax "
            "cancels"
        )
    match content:
        case BucketBias(pairs=PairRule() as pairs):
            message = f"the scheme is a function of {pairs.text}"
            until = positions.last if pairs.offset else pairs.offsets_until
            if until is None or positions.last > until:
                worst = _largest_change(request, positions.last)
                if worst > FLOOR:
                    message += f"; scores at one distance differ by up to {worst:.3g}"
    return Finding(FindingName.RELATIVE, worst <= FLOOR, worst, FLOOR, None, message)


def _largest_change(request: Request, last: int) -> float:
    """Return the largest difference of scores at one offset, among first and last positions."""
    encoding, worst = request.encoding, 0.0
    content, precision = encoding.bound.content, Precision.of(FLOAT64, None)
    rule = score_rule(content, encoding.lookup, precision=precision, engine=Engine())
    at = np.arange(min(_COMPARED_POSITIONS, last + 1))
    ends = (
        scores_of_heads(content, rule, range(content.heads or 0), rows, rows)
        for rows in (at, at + last + 1 - at.size)
    )
    with encoding.bound.scheme.answerable():
        for scores in zip(*ends, strict=True):
            for offset in range(1 - at.size, at.size):
                one_offset = np.concatenate([end.diagonal(offset) for end in scores])
                worst = max(worst, float(np.ptp(one_offset.astype(np.float64))))
    return worst


def _row_finding(request: Request, rule: ToleranceRule, progress: Progress | None) -> Finding:
    assert request.positions is not None
    positions, count, done = iter(request.positions), request.positions.count, 0
    worst, size, at, origin = 0.0, 0.0, 0, next(iter(request.positions))
    first = None
    for block in request.plan().matrix().blocks():
        rows = block.astype(np.float64)
        block_positions = [*islice(positions, len(rows))]
        first = rows[0].copy() if first is None else first
        squares = np.einsum("ij,ij->i", rows, rows)
        changes = 2 * np.linalg.norm(rows - first, axis=1) + np.abs(squares - first @ first)
        size = max(size, float(np.sqrt(squares.max())))
        row = int(np.argmax(changes))
        if changes[row] > worst:
            worst, at = float(changes[row]), block_positions[row]
        done += len(block_positions)
        if progress is not None:
            progress(done, count)
    allowed = rule if isinstance(rule, float) else FLOOR * max(1.0, size * size)
    ok = worst <= allowed
    differ = (
        f"scores at ({at}, {at}) and ({origin}, {origin}), the same distance, differ by up to "
        f"{worst:.3g} for unit q and k"
    )
    message = "all rows are equal: no score depends on any position"
    if worst > 0:
        message = differ if ok else f"q·k does not depend on m − n alone: {differ}"
    return Finding(FindingName.RELATIVE, ok, worst, allowed, {"m": at, "n": at}, message)

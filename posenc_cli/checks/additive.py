"""Check whether scores depend on m − n alone when rows are added to embeddings: they do not.

With rows p_m added, a score is (q + p_m)·(k + p_n) = q·k + q·p_n + p_m·k + p_m·p_n. For positions
m, n and m′, n′ of the same distance, the change over all unit q and k is

    sup |q·(p_n − p_n′) + (p_m − p_m′)·k + c| = ‖p_n − p_n′‖ + ‖p_m − p_m′‖ + |c|,

where c = p_m·p_n − p_m′·p_n′, since the signs of q and k are free. So scores depend on n − m alone
only if all rows are equal. With m = n the change is 2‖p_m − p_m′‖ + |‖p_m‖² − ‖p_m′‖²|. The largest
‖p_m − p_0‖ is at least half the largest distance between any two rows. So one pass over the rows
finds the worst change up to a factor of two, and finds 0 only if it is 0.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.codes import FindingName, SubjectKind
from posenc_cli.rotary.findings import Finding
from posenc_cli.rotary.verdict import Report

if TYPE_CHECKING:
    from posenc_cli.encoding.request import Request
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.inference.turning import Progress
    from posenc_cli.positions import Positions

FLOOR = 1e-6
"""Error of scores of unit vectors that float32 code may have."""


def additive_report(
    request: Request, rule: ToleranceRule, *, progress: Progress | None = None
) -> Report:
    """Return the report on a scheme that adds rows, with the one check that applies."""
    bound = request.encoding.bound
    assert request.positions is not None
    finding = _row_finding(request, request.positions, rule, progress)
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
        count=request.positions.count,
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


def _row_finding(
    request: Request, asked: Positions, rule: ToleranceRule, progress: Progress | None
) -> Finding:
    positions, done = iter(asked), 0
    worst, size, at, origin = 0.0, 0.0, 0, next(iter(asked))
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
            progress(done, asked.count)
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

"""Further calls of a function that is given the sizes of a grid: each call has all of its rows.

Several sequences and heads, views of larger arrays and vectors of half precisions must give what a
call alone gave, and another grid what its own reference gives.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.arrangements import Arrangement, arrangements, must_hold
from posenc_cli.calls.further_calls import try_half_precision, try_strided
from posenc_cli.calls.patterns import PatternFault, PatternReport, PlannedCalls
from posenc_cli.calls.payloads import Vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import ColumnPairing

_BATCH = "several sequences or heads in one call"

_MOST_VALUES = 1 << 24
"""Of one batch: a grid of 4096 patches with heads of 128 values has 9 million of them."""


def try_grid_calls(
    function: ServedFunction,
    reference: Reference,
    differs: Differs,
    pairing: ColumnPairing | None,
) -> list[PatternReport]:
    """Call a function of a grid in further ways; ``pairing`` is how it pairs columns."""
    reports = []
    if function.outcome == "vectors":
        reports += [_try_batch(function, differs), try_strided(function, differs)]
    last = prod(reference.grid or ()) - 1
    reports.append(try_half_precision(function, last, reference.frequencies, pairing))
    return reports


def _try_batch(function: ServedFunction, differs: Differs) -> PatternReport:
    """Call a function with several sequences and heads, as many as it takes."""
    calls, rows = PlannedCalls(function), 1 + (function.last or 0)
    for one in arrangements(function.form):
        arrangement = replace(one, rows=rows)
        if prod((one.sequences, rows, one.heads, one.form.columns)) > _MOST_VALUES:
            calls.skip(_BATCH, f"the grid has {rows} rows")
            return calls.report()
        try:
            fault = _batch_fault(function, arrangement, differs)
        except InvalidInput:
            function.revive()
            continue
        if fault is None or fault.known or must_hold(arrangement, function.form):
            return PatternReport((arrangement.text,), (fault,) if fault else ())
    return PatternReport((), (), (_BATCH,))


def _batch_fault(
    function: ServedFunction, arrangement: Arrangement, differs: Differs
) -> PatternFault | None:
    """What is wrong with several sequences and heads.

    Raises: InvalidInput where a call fails.
    """
    generator, form, where = np.random.default_rng(11), arrangement.form, np.arange
    rows = arrangement.rows
    counts = (arrangement.heads, arrangement.key_heads)[: len(form.vectors)]
    given = [
        generator.standard_normal((arrangement.sequences, rows, heads, form.columns)).astype("f4")
        for heads in counts
    ]
    results = function.together(form, where(rows), [Vectors(x, rows) for x in given])
    wrong = still = right = False
    for which, (x, result) in enumerate(zip(given, results, strict=True)):
        times = result.values.shape[2] // x.shape[2]
        for sequence, head in np.ndindex(x.shape[0], x.shape[2]):
            own = x[sequence, :, head]
            value = result.values[sequence, :, head * times]
            if differs(value, function.values(own, where(rows), which)):
                wrong, still = True, (still or not wrong) and not differs(value, own)
            else:
                right = True
    if not wrong:
        return None
    called = f"called with {arrangement.text} it"
    if still:
        several = "sequences" if arrangement.sequences > 1 else "heads"
        known = f"vectors do not rotate in calls with several {several}"
        return PatternFault(f"{called} returns some as given", known, Cause.NO_ROTATION)
    known = "some sequences or heads give other values than alone" if right else ""
    return PatternFault(f"{called} gives other values than alone", known, Cause.UNKNOWN)

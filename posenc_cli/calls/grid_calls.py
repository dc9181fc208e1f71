"""Further calls of a function that is given the sizes of a grid: each call has all of its rows.

Several sequences and heads, views of larger arrays and vectors of half precisions must give what a
call alone gave, and another grid what its own reference gives.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.arrangements import Arrangement, arrangements, must_hold
from posenc_cli.calls.further_calls import planes_of, try_half_precision, try_strided
from posenc_cli.calls.patterns import PatternFault, PatternReport, PlannedCalls
from posenc_cli.calls.payloads import Vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.reference import Reference
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.turning import ColumnPairing
    from posenc_cli.numerics.arrays import NumberArray

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
    reports = [_try_other_grid(function, reference, differs, pairing)]
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


def _other_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of another grid: of as many rows where there is one, of other ones than a block."""
    *frames, rows, columns = sizes
    if rows != columns:
        return (*frames, columns, rows)
    return (*frames, 2 * rows, columns // 2 if columns % 2 == 0 else columns)


def _try_other_grid(
    function: ServedFunction,
    reference: Reference,
    differs: Differs,
    pairing: ColumnPairing | None,
) -> PatternReport:
    """Call a function with the sizes of another grid, and compare with the reference of that."""
    calls, bound = PlannedCalls(function), reference.encoding.bound
    sizes = _other_sizes(reference.grid or ())
    text = f"a grid of {'×'.join(map(str, sizes))}"
    if bound.params.get("axes") or not bound.params.get("grid"):
        calls.skip(text, "the coordinates of a file have one grid")
        return calls.report()
    given = {name: value for name, value in bound.params.items() if value is not None}
    try:
        other_bound = bound.scheme.bind({**given, "grid": "x".join(map(str, sizes))})
    except InvalidInput as error:
        calls.skip(text, error.message)
        return calls.report()
    other = Reference(replace(reference.encoding, bound=other_bound), reference.engine)
    if not _is_off(function, reference, differs, pairing):
        with calls.planned(text):
            if _is_off(function, other, differs, pairing):
                known = f"{text} is not rotated as its reference is, and the first grid is"
                return PatternReport((), (PatternFault(known, known, Cause.UNKNOWN),))
    return calls.report()


def _is_off(
    function: ServedFunction,
    reference: Reference,
    differs: Differs,
    pairing: ColumnPairing | None,
) -> bool:
    """Whether what a function gives on the grid of a reference differs from that.

    Raises: InvalidInput where the call fails.
    """
    where = np.arange(prod(reference.grid or ()))
    generator = np.random.default_rng(31)
    x = generator.standard_normal((where.size, function.form.columns)).astype(np.float32)
    tables = function.outcome == "tables"
    with function.on(reference):
        parts = function.all_values(x, where)
    values = planes_of(parts, pairing, tables=tables)
    wanted = reference.cells(where, FLOAT64)
    if not tables:
        given: list[NumberArray] = [x]
        assert pairing is not None
        before = replace(pairing, out_first=pairing.first, out_second=pairing.second)
        wanted = wanted * planes_of(given, before, tables=False)
    wanted = np.tile(wanted, (1, values.shape[1] // wanted.shape[1]))
    planes = [np.ascontiguousarray(each).view(np.float64) for each in (values, wanted)]
    return differs(planes[0], planes[1])

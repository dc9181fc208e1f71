"""Further calls of a function that is given the sizes of a grid: each call has all of its rows.

Several sequences and heads, views of larger arrays and vectors of half precisions must give what a
call alone gave, and another grid what its own reference gives.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from posenc_cli.calls.batches import try_batches
from posenc_cli.calls.further_calls import try_half_precision, try_strided
from posenc_cli.calls.patterns import PatternReport

if TYPE_CHECKING:
    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import ColumnPairing


def try_grid_calls(
    function: ServedFunction,
    reference: Reference,
    differs: Differs,
    pairing: ColumnPairing | None,
) -> list[PatternReport]:
    """Call a function of a grid in further ways; ``pairing`` is how it pairs columns."""
    reports, rows = list[PatternReport](), prod(reference.grid or ())
    if function.outcome == "vectors":
        reports += [try_batches(function, differs, context=rows), try_strided(function, differs)]
    reports.append(try_half_precision(function, rows - 1, reference.frequencies, pairing))
    return reports

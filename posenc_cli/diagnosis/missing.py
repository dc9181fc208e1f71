"""Find causes of values that are not numbers, and of uninitialized frequencies.

Correct frequencies are above 0 and at most that of the first pair. Uninitialized memory has any
size and sign (huggingface/transformers#45902, pytorch/torchtitan#4783). Only numbers of a size that
no rule gives are reported as such. Wrong numbers of a usual size have another cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import Suspect, as_ranges
from posenc_cli.diagnosis.rows_and_pairs import Extent
from posenc_cli.inference.causes import Cause
from posenc_cli.rotary.verdict import Examination, Explanation, Where

if TYPE_CHECKING:
    from posenc_cli.rotary.findings import Survey

_HUGE = 1e12
"""Larger numbers, and those below its inverse, are not frequencies that anybody chose."""

MEANING = (
    "uninitialized memory, such as a non-persistent buffer built on the meta "
    "device, or bytes of another number format"
)


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Return the cause of values that are not finite, with their place."""
    deviation = survey.reference
    extent = Extent.measure(
        (piece.positions, ~np.isfinite(piece.factors)) for piece in suspect.whole.pieces()
    )
    # Without flagged pairs, only values outside the pairs are not finite.
    count, first = (
        (extent.count, extent.first) if extent.first else (deviation.missing, deviation.missing_at)
    )
    position, pair = first or (0, 0)
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} rotations, first at position {position}, pair {pair}"
    message = f"{'all' if count == total else 'some'} values are NaN or infinite"
    if extent.fills and extent.place:
        message += f": all {extent.place}"
    return Explanation(
        Cause.NOT_A_NUMBER, message, evidence, where=extent.where if extent.fills else None
    )


def uninitialized_cause(examination: Examination) -> Explanation | None:
    """Return the cause of given frequencies that are not finite, or whose size no rule gives."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    sizes = np.abs(given)
    wrong = ~((sizes <= _HUGE) & ((sizes >= 1 / _HUGE) | (given == 0))) & (given != right)
    if not wrong.any():
        return None
    cause, what = Cause.UNINITIALISED, f"outside the range of any rule: {MEANING}"
    if np.isinf(given[wrong]).any() and not np.isfinite(given[wrong]).any():
        cause, what = Cause.NOT_A_NUMBER, "NaN or infinite"
    pair, count = int(np.argmax(wrong)), int(np.count_nonzero(wrong))
    return Explanation(
        cause,
        f"{count} of the {right.size} frequencies {'is' if count == 1 else 'are'} {what}",
        f"frequency of pair {pair}: {given[pair]:.6g}, not {right[pair]:.6g}",
        where=Where(None, as_ranges(np.flatnonzero(wrong))),
    )

"""The cause of frequencies, and of rows, that nobody has written, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import Defect
from posenc_cli.diagnosis.uninitialised_values import MEANING, counts_text, garbage_of
from posenc_cli.diagnosis.wording import pairs_text, spec, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.rules import Alternative
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.diagnosis.uninitialised_values import Garbage
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.numerics.arrays import Reals
    from posenc_cli.rotary.verdict import Examination


def unwritten_cause(
    examination: Examination, garbage_among: Callable[[Reals, Reals], Garbage | None]
) -> Explanation | None:
    """The cause where frequencies that were given are none that any rule has."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    garbage = garbage_among(given, right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    cause, message = Cause.UNINITIALISED, f"{garbage.text}: {MEANING}"
    values = given[garbage.pairs]
    infinite = np.isinf(values)
    if infinite.any() and not np.isfinite(values).any():  # as a division by 0 gives as well
        cause = Cause.NOT_A_NUMBER
        message = counts_text([("infinite", infinite), ("no number", ~infinite)])
    return Explanation(
        cause,
        f"of the {right.size} frequencies {message}",
        f"pair {pair} has {given[pair]:.6g}, not {right[pair]:.6g}",
        where=Where(None, spec(np.flatnonzero(garbage.pairs))),
    )


def unwritten_rates_cause(suspect: Suspect) -> Explanation | None:
    """The same where pairs turn at rates that no rule gives, steadily, at every position."""
    sample = suspect.sample
    right = sample.reference.frequencies
    if sample.reference.coordinates is not None or (np.diff(np.sort(sample.positions)) > 1).all():
        return None
    if suspect.examination.subject.frequencies is not None:
        return None
    rates = fit(sample.positions, np.where(sample.seen, sample.factors, 0)).frequencies
    farthest = float(np.abs(sample.positions).max(initial=0))
    rates = np.where(np.abs(rates) * farthest < sample.tolerance.floor, 0.0, rates)  # they stand
    garbage = garbage_of(rates, right)
    if garbage is None:
        return None
    defect = Defect(frequencies=Alternative(Cause.UNINITIALISED, "", rates))
    residual = suspect.residual(defect)
    garbage = garbage_of(np.where(residual.pairs, rates, right), right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    cause = Explanation(
        Cause.UNINITIALISED,
        f"of the {right.size} frequencies {garbage.text}: {MEANING}",
        f"pair {pair} turns by {rates[pair]:.6g} a position, modulo 2π, not by {right[pair]:.6g}; "
        f"{pairs_text(np.flatnonzero(garbage.pairs).tolist(), right.size)} turn so at every "
        "position",
        where=Where(None, spec(np.flatnonzero(garbage.pairs))),
    )
    return with_residual(cause, residual)

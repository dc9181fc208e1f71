"""The cause of frequencies that nobody has written, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.verdict import Explanation, Where
from posenc_cli.checks.wording import pairs_text, spec, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Claim
from posenc_cli.inference.defects import Defect
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.rules import Alternative
from posenc_cli.inference.uninitialised import MEANING, garbage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.checks.verdict import Examination
    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.localise import Whole
    from posenc_cli.inference.uninitialised import Garbage
    from posenc_cli.numerics.arrays import Flags, Reals


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
    return Explanation(
        Cause.UNINITIALISED,
        f"of the {right.size} frequencies {garbage.text}: {MEANING}",
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
    garbage = garbage_of(rates, right)
    if garbage is None:
        return None
    defect = Defect(frequencies=Alternative(Cause.UNINITIALISED, "", rates))
    residual = suspect.residual(defect)
    garbage = garbage_of(np.where(residual.pairs, rates, right), right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    residual = suspect.whole.residual(Claim(defect, sample.amplitude, garbage.pairs))
    cause = Explanation(
        Cause.UNINITIALISED,
        f"of the {right.size} frequencies {garbage.text}: {MEANING}",
        f"pair {pair} turns by {rates[pair]:.6g} a position, modulo 2π, not by {right[pair]:.6g}; "
        f"{pairs_text(np.flatnonzero(garbage.pairs).tolist(), right.size)} turn so at every "
        "position",
        where=Where(None, spec(np.flatnonzero(garbage.pairs))),
    )
    return with_residual(cause, residual)


def missing_pairs_cause(whole: Whole) -> Explanation | None:
    """The cause where some pairs are no numbers from position 2 on, and all others are."""
    pairs: Flags | None = None
    for _, piece in whole.pieces():
        missing = ~np.isfinite(piece.factors[np.abs(piece.positions) > 1])  # (n, pairs)
        if not missing.shape[0]:
            continue
        pairs = missing[0] if pairs is None else pairs
        if (missing != pairs).any():
            return None
    if pairs is None or not pairs.any():
        return None
    of_pairs = pairs_text(np.flatnonzero(pairs).tolist(), pairs.size)
    return Explanation(
        Cause.UNINITIALISED,
        f"{of_pairs} {'has' if pairs.sum() == 1 else 'have'} no number at any position from 2 on, "
        f"so no finite frequency: {MEANING}",
        "all other pairs have numbers at every position",
        where=Where(None, spec(np.flatnonzero(pairs))),
    )

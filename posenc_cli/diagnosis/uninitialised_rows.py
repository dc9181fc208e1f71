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
from posenc_cli.rotary.codes import SubjectKind
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.diagnosis.uninitialised_values import Garbage
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.numerics.arrays import Reals
    from posenc_cli.rotary.verdict import Examination

_SHORTEST = 1e-3
"""Times the right size of a factor: no coarser format makes one so small."""

_LONGEST = {SubjectKind.TABLES: (1.5, 1 / 8), SubjectKind.ROTATED: (3.9, 1 / 4)}
"""Times the right size, and the share of all factors that are longer, or shorter than any is. A
cosine and a sine of two pairs are no longer than √2; of vectors that have nothing to do with those
before, one pair in 16 is 4 times as long."""

_UNEVEN = 0.05
_SCATTERED = 0.5
"""Of a factor's size from one row to the next, and of all factors: what follows the position is
steadier, in slow pairs at least."""

_FEWEST_ROWS = 4
"""Rows that hold anything: of one or two any mistake may be the reason."""


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


def unwritten_rows_cause(suspect: Suspect, start: int) -> Explanation | None:
    """The cause where every row from ``start`` on holds numbers that turn nothing."""
    whole, kind = suspect.whole, suspect.examination.subject.kind
    if kind not in _LONGEST or whole.count - start < _FEWEST_ROWS:
        return None
    longest, share = _LONGEST[kind]
    positions: list[int] = []
    count, cells, uneven, steps = 0, 0, 0, 0
    least, most = np.inf, 0.0
    for _, piece in whole.pieces(start):
        sizes = np.where(piece.seen, np.abs(piece.factors), piece.reference.scale)  # (n, pairs)
        sizes /= piece.reference.scale
        odd = (sizes > longest) | (sizes < _SHORTEST)
        if not odd.any(axis=1).all():
            return None
        count, cells = count + int(np.count_nonzero(odd)), cells + odd.size
        with np.errstate(all="ignore"):
            changes = np.abs(np.diff(np.log(sizes), axis=0))
        uneven += int(np.count_nonzero(changes > _UNEVEN))
        steps += changes.size
        least, most = min(least, float(sizes.min())), max(most, float(sizes.max()))
        positions += piece.positions[[0, -1]].tolist()
    if count < share * cells or uneven < _SCATTERED * steps:
        return None
    first, last = positions[0], positions[-1]
    return Explanation(
        Cause.UNINITIALISED,
        f"from position {first} on, rows hold what memory held that nothing was written to: no "
        "cosines and sines",
        f"{count} of {cells} pairs there, some at each of the {whole.count - start} positions, are "
        f"multiplied by more than {longest:g} or by less than {_SHORTEST:g}; all by {least:.2g} to "
        f"{most:.2g}",
        where=Where(f"{first}:{last + 1}", None),
    )

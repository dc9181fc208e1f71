"""The cause of waves or a constant added to vectors, in place of a rotation or as well, in words.

What is left of the vectors after, less those before or these turned as they should be, is then a
wave in each pair of columns, or one vector, whatever the vectors are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Residual
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.turning import LAYOUTS, ROWS, ColumnPairing
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.verdict import Examination
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals

_EVEN = 1e-2
"""Of the size of a wave: what its cells in a half precision may scatter by."""

_FEWEST_ROWS = 12
"""Rows in which waves are looked for: their rates and sizes are read off."""


class _AddedWaves(Record):
    """What may be added: a wave in each pair of columns, e^(i·p·rate) times a complex size."""

    pairing: ColumnPairing
    rates: Reals
    sizes: ComplexRows
    turns: bool

    def at(self, positions: Integers) -> ComplexRows:
        """The waves at positions (n,). Shape: (n, pairs)."""
        angles = np.multiply.outer(positions.astype(np.float64), self.rates)
        return np.asarray(self.sizes * np.exp(1j * angles), np.complex128)


class _Added:
    """What vectors gain by a map: less themselves, or less these as the reference turns them."""

    def __init__(self, examination: Examination) -> None:
        self._examination = examination
        self.positions = examination.subject.own.places

    def rows(self, rows: SomeRows, *, turns: bool) -> tuple[RealRows, RealRows]:
        """What rows gain (n, columns), and by how much each may err (n, 1)."""
        vectors, reference = self._examination.subject.vectors, self._examination.reference
        assert vectors is not None
        before, after = (values.astype(np.float64) for values in vectors(rows))
        positions = self.positions.at(rows)
        size = (
            1 + np.abs(before).max(axis=1, keepdims=True) + np.abs(after).max(axis=1, keepdims=True)
        )
        allowed = size * self._examination.tolerance.cells(positions, reference.frequencies).max(
            axis=1, keepdims=True
        )
        if turns:
            first, second = list(reference.pairing.first), list(reference.pairing.second)
            pairs = (before[:, first] + 1j * before[:, second]) * reference.turns.at(positions)
            before[:, first], before[:, second] = pairs.real, pairs.imag
        return after - before, allowed


def added_cause(examination: Examination) -> Explanation | None:
    """The cause where waves are added to vectors; None where that is not it."""
    subject, reference = examination.subject, examination.reference
    if subject.vectors is None or reference.coordinates is not None:
        return None
    added, rows = _Added(examination), subject.own.places.sample()
    if rows.size < _FEWEST_ROWS or not np.ptp(subject.vectors(rows)[0], axis=0).all():
        return None  # of vectors that do not change turns are waves, too
    for turns in (False, True):
        gained, allowed = added.rows(rows, turns=turns)
        if (np.abs(gained) <= allowed).all():
            return None
        constant = _constant_in(gained, turns=turns)
        found = _waves_in(gained, subject.own.places.at(rows), examination, turns=turns)
        for waves in (*constant, *found):
            residual = _residual(added, waves)
            if residual.whole:
                return with_residual(_cause(waves, examination), residual)
    return None


def _constant_in(gained: RealRows, *, turns: bool) -> tuple[_AddedWaves, ...]:
    """The one vector that may be added to all rows: waves that stand still; none of odd widths."""
    width = gained.shape[1]
    if width % 2:
        return ()
    pairing, mean = ColumnPairing.named("half", width // 2), gained.mean(axis=0)
    sizes = mean[list(pairing.first)] + 1j * mean[list(pairing.second)]
    return (_AddedWaves(pairing, np.zeros(width // 2), sizes, turns),)


def _waves_in(
    gained: RealRows, positions: Integers, examination: Examination, *, turns: bool
) -> Iterator[_AddedWaves]:
    """Waves of one size that may be in columns, each way that these may be paired."""
    pairings = [examination.reference.pairing]
    width = gained.shape[1]
    if width % 2 == 0:
        pairings += [ColumnPairing.named(layout, width // 2) for layout in LAYOUTS]
    for pairing in pairings:
        factors = gained[:, list(pairing.first)] + 1j * gained[:, list(pairing.second)]
        sizes = np.abs(factors)
        size = float(np.median(sizes))
        if not size or np.abs(sizes - size).max() > max(_EVEN, 0.1 * size) * (1 + size):
            continue
        rotations = fit(positions, factors)
        yield _AddedWaves(pairing, rotations.frequencies, rotations.amplitudes, turns)


def _residual(added: _Added, waves: _AddedWaves) -> Residual:
    """What the waves leave over of all that the vectors gain."""

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for rows in added.positions.row_blocks(ROWS):
            gained, allowed = added.rows(rows, turns=waves.turns)
            positions = added.positions.at(rows)
            expected, first = waves.at(positions), list(waves.pairing.first)
            gained[:, first] -= expected.real
            gained[:, list(waves.pairing.second)] -= expected.imag
            missed = np.abs(gained)
            yield positions, missed, missed <= allowed

    return Residual.measure(held())


def _cause(waves: _AddedWaves, examination: Examination) -> Explanation:
    if not waves.rates.any():
        cause, what = Cause.NO_ROTATION, "a constant vector is added, and nothing is rotated"
        if waves.turns:
            cause = Cause.UNKNOWN
            what = "the vectors are rotated as they should be, and a constant vector is added"
        length = f"its length is {np.linalg.norm(waves.sizes):.4g}"
        return Explanation(cause, what, length, "added")
    cause, what = Cause.NO_ROTATION, "cosines and sines are added to the vectors, which do not turn"
    if waves.turns:
        cause = Cause.COS_SIN_MISPAIRED
        what = "the vectors are turned as they should be, and cosines and sines are added as well"
    size = float(np.median(np.abs(waves.sizes)))
    evidence = (
        f"what is added are waves of size {size:.4g} in columns {waves.pairing.text}, with "
        f"{_rates_text(waves.rates, examination.reference.frequencies, turns=waves.turns)}"
    )
    return Explanation(cause, what, evidence, "added")


def _rates_text(rates: Reals, right: Reals, *, turns: bool) -> str:
    """Whose frequencies these are."""
    sizes = np.abs(rates)
    if sizes.shape == right.shape and np.allclose(sizes, right, rtol=1e-3, atol=1e-7):
        before = ", as a constant vector added before the rotation gives them" * turns
        return f"the reference's frequencies{before}"
    return f"frequencies from {sizes[0]:.6g} to {sizes[-1]:.6g}"

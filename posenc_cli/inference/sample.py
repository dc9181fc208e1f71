"""A sample of a subject's rows, against which hypotheses are tested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.tolerance import Tolerance
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals


class Sample(Record):
    """A subject at some positions, its columns paired as it pairs them.

    ``stray`` is the norm of all that rotates no pair, (positions, pairs) or (positions, 1).
    """

    positions: Integers
    factors: ComplexRows
    seen: Flags
    stray: RealRows
    tolerance: Tolerance
    amplitude: float
    reference: Reference

    def rows(self, rows: Integers) -> Sample:
        """Some of the rows."""
        return replace(
            self,
            positions=self.positions[rows],
            factors=self.factors[rows],
            seen=self.seen[rows],
            stray=self.stray[rows],
        )

    def compared(
        self, predicted: ComplexRows, frequencies: Reals, followed: Integers | Reals | None = None
    ) -> tuple[RealRows, Flags]:
        """By how much factors (n, pairs) miss each entry, and which they explain; unseen ones by 0.

        Their angles are multiples of ``followed``, (n,) or (n, pairs), by default of the
        reference's own positions.
        """
        if followed is None:
            followed = self.reference.angle_positions(self.positions)
        allowed = self.tolerance.cells(followed, frequencies) * max(1.0, self.amplitude)
        with np.errstate(invalid="ignore"):
            missed = np.where(self.seen, np.abs(self.factors - predicted) + self.stray, 0.0)
            return missed, np.asarray((missed <= allowed) | ~self.seen)

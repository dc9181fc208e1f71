"""Cells that stand at other places of a table: its buffer was read in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.codes import SubjectKind
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Residual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows


def column_major_cause(suspect: Suspect) -> Explanation | None:
    """Half tables of positions 0, 1, … whose cells were written column after column."""
    subject, reference = suspect.examination.subject, suspect.sample.reference
    places, pairs = subject.own.places, reference.pairs
    if subject.kind != SubjectKind.TABLES or subject.own.pairing is not None or pairs < 2:
        return None
    rows = places.count
    counted = places.at(np.array([0, rows - 1])).tolist() == [0, rows - 1]
    if not counted or reference.coordinates is not None or not (reference.frequencies > 0).all():
        return None

    def missed(piece: Sample) -> tuple[Integers, RealRows, Flags]:
        cells = piece.positions[:, None] * pairs + np.arange(pairs)  # (n, pairs)
        angles = (cells % rows) * reference.frequencies[cells // rows]
        factors: ComplexRows = np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)
        followed = angles / reference.frequencies
        explained = piece.explained_cells(factors, reference.frequencies, followed)
        return piece.positions, np.abs(piece.factors - factors) + piece.stray, explained

    if not missed(suspect.sample)[2].all():
        return None

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for _, piece in suspect.whole.pieces():
            yield missed(piece)

    residual = Residual.measure(held())
    if not residual.whole:
        return None
    message = "the cells stand column after column, and are read row after row"
    evidence = (
        f"a buffer of {pairs} × {rows} cells, or in Fortran's order, as one of {rows} × {pairs}"
    )
    return with_residual(Explanation(Cause.COS_SIN_MISPAIRED, message, evidence), residual)

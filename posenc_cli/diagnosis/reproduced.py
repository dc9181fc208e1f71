"""The residual of factors that a rule gives which is no defect of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import replace
from posenc_cli.rotary.residual import Residual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.diagnosis.localise import Whole
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, Reals


def reproduced(
    whole: Whole,
    predicted: Callable[[Sample], ComplexRows],
    rates: Reals,
    *,
    turned_as: Callable[[Sample], Integers | Reals] | None = None,
) -> Residual:
    """What a rule that predicts the factors of a piece leaves over; the tolerance follows rates.

    ``turned_as`` gives the positions as which its rows are turned, where these are not their own:
    then the tolerance is that of the farther of the two.
    """

    def held() -> Iterator[tuple[Integers, Reals, Flags]]:
        for _, piece in whole.pieces():
            turned, followed = piece, None
            if turned_as is not None:
                turned = replace(piece, positions=turned_as(piece))
                farther = np.maximum(np.abs(piece.positions), np.abs(turned.positions))
                followed = farther.astype(np.float64)
            factors = predicted(turned)
            explained = piece.explained_cells(factors, rates, followed)
            with np.errstate(invalid="ignore", over="ignore"):
                missed = np.abs(piece.factors - factors) + piece.stray
            yield piece.positions, np.where(piece.seen, missed, 0.0), explained

    return Residual.measure(held())


def turned_by(rates: Reals, piece: Sample) -> ComplexRows:
    """The factors of these frequencies. Shape: (positions, pairs)."""
    angles = np.multiply.outer(piece.positions.astype(np.float64), rates)
    return np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)

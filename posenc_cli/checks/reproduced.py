"""The residual of factors that a rule gives which is no defect of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.claims import Residual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.inference.localise import Whole
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, Reals


def reproduced(
    whole: Whole,
    predicted: Callable[[Sample], ComplexRows],
    rates: Reals,
    *,
    followed: Callable[[Sample], Reals] | None = None,
) -> Residual:
    """What a rule that predicts the factors of a piece leaves over; the tolerance follows rates.

    ``followed`` gives the positions whose angles it follows, by default a row's own.
    """

    def held() -> Iterator[tuple[Integers, Reals, Flags]]:
        for _, piece in whole.pieces():
            factors = predicted(piece)
            explained = piece.explained_cells(factors, rates, followed and followed(piece))
            with np.errstate(invalid="ignore", over="ignore"):
                missed = np.abs(piece.factors - factors) + piece.stray
            yield piece.positions, np.where(piece.seen, missed, 0.0), explained

    return Residual.measure(held())


def turned_by(rates: Reals, piece: Sample) -> ComplexRows:
    """The factors of these frequencies. Shape: (positions, pairs)."""
    angles = np.multiply.outer(piece.positions.astype(np.float64), rates)
    return np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)

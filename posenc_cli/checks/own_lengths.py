"""Rows that have the frequencies of their own length, as where a cache is not turned anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.reproduced import reproduced
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.formulas.scaled import rope_dynamic
from posenc_cli.inference.causes import Cause

if TYPE_CHECKING:
    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows


def own_length_cause(suspect: Suspect) -> Explanation | None:
    """Dynamic NTK whose base at row m is that of a sequence of m + 1 positions."""
    reference = suspect.sample.reference
    params, pairs = reference.params, reference.pairs
    if reference.encoding.bound.scheme is not rope_dynamic or pairs < 2:
        return None
    limit, factor = params["max_position_embeddings"], params["factor"]
    if (suspect.sample.positions < 0).any() or suspect.sample.positions.max() < limit:
        return None

    ladder = np.arange(pairs) / pairs

    def predicted(piece: Sample) -> ComplexRows:
        lengths = np.maximum(piece.positions + 1.0, limit)[:, None]
        stretch = factor * lengths / limit - (factor - 1)
        rates = (params["base"] * stretch ** (pairs / (pairs - 1))) ** -ladder  # (n, pairs)
        angles = piece.positions[:, None] * rates
        return np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)

    plain = params["base"] ** -ladder
    if not suspect.sample.explained_cells(predicted(suspect.sample), plain).all():
        return None
    residual = reproduced(suspect.whole, predicted, plain)
    if not residual.whole:
        return None
    message = f"past position {limit - 1} each row has the base of its own length, m + 1"
    evidence = "as keys in a cache that is not turned anew while the sequence grows"
    return with_residual(Explanation(Cause.FREQUENCY_RULE, message, evidence), residual)

"""Dynamic NTK with the base of each row's own length: a cache that is never rotated anew.

Decoding token by token with a cache of rotated keys gives such rows
(github.com/huggingface/transformers/issues/25104).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.reproduced import reproduced
from posenc_cli.diagnosis.wording import with_residual
from posenc_cli.formulas.scaled import dynamic_base, rope_dynamic
from posenc_cli.inference.causes import Cause
from posenc_cli.rotary.verdict import Explanation

if TYPE_CHECKING:
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, RealRows


def own_length_cause(suspect: Suspect) -> Explanation | None:
    """The cause where the base at row m is that of a sequence of m + 1 positions."""
    sample, reference = suspect.sample, suspect.sample.reference
    if reference.encoding.bound.scheme is not rope_dynamic or reference.pairs < 2:
        return None
    limit = int(reference.params["max_position_embeddings"])
    if (sample.positions < 0).any() or sample.positions.max() < limit:
        return None
    exponents = np.arange(reference.pairs) / reference.pairs

    def rates(lengths: RealRows) -> RealRows:
        """The frequencies at lengths (n, 1). Shape: (n, pairs)."""
        base = dynamic_base(reference.params, np.maximum(lengths, limit))
        return np.asarray(base**-exponents, np.float64)

    def predicted(piece: Sample) -> ComplexRows:
        positions = piece.positions[:, None].astype(np.float64)
        angles = positions * rates(positions + 1)
        return np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)

    plain = rates(np.zeros((1, 1)))[0]
    if not sample.explained_cells(predicted(sample), plain).all():
        return None
    residual = reproduced(suspect.whole, predicted, plain)
    if not residual.whole:
        return None
    message = f"past position {limit - 1} each row has the base of its own length, m + 1"
    evidence = "as keys in a cache that is not rotated anew while the sequence grows"
    return with_residual(Explanation(Cause.FREQUENCY_RULE, message, evidence), residual)

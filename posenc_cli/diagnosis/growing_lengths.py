"""Vectors that grow with their position as queries do that are scaled for long contexts.

Qwen's first models multiply queries by log-n (``use_logn_attn`` in their modeling_qwen.py), Llama 4
by a temperature (``attn_temperature_tuning`` in transformers).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import Defect
from posenc_cli.diagnosis.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record, replace
from posenc_cli.rotary.verdict import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Integers, Reals

_STEPS = tuple(2**power for power in range(10, 21))
"""Positions after which the temperature of Llama 4 changes: its config has 8192."""


class LengthLaw(Record):
    """By what rows are multiplied, a number for each position, and its formula."""

    text: str
    power: float
    context: int
    shift: int
    steps: bool = False

    def at(self, positions: Integers) -> Reals:
        """By what the rows at some positions are multiplied. Shape: (n, 1)."""
        places = positions[:, None] + self.shift
        if self.steps:
            return 1 + self.power * np.log1p(places // self.context)
        return np.maximum(1.0, np.log(np.maximum(places, 1)) / math.log(self.context))


def growth_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows are right but for a factor that grows with their positions."""
    sample = suspect.sample
    known = sample.seen & np.isfinite(sample.factors)
    rows = known.any(axis=1)  # (n,)
    lengths = np.abs(np.where(known, sample.factors, np.nan))[rows] / sample.reference.scale
    if not rows.any():
        return None
    positions = sample.positions[rows]
    sizes = np.nanmedian(lengths, axis=1)  # (rows,)
    if sizes.max() <= 1 + 4 * sample.tolerance.floor:
        return None
    last = int(positions[np.argmax(sizes)])
    for law in _laws(positions, sizes):
        cause = _cause_of(suspect, law, f"at position {last} by {sizes.max():.6g}")
        if cause is not None:
            return cause
    return None


def _cause_of(suspect: Suspect, law: LengthLaw, evidence: str) -> Explanation | None:
    """The cause if a law, and nothing else, explains every cell."""

    def shrunk(piece: Sample) -> Sample:
        with np.errstate(all="ignore"):
            factors = piece.factors / law.at(piece.positions)
        return replace(piece, factors=factors, amplitude=piece.reference.scale)

    rest = replace(suspect, sample=shrunk(suspect.sample), whole=suspect.whole.changed(shrunk))
    if not Defect().explained(rest.sample).all():
        return None
    residual = rest.residual(Defect())
    if not residual.whole:
        return None
    message = f"vectors are multiplied by {law.text}"
    return with_residual(Explanation(Cause.ATTENTION_FACTOR, message, evidence), residual)


def _laws(positions: Integers, sizes: Reals) -> Iterator[LengthLaw]:
    """Laws that give the largest factor that was measured. Shape of both: (n,)."""
    row = int(np.argmax(sizes))
    last, largest = int(positions[row]), float(sizes[row])
    for shift in (1, 0):
        place = "m + 1" if shift else "m"
        context = round(math.exp(math.log(max(last + shift, 1)) / largest))
        if context > 1:
            text = f"max(1, ln({place}) / ln {context}), as of log-n scaling"
            yield LengthLaw(text, 1.0, context, shift)
        for step in _STEPS:
            if last + shift >= step:
                power = float(f"{(largest - 1) / math.log1p((last + shift) // step):.4g}")
                text = f"1 + {power:g} · ln(1 + ⌊({place}) / {step}⌋), the temperature of Llama 4"
                yield LengthLaw(text, power, step, shift, steps=True)

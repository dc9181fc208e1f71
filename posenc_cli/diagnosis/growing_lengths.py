"""Vectors that grow with their position as queries do that are scaled for long contexts.

Qwen's first models multiply queries by log-n (``use_logn_attn`` in their modeling_qwen.py), Llama 4
by a temperature (``attn_temperature_tuning`` in transformers).
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import RotaryBug, named
from posenc_cli.diagnosis.claims import Claim
from posenc_cli.diagnosis.defects import Defect
from posenc_cli.inference.causes import Cause
from posenc_cli.records import replace
from posenc_cli.rotary.verdict import Explanation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Reals

_STEPS = tuple(2**power for power in range(10, 21))
"""Positions after which the temperature of Llama 4 changes: its config has 8192."""


def growth_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows are right but for a factor that grows with their positions."""
    sample = suspect.sample
    known = sample.seen & np.isfinite(sample.factors)
    rows = known.any(axis=1)  # (n,)
    if not rows.any():
        return None
    lengths = np.abs(np.where(known, sample.factors, np.nan))[rows] / sample.reference.scale
    sizes = np.nanmedian(lengths, axis=1)  # (rows,)
    largest, last = float(sizes.max()), int(sample.positions[rows][np.argmax(sizes)])
    if largest <= 1 + 4 * sample.tolerance.floor:
        return None
    for text, law in _laws(last, largest):

        def shrunk(piece: Sample, law: Callable[[Reals], Reals] = law) -> Sample:
            with np.errstate(all="ignore"):
                factors = piece.factors / law(piece.positions[:, None].astype(np.float64))
            return replace(piece, factors=factors, amplitude=piece.reference.scale)

        rest = replace(suspect, sample=shrunk(sample), whole=suspect.whole.changed(shrunk))
        message = f"vectors are multiplied by {text}"
        words = Explanation(Cause.ATTENTION_FACTOR, message, f"at position {last} by {largest:.6g}")
        causes = named(rest, [RotaryBug(Claim(Defect(), sample.reference.scale), words)])
        if causes:
            return causes[0]
    return None


def _laws(last: int, largest: float) -> Iterator[tuple[str, Callable[[Reals], Reals]]]:
    """Laws that give the largest factor, measured at position ``last``: of positions (n, 1)."""
    for shift, place in ((1, "m + 1"), (0, "m")):
        context = round(math.exp(math.log(max(last + shift, 1)) / largest))
        if context > 1:
            text = f"max(1, ln({place}) / ln {context}), as of log-n scaling"
            yield text, partial(_log_n, shift, context)
        for step in (step for step in _STEPS if step <= last + shift):
            power = float(f"{(largest - 1) / math.log1p((last + shift) // step):.4g}")
            text = f"1 + {power:g} · ln(1 + ⌊({place}) / {step}⌋), the temperature of Llama 4"
            yield text, partial(_temperature, shift, step, power)


def _log_n(shift: int, context: int, positions: Reals) -> Reals:
    logarithms = np.log(np.maximum(positions + shift, 1)) / math.log(context)
    return np.asarray(np.maximum(1.0, logarithms), np.float64)


def _temperature(shift: int, step: int, power: float, positions: Reals) -> Reals:
    return np.asarray(1 + power * np.log1p((positions + shift) // step), np.float64)

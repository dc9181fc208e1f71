"""Vectors that grow with their position by a known law: the scaling of long contexts' scores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.defects import Defect
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Integers, Reals

_STEPS = tuple(2**power for power in range(10, 21))
"""Positions after which the temperature of Llama 4 changes: its config has 8192."""


_LEAST = 1e-30
"""Factors that float32 holds with all its digits."""

_LEAST_RISE = 1e-3
"""Of the exponent: what float32 shows of it, to three digits."""

_FEWEST_ROWS = 3
"""Two give a law, a third confirms it."""

_NEAR = 1e-3
"""Of the scale: how near a whole number it must be; every cell then decides."""


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


class DecayLaw(Record):
    """The decay of xPos: pair i of ``pairs`` at position m is multiplied by ζ_i^((m − c)/s).

    ``sign`` is that of the exponent: 1 for queries, −1 for keys.
    """

    scale: int
    centre: float
    sign: int
    pairs: int

    @property
    def text(self) -> str:
        """Its formula."""
        moved = f"(m − {self.centre:g})" if self.centre else "m"
        minus = "−" if self.sign < 0 else ""
        return f"ζ_i^({minus}{moved}/{self.scale}) in pair i, the decay of xPos"

    def at(self, positions: Integers) -> Reals:
        """By what the rows at some positions are multiplied. Shape: (n, pairs)."""
        exponents = self.sign * (positions - self.centre) / self.scale
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(_zeta(self.pairs) ** exponents[:, None], np.float64)


def _zeta(pairs: int) -> Reals:
    """The bases of the decay, (2i/d + 0.4)/1.4, as xPos has them. Shape: (pairs,)."""
    return (np.arange(pairs) / pairs + 0.4) / 1.4


def growth_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows are right but for a factor that grows or decays with their positions."""
    sample = suspect.sample
    known = sample.seen & np.isfinite(sample.factors)
    rows = known.any(axis=1)  # (n,)
    lengths = np.abs(np.where(known, sample.factors, np.nan))[rows] / sample.reference.scale
    if not rows.any():
        return None
    positions = sample.positions[rows]
    for decay in _decays(positions, lengths):
        cause = _cause_of(suspect, decay, "pairs decay by powers of their own")
        if cause is not None:
            return cause
    sizes = np.nanmedian(lengths, axis=1)  # (rows,)
    if sizes.max() <= 1 + 4 * sample.tolerance.floor:
        return None
    last = int(positions[np.argmax(sizes)])
    for law in _laws(positions, sizes):
        cause = _cause_of(suspect, law, f"at position {last} by {sizes.max():.6g}")
        if cause is not None:
            return cause
    return None


def _cause_of(suspect: Suspect, law: LengthLaw | DecayLaw, evidence: str) -> Explanation | None:
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


def _decays(positions: Integers, lengths: Reals) -> Iterator[DecayLaw]:
    """The decay that the first pair and the extreme rows show. Shapes: (n,), (n, pairs)."""
    pairs = lengths.shape[1]
    usable = np.flatnonzero((lengths[:, 0] > _LEAST) & (lengths[:, 0] < 1 / _LEAST))
    if pairs < 2 or usable.size < _FEWEST_ROWS:
        return
    exponents = np.log(lengths[usable, 0]) / math.log(_zeta(pairs)[0])
    places = positions[usable]
    low, high = int(np.argmin(places)), int(np.argmax(places))
    rise = float(exponents[high] - exponents[low])
    if abs(rise) < _LEAST_RISE:
        return
    scale = float(places[high] - places[low]) / abs(rise)
    sign = 1 if rise > 0 else -1
    whole = round(scale)
    if whole < 1 or abs(scale / whole - 1) > _NEAR:
        return
    centre = float(places[low]) - sign * float(exponents[low]) * whole
    yield DecayLaw(whole, round(2 * centre) / 2, sign, pairs)


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

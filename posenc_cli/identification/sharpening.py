"""The number that gives every cell of a sample: what cells determine of a parameter.

Rates are read off phases, which lose digits that cells still have. Each cell says between which two
values its parameter lies, for the exact value rounds to it; all together leave an interval.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.inverse import snap, written_numbers
from posenc_cli.inference.tolerance import smallest, unit
from posenc_cli.inference.trial import as_columns, compute, put_right, try_hypothesis
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Hypothesis, Trial
    from posenc_cli.numerics.arrays import RealRows

_EQUAL = 0.5
"""Of the cells: so many are correctly rounded only where the number is nearly right."""

_BESIDE = 1e-7
"""Of a parameter: how far the next value is tried, for cells that change in proportion."""


def sharpened(trial: Trial, evidence: Evidence) -> Trial:
    """The trial with the number that gives every cell of the sample, or itself where none does."""
    hypothesis = trial.hypothesis
    fitted = [*hypothesis.uncertainty]
    plain = trial.arithmetic == "exact" and hypothesis.multiplier == 1 and not hypothesis.cells
    if len(fitted) != 1 or not plain or trial.equal < _EQUAL or trial.rounded == FLOAT64:
        return trial
    (name,) = fitted
    ends = None
    for _ in range(2):  # from the nearest number, where cells change in proportion
        ends, nearest = _ends(hypothesis, name, trial, evidence)
        hypothesis = _with_number(hypothesis, name, nearest, 0.0)
    if ends is None or not ends[0] < ends[1]:
        return trial
    middle, half = sum(ends) / 2, (ends[1] - ends[0]) / 2
    written = next(written_numbers(middle, half), None)
    number, error = (snap(middle, half), half) if written is None else (written[0], 0.0)
    best = try_hypothesis(_with_number(hypothesis, name, number, error), evidence)
    return best if best.fits and best.equal >= trial.equal else trial


def _with_number(hypothesis: Hypothesis, name: str, number: float, error: float) -> Hypothesis:
    uncertainty = {name: error} if error else {}
    return replace(hypothesis, given={**hypothesis.given, name: number}, uncertainty=uncertainty)


def _ends(
    hypothesis: Hypothesis, name: str, trial: Trial, evidence: Evidence
) -> tuple[tuple[float, float] | None, float]:
    """Between which values of a parameter all cells round as they do, and the nearest to them all.

    None where no value gives all cells.
    """
    value = float(str(hypothesis.given[name]))
    beside = _with_number(hypothesis, name, value * (1 + _BESIDE), 0.0)
    low, high, missed, power = -math.inf, math.inf, 0.0, 0.0
    for table, sample in zip(
        hypothesis.tables, put_right(hypothesis, evidence.sample), strict=True
    ):
        own, moved = (
            compute(each.encoding(), table, each.positions, FLOAT64, "exact")
            for each in (hypothesis, beside)
        )
        cells = as_columns(sample).astype(np.float64).reshape(own.shape)
        slopes = (moved - own) / (value * _BESIDE)
        gaps = cells - own
        half = _half_units(cells, trial.rounded.name)
        with np.errstate(all="ignore"):
            first, second = (gaps - half) / slopes, (gaps + half) / slopes
        steep = np.abs(slopes) > 0
        if steep.any():
            low = max(low, float(np.minimum(first, second)[steep].max()))
            high = min(high, float(np.maximum(first, second)[steep].min()))
        missed += float((slopes * gaps).sum())
        power += float((slopes**2).sum())
    nearest = value + (missed / power if power else 0.0)
    return (None if low > high else (value + low, value + high)), nearest


def _half_units(cells: RealRows, name: str) -> RealRows:
    """How far from each cell a number may be that rounds to it."""
    _, exponents = np.frexp(cells)
    return np.asarray(np.maximum(np.ldexp(unit(name), exponents - 1), smallest(name) / 2))

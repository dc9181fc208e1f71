"""The numbers that give every cell of a sample: what cells determine of parameters.

Rates are read off phases, which lose digits that cells still have. Newton's method finds the
numbers that leave least over in all cells together.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.inverse import DOUBLE, SPARE, snap, written_numbers
from posenc_cli.inference.differences import as_columns
from posenc_cli.inference.tolerance import FUNCTIONS, smallest, unit
from posenc_cli.inference.trial import compute, try_hypothesis
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Hypothesis, Trial
    from posenc_cli.numerics.arrays import Reals

_BESIDE = 1e-7
"""Of a parameter: how far the next value is tried, for cells that change in proportion."""
_STEPS, _SETTLED = 4, 1e-14
"""Of Newton's method, and the last of them, of a parameter."""
_NEARLY = 64.0
"""Of the tolerance, that of float32 code too: what leaves more over is not nearly right."""
_FAR = 0.01
"""Of a parameter: a step so long leads nowhere."""
_BETTER, _GIVEN = 0.5, 0.97
"""Of the bits that a trial leaves over, and of the cells: what leaves more, or gives fewer, may be
noise that was fitted."""
_MANY_CELLS, _MOSTLY_RIGHT = 16, 0.75
"""So many cells, and of them the share that a written number gives, where low precision may be why
it does not give all: one cell in many that is at a tie a fitted number gives by chance."""


def sharpened(trial: Trial, evidence: Evidence) -> Trial:
    """The trial with the numbers that give the cells of the sample best, or itself.

    Those of a table that code in low precision computed give none: they leave as much over.
    """
    hypothesis = trial.hypothesis
    shown = hypothesis.tables == ("inv-freq",) or trial.arithmetic in ("exact", "float64")
    plain = shown and hypothesis.multiplier == 1
    right = trial.equal == 1 and not hypothesis.uncertainty
    far = trial.ratio > _NEARLY and trial.residual > _NEARLY * FUNCTIONS
    if not plain or right or far:
        return trial
    best = trial
    numbers_of = hypothesis.given.items()  # of a partial rotation whole pairs show alone
    every = [n for n, value in numbers_of if isinstance(value, float) and n != "partial"]
    for free in dict.fromkeys((tuple(hypothesis.uncertainty), tuple(every))):
        numbers, names = hypothesis, free
        with contextlib.suppress(InvalidInput):  # a number past the bounds of a parameter
            while names and (found := _nearest(numbers, names, trial, evidence)) is not None:
                numbers, names = found
                sharper = try_hypothesis(numbers, evidence)
                if _is_better(sharper, best, evidence):
                    best = sharper
        if best.equal == 1:
            break
    return best


def _is_better(sharper: Trial, best: Trial, evidence: Evidence) -> bool:
    """Whether numbers give so many more cells that chance, or a rounding, does not explain it."""
    if not sharper.fits or sharper.bits > _BETTER * best.bits:
        return False
    coarse = sharper.rounded != FLOAT64
    if coarse and sharper.hypothesis.uncertainty and not best.hypothesis.uncertainty:
        many = evidence.count >= _MANY_CELLS and best.equal <= _MOSTLY_RIGHT
        return sharper.equal == 1 and many
    return sharper.equal >= _GIVEN or (not coarse and len(evidence.shape) > 1)


def _with_numbers(
    hypothesis: Hypothesis, names: Sequence[str], numbers: Sequence[float], errors: Sequence[float]
) -> Hypothesis:
    given = {**hypothesis.given, **dict(zip(names, numbers, strict=True))}
    uncertainty = {n: e for n, e in zip(names, errors, strict=True) if e}
    return replace(hypothesis, given=given, uncertainty=uncertainty)


def _nearest(
    hypothesis: Hypothesis, names: Sequence[str], trial: Trial, evidence: Evidence
) -> tuple[Hypothesis, tuple[str, ...]] | None:
    """The hypothesis with the numbers that come nearest to all cells, and which stay uncertain.

    None where none come near, or nothing is left to settle.
    """
    values = np.array([float(str(hypothesis.given[name])) for name in names])
    for _ in range(_STEPS):
        own, cells = _cells(hypothesis, names, values, evidence)
        half = _half_units(cells, trial.rounded.name)
        moved = values * (1 + _BESIDE * np.eye(values.size))
        besides = [_cells(hypothesis, names, beside, evidence)[0] for beside in moved]
        slopes = (np.stack(besides, axis=1) - own[:, None]) / _BESIDE / half[:, None]
        gaps = (cells - own) / half
        if not np.isfinite(slopes).all():
            return None
        step, _, _, _ = np.linalg.lstsq(slopes, gaps, rcond=1e-12)
        if not np.isfinite(step).all() or np.abs(step).max() > _FAR:
            return None
        values = values * (1 + step)
        if np.abs(step).max() <= _SETTLED:
            break
    left = gaps - slopes @ step
    power = np.diagonal(np.linalg.pinv(slopes.T @ slopes))
    errors = 6 * np.sqrt(np.mean(left**2) * np.maximum(power, 0)) + DOUBLE
    share = 1 / SPARE
    if values.size == 1:  # between which numbers do all cells round as they do
        steep = slopes[:, 0] != 0
        sides = (left[steep] + [[-1], [1]]) / slopes[steep, 0]
        low, high = sides.min(axis=0).max(initial=-np.inf), sides.max(axis=0).min(initial=np.inf)
        if low < high < np.inf:
            values *= 1 + (low + high) / 2
            errors[0], share = (high - low) / 2, 1.0
    return _written(hypothesis, names, values.tolist(), (values * errors).tolist(), share=share)


def _written(
    hypothesis: Hypothesis,
    names: Sequence[str],
    values: list[float],
    errors: list[float],
    *,
    share: float,
) -> tuple[Hypothesis, tuple[str, ...]]:
    """The hypothesis with the first number that people write within its error, and the others.

    These are rounded by a ``share`` of their errors at most.
    """
    numbers = [snap(value, share * error) for value, error in zip(values, errors, strict=True)]
    left = [(1 + share) * error for error in errors]
    for index, (name, value, error) in enumerate(zip(names, values, errors, strict=True)):
        near = [number for number, _ in written_numbers(value, error)]
        if name not in hypothesis.uncertainty:
            near.insert(0, float(str(hypothesis.given[name])))
        written = [number for number in near if abs(number - value) <= error]
        if written:  # the others are solved for again
            numbers[index], left[index] = written[0], 0.0
            others = tuple(other for other in names if other != name)
            return _with_numbers(hypothesis, names, numbers, left), others
    return _with_numbers(hypothesis, names, numbers, left), ()


def _cells(
    hypothesis: Hypothesis, names: Sequence[str], values: Reals, evidence: Evidence
) -> tuple[Reals, Reals]:
    """The exact cells of a hypothesis with other numbers, and those of the sample."""
    other = _with_numbers(hypothesis, names, values.tolist(), [0.0] * len(names))
    encoding, own, cells = other.encoding(), [], []
    for table, sample in zip(hypothesis.tables, evidence.sample, strict=True):
        own.append(compute(encoding, table, other.positions, FLOAT64, "exact").reshape(-1))
        cells.append(as_columns(sample).astype(np.float64).reshape(-1))
    return np.concatenate(own), np.concatenate(cells)


def _half_units(cells: Reals, name: str) -> Reals:
    """How far from each cell a number may be that rounds to it."""
    _, exponents = np.frexp(cells)
    return np.asarray(np.maximum(np.ldexp(unit(name), exponents - 1), smallest(name) / 2))

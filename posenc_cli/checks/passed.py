"""The cause of columns that no pair has and that do not stay as they are, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Residual
from posenc_cli.inference.fitting import fit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.verdict import Examination
    from posenc_cli.inference.turning import SubjectBlock, Turning
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals


def passed_cause(examination: Examination) -> Explanation | None:
    """The cause where these columns are multiplied by one number, or turn at steady rates.

    None where they stay, or where neither explains every cell.
    """
    passed, floor = examination.subject.passed, examination.tolerance.floor
    if passed is None:
        return None
    sample = passed.read(passed.places.sample())
    seen = True if sample.seen is None else sample.seen
    turned = np.where(np.isfinite(sample.turned) & seen, sample.turned, np.nan)
    if (np.isnan(turned) | (np.abs(turned - 1) <= 2 * floor)).all():
        return None
    size = float(np.nanmedian(turned.real))
    still = np.zeros(passed.pairs)
    size = 0.0 if abs(size) <= 2 * floor else size
    residual = _residual(passed, examination, still, size)
    if residual.whole:
        return with_residual(_multiplied_cause(examination, passed, size), residual)
    rotations = fit(sample.positions, np.nan_to_num(turned))
    rates = rotations.frequencies
    residual = _residual(passed, examination, rates, 1.0)
    if not residual.whole:
        return None
    assert passed.pairing is not None
    columns = zip(passed.pairing.first, passed.pairing.second, rates, strict=True)
    first, *_, last = (f"columns {a} and {b} turn by {rate:.6g}" for a, b, rate in columns)
    message = f"{_columns_text(passed)} turn, too: they should stay as they are"
    turning = Explanation(Cause.ROTARY_DIM, message, f"{first} a position, {last}")
    return with_residual(turning, residual)


def changed_columns(examination: Examination) -> Explanation:
    """The cause where these columns change in a way that nothing explains, and no others do."""
    assert examination.subject.passed is not None
    message = f"{_columns_text(examination.subject.passed)} do not keep their values"
    return Explanation(Cause.ROTARY_DIM, message, "those that should rotate do so")


def _columns_text(passed: Turning) -> str:
    return f"the {2 * passed.pairs} columns that no pair of the reference has"


def _multiplied_cause(examination: Examination, passed: Turning, size: float) -> Explanation:
    scale = examination.reference.scale
    known = scale != 1 and abs(size - scale) <= 1e-4 * scale
    become = f"are multiplied by {size:.6g}" if size else "become 0"
    which = ", the attention factor" if known else ""
    return Explanation(
        Cause.ATTENTION_FACTOR if known else Cause.ROTARY_DIM,
        f"{_columns_text(passed)} {become}{which}: they should stay as they are",
        "",
    )


def _residual(passed: Turning, examination: Examination, rates: Reals, size: float) -> Residual:
    """What is left over if these columns are multiplied by ``size`` and turn at these rates."""

    def missed(block: SubjectBlock) -> tuple[RealRows, Flags]:
        angles = np.multiply.outer(block.positions.astype(np.float64), rates)
        stray = block.stray()
        off = np.abs(block.turned - size * np.exp(1j * angles)) + (0 if stray is None else stray)
        off = off if block.seen is None else np.where(block.seen, off, 0.0)
        # A row of few columns is rounded as one of all, and less than its size is.
        allowed = 4 * max(1.0, size) * examination.tolerance.cells(block.positions, rates)
        return off, off <= allowed

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for block in passed.blocks():
            yield block.positions, *missed(block)

    return Residual.measure(held())

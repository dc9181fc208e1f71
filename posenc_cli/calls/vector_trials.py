"""How vectors become other than the unit vectors that they are made of say: a trial of each way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import (
    ALIKE,
    MULTIPLE,
    Irregularity,
    turned_vectors,
    unmeasured,
)
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.serving import other_vectors
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half

if TYPE_CHECKING:
    from posenc_cli.calls.function_trial import FunctionTrial
    from posenc_cli.numerics.arrays import NumberArray


def follows_partner(trial: FunctionTrial, values: NumberArray) -> Irregularity | None:
    """What of q becomes part of k, or of k part of q; None where nothing does."""
    function, form = trial.function, trial.function.form
    if function.results < 2 or function.follows_length or not form.any_rows:
        return None
    x, other = trial.x, other_vectors(trial.x)
    own = Vectors(x[None, :, None], trial.positions.size)
    partner = Vectors(other_vectors(other)[None, :, None], trial.positions.size)
    given = [own, partner] if trial.which == 0 else [partner, own]
    turned = function.together(form, trial.positions[None], given)[trial.which].values[0][:, 0]
    if not trial.differs(turned, values):
        return None
    name, of = ("q", "k") if trial.which == 0 else ("k", "q")
    straight = trial.matrices * np.eye(form.columns)  # (n, columns, columns), what cosines multiply
    across = trial.matrices - straight
    for what, mine, theirs in (("sines", straight, across), ("cosines", across, straight)):
        if not trial.differs(values, turned_vectors(x, mine) + turned_vectors(other, theirs)):
            return Irregularity(
                Cause.COS_SIN_MISPAIRED,
                f"the {what} multiply columns of {of} in place of its own",
                "so made, all rows that were looked at are reproduced",
                f"the function makes {name} of {of} as well",
            )
    text = f"makes {name} of {of} as well"
    return unmeasured(text, "given others in its place, it gives other values")


def rounding_of_vectors(trial: FunctionTrial, values: NumberArray) -> Irregularity | None:
    """The format that vectors are rounded to, before or after they turn; None where to none."""
    if trial.differs(values, trial.expected, coarse=True):
        return None
    off = float(np.abs(values - trial.expected).max())
    for half in HALVES:
        rounded = round_to_half(trial.x.astype(np.float64), half)
        if not trial.differs(values, turned_vectors(rounded, trial.matrices)):
            return Irregularity(
                Cause.TABLE_PRECISION,
                f"the vectors are rounded to {half} before they turn",
                f"results are off by up to {off:.2g}, and are those of vectors so rounded; "
                "cosines and sines are not rounded so",
            )
    # A rounding keeps multiples by a power of two, and no sums; what is smooth bends both.
    if not trial.differs(trial.given(trial.x * MULTIPLE, trial.positions) / MULTIPLE, values):
        return Irregularity(
            Cause.TABLE_PRECISION,
            "vectors, or what becomes of them, are rounded to less than float32 inside",
            f"results are off by up to {off:.2g}, by as much of any multiple",
        )
    return None


def added_to_rows(trial: FunctionTrial, values: NumberArray) -> Irregularity | None:
    """What is added to each row whatever it holds; None where that is not all there is."""
    shift = trial.given(np.zeros_like(trial.x), trial.positions).astype(np.float64)
    if not np.isfinite(shift).all() or not trial.differs(shift, np.zeros_like(shift)):
        return None
    matrices = trial.matrices - shift[:, None, :]  # a unit vector comes out with it, too
    if trial.differs(values, turned_vectors(trial.x, matrices) + shift):
        return None
    lengths = np.linalg.norm(shift, axis=1)  # (n,)
    row = int(np.argmax(lengths))
    evidence = (
        f"a row of zeros at position {trial.positions[row]} becomes one of length "
        f"{lengths[row]:.4g}; less such rows it is linear"
    )
    products = np.einsum("kjo,kio->kji", matrices, matrices)
    unit, near = np.eye(matrices.shape[1]), ALIKE * (1 + np.abs(shift).max())
    cause, message = Cause.UNKNOWN, "a vector is added to each row"
    if np.abs(matrices - unit).max() <= near:
        cause, message = Cause.NO_ROTATION, "a vector is added to each row, and nothing turns"
    elif np.ptp(shift, axis=0).max() <= near:
        message = "the same vector is added to each row"
    elif np.abs(products - unit).max() <= near and np.ptp(lengths) <= near * lengths[row]:
        cause = Cause.COS_SIN_MISPAIRED
        message = "rows are turned, and a vector of the same length at all positions is added"
    return Irregularity(cause, message, evidence, "the function adds to each row")


def mixing_of_rows(trial: FunctionTrial, values: NumberArray) -> str:
    """How the result of one row follows from another; empty where none does."""
    changed = trial.positions.size // 2
    x = trial.x.copy()
    x[changed] = -2 * x[changed]
    other = np.arange(trial.positions.size) != changed
    apart = np.abs(trial.given(x, trial.positions) - values).max(axis=1) * other
    row = int(np.argmax(apart))
    if not trial.differs(apart, np.zeros_like(apart)):
        return ""
    at, by = (int(trial.positions[index]) for index in (row, changed))
    return f"where the row at position {by} alone changes, that at position {at} does too"


def bending(trial: FunctionTrial, values: NumberArray) -> str:
    """Which sum or multiple of vectors comes out as another; empty where none does."""
    x, positions = trial.x, trial.positions
    if trial.differs(trial.given(x * MULTIPLE, positions) / MULTIPLE, values):
        return f"{MULTIPLE:g} times x gives another result"
    second = x[:, ::-1].copy()
    total = trial.given((x + second) / 2, positions)
    if trial.differs(total, (values + trial.given(second, positions)) / 2):
        return "the sum of two vectors does not become the sum of what they become"
    return ""

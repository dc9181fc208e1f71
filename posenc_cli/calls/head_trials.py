"""What becomes of the heads of one call: that change places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import Irregularity
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause

if TYPE_CHECKING:
    from posenc_cli.calls.function_trial import FunctionTrial

_FEW_ROWS = 8
"""Of a call that tells heads apart."""


def heads_exchanged(trial: FunctionTrial) -> Irregularity | None:
    """Which heads of one call come back in the places of others; None where none do."""
    function, form = trial.function, trial.function.form
    positions = np.arange(min(_FEW_ROWS, trial.positions.size))
    apart = form.has_heads and not form.flat and not function.follows_length
    if not apart or positions[-1] > trial.positions.max():
        return None
    # Each is given another multiple of the same vectors, which tells them apart in one call.
    count, x = form.columns, trial.x[: positions.size]
    multiples = 1 + np.arange(count, dtype=np.float32) / count
    both = [part[None, :, None] * multiples[:, None] for part in (x, other_vectors(x))]
    given = [
        Vectors(part, positions.size)
        for part in (both if trial.which == 0 else both[::-1])[: len(form.vectors)]
    ]
    try:
        heads = function.together(form, positions[None], given)[trial.which].values[0]
        alone = trial.given(x, positions)  # (n, columns)
    except InvalidInput:
        function.revive()
        return None
    heads = heads.reshape(positions.size, -1, alone.shape[1])
    shares = np.einsum("nhc,nc->h", heads, alone) / max(float((alone**2).sum()), 1e-30)
    sources = np.rint((shares - 1) * count)
    moved = np.flatnonzero(sources != np.arange(count))
    if not moved.size or sorted(sources.tolist()) != list(range(count)):
        return None
    if trial.differs(heads, alone[:, None] * multiples[sources.astype(np.int64), None]):
        return None
    shown = ", ".join(f"head {sources[head] + 1:g} as {head + 1}" for head in moved[:3])
    return Irregularity(
        Cause.LAYOUT,
        f"heads change places: {shown}{', …' if moved.size > 3 else ''}",
        f"in a call with {count} heads each comes back so",
        "heads change places",
    )

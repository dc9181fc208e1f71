"""What becomes of rows that a kernel takes in blocks: left out, or turned as their first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import Irregularity, numbers_text
from posenc_cli.inference.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.calls.function_trial import FunctionTrial
    from posenc_cli.numerics.arrays import Flags, NumberArray

_BLOCKS = (2, 4, 8, 16, 32, 64, 128)
"""Rows that a kernel takes at once."""


_SHARED = 32
"""Rows of a call that tells blocks apart, whose positions are of the first of each."""


_COUNTS = (1, 2, 3, 5, 7, 8, 13, 16, 27, 32, 45, 64, 77, 128, 133)
"""Rows of calls that tell blocks apart: those that fill one, and others."""


def rows_in_blocks(trial: FunctionTrial) -> Irregularity | None:
    """What goes wrong with rows that a kernel takes in blocks; None where nothing does so."""
    x = _rows_of_blocks(trial)
    return _left_out(trial, x) or _shared_in_blocks(trial, x)


def _rows_of_blocks(trial: FunctionTrial) -> NumberArray:
    """Vectors, as many as there are positions for. Shape: (n, columns)."""
    most = min(max(_COUNTS), int(trial.positions.max()))
    x = np.random.default_rng(22).standard_normal((most, trial.x.shape[1]))
    return x.astype(np.float32)


def _calls_of_blocks(trial: FunctionTrial, x: NumberArray) -> dict[int, NumberArray]:
    """What becomes of the first rows in calls of several lengths."""
    return {
        count: trial.given(x[:count], np.arange(1, count + 1))
        for count in _COUNTS
        if count <= len(x)
    }


def left_whole(trial: FunctionTrial) -> Irregularity | None:
    """Where calls of several lengths leave all rows as given, so that no block shows."""
    x = _rows_of_blocks(trial)
    calls = _calls_of_blocks(trial, x)
    if any(trial.differs(values, x[:count]) for count, values in calls.items()):
        return None
    return Irregularity(
        Cause.NO_ROTATION,
        f"all rows of calls of up to {max(calls)} rows are left as given",
        f"calls of {numbers_text([*calls])} rows show it",
        "the function leaves rows out",
    )


def _left_out(trial: FunctionTrial, x: NumberArray) -> Irregularity | None:
    """What becomes of rows that fill no block; None where none are left out so."""
    calls, opposite = _calls_of_blocks(trial, x), [*_calls_of_blocks(trial, -x).values()]
    for cause, what, wanted in (
        (Cause.NO_ROTATION, "left as given", [x[:count] for count in calls]),
        (
            Cause.UNINITIALISED,
            "not written: they are the same whatever is given",
            opposite,
        ),
    ):
        found = [
            np.array([not trial.differs(*pair) for pair in zip(*of_call, strict=True)])
            for of_call in zip(calls.values(), wanted, strict=True)
        ]
        block = _block_left_out(found)
        if block is not None:
            return Irregularity(
                cause,
                f"rows behind the last whole block of {block} are {what}",
                f"calls of {numbers_text([*calls])} rows show it",
                "the function leaves rows out",
            )
    return None


def _block_left_out(found: Sequence[Flags]) -> int | None:
    """The rows of a block behind whose last whole one rows are left out, by flags of each call."""
    for block in _BLOCKS:
        if block <= found[-1].size and all(
            np.array_equal(flags, np.arange(flags.size) >= flags.size // block * block)
            for flags in found
        ):
            return block
    return None


def _shared_in_blocks(trial: FunctionTrial, x: NumberArray) -> Irregularity | None:
    """What becomes of rows that share a position with others of a block; None where none do."""
    positions = 1 + 3 * np.arange(min(len(x), int(trial.positions.max())) // 3)[:_SHARED]
    if positions.size < _SHARED or trial.function.form.from_zero:
        return None
    values = trial.given(x[:_SHARED], positions)
    for block in (1, *(block for block in _BLOCKS if block <= _SHARED)):
        used = positions[np.arange(_SHARED) // block * block]
        alone = [trial.given(x[[row]], used[[row]]) for row in range(_SHARED)]
        if not trial.differs(values, np.concatenate(alone)):
            if block == 1:
                return None
            # As many rows as the call has may be a part of a larger block.
            which = f"a block of {block}" if block < _SHARED else f"a call of {_SHARED}"
            return Irregularity(
                Cause.POSITION_OFFSET,
                f"all rows of {which} are turned at the position of its first",
                f"a call of {_SHARED} rows at every third position shows it",
                "the function shares positions",
            )
    return None

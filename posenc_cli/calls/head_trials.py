"""What becomes of the heads of one call: in the places of others, or turned otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import (
    UNLIKE_HEADS,
    Irregularity,
    numbers_text,
    unmeasured,
)
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import range_texts

if TYPE_CHECKING:
    from posenc_cli.calls.function_trial import FunctionTrial
    from posenc_cli.numerics.arrays import Flags, NumberArray

_LISTED = 6
"""Heads, or runs of them, that are listed one by one."""


_FEW_ROWS = 8
"""Of a call that tells heads apart."""


_HEADS = (2, 3, 4, 8, 12, 16, 32)
"""How many heads calls have that are held to one of a single head."""


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


def heads_apart(trial: FunctionTrial) -> Irregularity | None:
    """What becomes of heads of one call otherwise than of its first, or in calls of fewer."""
    function, form = trial.function, trial.function.form
    if not form.has_heads or form.flat or function.follows_length:
        return None
    positions = trial.positions
    if not form.any_rows:
        positions = np.arange(min(positions.size, int(positions.max()))) + (not form.from_zero)
    count, rows, own = form.columns, positions.size, trial.x[: positions.size]

    def of_heads(x: NumberArray, count: int = count) -> NumberArray:
        """What becomes of vectors (n, columns), the same for each head: (n, heads, columns)."""
        both = [x, other_vectors(x)]
        given = [
            Vectors(np.repeat(part[None, :, None], count, axis=2), rows)
            for part in (both if trial.which == 0 else both[::-1])[: len(form.vectors)]
        ]
        heads: NumberArray = function.together(form, positions[None], given)[trial.which].values[0]
        return heads

    def same(heads: NumberArray, wanted: NumberArray) -> Flags:
        return np.array([not trial.differs(heads[:, head], wanted) for head in range(count)])

    heads = of_heads(own)
    first = heads[:, 0]
    as_first = same(heads, first)
    if as_first.all():
        return _by_heads(trial, own, {few: of_heads(own, few) for few in (1, *_HEADS, count)})
    stay = same(heads, own)
    turned = heads[:, int(np.argmin(stay))]
    if stay.any() and not stay.all() and same(heads, turned)[~stay].all():
        message = f"{_numbered(stay)} left as given"
        evidence = "in one call in which all hold the same vectors"
        return Irregularity(Cause.NO_ROTATION, message, evidence, UNLIKE_HEADS)
    if np.array_equal(same(of_heads(first), own), ~as_first):
        message = f"{_numbered(~as_first)} turned the other way round than head 1"
        evidence = "given what head 1 becomes, they give back what it was"
        return Irregularity(Cause.DIRECTION, message, evidence, UNLIKE_HEADS)
    evidence = f"{_numbered(~as_first)} turned otherwise than head 1"
    return unmeasured("turns heads differently", evidence)


def _by_heads(
    trial: FunctionTrial, x: NumberArray, calls: dict[int, NumberArray]
) -> Irregularity | None:
    """In calls of how many heads they become otherwise; ``calls`` are their results by number."""
    most = max(calls)
    wrong = [count for count in calls if trial.differs(calls[count][:, 0], calls[most][:, 0])]
    if not wrong:
        return None
    right = [count for count in calls if count not in wrong]
    for which, others in ((wrong, right), (right, wrong)):
        if not any(trial.differs(calls[count][:, 0], x) for count in which):
            message = f"in calls of {numbers_text(which)} heads the first is left as given"
            evidence = f"in those of {numbers_text(others)} it is not"
            return Irregularity(Cause.NO_ROTATION, message, evidence, UNLIKE_HEADS)
    evidence = f"in calls of {numbers_text(wrong)} heads otherwise than of {numbers_text(right)}"
    return unmeasured("turns a row by how many heads there are", evidence)


def _numbered(some: Flags) -> str:
    """Some heads of a call, counted from 1, as the beginning of a sentence."""
    texts = range_texts(list(np.flatnonzero(some) + 1))
    numbers = ", ".join(texts if len(texts) <= _LISTED else [*texts[:3], "…", texts[-1]])
    text = "heads {} of {} are" if some.sum() > 1 else "head {} of {} is"
    return text.format(numbers, some.size)

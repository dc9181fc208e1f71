"""Heads of one call that differ: they change places, or each is judged alone, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.batches import Together, exchanged_text
from posenc_cli.calls.function_trial import ALIKE, UNLIKE_HEADS, Irregularity
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import range_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.calls.call_log import CallLog
    from posenc_cli.calls.function_trial import FunctionTrial, Told
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

_FEW_ROWS = 8
"""Of a call that tells heads apart."""

_HEADS = (12, 10, 14)
"""Heads of a call, the first of which is the length of no other axis."""

_STARTS, _ROWS = (0, 11, 100, 1000, 10_000), 7
"""Where sequences begin that come in calls of their own, and how many rows these have."""

_POSITIONS = (*range(9), *(2**power + more for power in range(4, 16) for more in (-1, 0, 1)))
"""Positions of one call of rows at any."""

_FROM_ZERO = 301
"""Rows of a sequence that begins at 0."""

_TOLD = 3
"""Groups of heads that are told apart one by one."""

_MISTAKEN: tuple[tuple[str, str, Callable[[Integers, NumberArray, NumberArray], Any]], ...] = (
    (
        "rows are turned by the number of their head, not by their position",
        "head h is turned as position h",
        lambda _positions, _row, head: head,
    ),
    (
        "heads side by side, (rows, heads·d), are read as (heads, rows, d)",
        "head h of row n is turned as row (n · heads + h) mod rows",
        lambda positions, row, head: positions[(row * row.shape[1] + head) % positions.size],
    ),
)
"""How rows and heads are taken for one another, and at which positions (n, heads) they are then."""


def heads_exchanged(trial: FunctionTrial, _: NumberArray) -> Irregularity | None:
    """Which heads of one call come back in the places of others; None where none do."""
    function, form = trial.function, trial.function.form
    positions = np.arange(min(_FEW_ROWS, trial.positions.size))
    apart = form.has_heads and not form.flat and not function.follows_length
    if not apart or positions[-1] > trial.positions.max():
        return None
    shape = 1, positions.size, form.columns, form.columns
    x = np.random.default_rng(19).standard_normal(shape).astype(np.float32)
    given = [x, other_vectors(x)][: len(form.vectors)]
    try:
        together = Together(function, form, positions[None], given, trial.differs)
    except InvalidInput:
        function.revive()
        return None
    part = together.parts[trial.which]
    sources = together.sources(part)
    if sources is None or not part.wrong.any():
        return None
    return Irregularity(
        Cause.LAYOUT,
        f"heads change places: {exchanged_text(sources)}",
        f"in a call with {form.columns} heads each comes back so",
        "heads change places",
    )


def unlike_heads(log: CallLog, which: int, dtype: str, context: int) -> tuple[Irregularity, ...]:
    """What is wrong with which heads of one call; nothing where that is not known of all of them.

    All are given the same vectors, at positions below ``context``.
    """
    function, form = log.function, log.function.form
    if not form.has_heads or function.follows_length:
        return ()
    taken = {form.columns, form.columns // 2, _ROWS, len(_POSITIONS), _FROM_ZERO}
    heads = next(count for count in _HEADS if count not in taken)
    parts = []
    try:
        for where in _calls(function, context):
            x = np.random.default_rng(23 + where.size).standard_normal(
                (where.size, form.columns), np.float32
            )
            parts.append((where, x, _together(function, where, x, which, heads)))
    except InvalidInput:
        function.revive()
        return ()
    positions, rows = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
    x, values = (np.concatenate([part[place] for part in parts])[rows] for place in (1, 2))
    for message, place, at in _MISTAKEN:
        if _turned_at(values, x, log.reference, at(positions, *np.indices(values.shape[:2]))):
            evidence = f"in calls of {heads} heads {place} at all positions"
            return (Irregularity(Cause.AXIS, message, evidence, UNLIKE_HEADS),)
    causes = _causes(log, x, values, dtype, positions)
    groups: dict[tuple[tuple[Cause, str, str], ...], list[int]] = {}
    for head, found in enumerate(causes):
        told = tuple((why.cause, why.message, why.evidence) for why in found)
        groups.setdefault(told, []).append(head)
    if len(groups) < 2:
        return ()
    right = len(groups.pop((), []))
    evidence = f"at all {positions.size} positions of calls of {heads} heads with the same vectors"
    evidence += f"; {right} of {heads} heads are right" if right else ""
    of_groups = sorted(groups.values(), key=len, reverse=True)
    texts = [(group, causes[group[0]][0]) for group in of_groups]
    if len(texts) <= _TOLD:
        return tuple(
            Irregularity(
                why.cause,
                f"{_heads_text(group, heads)}: {why.message}",
                f"{why.evidence}; {evidence}",
                UNLIKE_HEADS,
            )
            for group, why in texts
        )
    shown = "; ".join(f"{_heads_text(group, heads)}: {why.message}" for group, why in texts[:_TOLD])
    cause = texts[0][1].cause if len({why.cause for _, why in texts}) == 1 else Cause.UNKNOWN
    message = f"heads are turned each in a way of its own: {shown}; …"
    return (Irregularity(cause, message, evidence, UNLIKE_HEADS),)


def _causes(
    log: CallLog, x: NumberArray, values: NumberArray, dtype: str, positions: Integers
) -> list[Sequence[Told]]:
    """The causes of each head of values (n, heads, columns); nothing where one is not known."""
    causes: list[Sequence[Told]] = []
    if not np.isfinite(values).all() or not np.ptp(values, axis=1).any():
        return causes
    for head in range(values.shape[1]):
        own = values[:, head]
        same = next((n for n in range(head) if np.array_equal(values[:, n], own)), None)
        found = causes[same] if same is not None else None
        found = found or log.causes(x, own, dtype, log.reference, positions)
        if found is None:
            return []
        causes.append(found)
    return causes


def _turned_at(values: NumberArray, x: NumberArray, reference: Reference, places: Integers) -> bool:
    """Whether the heads (n, heads, columns) of vectors (n, columns) are turned at positions."""
    pairing = reference.pairing
    turns = reference.turns.at(places.reshape(-1)).reshape(*places.shape, -1)
    before = x[:, list(pairing.first)] + 1j * x[:, list(pairing.second)]
    after = values[..., list(pairing.out_first)] + 1j * values[..., list(pairing.out_second)]
    return bool(np.abs(after - before[:, None] * turns).max() <= ALIKE * np.abs(x).max())


def _heads_text(group: list[int], count: int) -> str:
    """Some heads, counted from 1."""
    numbers = ", ".join(range_texts([head + 1 for head in group]))
    return f"head{'s' * (len(group) > 1)} {numbers} of {count}"


def _calls(function: ServedFunction, context: int) -> Iterator[Integers]:
    """The positions of the calls that are made."""
    if function.form.any_rows:
        yield np.array([position for position in _POSITIONS if position < context])
    elif function.form.from_zero:
        yield np.arange(min(_FROM_ZERO, context))
    else:
        for start in _STARTS:
            if start + _ROWS <= context:
                yield np.arange(start, start + _ROWS)


def _together(
    function: ServedFunction, where: Integers, x: NumberArray, which: int, heads: int
) -> NumberArray:
    """What becomes of vectors (n, columns), the same for each head: (n, heads, columns)."""
    form = function.form
    both = [x, other_vectors(x)]
    given = [
        Vectors(np.repeat(part[None, :, None], heads, axis=2), where.size)
        for part in (both if which == 0 else both[::-1])[: len(form.vectors)]
    ]
    turned: NumberArray = function.together(form, where[None], given)[which].values[0]
    return turned

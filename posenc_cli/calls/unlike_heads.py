"""Heads that one call turns differently: each judged alone, as vectors before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import ALIKE, UNLIKE_HEADS, Irregularity
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import range_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.calls.call_log import CallLog
    from posenc_cli.calls.function_trial import Told
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

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


def unlike_heads(log: CallLog, which: int, dtype: str, context: int) -> tuple[Irregularity, ...]:
    """What is wrong with which heads of one call; nothing where that is not known of all of them.

    All are given the same vectors, at positions below ``context``.
    """
    function, reference = log.function, log.reference
    form = function.form
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
    for message, place, places in _mistaken_axes(positions, heads):
        if _turned_at(values, x, reference, places):
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
    distinct = {why.cause for _, why in texts}
    cause = texts[0][1].cause if len(distinct) == 1 else Cause.UNKNOWN
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


def _mistaken_axes(positions: Integers, heads: int) -> Iterator[tuple[str, str, Integers]]:
    """How rows and heads are taken for one another, and the positions (n, heads) that give it."""
    row, head = np.indices((positions.size, heads))
    text = "rows are turned by the number of their head, not by their position"
    yield text, "head h is turned as position h", head
    text = "heads side by side, (rows, heads·d), are read as (heads, rows, d)"
    place = "head h of row n is turned as row (n · heads + h) mod rows"
    yield text, place, positions[(row * heads + head) % positions.size]


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

"""Heads of one call that differ: they change places, are taken for rows, or are judged alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.batches import RowsGuess, Together, exchanged_text
from posenc_cli.calls.function_trial import ALIKE, COARSE, UNLIKE_HEADS, Irregularity
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import range_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.calls.call_form import CallForm
    from posenc_cli.calls.call_log import CallLog
    from posenc_cli.calls.function_trial import Told
    from posenc_cli.calls.places import PartOfCall
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

_HEADS = (12, 10, 14)
"""Heads of a call, the first of which is the length of no other axis."""

_POSITIONS = (*range(9), *(2**power + more for power in range(4, 11) for more in (-1, 0, 1)))
"""Positions of a call of rows at any."""

_FIRST, _ROWS, _FROM_ZERO = 1000, 64, 301
"""Where a sequence begins, its rows, and those of one that begins at 0."""

_TOLD = 3
"""Groups of heads that are told apart one by one."""

_MISTAKEN = (
    (
        "head h is turned as position h",
        RowsGuess(
            "rows are turned by the number of their head, not by their position",
            lambda part: part.index[1],
            whole=True,
        ),
    ),
    (
        "head h of row n is turned as row (n · heads + h) mod rows",
        RowsGuess(
            "heads side by side, (rows, heads·d), are read as (heads, rows, d)",
            lambda part: part.in_row(part.index[2] * part.heads + part.index[1]),
            whole=True,
        ),
    ),
)
"""How rows and heads are taken for one another."""


def unlike_heads(log: CallLog, which: int, dtype: str, context: int) -> tuple[Irregularity, ...]:
    """What is wrong with which heads of one call; nothing where that is not known of all of them.

    All are given the same vectors, each times another power of two, at positions below ``context``.
    """
    function, form = log.function, log.function.form
    if not form.has_heads or function.follows_length:
        return ()
    where = _positions(form, context)
    taken = {form.columns, form.columns // 2, where.size}
    heads = next(count for count in _HEADS if count not in taken)
    rows = np.random.default_rng(23).standard_normal((1, where.size, 1, form.columns), np.float32)
    x = rows * np.float32(2) ** np.arange(heads)[:, None]
    given = [x, other_vectors(x)][:: -1 if which else 1][: len(form.vectors)]
    alone, differs = partial(_rotated, log.reference), partial(_differ, dtype=dtype)
    try:
        together = Together(function, form, where[None], given, differs, alone=alone)
    except InvalidInput:
        function.revive()
        return ()
    part, text = together.parts[which], f"in a call with {heads} heads"
    sources = together.sources(part)
    if not part.wrong.any():
        return ()
    if sources is not None:
        known = f"heads change places: {exchanged_text(sources)}"
        shown = f"{text} each comes back so"
        return (Irregularity(Cause.LAYOUT, known, shown, "heads change places"),)
    for place, guess in _MISTAKEN:
        if together.holds(guess, [part]):
            shown = f"{text} {place} at all positions"
            return (Irregularity(Cause.AXIS, guess.known, shown, UNLIKE_HEADS),)
    return _by_groups(_causes(log, part, dtype, where), where.size)


def _positions(form: CallForm, context: int) -> Integers:
    """The positions of the call."""
    if form.any_rows:
        return np.array([position for position in _POSITIONS if position < context])
    count = min(_FROM_ZERO if form.from_zero else _ROWS, context)
    return np.arange(count) + (0 if form.from_zero else min(_FIRST, context - count))


def _rotated(reference: Reference, _: int, x: NumberArray, places: Integers) -> NumberArray:
    """Vectors (k, n, columns) as the reference rotates them at positions (k, n)."""
    pairing = reference.pairing
    turns = reference.turns.at(places.reshape(-1)).reshape(*places.shape, -1)
    after = (x[..., list(pairing.first)] + 1j * x[..., list(pairing.second)]) * turns
    y = x.astype(np.float64)
    y[..., list(pairing.out_first)], y[..., list(pairing.out_second)] = after.real, after.imag
    return y


def _differ(values: NumberArray, wanted: NumberArray, *, dtype: str) -> bool:
    """Whether values are others than those wanted, by more than their format explains."""
    limit = (1 if dtype in ("float32", "float64") else COARSE) * ALIKE * np.abs(wanted).max()
    return not bool(np.abs(values - wanted).max() <= limit)


def _causes(log: CallLog, part: PartOfCall, dtype: str, where: Integers) -> list[Sequence[Told]]:
    """The causes of each head; nothing where one is not known."""
    scale = np.float32(2) ** np.arange(part.heads)[:, None, None]
    x, values = (own[0] / scale for own in (part.x, part.values))  # (h, n, columns)
    causes: list[Sequence[Told]] = []
    if not np.isfinite(values).all():
        return causes
    for head, own in enumerate(values):
        same = next((n for n in range(head) if np.array_equal(values[n], own)), head)
        found = causes[same] if same < head else None
        found = found or log.causes(x[head], own, dtype, log.reference, where)
        if found is None:
            return []
        causes.append(found)
    return causes


def _by_groups(causes: Sequence[Sequence[Told]], positions: int) -> tuple[Irregularity, ...]:
    """What is wrong with the heads that have the same causes; nothing where all have the same."""
    groups: dict[tuple[tuple[Cause, str, str], ...], list[int]] = {}
    for head, found in enumerate(causes):
        told = tuple((why.cause, why.message, why.evidence) for why in found)
        groups.setdefault(told, []).append(head)
    if len(groups) < 2:
        return ()
    heads, right = len(causes), len(groups.pop((), []))
    evidence = f"at all {positions} positions of a call of {heads} heads with the same vectors"
    evidence += f"; {right} of {heads} heads are right" if right else ""
    of_groups = sorted(groups.values(), key=len, reverse=True)
    whys = [causes[group[0]][0] for group in of_groups]
    texts = [
        f"head{'s' * (len(group) > 1)} {', '.join(range_texts([head + 1 for head in group]))} "
        f"of {heads}: {why.message}"
        for group, why in zip(of_groups, whys, strict=True)
    ]
    if len(texts) <= _TOLD:
        return tuple(
            Irregularity(why.cause, text, f"{why.evidence}; {evidence}", UNLIKE_HEADS)
            for why, text in zip(whys, texts, strict=True)
        )
    cause = whys[0].cause if len({why.cause for why in whys}) == 1 else Cause.UNKNOWN
    message = f"heads are turned each in a way of its own: {'; '.join(texts[:_TOLD])}; …"
    return (Irregularity(cause, message, evidence, UNLIKE_HEADS),)

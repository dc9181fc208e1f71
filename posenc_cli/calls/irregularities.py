"""What a function does that no map of each row by its position alone does, told apart by trial.

A function is called again, with rows in another order, with one row changed, with sums and
multiples of vectors: each kind of irregularity changes another of these results.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import (
    MULTIPLE,
    Irregularity,
    turned_vectors,
    unmeasured,
    unsteady,
)
from posenc_cli.calls.serving import other_vectors
from posenc_cli.calls.vector_trials import (
    added_to_rows,
    bending,
    follows_partner,
    mixing_of_rows,
    rounding_of_vectors,
)
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.calls.function_trial import FunctionTrial
    from posenc_cli.calls.patterns import PatternFault
    from posenc_cli.numerics.arrays import Integers, NumberArray

_EARLY = 64
"""Positions below it are a short sequence of any model that takes longer ones."""


def irregularities(trial: FunctionTrial) -> tuple[Irregularity, ...]:
    """What a function does that no map of each row by its position alone does.

    What a call leaves behind shows when calls of others have come between.
    """
    if not np.isfinite(trial.expected).all():
        return ()
    before = trial.given(trial.x, trial.positions)
    found = tuple(_irregularities(trial))
    if found:
        again = trial.given(trial.x, trial.positions)
        if np.isfinite(before).all() and trial.differs(again, before):
            return (unsteady(again, before),)
    return found


def _irregularities(trial: FunctionTrial) -> Iterator[Irregularity]:
    """What shows in calls that follow on each other."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    values = trial.given(x, positions)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        where = f"of a vector at position {positions[row]}; those of unit vectors are"
        yield unmeasured("returned values that are not finite", where)
        return
    if trial.differs(values, expected):
        yield from _unlike_its_matrices(trial, values)
    else:
        scaled = trial.given(x * MULTIPLE, positions) / MULTIPLE
        if trial.differs(scaled, expected):
            again = trial.given(x * MULTIPLE, positions) / MULTIPLE
            if trial.differs(again, scaled):
                yield unsteady(again, scaled)
                return
            yield unmeasured("is not linear in x", f"{MULTIPLE:g} times x gives another result")
        if not trial.function.form.from_zero:
            yield from _dependences(trial)


def _q_for_k(trial: FunctionTrial, values: NumberArray) -> Irregularity | None:
    """That k comes back where q is expected, or q for k; None where they do not."""
    of_other = turned_vectors(other_vectors(trial.x), trial.matrices)
    if trial.function.results < 2 or trial.differs(values, of_other):
        return None
    return Irregularity(
        Cause.UNKNOWN,
        "the function returns k where q is expected, or q for k",
        "each is what becomes of the other; they are expected in the order they are given in",
        "the function exchanges q and k",
    )


def _rows_counted(trial: FunctionTrial, _: NumberArray) -> Irregularity | None:
    """That rows are rotated by their order in the call; None where positions matter."""
    counting = _counting(trial)
    evidence = "other positions given in their place change nothing"
    unlike = "the function counts rows"
    return Irregularity(Cause.POSITION_OFFSET, counting, evidence, unlike) if counting else None


_EXPLANATIONS: tuple[Callable[[FunctionTrial, NumberArray], Irregularity | None], ...] = (
    _rows_counted,
    _q_for_k,
    follows_partner,
    rounding_of_vectors,
    added_to_rows,
)
"""Why vectors may become other than their unit vectors say, told by the vectors' values."""


def _unlike_its_matrices(trial: FunctionTrial, values: NumberArray) -> Iterator[Irregularity]:
    """Why vectors become other than the unit vectors that they are made of say."""
    for explained in _EXPLANATIONS:
        found = explained(trial, values)
        if found is not None:
            yield found
            return
    mixing, bent = mixing_of_rows(trial, values), bending(trial, values)
    if mixing:
        yield unmeasured("mixes rows", mixing)
    if bent:
        yield unmeasured("is not linear in x", bent)
    elif not mixing:
        other_sum = (
            "gives other values for vectors in one call than for their unit vectors in calls"
        )
        yield unmeasured(other_sum)


def _counting(trial: FunctionTrial) -> str:
    """How rows are turned by their order in the call; empty where their positions matter.

    Positions that begin above 0 are exchanged for others that a function which counts takes alike.
    Fewer than three rows cannot tell, for calls of two lengths are compared.
    """
    form = trial.function.form
    where = trial.positions[trial.positions.size // 4 :]
    if not (form.has("positions") or form.chosen) or where.size < 3:
        return ""
    x, first, last = trial.x[: where.size], where[0], where[-1]
    values = trial.given(x, where)
    if not trial.differs(trial.given(x[::-1], where)[::-1], values):
        return ""
    counted = np.arange(where.size)
    # What is counted turns a vector otherwise in each row.
    of_one = trial.given(np.repeat(x[:1], where.size, axis=0), where)
    if not all(trial.differs(*pair) for pair in pairwise(of_one)):
        return ""
    ways = (
        ("the positions that it is given are ignored: it counts rows", where // 2),
        ("of the positions only the first is used: rows are counted from it", first + counted),
    )
    for text, other in ways:
        if other[-1] <= last and not trial.differs(trial.given(x, other), values):
            # Of lengths that no call had before: a cache by length has nothing for them.
            first, second = (trial.given(x[:-k], rows[:-k]) for k, rows in ((1, where), (2, other)))
            if trial.differs(first[:-1], second):
                return "calls of one length all have the positions of the first of that length"
            return text
    return ""


def _dependences(trial: FunctionTrial) -> Iterator[Irregularity]:
    """What a row's result depends on beside the row and its position."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    backward = trial.given(x[::-1], positions[::-1])[::-1]
    if trial.differs(backward, expected):
        used = _counting(trial) or _one_for_all(trial)
        if used:
            yield Irregularity(Cause.POSITION_OFFSET, used, "reproduced at other positions as well")
            return
        yield _of_rows("depends on the order of the rows, not on their positions alone")
    ends = [0, positions.size - 1]
    alone = np.concatenate([trial.given(x[[k]], positions[[k]]) for k in ends])
    if trial.differs(alone, expected[ends]):
        yield _of_rows("depends on how many rows it is given, not on their positions alone")


def _one_for_all(trial: FunctionTrial) -> str:
    """Which positions of a call stand for those of its rows; empty where none do."""
    where = np.roll(trial.positions[trial.positions.size // 4 :], trial.positions.size // 3)
    x = trial.x[: where.size]
    values = trial.given(x, where)
    ways = (
        (
            "positions are sorted: rows in another order are turned as if they ascended",
            np.sort(where),
        ),
        (
            "where positions of a call fall, rows are turned at the largest before them",
            np.maximum.accumulate(where),
        ),
        (
            "all rows of a call are turned at the position of its first",
            np.full_like(where, where[0]),
        ),
        (
            "all rows of a call are turned at the position of its last",
            np.full_like(where, where[-1]),
        ),
    )
    return next((text for text, used in ways if _turned_at(trial, x, values, used)), "")


def _turned_at(trial: FunctionTrial, x: NumberArray, values: NumberArray, used: Integers) -> bool:
    """Whether rows are those of a call at other positions, and of each of these alone."""
    if trial.differs(trial.given(x, used), values):
        return False
    alone = [trial.given(x[[row]], used[[row]]) for row in range(used.size)]
    return not trial.differs(np.concatenate(alone), values)


def _of_rows(evidence: str) -> Irregularity:
    return Irregularity(Cause.UNKNOWN, _NO_MAP, evidence)


_NO_MAP = "what it does to a row does not follow from the row and its position"


def with_faults(
    faults: Sequence[PatternFault], found: Sequence[Irregularity]
) -> tuple[Irregularity, ...]:
    """All that is irregular, first what explains more: also what the ways to call it show.

    Where rows mix, or nothing repeats, these differ for no reason of their own; where rows are
    taken for positions, no result follows from a row.
    """
    telling = tuple(one for one in found if one.message != _NO_MAP)
    if telling:
        return telling
    told = [
        Irregularity(
            fault.cause if fault.known else Cause.UNKNOWN,
            fault.known or _NO_MAP,
            fault.text,
        )
        for fault in sorted(faults, key=lambda fault: not fault.known)
    ]
    return tuple(told) if any(fault.known for fault in faults) else (*told, *found)


def length_note(trial: FunctionTrial) -> str:
    """What to note of a function that turns early positions otherwise in a call of their own.

    Empty where it does not, as with dynamic NTK, whose base follows the longest position.
    """
    early = trial.positions < _EARLY
    if trial.function.form.from_zero or early.all() or not trial.positions[early].any():
        return ""
    alone = trial.given(trial.x[early], trial.positions[early])
    if not trial.differs(alone, trial.expected[early]):
        return ""
    last, longest = trial.positions[early].max(), trial.positions.max()
    return (
        f"it depends on the length: positions up to {last} in a call of their own do not turn as "
        f"they do beside position {longest}"
    )


def returned_half(trial: FunctionTrial) -> str | None:
    """The half precision that a function gives all that it returns, None where there is none.

    Unit vectors show the cosines and sines alone; what was rounded last, random vectors show too.
    """
    for half in HALVES:
        if not np.array_equal(round_to_half(trial.matrices, half), trial.matrices):
            continue
        values = trial.given(trial.x, trial.positions)
        if np.array_equal(round_to_half(values, half), values):
            return half
    return None

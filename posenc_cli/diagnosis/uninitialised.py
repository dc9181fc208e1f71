"""Frequencies that no rule gives: what memory holds that nobody has filled.

A frequency of a ladder is above 0 and at most that of the first pair. Numbers that were never
written are of any size and sign (huggingface/transformers#45902, pytorch/torchtitan#4783). Only
numbers that no rule could give are called so: those that merely differ have another cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import Defect
from posenc_cli.diagnosis.wording import pairs_text, spec, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.rules import Alternative
from posenc_cli.records import Record
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.numerics.arrays import Flags, Reals
    from posenc_cli.rotary.verdict import Examination

_ABOVE = 1.001
"""Times the largest right frequency: what any rounding stays below."""

_TINY = 1e-6
"""Times the smallest right frequency: no context that anybody has is stretched so far."""

_HUGE = 1e12
"""What is larger, or smaller than its inverse, is the size of no frequency anybody chose."""

_FEWEST = 2
"""Frequencies out of range before they are called garbage: one may be a slip."""

_BENT = 0.3
"""Of the largest: second differences of a blend that goes on past its ends stay below half of it,
those of numbers that have nothing to do with each other are larger."""

_EVEN = 1e-3
"""Radians a position, or a share: what rates that were read off a table may be uneven by."""

MEANING = (
    "uninitialized memory, such as a non-persistent buffer built on the meta "
    "device, or bytes of another number format"
)


class Garbage(Record):
    """Frequencies that no rule gives: which pairs, and what is wrong with them, in words."""

    pairs: Flags
    text: str


def outrageous_of(given: Reals, right: Reals) -> Garbage | None:
    """What is no finite number among frequencies that were given, or of no size for one.

    None where nothing is.

    >>> outrageous_of(np.array([1.0, np.nan, 3e30]), np.array([1.0, 0.1, 0.01])).text
    '1 is no finite number, 1 is above 1'
    """
    sizes = np.abs(given)
    outrageous = ~((sizes <= _HUGE) & ((sizes >= 1 / _HUGE) | (given == 0)))
    outrageous &= given != right
    if not outrageous.any():
        return None
    return Garbage(outrageous, counts_text(_impossible(given, right)))


def zeros_of(given: Reals, right: Reals) -> Garbage | None:
    """Frequencies that are 0 and should not be, where these are all or stand among others."""
    zeros = (given == 0) & (right > 0)
    if not zeros.any() or (not zeros.all() and np.count_nonzero(np.diff(zeros)) == 1):
        return None
    return Garbage(zeros, counts_text([("0", zeros)]))


def garbage_of(given: Reals, right: Reals) -> Garbage | None:
    """What no rule gives among frequencies that were given, None where nothing is."""
    if _regular(given, right):
        return None
    impossible = _impossible(given, right)
    pairs = np.logical_or.reduce([flags for _, flags in impossible])
    return Garbage(pairs, counts_text(impossible)) if pairs.sum() >= _FEWEST else None


def _bends_little(values: Reals) -> bool:
    return bool(np.abs(np.diff(values, 2)).max(initial=0) <= _BENT * np.abs(values).max(initial=0))


def _regular(values: Reals, right: Reals) -> bool:
    """Whether some rule gave frequencies, which are known modulo 2π.

    Then they rise, fall, bend nowhere much (or slow ones do, which are wrong), are evenly spaced,
    or grow by one factor from the first on.
    """
    steps = np.diff(values)
    if (steps >= 0).all() or (steps <= 0).all():
        return True
    slow = slice(-max(4, values.size // 4), None)  # which no whole turns hide
    otherwise = not np.isclose(values, right, rtol=_EVEN, atol=0)[slow].any()
    if _bends_little(values) or (otherwise and _bends_little(values[slow])):
        return True
    turns = np.exp(1j * np.diff(steps))
    return bool(np.abs(turns - 1).max(initial=0) < _EVEN) or _grows(values)


def _grows(values: Reals) -> bool:
    """Whether the first few frequencies grow by one factor, past those that can be told apart."""
    if values.size < 3:
        return False
    first, last = values[0], values[1]
    if not 0 < first < last:
        return False
    for pair in range(2, min(values.size, 6)):
        expected = last * (last / first) ** (1 / (pair - 1))
        if expected * _EVEN > 2 * np.pi:
            return False  # of so large a rate what a turn leaves shows nothing
        last = values[pair] + 2 * np.pi * np.round((expected - values[pair]) / (2 * np.pi))
        if abs(last / expected - 1) > _EVEN:
            return False
    return True


def _impossible(values: Reals, right: Reals) -> list[tuple[str, Flags]]:
    """Which frequencies are impossible in which way."""
    largest = float(right.max(initial=0.0)) * _ABOVE
    positive = right[right > 0]
    least = float(positive.min()) * _TINY if positive.size else 0.0
    # The right one with the wrong sign is a matter of direction.
    backward = np.isclose(-values, right, rtol=1e-3)
    return [
        ("no finite number", ~np.isfinite(values)),
        ("below 0", (values < 0) & ~backward),
        (f"above {largest / _ABOVE:.4g}", values > largest),
        (f"below {least:.1g}", (values > 0) & (values < least)),
    ]


def counts_text(kinds: Iterable[tuple[str, Flags]]) -> str:
    """How many are of which kind, those of none left out.

    >>> counts_text([("0", np.array([True, True])), ("infinite", np.array([False, True]))])
    '2 are 0, 1 is infinite'
    """
    counts = [(int(np.count_nonzero(flags)), text) for text, flags in kinds]
    return ", ".join(f"{n} {'is' if n == 1 else 'are'} {text}" for n, text in counts if n)


def unwritten_cause(
    examination: Examination, garbage_among: Callable[[Reals, Reals], Garbage | None]
) -> Explanation | None:
    """The cause where frequencies that were given are none that any rule has."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    garbage = garbage_among(given, right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    cause, message = Cause.UNINITIALISED, f"{garbage.text}: {MEANING}"
    values = given[garbage.pairs]
    infinite = np.isinf(values)
    if infinite.any() and not np.isfinite(values).any():  # as a division by 0 gives as well
        cause = Cause.NOT_A_NUMBER
        message = counts_text([("infinite", infinite), ("no number", ~infinite)])
    return Explanation(
        cause,
        f"of the {right.size} frequencies {message}",
        f"pair {pair} has {given[pair]:.6g}, not {right[pair]:.6g}",
        where=Where(None, spec(np.flatnonzero(garbage.pairs))),
    )


def unwritten_rates_cause(suspect: Suspect) -> Explanation | None:
    """The same where pairs turn at rates that no rule gives, steadily, at every position."""
    sample = suspect.sample
    right = sample.reference.frequencies
    if sample.reference.coordinates is not None or (np.diff(np.sort(sample.positions)) > 1).all():
        return None
    if suspect.examination.subject.frequencies is not None:
        return None
    rates = fit(sample.positions, np.where(sample.seen, sample.factors, 0)).frequencies
    farthest = float(np.abs(sample.positions).max(initial=0))
    rates = np.where(np.abs(rates) * farthest < sample.tolerance.floor, 0.0, rates)  # they stand
    garbage = garbage_of(rates, right)
    if garbage is None:
        return None
    defect = Defect(frequencies=Alternative(Cause.UNINITIALISED, "", rates))
    residual = suspect.residual(defect)
    garbage = garbage_of(np.where(residual.pairs, rates, right), right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    cause = Explanation(
        Cause.UNINITIALISED,
        f"of the {right.size} frequencies {garbage.text}: {MEANING}",
        f"pair {pair} rotates by {rates[pair]:.6g} per position, modulo 2π, not by "
        f"{right[pair]:.6g}; {pairs_text(np.flatnonzero(garbage.pairs).tolist(), right.size)} do "
        "so at every position",
        where=Where(None, spec(np.flatnonzero(garbage.pairs))),
    )
    return with_residual(cause, residual)

"""Frequencies that a measurement suggests: what a subject has, near what it should have.

Rates that were fitted to a subject go to the inverses of schemes, as they do where an array is
identified, and what these propose is said as the difference to the reference. All of it is read
off, so it is only a suspicion: who uses it compares it with the subject.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli import catalogue
from posenc_cli.errors import PosencError
from posenc_cli.formulas.context_extension.scaled import rope_dynamic
from posenc_cli.formulas.inverse import Measured, digit_count
from posenc_cli.formulas.rotary import rope
from posenc_cli.inference.candidates import is_number, rotary_proposals, solved
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.parameter_differences import SHAPE, difference
from posenc_cli.inference.rates import Rates
from posenc_cli.inference.rules import (
    Alternative,
    base_of,
    changed_frequencies,
    ladder,
    ladder_base,
)
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Reals

_NEARLY = 2e-5
"""Nearer to the right base, it is the precision of the frequencies that lacks, not the base."""

_ERRORS = ((2e-6, 1e-9), (5e-4, 1e-7))
"""Of rates, as a share and in radians: those of float32 tables of a thousand rows, and those of
half precision. Finer ones come first: their numbers have their own digits."""

_SHORT = 3
"""Digits of a number that somebody chose."""

_MOST_PROPOSALS = 12
"""Of all schemes together, at each precision: the dearest fit by chance."""

_LARGEST_FACTOR = 1e6
"""No context is extended so far: such a factor stands for a term that is missing."""
_MOST_CHANGED = 3
"""Numbers of the reference's own scheme that are off at once, as a ramp's context and betas are:
with one more a ramp may be made of any frequencies."""

_PLACED = 1e-3
"""Of a frequency: neighbours of a ladder are 10^−2 apart at least, where it has 512 pairs."""

_SAME = 1e-6
"""Of a frequency: what differs by less is the same to float32 tables."""


def nearby_alternatives(reference: Reference, rotations: Rotations) -> Iterator[Alternative]:
    """What the frequencies may be by those that were measured, the likeliest first."""
    rates = np.abs(rotations.frequencies)
    if rates.shape != reference.frequencies.shape or not np.isfinite(rates).all():
        return
    alternatives = itertools.chain(
        _constant_ratio(reference, rates),
        _more_turning(reference, rates),
        _other_values(reference, rates, short=True),
        _fitted_bases(reference, rates),
        _other_values(reference, rates, short=False),
        _other_schemes(reference, rates),
    )
    for alternative in alternatives:
        yield replace(alternative, read_off=True)


def same_by_other_numbers(reference: Reference, rule: Alternative) -> Iterator[Alternative]:
    """What gives the frequencies of a rule as well: another value of one number of the reference's.

    Numbers of few digits are meant, and lengths.
    """
    rates, base = rule.frequencies, base_of(reference)
    if rates.shape != reference.frequencies.shape or not (rates > 0).all():
        return
    others = list(_other_values(reference, rates, short=True))
    if base is not None and _is_ladder(rates):
        others += _one_or_none(_of_another_length(reference, ladder_base(rates) / base))
    for other in others:
        if other.message.partition(" is ")[0] == rule.message.partition(" is ")[0]:
            continue  # the same number, of which some digits do not show
        if np.allclose(other.frequencies, rates, rtol=_SAME, atol=0):
            yield other


def _constant_ratio(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    """All frequencies times one number."""
    right = reference.frequencies
    turning = right > 0
    if not turning.any():
        return
    ratio = float(np.median(rates[turning] / right[turning]))
    if 1e-9 < ratio < 1e9 and abs(ratio - 1) > 1e-5:  # what six digits show
        message = f"all frequencies are {ratio:.6g} times the right ones"
        yield Alternative(Cause.FREQUENCY_RULE, message, right * ratio)


def _more_turning(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    """Pairs that turn by the ladder, and should stand still."""
    right, base = reference.frequencies, base_of(reference)
    turning = int(np.count_nonzero(right))
    if base is None or not right[0] or turning == right.size or not right[:turning].all():
        return
    every = right[0] * ladder(base, np.arange(right.size) / right.size)
    near = np.abs(rates / every - 1) <= _PLACED  # (pairs,)
    more = right.size if near.all() else int(np.argmin(near))
    if turning < more < right.size and np.allclose(every[:turning], right[:turning], rtol=1e-6):
        message = f"{more} pairs rotate, not {turning}"
        rates = np.where(np.arange(right.size) < more, every, 0)
        yield Alternative(Cause.ROTARY_DIM, message, rates)


def _fitted_bases(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    """Bases read off single pairs, which no scaling changes, to as few digits as they may have."""
    right, pairs = base_of(reference), reference.pairs
    if right is None or pairs < 2:
        return
    bases: dict[float, None] = {}
    for pair in sorted({1, 2, pairs // 4, pairs // 2, pairs - 1}):
        if not 0 < pair < pairs or not 0 < rates[pair] < 1:
            continue
        logarithm = -math.log(rates[pair]) * pairs / pair
        if 0 < logarithm < 60:
            for digits in (1, 2, 3, 5, 7):
                bases[float(f"{math.exp(logarithm):.{digits - 1}e}")] = None
    others = [base for base in bases if abs(base / right - 1) > _NEARLY]
    for base in others:
        yield from _one_or_none(difference_of_base(reference, base))
    if reference.encoding.bound.scheme is rope or reference.coordinates is not None:
        return
    # Where scaling is another base, a fitted one is that of another rule.
    stretched = _is_ladder(reference.frequencies)
    for base in others:
        plain = difference(reference, rope, plain_params(reference, base))
        if plain is not None and stretched:
            yield from _one_or_none(_of_another_length(reference, base / right))
            message = f"the base {right:.7g} is stretched to {base:.7g}: another rule"
            plain = Alternative(Cause.FREQUENCY_RULE, message, plain.frequencies)
        yield from _one_or_none(plain)


def _of_another_length(reference: Reference, stretch: float) -> Alternative | None:
    """Dynamic NTK for the length at which it stretches the base by so much."""
    params, pairs = reference.params, reference.pairs
    if reference.encoding.bound.scheme is not rope_dynamic or pairs < 2 or stretch <= 1:
        return None
    limit, factor = params["max_position_embeddings"], params["factor"]
    length = round(limit / factor * (stretch ** ((pairs - 1) / pairs) + factor - 1))
    frequencies = changed_frequencies(reference, seq_len=length) if length > limit else None
    if frequencies is None:
        return None
    message = f"the base is scaled for a length of {length}"
    return Alternative(Cause.FREQUENCY_RULE, message, frequencies)


def _one_or_none(alternative: Alternative | None) -> Iterator[Alternative]:
    if alternative is not None:
        yield alternative


def difference_of_base(reference: Reference, base: float) -> Alternative | None:
    """The rule of the reference with another base."""
    params = {**reference.params, "base": base}
    return difference(reference, reference.encoding.bound.scheme, params)


def plain_params(reference: Reference, base: float) -> dict[str, object]:
    """The parameters of plain RoPE that turns as many of the columns as the reference."""
    share = 2 * reference.pairs / reference.head
    return {"dim": reference.head, "base": base, "partial": share}


def _is_ladder(frequencies: Reals) -> bool:
    """Whether frequencies are a geometric ladder from 1 on."""
    pairs = frequencies.size
    if pairs < 3 or not (frequencies > 0).all():
        return False
    rungs = ladder(ladder_base(frequencies), np.arange(pairs) / pairs)
    return bool(np.allclose(frequencies, rungs, rtol=1e-9))


def _other_values(reference: Reference, rates: Reals, *, short: bool) -> Iterator[Alternative]:
    """Any one number of the reference's scheme solved for, the others as they should be.

    Numbers of few digits are ``short``: they are believed before a base of more.
    """
    scheme = reference.encoding.bound.scheme
    given = {name: value for name, value in reference.params.items() if value is not None}
    for share, least in _ERRORS:
        measured = Measured(rates, share * rates + least, given)
        for name, parameter in scheme.parameters.items():
            if name in SHAPE or not is_number(parameter) or name not in given:
                continue
            value = solved(scheme, given, parameter, measured)
            if value is None or abs(value / (given[name] or 1) - 1) <= _NEARLY:
                continue
            if name == "factor" and value > _LARGEST_FACTOR:
                continue
            if short == (digit_count(float(value)) <= _SHORT):
                yield from _one_or_none(difference(reference, scheme, {**given, name: value}))


def _other_schemes(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    """What the inverses of all schemes make of the rates."""
    if reference.coordinates is not None:
        return
    for share, least in _ERRORS:
        measured = Rates(rates, share * rates + least, rates.size)
        for proposal in itertools.islice(rotary_proposals(measured, None), _MOST_PROPOSALS):
            try:
                scheme = catalogue.find(proposal.scheme)
            except PosencError:
                continue
            own = scheme.build is reference.encoding.bound.scheme.build
            kept = {n: v for n, v in reference.params.items() if v is not None} if own else {}
            changed = [name for name, value in proposal.given.items() if kept.get(name) != value]
            if own and len(changed) > _MOST_CHANGED:
                continue
            # Notes say that the numbers are one choice of many: then each by itself.
            choices = [[name] for name in changed] if own and proposal.notes else [changed]
            for names in choices:
                given = {name: proposal.given[name] for name in names} if own else proposal.given
                alternative = difference(reference, scheme, {**kept, **given})
                if alternative is not None and _is_other(alternative, reference):
                    yield alternative


def _is_other(alternative: Alternative, reference: Reference) -> bool:
    """Whether an alternative has other frequencies than the reference, and as many."""
    right = reference.frequencies
    found = alternative.frequencies
    return found.shape == right.shape and not np.allclose(found, right, rtol=_NEARLY, atol=0)

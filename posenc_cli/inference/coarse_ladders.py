"""Frequencies that were computed in a coarse format: each step of the computation is rounded.

A ladder may be made rung by rung, so that roundings add up along it, or each rung by itself, as a
power or an exponential whose argument was rounded. The scaling of the reference is applied to what
comes out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.llama3 import rope_llama3, slowed_ladder
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.inference.rules import Alternative, base_of, ladder, ladder_base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Reals

_SINGLE = "float32"

_ALIKE = 1e-9
"""Of a frequency: computations that come to the same are one, with the reasons of each."""

_MOST_REASONS = 3
"""That a message names, the simplest first."""

_GEOMETRIC = 1e-9
"""Of a frequency: rules evaluated in float64 that are ladders miss them by less."""


def coarse_ladders(reference: Reference) -> Iterator[Alternative]:
    """Frequencies of the reference's rule, of ladders that were computed in coarse formats.

    Those that come to the same have their reasons in one message, which says where it has not all.
    """
    groups: list[tuple[Reals, list[str]]] = []
    with np.errstate(all="ignore"):
        for message, values in _ladders_of_rule(reference):
            if not np.isfinite(values).all():
                continue
            for known, messages in groups:
                if np.allclose(known, values, rtol=_ALIKE, atol=1e-30):
                    messages.append(message)
                    break
            else:
                groups.append((values, [message]))
    for values, messages in groups:
        reasons = list(dict.fromkeys(messages))
        others = ["others that come to the same"] * (len(reasons) > _MOST_REASONS)
        message = ", or ".join([*reasons[:_MOST_REASONS], *others])
        yield Alternative(Cause.INV_FREQ_PRECISION, message, values)


def _ladders_of_rule(reference: Reference) -> Iterator[tuple[str, Reals]]:
    """What the rule of the reference makes of coarse ladders, each with what was done."""
    right, pairs, base = reference.frequencies, reference.pairs, base_of(reference)
    if base is None or pairs < 2:
        return
    index = np.arange(pairs) / pairs
    own = _base_of_ladder(right)
    if own is not None:
        if abs(own / base - 1) > _GEOMETRIC:
            base = own  # a rule that stretches it
    elif reference.coordinates is not None:
        return
    plain = ladder(base, index)
    scaling = np.where(np.isclose(right, plain, rtol=_GEOMETRIC, atol=0), 1, right / plain)
    blended = reference.encoding.bound.scheme is rope_llama3
    for message, values in _coarse_ladders(base, pairs):
        if _base_of_ladder(values) is not None:
            continue  # which is another base, with a word of its own
        if blended:
            yield message, np.asarray(slowed_ladder(np, reference.params, values), np.float64)
        else:
            yield message, values * scaling


def _base_of_ladder(frequencies: Reals) -> float | None:
    """The base of a geometric ladder of frequencies from 1 on, None where they are none."""
    pairs = frequencies.size
    if not (frequencies > 0).all() or not 0 < frequencies[-1] < 1:
        return None
    base = ladder_base(frequencies)
    rungs = ladder(base, np.arange(pairs) / pairs)
    return base if np.allclose(frequencies, rungs, rtol=_GEOMETRIC, atol=0) else None


def _coarse_ladders(base: float, pairs: int) -> Iterator[tuple[str, Reals]]:
    """Ladders base^(−2i/d) of d/2 pairs that were computed in a format, and what was done."""
    for dtype in (*HALVES, _SINGLE):
        yield from _rung_by_rung(base, pairs, dtype)
        if dtype != _SINGLE:
            yield from _by_exponents(base, pairs, dtype)
            yield from _by_logarithms(base, pairs, dtype)


def _rung_by_rung(base: float, pairs: int, dtype: str) -> Iterator[tuple[str, Reals]]:
    """Ladders each of whose rungs was made of the one before."""
    adds_up = f"in {dtype}: the roundings add up"
    down, up = (base ** (sign / pairs) for sign in (-1, 1))
    products = _accumulated(1.0, down, pairs, dtype, np.multiply)
    yield f"each frequency is the one before times base^(−2/d), {adds_up}", products
    quotients = _accumulated(1.0, up, pairs, dtype, np.divide)
    yield f"each frequency is the one before divided by base^(2/d), {adds_up}", quotients
    periods = _accumulated(1.0, up, pairs, dtype, np.multiply)
    message = f"each period is the one before times base^(2/d), {adds_up}"
    yield message, round_to_half(1 / periods, dtype)
    yield message, 1 / periods
    logarithm = math.log(base) / pairs
    sums = _accumulated(0.0, logarithm, pairs, dtype, np.add)
    message = f"the logarithms of the frequencies are sums of −2 ln(base)/d, {adds_up}"
    yield message, np.exp(-sums)
    yield message, round_to_half(np.exp(-sums), dtype)
    exponents = _accumulated(0.0, 1 / pairs, pairs, dtype, np.add)
    message = f"the exponents are sums of 2/d, {adds_up}"
    yield message, ladder(base, exponents)
    yield message, round_to_half(ladder(base, exponents), dtype)


def _accumulated(start: float, step: float, count: int, dtype: str, operation: np.ufunc) -> Reals:
    """Numbers each of which is made of the one before and a step, all rounded to a format.

    >>> _accumulated(1.0, 0.3, 3, "bfloat16", np.multiply)
    array([1.        , 0.30078125, 0.09033203])
    """
    values = np.empty(count)
    rounded = round_to_half(np.array([start, step]), dtype)
    values[0], step = rounded
    for index in range(1, count):
        values[index] = round_to_half(operation(values[index - 1 : index], step), dtype)[0]
    return values


def _by_exponents(base: float, pairs: int, dtype: str) -> Iterator[tuple[str, Reals]]:
    """Powers of a base whose exponents, results or both were rounded."""

    def rounded(values: Reals | float) -> Reals:
        return round_to_half(np.asarray(values, np.float64), dtype)

    index = np.arange(pairs, dtype=np.float64)
    coarse_base = float(rounded(base))
    exponents = [("the exponents 2i/d", index / pairs)]
    if rounded(1 / pairs) != 1 / pairs:
        exponents.append(("the exponents, i times 2/d,", index * rounded(1 / pairs)))
    for what, exact in exponents:
        coarse = rounded(exact)
        throughout = f"{what} and the powers were computed in {dtype}"
        yield f"{what} were rounded to {dtype}", ladder(base, coarse)
        yield throughout, rounded(ladder(base, coarse))
        yield throughout, rounded(1 / rounded(base**coarse))
        yield f"{throughout}, the frequencies not", 1 / rounded(base**coarse)
        if coarse_base != base:
            with_base = f"the base, {throughout.removeprefix('the ')}"
            yield with_base, rounded(ladder(coarse_base, coarse))
            yield with_base, rounded(1 / rounded(coarse_base**coarse))
    yield f"the powers base^(2i/d) were rounded to {dtype}", 1 / rounded(base ** (index / pairs))
    inverse = rounded(1 / rounded(base ** (index / pairs)))
    yield f"the powers base^(2i/d) and their inverses were rounded to {dtype}", inverse


def _by_logarithms(base: float, pairs: int, dtype: str) -> Iterator[tuple[str, Reals]]:
    """Exponentials whose arguments were rounded, and perhaps what they give."""

    def rounded(values: Reals | float) -> Reals:
        return round_to_half(np.asarray(values, np.float64), dtype)

    index, logarithm = np.arange(pairs, dtype=np.float64), math.log(base)
    for what, arguments in (
        ("the arguments of the exponentials, −2i ln(base)/d,", rounded(index / pairs * logarithm)),
        (
            "the arguments of the exponentials, i times −2 ln(base)/d,",
            rounded(index * rounded(logarithm / pairs)),
        ),
        (
            "the arguments of the exponentials, 2i/d times −ln(base),",
            rounded(rounded(index / pairs) * rounded(logarithm)),
        ),
    ):
        yield f"{what} were computed in {dtype}", np.exp(-arguments)
        yield f"{what} and the frequencies were computed in {dtype}", rounded(np.exp(-arguments))
    two = math.log2(base)
    arguments = rounded(index / pairs * two)
    yield f"the exponents of 2, −2i log2(base)/d, were computed in {dtype}", 2.0**-arguments

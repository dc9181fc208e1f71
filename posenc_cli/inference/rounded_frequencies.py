"""Frequencies that were rounded when they were finished: to a format, or to codes with a scale.

Codes have a scale that makes the largest frequency the largest code, for all pairs or for groups of
them; slow pairs may become 0. A format may have no numbers below its normal ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import (
    COARSE,
    EVEN_TF32,
    FLOAT8,
    TF32,
    TF32S,
    largest_code,
    round_to_codes,
    round_to_half,
)
from posenc_cli.inference.rules import Alternative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.numerics.arrays import Reals

_LEAST_NORMAL = {"float16": 2.0**-14, "float8 e4m3": 2.0**-6, "float8 e5m2": 2.0**-14}
"""The smallest number of each format whose first bit is not 0: some hardware has none below."""

_WHOLE_CODES = {
    "int8": 127, "int4": 7, "int16": 32767, "uint8": 255, "uint4": 15, "uint16": 65535,
}  # fmt: skip
"""The largest code of each format, which the largest frequency becomes."""

_GROUPS = (8, 16, 32, 64)
"""Pairs that share a scale, where not all do."""

_FEWEST_STEPS = 4
"""Different multiples that show a step: fewer may be those of some step by chance."""

_MOST_CODES = 1 << 16
"""More of them are no coarse format."""


def rounded_to_formats(frequencies: Reals) -> Iterator[Alternative]:
    """Frequencies in a half precision, which may be the same in TF32."""
    for names, values in _formats(frequencies):
        if names[0] in COARSE:
            yield _alternative(f"rounded to {' or '.join(names)}", values)


def rounded_to_float8(frequencies: Reals) -> Iterator[Alternative]:
    """Frequencies in formats of eight bits, without a scale."""
    yield from _merged((f"rounded to {kind}", round_to_codes(frequencies, kind)) for kind in FLOAT8)


def _formats(frequencies: Reals) -> Iterator[tuple[list[str], Reals]]:
    """What formats make of frequencies, each time with the names of those that do."""
    single = frequencies.astype(np.float32).astype(np.float64)
    kinds: dict[bytes, list[str]] = {}
    for kind in (*COARSE, *TF32S):
        kinds.setdefault(round_to_half(single, kind).tobytes(), []).append(kind)
    for content, alike in kinds.items():
        names = [kind for kind in alike if kind != EVEN_TF32 or TF32 not in alike]
        yield names, np.frombuffer(content)


def rounded_otherwise(frequencies: Reals) -> Iterator[Alternative]:
    """Frequencies in TF32, in codes with a scale, or without numbers below the normal ones."""
    for names, values in _formats(frequencies):
        if names[0] not in COARSE:
            yield _alternative(f"rounded to {' or '.join(names)}", values)
    yield from _merged(_without_subnormal_numbers(frequencies))
    yield from _merged(_coded(frequencies))
    yield from _merged(_of_logarithms(frequencies))


def multiples_of_a_step(frequencies: Reals, rates: Reals) -> Iterator[Alternative]:
    """Whole multiples of a step that measured rates are, however many there are."""
    largest = float(frequencies.max(initial=0.0))
    turning = rates[rates > largest / _MOST_CODES]  # slower ones stand, but for noise
    if not turning.size or not largest:
        return
    for times in (1, 2, 3):
        count = round(times * largest / float(turning.min()))
        if 1 < count < _MOST_CODES:
            values = np.rint(frequencies * (count / largest)) * (largest / count)
            if np.unique(values).size >= _FEWEST_STEPS:
                yield _alternative(f"rounded to whole multiples of {largest / count:.6g}", values)


def _alternative(done: str, values: Reals) -> Alternative:
    return Alternative(Cause.INV_FREQ_PRECISION, f"the frequencies were {done}", values)


def _merged(rounded: Iterable[tuple[str, Reals]]) -> Iterator[Alternative]:
    """What was done to frequencies, and what became of them; ways to the same values as one."""
    ways: dict[bytes, list[str]] = {}
    for done, values in rounded:
        ways.setdefault(np.asarray(values, np.float64).tobytes(), []).append(done)
    for content, dones in ways.items():
        yield _alternative(", or ".join(dict.fromkeys(dones)), np.frombuffer(content))


def _without_subnormal_numbers(frequencies: Reals) -> Iterator[tuple[str, Reals]]:
    """Frequencies that were rounded to a format, and then 0 below its normal numbers."""
    for kind, least in _LEAST_NORMAL.items():
        rounded = (
            round_to_codes(frequencies, kind)
            if kind in FLOAT8
            else round_to_half(frequencies, kind)
        )
        message = f"rounded to {kind}, and what is below its normal numbers, {least:.3g}, became 0"
        yield message, np.where(rounded < least, 0, rounded)


def _coded(frequencies: Reals) -> Iterator[tuple[str, Reals]]:
    """Frequencies in codes with a scale for all, or for groups of pairs."""
    for group in (frequencies.size, *(size for size in _GROUPS if size < frequencies.size)):
        each = "" if group == frequencies.size else f", with a scale for each {group} pairs"
        for kind, largest in _WHOLE_CODES.items():
            yield (
                f"rounded to {kind}: to multiples of 1/{largest} of the largest{each}",
                _in_groups(frequencies, group, _multiples(largest, np.rint)),
            )
            yield (
                f"cut to {kind}: to multiples of 1/{largest} of the largest{each}",
                _in_groups(frequencies, group, _multiples(largest, np.floor)),
            )
            if kind.startswith("uint"):
                steps = f"of {largest} equal steps from the smallest to the largest"
                yield (
                    f"rounded to {kind}: to the ends {steps}{each}",
                    _in_groups(frequencies, group, _steps(largest)),
                )
                yield (
                    f"rounded to {kind}: to multiples of one {steps}{each}",
                    _in_groups(frequencies, group, _steps(largest, from_zero=True)),
                )
        for kind in FLOAT8:
            yield (
                f"rounded to {kind}, the largest as {largest_code(kind):g}{each}",
                _in_groups(frequencies, group, _scaled(kind)),
            )


def _of_logarithms(frequencies: Reals) -> Iterator[tuple[str, Reals]]:
    """Frequencies whose logarithms are codes."""
    if not (frequencies > 0).all():
        return
    logarithms = -np.log(frequencies)
    for kind, largest in _WHOLE_CODES.items():
        for change in (_multiples(largest, np.rint), _steps(largest)):
            yield f"kept as logarithms in {kind}", np.exp(-change(logarithms))


def _in_groups(frequencies: Reals, group: int, change: Callable[[Reals], Reals]) -> Reals:
    """What a change makes of each so many frequencies."""
    starts = range(0, frequencies.size, group)
    with np.errstate(all="ignore"):
        return np.concatenate([change(frequencies[start : start + group]) for start in starts])


def _multiples(largest: int, whole: Callable[[Reals], Reals]) -> Callable[[Reals], Reals]:
    """Codes up to the largest, which the largest frequency becomes.

    >>> _multiples(4, np.rint)(np.array([2.0, 0.9, 0.2]))
    array([2., 1., 0.])
    """

    def change(values: Reals) -> Reals:
        step = float(values.max()) / largest
        return np.asarray(whole(values / step) * step if step else values, np.float64)

    return change


def _steps(largest: int, *, from_zero: bool = False) -> Callable[[Reals], Reals]:
    """Codes from 0, which the smallest becomes, up to the largest.

    With ``from_zero`` 0 is one of the numbers that codes stand for.

    >>> _steps(2)(np.array([2.0, 1.2, 0.0]))
    array([2., 1., 0.])
    """

    def change(values: Reals) -> Reals:
        least = float(values.min())
        step = (float(values.max()) - least) / largest
        if not step:
            return values
        least = 0.0 if from_zero else least
        return np.asarray(least + np.rint((values - least) / step) * step, np.float64)

    return change


def _scaled(kind: str) -> Callable[[Reals], Reals]:
    """Float8 with a scale that makes the largest frequency its largest number."""

    def change(values: Reals) -> Reals:
        scale = float(values.max()) / largest_code(kind)
        return scale * round_to_codes(values / scale, kind) if scale else values

    return change

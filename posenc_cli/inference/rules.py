"""Frequency rules with their parameters, evaluated in float64."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.inference.causes import Cause
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Reals


Recalled = TypeVar("Recalled")


class Remembered(Generic[Recalled]):
    """What an iterator gives, to be run through again and again; each is made once, when asked.

    >>> squares = Remembered(n * n for n in range(3))
    >>> next(iter(squares)), list(squares), list(squares)
    (0, [0, 1, 4], [0, 1, 4])
    """

    def __init__(self, items: Iterable[Recalled]) -> None:
        self._items = iter(items)

    def __iter__(self) -> Iterator[Recalled]:
        """All items from the first on."""
        self._items, again = itertools.tee(self._items)
        return again


class Alternative(Record):
    """Frequencies (pairs,), the cause they stand for, and what to say of them.

    ``detail`` is a finer reason than the cause. ``read_off`` says that they were read off the
    subject, so that a pair of them which agrees with it confirms nothing. ``params`` are those of
    the reference's own scheme that give them, whose amplitude may be another; None for other rules.
    """

    cause: Cause
    message: str
    frequencies: Reals
    detail: str | None = None
    read_off: bool = False
    params: Mapping[str, Any] | None = None


def frequencies_of(
    scheme: Scheme, params: Mapping[str, Any], *, of_position: bool = False, **changed: Any
) -> Reals | None:
    """The frequencies of a scheme with the parameters that it shares with ``params``.

    None where it has none with them, or float64 does not hold what they come to; ``of_position``
    asks for waves that follow the position itself, at one amplitude.
    """
    given = {
        name: value
        for name, value in {**params, **changed}.items()
        if name in scheme.parameters and value is not None
    }
    try:
        with scheme.answerable(), np.errstate(all="ignore"):
            waves = scheme.bind(given).content.waves
            if waves is None or scheme.kind != "rotary":
                return None
            if of_position and (waves.coordinates is not None or waves.growth is not None):
                return None
            return np.asarray(waves.frequencies(np), np.float64)
    except (PosencError, ArithmeticError):
        return None


def changed_frequencies(reference: Reference, **changed: Any) -> Reals | None:
    """The frequencies of the reference's own rule with other parameters, None where it has none."""
    return frequencies_of(reference.encoding.bound.scheme, reference.params, **changed)


def base_of(reference: Reference) -> float | None:
    """The base of the reference's ladder, None where it has none.

    A scheme of several conventions may leave its base to them.
    """
    given = reference.params.get("base")
    if given is not None or "base" not in reference.params:
        return None if given is None else float(given)
    own = changed_frequencies(reference)
    for base in (10_000.0, 100.0):
        values = changed_frequencies(reference, base=base)
        if own is not None and values is not None and np.array_equal(values, own):
            return base
    return None


def ladder(base: float, exponents: Reals) -> Reals:
    """The frequencies base^(−exponent)."""
    return np.asarray(base**-exponents, np.float64)


def ladder_base(frequencies: Reals) -> float:
    """The base of a geometric ladder from 1 on, by its last frequency."""
    pairs = frequencies.size
    return float(frequencies[-1] ** (-pairs / (pairs - 1)))


def number_text(value: float) -> str:
    """A base or a factor, as messages show it.

    >>> number_text(500000.0), number_text(1e11)
    ('500000', '1e+11')
    """
    return f"{value:.7g}" if value < 1e7 else f"{value:g}"

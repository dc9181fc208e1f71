"""Rules of frequencies, bound and evaluated in float64: what hypotheses are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from posenc_cli.checks.codes import Cause
    from posenc_cli.checks.reference import Reference
    from posenc_cli.schemes.declare import Scheme

CONTEXTS = tuple(2**power for power in range(9, 21))
"""Lengths of context that models have."""


class Alternative(Record):
    """Frequencies (pairs,), the cause they stand for, and what to say of them."""

    cause: Cause
    message: str
    frequencies: NDArray[np.float64]


def bound(scheme: Scheme, params: Mapping[str, Any], **changed: Any) -> NDArray[np.float64] | None:
    """The frequencies of a scheme with the parameters that it shares with ``params``.

    None where it has none with them, or float64 does not hold what they come to.
    """
    given = {
        name: value
        for name, value in {**params, **changed}.items()
        if name in scheme.parameters and value is not None
    }
    try:
        waves = scheme.bind(given).content.waves
        if waves is None or scheme.kind != "rotary":
            return None
        with np.errstate(all="ignore"):
            return np.asarray(waves.frequencies(np), np.float64)
    except (PosencError, ArithmeticError):
        return None


def rebound(reference: Reference, **changed: Any) -> NDArray[np.float64] | None:
    """The frequencies of the reference's own rule with other parameters, None where it has none."""
    return bound(reference.encoding.bound.scheme, reference.params, **changed)


def base_of(reference: Reference) -> float | None:
    """The base of the reference's ladder, None where it has none.

    A scheme of several conventions may leave its base to them.
    """
    given = reference.params.get("base")
    if given is not None or "base" not in reference.params:
        return None if given is None else float(given)
    own = rebound(reference)
    for base in (10_000.0, 100.0):
        values = rebound(reference, base=base)
        if own is not None and values is not None and np.array_equal(values, own):
            return base
    return None


def ladder(base: float, exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """The frequencies base^(−exponent)."""
    return np.asarray(base**-exponents, np.float64)


def number(value: float) -> str:
    """A base or a factor, as messages show it.

    >>> number(500000.0), number(1e11)
    ('500000', '1e+11')
    """
    return f"{value:.7g}" if value < 1e7 else f"{value:g}"

"""The frequencies of waves as exact numbers, for what fills tables at whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.numerics import exact

if TYPE_CHECKING:
    from decimal import Decimal

    from posenc_cli.formulas.declare import Waves


def exact_frequencies(waves: Waves) -> list[Decimal]:
    """The frequencies of waves in 60-digit reals, per whole number that their filler is given.

    Position n/q times frequency ω is n times ω/q: so every position is whole to what fills tables.

    Units: radians in 1/``waves.denominator`` of a position.
    """
    frequencies = waves.frequencies(exact)
    every = list(frequencies if waves.denominator == 1 else frequencies / waves.denominator)
    if len(every) != waves.count:
        raise ValueError(f"{len(every)} frequencies where {waves.count} were declared")
    return every

"""Find the lengths at which a rotation changes.

Rules such as dynamic NTK and LongRoPE give other frequencies to longer sequences. The lengths are
found from the frequencies alone, so any scheme works, a user's included. Everything else compares
at one length.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.formulas.declare import Scheme

_FURTHER = 4
"""Number of doublings past the last switch that are tried if a rule continues to change."""

_MOST_SWITCHES = 8
"""A rule with this many switches is assumed to have no last one; known models have one or two."""


class LengthRule(Record):
    """The dependence of a rotation on the length of the sequence.

    ``switches`` are the first lengths at which it differs from the length before. With ``goes_on``,
    every length after the last switch may differ from the one before. A change that is reverted
    between two powers of two is not found.
    """

    switches: tuple[int, ...] = ()
    goes_on: bool = False

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths on both sides of each switch, and later ones if the rule goes on."""
        lengths = [length for switch in self.switches for length in (switch - 1, switch)]
        if self.goes_on:
            lengths += [(self.switches[-1] - 1) << power for power in range(1, _FURTHER + 1)]
        return tuple(length for length in lengths if 0 < length <= LARGEST_POSITION)


def depends_on_length(scheme: Scheme, given: Mapping[str, Any]) -> bool:
    """Return whether a parameter follows the length of the sequence and was not given."""
    return any(
        parameter.rules.follows_length and given.get(name) is None
        for name, parameter in scheme.parameters.items()
    )


def length_rule(scheme: Scheme, given: Mapping[str, Any]) -> LengthRule:
    """Return the lengths at which a rotary scheme with parameters changes.

    >>> from posenc_cli.catalogue import find
    >>> length_rule(find("rope-dynamic"), {"max_position_embeddings": 4096})
    LengthRule(switches=(4097,), goes_on=True)
    >>> length_rule(find("rope"), {})
    LengthRule(switches=(), goes_on=False)
    """
    if not depends_on_length(scheme, given):
        return LengthRule()

    def state(length: int) -> tuple[Any, ...] | None:
        try:
            waves = scheme.bind(given, seq_len=length).rotation.waves
        except PosencError:
            return None
        centre = waves.growth and waves.growth.centre
        frequencies = np.asarray(waves.frequencies(np), np.float64)
        return (waves.scale, centre, *frequencies.tolist())

    switches: list[int] = []
    before, start = state(1), 1
    for power in (1 << power for power in range(LARGEST_POSITION.bit_length())):
        after = state(power)
        if after is None:
            break  # the scheme rejects longer sequences
        while before != after:
            high = power  # bisect for the first length with another state
            while high - start > 1:
                middle = (start + high) // 2
                start, high = (middle, high) if state(middle) == before else (start, middle)
            start = high
            switches.append(start)
            before = state(start)
            following = state(min(start + 1, LARGEST_POSITION))
            if following != before or len(switches) == _MOST_SWITCHES:
                return LengthRule(tuple(switches), goes_on=True)
        start = power
    return LengthRule(tuple(switches))

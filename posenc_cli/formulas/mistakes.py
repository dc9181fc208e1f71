"""What goes wrong where a scheme is written again: frequencies that no parameters of it give.

The mistakes of a scheme stand beside its formula, as its inverse does: ``mistakes(xp, params)`` →
each in words, with the frequencies it makes of parameters that are right. They are read off other
people's code and threads. What goes wrong with any ladder of frequencies is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posenc_cli.records import Record


class Mistake(Record):
    """A mistake in words, and the frequencies (pairs,) that it makes, in float64."""

    message: str
    frequencies: Any


Mistakes = Callable[[Any, Mapping[str, Any]], Iterator[Mistake]]
"""An array namespace and the right parameters → mistakes, the likeliest first."""

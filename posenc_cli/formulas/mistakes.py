"""What goes wrong where a scheme is written again: frequencies that no parameters of it give.

The mistakes of a scheme stand beside its formula, as its inverse does: ``mistakes(xp, params)`` →
each in words, with the frequencies it makes of parameters that are right, and where somebody made
it. One that nobody was seen to make is not listed: a check fails all the same, and says where.
What goes wrong with any ladder of frequencies is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posenc_cli.records import Record


class Mistake(Record):
    """A mistake in words, the frequencies (pairs,) that it makes, in float64, and its witness.

    ``seen`` is an issue or a pull request on GitHub, a release of a library, or a paper.
    """

    message: str
    frequencies: Any
    seen: str


Mistakes = Callable[[Any, Mapping[str, Any]], Iterator[Mistake]]
"""An array namespace and the right parameters → mistakes, the likeliest first."""

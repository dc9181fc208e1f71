"""The inspections of what someone names: encodings, each part of a hybrid by itself, and arrays.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from posenc_cli.analysis.inspection.inspected import MOST_SCORES, MOST_WAVE_CELLS
from posenc_cli.analysis.inspection.properties import inspection
from posenc_cli.encoding.precision import Precision
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.analysis.inspection.property import Inspection
    from posenc_cli.choice import Choice

FIRST = 512
"""Positions that are looked at where neither someone nor a model says how many."""

MOST_OF_CONTEXT = 1 << 17
"""Positions of a model's context that are looked at where no one says how many: some seconds."""


def inspections_of(
    choice: Choice, fit: int | None = None, step: Callable[[], None] = lambda: None
) -> Iterator[Inspection]:
    """What a choice is like, or each part of a hybrid; the linear map is fitted on ``fit`` rows.

    ``step`` is called as properties of one are known. Without positions these are those of the
    model's context, or the first 512.

    Raises: InvalidInput where it asks for too much, or for positions that there are not.
    """
    for part in choice.parts or (choice,):
        placed = part if part.positions is not None else _at_first(part)
        for request in placed.requests(Precision.of(FLOAT64, None)):
            engine = placed.engine(request.plan())
            yield inspection(request, engine, fit=fit, name=choice.source or None, step=step)


def _at_first(choice: Choice) -> Choice:
    """A choice at as many of its first positions as are looked at unasked."""
    content = choice.encoding().bound.content
    count = FIRST
    if choice.context is not None:
        cells = MOST_WAVE_CELLS // max(1, content.width)
        count = min(choice.context[0], MOST_OF_CONTEXT, cells)
    if content.heads is not None:
        scores = MOST_SCORES // content.heads
        count = min(count, max(1, math.isqrt(scores) if content.by == "pair" else scores))
    return choice.at_first(count)


def names_apart(names: Sequence[str]) -> list[str]:
    """The same names, those that are there twice numbered after their order.

    >>> names_apart(["rope", "alibi", "rope"])
    ['rope (1)', 'alibi', 'rope (2)']
    """
    return [
        f"{name} ({1 + names[:place].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def named_apart(inspections: list[Inspection]) -> list[Inspection]:
    """The same, each with a name of its own."""
    names = names_apart([known.name for known in inspections])
    return [replace(known, name=name) for known, name in zip(inspections, names, strict=True)]

"""Several encodings in one picture: their names, their colours, and which share axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from posenc_cli.choice import LETTERS
from posenc_cli.errors import InvalidInput
from posenc_cli.render.style import LINE_STYLES, PALETTES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

Grouped = TypeVar("Grouped")

_LOOKS = math.lcm(len(PALETTES["light"].lines), len(LINE_STYLES))
"""Curves that differ in their colours or in their dashes."""


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names that tell all apart: those that are given twice follow the letter of their place.

    >>> distinct_names(["rope", "alibi", "rope"])
    ['a: rope', 'alibi', 'c: rope']
    """
    return [
        f"{LETTERS[place : place + 1]}: {name}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def grouped(items: Iterable[Grouped], key: Callable[[Grouped], Hashable]) -> list[list[Grouped]]:
    """Items with the same key together, in the order of the first of each.

    >>> grouped([3, 4, 5], lambda number: number % 2)
    [[3, 5], [4]]
    """
    groups: dict[Hashable, list[Grouped]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [*groups.values()]


def check_looks(places: Sequence[int]) -> None:
    """Refuse more curves in one set of axes than colours and dashes tell apart.

    Raises: InvalidInput.
    """
    if len({place % _LOOKS for place in places}) < len(places):
        raise InvalidInput(
            f"{len(places)} encodings share one set of axes; {_LOOKS} can be told apart there",
            hint="--json has all of them",
        )

"""What is looked at of something too long to be looked at whole."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def spread(count: int, most: int, *, even: bool = False) -> list[int]:
    """At most ``most`` indices of ``count``, spread evenly from the first to the last.

    ``even`` keeps all steps equal, for which the last may have to go.

    >>> spread(3, 8), spread(10, 4), spread(10, 4, even=True), spread(2**50, 2)
    ([0, 1, 2], [0, 3, 6, 9], [0, 3, 6, 9], [0, 1125899906842623])
    """
    most = max(1, most)
    if count <= most:
        return list(range(count))
    if even:
        return list(range(0, count, -(-count // most)))
    if most == 1:
        return [0]
    return [(2 * i * (count - 1) + most - 1) // (2 * (most - 1)) for i in range(most)]


def steps(points: Sequence[Any]) -> float | None:
    """The usual step from one point to the next, None where they are not two numbers.

    >>> steps((0, 10, 20, 1000)), steps(("a", "b")), steps((7,))
    (10, None, None)
    """
    if len(points) < 2 or any(isinstance(point, str) for point in points):
        return None
    gaps = sorted(abs(after - before) for before, after in pairwise(points))
    typical: float = gaps[len(gaps) // 2]
    return typical

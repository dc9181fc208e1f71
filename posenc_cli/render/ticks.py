"""Choose which points of an axis get a label, and format numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

IN_FULL = 1e7
"""The limit below which whole numbers are written without an exponent."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FEWEST_DIGITS, _MOST_DIGITS = 4, 17
"""Digits of numbers that are not whole: the usual minimum, and the most a float has."""
_FINE = 2
"""The largest equal step at which points have exact labels, not a round number nearby."""


def ticks(points: Sequence[Any], most: int) -> list[tuple[int, str]]:
    """Return the index and the label of about ``most`` points or fewer.

    For numbers at equal steps, round ones are labelled. For integers, such as lengths and
    dimensions, these are multiples of a power of two. If the step is larger, the point nearest to a
    round number gets its label.

    >>> ticks(range(64), 4), ticks(range(1, 64, 2), 4)
    ([(0, '0'), (16, '16'), (32, '32'), (48, '48')], [(0, '1'), (8, '17'), (16, '33'), (24, '49')])
    >>> ticks(range(0, 1 << 20, 1000), 3), ticks(["a", "b", "c"], 2)
    ([(0, '0'), (524, '524288')], [(0, 'a'), (2, 'c')])
    """
    count = len(points)
    most = max(1, min(most, count))
    digits = digits_apart(points)
    if not _evenly_spaced(points):
        return [(i, number(points[i], digits)) for i in _round_places(points, -(-count // most))]
    first, last = points[0], points[-1]
    gap = (last - first) / (count - 1)
    whole = all(isinstance(point, int) for point in (first, last))
    step = round_step((last - first) / most, least=abs(gap), whole=whole)
    low, high = min(first, last), max(first, last)
    # On a fine axis labels are exact. On a coarse axis they are the round numbers, but a round
    # number just before the first point is replaced by that point.
    fine = abs(gap) <= _FINE and (not whole or gap == int(gap))
    names: dict[int, str] = {}
    for multiple in range(math.floor(low / step), math.floor(high / step) + 1):
        place = (multiple * step - first) / gap
        if place >= -1:
            index = min(max(0, math.floor(place + 0.5)), count - 1)
            is_exact = fine or place < 0
            names.setdefault(index, number(points[index] if is_exact else multiple * step, digits))
    return sorted(names.items())


def _round_places(points: Sequence[Any], step: int) -> Sequence[int]:
    """Return indices at least ``step`` apart; integers prefer multiples of high powers of two.

    >>> positions = 0, 1, 2, 3, 5, 8, 9, 127, 128, 4095, 4096
    >>> [positions[i] for i in _round_places(positions, 3)]
    [0, 8, 4096]
    """
    if not all(isinstance(point, int) for point in points):
        return range(0, len(points), step)
    chosen: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: -(points[i] & -points[i]) or -math.inf):
        if all(abs(i - other) >= step for other in chosen):
            chosen.append(i)
    return sorted(chosen)


def longest_of(points: Sequence[Any]) -> Sequence[Any]:
    """Return the points that include the one with the longest name: for numbers, the two ends.

    >>> longest_of(range(64)), longest_of(["a", "word", "b"])
    ((0, 63), ['a', 'word', 'b'])
    """
    return points if isinstance(points[0], str) else (points[0], points[-1])


def number(value: Any, digits: int = 4) -> str:
    """Return a number as a label: integers in full, others to a few digits.

    >>> number(1048576), number(0.30000000000000004), number(-0.0)
    ('1048576', '0.3', '0')
    """
    if isinstance(value, str | int):
        return str(value)
    return f"{value + 0.0:.{digits}g}" if value else "0"


def label(value: float, digits: int = 4) -> str:
    """Return a number as a label, with whole numbers below ten million in full.

    >>> label(131072.0), label(0.25), label(1e9)
    ('131072', '0.25', '1e+09')
    """
    whole = math.isfinite(value) and value == int(value) and abs(value) < IN_FULL
    return number(int(value) if whole else value, digits)


def power(value: float) -> str:
    """Return a positive number as a label with a power of ten; infinity unchanged.

    >>> power(1e7), power(0.0002)
    ('10⁷', '2·10⁻⁴')
    """
    if math.isinf(value):
        return number(value)
    factor, _, exponent = f"{value:.3e}".partition("e")
    raised = f"10{str(int(exponent)).translate(_RAISED)}"
    return raised if float(factor) == 1 else f"{float(factor):g}·{raised}"


def finite_or_null(value: Any) -> Any:
    """Return a value for JSON: null if a number is not finite, two parts for a complex one.

    >>> finite_or_null({"a": [1, math.inf], "b": (2j,)})
    {'a': [1, None], 'b': [[0.0, 2.0]]}
    """
    match value:
        case float():
            return value if math.isfinite(value) else None
        case complex():
            return finite_or_null([value.real, value.imag])
        case list() | tuple():
            return [*map(finite_or_null, value)]
        case dict():
            return {key: finite_or_null(item) for key, item in value.items()}
    return value


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural if needed.

    >>> counted(1, "pair"), counted(2, "pair")
    ('1 pair', '2 pairs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def minus(text: str) -> str:
    """Replace hyphens in a number by minus signs, which are as wide as a plus.

    >>> minus("-1e-05")
    '−1e−05'
    """
    return (f"−{text[1:]}" if text.startswith("-") else text).replace("e-", "e−")


def digits_apart(points: Sequence[Any]) -> int:
    """Return the digits needed to distinguish neighbours, at least four: 1000.25 from 1000.5.

    >>> digits_apart([100000.0, 100000.25]), digits_apart(range(4)), digits_apart(["a", "b"])
    (7, 4, 4)
    """
    if len(points) < 2 or isinstance(points, range):
        return _FEWEST_DIGITS
    first, second, last = points[0], points[1], points[-1]
    if any(isinstance(point, str) for point in (first, second, last)) or first == second:
        return _FEWEST_DIGITS
    largest = max(abs(first), abs(last))
    needed = math.ceil(math.log10(largest / abs(second - first))) + 1 if largest else 0
    return min(max(_FEWEST_DIGITS, needed), _MOST_DIGITS)


def _evenly_spaced(points: Sequence[Any]) -> bool:
    if isinstance(points, range):
        return len(points) > 2
    if len(points) < 3 or any(isinstance(point, str) for point in (points[0], points[-1])):
        return False
    gap = (points[-1] - points[0]) / (len(points) - 1)
    tolerance = 1 if isinstance(points[0], int) else 1e-6 * abs(gap)
    return bool(gap) and all(
        abs(point - points[0] - i * gap) <= tolerance for i, point in enumerate(points)
    )


def round_step(rough: float, *, least: float, whole: bool) -> Any:
    """Return the smallest round number that is at least ``rough``."""
    rough = max(abs(rough), least)
    if whole:
        return 1 << max(0, math.ceil(math.log2(rough)))
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= rough * (1 - 1e-9))

"""The positions of a request, as ranges that cost nothing until used.

A position is a whole number of units of 1/denominator. `Positions.ranges` holds the numerators and
`Positions.denominator` the denominator, so that all computations use integers.
"""

from __future__ import annotations

import re
from functools import cached_property
from math import gcd, lcm
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

LARGEST_POSITION = 2**53
"""The last position whose table entries are proven to be correctly rounded. For fractions, it is
the largest numerator and denominator.
"""

_LARGEST_COUNT = 2**63 - 1
_UNITS = {"k": 1024, "K": 1024, "M": 1024**2}
_WHOLE = r"([+-]?)([0-9]+(?:_[0-9]+)*)(?:(?:\.([0-9]+))?[eE]\+?([0-9]{1,4}))?"
_NUMBER = r"([+-]?)([0-9]+(?:_[0-9]+)*)?(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?(?:/([0-9]+))?"
_LONGEST = 40
_LONGEST_DECIMAL = 24  # characters of a position written as a decimal; longer ones are fractions
PAST_ALL: int = 10**_LONGEST
"""Stands for every larger number: 2^53 has 16 digits, and a text may have millions."""
_OPTION = "--positions"
FALLING_POSITIONS = 1 << 16
"""The most positions with a negative step: each of them needs a range of its own."""
_FALLING_RUN = 4  # falling positions that are written as start:stop:step


class Positions(Record):
    """Positions in the order asked for, as a tuple of non-empty ascending ranges.

    The ranges, ``first`` and ``last`` hold numerators: whole numbers of 1/``denominator``.

    >>> positions = Positions.parse("0:4,10,20:30:5")
    >>> positions.count, positions.first, positions.last, str(positions)
    (7, 0, 25, '0:4,10,20:30:5')
    >>> quarters = Positions.parse("-1:1:0.25")
    >>> quarters.ranges, quarters.denominator, str(quarters)
    ((range(-4, 4),), 4, '-1:1:0.25')
    """

    ranges: tuple[range, ...]
    denominator: int = 1

    @classmethod
    def contiguous(cls, start: int, count: int) -> Positions:
        """Positions ``start``, ``start + 1``, … (``count`` of them)."""
        return cls((range(start, start + count),))

    @classmethod
    def from_start(cls, start: Fraction | int, count: int) -> Positions:
        """Positions ``start``, ``start + 1``, … from a start that may be a fraction.

        >>> from fractions import Fraction
        >>> str(Positions.from_start(Fraction(-1, 2), 3))
        '-0.5:2.5'
        """
        first, parts = start.numerator, start.denominator
        return cls((range(first, first + count * parts, parts),), parts)

    @classmethod
    def evenly(cls, first: int, step: int, count: int, denominator: int = 1) -> Positions:
        """Positions ``first``, ``first + step``, …; they fall if the step is negative.

        >>> str(Positions.evenly(9, -3, 4)), str(Positions.evenly(1, 2, 3, 2))
        ('9:-3:-3', '0.5:3.5')
        """
        numbers = range(first, first + step * count, step)
        if step > 0:
            return cls((numbers,), denominator)
        return cls(tuple(range(number, number + 1) for number in numbers), denominator)

    @classmethod
    def parse(cls, text: str) -> Positions:
        """Positions from text: ``start:stop[:step]`` (half-open) and single numbers, by commas.

        A number is whole, a decimal fraction or ``p/q``, and is taken exactly. With a negative
        step, positions fall.

        >>> [str(Positions.parse(text)) for text in ("0.1,1e-3", "0:1:1/3", "-3:0", "4:0:-1")]
        ['0.1,0.001', '0:1:1/3', '-3:0', '4:0:-1']

        Raises: InvalidInput if a part is malformed or empty.
        """
        parts = [_numbers(part.strip(), text) for part in text.split(",")]
        denominator = lcm(*(n.denominator for start, _, step in parts for n in (start, step)))
        return cls(
            tuple(span for numbers in parts for span in _spans(numbers, denominator, text)),
            denominator,
        )

    @cached_property
    def count(self) -> int:
        """How many positions there are."""
        return sum(_length(span) for span in self.ranges)

    @cached_property
    def first(self) -> int:
        """The numerator of the smallest position."""
        return min(span.start for span in self.ranges)

    @cached_property
    def last(self) -> int:
        """The numerator of the largest position."""
        return max(span[-1] for span in self.ranges)

    @property
    def length(self) -> int:
        """The length of the sequence that ends with the last position, at least 1.

        >>> [Positions.parse(text).length for text in ("0:100:0.25", "7", "-3:0")]
        [100, 8, 1]
        """
        return max(1, self.last // self.denominator + 1)

    @property
    def step(self) -> int | None:
        """The numerator of the step between neighbours, or None if it varies."""
        return self.ranges[0].step if len(self.ranges) == 1 else None

    @property
    def progression(self) -> tuple[int, int] | None:
        """The numerators of the first position and of the step, or None unless evenly spaced.

        >>> Positions.parse("9:-3:-3").progression, Positions.parse("0.5:3.5").progression
        ((9, -3), (1, 2))
        >>> Positions.parse("5,17,4096").progression
        """
        runs = tuple(_falling_runs(self.ranges))
        return (runs[0][0], runs[0].step) if len(runs) == 1 else None

    def name(self, number: int) -> str:
        """Return the exact text of a numerator's position.

        >>> [Positions.parse("0.25").name(number) for number in (-1, 0, 4, 6)]
        ['-0.25', '0', '1', '1.5']
        """
        return _name(number, self.denominator)

    def names(self) -> Iterator[str]:
        """Return the positions in order, each as a text."""
        return map(self.name, self)

    def in_parts(self, denominator: int) -> Positions:
        """Return the same positions with a larger denominator, a multiple of the present one.

        >>> Positions.parse("0:2:0.5").in_parts(4)
        Positions(ranges=(range(0, 7, 2),), denominator=4)
        """
        finer = denominator // self.denominator
        return Positions(
            tuple(range(r.start * finer, r[-1] * finer + 1, r.step * finer) for r in self.ranges),
            denominator,
        )

    @property
    def option(self) -> str:
        """The option that asks for these positions, in the form that most people type.

        >>> Positions.contiguous(0, 8).option, Positions.contiguous(3, 8).option
        ('--len 8', '--start 3 --len 8')
        >>> Positions.parse("5,17").option
        '--positions 5,17'
        """
        if self.step == self.denominator:
            start = f"--start {self.name(self.first)} " if self.first else ""
            return f"{start}--len {self.count}"
        text = str(self)
        return f"{_OPTION} {text if len(text) <= _LONGEST else abbreviated(text)}"

    def offsets(self, farthest: int | None = None) -> Positions:
        """Return the offsets j − i between these positions, from the most negative up, each once.

        They end at ``farthest`` if the scheme treats all offsets past it alike.

        >>> str(Positions.parse("10:13").offsets()), str(Positions.parse("0:9").offsets(2))
        ('-2:3', '-2:3')

        Raises: InvalidInput unless the positions are consecutive.
        """
        step = self.step
        if step not in (1, self.denominator):
            raise InvalidInput(
                f"{_OPTION} {abbreviated(str(self))}: a relative scheme needs positions that "
                "follow one another",
                hint="--len N",
            )
        reach = self.count - 1 if farthest is None else min(self.count - 1, farthest)
        return Positions((range(-reach * step, reach * step + 1, step),), self.denominator)

    def within_exact_range(self, *, option: str = _OPTION) -> Positions:
        """Return these positions, after a check that each numerator lies in −2^53 … 2^53.

        Raises: InvalidInput naming ``option``.
        """
        if int(float(self.denominator)) != self.denominator:
            raise InvalidInput(
                f"{option}: no part of 1 above 2^-53, or power of two, divides all of them"
            )
        for number in (self.last, self.first):
            if abs(number) > LARGEST_POSITION:
                parts = "" if self.denominator == 1 else f", in parts of 1/{self.denominator},"
                raise InvalidInput(
                    f"{option}: position {abbreviated(self.name(number))}{parts} is past 2^53 "
                    f"({LARGEST_POSITION}), the last that is exact"
                )
        if self.count > _LARGEST_COUNT:
            raise InvalidInput(f"{option}: {self.count} positions are more than 2^63 − 1")
        return self

    def whole(self, what: str) -> Positions:
        """Return these positions, after a check that all are whole.

        ``what`` takes no others.

        Raises: InvalidInput.
        """
        if self.denominator > 1:
            number = next(number for number in self if number % self.denominator)
            raise InvalidInput(
                f"position {self.name(number)} is not whole: {what} takes only whole positions"
            )
        return self

    def counted(self, what: str) -> Positions:
        """Return these positions, after a check that all are 0, 1, 2 and so on.

        ``what`` takes no others.

        Raises: InvalidInput.
        """
        if self.first < 0:
            raise InvalidInput(
                f"position {self.name(self.first)} is negative: {what} takes them from 0 on"
            )
        return self.whole(what)

    def blocks(self, count: int) -> Iterator[Positions]:
        """Yield these positions in order, at most ``count`` at a time.

        Short ranges share a block, so that a list of single positions is not one block each.

        >>> [str(block) for block in Positions.parse("0:5,9,7").blocks(3)]
        ['0:3', '3:5,9', '7']
        """
        pending: list[range] = []
        room = count
        for span in self.ranges:
            begin, length = 0, _length(span)
            while begin < length:
                piece = span[begin : begin + room]
                pending.append(piece)
                begin += len(piece)
                room -= len(piece)
                if room == 0:
                    yield Positions(tuple(pending), self.denominator)
                    pending, room = [], count
        if pending:
            yield Positions(tuple(pending), self.denominator)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the numerators of the positions, in order."""
        for span in self.ranges:
            yield from span

    def __str__(self) -> str:
        return ",".join(_text(span, self.denominator) for span in _falling_runs(self.ranges))


def whole_number(text: str) -> int | None:
    """Return the whole number of a text, or None if it is not one: 131072, 131_072, 1e6 or 128k.

    As in model names, k is 1024 and M is 1024². A number with more digits than any position becomes
    `PAST_ALL`.

    >>> [whole_number(text) for text in ("131_072", "-7", "1.5e3", "1.5", "1e-3", "1__0", "9e999")]
    [131072, -7, 1500, None, None, None, 10000000000000000000000000000000000000000]
    >>> [whole_number(text) for text in ("4k", "128K", "1M", "k", "4kk", "1.5k")]
    [4096, 131072, 1048576, None, None, None]
    """
    if (unit := _UNITS.get(text.strip()[-1:])) is not None:
        rest = text.strip()[:-1]
        number = whole_number(rest) if rest[-1:].isdigit() else None
        return number if number is None or abs(number) == PAST_ALL else number * unit
    match = re.fullmatch(_WHOLE, text.strip())
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups(default="")
    zeros = int(exponent or 0) - len(fraction)
    digits = (whole.replace("_", "") + fraction).lstrip("0")
    if zeros < 0:
        if digits[zeros:].strip("0"):
            return None
        digits, zeros = digits[:zeros], 0
    size = PAST_ALL if len(digits) + zeros > _LONGEST else int(digits + "0" * zeros or 0)
    return -size if sign == "-" else size


def exact_number(text: str) -> Fraction | int | None:
    """Return the exact number of a text, or None if it is not one: 0.1 is a tenth, 1/3 a third.

    A number with more digits than any position becomes `PAST_ALL`.

    >>> [str(exact_number(text)) for text in ("7", "0.1", "-1e-3", "2/6", ".5", "1/0", "x")]
    ['7', '1/10', '-1/1000', '1/3', '1/2', 'None', 'None']
    """
    whole = whole_number(text)
    if whole is not None:
        return whole
    match = re.fullmatch(_NUMBER, text.strip())
    if match is None or not (match[2] or match[3]) or (match[5] and not int(match[5][:_LONGEST])):
        return None
    from fractions import Fraction

    sign, before, after, exponent, parts = match.groups(default="")
    digits, power = before.replace("_", "") + after, int(exponent or 0) - len(after)
    if max(len(digits.lstrip("0")), abs(power), len(parts)) > _LONGEST:
        return PAST_ALL
    numerator: int = int(digits) * 10 ** max(power, 0)
    denominator: int = int(parts or 1) * 10 ** max(-power, 0)
    number: Fraction = Fraction(-numerator if sign == "-" else numerator, denominator)
    return int(number) if number.denominator == 1 else number


def consecutive_ranges(numbers: Iterable[int]) -> tuple[range, ...]:
    """Ascending whole numbers as ranges of consecutive ones.

    >>> consecutive_ranges([3, 7, 8, 9])
    (range(3, 4), range(7, 10))
    """
    runs: list[range] = []
    for number in numbers:
        if runs and number == runs[-1].stop:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return tuple(runs)


def range_texts(numbers: Iterable[int]) -> list[str]:
    """Ascending whole numbers as texts, one text for each run of consecutive ones.

    >>> range_texts([0, 1, 2, 7, 9, 10])
    ['0–2', '7', '9–10']
    """
    runs = consecutive_ranges(numbers)
    return [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]


def _length(positions: range) -> int:
    """Return len() without its limit of 2^63 − 1."""
    return (positions.stop - positions.start + positions.step - 1) // positions.step


def _falling_runs(ranges: tuple[range, ...]) -> Iterator[range]:
    """Yield the ranges, with runs of evenly falling single positions joined into negative steps."""
    begin = 0
    while begin < len(ranges):
        end = begin + 1
        if len(ranges) - begin >= _FALLING_RUN and _length(ranges[begin]) == 1:
            first, step = ranges[begin].start, ranges[begin + 1].start - ranges[begin].start
            while (
                step < 0
                and end < len(ranges)
                and ranges[end].start == first + step * (end - begin)
                and _length(ranges[end]) == 1
            ):
                end += 1
        if end - begin >= _FALLING_RUN:
            yield range(first, first + step * (end - begin), step)
        else:
            yield from ranges[begin:end]
        begin = end


def _text(positions: range, denominator: int) -> str:
    if positions.step > 0 and _length(positions) == 1:
        return _name(positions.start, denominator)
    ends = f"{_name(positions.start, denominator)}:{_name(positions.stop, denominator)}"
    step = positions.step
    return ends if step == denominator else f"{ends}:{_name(step, denominator)}"


def _name(number: int, denominator: int) -> str:
    """Return a numerator's position as text: a decimal fraction if that is short, else p/q."""
    if number % denominator == 0:
        return str(number // denominator)
    common = gcd(number, denominator)
    number, denominator = number // common, denominator // common
    twos = (denominator & -denominator).bit_length() - 1
    fives, rest = 0, denominator >> twos
    while rest % 5 == 0:
        fives, rest = fives + 1, rest // 5
    places = max(twos, fives)
    if rest == 1 and places < _LONGEST_DECIMAL:
        digits = str(abs(number) * 10**places // denominator).rjust(places + 1, "0")
        decimal = f"{'-' if number < 0 else ''}{digits[:-places]}.{digits[-places:]}"
        if len(decimal) <= _LONGEST_DECIMAL:
            return decimal
    return f"{number}/{denominator}"


def _numbers(part: str, text: str) -> tuple[Fraction | int, Fraction | int, Fraction | int]:
    """Start, stop and step of one part of a specification.

    The stop of a single number is one past it.
    """
    fields = [exact_number(field) for field in part.split(":")]
    numbers = [field for field in fields if field is not None]
    if not 1 <= len(fields) <= 3 or len(numbers) < len(fields):
        raise InvalidInput(
            f"{_OPTION} {abbreviated(text)}: {abbreviated(part)} is neither a number nor "
            "start:stop[:step]",
            hint="for example 0:4096, 0:1e6:1000, 5,17,4096 or -1:1:0.25",
        )
    if any(not -PAST_ALL < number < PAST_ALL for number in numbers):
        raise InvalidInput(
            f"{_OPTION} {abbreviated(text)}: {abbreviated(part)} is past 2^53, "
            "the last exact position"
        )
    start, *rest = numbers
    stop = rest[0] if rest else start + 1
    step = rest[1] if len(rest) == 2 else 1
    if step == 0:
        raise InvalidInput(f"{_OPTION} {abbreviated(text)}: the step of {part!r} must not be 0")
    if stop <= start if step > 0 else stop >= start:
        raise InvalidInput(f"{_OPTION} {abbreviated(text)}: {part!r} holds no position")
    return start, stop, step


def _spans(
    numbers: tuple[Fraction | int, Fraction | int, Fraction | int], denominator: int, text: str
) -> tuple[range, ...]:
    """Return the ranges from a start to before a stop, as numerators."""
    start, stop, step = (number * denominator for number in numbers)
    if step > 0:
        return (range(int(start), -int(-stop // 1), int(step)),)
    falling = range(int(start), int(stop // 1), int(step))
    if falling[FALLING_POSITIONS:]:
        raise InvalidInput(
            f"{_OPTION} {abbreviated(text)}: at most {FALLING_POSITIONS} positions may count down"
        )
    return tuple(range(number, number + 1) for number in falling)


def ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> [ordinal(n) for n in (2, 3, 4, 11, 22)]
    ['2nd', '3rd', '4th', '11th', '22nd']
    """
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else suffix}"

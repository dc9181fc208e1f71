"""Positions: which integer positions a request asks for, as ranges that cost nothing until used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST_POSITION = 2**53
"""The last position whose table cells are proven to be correctly rounded."""

_LARGEST_COUNT = 2**63 - 1
_WHOLE = re.compile(r"([+-]?)([0-9]+(?:_[0-9]+)*)(?:(?:\.([0-9]+))?[eE]\+?([0-9]{1,4}))?")
_LONGEST = 40
PAST_ALL = 10**_LONGEST
"""What stands for every larger number: 2^53 has 16 digits, and a text may have millions."""
_OPTION = "--positions"


class Positions(Record):
    """Integer positions in the order asked for, as a tuple of non-empty ascending ranges.

    >>> positions = Positions.parse("0:4,10,20:30:5")
    >>> positions.count, positions.first, positions.last, str(positions)
    (7, 0, 25, '0:4,10,20:30:5')
    """

    ranges: tuple[range, ...]

    @classmethod
    def contiguous(cls, start: int, count: int) -> Positions:
        """Positions ``start``, ``start + 1``, … (``count`` of them)."""
        return cls((range(start, start + count),))

    @classmethod
    def parse(cls, text: str) -> Positions:
        """Positions from text: ``start:stop[:step]`` (half-open) and single integers, by commas.

        Raises: InvalidInput when a part is malformed or empty.
        """
        return cls(tuple(_range(part.strip(), text) for part in text.split(",")))

    @property
    def count(self) -> int:
        """How many positions there are."""
        return sum(_length(span) for span in self.ranges)

    @property
    def first(self) -> int:
        """The smallest position."""
        return min(span.start for span in self.ranges)

    @property
    def last(self) -> int:
        """The largest position."""
        return max(span[-1] for span in self.ranges)

    @property
    def option(self) -> str:
        """The option that asks for them, in the form most people type.

        >>> Positions.contiguous(0, 8).option, Positions.contiguous(3, 8).option
        ('--len 8', '--start 3 --len 8')
        >>> Positions.parse("5,17").option
        '--positions 5,17'
        """
        if len(self.ranges) == 1 and self.ranges[0].step == 1:
            start = f"--start {self.first} " if self.first else ""
            return f"{start}--len {self.count}"
        text = str(self)
        return f"{_OPTION} {text if len(text) <= _LONGEST else abbreviated(text)}"

    def offsets(self, farthest: int | None = None) -> Positions:
        """The offsets j − i between these positions, from the most negative on, each once.

        They end at ``farthest`` where offsets past it are not told apart.

        >>> str(Positions.parse("10:13").offsets()), str(Positions.parse("0:9").offsets(2))
        ('-2:3', '-2:3')

        Raises: InvalidInput unless the positions follow one another.
        """
        if len(self.ranges) > 1 or self.ranges[0].step != 1:
            raise InvalidInput(
                f"{_OPTION} {abbreviated(str(self))}: a relative scheme needs positions that "
                "follow one another",
                hint="--len N",
            )
        reach = self.count - 1 if farthest is None else min(self.count - 1, farthest)
        return Positions((range(-reach, reach + 1),))

    def within_exact_range(self, *, option: str = _OPTION) -> Positions:
        """These positions, after a check that each lies in 0 … 2^53.

        Raises: InvalidInput naming ``option``.
        """
        if self.first < 0:
            raise InvalidInput(f"{option}: position {self.first} is negative; the first is 0")
        if self.last > LARGEST_POSITION:
            raise InvalidInput(
                f"{option}: position {abbreviated(str(self.last))} is past 2^53 "
                f"({LARGEST_POSITION}), the last that is exact"
            )
        if self.count > _LARGEST_COUNT:
            raise InvalidInput(f"{option}: {self.count} positions are more than 2^63 − 1")
        return self

    def blocks(self, count: int) -> Iterator[Positions]:
        """These positions in order, at most ``count`` at a time.

        Short ranges share a block, so that a list of single positions is not a block each.

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
                    yield Positions(tuple(pending))
                    pending, room = [], count
        if pending:
            yield Positions(tuple(pending))

    def __iter__(self) -> Iterator[int]:
        for span in self.ranges:
            yield from span

    def __str__(self) -> str:
        return ",".join(_text(span) for span in self.ranges)


def whole_number(text: str) -> int | None:
    """The whole number that a text is, None where it is none: 131072, 131_072, or 1e6.

    One of more digits than any position has stands as `PAST_ALL`.

    >>> [whole_number(text) for text in ("131_072", "-7", "1.5e3", "1.5", "1e-3", "1__0", "9e999")]
    [131072, -7, 1500, None, None, None, 10000000000000000000000000000000000000000]
    """
    match = _WHOLE.fullmatch(text.strip())
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


def consecutive_ranges(numbers: Iterable[int]) -> tuple[range, ...]:
    """Ascending whole numbers as ranges of those that follow one another.

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
    """Ascending whole numbers for a reader, those that follow one another as one text.

    >>> range_texts([0, 1, 2, 7, 9, 10])
    ['0–2', '7', '9–10']
    """
    runs = consecutive_ranges(numbers)
    return [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]


def _length(positions: range) -> int:
    """len() without its limit of 2^63 − 1."""
    return (positions.stop - positions.start + positions.step - 1) // positions.step


def _text(positions: range) -> str:
    if _length(positions) == 1:
        return str(positions.start)
    ends = f"{positions.start}:{positions.stop}"
    return ends if positions.step == 1 else f"{ends}:{positions.step}"


def _range(part: str, text: str) -> range:
    """The range that one part of a specification names."""
    fields = [whole_number(field) for field in part.split(":")]
    numbers = [field for field in fields if field is not None]
    if not 1 <= len(fields) <= 3 or len(numbers) < len(fields):
        raise InvalidInput(
            f"{_OPTION} {abbreviated(text)}: {abbreviated(part)} is neither an integer nor "
            "start:stop[:step]",
            hint="for example 0:4096, 0:1e6:1000 or 5,17,4096",
        )
    if max(map(abs, numbers)) == PAST_ALL:
        raise InvalidInput(
            f"{_OPTION} {abbreviated(text)}: {abbreviated(part)} is past 2^53, "
            "the last exact position"
        )
    start, *rest = numbers
    stop = rest[0] if rest else start + 1
    step = rest[1] if len(rest) == 2 else 1
    if step < 1:
        raise InvalidInput(f"{_OPTION} {abbreviated(text)}: the step of {part!r} must be positive")
    if stop <= start:
        raise InvalidInput(f"{_OPTION} {abbreviated(text)}: {part!r} holds no position")
    return range(start, stop, step)

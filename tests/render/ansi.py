"""Reading back what a terminal would show: the glyph and colours of each cell of a text."""

import re
from typing import NamedTuple

_TOKEN = re.compile("\x1b\\[([0-9;]*)m|([^\x1b])")


class Cell(NamedTuple):
    glyph: str
    front: tuple[int, ...] | None
    back: tuple[int, ...] | None


def cells_of(line: str) -> list[Cell]:
    """The cells of a line; colours are (r, g, b), or (n,) of a palette of 256."""
    front: tuple[int, ...] | None = None
    back: tuple[int, ...] | None = None
    found = []
    position = 0
    for match in _TOKEN.finditer(line):
        assert match.start() == position, f"an escape code that is no colour: {line!r}"
        position = match.end()
        if match[2] is not None:
            found.append(Cell(match[2], front, back))
            continue
        codes = [int(code or 0) for code in match[1].split(";")]
        while codes:
            code = codes.pop(0)
            color = None
            if code in (38, 48):
                count = {2: 3, 5: 1}[codes.pop(0)]
                color, codes = tuple(codes[:count]), codes[count:]
            else:
                assert code in (0, 39, 49)
            if code in (0, 38, 39):
                front = color
            if code in (0, 48, 49):
                back = color
    assert position == len(line)
    assert front is None and back is None, "colours that go on after the line"  # noqa: PT018
    return found


def pixels_of(line: str) -> list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]]:
    """The colours of the upper and the lower half of each cell."""
    halves = {"▀": lambda c: (c.front, c.back), "▄": lambda c: (c.back, c.front)}
    return [halves.get(cell.glyph, lambda c: (c.back, c.back))(cell) for cell in cells_of(line)]

"""Encode pictures of pixels as escape sequences of terminals that show them.

kitty and iTerm2 read a PNG file directly. Sixel has bands of six rows, color by color, with at most
256 colors. Pillow, which comes with matplotlib, chooses them.
"""

from __future__ import annotations

import io
from base64 import b64encode
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

Protocol = Literal["kitty", "iterm", "sixel"]

_CHUNK = 4096
"""Letters of base64 that kitty accepts in one sequence."""
_COLORS = 256
_BAND = 6
"""Rows of pixels in a line of sixels."""
_LEAST_RUN = 4
"""The number of equal sixels from which a repeat count is shorter."""


def picture_sequence(png: bytes, protocol: Protocol) -> str:
    """Return the escape sequence that shows a picture in its original size."""
    if protocol == "kitty":
        return "".join(_kitty_chunks(b64encode(png).decode()))
    if protocol == "iterm":
        content = b64encode(png).decode()
        return f"\x1b]1337;File=inline=1;size={len(png)}:{content}\a"
    return _sixel(png)


def through_tmux(sequence: str) -> str:
    """Wrap a sequence so that tmux passes it to the terminal around it, if its user allows that."""
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


def _kitty_chunks(content: str) -> Iterator[str]:
    # a=T: show it at once; f=100: a PNG; q=2: do not answer; m=1: there is more to come.
    control = "a=T,f=100,q=2,"
    for start in range(0, len(content), _CHUNK):
        more = int(start + _CHUNK < len(content))
        yield f"\x1b_G{control}m={more};{content[start : start + _CHUNK]}\x1b\\"
        control = ""


def _sixel(png: bytes) -> str:
    import numpy as np
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    few = image.quantize(_COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    shares = [round(channel * 100 / 255) for channel in few.getpalette() or ()]
    pixels = np.asarray(few)  # (rows, columns): color numbers
    height, width = pixels.shape
    parts = [f'\x1bP0;1;0q"1;1;{width};{height}']
    parts += [
        f"#{i};2;{red};{green};{blue}"
        for i, (red, green, blue) in enumerate(zip(*[iter(shares)] * 3, strict=True))
    ]
    for start in range(0, height, _BAND):
        band = pixels[start : start + _BAND]
        weights = 1 << np.arange(len(band))[:, None]
        lines = [
            f"#{number}{_runs(((band == number) * weights).sum(axis=0))}"
            for number in np.unique(band).tolist()
        ]
        parts += ["$".join(lines), "-"]
    return "".join([*parts, "\x1b\\"])


def _runs(sixels: NDArray[np.integer]) -> str:
    """Return sixels of one color as letters, with repeat counts.

    >>> import numpy as np
    >>> _runs(np.array([1, 1, 1, 1, 1, 63, 0]))
    '!5@~?'
    """
    import numpy as np

    starts = np.flatnonzero(np.diff(sixels, prepend=-1))
    counts: Sequence[int] = np.diff(starts, append=len(sixels)).tolist()
    letters = map(chr, (63 + sixels[starts]).tolist())
    return "".join(
        f"!{count}{letter}" if count >= _LEAST_RUN else letter * count
        for letter, count in zip(letters, counts, strict=True)
    )

"""Pictures of pixels in escape sequences: decoded again, they are the figure of a file."""

import io
import re
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from posenc_cli.render.drawing.image import image_bytes
from posenc_cli.render.style import Style
from posenc_cli.render.terminal.blocks import picture_sequence, through_tmux


def png_of(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(content, format="png")
    return content.getvalue()


def kitty_content(sequence: str) -> bytes:
    """The file that kitty is given: chunks of at most 4096 letters, the last one marked."""
    chunks = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b\\\\", sequence)
    assert "".join(f"\x1b_G{control};{text}\x1b\\" for control, text in chunks) == sequence
    assert chunks[0][0].startswith("a=T,f=100,q=2,m=")
    assert [control[-1] for control, _ in chunks] == [*"1" * (len(chunks) - 1), "0"]
    assert all(len(text) <= 4096 and len(text) % 4 == 0 for _, text in chunks)
    return b64decode("".join(text for _, text in chunks))


def iterm_content(sequence: str) -> bytes:
    found = re.fullmatch("\x1b]1337;File=inline=1;size=([0-9]+):([A-Za-z0-9+/=]+)\a", sequence)
    assert found is not None
    content = b64decode(found[2])
    assert len(content) == int(found[1])
    return content


def sixel_pixels(sequence: str) -> np.ndarray:
    """What a terminal paints: (rows, columns, 3) in percent, −1 where nothing is painted."""
    found = re.fullmatch('\x1bP0;1;0q"1;1;([0-9]+);([0-9]+)(.*)\x1b\\\\', sequence, re.DOTALL)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    painted = np.full((height + 6, width, 3), -1)
    colors: dict[int, tuple[int, int, int]] = {}
    token = re.compile(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|(\$)|(-)")
    row = column = number = position = 0
    for part in token.finditer(found[3]):
        assert part.start() == position
        position = part.end()
        if part[1]:
            colors[int(part[1])] = (int(part[2]), int(part[3]), int(part[4]))
        elif part[5]:
            number = int(part[5])
        elif part[9]:
            column = 0
        elif part[10]:
            row, column = row + 6, 0
        else:
            count, bits = int(part[6] or 1), ord(part[7] or part[8]) - 63
            for bit in range(6):
                if bits & 1 << bit:
                    painted[row + bit, column : column + count] = colors[number]
            column += count
    assert position == len(found[3])
    assert (painted[height:] == -1).all()
    return painted[:height]


@pytest.mark.parametrize("size", [(1, 1), (7, 13), (64, 100), (301, 200)])
def test_kitty_and_iterm_are_given_the_very_file(size):
    png = png_of(np.random.default_rng(0).integers(0, 256, (*size, 3)))
    assert kitty_content(picture_sequence(png, "kitty")) == png
    assert iterm_content(picture_sequence(png, "iterm")) == png


@pytest.mark.parametrize("size", [(1, 1), (6, 5), (7, 13), (20, 64)])
def test_sixels_paint_every_pixel_in_its_own_colour_where_those_are_few(size):
    few = np.random.default_rng(1).integers(0, 256, (100, 3))
    pixels = few[np.random.default_rng(2).integers(0, 100, size)]
    painted = sixel_pixels(picture_sequence(png_of(pixels), "sixel"))
    assert np.abs(painted - pixels * (100 / 255)).max() <= 0.5


@pytest.mark.long
def test_sixels_of_a_figure_are_near_its_colours(heatmap_figure):
    png = image_bytes(heatmap_figure, "png", Style(400, 300, 90)).content
    wanted = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")) * (100 / 255)
    painted = sixel_pixels(picture_sequence(png, "sixel"))
    off = np.abs(painted - wanted)
    assert painted.min() >= 0, "every pixel is painted"
    assert off.mean() < 0.5
    assert off.max() < 12, "of 100, at the edges of letters: there are 256 colours"


def test_what_goes_through_tmux_is_whole_again_behind_it():
    sequence = picture_sequence(png_of(np.zeros((4, 4, 3))), "kitty")
    wrapped = through_tmux(sequence)
    assert wrapped.startswith("\x1bPtmux;")
    assert wrapped.endswith("\x1b\\")
    inner = wrapped.removeprefix("\x1bPtmux;")[:-2]
    assert not re.search("(?<!\x1b)(\x1b\x1b)*\x1b(?!\x1b)", inner), "every escape is doubled"
    assert inner.replace("\x1b\x1b", "\x1b") == sequence


@pytest.fixture
def heatmap_figure():
    from posenc_cli.render.figure import Axis, Heatmap

    values = np.sin(np.arange(64)[:, None] / np.arange(1, 33))
    return Heatmap(values, Axis("position", range(64)), Axis("dimension", range(32)), "waves")

"""--graphics: pixels where a terminal shows them, and nothing of the kind anywhere else."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from posenc_cli.cli import pictures as graphics
from tests.render.test_graphics import iterm_content, kitty_content, sixel_pixels

PICTURES = [
    ["heatmap", "-s", "rope", "-l", "16"],
    ["spectrum", "-s", "rope", "-d", "8"],
    ["dot-similarity", "-s", "rope", "-l", "16"],
    ["alibi-slopes", "--heads", "4", "--plot"],
]
KITTY = {"TERM": "xterm-kitty"}
ITERM = {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}
WEZTERM = {"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}
PROTOCOLS = ("kitty", "iterm", "sixel")


@pytest.fixture
def terminal(monkeypatch):
    """Within it, stdout calls itself a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        (KITTY, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        (ITERM, "iterm"),
        (WEZTERM, "iterm"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "mlterm-256color"}, "sixel"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "linux", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "dumb", "TERM_PROGRAM": "WezTerm"}, None),
        ({}, None),
        ({**KITTY, "CI": "true"}, None),
        ({**KITTY, "TMUX": "/tmp/tmux"}, None),
        ({**ITERM, "STY": "1.pts"}, None),
        ({"TERM": "screen-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, None),
    ],
)
@pytest.mark.usefixtures("terminal")
def test_what_shows_pixels_is_known_by_its_environment(environment, protocol):
    assert graphics.detected(environment) == protocol


def test_nothing_is_detected_off_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert graphics.detected(KITTY) is None


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("arguments", PICTURES, ids=lambda arguments: arguments[0])
def test_a_pipe_gets_no_pixels_and_those_asked_for_are_a_figure(
    arguments, call, monkeypatch, printed
):
    monkeypatch.setenv("TERM", "xterm-kitty")
    assert "\x1b" not in printed(*arguments)
    _, asked, _ = call(*arguments, "--graphics", "kitty", "--width", "40", "--height", "12")
    start = asked.index("\x1b_G")
    with Image.open(io.BytesIO(kitty_content(asked[start : asked.index("\n", start)]))) as image:
        assert image.size <= (40 * 10, 12 * 20)
        assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 50


@pytest.mark.long
@pytest.mark.usefixtures("terminal")
def test_auto_follows_what_is_detected_and_colours_not_wanted_are_no_pixels(call, monkeypatch):
    arguments = [*PICTURES[0], "--width", "30", "--height", "12", "--color", "always"]
    for name, value in ITERM.items():
        monkeypatch.setenv(name, value)
    for name in ("CI", "TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(graphics, "detected", lambda: "iterm")
    assert "\x1b]1337;" in call(*arguments)[1]
    assert "\x1b" not in call(*arguments[:-1], "never")[1]


@pytest.mark.slow
def test_every_protocol_shows_the_same_picture(call):
    arguments = [*PICTURES[0], "--width", "30", "--height", "12", "--graphics"]
    sequences = {name: call(*arguments, name)[1].removesuffix("\n") for name in PROTOCOLS}
    png = kitty_content(sequences["kitty"])
    assert iterm_content(sequences["iterm"]) == png
    with Image.open(io.BytesIO(png)) as image:
        wanted = np.asarray(image.convert("RGB")) * (100 / 255)
    painted = sixel_pixels(sequences["sixel"])
    assert painted.shape == wanted.shape
    assert np.abs(painted - wanted).mean() < 1


@pytest.mark.long
def test_a_figure_in_a_terminal_is_no_larger_than_its_room(call):
    size = ["--width", "60", "--height", "20"]
    _, out, _ = call("heatmap", "-s", "rope", "-l", "9", "-d", "600", *size, "--graphics", "kitty")
    with Image.open(io.BytesIO(kitty_content(out.removesuffix("\n")))) as image:
        assert image.width <= 600
        assert image.height <= 400


@pytest.mark.sweep(2)
@pytest.mark.parametrize("arguments", PICTURES, ids=lambda arguments: arguments[0])
def test_none_is_words_without_a_picture(arguments, call):
    drawn = set("█▓▒┤└") | {chr(code) for code in range(0x2801, 0x2900)}
    assert drawn & set(call(*arguments, "--graphics", "blocks")[1])
    words = call(*arguments, "--graphics", "none")[1]
    assert not drawn & set(words)
    assert "across:" in words


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--graphics", "pixels"], "--graphics 'pixels'"),
        (["--graphics", "kitty", "--out", "a.png"], "--graphics 'kitty' applies to the terminal"),
        (["--graphics", "blocks", "--theme", "dark"], "--theme 'dark' needs --out"),
        (["--graphics", "none", "--dpi", "100"], "--dpi '100' needs --out"),
    ],
)
def test_what_does_not_go_together_is_refused(more, message, refused):
    assert message in refused(*PICTURES[0], *more)

"""--graphics: pixels where a terminal shows them, and nothing of the kind anywhere else."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import sys
import termios
import time

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
    """Within it, stdout calls itself a terminal, that is not asked for anything."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(graphics, "_announces_sixel", lambda: False)


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


@pytest.mark.parametrize("environment", [KITTY, ITERM, {"TERM": "foot"}])
def test_nothing_is_detected_off_a_terminal(environment, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert graphics.detected(environment) is None


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("arguments", PICTURES, ids=lambda arguments: arguments[0])
def test_a_pipe_gets_no_pixels_and_those_asked_for_are_a_figure(arguments, call, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-kitty")
    status, piped, _ = call(*arguments)
    assert status == 0
    assert "\x1b" not in piped
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
        (["--graphics", "kitty", "--out", "a.png"], "--graphics 'kitty': applies to the terminal"),
        (["--graphics", "blocks", "--theme", "dark"], "--theme 'dark': needs --out"),
        (["--graphics", "none", "--dpi", "100"], "--dpi '100': needs --out"),
    ],
)
def test_what_does_not_go_together_is_refused(more, message, call):
    status, _, err = call(*PICTURES[0], *more)
    assert status == 2
    assert message in err


CODE = """
import sys
from posenc_cli import interrupts
interrupts.handle()
from posenc_cli.cli import pictures as graphics
graphics._PATIENCE = float(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print("is", graphics.detected(), flush=True)
print("read", sys.stdin.readline(), flush=True)
"""


class Tty:
    """A process with a terminal of its own, whose other end the test holds."""

    def __init__(self, patience: float) -> None:
        self.process, self.end = pty.fork()
        if not self.process:
            environment = {k: v for k, v in os.environ.items() if k not in ("CI", "TMUX", "STY")}
            environment |= {"TERM": "xterm-256color", "SSH_CONNECTION": "", "SSH_TTY": ""}
            os.execve(sys.executable, [sys.executable, "-c", CODE, str(patience)], environment)
        self.read = b""
        self.await_text(b"ready")
        self.before = termios.tcgetattr(self.end)

    def write(self, text: bytes) -> None:
        os.write(self.end, text)

    def await_text(self, text: bytes) -> bytes:
        deadline = time.monotonic() + 60
        while text not in self.read:
            assert select.select([self.end], [], [], deadline - time.monotonic())[0], self.read
            self.read += os.read(self.end, 4096)
        before, _, self.read = self.read.partition(text)
        return before


@pytest.fixture
def tty(request):
    tty = Tty(getattr(request, "param", 60.0))
    yield tty
    os.close(tty.end)
    os.waitpid(tty.process, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "protocol", "tty"),
    [
        (b"\x1b[?62;4;22c", b"sixel", 60.0),
        (b"\x1b[?4c", b"sixel", 60.0),
        (b"\x1b[?62;22;44c", b"None", 60.0),
        (b"", b"None", 1.0),
    ],
    indirect=["tty"],
)
def test_a_terminal_that_says_so_has_sixels_and_is_as_it_was(answer, protocol, tty):
    tty.write(b"\n")
    tty.await_text(b"\x1b[c")
    assert not termios.tcgetattr(tty.end)[3] & (termios.ECHO | termios.ICANON)
    tty.write(answer)
    assert b"\x1b" not in tty.await_text(b"is " + protocol), "the answer is not echoed"
    assert termios.tcgetattr(tty.end) == tty.before
    tty.write(b"\n")


def test_a_signal_while_the_terminal_is_asked_leaves_it_as_it_was(tty):
    tty.write(b"\n")
    tty.await_text(b"\x1b[c")
    os.kill(tty.process, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while termios.tcgetattr(tty.end) != tty.before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize(("typed", "rest"), [(b"typed ahead\n", b""), (b"typed", b" ahead\n")])
def test_what_was_typed_ahead_is_not_lost(typed, rest, tty):
    tty.write(b"\n" + typed)
    assert b"\x1b[c" not in tty.await_text(b"is None")
    tty.write(rest)
    tty.await_text(b"read typed ahead")

"""What draws in the terminal saves the same picture, and refuses a file that is none."""

import numpy as np
import pytest

from posenc_cli.cli.command_line import COMMANDS, function_of, options_of

DRAWING = (
    "heatmap -s rope -l 8",
    "heatmap -s alibi -l 8 --softmax",
    "curve -s rope -l 8",
    "rotation -s rope -l 4",
    "spectrum -s rope",
    "dot-similarity -s rope -l 8",
    "alibi-slopes --heads 4 --plot",
    "curve -s t5 --table buckets",
    "order-check -s rope --plot",
    "heads -s rope -d 8 --train 16 --plot",
    "compare rope sinusoidal -l 8 --plot",
    "compare rope rope --set b.base=100 --plot",
    "rope-check -s rope -d 8 -l 8 --inv-freq wrong.npy",
)
"""A command line for each picture."""


@pytest.fixture(autouse=True)
def wrong_frequencies(tmp_path):
    np.save(tmp_path / "wrong.npy", 500.0 ** (-np.arange(4) / 4))


def test_every_command_that_has_pictures_is_looked_at():
    names = {name for name in COMMANDS if "title" in options_of(function_of(name))}
    # What --out names is a folder there; tests/cli/test_extrapolate.py looks at its --picture.
    # explore writes pages alone: tests/render/test_html.py.
    elsewhere = {"extrapolate", "explore"}
    assert names - elsewhere | {"rope-check"} == {line.split()[0] for line in DRAWING}


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("line", DRAWING)
def test_the_picture_in_the_terminal_is_saved_under_its_title(line, call, tmp_path):
    printed = " ".join(call(*line.split())[1].split())
    status, _, err = call(*line.split(), "--out", "picture.svg")
    assert status in (0, 1)
    assert b"<svg" in (tmp_path / "picture.svg").read_bytes()[:1000]
    summary = next(text for text in err.splitlines() if text.startswith("wrote 'picture.svg': "))
    title = summary.removeprefix("wrote 'picture.svg': ").rsplit(", ", 1)[0]
    assert title.removeprefix("FAILED: ").split(" (")[0].split(", ")[0] in printed


@pytest.mark.long
@pytest.mark.parametrize("line", DRAWING)
def test_a_suffix_that_no_picture_has_is_refused(line, refused):
    assert "--out" in refused(*line.split(), "--out", "picture.gif").splitlines()[0]


@pytest.mark.parametrize(
    "line",
    [
        "compare missing.npy rope",
        "curve -s t5 --table buckets --set no=1",
        "order-check -s rope --len 1",
    ],
)
def test_a_file_is_refused_before_anything_else_is_looked_at(line, call):
    assert "error: --out 'picture.gif'" in call(*line.split(), "--out", "picture.gif")[2]
    assert "error: --out 'picture.gif'" not in call(*line.split(), "--plot")[2]


@pytest.mark.long
def test_a_check_that_holds_is_drawn_beside_its_tolerance(call, tmp_path):
    status, out, err = call("rope-check", "-s", "rope", "-l", "8", "--out", "picture.png")
    assert (status, out.startswith("ok: ")) == (0, True)
    assert err.startswith("wrote 'picture.png': ok: every error is within the tolerance, ")
    assert (tmp_path / "picture.png").exists()


def test_where_no_course_of_deviations_is_known_that_is_said(call, tmp_path):
    status, _, err = call("rope-check", "-s", "sinusoidal", "-l", "8", "--out", "picture.png")
    assert status == 1
    assert "--out 'picture.png': not written, because there is no error by position to draw" in err
    assert not (tmp_path / "picture.png").exists()

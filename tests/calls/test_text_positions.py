"""A function of one number for each row is checked at text positions, and the report says so."""

import json

import numpy as np
import pytest

ROWS = 40
PORT = """
import numpy as np

AXES = np.load("axes.npy")
SHARES = {shares}


def tables(positions, axis, base):
    p = np.asarray(positions, float)
    if p.ndim < 3:
        p = np.broadcast_to(p, (3, *np.atleast_2d(p).shape))
    angles = p[..., None] * base ** (-np.arange(0, 32, 2) / 32)
    chosen = np.take_along_axis(angles, np.broadcast_to(axis, angles.shape[1:])[None], 0)[0]
    both = np.tile(chosen, 2)
    return np.cos(both), np.sin(both)


BLOCKS = np.repeat([0, 1, 2], SHARES)


def one_number(position_ids):
    assert np.ndim(position_ids) < 3 and 3 not in np.shape(position_ids), "a number for each row"
    return position_ids


def right(x, position_ids):
    return tables(one_number(position_ids), BLOCKS, 1e4)


def crash(x, position_ids):
    if np.ndim(position_ids) == 3 or 3 in np.shape(position_ids):
        raise ValueError("sections sum to 8\\nnot 16")
    return tables(position_ids, BLOCKS, 1e4)


def other_base(x, position_ids):
    return tables(one_number(position_ids), BLOCKS, 1e6)


def negative(x, position_ids):
    cos, sin = tables(one_number(position_ids), BLOCKS, 1e4)
    return cos, -sin


def late(x, position_ids):
    return tables(np.minimum(one_number(position_ids), 20), BLOCKS, 1e4)


def looked_up(x, position_ids):
    return tables(AXES[:, np.atleast_2d(position_ids) % {rows}], BLOCKS, 1e4)


def looked_up_reversed(x, position_ids):
    return tables(AXES[:, np.atleast_2d(position_ids) % {rows}], 2 - BLOCKS, 1e4)


def text_without_rows(x, position_ids):
    p = np.asarray(position_ids)
    return tables(np.stack([p, 0 * p, p]) if p.ndim == 2 else p, BLOCKS, 1e4)


def one_axis(x, offset=0):
    p = np.arange(x.shape[-2]) + offset
    a = np.tile(p[:, None] * 1e4 ** (-np.arange(0, 32, 2) / 32), 2)
    turned = np.concatenate([-x[..., 16:], x[..., :16]], -1)
    return x * np.cos(a) + turned * np.sin(a)
"""
SCHEME = ("rope-check", "-s", "mrope", "-d", "32", "--set", "sections=4,6,6", "--layout", "half")
AXES = ("--set", "axes=axes.npy")
UNCHECKED = "not checked beyond text positions"


@pytest.fixture
def port(tmp_path, monkeypatch):
    """A module of multimodal RoPE, and the coordinates of text around an image of 4×5 patches."""
    monkeypatch.chdir(tmp_path)
    row, column = (a.ravel() for a in np.meshgrid(np.arange(4), np.arange(5), indexing="ij"))
    text = np.arange(10)
    image = (np.full(20, 10), 10 + row, 10 + column)
    np.save("axes.npy", np.stack([np.r_[text, middle, 15 + text] for middle in image]))
    (tmp_path / "port.py").write_text(PORT.format(shares=(4, 6, 6), rows=ROWS))
    return "./port.py"


@pytest.mark.long
def test_a_right_module_is_ok_at_text_positions_and_no_more_is_said(port, call):
    status, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:right")
    words = " ".join(out.split())
    assert status == 0
    assert words.startswith("ok: ")
    assert f"axes=axes.npy; {UNCHECKED}" in words
    assert "wrap it in a function that looks them up by row number" in words
    assert "token numbers" not in words
    _, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:right", "--json")
    document = json.loads(out)
    assert document["not_checked"].startswith(UNCHECKED)
    assert document["reference"]["params"]["axes"] == "axes.npy"
    # What was not checked is no silent pass.
    assert UNCHECKED in " ".join(call(*SCHEME, *AXES, "--impl", f"{port}:right", "-q")[1].split())


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "cause"),
    [("other_base", "base"), ("negative", "direction"), ("late", "position-offset")],
)
def test_a_module_that_is_wrong_at_text_positions_fails(name, cause, port, call):
    status, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:{name}", "--json")
    document = json.loads(out)
    assert status == 1
    assert document["diagnosis"][0]["cause"] == cause
    assert document["not_checked"].startswith(UNCHECKED)


@pytest.mark.long
def test_a_function_that_looks_coordinates_up_is_checked_on_every_axis(port, call):
    status, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:looked_up", "--json")
    assert (status, json.loads(out)["not_checked"]) == (0, None)
    status, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:looked_up_reversed", "--json")
    document = json.loads(out)
    assert (status, document["not_checked"]) == (1, None)
    assert document["diagnosis"][0]["cause"] == "axis"


@pytest.mark.long
def test_a_function_that_takes_no_positions_is_wrong_on_axes(port, call):
    status, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:one_axis", "--json")
    assert (status, json.loads(out)["not_checked"]) == (1, None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "why"),
    [("right", "a number for each row"), ("crash", "sections sum to 8")],
)
def test_without_coordinates_a_function_of_one_number_is_said_to_be_checked_on_text(
    name, why, port, call
):
    status, out, _ = call(*SCHEME, "-l", "64", "--impl", f"{port}:{name}", "--json")
    unchecked = json.loads(out)["not_checked"]
    assert status == 0
    assert unchecked.startswith(UNCHECKED)
    assert why in unchecked
    assert "\n" not in unchecked
    _, out, _ = call(*SCHEME, "-l", "64", "--impl", f"{port}:{name}")
    assert f"layout=half; {UNCHECKED}" in " ".join(out.split())


@pytest.mark.long
def test_a_function_of_coordinates_that_is_wrong_for_text_positions_alone_fails(port, call):
    status, out, _ = call(*SCHEME, *AXES, "--impl", f"{port}:text_without_rows", "--json")
    (why,) = json.loads(out)["diagnosis"]
    assert (status, why["evidence"].partition(":")[0]) == (1, "called with position_ids (1, n)")

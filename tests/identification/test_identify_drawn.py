"""identify recognizes what generate writes, and gives the same table back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_cli import encode
from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from tests.examples import examples
from tests.identification.drawn_tables import KINDS

GRID = {"grid": "1x8x8", "convention": "hunyuan-video"}
LINE = {"dim": 64, "layout": "half"}
YARN = {"original_max_position_embeddings": 8192, **LINE}
LINES = {
    "cosines, every tenth": ("rope", {**LINE, "base": 5e5}, "0:640:10", "cos-full"),
    "sines, every tenth": ("rope-ntk", {**LINE, "base": 1e3, "factor": 8.0}, "0:640:10", "sin"),
    "cosines, at halves": ("rope-yarn", {**YARN, "factor": 10.0}, "0:40:0.5", "cos-full"),
    "a base of seven digits, slowed": (
        "rope-yarn", {**YARN, "base": 31415.93, "factor": 8.0}, "218:282", "complex",
    ),
    "a base of seven digits, blended": (
        "rope-llama3", {**LINE, "base": 31415.93, "factor": 3.14159}, "369:433", "angles",
    ),
    "cosines that grow": ("xpos", {"dim": 64}, "0:256", "cos"),
    "sines less than a turn": ("rope-linear", {**LINE, "factor": 32.0}, "0:64", "sin-full"),
}  # fmt: skip
"""Rotations along one axis that were not recognized before."""
NAMED = {
    "Flux": ("rope-axial", {**GRID, "base": 1e4, "dim": 128}, "cos-sin"),
    "video, cosines": ("rope-axial", {**GRID, "dim": 64}, "cos-full"),
    "wan of another base": (
        "rope-axial",
        {"grid": "3x5x6", "convention": "wan", "base": 5e5, "dim": 96},
        "cos-sin",
    ),
    "wan in other shares": (
        "rope-axial",
        {"grid": "3x5x6", "convention": "wan", "sections": (8, 12, 12)},
        "interleaved",
    ),
    "cosines counted from elsewhere": (
        "rope-axial",
        {"grid": "8x10", "convention": "eva", "base": 1e6, "dim": 32, "origin": (16, -7)},
        "cos-full",
    ),
    "a square over a quarter": ("sinusoidal-nd", {"grid": "16x16", "base_size": "4x4"}, None),
    "three axes": ("sinusoidal-nd", {"grid": "3x5x6", "convention": "tensor2tensor"}, None),
}
"""What was not recognized before, as issues have it."""
_ALIKE = 64
"""Units of a number format: what a fitted number of all the digits that cells show leaves."""


def table_of(scheme, params, where, table, dtype="float32"):
    """What generate writes; None where the parameters contradict each other."""
    try:
        return encode(scheme, where, table=table, dtype=dtype, **params)
    except ValueError:
        return None


def assert_given_back(array):
    match = identify(Evidence.of_arrays(array)).match
    assert match is not None
    assert not match.wrong
    assert match.commands
    params = {name: value for name, value in match.params.items() if value is not None}
    assert match.positions is not None
    where = str(match.positions)
    if match.scheme == "transformer-xl":  # offsets on both sides of 0
        where = (len(array) + 1) // 2
    again = match.multiplied * table_of(
        match.scheme, params, where, match.tables[0], array.real.dtype.name
    )
    apart = np.abs(again - array)
    if match.tables[0] == "angles":
        apart = np.minimum(apart, np.abs(2 * np.pi - apart))
    allowed = _ALIKE * np.finfo(array.dtype).eps
    if match.uncertainty:  # a fitted number is a float64, whose last bit turns the farthest row
        allowed += float(abs(max(match.positions))) / match.positions.denominator * 2.0**-52
    assert apart.max() <= allowed


@pytest.mark.long
@pytest.mark.parametrize("name", NAMED)
def test_a_grid_that_generate_writes_is_given_back(name):
    scheme, params, table = NAMED[name]
    assert_given_back(table_of(scheme, params, None, table))


@pytest.mark.long
@pytest.mark.parametrize("name", LINES)
def test_a_rotation_that_generate_writes_is_given_back(name):
    scheme, params, where, table = LINES[name]
    assert_given_back(table_of(scheme, params, where, table, "float64"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@examples(6)
@given(data=st.data())
def test_a_drawn_table_is_given_back(kind, data):
    scheme, params, where, table = data.draw(KINDS[kind])
    array = table_of(
        scheme, params, where, table, data.draw(st.sampled_from(["float32", "float64"]))
    )
    assume(array is not None)
    assert_given_back(array)

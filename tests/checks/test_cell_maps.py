"""What is made of right cells is told where it makes all of them, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.checks.diagnosis import diagnose
from tests.checks import rope

ROWS, PAIRS = 600, 32
RIGHT = rope.reference("rope", dim=2 * PAIRS, layout="half")
ANGLES = np.multiply.outer(np.arange(ROWS), 1e4 ** -(np.arange(PAIRS) / PAIRS))
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


def causes_of(cos, sin, *, full=False):
    tables = [part.astype(np.float32) for part in (cos, sin)]
    if full:
        tables = [np.concatenate([part, part], axis=1) for part in tables]
    return diagnose(rope.of_tables(*tables, RIGHT, f"0:{ROWS}"))


@pytest.mark.long
@pytest.mark.parametrize("full", [False, True])
def test_the_numbers_of_a_map_are_said(full):
    (cause,) = causes_of(1.5 * COS + 0.25, SIN, full=full)
    assert cause.message == "cosines are 1.5 times the right ones + 0.25"
    (cause,) = causes_of(np.clip(COS, -0.75, 0.75), np.clip(SIN, -0.75, 0.75), full=full)
    assert cause.message == "cosines and sines were clipped to ±0.75"
    rows = (1 + np.arange(ROWS) / 300)[:, None]
    (cause,) = causes_of(COS * rows, SIN * rows, full=full)
    assert cause.message.startswith("rows are multiplied by 1 + 0.00333333 · m")
    (cause,) = causes_of(np.sin(ANGLES + 1.57), SIN, full=full)
    assert cause.message.endswith("as where π/2 is taken for 1.57")


@pytest.mark.long
@pytest.mark.parametrize("moved", [1, -2, 16])
def test_memory_that_is_read_from_a_wrong_place_is_told_by_how_much(moved):
    (cause,) = causes_of(*(np.roll(part.ravel(), moved).reshape(ROWS, -1) for part in (COS, SIN)))
    assert cause.cause == "layout"
    which = "late" if moved > 0 else "early"
    assert cause.message.startswith(f"every value stands {abs(moved)} value")
    assert f"too {which}" in cause.message


def test_bytes_in_the_other_order_are_told_so_and_how_many_are_numbers():
    cos, sin = (part.astype(np.float32).byteswap() for part in (COS, SIN))
    with np.errstate(all="ignore"):
        (cause,) = diagnose(rope.of_tables(cos, sin, RIGHT, f"0:{ROWS}"))
    assert cause.cause == "number-format"
    numbers = np.isfinite(cos).sum() + np.isfinite(sin).sum()
    assert cause.evidence.startswith(f"{numbers} of {2 * ROWS * PAIRS} cells are numbers")
    assert numbers < 2 * ROWS * PAIRS


def changed(row):
    cos = COS.copy()
    cos[row] = np.linspace(-0.3, 0.6, PAIRS)
    return cos


@pytest.mark.long
@pytest.mark.parametrize(
    ("cos", "sin"),
    [
        (changed([9]), SIN),
        (changed([9, 80, 81, 333]), SIN),
        (changed(np.arange(0, ROWS, 7)), SIN),
        (COS + 1e-3 * np.sin(3 * ANGLES), SIN),
        (COS**3, SIN),
    ],
)
def test_what_no_map_makes_is_not_told_as_one(cos, sin):
    told = " ".join(cause.message for cause in causes_of(cos, sin))
    for words in ("clipped", "times the right", "number of its own", "mean", "√", "angles", "row"):
        assert words not in told

"""What is off at random is called noise, with its size; what follows a pattern is not."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.checks.diagnosis import diagnose
from tests.checks import rope

ROWS, PAIRS = 600, 32
RIGHT = rope.reference("rope", dim=2 * PAIRS)
ANGLES = np.multiply.outer(np.arange(ROWS), 1e4 ** -(np.arange(PAIRS) / PAIRS))
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
NOISE = 1e-3 * np.random.default_rng(1).standard_normal((2, ROWS, PAIRS))


def causes_of(cos, sin):
    tables = (part.astype(np.float32) for part in (cos, sin))
    return diagnose(rope.of_tables(*tables, RIGHT, f"0:{ROWS}"))


@pytest.mark.long
def test_noise_is_told_with_its_size_and_how_it_is_spread():
    (cause,) = causes_of(COS + NOISE[0], SIN + NOISE[1])
    assert cause.cause == "noise"
    assert cause.message.startswith(f"noise of size {NOISE.std():.2g} (standard deviation)")
    assert "spread as normal noise is" in cause.evidence
    largest = np.abs(NOISE).max()
    assert cause.residual.largest == pytest.approx(largest, rel=0.01)


PATTERNED = {
    "the same in every row": lambda: (COS + NOISE[0, :1], SIN + NOISE[1, :1]),
    "the same in every pair": lambda: (COS + NOISE[0, :, :1], SIN + NOISE[1, :, :1]),
    "the same in both tables": lambda: (COS + NOISE[0], SIN + NOISE[0]),
    "kept for two rows": lambda: tuple(
        part + noise[np.arange(ROWS) // 2] for part, noise in zip((COS, SIN), NOISE, strict=True)
    ),
    "of the angle": lambda: (COS + 1e-3 * np.sin(5 * ANGLES), SIN + 1e-3 * np.cos(7 * ANGLES)),
    "a cubic for the sine": lambda: (COS, SIN + 1e-3 * SIN**3),
    "noise beside a phase": lambda: (
        np.cos(ANGLES + 2e-3) + NOISE[0],
        np.sin(ANGLES + 2e-3) + NOISE[1],
    ),
    "noise beside another frequency": lambda: (
        np.cos(1.00001 * ANGLES) + NOISE[0],
        np.sin(1.00001 * ANGLES) + NOISE[1],
    ),
    "noise beside a size": lambda: (1.001 * COS + NOISE[0], 1.001 * SIN + NOISE[1]),
    "one cell far off": lambda: (COS + NOISE[0] + (ANGLES[9, 4] == ANGLES), SIN + NOISE[1]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PATTERNED)
def test_what_follows_a_pattern_is_not_called_noise(name):
    assert "noise" not in {cause.cause for cause in causes_of(*PATTERNED[name]())}


def kept(seed, share, shape=(ROWS, PAIRS)):
    return np.random.default_rng(seed).random(shape) >= share


@pytest.mark.long
def test_dropout_is_told_with_its_probability():
    (cause,) = causes_of(COS * kept(1, 0.2) / 0.8, SIN * kept(2, 0.2) / 0.8)
    assert cause.cause == "noise"
    assert cause.message.startswith("dropout of p = 0.2: cells were set to 0 at random")
    assert cause.residual.whole
    (cause,) = causes_of(COS * kept(1, 0.2), SIN * kept(1, 0.2))
    assert cause.message == "cosines and sines of pairs were set to 0 at random"
    assert cause.evidence.split("; ")[1] == "the others are right"


@pytest.mark.long
@pytest.mark.parametrize(
    "zero",
    [
        lambda row, _: row % 3 == 1,
        lambda row, _: row >= 400,
        lambda row, pair: (row + pair) % 2 == 0,
        lambda _, pair: pair >= 20,
    ],
)
def test_zeros_by_a_rule_are_not_called_dropped_at_random(zero):
    lost = zero(*np.indices((ROWS, PAIRS)))
    causes = causes_of(np.where(lost, 0, COS), np.where(lost, 0, SIN))
    assert "noise" not in {cause.cause for cause in causes}


@pytest.mark.long
def test_a_cell_that_is_wrong_beside_dropped_ones_is_no_dropout():
    cos = COS * kept(1, 0.2)
    cos[300, 31] = 0.5
    assert "noise" not in {cause.cause for cause in causes_of(cos, SIN * kept(2, 0.2))}


@pytest.mark.long
@pytest.mark.parametrize(
    ("noisy", "place", "where"),
    [
        (lambda _, pair: pair >= 20, "pairs 20–31 of 32: noise of size 0.001", (None, "20:32")),
        (lambda row, _: row >= 200, "from position 200 on: noise of size 0.0", ("200:600", None)),
    ],
)
def test_where_noise_is_and_that_all_is_right_elsewhere_is_told(noisy, place, where):
    some = noisy(*np.indices((ROWS, PAIRS)))
    (cause,) = causes_of(COS + some * NOISE[0], SIN + some * NOISE[1])
    assert cause.cause == "noise"
    assert cause.message.startswith(place)
    assert cause.evidence.endswith("all is right elsewhere")
    assert (cause.where.positions, cause.where.pairs) == where


@pytest.mark.long
def test_noise_that_grows_is_not_said_to_have_one_size():
    grown = np.linspace(0.5, 3, ROWS)[:, None]
    causes = causes_of(COS + grown * NOISE[0], SIN + grown * NOISE[1])
    assert "noise" not in {cause.cause for cause in causes}


@pytest.mark.long
def test_scattered_cells_are_told_as_damage_and_flipped_bits_as_such():
    where = np.random.default_rng(5).random((ROWS, PAIRS)) < 0.004
    cos = np.where(where, np.random.default_rng(6).uniform(-0.9, 0.9, COS.shape), COS)
    (cause,) = causes_of(cos, SIN)
    assert cause.cause == "damaged"
    assert "of 38400 cells hold other values, scattered without a pattern" in cause.message
    assert "the others are right, to " in cause.evidence
    bits = COS.astype(np.float32).view(np.uint32) ^ (where * np.uint32(1 << 21)).astype(np.uint32)
    (cause,) = causes_of(bits.view(np.float32), SIN)
    assert f": in {where.sum()} of them one bit flipped" in cause.message


@pytest.mark.long
@pytest.mark.parametrize("cells", [np.s_[9, 4], np.s_[9, :], np.s_[200:260:3, 7]])
def test_cells_in_one_place_are_not_told_as_scattered(cells):
    cos = COS.copy()
    cos[cells] = 0.123
    assert not {"noise", "damaged"} & {cause.cause for cause in causes_of(cos, SIN)}

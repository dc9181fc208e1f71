"""Rotations are read off their factors: at any distances, backward, blurred or sparse."""

import numpy as np
import pytest

from posenc_cli.checks.checking import context_of, probing_positions
from posenc_cli.inference import fitting
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.turning import PositionRows
from posenc_cli.positions import Positions


@pytest.mark.parametrize(
    "positions",
    [
        np.arange(2),
        np.arange(500),
        np.arange(1000, 1400),
        np.arange(500)[::-1],
        np.array(sorted({*range(64), *(int(1.4**k) for k in range(40))})),
        PositionRows.of(Positions.contiguous(0, 1 << 20)).sample(),
        np.array([0, 5, 12, 29, 33, 61, 100, 1000]),
    ],
    ids=["two", "many", "late", "backward", "growing", "sample", "sparse"],
)
def test_rates_and_amplitudes_are_found(positions):
    rates = np.array([3.0, 1.0, -0.7, 0.01, 1e-5, 0.0])
    amplitudes = np.array([1, 1.3, 0.5, np.exp(0.4j), 1, 2])
    factors = amplitudes * np.exp(1j * np.multiply.outer(positions.astype(float), rates))
    found = fit(positions, factors)
    assert np.abs(found.at(positions) - factors).max() < 1e-6
    if positions.size > 8:
        assert found.frequencies == pytest.approx(rates, abs=1e-9)


def test_noise_of_a_half_precision_leaves_little_of_the_rate():
    positions = np.arange(2000)
    generator = np.random.default_rng(3)
    noise = 2.0**-9 * generator.uniform(-1, 1, (2, 2000, 4))
    rates = np.array([1.0, 0.1, 0.01, 0.001])
    factors = np.exp(1j * np.multiply.outer(positions.astype(float), rates))
    found = fit(positions, factors + noise[0] + 1j * noise[1], growth=1e-4)
    assert np.abs(found.frequencies - rates).max() * 2000 < 1e-3


def test_probing_positions_reach_the_context_and_no_further():
    for context in (1, 2, 63, 64, 65, 127, 128, 129, 256, 257, 4096, 131072, 1 << 40):
        positions = probing_positions(context)
        listed = list(positions)
        assert listed == sorted(set(listed))
        assert listed[0] == 0
        assert listed[-1] == context - 1
        assert positions.count < 200
    assert {255, 256, 257, 2047, 2048, 2049} <= set(probing_positions(4096))


def test_the_context_is_read_from_the_parameters():
    assert context_of({}) == 131072
    assert context_of({"max_position_embeddings": 4096}) == 4096
    assert context_of({"original_max_position_embeddings": 8192, "factor": 8.0}) == 65536


def test_places_give_any_row_its_position():
    positions = Positions.parse("0:5,100:200:7,3")
    places = PositionRows.of(positions)
    everything = np.array(list(positions))
    assert places.count == everything.size
    assert np.array_equal(places.at(slice(None)), everything)
    assert np.array_equal(places.at(slice(4, 9)), everything[4:9])
    assert np.array_equal(places.at(np.array([20, 0])), everything[[20, 0]])
    for count in (1, 100, 5000, 200000):
        rows = PositionRows.of(Positions.contiguous(0, count)).sample()
        assert rows[0] == 0
        assert rows[-1] == count - 1
        assert rows.size <= 768


@pytest.mark.parametrize("first", [0, 5, 4096])
@pytest.mark.parametrize("off", [0.05, -0.15])
def test_a_rate_is_corrected_within_a_window_in_which_no_phase_wraps(first, off):
    """Past 16 positions a rate so far off has turned too often to tell how far off it is."""
    positions = np.arange(first, first + 4096)
    rates = np.array([0.1, 1.7])
    values = np.exp(1j * np.multiply.outer(positions, rates))
    found = fitting._sharpen(positions, values, rates + off, 16)
    np.testing.assert_allclose(found, rates, rtol=1e-9)

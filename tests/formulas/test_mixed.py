"""RoPE-Mixed and LieRE's fixed form against what their authors' code computes."""

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.analysis.spectrum import wave_spectrum
from tests import tolerances
from tests.formulas.test_peers import turned
from tests.matrices import matrix, request


def texts(frequencies):
    return {
        f"{axis}_frequencies": ",".join(map(repr, row.tolist()))
        for axis, row in zip("xy", np.asarray(frequencies, np.float64), strict=True)
    }


@pytest.mark.long
@pytest.mark.parametrize("head", range(3))
def test_learned_frequencies_turn_pairs_as_the_authors_code_does(head, golden):
    _, arrays = golden("rope_mixed_vit")
    given = {"dim": 16, "grid": "4x5", **texts(arrays["freqs"][:, head])}
    angles = 5 * np.abs(arrays["freqs"][:, head]).sum(axis=0)
    for function in ("cos", "sin"):
        ours = matrix("rope-mixed", None, table=f"{function}-full", **given)[:, ::2]
        off = np.abs(ours - arrays[function][head])
        assert (off <= tolerances.TABLE + tolerances.ANGLE * angles).all()
    tables = np.split(matrix("rope-mixed", None, dtype="float64", **given), 2, axis=1)
    cos, sin = (np.repeat(table, 2, axis=1) for table in tables)
    ours = turned(arrays["x"][head], cos, sin, "interleaved")
    assert np.abs(ours - arrays["x_out"][head]).max() <= tolerances.ROTATED * (1 + angles.max())


def test_what_is_drawn_has_the_magnitudes_and_directions_that_the_authors_start_with(golden):
    _, arrays = golden("rope_mixed_vit")
    theirs = arrays["init_freqs"]  # (2, heads, pairs)
    magnitudes = np.hypot(*theirs)
    turned = theirs[0, :, :4] * theirs[0, :, 4:] + theirs[1, :, :4] * theirs[1, :, 4:]
    assert np.abs(turned).max() <= tolerances.TABLE  # the second half lies across the first
    seen = set()
    for seed in range(20):
        bound = request("rope-mixed", None, dim=16, grid="4x5", seed=seed).encoding.bound
        waves = bound.content.waves
        lengths = wave_spectrum(bound, 20).wavelengths
        np.testing.assert_allclose(2 * np.pi / lengths, magnitudes[0], rtol=tolerances.FREQUENCY)
        x, y = (np.array(axis) for axis in zip(*_ratios(waves), strict=True))
        np.testing.assert_allclose(x[:4] * x[4:] + y[:4] * y[4:], 0, atol=1e-9)
        assert np.ptp(np.arctan2(y[:4], x[:4])) <= 1e-8
        seen.add(round(float(np.arctan2(y[0], x[0])), 6))
    assert len(seen) == 20
    assert max(seen) - min(seen) > np.pi


def _ratios(waves):
    """The frequencies of columns and rows, from the coordinates one place along each."""
    rates = waves.frequencies(np)
    zero, right, below = (np.array(waves.coordinates.at(np.array([n])))[:, 0] for n in (0, 1, 5))
    assert not zero.any()
    return zip(right * rates, below * rates, strict=True)


def test_frequencies_are_float32_and_angles_correctly_rounded():
    third = float(np.float32(1 / 3))
    given = {"dim": 2, "grid": "9x9"}
    ours = matrix(
        "rope-mixed", None, x_frequencies="0.3333333333333333", y_frequencies="-2.5", **given
    )
    assert np.array_equal(
        ours, matrix("rope-mixed", None, x_frequencies=repr(third), y_frequencies="-2.5", **given)
    )
    angles = third * np.tile(np.arange(9), 9) - 2.5 * np.repeat(np.arange(9), 9)
    assert np.array_equal(ours[:, 0], np.cos(angles).astype(np.float32))


def test_the_library_warns_of_a_seed_that_nobody_gave():
    with pytest.warns(UserWarning, match="rope-mixed: random angle, seed 0"):
        posenc.encode("rope-mixed", grid="2x4")


@pytest.mark.long
def test_pairs_without_one_frequency_are_not_compared_or_checked_by_it(call):
    np.save("rates.npy", np.ones(32))
    line = ("rope-check", "-s", "rope-mixed", "--inv-freq", "rates.npy")
    status, _, err = call(*line)
    assert (status, "have no single frequency" in err) == (2, True)
    status, _, err = call("compare", "rope-mixed", "rope")
    assert (status, "can only be compared at given positions" in err) == (2, True)
    assert call("compare", "rope-mixed", "rope-mixed", "--len", "9")[0] == 0


def test_a_learned_liere_of_blocks_of_two_is_mixed(golden):
    _, arrays = golden("rope_liere")
    rows, columns = -arrays["learned_generators"] / np.array([[3], [5]])  # of 4 x 6 places, 0 to 1
    given = {"dim": 16, "grid": "4x6", **texts([columns, rows])}
    cos, sin = np.split(matrix("rope-mixed", None, dtype="float64", **given), 2, axis=1)
    theirs = arrays["learned_rotations"]
    assert np.abs(theirs[..., 0, 0] - cos).max() <= 5e-6
    assert np.abs(theirs[..., 1, 0] - sin).max() <= 5e-6

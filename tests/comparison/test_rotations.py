"""The comparison of two rotations: per pair, in amplitude, in layout."""

import math

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.comparison.compare import rotation_difference
from posenc_cli.errors import InvalidInput


def rotation(scheme, **given):
    return catalogue.find(scheme).bind(given).content


def test_a_peers_stretched_frequencies_differ_from_plain_ones_as_it_says(golden):
    _, arrays = golden("rope_llama3_llama3_1_8b")
    plain = rotation("rope", dim=128, base=500000)
    stretched = rotation("rope-llama3", dim=128, base=500000, factor=8.0)
    found = rotation_difference(plain, stretched)
    theirs = arrays["inv_freq"].astype(np.float64)
    ours = 500000.0 ** (-np.arange(0, 128, 2) / 128)
    differing = np.flatnonzero(np.abs(theirs / ours - 1) > 1e-5)
    assert [pair.index for pair in found.pairs] == list(differing)
    np.testing.assert_allclose(
        [pair.ratio for pair in found.pairs], (ours / theirs)[differing], rtol=2e-6
    )
    assert found.worst.apart == pytest.approx(8)


def test_the_same_rotation_does_not_differ():
    found = rotation_difference(rotation("rope", dim=64), rotation("rope", dim=64))
    assert (found.pairs, found.worst, found.max_abs, found.max_ulp) == ((), None, 0, 0)
    assert found.within(0)


def test_amplitude_counts_as_a_difference():
    found = rotation_difference(
        rotation("rope-yarn", dim=64), rotation("rope-yarn", dim=64, attention_factor=1.0)
    )
    assert not found.pairs
    assert not found.within(0.1)
    assert found.within(0.13)
    assert found.scales == (pytest.approx(0.1 * math.log(4) + 1), 1.0)


def test_layout_counts_whatever_the_tolerance():
    found = rotation_difference(rotation("rope"), rotation("rope", layout="half"))
    assert (found.pairs, found.alike, found.layouts) == ((), False, ("interleaved", "half"))
    assert not found.within(1)


def test_axes_that_pairs_follow_count():
    text = rotation("mrope", dim=128)
    grid = rotation("rope-axial", dim=128, grid="2x2")
    assert rotation_difference(text, text).alike
    assert not rotation_difference(text, grid).alike


def test_pairs_that_stand_still_are_infinitely_far_from_those_that_turn():
    half = rotation("rope-proportional", dim=8, partial=0.5)
    found = rotation_difference(rotation("rope-proportional", dim=8), half)
    assert [pair.index for pair in found.pairs] == [2, 3]
    assert [pair.wavelengths[1] for pair in found.pairs] == [math.inf, math.inf]
    assert (found.worst.apart, found.worst.ratio) == (math.inf, math.inf)
    other = rotation_difference(half, rotation("rope-proportional", dim=8))
    assert (other.worst.apart, other.worst.ratio) == (math.inf, 0)


def test_neighbouring_frequencies_are_one_unit_apart():
    lower = rotation("rope", dim=2, partial=1.0)
    factor = 1 + 2.0**-52
    found = rotation_difference(lower, rotation("rope-linear", dim=2, factor=1 / factor))
    assert found.max_ulp == 1


@pytest.mark.parametrize("other", [1.5, 0.25])
@pytest.mark.parametrize("bad", range(4))
def test_the_worst_pair_counts_wherever_it_is(bad, other):
    """Slow pairs differ least in radians and as much as others in their wavelengths."""
    ladder = 10_000.0 ** (-np.arange(4) / 4)
    factors = [1.0 + 2.0**-20] * 4
    factors[bad] = other
    given = {"dim": 8, "long_factor": (1.0,) * 4, "attention_factor": 1.0}
    found = rotation_difference(
        rotation("rope-longrope", short_factor=(1.0,) * 4, **given),
        rotation("rope-longrope", short_factor=tuple(factors), **given),
    )
    assert [pair.index for pair in found.pairs] == [0, 1, 2, 3]
    assert found.worst.index == bad
    changed = ladder / factors
    differences = np.abs(ladder - changed)
    assert found.max_abs == pytest.approx(differences.max(), rel=1e-9)
    larger = np.nextafter(np.maximum(ladder, changed), 0)
    assert found.max_ulp == pytest.approx((differences / np.spacing(larger)).max(), rel=1e-6)
    apart = 1 - min(other, 1 / other)  # of the larger of the two
    assert found.within(apart * (1 + 1e-9))
    assert not found.within(apart * (1 - 1e-9))


def test_amplitudes_that_grow_need_positions():
    with pytest.raises(InvalidInput) as refused:
        rotation_difference(rotation("rope"), rotation("xpos"))
    assert refused.value.hint == "--len N"

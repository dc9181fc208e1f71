"""What the inverses of schemes read from rates and scores."""

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.inverse import Measured, MeasuredScores
from posenc_cli.numerics import exact
from tests.matrices import matrix

USUAL = {"dim": 64, "layout": "half"}


def rates_of(scheme, length=None, errors=1e-12, **parameters):
    """What would be measured of a rotary scheme."""
    waves = catalogue.find(scheme).bind({"dim": 64, **parameters}).content.waves
    values = np.array([float(rate) for rate in waves.frequencies(exact)])
    return Measured(values, errors * values, USUAL, length=length)


def scores_of(values, *, rounding=1e-15, single=False):
    """What would be measured of scores at these distances, a row a head."""
    values = np.atleast_2d(values)
    indices = -np.arange(values.shape[1])
    return MeasuredScores("offset", indices, values, len(indices), single, rounding, np.array)


def guesses(scheme, measured):
    return list(catalogue.find(scheme).inverse(np, measured))


def column(scheme, **parameters):
    """The scores of the first key, by distance: a row a head."""
    return matrix(scheme, "0:40", dtype="float64", **parameters)[:, :, 0]


@pytest.mark.long
def test_a_head_of_alibi_may_be_one_of_any_number_that_models_have():
    for heads in (1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 112, 128):
        last = column("alibi", heads=heads)[-1]
        found = guesses("alibi", scores_of(last, single=True))
        assert (heads, heads - 1) in {(guess.params["heads"], guess.head) for guess in found}


@pytest.mark.parametrize("clipped", [30, 31])
def test_of_an_odd_number_of_pairs_all_may_fall_below_their_frequencies(clipped):
    (guess,) = guesses("rope-clipped", rates_of("rope-clipped", dim=62, clipped=clipped))
    assert guess.params == {**USUAL, "base": 1e4, "clipped": clipped}


def test_a_head_of_alibi_with_a_slope_of_its_own_is_a_multiple_of_the_first():
    (guess,) = guesses("alibi", scores_of(-0.3 * np.arange(40), single=True))
    assert (guess.params["heads"], guess.head, guess.multiplier) == (8, 0, 0.6)


@pytest.mark.parametrize("r2", [0.5, 0.0125, 3.0])
def test_the_numbers_of_a_logarithmic_kernel_are_read_to_their_few_digits(r2):
    distances = np.arange(40.0)
    (guess,) = guesses("kerple-log", scores_of(-1.25 * np.log1p(r2 * distances), rounding=1e-13))
    assert guess.params == {"heads": 1, "r1": (1.25,), "r2": (r2,)}


@pytest.mark.parametrize("r2", [1.0, 0.3])
def test_the_numbers_of_a_power_are_read_to_their_few_digits(r2):
    distances = np.arange(40.0)
    (guess,) = guesses("kerple-power", scores_of(-0.7 * distances**r2, rounding=1e-13))
    assert guess.params == {"heads": 1, "r1": (0.7,), "r2": (r2,)}


@pytest.mark.parametrize("scheme", ["kerple-log", "kerple-power"])
def test_a_penalty_that_falls_again_with_distance_is_of_no_kernel(scheme):
    assert not guesses(scheme, scores_of([0.0, -1.0, -2.0, -1.5, -2.5]))


def test_a_sandwich_is_read_from_its_cosines():
    found = guesses("sandwich", scores_of(column("sandwich", heads=4, dim=34)))
    assert found[0].params == {"heads": 4, "dim": 34, "base": 10_000.0, "convention": "sinusoidal"}


@pytest.mark.long
def test_a_sandwich_whose_zero_is_rounded_is_read_all_the_same():
    values = column("sandwich", heads=2, dim=34, convention="nemo")
    values[:, 0] = 1e-6 / np.arange(1, 3)
    found = guesses("sandwich", scores_of(values, rounding=1e-6))
    read = {"heads": 2, "dim": 34, "base": 10_000.0, "convention": "nemo"}
    assert read in [guess.params for guess in found]


def test_ends_of_a_blend_of_llama_3_that_nobody_published_are_read_to_few_digits():
    given = {"factor": 8.0, "low_freq_factor": 1.3, "high_freq_factor": 5.5}
    measured = rates_of("rope-llama3", original_max_position_embeddings=8192, **given)
    ends = [
        (guess.params["low_freq_factor"], guess.params["high_freq_factor"])
        for guess in guesses("rope-llama3", measured)
    ]
    assert (1.3, 5.5) in ends


def test_rounded_wavelengths_of_a_published_base_are_believed_before_any_fitted_number():
    found = guesses("rope-resonance", rates_of("rope-resonance"))
    assert found[0].params["base"] == 10_000.0
    assert found[0].cost == pytest.approx(1.2)


def test_dynamic_scaling_is_guessed_only_where_it_stretches_as_much():
    measured = rates_of("rope-ntk", length=8192, factor=4.0)
    found = guesses("rope-dynamic", measured)
    assert found
    for params in (guess.params for guess in found):
        factor, context = params["factor"], params["max_position_embeddings"]
        assert factor * 8192 / context - (factor - 1) == pytest.approx(4, rel=1e-3)


def test_any_seed_of_64_bits_may_draw_angles():
    mixed = catalogue.find("rope-mixed")
    assert mixed.bind({"dim": 8, "seed": 2**64 - 1}).content.waves.count == 4
    with pytest.raises(InvalidInput, match="seed"):
        mixed.bind({"dim": 8, "seed": 2**64})

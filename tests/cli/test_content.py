"""Contents of rotary schemes: like vectors decay with distance, independent ones do not."""

import numpy as np
import pytest

DRAWS = 40_000
INDEPENDENT = ("dot-similarity", "--content", "independent")


def drawn_products(angles, queries, keys, scale=1.0):
    """q·k / d of drawn normal pairs, each turned by its angles. Shape: (draws,)."""
    pairs = angles.shape[1]
    draw = np.random.default_rng(7)
    q, k = (draw.standard_normal((DRAWS, 2 * pairs)).view(np.complex128) for _ in range(2))
    turned = q * np.exp(1j * angles[queries]), k * np.exp(1j * angles[keys])
    return scale**2 * (turned[0] * turned[1].conj()).real.sum(axis=1) / (2 * pairs)


def test_independent_content_has_the_mean_and_deviation_of_many_draws(document):
    found = document(*INDEPENDENT, "-s", "rope", "-d", "16", "-l", "64")
    ladder = 10_000.0 ** (-np.arange(8) / 8)
    angles = np.arange(64)[:, None] * ladder
    for offset in (0, 1, 7, 63):
        drawn = drawn_products(angles, 63, 63 - offset)
        place = found["offsets"].index(offset)
        mean, deviation = found["profile"][place], found["deviation"][place]
        assert deviation == pytest.approx(1 / np.sqrt(16), rel=1e-15)
        # Five standard errors of the mean, and of the deviation (excess kurtosis below 6).
        assert abs(drawn.mean() - mean) < 5 * deviation / np.sqrt(DRAWS)
        assert abs(drawn.std() / deviation - 1) < 5 * np.sqrt(8 / 4 / DRAWS)
    assert mean == 0


def test_a_grid_and_an_attention_factor_keep_it_constant(document):
    grid = document(*INDEPENDENT, "-d", "16", "-s", "rope-axial", "--set", "grid=3x3")
    assert set(grid["profile"]) == {0}
    assert set(grid["deviation"]) == {0.25}
    yarn = ("--set", "factor=4", "--set", "original_max_position_embeddings=64")
    yarn += ("--set", "attention_factor=1.5")
    scaled = document(*INDEPENDENT, "-d", "16", "-s", "rope-yarn", "-l", "9", *yarn)
    assert scaled["deviation"] == pytest.approx([1.5**2 / 4] * 17, rel=1e-15)
    assert "attention scaling 1.5² included" in scaled["quantity"]


def test_the_deviation_of_xpos_shrinks_as_its_amplitudes_do(document):
    found = document(*INDEPENDENT, "-s", "xpos", "-d", "8", "-l", "2000")
    # Sun et al. 2022: ζ_i = (2i/d + 0.4) / 1.4, to the power of the offset over 512.
    zeta = (np.arange(0, 8, 2) / 8 + 0.4) / 1.4
    offsets = np.array(found["offsets"])
    expected = np.sqrt(2 * (zeta ** (2 * offsets[:, None] / 512)).sum(axis=1)) / 8
    np.testing.assert_allclose(np.array(found["deviation"], float), expected, rtol=1e-12)
    assert not found["symmetric"]


def test_cosines_of_independent_vectors_vary_by_one_over_the_width(document):
    asked = ("-s", "rope", "-d", "16", "-l", "4", "--normalize", "cosine")
    found = document(*INDEPENDENT, *asked)
    draw = np.random.default_rng(3)
    q, k = (draw.standard_normal((DRAWS, 16)) for _ in range(2))
    cosines = (q * k).sum(axis=1) / np.linalg.norm(q, axis=1) / np.linalg.norm(k, axis=1)
    assert found["deviation"] == [0.25] * 7
    assert abs(cosines.std() / 0.25 - 1) < 5 / np.sqrt(2 * DRAWS)


def test_words_say_what_each_content_shows_and_does_not(call):
    line = ("dot-similarity", "-s", "rope", "-l", "32")
    said = {
        content: " ".join(call(*line, "--content", content)[1].split())
        for content in ("ones", "random", "independent")
    }
    assert "q and k are equal, 1 in every dimension; --content independent" in said["ones"]
    assert "content random (one draw, seed 0)" in said["random"]
    assert "q and k are the same normal draw (seed 0)" in said["random"]
    mean = "the mean is 0 at every offset, with a standard deviation of 0.125"
    assert mean in said["independent"]
    assert "q and k are independent normal vectors, by formula" in said["independent"]
    assert "falls below half" not in said["independent"]
    assert "± 1 standard deviation, by formula" in said["independent"]
    assert call(*line[:2], "alibi", "-l", "8")[1].count("content") == 0


@pytest.mark.slow
def test_what_is_not_a_matrix_is_not_written_as_one(call, refused):
    line = ("dot-similarity", "-s", "rope", "-l", "32", "--content", "independent")
    assert "no matrix" in refused(*line, "--out", "a.npy")
    status, _, err = call(*line, "--out", "a.png")
    assert status == 0
    assert "mean q·k / d of independent q and k, by offset" in err


def test_the_means_of_several_are_called_means(call):
    line = ("dot-similarity", "-s", "rope", "-s", "rope", "--set", "b.base=50", "-d", "8")
    said = " ".join(call(*line, "-l", "3000", "--profile")[1].split())
    assert "a: rope, mean" in said
    assert "b: rope, mean" in said
    assert ", mean" not in call(*line, "-l", "16", "--profile")[1]


def test_half_at_says_where_it_is_of_the_attention_weight(call):
    out = call("dot-similarity", "-s", "rope", "-s", "alibi", "-l", "16", "--profile")[1]
    assert "2 (weight)" in out
    assert "half at: the offset where S halves (for a bias: the attention weight)" in out

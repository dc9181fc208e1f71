"""Order: what attention sees of its tokens, against attention written out in the test."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.checks.order import (
    Layer,
    OrderCheck,
    PartRequest,
    embeddings,
    permutations,
    words_of,
)
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Bias, Rows, absolute, bias

WORDS = ("dog", "bites", "man")
LONGROPE = {name: tuple(1 + 0.1 * i for i in range(32)) for name in ("short_factor", "long_factor")}
PAIRED = ("swin", "swin-v2")
"""What scores pairs of places, whose distance is one of rows and columns."""
SYMMETRIC = ("alibi", "fire", "kerple-log", "kerple-power", "sandwich")


def asked(name, **given):
    if name == "rope-longrope":
        given = {**LONGROPE, **given}
    return PartRequest(catalogue.find(name), given)


def finding(name, words=WORDS, **given):
    return OrderCheck(words).finding(asked(name, **given))


def attention(x, weights, *, turned=None, added=None):
    """Plain attention of one head, as a textbook has it."""
    q, k, v = (x @ w for w in weights)
    if turned is not None:
        q, k = turned(q), turned(k)
    scores = q @ k.T / np.sqrt(q.shape[1])
    if added is not None:
        scores = scores + added
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True) @ v


def layer_of(name, **given):
    encoding = Encoding.of(catalogue.find(name), given, seq_len=8)
    return Layer((encoding,), (encoding,))


def test_without_positions_the_layer_is_plain_attention():
    layer = layer_of("nope")
    x = embeddings(("a", "b", "c", "d"), layer.width)
    found, _ = layer.outputs(x, np.arange(4))
    for head in range(layer.heads):
        expected = attention(x, [w[head] for w in layer.weights])
        np.testing.assert_allclose(found[head], expected, rtol=1e-12, atol=1e-14)


def test_a_row_without_a_wave_is_zeros():
    layer = layer_of("sinusoidal", dim=1, odd="pad")
    x = embeddings(WORDS, layer.width)
    assert np.array_equal(layer.inputs(x, np.arange(3)), x)


def test_rope_turns_queries_and_keys_pair_by_pair():
    layer = layer_of("rope", dim=8, layout="half")
    x = embeddings(("a", "b", "c", "d"), layer.width)

    def turned(vectors):
        angles = np.arange(4)[:, None] * 10_000.0 ** -(np.arange(4) / 4)
        first, second = vectors[:, :4], vectors[:, 4:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)

    found, _ = layer.outputs(x, np.arange(4))
    expected = attention(x, [w[0] for w in layer.weights], turned=turned)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-14)


def test_alibi_is_added_to_the_scores_of_its_head():
    layer = layer_of("alibi", heads=2)
    x = embeddings(("a", "b", "c", "d"), layer.width)
    places = np.arange(4)
    distances = np.abs(places[:, None] - places)
    found, _ = layer.outputs(x, places)
    for head, slope in enumerate((2.0**-4, 2.0**-8)):
        weights = [w[head] for w in layer.weights]
        expected = attention(x, weights, added=-slope * distances)
        np.testing.assert_allclose(found[head], expected, rtol=1e-12, atol=1e-14)


def test_transformer_xl_has_its_four_terms():
    layer = layer_of("transformer-xl", dim=8)
    x = embeddings(("a", "b", "c"), layer.width)
    scores, _ = layer.scores(x, np.arange(3))
    q, k = x @ layer.weights[0][1], x @ layer.weights[1][1]
    project, u, v = layer.relative_weights
    frequencies = 10_000.0 ** -(np.arange(4) / 4)
    for i in range(3):
        for j in range(3):
            angles = (i - j) * frequencies
            r = np.concatenate([np.sin(angles), np.cos(angles)]) @ project[1]
            four = q[i] @ k[j] + q[i] @ r + u[1] @ k[j] + v[1] @ r
            assert scores[1, i, j] == pytest.approx(four / np.sqrt(8), rel=1e-11)


def test_the_bound_of_a_score_is_that_of_sums_of_products():
    layer = layer_of("nope")
    x = embeddings(("a", "b", "c", "d"), layer.width)
    _, bound = layer.scores(x, np.arange(4))
    longest, (q, k, *_) = np.linalg.norm(x, axis=1).max(), layer.sizes
    unit = (layer.width + layer.head_width + len(x) + 16) * 2.0**-53
    expected = unit * longest**2 * q * k / np.sqrt(layer.head_width)
    assert bound / expected == pytest.approx(1)


def test_shaws_rows_meet_the_queries():
    layer = layer_of("shaw", dim=8, max_distance=2)
    x = embeddings(("a", "b", "c", "d"), layer.width)
    scores, _ = layer.scores(x, np.arange(4))
    table = layer.parts[0].lookup(np.arange(5))
    q, k = x @ layer.weights[0][0], x @ layer.weights[1][0]
    for i in range(4):
        for j in range(4):
            row = table[np.clip(j - i, -2, 2) + 2]
            assert scores[0, i, j] == pytest.approx((q[i] @ (k[j] + row)) / np.sqrt(8), rel=1e-11)


def test_without_positions_attention_is_blind_to_order():
    found = finding("nope")
    assert not found.sees_order
    assert found.ok
    assert found.verdict == "blind to order; scores depend on nothing"


@pytest.mark.sweep(18)
@pytest.mark.parametrize("name", sorted(set(catalogue.BUILT_IN) - {"nope"}))
def test_every_scheme_sees_order(name):
    found = finding(name)
    assert found.sees_order
    assert found.order.value > 1e3 * found.order.tolerance
    assert found.ok
    assert found.sees_direction == (name not in SYMMETRIC)


@pytest.mark.long
@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", sorted(catalogue.BUILT_IN))
def test_scores_depend_on_distance_alone_unless_rows_are_added(name):
    found = finding(name)
    by_position = found.kind == "absolute" and name != "nope"
    if name in PAIRED:  # three words may lie in one row of a window wherever they are moved
        assert found.expected_distance is None
    else:
        assert found.by_distance == (not by_position)


def test_a_causal_mask_alone_tells_order():
    found = OrderCheck(WORDS, causal=True).finding(asked("nope"))
    assert found.sees_order
    assert found.ok


def test_biases_by_the_key_see_direction():
    assert finding("alibi", form="bloom").sees_direction
    assert finding("alibi", form="mpt").by_distance


def test_hybrids_see_what_their_parts_see():
    check = OrderCheck(WORDS)
    both = check.finding(asked("sinusoidal"), asked("t5"))
    assert (both.scheme, both.sees_order, both.by_distance) == ("sinusoidal+t5", True, False)
    turning = check.finding(asked("rope"), asked("alibi"))
    assert (turning.sees_direction, turning.by_distance) == (True, True)


def test_parts_of_different_widths_do_not_go_together():
    with pytest.raises(InvalidInput, match="the parts differ: 64 and 32"):
        OrderCheck(WORDS).finding(asked("rope"), asked("transformer-xl", dim=32))


def test_an_encoding_that_does_nothing_fails():
    @absolute(source="a test", formula="0")
    def forgotten(*, dim: int = 16) -> Rows:
        """Zeros, by mistake."""
        return Rows(dim, lambda xp, positions, _: xp.zeros((positions.shape[0], dim)))

    found = OrderCheck(WORDS).finding(PartRequest(forgotten, {}))
    assert not found.sees_order
    assert not found.ok


def test_a_bias_that_is_the_same_for_all_offsets_fails():
    @bias(source="a test", formula="1")
    def flat(*, heads: int = 2) -> Bias:
        """One score for all."""
        return Bias(
            heads,
            "offset",
            lambda xp: xp.arange(1, 1 + heads, 1),
            lambda _, c, offsets: offsets * 0 + c,
        )

    assert not OrderCheck(WORDS).finding(PartRequest(flat, {})).ok


def test_an_expectation_can_be_given():
    assert not OrderCheck(WORDS, expectation="none").finding(asked("rope")).ok
    assert not OrderCheck(WORDS, expectation="order").finding(asked("nope")).ok


def test_equal_words_have_equal_embeddings():
    rows = embeddings(("the", "cat", "the"), 8)
    assert np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])
    # The same on every machine: the hash of the word seeds them.
    assert embeddings(("dog",), 2)[0].tolist() == embeddings(("dog", "man"), 2)[0].tolist()


def test_permutations_keep_every_word():
    for places in permutations(WORDS).values():
        assert sorted(places.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("text", ["", "dog", "dog dog", "1", "1000"])
def test_words_that_cannot_change_places_are_refused(text):
    with pytest.raises(InvalidInput, match="--tokens"):
        words_of(text)


def test_too_many_tokens_for_a_grid_are_refused():
    words = words_of("30")
    with pytest.raises(InvalidInput, match="too few for the tokens"):
        OrderCheck(words).finding(asked("rope-axial", grid="3x4"))


@pytest.mark.parametrize("tokens", [3, 9])
def test_scores_of_a_window_depend_on_the_distance_in_rows_and_columns(tokens: int) -> None:
    found = OrderCheck(words_of(str(tokens))).finding(PartRequest(catalogue.find("swin"), {}))
    assert found.verdict == "sees order; scores depend on grid distance"

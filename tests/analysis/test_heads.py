"""Heads of positions alone: their optimum by other solvers, and what each scheme permits."""

import numpy as np
import pytest

from posenc_cli.analysis.head_patterns.heads import HeadRequirement, HeadsRequest, target_of
from posenc_cli.analysis.head_patterns.position_scores import HeadEncoding, _rotary_scores
from posenc_cli.catalogue import BUILT_IN, find
from posenc_cli.choice import choice_of_schemes
from posenc_cli.errors import InvalidInput
from tests.tolerances import TWO_SOLVERS


def results(scheme, target="previous", given=None, **asked):
    request = HeadsRequest((target_of(target),), **asked)
    return request.results([choice_of_schemes(scheme, given or {}, positions=None)])


def result(*arguments, **named):
    (only,) = results(*arguments, **named)
    return only


def dense_optimum(features, target, l2):
    """The optimum by Newton's method on the whole matrix of second derivatives.

    Shapes: features (queries, keys, numbers), NaN where a query does not see; target (queries,
    keys).
    """
    seen = ~np.isnan(features).any(axis=2)
    features = np.nan_to_num(features)
    numbers = np.zeros(features.shape[2])
    for _ in range(100):
        scores = np.where(seen, features @ numbers, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        gradient = np.einsum("qk,qkn->n", weights - target, features) / len(target)
        means = np.einsum("qk,qkn->qn", weights, features)
        centred = np.sqrt(weights)[:, :, None] * (features - means[:, None])
        flat = centred.reshape(-1, features.shape[2])
        curvature = flat.T @ flat / len(target) + l2 * np.eye(len(numbers))
        step = np.linalg.solve(curvature, gradient + l2 * numbers)
        numbers = numbers - step * min(1.0, 4 / np.abs(features @ step).max())
        if np.abs(step).max() < 1e-12:
            break
    return numbers


def masked(features):
    """Features with NaN at keys after the query."""
    ahead = np.triu(np.ones(features.shape[:2], bool), 1)
    return np.where(ahead[:, :, None], np.nan, features)


def rope_features(count, dim):
    """Cosines, then sines, of (i − j)·θ, by the formula of RoFormer §3.4.2."""
    angles = np.subtract.outer(np.arange(count), np.arange(count))[:, :, None] * (
        10_000.0 ** (-np.arange(0, dim, 2) / dim)
    )
    return masked(np.concatenate([np.cos(angles), np.sin(angles)], axis=2))


def sinusoidal_features(count, dim):
    """The products of two rows of Vaswani et al. §3.5, a row's sines and cosines in turn."""
    angles = np.arange(count)[:, None] * 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    rows = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(count, dim)
    return masked(np.einsum("ia,jb->ijab", rows, rows).reshape(count, count, -1))


def alibi_features(count, _):
    """The penalty of the first of eight heads, whose slope is a half."""
    return masked(-0.5 * np.abs(np.subtract.outer(np.arange(count), np.arange(count)))[..., None])


FEATURES = {
    "rope": (rope_features, {"dim": 8}),
    "transformer-xl": (rope_features, {"dim": 8}),
    "sinusoidal": (sinusoidal_features, {"dim": 4}),
    "alibi": (alibi_features, {}),
}


@pytest.mark.long
@pytest.mark.parametrize("scheme", FEATURES)
@pytest.mark.parametrize("target", ["previous", "first", "same:3"])
def test_another_solver_on_features_written_by_hand_ends_at_the_same_optimum(scheme, target):
    count, l2 = 24, 1e-3
    features, given = FEATURES[scheme]
    wanted = target_of(target).keys(np.arange(count), count)
    queries = wanted.any(axis=1)
    shares = wanted[queries] / wanted[queries].sum(axis=1, keepdims=True)
    by_hand = features(count, given.get("dim"))[queries]
    expected = dense_optimum(by_hand, shares, l2)
    optimum = result(scheme, target, given, trained=count, lengths=(48,), l2=l2).head.optimum
    scores = np.nan_to_num(by_hand) @ expected
    # In Transformer-XL sines come first, of the same distances.
    shift = len(expected) // 2 if scheme == "transformer-xl" else 0
    optimum_numbers = np.roll(optimum.numbers, shift)
    assert np.abs(optimum_numbers - expected).max() < TWO_SOLVERS
    assert np.abs(np.nan_to_num(by_hand) @ optimum_numbers - scores).max() < TWO_SOLVERS
    assert optimum.gradient <= 1e-12


def test_of_one_number_the_optimum_is_the_root_of_its_derivative():
    count, l2 = 100, 1e-4
    head = result("alibi", lengths=(200,), l2=l2).head
    distances = np.arange(count)

    def derivative(slope):
        total = 0.0
        for query in range(1, count):
            weights = np.exp(-slope * distances[: query + 1])
            total += 1 - (weights * distances[: query + 1]).sum() / weights.sum()
        return total / (count - 1) + l2 * slope / 0.25  # of the first head's slope, a half

    low, high = 0.1, 5.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if derivative(middle) < 0 else (low, middle)
    assert head.optimum.numbers[0] * 0.5 == pytest.approx(low, abs=TWO_SOLVERS)


def test_what_learns_nothing_is_uniform_and_a_tie_is_never_right():
    of_nope = result("nope", lengths=(200,))
    assert of_nope.head.optimum.cross_entropy == pytest.approx(
        np.log(np.arange(2, 101)).mean(), rel=1e-12
    )
    mass = (1 / np.arange(101, 201)).mean()
    assert of_nope.at(200).mass == round(mass, 6)
    assert of_nope.at(200).right == 0


NEEDED = {"rope-longrope": {"dim": 8, "short_factor": "1,1,2,4", "long_factor": "1,4,16,64"}}


NETWORKS = {name for name, scheme in BUILT_IN.items() if scheme.weights and scheme.weights.tensors}


@pytest.mark.long
@pytest.mark.parametrize("scheme", sorted(set(BUILT_IN) - NETWORKS))
def test_of_every_scheme_the_optimum_is_reached(scheme):
    of_scheme = result(scheme, "back:2", NEEDED.get(scheme), trained=6, lengths=(12,))
    assert of_scheme.head.optimum.gradient <= 1e-12
    least, most = of_scheme.lengths
    assert 0 < least.mass <= 1
    assert (least.queries, most.queries) == (4, 6)


def test_many_targets_are_asked_for_alike():
    assert result("nope", "same:3", lengths=(200,)).head.queries == 97
    everything = result("rope", "window:400", {"dim": 4}, lengths=(200,))
    assert (everything.at(200).mass, everything.at(200).right) == (1.0, 1.0)
    assert np.abs(everything.head.optimum.numbers).max() < 1e-9


def test_targets_are_the_keys_that_their_names_say():
    queries = np.array([0, 1, 7])
    wanted = {
        name: [np.flatnonzero(row).tolist() for row in target_of(name).keys(queries, 8)]
        for name in ("previous", "back:3", "first", "same:3", "window:3")
    }
    assert wanted == {
        "previous": [[], [0], [6]],
        "back:3": [[], [], [4]],
        "first": [[0], [0], [0]],
        "same:3": [[], [], [1, 4]],
        "window:3": [[0], [0, 1], [5, 6, 7]],
    }


def test_near_keys_are_of_fast_pairs_and_the_first_key_of_slow_ones():
    near, far = (
        result("rope", target, {"dim": 32}, lengths=(200,)).head for target in ("previous", "first")
    )
    assert near.slow_share < 0.02
    assert far.slow_share > 0.98
    slow = [pair.amplitude**2 for pair in far.pairs if 2 * np.pi / pair.wavelength < np.pi / 50]
    assert len(slow) == 11
    everything = sum(pair.amplitude**2 for pair in far.pairs)
    assert far.slow_share == pytest.approx(sum(slow) / everything)


def test_longer_lengths_are_measured_on_as_many_last_queries_as_were_trained():
    both = result("alibi", "first", lengths=(150, 300))
    counts = [(each.length, each.queries) for each in both.lengths]
    assert counts == [(100, 100), (150, 100), (300, 100)]


def test_scores_by_offset_are_those_of_any_two_positions_so_far_apart():
    for scheme in ("rope", "rope-yarn", "xpos"):
        encoding = HeadEncoding(find(scheme), {"dim": 8}).at(12)
        numbers = np.random.default_rng(1).standard_normal(8)
        by_offset = encoding.terms @ numbers
        turns = [encoding._rotations(side) for side in (encoding.query, encoding.key)]
        pairwise = _rotary_scores(*turns).of(numbers)
        for query in range(12):
            assert np.abs(pairwise[query, query::-1] - by_offset[: query + 1]).max() < 1e-12


def test_rows_wider_than_the_trained_length_lose_nothing_by_being_projected():
    narrow = result("sinusoidal", "previous", {"dim": 12}, trained=8, lengths=(16,), l2=1e-2)
    encoding = HeadEncoding(find("sinusoidal"), {"dim": 12}).at(8)
    rows, every = encoding.rows, np.arange(8)
    wanted = target_of("previous").keys(every, 8)[1:]
    features = masked(np.einsum("ia,jb->ijab", rows, rows).reshape(8, 8, -1))[1:]
    expected = np.nan_to_num(features) @ dense_optimum(features, wanted.astype(float), 1e-2)
    assert narrow.head.basis.columns is not None
    found = encoding.scores(every[1:], narrow.head.basis).of(narrow.head.optimum.numbers)
    seen = ~np.isnan(features[:, :, 0])
    assert np.abs(found - expected)[seen].max() < TWO_SOLVERS


def test_a_bucket_that_training_never_met_is_named_and_scores_nothing():
    given = {"bidirectional": False}
    of_t5 = result("t5", "first", given, lengths=(200,))
    assert of_t5.head.basis.buckets.tolist() == [*range(31)]
    assert [each.untrained for each in of_t5.lengths] == [(), (31,)]
    scores = of_t5.head.last_scores("none", 200, 199)
    assert (scores[113:] == 0).all()
    assert (scores[:113] != 0).all()


def test_of_windows_buckets_go_by_pairs_of_places():
    of_swin = result("swin", given={"window_size": "3x3"}, trained=6, lengths=(9,))
    assert of_swin.head.basis.buckets.size == 3 + 5  # in the row, and in that before it
    assert of_swin.at(9).untrained


@pytest.mark.parametrize("scheme", sorted(NETWORKS))
def test_scores_that_a_network_makes_are_refused(scheme):
    with pytest.raises(InvalidInput, match="a network computes its scores"):
        result(scheme, trained=6, lengths=(9,))


def test_a_stretch_meets_what_was_learned_with_other_frequencies():
    learned = results("rope", "back:9", {"dim": 8}, lengths=(400,), stretches=("none", "linear"))
    plain, stretched = (each.head.last_scores(each.stretch, 400, 399) for each in learned)
    assert learned[0].head is learned[1].head
    assert np.abs(stretched[::4] - plain[:100]).max() < 1e-9  # positions divided by four
    assert learned[0].at(100) == learned[1].at(100)


def test_a_bias_by_key_makes_the_heads_of_the_same_bias_by_offset():
    one, other = (
        result("alibi", "window:4", {"form": form}, lengths=(200,))
        for form in ("symmetric", "bloom")
    )
    assert one.lengths == other.lengths
    assert one.head.optimum.numbers == pytest.approx(other.head.optimum.numbers, abs=TWO_SOLVERS)


@pytest.mark.parametrize("text", ["previous@8x>0.9", "@8x>=0.9", "first@x>=1", "first@8x>=2", ""])
def test_a_requirement_that_says_nothing_clear_is_refused(text):
    with pytest.raises(InvalidInput, match="--require"):
        HeadRequirement.parse(text)


def test_what_float64_cannot_reach_is_an_error_and_no_number():
    with pytest.raises(InvalidInput, match="the fit does not converge in float64"):
        result("rope", "first", lengths=(200,), l2=1e-12)

"""What each kind of encoding gives a transformer, held against formulas written out here."""

import math

import numpy as np
import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.errors import InvalidInput
from posenc_cli.experiments.request import CLIP, LINEAR, LOG_N, WINDOW, EncodingRequest, ModelSize
from posenc_cli.experiments.tables import (
    AddedRows,
    DistanceRows,
    PairRotations,
    ScoresByPair,
    applies,
    parts_of,
)
from posenc_cli.formulas.context_extension.stretches import NONE

SIZE = ModelSize(2, 4, 16)


NEEDED = {
    "rope-longrope": {"short_factor": "1,1,1,1,1,1,1,2", "long_factor": "1,2,3,4,5,6,7,8"},
    "mrope": {"sections": "2,3,3"},
}
"""Parameters that a scheme has no default for, or none that fits a head of 16 columns."""


def part(name: str, longest: int, **given: object):
    (only,) = parts_of(EncodingRequest(name, ((name, given),)), SIZE, longest)
    return only


def distances(entry: ScoresByPair, length: int) -> np.ndarray:
    every = np.arange(length)
    return entry.index(every, every)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_scheme_of_the_catalogue_enters_by_the_hook_of_its_kind(name):
    only = part(name, 12, **NEEDED.get(name, {}))
    hooks = {"absolute": AddedRows, "rotary": PairRotations}
    hooks |= {"bias": ScoresByPair, "relative": DistanceRows}
    assert type(only.entry(12, NONE, 6)) is hooks[only.scheme.kind]
    learns = BUILT_IN[name].weights is not None or name.startswith("kerple")
    assert (only.learnable is not None) == learns


def test_stretches_leave_the_trained_length_as_it_is():
    rope = part("rope", 80)
    plain = rope.entry(20, NONE, 20)
    for stretch in ("linear", "ntk", "dynamic", "yarn", "llama3", CLIP):
        np.testing.assert_array_equal(rope.entry(20, stretch, 20).queries, plain.queries)


def test_t5_has_the_buckets_of_a_decoder():
    entry = part("t5", 300).entry(300, NONE, 100)
    for distance in (0, 1, 15, 16, 20, 60, 99, 112, 113, 200, 299):
        near = distance < 16
        far = 16 + int(math.log(distance / 16) / math.log(128 / 16) * 16) if not near else 0
        expected = distance if near else min(far, 31)
        assert entry.index(np.array([299]), np.array([299 - distance]))[0, 0] == expected


def test_the_last_bucket_of_t5_is_named_that_a_hundred_positions_never_train():
    t5 = part("t5", 200)
    assert t5.untrained(200, 100, NONE) == "bucket 31 of t5"
    assert t5.untrained(200, 100, CLIP) is None
    assert part("t5", 200, max_distance=48).untrained(200, 100, NONE) is None


def test_rows_of_a_table_that_training_never_met_are_named():
    learned = part("learned", 40)
    assert learned.untrained(40, 10, NONE) == "rows 10–39 of learned"
    assert learned.untrained(40, 10, LINEAR) is None
    assert part("shaw", 40, max_distance=20).untrained(40, 10, NONE) == "rows 0–10 of shaw"
    assert part("sinusoidal", 40).untrained(40, 10, NONE) is None


def test_learned_rows_between_trained_ones_are_mixed_of_both():
    mixing = part("learned", 8).entry(8, LINEAR, 4).mixing
    expected = np.zeros((8, 8))
    for row in range(8):
        expected[row, row // 2] += 0.5 if row % 2 else 1.0
        expected[row, min(row // 2 + 1, 3)] += 0.5 if row % 2 else 0.0
    np.testing.assert_array_equal(mixing, expected)


def test_sinusoids_between_whole_positions_are_those_of_the_formula():
    rows = part("sinusoidal", 12).entry(12, LINEAR, 4).fixed
    angles = np.arange(12)[:, None] / 3 * 10000.0 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(rows[:, 0::2], np.sin(angles), atol=1e-12)
    np.testing.assert_allclose(rows[:, 1::2], np.cos(angles), atol=1e-12)


def test_kerple_learns_the_logarithms_of_its_coefficients():
    learnable = part("kerple-log", 10).learnable
    assert learnable is not None
    assert learnable.logarithms
    assert (learnable.rows, learnable.columns) == (2, 4)
    assert (learnable.values > 0).all()


@pytest.mark.parametrize(
    ("name", "stretch", "applied"),
    [
        ("rope", "yarn", True),
        ("alibi", "yarn", False),
        ("sinusoidal", LINEAR, True),
        ("learned", LINEAR, True),
        ("binary", LINEAR, False),
        ("alibi", CLIP, True),
        ("shaw", CLIP, True),
        ("sinusoidal", CLIP, False),
        ("xpos", CLIP, False),
        ("nope", WINDOW, True),
        ("nope", LOG_N, True),
    ],
)
def test_a_stretch_applies_to_what_it_changes(name, stretch, applied):
    assert applies(stretch, (part(name, 8),)) is applied


def test_a_hybrid_is_stretched_where_one_of_its_parts_is():
    request = EncodingRequest("alibi+rope", (("alibi", {}), ("rope", {})))
    assert applies("yarn", parts_of(request, SIZE, 8))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("rope", {"dim": 32}, "has 32 columns, and a head of the model of --size 2x4x16 has 16"),
        ("alibi", {"heads": 8}, "has 8 heads, but the model of --size 2x4x16 has 4"),
        ("sinusoidal", {"dim": 16}, "has 16 columns, and a row of the model"),
        ("swin", {}, "position 799 is past the last that swin can encode"),
    ],
)
def test_what_does_not_fit_the_model_is_said_in_a_line(name, given, message):
    with pytest.raises(InvalidInput, match=message):
        part(name, 800, **given)

"""``posenc check`` of functions: the calls that models make, each with a function that fails it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import posenc_cli as posenc

pytestmark = pytest.mark.long

N, D, HEADS = 64, 16, 8


def sinusoid(positions, dim=D, base=1e4):
    angles = np.asarray(positions, float)[..., None] * base ** (-np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(*np.shape(positions), dim)


def slopes(heads):
    """As in the authors' code: those of the power of two below, then every second of the next."""
    power = 2 ** math.floor(math.log2(heads))
    own = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    rest = [2 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)][0::2]
    return np.array([*own, *rest[: heads - power]])


def distances(queries, keys, first):
    return np.abs(np.arange(keys)[None] - (first + np.arange(queries))[:, None])


def bias(num_heads, query_length, key_length, first):
    return -slopes(num_heads)[:, None, None] * distances(query_length, key_length, first)


def added(x, offset=0):
    return x + sinusoid(np.arange(x.shape[-2]) + offset)


def of_ids(position_ids):
    return sinusoid(position_ids)


def of_pos(pos):
    return sinusoid(pos)


def of_cache(num_heads, query_length, key_length):
    return bias(num_heads, query_length, key_length, key_length - query_length)


def to_scores(scores):
    return scores + of_cache(*scores.shape[-3:])


def timesteps(timesteps, embedding_dim=D, max_period=10000, flip_sin_to_cos=False):
    half = embedding_dim // 2
    rates = np.exp(-math.log(max_period) * np.arange(half) / (half - 1))
    angles = np.asarray(timesteps, float)[:, None] * rates
    parts = [np.sin(angles), np.cos(angles)]
    odd = np.zeros((len(angles), embedding_dim % 2))
    return np.concatenate([*(parts[::-1] if flip_sin_to_cos else parts), odd], -1)


def grid(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    halves = [axis[:, None] * 1e4 ** (-np.arange(D // 4) / (D // 4)) for axis in (x, y)]
    return np.concatenate([part(half) for half in halves for part in (np.sin, np.cos)], -1)


SETTINGS = {
    "sinusoidal": {"dim": D},
    "sinusoidal-nd": {"dim": D, "grid": (4, 6)},
    "timestep": {"dim": D},
    "alibi": {"heads": HEADS},
}


def reported(scheme, function, **given):
    """The report on a function, by the settings of its scheme."""
    where = {} if scheme == "sinusoidal-nd" else {"positions": N}
    return posenc.check(scheme, impl=function, **{**where, **SETTINGS[scheme], **given})


RIGHT = {
    "added": ("sinusoidal", added),
    "ids": ("sinusoidal", of_ids),
    "first axis": ("sinusoidal", lambda positions: sinusoid(np.ravel(positions))),
    "cache": ("alibi", of_cache),
    "scores": ("alibi", to_scores),
    "timesteps": ("timestep", timesteps),
    "grid": ("sinusoidal-nd", grid),
    "pos": ("sinusoidal", of_pos),  # x-transformers
    "count": ("sinusoidal", lambda position: sinusoid(np.arange(position))),  # Keras
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_pass(name):
    report = reported(*RIGHT[name])
    assert report.ok, str(report)
    assert "not tested" not in report.verdict


def test_an_offset_is_given_where_positions_begin_later():
    report = posenc.check("sinusoidal", impl=added, positions=range(5, 5 + N), dim=D)
    assert report.ok, str(report)


def decodes_one_behind(x, offset=0):
    return added(x, offset - 1 if x.shape[-2] == 1 and offset else offset)


def scales_single_rows(x, offset=0):
    return added(x * (math.sqrt(D) if x.shape[-2] == 1 else 1), offset)


def of_the_first_sequence(position_ids):
    ids = np.asarray(position_ids)
    return sinusoid(np.broadcast_to(ids[:1], ids.shape) if ids.ndim > 1 else ids)


def no_bias_for_one_query(scores):
    return scores if scores.shape[-2] == 1 else to_scores(scores)


def naive(num_heads, query_length, key_length):
    own = 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)
    return -own[:, None, None] * distances(query_length, key_length, key_length - query_length)


def of_one_period(timesteps_, embedding_dim=D, max_period=10000, flip_sin_to_cos=False):
    return timesteps(timesteps_, embedding_dim, 10000, flip_sin_to_cos)


def of_whole_ones(timesteps_, embedding_dim=D, max_period=10000, flip_sin_to_cos=False):
    return timesteps(np.trunc(timesteps_), embedding_dim, max_period, flip_sin_to_cos)


def of_half_precision(timesteps_, embedding_dim=D, max_period=10000, flip_sin_to_cos=False):
    coarse = np.asarray(timesteps_, np.float16)
    return timesteps(coarse, embedding_dim, max_period, flip_sin_to_cos)


def of_their_format(timesteps_, embedding_dim=D, max_period=10000, flip_sin_to_cos=False):
    half = embedding_dim // 2
    rates = np.exp(-math.log(max_period) * np.arange(half) / (half - 1))
    angles = timesteps_[:, None] * rates.astype(
        timesteps_.dtype if timesteps_.dtype.kind == "f" else float
    )
    parts = [np.sin(angles, dtype=float), np.cos(angles, dtype=float)]
    odd = np.zeros((len(angles), embedding_dim % 2))
    return np.concatenate([*(parts[::-1] if flip_sin_to_cos else parts), odd], -1)


def of_counted_keys(query_positions, key_positions):
    keys = np.arange(len(key_positions))
    return -slopes(HEADS)[:, None, None] * np.abs(keys[None] - query_positions[:, None])


def swapped_if_high(height, width):
    if height <= width:
        return grid(height, width)
    return np.concatenate(np.split(grid(height, width), 2, axis=-1)[::-1], -1)


def of_the_first_start(x, offset=0):
    return added(x, int(np.ravel(offset)[0]))


def row_0_for_as_many_sequences_as_rows(x):
    square = x.ndim == 3 and len(x) == x.shape[1]
    return x + (added(x * 0)[:, :1] if square else added(x * 0))


def of_one_length(num_heads, seq_len):
    most = -slopes(num_heads)[:, None, None] * distances(N, N, 0)
    return most[:, :seq_len, :seq_len] * (1 + (seq_len < N))


def half_for_one_head(num_heads, seq_len):
    own = slopes(num_heads) if num_heads > 1 else np.array([0.5])
    return -own[:, None, None] * distances(seq_len, seq_len, 0)


def by_columns_if_square(height, width):
    rows = grid(height, width).reshape(height, width, D)
    return (rows.swapaxes(0, 1) if height == width else rows).reshape(-1, D)


def to_scores_of_a_square(scores):
    """Slopes of heads are broadcast along sequences if there are as many."""
    sequences, heads, queries, keys = scores.shape
    added = bias(heads, queries, keys, keys - queries)
    added = added[:, None] if sequences == heads else added
    return (scores + added).astype(scores.dtype)


WRONG = {
    "start": (
        "sinusoidal",
        of_the_first_start,
        "sequence 2 of two sequences at other positions",
        "position-offset",
    ),
    "square batch": (
        "sinusoidal",
        row_0_for_as_many_sequences_as_rows,
        "equal numbers of sequences and rows",
        "position-offset",
    ),
    "length": ("alibi", of_one_length, f"{N // 2} positions", "slopes"),
    "one head": ("alibi", half_for_one_head, "heads=1", "heads"),
    "square grid": ("sinusoidal-nd", by_columns_if_square, "grid=8×8", "axis"),
    "one behind": ("sinusoidal", decodes_one_behind, "single rows", "position-offset"),
    "√d": ("sinusoidal", scales_single_rows, "single rows", "not-added"),
    "first sequence": (
        "sinusoidal",
        of_the_first_sequence,
        "sequence 2 of two sequences at other positions",
        "position-offset",
    ),
    "one query": ("alibi", no_bias_for_one_query, "the last query of 64", "uninitialised"),
    "slopes along sequences": (
        "alibi",
        to_scores_of_a_square,
        "equal numbers of sequences, positions and heads",
        "heads",
    ),
    "other heads": ("alibi", naive, "heads=12", "slopes"),
    "max_period": ("timestep", of_one_period, "max_period=30000", "base"),
    "fractions": ("timestep", of_whole_ones, "fractional timesteps", "position-offset"),
    "half": (
        "timestep",
        of_half_precision,
        "fractional timesteps",
        "position-precision",
        {"positions": range(0, 1000, 7)},
    ),
    "angles in their format": (
        "timestep",
        of_their_format,
        "timesteps in float16",
        "position-precision",
    ),
    "keys counted": ("alibi", of_counted_keys, "positions from 7 on", "unknown"),
    "high grid": ("sinusoidal-nd", swapped_if_high, "grid=8×7", "axis"),
}


RESULTS = {}


def kept(name, values):
    """The same array for each result of a shape."""
    result = RESULTS.setdefault((name, values.shape, values.dtype), values)
    result[...] = values
    return result


def rows_in_one_array(positions):
    return kept("rows", of_pos(positions))


def sums_in_one_array(x):
    return kept("sums", added(x))


def scores_in_one_array(scores):
    return kept("scores", to_scores(scores))


def rows_of_a_short_table(x, offset=0):
    assert offset + x.shape[-2] <= N
    return kept("table", x + sinusoid(offset + np.arange(x.shape[-2])))


@pytest.mark.parametrize(
    ("scheme", "function", "settings"),
    [
        ("sinusoidal", rows_in_one_array, {"dim": D}),
        ("sinusoidal", sums_in_one_array, {"dim": D}),
        ("sinusoidal", rows_of_a_short_table, {"dim": D}),
        ("alibi", scores_in_one_array, {"heads": HEADS}),
    ],
)
def test_a_result_that_the_next_call_overwrites_fails(scheme, function, settings):
    RESULTS.clear()
    found = posenc.check(scheme, impl=function, **{"positions": N, **settings})
    assert (found.ok, found.cause) == (False, "unknown")
    assert "the next call overwrites the result of a call" in found.verdict


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_kind_of_call_fails_and_the_call_is_named(name):
    scheme, function, call, cause, *given = WRONG[name]
    report = reported(scheme, function, **(given[0] if given else {}))
    assert (report.ok, report.call, report.cause) == (False, call, cause), str(report)
    assert f"called for {call}," in report.verdict


def test_queries_counted_from_the_first_key_are_told_on_the_first_line():
    """As transformers' T5 does, whose caller drops the queries of the cache afterwards."""

    def from_the_first(num_heads, query_length, key_length):
        return bias(num_heads, query_length, key_length, 0)

    report = reported("alibi", from_the_first)
    assert report.ok
    assert "not tested: fewer queries than keys" in report.verdict
    assert report.as_json()["not_tested"]


def test_a_mask_is_given_for_each_position_and_padding_is_not_tested():
    """BLOOM's build_alibi_tensor, with the dimensions of its mask."""

    def build_alibi_tensor(attention_mask, num_heads):
        at = (attention_mask.cumsum(-1) - 1) * attention_mask
        both = slopes(num_heads)[None, :, None] * at[:, None, :]
        return both.reshape(attention_mask.shape[0] * num_heads, 1, -1)

    report = reported("alibi", build_alibi_tensor, form="bloom")
    assert report.ok, str(report)
    assert "not tested: masks with padding" in report.verdict


@pytest.mark.parametrize("swapped", [False, True])
def test_the_side_of_a_square_is_given_and_another_grid_is_not_tested(swapped):
    """MAE's get_2d_sincos_pos_embed takes one number."""

    def of_square(embed_dim, grid_size):
        halves = np.split(grid(grid_size, grid_size), 2, axis=-1)
        return np.concatenate(halves[::-1] if swapped else halves, -1)

    report = posenc.check("sinusoidal-nd", impl=of_square, dim=D, grid=(5, 5))
    assert report.ok is not swapped, str(report)
    assert swapped or "grid=7×6" in report.verdict.partition("not tested: ")[2]


def test_sides_that_are_exchanged_are_found_on_a_square():
    report = posenc.check(
        "sinusoidal-nd", impl=lambda height, width: grid(width, height), dim=D, grid=(5, 5)
    )
    assert (report.ok, report.call) == (False, "grid=7×6")


def test_a_table_of_one_length_that_is_added_as_a_whole_is_right():
    """As vision transformers add theirs: rows of another number are broadcast, and mean nothing."""
    table = sinusoid(np.arange(N))

    def vit(x):
        return x + table

    report = reported("sinusoidal", vit)
    assert report.ok, str(report)
    assert "not tested: the first row alone" in report.verdict


def sorted_ids(positions):
    return sinusoid(np.sort(positions))


def adds_to_one(x):
    return x + np.concatenate([sinusoid(np.arange(x.shape[1]))[None], 0 * x[1:]])


def backwards_from_three_on(x):
    pe = sinusoid(np.arange(x.shape[1]))
    return x + (pe[::-1] if len(x) > 2 else pe)


def wrong_in_pairs(x):
    """As guidance calls it: with a prompt and without."""
    pe = sinusoid(np.arange(x.shape[1]))
    return x + (pe * np.array([1, 0])[:, None, None] if len(x) == 2 else pe)


def of_64(num_heads, seq_len):
    return bias(num_heads, 64, 64, 0)


def of_one_width(positions, dim=D):
    return sinusoid(positions, dim, base=1e4 ** (dim / D))


class SlopesOfPowersOfTwo:
    """Right for 8 heads, as a power of two."""

    def __init__(self, num_heads=HEADS):
        self.slopes = 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)

    def __call__(self, scores):
        queries, keys = scores.shape[-2:]
        return scores - self.slopes[:, None, None] * distances(queries, keys, keys - queries)


class RowsOfLastCall:
    """Keeps rows by the shape and the first of their positions."""

    kept = None, None

    def __call__(self, position_ids):
        key = position_ids.shape, int(position_ids.flat[0])
        if self.kept[0] != key:
            self.kept = key, sinusoid(position_ids)
        return self.kept[1]


class TableOfFirstCall:
    """Keeps the table of its first call, which has too few rows for a longer one."""

    kept = None

    def __call__(self, seq_len):
        self.kept = sinusoid(np.arange(seq_len)) if self.kept is None else self.kept
        return self.kept[:seq_len]


class ScoresOfFirstCall:
    """Keeps the scores of its first call."""

    kept = None

    def __call__(self, i, j):
        self.kept = bias(HEADS, i, j, j - i) if self.kept is None else self.kept
        return self.kept[:, :i, :j]


def added_from_the_first_key(scores):
    """As in vllm-project/vllm#945: a query after a cache gets the biases of the first one."""
    return scores + bias(*scores.shape[-3:], 0)


def first_biased(scores):
    y, later = scores.copy(), scores[1:]
    y[...] += bias(HEADS, *scores.shape[-2:], scores.shape[-1] - scores.shape[-2])
    if scores.ndim == 4:
        y[1:] = later
    return y


@pytest.mark.parametrize("off", [0, 1])
def test_scores_of_all_heads_of_each_sequence_are_read(off):
    """Bloom's, of shape (sequences · heads, 1, keys)."""

    def of_bloom(attention_mask, num_heads, dtype):
        keys = np.cumsum(attention_mask, -1) - 1 + off * np.arange(len(attention_mask))[:, None]
        both = slopes(num_heads)[:, None] * keys[:, None]
        return both.reshape(-1, 1, keys.shape[1]).astype(np.float32)

    report = reported("alibi", of_bloom, form="bloom")
    assert (report.ok, report.call) == (
        (False, "sequence 2 of two sequences") if off else (True, "")
    )


def of_eight_heads(heads, seq_len):
    assert heads == HEADS
    return posenc.bias("alibi", seq_len, heads=heads)


def always_of_eight_heads(heads, seq_len):
    assert heads
    return of_eight_heads(HEADS, seq_len)


@pytest.mark.parametrize(
    ("function", "untested"),
    [
        (of_64, "calls of other lengths"),
        (always_of_eight_heads, "heads="),
        (of_eight_heads, "heads=12"),
    ],
)
def test_what_a_function_refuses_or_ignores_is_told_on_the_first_line(function, untested):
    report = reported("alibi", function)
    assert report.ok
    assert f"not tested: {untested}" in report.verdict, str(report)


@pytest.mark.parametrize("hidden", [0, 3])
def test_masked_keys_are_told_on_the_first_line_and_a_mask_that_leaves_some_fails(hidden):
    def masked(num_heads, seq_len):
        at = np.arange(seq_len)
        later = at > at[:, None] + hidden
        return np.where(later, -np.inf, posenc.bias("alibi", seq_len, heads=num_heads))

    report = reported("alibi", masked)
    told = "not tested: keys after the query (they are masked)" in report.verdict
    assert (report.ok, told) == (not hidden, not hidden), str(report)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_single_scores_that_are_no_numbers_make_no_other_value_rounded(value):
    """The others are exact in bfloat16, as slopes of 8 heads are."""

    def scores(num_heads, seq_len):
        own = posenc.bias("alibi", seq_len, heads=num_heads).copy()
        own[:, 3, 2] = value
        return own

    report = posenc.check("alibi", impl=scores, positions=N, heads=8)
    assert report.cause_text == "not-a-number: 8 of 32768 values are NaN or infinite", str(report)


@pytest.mark.parametrize("scheme", ["alibi", "t5"])
def test_float32_sums_of_scores_and_a_bias_pass(scheme):
    right = posenc.bias(scheme, N, heads=HEADS, **({"seed": 1} if scheme == "t5" else {}))

    def to_scores(scores):
        queries, keys = scores.shape[-2:]
        return (scores + right[:, keys - queries : keys, :keys]).astype(np.float32)

    given = {"seed": 1} if scheme == "t5" else {}
    report = posenc.check(scheme, impl=to_scores, positions=N, heads=HEADS, **given)
    assert report.ok, str(report)


@pytest.mark.parametrize("empty", [lambda x: x[:0], lambda x: x[:, :0]])
def test_a_function_that_returns_no_values_is_refused_in_one_line(empty):
    with pytest.raises(ValueError, match="returned no values"):
        reported("sinusoidal", empty)


def test_what_takes_batches_is_not_right_by_one_sequence_alone():
    """The rows of a batch (batch, n, d) are counted along the batch, as in goodfire-ai/spd#88."""

    def along_the_first(x):
        return x + sinusoid(np.arange(x.shape[0]))[None]

    report = reported("sinusoidal", along_the_first)
    assert not report.ok, str(report)


@pytest.mark.parametrize(("transposed", "ok"), [(False, True), (True, False)])
def test_rows_of_pairs_are_compared_by_their_offset(transposed, ok, tmp_path):
    """(n, n, d), as tensor2tensor and fairseq make Shaw's."""
    table = np.random.default_rng(3).normal(0, 0.02, (33, D)).astype(np.float32)
    np.save(tmp_path / "w.npy", table)

    def relative(length):
        offsets = np.arange(length)[None] - np.arange(length)[:, None]
        offsets = offsets.T if transposed else offsets
        return table[np.clip(offsets, -16, 16) + 16]

    report = posenc.check(
        "shaw", impl=relative, positions=24, dim=D, weights=str(tmp_path / "w.npy")
    )
    assert report.ok is ok, str(report)
    assert "also right for 12 positions" in str(report) if ok else report.cause == "key-query"


def of_key_positions(query_positions, key_positions):
    """BLOOM's form, which is no function of the distance."""
    shape = (HEADS, len(query_positions), len(key_positions))
    return np.broadcast_to(slopes(HEADS)[:, None, None] * key_positions, shape)


def test_scores_that_follow_the_positions_themselves_are_compared_at_later_ones():
    given = {"positions": N, "heads": HEADS}
    report = posenc.check("alibi", impl=of_key_positions, form="bloom", **given)
    assert report.ok, str(report)

    def fire(query_positions, key_positions):
        places = ([int(at) for at in each] for each in (query_positions, key_positions))
        return posenc.bias("fire", *places, heads=4, threshold=8.0)

    report = posenc.check("fire", impl=fire, positions=16, heads=4, threshold=8.0)
    assert report.ok, str(report)


def test_a_function_that_ends_its_process_in_a_shorter_call_is_told(tmp_path, call):
    (tmp_path / "f.py").write_text(
        "import os, sys\nimport numpy as np\n\n\ndef only64(x):\n"
        "    if x.shape[-2] != 64:\n        os._exit(3)\n"
        "    a = np.arange(64)[:, None] * 1e4 ** (-np.arange(0, 16, 2) / 16)\n"
        "    return x + np.stack([np.sin(a), np.cos(a)], -1).reshape(64, 16)\n"
    )
    asked = ("check", "-s", "sinusoidal", "-d", "16", "--len", "64", "--json")
    status, out, _ = call(*asked, "--impl", f"{tmp_path / 'f.py'}:only64")
    assert (status, json.loads(out)["ok"]) == (0, True)
    assert "not tested" in json.loads(out)["verdict"]


class KeepsTheFirst:
    """A table made for the first call; later rows repeat its last one."""

    def __init__(self):
        self.table = None

    def __call__(self, x):
        if self.table is None:
            self.table = sinusoid(np.arange(x.shape[-2]))
        return x + self.table[np.minimum(np.arange(x.shape[-2]), len(self.table) - 1)]


class StaysShort(KeepsTheFirst):
    """A table made for the first call, which a longer one finds too short."""

    def __call__(self, x):
        if self.table is None:
            self.table = sinusoid(np.arange(x.shape[-2]))
        return x + self.table[: x.shape[-2]]


def test_a_longer_call_after_a_short_first_one_fails_or_is_told():
    wrong, short = (reported("sinusoidal", each) for each in (KeepsTheFirst, StaysShort))
    after = "64 positions after a first call for 32"
    assert (wrong.ok, wrong.call) == (False, after), str(wrong)
    assert short.ok
    assert after in short.verdict.partition("not tested: ")[2]


def buckets(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    """T5's, in NumPy."""
    relative = np.asarray(relative_position)
    half = num_buckets // 2 if bidirectional else num_buckets
    first = (relative > 0) * half if bidirectional else 0
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    exact = half // 2
    far = np.log(np.maximum(distance, 1) / exact) / math.log(max_distance / exact)
    large = np.minimum(exact + (far * (half - exact)).astype(int), half - 1)
    return first + np.where(distance < exact, distance, large)


def transposed(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    return buckets(np.transpose(relative_position), bidirectional, num_buckets, max_distance)


def of_one_query(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    relative = np.broadcast_to(np.asarray(relative_position)[..., :1, :], relative_position.shape)
    relative = relative if relative.ndim > 1 else relative_position
    return buckets(relative, bidirectional, num_buckets, max_distance)


def test_buckets_are_asked_for_queries_and_keys_as_attention_does():
    right, wrong, other = (
        posenc.check("t5", impl=each, positions=40, heads=HEADS)
        for each in (buckets, of_one_query, transposed)
    )
    assert right.ok, str(right)
    assert "not tested" not in right.verdict
    assert (wrong.ok, wrong.call) == (False, "a matrix of queries and keys"), str(wrong)
    assert "not tested: a matrix of queries and keys" in other.verdict


def test_the_format_that_a_function_is_told_is_that_of_its_result():
    """BLOOM's build_alibi_tensor, and one that ignores dtype."""

    def told(num_heads, seq_len, dtype):
        return bias(num_heads, seq_len, seq_len, 0).astype(dtype)

    def ignored(num_heads, seq_len, dtype):
        return bias(num_heads, seq_len, seq_len, 0).astype(np.float32)

    right, wrong = (reported("alibi", each) for each in (told, ignored))
    assert right.ok, str(right)
    assert "dtype" not in right.verdict
    assert wrong.ok, str(wrong)
    assert "dtype (results are float32, not float16)" in wrong.verdict


def big_vision(h, w, width, temperature=10_000.0):
    y, x = np.mgrid[:h, :w]
    omega = temperature ** -(np.arange(width // 4) / (width // 4 - 1))
    y, x = (axis.reshape(-1, 1) * omega for axis in (y, x))
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], 1)[None]


def of_base_size(embed_dim, grid_size, base_size=16):
    """diffusers' get_2d_sincos_pos_embed, which takes one number for both axes."""
    rows, columns = (np.arange(side) / (side / base_size) for side in grid_size)
    both = [np.tile(columns, len(rows)), np.repeat(rows, len(columns))]
    rates = 1e4 ** (-np.arange(embed_dim // 4) / (embed_dim // 4))
    return np.concatenate([f(at[:, None] * rates) for at in both for f in (np.sin, np.cos)], 1)


GRID = {"dim": D, "grid": (4, 6)}


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (big_vision, {**GRID, "convention": "simple-vit"}),
        (of_base_size, {**GRID, "base_size": (16, 16)}),
    ],
)
def test_grids_of_big_vision_and_diffusers_pass(function, settings):
    report = posenc.check("sinusoidal-nd", impl=function, **settings)
    assert report.ok, str(report)


@pytest.mark.parametrize("shift", [0, 1])
def test_an_embedding_is_given_positions_and_one_of_fairseq_tokens(shift, tmp_path):
    """torch's nn.Embedding calls its positions input; fairseq counts its own from the tokens."""
    table = np.random.default_rng(3).normal(0, 0.02, (N + 2, D)).astype(np.float32)
    np.save(tmp_path / "w.npy", table)

    def embedding(input):  # noqa: A002
        return table[input + shift]

    def fairseq(input, incremental_state=None, positions=None):  # noqa: A002
        if positions is None:
            positions = np.cumsum(input != 1, 1) * (input != 1) + 1 + shift
        return table[positions % len(table)]

    given = {"positions": N, "dim": D, "weights": str(tmp_path / "w.npy")}
    report = posenc.check("learned", impl=embedding, **given)
    assert report.ok is not bool(shift), str(report)
    report = posenc.check("learned", impl=fairseq, offset=2, **given)
    assert report.ok is not bool(shift), str(report)
    assert shift or "positions" in report.verdict.partition("not tested: ")[2]


def test_positions_of_a_batch_are_given_where_one_sequence_is_refused():
    """tensor2tensor's add_timing_signal_1d_given_position and MaxText's embedding."""

    def given_position(input_embedding, position):
        return input_embedding + np.stack([sinusoid(row) for row in position[:, :]])

    report = reported("sinusoidal", given_position)
    assert report.ok, str(report)


def test_a_wider_result_is_noted():
    report = reported("sinusoidal", added)
    assert "returns float64 for float32 input" in report.notes


TABLE = np.random.default_rng(1).normal(0, 0.02, (N + 10, D)).astype(np.float32)


def machine_learning_mastery(seq_len, d, n=10000):
    return sinusoid(np.arange(seq_len), d, n)


def without_a_base(seq_len, d, n=None):
    return sinusoid(np.arange(seq_len), d)


def jadore801120(n_position, d_hid, padding_idx=None):
    return sinusoid(np.arange(n_position), d_hid)


def tensorflow(length, depth):
    return sinusoid(np.arange(length), depth)


def to_attn(attn):
    return to_scores(attn)


def annotated(weights):
    """A constructor with a required rate of dropout, as in the Annotated Transformer."""

    class PositionalEncoding:
        def __init__(self, d_model, dropout, max_len=5000):
            assert dropout == 0
            self.pe = sinusoid(np.arange(max_len), d_model)

        def __call__(self, x):
            return x + self.pe[: x.shape[1]]

    return PositionalEncoding


class Timesteps:
    """diffusers' class."""

    def __init__(self, num_channels, flip_sin_to_cos, downscale_freq_shift, scale=1):
        self.given = num_channels, flip_sin_to_cos, scale
        assert downscale_freq_shift == 1

    def __call__(self, timesteps_):
        dim, flipped, scale = self.given
        return timesteps(scale * np.asarray(timesteps_), dim, 10000, flipped)


def whisper(length, channels, max_timescale=10000):
    return timesteps(np.arange(length), channels, max_timescale)


def fairseq(input_ids, padding_idx=1):
    batch, count = input_ids.shape
    at = np.cumsum(input_ids != padding_idx, 1) - 1
    return sinusoid(at.reshape(batch, count))


def flash_attention(batch_size, nheads, seqlen_q, seqlen_k):
    own = bias(nheads, seqlen_q, seqlen_k, seqlen_k - seqlen_q)
    return np.broadcast_to(own, (batch_size, *own.shape))


def compute_bias(num_heads, query_length, key_length, past_seen_tokens=0):
    return bias(num_heads, query_length, key_length, past_seen_tokens)


@pytest.mark.parametrize(
    ("scheme", "function", "untested"),
    [
        ("sinusoidal", machine_learning_mastery, ""),
        ("sinusoidal", without_a_base, ""),
        ("sinusoidal", jadore801120, "padding_idx"),
        ("sinusoidal", tensorflow, ""),
        ("sinusoidal", annotated(None), ""),
        ("sinusoidal", fairseq, "padding_idx"),
        ("timestep", Timesteps, "downscale_freq_shift=0"),
        ("timestep", whisper, ""),
        ("alibi", to_attn, ""),
        ("alibi", lambda i, j: bias(HEADS, i, j, j - i), ""),  # x-transformers
        ("alibi", flash_attention, ""),
        ("alibi", compute_bias, ""),
    ],
)
def test_functions_of_libraries_and_tutorials_pass(scheme, function, untested):
    report = reported(scheme, function)
    assert report.ok, str(report)
    assert report.as_json()["not_tested"] == (untested or None)


def learned(function, tmp_path, **settings):
    np.save(tmp_path / "w.npy", TABLE)
    weights = str(tmp_path / "w.npy")
    return posenc.check(
        "learned", impl=function, positions=N, dim=D, weights=weights, offset=2, **settings
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, offset=0: x + TABLE[offset + 2 + np.arange(x.shape[-2])],
        lambda position_ids, offset=2: TABLE[np.asarray(position_ids) + offset],
        lambda position_ids, offset: TABLE[np.asarray(position_ids) + offset],
        lambda length, offset=2: TABLE[np.arange(length) + offset],
    ],
    ids=["of the sequence", "of the table", "without a default", "of a length"],
)
def test_an_offset_is_that_of_the_sequence_or_of_the_table(function, tmp_path):
    report = learned(function, tmp_path)
    assert report.ok, str(report)


def test_rows_before_the_table_that_are_left_out_fail(tmp_path):
    report = learned(lambda x, offset=0: x + TABLE[offset + np.arange(x.shape[-2])], tmp_path)
    assert (report.ok, report.cause) == (False, "position-offset"), str(report)


@pytest.mark.parametrize("past", [True, False])
def test_the_first_position_is_varied_without_position_ids(past, tmp_path):
    """BART's and OPT's embedding, which generation calls without ids of positions."""

    def bart(input_ids, past_key_values_length=0, position_ids=None):
        if position_ids is None:
            batch, count = input_ids.shape
            position_ids = np.tile(np.arange(count) + past * past_key_values_length, (batch, 1))
        return TABLE[np.asarray(position_ids) + 2]

    report = learned(bart, tmp_path)
    assert report.ok is past, str(report)
    assert past or report.call == "single rows without position_ids"


def test_distances_of_transformer_xl_go_down_to_0():
    """transformers' PositionalEmbedding, whose caller passes klen − 1 … 0."""

    def rows(pos_seq, dim=D):
        angles = np.asarray(pos_seq)[:, None] * 1e4 ** (-np.arange(0, dim, 2) / dim)
        return np.concatenate([np.sin(angles), np.cos(angles)], -1)[:, None]

    report = posenc.check("transformer-xl", impl=rows, positions=24, dim=D)
    assert report.ok, str(report)


@pytest.mark.parametrize("size", [24, 400])
def test_deberta_gives_the_buckets_of_pairs(size):
    def build_relative_position(query_size, key_size, bucket_size, max_position):
        apart = np.arange(query_size)[:, None] - np.arange(key_size)
        half = bucket_size // 2
        far = np.maximum(np.abs(apart), half)
        log = np.ceil(np.log(far / half) / np.log((max_position - 1) / half) * (half - 1)) + half
        return np.where(np.abs(apart) <= half, apart, np.sign(apart) * log).astype(int)

    def of_layers(query_layer, key_layer, bucket_size=-1, max_position=-1):  # DeBERTa v2's
        sizes = query_layer.shape[-2], key_layer.shape[-2]
        return build_relative_position(*sizes, bucket_size, max_position)[None]

    for function in (build_relative_position, of_layers):
        report = posenc.check("deberta", impl=function, positions=size)
        assert report.ok, str(report)
        assert ("max_position=1024" in report.verdict) is (size == 24)
        assert "fewer queries than keys" in report.verdict

    def transposed(query_layer, key_layer, bucket_size, max_position):
        return of_layers(query_layer, key_layer, bucket_size, max_position).swapaxes(1, 2)

    assert not posenc.check("deberta", impl=transposed, positions=size).ok


@pytest.mark.parametrize("number", [1, 2])
def test_a_name_that_says_nothing_is_refused_not_judged(number):
    def one(foo):
        return 0 * np.arange(N)[:, None] + np.arange(D) % 5

    def two(foo, bar):
        return one(foo)

    shown = ("needs foo, whose name does not show its role", "foo, bar, whose names do not show")
    with pytest.raises(ValueError, match=shown[number - 1]):
        posenc.check("sinusoidal", impl=(one, two)[number - 1], positions=N, dim=D)


def ignores_past(num_heads, query_length, key_length, past_seen_tokens=0):
    return bias(num_heads, query_length, key_length, 0)


def no_bias_in_half(scores):
    return to_scores(scores) if scores.dtype == np.float32 else scores


def of_one_slope(num_heads, seq_len, max_bias=8):
    return bias(num_heads, seq_len, seq_len, 0)


def counts_through_the_batch(x, start_pos=0):
    batch, count, _ = x.shape
    at = np.arange(batch * count).reshape(batch, count) if count == 1 else np.arange(count)
    return x + sinusoid(at + start_pos)


class KeepsHalf:
    """Its cache has the format of the last call."""

    def __init__(self, d_model, max_len=512):
        self.pe = sinusoid(np.arange(max_len), d_model).astype(np.float32)

    def __call__(self, x, offset=0):
        self.pe = self.pe.astype(x.dtype)
        return x + self.pe[offset : offset + x.shape[-2]]


def pads_in_front(timesteps_, embedding_dim=D):
    rows = timesteps(timesteps_, embedding_dim)
    return np.roll(rows, embedding_dim % 2, axis=-1)


def of_one_scale(timesteps_, embedding_dim=D, scale=1):
    return timesteps(timesteps_, embedding_dim)


@pytest.mark.parametrize(
    ("scheme", "function", "call"),
    [
        ("sinusoidal", sorted_ids, "rows in another order"),
        ("sinusoidal", adds_to_one, "sequence 2 of two sequences"),
        ("sinusoidal", backwards_from_three_on, "three sequences"),
        ("sinusoidal", wrong_in_pairs, "sequence 2 of two sequences"),
        ("sinusoidal", of_one_width, "dim=32"),
        ("sinusoidal", TableOfFirstCall, "64 positions after a first call for 32"),
        ("sinusoidal", RowsOfLastCall, "positions of int32 after rows in another order"),
        ("sinusoidal", counts_through_the_batch, "sequence 2 of a row of two sequences"),
        ("sinusoidal", KeepsHalf, "vectors in float32 after half precision"),
        ("alibi", SlopesOfPowersOfTwo, "heads=12"),
        ("alibi", first_biased, "sequence 2 of two sequences"),
        ("alibi", added_from_the_first_key, "the last query of 64"),
        ("alibi", ScoresOfFirstCall, "64 positions after a first call for 32"),
        ("alibi", ignores_past, "the last query of 64"),
        ("alibi", no_bias_in_half, "scores in float16"),
        ("alibi", of_one_slope, "max_bias=16"),
        ("timestep", pads_in_front, "dim=17"),
        ("timestep", of_one_scale, "scale=2"),
    ],
)
def test_the_call_in_which_a_function_is_wrong_is_named(scheme, function, call):
    report = reported(scheme, function)
    assert (report.ok, report.call) == (False, call), str(report)


def test_bfloat16_is_given_to_functions_of_torch():
    torch = pytest.importorskip("torch")

    def without_bias_in_bfloat16(scores: torch.Tensor):
        added = torch.tensor(of_cache(*scores.shape[-3:])).to(scores.dtype)
        return scores if scores.dtype == torch.bfloat16 else scores + added

    def right(scores: torch.Tensor):
        return scores + torch.tensor(of_cache(*scores.shape[-3:])).to(scores.dtype)

    right.__annotations__ = without_bias_in_bfloat16.__annotations__ = {"scores": torch.Tensor}
    report = posenc.check("alibi", impl=right, positions=400, heads=12)
    assert report.ok, str(report)
    assert "scores in bfloat16" in str(report)
    report = reported("alibi", without_bias_in_bfloat16)
    assert (report.ok, report.call) == (False, "scores in bfloat16"), str(report)


def test_a_function_that_refuses_tensors_is_given_arrays_of_numpy():
    torch = pytest.importorskip("torch")

    def of_arrays(positions: torch.Tensor):
        return sinusoid(positions.astype(float))

    of_arrays.__annotations__ = {"positions": torch.Tensor}
    assert reported("sinusoidal", of_arrays).ok


def test_buckets_are_asked_for_on_both_sides():
    """num_buckets is halved where all later keys share bucket 0: unseen without earlier keys."""

    def halves(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
        side = num_buckets // 2
        away, ahead = -np.asarray(relative_position), 0 * np.asarray(relative_position)
        if bidirectional:
            ahead, away = np.where(away < 0, side, 0), np.abs(away)
        away, exact = np.maximum(away, 0), side // 2
        log = np.log(np.maximum(away, exact) / exact) / np.log(max_distance / exact)
        far = exact + (log * (side - exact) + 1e-9).astype(int)
        return ahead + np.where(away < exact, away, np.minimum(far, side - 1))

    report = posenc.check("t5", impl=halves, positions=40)
    assert (report.ok, report.call) == (False, "bidirectional=false"), str(report)


def test_a_parameter_that_keeps_its_default_is_named():
    """MAE's cls_token, of which no reference says where it goes."""

    def mae(embed_dim, grid_size, cls_token=False):
        return grid(*grid_size)

    report = posenc.check("sinusoidal-nd", impl=mae, dim=D, grid=(4, 6))
    assert "cls_token" in report.verdict.partition("not tested: ")[2], str(report)


def test_positions_that_are_cut_are_not_said_to_be_clamped():
    report = posenc.check("timestep", impl=of_whole_ones, positions=range(0, 1000, 7), dim=D)
    assert report.cause_text == "position-offset: positions are truncated to integers"


def coarse_of_int32(position_ids):
    ids = np.asarray(position_ids)
    return sinusoid(ids.astype(np.float16) if ids.dtype == np.int32 else ids)


def to_bfloat16(values):
    return (np.asarray(values, np.float32).view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)


def rounded_twice(x, offset=0):
    rows = sinusoid(np.arange(x.shape[-2]) + offset)
    return x + (to_bfloat16(rows) if x.dtype == np.float16 else rows).astype(x.dtype)


def rounded_once(x, offset=0):
    return x + sinusoid(np.arange(x.shape[-2]) + offset).astype(x.dtype)


def to_grids(x):
    _, height, width, dim = x.shape
    return x + grid(height, width).reshape(height, width, dim)


def to_one_grid(x):
    batch, height, width, dim = x.shape
    rows = np.zeros((batch, height, width, dim))
    rows[0] = grid(height, width).reshape(height, width, dim)
    return x + rows


def to_exchanged_grids(x):
    _, height, width, dim = x.shape
    return x + grid(width, height).reshape(width, height, dim).swapaxes(0, 1)


@pytest.mark.parametrize(
    ("scheme", "function", "call", "settings"),
    [
        ("sinusoidal", coarse_of_int32, "positions of int32", {"positions": range(0, 20000, 17)}),
        ("sinusoidal", of_ids, None, {"positions": range(0, 20000, 17)}),
        ("sinusoidal", rounded_twice, "vectors in float16", {"positions": N}),
        ("sinusoidal", rounded_once, None, {"positions": N}),
        ("sinusoidal-nd", to_one_grid, "sequence 2 of two grids", {"grid": (4, 6)}),
        ("sinusoidal-nd", to_exchanged_grids, "", {"grid": (4, 6)}),
        ("sinusoidal-nd", to_grids, None, {"grid": (4, 6)}),
    ],
)
def test_formats_of_positions_and_vectors_and_grids_in_batches(scheme, function, call, settings):
    report = posenc.check(scheme, impl=function, dim=D, **settings)
    assert report.ok is (call is None), str(report)
    assert report.ok or report.call == call, str(report)


@pytest.mark.parametrize(("past", "ok"), [(1, True), (0, False)])
def test_the_shape_of_ids_gives_the_length(past, ok):
    """Marian's SinusoidalPositionalEmbedding, whose caller passes input_ids.size()."""

    def rows(input_ids_shape, past_key_values_length=0, position_ids=None):
        if position_ids is None:
            position_ids = np.arange(input_ids_shape[1]) + past * past_key_values_length
        return sinusoid(position_ids)

    report = reported("sinusoidal", rows)
    assert report.ok is ok, str(report)
    assert ("not tested" in report.verdict) is False


def test_cache_position_is_that_of_queries_among_keys_that_count_from_0():
    """transformers' T5Attention.compute_bias."""

    def compute_bias(query_length, key_length, cache_position=None):
        rows = np.arange(query_length) if cache_position is None else cache_position
        return -slopes(HEADS)[:, None, None] * np.abs(np.arange(key_length) - rows[:, None])

    report = reported("alibi", compute_bias)
    assert report.ok, str(report)

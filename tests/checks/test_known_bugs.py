"""Every known bug of encodings that rotate nothing is detected, named and worded.

The wrong values are written here, as the code of the reports does it, and never by posenc.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.checks.known_bugs.bug import BugCode
from posenc_cli.checks.search import KNOWN_BUGS
from posenc_cli.numerics.halves import round_to_half
from tests.checks.test_right_values import checked

pytestmark = pytest.mark.long

D, L = 32, 60


def rates(dim=D, base=1e4, steps=None):
    pairs = dim // 2
    return base ** (-np.arange(pairs) / (pairs if steps is None else steps))


def alternating(at, own=None):
    angles = np.asarray(at, float)[:, None] * (rates() if own is None else own)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(len(angles), -1)


def halves(at, own=None):
    angles = np.asarray(at, float)[:, None] * (rates() if own is None else own)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def by_column(exponent):
    """Kyubyong's, DeepCTR's and SamLynnEvans' tables: each column has an exponent of its own."""
    angles = np.arange(L)[:, None] / 1e4 ** (exponent * np.arange(D) / D)
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return angles


def cut_to_bfloat16(values):
    """The upper half of each float32, as code has it that shifts the bits by 16."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


AT = np.arange(L)
FLAT = {"dim": D}
CONCAT = {"dim": D, "layout": "concat"}
RANDOM = np.random.default_rng(5)
PERMUTED = RANDOM.permutation(L)
ONE_EXCHANGED = [0, 3, 2, 1, *range(4, D)]

ROWS = {
    "sines, then cosines": ("layout: two halves", halves(AT)),
    "sines beside cosines": ("layout: alternating", alternating(AT), CONCAT),
    "cosines first": (
        "cos-sin-mispaired: order|sin and cos are swapped",
        np.roll(halves(AT), D // 2, 1),
        CONCAT,
    ),
    "another base": ("base: base is 1000, not 10000", alternating(AT, rates(base=1e3))),
    "a rare base": ("base: base is 12345", alternating(AT, rates(base=12345.0))),
    "n − 1": ("frequency-rule: n − 1|tensor2tensor", alternating(AT, rates(steps=D // 2 - 1))),
    "exponents of columns": ("frequency-rule: 2c/32", by_column(2)),
    "exponents of odd columns": ("frequency-rule: c/32", by_column(1)),
    "exponents twice": ("frequency-rule: twice", alternating(AT, rates() ** 2)),
    "exponents above 0": ("frequency-rule: wrong sign", alternating(AT, 1 / rates())),
    "minus": ("direction: wrong sign", alternating(-AT)),
    "from 2": (
        r"position-offset: shifted by \+2: row 0 holds position 2, not 0",
        alternating(AT + 2),
    ),
    "from -3": ("position-offset: shifted by -3", alternating(AT - 3)),
    "steps of π": ("position-offset: steps of 3.14159", alternating(AT * np.pi)),
    "all in one turn": ("position-offset: steps of 0.10472", alternating(AT * 2 * np.pi / L)),
    "half steps": ("position-offset: steps of 0.5", alternating(AT / 2)),
    "centres": (r"position-offset: shifted by \+0.5", alternating(AT + 0.5)),
    "thirds": ("position-offset: steps of 0.333", alternating(1 + AT / 3)),
    "falling": ("position-offset: backward, from 59 to 0", alternating(AT[::-1])),
    "below zero": ("position-offset: steps of -2", alternating(5 - 2 * AT)),
    "clamped": ("position-offset: clamped at 31", alternating(np.minimum(AT, 31))),
    "again": ("position-offset: restart every 16", alternating(AT % 16)),
    "DiffPoseTalk's": (
        "position-offset: every position is treated as 60",
        alternating(0 * AT + 60),
    ),
    "the batch for positions": (
        "position-offset: every position is treated as 0",
        alternating(0 * AT),
    ),
    "one restart": (
        "position-offset: restart from 0 at 20$",
        alternating(np.where(AT < 20, AT, AT - 20)),
    ),
    "one position skipped": (
        r"position-offset: positions from 32 on are shifted by \+1$",
        alternating(AT + (AT >= 32)),
    ),
    "from 2, and clamped": (
        r"position-offset: shifted by \+2, and positions are clamped at 31",
        alternating(np.minimum(AT + 2, 31)),
    ),
    "clamped, of another base": (
        "base: ^base: base is 1000, .* and position-offset: positions are clamped at 31",
        alternating(np.minimum(AT, 31), rates(base=1e3)),
    ),
    "fairseq's padding": (
        r"padding-row: row 1 \(position 1\) is zeros",
        np.where(AT[:, None] == 1, 0, alternating(AT)),
    ),
    "times √d": ("scale: √32", alternating(AT) * 32**0.5),
    "MLX's": (r"scale: √\(2/32\)", halves(AT) * (2 / 32) ** 0.5, CONCAT),
    "PatchTST's": (
        "scale: mean of the table was subtracted, and the rest divided by ten standard deviations",
        (alternating(AT) - alternating(AT).mean()) / alternating(AT).std(ddof=1) / 10,
    ),
    "columns": ("unknown: no known bug", alternating(AT)[:, ONE_EXCHANGED]),
    "shuffled": ("unknown: no known bug", alternating(AT)[PERMUTED]),
    "bfloat16": ("table-precision: bfloat16", round_to_half(alternating(AT), "bfloat16")),
    "float16": ("table-precision: float16", round_to_half(alternating(AT), "float16")),
    "left padding": (
        "position-offset: first 10 positions are treated as 0, .* by -10, as with left padding$",
        alternating(np.maximum(AT - 10, 0)),
    ),
    "coarse rates": (
        "inv-freq-precision: frequencies were rounded to bfloat16",
        alternating(np.arange(300), round_to_half(rates(), "bfloat16")),
    ),
    "nothing": ("uninitialised: all values are 0", np.zeros((L, D))),
    "a NaN": (
        "not-a-number: 32 of 1920 values",
        np.where(AT[:, None] == 7, np.nan, alternating(AT)),
    ),
    "packed sequences": (
        "position-offset: restart from 0 at 7, 30, 31$",
        alternating(np.concatenate([np.arange(n) for n in (7, 23, 1, 29)])),
    ),
    "one restart, of another base": (
        "base: ^base: base is 1000, .* and position-offset: .* restart from 0 at 20",
        alternating(np.where(AT < 20, AT, AT - 20), rates(base=1e3)),
    ),
    "fewer columns": (
        "shape: 30 columns, not 32; the values in both are right",
        alternating(AT)[:, :30],
    ),
    "a row that nobody wrote": (
        r"uninitialised: row 17 \(position 17\) is zeros",
        np.where(AT[:, None] == 17, 0, alternating(AT)),
    ),
    "cut to bfloat16": ("table-precision: cut to bfloat16", cut_to_bfloat16(alternating(AT))),
    "two rows exchanged": (
        "unknown: no known bug",
        alternating(np.where(AT == 4, 9, np.where(AT == 9, 4, AT))),
    ),
    "minus the table": ("direction: all values have the wrong sign", -alternating(AT)),
    "noise": ("unknown: no known bug", RANDOM.normal(size=(L, D))),
    "MLX's full turns": ("parameter: full_turns is true", alternating(AT, 2 * np.pi * rates())),
}
"""Wrong rows of sinusoids: the code and words, the values, the reference if not ``FLAT``."""


def assert_named(report, told):
    code, words = told.split(": ", 1)
    assert not report.ok
    codes = [bug.code for bugs in report.explained for bug in bugs] or [report.cause]
    assert code in codes, report.cause_text
    assert re.search(words, report.cause_text), report.cause_text
    assert report.next_step


@pytest.mark.parametrize("case", ROWS)
def test_wrong_sinusoids_are_named(case):
    told, values, *given = ROWS[case]
    report = checked("sinusoidal", values.astype(np.float32), **(given[0] if given else FLAT))
    assert_named(report, told)


def grid(rows=4, columns=6, first=0):
    y, x = np.meshgrid(np.arange(rows) + first, np.arange(columns) + first, indexing="ij")
    return y.reshape(-1), x.reshape(-1)


Y, X = grid()
EIGHTH = rates(16)
MAE = {"dim": 32, "grid": "4x6"}
OF_GRID = np.concatenate([halves(X, EIGHTH), halves(Y, EIGHTH)], 1)
OFFSETS = np.arange(-(L - 1), L)
XL = {"dim": D}


def frames_3d(exchanged=False):
    """CogVideoX's table: a quarter of the columns for frames, three eighths each for x and y."""
    t, y, x = (a.reshape(-1) for a in np.meshgrid(*map(np.arange, (3, 4, 5)), indexing="ij"))
    if exchanged:
        y, x = x, y
    parts = [(t, rates(16)), (x, rates(24)), (y, rates(24))]
    return np.concatenate([halves(at, own) for at, own in parts], 1)


OTHERS = {
    "rows for columns": (
        "sinusoidal-nd",
        "axis: rows and columns are exchanged",
        np.concatenate([halves(Y, EIGHTH), halves(X, EIGHTH)], 1),
    ),
    "column by column": (
        "sinusoidal-nd",
        "grid-order: column by column",
        OF_GRID.reshape(4, 6, 32).transpose(1, 0, 2).reshape(24, 32),
    ),
    "merged patches": (
        "sinusoidal-nd",
        "grid-order: ^grid-order: tokens are ordered in 2×2 blocks",
        OF_GRID.reshape(2, 2, 3, 2, 32).transpose(0, 2, 1, 3, 4).reshape(24, 32),
    ),
    "columns × rows for rows × columns": (
        "sinusoidal-nd",
        "axis: ^axis: grid is 6x4, not 4x6$",
        np.concatenate([halves(at, EIGHTH) for at in grid(6, 4)[::-1]], 1),
    ),
    "height for frames": (
        "sinusoidal-nd",
        "axis: ^axis: grid is 3x4x5, not 4x3x5$",
        frames_3d(),
        {"dim": 64, "grid": "4x3x5", "convention": "cogvideox"},
    ),
    "DETR's first place": (
        "sinusoidal-nd",
        r"position-offset: shifted by \+1",
        np.concatenate([halves(X + 1, EIGHTH), halves(Y + 1, EIGHTH)], 1),
    ),
    "diffusers' base_size": (
        "sinusoidal-nd",
        "axis: base_size is 16x16, not none",
        np.concatenate([halves(X * 16 / 6, EIGHTH), halves(Y * 16 / 4, EIGHTH)], 1),
    ),
    "alternating on the grid": (
        "sinusoidal-nd",
        "layout: alternating",
        np.concatenate([alternating(X, EIGHTH), alternating(Y, EIGHTH)], 1),
    ),
    "cosines first on the grid": (
        "sinusoidal-nd",
        "cos-sin-mispaired: sin and cos are swapped",
        np.concatenate([np.roll(halves(at, EIGHTH), 8, 1) for at in (X, Y)], 1),
    ),
    "axes of a video": (
        "sinusoidal-nd",
        "axis: rows and columns are exchanged",
        frames_3d(exchanged=True),
        {"dim": 64, "grid": "3x4x5", "convention": "cogvideox"},
    ),
    "Wan's timesteps": (
        "timestep",
        "cos-sin-mispaired: flip_sin_to_cos is false, not true|sin and cos are swapped",
        halves(AT),
        {"dim": D, "flip_sin_to_cos": "true", "downscale_freq_shift": 0},
    ),
    "DDPM's shift": (
        "timestep",
        "frequency-rule: downscale_freq_shift is 0, not 1|i/n, not",
        halves(AT),
        {"dim": D},
    ),
    "Flux's factor": (
        "timestep",
        "parameter: scale is 1000, not 1",
        halves(AT * 1000, rates(steps=15)),
        {"dim": D},
    ),
    "key − query": (
        "transformer-xl",
        "key-query: offsets are query − key, not key − query",
        halves(OFFSETS),
    ),
    "speechbrain's": ("transformer-xl", "key-query: not negated", halves(np.abs(OFFSETS))),
    "bits from the lowest": (
        "binary",
        "parameter: ^parameter: order is lsb-first, not msb-first$",
        AT[:, None] >> np.arange(8) & 1,
        {"dim": 8},
    ),
    "bfloat16 positions": (
        "sinusoidal",
        "position-precision: positions were rounded to bfloat16",
        alternating(round_to_half(np.arange(600.0), "bfloat16")),
    ),
}
"""Wrong rows of other schemes: the scheme, code and words, values, a reference of their own."""


@pytest.mark.parametrize("case", OTHERS)
def test_wrong_rows_of_other_schemes_are_named(case):
    scheme, told, values, *given = OTHERS[case]
    usual = {"sinusoidal": FLAT, "sinusoidal-nd": MAE, "transformer-xl": XL}
    report = checked(scheme, values.astype(np.float32), **(given[0] if given else usual[scheme]))
    assert_named(report, told)


H = 12
PRESS = np.array([2.0**-h for h in range(1, 9)] + [2.0 ** -(h + 0.5) for h in range(4)])
SIXTEEN = 2.0 ** (-np.arange(1, 17) / 2)
POSITIONS = np.arange(20)
AWAY = POSITIONS[None] - POSITIONS[:, None]
LATER = AWAY > 0


def alibi(slopes=PRESS, distances=None):
    return slopes[:, None, None] * (-np.abs(AWAY) if distances is None else distances)


SCORES = {
    "sign": ("direction: wrong sign", -alibi()),
    "causal": ("causal: the score 0", np.where(LATER, 0, alibi())),
    "signed": ("causal: of the wrong sign", alibi(distances=AWAY)),
    "naive, and the sign": (
        "slopes: ^slopes: these are the slopes of the convention naive and direction: [^,]*$",
        -alibi(2.0 ** (-8 * np.arange(1, 13) / 12)),
    ),
    "MPT's form": ("causal: form=mpt", alibi(distances=np.broadcast_to(POSITIONS - 19, (20, 20)))),
    "naive": ("slopes: the convention naive", alibi(2.0 ** (-8 * np.arange(1, 13) / 12))),
    "next power": ("slopes: 16 heads, the next power of two", alibi(SIXTEEN[:12])),
    "from 0": ("slopes: start at 0", alibi(2.0 ** (-8 * np.arange(12) / 12))),
    "half of the heads": ("heads: 6 of 12 are 0", alibi(PRESS * (np.arange(12) < 6))),
    "rolled": ("heads: head 0 has the scores of head 1", alibi(np.roll(PRESS, -1))),
    "a key further": (
        r"position-offset: keys are shifted by \+1",
        alibi(distances=-np.abs(AWAY + 1)),
    ),
    "queries from 0 beside a cache": (
        "position-offset: ^position-offset: queries count from 0, not from 16$",
        alibi(distances=-np.abs(POSITIONS[None] - POSITIONS[:4, None])),
    ),
    "a query from 0 beside a cache": (
        "position-offset: ^position-offset: queries count from 0, not from 19$",
        alibi(distances=-np.abs(POSITIONS[None])),
    ),
    "Falcon's": ("scale: 1/√64", alibi() / 8),
    "base 2": ("scale: log2 e", alibi() / math.log(2)),
    "bfloat16": ("table-precision: bfloat16", round_to_half(alibi(), "bfloat16")),
    "bfloat16 slopes": (
        "slopes: ^slopes: the slopes were rounded to bfloat16$",
        alibi(round_to_half(PRESS, "bfloat16")),
    ),
    "nothing": ("uninitialised: all values are 0", 0 * alibi()),
    "noise": ("unknown: no known bug", RANDOM.normal(size=(12, 20, 20))),
}
"""Wrong scores of ALiBi: the code and the words, the values."""


@pytest.mark.parametrize("heads", [8, 12])
def test_coarse_distances_are_named_beside_all_that_gives_the_same_scores(heads):
    """Falcon rounds them; of slopes that are powers of 2, rounded distances are rounded scores."""
    away = np.abs(np.arange(300) - np.arange(300)[:, None])
    scores = -PRESS[:heads, None, None] * round_to_half(away.astype(float), "bfloat16")
    report = checked("alibi", scores.astype(np.float32), heads=heads, positions="0:300")
    own = "position-precision: distances were rounded to bfloat16"
    both = f"either table-precision: the values were rounded to bfloat16, or {own}"
    assert report.cause_text == (both if heads == 8 else own)


@pytest.mark.parametrize("last", [True, False])
def test_waves_computed_in_bfloat16_throughout_are_named(last):
    at, own = (round_to_half(each, "bfloat16") for each in (np.arange(512.0), rates()))
    angles = round_to_half(at[:, None] * own, "bfloat16")
    values = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(512, D)
    values = round_to_half(values, "bfloat16") if last else values
    report = checked("sinusoidal", values.astype(np.float32), positions="0:512", **FLAT)
    steps = "position-precision: positions, frequencies and their products were rounded to bfloat16"
    stored = " and table-precision: the values were rounded to bfloat16"
    assert report.cause_text == steps + (stored if last else "")


def test_positions_cut_to_whole_numbers_are_not_called_clamped():
    at = np.array([0.5, 7.5, 14.5, 21.5, 28.5])
    values = halves(np.floor(at), rates(steps=15))[:, [*range(D // 2, D), *range(D // 2)]]
    given = {"dim": D, "positions": "0.5:29:7"}
    report = checked("timestep", values.astype(np.float32), **given, flip_sin_to_cos=True)
    assert report.cause_text == "position-offset: positions are truncated to integers"
    shifted = halves(at + 0.25, rates(steps=15))[:, [*range(D // 2, D), *range(D // 2)]]
    report = checked("timestep", shifted.astype(np.float32), **given, flip_sin_to_cos=True)
    assert "shifted by +0.25: row 0 holds position 0.75, not 0.5" in report.cause_text


@pytest.mark.parametrize("case", SCORES)
def test_wrong_scores_are_named(case):
    told, values = SCORES[case]
    assert_named(checked("alibi", values.astype(np.float32), heads=H), told)


SLOPES = {
    "from 0": ("slopes: start at 0", 2.0 ** (-8 * np.arange(12) / 12)),
    "naive": ("slopes: naive", 2.0 ** (-8 * np.arange(1, 13) / 12)),
    "next power": ("slopes: next power of two", SIXTEEN[:12]),
    "sorted": ("slopes: sorted", np.sort(PRESS)[::-1]),
    "reversed": ("slopes: reverse order", PRESS[::-1]),
    "sign": ("direction: sign of the bias", -PRESS),
    "max_bias": ("slopes: max.bias.*16", 2.0 ** -np.arange(2, 18, 2.0)),
    "rounded": ("table-precision: bfloat16", round_to_half(PRESS, "bfloat16")),
    "exchanged": (
        r"heads: head 2 has the slope of head 5 \(2 of 12 heads differ\)",
        PRESS[[0, 1, 5, 3, 4, 2, *range(6, 12)]],
    ),
    "one of 0": (r"heads: no slope in head 3 \(1 of 12 are 0\)", PRESS * (np.arange(12) != 3)),
    "NaN": ("not-a-number: 1 of 12", np.where(np.arange(12) == 3, np.nan, PRESS)),
    "nothing": ("uninitialised: all values are 0", 0 * PRESS),
}


@pytest.mark.parametrize("case", SLOPES)
def test_wrong_slopes_are_named(case):
    told, values = SLOPES[case]
    assert_named(checked("alibi", values, kind="slopes", heads=len(values)), told)


def t5(r, buckets=32, *, distance=128, least=True, both=True):
    side = buckets // 2 if both else buckets
    right, r = (side, abs(r)) if both and r > 0 else (0, abs(r) if both else max(-r, 0))
    single = side // 2
    if r < single:
        return right + r
    bucket = single + int(math.log(r / single) / math.log(distance / single) * (side - single))
    return right + (min(bucket, side - 1) if least else bucket)


def deberta(r, most=512):
    a = abs(r)
    far = math.ceil(math.log(max(a, 128) / 128) / math.log((most - 1) / 128) * 127) + 128
    return r if a <= 128 else (1 if r > 0 else -1) * far


def window(rows, columns, stride):
    places = np.arange(rows * columns)
    r, c = places // columns, places % columns
    return (r[:, None] - r + rows - 1) * stride + c[:, None] - c + columns - 1


RELATIVE = range(-300, 301)
BUCKETS = {
    "past the last": ("t5", "buckets: minimum is missing", [t5(r, least=False) for r in RELATIVE]),
    "query − key": ("t5", "key-query: query − key, not key − query", [t5(-r) for r in RELATIVE]),
    "an encoder's": (
        "t5",
        "buckets: bidirectional is true, not false",
        [t5(r) for r in RELATIVE],
        {"bidirectional": "false"},
    ),
    "a decoder's": (
        "t5",
        "buckets: bidirectional is false, not true",
        [t5(r, both=False) for r in RELATIVE],
    ),
    "WavLM's distance": (
        "t5",
        "buckets: max_distance is 800",
        [t5(r, distance=800) for r in RELATIVE],
    ),
    "half as many": ("t5", "buckets: num_buckets is 16", [t5(r, 16) for r in RELATIVE]),
    "DeBERTa's length": (
        "deberta",
        "buckets: max_position is 601, not 512",
        [deberta(r, 601) for r in range(-600, 601)],
    ),
    "DeBERTa's sign": (
        "deberta",
        "key-query: key − query, not query − key",
        [deberta(-r) for r in range(-600, 601)],
    ),
    "the other side's stride": (
        "swin",
        r"window: stride of row offsets is 5 \(2·rows − 1\), not 9",
        window(3, 5, 5),
        {"window_size": "3x5"},
    ),
    "nnFormer's stride": (
        "swin",
        "window: 3·columns − 1",
        window(3, 5, 14),
        {"window_size": "3x5"},
    ),
    "key − query in a window": (
        "swin",
        "key-query: key − query, not query − key",
        window(3, 5, 9).T,
        {"window_size": "3x5"},
    ),
    "SpeechT5's": (
        "shaw",
        "key-query: query − key, not key − query",
        np.clip(-AWAY, -5, 5) + 5,
        {"max_distance": 5},
    ),
    "T5's keys from 1": (
        "t5",
        r"position-offset: keys are shifted by \+1",
        [t5(r + 1) for r in RELATIVE],
    ),
    "DeBERTa's keys from −1": (
        "deberta",
        "position-offset: keys are shifted by -1",
        [deberta(r + 1) for r in range(-600, 601)],
    ),
    "noise": ("t5", "unknown: no known bug", RANDOM.integers(0, 32, 601)),
}
"""Wrong buckets: the scheme, code and words, values, and what else the reference is given."""


@pytest.mark.parametrize("case", BUCKETS)
def test_wrong_buckets_are_named(case):
    scheme, told, values, *given = BUCKETS[case]
    report = checked(scheme, values, kind="buckets", **(given[0] if given else {}))
    assert_named(report, told)


@pytest.fixture
def layers(tmp_path):
    """Tables of two layers of two models, in files of several arrays."""
    shapes = {"learned": (70, 16), "t5": (32, 4)}
    tables = {}
    for name, shape in shapes.items():
        first, second = np.random.default_rng(8).normal(size=(2, *shape)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", **{"layer.0.table": first, "layer.1.table": second})
        tables[name] = str(tmp_path / f"{name}.npz") + ":layer.0.table", first, second
    return tables


def test_the_table_of_another_layer_is_named(layers):
    weights, _, second = layers["learned"]
    report = checked("learned", second, weights=weights)
    assert_named(report, r"layer: table layer\.1\.table of the same file")
    weights, _, second = layers["t5"]
    numbers = np.array([[t5(k - q) for k in range(20)] for q in range(20)])
    wrong = np.moveaxis(second[numbers], 2, 0)
    assert_named(checked("t5", wrong, weights=weights), r"layer: layer\.1\.table")


def test_rows_of_a_learned_table_that_are_moved_are_named(layers):
    weights, table, _ = layers["learned"]
    report = checked("learned", table[:68], weights=weights, offset=2)
    assert_named(report, "position-offset: row 0 of the table, not row 2|offset is 0, not 2")
    padded = table[[1] * 7 + [*range(2, 50)]]  # OPT's row of padding tokens
    report = checked("learned", padded, weights=weights, offset=2)
    words = "the first 7 positions are treated as -1, and later ones are shifted by -7"
    assert_named(report, f"position-offset: {words}")
    report = checked("learned", table[5:], weights=weights)
    assert_named(report, "position-offset: row 0 holds position 5, not 0")
    report = checked("learned", table[::-1], weights=weights)
    assert_named(report, "position-offset: backward")
    report = checked("learned", table * 4, weights=weights)
    assert_named(report, "scale: √16")


def test_scores_of_learned_tables_are_named(layers):
    weights, table, _ = layers["t5"]
    away = np.arange(200)[None] - np.arange(200)[:, None]
    numbers = np.vectorize(t5)(-away)
    report = checked("t5", np.moveaxis(table[numbers], 2, 0), weights=weights)
    assert_named(report, "key-query: query − key, not key − query")
    numbers = np.vectorize(lambda r: t5(r, both=False))(away)
    report = checked("t5", np.moveaxis(table[numbers], 2, 0), weights=weights)
    assert_named(report, "buckets: bidirectional is false, not true")


BOTH = {
    "layout and base": (("layout", "base"), halves(AT, rates(base=5e3))),
    "layout and offset": (("layout", "position-offset"), halves(AT + 2)),
    "scale and layout": (("layout", "scale"), 4 * halves(AT)),
    "fairseq's table from its first row": (
        *(("padding-row", "position-offset"),),
        np.where(AT[:, None] == 1, 0, alternating(AT)),
        {**FLAT, "start": 2},
    ),
    "cosines first, in halves": (("cos-sin-mispaired", "layout"), np.roll(halves(AT), D // 2, 1)),
    "base and exponents": (("frequency-rule", "base"), alternating(AT, rates(base=5e3, steps=15))),
    "offset and base": (("base", "position-offset"), alternating(AT + 2, rates(base=5e3))),
    "offset and scale": (("scale", "position-offset"), 4 * alternating(AT + 2)),
    "offset and exponents": (
        ("frequency-rule", "position-offset"),
        alternating(AT + 1, rates() ** 2),
    ),
    "offset and sines": (
        ("cos-sin-mispaired", "position-offset"),
        np.roll(halves(AT + 2), D // 2, 1),
        CONCAT,
    ),
    "base and scale": (("base", "scale"), 8 * alternating(AT, rates(base=1e3))),
    "offset in float16": (
        ("position-offset", "table-precision"),
        round_to_half(alternating(AT + 2), "float16"),
    ),
    "base in bfloat16": (
        ("base", "table-precision"),
        round_to_half(alternating(AT, rates(base=1e3)), "bfloat16"),
    ),
    "scale in bfloat16, cut": (("scale", "table-precision"), cut_to_bfloat16(4 * alternating(AT))),
    "NaN in moved rows": (
        ("not-a-number", "position-offset"),
        np.where(np.arange(L * D).reshape(L, D) % 199, alternating(AT + 2), np.nan),
    ),
}


@pytest.mark.parametrize("case", BOTH)
def test_two_bugs_at_once_are_both_named(case):
    codes, values, *given = BOTH[case]
    given = {"start": 0, **(given[0] if given else FLAT)}
    first = given.pop("start")
    where = f"{first}:{first + len(values)}"
    report = checked("sinusoidal", values.astype(np.float32), positions=where, **given)
    told = [sorted(bug.code for bug in bugs) for bugs in report.explained]
    assert sorted(codes) in told, report.cause_text
    assert len({*map(tuple, told)}) == len(told), "said twice, in two orders"


ONE_ROW_WRONG = alternating(AT)
ONE_ROW_WRONG[13] = ONE_ROW_WRONG[13, ::-1]
ONE_NAN = alternating(AT)
ONE_NAN[5, 3], ONE_NAN[7, 1] = np.nan, 9
NEXT = {
    "signs": (alternating(-AT), FLAT, "sinusoidal", "negate the sines, or the positions"),
    "shift": (
        *(halves(AT), {"dim": D}, "timestep"),
        "compute with downscale_freq_shift=1, or check against --set downscale_freq_shift=0",
    ),
    "reversed heads of the wrong sign": (
        *(-alibi(SIXTEEN[1::2][::-1]), {"heads": 8}, "alibi"),
        (
            "use the slopes that posenc alibi-slopes prints, and negate the values; or negate the "
            "values, and give each head its own scores, or slope"
        ),
    ),
    "one row": (
        *(ONE_ROW_WRONG, FLAT, "sinusoidal"),
        "check what writes row 13 of 60; the other values are right",
    ),
    "one NaN": (
        *(ONE_NAN, FLAT, "sinusoidal"),
        "check what writes rows 5, 7 of 60, columns 1, 3 of 32; the other values are right",
    ),
}
"""Wrong values, their reference, and the next step that helps."""


@pytest.mark.parametrize("case", NEXT)
def test_the_next_step_helps(case):
    values, given, scheme, step = NEXT[case]
    report = checked(scheme, values.astype(np.float32), **given)
    assert report.next_step == step
    assert ("NaN or infinite: 1" in report.cause_text) == (case == "one NaN")


@pytest.mark.parametrize("wrong", ["cut", "one value", "one row"])
def test_values_on_a_coarse_grid_are_not_called_rounded_unless_all_are_roundings(wrong):
    rounded = round_to_half(alternating(AT), "bfloat16")
    if wrong == "one row":
        rounded[20] = round_to_half(alternating(AT)[21], "bfloat16")
    elif wrong == "one value":
        rounded[20, 3] += 0.0625
    else:  # half of them up, half down: neither nearest nor toward 0
        bits = cut_to_bfloat16(alternating(AT)).view(np.uint32)
        rounded = np.where(AT[:, None] % 2, bits, bits + 0x10000).view(np.float32)
    report = checked("sinusoidal", rounded.astype(np.float32), **FLAT)
    assert report.cause == "unknown", report.cause_text


ROOT = D**0.5
SUMS = {
    "nothing": ("not-added: nothing is added", lambda x, _: x),
    "minus": ("not-added: subtracted", lambda x, p: x - p),
    "times √d": ("not-added: vectors are multiplied by √d", lambda x, p: x * ROOT + p),
    "mean": ("unknown: no known bug", lambda x, p: (x + p) / 2**0.5),
    "twice": ("scale: multiplied by 2", lambda x, p: x + 2 * p),
    "in bfloat16": (
        "table-precision: the sum was rounded to bfloat16",
        lambda x, p: round_to_half(x + round_to_half(p, "bfloat16"), "bfloat16"),
    ),
    "in float16": (
        "table-precision: the sum was rounded to float16",
        lambda x, p: round_to_half(x + p, "float16"),
    ),
}


@pytest.mark.parametrize("case", SUMS)
def test_vectors_to_which_rows_are_added_wrongly_are_named(case):
    told, add = SUMS[case]
    x = np.random.default_rng(3).normal(size=(L, D)).astype(np.float32)
    y = add(x, alternating(AT).astype(np.float32)).astype(np.float32)
    report = checked("sinusoidal", (x, y), kind="vectors", **FLAT)
    assert_named(report, told)
    assert len(report.explained) == (not told.startswith("unknown"))


@pytest.mark.parametrize("share", [1, ROOT])
def test_two_bugs_of_added_vectors_are_both_named_and_no_others(share):
    x = np.random.default_rng(3).normal(size=(L, D)).astype(np.float32)
    y = x - alternating(AT, rates(base=1e3))
    report = checked("sinusoidal", (x, y.astype(np.float32)), kind="vectors", **FLAT)
    told = [sorted(bug.code for bug in bugs) for bugs in report.explained]
    assert told == [["base", "not-added"]], report.cause_text
    wrong = (share * x + y).astype(np.float32)
    report = checked("sinusoidal", (x, wrong), kind="vectors", **FLAT)
    assert report.cause == "unknown", report.cause_text
    noise = np.random.default_rng(4).normal(size=(L, D)).astype(np.float32)
    report = checked("sinusoidal", (x, share * x + noise), kind="vectors", **FLAT)
    assert report.cause == "unknown", report.cause_text


@pytest.mark.parametrize("case", ["later scores", "NaN", "zeros", "zeros and NaN"])
def test_no_bug_is_named_for_values_that_it_does_not_give(case):
    """Each looks like two bugs, but for what the first of them would hide."""
    if case == "later scores":  # as scaled, and 0 after the query: they are neither
        report = checked("alibi", np.where(LATER, 5.0, 3 * alibi()), heads=H)
    else:
        values = alternating(AT + 2)
        values[1] = np.nan if case == "NaN" else 0
        values[1, 5] = 0 if case == "zeros and NaN" else 0.5
        values[9, 9] = np.nan if case == "zeros and NaN" else values[9, 9]
        report = checked("sinusoidal", values, **FLAT)
    codes = {bug.code for bugs in report.explained for bug in bugs}
    assert not codes & {"causal", "padding-row", "uninitialised"}, report.cause_text
    assert codes <= {"not-a-number", "position-offset", "unknown"}
    assert not report.ok


def test_a_measured_factor_is_named_only_if_it_gives_the_values():
    """In bfloat16, 0.1022 is within a rounding of 1/√96, and gives other values."""
    away = -np.abs(np.arange(16)[:, None] - np.arange(16))
    slopes = 2.0 ** np.array([-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5])
    rounded = round_to_half(away * slopes[:, None, None] / 96**0.5, "bfloat16")
    report = checked("alibi", rounded.astype(np.float32), heads=12)
    assert "multiplied by 1/√96 (0.102062)" in report.cause_text
    noise = 1 + 0.003 * np.sin(np.arange(rounded.size)).reshape(rounded.shape)
    near = round_to_half(away * slopes[:, None, None] * 0.0611 * noise, "bfloat16")
    assert "multiplied" not in checked("alibi", near.astype(np.float32), heads=12).cause_text


def test_a_single_wrong_value_is_unknown_and_its_place_is_told():
    values = alternating(AT).astype(np.float32)
    values[17, 5] += 0.01
    report = checked("sinusoidal", values, **FLAT)
    assert (report.cause, report.differing) == ("unknown", 1)
    assert report.worst.at == {"position": 17, "column": 5}
    assert report.where == {"rows": "17 of 60", "columns": "5 of 32"}


def test_every_row_of_the_table_is_applied_by_a_case_and_says_where_it_was_seen():
    cases = [
        *(told for told, *_ in (*ROWS.values(), *SCORES.values(), *SLOPES.values())),
        *(told for _, told, *_ in (*OTHERS.values(), *BUCKETS.values())),
        *("layer", "not-added"),
    ]
    assert {*map(str, BugCode)} == {told.partition(":")[0] for told in cases}
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    for code in BugCode:
        assert f"| `{code}` | {code.meaning} |" in page
    for bug in KNOWN_BUGS:
        assert "https://github.com/" in bug.seen
        assert bug.remedy[0].islower(), "like every next step"
        assert not bug.remedy.endswith(".")


def test_values_that_are_not_finite_are_counted_in_all_rows_beside_another_bug():
    values = halves(np.arange(600)).astype(np.float32)
    values[np.arange(40) * 15, 3] = np.nan
    report = checked("sinusoidal", values, **FLAT)
    assert f"40 of {values.size} values are NaN or infinite" in report.cause_text


def test_a_slow_wave_whose_base_would_be_past_float64_ends_in_a_report():
    """It ended in an OverflowError."""
    at = np.arange(20.0)
    values = np.stack([np.sin(at), np.cos(at), 1e-160 * at, np.ones(20)], 1)
    assert not checked("sinusoidal", values, dim=4).ok


@pytest.mark.parametrize(
    ("own", "read", "message"),
    [
        (np.arange(100, 400), lambda p: p % 64, "positions restart every 64: a buffer or chunk"),
        (np.arange(300)[::-1], lambda p: p % 10, "positions restart every 10: a buffer or chunk"),
        (np.arange(600), lambda p: p % 64 + 9, "positions are shifted by +9, and positions re"),
        (np.arange(600), lambda p: p + 150 * (p < 10), "positions before 10 are shifted by +150"),
        (np.arange(9), lambda p: (p - 1) % 9, "position 0 is treated as 8, and later ones are s"),
    ],
)
def test_moved_positions_are_named_by_their_rule_wherever_and_in_whatever_order(own, read, message):
    moved = posenc.encode("sinusoidal", read(own), dim=32)
    cause = posenc.check("sinusoidal", moved, positions=own, dim=32).cause_text
    assert cause.startswith(f"position-offset: {message}")
    assert "padding" not in cause

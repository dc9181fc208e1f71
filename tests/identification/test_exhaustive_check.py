"""Identification is held against every cell: damage is named, and nothing is said of a sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.errors import PosencError
from posenc_cli.files.reading import Loaded
from posenc_cli.identification.search import identify, identify_files
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.trial import Census, Largest
from tests.examples import examples
from tests.matrices import matrix


def of(*arrays, dtype=None):
    return identify(Evidence.of_arrays(*arrays, dtype=dtype))


def half_tables(positions="0:4096", **params):
    params = {"dim": 128, "base": 500_000.0, **params}
    return [matrix("rope", positions, table=table, **params) for table in ("cos", "sin")]


@pytest.mark.long
@pytest.mark.sweep(15)
@pytest.mark.parametrize("damage", [0.5, np.nan, np.inf, 3e-6])
@pytest.mark.parametrize("row", [0, 5, 777, 4095])
def test_a_damaged_row_is_named_wherever_it_is(row, damage):
    cos, sin = half_tables()
    cos[row, 10] += damage
    result = of(cos, sin)
    assert result.match is None
    near = result.nearest
    assert (near.scheme, near.params["base"]) == ("rope", 500_000.0)
    assert near.census.misfit_rows.tolist() == [row]
    assert (near.census.largest.file, near.census.largest.at) == (0, (row, 10))
    assert (near.census.cells, near.census.equal) == (2 * cos.size, 2 * cos.size - 1)
    assert not near.exact
    assert "llama-3-8b" in near.models


@pytest.mark.slow
def test_all_damaged_rows_are_counted_and_the_largest_difference_is_the_largest():
    cos, sin = half_tables()
    rows = [2, 300, 777, 1000, 4000]
    for step, row in enumerate(rows):
        sin[row, 3 * step] += 0.01 * (step + 1)
    near = of(cos, sin).nearest
    assert near.census.misfit_rows.tolist() == rows
    assert near.census.largest.at == (4000, 12)
    assert near.census.largest.file == 1
    assert near.residual == pytest.approx(0.05, rel=1e-4)


@pytest.mark.long
def test_rows_from_some_row_on_are_named_though_they_are_more_than_half():
    cos, sin = half_tables("0:2048")
    cos[900:] = cos[899]
    near = of(cos, sin).nearest
    assert near.census.misfit_rows.tolist() == list(range(900, 2048))


@pytest.mark.long
def test_a_large_angle_is_no_excuse_where_the_others_of_its_column_need_none():
    """Code in float32 may be off by 0.9 at this angle; here it is not, column 0 being integers."""
    positions = np.arange(900_000, 902_048, dtype=np.float32)[:, None]
    frequencies = (1 / 500_000.0 ** (np.arange(16, dtype=np.float32) / np.float32(16))).astype("f")
    angles = positions * frequencies
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    assert of(table).match.scheme == "rope"
    table[1000, 0] += 0.4
    assert of(table).nearest.census.misfit_rows.tolist() == [1000]


@pytest.mark.slow
def test_zeros_are_padding_in_the_first_two_rows_alone():
    table = matrix("sinusoidal", "0:600", dim=32, layout="concat")
    padded = table.copy()
    padded[1] = 0
    found = of(padded).match
    assert (found.scheme, found.exact) == ("sinusoidal", False)
    assert any("row 1 holds zeros" in note for note in found.notes)
    for row in (2, 333):
        damaged = table.copy()
        damaged[row] = 0
        assert of(damaged).nearest.census.misfit_rows.tolist() == [row]


@pytest.mark.slow
def test_rows_are_counted_from_the_first_of_the_file_behind_a_class_token(golden):
    table = golden("sin2d_mae_d64_g14_cls0")[1]["table"]
    assert of(table).match.scheme == "sinusoidal-nd"
    damaged = table.copy()
    damaged[100, 7] += 0.1
    assert of(damaged).nearest.census.misfit_rows.tolist() == [100]
    exact = matrix("sinusoidal", "0:1500", dim=16)
    shifted = np.concatenate([np.zeros((1, 16), np.float32), exact])
    shifted[1200, 3] += 0.1
    assert of(shifted).nearest.census.misfit_rows.tolist() == [1200]


def test_of_equal_differences_in_two_parts_the_first_is_named():
    parts = [
        Census(1, 64, 63, 0.5, Largest(0.5, 0, (row, 5), 1.0, 0.5), 1, np.array([row]))
        for row in (3, 9)
    ]
    assert parts[0].followed_by(parts[1]).largest.at == (3, 5)


@pytest.mark.slow
def test_values_off_the_grid_of_their_sample_are_seen():
    table = matrix("rope", "0:4096", dim=16, dtype="float16").astype(np.float32)
    found = of(table).match
    assert (found.rounded, found.census.on_grid, found.exact) == ("float16", True, True)
    table[2500, 3] = np.nextafter(table[2500, 3], np.float32(0))
    found = of(table).match
    assert (found.census.on_grid, found.exact) == (False, False)


@pytest.mark.parametrize("factor", [1 + 9e-7, 1 - 9e-7])
def test_frequencies_of_which_none_is_equal_are_no_models(factor):
    values = 10_000.0 ** (-np.arange(32) / 32) * factor
    found = of(values).match
    assert (found.scheme, found.exact, found.equal, found.models) == ("rope", False, 0.0, ())
    assert found.residual == pytest.approx(abs(factor - 1), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.2, 0.9])
def test_a_louder_table_is_no_longrope_of_invented_factors(factor):
    table = matrix("rope", "0:512", dim=64, base=1e6)
    match = of(table * np.float32(factor)).match
    assert (match.scheme, match.multiplied) == ("rope", pytest.approx(factor))
    frequencies = 1e6 ** (-np.arange(32) / 32) * factor
    assert "rope-longrope" not in {each.scheme for each in of(frequencies).candidates}


@pytest.mark.slow
def test_factors_of_no_rule_are_not_read_off():
    factors = np.random.default_rng(0).uniform(1, 8, 32)
    frequencies = 10_000.0 ** (-np.arange(32) / 32) / np.sort(factors)
    angles = np.arange(400)[:, None] * frequencies
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    for values in (table, frequencies):
        assert of(values).match is None


def test_a_full_table_is_a_models_only_in_the_models_layout():
    for layout, named in (("half", True), ("interleaved", False)):
        tables = [
            matrix("rope", "0:64", table=f"{name}-full", dim=128, base=500_000.0, layout=layout)
            for name in ("cos", "sin")
        ]
        found = of(*tables).match
        assert found.layout == layout
        assert ("llama-3-8b" in found.models) == named


# Biases.


@pytest.mark.slow
def test_a_damaged_score_is_named_by_head_query_and_key():
    bias = matrix("alibi", "0:100", heads=12)
    assert of(bias).match.exact
    for query in (17, 50, 99):
        damaged = bias.copy()
        damaged[3, query, 5] += 0.1
        near = of(damaged).nearest
        assert near.census.misfits == 1
        assert near.census.misfit_rows.tolist() == [3 * 100 + query]
        assert near.census.largest.at == (3 * 100 + query, 5)


def test_a_mask_hides_what_is_low_and_nothing_else():
    bias = matrix("alibi", "0:60", heads=4)
    bias[:, np.triu(np.ones((60, 60), bool), 1)] = -np.inf
    found = of(bias).match
    assert found.census.hidden == 4 * 60 * 59 // 2
    assert found.census.cells + found.census.hidden == bias.size
    bias[2, 40, 7] = np.nan
    assert of(bias).nearest.census.misfit_rows.tolist() == [2 * 60 + 40]


@pytest.mark.slow
def test_a_learned_bias_is_held_to_its_buckets_in_every_row():
    bias = matrix("t5", "0:120", heads=4, seed=99).copy()
    found = of(bias).match
    assert (found.scheme, found.arithmetic, found.models) == ("t5", None, ())
    bias[1, 61, 3] += 1e-3
    assert of(bias).nearest.census.misfit_rows.tolist() == [120 + 61]


# What broke an identification.


@examples(25)
@given(
    base=st.sampled_from([1e4, 5e5, 1e6, 777.0, 2.0, 1e300]),
    count=st.sampled_from([2, 3, 32, 64, 128, 192, 256, 384, 512]),
    units=st.integers(-3, 3),
    dtype=st.sampled_from(["float64", "float32", "float16"]),
    twice=st.booleans(),
)
def test_ladders_of_any_last_bits_end_in_a_verdict(*, base, count, units, dtype, twice):
    values = (base ** -(np.arange(count) / count) * (1 + units * 2.0**-52)).astype(dtype)
    result = of(*[values] * (1 + twice), dtype=dtype)
    for candidate in result.candidates:
        assert candidate.residual >= 0
    if twice:
        assert result.match is None


def _filled(kind, shape, generator):
    count, width = int(np.prod(shape)), shape[-1]
    rows = np.arange(count // width)[:, None]
    ladder = 10_000.0 ** -(np.arange(width) / width)
    made = {
        "normal": lambda: generator.normal(size=shape),
        "steps": lambda: np.arange(count) * 1.0,
        "bits": lambda: generator.choice([0.0, 1.0], size=shape),
        "cosines": lambda: np.cos(rows * ladder),
        "angles": lambda: rows * ladder,
        "ladder": lambda: np.broadcast_to(ladder, (rows.size, width)),
        "distances": lambda: -0.5 * np.abs(np.arange(width) - rows),
        "constant": lambda: np.full(shape, 0.25),
    }[kind]()
    return np.array(made, np.float64).reshape(shape)


SHAPES = [(2,), (7,), (64,), (1, 8), (8, 1), (2, 2), (5, 3), (16, 16), (40, 8), (9, 8)]
SHAPES += [(2, 4, 4), (3, 1, 5), (1, 1, 8), (2, 1, 1), (2, 3, 4, 5), (60, 60), (1100, 4)]


@examples(60)
@given(
    shape=st.sampled_from(SHAPES),
    kinds=st.lists(
        st.sampled_from(
            ["normal", "steps", "bits", "cosines", "angles", "ladder", "distances", "constant"]
        ),
        min_size=1,
        max_size=2,
    ),
    size=st.sampled_from([0.0, 5e-324, 1e-30, 1.0, 1.2, -1.0, 65504.0, 1e300]),
    blemishes=st.lists(st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1e308, 0.3]), max_size=2),
    dtypes=st.lists(
        st.sampled_from(["float64", "float32", "float16", "complex64", "complex128"]),
        min_size=2,
        max_size=2,
    ),
    path=st.sampled_from(["a.npy", "a.csv"]),
    seed=st.integers(0, 9),
)
def test_no_valid_array_breaks_an_identification(
    *, shape, kinds, size, blemishes, dtypes, path, seed
):
    generator = np.random.default_rng(seed)
    loaded = []
    for kind, dtype in zip(kinds, dtypes, strict=False):
        with np.errstate(all="ignore"):
            values = _filled(kind, shape, generator) * size
            for blemish in blemishes:
                values.flat[generator.integers(values.size)] = blemish
            loaded.append(Loaded(values.astype(dtype), dtype, path))
    try:
        result = identify_files(loaded)
    except PosencError:
        return
    for candidate in result.candidates:
        assert candidate.residual >= 0
        assert candidate.exact <= candidate.fits
        if candidate.exact:
            assert candidate.residual == 0


@pytest.mark.long
def test_rows_gathered_from_anywhere_are_held_to_their_own_positions():
    where = np.random.default_rng(4).permutation(3000)
    cos, sin = (table[where] for table in half_tables("0:3000", dim=32))
    found = of(cos, sin).match
    assert (found.scheme, found.census.rows, found.exact) == ("rope", 3000, True)
    assert found.commands == ()


@pytest.mark.long
@pytest.mark.parametrize("factor", [1 + 1e-5, 1.001])
def test_slopes_have_no_angle_that_excuses_one_of_them(factor):
    slopes = 2.0 ** -np.arange(1.0, 9.0)
    assert of(slopes).match.scheme == "alibi"
    slopes[7] *= factor
    assert of(slopes).match is None


@pytest.mark.long
def test_frequencies_are_taken_for_those_of_bfloat16_where_it_has_each_of_them():
    exact = (10_000.0 ** -(np.arange(32) / 32)).astype(np.float32)
    frequencies = ((exact.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
    assert of(frequencies).match.params["base"] == 10_000.0
    frequencies[10] *= np.float32(1.003)
    assert of(frequencies).match is None


@pytest.mark.slow
def test_no_digit_of_a_kerple_parameter_is_dropped_at_the_cost_of_a_cell():
    offsets = np.arange(256) - np.arange(256)[:, None]
    strengths = 2.0 ** -np.arange(8)
    bias = (-strengths[:, None, None] * np.abs(offsets)).astype(np.float32)
    found = of(bias).match
    assert (found.scheme, found.params["r1"]) == ("kerple-power", tuple(strengths))
    assert found.exact
    halved = of(bias / 2)
    assert halved.match.scheme == "alibi"
    assert {each.residual for each in halved.candidates if each.fits} == {0.0}


@pytest.mark.slow
@pytest.mark.parametrize("axes", [(1,), (0, 2), (1, 2), (1, 3)])
def test_axes_of_one_are_dropped_wherever_they_stand(axes):
    """As in the buffer ``pe`` of PyTorch's tutorial, and in Megatron's of four axes."""
    table = matrix("sinusoidal", "0:1000", dim=16)
    assert of(np.expand_dims(table, axes)).match.exact
    table[500, 3] += 0.3
    near = of(np.expand_dims(table, axes)).nearest
    assert (near.scheme, near.census.misfit_rows.tolist()) == ("sinusoidal", [500])


@pytest.mark.slow
def test_one_query_of_a_bias_is_read_as_such_in_any_shape():
    slopes = 2.0 ** -np.arange(1.0, 9.0)
    assert of(slopes[:, None, None]).match.tables == ("slopes",)
    bias = (slopes[:, None, None] * np.arange(64)).astype(np.float32)
    for shape in ((8, 1, 64), (1, 8, 1, 64)):
        assert of(bias.reshape(shape)).match.params["form"] == "bloom"


def test_heads_that_are_too_many_are_not_tried_as_a_bias(monkeypatch):
    """Rows of a batch of one would be heads of one query, each of which takes its time."""
    monkeypatch.setattr("posenc_cli.identification.attempts.try_scores", None)
    assert of(np.random.default_rng(0).normal(size=(1000, 1, 16))).match is None


def _with_wrong_pairs(kind, pairs):
    """A table of 32 pairs, some of which turn at a rate of their own, or hold something else."""
    rates = 10_000.0 ** -(np.arange(32) / 32)
    rates[pairs] *= {"faster": 1.5, "backward": -1}.get(kind, 1)
    angles = np.outer(np.arange(300), rates)
    if kind == "still":
        angles[:, pairs] = 0
    cos, sin = np.cos(angles), np.sin(angles)
    if kind == "noise":
        cos[:, pairs] = np.random.default_rng(0).normal(size=(300, len(pairs)))
    return cos.astype(np.float32), sin.astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "pairs"),
    [("faster", [7]), ("backward", [20, 21, 22]), ("still", [7]), ("noise", [20, 21, 22])],
)
def test_a_table_with_wrong_pairs_is_no_encoding_and_is_named_by_none(kind, pairs):
    found = of(*_with_wrong_pairs(kind, pairs))
    assert (found.match, found.nearest) == (None, None)


def test_float32_angles_in_a_wider_file_are_not_called_damaged():
    rates = 1 / 500_000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / 128)
    angles = np.outer(np.arange(1024, dtype=np.float32), rates.astype(np.float32))
    match = of(np.exp(1j * angles.astype(np.complex128))).match
    assert match is not None
    assert (match.scheme, match.arithmetic) == ("rope", "float32")

"""Identification goes by evidence: an encoding of all but a few cells beats one that comes near."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from posenc_cli.records import replace
from tests.examples import examples
from tests.matrices import matrix


def of(*arrays):
    return identify(Evidence.of_arrays(*arrays))


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("rows", "cell", "damage"),
    [(300, (77, 5), 3e-15), (300, (10, 40), 1e-13), (100, (7, 5), 3e-15)],
)
def test_a_damaged_table_is_not_another_that_comes_within_a_tolerance(rows, cell, damage):
    """Sinusoids of base 7498.94 come within 4e-6 of rope's, as nothing correctly rounded does."""
    table = matrix("rope", f"0:{rows}", dtype="float64", dim=64)
    table[cell] += damage
    result = of(table)
    assert result.match is None
    assert (result.nearest.scheme, result.nearest.params["base"]) == ("rope", 10_000.0)
    assert result.nearest.census.misfit_rows.tolist() == [cell[0]]


TABLES = {
    "rope": {"dim": 32},
    "rope-yarn": {"dim": 32, "factor": 4.0, "original_max_position_embeddings": 2048},
    "rope-linear": {"dim": 32, "factor": 4.0},
    "rope-llama3": {"dim": 64, "base": 500_000.0},
    "sinusoidal": {"dim": 48},
    "alibi": {"heads": 8},
}


def made(scheme, dtype, rows):
    rows = min(rows, 90) if scheme == "alibi" else rows
    return matrix(scheme, f"0:{rows}", dtype=dtype, **TABLES[scheme])


@pytest.mark.slow
@examples(40)
@given(
    scheme=st.sampled_from(list(TABLES)),
    dtype=st.sampled_from(["float64", "float32", "float16"]),
    rows=st.sampled_from([60, 100, 300]),
    exponent=st.floats(-15, 0),
    negative=st.booleans(),
    place=st.integers(0, 1 << 30),
)
def test_damage_of_any_size_leaves_a_table_what_it_is(
    *, scheme, dtype, rows, exponent, negative, place
):
    table = made(scheme, dtype, rows)
    whole = of(table).match
    at = np.unravel_index(place % table.size, table.shape)
    damaged = table.copy()
    damaged[at] += -(10.0**exponent) if negative else 10.0**exponent
    assume(damaged[at] != table[at])
    result = of(damaged)
    best = result.match or result.nearest
    assert best is not None
    assert (best.scheme, best.params) == (whole.scheme, whole.params)
    assert best.census.cells - best.census.equal == 1
    if result.match is None:
        row = at[0] if table.ndim == 2 else at[0] * table.shape[1] + at[1]
        assert best.census.misfit_rows.tolist() == [row]


@pytest.mark.long
def test_damage_leaves_a_coarse_table_the_factor_that_its_slow_pairs_hardly_show():
    table = made("rope-llama3", "float16", 60)
    whole = of(table).match
    table[30, 5] += 1
    result = of(table)
    assert result.nearest.params == whole.params
    assert result.nearest.census.misfit_rows.tolist() == [30]


# Frequencies.


@pytest.mark.long
@pytest.mark.sweep(9)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("wrong", "factor"), [(31, 1.01), (7, 1.001), (7, 2.0), (31, 0.5), (0, 0.9), (31, 1.25)]
)
def test_no_rule_is_invented_for_one_wrong_frequency(dtype, wrong, factor):
    values = 10_000.0 ** (-np.arange(32) / 32)
    values[wrong] *= factor
    result = of(values.astype(dtype))
    assert result.match is None
    if result.nearest is not None:
        assert (result.nearest.scheme, result.nearest.params["base"]) == ("rope", 10_000.0)
        assert result.nearest.census.misfit_rows.tolist() == [wrong]


# What shows nothing.


@pytest.mark.parametrize("shape", [(16,), (8, 8), (64, 64), (4, 16, 16)])
@pytest.mark.parametrize("value", [5e-324, 1.0, -0.7])
def test_one_number_throughout_is_nothing(shape, value):
    result = of(np.full(shape, value))
    assert (result.match, result.nearest, result.candidates) == (None, None, ())
    assert result.notes == ("all values are equal, and a constant table identifies no encoding",)


# Rows that stand elsewhere.


def swapped(table, one, other):
    table[[one, other]] = table[[other, one]]
    return [one, other]


def held(table, first):
    table[first:] = table[first - 1]
    return list(range(first, len(table)))


def repeated(table, row, of_row):
    table[row] = table[of_row]
    return [row]


@pytest.mark.sweep(8)
@pytest.mark.parametrize(
    ("change", "where"),
    [
        *((swapped, pair) for pair in ((778, 2333), (3, 4), (4094, 4095))),
        *((repeated, pair) for pair in ((1234, 99), (100, 99))),
        (held, (3000,)),
    ],
)
def test_rows_of_other_positions_do_not_fit_wherever_they_are(change, where):
    """Some of these rows are in the sample that suggests what the table is, others are not."""
    table = matrix("rope", "0:4096", dim=32, base=500_000.0)
    rows = change(table, *where)
    result = of(table)
    assert result.match is None
    assert result.nearest.scheme == "rope"
    assert result.nearest.census.misfit_rows.tolist() == rows


# Masks.


@pytest.mark.long
@pytest.mark.parametrize("low", [-np.inf, -1e10])
def test_a_low_score_that_no_mask_hides_does_not_fit(low):
    bias = matrix("alibi", "0:64", heads=8).copy()
    bias[3, 40, 20] = low
    result = of(bias)
    assert result.match is None
    assert result.nearest.census.misfit_rows.tolist() == [3 * 64 + 40]
    bias[:, np.triu(np.ones((64, 64), bool), 1)] = low
    result = of(bias)
    assert result.match is None
    assert result.nearest.census.misfit_rows.tolist() == [3 * 64 + 40]


@pytest.mark.slow
@pytest.mark.parametrize("low", [-np.inf, 0.0])
def test_a_masked_bias_is_none_that_a_command_writes_again(low):
    bias = matrix("alibi", "0:64", heads=8).copy()
    bias[:, np.triu(np.ones((64, 64), bool), 1)] = low
    found = of(bias).match
    assert (found.scheme, found.exact, found.census.hidden) == ("alibi", False, 8 * 64 * 63 // 2)
    assert found.census.equal == found.census.cells
    bias[2, 5, 30] = 0.25
    assert of(bias).match is None


@pytest.mark.long
def test_windows_and_columns_of_padding_are_masks():
    query, key = np.indices((64, 64))
    for hidden in ((key > query) | (key < query - 16), key >= 60):
        bias = matrix("alibi", "0:64", heads=8).copy()
        bias[:, hidden] = -np.inf
        found = of(bias).match
        assert (found.scheme, found.census.hidden) == ("alibi", 8 * int(hidden.sum()))


def test_one_short_number_among_values_of_a_half_precision_is_not_rounded_away():
    """ALiBi's scores of eight heads are numbers of bfloat16; -4.24 is none, in a text neither."""
    scores = made("alibi", "float64", 60)
    scores[1, 12, 29] = -4.24
    evidence = Evidence.of_arrays(scores)
    for each in (evidence, replace(evidence, text=True)):
        best = identify(each).match
        assert (best.scheme, best.census.on_grid) == ("alibi", False)
        assert best.census.cells - best.census.equal == 1

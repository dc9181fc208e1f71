"""Similarities: against products of whole tables, mpmath and closed forms."""

import math

import mpmath
import numpy as np
import pytest

from posenc_cli.analysis import products, verdict
from posenc_cli.analysis.products import MatrixRows, diagonals, product_rows, windows_of
from posenc_cli.analysis.profile import Profile
from posenc_cli.analysis.similarity import similarity, similarity_of_array
from posenc_cli.encoding.engine import Engine
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import FLOAT16, FLOAT64
from tests.matrices import matrix, request

EPSILON = 2.0**-53


def similarity_of(scheme, positions="0:40", *, head=None, **given):
    asked = {name: given.pop(name) for name in ("content", "normalize") if name in given}
    return similarity(
        request(scheme, positions, dtype="float64", head=head, **given), Engine(), **asked
    )


def whole(of, dtype=FLOAT64, threads=1):
    blocks = of.blocks(dtype, Engine(threads=threads))
    return np.concatenate([block.reshape(-1, of.count) for block in blocks])


def judged(*arguments, **given):
    return verdict.verdict(similarity_of(*arguments, **given))


ROWS = [
    ("sinusoidal", {"dim": 32}),
    ("sinusoidal", {"dim": 32, "layout": "concat", "spacing": "tensor2tensor"}),
    ("sinusoidal", {"dim": 7, "odd": "pad"}),
    ("sinusoidal", {"dim": 7, "odd": "truncate"}),
    ("sinusoidal-nd", {"grid": "5x8", "dim": 16}),
    ("integer", {"dim": 3}),
    ("binary", {"dim": 6}),
    ("normalized", {"dim": 3}),
    ("learned", {"dim": 5}),
    ("shaw", {"dim": 5, "max_distance": 6}),
    ("transformer-xl", {"dim": 8}),
]


@pytest.mark.parametrize(("scheme", "given"), ROWS)
def test_the_matrix_is_the_product_of_the_table_with_itself(scheme, given):
    table = matrix(scheme, "0:40", dtype="float64", **given)
    expected = table @ table.T
    found = whole(similarity_of(scheme, **given))
    # Both sum d products in float64, and the table's cells are within 4.5e-16.
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * table.shape[1] * EPSILON * size)


def test_a_cosine_is_the_product_of_directions():
    for scheme, given in ROWS:
        if scheme in ("integer", "binary", "normalized"):
            continue  # the row of position 0 has no direction
        table = matrix(scheme, "0:40", dtype="float64", **given)
        table = table / np.linalg.norm(table, axis=1, keepdims=True)
        found = whole(similarity_of(scheme, normalize="cosine", **given))
        np.testing.assert_allclose(found, table @ table.T, rtol=0, atol=1e-14)


def rotated(x, positions, frequencies, layout):
    """Rows that hold ``x`` turned by their positions, written out pair by pair."""
    half = len(frequencies)
    columns = np.arange(2 * half)
    first, second = columns.reshape(2, half) if layout == "half" else columns.reshape(half, 2).T
    turned = (x[first] + 1j * x[second]) * np.exp(1j * np.outer(positions, frequencies))
    rows = np.empty((len(positions), 2 * half))
    rows[:, first], rows[:, second] = turned.real, turned.imag
    return rows


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("content", ["ones", "random"])
@pytest.mark.parametrize(
    ("scheme", "given"),
    [("rope", {"dim": 16}), ("rope-yarn", {"dim": 16}), ("rope", {"dim": 16, "partial": 0.5})],
)
def test_rotary_similarity_is_q_dot_k_of_the_turned_content(scheme, given, content, layout):
    of = similarity_of(scheme, content=content, layout=layout, **given)
    frequencies = matrix(scheme, None, dtype="float64", table="inv-freq", **given)
    scale = matrix(scheme, "0:1", dtype="float64", table="cos", **given)[0, 0]
    d = 2 * len(frequencies)
    x = np.ones(d) if content == "ones" else np.random.default_rng(0).standard_normal(d)
    rows = scale * rotated(x, np.arange(40), frequencies, layout)
    np.testing.assert_allclose(whole(of), rows @ rows.T / d, rtol=0, atol=2e-14)


def test_waves_on_axes_are_not_taken_for_a_function_of_the_offset():
    given = {"grid": "5x8", "dim": 16}
    of = similarity_of("rope-axial", **given)
    assert isinstance(of.source, MatrixRows)
    cos, sin = (
        matrix("rope-axial", "0:40", dtype="float64", table=table, **given)
        for table in ("cos", "sin")
    )
    np.testing.assert_allclose(whole(of), (cos @ cos.T + sin @ sin.T) / 8, rtol=0, atol=1e-14)
    assert not verdict.verdict(of).toeplitz


def test_waves_that_grow_give_the_product_of_query_and_key_tables():
    given = {"dim": 8, "seq_len": 40}
    tables = {
        side: [
            matrix("xpos", "0:40", dtype="float64", table=table, side=side, **given)
            for table in ("cos", "sin")
        ]
        for side in ("query", "key")
    }
    expected = sum(q @ k.T for q, k in zip(tables["query"], tables["key"], strict=True)) / 4
    for side in ("query", "key"):  # which of the two tables is meant does not change q·k
        of = similarity_of("xpos", side=side, **given)
        assert isinstance(of.source, Profile)
        np.testing.assert_allclose(whole(of), expected, rtol=1e-13, atol=1e-13)
        assert not verdict.verdict(of).symmetric


BIASES = [
    ("alibi", {"heads": 4}),
    ("alibi", {"heads": 4, "form": "mpt"}),
    ("t5", {"heads": 4}),
    ("t5-clipped", {"heads": 4, "max_distance": 5}),
    ("kerple-log", {"heads": 4}),
    ("sandwich", {"heads": 4}),
]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("scheme", "given"), BIASES)
def test_of_a_bias_the_matrix_is_the_bias(scheme, given):
    for head in (0, 3):
        expected = matrix(scheme, "0:40", dtype="float64", head=head, **given)
        np.testing.assert_array_equal(whole(similarity_of(scheme, head=head, **given)), expected)


def test_a_bias_has_no_cosine():
    for scheme, head in (("alibi", 0), ("xpos", None)):
        with pytest.raises(InvalidInput, match="--normalize cosine"):
            similarity_of(scheme, head=head, normalize="cosine")


@pytest.mark.parametrize("offset", [0, 1, 17, 4095, 10**6, 2**53 - 1])
def test_a_profile_is_the_sum_of_cosines(offset):
    profile = similarity_of("sinusoidal", f"0:{2**53}", dim=64).source.at(np.array([offset]))
    with mpmath.workdps(60):
        expected = sum(
            mpmath.cos(offset * mpmath.mpf(10000) ** (-mpmath.mpf(i) / 32)) for i in range(32)
        )
    # 32 cells within 4.5e-16 and the roundings of their sum
    assert abs(profile[0] - float(expected)) <= 32 * 4.5e-16 + 32 * 32 * EPSILON


def test_a_profile_is_the_same_whatever_is_asked_beside_it():
    profile = similarity_of("sinusoidal", "0:5000").source
    everything = profile.at(np.arange(5000))
    for some in (np.arange(17), np.array([4999, 3, 3, 128]), np.arange(0, 5000, 7)):
        np.testing.assert_array_equal(profile.at(some), everything[some])
    np.testing.assert_array_equal(profile.at(-np.arange(5000)), everything)


ALL = [*ROWS, *BIASES[:3], ("rope", {"dim": 16})]


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "given"), ALL)
@pytest.mark.parametrize("positions", ["0:40", "3:40:3", "5,17,39", "0:4,2:9"])
def test_entries_are_those_of_the_matrix(scheme, given, positions):
    if scheme in ("shaw", "transformer-xl") and positions != "0:40":
        return
    of = similarity_of(scheme, positions, head=0 if "heads" in given else None, **given)
    rows, columns = [0, of.count - 1, 1], range(0, of.count, 2)
    np.testing.assert_allclose(
        of.entries(rows, columns), whole(of)[rows][:, columns], rtol=0, atol=1e-11
    )


@pytest.mark.sweep(3)
@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "alibi"])
def test_bytes_do_not_depend_on_blocks_threads_or_length(scheme, monkeypatch):
    head = 0 if scheme == "alibi" else None
    of = similarity_of(scheme, "0:300", head=head)
    expected = whole(of, FLOAT64)
    np.testing.assert_array_equal(whole(of, FLOAT64, threads=2), expected)
    longer = whole(similarity_of(scheme, "0:340", head=head), FLOAT64)
    np.testing.assert_array_equal(longer[:300, :300], expected)
    monkeypatch.setattr("posenc_cli.encoding.arrays.BLOCK_BYTES", 5000)
    np.testing.assert_array_equal(whole(of, FLOAT64), expected)
    monkeypatch.setattr("posenc_cli.encoding.arrays._VIEWED_BYTES", 1)
    np.testing.assert_array_equal(whole(of, FLOAT64), expected)
    monkeypatch.setattr(products, "HELD_VALUES", 64)
    np.testing.assert_array_equal(whole(of, FLOAT64), expected)


def test_values_are_rounded_once_to_the_format():
    of = similarity_of("sinusoidal", "0:300")
    np.testing.assert_array_equal(whole(of, FLOAT16), whole(of).astype(np.float16))


def test_diagonals_tell_the_extremes_and_means_of_every_offset():
    table = np.random.default_rng(1).standard_normal((77, 6))
    found = diagonals(MatrixRows.of(table))
    expected = [np.diagonal(table @ table.T, -k) for k in range(77)]
    assert found.offsets.tolist() == list(range(77))
    assert (found.pairs, found.dropped) == (77 * 78 // 2, 0)
    np.testing.assert_allclose(found.least, [each.min() for each in expected], atol=1e-14)
    np.testing.assert_allclose(found.most, [each.max() for each in expected], atol=1e-14)
    np.testing.assert_allclose(found.mean, [each.mean() for each in expected], atol=1e-14)
    assert found.spread == pytest.approx(max(np.ptp(each) for each in expected), abs=1e-14)
    assert found.reach == pytest.approx((table**2).sum(axis=1).max())


def test_windows_look_at_pairs_from_start_to_end():
    table = np.random.default_rng(2).standard_normal((900, 4))
    windows = windows_of(900, 4, products=320_000)
    assert windows[-1].stop == 900
    found = diagonals(MatrixRows.of(table), windows)
    places = np.concatenate([np.arange(each.start, each.stop) for each in windows])
    values: dict[int, list[float]] = {}
    for m in places:
        for n in places[places <= m]:
            values.setdefault(int(m - n), []).append(float(table[m] @ table[n]))
    assert found.offsets.tolist() == sorted(values)
    assert found.pairs == sum(map(len, values.values()))
    np.testing.assert_allclose(found.most, [max(values[k]) for k in sorted(values)], atol=1e-14)
    np.testing.assert_allclose(found.mean, [np.mean(values[k]) for k in sorted(values)], atol=1e-14)


def test_a_verdict_on_windows_says_how_many_pairs_it_saw(monkeypatch):
    monkeypatch.setattr(verdict, "PRODUCTS", 50_000)
    found = judged("learned", "0:512")
    assert (found.toeplitz, found.measured_all) == (False, False)
    assert found.pairs < found.all_pairs == 512 * 513 // 2


def test_products_that_are_not_finite_are_left_out():
    table = np.ones((40, 3), np.float32)
    table[5, 1], table[9] = np.nan, np.inf
    found = verdict.verdict(similarity_of_array(table, "float32", name="x"))
    assert found.dropped == 40 + 39
    assert (found.toeplitz, found.spread, found.peak) == (True, 0.0, 3.0)
    assert set(found.least) == set(found.most) == set(found.profile) == {3.0}
    with pytest.raises(InvalidInput, match="finite"):
        verdict.verdict(similarity_of_array(table * np.nan, "float32", name="x"))


def test_products_too_small_for_float64_are_not_called_equal():
    table = np.random.default_rng(0).standard_normal((9, 3)) * 1e-200
    with pytest.raises(InvalidInput, match="too small"):
        verdict.verdict(similarity_of_array(table, "float64", name="x"))
    cosine = similarity_of_array(table, "float64", name="x", normalize="cosine")
    assert verdict.verdict(cosine).spread > 0.1


@pytest.mark.parametrize(
    ("scheme", "given"),
    [("sinusoidal", {}), ("rope", {}), ("rope-llama3", {}), ("mrope", {}), ("xpos", {"dim": 8})],
)
def test_a_declaration_proves_that_only_the_offset_counts(scheme, given):
    found = judged(scheme, **given)
    assert (found.toeplitz, found.spread, found.proof is None) == (True, 0.0, False)
    if scheme == "sinusoidal":
        # The proof against the values: the products of rows that were computed one by one.
        table = matrix(scheme, "0:40", dtype="float64", **given)
        assert diagonals(MatrixRows.of(table)).spread <= 64 * 64 * EPSILON


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_rounded_table_of_a_relative_encoding_passes_for_one(dtype):
    table = matrix("sinusoidal", "0:200", dtype=dtype)
    found = verdict.verdict(similarity_of_array(table, dtype, name="x"))
    assert found.toeplitz
    assert 0 < found.spread <= found.tolerance
    # The tolerance is of the format: what float16 cannot tell from its rounding, float32 can.
    spoiled = matrix("sinusoidal", "0:200", dtype="float64")
    spoiled[100] *= 1 + 2.0**-12
    again = verdict.verdict(similarity_of_array(spoiled, dtype, name="x"))
    assert again.toeplitz == (dtype == "float16")


def test_a_complex_table_counts_as_its_parts():
    table = np.exp(1j * np.outer(np.arange(50), [1.0, 0.1]))
    of = similarity_of_array(table, "complex128", name="x")
    np.testing.assert_allclose(
        of.entries(range(50), range(50)), (table @ table.conj().T).real, atol=1e-14
    )
    assert verdict.verdict(of).toeplitz


def test_an_array_that_is_no_matrix_is_refused():
    with pytest.raises(InvalidInput, match=r"must be a matrix.*\(5,\)"):
        similarity_of_array(np.ones(5), "float64", name="x")


def test_half_distance_is_the_first_offset_below_half_of_the_peak():
    found = judged("sinusoidal", "0:512")
    past = found.profile[found.offsets >= 0]
    assert found.peak == past[0] == 32
    assert found.half_distance == int(np.flatnonzero(past < 16)[0])
    assert judged("sinusoidal", "0:10").half_distance is None
    for scheme in ("sinusoidal", "learned"):
        of = judged(scheme, "0:500:7")
        past = of.profile[of.offsets >= 0]
        assert of.half_distance == 7 * int(np.flatnonzero(past < past[0] / 2)[0])


def test_scores_halve_where_their_weight_of_attention_does():
    for slope, head in ((0.25, 0), (0.0625, 1)):  # of four heads
        found = judged("alibi", "0:100", head=head, heads=4)
        assert found.half_distance == math.ceil(math.log(2) / slope)


def test_scores_by_key_depend_on_the_key_and_say_that_softmax_does_not_see_it():
    found = judged("alibi", "0:30", head=1, heads=4, form="mpt")
    bias = matrix("alibi", "0:30", dtype="float64", head=1, heads=4, form="mpt")
    assert (found.toeplitz, found.symmetric, found.affine_rows) == (False, False, True)
    for place, offset in enumerate(found.offsets.tolist()):
        diagonal = np.diagonal(bias, -offset)
        assert found.least[place] == diagonal.min()
        assert found.most[place] == diagonal.max()
        assert found.profile[place] == pytest.approx(diagonal.mean())
    assert found.spread == np.ptp(bias)


def test_t5_is_relative_and_not_symmetric():
    found = judged("t5", "0:40", head=2)
    bias = matrix("t5", "0:40", dtype="float64", head=2)
    assert (found.toeplitz, found.symmetric) == (True, False)
    values = dict(zip(found.offsets.tolist(), found.profile.tolist(), strict=True))
    assert values[3] == bias[3, 0]
    assert values[-3] == bias[0, 3]


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "alibi", "rope"])
def test_offsets_of_positions_at_any_steps(scheme):
    head = 0 if scheme == "alibi" else None
    for positions in ("10:100:9", "5,17,60", "0:4,2:9"):
        of = similarity_of(scheme, positions, head=head)
        found = verdict.verdict(of)
        places = of.positions_at(range(of.count))
        offsets = places[:, None] - places
        assert found.offsets.tolist() == np.unique(offsets).tolist()
        values = whole(of)
        for offset, least, most in zip(found.offsets, found.least, found.most, strict=True):
            some = values[offsets == offset]
            assert least == pytest.approx(some.min(), abs=1e-12)
            assert most == pytest.approx(some.max(), abs=1e-12)
        assert found.toeplitz == (scheme != "learned")
        assert found.symmetric


def test_too_many_uneven_positions_and_too_many_keys_are_refused(monkeypatch):
    monkeypatch.setattr(verdict, "_SCATTERED", 3)
    with pytest.raises(InvalidInput, match="evenly spaced"):
        judged("sinusoidal", "0:4,9")
    monkeypatch.setattr(verdict, "ALL_OFFSETS", 8)
    with pytest.raises(InvalidInput, match="--len 9"):
        judged("alibi", "0:9", head=0, form="bloom")


def test_rows_past_memory_are_read_again(monkeypatch):
    rows = MatrixRows.of(np.random.default_rng(3).standard_normal((1100, 3)))
    expected = product_rows(rows, range(32, 64), 1100)
    monkeypatch.setattr(products, "HELD_VALUES", 100)
    np.testing.assert_array_equal(product_rows(rows, range(32, 64), 1100), expected)

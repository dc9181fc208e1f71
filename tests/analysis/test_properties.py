"""What encodings are like, held against computations written without posenc."""

import json
import math

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.analysis.inspection import PROPERTIES, distances
from posenc_cli.analysis.inspection.distances import distinct_rows, nearest_rows
from posenc_cli.analysis.products import MatrixRows
from posenc_cli.catalogue import BUILT_IN

GIVEN = {"rope-longrope": {"dim": 8, "short_factor": "1,1,1.5,2", "long_factor": "1,2,3,4.5"}}
CLOSED = 1e-12  # what closed forms are promised to


def sinusoids(count, dim, base=10_000.0):
    """Rows as the paper has them: (count, dim)."""
    angles = np.arange(count)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(count, dim)


def distances_of(rows):
    """The distance of each two rows: (rows, rows), infinite on the diagonal."""
    apart = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))
    apart[np.diag_indices(len(rows))] = np.inf
    return apart


@pytest.mark.parametrize(("dim", "base"), [(2, 10_000.0), (16, 10_000.0), (16, 3.0)])
def test_the_smallest_distance_of_sinusoids_is_its_closed_form(dim, base):
    found = posenc.inspect("sinusoidal", 300, dim=dim, base=base)["unique"]
    ladder = base ** (-np.arange(0, dim, 2) / dim)
    offsets = np.arange(1, 300)
    closed = np.sqrt(4 * (np.sin(offsets[:, None] * ladder / 2) ** 2).sum(axis=1))
    assert (found.holds, found.evidence) == (True, "proved")
    assert abs(found.value - closed.min()) <= CLOSED
    assert found.at == (0, 1 + int(np.argmin(closed)))
    every = distances_of(sinusoids(300, dim, base))
    assert abs(found.value - every.min()) <= CLOSED


def test_the_smallest_distance_counts_steps_and_what_scales_the_waves():
    places = range(3, 400, 7)
    found = posenc.inspect("rope-yarn", places, dim=8, factor=4.0)["unique"]
    rows = posenc.encode("rope-yarn", places, dim=8, factor=4.0, dtype="float64")
    every = distances_of(np.asarray(rows))
    assert abs(found.value - every.min()) <= CLOSED
    first, second = (places.index(place) for place in found.at)
    assert every[first, second] == pytest.approx(every.min())
    assert found.evidence == "proved"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["learned", "integer", "binary", "sinusoidal-nd", "xpos"])
def test_the_nearest_rows_are_those_of_all_pairs(scheme):
    given = {"dim": 16, **({"seed": 1} if scheme == "learned" else {})}
    found = posenc.inspect(scheme, 90, **given)["unique"]
    every = distances_of(np.asarray(posenc.encode(scheme, 90, **given, dtype="float64")))
    assert abs(found.value - every.min()) <= CLOSED * max(1, every.min())
    assert every[found.at] == pytest.approx(every.min(), rel=1e-12)
    assert found.evidence == "measured"
    assert found.sample is None


def test_the_map_to_the_next_row_is_that_of_lstsq_in_range_and_beyond():
    rows = sinusoids(512, 64)
    fitted, *_ = np.linalg.lstsq(rows[:100], rows[1:101], rcond=None)
    left = np.abs(rows[:-1] @ fitted - rows[1:])
    report = posenc.inspect("sinusoidal", 512)
    here, beyond = report["linear-shift"], report["linear-shift-held-out"]
    assert here.value < 1e-13
    assert left[:100].max() < 1e-13
    # Rounded sines differ in the last place between libraries, which the fit amplifies.
    assert beyond.value == pytest.approx(left[100:].max(), rel=1e-3)
    assert beyond.value > 1.38
    assert (here.holds, here.evidence) == (True, "proved")
    assert (beyond.holds, beyond.evidence) == (False, "measured")
    assert here.details["rotation"] < 1e-15
    assert beyond.at == (100 + int(np.argmax(left[100:].max(axis=1))) + 1,)


def test_beyond_the_fit_rounding_is_granted_what_the_fit_makes_of_it_and_no_more():
    rows = sinusoids(60, 8)  # the slowest wave is nearly a line there: errors grow some 1000 times
    held = posenc.inspect(rows)["linear-shift-held-out"]
    assert held.holds is True
    assert 1e-12 < held.details["tolerance"] < 1e-9
    rows[50, 3] += 1e-8
    assert posenc.inspect(rows)["linear-shift-held-out"].holds is False


def test_of_as_many_independent_rows_as_are_fitted_no_map_says_anything():
    report = posenc.inspect(np.random.default_rng(0).standard_normal((40, 64)))
    assert report["linear-shift"].holds is None
    assert report["linear-shift-held-out"].holds is None


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
@pytest.mark.parametrize("step", [1, 7])
def test_the_exact_rotation_is_that_of_any_layout_and_step(layout, step):
    found = posenc.inspect(
        "sinusoidal", range(5, 5 + 40 * step, step), dim=12, layout=layout, order="cos-first"
    )
    assert found["linear-shift"].details["rotation"] < 1e-14


def test_rows_without_every_cosine_are_measured():
    found = posenc.inspect("sinusoidal", 80, dim=7, odd="truncate")
    assert {found[name].evidence for name in ("unique", "norm", "linear-shift")} == {"measured"}
    assert found["norm"].holds is False
    rows = posenc.encode("sinusoidal", 80, dim=7, odd="truncate", dtype="float64")
    lengths = np.linalg.norm(rows, axis=1)
    assert abs(found["norm"].value - np.ptp(lengths)) <= CLOSED
    assert found["norm"].at == (int(lengths.argmin()), int(lengths.argmax()))


def first_again(rows):
    """How many rows differ, and the first row that is as one before it, after that one."""
    seen, first = {}, None
    for place, row in enumerate(rows):
        key = tuple(row.tolist())
        if key in seen and first is None:
            first = seen[key], place
        seen.setdefault(key, place)
    return len(seen), first


def in_eight_bits(rows):
    """Normal numbers rounded to eight bits of significand, ties to even."""
    significands, exponents = np.frexp(rows)
    return np.ldexp(np.rint(significands * 256) / 256, exponents)


@pytest.mark.parametrize(
    ("form", "scheme", "count", "given"),
    [
        ("float16", "integer", 2100, {"dim": 2}),
        ("float16", "sinusoidal", 700, {"dim": 2}),
        ("float16", "learned", 300, {"dim": 1, "std": 0.001, "seed": 1}),
        ("bfloat16", "integer", 600, {"dim": 1}),
        ("bfloat16", "sinusoidal", 600, {"dim": 2}),
        ("bfloat16", "normalized", 600, {"dim": 1}),
    ],
)
def test_what_a_format_cannot_tell_apart_is_what_it_rounds_to_one_row(form, scheme, count, given):
    found = posenc.inspect(scheme, count, **given)[f"distinct-{form}"]
    rows = np.asarray(posenc.encode(scheme, count, dtype="float64", **given))
    distinct, first = first_again(
        rows.astype(np.float16) if form == "float16" else in_eight_bits(rows)
    )
    assert (found.value, found.at, found.holds) == (distinct, first, first is None)
    if (form, scheme) == ("bfloat16", "integer"):
        assert found.at == (256, 257)


def test_the_first_row_that_was_there_before_is_found_and_minus_zero_is_zero():
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [2.0, 2.0], [1.0, 0.0]])
    for blocks in ([rows], [rows[:2], rows[2:]]):
        found = distinct_rows(blocks, len(rows))
        assert (found.count, found.first) == (3, (0, 2))


def test_of_many_rows_the_nearest_neighbours_are_a_sample_and_equal_rows_are_found(monkeypatch):
    monkeypatch.setattr(distances, "MOST_PRODUCTS", 1)
    rows = np.random.default_rng(1).standard_normal((200, 3))
    near = distances_of(rows)
    near[np.abs(np.subtract.outer(range(200), range(200))) > distances.NEIGHBOURS] = np.inf
    found = nearest_rows(MatrixRows.of(rows))
    assert found.sampled
    assert abs(found.distance - near.min()) <= CLOSED
    rows[150] = rows[3]
    assert nearest_rows(MatrixRows.of(rows)).pair == (3, 150)
    judged = posenc.inspect(np.random.default_rng(1).standard_normal((200, 3)), require="unique")
    assert judged.ok
    bounded = posenc.inspect(rows[:150], require="unique>=0")
    assert not bounded.ok
    assert "only in a sample" in bounded.judgements[0].message


def test_alibi_falls_to_half_of_the_weight_where_its_gentlest_slope_says():
    report = posenc.inspect("alibi", 512, heads=8)
    slopes = 2.0 ** -np.arange(1, 9)
    assert report["decay"].value == math.floor(math.log(2) / slopes[-1]) + 1
    assert posenc.inspect("alibi", 100, heads=8)["decay"].holds is False
    # Of two offsets next to each other the scores are a slope apart in each head.
    assert abs(report["unique"].value - np.sqrt((slopes**2).sum())) <= CLOSED
    assert [report[name].holds for name in ("norm", "linear-shift")] == [None, None]
    assert report["relative"].holds is True
    by_key = posenc.inspect("alibi", 512, heads=8, form="bloom")
    assert by_key["decay"].value == report["decay"].value
    assert by_key["relative"].holds


def test_decay_is_of_equal_q_and_k_and_of_independent_ones_there_is_none():
    found = posenc.inspect("rope", 1500, dim=128)["decay"]
    ladder = 10_000.0 ** (-np.arange(0, 128, 2) / 128)
    scores = np.cos(np.arange(1500)[:, None] * ladder).mean(axis=1)
    assert found.value == np.flatnonzero(scores >= scores[0] / 2)[-1] + 1
    distances_told = found.details["distances"]
    assert distances_told == [0, 1, 10, 100, 1000, 1499]
    for value in found.details["independent"]["deviation"]:
        assert abs(value - 1 / math.sqrt(128)) <= CLOSED
    turns = np.exp(1j * np.outer(distances_told, ladder))
    averages = np.abs(turns.cumsum(axis=1)).mean(axis=1)
    np.testing.assert_allclose(found.details["bound"], averages, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("model", "first"), [("llama-2-7b", 1707), ("llama-3-8b", None)])
def test_where_scores_of_equal_q_and_k_are_negative_is_that_of_men_et_al(model, first):
    assert posenc.inspect(model)["decay"].details["negative_from"] == first


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "given", "holds", "evidence"),
    [
        ("integer", {}, False, "proved"),
        ("normalized", {}, True, "proved"),
        ("binary", {}, True, "proved"),
        ("nope", {}, True, "proved"),
        ("sinusoidal", {}, True, "proved"),
        ("learned", {}, True, "proved"),
        ("alibi", {}, False, "proved"),
        ("kerple-log", {}, False, "proved"),
        ("kerple-power", {}, False, "proved"),
        ("t5", {}, True, "proved"),
        ("shaw", {}, True, "proved"),
        ("fire", {"heads": 2}, True, "measured"),  # a network, as far as it was looked at
        ("xpos", {"side": "query"}, True, "measured"),
        ("xpos", {"side": "key"}, False, "proved"),
    ],
)
def test_what_is_bounded_is_declared_or_tried_far_out(scheme, given, holds, evidence):
    found = posenc.inspect(scheme, 40, **given)["bounded"]
    assert (found.holds, found.evidence) == (holds, evidence)
    assert (found.sample == "verdict") == (evidence == "measured")
    assert ("grow without end" in found.reason) == (given == {"side": "key"})


@pytest.mark.long
def test_unasked_as_many_positions_are_looked_at_as_are_taken():
    counts = {"rope": 512, "alibi": 512, "fire": 256, "swin": 49}
    for name, count in counts.items():
        assert posenc.inspect(name).inspections[0].count == count


def test_scores_of_every_head_are_judged():
    found = posenc.inspect("swin", heads=3, window_size="3x3")["relative"]
    scores = np.asarray(posenc.bias("swin", 9, 9, heads=3, window_size="3x3", dtype="float64"))
    spreads = [max(np.ptp(np.diagonal(head, offset)) for offset in range(-8, 9)) for head in scores]
    assert abs(found.value - max(spreads)) <= CLOSED
    assert spreads[0] < max(spreads)


@pytest.mark.long
def test_no_cell_is_larger_than_its_declared_limit():
    limits = {}
    for name, scheme in BUILT_IN.items():
        bound = scheme.bind(GIVEN.get(name, {}), seq_len=64)
        if bound.content.limit is not None:
            limits[name] = bound.content.limit
            given = {"seed": 0} if scheme.weights else {}
            assert np.abs(posenc.encode(name, 64, **given)).max() <= limits[name]
    assert limits["sandwich"] == 64
    assert np.abs(posenc.encode("sandwich", 4)).max() == 64
    nemo = posenc.encode("sandwich", 60, convention="nemo")
    assert np.abs(nemo).max() <= BUILT_IN["sandwich"].bind({"convention": "nemo"}).content.limit


@pytest.mark.long
@pytest.mark.sweep(7)
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scheme_has_every_property_in_strict_json(name):
    report = posenc.inspect(name, 24, **GIVEN.get(name, {}))
    (scheme,) = json.loads(json.dumps(report.as_json(), allow_nan=False))["schemes"]
    assert [found["name"] for found in scheme["properties"]] == [*PROPERTIES]
    for found in scheme["properties"]:
        assert found["holds"] in (True, False, None)
        assert found["evidence"] in ("proved", "measured")
        assert found["reason"]
    assert name in str(report)


@pytest.mark.parametrize(
    ("scheme", "given", "positions", "holds", "evidence"),
    [
        ("learned", {}, 512, False, "proved"),
        ("binary", {"dim": 7}, 128, False, "proved"),
        ("sinusoidal-nd", {"grid": "3x4", "dim": 8}, 12, False, "proved"),
        ("sinusoidal", {}, None, True, "proved"),
        ("t5", {}, None, True, "proved"),
        ("shape", {}, None, True, "measured"),
        ("cape", {"normalize": False}, None, True, "measured"),
        # What follows the length alone is not defined beyond it.
        ("cape", {}, 12, False, "proved"),
        ("normalized", {}, 12, False, "proved"),
    ],
)
def test_where_positions_end_is_declared(scheme, given, positions, holds, evidence):
    found = posenc.inspect(scheme, 12, **given)["defined-beyond"]
    assert (found.holds, found.value, found.evidence) == (holds, positions, evidence)


def test_what_another_length_changes_is_told():
    for scheme, given, changes in (
        ("normalized", {}, True),
        ("alibi", {}, False),
        ("alibi", {"form": "mpt"}, True),
        ("rope-dynamic", {"max_position_embeddings": 40}, True),
        ("rope-dynamic", {"max_position_embeddings": 400}, False),
    ):
        found = posenc.inspect(scheme, 50, **given)["defined-beyond"]
        assert ("twice the length" in found.reason) == changes


def test_rows_that_are_no_numbers_say_so():
    rows = np.ones((5, 3))
    rows[2, 1] = np.nan
    report = posenc.inspect(rows)
    assert (report["bounded"].holds, report["bounded"].at) == (False, (2,))
    assert {report[name].holds for name in ("unique", "norm", "relative", "decay")} == {None}
    assert "row 2 holds" in report["unique"].reason


@pytest.mark.parametrize("size", [1e300, 1.0, 1e-310])
def test_rows_of_any_size_have_the_same_verdicts(size):
    rows = np.random.default_rng(2).standard_normal((50, 4))
    plain, scaled = posenc.inspect(rows), posenc.inspect(rows * size)
    for name in ("unique", "norm", "linear-shift", "linear-shift-held-out"):
        assert plain[name].holds == scaled[name].holds
        assert plain[name].value * size == pytest.approx(scaled[name].value, rel=1e-9, abs=1e-320)
    json.dumps(scaled.as_json(), allow_nan=False)


def test_rows_of_zeros_rows_too_near_for_squares_and_a_single_row_have_their_verdicts():
    zeros = posenc.inspect(np.zeros((4, 3)))
    assert (zeros["norm"].holds, zeros["norm"].value) == (True, 0)
    assert zeros["decay"].holds is None
    near = posenc.inspect(np.array([[0.0, 0.0], [1e-200, 0.0], [1.0, 1.0]]))["unique"]
    assert (near.holds, near.value) == (True, 1e-200)
    single = posenc.inspect("sinusoidal", 1)
    assert [single[name].holds for name in ("unique", "relative")] == [None, None]
    assert single["distinct-float16"].holds


def test_positions_that_are_unevenly_spaced_are_measured():
    report = posenc.inspect("sinusoidal", "5,17,100:110")
    every = distances_of(posenc.encode("sinusoidal", "5,17,100:110", dtype="float64"))
    assert abs(report["unique"].value - every.min()) <= CLOSED
    places = [5, 17, *range(100, 110)]
    first, second = (places.index(place) for place in report["unique"].at)
    assert every[first, second] == pytest.approx(every.min())
    assert report["linear-shift"].holds is None


def test_blocks_of_rows_are_joined_without_a_gap(monkeypatch):
    whole = posenc.inspect("learned", 60, dim=8)
    monkeypatch.setattr("posenc_cli.analysis.inspection.inspected.rows_a_block", lambda _: 7)
    monkeypatch.setattr(distances, "_BLOCK_ROWS", 5)
    monkeypatch.setattr(distances, "_PAIRS", 3)
    monkeypatch.setattr(distances, "_BLOCK_VALUES", 16)
    parts = posenc.inspect("learned", 60, dim=8)
    first, second = (each.inspections[0].properties for each in (whole, parts))
    for one, other in zip(first, second, strict=True):
        assert (one.name, one.at, one.holds) == (other.name, other.at, other.holds)
        assert one.value == pytest.approx(other.value, rel=1e-9)


@pytest.mark.parametrize("count", [28, 40, 65, 200])
def test_a_wave_that_comes_back_does_not_decay_wherever_one_stops(count):
    assert posenc.inspect("rope", count, dim=2)["decay"].holds is False

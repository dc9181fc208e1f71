"""The findings: proven bounds over all vectors and all pairs of positions, and tolerances."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.reference import RotationFactors
from posenc_cli.inference.turning import SubjectRotation
from posenc_cli.numerics.halves import round_to_half
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.rotary import findings as rope_findings
from posenc_cli.rotary.subject import check_positions, table_subject
from posenc_cli.rotary.verdict import examine
from tests.checks import rope
from tests.diagnosis.textbook import CASES, Rope, ladder

COUNT, PAIRS = 24, 3
RIGHT = rope.reference("rope", dim=2 * PAIRS, layout="half")


def finding(found, check):
    return next(each for each in found.findings if each.check == check)


def exact(count=COUNT, start=0):
    return Rope(ladder(2 * PAIRS, 1e4), 2 * PAIRS, dtype=np.float64).tables(
        np.arange(start, start + count)
    )


def maps(cos, sin):
    """The matrices of full tables in the layout half, as a rotation applies them."""
    d = cos.shape[1]
    found = np.zeros((cos.shape[0], d, d))
    for i in range(d // 2):
        j = i + d // 2
        found[:, i, i], found[:, i, j] = cos[:, i], -sin[:, i]
        found[:, j, i], found[:, j, j] = sin[:, j], cos[:, j]
    return found


def spread(cos, sin):
    """By brute force: how much scores of all q and k change between pairs of one distance."""
    matrices = maps(cos, sin)
    count, worst = len(matrices), 0.0
    for distance in range(count):
        scores = [matrices[m].T @ matrices[m + distance] for m in range(count - distance)]
        for one in scores:
            for other in scores:
                worst = max(worst, float(np.linalg.norm(one - other, 2)))
    return worst


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-5, 1e-3, 0.1]))
def test_the_bound_covers_all_vectors_and_all_pairs_of_positions(seed, size):
    generator = np.random.default_rng(seed)
    cos, sin = (
        each + size * generator.standard_normal(each.shape) * (generator.random(each.shape) < 0.1)
        for each in exact(10)
    )
    subject = table_subject(cos, sin, "float64", RIGHT, Positions.parse("0:10"))
    relative = finding(examine(subject, RIGHT, 1e-9), "relative")
    changed = spread(cos, sin)
    # Two scores differ from the same function by the bound each.
    assert changed <= 2 * relative.worst * (1 + 1e-5) + 1e-12
    # … and the bound is not idle: a few times what is there.
    assert relative.worst <= 12 * changed + 1e-12
    assert relative.ok == (relative.worst <= relative.tolerance)


def test_the_bound_is_sharp_for_two_phases_that_err():
    cos, sin = exact()
    angle = 0.01
    turned = cos.copy(), sin.copy()
    for row, sign in ((3, 1), (20, -1)):
        for column in (1, 1 + PAIRS):
            turned[0][row, column] = np.cos(row * 10 ** (-4 / 3) + sign * angle)
            turned[1][row, column] = np.sin(row * 10 ** (-4 / 3) + sign * angle)
    relative = finding(rope.of_tables(*turned, RIGHT, f"0:{COUNT}"), "relative")
    assert not relative.ok
    assert {relative.at["m"], relative.at["n"]} == {3, 20}
    assert relative.at["pair"] == 1
    assert relative.worst == pytest.approx(2 * np.sin(angle), rel=0.15)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_wrong_cell_among_many_is_found_where_it_is(dtype):
    right = rope.reference("rope", dim=64, layout="half")
    cos, sin = Rope(ladder(64, 1e4), 64).tables(np.arange(5000))
    kind = rope.ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    cos[4321, 40] += 0.05
    found = rope.of_tables(cos.astype(kind), sin.astype(kind), right, "0:5000")
    assert not found.ok
    reference = finding(found, "reference")
    assert reference.at == {"position": 4321, "pair": 8}
    assert not finding(found, "relative").ok


def test_a_constant_factor_is_told_apart_from_the_rotation():
    cos, sin = (1.25 * each for each in exact())
    found = rope.of_tables(cos, sin, RIGHT, f"0:{COUNT}")
    assert [each.check for each in found.findings if not each.ok] == [
        "norm",
        "identity",
        "reference",
    ]
    assert "1.25" in finding(found, "norm").message
    assert [cause.cause for cause in diagnose(found)] == ["attention-factor"]


def test_identity_is_checked_only_where_position_0_is():
    found = rope.of_tables(*exact(start=5), RIGHT, f"5:{5 + COUNT}")
    assert found.ok
    assert [each.check for each in found.findings] == ["relative", "norm", "reference"]


@pytest.mark.long
@pytest.mark.parametrize("positions", ["7", "5,17,4096", "3:2000:3", "0:4,3,2,1"])
def test_positions_may_have_gaps_repeat_or_run_backwards(positions):
    where = rope.positions_array(positions)
    case = CASES["plain"]
    right = rope.reference("rope", dim=64, layout="half")
    assert rope.of_tables(*case.right.tables(where), right, positions).ok
    backward = replace(case.right, sign=-1)
    found = rope.of_tables(*backward.tables(where), right, positions)
    assert finding(found, "relative").ok
    assert not finding(found, "reference").ok


@pytest.mark.long
def test_positions_in_bfloat16_pass_up_to_256_and_fail_at_257():
    wrong = replace(CASES["plain"].right, positions_in="bfloat16")
    right = rope.reference("rope", dim=64, layout="half")
    assert rope.of_tables(*wrong.tables(np.arange(257)), right, "0:257").ok
    found = rope.of_tables(*wrong.tables(np.arange(258)), right, "0:258")
    assert not found.ok
    assert finding(found, "reference").at["position"] == 257
    assert "257" in diagnose(found)[0].evidence


def test_no_tolerance_is_so_wide_that_nothing_could_fail():
    right = rope.reference("rope", dim=2)  # one pair, which makes a radian a position
    start = 10**9
    where = f"{start}:{start + 50}"
    code = Rope(ladder(2, 1e4), 2, dtype=np.float64)
    assert rope.of_tables(*code.pair_tables(np.arange(start, start + 50)), right, where).ok
    late = replace(code, offset=1).pair_tables(np.arange(start, start + 50))
    found = rope.of_tables(*late, right, where)
    assert not finding(found, "reference").ok
    assert finding(found, "reference").tolerance < 0.51


@pytest.mark.long
def test_a_given_tolerance_bounds_what_is_reported():
    right = rope.reference("rope", dim=64, layout="half")
    where = Positions.parse("0:4096")
    wrong = replace(CASES["plain"].right, table_in="bfloat16").tables(np.arange(4096))
    subject = table_subject(*wrong, "float32", right, where)
    assert examine(subject, right, 0.02).ok
    found = examine(subject, right, 1e-4)
    assert not found.ok
    assert {each.tolerance for each in found.findings} == {1e-4}
    assert diagnose(found)[0].cause == "table-precision"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_never_passes(value):
    cos, sin = exact()
    cos[11, 2] = value
    found = rope.of_tables(cos, sin, RIGHT, f"0:{COUNT}")
    for check in ("relative", "norm", "reference"):
        assert not finding(found, check).ok
        assert finding(found, check).worst is None
    assert diagnose(found)[0].cause == "not-a-number"
    assert "position 11" in diagnose(found)[0].evidence


@pytest.mark.parametrize(
    ("dtype", "pair"), [("bfloat16", "12: 0.0317383, 1.004"), ("float16", "19: 0.00421524, 0.9996")]
)
def test_of_rounded_frequencies_the_farthest_off_is_named_beside_rounded_angles(dtype, pair):
    angles = np.outer(np.arange(256), round_to_half(ladder(64, 1e4), dtype))
    angles = round_to_half(angles, dtype)
    tables = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    found = diagnose(rope.of_tables(*tables, rope.reference("rope", dim=64), "0:256"))
    (evidence,) = (each.evidence for each in found if each.cause == "inv-freq-precision")
    assert evidence.startswith(f"frequency of pair {pair} times the reference's; ")


def test_the_bound_for_all_positions_is_that_of_the_reference_where_it_is_equal():
    noise = np.random.default_rng(0).uniform(-9e-4, 9e-4, (2, 64, 32))
    tables = np.stack(CASES["plain"].right.pair_tables(np.arange(64))) + noise
    found = rope.of_tables(*tables, rope.reference("rope", dim=64), "0:64", 3e-3)
    off = finding(found, "reference").worst
    assert finding(found, "relative").worst == pytest.approx((2 + off) * off, rel=1e-9)


@pytest.mark.parametrize("kind", ["tables", "rotated", "frequencies"])
def test_of_a_subject_far_wider_than_the_reference_nothing_is_evaluated(kind, monkeypatch):
    right = rope.reference("rope", dim=64)
    wide = np.random.default_rng(0).normal(size=(16, 60_000)).astype(np.float32)

    def evaluated(*_args, **_kwargs):
        raise AssertionError("a width that differs is known before")

    monkeypatch.setattr(SubjectRotation, "blocks", evaluated)
    monkeypatch.setattr(RotationFactors, "of", evaluated)
    monkeypatch.setattr(rope_findings, "fit", evaluated)
    if kind == "tables":
        found = rope.of_tables(wide, wide, right, "0:16")
    elif kind == "rotated":
        found = rope.of_rotated(wide, wide, right, "0:16")
    else:
        found = rope.of_frequencies(wide.reshape(-1), right, "0:16")
    assert [(each.check, each.ok) for each in found.findings] == [("reference", False)]
    (cause,) = diagnose(found)
    assert cause.cause == "rotary-dim"
    assert cause.message == found.findings[0].message


def test_a_width_that_is_not_the_references_is_rotary_dim():
    right = rope.reference("rope", dim=64, layout="half")
    where = np.arange(300)
    narrow = Rope(ladder(32, 1e4), 32)
    for tables in (narrow.tables(where), narrow.pair_tables(where)):
        found = rope.of_tables(*tables, right, "0:300")
        assert not found.ok
        assert [cause.cause for cause in diagnose(found)] == ["rotary-dim"]
        assert diagnose(found)[0].evidence == "every value is right with --dim 32"
    x = rope.vectors(300, 32)
    found = rope.of_rotated(x, narrow(x, where), right, "0:300")
    assert [cause.cause for cause in diagnose(found)] == ["rotary-dim"]
    found = rope.of_frequencies(ladder(32, 1e4), right, "0:300")
    assert [cause.cause for cause in diagnose(found)] == ["rotary-dim"]


@pytest.mark.slow
def test_pairs_that_lack_the_scaling_are_counted():
    wrong = replace(CASES["llama3"].right, inv_freq=ladder(128, 5e5))
    case = CASES["llama3"]
    right = rope.reference(case.scheme, **case.given)
    found = rope.of_tables(*wrong.tables(np.arange(4096)), right, "0:4096")
    cause = diagnose(found)[0]
    assert cause.message.endswith("the table is plain RoPE, base 500000")
    assert cause.evidence.startswith("pairs 29–63 of 64 are not scaled")


@pytest.mark.slow
def test_two_causes_are_told_the_likeliest_first():
    case = CASES["yarn"]
    right = rope.reference(case.scheme, **case.given)
    wrong = replace(case.right, inv_freq=ladder(128, 1e4), scale=1.0, layout="interleaved")
    found = rope.of_tables(*wrong.tables(np.arange(4096)), right, "0:4096")
    assert [c.cause for c in diagnose(found)] == ["layout", "scaling-missing", "attention-factor"]


def test_columns_past_the_rotated_ones_must_stay():
    case = CASES["partial"]
    right = rope.reference(case.scheme, **case.given)
    x = rope.vectors(100, 96)
    y = case.right(x, np.arange(100))
    y[50, 90] += 0.01
    found = rope.of_rotated(x, y, right, "0:100")
    assert not found.ok
    assert finding(found, "reference").at["position"] == 50


def test_pairs_that_are_zero_here_and_there_are_not_held_against_the_subject_but_counted():
    right = rope.reference("rope", dim=64, layout="half")
    x = rope.vectors(200, 64)
    x[100, [7, 39]] = x[50, [3, 35]] = 0
    y = CASES["plain"].right(x, np.arange(200))
    found = rope.of_rotated(x, y, right, "0:200")
    assert found.ok
    assert "6398 of 6400 pairs can be checked (99.9 %)" in " ".join(found.subject.notes)
    assert "cannot cover all q and k" in finding(found, "relative").message
    y[100, 7] = 0.5  # from nothing
    assert not rope.of_rotated(x, y, right, "0:200").ok


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ((slice(None), [5, 37]), r"200 of 6400 .* in 31 of 32 dimension pairs \(pair 0\)"),
        (([0, 1], slice(None)), r"64 of 6400 .* at 198 positions \(position 2\)"),
        (([0], slice(None)), r"32 of 6400 .* in 32 of 32 dimension pairs"),
    ],
)
def test_vectors_that_leave_pairs_or_positions_unseen_are_refused(keep, words):
    right = rope.reference("rope", dim=64, layout="half")
    x = np.zeros((200, 64), np.float32)
    x[keep] = rope.vectors(200, 64)[keep]
    y = CASES["plain"].right(x, np.arange(200))
    with pytest.raises(InvalidInput, match=words):
        rope.of_rotated(x, y, right, "0:200")


def rounded_tables(scheme, positions, kind):
    """Tables of 8 pairs from 40 digits, each cell rounded once (half precisions: from float64)."""
    with mpmath.workdps(40):
        rates = [mpmath.power(10000, -mpmath.mpf(i) / 8) for i in range(8)]
        bases = [(mpmath.mpf(i) / 8 + mpmath.mpf("0.4")) / mpmath.mpf("1.4") for i in range(8)]
        grows = [base if scheme == "xpos" else mpmath.mpf(1) for base in bases]
        return [
            np.array(
                [
                    [
                        float(g ** (mpmath.mpf(p) / 512) * f(p * r))
                        for r, g in zip(rates, grows, strict=True)
                    ]
                    for p in positions
                ]
            ).astype(kind)
            for f in (mpmath.cos, mpmath.sin)
        ]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scheme", ["rope", "xpos"])
def test_strict_asks_for_each_cell_to_be_the_correctly_rounded_one(scheme, dtype):
    right = rope.reference(scheme, dim=16, layout="half")
    kind = rope.ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype).type
    cos, sin = rounded_tables(scheme, [*range(6), 900], kind)
    assert rope.of_tables(cos, sin, right, "0:6,900", "exact").ok
    sin[2, 7] = np.nextafter(sin[2, 7], kind(9))
    found = rope.of_tables(cos, sin, right, "0:6,900", "exact")
    assert [each.check for each in found.findings if not each.ok] == ["reference"]
    assert finding(found, "reference").at == {"position": 2, "pair": 7}
    assert "1 of 112 entries" in finding(found, "reference").message
    assert [cause.cause for cause in diagnose(found)] == ["table-precision"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "table", "column"),
    [("half", 0, 0), ("half", 1, 15), ("interleaved", 0, 7), ("interleaved", 1, 8)],
)
def test_strict_looks_at_both_columns_of_a_pair_in_full_tables(layout, table, column):
    right = rope.reference("rope", dim=16, layout=layout)
    halves = rounded_tables("rope", [*range(6), 900], np.float32)
    full = [
        np.concatenate([each, each], 1) if layout == "half" else np.repeat(each, 2, 1)
        for each in halves
    ]
    assert rope.of_tables(*full, right, "0:6,900", "exact").ok
    full[table][3, column] = np.nextafter(full[table][3, column], np.float32(9))
    found = rope.of_tables(*full, right, "0:6,900", "exact")
    assert not finding(found, "reference").ok
    pair = column % 8 if layout == "half" else column // 2
    assert finding(found, "reference").at == {"position": 3, "pair": pair}


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("table", [0, 1])
def test_strict_sees_two_columns_that_err_against_each_other(layout, table):
    """One cell a unit above and its twin a unit below: right in the mean, and both are wrong."""
    right = rope.reference("rope", dim=16, layout=layout)
    halves = rounded_tables("rope", [*range(6), 900], np.float32)
    full = [
        np.concatenate([each, each], 1) if layout == "half" else np.repeat(each, 2, 1)
        for each in halves
    ]
    twins = (1, 9) if layout == "half" else (2, 3)
    cell = halves[table][5, 1]
    for column, towards in zip(twins, (9, -9), strict=True):
        full[table][5, column] = np.nextafter(cell, np.float32(towards))
    found = rope.of_tables(*full, right, "0:6,900", "exact")
    reference = finding(found, "reference")
    assert not reference.ok
    assert reference.at == {"position": 5, "pair": 1}


def test_amplitudes_that_no_number_holds_are_refused():
    right = rope.reference("xpos", dim=16)
    with pytest.raises(InvalidInput, match="position 1000000: the amplitudes of xpos"):
        right.growth_at(np.arange(999990, 1000001)[::-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "positions", "dtype"),
    [
        (1e4, "3:900000:4999", "float32"),
        (5e5, "7:1000000:997", "bfloat16"),
        (5e5, "3:900000:17", "float32"),
    ],
)
def test_float32_code_is_self_consistent_at_positions_with_gaps_whatever_its_base(
    base, positions, dtype
):
    kind = rope.ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype).type
    code = Rope(ladder(128, base), 128, compute=np.float32)
    cos, sin = (each.astype(kind) for each in code.pair_tables(rope.positions_array(positions)))
    right = rope.reference("rope", dim=128, base=5e5 if base == 1e4 else 1e4)
    found = rope.of_tables(cos, sin, right, positions)
    assert finding(found, "relative").ok
    assert not finding(found, "reference").ok
    assert [cause.cause for cause in diagnose(found)] == ["base"]
    cos[-5, 0] += 1.5
    assert not finding(rope.of_tables(cos, sin, right, positions), "relative").ok


def test_the_numbers_reported_are_the_largest_and_no_larger_than_can_be():
    right = rope.reference("rope", dim=64)
    where = np.arange(500000, 502048)
    late = replace(CASES["plain"].right, offset=1).pair_tables(where)
    found = rope.of_tables(*late, right, "500000:502048")
    reference = finding(found, "reference")
    # A radian in the fastest pair that fails, however little slower ones are allowed.
    errors = 2 * np.sin(ladder(64, 1e4) / 2)
    assert reference.worst == pytest.approx(errors[reference.at["pair"]], rel=1e-3)
    assert reference.worst == pytest.approx(errors[0], rel=1e-3)
    cos, sin = np.random.default_rng(0).uniform(-1, 1, (2, 300, 32))
    relative = finding(rope.of_tables(cos, sin, right, "0:300"), "relative")
    assert relative.worst <= 2 * (cos**2 + sin**2).max()
    assert relative.at["m"] != relative.at["n"]


def test_a_bound_that_holds_names_a_position_and_no_pair_of_them():
    code = CASES["plain"].right.pair_tables(np.arange(100))
    found = rope.of_tables(*code, rope.reference("rope", dim=64), "0:100")
    assert set(finding(found, "relative").at) == {"position", "pair"}


def test_tolerances_follow_the_coordinates_of_pairs_that_have_axes_of_their_own(tmp_path):
    axes = 200000 + np.stack([np.arange(64), np.arange(64) // 8, np.arange(64) % 8])
    np.save(tmp_path / "axes.npy", axes)
    given = {"dim": 128, "base": 1e6, "axes": str(tmp_path / "axes.npy")}
    right = rope.reference("mrope", sections=(16, 24, 24), **given)
    followed = axes[np.repeat([0, 1, 2], [16, 24, 24])].T.astype(np.float32)
    rates = np.float32(1) / np.float32(1e6) ** (np.arange(0, 128, 2, dtype=np.float32) / 128)
    angles = followed * rates
    assert angles.dtype == np.float32
    found = rope.of_tables(np.cos(angles), np.sin(angles), right, "0:64")
    assert found.ok, found.findings
    # Position 0 is no origin here.
    assert "identity" not in [each.check for each in found.findings]
    found = rope.of_tables(np.cos(angles + rates), np.sin(angles + rates), right, "0:64")
    assert not found.ok


def test_a_file_of_more_rows_is_checked_from_its_first_row_on_alone():
    positions = Positions.parse
    check_positions(8, positions("0:5"), "--tables")
    for asked in ("3:8", "0:8:2", "1,0"):
        with pytest.raises(InvalidInput, match="has 8 rows, but . positions are requested"):
            check_positions(8, positions(asked), "--tables")


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "cause", "words"),
    [
        (1 / ladder(64, 1e4), "frequency-rule", "each frequency is inverted"),
        (2 * np.pi / ladder(64, 1e4), "frequency-rule", "wavelengths (2π/frequency) are used"),
        (np.repeat(ladder(64, 1e4), 2), "rotary-dim", "given twice"),
        (np.tile(ladder(64, 1e4), 2), "rotary-dim", "given twice"),
    ],
)
def test_numbers_given_as_frequencies_are_recognised(given, cause, words):
    right = rope.reference("rope", dim=64)
    causes = diagnose(rope.of_frequencies(given.astype(np.float32), right, "0:2048"))
    assert [each.cause for each in causes] == [cause]
    assert words in f"{causes[0].message} {causes[0].evidence}"


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_vectors_left_as_they_are_are_not_rotated_and_zeros_are_something_else(dtype):
    kind = rope.ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    right = rope.reference("rope", dim=128, base=5e5, layout="half")
    x = rope.vectors(2048, 128).astype(kind)
    causes = diagnose(rope.of_rotated(x, x, right, "0:2048"))
    assert [each.cause for each in causes] == ["no-rotation"]
    found = rope.of_rotated(x, 0 * x, right, "0:2048")
    assert [each.cause for each in diagnose(found)] == ["unknown"]
    assert finding(found, "norm").message == "every length becomes 0"


def test_lengths_are_told_with_the_digits_that_differ_and_as_no_number_where_they_are_none():
    right = rope.reference("rope", dim=64)
    cos, sin = CASES["plain"].right.pair_tables(np.arange(100))
    larger = np.float32(1 + 3e-6)
    found = rope.of_tables(cos * larger, sin * larger, right, "0:100")
    assert finding(found, "norm").message.startswith("every length is multiplied by 1.000003, not")
    cos[5, 7] = np.nan
    found = rope.of_tables(cos, sin, right, "0:100")
    assert finding(found, "norm").message == "is NaN or infinite at position 5, pair 7"


def test_one_cell_off_by_a_rounding_is_no_attention_factor():
    right = rope.reference("rope", dim=64)
    cos, sin = CASES["plain"].right.pair_tables(np.arange(100))
    cos[99, 31] = np.nextafter(cos[99, 31], np.float32(2))
    found = rope.of_tables(cos, sin, right, "0:100", "exact")
    assert finding(found, "norm").message.startswith("lengths are multiplied by 0.9999999")


@pytest.mark.parametrize("dtype", [rope.ml_dtypes.bfloat16, np.float16])
def test_coarse_tables_of_a_base_that_nobody_uses_are_consistent(dtype):
    """Rows far out tell a frequency best, and a coarse format leaves them nearly as exact."""
    turns = np.outer(np.arange(2048), 13_000 ** (-np.arange(0, 32, 2) / 32))
    right = rope.reference("rope", dim=32)
    found = rope.of_tables(
        np.cos(turns).astype(dtype), np.sin(turns).astype(dtype), right, "0:2048"
    )
    assert finding(found, "relative").ok
    assert not finding(found, "reference").ok

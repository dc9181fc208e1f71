"""The rules of tolerance: code of each precision passes its own, and fails the next one.

The chains are NumPy's own float32 and float64, the exact values mpmath's.
"""

import mpmath
import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.inference.tolerance import (
    DOUBLE_ANGLE,
    HALF_RULES,
    RULES,
    SINGLE_ANGLE,
    Tolerance,
)
from posenc_cli.positions import Positions
from posenc_cli.rotary.rotated import rotated_subject
from posenc_cli.rotary.subject import frequency_subject, table_subject
from posenc_cli.rotary.verdict import examine
from tests.checks import rope

RANGES = ("0:16", "500:516", "131056:131072", "999984:1000000")
LONG = RANGES[2:]
PAIRS, BASE = 16, 500_000


def exact_frequencies():
    with mpmath.workdps(40):
        return [mpmath.power(BASE, -mpmath.mpf(i) / PAIRS) for i in range(PAIRS)]


def single_tables(positions, *, frequencies=None, factor=None):
    """What float32 code makes of correctly rounded frequencies."""
    if frequencies is None:
        frequencies = np.array([float(f) for f in exact_frequencies()]).astype(np.float32)
    angles = np.asarray(positions).astype(np.float32)[:, None] * frequencies
    tables = np.cos(angles), np.sin(angles)
    assert tables[0].dtype == np.float32
    return tables if factor is None else tuple(t * np.float32(factor) for t in tables)


def double_tables(positions):
    """What float64 code makes, its powers included."""
    frequencies = 1.0 / BASE ** (np.arange(0, 2 * PAIRS, 2) / (2 * PAIRS))
    angles = np.asarray(positions)[:, None] * frequencies
    return np.cos(angles), np.sin(angles)


def exact_tables(positions, kind):
    with mpmath.workdps(40):
        frequencies = exact_frequencies()
        return tuple(
            np.array([[kind(function(int(p) * f)) for f in frequencies] for p in positions])
            for function in (mpmath.cos, mpmath.sin)
        )


def right():
    return rope.reference("rope", dim=2 * PAIRS, base=float(BASE), layout="half")


def holds(tables, positions, rule, *, reference=None):
    reference = reference or right()
    stored = [rope.readable(table) for table in tables]
    where = Positions.parse(positions)
    dtype = rope.dtype_of(tables[0])
    return examine(table_subject(*stored, dtype, reference, where), reference, rule).ok


@pytest.mark.sweep(12)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("positions", RANGES)
def test_each_chain_passes_its_own_rule_and_all_coarser_ones(positions, rule):
    where = rope.positions_array(positions)
    rank = RULES.index(rule)
    for dtype in (np.float32, np.float64, np.float16, rope.ml_dtypes.bfloat16):
        single = [table.astype(dtype) for table in single_tables(where)]
        double = [table.astype(dtype) for table in double_tables(where)]
        if rank <= RULES.index("float32"):
            assert holds(single, positions, rule), dtype
        if rank <= RULES.index("float64"):
            assert holds(double, positions, rule), dtype
    for kind in (np.float32, np.float64):
        assert holds(exact_tables(where, kind), positions, rule), kind


@pytest.mark.sweep(4)
@pytest.mark.parametrize("positions", LONG)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_coarser_chain_fails_the_next_rule_at_long_positions(positions, dtype):
    where = rope.positions_array(positions)
    single = [table.astype(dtype) for table in single_tables(where)]
    assert not holds(single, positions, "float64")
    assert not holds(single, positions, "exact")
    # Frequencies by a float32 power have more roundings than one.
    powers = np.float32(1) / np.float32(BASE) ** (
        np.arange(0, 2 * PAIRS, 2, dtype=np.float32) / np.float32(2 * PAIRS)
    )
    coarse = [t.astype(dtype) for t in single_tables(where, frequencies=powers)]
    assert holds(coarse, positions, "auto")
    assert not holds(coarse, positions, "float32")
    if dtype is np.float64:
        assert not holds(double_tables(where), positions, "exact")


def perturbed(units):
    """The correctly rounded float32 frequencies, each off by some units in the last place."""
    frequencies = np.array([float(f) for f in exact_frequencies()]).astype(np.float32)
    return (frequencies.view(np.int32) + np.asarray(units, np.int32)).view(np.float32)


def causes_of(frequencies, positions, rule):
    tables = single_tables(rope.positions_array(positions), frequencies=frequencies)
    examination = rope.of_tables(*tables, right(), positions, rule)
    return () if examination.ok else diagnose(examination)


@pytest.mark.parametrize("rule", ["float32", "float64", "exact"])
@pytest.mark.parametrize("positions", ["0:2048", "100000:101000"])
def test_frequencies_that_are_float32_powers_are_within_what_float32_can_reach(rule, positions):
    """Whatever units a library's power is off by, in some pairs alone."""
    units = np.zeros(PAIRS, int)
    units[[2, 3, 5]] = [1, -2, 3]
    angles = np.multiply.outer(rope.positions_array(positions), perturbed(units).astype(np.float64))
    tables = cos_and_sin(angles, off_by=1)
    (cause,) = diagnose(rope.of_tables(*tables, right(), positions, rule))
    assert cause.cause == ("table-precision" if rule == "exact" else "unknown")
    assert "within the error of float32 code" in f"{cause.message} {cause.evidence}"


@pytest.mark.parametrize("rule", ["float32", "float64", "exact"])
def test_frequencies_that_are_all_off_by_one_ratio_are_told_as_no_powers(rule):
    where = rope.positions_array("0:2048")
    rates = np.array([float(f) for f in exact_frequencies()]) * (1 + 2e-7)
    tables = cos_and_sin(np.multiply.outer(where, rates.astype(np.float32)), off_by=1)
    (cause,) = diagnose(rope.of_tables(*tables, right(), "0:2048", rule))
    assert cause.cause == ("table-precision" if rule == "exact" else "unknown")
    assert "ulp" not in cause.message


def cos_and_sin(angles, *, off_by):
    """Cosines and sines in float32, off by some units in the last place, as libraries' are."""
    random = np.random.default_rng(5)
    right = (function(angles).astype(np.float32) for function in (np.cos, np.sin))
    return [
        table + np.spacing(table) * random.integers(-off_by, off_by, table.shape, endpoint=True)
        for table in right
    ]


@pytest.mark.parametrize(
    ("coarse", "causes"),
    [
        ("rates", ["inv-freq-precision: the frequencies were rounded to float32"]),
        (
            "angles",
            ["position-precision: the angles, position times frequency, were rounded"],
        ),
        (
            "rates angles",
            [
                "inv-freq-precision: the frequencies were rounded to float32",
                "position-precision: the angles, position times frequency, were rounded",
            ],
        ),
    ],
)
@pytest.mark.parametrize("rule", ["float64", "exact", 1e-9])
@pytest.mark.parametrize("units", [0, 1])
def test_what_float32_code_rounds_is_told_where_more_was_asked_for(coarse, causes, units, rule):
    """Whichever of the numbers near the right one its cosines and sines are."""
    where = np.arange(100_000, 101_000)
    rates = np.array([float(f) for f in exact_frequencies()])
    if "rates" in coarse:
        rates = rates.astype(np.float32).astype(np.float64)
    angles = np.multiply.outer(where, rates)
    if "angles" in coarse:
        angles = angles.astype(np.float32).astype(np.float64)
    tables = cos_and_sin(angles, off_by=units)
    positions = "100000:101000"
    assert rope.of_tables(*tables, right(), positions, "auto").ok
    found = diagnose(rope.of_tables(*tables, right(), positions, rule))
    assert len(found) == len(causes)
    for why, text in zip(found, causes, strict=True):
        cause, words = text.split(": ")
        assert (why.cause, words in why.message) == (cause, True), why
        assert ("together with the other cause: " in why.evidence) == (len(causes) > 1)


@pytest.mark.parametrize("rule", ["float64", "exact"])
def test_cosines_off_by_units_in_the_last_place_are_told_as_nothing_else(rule):
    where = np.arange(100_000, 101_000)
    rates = np.array([float(f) for f in exact_frequencies()])
    tables = cos_and_sin(np.multiply.outer(where, rates), off_by=1)
    (cause,) = diagnose(rope.of_tables(*tables, right(), "100000:101000", rule))
    assert cause.cause == ("table-precision" if rule == "exact" else "unknown")
    assert "within the error of float32 code" in f"{cause.message} {cause.evidence}"


def test_frequencies_of_some_pairs_in_float32_are_not_said_to_be_of_all():
    exact = np.array([float(f) for f in exact_frequencies()])
    rates = np.where(np.arange(PAIRS) < PAIRS // 2, exact.astype(np.float32), exact)
    where = np.arange(131_056, 131_072)
    angles = np.multiply.outer(where, rates)
    tables = [function(angles).astype(np.float32) for function in (np.cos, np.sin)]
    (why,) = diagnose(rope.of_tables(*tables, right(), "131056:131072", "float64"))
    assert why.cause == "unknown"
    assert why.message.endswith("within the error of float32 code")


@pytest.mark.long
@pytest.mark.sweep(10)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("positions", RANGES[1:])
def test_no_units_in_the_last_place_have_a_false_cause(positions, seed):
    rng = np.random.default_rng(seed)
    several = rng.integers(-3, 4, PAIRS)
    few = np.where(rng.random(PAIRS) < 0.15, rng.integers(-2, 3, PAIRS), 0)
    for units in (several, few):
        causes = causes_of(perturbed(units), positions, "float32")
        assert {why.cause for why in causes} <= {"inv-freq-precision", "unknown"}, units


@pytest.mark.parametrize("rule", ["float32", "auto"])
def test_an_attention_factor_in_float32_passes(rule):
    reference = rope.reference(
        "rope-yarn",
        dim=2 * PAIRS,
        base=float(BASE),
        factor=4.0,
        original_max_position_embeddings=4096,
    )
    assert reference.scale != 1
    for positions in RANGES:
        tables = single_tables(
            rope.positions_array(positions),
            frequencies=reference.frequencies.astype(np.float32),
            factor=reference.scale,
        )
        assert holds(tables, positions, rule, reference=reference)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("positions", RANGES)
def test_vectors_that_float32_code_turned_pass_its_rule(positions):
    where = rope.positions_array(positions)
    x = rope.vectors(len(where), 2 * PAIRS)
    cos, sin = single_tables(where)
    first, second = x[:, :PAIRS], x[:, PAIRS:]
    y = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)
    subject = rotated_subject(x, y, "float32", right(), Positions.parse(positions))
    assert examine(subject, right(), "float32").ok
    if positions in LONG:
        assert not examine(subject, right(), "float64").ok


def test_the_bound_of_a_float32_product_is_reached_and_not_passed():
    reference = rope.reference("rope", dim=128, base=10_000.0, layout="half")
    frequencies = reference.frequencies.astype(np.float32)
    where = np.arange(100_003, 130_003, 3)
    angles = where.astype(np.float32)[:, None] * frequencies
    errors = np.abs(
        angles.astype(np.longdouble) - where[:, None] * reference.frequencies.astype(np.longdouble)
    )
    shares = errors / (SINGLE_ANGLE * where[:, None] * reference.frequencies)
    assert 0.9 < shares.max() <= 1


def test_positions_that_float32_lacks_are_granted_a_rounding_of_their_own():
    tolerance = Tolerance.of("float32", dtype="float32", roundings=1, amplitude=1.0)
    frequency = np.array([1e-4])
    # 2^24 + 1 becomes 2^24; the next ones that are whole in float32 are even.
    where = 2**24 + 1 + 2 * np.arange(4000)
    rounded = where.astype(np.float32)
    assert (rounded != where).all()
    angles = rounded * frequency.astype(np.float32)
    errors = np.abs(angles.astype(np.longdouble) - where * np.longdouble(frequency[0]))
    allowed = tolerance.cells(where, frequency)[:, 0] - tolerance.floor
    assert (errors <= allowed).all()
    assert (errors > allowed / 1.5).any()
    before = tolerance.cells(np.array([2**24]), frequency)[0, 0] - tolerance.floor
    assert before == pytest.approx(SINGLE_ANGLE * 2**24 * 1e-4)


@pytest.mark.parametrize("base", [1e4, 5e5, 1e7, 1e9])
def test_float64_powers_are_within_what_the_rule_grants(base):
    exponents = np.arange(0, 128, 2) / 128
    for frequencies in (1.0 / base**exponents, base**-exponents, np.exp(-exponents * np.log(base))):
        with mpmath.workdps(40):
            errors = [
                abs(mpmath.mpf(float(f)) * mpmath.power(base, mpmath.mpf(2 * i) / 128) - 1)
                for i, f in enumerate(frequencies)
            ]
        assert max(errors) + 2.0**-53 < DOUBLE_ANGLE


FREQUENCIES = [
    # In which format they were computed, in which stored, and which rules they hold to.
    (np.float32, np.float32, {"auto", "float32", "float64", "exact"}),
    (np.float32, np.float64, {"auto", "float32"}),
    (np.float64, np.float64, {"auto", "float32", "float64"}),
    (np.float64, np.float32, {"auto", "float32", "float64"}),
    (np.float32, np.float16, set()),
]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("computed", "stored", "rules"), FREQUENCIES)
def test_frequencies_have_the_same_rules(computed, stored, rules):
    values = np.array([float(f) for f in exact_frequencies()])
    if computed is np.float64:
        # Off by 40 roundings of float64, as no power is but a chain of them may be.
        values = values * (1 + 40 * 2.0**-53)
    values = values.astype(computed).astype(stored)
    where = Positions.parse("0:1000000:999")
    for rule in RULES:
        subject = frequency_subject(values, values.dtype.name, right(), where)
        examined = examine(subject, right(), rule)
        if rule != "exact" or stored is not np.float32 or computed is np.float32:
            # Frequencies that were rounded to a half precision are wrong by any rule.
            assert examined.ok == (("auto" if rule in HALF_RULES else rule) in rules), rule


def test_each_rule_gives_its_reason():
    reasons = {
        rule: Tolerance.of(rule, dtype="bfloat16", roundings=2, amplitude=1.0).reason
        for rule in RULES
    }
    assert len(set(reasons.values())) == len(RULES)
    for rule in RULES[1:]:
        assert reasons[rule].startswith(f"{rule}: ")
    assert all("2 roundings to bfloat16" in reason for reason in reasons.values())

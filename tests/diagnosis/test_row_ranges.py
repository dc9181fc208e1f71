"""Where a table is wrong is said, and what it is there: each boundary is the true one.

The tables are made here, in NumPy alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.positions import Positions
from tests.checks import rope
from tests.diagnosis.textbook import dynamic, ladder, to
from tests.examples import examples

ROWS, DIM = 1500, 32
PAIRS = DIM // 2
RIGHT = rope.reference("rope", dim=DIM)
INV_FREQ = ladder(DIM, 1e4)
AT = np.arange(ROWS, dtype=np.float64)


def factors(positions=AT, rates=INV_FREQ):
    """cos + i·sin, (rows, pairs)."""
    return np.exp(1j * np.multiply.outer(np.asarray(positions, np.float64), rates))


def bfloat16(values):
    return to(values.real, "bfloat16") + 1j * to(values.imag, "bfloat16")


EXACT = factors()
MISTAKES = {
    "base": (factors(rates=ladder(DIM, 5e5)), {"base"}),
    "fitted base": (factors(rates=ladder(DIM, 12345)), {"base"}),
    "linear": (factors(rates=INV_FREQ / 4), {"frequency-rule"}),
    "backward": (EXACT.conj(), {"direction"}),
    "late": (factors(AT - 3), {"position-offset"}),
    "swapped": (1j * EXACT.conj(), {"cos-sin-mispaired"}),
    "longer": (1.25 * EXACT, {"attention-factor"}),
    "coarse": (bfloat16(EXACT), {"table-precision"}),
    "still": (np.ones_like(EXACT), {"no-rotation", "rotary-dim", "position-offset"}),
    "frequencies": (factors(rates=to(INV_FREQ, "bfloat16")), {"inv-freq-precision"}),
}


def causes_of(values, right=RIGHT):
    cos, sin = (part.astype(np.float32) for part in (values.real, values.imag))
    return diagnose(rope.of_tables(cos, sin, right, f"0:{len(values)}"))


def rows_from(wrong, start, stop=ROWS):
    inside = (start <= AT) & (stop > AT)
    return np.where(inside[:, None], wrong, EXACT)


def pairs_from(wrong, start, stop):
    inside = (np.arange(PAIRS) >= start) & (np.arange(PAIRS) < stop)
    return np.where(inside, wrong, EXACT)


def residual_by_hand(values, claimed):
    """The largest distance of the cells as stored from those that are claimed."""
    stored = values.real.astype(np.float32) + 1j * values.imag.astype(np.float32).astype(float)
    return np.abs(stored - claimed).max()


@pytest.mark.long
@pytest.mark.sweep(10)
@pytest.mark.parametrize("name", [name for name in MISTAKES if name != "fitted base"])
def test_rows_from_a_position_on_are_told_with_their_cause(name):
    wrong, causes = MISTAKES[name]
    (first, *_) = causes_of(rows_from(wrong, 1024))
    assert first.cause in causes
    assert "1024 on" in first.message
    assert first.where.fields() == {"positions": "1024:1500"}
    fields = first.residual.fields()
    if first.cause != "position-offset":  # of all rows, those that are where they should be too
        assert first.message.startswith("from position 1024 on: ")
        assert first.evidence.endswith("all is right up to position 1023")
        assert fields["cells"] == (ROWS - 1024) * PAIRS
    assert fields["left_over"]["cells"] <= 0.001 * fields["cells"]


@pytest.mark.long
def test_rows_of_a_base_that_only_they_could_tell_are_unknown_from_their_first_on():
    (cause,) = causes_of(rows_from(MISTAKES["fitted base"][0], 1024))
    assert cause.cause == "unknown"
    assert cause.where.positions == "1024:1500"


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_pairs_that_no_known_mistake_explains_are_named(name):
    wrong, causes = MISTAKES[name]
    (first, *_) = causes_of(pairs_from(wrong, 5, 12))
    assert first.cause in causes | {"unknown"}
    assert "pairs 5–11 of 16" in first.message
    assert first.where.fields()["pairs"] == "5:12"


@pytest.mark.slow
def test_two_tables_one_after_the_other_are_both_told():
    values = rows_from(rows_from(MISTAKES["base"][0], 400), 0)
    values[900:] = MISTAKES["linear"][0][900:]
    first, second = causes_of(values)
    assert (first.cause, first.where.positions) == ("base", "400:900")
    assert (second.cause, second.where.positions) == ("frequency-rule", "900:1500")
    assert "all is right up to position 399" in first.evidence
    assert "all is right" not in second.evidence


@pytest.mark.slow
def test_every_second_row_of_another_table_is_unknown_with_its_place():
    odd = (AT % 2 == 1)[:, None]
    (first,) = causes_of(np.where(odd, MISTAKES["base"][0], EXACT))
    assert first.cause == "unknown"
    assert first.message == "values differ in pairs 1–15 of 16 at every 2nd position from 1 on"


@pytest.mark.long
def test_a_pair_that_repeats_another_is_told_and_no_base_is_read_off_it():
    """Of 32 pairs the last has the frequency of the one before: 31 contradict any other base."""
    rates = ladder(64, 1e4)
    rates[-1] = rates[-2]
    right = rope.reference("rope", dim=64)
    for causes in (
        causes_of(factors(rates=rates), right),
        diagnose(rope.of_frequencies(rates, right, "0:4096")),
    ):
        (first,) = causes
        assert first.cause == "unknown"
        assert first.message == "pair 31 of 32 has another frequency, by no known rule"
        assert "frequency of pair 31: 0.0001778" in first.evidence
        assert first.where.fields() == {"pairs": "31"}


@pytest.mark.slow
def test_frequencies_that_are_all_off_by_one_ratio_are_no_offset_of_positions():
    """1 + 9e-7 of each: within what float32 may show in any cell, but the same in all pairs."""
    rates = ladder(64, 1e4) * (1 + 9e-7)
    right = rope.reference("rope", dim=64)
    where = "0:131072:7,131000:131072"
    values = np.exp(1j * np.multiply.outer(rope.positions_array(where).astype(float), rates))
    for examined in (
        rope.of_frequencies(rates, right, where),
        rope.of_tables(values.real, values.imag, right, where),
    ):
        assert not examined.ok
        (first, *others) = diagnose(examined)
        assert (first.cause, others) == ("unknown", [])
        assert first.message.startswith("no rounding of a frequency and its product")


def test_a_value_that_is_no_number_hides_no_other_cause():
    values = MISTAKES["base"][0].copy()
    values[17, 3] = complex(np.nan, 0.0)
    first, second = causes_of(values)
    assert (first.cause, first.message) == ("base", "the base is 500000, not 10000")
    assert second.cause == "not-a-number"
    assert second.evidence.startswith(f"1 of {ROWS * PAIRS} are not, the first at position 17")


@pytest.mark.long
def test_a_residual_is_the_largest_difference_over_every_cell():
    values = MISTAKES["base"][0] * (1 + 3e-7 * np.sin(np.arange(ROWS * PAIRS)).reshape(ROWS, PAIRS))
    (first,) = causes_of(values)
    expected = residual_by_hand(values, MISTAKES["base"][0])
    assert first.residual.largest == pytest.approx(expected, rel=1e-6)
    assert f"reproduced to {expected:.2g} at all {ROWS} positions" in first.evidence
    spoiled = values.copy()
    spoiled[1101, 4] = 0
    (first, *_) = causes_of(spoiled)
    assert first.residual.fields()["left_over"] == {"cells": 1, "positions": 1, "pairs": 1}
    assert first.residual.largest == pytest.approx(1, rel=1e-6)
    assert first.residual.within == pytest.approx(expected, rel=1e-6)


@pytest.mark.long
def test_what_fits_as_well_is_named_too():
    """A base stretched by the factor alone is both NTK without its exponent and that base."""
    right = rope.reference("rope-ntk", dim=64, factor=4.0)
    causes = causes_of(factors(rates=ladder(64, 4e4)), right)
    (first,) = causes
    assert first.message == "the base is scaled by the factor without its exponent d/(d − 2)"
    assert [why.message for why in first.alike] == [
        "the scaling is not applied and the base is 40000, not 10000"
    ]
    assert first.text.startswith(f"either {first.cause}: {first.message}, or scaling-missing: ")
    assert first.fields()["alike"][0]["message"] == first.alike[0].message


@pytest.mark.long
def test_a_head_that_turns_in_part_is_compared_with_rules_of_its_width_alone():
    right = rope.reference("rope", dim=96, partial=0.25)
    (first, *_) = diagnose(rope.of_frequencies(1.7 * ladder(24, 1e4), right, "0:4096"))
    assert first.cause in ("frequency-rule", "uninitialised")


PROPORTIONAL = rope.reference("rope-proportional", dim=128, partial=0.25, layout="half")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("denominator", [128, 32])
def test_proportional_pairs_within_the_first_columns_are_paired_otherwise_and_consistent(
    denominator,
):
    """Gemma 4's rotation with partners 16 columns away, as plain partial rotation has them."""
    rates = ladder(32, 1e4, denominator)
    where = np.arange(600)
    x = rope.vectors(600, 128)
    angles = np.multiply.outer(where.astype(float), rates)
    a, b = x[:, :16], x[:, 16:32]
    turned = [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)]
    y = np.concatenate([*turned, x[:, 32:]], axis=1).astype(np.float32)
    examined = rope.of_rotated(x, y, PROPORTIONAL, "0:600")
    holds = {finding.check: finding.ok for finding in examined.findings}
    assert holds == {"relative": True, "norm": True, "identity": True, "reference": False}
    causes = diagnose(examined)
    assert causes[0].cause == "layout"
    assert causes[0].message == (
        "the code pairs dimensions i and i + 16 within the first 32; the reference pairs i and "
        "i + 64"
    )
    assert [cause.cause for cause in causes[1:]] == ["frequency-rule"] * (denominator == 32)


@pytest.mark.long
def test_rows_made_for_two_lengths_of_dynamic_ntk_are_told_part_by_part():
    given = {"dim": 64, "factor": 4.0, "max_position_embeddings": 1024}
    right = rope.reference("rope-dynamic", seq_len=4096, **given)
    rates = [dynamic(64, 1e4, 4, length, 1024) for length in (1024, 2048, 4096)]
    values = np.exp(1j * np.arange(4096)[:, None] * np.repeat(rates, (1024, 1024, 2048), axis=0))
    first, second = causes_of(values, right)
    assert (first.cause, second.cause) == ("scaling-missing", "frequency-rule")
    assert first.message.startswith("up to position 1023: the scaling of rope-dynamic is not")
    assert second.message == "positions 1024–2047: the base is scaled for a length of 2048"
    assert first.residual.whole
    assert second.residual.whole


@pytest.mark.parametrize(
    ("known", "causes"), [(200, ["unknown"]), (1000, ["direction", "unknown"])]
)
def test_parts_are_causes_only_where_they_leave_less_than_half_of_the_wrong_rows(known, causes):
    nameless = EXACT + 0.1 * np.random.default_rng(4).standard_normal(EXACT.shape)
    found = causes_of(np.where(AT[:, None] < known, EXACT.conj(), nameless))
    assert [cause.cause for cause in found] == causes


@pytest.mark.slow
@examples(40)
@given(
    name=st.sampled_from(sorted(MISTAKES)),
    other=st.sampled_from(["right", *sorted(MISTAKES)]),
    start=st.integers(min_value=1, max_value=ROWS - 2),
    of_pairs=st.booleans(),
)
def test_the_boundary_of_two_tables_is_the_true_one_or_none_is_named(name, other, start, of_pairs):
    wrong, causes = MISTAKES[name]
    # Some pairs that turn at another rate, or not at all, are a rule of frequencies too.
    before, expected = EXACT, {"frequency-rule"} if of_pairs else set()
    if other != "right":
        before, expected = MISTAKES[other][0], expected | MISTAKES[other][1]
    if other == name:
        return
    boundary = 1 + start % (PAIRS - 2) if of_pairs else start
    inside = np.arange(PAIRS) >= boundary if of_pairs else (boundary <= AT)[:, None]
    for cause in causes_of(np.where(inside, wrong, before)):
        assert cause.cause in causes | expected | {"unknown"}
        named = None if cause.where is None else cause.where.positions
        if named is None or cause.cause == "unknown":
            continue
        ends = Positions.parse(named)
        assert not of_pairs
        if "positions are rotated as 0, and every later one" in cause.message:
            # One cause of both: it names every row that is wrong, and says where they part.
            still = 3 if boundary == 4 else boundary  # position 3 is rotated as 0 by both
            assert (ends.first, ends.last) == (1, ROWS - 1)
            assert cause.message.startswith(f"the first {still} positions are rotated as 0, ")
            assert cause.message.endswith("is off by -3, as padding on the left is") == (still == 3)
            continue
        assert ends.first == boundary or (ends.first <= 1 and ends.last == boundary - 1)


@pytest.mark.long
def test_a_rounding_that_changes_nothing_is_no_cause():
    values = np.where(AT[:, None] < 128, EXACT, factors(rates=INV_FREQ / 8))
    right = rope.reference("rope-linear", dim=DIM, factor=8.0)
    for why in causes_of(values, right):
        assert "rounded" not in " ".join(each.message for each in (why, *why.alike))


@pytest.mark.long
@pytest.mark.parametrize("start", [900, 700])
def test_positions_that_are_off_after_another_mistake_are_said_to_be(start):
    values = MISTAKES["linear"][0].copy()
    values[900:] = factors(AT[900:] - start)
    (first, second) = causes_of(values)
    assert (first.cause, second.cause) == ("frequency-rule", "position-offset")
    assert second.message == f"from position 900 on: positions are off by -{start}"


@pytest.mark.long
@pytest.mark.parametrize("base", [1e4, 1e12])  # by which the slowest pair hardly turns
def test_positions_turned_as_any_others_are_counted_and_reproduced(base):
    generator, rates = np.random.default_rng(0), ladder(DIM, base)
    rows = generator.choice(ROWS, 40, replace=False)
    positions = AT.copy()
    positions[rows] = generator.integers(0, ROWS, 40)
    right = rope.reference("rope", dim=DIM, base=base)
    (cause,) = causes_of(factors(positions, rates), right)
    message = "40 of 1500 positions are rotated as others are, the first of them"
    assert cause.message == f"{message} {rows.min()}"
    assert cause.residual.largest < 1e-7
    assert cause.residual.fields()["left_over"]["cells"] == 0

"""A run of rows that is wrong in its own way is told with its place, and nothing false.

The tables are made here, in NumPy alone.
"""

import numpy as np
import pytest

from posenc_cli.diagnosis import rows_and_pairs
from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.inference.position_maps import whole_positions
from tests.checks import rope
from tests.diagnosis.textbook import ladder, to

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


@pytest.mark.long
@pytest.mark.sweep(10)
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize(
    ("start", "stop", "place"),
    [
        (1024, ROWS, "from position 1024 on"),
        (0, 700, "–699"),
        (300, 900, "at positions 300–899"),
    ],
)
def test_a_run_of_rows_is_told_with_its_place(name, start, stop, place):
    wrong, _ = MISTAKES[name]
    (first, *_) = causes_of(rows_from(wrong, start, stop))
    assert first.cause in ("unknown", "position-offset")
    if first.cause == "unknown" and first.where.positions:
        # Position 0 may be right whatever the frequencies are.
        assert first.where.positions in (f"{start}:{stop}", f"{max(start, 1)}:{stop}")
        assert place in first.message


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_pairs_that_no_known_mistake_explains_are_named(name):
    wrong, causes = MISTAKES[name]
    (first, *_) = causes_of(pairs_from(wrong, 5, 12))
    assert first.cause in causes | {"unknown"}
    assert "pairs 5–11 of 16" in first.message
    assert first.where.fields()["pairs"] == "5:12"


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
        assert first.message == "pair 31 of 32 has a wrong frequency, by no known rule"
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


@pytest.mark.long
def test_two_runs_of_different_rows_are_unknown_with_their_place():
    values = rows_from(MISTAKES["base"][0], 400)
    values[900:] = MISTAKES["linear"][0][900:]
    (cause,) = causes_of(values)
    assert (cause.cause, cause.where.positions) == ("unknown", "400:1500")


def test_values_that_are_no_numbers_are_told_beside_others_that_differ():
    values = MISTAKES["base"][0].copy()
    values[17, 3] = complex(np.nan, 0.0)
    first, second = causes_of(values)
    assert (first.cause, second.cause) == ("not-a-number", "unknown")
    assert first.evidence.startswith(f"1 of {ROWS * PAIRS} rotations, first at position 17")


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
def test_a_rounding_that_changes_nothing_is_no_cause():
    values = np.where(AT[:, None] < 128, EXACT, factors(rates=INV_FREQ / 8))
    right = rope.reference("rope-linear", dim=DIM, factor=8.0)
    for why in causes_of(values, right):
        assert "rounded" not in " ".join(each.message for each in (why, *why.alike))


@pytest.mark.long
@pytest.mark.parametrize("base", [1e4, 1e12])  # by which the slowest pair hardly turns
def test_positions_turned_as_any_others_are_counted_and_reproduced(base):
    generator, rates = np.random.default_rng(0), ladder(DIM, base)
    rows = generator.choice(ROWS, 40, replace=False)
    positions = AT.copy()
    positions[rows] = generator.integers(0, ROWS, 40)
    right = rope.reference("rope", dim=DIM, base=base)
    (cause,) = causes_of(factors(positions, rates), right)
    message = "40 of 1500 positions get the rotation of another position, first at"
    assert cause.message == f"{message} {rows.min()}"
    assert cause.residual.within < 1e-7
    assert cause.residual.fields()["left_over"]["cells"] == 0


def test_positions_far_beyond_those_of_the_first_rows_are_read_there_too():
    """The first block of rows has positions below 2048, but is rotated as positions up to 9000."""
    positions = np.random.default_rng(0).permutation(9000)
    right = rope.reference("rope", dim=DIM, base=100.0)
    (cause,) = causes_of(factors(positions, ladder(DIM, 100.0)), right)
    assert cause.message.startswith("8998 of 9000 positions get the rotation of another")


def test_positions_are_read_only_in_rows_that_differ(monkeypatch):
    read = []
    monkeypatch.setattr(
        rows_and_pairs,
        "whole_positions",
        lambda sample, last: read.append(len(sample.positions)) or whole_positions(sample, last),
    )
    values = EXACT.copy()
    values[77, 5] += 1e-3
    assert {str(found.cause) for found in causes_of(values)} == {"unknown"}
    assert read == [1]  # before: all rows, at every turn

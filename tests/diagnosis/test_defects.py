"""What is wrong with tables beside their frequencies is named, with the number that finds it.

The tables are made here, in NumPy alone.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from tests.checks import rope
from tests.diagnosis.textbook import ladder, yarn

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

RIGHT = rope.reference("rope", dim=32)
INV_FREQ = ladder(32, 1e4)
ROWS = 1500


def angles_at(positions, rates=INV_FREQ):
    return np.multiply.outer(np.asarray(positions, np.float64), rates)


def tables_at(positions, rates=INV_FREQ):
    angles = angles_at(positions, rates)
    return np.cos(angles), np.sin(angles)


def causes_of(cos, sin, right=RIGHT):
    positions = f"0:{len(cos)}"
    examined = rope.of_tables(cos.astype(np.float32), sin.astype(np.float32), right, positions)
    assert not examined.ok
    return diagnose(examined)


MOVED = {
    "ring": (lambda p: p % 700, "positions restart every 700"),
    "last row": (lambda p: np.minimum(p, 1023), "positions are clamped at 1023"),
    "decode at 0": (
        lambda p: np.where(p < 640, p, 0),
        "every position from 640 on is treated as 0",
    ),
    "prompt, then anew": (
        lambda p: np.where(p < 400, p, p - 400),
        "positions restart from 0 at 400",
    ),
    "left padding": (
        lambda p: np.where(p < 555, 1, p - 555),
        "the first 555 positions are treated as 1, and later ones are shifted by -555",
    ),
    "a row more": (
        lambda p: np.where(p < 901, p, p + 1),
        "positions from 901 on are shifted by +1",
    ),
}


@pytest.mark.long
@pytest.mark.sweep(17)
@pytest.mark.parametrize("name", MOVED)
def test_a_rule_by_which_positions_get_lost_is_said_with_its_numbers(name):
    moved, message = MOVED[name]
    positions = np.arange(ROWS)
    turned_as = moved(positions).astype(np.int64)
    (cause, *others) = causes_of(*tables_at(turned_as))
    assert (cause.cause, others) == ("position-offset", [])
    assert cause.message.startswith(message)
    wrong = positions[turned_as != positions]
    counted = f"{wrong.size} of {ROWS} positions get the rotation of another: "
    assert cause.evidence.startswith(counted)
    assert f": {wrong[0]} as {turned_as[wrong[0]]}" in cause.evidence
    assert "otherwise" not in cause.evidence


GARBAGE = np.random.default_rng(5)
UNWRITTEN = {
    "no numbers": np.where(np.arange(16) == 3, np.nan, INV_FREQ),
    "bits of memory": GARBAGE.integers(0, 2**31, 16, np.uint32).view(np.float32).clip(-1e30, 1e30),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", UNWRITTEN)
def test_frequencies_that_no_rule_gives_are_called_uninitialised(name):
    given = UNWRITTEN[name].astype(np.float32)
    examined = rope.of_frequencies(given, RIGHT, "0:4096")
    (cause,) = diagnose(examined)
    assert cause.cause == "uninitialised"
    assert "outside the range of any rule: " in cause.message
    assert "buffer built on the meta device" in cause.message
    pair = int(re.match(r"frequency of pair (\d+): ", cause.evidence)[1])
    assert given[pair] != np.float32(INV_FREQ[pair])


@pytest.mark.long
@pytest.mark.parametrize("given", ["tables", "frequencies"])
def test_frequencies_of_any_size_and_sign_are_unknown_with_their_place(given):
    rates = np.where(np.arange(16) % 5 == 2, -1.7 * (np.arange(16) + 1), INV_FREQ)
    if given == "tables":
        (cause,) = causes_of(*tables_at(np.arange(ROWS), rates))
    else:
        (cause,) = diagnose(rope.of_frequencies(rates, RIGHT, f"0:{ROWS}"))
    assert cause.cause == "unknown"
    assert cause.message.startswith("values differ in pairs 2, 7, 12 of 16")


def test_frequencies_that_are_all_0_rotate_nothing():
    (cause,) = diagnose(rope.of_frequencies(np.zeros(16, np.float32), RIGHT, "0:4096"))
    assert cause.cause == "no-rotation"


RULES = {
    "evenly spaced": np.linspace(1, 64, 16) * np.pi,
    "inverse": 1e4 ** (np.arange(16) / 16),
    "stretched at will": INV_FREQ / np.random.default_rng(1).uniform(0.6, 2, 16),
    "shuffled": np.random.default_rng(2).permutation(ladder(32, 3e4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("shown", ["tables", "frequencies"])
def test_frequencies_of_a_rule_that_is_unknown_are_not(name, shown):
    if shown == "tables":
        causes = causes_of(*tables_at(np.arange(ROWS), RULES[name]))
    else:
        causes = diagnose(rope.of_frequencies(RULES[name].astype(np.float32), RIGHT, "0:1500"))
    assert "uninitialised" not in [each.cause for each in causes]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("twice", [False, True])
def test_tables_of_another_width_are_told_the_dim_that_fits(twice):
    for dim, given, options in (
        (64, {}, "--dim 64"),
        (16, {}, "--dim 16"),
        (48, {"dim": 48, "partial": 0.5}, "--dim 48 --set partial=1"),
        (24, {"dim": 96, "partial": 0.5}, "--dim 48"),
    ):
        cos, sin = tables_at(np.arange(300), ladder(dim, 1e4))
        if twice:
            cos, sin = np.tile(cos, 2), np.tile(sin, 2)
        (cause,) = causes_of(cos, sin, rope.reference("rope", **{"dim": 32, **given}))
        assert cause.cause == "rotary-dim"
        assert cause.evidence == f"every value is right with {options}"


def test_half_tables_of_twice_the_width_are_no_full_tables_whatever_their_base():
    cos, sin = tables_at(np.arange(300), ladder(64, 5e5))
    (cause,) = causes_of(cos, sin, rope.reference("rope", dim=32))
    assert cause.cause == "rotary-dim"
    assert cause.message == "the tables rotate 32 pairs (32 columns); the reference rotates 16"


@pytest.mark.parametrize("wrong", [np.nan, 0.9])
def test_one_wrong_value_does_not_hide_the_layout_of_full_tables(wrong):
    cos, sin = (np.tile(part, (1, 2)) for part in tables_at(np.arange(300)))
    cos[7, 5] = wrong
    (cause,) = causes_of(cos, sin, rope.reference("rope", dim=32, layout="interleaved"))
    assert "in pair 5 of 16 at position 7" in f"{cause.message}, {cause.evidence}"


def test_columns_that_do_not_rotate_say_no_layout():
    cos, sin = np.ones((64, 64)), np.zeros((64, 64))
    for table, own in zip((cos, sin), tables_at(np.arange(64), ladder(4, 1e4)), strict=True):
        table[:, :4] = np.tile(own, 2)
    causes = causes_of(cos, sin, rope.reference("rope", dim=64, layout="half"))
    assert [cause.cause for cause in causes] == ["unknown"]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("rows", [15, 700])
@pytest.mark.parametrize("twice", [False, True])
def test_tables_that_are_transposed_are_told_so_and_held_against_every_cell(rows, twice):
    cos, sin = (np.tile(part, (1, 1 + twice)).T for part in tables_at(np.arange(rows)))
    (first,) = causes_of(cos, sin)
    assert first.cause == "layout"
    of = "dimensions" if twice else "pairs"
    assert first.message.startswith(f"the tables are transposed: rows are {of}")
    spoiled = cos.copy()
    spoiled[3, rows // 2] += 0.01
    assert not any("transposed" in why.message for why in causes_of(spoiled, sin))


def test_of_several_explanations_the_one_with_fewest_bugs_comes_first():
    positions = np.arange(96)
    frequencies = (10_000.0 ** -(np.arange(16) / 16)).astype(np.float16)
    angles = (positions[:, None].astype(np.float16) * frequencies).astype(np.float64)
    causes = causes_of(np.cos(angles), np.sin(angles), rope.reference("rope", dim=32))
    assert [why.cause for why in causes] == ["inv-freq-precision", "position-precision"]
    assert "angles" in causes[1].message  # float16 holds all 96 positions


def turned(x, positions):
    cos, sin = (np.tile(part, (1, 2)) for part in tables_at(positions))
    half = x.shape[1] // 2
    return x * cos + np.concatenate([-x[:, half:], x[:, :half]], axis=1) * sin


def late(values, wrong, start=600):
    return np.where(np.arange(len(values))[:, None] < start, values, wrong)


@pytest.mark.slow
def test_a_size_that_no_pair_can_be_cut_to_is_told_and_one_that_grows_is_no_factor():
    right = rope.reference("rope", dim=32, layout="half")
    x = rope.vectors(ROWS, 32)
    y = turned(x, np.arange(ROWS))
    (first,) = diagnose(rope.of_rotated(x, (9 * y).astype(np.float32), right, f"0:{ROWS}"))
    assert first.message == "the attention factor is 9, not 1"
    growing = late(y, np.arange(ROWS)[:, None] * y).astype(np.float32)
    (first, *_) = diagnose(rope.of_rotated(x, growing, right, f"0:{ROWS}"))
    assert first.cause == "unknown"


def test_columns_beyond_the_pairs_that_are_multiplied_hide_no_layout():
    right = rope.reference("rope", dim=64, partial=0.5, layout="half")
    x = rope.vectors(ROWS, 64)
    cos, sin = tables_at(np.arange(ROWS))
    pairs = (x[:, 0:32:2] + 1j * x[:, 1:32:2]) * (cos + 1j * sin)
    y = 3 * x
    y[:, 0:32:2], y[:, 1:32:2] = pairs.real, pairs.imag
    first, second = diagnose(rope.of_rotated(x, y, right, f"0:{ROWS}"))
    assert (first.cause, second.cause) == ("rotary-dim", "layout")
    assert first.message.endswith("unrotated dimensions change")
    assert "the code pairs dimensions 2i and 2i+1" in second.message


@pytest.mark.slow
def test_rows_that_hold_something_else_are_not_taken_for_memory_that_nobody_wrote():
    right = rope.reference("rope", dim=32, layout="half")
    at = np.arange(ROWS)
    x = rope.vectors(ROWS, 32)
    y = turned(x, at)
    shuffled = np.random.default_rng(1).permutation(ROWS)
    cos, sin = tables_at(at)
    for examined in (
        rope.of_rotated(x, late(y, y[shuffled]).astype(np.float32), right, f"0:{ROWS}"),
        rope.of_rotated(x, late(y, at[:, None] * y).astype(np.float32), right, f"0:{ROWS}"),
        rope.of_tables(
            late(cos, at[:, None] * cos), late(sin, at[:, None] * sin), RIGHT, f"0:{ROWS}"
        ),
        rope.of_tables(late(cos, np.tan(angles_at(at))), sin, RIGHT, f"0:{ROWS}"),
    ):
        assert not examined.ok
        assert "uninitialised" not in {why.cause for why in diagnose(examined)}


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (lambda _right: 1.0, "is not applied"),
        (lambda right: right**2, "is applied twice"),
        (lambda right: right**0.5, "is 1.13016, not 1.27726"),
        (lambda right: 1 / right, "divides, not multiplies"),
    ],
)
def test_an_attention_factor_is_told_by_what_was_done_with_it(size, message):
    right = rope.reference("rope-yarn", dim=32, factor=16.0, layout="half")
    angles = np.multiply.outer(np.arange(300.0), right.frequencies)
    wrong = size(right.scale)
    found = rope.of_tables(wrong * np.cos(angles), wrong * np.sin(angles), right, "0:300")
    (cause,) = diagnose(found)
    assert (cause.cause, cause.message) == (
        "attention-factor",
        f"the attention factor {message}"
        if message.startswith("is 1.")
        else f"the attention factor {right.scale:.6g} {message}",
    )
    reference = next(each for each in found.findings if each.check == "reference")
    assert reference.message.startswith("differs from the reference by up to ")


def messages_of(cos, sin, right=RIGHT):
    return [cause.message for cause in causes_of(cos, sin, right)]


def test_examples_of_positions_are_among_those_that_are_reproduced():
    rows = np.arange(4 * ROWS)
    kept = np.where(rows < 4, rows, 4 + (rows - 4) % 1020)
    (cause,) = causes_of(*tables_at(kept))
    assert cause.message == (
        "4976 of 6000 positions get the rotation of another position, first at 1024"
    )
    assert "1024 as 4, 1025 as 5" in cause.evidence


@pytest.mark.long
def test_pairs_that_have_the_frequencies_of_a_rule_by_chance_are_not_taken_for_it():
    tens = 10.0 ** np.ceil(np.log10(ladder(128, 5e5)))
    right = rope.reference("rope", dim=128, base=5e5)
    (message,) = messages_of(*tables_at(np.arange(ROWS), tens), right)
    assert message.endswith("have wrong frequencies, by no known rule")


def test_columns_in_another_order_hide_no_attention_factor():
    right = rope.reference("rope-yarn", dim=32, layout="half")
    rates = np.asarray(right.frequencies, float)
    layout, factor = causes_of(
        *(np.repeat(each, 2, axis=1) for each in tables_at(np.arange(ROWS), rates)), right
    )
    assert layout.cause == "layout"
    assert factor.message == "the attention factor 1.13863 is not applied"


@pytest.mark.parametrize("number", [10, 2])
def test_a_ramp_of_another_logarithm_is_no_ramp_of_four_other_numbers(number):
    right = rope.reference("rope-yarn", dim=128, base=1e6, original_max_position_embeddings=32768)
    rates = yarn(128, 1e6, 4, original=32768, ramp_width=128 * math.log(number))
    cos, sin = (right.scale * each for each in tables_at(np.arange(ROWS), rates))
    (cause,) = causes_of(cos, sin, right)
    assert (cause.cause, cause.message.endswith("have wrong frequencies, by no known rule")) == (
        "unknown",
        True,
    )


@pytest.mark.long
def test_a_rule_of_positions_that_has_exceptions_gives_way_to_what_has_none():
    rows = np.arange(4 * ROWS)
    (cause,) = causes_of(*tables_at(rows % 512 + (rows // 512) ** 2))
    assert cause.message == (
        "5488 of 6000 positions get the rotation of another position, first at 512"
    )

"""What nothing names fails all the same: as ``unknown``, with a place where it is wrong."""

import math

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from tests.checks import rope

ROWS, PAIRS = 600, 32
RIGHT = rope.reference("rope", dim=2 * PAIRS, layout="half")
ANGLES = np.multiply.outer(np.arange(ROWS), 1e4 ** -(np.arange(PAIRS) / PAIRS))
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
RANDOM = np.random.default_rng(1).standard_normal((2, ROWS, PAIRS))
FINE = np.arange(ROWS)[:, None] % 80 * ANGLES[1]
COARSE = ANGLES - FINE


def one_cell():
    """One bit of one cosine flipped."""
    cos = COS.astype(np.float32)
    cos.view(np.uint32)[411, 7] ^= np.uint32(1 << 23)
    return cos, SIN


NAMELESS = {
    "noise": lambda: (COS + 1e-3 * RANDOM[0], SIN + 1e-3 * RANDOM[1]),
    "a flipped bit": one_cell,
    "a line": lambda: (1.5 * COS + 0.25, SIN),
    "positions as a logarithm": lambda: tuple(
        of(50 * np.log1p(np.arange(ROWS))[:, None] * ANGLES[1]) for of in (np.cos, np.sin)
    ),
    "angles added with a wrong sign": lambda: (
        COS,
        np.sin(COARSE) * np.cos(FINE) - np.cos(COARSE) * np.sin(FINE),
    ),
    "angles summed in float16": lambda: tuple(
        of(np.cumsum(np.tile(np.float16(ANGLES[1]), (ROWS, 1)), 0, dtype=np.float16).astype(float))
        for of in (np.cos, np.sin)
    ),
    "bytes in the other order": lambda: tuple(
        np.nan_to_num(part.astype(np.float32).byteswap(), posinf=9, neginf=9) for part in (COS, SIN)
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMELESS)
def test_what_nothing_names_fails_as_unknown_where_it_is_wrong(name):
    with np.errstate(over="ignore"):
        cos, sin = (part.astype(np.float32) for part in NAMELESS[name]())
    found = rope.of_tables(cos, sin, RIGHT, f"0:{ROWS}")
    assert not found.ok
    (cause,) = diagnose(found)
    assert cause.cause == "unknown"
    place = found.survey.reference
    said = f"{cause.message}; {cause.evidence}"
    assert f"pair {place.pair}" in said
    assert f"position {place.position}" in said or f"positions, {place.position}" in said
    off = math.hypot(
        cos[place.position, place.pair] - COS[place.position, place.pair],
        sin[place.position, place.pair] - SIN[place.position, place.pair],
    )
    assert off > 1e-4


@pytest.mark.parametrize(("first", "factor"), [(21, 8), (11, 3)])
def test_pairs_that_are_divided_by_one_factor_are_no_list_of_longropes_factors(first, factor):
    angles = ANGLES / np.where(np.arange(PAIRS) >= first, factor, 1)
    tables = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    (cause,) = diagnose(rope.of_tables(*tables, RIGHT, f"0:{ROWS}"))
    assert (cause.cause, f"pairs {first}–31 of 32" in cause.message) == ("unknown", True)


def test_vectors_that_something_is_added_to_fail_as_unknown():
    x = rope.vectors(ROWS, 2 * PAIRS)
    for right, added in ((False, np.hstack([SIN, COS])), (True, np.ones(2 * PAIRS))):
        y = x.copy()
        if right:
            a, b = np.split(x, 2, axis=1)
            y = np.hstack([a * COS - b * SIN, a * SIN + b * COS])
        found = rope.of_rotated(x, (y + added).astype(np.float32), RIGHT, f"0:{ROWS}")
        assert not found.ok
        assert [cause.cause for cause in diagnose(found)] == ["unknown"]


@pytest.mark.parametrize("change", [0.0, 1.138, -1.0])
def test_columns_outside_the_pairs_that_change_are_told_apart_from_the_pairs(change):
    right = rope.reference("rope", dim=96, partial=0.25, layout="half")
    x = rope.vectors(300, 96)
    angles = np.multiply.outer(np.arange(300), 1e4 ** -(np.arange(12) / 12))
    a, b = x[:, :12], x[:, 12:24]
    y = x * np.float32(change)
    for sign, others in ((1, []), (-1, ["direction"])):
        cos, sin = np.cos(angles), sign * np.sin(angles)
        y[:, :12], y[:, 12:24] = a * cos - b * sin, a * sin + b * cos
        found = rope.of_rotated(x, y, right, "0:300")
        assert not found.ok
        first, *rest = diagnose(found)
        assert first.cause == "rotary-dim"
        said = "72 unrotated dimensions change"
        assert first.message == said
        assert [cause.cause for cause in rest] == others


GRID = rope.reference("rope-axial", dim=2 * PAIRS, grid="20x30")


def on_grid():
    """Tables of the grid: the first half of the pairs follows rows, the second columns."""
    rungs = 1e4 ** -(np.arange(PAIRS) / PAIRS)
    rows, columns = np.divmod(np.arange(ROWS), 30)
    angles = np.hstack([np.outer(rows, rungs[::2]), np.outer(columns, rungs[1::2])])
    return np.cos(angles), np.sin(angles)


def rows_of_noise(cos, sin, rows, pairs=slice(None)):
    cos, sin = cos.copy(), sin.copy()
    cos[rows, pairs] += 0.1 + 0.05 * RANDOM[0][rows, pairs]
    return cos, sin


@pytest.mark.parametrize(
    ("rows", "pairs", "words", "where"),
    [
        (slice(77, 78), slice(None), "values differ at position 77", {"positions": "77:78"}),
        (slice(40, 60), slice(None), "values differ at positions 40–59", {"positions": "40:60"}),
        (
            slice(77, 78),
            slice(16, 32),
            "values differ in pairs 16–31 of 32 at position 77: axis 1",
            {"positions": "77:78", "pairs": "16:32"},
        ),
        (slice(None), slice(5, 6), "values differ in pair 5 of 32", {"pairs": "5"}),
        (
            slice(40, 60),
            slice(3, 9),
            "values differ in pairs 3–8 of 32 at positions 40–59",
            {"positions": "40:60", "pairs": "3:9"},
        ),
    ],
)
def test_unknown_says_which_rows_pairs_and_axes_differ_and_by_how_much(rows, pairs, words, where):
    tables = [part.astype(np.float32) for part in rows_of_noise(*on_grid(), rows, pairs)]
    (cause,) = diagnose(rope.of_tables(*tables, GRID, f"0:{ROWS}"))
    assert (cause.cause, cause.message, cause.where.fields()) == ("unknown", words, where)
    off = np.abs(tables[0] - on_grid()[0])
    row, pair = np.unravel_index(np.argmax(off), off.shape)
    assert cause.evidence == (
        f"{np.count_nonzero(off > 1e-5)} of {ROWS * PAIRS} rotations (positions × pairs) differ, "
        f"by up to {off.max():.2g}: most at position {row}, pair {pair}"
    )


def test_exchanged_ladders_of_two_axes_are_no_coordinates_of_odd_sizes():
    """Each axis fits as well if all its coordinates are 0.75 or 1.33 times as large."""
    rungs = 1e4 ** -(np.arange(PAIRS) / PAIRS)
    rows, columns = np.divmod(np.arange(ROWS), 30)
    angles = np.hstack([np.outer(rows, rungs[1::2]), np.outer(columns, rungs[::2])])
    tables = [part.astype(np.float32) for part in (np.cos(angles), np.sin(angles))]
    assert [cause.cause for cause in diagnose(rope.of_tables(*tables, GRID, f"0:{ROWS}"))] == [
        "unknown"
    ]


def test_a_value_that_only_changes_a_length_is_told_with_its_place():
    """At far positions float32 angles may err by more, but no angle changes a length."""
    angles = np.multiply.outer(np.arange(100000.0, 100064.0), 1e4 ** -(np.arange(8) / 8))
    cos, sin = np.cos(angles), np.sin(angles)
    cos[7, 0] += 0.01
    (cause,) = diagnose(rope.of_tables(cos, sin, rope.reference("rope", dim=16), "100000:100064"))
    assert cause.cause == "unknown"
    assert cause.message.startswith("lengths are multiplied by ")
    assert cause.message.endswith(", at position 100007, pair 0")

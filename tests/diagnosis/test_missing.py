"""Values that are no numbers, or no fractions: what is said of them is so of all of them."""

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.numerics.halves import round_to_half
from tests.checks import rope

ROWS, PAIRS = 3000, 32
RIGHT = rope.reference("rope", dim=2 * PAIRS)
ANGLES = np.multiply.outer(np.arange(ROWS), 1e4 ** -(np.arange(PAIRS) / PAIRS))
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


def cause_of(cos, sin, dtype=np.float32):
    tables = (part.astype(dtype).astype(np.float32) for part in (cos, sin))
    (cause,) = diagnose(rope.of_tables(*tables, RIGHT, f"0:{ROWS}"))
    return cause


def test_where_no_pair_has_numbers_no_others_are_said_to_have_them():
    cause = cause_of(np.full_like(COS, np.nan), np.ones_like(SIN))
    assert (cause.cause, cause.message) == (
        "not-a-number",
        "all values are NaN or infinite",
    )
    x = rope.vectors(600, 2 * PAIRS)
    (cause,) = diagnose(rope.of_rotated(x, np.full_like(x, np.nan), RIGHT, "0:600"))
    assert (cause.cause, cause.message) == ("not-a-number", "all values are NaN or infinite")


@pytest.mark.slow
@pytest.mark.parametrize("half", [np.float16, "bfloat16"])
def test_turned_vectors_that_have_the_digits_of_a_half_precision_are_said_to(half):
    x = rope.vectors(600, 2 * PAIRS)
    y = turned(x, ANGLES[:600])
    rounded = round_to_half(y, "float16" if half is np.float16 else half).astype(np.float32)
    (cause,) = diagnose(rope.of_rotated(x, rounded, RIGHT, "0:600"))
    assert cause.cause == "table-precision"
    assert cause.message.startswith("the rotated vectors were rounded to ")
    rounded[100, 3] *= 1.5
    assert diagnose(rope.of_rotated(x, rounded, RIGHT, "0:600"))[0].cause == "unknown"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("share", [2, 4])
def test_vectors_of_which_too_few_columns_turn_are_said_to(share):
    right = rope.reference("rope", dim=2 * PAIRS, layout="half")
    x = rope.vectors(600, 2 * PAIRS)
    few = 2 * PAIRS // share
    rates = 1e4 ** -(np.arange(few // 2) / (few // 2))
    y = x.copy()
    halves = np.arange(few).reshape(2, -1).T.reshape(-1)
    y[:, halves] = turned(x[:, halves], np.multiply.outer(np.arange(600), rates))
    (cause,) = diagnose(rope.of_rotated(x, y, right, "0:600"))
    assert (cause.cause, cause.message) == (
        "rotary-dim",
        f"{few} dimensions rotate; the reference rotates {2 * PAIRS}",
    )


def turned(x, angles):
    """Neighbouring columns, as the reference pairs them."""
    z = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    return np.stack([z.real, z.imag], axis=2).reshape(x.shape).astype(np.float32)


@pytest.mark.slow
def test_rows_of_a_cache_that_grew_in_steps_are_read_at_far_positions_too():
    """Each part of it counts from 0; few rows of each are looked at, as posenc asks functions."""
    positions = "0:64,127:130,255:259,1023:1026,65535:65538,131070:131072"
    where = rope.positions_array(positions)
    held = where - np.select([where < 128, where < 256], [0, 128], 256)
    angles = np.multiply.outer(held, RIGHT.frequencies)
    tables = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    (cause,) = diagnose(rope.of_tables(*tables, RIGHT, positions))
    assert cause.cause == "position-offset"
    assert cause.message == "positions restart from 0 at 128, 256"


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({3: np.inf}, "1 of the 16 frequencies is"),
        ({3: np.inf, 5: np.nan, 7: np.nan}, "3 of the 16 frequencies are"),
    ],
)
def test_infinite_frequencies_are_said_to_be_that_and_no_more(missing, words):
    values = 1e4 ** -(np.arange(0, 32, 2) / 32)
    values[[*missing]] = [*missing.values()]
    found = rope.of_frequencies(values.astype(np.float32), rope.reference("rope", dim=32), "0:64")
    (why,) = diagnose(found)
    assert (why.cause, why.message) == ("not-a-number", f"{words} NaN or infinite")
    assert why.evidence == "frequency of pair 3: inf, not 0.177828"


_ROW, _PAIR = np.indices((ROWS, PAIRS))


@pytest.mark.parametrize(
    ("lost", "words", "where"),
    [
        ((_ROW >= 100) & (_ROW < 120), "all at positions 100–119", ("100:120", None)),
        (_ROW == 0, "all at position 0", ("0:1", None)),
        (_ROW % 4 == 3, "all at every 4th position from 3 on", None),
        ((_ROW == 511) & (_PAIR == 9), "all in pair 9 of 32 at position 511", ("511:512", "9")),
        (
            (_ROW >= 100) & (_ROW < 120) & (_PAIR >= 30),
            "all in pairs 30–31 of 32 at positions 100–119",
            ("100:120", "30:32"),
        ),
        (_ROW >= 2001, "all from position 2001 on", ("2001:3000", None)),
    ],
)
def test_where_cells_are_no_numbers_is_told_and_that_the_others_are_right(lost, words, where):
    cause = cause_of(np.where(lost, np.nan, COS), np.where(lost, np.nan, SIN))
    assert cause.cause == "not-a-number"
    assert cause.message == f"some values are NaN or infinite: {words}"
    assert "the other values are right, to " in cause.evidence
    told = None if cause.where is None else (cause.where.positions, cause.where.pairs)
    assert told == where


@pytest.mark.parametrize("shape", [(64, 16), (32, 16), (50, 16), (64, 128)])
def test_zeros_of_any_shape_are_a_buffer_that_was_never_written(shape):
    zeros = np.zeros(shape, np.float32)
    (cause,) = diagnose(rope.of_tables(zeros, zeros, RIGHT, f"0:{shape[0]}"))
    assert cause.cause == "uninitialised"

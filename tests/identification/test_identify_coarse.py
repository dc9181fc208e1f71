"""Tables in a coarse format are what they were before, and the format is said."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence

ROWS, PAIRS = 400, 32
ANGLES = np.multiply.outer(np.arange(ROWS), 5e5 ** -(np.arange(PAIRS) / PAIRS))
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


def by_columns(table):
    scale = np.abs(table).max(axis=0, keepdims=True) / 127
    return np.rint(table / np.where(scale == 0, 1, scale)) * scale


def by_rows(table):
    scale = np.abs(table).max(axis=1, keepdims=True) / 127
    return np.rint(table / np.where(scale == 0, 1, scale)) * scale


FORMATS = {
    "cut downward to multiples of 2^-15": lambda t: np.floor(t * 32768) / 32768,
    "cut toward zero to 3 digits after the point": lambda t: np.trunc(t * 1000) / 1000,
    "rounded to multiples of 2^-13": lambda t: np.rint(t * 8192) / 8192,
    "rounded to 3 significant digits": np.vectorize(lambda x: float(f"{x:.3g}")),
    "rounded to int8, with a scale for each column": by_columns,
    "rounded to int8, with a scale for each row": by_rows,
}


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", FORMATS)
def test_the_encoding_behind_a_coarse_format_is_found_and_the_format_is_said(name):
    tables = [FORMATS[name](table).astype(np.float32) for table in (COS, SIN)]
    found = identify(Evidence.of_arrays(*tables)).match
    assert found is not None
    assert (found.scheme, found.params["base"], found.forms) == ("rope", 5e5, (name,))
    assert found.coarse
    assert not found.exact
    assert found.equal >= 0.85  # scales in float32 move some by a last bit


@pytest.mark.long
def test_whole_numbers_are_so_many_times_the_right_ones():
    table = np.concatenate([np.rint(32767 * COS), np.rint(32767 * SIN)], axis=1)
    found = identify(Evidence.of_arrays(table, dtype="int16")).match
    assert (found.scheme, found.params["base"], found.multiplied) == ("rope", 5e5, 32767)
    assert found.forms == ("rounded to whole numbers",)


@pytest.mark.long
@pytest.mark.parametrize(
    "damaged",
    [
        lambda t: t + 1e-3 * np.random.default_rng(1).standard_normal(t.shape),
        lambda t: np.where(np.arange(ROWS)[:, None] % 2, t, np.rint(t * 64) / 64),
        lambda t: np.rint(t * 1024) / 1024 + 1e-3 * np.sin(3 * ANGLES),
    ],
)
def test_what_no_format_makes_is_not_told_as_one(damaged):
    found = identify(Evidence.of_arrays(*(damaged(t).astype(np.float32) for t in (COS, SIN))))
    assert found.match is None
    assert not any(candidate.coarse and candidate.fits for candidate in found.candidates)


@pytest.mark.long
def test_a_table_of_more_rows_than_an_encoding_has_columns_is_not_looked_at_transposed():
    angles = np.multiply.outer(np.arange(66_000), 1e4 ** -(np.arange(4) / 4))
    noise = 1e-3 * np.random.default_rng(1).standard_normal((2, *angles.shape))
    tables = (np.cos(angles) + noise[0], np.sin(angles) + noise[1])
    found = identify(Evidence.of_arrays(*(np.tile(part, 2).astype(np.float32) for part in tables)))
    assert found.match is None

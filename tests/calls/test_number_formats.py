"""The number formats of vectors: what a function computes in them, and what it gives back."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytestmark = pytest.mark.long

D = 64
RATES = (1 / 1e4 ** (np.arange(0, D, 2) / D)).astype(np.float32)


def rotated(x, angles):
    a, b = np.split(x, 2, axis=-1)
    cos, sin = (part(angles, dtype=np.float32).astype(x.dtype) for part in (np.cos, np.sin))
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def right(x: np.ndarray, offset=0):
    return rotated(x, (np.arange(x.shape[-2]) + offset)[:, None] * RATES)


def coarse_frequencies(x: np.ndarray, offset=0):
    rates = RATES.astype(x.dtype).astype(np.float32)
    return rotated(x, (np.arange(x.shape[-2]) + offset)[:, None] * rates)


def coarse_angles(x: np.ndarray, offset=0):
    angles = (np.arange(x.shape[-2]) + offset)[:, None] * RATES
    return rotated(x, angles.astype(x.dtype).astype(np.float32))


class Table:
    """Its rows are those it is told of."""

    def __init__(self, max_position_embeddings):
        self.angles = np.arange(max_position_embeddings)[:, None] * RATES

    def __call__(self, x: np.ndarray, positions):
        return rotated(x, self.angles[positions])


def both(q: np.ndarray, k: np.ndarray, positions):
    angles = positions[:, None] * RATES
    return rotated(q, angles), rotated(k, angles)


def both_promoted(q: np.ndarray, k: np.ndarray, positions):
    """As transformers with tables of float32."""
    angles = positions[:, None] * RATES
    return tuple(rotated(x.astype(np.float32), angles) for x in (q, k))


def both_as_q(q: np.ndarray, k: np.ndarray, positions):
    return tuple(x.astype(q.dtype) for x in both(q, k, positions))


def in_float64(x: np.ndarray, offset=0):
    angles = (np.arange(x.shape[-2]) + offset)[:, None] * 1e4 ** (-np.arange(0, D, 2) / D)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate(
        [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1
    )


@pytest.fixture
def checked(call):
    def checked(name, length=30):
        asked = ("rope-check", "-s", "rope", "-d", str(D), "--layout", "half", "--json")
        status, out, err = call(*asked, "--len", str(length), "--impl", f"{__file__}:{name}")
        assert err == ""
        return status, json.loads(out)

    return checked


@pytest.mark.parametrize("name", ["coarse_frequencies", "coarse_angles"])
def test_what_rounding_hides_near_position_0_is_asked_for_later(name, checked):
    status, report = checked(name)
    noun = name.partition("_")[2]
    (why,) = report["diagnosis"]
    assert (status, why["message"]) == (1, f"{noun} are rounded to float16, as vectors are")


def test_a_table_that_ends_is_right_and_what_it_hides_is_listed(checked):
    status, report = checked("Table")
    left = [text for text in report["subject"]["call"]["untried"] if "rows of float16" in text]
    assert (status, len(left)) == (0, 1)
    status, report = checked("Table", 300)
    assert (status, "float16" in report["verdict"]) == (0, False)


@pytest.mark.parametrize("name", ["right", "both", "both_as_q", "both_promoted", "in_float64"])
def test_right_functions_pass_and_line_one_says_which_return_float64(name, checked):
    status, report = checked(name)
    assert status == 0, report["verdict"]
    told = "; returns float64 for float32 input" in report["verdict"]
    assert told == (name == "in_float64"), report["verdict"]

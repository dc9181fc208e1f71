"""Identification of tables as other programs keep them: right, with the form said, or silent."""

import numpy as np
import pytest

from posenc_cli.identification import attempts
from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from tests.identification.foreign import KEPT, ROWS, UNLIKE, angles, bfloat16, ladder, vaswani
from tests.memory import peak


def said_of(match):
    """The forms that a reader sees."""
    multiplied = "" if match.multiplied == 1 else f"× {match.multiplied:.9g}"
    return "; ".join([*match.forms, multiplied])


@pytest.mark.long
@pytest.mark.sweep(17)
@pytest.mark.parametrize("name", KEPT)
def test_a_table_is_found_in_the_form_that_a_program_keeps_it_in(name):
    array, scheme, params, form = KEPT[name]
    match = identify(Evidence.of_arrays(array)).match
    assert match is not None
    assert match.scheme == scheme
    assert params.items() <= match.params.items()
    assert form in said_of(match)
    assert not match.exact or match.as_written


@pytest.mark.long
@pytest.mark.sweep(29)
@pytest.mark.parametrize("name", UNLIKE)
def test_what_no_rule_gave_is_not_identified(name):
    assert identify(Evidence.of_arrays(UNLIKE[name])).match is None


@pytest.mark.long
@pytest.mark.parametrize("noise", [1e-12, 1e-7])
def test_float64_values_beside_those_of_any_code_are_not_identified(noise):
    """Code in float64 errs by 1e-15, and float32 code leaves float32 values, or scaled ones."""
    at = np.outer(np.arange(ROWS), ladder())
    table = np.stack([np.sin(at), np.cos(at)], axis=-1).reshape(ROWS, -1)
    assert identify(Evidence.of_arrays(table)).match is not None
    by_float32 = at.astype(np.float32)
    scaled = np.concatenate([np.cos(by_float32), np.sin(by_float32)], axis=1) * np.sqrt(np.array(3))
    assert scaled.dtype == np.float64
    for right in (np.exp(1j * by_float32.astype(np.float64)), scaled):
        assert identify(Evidence.of_arrays(right)).match is not None
    off = table + np.random.default_rng(0).normal(size=table.shape) * noise
    assert identify(Evidence.of_arrays(off)).match is None


def shifted_sinusoids(rows, dim, seed):
    """As CAPE draws them in training: each row at a real position of its own, in bfloat16."""
    random = np.random.default_rng(seed)
    places = np.arange(rows) - (rows - 1) / 2 + random.uniform(-1, 1, rows)
    at = np.outer((places + random.uniform(-5, 5)) * 1.01, ladder(dim))
    return bfloat16(np.stack([np.sin(at), np.cos(at)], axis=-1).reshape(rows, dim))


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "dim", "seed"), [(4, 32, 1), (8, 8, 0)])
def test_sinusoids_at_random_places_are_not_named_by_whole_positions_that_lie_near(rows, dim, seed):
    assert identify(Evidence.of_arrays(shifted_sinusoids(rows, dim, seed))).match is None


@pytest.mark.long
def test_rows_of_half_precision_in_any_order_are_still_placed():
    order = np.random.default_rng(0).permutation(ROWS)
    match = identify(Evidence.of_arrays(bfloat16(vaswani()[order]))).match
    assert match.scheme == "sinusoidal"
    assert list(match.positions) == order.tolist()


def test_shuffled_rows_are_listed_where_they_stand():
    array, *_ = KEPT["freqs, shuffled"]
    positions = identify(Evidence.of_arrays(array)).match.positions
    assert list(positions) == np.random.default_rng(0).permutation(ROWS).tolist()


@pytest.mark.slow
def test_one_row_that_many_encodings_have_is_said_to_show_too_little():
    found = identify(Evidence.of_arrays(UNLIKE["row 0, which all have"]))
    assert found.match is None
    assert "several encodings fit this one row" in found.notes[0]


@pytest.mark.slow
def test_batches_that_differ_in_one_cell_are_not_taken_for_one():
    array = KEPT["a batch"][0].copy()
    array[2, 70, 3] += np.float32(0.25)
    match = identify(Evidence.of_arrays(array)).match
    assert match is None


def test_the_report_says_the_form_and_offers_no_command_as_the_same(call, tmp_path):
    np.save(tmp_path / "freqs.npy", KEPT["freqs"][0])
    np.save(tmp_path / "scaled.npy", KEPT["× √dim"][0])
    status, out, _ = call("identify", "freqs.npy")
    assert status == 0
    assert "unreduced-angles" in out
    assert "write the same encoding as posenc stores it:" in out
    status, out, _ = call("identify", "scaled.npy")
    assert status == 0
    assert "multiplied by" in out
    assert "5.65685425" in out
    assert "equals model" not in out
    assert "write the same encoding without the factor, as posenc stores it" in out


def test_an_array_of_no_rows_is_nothing():
    found = identify(Evidence.of_arrays(np.zeros((0, 8), np.float32)))
    assert (found.match, found.notes) == (None, ("it is empty",))


@pytest.mark.slow
def test_a_longer_file_takes_no_more_memory(tmp_path, monkeypatch):
    # Two threads hold two blocks at a time or one, as they happen to run.
    monkeypatch.setattr(attempts, "threads_for", lambda _values, _asked: 1)
    peaks = []
    for rows in (80_000, 320_000):  # both of more rows than are looked at in one go
        np.save(tmp_path / "freqs.npy", angles(rows))
        mapped = np.load(tmp_path / "freqs.npy", mmap_mode="r")
        peaks.append(peak(lambda array=mapped: identify(Evidence.of_arrays(array))))
    assert peaks[1] < 1.2 * peaks[0] + (1 << 20)


def test_angles_of_which_one_half_fits_are_not_identified_and_a_decay_is_no_angle():
    row, frequencies = np.arange(128.0), 10_000.0 ** -(np.arange(32) / 32)
    twice = identify(Evidence.of_arrays(np.outer(np.where(row < 64, row, 2 * row), frequencies)))
    assert (twice.match, twice.nearest and twice.nearest.scheme) == (None, "rope")
    decay = np.outer(0.95**row, np.random.default_rng(0).normal(size=64))
    found = identify(Evidence.of_arrays(decay))
    assert (found.match, found.nearest) == (None, None)


def test_each_repeated_axis_is_named_by_its_own_number():
    found = identify(Evidence.of_arrays(np.zeros((2, 3, 4, 5), np.float32))).match
    assert {"repeated 2 times along axis 0", "repeated 3 times along axis 1"} <= set(found.forms)

"""What functions return, read as tables, as vectors, and as queries and keys."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_cli.calls.answers import Returned, table_rows
from posenc_cli.calls.arrangements import Arrangement, surely_supported
from posenc_cli.calls.call_form import CallForm
from posenc_cli.calls.called_function import CalledFunction
from posenc_cli.checks import queries_and_keys

ANGLES = np.arange(12.0).reshape(4, 3)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


def rows_of(*arrays):
    tables = table_rows([Returned(array, array.dtype.name) for array in arrays], 4)
    return None if tables is None else [table.values for table in tables]


@pytest.mark.parametrize(
    "arrays",
    [(COS, SIN), (np.stack([COS, SIN], axis=-1),), (COS + 1j * SIN,), (ANGLES,)],
    ids=["two tables", "pairs beside each other", "complex numbers", "angles"],
)
def test_a_table_may_be_returned_in_four_forms(arrays):
    cos, sin = rows_of(*arrays)
    np.testing.assert_allclose(cos, COS, atol=1e-15)
    np.testing.assert_allclose(sin, SIN, atol=1e-15)


def test_three_arrays_are_no_tables():
    assert rows_of(COS, SIN, COS) is None


def test_what_comes_after_queries_and_keys_is_left_out():
    form = SimpleNamespace(vectors=(0, 1), axes="bnhd", has=lambda *_: False)
    shape = (1, 4, 2, 6)
    given = SimpleNamespace(shape=lambda _axes: shape, read=lambda values, _axes: values)
    function = SimpleNamespace(invalid=ValueError)
    results = [Returned(np.full(shape, place, np.float32), "float32") for place in range(3)]

    def read(results):
        return CalledFunction.as_vectors(function, results, form, [given, given])

    with pytest.raises(ValueError, match="returned 1 array for q and k; it must return both"):
        read(results[:1])
    for returned in (results, results[:2]):
        assert [result.values[0, 0, 0, 0] for result in read(returned)] == [0, 1]


@pytest.mark.parametrize(
    ("sequences", "places", "key_heads", "must"),
    [(1, 1, 4, True), (2, 1, 4, False), (2, 2, 4, True), (1, 1, 2, False), (1, 1, 5, False)],
)
def test_a_function_surely_takes_what_is_no_more_than_the_form_it_takes(
    sequences, places, key_heads, must
):
    form = CallForm((), "numpy", 8, axes="bnhd")
    assert surely_supported(Arrangement(form, sequences, places, 5, 4, key_heads), form) == must


def of_q_or_k(factors, positions):
    block = SimpleNamespace(turned=factors, stray=np.zeros(len(factors)), mirrored=None)
    places = SimpleNamespace(row_blocks=lambda: [slice(None)], at=lambda _rows: positions)
    own = SimpleNamespace(pairing=None, pairs=factors.shape[1], places=places)
    own.read = lambda _rows: block
    return SimpleNamespace(own=own)


def test_keys_that_are_multiplied_differ_from_queries_at_all_positions_alike(monkeypatch):
    monkeypatch.setattr(queries_and_keys, "_is_no_rotation", lambda _block: False)
    positions = np.arange(4)
    q = np.exp(1j * ANGLES)
    told = queries_and_keys._difference(of_q_or_k(q, positions), of_q_or_k(2 * q, positions))
    assert told == queries_and_keys._CONSTANT
    one_place = q.copy()
    one_place[2, 1] *= 1j
    told = queries_and_keys._difference(of_q_or_k(q, positions), of_q_or_k(one_place, positions))
    assert told == "they differ by 1.4 at position 2, pair 1"
    assert queries_and_keys._difference(of_q_or_k(q, positions), of_q_or_k(q, positions)) is None

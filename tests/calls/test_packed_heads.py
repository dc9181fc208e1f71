"""Functions of (batch, rows, heads·d) are given several heads, and told how many or how wide."""

import numpy as np
import pytest

PORT = """
import numpy as np

RATES = 1e4 ** (-np.arange(0, 64, 2) / 64)


def rotate(y, cos, sin):
    a, b = np.split(y, 2, -1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def of(positions):
    angles = np.asarray(positions)[..., None] * RATES
    return np.cos(angles), np.sin(angles)


def split(x, heads):
    batch, rows, width = x.shape
    return x.reshape(batch, rows, heads, width // heads)


def mixed(x, heads):
    batch, rows, width = x.shape
    return x.reshape(batch, heads, rows, width // heads)


def tables(x, cos, sin, num_heads=4):
    return rotate(split(x, num_heads), cos[:, None], sin[:, None]).reshape(x.shape)


def tables_mixed(x, cos, sin, num_heads=4):
    return rotate(mixed(x, num_heads), cos, sin).reshape(x.shape)


def positions(x, position_ids, num_heads):
    cos, sin = of(position_ids)
    return rotate(split(x, num_heads), cos[:, :, None], sin[:, :, None]).reshape(x.shape)


def positions_mixed(x, position_ids, num_heads):
    cos, sin = of(position_ids)
    return rotate(mixed(x, num_heads), cos[:, None], sin[:, None]).reshape(x.shape)


def both(q, k, position_ids, *, n_heads=1):
    return positions(q, position_ids, n_heads), positions(k, position_ids, n_heads)


def one_count(q, k, position_ids, num_heads):
    return [by_own_width(x, position_ids, num_heads) for x in (q, k)]


def by_own_width(x, position_ids, num_heads):
    y = split(x, num_heads)
    rates = 1e4 ** (-np.arange(0, y.shape[-1], 2) / y.shape[-1])
    angles = np.asarray(position_ids)[..., None, None] * rates
    return rotate(y, np.cos(angles), np.sin(angles)).reshape(x.shape)


def grouped(q, k, position_ids, num_heads, num_kv_heads):
    return positions(q, position_ids, num_heads), positions(k, position_ids, num_kv_heads)


def grouped_by_name(q, k, position_ids, num_heads=8, num_key_value_heads=8):
    return grouped(q, k, position_ids, num_heads, num_key_value_heads)


def grouped_mixed(q, k, position_ids, num_heads, num_kv_heads):
    return positions(q, position_ids, num_heads), positions_mixed(k, position_ids, num_kv_heads)


def by_width(x, position_ids, head_dim):
    return positions(x, position_ids, x.shape[-1] // head_dim)


def by_width_mixed(x, position_ids, head_dim):
    return positions_mixed(x, position_ids, x.shape[-1] // head_dim)


def onnx(input, position_ids, cos_cache, sin_cache, num_heads=0):
    cos, sin = cos_cache[position_ids], sin_cache[position_ids]
    return rotate(split(input, num_heads), cos[:, :, None], sin[:, :, None]).reshape(input.shape)


def onnx_mixed(input, position_ids, cos_cache, sin_cache, num_heads=0):
    cos, sin = cos_cache[position_ids], sin_cache[position_ids]
    return rotate(mixed(input, num_heads), cos[:, None], sin[:, None]).reshape(input.shape)


def whole(x, position_ids, num_heads):
    rates = 1e4 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = np.asarray(position_ids)[..., None] * rates
    return rotate(x, np.cos(angles), np.sin(angles))


def whole_of_width(x, positions, head_dim):
    return whole(x, positions, 1)


def with_an_axis_of_heads(x, positions, num_heads):
    batch, heads, rows, width = x.shape
    assert heads == num_heads
    return whole(x, positions, 1)


def fixed(x, position_ids, parts=8):
    return positions(x, position_ids, parts)


def first_alone(x, position_ids, num_heads):
    cos, sin = of(position_ids)
    y = split(x, num_heads).copy()
    y[:, :, :1] = rotate(y[:, :, :1], cos[:, :, None], sin[:, :, None])
    return y.reshape(x.shape)


def all_but_last(x, position_ids, num_heads=1):
    y = split(positions(x, position_ids, num_heads), num_heads)
    if num_heads > 1:
        y[:, :, -1] = split(x, num_heads)[:, :, -1]
    return y.reshape(x.shape)


def all_but_last_of_k(q, k, position_ids, num_heads=1, num_kv_heads=1):
    return positions(q, position_ids, num_heads), all_but_last(k, position_ids, num_kv_heads)


def of_width(x, positions, head_dim=64):
    # the first dimensions of any row, whatever else it has
    angles = np.asarray(positions)[..., None] * 1e4 ** (-np.arange(0, head_dim, 2) / head_dim)
    y = rotate(x[..., :head_dim], np.cos(angles), np.sin(angles))
    return np.concatenate([y, x[..., head_dim:]], -1)
"""


@pytest.fixture
def checked(ran):
    how = ("rope-check", "-s", "rope", "-d", "64", "--layout", "half", "-l", "256")
    return lambda name, *more: ran(PORT, name, *how, *more)


@pytest.mark.long
@pytest.mark.parametrize("name", ["tables", "positions", "both", "by_width", "onnx"])
def test_several_heads_stand_side_by_side(name, checked):
    status, document = checked(name)
    assert status == 0
    assert document["subject"]["call"]["axes"] == "bnf"
    assert any("heads·64" in note for note in document["notes"])


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["tables_mixed", "positions_mixed", "by_width_mixed", "onnx_mixed"]
)
def test_heads_that_are_taken_for_rows_are_named(name, checked):
    status, document = checked(name)
    assert status == 1
    (why,) = document["diagnosis"]
    assert why["cause"] == "axis"
    assert "get the rotation of other positions" in why["message"]


@pytest.mark.long
def test_k_has_as_many_heads_as_q_where_one_number_is_of_both(checked):
    status, document = checked("one_count")
    assert status == 0
    call = document["subject"]["call"]
    assert not any("of q and" in text for text in call["patterns"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["grouped", "grouped_by_name"])
def test_k_has_heads_of_its_own_where_their_number_is_told(name, checked):
    status, document = checked(name)
    assert status == 0
    assert document["subject"]["call"]["axes"] == "bnf"
    assert any(
        "6 heads of q and 3 of k" in text for text in document["subject"]["call"]["patterns"]
    )
    assert checked("grouped_mixed")[0] == 1


@pytest.mark.long
def test_a_head_that_alone_is_rotated_is_named(checked):
    status, document = checked("first_alone")
    assert (status, document["diagnosis"][0]["cause"]) == (1, "no-rotation")


@pytest.mark.long
@pytest.mark.parametrize("name", ["all_but_last", "all_but_last_of_k"])
def test_a_last_head_that_is_left_is_named_also_if_one_head_is_the_default(name, checked):
    status, document = checked(name)
    assert (status, document["diagnosis"][0]["cause"]) == (1, "no-rotation")


@pytest.mark.long
def test_a_function_of_the_first_dimensions_of_any_row_passes(checked):
    status, document = checked("of_width")
    assert (status, document["subject"]["call"]["usual_axes"]) == (0, "bnf")


@pytest.mark.long
@pytest.mark.parametrize("name", ["whole", "whole_of_width"])
def test_a_function_that_ignores_the_heads_is_said_to_have_other_axes(name, checked):
    status, document = checked(name)
    assert status == 0
    assert document["subject"]["call"]["axes"] != "bnf"
    assert document["subject"]["call"]["usual_axes"] == "bnf"
    status, document = checked(name, "--axes", "bnf")
    assert (status, document["diagnosis"][0]["cause"]) == (1, "axis")


@pytest.mark.long
def test_an_axis_of_heads_beside_their_number_is_not_unusual(checked):
    status, document = checked("with_an_axis_of_heads")
    assert (status, document["subject"]["call"]["usual_axes"]) == (0, None)


@pytest.mark.long
def test_heads_side_by_side_need_their_number_or_width(checked):
    status, error = checked("fixed", "--axes", "bnf")
    assert status == 2
    assert "--axes bnf needs num_heads or head_dim in the signature" in error


def test_the_mixed_rows_are_those_of_a_reshape():
    rows, heads = np.indices((5, 3))
    flat = np.repeat(np.arange(5), 3)  # the row of each head, as they stand side by side
    read = np.empty_like(flat)
    read.reshape(3, 5)[:] = np.arange(5)  # the row that (heads, rows) takes each for
    assert (read.reshape(5, 3) == (rows * 3 + heads) % 5).all()

"""Ticks name points of an axis truly."""

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_cli.analysis.sampling import spread
from posenc_cli.render.figure import grid_of
from posenc_cli.render.ticks import number, ticks


@given(
    start=st.integers(-1000, 2**50),
    count=st.integers(1, 2**50),
    room=st.integers(1, 400),
    most=st.integers(1, 30),
)
def test_a_tick_names_its_point_to_within_half_a_step(start, count, room, most):
    points = [start + i for i in spread(count, room)]
    found = ticks(points, most)
    assert len(found) <= most + 2
    assert all(after[0] > before[0] for before, after in pairwise(found))
    gap = (points[-1] - points[0]) / max(1, len(points) - 1)
    for index, name in found:
        slack = 0 if gap in (1, 2) else gap / 2 + 1
        assert abs(points[index] - int(name)) <= slack


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40), st.integers(1, 20))
def test_ticks_of_uneven_points_are_the_points(points, most):
    gap = (points[-1] - points[0]) / max(1, len(points) - 1)
    assume(any(abs(p - points[0] - i * gap) > 1 for i, p in enumerate(points)))
    for index, name in ticks(points, most):
        assert int(name) == points[index]


def test_ticks_of_lengths_are_at_powers_of_two():
    assert [name for _, name in ticks(range(4096), 5)] == ["0", "1024", "2048", "3072"]
    assert [name for _, name in ticks(range(1, 64, 2), 4)] == ["1", "17", "33", "49"]
    assert [name for _, name in ticks(range(-511, 512), 5)] == ["-511", "-256", "0", "256"]


def test_the_first_of_odd_columns_is_named_though_only_some_are_shown():
    assert ticks(range(1, 512, 8), 4) == [(0, "1"), (16, "128"), (32, "256"), (48, "384")]
    assert ticks(range(1, 512, 4), 2) == [(0, "1"), (64, "256")]
    assert ticks(range(500, 20500, 1000), 2)[0] == (0, "500")


def test_ticks_of_fractions_are_decimal_and_numbers_are_short():
    names = [name for _, name in ticks([i / 10 for i in range(11)], 5)]
    assert names == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    short = {
        2**40: "1099511627776",
        0.1 + 0.2: "0.3",
        -1.0: "-1",
        1e-300: "1e-300",
        "query": "query",
    }
    assert {value: number(value) for value in short} == short


@given(
    count=st.integers(1, 200),
    width=st.floats(1, 400),
    height=st.floats(1, 200),
    aspect=st.sampled_from([1, 2]),
)
def test_a_grid_has_room_for_what_it_holds(count, width, height, aspect):
    rows, columns = grid_of(count, (width, height), (12, 5), aspect=aspect)
    assert rows * 5 <= max(5, height)
    assert columns * 12 <= max(12, width)
    if rows * columns < count:
        assert (rows + 1) * 5 > height


def test_an_axis_that_lacks_a_few_numbers_is_named_at_round_ones():
    for room in range(40, 65):
        assert [name for _, name in ticks(spread(64, room), 4)] == ["0", "16", "32", "48"]


def test_ticks_of_a_sample_of_positions_are_round_positions():
    sampled = [*range(64), *(2**power + i for power in range(7, 17) for i in (-1, 0, 1))]
    names = [int(name) for _, name in ticks(sampled, 9)]
    assert {0, 16, 32, 48} <= {*names}
    assert all(name % 16 == 0 for name in names)

"""Runs of buckets: a short form that says the same."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from posenc_cli.encoding.scores import Bucketed

steps = st.lists(st.sampled_from([-2, -1, 0, 0, 1, 5]), min_size=0, max_size=30)


@example(first=0, positions=[1] * 5, changes=[1, 1, -1, -1, 0])
@example(first=0, positions=[1] * 8, changes=[1, 1, 1, -1, -1, 1, 1, -1])
@given(
    first=st.integers(-9, 9), positions=st.lists(st.sampled_from([1, 1, 1, 7, -1])), changes=steps
)
def test_runs_give_back_every_bucket(first, positions, changes):
    count = min(len(positions), len(changes))
    where = np.cumsum([first, *positions[:count]])
    buckets = np.cumsum([first, *changes[:count]])
    found = []
    for (start, stop), (low, high) in Bucketed(where, buckets, {}).runs():
        length = stop - start + 1
        assert high - low in (0, length - 1, 1 - length)
        found += zip(range(start, stop + 1), np.linspace(low, high, length).tolist(), strict=True)
    assert found == list(zip(where.tolist(), buckets.tolist(), strict=True))


def test_a_run_goes_on_until_its_direction_turns():
    found = Bucketed(np.arange(6), np.array([3, 4, 5, 4, 3, 2]), {})
    assert [tuple(run) for run in found.runs()] == [((0, 2), (3, 5)), ((3, 5), (4, 2))]

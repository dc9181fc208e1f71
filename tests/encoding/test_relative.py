"""Relative schemes: one row an offset of key and query."""

import pytest

from posenc_cli.errors import InvalidInput
from tests.matrices import request


@pytest.mark.parametrize(
    ("scheme", "positions", "given", "offsets"),
    [
        ("shaw", "0:3", {"max_distance": 9}, range(-2, 3)),
        ("shaw", "0:30", {"max_distance": 4}, range(-4, 5)),
        ("shaw", "100:130", {"max_distance": 4}, range(-4, 5)),
        ("shaw", "0:1", {}, range(1)),
        ("transformer-xl", "5:9", {}, range(-3, 4)),
    ],
)
def test_rows_are_the_offsets_that_occur(scheme, positions, given, offsets):
    plan = request(scheme, positions, dim=4, **given).plan()
    assert plan.shape == (len(offsets), 4)
    assert plan.row_label == "offset"
    assert list(plan.row_labels()) == list(offsets)


@pytest.mark.parametrize("positions", ["0:9:2", "1,2,4", "0:3,5:7"])
def test_positions_with_gaps_have_no_rows_of_offsets(positions):
    with pytest.raises(InvalidInput, match="follow one another"):
        request("transformer-xl", positions).plan()

"""Tables: set by posenc where all cells have room, by rich where some are wrapped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.render.typesetting import Typesetter
from tests.examples import examples

CELL = st.text("ab×.1 ", max_size=12).map(str.rstrip)


@examples(40)
@given(table=st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELL] * n), max_size=4)))
def test_a_table_that_fits_looks_as_if_rich_had_set_it(table):
    names = [f"column {i}" for i in range(len(table[0]) if table else 2)]
    typesetter = Typesetter(80)
    lines = typesetter._lines_that_fit(names, table)
    assert lines is not None
    assert "\n".join(lines) == typesetter._wrapped_table(names, table)


def test_a_table_with_cells_too_long_or_too_wide_is_left_to_rich():
    assert Typesetter(20)._lines_that_fit(["name"], [["a" * 21]]) is None
    assert Typesetter(80)._lines_that_fit(["name"], [["界"]]) is None
    assert Typesetter(80)._lines_that_fit(["name"], [["two\nlines"]]) is None
    assert max(map(len, Typesetter(20).table(["name"], [["a" * 50]]).splitlines())) <= 20


def test_a_table_is_not_set_one_letter_a_line():
    columns, rows = ["scheme", "context", "longest"], [["sinusoidal", "4096 positions", "5.4e4"]]
    told = Typesetter(17).table(columns, rows)
    assert " ".join(told.split()) == "this table needs a screen of 18 columns or more"
    assert "sinu" in Typesetter(18).table(columns, rows)


def test_names_with_hyphens_are_never_parted():
    """They are copied: an engine, a cause, a file."""
    text = Typesetter(32).paragraph("what engines read: onnxruntime-genai, transformers-4.57")
    assert text.splitlines() == ["what engines read:", "onnxruntime-genai,", "transformers-4.57"]


def test_a_column_of_empty_cells_is_left_out():
    text = Typesetter(80).table(["", "half at", "farthest"], [["rope", "28", ""], ["t5", "", ""]])
    assert "half at" in text
    assert "farthest" not in text
    assert "farthest" in Typesetter(80).table(["farthest"], [])

"""Tables: wrapped between words, as wide as the screen."""

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.box import Box
from rich.console import Console
from rich.table import Table

from posenc_cli.render.typesetting import Answer, Typesetter
from tests.examples import examples

CELL = st.text("ab×.1 ", max_size=12).map(str.rstrip)


def set_by_rich(columns, rows):
    rule = Box("\n".join(["    ", "    ", " ── ", *["    "] * 5, ""]))
    table = Table(*columns, box=rule, show_edge=False, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    text = io.StringIO()
    Console(file=text, width=80, markup=False, highlight=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


@examples(40)
@given(table=st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELL] * n), max_size=4)))
def test_a_table_that_fits_looks_as_if_rich_had_set_it(table):
    names = [f"column {i}" for i in range(len(table[0]) if table else 2)]
    kept = [i for i in range(len(names)) if not table or any(row[i] for row in table)]
    expected = set_by_rich([names[i] for i in kept], [[row[i] for i in kept] for row in table])
    assert Typesetter(80).table(names, table) == expected or not kept


def test_a_letter_of_two_columns_takes_two():
    rows = [["界", "1"], ["e\u0301", "2"], ["two\nlines", "3"]]
    assert Typesetter(80).table(["name", "n"], rows) == set_by_rich(
        ["name", "n"], [*rows[:2], ["two lines", "3"]]
    )


WORDS = st.text("abcdefgh", min_size=1, max_size=20)


@examples(40)
@given(
    table=st.lists(
        st.tuples(*[st.lists(WORDS, min_size=1, max_size=3).map(" ".join)] * 3), min_size=1
    ),
    width=st.integers(10, 70),
)
def test_no_word_of_a_table_is_split_at_any_width(table, width):
    text = Typesetter(width).table(["name", "the value", "original_max"], table)
    words = re.findall(r"\w+", text)
    for row in table:
        assert {*" ".join(row).split()} <= {*words}
    assert max(map(len, text.splitlines()), default=0) <= max(width, *map(len, words), 0) + 3


def test_a_table_too_wide_for_its_words_is_a_list():
    columns, rows = ["scheme", "context", "longest"], [["sinusoidal", "4096 positions", "5.4e4"]]
    assert Typesetter(33).table(columns, rows).splitlines()[2:] == [
        "sinusoidal   4096         5.4e4",
        "             positions",
    ]
    assert Typesetter(24).table(columns, rows).splitlines() == [
        "scheme: sinusoidal;",
        "  context: 4096",
        "  positions; longest:",
        "  5.4e4",
    ]


def test_names_with_hyphens_are_never_parted():
    """They are copied: an engine, a cause, a file."""
    text = Typesetter(32).paragraph("what engines read: onnxruntime-genai, transformers-4.57")
    assert text.splitlines() == ["what engines read:", "onnxruntime-genai,", "transformers-4.57"]


def test_the_label_of_a_list_stays_with_its_first_name():
    text = Typesetter(32).paragraph("ok: f matches; not tested: n_dims, eps")
    assert text.splitlines() == ["ok: f matches;", "not tested: n_dims, eps"]


def test_the_spaces_of_a_quoted_name_stay():
    text = Typesetter(24).paragraph("run posenc compare 'my  $1 table.npy' TABLE")
    assert text.splitlines() == ["run posenc compare", "'my  $1 table.npy' TABLE"]


def test_a_column_of_empty_cells_is_left_out():
    text = Typesetter(80).table(["", "half at", "farthest"], [["rope", "28", ""], ["t5", "", ""]])
    assert "half at" in text
    assert "farthest" not in text
    assert "farthest" in Typesetter(80).table(["farthest"], [])


def test_code_of_an_answer_can_be_copied_from_a_narrow_terminal():
    keys = '{"max_position_embeddings": 8192}'
    told = Answer(True, "ok", next=f"set in config.json {keys}").text(Typesetter(20))
    assert told.splitlines()[-2:] == ['{"max_position_embeddings":', "8192}"]
    told = Answer(True, "ok", next="posenc check a.npy --len 9").text(Typesetter(20))
    assert told == "ok\nnext: posenc \\\n  check a.npy \\\n  --len 9"

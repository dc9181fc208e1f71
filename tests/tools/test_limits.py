"""docs/limits.md says what each command does at each length, and every cell is run."""

from itertools import product

import pytest

from tools import limits

SAID = limits.said(limits.PAGE.read_text("utf-8"))
LARGEST = max(limits.SIZES)


def test_the_page_has_a_row_for_each_command_and_a_cell_for_each_length():
    assert {name: len(cells) for name, cells in SAID.items()} == dict.fromkeys(
        limits.ROWS, len(limits.SIZES) + 1
    )


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, cells in SAID.items() if "refuses" in cells[-2]])
def test_what_is_refused_at_the_largest_length_is_refused_in_one_line(name, call):
    status, out, err = call(name, *limits.ROWS[name].format(n=LARGEST).split())
    assert (out, err.count("posenc: error: ")) == ("", 1)
    assert f"refuses ({status})" == SAID[name][-2]
    assert "at most" in err or "must be from" in err


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), list(product(limits.ROWS, limits.SIZES)))
def test_a_command_does_what_the_page_says_within_a_minute_and_2_gib(name, size):
    kind, line = limits.outcome(name, size)
    assert kind == SAID[name][list(limits.SIZES).index(size)]
    assert bool(line) == kind.startswith("refuses")


def test_a_page_that_says_otherwise_is_seen(monkeypatch, tmp_path):
    page = limits.PAGE.read_text("utf-8")
    rows = limits.said(page)
    assert limits.said(page.partition("| command |")[0] + limits.table(rows)) == rows
    monkeypatch.setattr(limits, "ROWS", {"spectrum": limits.ROWS["spectrum"]})
    monkeypatch.setattr(limits, "outcome", lambda *_: ("a sample", ""))
    monkeypatch.setattr(limits, "PAGE", tmp_path / "limits.md")
    limits.PAGE.write_text(limits.table({"spectrum": rows["spectrum"]}), "utf-8")
    assert limits.main(check=True) == 1
    limits.main(check=False)
    assert limits.main(check=True) == 0

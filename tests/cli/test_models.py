"""``posenc models``: the list, one model, and JSON."""

from __future__ import annotations

import json

import pytest

from posenc_cli.cli.commands.explain import parameters_text
from posenc_cli.cli.console import Console
from posenc_cli.configs import library


def test_lists_every_model_within_80_columns(call):
    status, out, err = call("models")
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert {row[0] for row in rows if row} >= set(library.names())
    assert ["deepseek-v3", "rope-yarn", "163840", "DeepSeek", "V3"] in rows
    assert max(map(len, out.splitlines())) <= 80


def test_describes_one_with_source_and_config_and_what_reads_it(call):
    status, out, err = call("models", "phi-3-vision-128k")
    assert (status, err) == (0, "")
    assert "OmniGen" in out
    assert out.endswith("\n\nnext: posenc explain phi-3-vision-128k\n")
    assert "  rope_theta: 10000.0" in out
    assert "long_factor: [48 values]" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.long
@pytest.mark.parametrize("name", library.names())
def test_every_model_can_be_described(name, call):
    status, out, _ = call("models", name)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("columns", "is_table"), [(56, True), (55, False), (51, False), (20, False)]
)
def test_a_source_moves_to_a_line_of_its_own_where_a_table_is_too_wide(
    columns, is_table, monkeypatch
):
    """Columns of 10, 10 and 30, and three spaces between them."""
    monkeypatch.setenv("COLUMNS", str(columns))
    text = parameters_text(Console(), [["n" * 10, "v" * 10, "source of " * 3]])
    assert (text.splitlines()[0].split() == ["parameter", "value", "source"]) == is_table
    assert max(map(len, text.splitlines())) <= columns


def test_json_is_whole(call):
    _, out, _ = call("models", "--json")
    document = json.loads(out)
    assert document["schema"] == "posenc/models/1"
    assert [each["name"] for each in document["models"]] == [*library.names()]
    (one,) = json.loads(call("models", "phi-3-vision-128k", "--json")[1])["models"]
    assert one["config"] == library.find("phi-3-vision-128k").config
    assert len(one["layers"][0]["params"]["long_factor"]) == 48
    assert one["layers"][0]["scheme"] == "rope-longrope"


def test_an_unknown_model_is_refused_with_the_nearest(call):
    status, out, err = call("models", "lama-2-7b")
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "posenc: error: unknown model 'lama-2-7b'",
        "hint: did you mean 'llama-2-7b'?",
    ]

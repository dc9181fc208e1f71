"""``posenc models``: the list and JSON; where the config of a model is from."""

import json

from posenc_cli.configs import library


def test_lists_every_model_within_80_columns(printed):
    out = printed("models", err="")
    rows = [line.split() for line in out.splitlines()]
    assert {row[0] for row in rows if row} >= set(library.names())
    assert ["deepseek-v3", "rope-yarn", "163840", "DeepSeek", "V3"] in rows
    assert max(map(len, out.splitlines())) <= 80


def test_json_is_whole(call):
    document = json.loads(call("models", "--json")[1])
    assert document["schema"] == "posenc/models/1"
    assert [each["name"] for each in document["models"]] == [*library.names()]
    (one,) = [each for each in document["models"] if each["name"] == "phi-3-vision-128k"]
    assert one["config"] == library.find("phi-3-vision-128k").config
    assert len(one["layers"][0]["params"]["long_factor"]) == 48
    assert one["layers"][0]["scheme"] == "rope-longrope"


def test_explain_says_where_the_config_of_a_model_is_from(call):
    status, out, _ = call("explain", "phi-3-vision-128k")
    source = library.find("phi-3-vision-128k").source
    assert status == 0
    assert source in " ".join(out.split())
    assert json.loads(call("explain", "phi-3-vision-128k", "--json")[1])["source"] == source

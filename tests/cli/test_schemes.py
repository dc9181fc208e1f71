"""``posenc schemes``: the catalogue for readers and for programs, plugins included."""

import json

import pytest

from posenc_cli import catalogue
from posenc_cli.catalogue import BUILT_IN


def test_lists_every_scheme_within_80_columns(printed):
    out = printed("schemes", err="")
    assert all(f"\n{name} " in out for name in BUILT_IN)
    assert max(map(len, out.splitlines())) <= 80


def test_json_documents_every_parameter(call):
    document = json.loads(call("schemes", "--json")[1])
    assert document["schema"] == "posenc/schemes/1"
    assert [each["name"] for each in document["schemes"]] == list(BUILT_IN)
    for each in document["schemes"]:
        names = [parameter["name"] for parameter in each["parameters"]]
        assert names == list(BUILT_IN[each["name"]].parameters)
        assert set(each) == {
            *("name", "kind", "summary", "formula", "source", "convention", "parameters"),
        }
    (alibi,) = json.loads(call("schemes", "alibi", "--json")[1])["schemes"]
    slopes = next(p for p in alibi["parameters"] if p["name"] == "slopes")
    told = (slopes["flag"], slopes["type"], slopes["default"])
    assert told == ("--set slopes", "press|naive", "press")


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Two installed plugins: one that works, one whose import fails."""
    (tmp_path / "plugin_good.py").write_text(
        "from posenc_cli.formulas.sinusoids import integer as scheme\n"
    )
    (tmp_path / "plugin_bad.py").write_text("raise SystemExit('not today')\n")
    info = tmp_path / "plugins-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        f"[{catalogue.PLUGIN_GROUP}]\ngood = plugin_good:scheme\nbad = plugin_bad:scheme\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("plugins")
def test_a_broken_plugin_is_a_row_and_everything_else_works(call, printed):
    out = printed("schemes", err="")
    rows = [line.split() for line in out.splitlines()]
    assert ["bad", "broken"] in [row[:2] for row in rows]
    assert ["good", "absolute"] in [row[:2] for row in rows]
    assert call("generate", "-s", "good", "-l", "3", "-o", "a.npy")[0] == 0
    assert call("generate", "-s", "bad", "-l", "3")[2].count("(SystemExit: not today)") == 1
    assert "SystemExit" in json.loads(call("schemes", "--json")[1])["schemes"][-2]["error"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cope", "contextual position encoding depends on the tokens"),
        ("CoPE", "clipped RoPE, also called CoPE, is rope-clipped"),
        ("path", "PaTH attention depends on the tokens"),
        ("fox", "the Forgetting Transformer depends on the tokens"),
    ],
)
def test_what_depends_on_content_is_said_to_be_out_of_reach(name, said, refused):
    for line in (("schemes", name), ("generate", "-s", name, "-l", "4")):
        assert said in refused(*line)


@pytest.mark.parametrize(
    ("scheme", "settled"),
    [
        ("learned", "a file of shape (max_len, dim) sets these sizes"),
        ("swin-v2", "a file of the tensors 0.weight (hidden, 2), 0.bias (hidden) and"),
    ],
)
def test_a_scheme_says_what_a_file_of_weights_holds(scheme, settled, call):
    assert f"Weights: {settled}" in " ".join(call("schemes", scheme)[1].split())

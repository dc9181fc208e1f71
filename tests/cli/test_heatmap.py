"""``posenc heatmap``: what is shown of each kind of scheme and of any file, and where it goes."""

import json
import os
import re
import sys
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest

from posenc_cli.cli.pictures import _sides_of_data
from tests.matrices import matrix

WIDE = 80


@pytest.fixture
def drawn(call):
    """What a heatmap draws, as strict JSON."""

    def run(*arguments):
        return json.loads(call("heatmap", *arguments, "--json")[1], parse_constant=pytest.fail)

    return run


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ["-s", "rope", "-l", "64", "--table", "sin-full", "--layout", "half"],
        ["-s", "rope", "-l", str(2**40), "-d", "128"],
        ["-s", "xpos", "-l", "64"],
        ["-s", "binary", "-l", "4096", "-d", "12"],
        ["-s", "nope", "-l", "5"],
        ["-s", "alibi", "-l", "1000000", "--head", "3"],
        ["-s", "alibi", "--set", "form=bloom", "-l", "100000"],
        ["-s", "t5", "-l", "1000000", "--heads", "112"],
        ["-s", "transformer-xl", "-l", str(2**40)],
        ["-s", "sinusoidal-nd", "--set", "grid=100000x100000"],
        ["-s", "rope-axial", "--set", "grid=16x16"],
        ["-s", "sinusoidal+rope+t5", "-l", "64"],
        ["-s", "sinusoidal", "-l", "1", "-d", "2"],
        ["--model", "llama-3.1-8b", "-l", "8192"],
    ],
    ids=" ".join,
)
def test_every_kind_of_scheme_is_shown_within_the_page(arguments, call):
    status, out, err = call("heatmap", *arguments)
    assert status == 0
    lines = out.splitlines()
    assert 8 <= len(lines) <= 23
    assert max(map(len, lines)) <= WIDE
    assert "\x1b" not in out
    assert "error" not in err


def test_the_title_names_model_scheme_size_and_parameters(call, drawn):
    out = call("heatmap", "-s", "rope-yarn", "-l", "99", "--set", "factor=8", "-d", "32")[1]
    title = " ".join(out.splitlines()[:2])
    assert title.startswith("rope-yarn: 99 positions × 32 dimensions (base=10000, factor=8")
    assert call("heatmap", "-s", "rope", "-l", "9", "--title", "mine")[1].startswith("mine\n")
    title = drawn("--model", "llama-3.1-8b", "-l", "99")["title"]
    assert title.startswith("llama-3.1-8b: rope-llama3: 99 positions × 128")


@pytest.mark.slow
def test_a_title_cannot_steer_the_terminal(call, tmp_path):
    """Nor can it fake a second line."""
    title = "evil\x1b[31m\a\nposenc: error: no\u202e"
    escaped = r"evil\x1b[31m\x07\nposenc: error: no\u202e"
    ask = ("heatmap", "-s", "rope", "-l", "9", "--title", title)
    _, out, _ = call(*ask)
    assert out.splitlines()[0] == escaped
    _, _, err = call(*ask, "--out", str(tmp_path / "x.png"))
    assert escaped in err
    assert not set("\x1b\a\u202e") & set(out + err)


@pytest.mark.parametrize(
    ("arguments", "title", "panels"),
    [
        ("-s rope -s rope --set b.base=500000", "a: rope, b: rope", [10000, 500000]),
        ("-s rope -s rope-yarn --set rope-yarn.base=20000", "rope, rope-yarn", [10000, 20000]),
        ("-m llama-3-8b -m qwen2.5-7b", "llama-3-8b, qwen2.5-7b", [500000, 1000000]),
        ("-s rope -m llama-3-8b", "rope, llama-3-8b", [10000, 500000]),
    ],
)
def test_compared_encodings_have_panels_of_their_own(arguments, title, panels, drawn):
    """As other pictures compare them: what is named apart is not taken for a hybrid."""
    data = drawn(*arguments.split(), "--table", "angles")
    assert data["title"] == title
    assert [part["params"]["base"] for part in data["parts"]] == panels
    assert [part["positions"] for part in data["parts"]] == ["0:512"] * len(panels)
    named = [int(re.search(r"base=(\d+)", each["title"])[1]) for each in data["panels"]]
    assert named == panels


def test_width_and_height_are_kept(call):
    arguments = ("heatmap", "-s", "rope", "-l", "4096", "-d", "128")
    lines = call(*arguments, "--width", "120", "--height", "50")[1].splitlines()
    assert 80 < max(map(len, lines)) <= 120
    assert 40 < len(lines) <= 50


def test_json_carries_the_plotted_data(drawn):
    data = drawn("-s", "sinusoidal", "-l", "20", "-d", "8")
    assert next(iter(data.items())) == ("schema", "posenc/heatmap/1")
    assert data["scheme"] == "sinusoidal"
    assert data["rows"] == list(range(20))
    assert data["columns"] == [0, 2, 4, 6, 1, 3, 5, 7]
    assert data["bands"]["columns"] == [
        {"label": "sin", "start": 0, "stop": 4},
        {"label": "cos", "start": 4, "stop": 8},
    ]
    angles = np.outer(range(20), 10000.0 ** (-np.arange(4) / 4))
    expected = np.hstack([np.sin(angles), np.cos(angles)])
    np.testing.assert_allclose(data["values"], expected, atol=1e-15)


def test_json_of_a_bias_has_a_panel_a_head(drawn):
    data = drawn("-s", "alibi", "-l", "6", "--heads", "2")
    assert [panel["title"] for panel in data["panels"]] == ["head 0", "head 1"]
    whole = matrix("alibi", "0:6", heads=2)
    assert np.array_equal([panel["values"] for panel in data["panels"]], whole)


def test_json_of_a_grid_has_maps_that_are_one_where_they_look_from(drawn):
    data = drawn("-s", "sinusoidal-nd", "--set", "grid=5x6")
    where = [(0, 0), (0, 3), (2, 3), (4, 5)]
    assert [panel["title"] for panel in data["panels"]] == [f"of {place}" for place in where]
    for panel, (y, x) in zip(data["panels"], where, strict=True):
        assert np.shape(panel["values"]) == (5, 6)
        assert panel["values"][y][x] == pytest.approx(1, abs=1e-15)


def test_complex_columns_are_named_by_their_pair(drawn, refused):
    ask = ("-s", "rope", "-d", "16", "-l", "20", "--table", "complex")
    data = drawn(*ask)
    assert data["columns"] == [*range(8), *range(8)]
    turned = np.exp(1j * np.outer(np.arange(20), 10000.0 ** (-np.arange(8) / 8)))
    assert np.abs(data["values"] - np.hstack([turned.real, turned.imag])).max() < 1e-12
    crop = drawn(*ask, "--dims", "2:5")
    assert crop["title"].startswith("rope complex: 20 positions × 3 of 8 complex")
    assert crop["columns"] == [2, 3, 4, 2, 3, 4]
    bands = [(band["label"], band["stop"]) for band in crop["bands"]["columns"]]
    assert bands == [("real", 3), ("imaginary", 6)]
    some = turned[:, 2:5]
    assert np.abs(crop["values"] - np.hstack([some.real, some.imag])).max() < 1e-12
    assert "the dimensions are 0 to 7" in refused("heatmap", *ask, "--dims", "0:9")


def test_a_crop_says_what_it_is_of(tmp_path, drawn):
    title = drawn("-s", "sinusoidal", "-l", "9", "--dims", "0:6")
    assert title["title"].startswith("sinusoidal: 9 positions × 6 of 64 dimensions")
    np.save(tmp_path / "a.npy", np.eye(5, 9))
    data = drawn("--in", str(tmp_path / "a.npy"), "--dims", "2:4")
    assert data["title"].endswith("a.npy': 5 × 9 float64, 2 of 9 columns")


def test_columns_can_stay_as_they_are_stored(tmp_path, drawn):
    table = matrix("sinusoidal", "0:40", dim=32)
    np.save(tmp_path / "table.npy", table)
    asked = (["-s", "sinusoidal", "-l", "40", "-d", "32"], ["--in", "table.npy"])
    for arguments in asked:
        data = drawn(*arguments, "--unsplit")
        assert data["columns"] == list(range(32))
        assert data["bands"] == {}
        assert np.allclose(data["values"], table)
        data = drawn(*arguments, "--unsplit", "--dims", "3:7", "--height", "8")
        assert data["columns"] == [3, 4, 5, 6]
        assert data["undersampled"] == [3] or arguments[0] == "--in"


@pytest.mark.parametrize("size", ["2", "8", "23", "30"])
def test_a_sampled_map_shows_the_position_it_is_about(size, drawn):
    sides = ("--width", size, "--height", size)
    data = drawn("-s", "sinusoidal-nd", "--set", "grid=31x33", *sides)
    for panel in data["panels"]:
        y, x = map(int, panel["title"].removeprefix("of (").removesuffix(")").split(", "))
        value = panel["values"][panel["rows"].index(y)][panel["columns"].index(x)]
        assert value == pytest.approx(1)
        assert panel["rows"] == sorted(set(panel["rows"]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "--scheme, --config, --model or --in: give one of them"),
        ("-s rope -l 4 --in x.npy", "--in cannot go with"),
        ("-s rope -l 4 --dims 9:3", "--dims '9:3' is empty"),
        ("-s rope -l 4 --dims x", "--dims 'x': must be A:B"),
        ("-s rope -l 4 --rows 0:2", "--rows 0:2 needs --in"),
        ("-s rope -l 4 --dims 60:70", "--dims: the dimensions are 0 to 63, not 69"),
        ("-s rope --table inv-freq --dims 0:2", "--dims"),
        ("-s alibi -l 4 --dims 0:1", "--dims 0:1: a bias of alibi"),
        ("-s rope -l 4 --head 0", "--head 0: rope is a rotary encoding"),
        ("-s rope+alibi -l 4 --head 9", "--head 9"),
        ("-s rope+nope -l 4 --head 0", "--head 0: no part"),
        ("-s rope -l 4 --cmap nosuch", "--cmap 'nosuch'"),
        ("-s rope -l 4 --theme pink", "--theme 'pink': must be one of"),
        ("-s rope -l 4 --theme dark", "--theme 'dark' needs --out"),
        ("-s rope -l 4 --width 3", "--width 3: must be at least 20"),
        ("-s rope -l 4 --height 9999", "--height 9999: must be at most"),
        ("-s rope -l 4 --out x.jpg", "--out 'x.png'"),
        ("-s rope -l 4 --out x", "--out 'x.png'"),
        ("-s rope -l 4 --out x.png --width 20000", "--width 20000"),
        ("-s rope -l 4 --out x.png --dpi 0", "--dpi 0"),
        ("-s rope -l 4 --out - --json", "--json: stdout is used"),
        ("-s rope --softmax", "--softmax: rope is a rotary encoding, not a bias"),
        ("-s alibi --causal", "--causal needs --softmax"),
        ("-s alibi --softmax -l 10000", "--len 10000: 10000 keys under a softmax; at most 8192"),
        ("--in x.npy --softmax", "--softmax needs the scheme of a bias, not --in"),
        ("--in x.npy --table cos", "--table 'cos' cannot go with --in"),
        ("--in a.npy --len 4", "--len"),
        ("--in a.npy --set dim=8", "--set"),
        ("--in a.npy --dim 8", "--dim"),
        ("--in a.npy --start 1", "--start"),
        ("--in a.npy --dims 2:4", "--dims 2:4: 'a.npy' has 3 columns"),
        ("--in a.npy --rows 2:4", "--rows 2:4: 'a.npy' has 3 rows"),
        ("--in a.npy --head 0", "--head 0"),
        ("--in stack.npy --head 4", "--head 4"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, said, refused):
    np.save("a.npy", np.eye(3))
    np.save("stack.npy", np.zeros((2, 2, 3, 4)))
    assert said in refused("heatmap", *arguments.split())


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("a.", 2, "hint: --out 'a.png'"),
        ("./...", 2, "'./...': must end in .png, .svg, .pdf, .html"),
        ("a/", 3, "'a/': it names no file"),
        ("a/.", 3, "'a/.': it names no file"),
    ],
)
def test_a_name_that_ends_in_a_dot_or_a_slash_gets_no_odd_hint(name, status, said, refused):
    told = refused("heatmap", "-s", "rope", "--out", name, status=status)
    assert told.splitlines()[-1].endswith(said)


def test_a_device_gets_no_suffix(refused):
    said = refused("heatmap", "-s", "rope", "--out", "/dev/full")
    assert "must end in .png" in said
    assert "full.png" not in said


@pytest.mark.parametrize(
    ("array", "panels", "shape"),
    [
        (np.arange(5.0), None, (1, 5)),
        (np.arange(5.0)[:, None], None, (5, 1)),
        (np.arange(24).reshape(2, 3, 4), ["[0]", "[1]"], (3, 4)),
        (np.arange(48.0).reshape(2, 2, 3, 4), ["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"], (3, 4)),
        (np.arange(12.0).reshape(1, 3, 4), None, (3, 4)),
        (np.ones((2, 3), np.float16), None, (2, 3)),
    ],
)
def test_arrays_of_any_rank_are_shown(array, panels, shape, call, drawn):
    np.save("a.npy", array)
    assert call("heatmap", "--in", "a.npy")[0] == 0
    data = drawn("--in", "a.npy")
    found = data.get("panels", [data])
    assert [panel["title"] for panel in found] == panels or panels is None
    assert np.array_equal(np.array([panel["values"] for panel in found]), array.reshape(-1, *shape))
    if panels:
        assert drawn("--in", "a.npy", "--head", "1")["values"] == found[1]["values"]


def test_complex_numbers_show_both_parts(tmp_path, drawn):
    values = np.exp(1j * np.outer(np.arange(4), [1.0, 0.1]))
    np.save(tmp_path / "a.npy", values)
    data = drawn("--in", "a.npy")
    assert [band["label"] for band in data["bands"]["columns"]] == ["real", "imaginary"]
    assert np.array_equal(data["values"], np.hstack([values.real, values.imag]))


def test_a_gap_in_a_row_that_is_not_drawn_is_told(call, tmp_path):
    values = np.ones((64, 16))
    values[5] = np.nan
    np.save(tmp_path / "a.npy", values)
    _, _, err = call("heatmap", "--in", "a.npy")
    assert err == "posenc: warning: 16 of 1024 values are not finite; drawn as gaps: none\n"
    np.save(tmp_path / "a.npy", np.where(np.eye(64, 16), values * 1j, 0))
    _, _, err = call("heatmap", "--in", "a.npy", "--rows", "4:60")
    assert err.startswith("posenc: warning: 2 of 1792 values are not finite; ")


@pytest.mark.slow
def test_gaps_are_shown_with_a_warning(call, tmp_path, drawn):
    values = np.ones((4, 4))
    values[1, 2], values[2, 2], values[0, 0] = np.nan, np.inf, 3
    np.save(tmp_path / "a.npy", values)
    status, out, err = call("heatmap", "--in", "a.npy")
    assert status == 0
    assert out.count("?") > 2
    assert err == "posenc: warning: 2 of 16 values are not finite, shown as gaps\n"
    data = drawn("--in", "a.npy")
    assert data["values"][1][2] is None
    assert data["gaps"] == 2
    status, _, err = call("heatmap", "--in", "a.npy", "--out", "a.png", "-q")
    assert status == 0
    assert "posenc: warning: 2 of 16" in err


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nan.csv", b"nan,inf\n-inf,nan\n"),
        ("bad.npz", b"PK\x03\x04garbage"),
        ("unknown.xyz", b"\x00\x01\x02"),
    ],
)
def test_malformed_files_end_in_one_line(name, content, tmp_path, refused):
    (tmp_path / name).write_bytes(content)
    for out in ([], ["--out", "x.png"], ["--json"]):
        assert name in refused("heatmap", "--in", name, *out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (["--dpi", "150"], 1.0),
        (["--dpi", "300"], 2.0),
        (["--dpi", "75"], 0.5),
        (["--dpi", "300", "--width", "500", "--height", "400"], None),
    ],
)
def test_sides_that_are_not_given_grow_with_the_resolution(arguments, size, call, tmp_path):
    drawn = ["-s", "sinusoidal", "-l", "100", "-d", "64", "--out", "a.png"]
    assert call("heatmap", *drawn)[0] == 0
    usual = matplotlib.image.imread(tmp_path / "a.png").shape
    assert call("heatmap", *drawn, *arguments)[0] == 0
    found = matplotlib.image.imread(tmp_path / "a.png").shape
    if size is None:
        assert found[:2] == (400, 500)
    else:
        # But for cells of whole pixels.
        assert found[:2] == pytest.approx((size * usual[0], size * usual[1]), rel=0.25)


@pytest.mark.slow
def test_a_figure_goes_to_a_pipe(posenc):
    done = posenc("heatmap", "-s", "rope", "-l", "8", "--out", "-", text=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"\x89PNG")
    assert done.stderr.startswith(b"wrote to standard output: rope: 8 positions")


@pytest.mark.slow
def test_json_with_a_figure_has_what_the_figure_shows(tmp_path, drawn):
    data = drawn("-s", "rope", "-l", "100000", "--out", "a.png")
    assert data["path"] == "a.png"
    assert (tmp_path / "a.png").exists()
    assert 300 < len(data["rows"]) < 800


@pytest.mark.slow
def test_the_machines_matplotlib_settings_change_nothing(posenc, tmp_path):
    arguments = ("heatmap", "-s", "rope", "-l", "100", "--title", "θ", "--out")
    assert posenc(*arguments, "plain.png").returncode == 0
    (tmp_path / "matplotlibrc").write_bytes(b"font.size: 40\nno such key: 1\nbackend: \xff\xfe\n")
    environment = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), "/proc/nope")
    environment |= {"MPLBACKEND": "no-such-backend"}
    environment |= {"MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    done = posenc(*arguments, "hostile.png", "-q", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "hostile.png").read_bytes() == (tmp_path / "plain.png").read_bytes()


def test_a_grid_with_dims_is_shown_as_rows(drawn):
    data = drawn("-s", "sinusoidal-nd", "--dims", "0:40")
    assert data["shape"] == [196, 40]
    assert [band["label"] for band in data["bands"]["columns"]] == ["sin x", "cos x", "sin y"]


def test_long_parameters_are_counted_in_the_title(call):
    factors = ",".join(["1.5"] * 32)
    arguments = ["--set", f"short_factor={factors}", "--set", f"long_factor={factors}"]
    arguments += ["--set", "original_max_position_embeddings=64"]
    out = call("heatmap", "-s", "rope-longrope", "-l", "9", *arguments)[1]
    assert "short_factor=32 numbers" in " ".join(out.splitlines()[:3])


def test_rows_of_waves_that_are_skipped_count_in_means_and_json_has_the_rows_it_names(call, drawn):
    ask = ("heatmap", "-s", "rope", "-l", "64000", "--base", "100", "--title", "t")
    out = call(*ask, "--height", "24")[1]
    assert re.search(r"^each row is the mean of up to \d+ positions", out, re.MULTILINE)
    assert "aliased" not in out
    means = [re.split("[┤│]", line, maxsplit=1)[1:] for line in out.splitlines()]
    shades = {shade for (line,) in filter(None, means) for shade in line if shade not in "│ "}
    assert shades == {"▒"}, "every wave is faster than the picture: 0"
    data = drawn(*ask[1:], "--height", "5")
    assert data["notes"] == ["shows 5 of 64000 positions"]
    table = matrix("rope", ",".join(map(str, data["rows"])), base=100.0, dtype="float64")
    assert np.array_equal(data["values"], table[:, data["columns"]])


def test_rows_of_a_file_are_chosen_and_keep_their_numbers(tmp_path, drawn):
    values = np.arange(60.0).reshape(3, 10, 2)
    np.save(tmp_path / "a.npy", values)
    one = drawn("--in", "a.npy", "--head", "1", "--rows", "4:7")
    assert one["rows"] == [4, 5, 6]
    assert one["values"] == values[1, 4:7].tolist()
    assert "3 of 10 rows" in one["title"]


@pytest.mark.long
def test_without_matplotlib_only_files_fail(posenc, tmp_path):
    broken = tmp_path / "broken" / "matplotlib"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libpng is missing')")
    environment = {"PYTHONPATH": os.pathsep.join([str(broken.parent), *sys.path])}
    for more, status in (([], 0), (["--out", "a.png"], 3)):
        done = posenc("heatmap", "-s", "rope", "-l", "9", *more, env=environment)
        assert done.returncode == status
    assert "needs matplotlib, which does not load: ImportError: libpng" in done.stderr
    assert done.stderr.endswith("hint: pip install matplotlib\n")
    assert not (tmp_path / "a.png").exists()


BIASES = ["alibi", "t5", "t5-clipped", "kerple-log", "kerple-power", "sandwich"]
BIASES += ["alibi --set form=bloom"]


@pytest.mark.long
@pytest.mark.parametrize("scheme", BIASES)
@pytest.mark.parametrize("causal", [False, True])
def test_weights_of_a_bias_are_its_softmax_and_each_query_shares_out_one(scheme, causal, drawn):
    asked = ["-s", *scheme.split(), "--head", "1", "-l", "12"]
    document = drawn(*asked, "--softmax", *(["--causal"] if causal else []))
    weights = np.array(document["values"])
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    scores = np.array(drawn(*asked)["values"])
    powers = np.exp(scores) * (np.tri(12) if causal else 1)
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-13)
    assert (document["softmax"], document["causal"]) == (True, causal)
    mask = "causal mask" if causal else "no mask"
    said = f"softmax of the bias alone, as if all content were equal, {mask}"
    assert said in document["title"]
    assert ("random weights" in document["title"]) == scheme.startswith("t5")


@pytest.mark.long
def test_weights_of_a_sample_are_those_over_all_keys(drawn):
    document = drawn(*["-s", "alibi", "--head", "3", "-l", "600", "--softmax", "--width", "300"])
    offsets = np.subtract.outer(document["rows"], np.arange(600))
    powers = np.exp(-abs(offsets) / 16)
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(document["values"], expected[:, document["columns"]], rtol=1e-12)
    assert "shows 300 of 600 queries and 300 of 600 keys" in document["notes"]


@pytest.mark.parametrize("width", [24, 40, 60, 100])
def test_the_scale_of_a_map_of_one_value_is_no_wider_than_the_map(width, call, tmp_path):
    values = np.zeros((4, 6))
    values[1, 2] = np.nan
    np.save(tmp_path / "zeros.npy", values)
    _, out, _ = call("heatmap", "--in", "zeros.npy", "--width", str(width))
    assert max(map(len, out.splitlines())) <= width
    assert "0 elsewhere" in out
    assert ("not finite" in out) == (width >= 40)


def test_maps_of_many_values_have_fewer_rows_in_json(monkeypatch):
    monkeypatch.setattr("posenc_cli.cli.pictures.LISTED_VALUES", 32768)
    heatmap = SimpleNamespace(
        rows=SimpleNamespace(points=range(400)), columns=SimpleNamespace(points=range(100))
    )
    look = SimpleNamespace(height=None, width=None)
    assert _sides_of_data(look, [heatmap]) == (32, 1024)
    assert _sides_of_data(look, [heatmap] * 2) == (16, 1024)

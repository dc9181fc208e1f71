"""``posenc spectrum``: the table, the words, the JSON, the figure, and what it refuses."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from tests.matrices import matrix


def table_of(lines):
    """Where the table begins, which follows the picture."""
    return next(i for i, line in enumerate(lines) if line.startswith("───")) - 1


def asked(call, *arguments):
    status, out, err = call("spectrum", *arguments, "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert next(iter(document)) == "schema"
    assert document["schema"] == "posenc/spectrum/1"
    return document


def test_json_of_waves(call):
    document = asked(call, "-s", "rope", "-d", "8", "--base", "10000", "-l", "100")
    np.testing.assert_allclose(document["frequencies"], [1, 0.1, 0.01, 0.001])
    np.testing.assert_allclose(
        document["wavelengths"], [2 * math.pi * x for x in (1, 10, 100, 1000)]
    )
    np.testing.assert_allclose(
        document["turns"], [100 / w for w in document["wavelengths"]], rtol=1e-14
    )
    assert document["incomplete"] == [2, 3]
    assert (document["kind"], document["context"], document["zones"]) == ("waves", 100, None)


def test_json_of_a_stretched_rotation_shows_before_and_after(call):
    document = asked(call, "-s", "rope-yarn", "-d", "64")
    frequencies = matrix("rope-yarn", None, dtype="float64", table="inv-freq", dim=64)
    plain = matrix("rope", None, dtype="float64", table="inv-freq", dim=64)
    np.testing.assert_allclose(document["wavelengths"], 2 * np.pi / frequencies, rtol=1e-14)
    np.testing.assert_allclose(document["before"]["wavelengths"], 2 * np.pi / plain, rtol=1e-14)
    np.testing.assert_allclose(document["stretch"], plain / frequencies, rtol=1e-14)
    assert document["context_from"] == "original_max_position_embeddings"
    assert document["zones"] == ["kept"] * 11 + ["blended"] * 12 + ["interpolated"] * 9


def test_json_of_a_wave_that_stands_still_has_null(call):
    document = asked(call, "-s", "rope-proportional", "-d", "8", "--set", "partial=0.5")
    assert document["wavelengths"][2:] == [None, None]
    assert document["zones"] == ["kept", "kept", "still", "still"]


def test_json_of_columns(call, tmp_path):
    document = asked(call, "-s", "binary", "-d", "6", "-l", "64")
    assert document["kind"] == "power"
    assert document["dominant"] == [64, 32, 16, 8, 4, 2]
    table = matrix("binary", "0:64", dtype="float64", dim=6)
    power = np.abs(np.fft.rfft(table - table.mean(axis=0), axis=0))[1:] ** 2
    power[:-1] *= 2
    np.testing.assert_allclose(document["power"], power.sum(axis=1) / power.sum(), atol=1e-15)
    np.save(tmp_path / "t.npy", table)
    again = asked(call, "--in", "t.npy")
    assert (again["dominant"], again["shape"]) == (document["dominant"], [64, 6])
    constant = asked(call, "-s", "nope", "-l", "9", "-d", "2")
    assert constant["dominant"] == [None, None]


def test_steps_count_in_wavelengths(call):
    document = asked(call, "-s", "binary", "-d", "6", "--positions", "0:64:2")
    assert document["dominant"][:5] == [64, 32, 16, 8, 4]


def test_the_table_has_a_row_a_pair(call):
    status, out, _ = call("spectrum", "-s", "rope-linear", "-d", "8", "-l", "50")
    assert status == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    lines = lines[table_of(lines) :]
    assert lines[0].split() == ["pair", "wavelength", "rotations", "before", "stretched", "zone"]
    assert lines[2].split() == ["0", "25.1327", "1.98944", "6.28319", "×4", "interpolated"]
    told = " ".join(out.split())
    longer = "3 of 4 pairs have wavelengths longer than 50 positions (the positions asked for)"
    assert f"{longer}: 1–3" in told
    assert "zones by pair: interpolated 0–3" in told


@pytest.mark.slow
def test_long_tables_are_thinned_and_say_so(call):
    _, out, _ = call("spectrum", "-s", "rope", "-d", "4096")
    assert "the table has 128 of 2048 rows; --json has them all" in out
    assert "\n2047 " in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("-s learned -l 64", "noise"),
        ("-s learned", "strongest wavelength"),
        ("-s binary -d 12", "the strongest of neighbouring wavelengths"),
        ("-s rope -d 2 -l 50", "no pair has a wavelength longer than 50 positions"),
        ("-s transformer-xl -d 2 -l 40", "up: wavelength in offsets"),
        ("-s shaw -d 4 -l 30", "across: wavelength in offsets"),
        ("-s normalized -l 64", "strongest wavelength: 64 positions"),
        ("-s nope -l 9", "64 of 64 columns are constant"),
        ("-s sinusoidal-nd --set grid=4x6", "the extent of its axis"),
        ("-s shaw -l 20", "strongest wavelength"),
    ],
)
def test_words_for_every_kind(arguments, told, call):
    status, out, err = call("spectrum", *arguments.split())
    assert (status, err) == (0, "")
    assert told in " ".join(out.split())


@pytest.mark.slow
def test_a_figure_goes_to_a_file(call, tmp_path):
    for name in ("w.png", "w.svg", "w.pdf"):
        status, out, err = call("spectrum", "-s", "rope-llama3", "--out", name)
        assert (status, out) == (0, "")
        assert f"wrote '{name}'" in err
        assert (tmp_path / name).stat().st_size > 1000


def test_columns_that_are_not_finite_are_told(call, tmp_path):
    table = np.random.default_rng(0).standard_normal((30, 3))
    table[3, 1] = np.nan
    np.save(tmp_path / "t.npy", table)
    status, _, err = call("spectrum", "--in", "t.npy", "--json")
    assert (status, err) == (
        0,
        "posenc: warning: 't.npy': 1 of 3 columns are not finite, and left out\n",
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ("", 2, "give one of them"),
        ("-s rope --in t.npy", 3, "t.npy"),
        ("-s alibi", 2, "is a bias"),
        ("-s sinusoidal+", 2, "must be A+B"),
        ("-s learned --positions 1,5,9", 2, "equal steps"),
        ("-s rope --out w.npy", 2, "--out 'w.npy'"),
        ("-s rope --out - --json", 2, "--json: stdout is used"),
        ("-s nope -l 9 --out w.png", 2, "no column changes"),
        ("--in missing.npy", 3, "missing.npy"),
        ("--in row.npy", 2, "one row"),
        ("--in cube.npy", 2, "must be a matrix"),
        ("--in nan.npy", 2, "no column is finite"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, status, told, call, tmp_path):
    np.save(tmp_path / "row.npy", np.ones((1, 4)))
    np.save(tmp_path / "cube.npy", np.ones((4, 4, 4)))
    np.save(tmp_path / "nan.npy", np.full((4, 4), np.nan))
    found, out, err = call("spectrum", *arguments.split())
    assert (found, out) == (status, "")
    assert told in err
    assert err.startswith("posenc: error: ")
    assert len(err.splitlines()) <= 2


def test_of_files_past_memory_the_rows_that_count_are_said(call, tmp_path, monkeypatch):
    monkeypatch.setattr("posenc_cli.analysis.spectrum.HELD_VALUES", 60)
    np.save(tmp_path / "t.npy", np.random.default_rng(0).standard_normal((30, 3)))
    _, out, _ = call("spectrum", "--in", "t.npy")
    assert "of 30 rows, the first 20" in out


def test_complex_columns_are_named_by_their_parts(call, tmp_path):
    angles = 2 * np.pi * np.outer(np.arange(64), [1 / 8, 1 / 16])
    np.save(tmp_path / "t.npy", np.cos(angles) + 1j * np.sin(2 * angles))
    document = asked(call, "--in", "t.npy")
    assert document["columns"] == ["0 real", "0 imaginary", "1 real", "1 imaginary"]
    np.testing.assert_allclose(document["dominant"], [8, 4, 16, 8])
    _, out, _ = call("spectrum", "--in", "t.npy")
    lines = out.splitlines()
    assert lines[table_of(lines) + 3].split()[:3] == ["0", "imaginary", "4"]


def test_a_single_column_has_a_spectrum(call, tmp_path):
    np.save(tmp_path / "t.npy", np.sin(2 * np.pi * np.arange(64) / 16))
    document = asked(call, "--in", "t.npy")
    assert (document["shape"], document["dominant"]) == ([64], [16])


def test_of_few_rows_it_is_not_said_that_no_wavelength_stands_out(call, tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1.0, 2.0], [3.0, 5.0]]))
    _, out, _ = call("spectrum", "--in", "t.npy")
    assert "100.0% of the power of all columns" in out
    assert "stands out" not in out


@pytest.mark.sweep(5)
@pytest.mark.parametrize("size", [(80, 24), (200, 50), (100, 30)])
@pytest.mark.parametrize(
    "arguments", ["-s rope -d 128", "-s rope-yarn -d 128", "-s learned -l 64", "-s rope -d 8"]
)
def test_a_screen_has_room_for_table_curve_and_words(size, arguments, call, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in zip(("COLUMNS", "LINES", "NO_COLOR"), (*size, 1), strict=True):
        monkeypatch.setenv(name, str(value))
    _, out, _ = call("spectrum", *arguments.split())
    lines = out.splitlines()
    assert size[1] / 2 <= len(lines) <= size[1] - 1
    told = " ".join(out.split())
    assert "across: " in told
    _, _, count = told.partition("the table has ")
    if count:
        last = lines[table_of(lines) + 1 + int(count.split()[0])]
        assert last.split()[0] == str(int(count.split()[2]) - 1)


def test_the_context_of_a_model_is_the_longest_it_takes(call):
    document = asked(call, "--model", "llama-3.1-8b")
    assert (document["context"], document["original_context"]) == (131072, 8192)
    np.testing.assert_allclose(
        document["turns"], 131072 / np.array(document["wavelengths"]), rtol=1e-14
    )
    _, out, _ = call("spectrum", "--model", "llama-3.1-8b")
    told = " ".join(out.split())
    assert "131072 positions (max_position_embeddings)" in told
    assert "the original context is 8192 positions" in told
    assert asked(call, "--model", "llama-3.1-8b", "-l", "100")["context"] == 100


@pytest.mark.slow
def test_a_figure_says_what_it_is_of_and_shades_the_zones(call, tmp_path):
    status, _, err = call("spectrum", "--model", "llama-3.1-8b", "--out", "a.svg")
    assert status == 0
    assert "llama-3.1-8b: 29 of 64 pairs keep their wavelength" in err
    drawn = (tmp_path / "a.svg").read_text()
    assert "'llama-3.1-8b': rope-llama3 (dim=128, base=500000, layout=half, factor=8)" in drawn
    for zone in ("kept", "blended", "interpolated"):
        assert re.search(f"<text[^>]*>{zone}</text>", drawn)
    err = call("spectrum", "-s", "shaw", "-d", "8", "--out", "b.svg")[2]
    assert "shaw (dim=8, random weights, seed 0): power by wavelength" in err


def test_rows_at_uneven_steps_have_no_spectrum(call):
    status, _, err = call("spectrum", "-s", "learned", "--positions", "0:4,9:12")
    assert status == 2
    assert "--positions 0:4,9:12: a spectrum needs positions at equal steps" in err


def test_each_spectrum_but_the_first_is_compared_with_the_first(call):
    _, out, _ = call("spectrum", "-m", "llama-2-7b", "-m", "llama-3.1-8b", "-m", "llama-2-7b")
    lines = out.splitlines()
    begin = table_of(lines)
    apart = lines[begin].index("differing")
    rows = {line.split()[0]: line[apart:].split() for line in lines[begin + 2 :] if line}
    assert [rows["a:"], rows["c:"]] == [[], ["none"]]
    assert rows["llama-3.1-8b"][:2] == ["1–63", "(63)"]


def test_frequencies_that_depend_on_the_length_are_those_of_the_context(call, tmp_path):
    factors = [1.0 + i for i in range(4)]
    config = {
        "model_type": "phi3",
        "hidden_size": 8,
        "num_attention_heads": 1,
        "rope_theta": 10000.0,
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": factors},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    given = ("--config", "config.json")
    expected = [2 * math.pi * 10000 ** (i / 4) * factors[i] for i in range(4)]
    assert asked(call, *given)["wavelengths"] == pytest.approx(expected)
    short = [2 * math.pi * 10000 ** (i / 4) for i in range(4)]
    assert asked(call, *given, "--len", "64")["wavelengths"] == pytest.approx(short)
    assert asked(call, *given, "--positions", "60:64")["wavelengths"] == pytest.approx(short)


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (
            "-m llama-3.1-8b",
            "29 of 64 pairs keep their wavelength, the others are up to 8× as long",
        ),
        ("-s rope-linear --set factor=3", "every wavelength is 3× as long"),
        ("-s rope-dynamic -l 2048", "all 32 pairs keep their wavelength"),
        ("-s rope-resonance", "wavelengths become 0.955× to 1.01× as long"),
        ("-s rope-ntk", "1 of 32 pairs keeps its wavelength, the others are up to 4× as long"),
    ],
)
def test_a_title_says_what_a_context_extension_does_to_wavelengths(arguments, title, call):
    """Of Llama 3.1, the pairs that its paper's rule leaves alone: wavelengths below 8192 / 4."""
    status, _, err = call("spectrum", *arguments.split(), "--out", "page.html")
    assert (status, title in err) == (0, True)
    if "llama" in arguments:
        wavelengths = 2 * np.pi * 500_000.0 ** (np.arange(64) / 64)
        assert (wavelengths < 8192 / 4).sum() == 29

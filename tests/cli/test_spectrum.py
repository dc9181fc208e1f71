"""``posenc spectrum``: the table, the words, the JSON, the figure, and what it refuses."""

import json
import math
import re

import numpy as np
import pytest

from tests.matrices import matrix


def table_of(lines):
    """Where the table begins, which follows the picture."""
    return next(i for i, line in enumerate(lines) if line.startswith("───")) - 1


def test_json_of_waves(document):
    found = document("spectrum", "-s", "rope", "-d", "8", "--base", "10000", "-l", "100")
    np.testing.assert_allclose(found["frequencies"], [1, 0.1, 0.01, 0.001])
    wavelengths = 2 * math.pi * np.array([1, 10, 100, 1000])
    np.testing.assert_allclose(found["wavelengths"], wavelengths)
    np.testing.assert_allclose(found["turns"], 100 / wavelengths, rtol=1e-14)
    assert found["incomplete"] == [2, 3]
    assert (found["kind"], found["context"], found["zones"]) == ("waves", 100, None)


def test_json_of_a_stretched_rotation_shows_before_and_after(document):
    found = document("spectrum", "-s", "rope-yarn", "-d", "64")
    frequencies = matrix("rope-yarn", None, dtype="float64", table="inv-freq", dim=64)
    plain = matrix("rope", None, dtype="float64", table="inv-freq", dim=64)
    np.testing.assert_allclose(found["wavelengths"], 2 * np.pi / frequencies, rtol=1e-14)
    np.testing.assert_allclose(found["before"]["wavelengths"], 2 * np.pi / plain, rtol=1e-14)
    np.testing.assert_allclose(found["stretch"], plain / frequencies, rtol=1e-14)
    assert found["context_from"] == "original_max_position_embeddings"
    assert found["zones"] == ["kept"] * 11 + ["blended"] * 12 + ["interpolated"] * 9


def test_json_of_a_wave_that_stands_still_has_null(document):
    found = document("spectrum", "-s", "rope-proportional", "-d", "8", "--set", "partial=0.5")
    assert found["wavelengths"][2:] == [None, None]
    assert found["zones"] == ["kept", "kept", "still", "still"]
    assert found["turns"][2:] == [0, 0]


def test_the_table_has_a_row_a_pair(printed):
    out = printed("spectrum", "-s", "rope-linear", "-d", "8", "-l", "50")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    lines = lines[table_of(lines) :]
    assert lines[0].split() == ["pair", "wavelength", "rotations", "before", "change", "zone"]
    assert lines[2].split() == ["0", "25.1327", "1.98944", "6.28319", "×4", "interpolated"]
    told = " ".join(out.split())
    longer = "3 of 4 pairs have wavelengths longer than 50 positions (the requested positions)"
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
        ("-s rope -d 2 -l 50", "no pair has a wavelength longer than 50 positions"),
        ("-s transformer-xl -d 2 -l 40", "up: wavelength in offsets"),
        ("-s sinusoidal-nd --set grid=4x6", "the extent of its axis"),
    ],
)
def test_words_for_every_kind(arguments, told, printed):
    assert told in " ".join(printed("spectrum", *arguments.split(), err="").split())


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("-s rope --in t.npy", "--in"),
        ("-s alibi", "is not made of waves"),
        ("-s rope --out w.npy", "--out 'w.npy'"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, told, refused):
    assert told in refused("spectrum", *arguments.split())


@pytest.mark.sweep(5)
@pytest.mark.parametrize("size", [(80, 24), (200, 50), (100, 30)])
@pytest.mark.parametrize("arguments", ["-s rope -d 128", "-s rope-yarn -d 128", "-s rope -d 8"])
def test_a_screen_has_room_for_table_curve_and_words(size, arguments, call, screen):
    screen(*size)
    _, out, _ = call("spectrum", *arguments.split())
    lines = out.splitlines()
    assert size[1] / 2 <= len(lines) <= size[1] - 1
    told = " ".join(out.split())
    assert "across: " in told
    _, _, count = told.partition("the table has ")
    if count:
        last = lines[table_of(lines) + 1 + int(count.split()[0])]
        assert last.split()[0] == str(int(count.split()[2]) - 1)


def test_the_context_of_a_model_is_the_longest_it_takes(call, document):
    found = document("spectrum", "--model", "llama-3.1-8b")
    assert (found["context"], found["original_context"]) == (131072, 8192)
    np.testing.assert_allclose(found["turns"], 131072 / np.array(found["wavelengths"]), rtol=1e-14)
    told = " ".join(call("spectrum", "--model", "llama-3.1-8b")[1].split())
    assert "131072 positions (max_position_embeddings)" in told
    assert "the original context is 8192 positions" in told
    assert document("spectrum", "--model", "llama-3.1-8b", "-l", "100")["context"] == 100


@pytest.mark.slow
def test_a_figure_says_what_it_is_of_and_shades_the_zones(call, tmp_path):
    status, _, err = call("spectrum", "--model", "llama-3.1-8b", "--out", "a.svg")
    assert status == 0
    assert "llama-3.1-8b: 29 of 64 pairs keep their wavelength" in err
    drawn = (tmp_path / "a.svg").read_text()
    assert "llama-3.1-8b: rope-llama3 (dim=128, base=500000, layout=half, factor=8)" in drawn
    for zone in ("kept", "blended", "interpolated"):
        assert re.search(f"<text[^>]*>{zone}</text>", drawn)


def test_each_spectrum_but_the_first_is_compared_with_the_first(call):
    _, out, _ = call("spectrum", "-m", "llama-2-7b", "-m", "llama-3.1-8b", "-m", "llama-2-7b")
    lines = out.splitlines()
    begin = table_of(lines)
    apart = lines[begin].index("differing")
    rows = {line.split()[0]: line[apart:].split() for line in lines[begin + 2 :] if line}
    assert [rows["a:"], rows["c:"]] == [[], ["none"]]
    assert rows["llama-3.1-8b"][:2] == ["1–63", "(63)"]


def test_frequencies_that_depend_on_the_length_are_those_of_the_context(tmp_path, document):
    factors = [1.0 + i for i in range(4)]
    config = {"model_type": "phi3", "hidden_size": 8, "num_attention_heads": 1}
    config |= {"max_position_embeddings": 4096, "original_max_position_embeddings": 64}
    scaling = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": factors}
    config |= {"rope_theta": 10000.0, "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    given = ("--config", "config.json")
    expected = [2 * math.pi * 10000 ** (i / 4) * factors[i] for i in range(4)]
    assert document("spectrum", *given)["wavelengths"] == pytest.approx(expected)
    short = [2 * math.pi * 10000 ** (i / 4) for i in range(4)]
    assert document("spectrum", *given, "--len", "64")["wavelengths"] == pytest.approx(short)
    assert document("spectrum", *given, "--positions", "60:64")["wavelengths"] == pytest.approx(
        short
    )


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (
            "-m llama-3.1-8b",
            "29 of 64 pairs keep their wavelength, the others are up to 8× as long",
        ),
        ("-s rope-linear --set factor=3", "wavelengths become 3× as long"),
        ("-s rope-dynamic -l 2048", "32 of 32 pairs keep their wavelength"),
        ("-s rope-resonance", "wavelengths become 0.955× to 1.01× as long"),
        ("-s rope-ntk", "1 of 32 pairs keep their wavelength, the others are up to 4× as long"),
    ],
)
def test_a_title_says_what_a_context_extension_does_to_wavelengths(arguments, title, call):
    """Of Llama 3.1, the pairs that its paper's rule leaves alone: wavelengths below 8192 / 4."""
    status, _, err = call("spectrum", *arguments.split(), "--out", "page.html")
    assert (status, title in err) == (0, True)
    if "llama" in arguments:
        wavelengths = 2 * np.pi * 500_000.0 ** (np.arange(64) / 64)
        assert (wavelengths < 8192 / 4).sum() == 29

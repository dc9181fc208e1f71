"""Several encodings in one set of axes: their order, their names, and what sets them apart."""

import json

import numpy as np
import pytest


def test_wavelengths_of_a_stretched_model_are_compared_with_those_before(document):
    found = document("spectrum", "-m", "llama-3-8b", "-m", "llama-3.1-8b")
    plain, stretched = (np.array(part["wavelengths"]) for part in found["parts"])
    (difference,) = found["differences"]
    ratios = stretched / plain
    differing = np.flatnonzero(np.abs(ratios - 1) > 1e-9)
    assert difference["differing"] == differing.tolist() == list(range(29, 64))
    assert difference["ratio"] == pytest.approx(ratios.max(), rel=1e-12) == 8
    assert difference["at"] == np.flatnonzero(ratios > 7.999).tolist()
    assert (difference["first"], difference["other"], difference["pairs"]) == (0, 1, 64)
    assert plain.tolist() == pytest.approx(found["parts"][1]["before"]["wavelengths"])


def test_all_are_in_the_order_of_the_command_line(tmp_path, document):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).standard_normal((40, 4)))
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1, "rope_theta": 1e4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    named = ["-s", "learned", "-m", "llama-3-8b", "--in", "t.npy", "--scheme=rope"]
    named += ["--config", "config.json", "--in=t.npy", "-m", "gpt-j-6b", "-l", "40"]
    parts = document("dot-similarity", *named)["parts"]
    assert [part.get("in", part.get("scheme")) for part in parts] == [
        *("learned", "rope", "t.npy", "rope", "rope", "t.npy", "rope")
    ]


def test_one_encoding_has_no_list_of_parts(document):
    for command in ("spectrum", "dot-similarity"):
        found = document(command, "-s", "rope", "-l", "16", "-d", "8")
        assert found["scheme"] == "rope"
        assert not {"parts", "differences", "name"} & found.keys()
    assert "parts" not in document("alibi-slopes", "--heads", "4")


def test_a_parameter_is_for_all_that_have_it_or_for_one_by_its_letter(document, refused):
    twice = ("spectrum", "-s", "rope", "-s", "rope", "-s", "transformer-xl", "-l", "32")
    found = document(*twice, "--set", "b.base=500000", "-d", "8")
    parts = found["parts"]
    assert [part["params"]["dim"] for part in parts] == [8, 8, 8]
    assert [part["params"].get("base") for part in parts] == [1e4, 5e5, 1e4]
    assert [part["name"][:7] for part in parts] == ["a: rope", "b: rope", "transfo"]
    assert found["differences"][0]["ratio"] == pytest.approx(50**0.75)
    for setting in ("d.base", "c.seed", "sections"):
        err = refused(*twice, "--set", f"{setting}=5")
        assert err.startswith(f"posenc: error: --set {setting}: none of rope, ")


def test_a_wave_that_stands_still_has_no_ratio(document):
    twice = ("spectrum", "-s", "rope", "-s", "rope-proportional", "-d", "8")
    (difference,) = document(*twice, "--set", "rope_proportional.partial=0.5")["differences"]
    assert difference["ratio"] is None
    assert difference["at"] == difference["differing"] == [2, 3]


def test_what_cannot_be_compared_is_not(document, printed):
    found = document("spectrum", "-s", "rope", "-s", "transformer-xl", "-m", "llama-3-8b")
    assert [each["compared"] for each in found["differences"]] == [False, False]
    out = printed("spectrum", "-s", "rope", "-s", "transformer-xl", "-m", "llama-3-8b")
    assert "–: not comparable with rope" in " ".join(out.split())
    assert "up: wavelength in" in out


def test_profiles_of_one_measure_are_compared_at_all_offsets_of_both(document):
    found = document("dot-similarity", "-s", "rope", "-s", "alibi", "-s", "rope-linear", "-l", "64")
    rope, alibi, linear = (np.array(part["profile"]) for part in found["parts"])
    apart, difference = found["differences"]
    assert apart == {"first": 1, "other": 1, "compared": False}
    size = np.abs(linear - rope)
    assert difference["first"] == 0
    assert abs(difference["largest"]) == pytest.approx(size.max())
    assert difference["at"] == int(np.argmax(size[63:]))
    assert (difference["offsets"], difference["differing"]) == (127, 126)
    assert difference["complete"]
    assert difference["exact"]
    same = document("dot-similarity", "-s", "rope", "-s", "rope", "-l", "64")["differences"]
    assert (same[0]["differing"], same[0]["largest"]) == (0, 0)
    assert alibi[0] < 0


def test_a_difference_of_samples_is_called_one(call, tmp_path, monkeypatch, document):
    monkeypatch.setattr("posenc_cli.analysis.verdict.PRODUCTS", 20_000)
    for place, name in enumerate(("a.npy", "b.npy")):
        np.save(tmp_path / name, np.random.default_rng(place).standard_normal((600, 8)))
    files = ("dot-similarity", "--in", "a.npy", "--in", "b.npy")
    (difference,) = document(*files)["differences"]
    assert not difference["complete"]
    assert not difference["exact"]
    told = " ".join(call(*files, "--profile")[1].split())
    assert "means by offset, at the offsets looked at, a sample" in told


@pytest.mark.long
def test_roformers_bound_is_that_of_its_section_and_bounds(call, document):
    line = ("dot-similarity", "-s", "rope", "-d", "16", "-l", "128", "--bound")
    found = document(*line, "--content", "random")
    angles = np.exp(1j * np.outer(found["offsets"], 10_000.0 ** (-np.arange(8) / 8)))
    average = np.abs(np.cumsum(angles, axis=1)).mean(axis=1)  # of |S_i|, i = 1 … d/2
    np.testing.assert_allclose(found["bound"]["average"], average, rtol=1e-12)
    content = np.random.default_rng(0).standard_normal((8, 2))
    products = np.append((content**2).sum(axis=1), 0)  # h_i, and h_(d/2) = 0
    constant = np.abs(np.diff(products)).max() * 8 / 16
    assert found["bound"]["constant"] == pytest.approx(constant, rel=1e-12)
    bounds = constant * average
    assert (np.abs(found["profile"]) <= bounds).all()
    ones = document(*line)
    assert ones["bound"]["constant"] == pytest.approx(1)
    assert np.abs(ones["profile"]).max() <= min(ones["bound"]["average"][127], 1)
    told = " ".join(call(*line)[1].split())
    assert "1 times the mean of |S_i|, which is 4.5 at offset 0" in told
    assert "up: RoFormer's" in told  # what follows is on the next line of its panel
    assert "bound on |q·k / d|" in told
    assert "bound" not in document(*line[:-1])


def test_equal_and_independent_contents_stand_side_by_side(call, document):
    both = ("--content", "ones", "--content", "independent", "--bound")
    line = ("dot-similarity", "-s", "rope", "-s", "alibi", "-l", "32", *both)
    parts = document(*line)["parts"]
    contents = [(part["scheme"], part["content"]) for part in parts]
    assert contents == [("rope", "ones"), ("rope", "independent"), ("alibi", None)]
    assert parts[1]["bound"]["constant"] is None
    assert parts[2]["bound"] is None
    told = " ".join(call(*line[:3], *line[5:], "--profile")[1].split())
    assert "± 1 standard deviation, by formula" in told
    assert "RoFormer's bound on |q·k" in told
    assert "mean |S_i|, by offset" not in told  # of what is known of one content


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("dot-similarity -s alibi -l 8 --bound", "--bound: alibi has no pairs"),
        ("dot-similarity -s xpos -l 8 --bound", "--bound: xpos has no pairs"),
        ("dot-similarity --in t.npy --bound", "--bound cannot go with --in"),
        ("dot-similarity -s rope -s alibi -l 8 --out s.npy", "holds one matrix"),
        ("spectrum -s rope -s alibi", "is not made of waves"),
        ("spectrum -s rope --as vllm", "needs --config or --model"),
        ("spectrum --len 5", "--len '5' needs an encoding"),
        ("spectrum" + " -s rope" * 13, "13 encodings share one set of axes, which shows at most"),
        ("alibi-slopes --heads 4 --heads 5 --format csv", "--format csv needs one list"),
        ("alibi-slopes --heads 4 --heads 5 --check t.npy", "--check needs one list"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, told, refused):
    np.save("t.npy", np.ones((4, 4)))
    assert told in refused(*arguments.split())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize(
    "arguments",
    [
        "spectrum -m llama-3-8b -m llama-3.1-8b",
        "dot-similarity -m llama-3-8b -m llama-3.1-8b -l 300",
    ],
)
def test_the_picture_comes_first_and_all_has_room(size, arguments, call, screen):
    screen(*size)
    lines = call(*arguments.split())[1].splitlines()
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= size[1] - 1
    picture = next(i for i, line in enumerate(lines) if "across: " in line)
    table = next(i for i, line in enumerate(lines) if line.startswith("──────"))
    assert picture < table


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ("dot-similarity -s rope -s alibi -s sinusoidal -l 300", "m − n alone"),
        (
            "heads -s rope -s sinusoidal -s t5 -s alibi -d 32 --target previous --target first",
            "attention on previous",
        ),
        ("order-check -s rope -s alibi -s sinusoidal -s nope --plot", "scores of dog bites man"),
    ],
)
def test_the_answer_on_several_stays_on_a_small_screen(arguments, first, call, screen):
    screen(80, 24)
    lines = call(*arguments.split())[1].splitlines()
    assert lines[0].strip().startswith(first)
    assert len(lines) <= 23
    if "order-check" in arguments:  # the change of each, by its whole name
        names = [f"{name} change" for name in ("rope", "alibi", "sinusoidal", "nope")]
        assert " ".join(lines[2].split()) == " ".join(names)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_difference_past_numbers_is_none(call, tmp_path):
    np.save(tmp_path / "p.npy", [[1e154], [1e154]])
    np.save(tmp_path / "q.npy", [[1e154], [-1e154]])
    status, out, _ = call("dot-similarity", "--in", "p.npy", "--in", "q.npy", "--json")
    assert (status, json.loads(out)["differences"][0]["largest"]) == (0, None)


def test_what_has_no_room_on_a_screen_is_named(call, screen):
    screen(80, 24)
    line = ("dot-similarity", *("-s", "rope") * 12, "--set", "b.base=500", "-l", "8")
    out = call(*line)[1]
    assert all(f"{letter}: rope" in out for letter in "abcdefghijkl")
    assert "…; --json has all" in out
    assert len(out.splitlines()) <= 24

"""Weights that a seed drew are named wherever their values are shown, of every such scheme."""

import json

import numpy as np
import pytest

from posenc_cli import catalogue

TABLES = [name for name, scheme in catalogue.BUILT_IN.items() if scheme.weights]
SAID = "random weights, seed 5"
GIVEN = ("--len", "8", "--set", "seed=5")


def weights_file(name, folder):
    bound = catalogue.find(name).bind({})
    weights = bound.content.weights
    values = np.linspace(-1, 1, weights.rows * weights.columns).reshape(weights.rows, -1)
    if (tensors := catalogue.find(name).weights.tensors) is None:
        np.save(folder / "weights.npy", values)
        return ("--len", "8", "--set", "weights=weights.npy")
    heads = bound.content.heads
    units = values[:-1] if len(tensors) == 4 else values
    parts = units[:, : -heads - 1], units[:, -heads - 1], units[:, -heads:].T, values[-1, -heads:]
    np.savez(folder / "weights.npz", **dict(zip(tensors, parts, strict=False)))
    return ("--len", "8", "--set", "weights=weights.npz")


def commands(name):
    """What shows the values of a scheme, as words and as JSON."""
    yield ("heatmap", "-s", name)
    yield ("dot-similarity", "-s", name)
    yield ("dot-similarity", "-s", name, "--profile")
    yield ("generate", "-s", name, "--out", "table.npy")
    yield ("order-check", "-s", name)
    yield ("inspect", "-s", name)


def text_of(result):
    status, out, err = result
    assert status == 0, err
    return " ".join((out + err).split())


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", TABLES)
def test_drawn_weights_are_named_and_read_ones_are_not(name, call, tmp_path):
    read = weights_file(name, tmp_path)
    for line in commands(name):
        assert SAID in text_of(call(*line, *GIVEN)), line
        assert "random" not in text_of(call(*line, *read)), line
        if line[-1] == "--profile":
            continue
        document = json.loads(call(*line, *GIVEN, "--json")[1])
        of_file = json.loads(call(*line, *read, "--json")[1])
        if line[0] in ("order-check", "inspect"):
            (document,), (of_file,) = document["schemes"], of_file["schemes"]
        assert document["weights"] == SAID, line
        assert of_file["weights"] is None, line


def test_rows_past_a_file_are_named_where_they_are_asked_for(call, tmp_path):
    np.save(tmp_path / "w.npy", np.ones((4, 8)))
    line = ("heatmap", "-s", "learned", "--set", "weights=w.npy", "--set", "extend=random")
    assert "random" not in text_of(call(*line, "-l", "4")).replace("extend=random", "")
    assert "random weights from position 4 on, seed 0" in text_of(call(*line, "-l", "5"))
    moved = text_of(call(*line, "--set", "offset=2", "-l", "3"))
    assert "random weights from position 2 on" in moved


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("heatmap -s learned -l 4", ["random weights, seed 0"]),
        ("curve -s learned -l 4", ["random weights, seed 0"]),
        ("compare learned learned --set b.seed=1 -l 4 --plot", ["seed 0", "seed 1"]),
        ("order-check -s t5 --plot", ["projections, seed 1", "random weights, seed 0"]),
    ],
)
def test_a_title_of_ones_own_does_not_hide_what_is_random(call, line, said):
    told = " ".join(call(*line.split(), "--title", "Mine", "--graphics", "none")[1].split())
    assert told.startswith("Mine ")
    assert all(text in told for text in said)

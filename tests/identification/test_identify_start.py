"""What identify loads and tries before it answers: no more than it needs."""

import subprocess
import sys

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli import catalogue
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from posenc_cli.identification import grids, waves
from posenc_cli.identification.search import identify
from posenc_cli.inference.candidates import layers_of_models
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.fitting import median
from posenc_cli.inference.rates import rates_of

LOADED = """
import sys
from posenc_cli.cli.exits import run
sys.argv = ["posenc", "identify", sys.argv[1]]
try:
    run()
finally:
    print(*(name for name in sys.argv and %r if name in sys.modules), file=sys.stderr)
"""
NEEDLESS = (
    *("numpy.ma", "importlib.metadata", "importlib.resources", "zipfile", "rich", "torch"),
    "posenc_cli.configs.config",
)


@pytest.mark.long
def test_a_plain_table_is_identified_without_models_plugins_and_masked_arrays(tmp_path):
    angles = np.multiply.outer(np.arange(64), 1e4 ** -(np.arange(16) / 16))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    np.save(tmp_path / "table.npy", table)
    done = subprocess.run(
        [sys.executable, "-c", LOADED % (NEEDLESS,), str(tmp_path / "table.npy")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "is rope, dim 32, base 10000" in done.stdout
    assert done.stderr.split() == []


def test_a_table_that_a_plain_rule_gives_is_not_read_in_unlikely_ways(monkeypatch):
    read = []
    monkeypatch.setattr(waves, "rates_of", lambda *given: read.append(0) or rates_of(*given))
    found = identify(Evidence.of_arrays(np.asarray(posenc.encode("sinusoidal", 64, dim=64))))
    assert found.match.scheme == "sinusoidal"
    assert len(read) == 1  # before: four ways, a quarter of a second


@pytest.mark.long
def test_the_index_of_models_says_what_their_configs_do():
    expected = [
        (name, own.layer_type, own.scheme, own.values())
        for name in library.names()
        for own in resolve(library.find(name).config, name=name).layers
    ]
    assert list(layers_of_models()) == expected


@pytest.mark.parametrize(
    ("place", "held"),
    [
        ("one.dist-info/entry_points.txt", "[posenc.schemes]\nmine = mine:scheme"),
        ("one.egg-info/entry_points.txt", "[posenc.schemes]\nmine = mine:scheme"),
    ],
)
def test_a_folder_with_a_plugin_is_looked_into(tmp_path, place, held):
    assert not catalogue._may_hold_plugins(str(tmp_path))
    file = tmp_path / place
    file.parent.mkdir()
    file.write_text("[console_scripts]\nmine = mine:main")
    assert not catalogue._may_hold_plugins(str(tmp_path))
    file.write_text(held)
    assert catalogue._may_hold_plugins(str(tmp_path))
    assert catalogue._may_hold_plugins(str(file))  # an archive


@pytest.mark.long
@pytest.mark.parametrize("drawn", ["uniform", "standard_normal"])
def test_noise_along_one_line_is_no_grid(monkeypatch, drawn):
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1, 1, (512, 32)) if drawn == "uniform" else rng.normal(size=(512, 32))
    bound = []
    monkeypatch.setattr(grids, "_bound", lambda *given: bound.append(given))
    assert identify(Evidence.of_arrays(noise.astype(np.float32))).match is None
    assert bound == []  # before: every scheme with every base, 1.3 s of 8192 × 256


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_median_is_that_of_the_numbers(axis):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(7, 8))
    assert np.array_equal(median(values, axis), np.median(values, axis))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    assert np.array_equal(median(values, axis), np.nanmedian(values, axis))
    assert np.isnan(median(np.full(3, np.nan)))

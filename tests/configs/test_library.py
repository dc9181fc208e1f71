"""The presets: each is whole, sourced, found by name, and read alone."""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from tests import tolerances
from tests.gguf_files import GOLDEN


@pytest.mark.parametrize("name", library.names())
def test_every_preset_is_whole_and_leaves_nothing_to_a_default(name):
    preset = library.find(name)
    assert preset.name == name
    assert preset.title
    assert len(preset.source) > 30
    resolved = resolve(preset.config)
    assert resolved.layers
    assert resolved.defaulted == ()


def test_no_preset_is_called_as_a_scheme_is():
    assert not set(library.names()) & set(catalogue.BUILT_IN)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("llama-3.1-8", "did you mean 'llama-3.1-8b'?"),
        ("llama3.1", "did you mean 'llama-3.1-8b'?"),
        ("llama-3.1", "did you mean 'llama-3.1-8b'?"),
        ("Qwen2", "did you mean 'qwen2.5-7b'?"),
        ("../library", "posenc models lists the names"),
        ("zzz", "posenc models lists the names"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, hint):
    with pytest.raises(InvalidInput) as refused:
        library.find(name)
    assert refused.value.hint == hint
    assert len(refused.value.message) < 80


def test_finding_one_reads_no_other(monkeypatch):
    read = []
    text_of = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *rest: (read.append(path.name), text_of(path, *rest))[1]
    )
    library.find("gpt2")
    assert read == ["gpt2.json"]


MODELS = json.loads((GOLDEN / "models.json").read_text())["cases"]


@pytest.mark.long
@pytest.mark.parametrize("case", MODELS, ids=lambda case: case["array"])
def test_a_rotary_preset_turns_as_transformers_does(case, golden):
    _, arrays = golden("models")
    resolved = resolve(library.find(case["model"]).config)
    turning = [each for each in resolved.layers if each.scheme != "nope"]
    if case["layer_type"] is not None:
        turning = [each for each in turning if each.layer_type == case["layer_type"]]
    for layers in turning:
        waves = catalogue.find(layers.scheme).bind(layers.values()).content.waves
        frequencies = [float(f) for f in waves.frequencies(exact)]
        np.testing.assert_allclose(frequencies, arrays[case["array"]], rtol=tolerances.FREQUENCY)
        assert float(waves.scale) == pytest.approx(case["attention_scaling"], rel=1e-14)
    assert turning

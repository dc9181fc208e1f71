"""The presets: each is whole, sourced, found by name, and read alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.models import library


@pytest.mark.parametrize("name", library.names())
def test_every_preset_is_whole(name):
    preset = library.find(name)
    assert preset.name == name
    assert preset.title
    assert len(preset.source) > 30
    assert preset.config["model_type"]


def test_there_are_presets_of_every_family():
    types = {library.find(name).config["model_type"] for name in library.names()}
    assert len(library.names()) >= 30
    assert types >= {
        *("marian", "whisper", "gpt2", "bert", "opt", "roberta", "bart", "t5", "bloom", "mpt"),
        *("gptj", "gpt_neox", "llama", "qwen2", "qwen2_vl", "phi3", "deepseek_v3", "gpt_oss"),
        *("gemma3_text", "gemma4_text", "modernbert", "llama4_text", "ministral3", "xlnet"),
    }


def test_no_preset_is_called_as_a_scheme_is():
    assert not set(library.names()) & set(catalogue.BUILT_IN)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("llama-3.1-8", "did you mean 'llama-3.1-8b'?"),
        ("../library", "posenc models lists them"),
        ("zzz", "posenc models lists them"),
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


def test_numbers_of_the_files_are_strict_json():
    folder = Path(library.__file__).parent / "presets"

    def refuse(text):
        raise AssertionError(text)

    for file in folder.iterdir():
        json.loads(file.read_text("utf-8"), parse_constant=refuse)

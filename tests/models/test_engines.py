"""What engines make of the same config, against numbers of their own code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.models.engine_rules import Reading
from posenc_cli.models.engines import DIFFERENCES, ENGINES, find, read_as
from posenc_cli.numerics import exact
from tests import tolerances

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "engines.json").read_text())
CASES = {case["name"]: case for case in GOLDEN["cases"]}


def as_engine(case):
    found = read_as(case["engine"], Reading(**case["reading"]))
    bound = catalogue.find(found.scheme).bind(found.params, seq_len=case.get("seq_len"))
    return found, bound.content.waves


@pytest.mark.parametrize("name", CASES)
def test_frequencies_and_amplitude_are_the_engines_own(name, golden):
    case, (_, arrays) = CASES[name], golden("engines")
    _, waves = as_engine(case)
    frequencies = [float(f) for f in waves.frequencies(exact)]
    np.testing.assert_allclose(frequencies, arrays[name], rtol=tolerances.FREQUENCY)
    # ggml multiplies in float32.
    relative = 1e-6 if case["engine"] == "llama.cpp" else 1e-14
    assert float(waves.scale) == pytest.approx(case["attention_factor"], rel=relative)


@pytest.mark.parametrize("name", CASES)
def test_what_differs_says_where_that_can_be_read(name):
    case = CASES[name]
    found, _ = as_engine(case)
    for parameter, difference in found.reasons.items():
        assert difference.engine == case["engine"]
        assert parameter == "scheme" or (
            found.params.get(parameter) != case["reading"]["params"].get(parameter)
        )


def test_every_difference_is_covered_by_a_number():
    covered = {
        id(difference)
        for case in CASES.values()
        for difference in as_engine(case)[0].reasons.values()
    }
    refusals = {"container", "fields"}
    for difference in DIFFERENCES:
        assert id(difference) in covered or difference.topic in refusals, difference.what


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: f"{each.engine} {each.topic}")
def test_every_difference_names_its_evidence(difference):
    assert difference.engine in ENGINES
    assert difference.evidence.startswith("https://github.com/")
    assert difference.what


def test_transformers_is_left_as_it_is():
    reading = Reading("anything", "alibi", {"heads": 3})
    found = read_as("transformers", reading)
    assert (found.scheme, found.params, found.reasons) == ("alibi", {"heads": 3}, {})


LLAMA = {"dim": 128, "base": 1e4}
YARN = {**LLAMA, "factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "transformers"])
def test_plain_rope_of_a_llama_is_the_same_everywhere(engine):
    found = read_as(engine, Reading("llama", "rope", LLAMA, context=2048))
    assert (found.scheme, found.params, found.reasons) == ("rope", LLAMA, {})


@pytest.mark.parametrize(
    ("engine", "reading", "message"),
    [
        ("vlm", Reading("llama", "rope", LLAMA), "--as 'vlm': must be one of transformers"),
        ("vllm", Reading("bloom", "alibi", {}), "makes of alibi in bloom was not read"),
        ("vllm", Reading("new_model", "rope", LLAMA), "makes of rope in new_model was not read"),
        (
            "llama.cpp",
            Reading("qwen2", "rope-llama3", YARN),
            "makes of rope-llama3 in qwen2 was not read",
        ),
        (
            "transformers-4.50",
            Reading("llama", "rope", LLAMA, container="rope_parameters"),
            "rope_parameters is a key it does not know",
        ),
        (
            "transformers-4.50",
            Reading("llama", "rope", LLAMA, config={"partial_rotary_factor": 0.5}),
            "partial_rotary_factor makes its Llama fail",
        ),
        (
            "transformers-4.50",
            Reading("llama", "rope-yarn", YARN),
            "max_position_embeddings is missing",
        ),
        (
            "transformers-4.50",
            Reading("phi3", "rope-longrope", LLAMA, rope={"type": "su", "factor": 2.0}),
            "its Phi-3 takes no factor in rope_scaling",
        ),
        (
            "vllm-0.11",
            Reading("qwen2", "rope-yarn", YARN, rope={"type": "yarn"}),
            "it fails where original_max_position_embeddings is missing",
        ),
        (
            "vllm-0.11",
            Reading("qwen2", "rope-yarn", YARN, container="rope_parameters"),
            "rope_parameters is a key it does not know",
        ),
        (
            "llama.cpp",
            Reading("qwen2", "rope-yarn", YARN, rope={"extrapolation_factor": 0.5}),
            "extrapolation_factor has no counterpart",
        ),
        (
            "vllm",
            Reading("deepseek_v3", "rope-yarn", YARN, rope={"mscale": None}),
            "null is no mscale",
        ),
    ],
)
def test_what_is_not_known_is_refused(engine, reading, message):
    with pytest.raises(InvalidInput) as refused:
        read_as(engine, reading)
    assert message in refused.value.message
    assert refused.value.message.startswith(("--as ", "max_position"))


def test_a_misspelled_engine_gets_a_hint():
    with pytest.raises(InvalidInput) as refused:
        find("vlm")
    assert refused.value.hint == "did you mean 'vllm'?"

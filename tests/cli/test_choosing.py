"""Choosing an encoding by a config or a model, in place of a scheme."""

import json
import re

import numpy as np
import pytest

from posenc_cli.configs import library
from tests.matrices import matrix

LLAMA = {"dim": 128, "base": 500_000, "layout": "half"}


@pytest.fixture
def config(tmp_path):
    def write(name="config.json", **changes):
        path = tmp_path / name
        path.write_text(json.dumps({**library.find("llama-3.1-8b").config, **changes}))
        return str(path)

    return write


def test_a_config_a_folder_and_a_model_give_the_same_file(config, call, tmp_path):
    path = config()
    for number, chosen in enumerate(
        [("--config", path), ("--config", str(tmp_path)), ("-m", "llama-3.1-8b")]
    ):
        status, _, err = call("generate", *chosen, "-l", "9", "-o", f"{number}.npy")
        assert status == 0
        assert "rope-llama3, 9 × 128 float32, 4736 bytes" in err
    expected = matrix("rope-llama3", "0:9", **LLAMA)
    for number in range(3):
        assert np.load(tmp_path / f"{number}.npy").tobytes() == expected.tobytes()


def test_options_override_what_a_config_says(config, document):
    arguments = ("--base", "1e6", "--layout", "interleaved", "--set", "factor=2")
    params = document("generate", "--config", config(), "-l", "4", *arguments)["params"]
    assert (params["base"], params["layout"], params["factor"]) == (1e6, "interleaved", 2.0)
    assert params["low_freq_factor"] == 1.0


def test_a_defaulted_base_is_a_warning_on_stderr(tmp_path, call):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2}')
    status, _, err = call("generate", "--config", str(path), "-l", "4", "-o", "a.npy")
    assert status == 0
    assert err.startswith("posenc: warning: ")
    assert "rope_theta" in err.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("--model llama-3.1-8c", 2, "unknown model 'llama-3.1-8c'"),
        ("--model gemma-3-4b", 2, "sliding_attention, full_attention"),
        ("--model gemma-3-4b --layer-type ful", 2, "sliding_attention, full_attention"),
        ("--model llama-3.1-8b --as vlm", 2, "vlm"),
        ("--model llama-3.1-8b --set max_bias=2", 2, "rope-llama3 has no parameter 'max_bias'"),
        ("--config missing.json", 3, "missing.json"),
        ("--config missing.json --model gpt2", 2, "--config and --model: give one of them"),
    ],
)
def test_what_names_no_encoding_is_refused_in_one_line(arguments, status, message, refused):
    assert message in refused("generate", *arguments.split(), "-l", "4", status=status)


def test_random_rows_in_place_of_a_models_are_said_to_be_random(call, tmp_path):
    status, _, err = call("generate", "-m", "gpt2", "-l", "2", "-d", "4", "-o", "a.npy")
    assert status == 0
    assert "randomly initialized" in err.splitlines()[0]
    np.save(tmp_path / "table.npy", np.zeros((1024, 768), np.float32))
    given = ("--set", "weights=table.npy", "-o", "b.npy")
    status, _, err = call("generate", "-m", "gpt2", "-l", "2", *given)
    assert (status, "random" in err) == (0, False)


def test_json_says_which_model_was_read_and_how(document):
    arguments = ("--model", "gemma-3-4b", "--layer-type", "full_attention", "-l", "4")
    told = document("generate", *arguments)
    assert (told["model"], told["layer_type"]) == ("gemma-3-4b", "full_attention")
    assert told["warnings"] == []


@pytest.mark.parametrize("command", ["spectrum", "rotation", "apply --len 4 --seed 1 --out y.npy"])
def test_an_error_of_a_config_names_the_config_and_what_it_means(refused, tmp_path, command):
    config = {"model_type": "bloom", "hidden_size": 64, "n_head": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    err = refused(*command.split(), "--config", "config.json")
    assert re.match(r"posenc: error: --config 'config.json' \(alibi\)(:| is) ", err)
    assert "--scheme" not in err

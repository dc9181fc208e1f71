"""``posenc explain``: what a config says, for readers and for programs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from posenc_cli.configs.library import find
from tests.gguf_files import CASES, converted

GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000,
    "rope_local_base_freq": 10000,
    "sliding_window_pattern": 6,
}


@pytest.fixture
def config(tmp_path):
    def write(content, name="config.json"):
        path = tmp_path / name
        path.write_text(json.dumps(content), "utf-8")
        return str(path)

    return write


def test_a_report_names_layers_values_and_where_they_were_read(call, config):
    status, out, err = call("explain", config(GEMMA))
    assert (status, err) == (0, "")
    assert "model type gemma3_text" in out
    assert "sliding_attention: rope (22 layers: 0–4, 6–10, … 24–25)" in out
    assert "full_attention: rope (4 layers: 5, 11, … 23)" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["base", "10000", "rope_local_base_freq"] in rows
    assert ["layout", "half", "default", "of", "gemma3_text"] in rows
    assert "rotary dim: 256 of 256" in out


@pytest.mark.parametrize(
    ("options", "ok", "cause"),
    [
        ([], True, "default used for rope_theta of full_attention layers"),
        (["--strict"], False, "--strict: default used: rope_theta of full_attention layers"),
    ],
)
def test_json_begins_with_the_answer(call, config, options, ok, cause):
    path = config({key: GEMMA[key] for key in GEMMA if key != "rope_theta"})
    status, out, _ = call("explain", path, "--json", *options)
    found = json.loads(out)
    assert list(found)[:5] == ["schema", "ok", "verdict", "cause", "next"]
    assert (status == 0, found["ok"], found["cause"]) == (ok, ok, cause)
    assert found["verdict"] == "model type gemma3_text: rope; 1 doubtful line"
    assert found["next"] == (
        f"posenc rope-check --config {path} --layer-type sliding_attention --impl ./port.py:rotate"
    )


def test_json_holds_every_value_with_its_source(call, config):
    scaling = {"type": "longrope", "short_factor": [1.5] * 48, "long_factor": [2.5] * 48}
    phi = {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "num_hidden_layers": 2,
        "max_position_embeddings": 131072,
        "rope_theta": 10000.0,
        "rope_scaling": scaling,
        "rotary_pct": 0.5,
    }
    path = config(phi)
    document = json.loads(call("explain", path, "--json")[1])
    assert document["schema"] == "posenc/explain/1"
    (layers,) = document["layers"]
    assert (layers["layer_type"], layers["layers"]) == (None, [0, 1])
    assert layers["scheme"] == "rope-longrope"
    assert layers["params"]["long_factor"] == {
        "value": [2.5] * 48, "source": "rope_scaling.long_factor",
    }  # fmt: skip
    assert layers["derived"]["attention_factor"]["value"] == pytest.approx(1.1902380714238083)
    assert document["unread"] == ["rotary_pct"]
    assert document["warnings"][0] == (
        "rotary_pct 0.5 has no effect: transformers' phi3 does not read it, and the rotated "
        "share here is 1"
    )
    text = call("explain", path)[1]
    assert "2.5,2.5 … 2.5 (48)" in " ".join(text.split())
    assert text.count("rotary_pct") == 2  # in the summary, and in a warning that says more


def test_strict_fails_where_a_base_is_a_default_or_a_key_is_unread(call, config):
    assert call("explain", config(GEMMA), "--strict")[0] == 0
    unread = config({**GEMMA, "rotary_emb_base": 5})
    assert call("explain", unread)[0] == 0
    status, _, err = call("explain", unread, "--strict")
    assert (status, err) == (1, "posenc: warning: --strict: not read: rotary_emb_base\n")
    defaulted = config({key: GEMMA[key] for key in GEMMA if key != "rope_theta"})
    status, out, _ = call("explain", defaulted, "--strict", "--json")
    assert status == 1
    assert json.loads(out)["defaulted"] == ["rope_theta of full_attention layers"]


def test_several_configs_are_explained_as_text(call, config):
    path = config(GEMMA)
    status, out, _ = call("explain", "llama-3.1-8b", path, "--strict")
    assert status == 0
    words = " ".join(out.split())
    assert words.startswith("'llama-3.1-8b': model type llama")
    assert f"{path!r}: model type gemma3_text" in words
    status, out, err = call("explain", "llama-3.1-8b", path, "--json")
    assert (status, out) == (2, "")
    assert err == "posenc: error: --json takes one CONFIG, and 2 are given\n"


def test_each_of_several_configs_is_judged_whatever_the_others_are(call, config):
    doubtful = config({key: GEMMA[key] for key in GEMMA if key != "rope_theta"}, "doubtful.json")
    wrong = config({"model_type": "deberta"}, "wrong.json")
    given = ("missing.json", wrong, "llama-3.1-8b", doubtful)
    status, out, err = call("explain", *given, "--strict")
    assert status == 3
    assert out.count("model type") == 2
    lines = [line for line in err.splitlines() if not line.startswith("hint: ")]
    expected = zip(["error", "error", "warning"], [*given[:2], doubtful], strict=True)
    for line, (word, name) in zip(lines, expected, strict=True):
        assert line.startswith(f"posenc: {word}: ")
        assert name in line
    assert call("explain", wrong, doubtful, "--strict")[0] == 2
    assert call("explain", wrong, doubtful)[0] == 2
    assert call("explain", wrong, wrong, "--quiet")[1] == ""


def test_an_engine_that_is_not_known_is_refused_once(call):
    status, out, err = call("explain", "llama-3.1-8b", "qwen2.5-7b-yarn", "--as", "tgi")
    assert (status, out, err.count("posenc: error")) == (2, "", 1)


def test_a_model_and_standard_input_are_explained_too(call, posenc, tmp_path):
    status, out, _ = call("explain", "llama-3.1-8b", "--json")
    assert (status, json.loads(out)["layers"][0]["scheme"]) == (0, "rope-llama3")
    status, _, err = call("explain", "llama-3.1-8")
    assert (status, "'llama-3.1-8' is neither a file nor a model" in err) == (2, True)
    assert "hint: did you mean 'llama-3.1-8b'?" in err
    assert "hint: posenc schemes rope describes the scheme" in call("explain", "rope")[2]
    assert call("compare", "llama-3.1-8", "llama-3.1-8b")[0] == 2
    assert call("explain", "llama-3.1-8.json")[0] == 3
    assert "is a folder without a config.json" in call("explain", str(tmp_path))[2]
    mistral = {"dim": 4096, "n_layers": 32, "head_dim": 128, "n_heads": 32, "rope_theta": 1e6}
    (tmp_path / "params.json").write_text(json.dumps(mistral))
    status, _, err = call("explain", str(tmp_path))
    assert (status, "is Mistral's params.json, which posenc does not read" in err) == (2, True)


def test_layers_that_are_alike_share_a_table(call, config):
    out = call("explain", config({"model_type": "gpt_oss", "num_hidden_layers": 2}))[1]
    assert "sliding_attention: rope-yarn (1 layer: 0)\nfull_attention: rope-yarn" in out
    assert out.count("truncate") == 1
    flat = " ".join(out.split())
    assert "attention factor: 1.34657359; logits × 1.813260434" in flat


def test_names_and_key_paths_are_never_cut(call, config):
    key = "original_max_position_embeddings"
    yarn = {"rope_type": "yarn", "factor": 4.0, key: 4096, "rope_theta": 1e4}
    text = {"model_type": "llama", "head_dim": 64, "rope_parameters": yarn}
    out = call("explain", config({"model_type": "llava", "text_config": text}))[1]
    assert f"text_config.rope_parameters.{key}" in out
    assert max(len(line) for line in out.splitlines() if "/" not in line) <= 80


def test_another_engine_reads_otherwise_and_says_why(call, config):
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    path = config(
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "max_position_embeddings": 131072,
            "rope_theta": 1e6,
            "rope_scaling": scaling,
        }
    )
    original = "original_max_position_embeddings"
    here, there = (
        json.loads(call("explain", path, "--json", "--as", engine)[1])
        for engine in ("transformers", "transformers-4.50")
    )
    assert here["layers"][0]["params"][original]["value"] == 32768
    assert there["layers"][0]["params"][original]["value"] == 131072
    assert "transformers-4.50" in there["layers"][0]["params"][original]["source"]
    assert (len(here["warnings"]), len(there["warnings"])) == (0, 1)
    status, _, err = call("explain", path, "--as", "tgi")
    assert status == 2
    assert "--as 'tgi': must be one of transformers" in err


def test_all_engines_are_shown_beside_each_other(call, config):
    status, out, err = call("explain", "gpt-oss-20b", "llama-2-7b", "--as", "all")
    assert (status, err) == (0, "")
    said = " ".join(out.split())
    assert said.startswith(
        "'gpt-oss-20b': model type gpt_oss: 4 of 10 other engines differ from transformers: "
        "vllm-0.11, mlx-lm, llama.cpp, tensorrt-llm largest difference, vllm-0.11: "
        "9 of 32 frequencies differ, by up to ×1.763 (pair 17) "
        "next: posenc compare gpt-oss-20b --as vllm-0.11 "
    )
    assert "'llama-2-7b': model type llama: all 15 engines agree" in said
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(call("explain", "llama-2-7b", "--as", "all", "--json")[1])
    assert list(found)[:5] == ["schema", "ok", "verdict", "cause", "next"]
    assert found["verdict"] == "model type llama: all 15 engines agree"
    assert (found["ok"], found["cause"], found["next"]) == (True, None, None)
    found = json.loads(call("explain", "gpt-oss-20b", "--as", "all", "--json")[1])
    assert found["cause"].startswith("largest difference, vllm-0.11: 9 of 32 frequencies differ")
    assert found["next"] == "posenc compare gpt-oss-20b --as vllm-0.11"
    found = json.loads(call("explain", "llama-2-7b", "--as", "all", "--json")[1])
    assert found["agree"] is True
    assert found["layers"][0]["scheme"] == found["views"][0]["views"][0]["scheme"] == "rope"
    path = config({**GEMMA, "rope_theta": "x"})
    assert call("explain", path, "--as", "all")[0] == 2


def test_verdicts_on_one_reading_are_refused_for_all_of_them(call):
    for option in (["--strict"], ["--fail-on", "context"]):
        status, out, err = call("explain", "llama-2-7b", "--as", "all", *option)
        assert (status, out) == (2, "")
        assert "--as all: --strict and --fail-on judge one reading" in err


def test_a_file_that_one_engine_alone_reads_is_refused_for_all_of_them(call, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(converted(CASES[0]["name"])[1])
    status, out, err = call("explain", str(path), "--as", "all")
    assert (status, out) == (2, "")
    assert "is a GGUF file, which only llama.cpp reads" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00\x00 no text", "is not a GGUF file: it does not begin with GGUF"),
        (b'{"model_type": "llama"}', "is not a GGUF file: it does not begin with GGUF"),
        (b"", "ends within its header (byte 0)"),
    ],
)
def test_what_is_named_as_a_gguf_file_is_read_as_nothing_else(content, words, call, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    for command in (["explain"], ["compare", "llama-3-8b"]):
        status, out, err = call(*command, str(path))
        assert (status, out) == (2, "")
        assert words in err


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (
            '{"model_type": "llama", "rope_theta": NaN}',
            2,
            "rope_theta NaN: must be a finite number",
        ),
        ("[" * 200_000, 2, "recursion depth"),
        ('{"model_type": "deberta"}', 2, "hint: posenc curve -s deberta --table buckets"),
        ('{"model_type": "llama", "rope_scaling": {"type": "xyz"}}', 2, "rope_scaling.type 'xyz'"),
        (None, 3, "No such file"),
    ],
)
def test_what_cannot_be_read_ends_in_one_line_and_a_status(call, tmp_path, content, status, words):
    path = Path(tmp_path) / "config.json"
    if content is not None:
        path.write_text(content)
    found, out, err = call("explain", str(path))
    assert (found, out) == (status, "")
    assert words in err
    assert err.startswith("posenc: error: ")
    assert "config.json" in err.splitlines()[0]


@pytest.mark.long
def test_reading_a_config_needs_neither_numpy_nor_torch(posenc, config):
    path = config(GEMMA)
    done = posenc(*("explain", path), flags=["-X", "importtime"])
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "posenc_cli.configs.config" in imported
    assert not imported & {"numpy", "torch", "matplotlib", "plotext"}


def test_a_config_chooses_the_encoding_of_generate(call, config, tmp_path):
    path = config(GEMMA)
    status, _, err = call("generate", "--config", path, "--table", "inv-freq", "--out", "f.npy")
    assert status == 2
    assert "--layer-type" in err
    status, out, err = call(
        *("generate", "--config", path, "--layer-type", "full_attention", "--len", "4", "--json"),
        *("--out", "t.npy"),
    )
    assert status == 0, err
    document = json.loads(out)
    assert document["params"]["base"] == 1e6
    assert document["params"]["layout"] == "half"


def test_a_parameter_of_the_command_line_takes_the_place_of_the_configs(call, config):
    path = config(dict(find("qwen2.5-7b-yarn").config))
    status, out, _ = call("explain", path, "--set", "factor=8", "--json")
    assert status == 0
    (layers,) = json.loads(out)["layers"]
    assert layers["params"]["factor"] == {"value": 8.0, "source": "command line"}
    assert layers["derived"]["attention_factor"]["value"] == pytest.approx(1.2079441541679836)
    status, _, err = call("explain", path, "--set", "facto=8")
    assert status == 2
    assert "rope-yarn has no parameter 'facto'" in err


def test_what_follows_from_a_parameter_follows_it(call, config):
    path = config(dict(find("llama-3.1-8b").config))
    given = ("--set", "partial=0.25", "--set", "dim=64", "--json")
    (layers,) = json.loads(call("explain", path, *given)[1])["layers"]
    assert layers["derived"]["head_dim"]["value"] == 64
    assert layers["derived"]["rotated"]["value"] == 16


@pytest.mark.parametrize(
    ("content", "layer_type", "expected"),
    [
        # ⌊0.25 · 512 / 2⌋ = 64 pairs of the 256 turn: transformers sets the other frequencies to 0.
        (dict(find("gemma-4-31b").config), "full_attention", (512, 128)),
        (dict(find("gemma-4-31b").config), "sliding_attention", (256, 256)),
        (dict(find("pythia-70m").config), None, (64, 16)),
        (dict(find("gpt-j-6b").config), None, (256, 64)),
        ({"model_type": "dinov3_vit"}, None, (64, 64)),
    ],
)  # fmt: skip
def test_the_columns_that_turn_are_those_of_frequencies_that_are_not_0(
    call, config, content, layer_type, expected
):
    document = json.loads(call("explain", config(content), "--json")[1])
    (layers,) = [each for each in document["layers"] if each["layer_type"] == layer_type]
    columns = tuple(layers["derived"][name]["value"] for name in ("head_dim", "rotated"))
    assert columns == expected
    assert "rotary dim: {1} of {0}\n".format(*expected) in call("explain", config(content))[1]


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({"qk_nope_head_dim": 128}, "rotary dim: 64 of 192, a slice of the head"),
        ({}, "rotary dim: 64, a slice of the head"),
    ],
)
def test_latent_attention_turns_a_slice_of_a_head(call, config, beside, words):
    content = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 10000, **beside}
    assert words in call("explain", config(content))[1]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("qwen2.5-7b-yarn", "; logits × "),
        ("phi-3-vision-128k", "; logits × "),
        ("deepseek-v3", "; logits of the rotated dimensions × "),
    ],
)
def test_an_attention_factor_multiplies_the_logits_of_the_columns_that_turn(call, model, words):
    assert words in " ".join(call("explain", model)[1].split())


def test_what_an_unknown_model_type_is_read_as_stands_before_all_tables(call, config):
    unknown = {**GEMMA, "model_type": "my_model"}
    lines = call("explain", config(unknown))[1].split("\n\n")
    assert lines[1].startswith("Warning: model type 'my_model' is unknown: it is read as if")
    named = {**unknown, "architectures": ["NanoChatForCausalLM"]}
    status, out, err = call("explain", config(named))
    assert (status, out) == (2, "")
    assert "nanochat rotates the other way" in err


def test_fail_on_context_is_for_lengths_that_do_not_fit(call, tmp_path):
    """A healthy config has a line of its lengths, too."""
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1}
    fits = {**config, "max_position_embeddings": 8192}
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    misfits = {**fits, "max_position_embeddings": 32768, "rope_scaling": scaling}
    for name, content in (("fits", fits), ("misfits", misfits)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert call("explain", "fits.json", "--fail-on", "context")[0] == 0
    status, _, err = call("explain", "misfits.json", "--fail-on", "context")
    assert (status, "--fail-on context: " in err) == (1, True)


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_what_comes_next_is_one_command_of_the_same_reading_when_pasted(columns, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    asked = ("--as", "llama.cpp", "--set", "factor=16")
    out = call("explain", "gpt-oss-20b", *asked)[1]
    told = out.partition("next:")[2].partition("\n\n")[0]
    assert shlex.split(told.replace("\\\n", " "), comments=False) == [
        *("posenc", "rope-check", "--model", "gpt-oss-20b", "--layer-type", "sliding_attention"),
        *(*asked, "--impl", "./port.py:rotate"),
    ]
    assert [line for line in told.splitlines()[1:-1] if not line.endswith(" \\")] == []


def test_a_table_of_positions_is_added_once_at_the_input(call, config):
    out = call("explain", config({"model_type": "gpt2", "n_embd": 64, "n_positions": 32}))[1]
    assert "added once, at the input: learned" in out


def test_what_has_no_positional_encoding_is_neither_drawn_nor_recommended_to_draw(call, config):
    path = config({"model_type": "jamba"})
    out = call("explain", path)[1]
    assert "no layer has a positional encoding" in out
    assert "next:" not in out
    assert json.loads(call("explain", path, "--json")[1])["next"] is None
    status, out, err = call("heatmap", "--config", path)
    assert (status, out) == (2, "")
    assert err.endswith("has no positional encoding to draw\n")


def test_a_key_that_nothing_reads_is_told_once(call, config):
    out = call("explain", config({**GEMMA, "rope_teta": 3.0}))[1]
    assert "! nothing read rope_teta" in out
    assert out.count("rope_teta") == 1


def test_a_config_by_an_option_is_told_to_be_an_argument(call, config):
    err = call("explain", "--config", config(GEMMA))[2]
    assert "hint: posenc explain takes it as an argument, without --config\n" in err


def test_the_window_is_said_of_transformers_alone(call, config):
    """Which engines have windows was not read: none is said to have transformers' own."""
    path = config({**GEMMA, "model_type": "mistral", "sliding_window": 512})
    assert "window of all layers: 512" in call("explain", path)[1]
    layers = json.loads(call("explain", path, "--as", "llama.cpp", "--json")[1])["layers"]
    assert not [name for name in layers[0]["derived"] if "window" in name]


def test_a_setting_by_a_configs_key_is_refused_by_that_key(call):
    status, out, err = call("explain", "llama-3-8b", "--set", "rope_theta=abc")
    assert (status, out) == (2, "")
    assert err == "posenc: error: --set rope_theta 'abc': must be a number\n"


def test_a_configs_key_sets_the_base_and_is_that_parameter(call):
    out = call("explain", "llama-2-7b", "--set", "rope_theta=5", "--json")[1]
    assert json.loads(out)["layers"][0]["params"]["base"] == {"value": 5, "source": "command line"}
    assert call("plan", "-m", "llama-2-7b", "--to", "16384", "--set", "rope_theta=5e4")[0] == 0
    err = call("generate", "-s", "rope", "-l", "4", "--base", "4", "--set", "rope_theta=5")[2]
    assert err == "posenc: error: --set 'rope_theta=5': base is given twice\n"
    err = call("explain", "llama-3-8b", "--as", "all", "--set", "base=abc")[2]
    assert err == "posenc: error: --set base 'abc': must be a number\n"


def test_an_empty_file_is_said_to_be_empty(call, tmp_path):
    (tmp_path / "empty.json").write_bytes(b"")
    assert call("explain", "empty.json")[2] == (
        "posenc: error: 'empty.json' is empty: it holds no bytes\n"
    )

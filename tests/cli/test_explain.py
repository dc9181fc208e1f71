"""``posenc explain``: what a config says, for readers and for programs."""

import json
import shlex

import pytest

from posenc_cli.configs.library import find
from tests.gguf_files import CASES, converted

GEMMA = {"model_type": "gemma3_text", "hidden_size": 1152, "num_attention_heads": 4}
GEMMA |= {"num_hidden_layers": 26, "head_dim": 256, "max_position_embeddings": 32768}
GEMMA |= {"rope_theta": 1000000, "rope_local_base_freq": 10000, "sliding_window_pattern": 6}
BASELESS = {key: value for key, value in GEMMA.items() if key != "rope_theta"}


def test_a_report_names_layers_values_and_where_they_were_read(config, printed):
    out = printed("explain", config(GEMMA), err="")
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
    path = config(BASELESS)
    status, out, _ = call("explain", path, "--json", *options)
    found = json.loads(out)
    assert list(found)[:5] == ["schema", "ok", "verdict", "cause", "next"]
    assert (status == 0, found["ok"], found["cause"]) == (ok, ok, cause)
    assert found["verdict"] == "model type gemma3_text: rope; 1 doubtful line"
    assert found["next"] == (
        f"posenc rope-check --config {path} --layer-type sliding_attention --impl ./port.py:rotate"
    )


def test_json_holds_every_value_with_its_source(call, config, document):
    scaling = {"type": "longrope", "short_factor": [1.5] * 48, "long_factor": [2.5] * 48}
    phi = {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32}
    phi |= {"num_hidden_layers": 2, "max_position_embeddings": 131072, "rope_theta": 10000.0}
    path = config({**phi, "rope_scaling": scaling, "rotary_pct": 0.5})
    found = document("explain", path)
    (layers,) = found["layers"]
    assert (layers["layer_type"], layers["layers"]) == (None, [0, 1])
    assert layers["scheme"] == "rope-longrope"
    factors = {"value": [2.5] * 48, "source": "rope_scaling.long_factor"}
    assert layers["params"]["long_factor"] == factors
    assert layers["derived"]["attention_factor"]["value"] == pytest.approx(1.1902380714238083)
    assert found["unread"] == ["rotary_pct"]
    no_effect = "rotary_pct 0.5 has no effect: transformers' phi3 does not read it"
    assert found["warnings"][0] == f"{no_effect}, and the rotated share here is 1"
    text = call("explain", path)[1]
    assert "2.5,2.5 … 2.5 (48)" in " ".join(text.split())
    assert text.count("rotary_pct") == 2  # in the summary, and in a warning that says more


def test_strict_fails_where_a_base_is_a_default_or_a_key_is_unread(call, config, printed):
    assert call("explain", config(GEMMA), "--strict")[0] == 0
    unread = config({**GEMMA, "rotary_emb_base": 5})
    assert call("explain", unread)[0] == 0
    status, _, err = call("explain", unread, "--strict")
    assert (status, err) == (1, "posenc: warning: --strict: not read: rotary_emb_base\n")
    out = printed("explain", config(BASELESS), "--strict", "--json", status=1)
    assert json.loads(out)["defaulted"] == ["rope_theta of full_attention layers"]


def test_each_of_several_configs_is_judged_whatever_the_others_are(call, config):
    doubtful = config(BASELESS, "doubtful.json")
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


def test_a_model_is_explained_too_and_a_mistyped_one_hinted_at(call, tmp_path):
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
    assert "attention factor: 1.34657359; logits × 1.813260434" in " ".join(out.split())


def test_names_and_key_paths_are_never_cut(call, config):
    key = "original_max_position_embeddings"
    yarn = {"rope_type": "yarn", "factor": 4.0, key: 4096, "rope_theta": 1e4}
    text = {"model_type": "llama", "head_dim": 64, "rope_parameters": yarn}
    out = call("explain", config({"model_type": "llava", "text_config": text}))[1]
    assert f"text_config.rope_parameters.{key}" in out
    assert max(len(line) for line in out.splitlines() if "/" not in line) <= 80


def test_another_engine_reads_otherwise_and_says_why(call, config):
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    qwen = {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28}
    qwen |= {"max_position_embeddings": 131072, "rope_theta": 1e6, "rope_scaling": scaling}
    path, original = config(qwen), "original_max_position_embeddings"
    here, there = (
        json.loads(call("explain", path, "--json", "--as", engine)[1])
        for engine in ("transformers", "transformers-4.50")
    )
    assert here["layers"][0]["params"][original]["value"] == 32768
    assert there["layers"][0]["params"][original]["value"] == 131072
    assert "transformers-4.50" in there["layers"][0]["params"][original]["source"]
    assert (len(here["warnings"]), len(there["warnings"])) == (0, 1)


def test_all_engines_are_shown_beside_each_other(call, config, document, refused, printed):
    out = printed("explain", "gpt-oss-20b", "llama-2-7b", "--as", "all", err="")
    said = " ".join(out.split())
    differing = "vllm-0.11, mlx-lm, llama.cpp, tensorrt-llm"
    assert said.startswith(
        "'gpt-oss-20b': model type gpt_oss: 4 of 10 other engines differ from transformers: "
        f"{differing} largest difference, vllm-0.11: 9 of 32 frequencies differ, by up to ×1.763 "
        "(pair 17) next: posenc compare gpt-oss-20b --as vllm-0.11 "
    )
    agree = "model type llama: all 15 engines agree"
    assert f"'llama-2-7b': {agree}" in said
    assert max(map(len, out.splitlines())) <= 80
    found = document("explain", "llama-2-7b", "--as", "all")
    answer = ["ok", "verdict", "cause", "next"]
    assert list(found)[1:5] == answer
    assert [found[key] for key in (*answer, "agree")] == [True, agree, None, None, True]
    assert found["layers"][0]["scheme"] == found["views"][0]["views"][0]["scheme"] == "rope"
    found = json.loads(call("explain", "gpt-oss-20b", "--as", "all", "--json")[1])
    assert found["cause"].startswith("largest difference, vllm-0.11: 9 of 32 frequencies differ")
    assert found["next"] == "posenc compare gpt-oss-20b --as vllm-0.11"
    refused("explain", config({**GEMMA, "rope_theta": "x"}), "--as", "all")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00\x00 no text", "is not a GGUF file: it does not begin with GGUF"),
        (b'{"model_type": "llama"}', "is not a GGUF file: it does not begin with GGUF"),
        (b"", "ends within its header (byte 0)"),
    ],
)
def test_what_is_named_as_a_gguf_file_is_read_as_nothing_else(content, words, tmp_path, refused):
    (tmp_path / "model.gguf").write_bytes(content)
    for command in (["explain"], ["compare", "llama-3-8b"]):
        assert words in refused(*command, "model.gguf")


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ('{"model_type": "llama", "rope_theta": NaN}', 2, "NaN: must be a finite number"),
        ("[" * 200_000, 2, "recursion depth"),
        ('{"model_type": "deberta"}', 2, "hint: posenc curve -s deberta --table buckets"),
        ('{"model_type": "llama", "rope_scaling": {"type": "xyz"}}', 2, "rope_scaling.type 'xyz'"),
        (None, 3, "No such file"),
        ("", 2, "is empty: it holds no bytes\n"),
    ],
)
def test_what_cannot_be_read_ends_in_one_line_and_a_status(
    tmp_path, content, status, words, refused
):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    err = refused("explain", "config.json", status=status)
    assert words in err
    assert "config.json" in err.splitlines()[0]


def test_a_parameter_of_the_command_line_takes_the_place_of_the_configs(config, document, refused):
    path = config(dict(find("qwen2.5-7b-yarn").config))
    (layers,) = document("explain", path, "--set", "factor=8")["layers"]
    assert layers["params"]["factor"] == {"value": 8.0, "source": "command line"}
    assert layers["derived"]["attention_factor"]["value"] == pytest.approx(1.2079441541679836)
    assert "rope-yarn has no parameter 'facto'" in refused("explain", path, "--set", "facto=8")


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
    found = json.loads(call("explain", config(content), "--json")[1])["layers"]
    (layers,) = [each for each in found if each["layer_type"] == layer_type]
    columns = tuple(layers["derived"][name]["value"] for name in ("head_dim", "rotated"))
    assert columns == expected
    assert "rotary dim: {1} of {0}\n".format(*expected) in call("explain", config(content))[1]


LATENT = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 10000}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        # An attention factor multiplies the logits of the columns that turn.
        ("qwen2.5-7b-yarn", "; logits × "),
        ("phi-3-vision-128k", "; logits × "),
        ("deepseek-v3", "; logits of the rotated dimensions × "),
        ("deepseek-v3 --set factor=2", "logits × 1.143433966 by the softmax scale"),
        # Latent attention turns a slice of a head.
        ({**LATENT, "qk_nope_head_dim": 128}, "rotary dim: 64 of 192, a slice of the head"),
        (LATENT, "rotary dim: 64, a slice of the head"),
        (
            {"model_type": "gpt2", "n_embd": 64, "n_positions": 32},
            "added once, at the input: learned",
        ),
        ({**GEMMA, "rope_teta": 3.0}, "! nothing read rope_teta"),
    ],
)
def test_what_a_config_makes_of_logits_heads_and_rows_is_said(asked, words, call, config):
    line = asked.split() if isinstance(asked, str) else [config(asked)]
    out = " ".join(call("explain", *line)[1].split())
    assert words in out
    assert out.count("rope_teta") <= 1


def test_what_an_unknown_model_type_is_read_as_stands_before_all_tables(call, config, refused):
    unknown = {**GEMMA, "model_type": "my_model"}
    lines = call("explain", config(unknown))[1].split("\n\n")
    assert lines[1].startswith("Warning: model type 'my_model' is unknown: it is read as if")
    named = {**unknown, "architectures": ["NanoChatForCausalLM"]}
    assert "nanochat rotates the other way" in refused("explain", config(named))


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
    told = call("explain", "gpt-oss-20b", *asked)[1].partition("next:")[2].partition("\n\n")[0]
    assert shlex.split(told.replace("\\\n", " "), comments=False) == [
        *("posenc", "rope-check", "--model", "gpt-oss-20b", "--layer-type", "sliding_attention"),
        *(*asked, "--impl", "./port.py:rotate"),
    ]
    assert [line for line in told.splitlines()[1:-1] if not line.endswith(" \\")] == []


def test_what_has_no_positional_encoding_is_neither_drawn_nor_recommended_to_draw(call, config):
    path = config({"model_type": "jamba"})
    out = call("explain", path)[1]
    assert "no layer has a positional encoding" in out
    assert "next:" not in out
    assert json.loads(call("explain", path, "--json")[1])["next"] is None
    status, _, err = call("heatmap", "--config", path)
    assert (status, err.endswith("has no positional encoding to draw\n")) == (2, True)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--config a.json", "hint: posenc explain takes it as an argument, without --config\n"),
        ("llama-3-8b --set rope_theta=abc", "error: --set rope_theta 'abc': must be a number\n"),
        ("llama-3-8b --as all --set base=abc", "error: --set base 'abc': must be a number\n"),
        ("llama-2-7b --as all --strict", "--as all: --strict and --fail-on judge one reading"),
        ("llama-2-7b --as all --fail-on context", "--strict and --fail-on judge one reading"),
        ("llama-3.1-8b qwen2.5-7b-yarn --as tgi", "--as 'tgi': must be one of transformers"),
        ("model.gguf --as all", "is a GGUF file, which only llama.cpp reads"),
        ("llama-3.1-8b gpt2 --json", "error: --json takes one CONFIG, and 2 are given\n"),
    ],
)
def test_what_cannot_be_explained_is_one_line(asked, said, tmp_path, refused):
    (tmp_path / "model.gguf").write_bytes(converted(CASES[0]["name"])[1])
    assert said in refused("explain", *asked.split())


def test_the_window_is_said_of_transformers_alone(call, config):
    """Which engines have windows was not read: none is said to have transformers' own."""
    path = config({**GEMMA, "model_type": "mistral", "sliding_window": 512})
    assert "window of all layers: 512" in call("explain", path)[1]
    layers = json.loads(call("explain", path, "--as", "llama.cpp", "--json")[1])["layers"]
    assert not [name for name in layers[0]["derived"] if "window" in name]


def test_a_configs_key_sets_the_base_and_is_that_parameter(call):
    out = call("explain", "llama-2-7b", "--set", "rope_theta=5", "--json")[1]
    assert json.loads(out)["layers"][0]["params"]["base"] == {"value": 5, "source": "command line"}
    assert call("plan", "-m", "llama-2-7b", "--to", "16384", "--set", "rope_theta=5e4")[0] == 0
    err = call("generate", "-s", "rope", "-l", "4", "--base", "4", "--set", "rope_theta=5")[2]
    assert err == "posenc: error: --set 'rope_theta=5': base is given twice\n"

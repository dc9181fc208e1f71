"""Whatever numbers and values a config holds, a command that reads it ends in a status and a line.

Every rotary family, each key that is read, at the ends of its range and of other types; the
warnings of NumPy are errors here, as in the whole suite.
"""

import contextlib
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.cli.exits import main
from posenc_cli.configs import families, nonrotary, vision
from tests.examples import examples

pytestmark = pytest.mark.usefixtures("kept_applications")

SIZES = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "head_dim": 64,
    "max_position_embeddings": 8192,
    "rope_theta": 10000.0,
}
ORIGINAL = {"original_max_position_embeddings": 2048}
ROPES: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, **ORIGINAL, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
             "mscale_all_dim": 0.5},
    "llama3": {"factor": 8.0, **ORIGINAL, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {"factor": 4.0, **ORIGINAL, "short_factor": [1.0] * 32,
                 "long_factor": [2.0] * 32, "attention_factor": 1.1},
    "proportional": {"factor": 2.0, "partial_rotary_factor": 0.5},
}  # fmt: skip
KEYS = (
    *(*SIZES, "partial_rotary_factor", "original_max_position_embeddings", "qk_rope_head_dim"),
    *("qk_nope_head_dim", "rotary_dim", "sliding_window", "rope_local_base_freq", "layer_types"),
    *("architectures", "auto_map", "model_type", "no_rope_layers", "hybrid_layer_pattern"),
    *("attn_layer_indices", "rope_scaling", "rope_parameters", "text_config"),
)
OWN = (
    *("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale"),
    *("mscale_all_dim", "attention_factor", "truncate", "low_freq_factor", "high_freq_factor"),
    *("short_factor", "long_factor", "rope_theta", "partial_rotary_factor", "mrope_section"),
    *("rope_type", "type", "llama_4_scaling_beta", "alpha", "short_mscale", "long_mscale"),
)
EXTREMES = (
    *(5e-324, 1e-300, 1e-9, 1.0000001, 999_999.0, 1e6, 1e15, 1e308, 1.7976931348623157e308),
    *(0, -0.0, -1, 1, 2, 3, 0.5, 2**53, 10**30, 10**400, float("nan"), float("inf")),
)
OTHERS = (True, None, "x", "10000", "", [], [1], [1e308] * 40, ["x"] * 70_000, {}, {"a": 1})
MODEL_TYPES = sorted(
    {*families.names(), *families.names("containers"), *nonrotary.FAMILIES, *vision.FAMILIES}
)
COMMANDS = (
    *(("explain", "{}"), ("explain", "{}", "--json"), ("explain", "{}", "--strict")),
    *(("explain", "{}", "--as", engine) for engine in ("vllm", "vllm-0.11", "llama.cpp")),
    ("generate", "--config", "{}", "--len", "4", "--out", "{}.npy"),
    ("generate", "--config", "{}", "--table", "inv-freq", "--out", "{}.npy"),
    ("generate", "--config", "{}", "--table", "angles", "--arithmetic", "float64", "--len", "4",
     "--out", "{}.npy"),
    ("spectrum", "--config", "{}"),
    ("heatmap", "--config", "{}", "--len", "8"),
    ("rope-check", "--config", "{}", "--len", "8"),
)  # fmt: skip
MAY_FAIL = ("--strict", "rope-check")
"""What may end in status 1, where a check ran and failed."""


def hold(folder, config, command):
    """A command on a config ends in a status that is no bug's, and one line of error where 2."""
    path = folder / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        status = main([each.format(path) for each in command])
    said = errors.getvalue()
    allowed = {0, 2, *([1] if any(each in MAY_FAIL for each in command) else [])}
    assert status in allowed, (status, said, config)
    lines = [line for line in said.splitlines() if line.startswith("posenc: error: ")]
    assert len(lines) == (status == 2), said
    assert "Traceback" not in said
    assert "RuntimeWarning" not in said


def changed(rope_type, key, value, *, inside):
    """A rope object, and the keys around it, with one value in place of another."""
    rope = {"rope_type": rope_type, **ROPES[rope_type]}
    return {**SIZES, "rope_scaling": {**rope, key: value}} if inside else {
        **SIZES, "rope_scaling": rope, key: value
    }  # fmt: skip


values = st.sampled_from([*EXTREMES, *OTHERS])
keys = st.sampled_from([*((True, key) for key in OWN), *((False, key) for key in KEYS)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("configs")


@pytest.mark.long
@given(
    named=st.tuples(st.sampled_from(MODEL_TYPES), st.sampled_from(sorted(ROPES))),
    key=keys,
    value=values,
    command=st.sampled_from(COMMANDS),
)
@examples(300)
def test_any_value_of_any_key_ends_in_a_status(folder, named, key, value, command):
    (model_type, rope_type), (inside, name) = named, key
    config = {"model_type": model_type, **changed(rope_type, name, value, inside=inside)}
    hold(folder, config, command)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS[6:], ids=lambda each: " ".join(each[:4:3]))
@pytest.mark.parametrize(
    ("rope_type", "name", "value"),
    [
        ("linear", "factor", 5e-324),
        ("longrope", "short_factor", [1e308] * 32),
        ("longrope", "attention_factor", 5e-324),
    ],
)
def test_numbers_that_once_overflowed_end_in_a_status(folder, command, rope_type, name, value):
    config = {"model_type": "llama", **changed(rope_type, name, value, inside=True)}
    hold(folder, config, command)

"""Files of other programs are said to be that, and where their like is."""

import json

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput

MISTRAL = {"dim": 12288, "n_layers": 88, "head_dim": 128, "n_heads": 96, "n_kv_heads": 8}
MISTRAL |= {"yarn": {"factor": 36, "apply_scale": False, "beta": 32, "alpha": 1}}
META = {"dim": 4096, "n_layers": 32, "n_heads": 32, "use_scaled_rope": True, "rope_theta": 5e5}
SIZES = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
MEGATRON = {**SIZES, "model_type": "ModelType.encoder_or_decoder", "rotary_percent": 1.0}
MAXTEXT = """
base_emb_dim: 4096
base_num_query_heads: 32  # comment
rope_max_timescale: 500_000
"""
NEMO = """
trainer:
  devices: 1
model:
  encoder_seq_length: 4096
  num_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
"""
COMMAND = r"""torchrun pretrain_gpt.py \
    --num-layers 32 \
    --hidden-size 4096 \
    --num-attention-heads 32 \
    --rotary-base 500000
"""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("params.json", json.dumps(MISTRAL), ["Mistral's params.json", "apply_scale false"]),
        ("params.json", json.dumps(META), ["Meta's Llama", "use_scaled_rope"]),
        (
            "args.json",
            json.dumps(MEGATRON),
            ["arguments of Megatron-LM", "rotary_base means"],
        ),
        ("args.json", json.dumps({"args": MEGATRON}), ["arguments of Megatron-LM", "rope_theta"]),
        ("llama3-8b.yml", MAXTEXT, ["a config of MaxText", "rope_max_timescale means rope_theta"]),
        ("model.yaml", NEMO, ["a config of NeMo", "rotary_percentage"]),
        ("train.sh", COMMAND, ["arguments of Megatron-LM", "rotary_percent"]),
    ],
)
def test_a_file_of_another_program_is_named_and_its_like_too(name, content, words, tmp_path, call):
    file = tmp_path / name
    file.write_text(content)
    status, out, error = call("explain", str(file))
    assert (status, out) == (2, "")
    assert all(word in error for word in (*words, "config.json of the model"))


def test_other_yaml_and_objects_are_what_they_were_before(tmp_path, call):
    file = tmp_path / "other.yaml"
    file.write_text("num_layers: 32\nhidden_size: 4096\n")
    assert "is not JSON" in call("explain", str(file))[2]
    with pytest.raises(InvalidInput, match="model_type is missing"):
        resolve({"hidden_size": 4096, "num_attention_heads": 32})
    assert resolve({"model_type": "llama", **MISTRAL}).layers

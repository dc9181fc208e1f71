#!/usr/bin/env bash
# Seen: mlx-lm 0.32.2 with mlx 0.32.4 (CPU) and transformers 5.23.0, on 2026-11-28
#
# Behaviour: GLM-5 (glm_moe_dsa) reads rope_theta only inside rope_parameters. A config that states
# it at the top level fails: with a TypeError if rope_parameters is absent, and with a KeyError if
# it is there without a base. If both places have one, the top level is not read.
# transformers accepts all of these. In mlx-lm, DeepSeek V3.2 reads the top level.
# Expected: the base at the top level is used where rope_parameters has none, as in transformers.
#
# Output:
#   in rope_parameters: transformers 500000.0, mlx-lm 500000.0
#   at the top level: transformers 500000.0, mlx-lm TypeError, 'rope_parameters'
#   there, rope_parameters without it: transformers 500000.0, mlx-lm KeyError, 'rope_theta'
#   500000 in rope_parameters, 10000 at the top level: transformers 500000.0, mlx-lm 500000.0
#   at the top level of DeepSeek V3.2: mlx-lm 500000.0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile "mlx[cpu]==0.32.4" mlx-lm==0.32.2 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys
from copy import deepcopy

import mlx.core as mx
import numpy as np
from mlx_lm.models import deepseek_v32, glm_moe_dsa
from transformers import CONFIG_MAPPING

sizes = {
    "vocab_size": 16, "hidden_size": 32, "intermediate_size": 32, "moe_intermediate_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "n_shared_experts": 1, "n_routed_experts": 2, "routed_scaling_factor": 1.0,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "index_head_dim": 16, "index_n_heads": 2, "index_topk": 4,
    "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "n_group": 1,
    "topk_group": 1, "num_experts_per_tok": 1, "moe_layer_freq": 1, "first_k_dense_replace": 1,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "attention_bias": False,
}  # fmt: skip


def base(model, name, stated):
    """The base of the rotation in attention, from the second of 4 angles at position 1."""
    try:
        args = model.ModelArgs.from_dict({"model_type": name, **sizes, **stated})
    except (KeyError, TypeError) as error:
        return f"{type(error).__name__}, {str(error).rpartition(': ')[-1]}"
    rope = model.Model(args).model.layers[0].self_attn.rope
    row = np.array(rope(mx.array([[[[1.0, 0.0] * 4] * 2]])))[0, 0, 1]
    return float(f"{np.arctan2(row[3], row[2]) ** -4:.3g}")


full = {"rope_type": "default", "rope_theta": 500000.0}
ways = {
    "in rope_parameters": {"rope_parameters": full},
    "at the top level": {"rope_theta": 500000.0},
    "there, rope_parameters without it": {
        "rope_theta": 500000.0,
        "rope_parameters": {"rope_type": "default"},
    },
    "500000 in rope_parameters, 10000 at the top level": {
        "rope_theta": 10000.0,
        "rope_parameters": full,
    },
}
theirs, seen = [], []
for way, stated in ways.items():
    seen.append(base(glm_moe_dsa, "glm_moe_dsa", stated))
    theirs.append(CONFIG_MAPPING["glm_moe_dsa"](**deepcopy(stated)).rope_parameters["rope_theta"])
    print(f"{way}: transformers {theirs[-1]}, mlx-lm {seen[-1]}")
parent = base(deepseek_v32, "deepseek_v32", ways["at the top level"])
print(f"at the top level of DeepSeek V3.2: mlx-lm {parent}")
try:
    assert theirs == [500000] * 4, "transformers no longer reads all of these"
    assert seen[0] == seen[3] == 500000, "the base in rope_parameters is no longer used"
    assert seen[1] == "TypeError, 'rope_parameters'", "a config without rope_parameters is read now"
    assert seen[2] == "KeyError, 'rope_theta'", "rope_parameters without a base are read now"
    assert parent == 500000, "DeepSeek V3.2 no longer reads the top level"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

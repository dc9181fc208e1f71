#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: one layer of DeepSeek V3.2 rotates in two layouts. Attention pairs neighbouring
# dimensions (0 with 1). Its indexer, which chooses the keys that attention sees, pairs dimension
# i with i + d/2. Both use the same cosines and sines.
# Expected: a model has one layout, and what is right for attention is right for its indexer.
#
# Output:
#   attention: the first of 8 dimensions is made of [0, 1]
#   indexer: the first of 8 dimensions is made of [0, 4]
#   same cosines: True
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
import transformers.models.deepseek_v32.modeling_deepseek_v32 as deepseek

config = deepseek.DeepseekV32Config(
    vocab_size=16, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2, first_k_dense_replace=1, kv_lora_rank=16, q_lora_rank=16,
    qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
    index_n_heads=2, index_head_dim=16, index_topk=4,
)  # fmt: skip
tables, mixed = {}, {}


def watch(who, name):
    """Note which dimensions of q the model's call rotates into the first one of its result."""
    rotate = getattr(deepseek, name)

    def watched(q, k, cos, sin, *rest, **named):
        tables[who], mixed[who] = cos, []
        for dimension in range(q.shape[-1]):
            unit = torch.zeros_like(q)
            unit[..., dimension] = 1
            if rotate(unit, k, cos, sin, *rest, **named)[0][..., 0].any():
                mixed[who].append(dimension)
        return rotate(q, k, cos, sin, *rest, **named)

    setattr(deepseek, name, watched)


watch("attention", "apply_rotary_pos_emb_interleave")
watch("indexer", "apply_rotary_pos_emb")
with torch.no_grad():
    deepseek.DeepseekV32Model(config).eval()(torch.arange(6)[None])
for who in sorted(mixed):
    print(f"{who}: the first of {config.qk_rope_head_dim} dimensions is made of {mixed[who]}")
same = torch.equal(tables["attention"], tables["indexer"])
print("same cosines:", same)
try:
    assert same, "the two get different cosines now"
    assert mixed["attention"] == [0, 1], "attention no longer pairs neighbours"
    assert mixed["indexer"] == [0, 4], "the indexer no longer pairs i with i + d/2"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

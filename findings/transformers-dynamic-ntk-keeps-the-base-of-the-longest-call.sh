#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: with dynamic NTK the frequencies depend on earlier calls. A call of 6000 tokens after
# one of 8192 uses the base for 8192, and so does a call of exactly the trained length, 4096,
# for which a new module scales nothing. Only a call below the trained length resets it.
# Expected: the base depends on the length of the call alone.
#
# Output:
#   second frequency, new modules: {4095: 0.865964, 4096: 0.865964, 6000: 0.856976, 8192: 0.850994}
#   one module, call after call:
#     6000 tokens: 0.856976
#     8192 tokens: 0.850994
#     6000 tokens: 0.850994
#     4096 tokens: 0.850994
#     4095 tokens: 0.865964
#     6000 tokens: 0.856976
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

config = LlamaConfig(
    hidden_size=256,
    num_attention_heads=2,
    max_position_embeddings=4096,
    rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
)


def second(module, length):
    """The frequency of the second pair in a call of this many tokens."""
    module(torch.zeros(1), torch.arange(length)[None])
    return round(module.inv_freq[1].item(), 6)


new = {n: second(LlamaRotaryEmbedding(config), n) for n in (4095, 4096, 6000, 8192)}
print("second frequency, new modules:", new)
module = LlamaRotaryEmbedding(config)
calls = [(n, second(module, n)) for n in (6000, 8192, 6000, 4096, 4095, 6000)]
print("one module, call after call:")
for length, frequency in calls:
    print(f"  {length} tokens: {frequency}")
try:
    assert new[4096] == new[4095] > new[6000] > new[8192], "a new module's base changed"
    expected = [new[n] for n in (6000, 8192, 8192, 8192, 4095, 6000)]
    assert [value for _, value in calls] == expected, "the base no longer stays at the longest call"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: partial_rotary_factor 0.25 of a Llama has no effect with plain RoPE: all 64 pairs of
# a head of 128 dimensions have a frequency. With linear, dynamic, YaRN or Llama 3 scaling it
# has: 16 pairs, whose frequencies fall as over 32 dimensions.
# Expected: the same dimensions rotate, scaled or not.
#
# Output:
#   default: 64 pairs rotate, second frequency / first 0.8660
#   linear: 16 pairs rotate, second frequency / first 0.5623
#   dynamic: 16 pairs rotate, second frequency / first 0.5623
#   yarn: 16 pairs rotate, second frequency / first 0.5623
#   llama3: 16 pairs rotate, second frequency / first 0.5623
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

llama3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 4096}
yarn = {"original_max_position_embeddings": 4096}
more = {"default": {}, "linear": {"factor": 2.0}, "dynamic": {"factor": 2.0}}
more |= {"yarn": {"factor": 2.0, **yarn}, "llama3": {"factor": 2.0, **llama3}}
pairs = {}
for kind, keys in more.items():
    rope = {"rope_type": kind, "rope_theta": 10000.0, "partial_rotary_factor": 0.25, **keys}
    config = LlamaConfig(
        hidden_size=256, num_attention_heads=2, max_position_embeddings=8192, rope_parameters=rope
    )
    frequencies = LlamaRotaryEmbedding(config).inv_freq
    pairs[kind] = len(frequencies)
    second = (frequencies[1] / frequencies[0]).item()
    print(f"{kind}: {len(frequencies)} pairs rotate, second frequency / first {second:.4f}")
try:
    assert pairs.pop("default") == 64, "plain RoPE no longer ignores the share"
    assert set(pairs.values()) == {16}, "scaled RoPE no longer rotates a quarter of the head"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-12-01
#
# Behaviour: CLVP's attention rotates the values as well as the queries and keys, and never rotates
# the result back. The attention weights depend on distances alone, but the output of the layer
# depends on where the sequence begins (its largest value is 0.3981).
# Expected: RoPE rotates queries and keys only, so that the same inputs, all moved by the same number
# of positions, have the same output.
#
# Output:
#   largest change of the weights, by first position: {0: '0e+00', 1: '6e-09', 10: '8e-09', 100: '8e-08'}
#   largest change of the outputs, by first position: {0: '0e+00', 1: '7e-02', 10: '3e-01', 100: '2e-01'}
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
from transformers import ClvpEncoderConfig
from transformers.models.clvp.modeling_clvp import ClvpRotaryPositionalEmbedding, ClvpSelfAttention

torch.manual_seed(0)
config = ClvpEncoderConfig(
    hidden_size=128, num_attention_heads=2, projection_dim=128, attention_dropout=0.0
)
attention = ClvpSelfAttention(config).eval().double()
angles = ClvpRotaryPositionalEmbedding(config)(torch.zeros(1, 128, 1)).double()
x = torch.randn(1, 8, 128, dtype=torch.float64)


@torch.no_grad()
def output_and_weights(first):
    return attention(x, rotary_pos_emb=angles, position_ids=first + torch.arange(8)[None])


outputs, weights = {}, {}
start = output_and_weights(0)
for first in (0, 1, 10, 100):
    moved = output_and_weights(first)
    outputs[first], weights[first] = ((a - b).abs().max().item() for a, b in zip(moved, start))
print("largest change of the weights, by first position:", {n: f"{e:.0e}" for n, e in weights.items()})
print("largest change of the outputs, by first position:", {n: f"{e:.0e}" for n, e in outputs.items()})
try:
    assert max(weights.values()) < 1e-6, "the weights depend on the first position now"
    assert outputs[1] > 0.01, "the values are not rotated now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

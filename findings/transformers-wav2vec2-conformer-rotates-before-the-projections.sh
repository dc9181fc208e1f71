#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-12-01
#
# Behaviour: Wav2Vec2-Conformer with `position_embeddings_type="rotary"` rotates the hidden states
# and then multiplies them by the weights of queries and keys. The weights mix the pairs again, so
# scores do not depend on the distance alone: the weights for 8 equal inputs change if the query
# stands two positions later.
# Expected: RoPE rotates queries and keys after their projections.
#
# Output:
#   weights of query 0 for keys 0 to 3, over that for key 0: [1.0, 1.1196, 1.0933, 0.9419]
#   weights of query 2 for keys 2 to 5, over that for key 2: [1.0, 0.8665, 0.7366, 0.6681]
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
from transformers import Wav2Vec2ConformerConfig
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as modeling

torch.manual_seed(0)
config = Wav2Vec2ConformerConfig(
    hidden_size=64,
    num_attention_heads=1,
    position_embeddings_type="rotary",
    attention_dropout=0.0,
    attn_implementation="eager",
)
attention = modeling.Wav2Vec2ConformerSelfAttention(config).eval()
x = torch.randn(1, 1, 64).expand(1, 8, 64)
with torch.no_grad():
    tables = modeling.Wav2Vec2ConformerRotaryPositionalEmbedding(config)(x)
    weights = attention(x, relative_position_embeddings=tables)[1][0, 0]


def relative(query):
    found = weights[query, query : query + 4] / weights[query, query]
    return [round(each, 4) for each in found.tolist()]


print("weights of query 0 for keys 0 to 3, over that for key 0:", relative(0))
print("weights of query 2 for keys 2 to 5, over that for key 2:", relative(2))
try:
    change = max(abs(a - b) for a, b in zip(relative(0), relative(2)))
    assert change > 0.01, "scores depend on the distance alone now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: a Llama loaded with dtype=torch.bfloat16 keeps its rotary frequencies in float32; the
# same model after .to(torch.bfloat16) has them rounded to 8 significant bits. Both report dtype
# bfloat16. At position 100 a cosine of the second one is off by 0.1, at position 1000 by 0.9.
# Expected: two usual ways to the same bfloat16 model give the same rotations.
#
# Output:
#   loaded in torch.bfloat16: frequencies torch.float32, second 0.865964
#     cosines are off by [0.0, 0.0, 0.0, 0.0] at positions [1, 10, 100, 1000]
#   cast to torch.bfloat16: frequencies torch.bfloat16, second 0.867188
#     cosines are off by [0.001, 0.008, 0.118, 0.896] at positions [1, 10, 100, 1000]
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
import transformers
from transformers import LlamaConfig, LlamaModel

transformers.utils.logging.disable_progress_bar()
config = LlamaConfig(
    hidden_size=256, intermediate_size=64, num_attention_heads=2, num_hidden_layers=1, vocab_size=16
)
LlamaModel(config).save_pretrained(sys.argv[1] + "/model")
full = LlamaModel.from_pretrained(sys.argv[1] + "/model")
loaded = LlamaModel.from_pretrained(sys.argv[1] + "/model", dtype=torch.bfloat16)
cast = LlamaModel.from_pretrained(sys.argv[1] + "/model").to(torch.bfloat16)
positions = torch.tensor([[1, 10, 100, 1000]])
right, *cosines = (m.rotary_emb(torch.zeros(1), positions)[0] for m in (full, loaded, cast))
apart = {}
for name, model, cosine in zip(("loaded in", "cast to"), (loaded, cast), cosines):
    apart[name] = [round(x, 3) for x in (cosine - right)[0].abs().amax(-1).tolist()]
    frequencies = model.rotary_emb.inv_freq
    print(f"{name} {model.dtype}: frequencies {frequencies.dtype}, second {frequencies[1]:.6f}")
    print(f"  cosines are off by {apart[name]} at positions {positions[0].tolist()}")
try:
    assert loaded.dtype == cast.dtype == torch.bfloat16, "the two are no longer both bfloat16"
    assert apart["loaded in"] == [0, 0, 0, 0], "loading in bfloat16 rounds frequencies now"
    assert apart["cast to"][-1] > 0.5, "casting to bfloat16 no longer rounds frequencies"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

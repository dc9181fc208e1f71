#!/usr/bin/env bash
# Seen: litgpt 0.5.13 and transformers 4.56.2 with torch 2.13.0, on 2026-11-28
#
# Behaviour: with YaRN's keys in extra_config, build_rope_cache divides the high-frequency pairs by
# the factor and keeps the low-frequency ones. YaRN does the opposite: of 64 dimensions with factor
# 40 the first pair must stay as it is, and the last one must be divided by 40. The blend in between
# is reversed too.
# Expected: the frequencies that transformers computes from the same numbers.
#
# Output:
#   litgpt: first pair × 0.025, last pair × 1
#   transformers: first pair × 1, last pair × 0.025
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 litgpt==0.5.13 transformers==4.56.2 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys
import warnings

warnings.filterwarnings("ignore")
import torch
from litgpt.model import build_rope_cache
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

yarn = {"factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0}
cos, sin = build_rope_cache(2, 64, extra_config={**yarn, "original_max_seq_len": 4096})
found = torch.atan2(sin[1, :32], cos[1, :32])
scaling = {**yarn, "rope_type": "yarn", "original_max_position_embeddings": 4096}
config = LlamaConfig(head_dim=64, max_position_embeddings=163840, rope_scaling=scaling)
expected, _ = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
plain = 1 / 10000 ** (torch.arange(0, 64, 2) / 64)


def ends(frequencies):
    first, *_, last = (frequencies / plain).tolist()
    return round(first, 4), round(last, 4)


for name, frequencies in (("litgpt", found), ("transformers", expected)):
    first, last = ends(frequencies)
    print(f"{name}: first pair × {first:g}, last pair × {last:g}")
if ends(found) != (0.025, 1) or ends(expected) != (1, 0.025):
    sys.exit("changed: the two no longer are each other's reverse")
PY

#!/usr/bin/env bash
# Seen: transformers 5.24.0 without torch, on 2026-11-29
#
# Behaviour: use_sliding_window, sliding_window and max_window_layers choose other layers in
# Qwen2-MoE than in Qwen2. Of 8 layers with max_window_layers 5, Qwen2 and Qwen3 have sliding
# windows in layers 5, 6 and 7; Qwen2-MoE has them in the even layers below 5: 0, 2 and 4.
# Expected: the same keys choose the same layers, or max_window_layers is how many have a window.
#
# Output:
#   qwen2: [5, 6, 7]
#   qwen3: [5, 6, 7]
#   qwen2_moe: [0, 2, 4]
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile transformers==5.24.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

from transformers import CONFIG_MAPPING

keys = {"num_hidden_layers": 8, "use_sliding_window": True}
keys |= {"sliding_window": 64, "max_window_layers": 5}
sliding = {}
for name in ("qwen2", "qwen3", "qwen2_moe"):
    types = CONFIG_MAPPING[name](**keys).layer_types
    sliding[name] = [i for i, kind in enumerate(types) if kind == "sliding_attention"]
    print(f"{name}: {sliding[name]}")
try:
    assert sliding["qwen2"] == sliding["qwen3"] == [5, 6, 7], "Qwen2 or Qwen3 chooses other layers"
    assert sliding["qwen2_moe"] == [0, 2, 4], "Qwen2-MoE chooses other layers"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

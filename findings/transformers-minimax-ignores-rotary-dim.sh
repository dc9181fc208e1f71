#!/usr/bin/env bash
# Seen: transformers 5.23.0 and 5.24.0 with torch 2.13.0, on 2026-11-29
#
# Behaviour: MiniMax's first models and MiniMax M2 state "rotary_dim": 64 beside "head_dim": 128.
# The class minimax_m2 rotates 64 of 128 dimensions by it. The class minimax does not read the key:
# it rotates all 128, and there is no warning.
# Expected: one key of one vendor means the same in both classes, or there is a warning.
#
# Output:
#   minimax: rotary_dim 64, rotates 128 of 128 dimensions
#   minimax_m2: rotary_dim 64, rotates 64 of 128 dimensions
#   warnings: 0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import importlib
import logging
import sys
import warnings

from transformers import CONFIG_MAPPING

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("transformers").addHandler(handler)
warnings.showwarning = lambda message, *_: said.append(str(message))
warnings.simplefilter("always")

stated = {"head_dim": 128, "hidden_size": 6144, "num_attention_heads": 64, "rotary_dim": 64}
rotated = {}
for kind, name in (("minimax", "MiniMax"), ("minimax_m2", "MiniMaxM2")):
    config = CONFIG_MAPPING[kind].from_dict({"model_type": kind, "num_hidden_layers": 2, **stated})
    modeling = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    rotary = getattr(modeling, f"{name}RotaryEmbedding")(config)
    rotated[kind] = 2 * len(rotary.inv_freq)
    print(f"{kind}: rotary_dim 64, rotates {rotated[kind]} of 128 dimensions")
print(f"warnings: {len(said)}")
try:
    assert rotated["minimax"] == 128, "minimax reads rotary_dim now"
    assert rotated["minimax_m2"] == 64, "minimax_m2 does not read rotary_dim"
    assert not said, f"the loss is no longer silent: {said}"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

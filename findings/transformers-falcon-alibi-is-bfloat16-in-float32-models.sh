#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: Falcon multiplies ALiBi slopes and key positions in bfloat16, also where a float32
# bias is asked for. Distant keys beside each other get the same bias: a head has 553 to 641
# values for 2048 positions. BLOOM's function of the same name has 2048.
# Expected: a float32 model has a float32 bias, with one value for each position.
#
# Output:
#   falcon: torch.float32, 553 to 641 values a head
#     last six keys of head 0: [1712.0, 1712.0, 1720.0, 1720.0, 1720.0, 1720.0]
#   bloom: torch.float32, 2048 to 2048 values a head
#     last six keys of head 0: [1717.11, 1717.951, 1718.792, 1719.633, 1720.474, 1721.315]
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon

distinct = {}
for name, build in (("falcon", falcon), ("bloom", bloom)):
    bias = build(torch.ones(1, 2048, dtype=torch.long), 32, torch.float32)[:, 0]
    distinct[name] = [len(head.unique()) for head in bias]
    last = [round(x, 3) for x in bias[0, -6:].tolist()]
    print(f"{name}: {bias.dtype}, {min(distinct[name])} to {max(distinct[name])} values a head")
    print(f"  last six keys of head 0: {last}")
try:
    assert set(distinct["bloom"]) == {2048}, "BLOOM's bias no longer tells all positions apart"
    assert max(distinct["falcon"]) < 700, "Falcon's bias is no longer of bfloat16 precision"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

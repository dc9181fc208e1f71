#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: what V-JEPA 2 applies to queries and keys is not a rotation. It pairs neighbouring
# dimensions, but the list of angles stands twice in a row, as for a layout of halves, so the two
# dimensions of a pair get different angles. The norm of a vector changes with its position, and
# the score of two vectors does not depend on their distance alone.
# Expected: RoPE keeps norms, and q·k depends only on the distance.
#
# Output:
#   norm at a position, over that of the input: {0: 1.0, 1: 0.979, 5: 0.9599, 15: 1.09}
#   score of n + 3 and n, by n: {0: 15.4223, 1: 17.2533, 2: 12.6871, 3: 11.5904, 4: 13.5229}
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
from transformers.models.vjepa2.modeling_vjepa2 import rotate_queries_or_keys

x = torch.ones(1, 1, 1, 20, dtype=torch.float64)


def at(position):
    return rotate_queries_or_keys(x, torch.tensor([float(position)], dtype=torch.float64))


norms = {n: round((at(n).norm() / x.norm()).item(), 4) for n in (0, 1, 5, 15)}
scores = {n: round((at(n + 3) * at(n)).sum().item(), 4) for n in range(5)}
print("norm at a position, over that of the input:", norms)
print("score of n + 3 and n, by n:", scores)
try:
    assert norms[0] == 1, "position 0 changes the norm now"
    assert abs(norms[15] - 1) > 0.05, "norms are kept now"
    assert max(scores.values()) - min(scores.values()) > 1, "scores depend on the distance alone now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

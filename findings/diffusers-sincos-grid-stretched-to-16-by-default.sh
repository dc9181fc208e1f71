#!/usr/bin/env bash
# Seen: diffusers 0.42.1 with torch 2.13.0, on 2026-11-28
#
# Behaviour: get_2d_sincos_pos_embed(dim, 3) does not encode rows and columns 0, 1, 2 of its 3 × 3
# grid but 0, 5.33, 10.67: base_size is 16 by default, and coordinates are multiplied by
# base_size / grid_size. Only a grid of 16 × 16, or base_size=grid_size, is at whole positions.
# Expected: without an option the coordinates are the indices.
#
# Output:
#   grid 3: first coordinates [0.0, 5.33, 10.67]
#   grid 3, base_size=3: first coordinates [0.0, 1.0, 2.0]
#   grid 16: first coordinates [0.0, 1.0, 2.0]
#   grid 32: first coordinates [0.0, 0.5, 1.0]
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 diffusers==0.42.1 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import numpy as np
from diffusers.models.embeddings import get_2d_sincos_pos_embed


def coordinates(size, **named):
    """The first row's coordinates, from the slowest sine and cosine of one axis."""
    table = np.asarray(get_2d_sincos_pos_embed(16, size, output_type="pt", **named))
    return (np.arctan2(table[:3, 3], table[:3, 7]) * 1000).round(2).tolist()


seen = {
    "grid 3": coordinates(3),
    "grid 3, base_size=3": coordinates(3, base_size=3),
    "grid 16": coordinates(16),
    "grid 32": coordinates(32),
}
for name, values in seen.items():
    print(f"{name}: first coordinates {values}")
try:
    assert seen["grid 3"] == [0, 5.33, 10.67], "a 3 × 3 grid is no longer stretched to 16"
    assert seen["grid 32"] == [0, 0.5, 1], "a 32 × 32 grid is no longer shrunk to 16"
    assert seen["grid 3, base_size=3"] == seen["grid 16"] == [0, 1, 2], "base_size changed"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

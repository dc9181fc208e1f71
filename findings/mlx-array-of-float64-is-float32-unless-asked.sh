#!/usr/bin/env bash
# Seen: mlx 0.32.4 with mlx-cpu 0.32.4 and numpy 2.4.6, on 2026-11-28
#
# Behaviour: mx.array(x) of a float64 NumPy array is float32, without a warning, though mx.float64
# exists and mx.array(x, dtype=mx.float64) keeps every bit. int64 arrays stay int64. Angles that
# were computed in float64 to be exact at far positions are rounded on the way in.
# Expected: the dtype of the NumPy array is kept where MLX has it, as for int64.
#
# Output:
#   mx.array(float64): mlx.core.float32, angle 131071.1 becomes 131071.1015625
#   mx.array(float64, dtype=mx.float64): mlx.core.float64, angle 131071.1 becomes 131071.1
#   mx.array(int64): mlx.core.int64
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import mlx.core as mx
import numpy as np

angles = np.array([131071.1])
plain, asked = mx.array(angles), mx.array(angles, dtype=mx.float64)
whole = mx.array(np.array([2**40]))
print(f"mx.array(float64): {plain.dtype}, angle {angles[0]} becomes {float(np.asarray(plain)[0])}")
print(
    f"mx.array(float64, dtype=mx.float64): {asked.dtype}, "
    f"angle {angles[0]} becomes {float(np.asarray(asked)[0])}"
)
print(f"mx.array(int64): {whole.dtype}")
try:
    assert plain.dtype == mx.float32, "float64 arrays are no longer narrowed"
    assert asked.dtype == mx.float64, "float64 cannot be asked for"
    assert np.asarray(asked)[0] == angles[0], "float64 is not kept where it is asked for"
    assert whole.dtype == mx.int64, "int64 arrays are narrowed"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

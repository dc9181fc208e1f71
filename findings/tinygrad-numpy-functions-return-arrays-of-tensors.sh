#!/usr/bin/env bash
# Seen: tinygrad 0.14.0 with numpy 2.4.6, on 2026-11-28
#
# Behaviour: np.asarray(tensor) is an array of dtype object that holds one Tensor for each element,
# and np.cos(tensor) is such an array too: neither raises an error. tensor.numpy() gives the numbers.
# Code that takes any array by np.asarray goes on with objects, and computes element by element.
# Expected: the numbers, as from torch and MLX, or an error.
#
# Output:
#   np.asarray(tensor): object, of Tensor
#   np.cos(tensor): object, of Tensor
#   tensor.numpy(): float32
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile tinygrad==0.14.0 numpy==2.4.6 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import os
import sys

os.environ["DEV"] = "PYTHON"  # needs no compiler
import numpy as np
from tinygrad import Tensor

angles = Tensor([0.0, 1.0, 2.0])
seen = {"np.asarray": np.asarray(angles), "np.cos": np.cos(angles)}
for name, array in seen.items():
    print(f"{name}(tensor): {array.dtype}, of {type(array.flat[0]).__name__}")
print(f"tensor.numpy(): {angles.numpy().dtype}")
try:
    for name, array in seen.items():
        assert array.dtype == object, f"{name} no longer gives objects"
        assert all(isinstance(one, Tensor) for one in array.flat), f"{name} gives no tensors"
    assert angles.numpy().dtype == np.float32, "tensor.numpy() changed"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

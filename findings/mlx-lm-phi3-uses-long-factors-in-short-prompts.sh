#!/usr/bin/env bash
# Seen: mlx-lm 0.32.2 with mlx 0.32.4 (CPU) and transformers 5.23.0, on 2026-11-28
#
# Behaviour: a Phi-3 with LongRoPE rotates by long_factor at every length, also for a prompt of
# three tokens. short_factor, which the config states for texts up to the original 4096
# positions, is not used: 1 and 99 give the same output.
# Expected: short_factor up to the original length, long_factor beyond it.
#
# Output:
#   frequencies are divided by [4.0, 8.0, 16.0, 32.0]
#   short_factor of 1 and of 99 give the same: True
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile "mlx[cpu]==0.32.4" mlx-lm==0.32.2 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import mlx.core as mx
import numpy as np
from mlx_lm.models import phi3

config = {
    "model_type": "phi3", "vocab_size": 16, "hidden_size": 16, "intermediate_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
}  # fmt: skip


def angles(short):
    """The angle of each of four pairs at position 1 of 3."""
    long = [4.0, 8.0, 16.0, 32.0]
    scaling = {"type": "longrope", "short_factor": [short] * 4, "long_factor": long}
    args = phi3.ModelArgs.from_dict({**config, "rope_scaling": scaling})
    x = mx.concatenate([mx.ones((1, 1, 3, 4)), mx.zeros((1, 1, 3, 4))], axis=-1)
    row = np.array(phi3.Attention(args).rope(x))[0, 0, 1]
    return np.arctan2(row[4:], row[:4])


plain = 10000.0 ** (-np.arange(4) / 4)
divisors = plain / angles(1.0)
same = bool((angles(1.0) == angles(99.0)).all())
print("frequencies are divided by", divisors.round(3).tolist())
print("short_factor of 1 and of 99 give the same:", same)
try:
    assert same, "short_factor is used now"
    assert np.allclose(divisors, [4, 8, 16, 32], rtol=1e-4), "long_factor is no longer used"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

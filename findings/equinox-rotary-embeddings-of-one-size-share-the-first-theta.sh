#!/usr/bin/env bash
# Seen: equinox 0.13.8 with jax 0.10.2, on 2026-11-29
#
# Behaviour: all RotaryPositionalEmbedding objects of one embedding_size and dtype share one table,
# and it has the theta of whichever computed it: the first that is called, until another is called
# with a longer sequence. A model whose layers use two thetas rotates all of them by the same one,
# and which one depends on the order of the calls.
# Expected: each object rotates by its own theta.
#
# Output:
#   theta 1e4 is called first; theta 1e6 differs from it by at most: 0.0
#   theta 1e6 by itself differs by up to: 4.14
#   then theta 1e6 with 32 rows; theta 1e4 differs from it by at most: 0.0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile equinox==0.13.8 jax==0.10.2 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import equinox as eqx
import jax
import jax.numpy as jnp

near, far = (eqx.nn.RotaryPositionalEmbedding(64, theta=theta) for theta in (1e4, 1e6))
x = jax.random.normal(jax.random.key(0), (32, 64))


def apart(one, other):
    return round(float(jnp.abs(one - other).max()), 2)


first = near(x[:16])
shared = apart(first, far(x[:16]))
eqx.clear_caches()
alone = apart(first, far(x[:16]))
longer = apart(far(x), near(x))
print("theta 1e4 is called first; theta 1e6 differs from it by at most:", shared)
print("theta 1e6 by itself differs by up to:", alone)
print("then theta 1e6 with 32 rows; theta 1e4 differs from it by at most:", longer)
try:
    assert alone > 1, "theta changes nothing now"
    assert shared == 0, "each theta has its own table now"
    assert longer == 0, "each theta has its own table after a longer call now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY

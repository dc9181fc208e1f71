#!/usr/bin/env bash
# Seen: transformers 5.23.0 without torch, on 2026-11-29
#
# Behaviour: the first files of Phi-3 128k name the rope type "su", and have
# original_max_position_embeddings at the top level alone. Phi3Config raises KeyError for that length.
# It loads the same file with the type "longrope", or with the length inside rope_scaling.
# Expected: su is another name of longrope, as Phi3Config itself has it, and takes the length from
# the same place.
#
# Output:
#   longrope, length at the top level: loads
#   su, length at the top level: KeyError
#   su, length inside: loads
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

from transformers import CONFIG_MAPPING

LENGTH = "original_max_position_embeddings"
top = {"model_type": "phi3", "max_position_embeddings": 131072, LENGTH: 4096}
factors = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
seen = {}
for kind, inside in (("longrope", {}), ("su", {}), ("su", {LENGTH: 4096})):
    where = "inside" if inside else "at the top level"
    try:
        CONFIG_MAPPING["phi3"].from_dict({**top, "rope_scaling": {"type": kind, **factors, **inside}})
        answer = "loads"
    except Exception as error:
        answer = type(error).__name__
    seen[kind, where] = answer
    print(f"{kind}, length {where}: {answer}")
try:
    assert seen["longrope", "at the top level"] == "loads", "longrope fails too"
    assert seen["su", "at the top level"] != "loads", "su takes the length from the top level now"
    assert seen["su", "inside"] == "loads", "su is not taken at all"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
